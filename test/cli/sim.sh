#!/usr/bin/env bash
# tutti sim: the three levels, what-ifs, the files it writes (whole or not at all), networks of other simulators, bad input.
. "$(dirname "$0")/lib.sh"

fields='{"level", "algo", "time_us", "steps", "messages", "bytes_on_busiest_link", "busiest_link", "busiest_link_name", "max_link_contention", "bound_us", "ratio_to_bound", "events", "wall_s", "links", "idle"} <= set(d)'
same() { # same FILE: the last JSON answer is that of FILE, but for the wall time
    python3 -c 'import json,sys
a, b = json.load(open("out")), json.load(open(sys.argv[1]))
a["wall_s"] = b["wall_s"]
sys.exit(a != b)' "$1" || bad "answers differ: $(diff out "$1" | head -5)"
}

# flow is the default; 6 steps of 1 MiB at 1 GB/s and 2 us through the star
runs 0 sim --topo star:4@1GB/s,1us --algo ring --size 4M --json
json "$fields"
json 'd["level"] == "flow" and d["steps"] == 6 and d["messages"] == 24 and d["max_link_contention"] == 1'
json 'abs(d["time_us"] - 6 * (1048.576 + 2)) < 0.001 and d["bytes_on_busiest_link"] == 6 << 20 and d["time_us"] >= d["bound_us"] > 0'
json 'd["links"]["directed"] == 8 and d["links"]["used"] == 8 and abs(d["links"]["max_utilisation"] - 1048.576 / 1050.576) < 1e-6'
json 'len(d["idle"]["by_rank_us"]) == 4 and d["idle"]["max_us"] == max(d["idle"]["by_rank_us"])'
cp out flow.json
runs 0 sim --topo star:4@1GB/s,1us --algo ring --size 4M --level flow --json
same flow.json
runs 0 sim --topo star:4@1GB/s,1us --algo ring --size 4M
says '^ring: 6.303 ms in 6 steps, 24 messages \(level flow\)$'
says '^busiest link rank 0 -> switch 0 carries 6 MiB and is used to 99.8%; 8 of 8 directed links'
says '^bound 6.291 ms, 1.002 x$'
# a plan from a file is the same schedule
runs 0 plan --topo star:4@1GB/s,1us --algo ring --size 4M -o ring.json
runs 0 sim --topo star:4@1GB/s,1us --plan ring.json --json
same flow.json
runs 0 sim --topo star:4@1GB/s,1us --plan ring.json --size 8M --json
json 'd["bytes_on_busiest_link"] == 12 << 20'
# the step level has not changed
runs 0 sim --topo star:4@1GB/s,1us --algo ring --size 4M --level step --json
json 'd["level"] == "step" and abs(d["time_us"] - 6303.456) < 0.001 and d["exact"]'

# packets: 17 flits for 16, and more than nothing for the pipeline
runs 0 sim --topo torus:4x4@16GB/s,150ns --algo ring --size 1M --level packet --json
json "$fields"
json 'd["level"] == "packet" and d["packet"]["cycles"] > 0 and abs(d["packet"]["head_share"] - 1 / 17) < 1e-3 and d["packet"]["flow_control"] == "packet"'
cp out packet.json
runs 0 sim --topo torus:4x4@16GB/s,150ns --algo ring --size 1M --json
python3 -c 'import json,sys; p, f = (json.load(open(n))["time_us"] for n in ("packet.json", "out")); sys.exit(not f < p < 1.15 * f)' || bad "packet level is not a little slower than flow"
runs 0 sim --topo torus:4x4@16GB/s,150ns --algo ring --size 1M --level packet --flow-control message --json
json 'd["packet"]["flow_control"] == "message" and d["packet"]["head_share"] < 0.01'
python3 -c 'import json,sys; p, m = (json.load(open(n))["time_us"] for n in ("packet.json", "out")); sys.exit(not m < p)' || bad "message mode is not faster"
runs 0 sim --topo torus:4x4@16GB/s,150ns --algo ring --size 1M --level packet
says '^[0-9]+ cycles; [0-9]+ flits, 5.88% of them heads \(one per packet\)'
runs 0 sim --topo torus:4x4@16GB/s,150ns --algo ring --size 64K --level packet --flit 32 --payload 1K --cycles-per-flit 2 --vcs 4 --buffer 400 --router-cycles 2 --interfaces 2 --lockstep --aggregate 128GB/s --json
json 'd["time_us"] > 0 and "lockstep_wait_us" in d["packet"]'

