#!/usr/bin/env bash
# tutti run: the variables, output, exit codes, signals; nothing is left behind. The ranks are one-line shell programs.
. "$(dirname "$0")/lib.sh"
unset TUTTI_RANK TUTTI_SIZE TUTTI_LOCAL_RANK TUTTI_RENDEZVOUS TUTTI_KEY_FILE TUTTI_TIMEOUT RANK WORLD_SIZE
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
mark=tutti-run-test-$$ # in the command line of every process that must not survive
cp "$(command -v sleep)" "$mark"

# within SECONDS: the time since `began` is less (generous: the machine may be busy)
within() {
    [ $((SECONDS - began)) -lt "$1" ] || bad "$2: took $((SECONDS - began)) s"
}
# ready N: N ranks have made their files
ready() {
    local i
    for i in $(seq 100); do
        [ "$(ls -d ready.* 2>/dev/null | wc -l)" -ge "$1" ] && return
        sleep 0.1
    done
    bad "ranks did not start"
}

# variables
runs 0 run -n 3 -- sh -c 'echo "$TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $TUTTI_RENDEZVOUS $MASTER_ADDR:$MASTER_PORT"'
for r in 0 1 2; do
    says "^$r 3 $r $r 3 $r 3 127\.0\.0\.1:[0-9]+ 127\.0\.0\.1:[0-9]+$"
done
[ "$(wc -l <out)" = 3 ] || bad "not three lines: $(cat out)"
[ "$(cut -d' ' -f8- out | sort -u | wc -l)" = 1 ] || bad "ranks meet at different places: $(cat out)"
awk '$8 == $9 { exit 1 }' out || bad "torch and tutti share a port: $(cat out)"
runs 0 run -n 2 -- sh -c 'stat -L -c "%a %s" "$TUTTI_KEY_FILE"; echo "$(od -An -tx1 -v "$TUTTI_KEY_FILE" | tr -d " \n")"'
[ "$(grep -c '^600 32$' out)" = 2 ] || bad "key file is not private or not 32 bytes: $(cat out)"
[ "$(grep -Ec '^[0-9a-f]{64}$' out)" = 2 ] && [ "$(grep -E '^[0-9a-f]{64}$' out | sort -u | wc -l)" = 1 ] || bad "not one key: $(cat out)"
TUTTI_REPORT=1 LD_LIBRARY_PATH=/some/where runs 0 run -n 1 --timeout 7s -- sh -c 'echo "$TUTTI_TIMEOUT $TUTTI_REPORT $LD_LIBRARY_PATH"'
says '^7s 1 /some/where$'
TUTTI_RANK=9 RANK=9 runs 0 run -n 1 sh -c 'echo "$TUTTI_RANK $RANK $1" ' sh --help
says '^0 0 --help$'
gone variables

# standard input and output
printf 'for rank 0\n' | "$tutti" run -n 3 -- cat >out 2>err || bad "cat failed: $(cat err)"
[ "$(cat out)" = "for rank 0" ] || bad "standard input is not rank 0's: $(cat out)"
runs 0 run -n 2 --prefix -- sh -c 'echo "out $RANK"; echo "err $RANK" >&2; printf partial'
[ "$(sort out | tr '\n' '|')" = '[0] out 0|[0] partial|[1] out 1|[1] partial|' ] || bad "prefix: $(cat out)"
[ "$(sort err | tr '\n' '|')" = '[0] err 0|[1] err 1|' ] || bad "prefix on standard error: $(cat err)"
runs 0 run -n 4 --prefix -- awk 'BEGIN { r = ENVIRON["RANK"]; s = sprintf("%3000s", ""); gsub(/ /, r, s); for (i = 0; i < 200; i++) print i " " s }'
awk '{ r = substr($1, 2, 1); if ($1 != "[" r "]" || $2 != n[r]++ || length($3) != 3000 || $3 !~ "^" r "*$") bad = 1 }
    END { exit bad || NR != 800 }' out || bad "lines are mixed, lost or out of order"
