#!/usr/bin/env bash
# Our flow level (sharing rtt) against SimGrid, transfer by transfer of the same schedules: within 2 % in every case, or the test fails.
# Platforms are those of `tutti topo --simgrid`. Prints the table. SimGrid knows no connections, on which messages follow each other: cases in
# which a message would be ready before the one before it has left (uneven links, mostly) compare that rule, not the models, and are not in the list;
# replay counts such overlaps and the test fails when there are any.
# Usage: test/simgrid/compare.sh TUTTI TRANSFERS REPLAY
set -u
tutti=$1 transfers=$2 replay=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# topology, algorithm, bytes
cases="
star:8@1Gbps,50us ring 1048576
star:16@10Gbps,10us halving-doubling 4194304
star:8@10Gbps,5us direct 1048576
star:12@10Gbps,5us circulant 3000000
star:6@1Gbps,100us direct 65536
ring:8@16GB/s,150ns ring 8388608
ring:8@16GB/s,150ns direct 8388608
ring:16@10Gbps,1us halving-doubling 1048576
ring:9@10Gbps,1us circulant 1000000
torus:4x4@16GB/s,150ns ring 4194304
torus:4x4@16GB/s,150ns halving-doubling 1048576
torus:4x4@16GB/s,150ns direct 16777216
torus:8x8@16GB/s,150ns halving-doubling 4194304
torus:8x8@16GB/s,150ns ring 65536
torus:3x5@10Gbps,2us direct 1000000
torus:4x4x2@16GB/s,150ns recursive-doubling 262144
torus:8x8@16GB/s,150ns bucket 1048576
mesh:4x4@16GB/s,150ns halving-doubling 1048576
mesh:2x4@10Gbps,1us direct 2000000
mesh:3x3@10Gbps,1us ring 2000000
mesh:4x4@10Gbps,1us circulant 2000000
mesh:4x4@16GB/s,150ns double-tree 1048576
hypercube:16@10Gbps,1us halving-doubling 1048576
hypercube:16@10Gbps,1us ring 1048576
full:8@10Gbps,1us direct 1048576
dln:16@100Gbps,1us circulant 1048576
dln:16@100Gbps,1us ring 1048576
dln:20@10Gbps,3us direct 4194304
fattree:4,2@16GB/s,150ns ring 4194304
fattree:4,2@16GB/s,150ns halving-doubling 1048576
fattree:4,2@16GB/s,150ns direct 8388608
fattree:2,3@10Gbps,1us circulant 1048576
bigraph:4x4@16GB/s,150ns ring 1048576
bigraph:4x4@16GB/s,150ns halving-doubling 4194304
bigraph:4x4@16GB/s,150ns direct 1048576
tree:((4_4)_(4_4))@100Gbps/25Gbps/10Gbps,1us halving-doubling 4194304
tree:((4_4)_(4_4))@100Gbps/25Gbps/10Gbps,1us recursive-doubling 262144
tree:((4_4)_(4_4))@100Gbps/25Gbps/10Gbps,1us hierarchical 4194304
nics:10G,10G,10G,2.5G recursive-doubling 1048576
nics:10G,10G,10G,2.5G direct 1048576
dragonfly:3,2,2@100Gbps,1us ring 4194304
dragonfly:3,2,2@100Gbps,1us circulant 4194304
dragonfly:2,4,2@100Gbps,1us recursive-doubling 1048576
star:9@10Gbps,1us double-tree 1048576
ring:10@10Gbps,1us bi-ring 1048576
torus:4x8@10Gbps,5us swing 65536
dragonfly:3,2,2@100Gbps,1us binomial 1048576
ring:8@10Gbps,1us,0,half direct 1048576
star:8@10Gbps,5us,0,half halving-doubling 1048576
"
n=0 bad=0 contended=0 switched=0
printf '%-46s %-20s %10s %6s %14s %14s %8s\n' topology algorithm bytes cont. ours_us simgrid_us diff
while read -r spec algo bytes; do
    [ -n "$spec" ] || continue
    spec=${spec//_/ }
    ours=$("$transfers" "$spec" "$algo" "$bytes" "$dir/t") && "$tutti" topo "$spec" --simgrid >"$dir/p.xml" &&
        theirs=$("$replay" "$dir/t" "$dir/p.xml") || { echo "FAILED: $spec $algo $bytes"; bad=$((bad + 1)); continue; }
    read -r time contention switches _ <<<"$ours"
    read -r other _ overlaps <<<"$theirs"
    diff=$(awk -v a="$time" -v b="$other" 'BEGIN { printf "%.3f", 100 * (a / b - 1) }')
    printf '%-46s %-20s %10s %6s %14s %14s %7s%%\n' "$spec" "$algo" "$bytes" "$contention" "$time" "$other" "$diff"
    n=$((n + 1))
    [ "$contention" -lt 2 ] || contended=$((contended + 1))
    [ "$switches" = 0 ] || switched=$((switched + 1))
    [ "$overlaps" = 0 ] || { echo "FAILED: $overlaps transfers of one connection overlap"; bad=$((bad + 1)); }
    awk -v d="$diff" 'BEGIN { exit !(d > 2 || d < -2) }' && { echo "FAILED: more than 2 %"; bad=$((bad + 1)); }
done <<<"$cases"
echo "$n cases, $contended with contention, $switched with switches, $bad beyond 2 %"
[ "$n" -ge 30 ] && [ "$contended" -ge 10 ] && [ "$switched" -ge 5 ] && [ "$bad" = 0 ]
