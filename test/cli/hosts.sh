#!/usr/bin/env bash
# tutti run on two machines: two emulated hosts with an sshd each, in namespaces that vanish with this test. Slots, hostfiles, a real job, a
# rank that dies, a launcher that is killed. Skips itself, with the reason, where there is no root, no sshd or no namespaces.
if [ "${HOSTS_INSIDE:-}" != 1 ]; then
    export PATH=$PATH:/usr/sbin:/sbin
    skip() { echo "skipped: $*"; exit 0; }
    [ "$(id -u)" = 0 ] || skip "emulated hosts need root"
    for tool in ip sshd ssh ssh-keygen unshare nsenter; do
        command -v $tool >/dev/null || skip "$tool is not installed (tools/setup hosts)"
    done
    unshare --net --mount --uts --ipc --pid --fork true 2>/dev/null || skip "namespaces cannot be made here"
    HOSTS_INSIDE=1 exec unshare --net --mount --uts --ipc --pid --fork --mount-proc --kill-child bash "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"

# ---- two hosts: alpha, where we are, and beta ----
mkdir keys
ssh-keygen -q -t ed25519 -N '' -f keys/host
ssh-keygen -q -t ed25519 -N '' -f keys/user
cp keys/user.pub keys/authorized
printf '127.0.0.1 localhost\n10.78.0.1 alpha\n10.78.0.2 beta\n' >hosts
printf 'IdentityFile %s/keys/user\nUserKnownHostsFile %s/known\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n' "$work" "$work" >ssh_config
cat >sshd_config <<CONFIG
HostKey $work/keys/host
AuthorizedKeysFile $work/keys/authorized
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
CONFIG
mount --bind hosts /etc/hosts && mount --bind ssh_config /etc/ssh/ssh_config && mount -t tmpfs tmpfs /run && mkdir -p /run/sshd || { bad "mounts"; finish; exit 1; }
# furnish NAME: a host's own name and shared memory
furnish='hostname "$0" && mount -t tmpfs tmpfs /dev/shm && ip link set lo up'
sh -c "$furnish" alpha
unshare --net --mount --uts --ipc sh -c "$furnish && echo >'$work/beta-is-up' && exec sleep infinity" beta &
beta=$!
for i in $(seq 300); do [ -e beta-is-up ] && break; sleep 0.1; done
on_beta() { nsenter -t $beta --net --mount --uts --ipc "$@"; }
ip link add eth0 type veth peer name eth1 && ip link set eth1 netns $beta
ip addr add 10.78.0.1/24 dev eth0 && ip link set eth0 up
on_beta ip addr add 10.78.0.2/24 dev eth1 && on_beta ip link set eth1 up
on_beta "$(command -v sshd)" -f "$work/sshd_config" -E "$work/sshd.log"
for i in $(seq 100); do ssh -o BatchMode=yes beta true 2>/dev/null && break; sleep 0.1; done
[ "$(ssh -o BatchMode=yes beta hostname 2>&1)" = beta ] || { bad "ssh to beta: $(cat sshd.log)"; finish; exit 1; }

# ---- which rank runs where ----
where='echo "$TUTTI_RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $(hostname)"'
placed() { [ "$(sort out | tr '\n' '|')" = "$1" ] || bad "$2: $(tr '\n' '|' <out)"; }
runs 0 run --hosts alpha:1,beta:2 -- sh -c "$where"
placed '0 0 1 alpha|1 0 2 beta|2 1 2 beta|' slots
runs 0 run -n 2 --hosts beta:1,alpha:4 -- sh -c "$where"
placed '0 0 1 beta|1 0 1 alpha|' 'fewer ranks than slots'
runs 0 run -n 4 --hosts alpha,beta -- sh -c "$where"
placed '0 0 2 alpha|1 1 2 alpha|2 0 2 beta|3 1 2 beta|' 'no slots: equal blocks'
printf '# our machines\nalpha slots=2\n\nbeta:1  # the small one\n' >machines
runs 0 run --hostfile machines -- sh -c "$where"
placed '0 0 2 alpha|1 1 2 alpha|2 0 1 beta|' hostfile

# ---- a real job: every element right, ranks where they belong; rank 0 here, and on the other machine ----
for hosts in alpha:2,beta:1 beta:2,alpha:1; do
    runs 0 run --timeout 20s --hosts $hosts -- "$tutti" bench -b 4K -e 64K --check --json
    json 'all(r["wrong"] == 0 for r in d["rows"]) and sorted(s["host"] for s in d["seats"])[0] == "alpha" and len({s["host"] for s in d["seats"]}) == 2'
    json "[s['host'] for s in d['seats']] == ['${hosts%%:*}'] * 2 + ['$(echo ${hosts#*,} | cut -d: -f1)']"
done

# ---- what goes wrong is said with the host; nothing stays behind ----
runs 1 run --hosts alpha:1,beta:1 -- sh -c '[ "$TUTTI_RANK" = 1 ] && exit 7; exit 0'
complains 'rank 1 \(host beta\) exited with status 7'
"$tutti" run --hosts alpha:1,beta:1 -- sh -c 'touch "here-$TUTTI_RANK"; exec sleep 12345' >out 2>err &
launcher=$!
for i in $(seq 100); do [ -e here-1 ] && break; sleep 0.1; done
kill -9 $launcher
wait $launcher 2>/dev/null
for i in $(seq 100); do pgrep -f '^sleep 12345$' >/dev/null || break; sleep 0.1; done
pgrep -f '^sleep 12345$' >/dev/null && bad "a killed launcher leaves ranks on the other machine"
runs 2 run -n 4 --hosts alpha:1,beta:2 -- true
complains '-n 4: the hosts have 3 slots'
runs 2 run --hosts alpha:x -- true
complains 'slots of alpha'
runs 2 run --hosts alpha:0 -- true
complains 'slots of alpha'
runs 2 run --hosts alpha --hostfile machines -- true
complains 'only one of them'
runs 2 run --hostfile nowhere -- true
complains 'nowhere: No such file'
printf 'alpha slots=2\nbeta slot=2\n' >wrong
runs 2 run --hostfile wrong -- true
complains 'wrong:2: .slot=2.: a line is a host'
: >empty
runs 2 run --hostfile empty -- true
complains 'names no host'
kill $beta
finish