runs 0 run -n 2 --prefix -- sh -c 'head -c 200000 /dev/zero | tr "\0" x; echo; echo end'
[ "$(grep -c '^\[[01]\] end$' out)" = 2 ] && [ "$(tr -cd x <out | wc -c)" = 400000 ] || bad "a very long line lost bytes"
began=$SECONDS
"$tutti" run -n 2 --prefix -- sh -c "yes $mark" 2>err | head -3 >out
[ "$(grep -c "^\[[01]\] $mark" out)" = 3 ] || bad "head did not get its lines: $(cat out)"
within 20 "a reader that went away"
gone output

# exit codes: a failing rank is named, once
runs 1 run -n 3 -- sh -c '[ "$RANK" = 1 ] && exit 3; exit 0'
complains '^tutti run: rank 1 \(pid [0-9]+\) exited with status 3$'

# whom the ranks blame is found behind anything else that they wrote, and one text is said once
runs 1 run -n 2 -- sh -c 'if [ $TUTTI_RANK = 0 ]; then
    { yes said something that is not a verdict | head -c 2000000; echo; echo "1 of 2: rank 1 is dead"; } >>"$TUTTI_VERDICT"; exit 4
fi; sleep 0.3; exit 3'
complains '^tutti run: rank 1 \(pid [0-9]+\) exited with status 3$'
runs 1 run -n 3 -- sh -c '[ "$RANK" = 2 ] && kill -9 $$; exit 0'
complains '^tutti run: rank 2 \(pid [0-9]+\) was killed by signal 9 \(Killed\)$'
for i in 1 2 3; do # the killed one is named, not those that fail because of it
    runs 1 run -n 4 -- sh -c '[ "$RANK" = 2 ] && kill -9 $$; exit 1'
    complains '^tutti run: rank 2 .* signal 9'
    complains '^tutti run: failed too: 0, 1, 3$'
done
runs 2 run -n 2 -- ./no-such-program
complains 'cannot start ./no-such-program: No such file'
runs 2 run -n 2
complains 'no program'
runs 2 run -- true
complains '-n N'
runs 2 run -n 0 -- true
complains '0'
runs 2 run -n 2 --timeout 5 -- true
complains 'timeout'
TUTTI_TIMEOUT=soon runs 2 run -n 2 -- true
complains 'TUTTI_TIMEOUT.*soon'
runs 2 run -n 2 --hosts localhost,-oProxyCommand=x -- true
complains 'not a host name'
TMPDIR=/no/such/dir runs 0 run -n 1 -- true # nothing is written there
gone 'exit codes'

# the survivors have their time, and no more
began=$SECONDS
runs 1 run -n 3 --timeout 300ms -- sh -c '[ "$RANK" = 1 ] && exit 3; [ "$RANK" = 2 ] && { trap "" TERM; sleep 0.6; echo reported; }; while :; do sleep 0.1; done' "$mark"
says '^reported$'
grep -q '^tutti run: rank 1 .* exited with status 3$' err || bad "not named: $(cat err)"
grep -q '^tutti run: still running 1.3 s later and ended: 0, 2$' err || bad "the end of the others is not told: $(cat err)"
within 25 "ending survivors"
gone survivors

# what a rank leaves running ends with the job; a pipeline still gets its time
began=$SECONDS
runs 0 run -n 2 --prefix -- sh -c '(sleep 0.3; echo late) & ./$0 1000 & exit 0' "$mark"
[ "$(grep -c 'late$' out)" = 2 ] || bad "output of a rank's child is lost: $(cat out)"
within 25 "children of ranks"
gone children

# signals reach all ranks
trapping='trap "echo got-$RANK-USR1" USR1; trap "echo got-$RANK-USR2" USR2; trap "echo got-$RANK-HUP" HUP; trap "echo got-$RANK-TERM; exit 0" TERM
    : >ready.$RANK; while :; do sleep 0.05; done'
rm -f ready.*
env --default-signal=INT,HUP "$tutti" run -n 2 -- sh -c "$trapping" "$mark" >out 2>err &
pid=$!
ready 2
for s in USR1 USR2 HUP; do
    kill -s $s $pid
    for i in $(seq 100); do [ "$(grep -c "got-[01]-$s" out)" = 2 ] && break; sleep 0.05; done
