/* verify_int.h - what the files of verify/ share; no other module includes it.
 *
 * A value is a 32-bit name of what a place holds: 0 for nothing, otherwise an interned
 * contribution set (exact.c) or fingerprint (finger.c). Equal contents have equal names, so rows
 * of places compress to runs, and the final comparison is one of integers. Contributors are all
 * ranks when the collective reduces. Otherwise every chunk has exactly one source, and a single
 * contributor stands for "the source of this chunk": a whole all-gather then needs one value.
 *
 * Functions return TUTTI_ERR_INCORRECT once the fault is written to the result: the run ends
 * there, and tt_verify itself succeeds. */
#ifndef TT_VERIFY_INT_H
#define TT_VERIFY_INT_H

#include "verify/verify.h"

enum { TT_VNOTHING = 0 };

/* ---- map.c: 64-bit keys to values that are never 0 ---- */
struct tt_vmap {
    uint64_t *keys;
    uint32_t *values; /* 0: free slot */
    size_t cap, len;
};
uint32_t tt_verify_map_get(const struct tt_vmap *m, uint64_t key); /* 0: absent */
/* Sets the value of a key; false: out of memory. */
bool tt_verify_map_put(struct tt_vmap *m, uint64_t key, uint32_t value);
void tt_verify_map_free(struct tt_vmap *m);

/* ---- intern.c: equal tuples of `width` words get one name, counted from 1 ---- */
struct tt_vintern {
    size_t width;
    struct tt_vec words;
    uint32_t *slots;
    size_t cap, len;
};
uint32_t tt_verify_intern_add(struct tt_vintern *t, const uint64_t *words); /* 0: out of memory */
/* Valid until the next tt_verify_intern_add. */
const uint64_t *tt_verify_intern_words(const struct tt_vintern *t, uint32_t name);
void tt_verify_intern_free(struct tt_vintern *t);

/* ---- exact.c, finger.c: the two kinds of values ---- */
struct tt_vdomain {
    bool exact;
    uint32_t contributors;
    uint32_t *single; /* the value of each contributor alone */
    uint32_t full;    /* the value of every contributor once */
    struct tt_vintern values;
    struct tt_vmap memo; /* exact: (a, b) -> union */
    uint64_t *scratch;   /* exact: the words of one value */
};
/* The outcome of adding two values: *ret is set, a contribution is in both, or out of memory. */
enum tt_vcombined { TT_VJOINED, TT_VTWICE, TT_VNO_MEMORY };
tutti_status tt_verify_exact_init(struct tt_vdomain *d, uint32_t contributors,
                                  struct tutti_error *err);
enum tt_vcombined tt_verify_exact_combine(struct tt_vdomain *d, uint32_t a, uint32_t b,
                                          uint32_t *ret);
/* A contributor in both sets; asserts that there is one. */
uint32_t tt_verify_exact_shared(const struct tt_vdomain *d, uint32_t a, uint32_t b);
tutti_status tt_verify_finger_init(struct tt_vdomain *d, uint32_t contributors, uint64_t seed,
                                   struct tutti_error *err);
enum tt_vcombined tt_verify_finger_combine(struct tt_vdomain *d, uint32_t a, uint32_t b,
                                           uint32_t *ret);
uint64_t tt_verify_finger_add(uint64_t a, uint64_t b); /* modulo 2^61-1 */
/* upper bound that one of them passes wrongly */
double tt_verify_finger_error(uint64_t comparisons);
void tt_verify_domain_free(struct tt_vdomain *d);

/* ---- state.c: what every place holds; chunks by their numbers in the fold ---- */
/* A run of adjacent chunks that hold the same value. */
struct tt_vpiece {
    uint32_t first, len, value;
};
struct tt_vplaces { /* adjacent chunks of one buffer at one rank; len > 0 */
    uint32_t rank, buf, first, len;
};
struct tt_vstate {
    const struct tt_shape *shape;
    const struct tt_vdomain *domain;
    struct tt_vmap index; /* (rank, buffer) -> row + 1 */
    struct tt_vec rows, splice;
    uint64_t dense_left; /* bytes that plain rows may still take */
    /* Bytes that runs may still take: a small hostile file must not exhaust the machine. */
    uint64_t runs_left;
    uint64_t work_left; /* runs that may still be read and written */
    bool over;          /* work_left was not enough */
};
/* `work`: a budget above what any valid schedule of this length needs. */
void tt_verify_state_init(struct tt_vstate *st, const struct tt_shape *shape,
                          const struct tt_vdomain *domain, uint64_t work);
