#!/bin/bash
# MPI programs as Debian packages them, alone and under the shim: what they compute must be the same, and the report must say that their
# calls were really taken. Prints a line per program; exit 1 when one differs.
# Usage: programs.sh DIR [all]      DIR: where the shims are; all: also what takes minutes (LAMMPS, 4 ranks)
#
# With two ranks a sum has one order only, so that every digit printed must be equal. With four, Tutti and MPI may add in another order:
# there the last digits of LAMMPS's sums are left out (12 are compared), and of ScaLAPACK's tests their own verdicts on residuals are compared.
set -u
shims=$(cd "$1" && pwd) whole=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset TUTTI_RANK TUTTI_SIZE TUTTI_LOCAL_RANK TUTTI_RENDEZVOUS RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT
scalapack=/usr/lib/$(uname -m)-linux-gnu/scalapack
failed=0

# start MPI RANKS PROGRAM...: under mpirun, for at most ten minutes, which only a program that hangs takes
start() {
    local words=(timeout 600 "mpirun.$1" -n "$2")
    if [ "$1" = openmpi ]; then
        words+=(--oversubscribe)
        [ "$(id -u)" != 0 ] || words+=(--allow-run-as-root)
    fi
    shift 2
    "${words[@]}" "$@" </dev/null
}

# compare NAME MPI RANKS LEAST SIFT PROGRAM...: SIFT leaves what must be equal of the output; at least LEAST all-reduces must be taken
compare() {
    local name="$1, $2, $3 ranks" mpi=$2 ranks=$3 least=$4 sift=$5 began=$SECONDS taken
    shift 5
    if ! start "$mpi" "$ranks" "$@" >alone.out 2>&1 || ! $sift <alone.out >alone || [ ! -s alone ]; then
        tail -5 alone.out
        echo "FAILED: $name: not even without the shim"
        failed=1
        return
    fi
    if ! start "$mpi" "$ranks" env "LD_PRELOAD=$shims/libtutti-mpi-$mpi.so" TUTTI_MPI_REPORT=1 "$@" >shim.out 2>&1; then
        tail -20 shim.out
        echo "FAILED: $name: under the shim"
        failed=1
        return
    fi
    $sift <shim.out >shim
    if ! diff alone shim; then
        echo "FAILED: $name: results differ (< alone, > under the shim)"
        failed=1
    fi
    taken=$(sed -n 's/^tutti-mpi: MPI_Allreduce  *\([0-9]*\) taken.*/\1/p' shim.out)
    if [ "${taken:-0}" -lt "$least" ]; then
        grep '^tutti-mpi:' shim.out
        echo "FAILED: $name: ${taken:-no} all-reduces taken, at least $least expected"
        failed=1
    fi
    echo "$name: $(wc -l <alone) lines of results equal, ${taken:-0} all-reduces taken, $((SECONDS - began)) s"
}

# there NAME MPI FILE PACKAGE: or why not
there() {
    if [ ! -e "$shims/libtutti-mpi-$2.so" ]; then
        echo "$1: skipped: the shim for $2 was not built"
        return 1
    fi
    [ -z "$3" ] || [ ! -e "$3" ] || return 0
    echo "$1: skipped: Debian's $4 is not installed (tools/setup samples programs)"
    return 1
}

# ---- HPCC: everything that it verifies itself ----
# Not the lines of CPU time, which are there only if that was more than nothing.
sift_hpcc() {
    sed -nE \
        -e 's/^(WALL)( .*) +[0-9.]+ (PASSED|FAILED).*/\1\2 \3/p' \
        -e '/^\|\|Ax-b|^Found .* errors|residual checks|^Node\(s\) with error|^Solution Validates|Errors|_residual|maxErr|^Success/p' hpccoutf.txt
    rm -f hpccoutf.txt
}
hpcc() {
    local example=/usr/share/doc/hpcc/examples/_hpccinf.txt
    there hpcc openmpi "$example" hpcc || return
    sed -e 's/^1000 .*/200 Ns/' -e 's/^80 .*NBs/16 NBs/' -e 's/^2  *Ps/1 Ps/' "$example" >hpccinf.txt
    compare hpcc openmpi 2 500 sift_hpcc hpcc
}

# ---- mpi4py ----
mpi4py() {
    there mpi4py openmpi /usr/lib/python3/dist-packages/mpi4py/__init__.py python3-mpi4py || return
    compare mpi4py openmpi 2 1000 "grep ^steps" /usr/bin/python3 -B "$here/cg.py" 600
}

# ---- ScaLAPACK's own tests, of LU and of QR: parameters, verdict, residual; without times. With two ranks on grids of two. ----
sift_scalapack() {
    sed -nE -e 's/^(WALL[^.]*)( +[0-9]+\.[0-9]+)+ +(PASSED|FAILED)(.*)/\1 \3\4/p' -e '/tests (completed|skipped)|FAILED|ERROR/p' | tr -s ' '
}
sift_verdicts() {
    sift_scalapack | sed -E 's/(PASSED|FAILED).*/\1/'
}
scalapack() { # MPI RANKS TEST...
    local mpi=$1 ranks=$2 sift=sift_scalapack name
    shift 2
    [ "$ranks" = 2 ] || sift=sift_verdicts
    there scalapack "$mpi" "$scalapack/$mpi-tests/xdlu" scalapack-mpi-test || return
    for name in "$@"; do
        awk -v two="$((ranks == 2))" '/number of process grids/ && two { print 2; print "1 2"; print "2 1"; getline; getline; next } { print }' \
            "/usr/share/scalapack/$name.dat" >$name.dat
        compare "scalapack $name" "$mpi" "$ranks" 1000 $sift "$scalapack/$mpi-tests/xd${name,,}"
    done
}

# ---- LAMMPS: 500 atoms melt; every step's temperature, energy and pressure ----
sift_lammps() {
    awk '/^ *Step/ { on = 1; next } /^Loop/ { on = 0 } on && NF == 6'
}
sift_lammps_short() {
    sift_lammps | awk '{ printf "%d %.12g %.12g %.12g %.12g\n", $1, $2, $3, $5, $6 }'
}
lammps() {
    there lammps openmpi /usr/bin/lmp lammps || return
    cat >in.melt <<'INPUT'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 5 0 5 0 5
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 1 delay 0 check yes
fix 1 all nve
thermo 1
thermo_modify format float %20.15g
run 300
INPUT
    compare lammps openmpi 2 1000 sift_lammps lmp -in in.melt -log none
    compare lammps openmpi 4 1000 sift_lammps_short lmp -in in.melt -log none
}

hpcc
mpi4py
scalapack openmpi 2 LU
scalapack mpich 2 LU
if [ "$whole" = all ]; then
    scalapack openmpi 2 QR
    scalapack mpich 2 QR
    scalapack openmpi 4 LU QR
    lammps
fi
exit $failed
