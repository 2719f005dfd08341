#!/usr/bin/env bash
# Requests that are only tested or joined end, and well: done, by the deadline, by a verdict. Usage: poll.sh TUTTI PROGRAM
set -u
tutti=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
# expect TRANSPORT WHAT TIMEOUT EXIT TOLD: the launcher's exit status, and how many ranks were told
expect() {
    local out status told
    mkdir "$work/$1-$2"
    out=$(TUTTI_TRANSPORT=$1 "$tutti" run -n 3 --timeout "$3" -- "$program" "$2" "$work/$1-$2" 2>&1)
    status=$?
    told=$(grep -c '^told: .*rank 2' <<<"$out")
    [ "$status" = "$4" ] && [ "$told" = "$5" ] && ! grep -q FAILED <<<"$out" && return
    echo "FAILED: $1 $2 (exit $status)"
    echo "$out"
    bad=1
}
expect shm done 20s 0 0
expect tcp done 20s 0 0
expect shm dead 20s 1 2
expect tcp dead 20s 1 2
expect shm dead-join 20s 1 2
expect tcp dead-join 20s 1 2
expect shm late 5s 0 2
exit $bad
