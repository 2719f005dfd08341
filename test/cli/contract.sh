#!/usr/bin/env bash
# The command-line contract: exit codes, JSON fields scripts rely on, pipes.
. "$(dirname "$0")/lib.sh"

runs 0 topo torus:8x8@16GB/s,150ns
says 'ranks +64'
runs 0 topo torus:8x8@16GB/s,150ns --json
json 'd["ranks"] == 64 and d["switches"] == 0 and d["links"] == 128 and d["degree"] == 4 and d["diameter"] == 8'
runs 0 topo star:7 --dot
says 'graph'
runs 0 topo star:7 --simgrid
says '<platform'
runs 0 topo fattree:8,2 --file
cp out cluster.json
runs 0 topo cluster.json --json
json 'd["ranks"] == 64 and d["switches"] == 16'
runs 0 topo cluster.json --file
cmp -s out cluster.json || bad "a topology file does not read back identical"

runs 0 algos --json
json 'all({"name", "desc", "needs"} <= set(a) for a in d)'
json '[a["name"] for a in d] == ["ring", "bi-ring", "recursive-doubling", "halving-doubling", "circulant", "direct", "double-tree", "bucket", "hierarchical", "swing", "chain", "binomial", "oneshot", "multitree", "shd", "hdrm", "flex", "forest"]'

runs 0 plan --topo star:7@10Gbps,20us --algo circulant --size 64M -o plan.json
runs 0 verify plan.json
says '^correct: 7 ranks, [0-9]+ ops'
runs 0 verify plan.json --json
json 'd["ok"] is True and d["ranks"] == 7 and d["ops"] > 0 and d["method"] == "exact"'
runs 0 plan --topo star:7@10Gbps,20us --algo circulant --size 64M --summary --json
json 'd["algo"] == "circulant" and d["steps"] == 6 and d["chunks"] == 7 and d["ops"] > 0 and d["predicted_us"] >= d["bound_us"] > 0 and abs(d["ratio_to_bound"] - d["predicted_us"] / d["bound_us"]) < 1e-9'
"$tutti" plan --topo star:16@1Gbps,50us --algo auto --size 1M | "$tutti" verify - >out 2>err || bad "plan | verify: $(cat err)"
says '^correct: 16 ranks'

runs 0 bound --topo torus:8x8@16GB/s,150ns --size 64M --json
json 'd["bound_us"] > 0 and d["kind"] in ("latency", "rounds", "volume", "cut") and len(d["certificate"]) > 20'
runs 0 explain --topo star:8@1Gbps,50us --size 64K --json
json 'd["winner"] in [c["algo"] for c in d["candidates"]]'
json '1.02 * min(c["predicted_us"] for c in d["candidates"] if c["predicted_us"] is not None) >= [c["predicted_us"] for c in d["candidates"] if c["algo"] == d["winner"]][0]'
json 'all((c["predicted_us"] is None) == (c["refused"] or c["skipped"]) and (not c["refused"] or len(c["why"]) > 10) for c in d["candidates"])'
json 'all(c["ratio_to_bound"] >= 1 for c in d["candidates"] if c["predicted_us"] is not None)'
runs 0 explain --topo star:8@1Gbps,50us --size 64K --envelope 1K..64M --json
json 'd["envelope"][0]["from_bytes"] == 1024 and d["envelope"][-1]["to_bytes"] == 64 << 20'
runs 0 sim --level step --topo star:7@10Gbps,20us --plan plan.json --json
json '{"time_us", "steps", "messages", "bytes_on_busiest_link", "busiest_link", "busiest_link_name", "max_link_contention", "bound_us", "ratio_to_bound", "events", "wall_s"} <= set(d) and d["steps"] == 6'
cp out sim.json
runs 0 plan --topo star:7@10Gbps,20us --algo circulant --size 64M --summary --json
python3 -c 'import json,sys; sys.exit(json.load(open("sim.json"))["time_us"] != json.load(open("out"))["predicted_us"])' || bad "sim --level step is not predicted_us"
# all parts of the time are shown: 12 * 40 us, 12 * 1/7 MiB at 1.25 GB/s, 6 * 1/7 MiB at 1 ns per byte, 12 * 3 us
runs 0 sim --level step --topo star:7,overhead=3us@10Gbps,20us,1ns --algo ring --size 1M
says '^ring: 2.853 ms in 12 steps \(latency 480 us, links 1.438 ms, reduction 898.9 us, host overhead 36 us\)$'
runs 0 sim --level step --topo star:7,overhead=3us@10Gbps,20us,1ns --algo ring --size 1M --json
json 'abs(d["time_us"] - d["latency_us"] - d["transfer_us"] - d["reduce_us"] - d["overhead_us"]) < 1e-6'
# what the budget left out is said
runs 0 plan --topo torus:16x16 --size 4M --budget 5ms --summary
says '^not priced \(planning budget\): .*ring.*; --budget 25ms may find a better one$'
runs 0 plan --topo torus:16x16 --size 4M --budget 5ms --summary --json
json '"ring" in d["skipped"] and d["algo"] not in d["skipped"]'
runs 0 explain --topo torus:16x16 --size 4M --budget 5ms
says '^not priced \(planning budget\): .*ring.*; --budget 25ms may find a better one$'
# numbers for people have no exponents
says 'about [0-9.]+ (thousand|million) operations exceed'
grep -E '[0-9]e[+-][0-9]' out && bad "an exponent: $(cat out)"
runs 0 plan --topo star:4 --size 4M --summary
grep -q 'not priced' out && bad "not priced: $(cat out)"
# a candidate whose time cannot be told is refused, the others are compared
runs 0 explain --topo star:8@1Mbps --size 1T --json
json 'd["winner"] == "halving-doubling" and [c["refused"] and "2^64" in c["why"] for c in d["candidates"] if c["algo"] == "oneshot"] == [True]'
# one of a thing is not many
runs 0 topo full:2
says '1 cable, '
says 'diameter +1 link$'
says 'mean path +1 link$'
runs 0 plan --topo star:2 --algo oneshot --size 4 --summary
says ': 1 step, [0-9]+ ops, 1 chunk, 1 segment$'
runs 0 topo --kinds
says 'shortcuts of ceil\(N/2\), ceil\(N/4\)'
# chunks of different sizes: the planner looks at one rank, the plan file holds all of them, and both say the same
for a in ring bi-ring circulant direct; do
    runs 0 plan --topo dln:12@1GB/s,1us,1ps --algo $a --size 1000004 -o odd.json --json
    json 'd["exact"] and d["ops"] > 0'
    cp out plan.odd
    runs 0 sim --level step --topo dln:12@1GB/s,1us,1ps --plan odd.json --json
    cp out sim.odd
    runs 0 sim --level step --topo dln:12@1GB/s,1us,1ps --algo $a --size 1000004 --json
    python3 -c 'import json,sys
