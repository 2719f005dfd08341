/* mpi_int.h - what the two files of the MPI transport share. */
#ifndef TT_MPI_INT_H
#define TT_MPI_INT_H

#include <mpi.h>
#include <stdatomic.h>

#include "transport/mpi.h"

/* join.c: something on the way was left unfinished, so that finalising MPI could wait for ever: it
 * is not done. */
extern _Atomic bool tt_mpi_unfinished;

/* transport.c: on comm, which it owns from success on. */
tutti_status tt_mpi_transport(MPI_Comm comm, uint32_t rank, uint32_t size,
                              struct tt_transport **ret, struct tutti_error *err);
#endif
