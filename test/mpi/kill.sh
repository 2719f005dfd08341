#!/bin/bash
# A rank of an MPI program under the shim is killed: mpirun ends soon, with an error, and what is printed names the rank.
# Usage: kill.sh openmpi|mpich SHIM PROGRAM
set -u
here=$(dirname "$0")
began=$SECONDS
out=$(timeout 60 bash "$here/run.sh" "$1" 2 "$2" 0 -- "$3" kill 2>&1)
code=$?
echo "$out"
[ $code != 0 ] || { echo "kill.sh: mpirun succeeded"; exit 1; }
[ $code != 124 ] || { echo "kill.sh: mpirun hangs"; exit 1; }
[ $((SECONDS - began)) -lt 30 ] || { echo "kill.sh: $((SECONDS - began)) s"; exit 1; }
case $out in
*"rank 1"* | *"RANK 1"* | *"PID "*) ;;
*) echo "kill.sh: nobody is named"; exit 1 ;;
esac
