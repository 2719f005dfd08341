/* fortran.c - the same calls from Fortran, for Open MPI, whose Fortran functions call the PMPI_
 * names. (MPICH's Fortran functions call the MPI_ names, which are ours.)
 *
 * Handles are translated as MPI defines it. MPI_IN_PLACE and MPI_BOTTOM are addresses of variables
 * of Open MPI. Non-blocking and persistent calls from Fortran stay with MPI, but a Fortran program
 * may wait for a request that C code has started, so its waits make progress on ours too. Calls
 * from `use mpi_f08` do not arrive here: they stay with MPI. */
#include "shim/shim.h"

#ifdef OPEN_MPI
#include <dlfcn.h>

/* Their addresses are the constants; their values are not used. */
extern int mpi_fortran_in_place_, mpi_fortran_bottom_;

static void *fortran_address(void *buf)
{
    return buf == (void *)&mpi_fortran_in_place_ ? MPI_IN_PLACE
           : buf == (void *)&mpi_fortran_bottom_ ? MPI_BOTTOM
                                                 : buf;
}

/* Translate Fortran's handles, which are integers, to C's. */
#define COMM(c) PMPI_Comm_f2c(*(c))
#define TYPE(t) PMPI_Type_f2c(*(t))
#define OP(o)   PMPI_Op_f2c(*(o))
typedef MPI_Fint fint;

/* No header declares the Fortran entry points, so each is declared right before its definition. */
#pragma GCC visibility push(default)

void mpi_allreduce_(void *in, void *out, fint *n, fint *type, fint *op, fint *comm, fint *ierr);
void mpi_allreduce_(void *in, void *out, fint *n, fint *type, fint *op, fint *comm, fint *ierr)
{
    *ierr = MPI_Allreduce(fortran_address(in), fortran_address(out), *n, TYPE(type), OP(op),
                          COMM(comm));
}

void mpi_reduce_(void *in, void *out, fint *n, fint *type, fint *op, fint *root, fint *comm,
                 fint *ierr);
void mpi_reduce_(void *in, void *out, fint *n, fint *type, fint *op, fint *root, fint *comm,
                 fint *ierr)
{
    *ierr = MPI_Reduce(fortran_address(in), fortran_address(out), *n, TYPE(type), OP(op), *root,
                       COMM(comm));
}

void mpi_reduce_scatter_(void *in, void *out, fint *counts, fint *type, fint *op, fint *comm,
                         fint *ierr);
void mpi_reduce_scatter_(void *in, void *out, fint *counts, fint *type, fint *op, fint *comm,
                         fint *ierr)
{
    *ierr = MPI_Reduce_scatter(fortran_address(in), fortran_address(out), counts, TYPE(type),
                               OP(op), COMM(comm));
}

void mpi_reduce_scatter_block_(void *in, void *out, fint *n, fint *type, fint *op, fint *comm,
                               fint *ierr);
void mpi_reduce_scatter_block_(void *in, void *out, fint *n, fint *type, fint *op, fint *comm,
                               fint *ierr)
{
    *ierr = MPI_Reduce_scatter_block(fortran_address(in), fortran_address(out), *n, TYPE(type),
                                     OP(op), COMM(comm));
}

void mpi_allgather_(void *in, fint *n, fint *type, void *out, fint *outn, fint *outtype, fint *comm,
                    fint *ierr);
void mpi_allgather_(void *in, fint *n, fint *type, void *out, fint *outn, fint *outtype, fint *comm,
                    fint *ierr)
{
    *ierr = MPI_Allgather(fortran_address(in), *n, TYPE(type), fortran_address(out), *outn,
                          TYPE(outtype), COMM(comm));
}

void mpi_bcast_(void *buf, fint *n, fint *type, fint *root, fint *comm, fint *ierr);
void mpi_bcast_(void *buf, fint *n, fint *type, fint *root, fint *comm, fint *ierr)
{
    *ierr = MPI_Bcast(fortran_address(buf), *n, TYPE(type), *root, COMM(comm));
}

void mpi_barrier_(fint *comm, fint *ierr);
void mpi_barrier_(fint *comm, fint *ierr)
{
    *ierr = MPI_Barrier(COMM(comm));
}

/* ---- Open MPI's own functions, and what must follow them ---- */

typedef void init_fn(fint *ierr);
typedef void init_thread_fn(fint *required, fint *provided, fint *ierr);

void mpi_init_(fint *ierr);
void mpi_init_(fint *ierr)
{
    init_fn *init = (init_fn *)dlsym(RTLD_NEXT, "mpi_init_");
    init(ierr);
    if (*ierr == MPI_SUCCESS)
        shim_begin();
}

void mpi_init_thread_(fint *required, fint *provided, fint *ierr);
void mpi_init_thread_(fint *required, fint *provided, fint *ierr)
{
    init_thread_fn *init = (init_thread_fn *)dlsym(RTLD_NEXT, "mpi_init_thread_");
    init(required, provided, ierr);
    if (*ierr == MPI_SUCCESS)
        shim_begin();
}

/* ---- waits: Open MPI's own, polled while a request of ours is active ---- */

typedef void wait_fn(fint *request, fint *status, fint *ierr);
typedef void test_fn(fint *request, fint *flag, fint *status, fint *ierr);
typedef void waitall_fn(fint *n, fint *requests, fint *statuses, fint *ierr);
typedef void testall_fn(fint *n, fint *requests, fint *flag, fint *statuses, fint *ierr);

void mpi_wait_(fint *request, fint *status, fint *ierr);
void mpi_wait_(fint *request, fint *status, fint *ierr)
{
    test_fn *test = (test_fn *)dlsym(RTLD_NEXT, "mpi_test_");
    wait_fn *wait = (wait_fn *)dlsym(RTLD_NEXT, "mpi_wait_");
    /* As in waits.c: test instead of waiting, because our requests are completed between tests. */
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        fint flag = 0;
        shim_requests_drive();
        test(request, &flag, status, ierr);
        if (*ierr != MPI_SUCCESS || flag)
            return;
        shim_pause(looks);
    }
    wait(request, status, ierr);
}

void mpi_waitall_(fint *n, fint *requests, fint *statuses, fint *ierr);
void mpi_waitall_(fint *n, fint *requests, fint *statuses, fint *ierr)
{
    testall_fn *test = (testall_fn *)dlsym(RTLD_NEXT, "mpi_testall_");
    waitall_fn *wait = (waitall_fn *)dlsym(RTLD_NEXT, "mpi_waitall_");
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        fint flag = 0;
        shim_requests_drive();
        test(n, requests, &flag, statuses, ierr);
        if (*ierr != MPI_SUCCESS || flag)
            return;
        shim_pause(looks);
    }
    wait(n, requests, statuses, ierr);
}

void mpi_test_(fint *request, fint *flag, fint *status, fint *ierr);
void mpi_test_(fint *request, fint *flag, fint *status, fint *ierr)
{
    test_fn *test = (test_fn *)dlsym(RTLD_NEXT, "mpi_test_");
    shim_requests_drive();
    test(request, flag, status, ierr);
}
#pragma GCC visibility pop
#endif
