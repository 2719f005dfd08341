#!/bin/bash
# elastic.sh TUTTI SHRINK - tutti run --elastic: a rank that dies does not end the job as long as
# enough are left; with fewer it is ended, and the last one to fail is named.
set -u
tutti=$1 shrink=$2 bad=0
export SHRINK_CHILD=1 TUTTI_TIMEOUT=20s

check() { # WHAT CONDITION...
    local what=$1
    shift
    "$@" || { echo "FAILED: $what"; bad=1; }
}

out=$("$tutti" run -n 3 --elastic 2..3 -- "$shrink" 3 first 2>err.$$); code=$?
check "two of three suffice" [ $code = 0 ]
check "two ended well" [ "$(grep -c '^END 2 1$' <<<"$out")" = 2 ]
check "the dead one is named" grep -q 'rank 0 (pid [0-9]*) was killed by signal 9.*; the others may go on: 2 of at least 2' err.$$
cat err.$$
"$tutti" run -n 3 --elastic 3 -- "$shrink" 3 first >/dev/null 2>err.$$; code=$?
check "three are needed" [ $code = 1 ]
check "the culprit is named" grep -q 'rank 0 (pid [0-9]*) was killed by signal 9.*; 2 ranks are left, at least 3 are needed' err.$$
cat err.$$
"$tutti" run -n 2 --elastic 1..4 -- true 2>err.$$; code=$?
check "nobody can join" [ $code = 2 ]
check "and it says so" grep -q 'none can join' err.$$
"$tutti" run -n 2 --elastic 3 -- true 2>err.$$; check "more than there are" [ $? = 2 ]
"$tutti" run -n 2 --elastic x -- true 2>err.$$; check "no number" [ $? = 2 ]
"$tutti" run -n 2 --elastic 1 -- false 2>err.$$; check "all fail" [ $? = 1 ]
rm -f err.$$
exit $bad
