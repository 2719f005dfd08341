#!/bin/bash
# check.sh [--all] - the model of the roll call, searched exhaustively by spin.
#
# For each row: no two living ranks decide differently, nobody waits for ever, and after a cut the
# greater half goes on. Then the deliberate mistakes: each must be found, or the model shows nothing.
# Without --all the rows that take longest are left out.
set -u
cd "$(dirname "$0")" || exit 2
model=$PWD/membership.pml
command -v spin >/dev/null || { echo "skipped: spin is not installed (tools/setup test)"; exit 77; }
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cd "$dir" || exit 2
failed=0
[ "${1:-}" = --all ] && level=-O1 || level=-O0 # compiling takes longer than a short search

# search WANTED OPTIONS...: WANTED is 0 (nothing may be found) or 1 (a mistake must be)
search() {
    local wanted=$1 found states
    shift
    spin "$@" -a "$model" >spin.txt 2>&1 && gcc "$level" -w -DSAFETY -DCOLLAPSE -DMEMLIM=3000 -o pan pan.c &&
        ./pan -m1000000 >pan.txt 2>&1 || { cat spin.txt; exit 2; }
    grep -q "max search depth too small\|out of memory\|memory limit" pan.txt && found=unfinished ||
        found=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.txt)
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.txt)
    if [ "$found" = "$wanted" ]; then
        echo "ok      $*: $found errors, $states states"
    else
        echo "FAILED  $*: $found errors, $wanted expected, $states states: $(grep pan:1 pan.txt)"
        failed=1
    fi
}

search 0 -DN=3 -DFAILS=2 -DDROPS=1
search 0 -DN=4 -DFAILS=2
search 0 -DN=3 -DFAILS=1 -DCUT=1
if [ "${1:-}" = --all ]; then
    search 0 -DN=5 -DFAILS=2
    search 0 -DN=4 -DFAILS=2 -DDROPS=1
    search 0 -DN=3 -DFAILS=2 -DWRONG=1
    search 0 -DN=4 -DFAILS=0 -DCUT=1
    search 0 -DN=4 -DFAILS=1 -DWRONG=1
    search 1 -DN=4 -DFAILS=0 -DCUT=1 -DMUTANT=2 # half of the ranks, whichever
    search 1 -DN=3 -DFAILS=1 -DWRONG=1 -DMUTANT=5 # a promise that is not kept
fi
search 1 -DN=3 -DFAILS=1 -DCUT=1 -DMUTANT=1   # any set of ranks decides
search 1 -DN=3 -DFAILS=2 -DMUTANT=3           # views that were accepted before are forgotten
search 1 -DN=3 -DFAILS=0 -DCUT=1 -DMUTANT=4   # silence is taken for death
exit $failed
