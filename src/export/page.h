/* page.h - the data of a page that shows a network and schedules on it, and the page itself.
 *
 * A page is one file: a head that forbids every access to a network, the style and the script of
 * page/ (embedded when Tutti is built), and one JSON document in which markup is escaped. The
 * script places texts of the document as text only.
 *
 * Networks of more than TT_PAGE_RANKS ranks are *folded*: neighbouring ranks are drawn as one, and
 * cables between the same two groups as one. A schedule with many messages, or on a folded network,
 * is given as the use of each link in equal parts of its time, else message by message. */
#ifndef TT_EXPORT_PAGE_H
#define TT_EXPORT_PAGE_H

#include "base/base.h"
#include "base/json.h"
#include "sched/sched.h"
#include "topo/topo.h"

enum {
    TT_PAGE_RANKS = 256,    /* drawn one by one; more are folded */
    TT_PAGE_MOVES = 140000, /* messages x segments that a page holds one by one */
    TT_PAGE_PARTS = 200,    /* parts of the time, otherwise */
};

/* How the vertices of a network are drawn: group[v] is the drawn vertex of v, numbered from 0,
 * those with ranks first. cable[i] is the drawn cable of cable i, UINT32_MAX inside a group;
 * turned[i]: its direction a-b is the drawn cable's b-a. */
struct tt_page_fold {
    const struct tt_topo *t;
    uint32_t groups, rank_groups, cables;
    uint32_t ndims, dims[TT_TOPO_MAX_DIMS]; /* of a grid: in groups; 0: no grid */
    uint32_t *group, *cable;
    bool *turned;
    struct tt_link *link; /* the drawn cables: bandwidths added, ends are groups */
    bool folded;          /* false: every vertex is its own group */
};
tutti_status tt_export_fold_make(const struct tt_topo *t, struct tt_page_fold *ret,
                                 struct tutti_error *err);
void tt_export_fold_free(struct tt_page_fold *f); /* accepts zeroed ones */

/* Writes the network as an object: spec, kind, counts, dimensions, names, cables. */
tutti_status tt_export_page_network(const struct tt_page_fold *f, struct tt_json_writer *w,
                                    struct tutti_error *err);
/* Writes per-vertex values of the whole network for its groups: that of a group's first vertex. */
tutti_status tt_export_page_vertices(const struct tt_page_fold *f, const uint32_t *value,
                                     struct tt_json_writer *w, struct tutti_error *err);

/* A message as a simulation or a run had it. */
struct tt_page_event {
    uint32_t src, dst, step, channel, segment;
    uint64_t bytes, start_ps, end_ps;
};
struct tt_page_schedule {
    const struct tt_sched *s; /* all ranks */
    const struct tt_page_fold *fold;
    uint64_t count;
    tutti_dtype dtype;
    uint64_t time_ps;
    struct tt_page_event *event; /* of all messages and segments; sorted in place */
    size_t nevents;
};
/* Writes the schedule and its times as an object. */
tutti_status tt_export_page_schedule(const struct tt_page_schedule *p, struct tt_json_writer *w,
                                     struct tutti_error *err);

/* The page around the data: begin writes everything before it and returns a stream for the
 * document, on which markup is escaped (NULL: out of memory); end closes that stream and writes
 * the rest. Write errors show in `out`. */
FILE *tt_export_page_begin(FILE *out, const char *title);
void tt_export_page_end(FILE *data, FILE *out);
/* Head and style of a page without a script, to the beginning of its body. */
void tt_export_page_plain(FILE *out, const char *title);
#endif
