#!/usr/bin/env bash
# What tutti run makes of jobs whose ranks do not say themselves how they ended. Usage: launch.sh TUTTI PROGRAM
tutti=$1 program=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export XDG_CACHE_HOME=$work
unset TUTTI_TRANSPORT TUTTI_ALGO TUTTI_TOPO TUTTI_REPORT TUTTI_TIMEOUT

bad() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# job CODE WORDS...: a job of 3 ends with CODE; out and err are what it said
job() {
    local want=$1 code
    shift
    timeout 60 "$tutti" run -n 3 --timeout 2s -- "$program" "$@" >out 2>err </dev/null
    code=$?
    [ "$code" = "$want" ] || bad "$*: exit $code, not $want: $(cat out err)"
}
complains() {
    grep -Eq -- "$1" err || bad "not '$1' but: $(cat err)"
}
silent() {
    ! grep -Eq -- "$1" out err || bad "says '$1': $(cat out err)"
}

# a rank that is stopped and that the others have left alone
job 1 stop
complains '^tutti run: rank 1 \(pid [0-9]+\), which the other ranks blame, is still stopped 3 s after'
[ "$(grep -c '^rank [02]: rank 1 .* is stuck' out)" = 2 ] || bad "the others do not blame rank 1: $(cat out err)"
# also when another one was blamed before
job 1 stop 'hint 2 of 3: late'
complains '^tutti run: rank 1 \(pid [0-9]+\), which the other ranks blame, is still stopped 3 s after they have ended: rank 1 '
# a rank that is blamed and works is left alone
job 0 abort
grep -q '^checkpoint written$' out || bad "no checkpoint: $(cat out err)"
silent '^tutti run'
# a rank that is late for the end only is left alone
job 0 late
silent '^tutti run'
# no call can tell that the roots differ: the exit status does
job 1 roots
complains '^tutti run: the ranks exited with status 0, but results are wrong: calls are mismatched: rank [0-2] '
job 1 roots 'hint all of 3: refused'
complains '^tutti run: the ranks exited with status 0, but results are wrong: calls are mismatched: rank [0-2] '
# what calls have answered is not told again by closing
job 0 twice
[ "$(grep -c '^rank [0-2]: calls are mismatched' out)" = 3 ] || bad "not all ranks have heard it: $(cat out err)"
silent 'found when the communicator was closed'
# a message that nobody receives
job 0 lost
grep -Eq 'rank 1 warn: found when the communicator was closed: a message of 16 f32 from rank 0 was never received$' err ||
    bad "a lost message: $(cat out err)"
# a rank that dies before the first call of the others
job 1 crash
silent 'last heard in step'
complains '^tutti run: rank 1 .* was killed by signal 11'

# what all ranks refuse is nobody's fault, what rank 0 alone cannot do is rank 0's
echo '{"tutti": "plan"}' >wrong.json
TUTTI_PLAN=$work/wrong.json job 1 open
complains "^tutti run: the ranks failed together: .*wrong.json"
silent '^tutti run: (rank|failed)'
TUTTI_TUNING=$work/nosuch.json job 1 open
complains '^tutti run: the ranks failed together: tuning file .*nosuch.json'
TUTTI_DUMP=/nosuch/folder job 1 open
complains '^tutti run: rank 0 .* exited with status 1$'

# timeout(1) sends two SIGTERMs: one request; a later one insists
for pause in 0.01 1.2; do
    rm -f ready.*
    "$tutti" run -n 2 --timeout 30s -- bash -c 'trap "sleep 2; echo saved; exit 0" TERM; : >ready.$RANK; while :; do sleep 0.05; done' >out 2>err &
    pid=$!
    for _ in $(seq 600); do
        [ -e ready.0 ] && [ -e ready.1 ] && break
        sleep 0.05
    done
    kill -s TERM $pid
    sleep $pause
    kill -s TERM $pid
    wait $pid
    echo "$? $(grep -c saved out)" >got
    [ $pause = 0.01 ] && want='0 2' || want='1 0'
    [ "$(cat got)" = "$want" ] || bad "SIGTERMs $pause s apart: $(cat got), not $want: $(cat out err)"
done

echo "$failures failures"
[ "$failures" = 0 ]
