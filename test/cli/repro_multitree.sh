#!/usr/bin/env bash
# The MultiTree experiment: what must hold, golden values, the published figures beside ours, where MultiTree loses, pictures.
. "$(dirname "$0")/lib.sh"

runs 0 repro
says '^multitree '
runs 0 repro multitree --quick --json --svg .
grep -q '<svg' multitree-sizes.svg || bad 'no picture of sizes'
grep -q '<svg' multitree-scaling.svg || bad 'no picture of scaling'
json 'd["experiment"] == "multitree" and d["ok"] is True and len(d["checks"]) == 10 and all(c["ok"] for c in d["checks"])'
json 'any("TTO" in n and "derived" in n for n in d["notes"]) and any("not available" in n for n in d["notes"])'
json 'all(r["steps"] == r["expected"] and r["max_link_contention"] == 1 for r in d["tables"]["steps"]) and len(d["tables"]["steps"]) == 11'

# against the ring at all sizes, the 2D-ring at the largest; the bucket wins there, and the tables say so
json 'len({r["bytes"] for r in d["tables"]["sizes"]}) == 12'
json 'min(r["vs_multitree"] for r in d["tables"]["sizes"] if r["algorithm"] == "ring") >= 3.6'
json '[r["vs_multitree"] >= 1.6 for r in d["tables"]["sizes"] if r["algorithm"] == "2D-ring" and r["bytes"] == 64 << 20] == [True]'
json '[0.9 < r["vs_multitree"] < 1 for r in d["tables"]["sizes"] if r["algorithm"] == "bucket" and r["bytes"] == 64 << 20] == [True]'
json 'any(r["algorithm"] == "bucket" and r["remark"] == "MultiTree loses to it" for r in d["tables"]["baselines"])'
json 'any(r["algorithm"] == "bi-ring" and r["network"] == "mesh:4x4" and "loses" in r["remark"] for r in d["tables"]["baselines"])'
json 'all(r["vs_bound"] >= 1 for r in d["tables"]["baselines"])'
json '{"HDRM", "Swing", "double tree", "2D-ring", "bucket", "lower bound"} <= {r["algorithm"] for r in d["tables"]["baselines"]}'

# flit by flit: one and four interfaces, packets and messages
json '[(r["scheme"], r["interfaces"], r["steps"]) for r in d["tables"]["schemes"]] == [("alpha", 1, 126), ("beta", 4, 34), ("gamma", 1, 126), ("delta", 4, 34)]'
json 'all(r["stalls"] == 0 and r["max_link_contention"] == 1 for r in d["tables"]["schemes"])'
json 'all(r["ring_ratio"] >= 3.6 and r["ring2d_ratio"] >= 1.5 and r["ring2d_ratio_message"] >= 1.6 for r in d["tables"]["packets"])'
json '5.5 <= d["tables"]["packets"][-1]["message_gain_percent"] <= 6.25'

# the published cycles
json '{(r["ranks"], r["Mi_params"], r["algorithm"]): r["published"] for r in d["tables"]["mesh"]}[16, 256, "MultiTree"] == 58535312'
json 'all(abs(r["difference_percent"]) <= 3 for r in d["tables"]["mesh"] if r["Mi_params"] == 256) and len(d["tables"]["mesh"]) == 18'
json 'all(abs(r["difference_percent"]) <= 3 for r in d["tables"]["mesh"] if r["algorithm"] != "MultiTree")'
json '{r["claim"]: r["paper"] for r in d["tables"]["claims"]}["speedup over the 2D-ring: torus:8x8, 64 MiB"] == "1.56"'
json 'len({r["model"] for r in d["tables"]["training"]}) == 7 and all(r["multitree_us"] < r["ring_us"] for r in d["tables"]["training"])'
finish
