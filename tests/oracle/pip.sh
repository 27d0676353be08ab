# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that make virtual environments; needs $venv. pip ARGUMENTS: with the pins of $constraints and pip's own settings
# otherwise, whatever the machine says of versions. Exit code 77: no package index can be reached. 1: anything else.
log=$venv.log

pip() {
    PIP_CONSTRAINT="$constraints" PIP_DISABLE_PIP_VERSION_CHECK=1 \
        "$venv/bin/python" -m pip --retries 1 --timeout 60 "$@" >"$log" 2>&1 && return
    cat "$log" >&2
    if grep -q 'Retrying' "$log"; then
        echo 'SKIP: no package index can be reached'
        exit 77
    fi
    exit 1
}

# There is a CPU build of torch for Python 3.11, Debian 12's.
python=$(command -v /usr/bin/python3.11 || command -v python3.11 || command -v python3)
