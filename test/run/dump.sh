#!/usr/bin/env bash
# What TUTTI_DUMP writes of a live run is proved by tutti verify, priced by tutti sim and equal to what tutti plan writes; TUTTI_VERIFY=1
# lets right schedules pass. Usage: dump.sh TUTTI PROGRAM [full]
# Short: shared memory on 4 ranks, TCP on 3, two emulated hosts with 3 + 2 (root only), two given networks. full: shm 2,3,4,7, tcp 3,5, 3 + 2; three sizes.
tutti=$1
program=$2
amount=${3:-short}
here=$(cd "$(dirname "$0")" && pwd)
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TUTTI_TOPO TUTTI_ALGO TUTTI_REPRODUCIBLE
export TUTTI_VERIFY=1 TUTTI_TIMEOUT=30s

bad() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# judge NAME STATUS [auto]: the job's status and its files
judge() {
    echo "$1:"
    if [ "$2" != 0 ]; then
        bad "$1: the job exits with $2: $(head -c 500 "$work/$1.err")"
        return
    fi
    python3 "$here/dump.py" "$tutti" "$work/$1" "$work/$1.out" $3 || bad "$1"
}

# on TRANSPORT RANKS [auto]; on a given network: network SPEC, which has 4 ranks
on() {
    TUTTI_TRANSPORT=$1 TUTTI_DUMP=$work/$1-$2 timeout 120 "$tutti" run -n "$2" -- "$program" "$amount" >"$work/$1-$2.out" 2>"$work/$1-$2.err"
    judge "$1-$2" $? $3
}
network() {
    TUTTI_TRANSPORT=tcp TUTTI_TOPO=$1 TUTTI_DUMP=$work/$1 timeout 120 "$tutti" run -n 4 -- "$program" >"$work/$1.out" 2>"$work/$1.err"
    judge "$1" $? auto
}

# Two emulated hosts: lab starts one shell on each, which starts the ranks of its host.
hosts() {
    if [ "$(id -u)" != 0 ]; then
        echo "skipped: not root, network namespaces cannot be made"
        return
    fi
    TUTTI_DUMP=$work/hosts timeout 120 "$tutti" lab --nodes 2 --rate 1gbit -- bash -c '
        first=$((TUTTI_RANK * 3)) many=$((3 - TUTTI_RANK)) code=0 pids=
        unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
        export TUTTI_SIZE=5
        for ((i = 0; i < many; i++)); do
            TUTTI_RANK=$((first + i)) TUTTI_LOCAL_RANK=$i "$0" "$1" &
            pids="$pids $!"
        done
        for p in $pids; do wait "$p" || code=1; done
        exit $code' "$program" "$amount" >"$work/hosts.out" 2>"$work/hosts.err"
    judge hosts $? auto
}

# A folder that cannot be written: every rank hears it when it opens.
TUTTI_DUMP=/dev/null/plans timeout 60 "$tutti" run -n 3 -- "$program" >"$work/out" 2>"$work/err" && bad "a folder below /dev/null is taken"
[ "$(grep -c '^rank 0: TUTTI_DUMP: cannot write /dev/null/plans: Not a directory$' "$work/err")" = 3 ] ||
    bad "not every rank says why: $(cat "$work/err")"

# The installed library, through the tool; a topology that was given is the one that is written.
TUTTI_TOPO=ring:3 TUTTI_DUMP=$work/given "$tutti" bench -n 3 -b 4K -e 4K -i 1 --algo multitree >"$work/out" 2>&1 || bad "bench: $(cat "$work/out")"
"$tutti" topo ring:3 --json >"$work/ring.json"
cat "$work"/given/topology-c0-*.json >"$work/given.json" || bad "no topology of bench"
"$tutti" topo "$work/given.json" --json | grep '"hash"' | cmp -s - <(grep '"hash"' "$work/ring.json") || bad "the dumped topology is not ring:3"
"$tutti" plan --topo ring:3 --algo multitree --size 4K -o - | cmp - "$work"/given/allreduce-multitree-3-4096-c0-*.json || bad "multitree on ring:3"

if [ "$amount" = full ]; then
    for n in 2 3 4 7; do on shm $n auto; done
    on tcp 3 auto
    on tcp 5 auto
else
    on shm 4 auto
    on tcp 3 auto
fi
hosts
# Algorithms that refuse networks without their structure.
network torus:2x2
network bigraph:2x2
"$tutti" algos --json | python3 -c 'import json, sys; print(*sorted(a["name"] for a in json.load(sys.stdin)), sep="\n")' >"$work/algos"
awk '$1 == "ran" && $3 != "auto" { print $3 }' "$work"/*.out | sort -u | cmp -s - "$work/algos" || bad "not every algorithm ran somewhere"
echo "$failures failures"
[ "$failures" = 0 ]
