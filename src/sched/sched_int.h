/* sched_int.h - shared by the files of sched/; included by no other module. */
#ifndef TT_SCHED_INT_H
#define TT_SCHED_INT_H

#include "sched/sched.h"

/* ---- span.c ---- */

/* The canonical form of a span that is not empty: reps 1 has stride 0, touching repetitions are one
 * range. */
struct tt_span tt_sched_span_canonical(struct tt_span s);
/* Makes *a cover b as well when b continues it in the same buffers; false when it does not. */
bool tt_sched_span_extend(struct tt_span *a, const struct tt_span *b);
/* One past the last chunk. */
uint64_t tt_sched_span_end(const struct tt_span *s);
/* Do two spans share a chunk (whatever their buffers)? Both lie inside the vector, with len, reps >
 * 0 and stride >= len when reps > 1. Adds to *work what the answer cost: 1, and up to 65,536 when
 * both are strided differently. */
bool tt_sched_span_overlap(const struct tt_span *a, const struct tt_span *b, uint64_t *work);

/* ---- claim.c: which operations touch which chunks ---- */

struct tt_claim {
    uint32_t buf;
    struct tt_span span;
    uint64_t order; /* place in the list of claims or operations: "earlier" means smaller */
    /* after sorting: the largest end among the claims of this buffer up to this one */
    uint64_t cover;
};
struct tt_claims {
    struct tt_vec items; /* struct tt_claim */
    uint64_t work;       /* comparisons made so far, for limits against hostile input */
};
/* false: out of memory */
bool tt_sched_claims_add(struct tt_claims *c, uint32_t buf, const struct tt_span *span,
                         uint64_t order);
/* before the first search */
void tt_sched_claims_sort(struct tt_claims *c);
/* A claim of `buf` that shares a chunk with span and is earlier than `order`, or NULL. */
const struct tt_claim *tt_sched_claims_earlier(struct tt_claims *c, uint32_t buf,
                                               const struct tt_span *span, uint64_t order);

/* ---- check_place.c: do the places of a whole span exist at a rank? ---- */
struct tt_places {
    const struct tt_shape *shape;
    /* with an owner list: one past the last chunk of the run of equal owners that the chunk lies
     * in */
    uint32_t *run_end;
};
tutti_status tt_sched_places_make(const struct tt_shape *s, struct tt_places *ret,
                                  struct tutti_error *err);
void tt_sched_places_free(struct tt_places *p);
bool tt_sched_places_input(const struct tt_places *p, uint32_t rank, const struct tt_span *span);
bool tt_sched_places_output(const struct tt_places *p, uint32_t rank, const struct tt_span *span);

/* ---- check_shape.c ---- */
tutti_status tt_sched_shape_check(const struct tt_shape *s, struct tutti_error *err);

/* ---- check.c and check_race.c ---- */

/* What an operation does with its i-th span. */
struct tt_access {
    bool reads, writes;
    uint32_t from, to; /* buffers */
};
static inline struct tt_access tt_access_of(const struct tt_op *op, uint32_t i,
                                            const struct tt_span *s)
{
    switch (op->kind) {
    case TT_OP_SEND:
        return (struct tt_access){.reads = true, .from = s->buf};
    case TT_OP_RECV:
        return (struct tt_access){.writes = true, .to = s->buf};
    case TT_OP_REDUCE:
        return i == 0 ? (struct tt_access){.writes = true, .to = s->buf}
                      : (struct tt_access){.reads = true, .from = s->src};
    default: /* RECV_REDUCE, COPY */
        return (struct tt_access){.reads = true, .writes = true, .from = s->src, .to = s->buf};
    }
}

/* The state of checking one rank's slice; places and claims are reused from rank to rank. */
struct tt_checker {
    const struct tt_shape *shape;
    struct tt_places places;
    uint32_t rank;
    struct tt_slice slice;
    struct tt_claims claims;
    uint64_t max_work; /* more comparisons than any well-formed slice needs */
    uint64_t ranges;   /* repetitions of spans of this slice so far */
    /* repetitions, over all ranks so far, that are looked up in lists of owners or weights; their
     * limit */
    uint64_t listed;
    uint64_t max_listed;
    struct tt_sched_flaw *where;
    struct tutti_error *err;
};
/* "rank R op I (kind, step S): ..." */
tutti_status tt_sched_check_flaw(struct tt_checker *c, size_t op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* No chunk twice in one operation. */
tutti_status tt_sched_check_repeats(struct tt_checker *c, size_t op);
/* The operations [begin, end) are one step. */
tutti_status tt_sched_check_step(struct tt_checker *c, size_t begin, size_t end);
/* The whole slice, when IN and OUT may be one memory. */
tutti_status tt_sched_check_inplace(struct tt_checker *c);

/* ---- freeze.c ---- */
uint64_t tt_sched_hash(const struct tt_sched *s);

#endif
