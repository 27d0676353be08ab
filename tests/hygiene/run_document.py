#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: run_document.py SOURCE_FOLDER DOCUMENT PREFIX FOLDER

Runs a document as a reader would, in FOLDER beside a copy of examples/, with what is installed in PREFIX:
  ```c     begins with /* name.c */: saved by that name, compiled (warnings are errors), linked and run
  ```sh    must succeed
  ```text  after one of them: what it prints, exactly
  ```console  make targets: must be there
Other blocks are left alone."""
import os
import pathlib
import re
import shutil
import subprocess
import sys


def blocks(text):
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def environment(prefix):
    pkgconfig = next(prefix.rglob("attn.pc")).parent
    return {**os.environ, "PATH": f"{prefix}/bin:{os.environ['PATH']}", "PKG_CONFIG_PATH": str(pkgconfig),
            "LD_LIBRARY_PATH": str(pkgconfig.parent), "CC": os.environ.get("CC", "cc"), "NO_COLOR": "1"}


def script(kind, code, folder):
    """The shell commands of a block that is to be run; None for another block."""
    if kind == "sh":
        return code
    name = re.match(r"/\* (\w+)\.c \*/\n", code) if kind == "c" else None
    if not name:
        return None
    (folder / f"{name[1]}.c").write_text(code)
    return f"$CC -std=c17 -Wall -Wextra -Wpedantic -Werror {name[1]}.c $(pkg-config --cflags --libs attn_io) -o {name[1]} && ./{name[1]}"


def main():
    source, document, prefix, folder = (pathlib.Path(argument) for argument in sys.argv[1:5])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(source / "examples", folder / "examples")
    ran, printed = 0, None
    for kind, code in blocks((source / document).read_text(encoding="utf-8")):
        if kind == "text" and printed is not None:
            if printed.strip("\n") != code.strip("\n"):
                sys.exit(f"{document} promises:\n{code}\nbut it prints:\n{printed}")
            printed = None
        elif kind == "console":
            subprocess.run(["make", "-n", "-C", source, *code.replace("make", "").split()], stdout=subprocess.DEVNULL, check=True)
        elif command := script(kind, code, folder):
            done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environment(prefix), stdout=subprocess.PIPE, encoding="utf-8",
                                  check=False)
            if done.returncode != 0:
                sys.exit(f"{document}: exit status {done.returncode} from:\n{command}\n{done.stdout}")
            ran, printed = ran + 1, done.stdout
    print(f"{document}: {ran} blocks ran")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
