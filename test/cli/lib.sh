# Helpers for the command-line tests. Source with: . "$(dirname "$0")/lib.sh"
# Called as: script TUTTI SOURCE_DIR. Each check prints what failed; the script's exit status counts.
tutti=$1
source_dir=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
unset TUTTI_TOPO TUTTI_ALGO

bad() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# runs CODE ARGS...: the exit status must be CODE; output is left in out and err
runs() {
    local want=$1 got
    shift
    "$tutti" "$@" >out 2>err </dev/null
    got=$?
    [ "$got" = "$want" ] || bad "tutti $*: exit $got, expected $want: $(head -c 300 err)"
}

# says PATTERN: standard output of the last run matches; complains PATTERN: standard error does
says() {
    grep -Eq -- "$1" out || bad "output does not say '$1': $(head -c 300 out)"
}
complains() {
    grep -Eq -- "$1" err || bad "error does not say '$1': $(head -c 300 err)"
    [ "$(wc -l <err)" -le 2 ] || bad "more than a sentence of complaint: $(cat err)"
    [ ! -s out ] || bad "output beside a complaint: $(head -c 200 out)"
}

# json EXPRESSION: python expression over the document d of the last run must be true
json() {
    python3 -c 'import json,sys
d = json.load(open("out"))
sys.exit(0 if eval(sys.argv[1]) else 1)' "$1" || bad "JSON: not $1: $(head -c 300 out)"
}

finish() {
    echo "$failures failures"
    [ "$failures" = 0 ]
}

# gone WHAT: no process with $mark in its command line is left, nor a file in TMPDIR
gone() {
    local i
    for i in $(seq 50); do
        pgrep -f -- "$mark" >/dev/null || break
        sleep 0.1
    done
    [ -z "$(pgrep -f -- "$mark")" ] || bad "$1: left behind: $(pgrep -af -- "$mark")"
    [ -z "$(ls "$TMPDIR")" ] || bad "$1: left in TMPDIR: $(ls "$TMPDIR")"
}
