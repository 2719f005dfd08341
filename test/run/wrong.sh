#!/usr/bin/env bash
# TUTTI_VERIFY=1 stops a wrong schedule on every rank before anything runs; without it the sum is wrong. Usage: wrong.sh TUTTI PROGRAM
tutti=$1
program=$2
export TUTTI_TOPO=ring:3 TUTTI_TIMEOUT=20s
failures=0
for transport in shm tcp; do
    for verify in 1 0; do
        want=$([ $verify = 1 ] && echo refused || echo "wrong sum")
        said=$(TUTTI_VERIFY=$verify TUTTI_TRANSPORT=$transport timeout 60 "$tutti" run -n 3 -- "$program" 2>&1)
        code=$?
        many=$(grep -cx "$want" <<<"$said")
        # without verification at least the ranks behind the lost contribution get a wrong sum
        if [ $code != 0 ] || [ "$many" -lt $((verify ? 3 : 1)) ]; then
            echo "FAILED: $transport, TUTTI_VERIFY=$verify: exit $code, '$want' from $many ranks: $said"
            failures=$((failures + 1))
        fi
    done
done
echo "$failures failures"
[ "$failures" = 0 ]
