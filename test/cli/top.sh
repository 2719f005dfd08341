#!/usr/bin/env bash
# tutti top: the counters of a running job, its slow rank, Prometheus; nothing is left behind.
. "$(dirname "$0")/lib.sh"

runs 0 top --once --interval 10ms
says 'tutti top: over'
runs 2 top --interval 1us
complains 'at least 10ms'
runs 2 top --prometheus 1:2:nosuch
complains 'prometheus'
runs 2 top --json --prometheus 0
complains 'without'

# A job of 3 ranks that calls for a while; it ends when its sizes do.
"$tutti" run -n 3 --top -- "$tutti" bench -b 64K -e 64K --iters 100000 --transport tcp --in-place >bench.txt 2>bench.err &
job=$!
for _ in $(seq 100); do
    "$tutti" top --once --json --interval 300ms >out 2>err || bad "top: $(cat err)"
    python3 -c 'import json,sys
d = json.load(open("out"))
sys.exit(not any(len(j["here"]) == 3 and min(r["calls_per_s"] for r in j["here"]) > 0 for j in d["jobs"]))' && break
    kill -0 $job 2>/dev/null || break
done
json 'any(j["ranks"] == 3 and [r["rank"] for r in j["here"]] == [0, 1, 2] for j in d["jobs"])'
json 'all(0.5 < r["bytes_per_s"] / r["calls_per_s"] / 65536 < 2 and r["in_calls"] > 0 and r["sent_bytes_per_s"] > 0 for j in d["jobs"] if j["ranks"] == 3 for r in j["here"])'
runs 0 top --once --interval 100ms
says '3 of 3 ranks here'

"$tutti" top --prometheus 0 >address 2>serve.err &
server=$!
for _ in $(seq 100); do [ -s address ] && break; sleep 0.05; done
python3 - "$(cat address)" <<'PROGRAM' || bad 'Prometheus'
import re, sys, urllib.request, urllib.error
text = urllib.request.urlopen(sys.argv[1], timeout=10).read().decode()
for line in text.splitlines():
    assert line.startswith("# ") or re.fullmatch(r'tutti_\w+_total\{job="[^"]*",rank="\d+",host="[^"]*"\} [0-9.]+', line), line
assert len(set(re.findall(r'tutti_calls_total\{job="([^"]*)",rank="[012]"', text))) >= 1 and "# TYPE tutti_calls_total counter" in text, text
try:
    urllib.request.urlopen(sys.argv[1].replace("metrics", "other"), timeout=10)
    raise SystemExit("404 expected")
except urllib.error.HTTPError as e:
    assert e.code == 404
PROGRAM
kill $server
wait $server 2>/dev/null
kill -TERM $job 2>/dev/null
wait $job 2>/dev/null
runs 0 top --once --interval 10ms
grep -q "job .*: 3 of 3" out && bad 'a job that ended is still shown'
ls -ld "/dev/shm/tutti-top-$(id -u)" | grep -q '^drwx------' || bad 'the folder is open to others'
finish