# what if: a slow rank, a degraded link (names as printed), jitter that its seed decides
base='--topo star:4@1GB/s,1us --algo ring --size 4M'
runs 0 sim $base --degrade 'link=rank 3-switch 0,factor=4' --json
json 'd["time_us"] > 3.9 * 6303 and d["links"]["busiest"] in ("rank 3 -> switch 0", "switch 0 -> rank 3") and d["links"]["max_utilisation"] <= 1'
cp out degraded.json
runs 0 sim $base --degrade 'factor=4,link=3-4' --json
same degraded.json
runs 0 sim $base --degrade 'link=3,factor=4' --json
same degraded.json
runs 0 sim $base --degrade 'link=rank 3 -> switch 0,factor=2' --degrade 'link=rank 3->switch 0,factor=2' --json
json 'd["links"]["busiest"] == "rank 3 -> switch 0" and d["time_us"] > 3.9 * 6303'
runs 0 sim $base --slow rank=2,factor=2 --json
json 'd["time_us"] > 1.5 * 6303'
runs 0 sim $base --slow rank=2,factor=0.5
says '^bound not stated: a what-if makes the network faster than described$'
runs 0 sim $base --slow rank=2,factor=0.5 --json
json 'd["bound_us"] is None and d["ratio_to_bound"] is None'
runs 0 sim $base --jitter 0.5 --seed 7 --json
json '6303.456 < d["time_us"] <= 6303.456 + 6'
cp out jitter.json
runs 0 sim $base --jitter 0.5 --seed 7 --json
same jitter.json
runs 0 sim $base --jitter 0.5 --seed 8 --json
python3 -c 'import json,sys; sys.exit(json.load(open("out"))["time_us"] == json.load(open("jitter.json"))["time_us"])' || bad "the seed does not matter"
runs 0 sim $base --sharing rtt --json
json 'd["sharing"] == "rtt"'
runs 0 sim --topo ring:4@1GB/s,1us,half --algo bi-ring --size 4M --degrade link=0,factor=2 --json
json 'd["time_us"] > 0 and d["links"]["max_utilisation"] <= 1.0001'
cp out half.json
runs 0 sim --topo ring:4@1GB/s,1us,half --algo bi-ring --size 4M --degrade 'link=rank 1-rank 0,factor=2' --json
same half.json
runs 0 sim --topo ring:4@1GB/s,1us,half --algo bi-ring --size 4M --degrade link=0,factor=2 --links -
[ "$(cut -d, -f3 out | tail -8 | sort | uniq -c | tr -s ' \n' ' ')" = ' 6 1000000000 2 500000000 ' ] || bad "a half-duplex cable has one rate: $(cat out)"

# files: a timeline of all messages and reductions, valid and without overlaps on a track; a line per directed link
runs 0 sim --topo star:5@1Gbps,50us,1ns --algo direct --size 1M --timeline t.json --links l.csv --json
json 'd["time_us"] > 0'
cp out sim.json
python3 - <<'PY' || bad "timeline"
import json
d = json.load(open("t.json"))
s = json.load(open("sim.json"))
x = [e for e in d["traceEvents"] if e["ph"] == "X"]
names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in d["traceEvents"] if e["ph"] == "M" and e["name"] in ("process_name", "thread_name")}
assert {names[(r, None)] for r in range(5)} == {"rank %d" % r for r in range(5)}
kind = lambda e: names[(e["pid"], e["tid"])].split()[0]
sends = [e for e in x if kind(e) == "send"]
assert len(sends) == s["messages"] == sum(kind(e) == "receive" for e in x)
assert sum(e["args"]["bytes"] for e in sends) == 2 * 4 << 20
import re
assert all(re.fullmatch("step %d: [0-9.]+ KiB to rank %d" % (e["args"]["step"], e["args"]["peer"]), e["name"]) for e in sends)
assert abs(max(e["ts"] + e["dur"] for e in x) - s["time_us"]) < 1e-3
assert any(kind(e) == "reduce" for e in x)
tracks = {}
for e in x:
    tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
