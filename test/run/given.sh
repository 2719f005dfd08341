#!/usr/bin/env bash
# Plans and tuning files of the user: what fits runs them, what is wrong is refused on every rank with the reason.
# Usage: given.sh TUTTI SOURCE_DIR PROGRAM
here=$(dirname "$0")
. "$here/../cli/lib.sh"
program=$3
export XDG_CACHE_HOME=$work TMPDIR=$work
unset TUTTI_RANK TUTTI_SIZE RANK WORLD_SIZE TUTTI_TRANSPORT TUTTI_DUMP TUTTI_VERIFY TUTTI_PLAN TUTTI_TUNING TUTTI_LOG TUTTI_REPRODUCIBLE

# refused PATTERN RANKS PROGRAM...: every rank fails with the same reason
refused() {
    local want=$1 n=$2
    shift 2
    "$tutti" run -n "$n" --timeout 20s -- "$@" >out 2>err </dev/null && bad "$*: not refused"
    [ "$(grep -Ec -- "$want" err)" = "$n" ] || bad "$*: not $n times '$want': $(head -c 600 err)"
}

# edit IN OUT PYTHON: changes the document d
edit() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
exec(sys.argv[3])
d["slices"] = d.pop("slices") # nothing may follow them
json.dump(d, open(sys.argv[2], "w"))' "$@"
}

# A plan of another program: an algorithm that nobody here knows, three chunks, in two segments.
runs 0 plan --topo ring:4 --algo ring --option segments=2 --size 64K -o ring.json
edit ring.json hand.json 'd["algo"] = "by/hand"; d["options"] = ""'
for transport in shm tcp; do
    runs 0 bench --plan hand.json -b 4 -e 1M -f 512 -i 2 --transport $transport --check --explain --json
    json 'd["ranks"] == 4 and len(d["rows"]) == 3 and all(r["wrong"] == 0 for r in d["rows"])'
    json 'all(r["algo"] == "by/hand" and r["origin"] == "plan" and r["segments"] == 2 for r in d["rows"])'
done
# Messages larger than what a rank's window has for one peer: they move on piece by piece. (A rank that is kept from a core for long is given bytes
# instead, so this may be tried again.)
runs 0 plan --topo full:4 --algo direct --option segments=1 --size 2M -o long.json
for try in 1 2 3 4 5; do
    runs 0 bench --plan long.json -b 2M -e 2M -i 2 --mem malloc --check --explain --json
    json 'd["rows"][0]["wrong"] == 0'
    python3 -c 'import json; exit(json.load(open("out"))["rows"][0]["carried"]["message"] != 0)' && break
    [ $try != 5 ] || bad "pieces waited for room until they went as bytes: $(cat out)"
done
# Every collective, each by a plan of its own, in one job too.
all=
for coll in reduce-scatter all-gather broadcast reduce gather scatter all-to-all; do
    algo=$("$tutti" plan --topo star:4 --algo auto --coll $coll --size 64K -o $coll.json | sed 's/:.*//;q')
    edit $coll.json $coll.json 'd["algo"] = "mine"'
    runs 0 bench --plan $coll.json -b 64K -e 64K -i 2 --check --explain --json
    json "d['coll'] == '$coll' and d['rows'][0]['wrong'] == 0 and d['rows'][0]['algo'] == 'mine' and d['rows'][0]['origin'] == 'plan'"
    all=$all:$work/$coll.json
