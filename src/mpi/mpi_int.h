/* mpi_int.h - what the two files of the MPI transport share: join.c (membership) and transport.c
 * (messages). */
#ifndef TT_MPI_INT_H
#define TT_MPI_INT_H

#include <mpi.h>
#include <stdatomic.h>

#include "transport/mpi.h"

/* join.c: set when a transport was closed with messages still under way. MPI_Finalize could then
 * wait for ever and is skipped. */
extern _Atomic bool tt_mpi_unfinished;

/* transport.c: makes a transport on comm. It takes ownership of comm on success only. `size` is
 * comm's number of ranks, `rank` this process's rank in it. */
tutti_status tt_mpi_transport(MPI_Comm comm, uint32_t rank, uint32_t size,
                              struct tt_transport **ret, struct tutti_error *err);
#endif
