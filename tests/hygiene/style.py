#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: style.py SOURCE_FOLDER

The limits of CONTRIBUTING.md that a machine can check, over every text file of ours. Names each line that is wrong."""
import pathlib
import re
import sys

CODE = {".c", ".h", ".py", ".sh", ".bats", ".cmake", ".js", ".css"}
TEXT = CODE | {".md", ".json", ".txt", ".in", ".html", ""}
NOT_OURS = {".git", "build", "__pycache__", "cases", "data", "corpus"}  # data files are as they are
MAX_LINES = 600
MAX_COLUMNS = 140
MAX_FUNCTION = 60
MAX_KERNEL_BODY = 120
# In pieces, so that this file passes.
LEFT_BEHIND = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.}])/(" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me")) + r")/")


def our_files(top):
    for path in sorted(top.rglob("*")):
        parts = path.relative_to(top).parts
        hidden_build = parts[0].startswith(("build", ".venv"))
        if path.is_file() and not hidden_build and not NOT_OURS.intersection(parts) and path.suffix in TEXT:
            yield path


def is_code(path):
    return path.suffix in CODE or path.name in ("CMakeLists.txt", "Makefile", "run")


def faults(path, text):
    lines = text.split("\n")
    if is_code(path) and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        yield 1, "no SPDX line"
    if path.suffix in (".c", ".h") and len(lines) - 1 > MAX_LINES:
        yield len(lines), f"more than {MAX_LINES} lines"
    if path.suffix in (".c", ".h"):
        limit = MAX_KERNEL_BODY if path.name.startswith("body_") else MAX_FUNCTION
        for function in re.finditer(r"^\{$.*?^\}$", text, re.MULTILINE | re.DOTALL):
            if function.group().count("\n") > limit:
                yield text.count("\n", 0, function.start()) + 1, f"a function of more than {limit} lines"
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if "\t" in line.lstrip("\t" if path.name == "Makefile" else ""):
            yield number, "a tab"
        if path.suffix in CODE and len(line) > MAX_COLUMNS:
            yield number, f"more than {MAX_COLUMNS} columns"
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", line):
                if not (path.parent / target).exists():
                    yield number, f"a link to {target}, which is not there"
        if LEFT_BEHIND.search(line):
            yield number, "a note to do something later"
        if MACHINE_PATH.search(line):
            yield number, "a path of one machine"


def main():
    top = pathlib.Path(sys.argv[1])
    count = 0
    files = list(our_files(top))
    for path in files:
        for number, what in faults(path, path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(top)}:{number}: {what}")
            count += 1
    print(f"{len(files)} files, {count} faults")
    return 1 if count or len(files) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
