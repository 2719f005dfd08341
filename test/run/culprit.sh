#!/usr/bin/env bash
# Whatever goes wrong at one rank, all others name that rank, and only that one. Usage: culprit.sh TUTTI PROGRAM opening|gone|calls|limits
tutti=$1
program=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work # speeds are measured once: that takes long when cores are busy

# job WANT RANKS ODD WORDS...: every rank but ODD says WANT (an extended regular expression), and nothing else.
job() {
    local want=$1 n=$2 odd=$3
    shift 3
    : >"$work/said" # not the last job's
    timeout 120 "$tutti" run -n "$n" -- "$@" >"$work/said" 2>&1 &
    local job=$! right wrong stopped
    while kill -0 $job 2>/dev/null && [ "$(grep -c '^rank ' "$work/said")" -lt $((n - 1)) ]; do sleep 0.05; done
    stopped=$(sed -n 's/^stops //p' "$work/said")
    [ -z "$stopped" ] || kill -KILL "$stopped" 2>/dev/null
    wait $job
    said=$(cat "$work/said")
    right=$(grep -E '^rank [0-9]+ ' <<<"$said" | grep -v "^rank $odd " | grep -cE "$want")
    wrong=$(grep -E '^rank [0-9]+ ' <<<"$said" | grep -v "^rank $odd " | grep -vcE "$want")
    if [ "$right" != $((n - 1)) ] || [ "$wrong" != 0 ]; then
        printf 'FAILED: %s, %s, rank %s: %s ranks of %s say "%s":\n%s\n' "$TUTTI_TRANSPORT" "$*" "$odd" "$right" $((n - 1)) "$want" "$said"
        failures=$((failures + 1))
    fi
}

# Ranks that end or stop while things are opened. Before the ranks have met nobody knows more than a rank's number.
opening() {
    for odd in 0 2; do
        for us in 5000 20000 60000; do
            job "rank $odd (\(.* is (dead|gone)|could not be reached|did not come)" 4 $odd "$program" die $odd $us
        done
    done
    odd=$([ "$TUTTI_TRANSPORT" = shm ] && echo 2 || echo 0)
    job "rank $odd (\(.* is stuck|could not be reached|did not come|\(.* took us in)" 4 "$odd" "$program" stop "$odd" 60000
}

# A job that opens as a whole, which takes long when many others use the cores.
gone() {
    [ "$TUTTI_TRANSPORT" != shm ] || job "rank 0 \(.* is dead" 3 0 "$program" gone 0
}

calls() {
    odd=$([ "$TUTTI_TRANSPORT" = shm ] && echo 3 || echo 0)
    for name in root origin count dtype op coll; do
        job "calls are mismatched: rank $odd \(.* as request 3 " 4 "$odd" "$program" $name "$odd"
    done
    job "calls are mismatched: rank $odd \(.* called all-gather of [1-9][0-9]* f32 as request 3 " 4 "$odd" "$program" blocks "$odd"
    job "rank 1 \(.* has not entered request 4 .*: it has closed the communicator" 3 1 "$program" close 1
    # A rank that is still in a call when the others close hears of it there.
    job "found when|rank [02] 0|rank 1 .* it has closed the communicator" 3 1 "$program" bare 1
    if [ "$(grep -c 'rank 1 .* it has closed the communicator' <<<"$said")" != 3 ]; then
        printf 'FAILED: %s, no word about rank 1 that closed:\n%s\n' "$TUTTI_TRANSPORT" "$said"
        failures=$((failures + 1))
    fi
    job "rank 1 \(.* has not entered" 4 1 "$program" late 1
    job "rank 1 \(.* has not entered the other side of message 1" 3 1 "$program" message 1
}

limits() {
    printf '%s\n' "[ \"\$TUTTI_RANK\" != \"\$1\" ] || eval \"\$2\"" "exec $program count 9" >"$work/limited"
    if [ "$TUTTI_TRANSPORT" = shm ]; then
        job 'rank 0 \(.*cannot go on .* ulimit -f' 3 0 bash "$work/limited" 0 'ulimit -f 1000'
        job 'rank 2 \(.*cannot go on .* Too many open files' 3 2 bash "$work/limited" 2 'ulimit -n 12'
    else
        job 'rank 2 \(.*cannot go on .*(descriptors|open files)' 3 2 bash "$work/limited" 2 'ulimit -n 12'
    fi
}

for TUTTI_TRANSPORT in shm tcp; do
    export TUTTI_TRANSPORT TUTTI_TIMEOUT=2s
    "$3"
done
echo "$failures failures"
[ "$failures" = 0 ]
