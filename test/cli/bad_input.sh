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

# tuning: honoured or refused loudly
echo '{"format":"tutti-tuning","version":1,"rules":[{"coll":"allreduce","algo":"direct"}]}' >tune.json
runs 0 plan --topo star:6 --size 64M --tuning tune.json --summary --json
json 'd["algo"] == "direct" and d["from_tuning"]'
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
