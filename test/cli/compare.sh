#!/usr/bin/env bash
# Networks side by side: the table is what plan says of each, winners and costs follow from it, the picture has units.
. "$(dirname "$0")/lib.sh"

runs 0 compare star:8@10Gbps,1us torus:2x4@10Gbps,1us ring:8@10Gbps,1us --sizes 64K..4M --json
cp out compared
json 'd["coll"] == "allreduce" and [n["cables"] for n in d["networks"]] == [8, 12, 8] and [n["switches"] for n in d["networks"]] == [1, 0, 0]'
json '[n["cost"] for n in d["networks"]] == [9, 12, 8] and [r["bytes"] for r in d["rows"][::3]] == [65536, 262144, 1048576, 4194304]'
json 'all(abs(r["time_x_cost"] - r["predicted_us"] * n["cost"]) < 1e-6 * r["time_x_cost"] for i, r in enumerate(d["rows"]) for n in [d["networks"][i % 3]])'
json 'all(r["fastest"] == (r["predicted_us"] == min(x["predicted_us"] for x in d["rows"] if x["bytes"] == r["bytes"])) for r in d["rows"])'
json 'all(sum(r[k] for r in d["rows"] if r["bytes"] == 65536) == 1 for k in ("fastest", "least_time_x_cost"))'
for topo in star:8@10Gbps,1us ring:8@10Gbps,1us; do
    runs 0 plan --topo "$topo" --algo auto --size 1M --summary --json
    json "any(r['topo'] == '$topo' and r['bytes'] == 1 << 20 and r['algo'] == d['algo'] and r['predicted_us'] == (d['flow_us'] or d['predicted_us']) and abs(r['ratio_to_bound'] * d['bound_us'] - r['predicted_us']) < 1e-9 * r['predicted_us'] for r in json.load(open('compared'))['rows'])"
done

runs 0 compare star:8@10Gbps,1us ring:8@10Gbps,1us --sizes 1K..3K --factor 2 --coll all-gather --cost 1,100 --svg picture.svg
says 'ring:8@10Gbps,1us +8 +8 +0 +8$'
says 'star:8@10Gbps,1us +8 +8 +1 +108$'
says '^ +3 KiB '
grep -q '>1 KiB<' picture.svg && grep -Eq '>[0-9.]+ us<' picture.svg && grep -q 'ring:8@10Gbps,1us: 8 cables, 0 switches' picture.svg || bad 'the picture lacks units or a legend'
python3 -c 'import sys, xml.dom.minidom as m; m.parse("picture.svg")' || bad 'the picture is no XML'
# Lines that coincide: the one beneath is the wider one.
runs 0 compare star:8@10Gbps star:8@10Gbps,1us --sizes 1M..16M --svg -
python3 - <<'PROGRAM' || bad 'one of two equal lines is hidden'
import re
widths = [float(w) for w in re.findall(r'stroke-width="([0-9.]+)"', open("out").read())]
assert len(widths) == 2 and widths[0] > widths[1], widths
PROGRAM
runs 0 compare star:8 star:16 --sizes 1M..1M
says 'the networks have different numbers of ranks'
runs 2 compare star:8 star:8 --sizes 1M
complains 'MIN..MAX is needed'
runs 2 compare star:8 strar:8
complains 'did you mean star'
runs 2 compare star:8 --coll barrier
complains 'no sizes to compare'
runs 2 compare star:8 --cost 1
complains 'what a cable and a switch cost'
runs 2 compare star:8 --cost 1,-1
complains 'what a cable and a switch cost'
runs 2 compare star:8 --sizes 3..1K
complains 'whole numbers of f32'
runs 2 compare star:8 --json --svg -
complains 'only one of'
runs 2 compare
# Times are those by which plans are chosen: a network with no slower link is at no size the slower one.
runs 0 compare nics:6x25G,2x10G star:8@10Gbps,1us --sizes 64K..4M --json
json 'all(a["predicted_us"] <= b["predicted_us"] and a["chosen_by"] == "flow" and a["fastest"] for a, b in zip(d["rows"][::2], d["rows"][1::2]))'
finish
