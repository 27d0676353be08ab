#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: setup.sh VENV [TEST.py]
# Makes the virtual environment with the programs that the tests in this folder compare with, unless it is there, and runs the test in it.
# Exit code 77: no package index can be reached. 1: anything else, also a torch that would bring GPU packages.
set -eu
venv=${1:?usage: setup.sh VENV [TEST.py]}
here=$(cd "$(dirname "$0")" && pwd)
log=$venv.log

# With the pins and pip's own settings otherwise, whatever the machine says of versions.
pip() {
    PIP_CONSTRAINT="$here/constraints.txt" PIP_DISABLE_PIP_VERSION_CHECK=1 \
        "$venv/bin/python" -m pip --retries 1 --timeout 60 "$@" >"$log" 2>&1 && return
    cat "$log" >&2
    if grep -q 'Retrying' "$log"; then
        echo 'SKIP: no package index can be reached'
        exit 77
    fi
    exit 1
}

install_all() {
    # There is a CPU build of this torch for Python 3.11, Debian 12's.
    python=$(command -v /usr/bin/python3.11 || command -v python3.11 || command -v python3)
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
