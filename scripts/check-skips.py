#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check-skips.py JUNIT.xml

Names the tests that were skipped although this machine could run them, and fails if there is one.
tests/allowed-skips.txt says which may be skipped: a pattern of the name, then the CPU feature that must be missing."""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def allowed(name, rules, features):
    return any(re.fullmatch(pattern, name) and feature not in features for pattern, feature in rules)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    lines = (root / "tests/allowed-skips.txt").read_text().splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    features = set(re.findall(r"\w+", pathlib.Path("/proc/cpuinfo").read_text()))
    cases = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None or case.get("status") == "notrun"]
    wrong = [name for name in skipped if not allowed(name, rules, features)]
    for name in wrong:
        print(f"skipped, but should have run: {name}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
