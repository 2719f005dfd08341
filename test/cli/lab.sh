#!/usr/bin/env bash
# tutti lab: hosts, variables, output, rates; whatever happens, no namespace, process or key file stays behind. Needs root.
. "$(dirname "$0")/lib.sh"
unset TUTTI_RANK TUTTI_SIZE TUTTI_LOCAL_RANK TUTTI_RENDEZVOUS TUTTI_KEY_FILE TUTTI_TIMEOUT RANK WORLD_SIZE
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
PATH=$PATH:/usr/sbin:/sbin

runs 2 lab --nodes 2 --rate fast -- true
complains 'fast'
runs 2 lab --nodes 2 --rate 10GB -- true
complains 'bits or bytes'
runs 2 lab --nodes 3 --rates 1gbit,2gbit -- true
complains '2 rates for 3 nodes'
runs 2 lab --nodes 2 --rate 1gbit --rates 1gbit,2gbit -- true
complains 'not both'
runs 2 lab --rate 1gbit -- true
complains 'nodes'
runs 2 lab --nodes 1000 -- true
complains '1000'
runs 2 lab --nodes 4 --groups 2,3 -- true
complains 'more hosts than the 4'
runs 2 lab --nodes 4 --groups 2,1 -- true
complains '1 of 4 hosts are in no group'
runs 2 lab --nodes 4 --groups 2,two -- true
complains 'groups'
runs 2 lab --nodes 4 --uplink 1gbit -- true
complains 'needs --groups'
runs 2 lab --nodes 4 --groups 2,2 --uplink slow -- true
complains 'slow'
runs 2 lab --nodes 2
complains 'no program'

skip() {
    echo "skipped: $1"
    finish
    exit
}
if [ "$(id -u)" != 0 ]; then
    runs 2 lab --nodes 2 -- true
    complains 'root'
    skip "not root"
fi
command -v ip >/dev/null && command -v tc >/dev/null || skip "no ip or tc"
ip netns add "tutti-lab-try-$$" 2>err || skip "no network namespaces here: $(cat err)"
ip netns del "tutti-lab-try-$$"

mark=tutti-lab-test-$$ # in the command line of every process that must not survive
cp "$(command -v sleep)" "$mark"
before=$(ip -o link | cut -d: -f2)
# no_net PID WHAT: the lab of that process has left no namespace
no_net() {
    [ -z "$(ip netns list | grep "^tutti-lab-$1-")" ] || bad "$2: namespaces left: $(ip netns list)"
}
ready() {
    local i
    for i in $(seq 200); do
        [ "$(ls -d ready.* 2>/dev/null | wc -l)" -ge "$1" ] && return
        sleep 0.1
    done
    bad "ranks did not start: $(cat err)"
}

# every host is one rank with a network, a name and shared memory of its own
runs 0 lab --nodes 3 --rate 1gbit -- sh -c 'echo "$PPID" >pid; : >/dev/shm/mine; { hostname; echo "$TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_RENDEZVOUS"
    echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"; ip -4 -o addr show eth0 | tr -s " " | cut -d" " -f4
    getent hosts node2 | tr -s " "; ls /dev/shm; stat -L -c %a "$TUTTI_KEY_FILE"; ip -o link | wc -l; } >"seen.$RANK"; echo "output of $RANK"; echo "error of $RANK" >&2'
[ "$(cat out)" = "output of 0" ] || bad "standard output is not rank 0's untouched: $(cat out)"
[ "$(sort err | tr '\n' '|')" = '[0] error of 0|[1] error of 1|[2] error of 2|' ] || bad "standard error: $(cat err)"
for r in 0 1 2; do
    want="node$r|$r 3 0 10.77.0.1:29400|$r 3 0 1 10.77.0.1 29500|10.77.0.$((r + 1))/24|10.77.0.3 node2|mine|600|2|"
    [ "$(tr '\n' '|' <seen.$r)" = "$want" ] || bad "rank $r sees $(tr '\n' '|' <seen.$r), not $want"
done
no_net "$(cat pid)" "a good run"
runs 0 lab --nodes 2 --prefix -- sh -c 'echo "output of $RANK"'
[ "$(cat out)" = "output of 0" ] && [ "$(cat err)" = "[1] output of 1" ] || bad "--prefix: $(cat out) / $(cat err)"
[ "$(ip -o link | cut -d: -f2)" = "$before" ] || bad "the machine's interfaces changed"

