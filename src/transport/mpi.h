/* mpi.h - the transport over an MPI library, which lives in a shared object of its own: libtutti
 * needs no MPI.
 *
 * There is one such object for each MPI the build found (libtutti-transport-openmpi.so,
 * libtutti-transport-mpich.so; src/mpi/transport.c). It is loaded when a communicator with
 * transport "mpi" is opened, from where libtutti.so lies or where the loader looks, and never
 * unloaded. Which one: TUTTI_MPI=openmpi|mpich, else the MPI that the process has loaded already,
 * else the one whose launcher started it.
 *
 * Threads: if the program has not initialised MPI, it is initialised with MPI_THREAD_MULTIPLE;
 * otherwise the program's thread level is used. Below MULTIPLE `threads` is false: then only
 * threads of the caller may drive the transport. */
#ifndef TT_TRANSPORT_MPI_H
#define TT_TRANSPORT_MPI_H

#include "transport/transport.h"

enum { TT_MPI_ABI = 2 };

struct tt_mpi_ops;
struct tt_mpi {
    const struct tt_mpi_ops *ops;
    uint32_t rank, size; /* in MPI_COMM_WORLD */
    int local_rank;
    bool threads; /* any thread may call */
};

/* A group of world ranks, the same on all members. */
struct tt_mpi_group {
    const uint32_t *members;
    uint32_t n, me;
    uint32_t block; /* reserved by members[0] for this group */
};

struct tt_mpi_ops {
    uint32_t abi;
    const char *version; /* of tutti; must be libtutti's own */
    /* The one object of the process. Initialises MPI if that has not been done, and then finalises
     * it when the process exits. */
    tutti_status (*join)(struct tt_mpi **ret, struct tutti_error *err);
    /* The bytes of all ranks of MPI_COMM_WORLD, in rank order. Collective. */
    tutti_status (*gather)(struct tt_mpi *m, const void *mine, size_t bytes, void *ret_all,
                           struct tutti_error *err);
    /* A block of tags for a group whose first member is this rank. Closing the group's transport
     * gives it back; release, if there will be none. */
    tutti_status (*reserve)(struct tt_mpi *m, uint32_t *ret_block, struct tutti_error *err);
    void (*release)(struct tt_mpi *m, uint32_t block);
    /* A transport among the group. Calls nothing of MPI that waits for other ranks: a rank that
     * has died must not keep the others here. */
    tutti_status (*open)(struct tt_mpi *m, const struct tt_mpi_group *g, struct tt_transport **ret,
                         struct tutti_error *err);
};
#define TT_MPI_SYMBOL "tutti_transport_mpi" /* const struct tt_mpi_ops */

/* Loads the shared object and joins. The result belongs to the process. */
tutti_status tt_mpi_join(struct tt_mpi **ret, struct tutti_error *err);
#endif
