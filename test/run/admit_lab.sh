#!/bin/bash
# admit_lab.sh TUTTI ELASTIC - on emulated hosts: three ranks begin, the process on the fourth host
# joins them over the network, and rank 1 is killed. Rank 0, whose output the lab shows, must end with
# three ranks after two changes and find its replay equal.
if [ "$(id -u)" != 0 ]; then
    echo "skipped: not root, network namespaces cannot be made"
    exit 0
fi
worker='[ "$TUTTI_RANK" != 3 ] || { sleep 0.3; export TUTTI_JOIN=$TUTTI_RENDEZVOUS; }; TUTTI_SIZE=3 exec "$0" 1000 1000 1000'
out=$(ELASTIC_DIE=1 TUTTI_REPRODUCIBLE=1 "$1" lab --nodes 4 --rate 1gbit --timeout 20s -- bash -c "$worker" "$2" 2>&1)
grep -v STEP <<<"$out"
grep -q '^END 1000 [0-9a-f]* 3 2$' <<<"$out"
