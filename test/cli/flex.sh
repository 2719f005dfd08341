#!/usr/bin/env bash
# flex: the commands of the documents, shares and refusals, the experiment.
. "$(dirname "$0")/lib.sh"

runs 0 plan --topo 'tree:(8 4 2 1)@100Gbps/10Gbps' --algo flex --size 100M -o irregular.json
runs 0 verify irregular.json --json
json 'd["ok"] is True and d["ranks"] == 15 and d["method"] == "exact"'
runs 0 sim --topo 'tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps' --algo flex --size 100M --json
json 'd["algo"] == "flex" and 1 <= d["time_us"] / d["bound_us"] < 1.02'
runs 0 explain --topo nics:25G,25G,25G,10G --size 100M --json
json 'd["winner"] in ("flex", "forest", "double-tree") and [c for c in d["candidates"] if c["algo"] == "flex"][0]["ratio_to_bound"] < 1.05'

# even keeps the phases apart: 1.5 S/b where overlapped optimal shares need 1
runs 0 sim --topo nics:4G,4G,4G,1G@0 --algo flex --option shares=even --size 64M --level step --json
json 'abs(d["time_us"] / (1.5 * 67108864 * 8e-3) - 1) < 1e-3'
runs 0 sim --topo nics:4G,4G,4G,1G@0 --algo flex --size 64M --level step --json
json 'abs(d["time_us"] / (67108864 * 8e-3) - 1) < 1e-3'

# a reduce-scatter alone has equal blocks, unless asked for others: then no bound is stated
runs 0 plan --topo 'tree:(4 2)' --algo flex --size 1M --coll reduce-scatter -o rs.json
runs 0 sim --topo 'tree:(4 2)' --plan rs.json --json
json 'd["bound_us"] <= d["time_us"]'
runs 0 plan --topo 'tree:(4 2)' --algo flex --size 1M --coll reduce-scatter --option shares=branch -o rs.json
runs 0 sim --topo 'tree:(4 2)' --plan rs.json --json
json 'd["bound_us"] is None'

runs 1 plan --topo torus:4x4 --algo flex --size 1M --summary
complains 'no hierarchy'
runs 2 plan --topo nics:1G,2G --algo flex --size 1M --option shares=odd --summary
complains 'optimal.even.branch'

runs 0 repro flexreduce --quick --json --svg .
grep -q '<svg' flexreduce-hosts_8_4_2_1.svg || bad 'no picture'
python3 - flexreduce-slow_nic.svg <<'PROGRAM' || bad 'lines of a picture cannot be told apart'
import re, sys
text = open(sys.argv[1]).read()
lines = re.findall(r'<g stroke="(#\w+)"[^>]*><path fill="none" stroke-width="([\d.]+)"([^>]*?) d="[^"]*"/>\n<(\w+)( d="M[\d.]+ [\d.]+l5.5 \d)?', text)
assert len(lines) >= 8 and max(float(l[1]) for l in lines) <= 12, lines
assert len({(l[0], l[2], l[3], l[4][-1:]) for l in lines}) == len(lines), lines
assert len({(l[0], l[3], l[4][-1:]) for l in lines}) == len(lines), lines
assert 'part of the vector' not in text
PROGRAM
json 'd["ok"] is True and len(d["checks"]) == 5 and all(c["ok"] for c in d["checks"])'
json 'any("abstract" in n for n in d["notes"])'
json 'all(r["error_percent"] <= 0.1 for r in d["tables"]["hosts"]) and len(d["tables"]["hosts"]) == 6'
json '[round(r["branch"], 3) for r in d["tables"]["hosts"]] == [1.0, 1.0, 1.0, 1.333, 1.5, 1.5]'
json '[r["gain"] >= 1.4 for r in d["tables"]["nics"]][:2] == [True, True] and all(r["ratio_to_bound"] <= 1.02 for r in d["tables"]["nics"])'
finish
