#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: translation.py ORIGINAL.md TRANSLATION.md

The translation must keep step: the same headings by level, the same code blocks, the same number of table rows and list items."""
import re
import sys


def outline(path):
    """The parts of a document that a translation keeps, in order."""
    parts, block = [], None
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("```"):
                if block is None:
                    block = [line]
                else:
                    parts.append("\n".join(block))
                    block = None
            elif block is not None:
                block.append(line)
            elif heading := re.match(r"#+ ", line):
                parts.append(heading.group())
            elif line.startswith("|"):
                parts.append("| table row")
            elif line.startswith("- "):
                parts.append("- list item")
    return parts


def main():
    original, translation = (outline(path) for path in sys.argv[1:3])
    for number, (left, right) in enumerate(zip(original, translation)):
        if left != right:
            print(f"part {number + 1} differs:\n{left}\n-- but the translation has:\n{right}")
            return 1
    if len(original) != len(translation):
        print(f"{len(original)} parts (headings, code blocks, rows, items), but the translation has {len(translation)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