p, f, d = (json.load(open(n)) for n in ("plan.odd", "sim.odd", "out"))
f["wall_s"] = d["wall_s"]
sys.exit(f != d or d["time_us"] != p["predicted_us"])' || bad "$a: sim by plan file and by algorithm differ"
done
# bounds are about equal blocks: none is stated for a plan with other ones, which may be faster than the bound
python3 -c 'import json
json.dump(dict(format="tutti-schedule", version=1, coll="gather", ranks=2, root=0, algo="mine", options="", count=1 << 20, dtype="f32",
    op="sum", topo_hash="0" * 16, chunks=2, buffers=2, segments=1, inplace=False, symmetric=False, owner=[0, 0],
    slices=[[[4, 0, 0, 0, 1, 0, 0, 2, 0, 1]], []]), open("uneven.json", "w"))'
runs 0 verify uneven.json
runs 0 sim --level step --topo star:2 --plan uneven.json
says "^bound not stated: the plan's blocks are uneven\$"
runs 0 sim --level step --topo star:2 --plan uneven.json --json
json 'd["bound_us"] is None and d["time_us"] == 0'
runs 1 plan --summary --topo ring:65536 --size 64M --algo direct
complains 'direct: its price takes about 4.3 billion operations'
# too large to build, not too large to price and count
runs 0 plan --topo star:65536 --algo ring --size 100M --summary --json
json 'd["ops"] == 65536 * 262140 and d["steps"] == 131070 and d["exact"]'
runs 2 plan --topo star:65536 --algo ring --size 100M -o huge.json
complains 'GiB of memory; a schedule may have'

for c in reduce-scatter all-gather broadcast reduce gather scatter all-to-all; do
    runs 0 plan --topo star:6 --coll $c --size 6000 -o $c.json
    runs 0 verify $c.json
    says "^correct: 6 ranks.*$c"
done
runs 0 plan --topo star:6 --coll barrier -o barrier.json
runs 0 verify barrier.json
runs 0 plan --topo star:6 --coll broadcast --root 5 --size 1M -o root.json
runs 0 verify root.json

runs 0 --help
says 'explain'
commands=$(sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p' out)
[ "$(wc -w <<<"$commands")" -ge 19 ] || bad "--help lists too few commands: $commands"
for c in $commands; do
    runs 0 $c --help
    says '^examples:'
    says "tutti $c"
    grep -nE '.{101}' out && bad "$c --help has lines of more than 100 columns"
done
TUTTI_TOPO=star:5 runs 0 explain --size 1K --json
json 'd["winner"]'
TUTTI_TOPPO=1 runs 0 algos
grep -q 'unknown variable TUTTI_TOPPO' err || bad "unknown TUTTI_ variable not warned about"
finish