for t in tracks.values():
    t.sort()
    assert all(a[1] <= b[0] + 1e-6 for a, b in zip(t, t[1:])), t
PY
python3 - <<'PY' || bad "links"
import csv, json
rows = list(csv.DictReader(open("l.csv")))
s = json.load(open("sim.json"))
assert len(rows) == 10 and rows[0]["name"] == "rank 0 -> switch 0" and rows[1]["name"] == "switch 0 -> rank 0"
assert max(int(r["bytes"]) for r in rows) == s["bytes_on_busiest_link"]
assert all(float(r["bandwidth_bytes_per_s"]) == 125e6 for r in rows)
assert all(abs(float(r["utilisation"]) - int(r["bytes"]) / 125 / s["time_us"]) < 1e-5 for r in rows)
assert all(0 < float(r["busy_us"]) <= s["time_us"] and int(r["peak_messages"]) >= 1 for r in rows)
PY
runs 0 sim $base --timeline -
json 'len(d["traceEvents"]) > 48'
runs 0 sim $base --links -
[ "$(wc -l <out)" = 9 ] || bad "links on standard output: $(cat out)"
umask 022
runs 0 sim $base --links mode.csv
[ "$(stat -c %a mode.csv)" = 644 ] || bad "mode of a new file: $(stat -c %a mode.csv)"
ln -s mode.csv link.csv
echo old >mode.csv
chmod 600 mode.csv
runs 0 sim $base --links link.csv
[ -L link.csv ] && grep -q 'rank 0' mode.csv && [ "$(stat -c %a mode.csv)" = 600 ] || bad "a symbolic link is not followed"
runs 0 sim $base --links /dev/null
[ -c /dev/null ] || bad "/dev/null was replaced"

