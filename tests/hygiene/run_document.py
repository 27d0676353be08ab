#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: run_document.py SOURCE_FOLDER DOCUMENT PREFIX FOLDER [--fill]

Runs a document as a reader would, in FOLDER beside a copy of examples/, with what is installed in PREFIX:
  ```c     begins with /* name.c */: saved by that name, compiled (warnings are errors), linked and run
  ```python  must succeed
  ```sh    must succeed; ```sh status=N must end with that exit status
  ```text  after one of them: what it prints, messages included, exactly; --fill writes it there instead of comparing
  ```console  make targets: must be there
Other blocks are left alone."""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys


BLOCK = re.compile(r"^```(\w*)(?: status=(\d))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def environment(prefix):
    pkgconfig = next(prefix.rglob("attn.pc")).parent
    return {**os.environ, "PATH": f"{prefix}/bin:{os.environ['PATH']}", "PKG_CONFIG_PATH": str(pkgconfig),
            "LD_LIBRARY_PATH": str(pkgconfig.parent), "CC": os.environ.get("CC", "cc"), "NO_COLOR": "1"}


def script(kind, code, folder):
    """The shell commands of a block that is to be run; None for another block."""
    if kind == "sh":
        return code
    if kind == "python":
        (folder / "block.py").write_text(code, encoding="utf-8")
        return f"{sys.executable} block.py"
    name = re.match(r"/\* (\w+)\.c \*/\n", code) if kind == "c" else None
    if not name:
        return None
    (folder / f"{name[1]}.c").write_text(code)
    libraries = "$(pkg-config --cflags --libs attn_io attn_model attn_text)"
    return f"$CC -std=c17 -Wall -Wextra -Wpedantic -Werror {name[1]}.c {libraries} -o {name[1]} && ./{name[1]}"


def run(command, status, folder, prefix):
    done = subprocess.run(["sh", "-ec", command], cwd=folder, env=environment(prefix), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", check=False)
    if done.returncode != status:
        sys.exit(f"exit status {done.returncode} instead of {status} from:\n{command}\n{done.stdout}")
    return done.stdout.strip("\n") + "\n"


def run_all(text, source, prefix, folder):
    """How many blocks ran, and the text with what they print."""
    pieces, at, ran, printed = [], 0, 0, None
    for block in BLOCK.finditer(text):
        kind, status, code = block.groups()
        if kind == "text" and printed is not None:
            pieces += [text[at:block.start(3)], printed]
            at, printed = block.end(3), None
        elif kind == "console":
            subprocess.run(["make", "-n", "-C", source, *code.replace("make", "").split()], stdout=subprocess.DEVNULL, check=True)
        elif command := script(kind, code, folder):
            ran, printed = ran + 1, run(command, int(status or 0), folder, prefix)
    return ran, "".join(pieces) + text[at:]


def main():
    source, document, prefix, folder = (pathlib.Path(argument) for argument in sys.argv[1:5])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(source / "examples", folder / "examples")
    written = (source / document).read_text(encoding="utf-8")
    ran, printed = run_all(written, source, prefix, folder)
    if "--fill" in sys.argv:
        (source / document).write_text(printed, encoding="utf-8")
    elif printed != written:
        sys.exit("".join(difflib.unified_diff(written.splitlines(True), printed.splitlines(True), f"{document}", "what it prints")))
    print(f"{document}: {ran} blocks ran")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main())
