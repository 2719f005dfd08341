/* text.h - the text form (tutti-schedule(5)) inside src/sched: what text_write.c writes and what
 * text_header.c reads before text_read.c reads the operations, which may be too many to keep. What
 * a file says is checked before it sizes an allocation. */
#ifndef TT_SCHED_TEXT_H
#define TT_SCHED_TEXT_H

#include "base/json.h"
#include "sched/sched.h"

#define TT_TEXT_FORMAT "tutti-schedule"
enum { TT_TEXT_VERSION = 1 };

/* What has been read of a file before its operations. */
struct tt_text_header {
    struct tt_shape shape;        /* weights and owner stay NULL: they are in the next two */
    struct tt_vec weights, owner; /* uint32_t */
    struct tt_vec routes;         /* uint32_t: src, dst, channel, number of links, links, ... */
    uint32_t first_rank;
    uint64_t hash;
    uint32_t version;
    bool partial; /* first_rank was given: not all ranks need to be there */
    bool has_hash;
};
/* Reads the members of the document's object up to and including the key "slices". On failure, too,
 * the header can be freed. */
tutti_status tt_sched_text_read_header(struct tt_json_reader *json, struct tt_text_header *ret,
                                       struct tutti_error *err);
void tt_sched_text_free_header(struct tt_text_header *h);

#endif
