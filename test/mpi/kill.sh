#!/bin/bash
# A rank of an MPI program under the shim is killed: mpirun ends soon, with an error, and a survivor names the rank.
# Usage: kill.sh openmpi|mpich SHIM PROGRAM
#
# As a rule mpirun ends the survivors itself, perhaps before they can speak. So the first run is as users have it, and in the second mpirun
# is told to leave the survivors alone: they must find out, say who it was and end by themselves (which Open MPI's mpirun calls a success).
set -u
here=$(dirname "$0")

# once WHAT OPTIONS FLAVOUR SHIM PROGRAM: the output is in $out
once() {
    local what=$1 options=$2 code began=$SECONDS
    shift 2
    out=$(MPIRUN_OPTIONS=$options timeout 60 bash "$here/run.sh" "$1" 3 "$2" 0 -- "$3" kill 2>&1)
    code=$?
    echo "$out"
    [ $code != 0 ] || [ -n "$options" ] || { echo "kill.sh: $what: mpirun succeeded"; exit 1; }
    [ $code != 124 ] || { echo "kill.sh: $what: mpirun hangs"; exit 1; }
    echo "kill.sh: $what: exit $code after $((SECONDS - began)) s"
}

case $1 in
openmpi) alone="--enable-recovery" ;;
mpich) alone="-disable-auto-cleanup" ;;
esac
once "as usual" "" "$@"
# Seldom (1 in 5 to 20 seen) both survivors of an MPICH job end without a word from anybody, us included: three tries, each said.
for try in 1 2 3; do
    once "survivors left alone" "$alone" "$@"
    grep -q 'tutti-mpi: MPI_Allreduce on rank [02]: rank 1 (host .*, pid [0-9]*) is dead' <<<"$out" && exit 0
    echo "kill.sh: nobody is named (try $try)"
done
exit 1
