#!/bin/bash
# Open MPI on two emulated hosts (tutti lab), two ranks each: the shim over shared memory and TCP, and transport mpi. mpirun starts its
# daemon on the other host through this script, which stands in for ssh and enters that host's network namespace.
# Usage: lab.sh TUTTI SHIM PROGRAM      (PROGRAM: the test of requests)      or, by mpirun: lab.sh ADDRESS COMMAND...
set -u
self=$(readlink -f "$0")
case $1 in
10.77.0.*) # as the agent; the lab's namespaces differ in their last number, from 0 on
    own=$(ip netns identify $$) host=$((${1##*.} - 1))
    shift
    exec ip netns exec "${own%-*}-$host" unshare --uts sh -c "hostname node$host; $*"
    ;;
esac
# on a host of the lab: the first starts the job, the other waits until it is over
if [ "${LAB_DONE:-}" ]; then
    if [ "$TUTTI_RANK" != 0 ]; then
        until [ -e "$LAB_DONE" ]; do sleep 0.1; done
        exit 0
    fi
    trap 'touch "$LAB_DONE"' EXIT
    unset TUTTI_RANK TUTTI_SIZE TUTTI_LOCAL_RANK TUTTI_RENDEZVOUS TUTTI_TIMEOUT
    mpirun.openmpi --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$self" --mca oob_tcp_if_include 10.77.0.0/24 \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca btl tcp,self --mca pml ob1 --host 10.77.0.1:2,10.77.0.2:2 -n 4 env "$@"
    exit
fi
tutti=$(readlink -f "$1") shim=$(readlink -f "$2") program=$(readlink -f "$3")
[ -e "$shim" ] || { echo "skipped: the shim for Open MPI was not built"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "skipped: the lab needs root"; exit 0; }
for tool in ip tc unshare mpirun.openmpi; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 0; }
done
ip netns add "tutti-mpi-$$" 2>/dev/null || { echo "skipped: no network namespaces here"; exit 0; }
ip netns del "tutti-mpi-$$"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# lab NAME WORDS...: what env starts on the four ranks
lab() {
    local name=$1
    shift
    rm -f "$work/done"
    LAB_DONE=$work/done timeout 80 "$tutti" lab --nodes 2 --rate 1gbit -- bash "$self" "$@" >"$work/out" 2>&1 && return
    cat "$work/out"
    echo "lab.sh: $name failed"
    exit 1
}

lab "the shim" "LD_PRELOAD=$shim" TUTTI_MPI_REPORT=1 TUTTI_MPI_TAKE=all "$program"
taken=$(sed -n 's/.*tutti-mpi: taken \([0-9]*\),.*/\1/p' "$work/out")
[ "${taken:-0}" -ge 180 ] || { cat "$work/out"; echo "lab.sh: ${taken:-no} calls taken"; exit 1; }
echo "the shim on 2 hosts: $taken calls taken, all results equal"
lab "transport mpi" "$tutti" bench --transport mpi -b 8 -e 1M -f 64 -i 5 --check
awk '$3 == "f32" && $8 != 0 { bad = 1 } $3 == "f32" { n++ } END { exit bad || n < 3 }' <(sed 's/^\[0\] //' "$work/out") ||
    { cat "$work/out"; echo "lab.sh: transport mpi: wrong or no results"; exit 1; }
grep f32 "$work/out"
