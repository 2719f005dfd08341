/* shared.h - what parts of our own that load libtutti.so (the MPI shim) need beyond the
 * installed interface. These functions are exported under the version node TUTTI_PRIVATE_0: only
 * parts of the same version may use them. */
#ifndef TT_API_SHARED_H
#define TT_API_SHARED_H

#include <tutti/tutti.h>

#pragma GCC visibility push(default)

/* Ranks that another library has brought together (the MPI shim): the identity of this one, and
 * a function that gives every rank the `bytes` bytes of all ranks, in rank order (0: success).
 * The gather is used while opening only. */
struct tutti_parent {
    uint32_t rank, ranks;
    int local_rank; /* -1: unknown */
    int (*gather)(void *ctx, const void *mine, size_t bytes, void *ret_all);
    void *ctx;
};
/* Like tutti_comm_open, collective among those ranks. No launcher's variables are read. Options
 * are as there, without `given`; timeout_us does not apply to the meeting of the ranks. */
tutti_status tutti_comm_open_among(const struct tutti_comm_options *options,
                                   const struct tutti_parent *parent, struct tutti_comm **ret_comm,
                                   struct tutti_error *err);
/* For an MPI that has found itself to consist of one rank. True when mpirun has in fact started
 * more processes and this is the first of them; *ret then has a sentence for the user (the
 * program loads another MPI than its launcher's). */
bool tutti_mpi_strayed(struct tutti_error *ret);
/* A communicator of some ranks of comm, collective among those only: ranks[i] is the rank in
 * comm of the new communicator's rank i, and `parent` has this process's rank there. It shares
 * comm's control connections and the thread that watches them. Several threads may make
 * different parts at the same time, in any order. comm may be closed before the part. */
tutti_status tutti_comm_part(struct tutti_comm *comm, const uint32_t *ranks,
                             const struct tutti_parent *parent, struct tutti_comm **ret_comm,
                             struct tutti_error *err);
/* Like tutti_comm_close, but local: does not wait for other ranks and prints no report. Ranks
 * that are still in calls which this one has finished can end them as long as this process
 * lives; so another wait should come before the process ends (tutti_comm_close of a communicator
 * with the same ranks). Aborts while a request of comm is started. */
void tutti_comm_leave(struct tutti_comm *comm);
/* The number of ranks, this one included, that share this host's memory. Equal to
 * tutti_comm_size when all do. */
uint32_t tutti_comm_local(const struct tutti_comm *comm);
/* Calls that wait on comm call idle(ctx) from time to time while they find nothing to do, at
 * least every millisecond. idle must not call tutti. To be set before the first call on comm. */
void tutti_comm_on_idle(struct tutti_comm *comm, void (*idle)(void *ctx), void *ctx);

#pragma GCC visibility pop
#endif
