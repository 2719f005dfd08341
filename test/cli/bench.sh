#!/usr/bin/env bash
# tutti bench --explain: the schedule that ran, its segments, its operations by the way they were carried out, the ratio of the times.
. "$(dirname "$0")/lib.sh"
unset TUTTI_RANK TUTTI_SIZE RANK WORLD_SIZE TUTTI_TRANSPORT TUTTI_DUMP TUTTI_VERIFY

# A message counts once: ring on 3 ranks is 4 steps of 3 messages.
runs 0 bench -n 3 -b 4K -e 4K -i 2 --transport tcp --algo ring --explain --json
json 'd["rows"][0]["algo"] == "ring" and d["rows"][0]["segments"] == 1 and d["rows"][0]["options"] == ""'
json 'd["rows"][0]["carried"] == {"message": 12, "read": 0, "write": 0, "box": 0}'
json 'abs(d["rows"][0]["measured_by_predicted"] * d["rows"][0]["predicted_us"] / d["rows"][0]["time_us"] - 1) < 1e-9'
json '0 < d["rows"][0]["bound_us"] <= d["rows"][0]["predicted_us"] * 1.001'
# Inside a host something carries them, too.
runs 0 bench -n 3 -b 64 -e 1M -f 128 -i 2 --explain --json
json 'len(d["rows"]) == 3 and all(sum(r["carried"].values()) > 0 for r in d["rows"])'
runs 0 bench -n 2 -b 4K -e 4K -i 2 --transport tcp --algo chain --explain
says '^#   chain.*, [0-9]+ segments?; operations of all ranks by message [1-9][0-9]*, read 0, write 0, box 0; predicted .* us, measured .* us: '
# Without the option rows are as before.
runs 0 bench -n 2 -b 4K -e 4K -i 2 --json
json '"carried" not in d["rows"][0] and "segments" not in d["rows"][0]'
TUTTI_VERIFY=yes "$tutti" bench -n 1 -b 1K -e 1K >out 2>err && bad "bench accepts TUTTI_VERIFY=yes"
grep -q 'TUTTI_VERIFY is .yes.: 0 or 1' err || bad "bench does not name TUTTI_VERIFY: $(head -c 300 err)"
runs 0 doctor
says 'TUTTI_DUMP'
says 'TUTTI_VERIFY'
finish
