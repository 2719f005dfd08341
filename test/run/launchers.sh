#!/usr/bin/env bash
# A program using the library under other launchers: rank, size and meeting place come from their variables. Two jobs at once do not meet each
# other. A launcher that is not here, or does not work here by itself, is skipped with the reason. Usage: launchers.sh PROGRAM (test/run/collectives.c)
program=$1
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export TMPDIR=$work
for name in $(env | sed -n 's/^\(\(TUTTI\|OMPI\|PMIX\|PMI\|SLURM\)_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT MPI_LOCALRANKID MPI_LOCALNRANKS

# under NAME COMMAND...: starts the program twice at a time with 4 ranks; both must end well and say so once
under() {
    local name=$1 tool=$2 jobs=() i
    shift
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: $name: no $tool here"
        return
    fi
    if ! timeout 60 "$@" true >out.try 2>&1; then
        echo "skipped: $name does not work here: $(grep -v '^ *$' out.try | tail -1)"
        return
    fi
    for i in 1 2; do
        timeout 120 "$@" "$program" >out.$i 2>&1 &
        jobs+=($!)
    done
    for i in 1 2; do
        if wait "${jobs[$((i - 1))]}" && [ "$(grep -c '4 ranks: [0-9]* checks' out.$i)" = 1 ]; then
            echo "passed: $name: $(grep -o '4 ranks: .*' out.$i)"
        else
            echo "FAILED: $name: $(cat out.$i)"
            failures=$((failures + 1))
        fi
    done
}

root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
under "Open MPI" mpirun.openmpi $root --oversubscribe -n 4
under MPICH mpirun.mpich -n 4
# Redirecting only standard output keeps Debian's torchrun 1.13 alive under Python 3.11; two ports of the kernel's choice keep two jobs apart.
under torchrun torchrun --nproc_per_node 4 --no_python --rdzv_backend c10d --rdzv_endpoint localhost:0 --redirects 1 --tee 1
under Slurm srun -n 4

# mpirun on several hosts does not say where rank 0 is: an error that says what to set, not a hang
export OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2
if "$program" >out 2>&1 || ! grep -q 'set TUTTI_RENDEZVOUS to rank 0' out; then
    echo "FAILED: several hosts: $(cat out)"
    failures=$((failures + 1))
fi
echo "$failures failures"
[ "$failures" = 0 ]