done
kill -s TERM $pid
wait $pid || bad "ranks that end well after SIGTERM: exit $?: $(cat err)"
for s in USR1 USR2 HUP TERM; do
    [ "$(grep -c "got-[01]-$s" out)" = 2 ] || bad "SIG$s did not reach both ranks: $(cat out)"
done
rm -f ready.*
env --default-signal=INT "$tutti" run -n 2 -- sh -c ': >ready.$RANK; exec ./$0 1000' "$mark" >out 2>err &
pid=$!
ready 2
kill -s INT $pid
wait $pid
[ $? = 1 ] || bad "exit after SIGINT"
complains '^tutti run: stopped by signal 2 \(Interrupt\)$'
rm -f ready.*
began=$SECONDS
env --default-signal=INT "$tutti" run -n 2 -- sh -c 'trap "echo deaf" INT; : >ready.$RANK; while :; do sleep 0.1; done' "$mark" >out 2>err &
pid=$!
ready 2
kill -s INT $pid
for i in $(seq 100); do [ "$(grep -c deaf out)" = 2 ] && break; sleep 0.05; done
sleep 0.2 # within 50 ms the two would be one
kill -s INT $pid
wait $pid
[ $? = 1 ] || bad "exit after the second SIGINT"
within 20 "the second SIGINT"
rm -f ready.*
began=$SECONDS # a rank that traps SIGTERM has its time, and no more
"$tutti" run -n 2 --timeout 300ms -- sh -c 'trap "echo deaf >&2" TERM; : >ready.$RANK; while :; do sleep 0.1; done' "$mark" >out 2>err &
pid=$!
ready 2
kill -s TERM $pid
wait $pid
[ $? = 1 ] || bad "exit after SIGTERM that ranks trap"
[ "$(grep -c deaf err)" = 2 ] || bad "SIGTERM did not reach both ranks: $(cat err)"
grep -q '^tutti run: stopped by signal 15 (Terminated)$' err || bad "SIGTERM is not told: $(cat err)"
grep -q '^tutti run: still running 1.3 s later and ended: 0, 1$' err || bad "the end of deaf ranks is not told: $(cat err)"
within 20 "SIGTERM that ranks trap"
gone signals
rm -f ready.*
"$tutti" run -n 3 -- sh -c ': >ready.$RANK; exec ./$0 1000' "$mark" >out 2>err &
pid=$!
ready 3
kill -9 $pid
wait $pid 2>/dev/null
for i in $(seq 50); do pgrep -f -- "$mark" >/dev/null || break; sleep 0.1; done
[ -z "$(pgrep -f -- "$mark")" ] || bad "ranks outlive a killed launcher"
[ -z "$(ls -A "$TMPDIR")" ] || bad "a killed launcher leaves files: $(ls -A "$TMPDIR")"

# a terminal: rank 0 may read it, Ctrl-C reaches every rank once
python3 - "$tutti" >tty.out 2>&1 <<'PY' || bad "on a terminal: $(cat tty.out)"
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["tutti", "run", "-n", "2", "--", "sh", "-c",
        'trap "echo INT-$RANK" INT; trap "exit 0" TERM; [ $RANK = 0 ] && read x && echo "read $x"; echo up-$RANK; while :; do sleep 0.05; done'])
seen = b""
def until(*words):
    global seen
    end = time.time() + 20
    while not all(w in seen for w in words):
        assert time.time() < end, "no %r in %r" % (words, seen)
        if select.select([fd], [], [], 0.2)[0]:
            seen += os.read(fd, 4096)
os.write(fd, b"typed\n")
until(b"read typed", b"up-0", b"up-1")
os.write(fd, b"\x03")
until(b"INT-0", b"INT-1")
time.sleep(0.3)
while select.select([fd], [], [], 0)[0]:
    seen += os.read(fd, 4096)
assert seen.count(b"INT-0") == 1 and seen.count(b"INT-1") == 1, seen
os.kill(pid, 15)
status = os.waitpid(pid, 0)[1]
assert status == 0, (status, seen)
PY