# the hosts reach each other, at the rates given
cat >talk.py <<'PY'
import os, socket, sys, time
rank, total = int(os.environ["TUTTI_RANK"]), int(sys.argv[1])
if rank == 1:
    s = socket.create_server(("10.77.0.2", 5000))
    c = s.accept()[0]
    got, start = 0, time.time()
    while got < total:
        got += len(c.recv(1 << 20))
    c.sendall(b"%f" % (time.time() - start))
else:
    for i in range(100):
        try:
            c = socket.create_connection(("node1", 5000))
            break
        except OSError:
            time.sleep(0.1)
    c.sendall(bytes(total))
    print(total * 8 / 1e6 / float(c.recv(64)))
PY
runs 0 lab --nodes 2 --rate 50mbit -- python3 talk.py 4000000
awk '{ exit !($1 > 1 && $1 < 75) }' out || bad "50 Mbit/s gave $(cat out)"
runs 0 lab --rates 1gbit,20mbit -- python3 talk.py 2000000
awk '{ exit !($1 > 1 && $1 < 30) }' out || bad "into a host at 20 Mbit/s went $(cat out)"
# one pair is measured: a third host is an assumption, which bench says
runs 0 lab --nodes 3 --rate 1gbit -- "$tutti" bench -b 4K -e 4K -i 1 -w 0
says '^# predictions take all hosts to be as fast as the two that were measured; .*probe.*TUTTI_TOPO'
runs 0 lab --nodes 2 --rate 1gbit -- "$tutti" bench -b 4K -e 4K -i 1 -w 0
grep -q 'take all hosts' out && bad "two hosts are both measured: $(cat out)"
if command -v iperf3 >/dev/null; then
    runs 0 lab --nodes 2 --rate 1gbit -- sh -c 'if [ "$RANK" = 1 ]; then exec timeout 15 iperf3 -s -1 >/dev/null; fi; sleep 0.5; iperf3 -c node1 -t 1 -f m | grep receiver'
    echo "iperf3 through 1 Gbit/s:$(cut -c 20- out)"
fi

# failures: named, exit 1, clean
runs 1 lab --nodes 3 --timeout 200ms -- sh -c 'echo "$PPID" >pid; [ "$RANK" = 1 ] && kill -9 $$; ./$0 1000' "$mark"
grep -Eq '^tutti lab: rank 1 \(host node1, pid [0-9]+\) was killed by signal 9' err || bad "not named: $(cat err)"
no_net "$(cat pid)" "a crash"
gone "a crash"
runs 2 lab --nodes 2 -- ./no-such-program
complains 'cannot start ./no-such-program'
runs 0 lab --nodes 1 -- sh -c 'echo "$PPID" >pid; setsid -f ./$0 1000 >/dev/null 2>&1 </dev/null; exit 0' "$mark"
no_net "$(cat pid)" "a daemon in a host"
gone "a daemon in a host"
for s in INT TERM; do
    rm -f ready.*
    env --default-signal=INT "$tutti" lab --nodes 2 -- sh -c ': >ready.$RANK; exec ./$0 1000' "$mark" >out 2>err &
    pid=$!
    ready 2
    kill -s $s $pid
    wait $pid
    [ $? = 1 ] || bad "exit after SIG$s"
    no_net $pid "SIG$s"
    gone "SIG$s"
done
env --default-signal=INT "$tutti" lab --nodes 8 -- ./$mark 1000 >out 2>err & # in the middle of building
pid=$!
for i in $(seq 100); do ip netns list 2>/dev/null | grep -q "^tutti-lab-$pid-3" && break; sleep 0.02; done
kill -s INT $pid
wait $pid
[ $? = 1 ] || bad "exit after SIGINT while building: $(cat err)"
no_net $pid "SIGINT while building"
gone "SIGINT while building"

# killed, it can clean nothing; the next one does
rm -f ready.*
"$tutti" lab --nodes 2 -- sh -c ': >ready.$RANK; setsid -f ./$0 1000; exec ./$0 1000' "$mark" >out 2>err &
pid=$!
ready 2
kill -9 $pid
wait $pid 2>/dev/null
[ -z "$(ls -A "$TMPDIR")" ] || bad "a killed lab leaves files: $(ls -A "$TMPDIR")"
ip netns list | grep -q "^tutti-lab-$pid-" || echo "another lab was faster: what a killed one leaves is not tested"
runs 0 lab --nodes 1 -- true
no_net $pid "a killed lab, after the next one"
gone "a killed lab, after the next one"
[ "$(ip -o link | cut -d: -f2)" = "$before" ] || bad "the machine's interfaces changed"
finish
