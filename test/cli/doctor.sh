#!/usr/bin/env bash
# tutti doctor: variables with origins, checks of the host, the job's matrix; exit 1 when something needed does not work.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$work
unset TUTTI_RANK TUTTI_SIZE RANK WORLD_SIZE TUTTI_REPORT TUTTI_TRANSPORT

runs 0 doctor
says '^  TUTTI_TIMEOUT +30s +default '
says '^  shared memory +works '
says '^  tcp loopback +works '
says '^everything needed works$'
for v in $(sed -n 's/^ *{"\(TUTTI_[A-Z_]*\)".*/\1/p' "$source_dir/src/base/variables.c"); do says "^  $v "; done
TUTTI_TIMEOUT=5s TUTTI_TRANSPRT=x runs 0 doctor --json
grep -q 'unknown variable TUTTI_TRANSPRT; did you mean TUTTI_TRANSPORT' err || bad "no warning: $(cat err)"
json 'd["ok"] and d["job"] is None and d["problems"] == []'
json '[(v["value"], v["origin"]) for v in d["variables"] if v["name"] == "TUTTI_TIMEOUT"] == [("5s", "set")]'
json 'd["unknown_variables"][0]["name"] == "TUTTI_TRANSPRT" and "TUTTI_TRANSPORT" in d["unknown_variables"][0]["near"]'
json 'd["host"]["cores"] >= 1 and d["host"]["memory_bytes"] > 1 << 20 and d["host"]["isa"]'
json 'len(d["checks"]) >= 4 and all(c["text"] for c in d["checks"])'
RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29321 runs 0 doctor --json
json '[v["origin"] for v in d["variables"] if v["name"] in ("TUTTI_RANK", "TUTTI_SIZE")] == ["torchrun"] * 2'

# a job of our own
runs 0 doctor -n 3 --json
json 'd["ok"] and len(d["job"]["ranks"]) == 3 and d["job"]["reach"] == [[0] * 3] * 3'
json 'd["job"]["transport"] == [["self" if a == b else "shm" for a in range(3)] for b in range(3)]'
json 'len(set(r["pid"] for r in d["job"]["ranks"])) == 3 and len(set(r["address"] for r in d["job"]["ranks"])) == 3'
json 'd["job"]["shm"]["latency_us"] > 0 and d["job"]["shm"]["bandwidth_GBs"] > 0 and d["job"]["tcp"] is None'
runs 0 doctor -n 2 --transport tcp --json
json 'd["job"]["transport"][0][1] == "tcp" and d["job"]["tcp"]["bandwidth_GBs"] > 0 and d["job"]["shm"] is None'
[ "$(stat -c %a "$work/tutti/speeds")" = 600 ] || bad "kept figures can be read by others"

# what does not work
TUTTI_IFACE=nosuch runs 1 doctor --json
json 'not d["ok"] and [c["ok"] for c in d["checks"] if c["name"] == "interfaces"] == [False] and "nosuch" in d["problems"][0]'
RANK=0 runs 1 doctor
says 'WORLD_SIZE is not'
"$tutti" doctor --transport ipx >out 2>err
[ $? = 2 ] || bad "an unknown transport: $(cat err)"
bash -c 'trap "" XFSZ; ulimit -f 8; exec "$0" doctor' "$tutti" </dev/null 2>err | cat >out
says '^  shared memory +FAILS +shared memory of [0-9]+ bytes cannot be made: .*raise ulimit -f'
bash -c 'trap "" XFSZ; ulimit -f 8; "$0" doctor | cat >/dev/null; exit ${PIPESTATUS[0]}' "$tutti" </dev/null
[ $? = 1 ] || bad "exit status without shared memory"
bash -c 'trap "" XFSZ; ulimit -f 8; "$0" doctor --transport tcp | cat >/dev/null; exit ${PIPESTATUS[0]}' "$tutti" </dev/null
[ $? = 0 ] || bad "shared memory is not needed with tcp"

if [ "$(id -u)" = 0 ] && command -v tc >/dev/null; then
    runs 1 lab --nodes 3 --timeout 6s -- sh -c '[ "$RANK" = 1 ] && ip route add unreachable 10.77.0.3/32; exec "$0" doctor --json' "$tutti"
    json 'not d["ok"] and d["job"]["reach"][1][2] == "No route to host" and isinstance(d["job"]["reach"][2][1], str)'
    json 'sum(x != 0 for row in d["job"]["reach"] for x in row) == 2 and [r["host"] for r in d["job"]["ranks"]] == ["node0", "node1", "node2"]'
    json 'd["job"]["transport"][0] == ["self", "tcp", "tcp"]'
fi
finish