# hosts: entries for this machine start here; others through ssh (a stand-in that runs the command on this machine)
runs 0 run --hosts localhost,127.0.0.1 -n 3 -- sh -c 'echo "$TUTTI_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE"'
[ "$(sort out | tr '\n' '|')" = '0 0 3|1 1 3|2 2 3|' ] || bad "local hosts: $(cat out)"
mkdir bin
cat >bin/ssh <<'SSH'
#!/bin/sh
echo "$*" >>"$SSH_LOG"
if [ "$1" = -G ]; then # names that only ~/.ssh/config knows
    case ${2#me@} in alpha) set -- -G 127.0.0.3 ;; esac
    printf 'user me\nhostname %s\nport 22\n' "$2"
    exit
fi
while [ "${1#-}" != "$1" ]; do
    [ "$1" = -o ] && shift
    shift
done
shift
unset RANK TUTTI_RANK TUTTI_KEY_FILE
setsid -w sh -c "$*" # not our child: it must notice by itself when we are killed
SSH
chmod +x bin/ssh
export SSH_LOG=$work/ssh.log
PATH=$work/bin:$PATH TUTTI_REPORT=1 runs 0 run -n 4 --hosts localhost,127.0.0.2 -- sh -c 'echo "$TUTTI_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $TUTTI_REPORT $1 $(pwd) $(stat -L -c %a "$TUTTI_KEY_FILE")"; wc -c </dev/stdin' sh "it's"
for l in '0 0 2' '1 1 2' '2 0 2' '3 1 2'; do
    says "^$l 1 it's $work 600$"
done
[ "$(grep -c '^0$' out)" = 4 ] || bad "standard input on other hosts: $(cat out)"
[ "$(wc -l <ssh.log)" -ge 2 ] || bad "ssh was not used"
grep -Eq '[0-9a-f]{64}' ssh.log && bad "the key is in the command line of ssh"
PATH=$work/bin:$PATH runs 0 run -n 4 --hosts localhost,127.0.0.2 -- sh -c 'f=$TUTTI_KEY_FILE; [ "$(wc -c <"$f")" = 32 ] || exec cat "$f"; echo "$(od -An -tx1 -v "$f" | tr -d " \n")"'
[ "$(wc -l <out)" = 4 ] && [ "$(sort -u out | wc -l)" = 1 ] || bad "not one key on all hosts: $(cat out)"
gone hosts
PATH=$work/bin:$PATH runs 1 run -n 2 --hosts localhost,127.0.0.2 -- sh -c '[ "$RANK" = 1 ] && kill -9 $$; exit 0'
complains '^tutti run: rank 1 \(host 127.0.0.2\) was killed by signal 9 \(Killed\)$'
for hosts in localhost,alpha alpha,localhost me@alpha; do
    PATH=$work/bin:$PATH runs 0 run -n 2 --hosts $hosts -- sh -c 'echo "$TUTTI_RANK $TUTTI_RENDEZVOUS"'
    [ "$(grep -Ec '^[01] 127\.[0-9.]*:[0-9]+$' out)" = 2 ] || bad "names of ~/.ssh/config: $(cat out err)"
done
rm -f ready.*
PATH=$work/bin:$PATH env --default-signal=INT "$tutti" run -n 2 --hosts 127.0.0.2 -- sh -c "$trapping" "$mark" >out 2>err &
pid=$!
ready 2
kill -s USR1 $pid
for i in $(seq 100); do [ "$(grep -c 'got-[01]-USR1' out)" = 2 ] && break; sleep 0.05; done
[ "$(grep -c 'got-[01]-USR1' out)" = 2 ] || bad "signals to other hosts: $(cat out err)"
kill -9 $pid
wait $pid 2>/dev/null
for i in $(seq 80); do pgrep -f -- "$mark" >/dev/null || break; sleep 0.1; done
[ -z "$(ls -A "$TMPDIR")" ] || bad "a killed launcher leaves files: $(ls -A "$TMPDIR")"
gone 'a killed launcher, seen from another host'
finish
