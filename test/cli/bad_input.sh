#!/usr/bin/env bash
# Bad input: a sentence that names the cause, exit 2 (1 for refusals), no output, no crash.
. "$(dirname "$0")/lib.sh"

runs 2 topo torsu:4x4
complains 'torus'
runs 2 plan --topo star:4 --algo rnig --size 1M
complains 'ring'
runs 2 topo star:0
complains '0'
runs 2 topo torus:0x4
complains '0'
runs 2 topo star:4@-1Gbps
complains '-1Gbps'
runs 2 topo dln:16,t=9
complains 't'
runs 2 topo hypercube:12
complains '12'
runs 2 topo star:99999999999999999999
complains '99999999999999999999'
runs 2 topo nofile.json
complains 'nofile.json'
runs 2 plan --topo star:4 --algo ring
complains 'size'
runs 2 plan --topo star:4 --algo ring --size 64X
complains '64X'
runs 2 plan --topo star:4 --algo ring --size 7
complains '7'
runs 2 plan --topo star:4 --algo ring --size 1M --coll allredcue
complains 'allreduce'
runs 2 plan --topo star:4 --algo ring --size 1M --dtype f33
complains 'f32'
runs 2 plan --topo star:4 --algo ring --size 1M --option segmnts=2
complains 'segments'
runs 2 plan --topo star:4 --algo ring --size 1M --option segments=0
complains 'segments'
runs 2 plan --topo star:4 --coll broadcast --root 4 --size 1M
complains 'root'
runs 2 plan --topo star:4 --size 1M --frobnicate
complains 'frobnicate'
runs 2 bogus
complains 'bogus'
runs 2 plan --topo
complains 'topo'
runs 2 verify
complains 'a FILE, or --topo, --algo and --size, is needed'
runs 2 topo star:4 --kinds
complains 'kinds'
runs 2 topo star:4@1Gbps,half,half
complains 'half.*twice'
runs 2 topo 'tree:(2 2)@1G/2G/3G'
complains 'bandwidth 3 \(3 Gbit/s\)'
runs 2 topo 'tree:(6x25G 2x10G):40G'
complains 'the root has no uplink: .*tree:\(\(6x25G 2x10G\):40G \(8x25G\):40G\)'
# An uplink to a switch with nothing else is taken, and noted.
for command in topo 'explain --size 1M --topo' 'compare --sizes 1M..1M'; do
    runs 0 $command 'tree:((6x25G 2x10G):40G)'
    grep -q '^note: .*: 1 cable leads to nowhere: switch [01] -> switch [01] has no rank behind it' err || bad "$command: $(cat err)"
done
runs 0 topo 'tree:((6x25G 2x10G):40G (8x25G):40G)'
[ ! -s err ] || bad "an uplink between two groups: $(cat err)"
runs 2 plan --topo star:4 --size 1M --root 0
complains 'allreduce has no root'
runs 2 plan --topo star:4 --size 1M --dtype f8
complains "no data type 'f8'; did you mean i8, u8\? \(known: f32, "
runs 2 plan --topo star:4 --size 1M --coll bcast
complains "no collective 'bcast'; did you mean broadcast\?"
runs 2 bench -f 1
complains '--factor 1: each size is at least twice'
runs 2 bench -b 0
complains '--begin 0: '
runs 2 bench -b 2M -e 1M
complains '--begin 2M is more than --end 1M'
runs 2 bench -b 1M -e 1M -i 524288
complains '-i 524288: at most 100000 calls per size .*nccl-tests'
runs 2 bench -b 1M -e 1M -w 524288
complains '-w 524288: at most 100000 calls'
runs 0 plan --topo star:7 --algo ring --size 1M -o seven.json
runs 2 bench -n 4 --plan seven.json
complains '-n 4: the plan is for 7 ranks'
runs 2 plan --topo star:4 --algo ring --size 1M --option levels=2
complains "ring has no option 'levels' \(it knows segments\)"
runs 2 plan --topo star:4 --algo foo --size 1M
complains "no algorithm 'foo' \(known: auto, ring, .*oneshot, .*\)"
TUTTI_REPRODUCIBLE=yes runs 2 explain --topo star:4 --size 1K
complains 'TUTTI_REPRODUCIBLE'
for v in 0 1 ''; do
    TUTTI_REPRODUCIBLE=$v runs 0 explain --topo star:4 --size 1K --json
    json "any('rank order' in c['why'] for c in d['candidates']) == ('$v' == '1')"
