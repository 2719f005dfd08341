#!/usr/bin/env bash
# TUTTI_REPORT=1: with one delayed rank, and (when root) on emulated hosts with one slower link, the right rank and the right reason are
# named. Usage: report.sh TUTTI PROGRAM (test/run/slow.c)
tutti=$1
slow=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export TUTTI_REPORT=1 XDG_CACHE_HOME=$work
unset TUTTI_TRANSPORT TUTTI_ALGO TUTTI_TOPO

# expect PATTERN COMMAND...: the line about the slowest rank matches; nothing is printed on standard output
expect() {
    local want=$1
    shift
    "$@" >out 2>err </dev/null || { echo "FAILED: $*: $(cat err)"; failures=$((failures + 1)); }
    if ! grep -Eq "slowest rank: $want" err || [ -s out ]; then
        echo "FAILED: $*: not '$want' but: $(cat err out)"
        failures=$((failures + 1))
    fi
    grep -E 'slowest' err
}
late() { echo "rank $1 \(host [^ ]+, pid [0-9]+\) arrived late in"; }
slowly() { echo "rank $1 \(host [^ ]+, pid [0-9]+\) sent slowly: "; }

for transport in shm tcp; do
    export TUTTI_TRANSPORT=$transport
    expect "$(late 2)" "$tutti" run -n 4 -- "$slow" 2 30 8 15           # in one box
    expect "$(late 0)" "$tutti" run -n 3 -- "$slow" 0 30 1000000 15     # in slices, or messages
    expect "$(late 1)" "$tutti" run -n 2 -- "$slow" 1 30 100000 15 start # persistent requests
    expect "$(late 1)" "$tutti" run -n 3 -- "$slow" 1 30 8 15 own       # and in what each rank has seen itself
    expect "$(late 2)" "$tutti" run -n 3 -- "$slow" 2 30 1000000 15 own
    TUTTI_ALGO=double-tree expect "$(late 3)" "$tutti" run -n 5 -- "$slow" 3 30 1000000 15 # those above it in the tree are not to blame
done
unset TUTTI_TRANSPORT
expect "$(late 1)" "$tutti" run -n 3 -- "$slow" 1 30 1000 15 split # ranks are named as in the world
grep -q 'report of 3 ranks (a split), the last 15 of 15 calls' err || { echo "FAILED: no report of the split: $(cat err)"; failures=$((failures + 1)); }
"$tutti" run -n 2 -- "$slow" 9 0 1000 3 >out 2>err || failures=$((failures + 1))
grep -q 'report of 2 ranks, the last 3 of 3 calls' err || { echo "FAILED: no report: $(cat err)"; failures=$((failures + 1)); }
TUTTI_REPORT=0 "$tutti" run -n 2 -- "$slow" 9 0 1000 3 >out 2>err || failures=$((failures + 1))
[ ! -s err ] || { echo "FAILED: a report nobody asked for: $(cat err)"; failures=$((failures + 1)); }

if [ "$(id -u)" = 0 ] && command -v tc >/dev/null; then
    rates=1gbit,1gbit,1gbit,250mbit
    expect "$(slowly 3)" "$tutti" lab --rates $rates -- "$slow" 9 0 4000000 8
    TUTTI_ALGO=ring expect "$(slowly 3)" "$tutti" lab --rates $rates -- "$slow" 9 0 4000000 8
    expect "$(late 1)" "$tutti" lab --nodes 4 -- "$slow" 1 60 100000 15 # clocks are compared, not assumed equal
else
    echo "not root: no emulated hosts"
fi
echo "$failures failures"
[ "$failures" = 0 ]
