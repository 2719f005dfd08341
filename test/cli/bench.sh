#!/usr/bin/env bash
# tutti bench --explain: the schedule that ran, its segments, its operations by the way they were carried out, the ratio of the times.
. "$(dirname "$0")/lib.sh"
spoil=${3:-}
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
# The table: both ways side by side, whole numbers of columns, the average last.
runs 0 bench -n 3 -b 1K -e 4K -i 3 -w 2 --check
says '^# rank   2 pid +[0-9]+ on .'
says '^#  *out of place  *in place *$'
[ "$(grep -v '^#' out | awk '{print NF}' | sort -u)" = 14 ] || bad "columns: $(cat out)"
[ "$(grep -v '^#' out | awk '{print $8, $12}' | sort -u)" = '0 0' ] || bad "wrong: $(cat out)"
says '^# wrong values: 0 OK'
tail -1 out | grep -Eq '^# average bus bandwidth: [0-9.]+ GB/s' || bad "no average: $(tail -1 out)"
runs 0 bench -n 2 -b 1K -e 1K -i 3 -w 0 --json --check
json 'd["seats"][1]["rank"] == 1 and d["seats"][1]["pid"] > 0 and d["seats"][1]["host"] and not d["in_place"]'
json 'd["rows"][0]["in_place"]["time_us"] > 0 and d["rows"][0]["in_place"]["wrong"] == 0 and d["avg_busbw_GBs"] > 0'
json 'abs(d["avg_busbw_GBs"] - (d["rows"][0]["busbw_GBs"] + d["rows"][0]["in_place"]["busbw_GBs"]) / 2) < 1e-9'
runs 0 bench -n 2 -b 1K -e 1K -i 3 --in-place --json
json 'd["in_place"] and "in_place" not in d["rows"][0] and d["rows"][0]["time_us"] > 0'
runs 0 bench -n 2 -b 1K -e 1K -i 3 --out-of-place
[ "$(grep -v '^#' out | awk '{print NF}')" = 10 ] || bad "columns out of place: $(cat out)"
# Every collective both ways where there are two; what has no reduction says so; blocks of less than an element are rounded up.
for coll in reduce-scatter all-gather broadcast reduce gather scatter; do
    runs 0 bench -n 3 -b 8 -e 100 -f 16 -i 2 --coll $coll --check --json
    json 'all(r["wrong"] == 0 and r["in_place"]["wrong"] == 0 for r in d["rows"]) and d["op"] == ("sum" if "reduce" in d["coll"] else "none")'
done
runs 0 bench -n 3 -b 4 -e 4 -i 2 --coll all-gather --check
says '^# sizes begin at 12 B: each of the 3 ranks has a block'
says '^ +12 +3 +f32 +none '
runs 0 bench -n 3 -b 64 -e 64 -i 2 --coll all-to-all --check --json
json 'd["rows"][0]["bytes"] == 60 and d["rows"][0]["count"] == 15 and "in_place" not in d["rows"][0]'
runs 0 bench -n 2 --coll barrier -i 2 --check
says '^ +0 +0 +none +none +[0-9.]+ +N/A +N/A +N/A '
grep -q 'average' out && bad "a barrier has no bandwidth: $(cat out)"
runs 0 bench -n 2 --coll barrier -i 2 --json
json 'd["rows"][0]["busbw_GBs"] is None and d["avg_busbw_GBs"] is None and d["rows"][0]["bytes"] == 0'
runs 2 bench -n 2 --in-place --coll all-to-all
complains 'all-to-all has no calls in place'
runs 2 bench -n 0
complains '^tutti bench: -n "0": must be from 1 to 4096'
# A reader that has had enough is no error.
"$tutti" bench -n 2 -b 8 -e 1M -i 2 2>err | head -1 >out
[ "${PIPESTATUS[0]} $(cat err)" = '0 ' ] || bad "bench | head: $(cat err)"
# Wrong numbers are counted and are the exit status: a copy of the tool that spoils one element of rank 1.
if [ -n "$spoil" ]; then
    for way in --in-place --out-of-place; do
        "$tutti" run -n 2 -- "$spoil" bench -b 1K -e 1K -i 2 --check $way >out 2>err
        [ $? = 1 ] || bad "wrong numbers: exit status"
        says '^# wrong values: 1 FAILED'
    done
else
    echo "skipped: no tool that spoils (sanitized build)"
fi
# Why predictions may be off stands in the table and on the page: three hosts' speeds are those of one pair.
if unshare -u true 2>/dev/null; then
    "$tutti" run -n 3 -- unshare -u sh -c 'hostname "h$TUTTI_RANK"; exec "$0" bench -b 1K -e 1K -i 2 --html page.html' "$tutti" >out 2>err ||
        bad "bench on three hosts: $(head -c 300 err)"
    says '^# predictions take all hosts to be as fast as the two that were measured'
    grep -q 'Beware: predictions take all hosts' page.html || bad "the page drops what the table says"
else
    echo "skipped: hosts of other names (unshare -u is not allowed)"
fi
TUTTI_VERIFY=yes "$tutti" bench -n 1 -b 1K -e 1K >out 2>err && bad "bench accepts TUTTI_VERIFY=yes"
grep -q 'TUTTI_VERIFY is .yes.: 0 or 1' err || bad "bench does not name TUTTI_VERIFY: $(head -c 300 err)"
runs 0 doctor
says 'TUTTI_DUMP'
says 'TUTTI_VERIFY'
finish
