#!/usr/bin/env bash
# tutti probe: the file reads back and is used, one rank, shared memory, TCP, a killed rank; in the lab the rates are found (needs root).
. "$(dirname "$0")/lib.sh"
unset TUTTI_RANK TUTTI_SIZE TUTTI_LOCAL_RANK TUTTI_RENDEZVOUS TUTTI_KEY_FILE TUTTI_TIMEOUT RANK WORLD_SIZE
PATH=$PATH:/usr/sbin:/sbin

runs 2 probe -n 2 --time soon
complains '--time'
runs 2 probe -n 2 --json -o -
complains 'one document'
runs 2 probe -n 1 -o no/such/folder/m.json
grep -q 'no/such/folder' err || bad "not named: $(cat err)"

# one rank: nothing to measure, but a file
runs 0 probe -n 1 -o one.json
says '1 rank on 1 host'
runs 0 topo one.json --json
json 'd["ranks"] == 1 and d["links"] == 0'

# shared memory: a memory switch with measured links, which reads back the same and which plans are made for
runs 0 probe -n 3 -o shm.json --json
json 'd["ranks"] == 3 and len(d["hosts"]) == 1 and d["hosts"][0]["ranks"] == 3 and d["hosts"][0]["memory_Bps"] > 1e6'
json 'd["hosts"][0]["up_Bps"] is None and d["pairs"] == [] and d["gamma_s_per_byte"] > 0 and d["seconds"] < 30'
runs 0 topo shm.json --json
json 'd["ranks"] == 3 and d["switches"] == 1 and d["links"] == 3'
runs 0 topo shm.json --file
cmp -s out shm.json || bad "the file does not read back: $(diff out shm.json | head -5)"
runs 0 explain --topo shm.json --size 1M --json
json 'd["winner"]'
TUTTI_TOPO=shm.json runs 0 bench -n 3 -b 4K -e 4K --check --json
json 'd["rows"][0]["wrong"] == 0'
TUTTI_TOPO=shm.json runs 0 probe -n 2 -o -
python3 -c 'import json; d = json.load(open("out")); assert d["format"] == "tutti-topology" and d["ranks"] == 2' || bad "-o - is no topology: $(head -c 200 out)"
grep -q '2 ranks on 1 host in 1 group, measured in .* no pairs of hosts' err || bad "no report on standard error: $(cat err)"

# TCP between the ranks: each is a host of its own
runs 0 probe -n 3 --transport tcp --time 2s --json -o tcp.json
json 'len(d["hosts"]) == 3 and len(d["pairs"]) >= 2 and d["pairs_all"] == 6 and all(p["Bps"] > 1e6 and p["latency_us"] > 0 for p in d["pairs"])'
json 'd["pairs_judged"] == 0 and d["confidence"] is None or 0 <= d["confidence"] <= 1 and d["groups"][0]["hosts"] == 3'
runs 0 topo tcp.json --json
json 'd["ranks"] == 3 and d["switches"] == 1 and d["links"] == 3'

# a rank is killed while it measures: the others say so, and there is no file
TUTTI=$tutti runs 1 run -n 3 --timeout 5s -- sh -c 'set -- "$TUTTI" probe --transport tcp --time 60s -o killed.json
    [ "$TUTTI_RANK" = 1 ] && exec timeout -s KILL 0.5 "$@"; exec "$@"'
grep -q 'rank 1' err || bad "the killed rank is not named: $(cat err)"
[ ! -e killed.json ] || bad "a file of a probe that failed"

skip() {
    echo "skipped: $1"
    finish
    exit
}
[ "$(id -u)" = 0 ] || skip "the lab: not root"
command -v ip >/dev/null && command -v tc >/dev/null || skip "the lab: no ip or tc"
ip netns add "tutti-probe-try-$$" 2>err || skip "the lab: no network namespaces here: $(cat err)"
ip netns del "tutti-probe-try-$$"

# The emulated hosts share this machine's cores: a busy one gets three chances.
rates() {
    python3 - "$@" <<'PY'
import json, sys
d, want = json.load(open("lab.json")), [float(x) * 125e3 for x in sys.argv[1:]]
assert d["ranks"] == 4 and d["switches"] == 1, "grouping: %s" % d["name"]
for (a, b, up, down, *_), w in zip(d["links"], want):
    assert b == 4 and abs(up - w) < w / 10 and abs(down - w) < w / 10, "rank %d: %.4g out, %.4g in, not %.4g bytes/s" % (a, up, down, w)
PY
}
for try in 1 2 3; do
    runs 0 lab --rates 1gbit,1gbit,1gbit,250mbit -- "$tutti" probe -o lab.json
    rates 1000 1000 1000 250 2>why && break
    echo "try $try: $(tail -1 why)"
    [ "$try" = 3 ] && bad "rates in the lab: $(tail -1 why)"
done
says 'slow link: node3 \(rank 3\)'
runs 0 explain --topo lab.json --size 16M --json
json 'd["winner"]'
finish
