#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: wheel.sh SOURCE FOLDER
# Builds the wheel, installs it with NumPy alone into an empty virtual environment, and runs the package's tests there: nothing but that
# environment is on PATH, so no compiler, and no library outside of the wheel but the C library's is used. Exit codes as oracle/setup.sh.
set -eu
source=${1:?usage: wheel.sh SOURCE FOLDER}
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"

venv=$folder/builder
constraints=$here/wheel.txt
. "$here/../oracle/pip.sh"
"$python" -m venv --clear "$venv"
pip install -r "$here/wheel.txt"
rm -rf "$folder/dist"
pip wheel --no-build-isolation --no-deps --wheel-dir "$folder/dist" "$source"
ls "$folder"/dist/*-cp311-abi3-*.whl

venv=$folder/user
log=$venv.log
constraints=$here/../oracle/constraints.txt
"$python" -m venv --clear "$venv"
pip install --only-binary :all: numpy "$folder"/dist/*.whl

outside=$(find "$venv" -path '*/attn/*' -type f \( -name '*attn*.so*' -o -name attn \) -exec ldd {} + |
    grep '=>' | grep -v "=> $venv/" | grep -vE '(libc|libm|libdl|librt|libpthread)\.so' || true)
if [ -n "$outside" ]; then
    echo "the wheel needs libraries that are not in it:" "$outside" >&2
    exit 1
fi
cd /
env -i PATH="$venv/bin" "$venv/bin/attn" info
env -i PATH="$venv/bin" "$venv/bin/python" -B "$here/test_package.py"
env -i PATH="$venv/bin" "$venv/bin/python" -B "$here/test_model.py"
