#!/usr/bin/env bash
# tutti replay: fields, table, closed forms, bad input. Small compute, so that it is quick; no time is asserted but what must hold.
. "$(dirname "$0")/lib.sh"

runs 0 train-sim --model alexnet --batch 1 --topo star:2 --policy sync --write-profile p.json
runs 0 replay -n 2 --model alexnet --batch 1 --policy all --steps 1 --json
json 'len(d["policies"]) == 9 and d["ranks"] == 2 and d["model"] == "alexnet" and d["bytes"] == 61100840 * 4'
json 'all({"iteration_us", "forward_us", "backward_us", "comm_us", "exposed_comm_us", "ideal_us", "limit_us", "predicted_us"} <= set(p) for p in d["policies"])'
json 'all(abs(p["limit_us"] - max(p["comm_us"], p["forward_us"] + p["backward_us"])) < 1e-6 and p["iteration_us"] >= p["forward_us"] + p["backward_us"] for p in d["policies"])'
json 'all(abs(p["ideal_us"] - max(p["forward_us"], p["comm_us"] / 2) - max(p["backward_us"], p["comm_us"] / 2)) < 1e-6 for p in d["policies"] if p["policy"].startswith("dear"))'
runs 0 replay -n 3 --model ./p.json --policy dear-sharded --steps 1 --transport tcp --json
json 'd["policy"] == "dear-sharded" and d["ranks"] == 3 and d["launches"] == 2 * d["buckets"] and d["iteration_us"] > 0'
runs 0 replay -n 2 --model alexnet --batch 1 --policy hybrid --steps 1
says '^policy +step +exposed +ideal'
says '^hybrid '
runs 2 replay -n 2
complains 'model'
runs 2 replay -n 2 --model alexnot
complains 'alexnet'
runs 2 replay -n 2 --model alexnet --policy daer
complains "no policy 'daer'.*dear"
runs 2 replay -n 2 --model alexnet --steps 0
complains 'steps'
runs 2 replay -n 2 --model alexnet --threshold x
complains 'threshold'
finish
