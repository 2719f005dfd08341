#!/usr/bin/env bash
# Ranks with different networks are told so, ranks with equal networks sum: agree.py in an environment of its own.
# Usage: agree.sh BUILD PAIRS [SEED [one]]     one: each pair with one algorithm and transport in turn, not with all twelve
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work TMPDIR=$work
unset TUTTI_TRANSPORT TUTTI_ALGO TUTTI_TOPO TUTTI_REPORT TUTTI_RENDEZVOUS TUTTI_KEY_FILE
build=$(cd "$1" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd)
program=$build/test/agree
if [ ! -x "$program" ]; then # a build from before this test
    program=$work/agree
    cc -O1 -I"$here/../../include" "$here/agree.c" -o "$program" -L"$build" -ltutti -Wl,-rpath,"$build" || exit 2
fi
python3 "$here/agree.py" "$build/tutti" "$program" "$work" "${@:2}"
