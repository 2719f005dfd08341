/* export.h - schedules in the formats of other engines and simulators, and as pictures.
 *
 * Every format is a const struct in table.c. A writer gets the schedule as a *program* (program.h):
 * lists of acts with whole ranges of chunks, the waits between them, and the partner of every
 * message. A schedule that a format cannot express, or that breaks a limit of the engine behind it,
 * is refused with the reason. */
#ifndef TT_EXPORT_H
#define TT_EXPORT_H

#include "base/base.h"
#include "sched/sched.h"
#include "topo/topo.h"

/* Options; zero is the default everywhere. A format refuses an option that it does not have. */
struct tt_export_options {
    /* msccl-xml: copies of the program, each on its own channels and its own part of the vector */
    uint32_t instances;
    const char *protocol; /* msccl-xml, msccl-json: Simple, LL, LL128 */
    const char *target;   /* msccl-xml: the engine whose limits hold: msccl, azure or rccl */
    const char *channel;  /* msccl-json: memory or port */
    uint64_t min_bytes;   /* msccl-xml, msccl-json: the sizes that the engine may use it for ... */
    uint64_t max_bytes;   /* ... 0: no limit */
};

/* The colour of the i-th line, bar or chunk of a picture, "#rrggbb"; they repeat. */
enum { TT_EXPORT_COLOURS = 8 };
const char *tt_export_colour(size_t i);
/* Writes text for XML: its special characters as entities, control characters as '?'. */
void tt_export_xml_text(const char *text, FILE *out);

/* A format: a line of the table in table.c, defined in its own file. */
struct tt_export_format {
    const char *name, *desc;
    const char *options; /* names of the options it takes, separated by spaces */
    bool per_rank;       /* a file for each rank, <path>.<rank>.et; otherwise one stream */
    /* rank: whose file is written (per_rank), else 0. out is open for writing bytes; the caller
     * closes it and checks for write errors. */
    tutti_status (*write)(const struct tt_sched *s, const struct tt_export_options *o,
                          uint32_t rank, FILE *out, struct tutti_error *err);
};
/* The i-th format; NULL past the last. */
const struct tt_export_format *tt_export_get(size_t i);
const struct tt_export_format *tt_export_find(const char *name, struct tutti_error *err);
/* Parses "key=value" into o. TUTTI_ERR_ARG when the format has no such option or the value is
 * not allowed. o keeps pointers into `option`. */
tutti_status tt_export_option(const struct tt_export_format *f, const char *option,
                              struct tt_export_options *o, struct tutti_error *err);
#endif