# interrupted: at once, 130, nothing left; the old file stays
mkdir files
echo old >files/t.json
python3 - "$tutti" <<'PY' || bad "interrupting"
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
p = subprocess.Popen([sys.argv[1], "sim", "--topo", "torus:32x32", "--algo", "halving-doubling", "--size", "512M", "--level", "packet",
                      "--timeline", "files/t.json", "--links", "files/l.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
deadline = time.time() + 60
while len(os.listdir("files")) < 3 and p.poll() is None and time.time() < deadline: # the temporary files are there
    time.sleep(0.01)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=10)
assert p.returncode == 130, (p.returncode, err)
assert out == b"", out
assert os.listdir("files") == ["t.json"] and open("files/t.json").read() == "old\n", os.listdir("files")
PY

# other simulators' networks
printf '5 1 4\n4\n0 4 200Gbps 0.0005ms 0\n1 4 200Gbps 0.0005ms 0\n2 4 200Gbps 0.0005ms 0\n3 4 200Gbps 0.0005ms 0\n' >ns3.txt
runs 0 topo ns3.txt --json
json 'd["ranks"] == 4 and d["switches"] == 1 and d["links"] == 4 and d["min_latency_us"] == 0.5'
runs 0 sim --topo ns3.txt --algo ring --size 4M --json
cp out ns3.json
runs 0 sim --topo star:4@200Gbps,500ns --algo ring --size 4M --json
python3 -c 'import json,sys; sys.exit(json.load(open("out"))["time_us"] != json.load(open("ns3.json"))["time_us"])' || bad "ns-3 text is another star"
"$tutti" topo - --json <ns3.txt >out 2>err || bad "ns-3 text from standard input: $(cat err)"
json 'd["ranks"] == 4'
printf 'topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 25.0 ] # GB/s\nlatency: [ 500.0, 1000 ]\n' >astra.yml
runs 0 topo astra.yml --json
json 'd["ranks"] == 8 and d["switches"] == 4 and d["links"] == 8 + 8 and d["max_bandwidth_Bps"] == 50e9'
printf '3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 0Gbps 0.0005ms 0\n' >zero.txt
runs 2 sim --topo zero.txt --algo ring --size 1M
complains 'zero.txt:4: bandwidth of the link 1-2: .*0Gbps'

# bad input: a sentence that names it
runs 2 sim --topo star:4 --algo ring --size 1M --level flwo
complains "no level 'flwo'; did you mean flow"
runs 2 sim --topo star:5 --plan ring.json
complains 'for 4 ranks.* 5'
printf '{"ranks":4,"links":[[0,1,"10G"],[2,3,"10G"]]}' >split.json
runs 2 sim --topo split.json --algo ring --size 1M
complains 'rank 0 cannot reach rank 2'
printf '{"ranks":2,"links":[[0,1,0]]}' >zero.json
runs 2 sim --topo zero.json --algo ring --size 1M
complains 'bandwidth 0 bytes/s is not positive'
runs 2 sim $base --slow rank=4,factor=2
complains '--slow: there is no rank .4.; .* has 4'
for v in rank=1 rank=1,factor= rank=1,factor=0 rank=1,factor=-2 rank=1,factor=2x rank=1,factor=nan rank=,factor=2 factor=2 5; do
    runs 2 sim $base --slow "$v"
    complains '--slow'
done
runs 2 sim $base --degrade 'link=rank 1-rank 2,factor=2'
complains 'no link joins rank 1 with rank 2'
runs 2 sim $base --degrade 'link=rank 9-switch 0,factor=2'
complains 'there is no "rank 9"'
runs 2 sim $base --degrade 'link=uplink,factor=2'
complains '"uplink" is no link'
runs 2 sim $base --jitter -1
complains '--jitter'
runs 2 sim $base --seed 3
complains '--seed goes with --jitter'
runs 2 sim $base --flit 32
complains '--flit goes with --level packet, not with --level flow'
runs 2 sim $base --level packet --sharing rtt
complains '--sharing goes with --level flow'
runs 2 sim $base --level step --timeline t.json
complains '--timeline goes with --level flow or packet'
runs 2 sim $base --sharing unfair
complains 'neither fair nor rtt'
runs 2 sim $base --level packet --flow-control flits
complains 'neither packet nor message'
runs 2 sim $base --level packet --vcs 0
complains '--vcs'
runs 2 sim $base --level packet --flit 0
complains '--flit'
runs 2 sim $base --level packet --aggregate 10GB
complains '--aggregate'
runs 2 sim $base --timeline no/such/dir/t.json
complains '--timeline: cannot write no/such/dir/t.json'
runs 2 sim $base --json --links -
complains 'only one of --json'
runs 2 sim $base --timeline same --links same
complains 'the same file'
# a wrong plan is not timed, and no file appears
python3 -c 'import json
d = json.load(open("ring.json"))
ops = d["slices"][2]
del ops[[o[0] for o in ops].index(2)]
json.dump(d, open("wrong.json", "w"))'
runs 1 sim --topo star:4 --plan wrong.json --links wrong.csv
says '^not correct: rank'
[ -e wrong.csv ] && bad "a wrong plan has links"
# a route that does not exist: no such link, links that do not join, on the right network
for route in 0,1,0,99 0,1,0,2; do
    python3 -c 'import json, sys
d = json.load(open("ring.json"))
d["topo_hash"] = sys.argv[2]
slices = d.pop("slices")
d["routes"] = [[int(v) for v in sys.argv[1].split(",")]]
d["slices"] = slices
json.dump(d, open("routed.json", "w"))' $route "$("$tutti" topo star:4@1GB/s,1us --json | sed -n 's/.*"hash": *"\([0-9a-f]*\)".*/\1/p')"
    runs 2 sim --topo star:4@1GB/s,1us --plan routed.json
    complains 'route'
done
# more than there is memory: a sentence, not a kill
if (ulimit -d 200000 && "$tutti" --version) >/dev/null 2>&1; then # not under AddressSanitizer, which reserves terabytes
    (ulimit -d 200000; "$tutti" sim --topo torus:32x32 --algo ring --size 64M --timeline big.json >out 2>err)
    [ $? = 2 ] || bad "no complaint about memory"
    complains 'memory'
fi
ls | grep -q '^big.json' && bad "a partial file: $(ls)"
# which level to believe: by latency, at every level, for people and programs
for level in step flow packet; do
    runs 0 sim --topo star:4@1GB/s,1us --algo ring --size 64K --level $level
    case $level in flow) says '^level flow is the one to believe' ;; *) says "^believe --level flow rather than $level" ;; esac
    runs 0 sim --topo torus:2x2@1GB/s,150ns --algo ring --size 64K --level $level --json
    json 'd["believed_level"] == "packet" and "under 1 us" in d["believed_why"]'
done

finish