done
TUTTI_REPRODUCIBLE=yes "$tutti" bench -n 1 -b 1K -e 1K >out 2>err && bad "bench accepts TUTTI_REPRODUCIBLE=yes"
grep -q 'TUTTI_REPRODUCIBLE' err || bad "bench does not name TUTTI_REPRODUCIBLE: $(head -c 300 err)"
runs 1 plan --topo star:6 --algo bucket --size 1M
complains 'torus'
runs 1 plan --topo star:4 --algo ring --coll broadcast --size 1M
complains 'broadcast'
runs 2 verify plan-that-is-not-there.json
complains 'plan-that-is-not-there'
"$tutti" sim --level step --topo star:5 --plan /dev/null >out 2>err; [ $? = 2 ] || bad "empty plan"

# bounded MEMORY_KIB COMMAND...: with an address space limit, unless the tool cannot even start under it (AddressSanitizer reserves terabytes)
bounded() {
    local limit=$1
    shift
    (ulimit -v "$limit" && "$tutti" --version) >/dev/null 2>&1 || limit=unlimited
    (ulimit -v "$limit"; "$tutti" "$@" >out 2>err </dev/null)
}

# damaged plans: a position and a reason
runs 0 plan --topo star:4 --algo ring --size 1M -o plan.json
head -c 400 plan.json >cut.json
runs 2 verify cut.json
complains 'cut.json:[0-9]+:[0-9]+'
sed 's/"version": *1/"version": 99/' plan.json >version.json
runs 2 verify version.json
complains 'version'
sed 's/"ranks": *4/"ranks": 4000000000/' plan.json >hostile.json
bounded 1000000 verify hostile.json; code=$?
[ "$code" = 2 ] || bad "hostile ranks: exit $code"
printf '{"format":"tutti-schedule","version":1,"ranks":1048576,"chunks":4294967295' >hostile2.json
runs 2 verify hostile2.json
complains 'hostile2.json:'
head -c 100000 /dev/zero | tr '\0' '[' >deep.json
runs 2 verify deep.json
complains 'deep.json:1:'
runs 2 topo deep.json
complains 'deep.json:1:'
printf '{"format":"tutti-topology","version":1,"ranks":4000000000,"switches":0,"links":[]}' >big.json
bounded 1000000 topo big.json; code=$?
[ "$code" = 2 ] || bad "hostile topology: exit $code"
printf '{"format":"tutti-topology","version":1,"ranks":4,"switches":0,"links":[[0,1,"10G"],[2,3,"10G"]]}' >split.json
runs 2 topo split.json
complains 'rank'
printf '{"format":"tutti-topology","version":1,"ranks":2,"switches":0,"links":[[0,1,0]]}' >zero.json
runs 2 topo zero.json
complains 'zero.json'
runs 0 plan --topo star:5 --algo ring --size 1M -o five.json
runs 2 sim --level step --topo star:4 --plan five.json
complains '5'

# a wrong plan is a negative answer that points at rank and op
python3 - <<'PY'
import json
d = json.load(open("plan.json"))
d.pop("hash", None)
ops = d["slices"][2]
i = next(k for k, o in enumerate(ops) if o[0] == 2)
del ops[i]
json.dump(d, open("wrong.json", "w"))
PY
runs 1 verify wrong.json
says '^not correct: rank [0-9]+, op [0-9]+: '
runs 1 verify wrong.json --json
json 'd["ok"] is False and "rank" in d and "op" in d and len(d["why"]) > 20'

# ... and has no time: sim says the same
runs 1 sim --level step --topo star:4 --plan wrong.json
says '^not correct: rank [0-9]+, op [0-9]+: '
grep -q 'steps' out && bad "sim prices a wrong plan"
runs 1 sim --level step --topo star:4 --plan wrong.json --json
json 'd["ok"] is False and d["where"] == "op" and "time_us" not in d'

