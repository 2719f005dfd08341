#!/usr/bin/env bash
# Simulated training steps: the documents' commands, what JSON promises, closed forms, files, bad input.
. "$(dirname "$0")/lib.sh"
net=star:4@1Gbps,30us

runs 0 train-sim --list
says '^  resnet50 '
says '^  dear-sharded '
runs 0 train-sim --list --json
json '{m["name"] for m in d["models"]} == {"alexnet","alexnet-onetower","vgg16","resnet50","densenet201","inceptionv4","bert-base","bert-large"} and len(d["policies"]) == 9'

runs 0 train-sim --model alexnet --batch 128 --policy dear --topo $net --json
json 'd["policy"] == "dear" and d["times"] == "derived" and d["parameters"] == 61100840 and d["tensors"] == 16'
json 'all(d[k] > 0 for k in ("iteration_us", "forward_us", "backward_us", "comm_us", "exposed_comm_us", "ideal_us", "limit_us"))'
json 'abs(d["backward_us"] - 2 * d["forward_us"]) < 1 and abs(d["forward_us"] - 2 * 0.7142e9 * 128 / 300e9 * 1e6) < 1000'
json 'abs(d["iteration_us"] - d["forward_us"] - d["backward_us"] - d["exposed_comm_us"]) < 1e-3'
json 'd["ideal_us"] == max(d["forward_us"], d["comm_us"] / 2) + max(d["backward_us"], d["comm_us"] / 2)'
json 'd["ideal_us"] <= d["iteration_us"] <= 1.01 * d["ideal_us"]'

# all policies: their own ideals, the limit, the order that the model says
runs 0 train-sim --model alexnet --batch 128 --policy all --topo $net --json
json 'len(d["policies"]) == 9'
cp out all.json
json 'all(p["iteration_us"] >= p["limit_us"] == max(p["comm_us"], p["forward_us"] + p["backward_us"]) for p in d["policies"])'
json 'all(abs(p["ideal_us"] - p["forward_us"] - max(p["backward_us"], p["comm_us"])) < 1e-3 and p["iteration_us"] < 1.1 * p["ideal_us"] for p in d["policies"] if p["policy"] in ("wfbp", "bucket", "mgwfbp", "hybrid", "hybrid-cost"))'
json '(lambda t: t["dear"] <= t["bytescheduler"] < t["bucket"] < t["sync"] and t["mgwfbp"] <= t["wfbp"] and t["dear-sharded"] == t["dear"])({p["policy"]: p["iteration_us"] for p in d["policies"]})'
runs 0 train-sim --model alexnet --topo $net
says '^\* dear '
says 'none of these beats'

# the paper's model, by hand: 5.90 s without overlap, 3.97 s with
runs 0 train-sim --model alexnet-onetower --policy sync --algo ring --topo $net --json
json 'abs(d["iteration_us"] / 5.90e6 - 1) < 0.01 and d["fusion"] == "one"'
runs 0 train-sim --model alexnet-onetower --policy hybrid --topo $net --json --buckets
json '[b["algo"] for b in d["bucket_list"]] == ["halving-doubling"] * 5 + ["ring"] * 3 and abs(d["stream_us"] - 2996.4e3) < 100'
runs 0 train-sim --model alexnet-onetower --policy hybrid --recursive-doubling --topo $net --json
json 'abs(d["stream_us"] - 3055.8e3) < 100'

# an optimizer that takes time; a faster machine; the flow simulator
runs 0 train-sim --model alexnet --policy sync --update 10GB/s --topo $net --json
json 'abs(d["update_us"] - 244403360 / 10e3) < 10'
runs 0 train-sim --model alexnet --flops 6.2T --policy wfbp --topo $net --json
json 'abs(d["forward_us"] - 2 * 0.7142e9 * 128 / 6.2e12 * 1e6) < 50'
runs 0 train-sim --model alexnet --policy wfbp --algo ring --topo $net --json
cp out step.json
runs 0 train-sim --model alexnet --policy wfbp --algo ring --level flow --topo $net --json
json 'abs(d["iteration_us"] / json.load(open("step.json"))["iteration_us"] - 1) < 0.01'

