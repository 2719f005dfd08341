#!/usr/bin/env bash
# What-ifs of explain and sim: a changed network is priced as the same network described with the change.
. "$(dirname "$0")/lib.sh"

# priced: bound, and every candidate's time, of the last run
priced() { python3 -c 'import json
d = json.load(open("out"))
print(d["bound_us"], sorted((c["algo"], c["predicted_us"]) for c in d["candidates"] if c["algo"] not in ("oneshot",) and not c["refused"]))'; }

# A degraded link of a star is a slower NIC; so is a slow rank.
runs 0 explain --topo nics:10G,10G,10G,2.5G@10Gbps,5us --size 16M --json
described=$(priced)
for change in '--degrade link=rank 3-switch 0,factor=4' '--degrade link=3,factor=4' '--slow rank=3,factor=4' '--slow rank=rank 3,factor=4' '--degrade link=3,factor=2 --slow rank=3,factor=2'; do
    case $change in *' --slow'*) set -- --degrade link=3,factor=2 --slow rank=3,factor=2 ;; *) set -- "${change%% *}" "${change#* }" ;; esac
    runs 0 explain --topo star:4@10Gbps,5us --size 16M --json "$@"
    [ "$(priced)" = "$described" ] || bad "$change is not priced as the uneven NICs are: $(priced) and $described"
    json 'd["as_described"]["predicted_us"] < d["predicted_us"] and d["as_described"]["winner_after_us"] >= d["predicted_us"] * 0.98'
done
# One direction only: the bound of the other one stays.
runs 0 explain --topo star:4@10Gbps,5us --size 16M --json --degrade 'link=rank 3 -> switch 0,factor=4'
json 'd["bound_us"] > d["as_described"]["bound_us"]'

# A torus without a cable is the file without it.
runs 0 topo torus:4x4@10Gbps --file
python3 - <<'PROGRAM' >cut.json
import json
d = json.load(open("out"))
d["links"] = [l for l in d["links"] if set(l[:2]) != {0, 1}]
print(json.dumps({k: d[k] for k in ("ranks", "links")}))
PROGRAM
runs 0 explain --topo cut.json --size 4M --json
described=$(priced)
runs 0 explain --topo torus:4x4@10Gbps --size 4M --down 'link=rank 0-rank 1' --json
[ "$(priced)" = "$described" ] || bad "a cable that is down is not priced as one that is not there"
json 'd["as_described"]["winner"] == "bucket"'
runs 0 explain --topo torus:4x4@10Gbps --size 4M --down 'link=rank 0-rank 1'
says 'without the what-if: bucket, [0-9.]+ [mu]?s; with it [0-9.]+ times as long; bucket is refused then: .{10}'
runs 0 explain --topo torus:4x4@10Gbps --size 4M --down 'link=rank 0-rank 1' --json
json 'd["as_described"]["winner_after_us"] is None and len(d["as_described"]["winner_after_why"]) > 10'
runs 0 sim --topo cut.json --algo ring --size 1M --json
cp out described.json
runs 0 sim --topo torus:4x4@10Gbps --algo ring --size 1M --down 'link=rank 0-rank 1' --json
json 'all(d[k] == json.load(open("described.json"))[k] for k in ("time_us", "bound_us", "messages"))'
runs 0 sim --topo torus:4x4@10Gbps --algo ring --size 1M --down link=0 --level step
# Names that a file gives.
echo '{"ranks": 3, "switches": 1, "names": ["ann", "bob", "eve", "hub"], "links": [[0, 3, "1Gbps"], [1, 3, "1Gbps"], [2, 3, "1Gbps"]]}' >named.json
runs 0 explain --topo named.json --size 1M --slow rank=eve,factor=3 --degrade link=ann-hub,factor=2
says 'without the what-if'
runs 0 sim --topo named.json --size 1M --slow rank=eve,factor=3 --degrade 'link=ann -> hub,factor=2'

# Certificates use them.
echo '{"ranks": 4, "switches": 2, "names": ["ann", "bob", "eve", "joe", "a", "b"], "links": [[0, "a", "10Gbps"], [1, "a", "10Gbps"], [2, "b", "10Gbps"], [3, "b", "10Gbps"], ["a", "b", "1Gbps"]]}' >two.json
runs 0 bound --topo two.json --size 1M
says '1 MiB must leave (ann, bob|eve, joe) \(2 of 4\)'
grep -q 'ranks* [0-9]' out && bad "a rank with a name is called by its number: $(cat out)"

runs 1 explain --topo star:4 --size 1M --down 'link=rank 3-switch 0'
complains 'rank 0 cannot reach rank 3'
runs 2 explain --topo star:4 --size 1M --down 'rank 3-switch 0'
complains 'link=A-B is expected'
runs 2 explain --topo star:4 --size 1M --down 'link=rank 3-rank 2'
complains 'no link joins'
runs 2 explain --topo named.json --size 1M --slow rank=joe,factor=2
complains 'there is no rank "joe"'
runs 2 explain --topo named.json --size 1M --slow rank=hub,factor=2
complains 'there is no rank "hub"'
runs 2 explain --topo star:4 --size 1M --degrade link=0,factor=0
complains 'factor'
runs 0 explain --topo star:4 --size 1M --json
json '"as_described" not in d'
runs 2 explain --topo star:8 --size 1M --slow rank=3,factor=0
complains "factor '0': a number above 0 and at most 1e9 is needed"
runs 2 explain --topo star:8 --size 1M --down 'link=rank 9-switch 0'
complains 'star:8 has 8 ranks and 1 switch, counted from 0'
finish