done
TUTTI_PLAN=$all:ring.json runs 0 bench -n 4 -b 4K -e 4K -i 2 --check --explain --json
json 'd["rows"][0]["origin"] == "plan" and d["rows"][0]["algo"] == "ring"'
# Without -n a job has as many ranks as its plans are for.
runs 0 run --plan hand.json --plan reduce.json -- "$tutti" bench -b 4K -e 4K -i 2 --json
json 'd["ranks"] == 4'
runs 0 plan --topo star:3 --coll broadcast --size 64K -o three.json
runs 2 run --plan hand.json --plan three.json -- true
complains '^tutti run: -n N is needed: there are plans for 4 and for 3 ranks'
runs 2 run --plan nothing.json -- true
complains 'nothing.json'
runs 2 run -- true
complains '^tutti run: -n N is needed: how many ranks'
# What ran is what was given.
TUTTI_DUMP=$work/dump runs 0 bench --plan hand.json -b 64K -e 64K -i 2
runs 0 verify "$(ls dump/allreduce-by_hand-4-65536-*.json)"
cmp -s <(python3 -m json.tool hand.json | sed -n '/slices/,$p') <(python3 -m json.tool dump/allreduce-by_hand-4-65536-*.json | sed -n '/slices/,$p') || bad "the dump has other operations"
# Options of the program, a call in place, and communicators of a split, whose rank 0 reads the plan that fits it.
runs 0 plan --topo star:2 --algo direct --size 64K -o pair.json
edit pair.json pair.json 'd["algo"] = "pair"'
runs 0 run -n 4 -- "$program" "$work/hand.json:$work/pair.json"
[ "$(sort out | tr '\n' ' ')" = '2 pair plan 2 pair plan 4 by/hand plan ' ] || bad "split: $(cat out)"
runs 0 run -n 4 --plan pair.json -- "$program"
grep -Eq '^2 pair plan' out && grep -Eq '^4 [a-z-]+ planner' out || bad "split: $(cat out)"
grep -q 'rank 0 warn: plan .*pair.json is for allreduce on 2 ranks and the job has 4' err || bad "no warning: $(cat err)"
# Calls that it does not fit are planned, and a plan that never ran is told.
TUTTI_PLAN=$work/broadcast.json runs 0 bench -n 4 -b 4K -e 4K -i 2 --coll all-gather --explain --json
json 'd["rows"][0]["origin"] == "planner"'
TUTTI_PLAN=$work/all-to-all.json "$tutti" run -n 4 -- "$program" >out 2>err || bad "unused plan: $(cat err)"
grep -q 'plan .*all-to-all.json never ran: no call was the all-to-all that it is for' err || bad "unused plan: $(cat err)"
# One that fits and must not run says why; what ran in its place is no sum.
TUTTI_DUMP=$work/own runs 0 run -n 4 --plan hand.json -- "$program" own
grep -q 'plan .*hand.json never ran: the calls of allreduce had to be summed in rank order' err || bad "a plan that cannot run: $(cat err)"
runs 0 verify own/allreduce-*-4-8248-*.json
grep -q '"op": "user"' own/allreduce-*-4-8248-*.json && grep -q 'f64 user' own/allreduce-*-4-8248-*-rank0.txt || bad "the dump of a call with its own reduction"

# Wrong ones: the proof names rank and operation, on every rank.
edit ring.json wrong.json 'ops = d["slices"][3]; del ops[[o[0] for o in ops].index(2)]'
refused 'plan .*wrong.json: the schedule of allreduce by ring on 4 ranks .* is not correct: rank [0-9]+, op [0-9]+: ' 4 "$program" "$work/wrong.json"
refused 'plan .*nowhere.json: No such file' 2 "$program" "$work/nowhere.json"
echo '{"format": "tutti-schedule", "version": 1, ' >short.json
refused 'short.json:[0-9]+:[0-9]+: ' 2 "$program" "$work/short.json"
TUTTI_ALGO=ring refused 'the algorithm ring is named for allreduce, and a plan is given' 4 "$program" "$work/ring.json"
TUTTI_REPRODUCIBLE=1 refused 'cannot be reproducible' 4 "$program" "$work/ring.json"
runs 0 plan --topo star:2 --algo oneshot --coll gather --size 64 -o lazy.json
edit lazy.json lazy.json 'd["chunks"] = 1; d["owner"] = [0]; d["slices"] = [[[4,0,0,0,1,0,0,1,0,1]], []]'
runs 0 verify lazy.json
refused 'plan .*lazy.json: rank 1 owns no chunk, but gather has a block for every rank' 2 "$program" "$work/lazy.json"
edit ring.json part.json 'd["first_rank"] = 1; d["slices"] = d["slices"][1:]'
refused 'plan .*part.json: ' 2 "$program" "$work/part.json"
refused 'plan is "(given|none)" on ranks? .* but "(given|none)" on' 2 bash -c '[ $TUTTI_RANK = 1 ] || export TUTTI_PLAN='"$work/pair.json"'; exec '"$program"
runs 2 bench --plan ring.json --coll all-gather
complains 'the plan is for allreduce'
runs 2 bench -n 3 --plan ring.json
grep -q 'tutti bench: -n 3: the plan is for 4 ranks' err || bad "a plan for 4 ranks on 3: $(cat err)"
runs 2 bench --plan ring.json --algo ring
complains 'give one of them'

