#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --help, --version, man pages and completions.
load support

@test "--help of every verb" {
    golden help.txt attn --help
    for verb in sdpa mha explain view diagnose show selftest info bench generate embed; do
        golden "help-$verb.txt" attn "$verb" --help
        attn help "$verb" | cmp - output.txt
    done
    attn explain mha --help | cmp - "$SOURCE/tests/cli/golden/help-explain.txt"
    attn help | cmp - "$SOURCE/tests/cli/golden/help.txt"
    attn -h | cmp - "$SOURCE/tests/cli/golden/help.txt"
}

@test "--version, everywhere" {
    wanted=$(attn --version)
    [[ $wanted =~ ^attn\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    for verb in sdpa mha explain view diagnose show selftest info bench generate embed; do
        [ "$(attn "$verb" --version)" = "$wanted" ]
    done
}

@test "no line of help is wider than 80 columns, but for commands to copy" {
    for verb in sdpa mha explain view diagnose show selftest info bench generate embed; do
        run bash -c "'$ATTN' $verb --help | grep -v '^    attn' | grep -E '.{81}'"
        [ -z "$output" ]
    done
}

@test "man pages name every option, and mandoc finds nothing" {
    for verb in sdpa mha explain view diagnose show selftest info bench generate embed; do
        page=$DOCUMENTS/attn-$verb.1
        for option in $("$ATTN" "$verb" --help | grep -oE '^  (-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
            grep -qF -- "${option//-/\\-}" "$page"
        done
    done
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    for page in "$DOCUMENTS"/attn*.1; do
        run mandoc -Tlint -Wstyle "$page"
        [ -z "$(grep -v 'referenced manual not found' <<<"$output")" ] # they are not installed yet
    done
}

@test "bash completes verbs, options, choices and files" {
    complete_line() { # WORD...: what bash offers for the last word
        bash -ec 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _attn; printf "%s\n" "${COMPREPLY[@]}"' \
            - "$DOCUMENTS/attn" "$@"
    }
    [ "$(complete_line attn exp)" = explain ]
    [ "$(complete_line attn explain sp)" = split ]
    [ "$(complete_line attn diagnose m)" = mha ]
    [ "$(complete_line attn sdpa --caus)" = --causal ]
    [ "$(complete_line attn sdpa --align bot)" = bottom-right ]
    [ "$(complete_line attn sdpa stud)" = student.csv ]
    [ -z "$(complete_line attn show --caus)" ]
}

@test "zsh and fish take the completions" {
    if command -v zsh >/dev/null; then zsh -n "$DOCUMENTS/_attn"; fi
    if command -v fish >/dev/null; then fish -n "$DOCUMENTS/attn.fish"; fi
    for option in causal align cell heads; do
        grep -q -- "--$option" "$DOCUMENTS/_attn"
        grep -q -- "-l $option" "$DOCUMENTS/attn.fish"
    done
}