void tt_verify_state_free(struct tt_vstate *st);
/* Takes work off the budget; false if too little is left. */
bool tt_verify_state_charge(struct tt_vstate *st, uint64_t work);
/* What a false answer of these functions means: too much work, or no memory for `what`. */
tutti_status tt_verify_state_fail(const struct tt_vstate *st, const char *what,
                                  struct tutti_error *err);
/* Appends what the places hold as adjacent runs. Inputs may be read only where tt_sched_check
 * has found that they exist. */
bool tt_verify_state_read(struct tt_vstate *st, struct tt_vplaces at, struct tt_vec *pieces);
/* Writes n > 0 adjacent runs. */
bool tt_verify_state_write(struct tt_vstate *st, uint32_t rank, uint32_t buf,
                           const struct tt_vpiece *pieces, size_t n);
/* The source of a chunk: the one rank that contributes to it when the collective does not
 * reduce. */
uint32_t tt_verify_source(const struct tt_shape *s, uint32_t chunk);

/* ---- fold.c: chunks that schedules move together lie together ---- */
/* Chunk c has the number (c % every) * rows + c / every: one to one, and chunks `every` apart
 * become neighbours. */
struct tt_vfold {
    uint32_t every, rows; /* every * rows = all chunks; every = 1: numbers are chunks */
};
/* Chooses the fold of a well-formed schedule that leaves few separate ranges of its spans. */
struct tt_vfold tt_verify_fold_choose(const struct tt_sched *s);
/* The number of separate ranges of all spans; every = 1: as listed. */
uint64_t tt_verify_fold_ranges(const struct tt_sched *s, uint32_t every);
static inline uint32_t tt_vfold_number(const struct tt_vfold *f, uint32_t chunk)
{
    return f->every == 1 ? chunk : chunk % f->every * f->rows + chunk / f->every;
}
static inline uint32_t tt_vfold_chunk(const struct tt_vfold *f, uint32_t number)
{
    return f->every == 1 ? number : number % f->rows * f->every + number / f->rows;
}

/* ---- walk.c: the plain ranges of spans, in the order in which a message carries them ---- */
struct tt_vwalk {
    const struct tt_span *span, *end;
    /* repetition of the span; where a fold tears its ranges apart, the chunk of the span */
    uint32_t rep;
    struct tt_vfold fold; /* ranges are in its numbers */
};
struct tt_vrange {
    uint32_t first, len, buf, src;
};
enum { TT_VNO_CHUNK = UINT32_MAX };
static inline struct tt_vwalk tt_vwalk_folded(const struct tt_slice *sl, const struct tt_op *op,
                                              const struct tt_vfold *f)
{
    const struct tt_span *spans = sl->spans + op->span;
    return (struct tt_vwalk){.span = spans, .end = spans + op->nspans, .fold = *f};
}
/* A walk over the chunks as listed, without a fold. */
static inline struct tt_vwalk tt_vwalk_op(const struct tt_slice *sl, const struct tt_op *op)
{
    return tt_vwalk_folded(sl, op, &(struct tt_vfold){.every = 1});
}
/* The step of tt_vwalk_next where fold.every > 1. */
void tt_verify_walk_fold(struct tt_vwalk *w, struct tt_vrange *ret);
/* Sets *ret to the next range; false at the end. */
static inline bool tt_vwalk_next(struct tt_vwalk *w, struct tt_vrange *ret)
{
    const struct tt_span *s = w->span;
    if (s == w->end)
        return false;
    if (w->fold.every > 1) {
        tt_verify_walk_fold(w, ret);
        return true;
    }
    *ret = (struct tt_vrange){
        .first = s->first + w->rep * s->stride, .len = s->len, .buf = s->buf, .src = s->src};
    if (++w->rep == s->reps) {
        w->rep = 0;
        w->span++;
    }
    return true;
}
/* Do both walks, of one fold, name the same chunks in the same order? If not, returns the first
 * chunks that differ (TT_VNO_CHUNK: that walk has ended). */
bool tt_verify_walk_same_chunks(struct tt_vwalk a, struct tt_vwalk b, uint32_t *ret_a,
                                uint32_t *ret_b);

