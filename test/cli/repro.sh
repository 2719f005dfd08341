#!/usr/bin/env bash
# Experiments: the list, the report of dln with what must hold, JSON, pictures, bad input.
. "$(dirname "$0")/lib.sh"

runs 0 repro
says '^dln '
runs 0 repro --json
json '"dln" in [e["name"] for e in d]'
runs 2 repro dnl
complains 'no experiment .dnl.; did you mean dln'
touch file
runs 2 repro dln --svg file --quick
complains 'cannot write in file'
runs 2 repro dln --svg no-such/directory --quick
complains 'cannot make the folder no-such/directory'

# Notes are paragraphs of a screen's width.
runs 0 repro hybrid --quick
[ "$(awk '/^$/ { exit } /^- / { notes++ } length > 100 { long++ } END { print (notes > 1) long + 0 }' out)" = 10 ] || bad "notes: $(head -12 out)"

runs 0 repro all --quick --json --svg pictures
json '[e["experiment"] for e in d] == ["dear", "dln", "hybrid", "multitree", "flexreduce"] and all(e["ok"] for e in d)'
cp out all
python3 -c 'import json; json.dump(json.load(open("all"))[1], open("out", "w"))'
grep -q '<svg' pictures/dln-sizes.svg || bad 'no picture'
grep -q '>64 MiB<' pictures/dln-sizes.svg && grep -q '>10 ms<' pictures/dln-sizes.svg || bad "axes without units: $(grep -o 'middle\">[^<]*' pictures/dln-sizes.svg)"
json 'd["experiment"] == "dln" and d["ok"] is True and len(d["checks"]) == 8 and all(c["ok"] for c in d["checks"])'
json 'any("working definitions" in n.lower() for n in d["notes"])'
json 'all(r["max_link_contention"] == 1 and abs(r["time_us"] / r["closed_form_us"] - 1) < 1e-6 and r["gain"] >= 1.9 for r in d["tables"]["full"])'
json '{r["ranks"] for r in d["tables"]["full"]} == {64, 256, 1024, 4096, 16384, 65536}'
json '[(r["ranks"], r["flow_us"]) for r in d["tables"]["flow"] if r["case"] == "DLN+SHD, 1 port" and r["bytes"] == 65536] == [(64, 11.83392), (256, 12.4608), (1024, 12.99552), (4096, 13.5072)]'
json 'any(r["flow_us"] > r["step_us"] for r in d["tables"]["flow"]) and [(r["ranks"], r["step_us"], r["flow_us"]) for r in d["tables"]["flow"] if r["case"] == "MultiTree on torus" and r["bytes"] == 65536] == [(64, 7.06928, 3.80576)]'
json 'all(r["left_out"] or r["flow_us"] for r in d["tables"]["flow"]) and {r["bytes"] for r in d["tables"]["flow"]} == {65536, 268435456}'
json 'all(r["our_cables"] <= r["cables"] and (r["winner"] == "DLN+SHD") == (r["our_us"] <= r["time_us"]) for r in d["tables"]["cable_count"])'
json '[(r["cables"], r["time_us"], r["our_cables"], r["winner"]) for r in d["tables"]["cable_count"] if r["case"] == "fat-tree, HD"] == [(2048, 18.03552, 1856, "DLN+SHD")]'
json 'all(abs(r["error_percent"]) <= 1 for r in d["tables"]["truncated"])'
json '[r["F"] for r in d["tables"]["truncated"] if r["ranks"] == 1024][:6] == [5.0, 2.75, 1.75, 1.3125, 1.125, 1.046875]'
json '{r["ports"] for r in d["tables"]["ports"]} == {"1", "2", "4", "all"}'
json 'all(r["vs_dln_shd"] > 0.99 for r in d["tables"]["ports"] if r["case"] not in ("DLN+SHD", "2D-DLN+SHD", "HD on hypercube"))'
json 'all(abs(r["difference_percent"]) <= 15 for r in d["tables"]["leaders"]) and len(d["tables"]["leaders"]) == 36'
json '[(r["degree"], r["diameter"], r["cables"]) for r in d["tables"]["networks"] if r["network"] == "dln:1024"] == [(19, 5, 9728)]'

# the commands of the documents
runs 0 topo dln:1024,t=3@100Gbps,126ns --json
json 'd["degree"] == 7 and d["links"] == 3584 and d["bisection_links"] == 16 and d["bisection_exact"] is False and d["floor"]["racks"] == 64'
runs 0 topo dln2d:32x32,t=2 --json --per-rack 64
json 'd["degree"] == 10 and d["floor"]["rack_rows"] == 4 and d["floor"]["cable_max_m"] == 4 + 3 * 2.1 and d["floor"]["cable_total_m"] > 0'
runs 0 topo fattree:4,2 --json
json 'd["floor"] is None and d["bisection_links"] == 8'
runs 2 topo dln:8 --per-rack 0
complains '0'
runs 0 sim --level step --topo dln:1024@100Gbps,126ns --algo shd --size 100M --option segments=1 --json
json 'd["max_link_contention"] == 1 and d["steps"] == 20 and abs(d["time_us"] - (20 * 0.126 + 2 * 1023 / 1024 * 104857600 / 12500)) < 1'
runs 0 explain --topo dln:256,t=2@100Gbps,126ns --size 8M --json
json 'any(c["algo"] == "shd" and c["predicted_us"] for c in d["candidates"])'
runs 1 plan --topo dln:16 --algo shd --size 1M --option grid=3x5 --summary
complains 'A\*B = 16'
finish
