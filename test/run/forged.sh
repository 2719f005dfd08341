#!/usr/bin/env bash
# What all ranks are told when one of them runs another plan or calls something else in a hand-over. Usage: forged.sh TUTTI FORGED
tutti=$1 forged=$2
failures=0
export TUTTI_TRANSPORT
# told CASE RANKS TOPO ALGO PATTERN: every rank of a job of RANKS ranks prints a line that matches PATTERN, and no sum is wrong
told() {
    for TUTTI_TRANSPORT in shm tcp; do
        out=$(TUTTI_TOPO=$3 TUTTI_ALGO=$4 timeout 60 "$tutti" run -n "$2" --timeout 2s -- "$forged" "$1" 2>&1 </dev/null)
        n=$(grep -Ec -- "^rank [0-9]+ $5" <<<"$out")
        if [ "$n" != "$2" ] || grep -q WRONG <<<"$out"; then
            echo "FAILED: $1 over $TUTTI_TRANSPORT: $n of $2 ranks say '$5' in: $out"
            failures=$((failures + 1))
        fi
    done
}
DIFFERS=-61 PEER=-60 REFUSED=-20
told plan 8 torus:2x4 hierarchical "$DIFFERS .*rank [0-9].* another plan"
told count 4 ring:4 multitree "$DIFFERS .*rank 2 .*called allreduce of 400 f32 .*while the others called allreduce of 384 f32"
told late 4 ring:4 forest "$PEER .*rank 2 .*has not entered request 1 \(allreduce of 384 f32\)"
told order 4 ring:4 multitree "$DIFFERS .*rank 3 .*called allreduce of 400 f32 .*while the others called allreduce of 384 f32"
told count0 4 ring:4 multitree "$DIFFERS .*rank 0 .*called allreduce of 400 f32 .*while the others called allreduce of 384 f32"
told refused 4 ring:4 flex "first $REFUSED flex: .*"
told refused 4 ring:4 flex "0 "
[ $failures = 0 ] && echo "all cases are told"
exit $((failures > 0))
