/* import.h - networks from texts that say only a part of what a topology is; the caller adds the
 * rest. */
#ifndef TT_TOPO_IMPORT_H
#define TT_TOPO_IMPORT_H

#include "topo/topo.h"

/* A matrix of measured rates as CSV: row i, column j is the rate from rank i to rank j, measured
 * alone. `unit` is that of numbers without one ("Gbps", "GB/s"; NULL: each has its own). The result
 * is a tree of switches (file_matrix.c has the model and its limits). */
tutti_status tt_topo_import_matrix(const char *data, size_t len, const char *name, const char *unit,
                                   uint64_t latency_ps, struct tt_topo **ret,
                                   struct tutti_error *err);
/* Slurm's topology.conf (nodes are ranks) and Open MPI's hostfile (slots are ranks): a tree of
 * switches whose links are those of a spec, "100Gbps/25Gbps,2us": the ranks' first. */
tutti_status tt_topo_import_slurm(const char *data, size_t len, const char *name, const char *link,
                                  struct tt_topo **ret, struct tutti_error *err);
tutti_status tt_topo_import_hostfile(const char *data, size_t len, const char *name,
                                     const char *link, struct tt_topo **ret,
                                     struct tutti_error *err);

/* The same from a file ("-": standard input): `kind` is "matrix", "slurm" or "hostfile". */
struct tt_import {
    const char *kind, *path;
    const char *unit, *link; /* of a matrix; of the others. NULL: see above; the default link */
    uint64_t latency_ps;     /* of a matrix's links */
};
tutti_status tt_topo_import(const struct tt_import *from, struct tt_topo **ret,
                            struct tutti_error *err);
#endif
