#!/bin/bash
# Runs a program under mpirun of one MPI; used by the tests of the transport and the shim.
# Usage: run.sh openmpi|mpich RANKS PRELOAD|- LEAST [NAME=VALUE ...] -- PROGRAM ARGS...
# MPIRUN_OPTIONS: more words for mpirun. PRELOAD: the shim; then its report must say that rank 0 took at least LEAST calls. Exit: the program's.
set -u
flavour=$1 ranks=$2 preload=$3 least=$4
shift 4
variables=()
while [ "$1" != -- ]; do
    variables+=("$1")
    shift
done
shift
[ "$preload" = - ] || variables+=("LD_PRELOAD=$preload" TUTTI_MPI_REPORT=1)
# What a surrounding job would make the ranks believe.
unset TUTTI_RANK TUTTI_SIZE TUTTI_LOCAL_RANK TUTTI_RENDEZVOUS RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT
start=("mpirun.$flavour" ${MPIRUN_OPTIONS:-} -n "$ranks")
if [ "$flavour" = openmpi ]; then
    start+=(--oversubscribe)
    [ "$(id -u)" != 0 ] || start+=(--allow-run-as-root)
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"${start[@]}" env "${variables[@]}" "$@" >"$out" 2>&1
code=$?
cat "$out"
[ $code = 0 ] || exit $code
[ "$preload" != - ] || exit 0
taken=$(sed -n 's/.*tutti-mpi: taken \([0-9]*\),.*/\1/p' "$out" | head -1)
if [ "${taken:-0}" -lt "$least" ]; then
    echo "run.sh: ${taken:-no} calls taken, at least $least expected"
    exit 1
fi