# Tuning files.
tuning() { echo '{"format": "tutti-tuning", "version": 1, "rules": ['"$2"']}' >"$1"; }
tuning t.json '{"coll": "allreduce", "min_bytes": 4096, "algo": "chain"}'
for transport in shm tcp; do
    runs 0 bench -n 3 -b 1K -e 16K -f 16 -i 2 --tuning t.json --transport $transport --check --explain --json
    json '[r["origin"] for r in d["rows"]] == ["planner", "tuning"] and d["rows"][1]["algo"] == "chain" and d["rows"][1]["wrong"] == 0'
done
tuning s.json '{"coll": "allreduce", "algo": "multitree", "options": {"segments": "2"}}'
runs 0 run -n 4 --tuning s.json -- "$program"
[ "$(sort out | tr '\n' ' ')" = '2 multitree tuning 2 multitree tuning 4 multitree tuning ' ] || bad "synthesised rule: $(cat out)"
runs 0 run -n 2 -- "$program" - "$work/t.json"
says '^2 chain tuning'
tuning torus.json '{"coll": "allreduce", "min_ranks": 3, "algo": "bucket"}'
refused 'torus.json: rule 1 \(allreduce, from 3 ranks: bucket\) cannot be kept on 4 ranks: .*torus' 4 "$program" - "$work/torus.json"
runs 0 run -n 2 -- "$program" - "$work/torus.json"
TUTTI_REPRODUCIBLE=1 refused 'chain does not sum in rank order' 2 "$program" - "$work/t.json"
tuning odd.json '{"coll": "allreduce", "min_bytes": 4096, "algo": "ring"}'
refused 'tuning rule 1 is "allreduce, from 4096 bytes: chain" on rank 0 but "allreduce, from 4096 bytes: ring" on rank 1' 2 bash -c "exec $program - $work/\$([ \$TUTTI_RANK = 0 ] && echo t || echo odd).json"
cp t.json other.json
runs 0 run -n 2 -- bash -c "exec $program - $work/\$([ \$TUTTI_RANK = 0 ] && echo t || echo other).json"
refused 'tuning is "1 rule, .*" on rank 0 but "cannot be read" on rank 1' 2 bash -c "exec $program - $work/\$([ \$TUTTI_RANK = 0 ] && echo t || echo none).json"
refused 'tuning file .*none.json: No such file' 2 "$program" - "$work/none.json"
# The tool's own ranks: bad input is 2, said once. What cannot be read is found before ranks are started.
tuning wrong.json '{"coll": "allreduce", "algo": "chian"}'
runs 2 bench -n 3 -b 4K -e 4K -i 2 --tuning wrong.json
[ "$(cat err)" = "tutti bench: wrong.json:1:82: no algorithm 'chian'; did you mean chain?" ] || bad "bad tuning: $(cat err)"
runs 1 bench -n 3 -b 4K -e 4K -i 2 --algo bucket
[ "$(grep -v ' warn: ' err)" = 'tutti bench: bucket: needs a torus, not a network without a named form' ] || bad "refused algorithm: $(cat err)"
for option in plan tuning; do
    runs 2 run -n 2 --$option none.json -- true
    complains "^tutti run: --$option none.json: No such file"
done
finish