# damage PYTHON: seven.json with the statement applied to the document d becomes damaged.json
runs 0 plan --topo star:7 --algo circulant --size 1M -o seven.json
damage() {
    python3 -c 'import json, sys
d = json.load(open("seven.json"))
op = lambda kind: next(o for o in d["slices"][0] if o[0] == kind)
exec(sys.argv[1])
d["slices"] = d.pop("slices")
json.dump(d, open("damaged.json", "w"))' "$1" || bad "no such damage: $1"
}
# the header is not an operation
for change in 'd["segments"] = 0' 'd["weights"] = [0] * 7' 'd["owner"] = [9] * 7'; do
    damage "$change"
    runs 1 verify damaged.json
    says '^not correct: the header: (segments is 0|all chunk weights are zero|owner 9 of chunk 0 is not one of the 7 ranks)$'
    runs 1 verify damaged.json --json
    json 'd["where"] == "header" and d["rank"] == 0 and d["op"] == 0'
done
# an operation is named once; fields without a meaning are not ignored
for change in 'op(0)[2] = 9' 'op(0)[5] = 1' 'op(1)[5] = 0' 'op(0)[8] = 3' 'op(4)[2] = 1' 'op(4)[3] = 1'; do
    damage "$change"
    runs 1 verify damaged.json
    says '^not correct: rank 0, op [0-9]+: step [0-9]+, (send|recv|copy): '
    grep -q 'rank 0.*rank 0' out && bad "the rank is named twice: $(cat out)"
done
# routes belong to a network; other plans are priced anywhere, with a note when they were made for another one
runs 0 plan --topo torus:3x3 --algo bucket --size 1M -o bucket.json
runs 0 sim --level step --topo torus:3x3 --plan bucket.json
[ -s err ] && bad "a note on the plan's own network: $(cat err)"
runs 0 sim --level step --topo torus:3x3@1Gbps --plan bucket.json
[ "$(cat err)" = 'note: the plan was made for another network' ] || bad "no note on another network: $(cat err)"
python3 -c 'import json
d = json.load(open("bucket.json"))
slices = d.pop("slices")
d["routes"] = [[0, 1, 0, 0]]
d["slices"] = slices
json.dump(d, open("routed.json", "w"))'
runs 2 sim --level step --topo torus:3x3@1Gbps --plan routed.json
complains 'routes belong to the network with hash'

# tuning: honoured or refused loudly
echo '{"format":"tutti-tuning","version":1,"rules":[{"coll":"allreduce","algo":"direct"}]}' >tune.json
runs 0 plan --topo star:6 --size 64M --tuning tune.json --summary --json
json 'd["algo"] == "direct" and d["from_tuning"] and d["skipped"] == []'
TUTTI_ALGO=ring runs 0 plan --topo star:6 --size 64M --tuning tune.json --summary --json
json 'd["algo"] == "direct" and d["from_tuning"]'
TUTTI_ALGO=ring runs 0 plan --topo star:6 --size 64M --summary --json
json 'd["algo"] == "ring"'
echo '{"format":"tutti-tuning","version":1,"rules":[{"coll":"allreduce","algo":"ring","options":{"segments":"4"}}]}' >slow.json
runs 0 explain --topo star:6 --size 64K --tuning slow.json --envelope 64K..256K --json
json '[e["algo"] for e in d["envelope"]] == ["ring"] and d["winner"] == "ring" and d["envelope"][0]["from_us"] == d["predicted_us"]'
runs 0 explain --topo star:6 --size 64K --option segments=3 --envelope 64K..64K --json
json 'd["envelope"][0]["from_us"] == d["predicted_us"] and all(c["segments"] == 3 for c in d["candidates"] if c["predicted_us"] is not None)'
runs 2 explain --topo star:6 --size 64K --option segments=0 --envelope 64K..64K
complains 'segments'
echo '{"format":"tutti-tuning","version":1,"rules":[{"coll":"allreduce","algo":"bucket"}]}' >tune.json
runs 1 plan --topo star:6 --size 64M --tuning tune.json --summary
complains 'tune.json'
echo '{"format":"tutti-tuning","version":1,"rules":[{"coll":"allreduce","algo":"buckett"}]}' >tune.json
runs 2 plan --topo star:6 --size 64M --tuning tune.json --summary
complains 'tune.json:1:'
if [ -w /dev/full ]; then
    "$tutti" topo star:4 >/dev/full 2>err && bad "a full disk is not noticed"
fi
finish
