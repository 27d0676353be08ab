#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: setup.sh VENV [ARGUMENT...]
# Adds the programs that the speed is compared with to the virtual environment of tests/oracle, which is made unless it is there (torch
# first), and runs compare.py with the arguments in it. Exit code 77: no package index can be reached.
set -eu
venv=${1:?usage: setup.sh VENV [ARGUMENT...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
oracle=$here/../../tests/oracle
log=$venv.peers.log

"$oracle/setup.sh" "$venv" >"$log" || { status=$?; cat "$log" >&2; exit $status; }
"$venv/bin/python" -m pip install --disable-pip-version-check --retries 1 -c "$oracle/constraints.txt" -c "$here/constraints.txt" \
    -r "$here/requirements.txt" >"$log" 2>&1 || {
    cat "$log" >&2
    if grep -q Retrying "$log"; then exit 77; fi
    exit 1
}
exec "$venv/bin/python" -B "$here/compare.py" "$@"
