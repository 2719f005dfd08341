#!/bin/bash
# elastic.sh TUTTI SHRINK ELASTIC - tutti run --elastic: a rank that dies does not end the job as long
# as enough are left; with fewer it is ended, and the last one to fail is named. With MIN..MAX it is
# started again and joins; --join adds a rank from outside.
set -u
tutti=$1 shrink=$2 elastic=$3 bad=0
export SHRINK_CHILD=1 TUTTI_TIMEOUT=20s

check() { # WHAT CONDITION...
    local what=$1
    shift
    "$@" || { echo "FAILED: $what"; bad=1; }
}

out=$("$tutti" run -n 3 --elastic 2 -- "$shrink" 3 first 2>err.$$); code=$?
check "two of three suffice" [ $code = 0 ]
check "two ended well" [ "$(grep -c '^END 2 1$' <<<"$out")" = 2 ]
check "the dead one is named" grep -q 'rank 0 (pid [0-9]*) was killed by signal 9.*; the others may go on: 2 of at least 2' err.$$
cat err.$$
"$tutti" run -n 3 --elastic 3 -- "$shrink" 3 first >/dev/null 2>err.$$; code=$?
check "three are needed" [ $code = 1 ]
check "the culprit is named" grep -q 'rank 0 (pid [0-9]*) was killed by signal 9.*; 2 ranks are left, at least 3 are needed' err.$$
cat err.$$
export TUTTI_REPRODUCIBLE=1
out=$(ELASTIC_DIE=0 "$tutti" run -n 3 --elastic 2..3 -- "$elastic" 700 500 2000 2>err.$$); code=$?
check "a rank is replaced: exit $code" [ $code = 0 ]
check "three ended well" [ "$(grep -c '^END 700 .* 3 2$' <<<"$out")" = 3 ]
check "with the same parameters" [ "$(grep '^END' <<<"$out" | cut -d' ' -f3 | sort -u | wc -l)" = 1 ]
check "the restart is announced" grep -q 'rank 0 (pid [0-9]*) was killed by signal 9.*; the others may go on: 2 of at least 2; it is started again in 0.1 s (restart 1 of 10)' err.$$
cat err.$$
out=$(ELASTIC_DIE=1 ELASTIC_AGAIN=1 "$tutti" run -n 3 --elastic 2..3 --restarts 2 -- "$elastic" 900 500 2000 2>err.$$); code=$?
check "a rank that dies again and again: exit $code" [ $code = 0 ]
check "is given up" grep -q 'it is not started again after 2 restarts' err.$$
check "the pause grows" grep -q 'it is started again in 0.2 s (restart 2 of 2)' err.$$
check "two ended well" [ "$(grep -c '^END 900 .* 2 5$' <<<"$out")" = 2 ]
cat err.$$
(umask 077; head -c 32 /dev/urandom >key.$$)
export TUTTI_KEY_FILE=$PWD/key.$$
TUTTI_LOG=info "$tutti" run -n 2 --elastic 1..3 -- "$elastic" 1500 500 2000 >out.$$ 2>err.$$ &
for _ in $(seq 300); do
    door=$(sed -n 's/.*newcomers may join at \(.*\)/\1/p' err.$$ | head -1)
    [ -n "$door" ] && break
    sleep 0.1
done
check "the door is logged" [ -n "$door" ]
joined=$("$tutti" run --join "$door" -- "$elastic" 1500 500 2000); code=$?
check "a rank joins from outside: exit $code" [ $code = 0 ]
wait $!; check "and the job ends well" [ $? = 0 ]
check "as three" grep -q '^END 1500 .* 3 1$' <<<"$joined"
check "with the same parameters" [ "$(cat out.$$ - <<<"$joined" | grep '^END' | cut -d' ' -f3 | sort -u | wc -l)" = 1 ]
"$tutti" run --join 127.0.0.1:1 -- "$elastic" 10 10 2>err.$$ >out.$$; check "nobody listens" [ $? = 1 ]
check "and it says so" grep -q 'nobody listens at 127.0.0.1:1' out.$$
unset TUTTI_KEY_FILE
"$tutti" run --join 127.0.0.1:1 -- true 2>err.$$; check "a key is needed" [ $? = 2 ]
"$tutti" run -n 4 --elastic 1..3 -- true 2>err.$$; check "more than the most" [ $? = 2 ]
"$tutti" run -n 4 --restarts 3 -- true 2>err.$$; check "restarts of what?" [ $? = 2 ]
"$tutti" run -n 2 --elastic 3 -- true 2>err.$$; check "more than there are" [ $? = 2 ]
"$tutti" run -n 2 --elastic x -- true 2>err.$$; check "no number" [ $? = 2 ]
"$tutti" run -n 2 --elastic 1 -- false 2>err.$$; check "all fail" [ $? = 1 ]
rm -f err.$$ out.$$ key.$$
exit $bad
