#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Where results go: terminal, pipe, files that appear whole or not at all.
load support

two() { attn sdpa q.csv k.csv v.csv "$@"; }

# interrupted SIGNAL: attn in the middle of minutes of work, with -o out.npy, gets the signal; its exit code as Python sees it.
interrupted() {
    numpy "
for n in 'qkv': np.save('long_' + n + '.npy', np.zeros((40000, 64), np.float32))"
    "$PYTHON" - "$ATTN" "$1" <<'PY'
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it, and attn would too
command = [sys.argv[1], "sdpa", "long_q.npy", "long_k.npy", "long_v.npy", "--isa", "scalar", "--threads", "1", "-o", "out.npy"]
run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
time.sleep(1)
assert run.poll() is None, "it was done before it was interrupted"
run.send_signal(getattr(signal, sys.argv[2]))
assert run.stdout.read() == b""
print(run.wait())
PY
    rm long_?.npy
}

@test "a pipe gets .npy, and - does too" {
    two | cat >piped.npy
    two -o - | cat >dash.npy
    two -o out.npy
    cmp piped.npy out.npy
    cmp dash.npy out.npy
    refused bash -c '"$ATTN" sdpa - k.csv v.csv <ten_words.npy 2>/dev/null'
    numpy "np.save('q.npy', np.loadtxt('q.csv', delimiter=','))"
    cat q.npy | "$ATTN" sdpa - k.csv v.csv | cmp - out.npy
}

@test "a terminal gets a table" {
    script -qec "'$ATTN' sdpa q.csv k.csv v.csv" /dev/null </dev/null | tr -d '\r' >shown.txt
    diff shown.txt - <<'TEXT'
output (2,2) f64
  5       5
  2.6894  7.3106
TEXT
    TERM=xterm NO_COLOR='' script -qec "'$ATTN' sdpa q.csv k.csv v.csv --round 1" /dev/null </dev/null | tr -d '\r' >shown.txt
    diff shown.txt <(printf '\033[1moutput (2,2) f64\033[0m\n  5    5\n  2.7  7.3\n')
}

@test "a closed pipe and a full device" {
    run bash -c '"$ATTN" show base_weights.npz --json | head -c 10 >/dev/null; echo ${PIPESTATUS[0]}'
    [ "$output" = 141 ]
    fails_with "standard output was not written: No space left on device" bash -c '"$ATTN" show q.csv >/dev/full'
    fails_saying "No space left on device" bash -c '"$ATTN" sdpa q.csv k.csv v.csv >/dev/full'
}

@test "several outputs, and several in one .npz" {
    two -o out.npz --weights out.npz --lse lse.safetensors --mass mass.csv
    numpy "
both = a('out.npz')
assert set(both) == {'output', 'weights'} and both['weights'].shape == (2, 2)
assert np.loadtxt('mass.csv').shape == (2,)"
    attn show lse.safetensors | grep -q "lse (2) f64"
}

@test "--average takes the weights of --weights or of --stage; one array to standard output beside files" {
    numpy "np.save('q4.npy', np.eye(8).reshape(1, 2, 4, 8))"
    set -- attn sdpa q4.npy q4.npy q4.npy --average -o out.npy
    "$@" --weights w.npy
    "$@" --stage weights=stage.npy
    "$@" --weights - | cmp - w.npy
    "$@" --weights /dev/stdout | cmp - w.npy
    cmp w.npy stage.npy
    numpy "assert a('w.npy').shape == (1, 4, 4)"
}

@test "one output that fails leaves all of them as they were" {
    echo old >out.npy
    fails_saying "none/w.npy" two -o out.npy --weights none/w.npy
    [ "$(cat out.npy)" = old ]
    numpy "np.save('q4.npy', np.zeros((1, 1, 2, 4))); np.save('v4.npy', np.zeros((1, 1, 2, 4)))"
    fails_saying "w.csv" attn sdpa q4.npy q4.npy v4.npy -o out.npy --weights w.csv
    [ "$(cat out.npy)" = old ]
    [ "$(ls -A | grep -cE 'tmp|attn')" = 0 ]
}

@test "a full disk leaves the old file and nothing else" {
    [ -z "$SANITIZED" ] || skip "ThreadSanitizer keeps a file of its own, larger than the limit"
    numpy "np.save('q.npy', np.zeros((4000, 64), np.float32))"
    echo old >out.npy
    ls -A >before.txt; ls -A >before.txt
    (ulimit -f 100; fails_saying "out.npy" attn sdpa q.npy q.npy q.npy -o out.npy)
    [ "$(cat out.npy)" = old ]
    ls -A | grep -v -e stdout.txt -e stderr.txt | diff before.txt -
}

@test "a symbolic link stays, its target is new; /dev/null is written through" {
    mkdir there
    ln -s there/out.npy link.npy
    two -o link.npy
    [ -L link.npy ]
    [ -f there/out.npy ]
    [ "$(ls -A there)" = out.npy ]
    two -o /dev/null
    [ -c /dev/null ]
}

@test "SIGTERM, SIGINT, SIGHUP: the old file stays, nothing is left, the exit code says so" {
    [ -z "$SANITIZED" ] || skip "too slow under a sanitizer"
    echo old >out.npy
    ls -A >before.txt; ls -A >before.txt
    [ "$(interrupted SIGTERM)" = -15 ]
    [ "$(interrupted SIGHUP)" = -1 ]
    [ "$(interrupted SIGINT)" = 130 ]
    [ "$(cat out.npy)" = old ]
    ls -A | diff before.txt -
}

@test "SIGKILL: the old file is whole" {
    [ -z "$SANITIZED" ] || skip "too slow under a sanitizer"
    two -o out.npy
    cp out.npy copy.of.it
    [ "$(interrupted SIGKILL)" = -9 ]
    cmp out.npy copy.of.it
}

@test "a progress bar on a terminal only, gone at the end" {
    [ -z "$SANITIZED" ] || skip "too slow under a sanitizer"
    numpy "
for n in 'qkv': np.save('long_' + n + '.npy', np.zeros((4, 4096, 64), np.float32))"
    script -qec "'$ATTN' sdpa long_q.npy long_k.npy long_v.npy --isa scalar --threads 1 -o out.npy" /dev/null </dev/null >shown.txt
    grep -q '\[#* *\] *[0-9]*%' shown.txt
    [ "$(tr '\r' '\n' <shown.txt | tail -n 1 | tr -d '\033' )" = '[K' ]
    attn sdpa long_q.npy long_k.npy long_v.npy --isa scalar --threads 1 -o out.npy 2>stderr.txt
    [ ! -s stderr.txt ]
}

@test "a closed standard stream: messages do not go into a file, and what is lost is said" {
    two -o wanted.npy
    two -o out.npy --verbose 2>&-
    cmp out.npy wanted.npy
    two -o out.npy --verbose <&- >&- 2>&-
    cmp out.npy wanted.npy
    status=0
    two >&- 2>stderr.txt || status=$?
    [ "$status" = 2 ]
    grep -q "Bad file descriptor" stderr.txt
}
