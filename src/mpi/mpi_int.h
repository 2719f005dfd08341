/* mpi_int.h - what the two files of the MPI transport share: join.c (membership) and transport.c
 * (messages). */
#ifndef TT_MPI_INT_H
#define TT_MPI_INT_H

#include <mpi.h>
#include <stdatomic.h>

#include "transport/mpi.h"

/* join.c: set when a transport was closed after an error, or with messages still under way.
 * MPI_Finalize could then wait for ever and is skipped. */
extern _Atomic bool tt_mpi_unfinished;

/* Tags of one group: one for headers, the others for payloads. */
enum { TT_MPI_TAGS = 9 };

/* transport.c: makes a transport on `comm`, of which the group's members are ranks, with the
 * TT_MPI_TAGS tags from `tag` on. */
tutti_status tt_mpi_transport(MPI_Comm comm, int tag, const struct tt_mpi_group *g,
                              struct tt_transport **ret, struct tutti_error *err);

/* join.c: no member of the group will send with these tags any more. */
void tt_mpi_tags_release(int tag);
#endif
