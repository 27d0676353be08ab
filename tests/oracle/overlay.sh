#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: overlay.sh VENV BASE PINS.txt TEST.py [ARGUMENT...]
# Makes a small virtual environment with the packages of PINS.txt before those of the environment BASE (setup.sh's), unless it is there,
# and runs the test in it. So two releases of a package share one torch. Exit codes as setup.sh.
set -eu
venv=${1:?usage: overlay.sh VENV BASE PINS.txt TEST.py [ARGUMENT...]}
base=$2 pins=$3 test=$4
shift 4
constraints=$pins
. "$(dirname "$0")/pip.sh"

exec 9>"$venv.lock" # tests that share it wait for the first
flock 9
if ! cmp -s "$pins" "$venv/pins.txt"; then
    "$python" -m venv --clear "$venv"
    pip install --no-deps -r "$pins"
    "$base/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$("$venv/bin/python" -c \
        'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
    cp "$pins" "$venv/pins.txt"
fi
exec 9>&-
exec "$venv/bin/python" -B "$test" "$@"
