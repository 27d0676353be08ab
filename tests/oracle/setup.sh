#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: setup.sh VENV [TEST.py]
# Makes the virtual environment with the programs that the tests in this folder compare with, unless it is there, and runs the test in it.
# Exit code 77: no package index can be reached. 1: anything else, also a torch that would bring GPU packages.
set -eu
venv=${1:?usage: setup.sh VENV [TEST.py]}
here=$(cd "$(dirname "$0")" && pwd)
constraints=$here/constraints.txt
. "$here/pip.sh"

install_all() {
    "$python" -m venv --clear "$venv"
    pip install --upgrade pip # Debian 12's downloads whole packages to learn what they need
    torch=$(grep '^torch==' "$here/requirements.txt")
    pip install --dry-run "$torch"
    if grep -q 'Would install.* nvidia' "$log"; then
        echo "$torch would bring the nvidia-* packages (gigabytes): let PIP_FIND_LINKS or PIP_INDEX_URL name a place with its CPU build" >&2
        exit 1
    fi
    pip install "$torch"
    pip install -r "$here/requirements.txt"
    pip list
    if grep -i nvidia "$log" >&2; then
        echo 'GPU packages were installed' >&2
        exit 1
    fi
    cat "$log"
}

pins=$(cat "$here/requirements.txt" "$here/constraints.txt")
if [ "$pins" != "$(cat "$venv/pins.txt" 2>/dev/null)" ]; then
    install_all
    printf '%s\n' "$pins" >"$venv/pins.txt"
fi
[ $# -lt 2 ] || exec "$venv/bin/python" -B "$2"