/* ---- front.c: the operations of one step, rank by rank ---- */
/* A rank that has operations in the current step. */
struct tt_vactive {
    uint32_t rank;
    /* its slice: sends from begin, receives from recvs, local operations from locals, up to end */
    uint32_t begin, recvs, locals, end;
    uint32_t recv_base; /* index of its first receive among all of the step */
};
struct tt_vfront {
    const struct tt_sched *sched;
    uint32_t step;
    struct tt_vactive *active; /* by ascending rank */
    uint32_t n, recvs;
    /* rank -> index in active; valid only if slot < n and active[slot].rank is the rank */
    uint32_t *slot;
    uint32_t *cursor; /* rank -> first operation not yet done */
    uint32_t *next;   /* ranks that continue with the very next step */
    uint32_t *now;    /* the `next` of the previous step */
    uint32_t nnext;
    uint64_t *heap; /* step << 32 | rank of the other ranks with operations left */
    size_t nheap;
};
tutti_status tt_verify_front_init(struct tt_vfront *f, const struct tt_sched *s,
                                  struct tutti_error *err);
/* Advances to the next step that has operations; false: there is none. */
bool tt_verify_front_next(struct tt_vfront *f);
/* NULL: the rank has no operations in this step. */
const struct tt_vactive *tt_verify_front_find(const struct tt_vfront *f, uint32_t rank);
void tt_verify_front_free(struct tt_vfront *f);

/* ---- the run ---- */
struct tt_vmsg {
    uint32_t src, dst;
    uint32_t send, recv; /* indices in the slices of src and dst */
    uint16_t channel;
    size_t piece; /* first run of what it carries, in `sent` */
};
struct tt_vkeyed { /* an entry of an inbox (item: message) or of a receive list (item: operation) */
    uint64_t key;  /* sender << 16 | channel */
    uint32_t item;
};
struct tt_verifier {
    const struct tt_sched *sched;
    const struct tt_shape *shape;
    struct tt_verify_result *result;
    struct tutti_error *err;
    struct tt_vfold fold;
    struct tt_vdomain domain;
    struct tt_vstate state;
    struct tt_vfront front;
    struct tt_vec msgs;     /* struct tt_vmsg of the step, by sender and listed order */
    struct tt_vec recv_msg; /* uint32_t: receive of the step -> message */
    /* struct tt_vkeyed: messages by receiver, sender, channel and listed order */
    struct tt_vec inbox;
    struct tt_vec inbox_end;            /* uint32_t: of each active rank's part */
    struct tt_vec expected;             /* match.c */
    struct tt_vec reads, writes, edges; /* wait.c */
    struct tt_vec sent;                 /* struct tt_vpiece: what the step's messages carry */
    /* struct tt_vpiece: operands and results of one operation */
    struct tt_vec a, b, c;
};

/* ---- say.c: faults in words ---- */
/* Writes the fault into the result; returns TUTTI_ERR_INCORRECT. */
tutti_status tt_verify_fault(struct tt_verifier *v, uint32_t rank, uint64_t op, const char *fmt,
                             ...) __attribute__((format(printf, 4, 5)));
struct tt_vtext {
    char s[96];
};
/* "scratch 0" */
struct tt_vtext tt_verify_say_buf(uint32_t buf);
/* "receive from rank 2 on channel 1" */
struct tt_vtext tt_verify_say_op(const struct tt_op *op);
/* "chunks 0-3, 7" */
struct tt_vtext tt_verify_say_chunks(const struct tt_slice *sl, const struct tt_op *op);

/* ---- the parts of a step ---- */
/* Finds the partner of every message; fills msgs and recv_msg. */
tutti_status tt_verify_match_step(struct tt_verifier *v, const struct tt_vfront *f);
void tt_verify_wait_init(struct tt_verifier *v);
tutti_status tt_verify_wait_step(struct tt_verifier *v); /* finds deadlocks among msgs */
/* Applies the step to `state`; needs msgs and recv_msg. */
tutti_status tt_verify_exec_step(struct tt_verifier *v);
/* ---- after the last step ---- */
tutti_status tt_verify_final(struct tt_verifier *v, uint64_t *ret_comparisons);
tutti_status tt_verify_symmetry(struct tt_verifier *v);
/* Finds and writes the fault of one chunk. It must be known that this operation counts a
 * contribution twice, or (op is the slice's length) that the chunk's result at the rank is wrong
 * at the end. */
tutti_status tt_verify_trace(struct tt_verifier *v, uint32_t chunk, uint32_t rank, uint64_t op);
#endif
