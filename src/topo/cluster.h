/* cluster.h - names of hosts and the switches above them: what the readers of Slurm and host files
 * share (file_cluster.c). */
#ifndef TT_TOPO_CLUSTER_H
#define TT_TOPO_CLUSTER_H

#include "topo/import.h"
#include "topo/topo_int.h"

enum { NAME = 64, RANKS_MAX = 65536, SWITCHES_MAX = 2048, DEPTH_MAX = 16 };

struct switch_line {
    char name[NAME];
    uint32_t line;
    size_t first, n; /* of names: its nodes, or its switches */
    bool leaf, has_parent;
};

/* A file being read. */
struct cluster {
    const char *file, *data, *at, *end;
    struct tt_vec names;    /* char[NAME]: nodes and switches, as listed */
    struct tt_vec switches; /* struct switch_line */
    struct tt_vec ranks;    /* char[NAME], in the order of the spec */
    struct tt_str spec;
    struct tutti_error *err;
};

/* file_cluster.c */
/* An error at `at`, with line and column. */
tutti_status tt_topo_cluster_fail(const struct cluster *c, const char *at, const char *what,
                                  const char *word);
/* Skips blanks, comments and continued lines; with `lines` also ends of lines. */
void tt_topo_cluster_skip(struct cluster *c, bool lines);
/* A word up to a blank or one of `stops`, outside of brackets. */
tutti_status tt_topo_cluster_word(struct cluster *c, const char *stops, struct tt_str *ret);
/* The list at c->at, up to a blank. */
tutti_status tt_topo_cluster_list(struct cluster *c, struct tt_str *text);
const char *tt_topo_cluster_name(const struct cluster *c, size_t i);
/* Makes the network of the spec and gives its ranks their names. */
tutti_status tt_topo_cluster_make(struct cluster *c, const char *link, struct tt_topo **ret);
void tt_topo_cluster_open(struct cluster *c, const char *data, size_t len, const char *name,
                          struct tutti_error *err);
void tt_topo_cluster_free(struct cluster *c);
/* The switch, or host, of this name; NULL: none. */
struct switch_line *tt_topo_cluster_switch(const struct cluster *c, const char *name);

#endif
