#!/bin/bash
# admit_lab.sh TUTTI ELASTIC ELASTIC_TRAIN - on emulated hosts: three ranks begin, the process on the
# fourth host joins them over the network, and rank 1 is killed. Then a trainer on three hosts, where
# the lab starts the killed rank again (--elastic). Rank 0, whose output the lab shows, must both times
# end with three ranks after two changes and find its replay equal.
if [ "$(id -u)" != 0 ]; then
    echo "skipped: not root, network namespaces cannot be made"
    exit 0
fi
worker='[ "$TUTTI_RANK" != 3 ] || { sleep 0.3; export TUTTI_JOIN=$TUTTI_RENDEZVOUS; }; TUTTI_SIZE=3 exec "$0" 1000 1000 1000'
out=$(ELASTIC_DIE=1 TUTTI_REPRODUCIBLE=1 "$1" lab --nodes 4 --rate 1gbit --timeout 20s -- bash -c "$worker" "$2" 2>&1)
grep -v STEP <<<"$out"
grep -q '^END 1000 [0-9a-f]* 3 2$' <<<"$out" || exit 1
worker='export ELASTIC_ID=$TUTTI_RANK; [ -z "$TUTTI_JOIN" ] || ELASTIC_ID=3; exec "$0" 1500 300 1000 10'
out=$(ELASTIC_DIE=1 "$1" lab --nodes 3 --elastic 2..3 --timeout 20s -- bash -c "$worker" "$3" 2>&1) || status=$?
grep -v STEP <<<"$out"
grep -q 'rank 1 (host node1, .* is started again' <<<"$out" || exit 1
grep -q '^END 1500 [0-9a-f]* 3 2$' <<<"$out" && exit ${status:-0}