# tuning: ten trials with reasons, saved, used again, refused for something else
runs 0 train-sim --model resnet50 --policy dear --fusion bayesian --algo ring --topo star:16@10Gbps,25us --json --save-tuning t.json
json 'len(d["trials"]) == 10 and min(t["iteration_us"] for t in d["trials"]) == d["iteration_us"] and "winner: " in d["log"]'
cp out tuned.json
runs 0 train-sim --model resnet50 --policy dear --tuning t.json --algo ring --topo star:16@10Gbps,25us --json
json 'd["iteration_us"] == json.load(open("tuned.json"))["iteration_us"] and d["threshold_bytes"] == json.load(open("tuned.json"))["threshold_bytes"]'
runs 2 train-sim --model resnet50 --policy dear --tuning t.json --algo ring --topo star:17@10Gbps,25us
complains 'key is '
runs 2 train-sim --model resnet50 --policy bucket --tuning t.json --algo ring --topo star:16@10Gbps,25us
complains 'policy is "dear", not "bucket"'

# a profile written is a profile read
runs 0 train-sim --model resnet50 --batch 32 --policy bucket --topo $net --json --write-profile p.json
cp out built.json
runs 0 train-sim --model ./p.json --policy bucket --topo $net --json
json 'd["iteration_us"] == json.load(open("built.json"))["iteration_us"] and d["batch"] == 32'
runs 2 train-sim --model p.json --batch 64 --topo $net
complains 'its own batch'
sed 's/"forward_us": [0-9.]*/"forward_us": -1/' p.json >bad.json
runs 2 train-sim --model bad.json --topo $net
complains 'bad.json:[0-9]+:[0-9]+: -1 us'
echo '{' >bad.json
runs 2 train-sim --model bad.json --topo $net
complains 'bad.json:'

# timeline: compute and communication of one step
runs 0 train-sim --model alexnet --policy dear --topo $net --timeline line.json
python3 - <<'PY' || bad "timeline"
import json
e = json.load(open("line.json"))["traceEvents"]
x = [i for i in e if i["ph"] == "X"]
comm = sorted((i["ts"], i["ts"] + i["dur"]) for i in x if i["tid"] == 2)
assert any(i["name"].startswith("reduce-scatter") for i in x) and any(i["name"].startswith("all-gather") for i in x)
assert all(a[1] <= b[0] + 1e-6 for a, b in zip(comm, comm[1:]))
PY

# bad input
runs 2 train-sim --topo $net
complains '--model MODEL is needed'
runs 2 train-sim --model resnet5 --topo $net
complains 'did you mean resnet50'
runs 2 train-sim --model resnet50
complains '--topo SPEC is needed'
runs 2 train-sim --model resnet50 --topo $net --policy daer
complains 'did you mean dear'
runs 2 train-sim --model resnet50 --topo $net --fusion gready --policy wfbp
complains 'did you mean greedy'
runs 2 train-sim --model resnet50 --topo $net --order phase --policy dear
complains 'no order'
runs 2 train-sim --model resnet50 --topo $net --level packet
complains 'step or flow'
for option in '--batch 0' '--threshold 0' '--flops fast' '--flops -3' '--cycle 0' '--nearby 0' '--trials 65' '--range 4..2' '--trials 5' '--update 0' '--partition 0'; do
    # shellcheck disable=SC2086
    runs 2 train-sim --model alexnet --topo $net --policy dear $option
    complains .
done
runs 1 train-sim --model alexnet --topo $net --policy dear --algo recursive-doubling
complains 'recursive-doubling does not offer'
runs 2 train-sim --model alexnet --topo $net --policy dear --algo rnig
complains 'did you mean ring'

# experiments
runs 0 repro hybrid --quick --json
json 'd["ok"] and len(d["checks"]) == 5 and [r["batch"] for r in d["tables"]["claim"]] == [128, 192, 256, 512]'
json 'abs(d["tables"]["claim"][0]["saved_vs_no_overlap_percent"] - 33) < 1.5 and abs(d["tables"]["claim"][0]["of_it_algorithm_percent"]) < 0.05'
runs 0 repro dear --quick --json --svg .
json 'd["ok"] and len(d["checks"]) == 5 and len(d["tables"]["gains"]) == 20'
json 'all(r["tuned_to_best"] <= 1.03 for r in d["tables"]["fusion"]) and all(r["worst_to_best"] >= 1.2 for r in d["tables"]["fusion"] if r["algo"] == "ring")'
grep -q '<svg' dear-thresholds.svg || bad 'no picture'
finish
