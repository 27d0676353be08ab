#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: translation.py ORIGINAL.md TRANSLATION.md

The translation must keep step: the same headings by level, the same code blocks, the same number of table rows, list items and folds.
Commands may ask for the reader's language and give words of it; what a block prints is left to run_document.py, which runs both."""
import re
import sys


def in_any_language(block):
    if block[0] == "```text":
        return "a block of what is printed"
    text = "\n".join(block)
    return re.sub(r' --lang ko|"[^"]*"', "", text) if block[0].startswith("```sh") else text


def outline(path):
    """The parts of a document that a translation keeps, in order."""
    parts, block = [], None
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("```"):
                if block is None:
                    block = [line]
                else:
                    parts.append(in_any_language(block))
                    block = None
            elif block is not None:
                block.append(line)
            elif heading := re.match(r"#+ ", line):
                parts.append(heading.group())
            elif line.startswith("|"):
                parts.append("| table row")
            elif line.startswith("- "):
                parts.append("- list item")
            elif line == "<details>":
                parts.append("<details>")
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
