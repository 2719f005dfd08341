/* shared.h - what parts of our own that load libtutti.so (the MPI shim) need beyond the installed
 * interface. These functions are exported under the version node TUTTI_PRIVATE_0: only a part of
 * the same version may use them. */
#ifndef TT_API_SHARED_H
#define TT_API_SHARED_H

#include <tutti/tutti.h>

#pragma GCC visibility push(default)

/* Ranks that somebody else has brought together (the MPI shim): who is who, and a way to give every
 * rank everybody's `bytes` bytes in rank order (0: done). The gather is used while opening only. */
struct tutti_parent {
    uint32_t rank, ranks;
    int local_rank; /* -1: unknown */
    int (*gather)(void *ctx, const void *mine, size_t bytes, void *ret_all);
    void *ctx;
};
/* Like tutti_comm_open, collective among those ranks. No launcher's variables are read; options as
 * there, without `given`; timeout_us does not concern the meeting. */
tutti_status tutti_comm_open_among(const struct tutti_comm_options *options,
                                   const struct tutti_parent *parent, struct tutti_comm **ret_comm,
                                   struct tutti_error *err);
/* For an MPI that has found itself to be of one rank. True: an mpirun has started more processes,
 * this one is the first of them, and *ret has a sentence for people (the program loads another MPI
 * than that of its launcher). */
bool tutti_mpi_strayed(struct tutti_error *ret);
/* A communicator of some ranks of comm, collective among those only: ranks[i] is the rank in comm
 * of the new one's rank i, parent says who is who there. It shares comm's control connections and
 * the thread that watches them. Different parts may be made by several threads at the same time, in
 * any order. comm may be closed before it. */
tutti_status tutti_comm_part(struct tutti_comm *comm, const uint32_t *ranks,
                             const struct tutti_parent *parent, struct tutti_comm **ret_comm,
                             struct tutti_error *err);
/* Like tutti_comm_close, but local: waits for nobody, and prints no report. Ranks that are still in
 * calls which this one has finished end them, as long as this process lives; so before it ends
 * there should be a wait of another kind (tutti_comm_close of a communicator with the same ranks).
 * Aborts while a request of comm is started. */
void tutti_comm_leave(struct tutti_comm *comm);
/* How many of its ranks share this host's memory with this one, which is counted: all of them when
 * that is tutti_comm_size. */
uint32_t tutti_comm_local(const struct tutti_comm *comm);
/* Calls that wait on comm call idle(ctx) now and then while they find nothing to do, at least every
 * millisecond; it must not call tutti. Before the first call on comm. */
void tutti_comm_on_idle(struct tutti_comm *comm, void (*idle)(void *ctx), void *ctx);

#pragma GCC visibility pop
#endif
