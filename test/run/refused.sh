#!/usr/bin/env bash
# What a job that cannot be opened says, end to end: a topology of another size, settings, keys, interfaces and ports of one rank that do not
# fit, a second job on the port of a running one, which must not notice. Usage: refused.sh TUTTI OPENS (test/run/misuse.c) SLOW (test/run/slow.c)
tutti=$1 opens=$2 slow=$3
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export XDG_CACHE_HOME=$work TMPDIR=$work
unset TUTTI_TRANSPORT TUTTI_ALGO TUTTI_TOPO TUTTI_REPORT TUTTI_RENDEZVOUS TUTTI_KEY_FILE

bad() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# refused PATTERN SETTING: a job of 3 in whose rank 1 SETTING is evaluated first exits 1 and says PATTERN; the launcher names
# rank 1, unless all ranks are alike
refused() {
    timeout 60 "$tutti" run -n 3 --timeout 2s --prefix -- sh -c '[ "$RANK" != 1 ] || eval "$1"; exec "$2"' sh "$2" "$opens" >out 2>err </dev/null
    local code=$?
    [ $code = 1 ] || bad "$2: exit $code"
    grep -Eq -- "$1" err || bad "$2: not '$1' but: $(cat err)"
    local named='rank 1 \(pid [0-9]+\) exited with status'
    [ "$2" != : ] || named='the ranks failed together: topology star:5'
    grep -Eq -- "^tutti run: $named" err || bad "$2: not '$named' but: $(grep '^tutti run' err)"
}

TUTTI_TOPO=star:5 refused 'topology star:5 has 5 ranks, the job has 3' :
refused '^\[1\] .*the ranks disagree: topo is "as found" on ranks 0, 2 but "given" on rank 1' 'export TUTTI_TOPO=star:5'
TUTTI_TOPO=ring:3 refused '^\[0\] .*rank 1 has another network than rank 0: the link 0-1 has 10 Gbit/s at rank 0 and 20 Gbit/s at rank 1' 'export TUTTI_TOPO=ring:3@20G'
TUTTI_TOPO=ring:3 refused '^\[2\] .*rank 1: .*no-such-file' 'export TUTTI_TOPO=./no-such-file'
refused '^\[0\] .*the ranks disagree: algo is "auto" on ranks 0, 2 but "ring" on rank 1' 'export TUTTI_ALGO=ring'
refused '^\[1\] .*no transport .pigeons.' 'export TUTTI_TRANSPORT=pigeons'
refused '^\[0\] .*the ranks disagree: .*encrypt' 'export TUTTI_ENCRYPT=1'
refused '^\[1\] .*TUTTI_REPORT is .yes.: 0 or 1 is expected' 'export TUTTI_REPORT=yes'
echo '{"format": "tutti-tuning", "version": 1, "rules": [{"coll": "allreduce", "algo": "ring"}]}' >rules.json
refused '^\[0\] .*the ranks disagree: tuning is "none" on ranks 0, 2 but "1 rule, ' 'export TUTTI_TUNING=$PWD/rules.json'
head -c 32 /dev/urandom >other.key
chmod 600 other.key
refused '^\[1\] .*did not accept our key' "export TUTTI_KEY_FILE=$work/other.key"
refused '^\[0\] .*rank 1 came with another key than rank 0' "export TUTTI_KEY_FILE=$work/other.key"
refused '^\[1\] .*nosuch' 'export TUTTI_KEY_FILE=/nosuch'
refused '^\[1\] .*no network interface matches "nosuch0"' 'export TUTTI_IFACE=nosuch0'
python3 - >port <<'PY' &
import socket, sys, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(300)
PY
holder=$!
for i in $(seq 100); do [ -s port ] && break; sleep 0.05; done
refused "^\[1\] .*(port|ports).* $(cat port)" "export TUTTI_PORTS=$(cat port)-$(cat port)"

# a second job on the port of a running one
cat >job <<'SH'
echo "$TUTTI_RENDEZVOUS" >place
exec "$@"
SH
timeout 60 "$tutti" run -n 3 --timeout 5s -- sh job "$slow" 1 20 1000 200 >out.first 2>&1 &
first=$!
for i in $(seq 100); do [ -s place ] && break; sleep 0.05; done
sleep 0.5
timeout 60 "$tutti" run -n 3 --timeout 2s --prefix -- env TUTTI_RENDEZVOUS="$(cat place)" "$opens" >out 2>err
[ $? = 1 ] || bad "a second job: exit $?"
grep -Eq '^\[0\] .*(in use|not an address)' err || bad "a second job: $(cat err)"
kill -0 $first 2>/dev/null || bad "the first job was over before the second came"
wait $first || bad "the first job was disturbed: $(cat out.first)"
kill $holder
echo "$failures failures"
[ "$failures" = 0 ]
