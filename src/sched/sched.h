/* sched.h - the schedule: the frozen program of every rank, the one object that planning and
 * running share.
 *
 * The vector is cut in `chunks` chunks. A place is (buffer, chunk): every buffer is a virtual
 * vector of the same chunks, so that data of chunk c can live only in a slot labelled c. Buffers:
 * TT_BUF_IN, TT_BUF_OUT and scratch TT_BUF_SCRATCH+k; an executor gives memory only to the scratch
 * places that its rank uses.
 *
 * Operations of one rank are listed in order of step; within a step first sends, then receives,
 * then local operations.
 *   SEND        reads  `buf` of its spans                                     -> peer
 *   RECV        writes `buf`                                                  <- peer
 *   RECV_REDUCE buf = src (local operand) + message                           <- peer
 *   REDUCE      span 0: destination `buf`; spans 1..n: operands `src`, same chunks, combined left
 *               to right (the destination may be one)
 *   COPY        buf = src
 * Meaning (lockstep): messages of a step read the state at its start; local operations follow in
 * listed order. Meaning (live): an operation starts when all earlier listed operations of its rank
 * that conflict with it (same place, at least one writes) are done, and it is next on its (peer,
 * channel); sched/deps.h has it as edges. Both agree when the schedule is well-formed. The two ends
 * of a message carry the same step, channel and chunks; messages on one (sender, receiver, channel)
 * match in order.
 *
 * Which places hold user data, and where results must be, depends on the collective (n ranks,
 * owner[c] of each chunk):
 *   allreduce       IN all chunks everywhere               -> OUT all chunks everywhere
 *   reduce-scatter  IN all chunks everywhere               -> OUT c at owner[c], no other OUT
 *   all-gather      IN c at owner[c]                       -> OUT all everywhere
 *   broadcast       IN all at root                         -> OUT all everywhere
 *   reduce          IN all everywhere                      -> OUT all at root only
 *   gather          IN c at owner[c]                       -> OUT all at root only
 *   scatter         IN all at root                         -> OUT c at owner[c]
 *   all-to-all      chunk c = source*ranks + destination:
 *                   IN c at source                         -> OUT c at destination (owner[c])
 *   barrier         one chunk of zero elements, as allreduce: a rank that is done knows that every
 *                   rank has begun
 * In place means IN and OUT are one memory: `inplace` declares that this is allowed (no read of IN
 * c listed after a write of OUT c; copying IN c to OUT c writes nothing then). In all-to-all the
 * memory of OUT c is that of IN tt_sched_shape_alias(c), because user data to rank d and user data
 * from rank d have the same position: sending and receiving with different partners in one step is
 * not in place.
 *
 * Segments: every chunk is cut in `segments` equal parts and each part runs through the operations
 * by itself: pipelining. */
#ifndef TT_SCHED_H
#define TT_SCHED_H

#include "base/base.h"

enum { TT_BUF_IN = 0, TT_BUF_OUT = 1, TT_BUF_SCRATCH = 2 };

#define TT_OP_LIST(X) \
    X(SEND, "send")   \
    X(RECV, "recv") X(RECV_REDUCE, "recv-reduce") X(REDUCE, "reduce") X(COPY, "copy")
enum tt_op_kind {
#define TT_OP_ENUM(id, name) TT_OP_##id,
    TT_OP_LIST(TT_OP_ENUM)
#undef TT_OP_ENUM
        TT_OP_KINDS
};
const char *tt_sched_op_name(enum tt_op_kind kind);

/* Chunks first+i*stride .. first+i*stride+len-1 for i in 0..reps-1 (reps 1: a plain range, stride
 * 0). */
struct tt_span {
    uint32_t first, len, stride, reps;
    uint32_t buf; /* what the operation writes (SEND: reads) */
    /* COPY, RECV_REDUCE and operands of REDUCE: what is read; otherwise equal to buf */
    uint32_t src;
};

struct tt_op {
    uint32_t step;
    uint32_t peer;   /* messages: the other rank; local operations: 0 */
    uint32_t span;   /* first span in its slice */
    uint32_t nspans; /* > 0 */
    uint16_t channel;
    uint8_t kind; /* enum tt_op_kind */
    uint8_t pad;
};

enum { TT_ALGO_NAME = 32, TT_ALGO_OPTIONS = 160, TT_NETWORK_SPEC = 160 };

/* The limits of this build: tt_sched_check refuses more, so that readers may size tables by these
 * numbers. */
enum {
    TT_MAX_RANKS = 1 << 24,
    TT_MAX_STEPS = 1 << 22,
    TT_MAX_BUFS = 1 << 21,
    TT_MAX_SEGMENTS = 1 << 16
};

/* Everything about a schedule but its operations. */
struct tt_shape {
    tutti_coll coll;
    uint32_t ranks, root;
    uint32_t chunks;
    uint32_t nbufs;    /* 2 + scratch buffers */
    uint32_t segments; /* K >= 1 */
    uint32_t *weights; /* chunk weights; NULL: all equal */
    uint32_t *owner;   /* owner[chunk]; NULL: block rule, see tt_sched_shape_owner */
    bool inplace;      /* IN and OUT may be one memory */
    /* messages of rank r are those of rank 0 with ranks shifted by r and chunks by
     * r*chunks/ranks */
    bool symmetric;
    /* On a torus, where chunk c is part c % (chunks/ranks) of rank c / (chunks/ranks): messages of
     * rank r are those of rank 0 with all ranks, and the ranks of all chunks, moved along the
     * dimensions by the place of r. For prices; files do not keep it. */
    bool grid;
    char algo[TT_ALGO_NAME];       /* the algorithm that made it */
    char options[TT_ALGO_OPTIONS]; /* "k=v,k=v", canonical */
    uint64_t count;                /* made for: elements of the vector, ... */
    tutti_dtype dtype;
    tutti_redop redop;
    uint64_t topo_hash; /* ... on this topology (0: any) */
    /* the spec of that topology, where it has one that fits: for readers of a file, who parse it
     * and compare the hash. Neither hashed nor compared. */
    char network[TT_NETWORK_SPEC];
};
void tt_sched_shape_free(struct tt_shape *s); /* frees weights and owner only */
/* of everything but the texts of algo and options */
uint64_t tt_sched_shape_hash(const struct tt_shape *s);
/* Block rule: chunk c belongs to rank c / (chunks/ranks) (chunks is then a multiple of ranks);
 * all-to-all: c % ranks. */
uint32_t tt_sched_shape_owner(const struct tt_shape *s, uint32_t chunk);
/* Has every rank, in rank order, one block of the same weight? Then block r is rank r's equal part,
 * whatever the chunks are. */
bool tt_sched_shape_equal_blocks(const struct tt_shape *s);
/* Does place (buf, chunk) exist at rank: IN that holds data at the start, OUT that may be written,
 * any scratch below nbufs? */
bool tt_sched_shape_has_input(const struct tt_shape *s, uint32_t rank, uint32_t chunk);
bool tt_sched_shape_has_output(const struct tt_shape *s, uint32_t rank, uint32_t chunk);
/* In place: the chunk of IN that shares memory with OUT `chunk` (itself, but in all-to-all the
 * transposed one). */
uint32_t tt_sched_shape_alias(const struct tt_shape *s, uint32_t chunk);

/* A path for one (src, dst, channel): directed link ids of the topology with shape.topo_hash. */
struct tt_sched_route {
    uint32_t src, dst, channel, nlinks;
    const uint32_t *links;
};

struct tt_slice {
    const struct tt_op *ops;
    size_t nops;
    const struct tt_span *spans; /* op->span counts from here */
    size_t nspans;
};

/* Frozen: flat arrays, read-only, shared freely between threads (they are the builder's own arrays,
 * shrunk in place: freezing a schedule never needs its memory twice). It may hold all ranks or only
 * some consecutive ones. Several schedules may share one set of arrays, see tt_sched_share. */
struct tt_sched {
    struct tt_shape shape;
    /* ranks first_rank .. first_rank+nslices-1 are here; whole: 0, shape.ranks */
    uint32_t first_rank, nslices;
    uint32_t nsteps; /* largest step + 1 (0: no operation) */
    uint32_t steps;  /* steps that hold at least one message: the number that reports show */
    uint64_t nops, nspans;
    const uint64_t *op_start, *span_start; /* nslices + 1 each */
    const struct tt_op *ops;
    const struct tt_span *spans;
    uint32_t nroutes;
    const struct tt_sched_route *routes; /* sorted by (src, dst, channel) */
    /* of shape (without algo and options text), operations, routes: the plan hash ranks compare */
    uint64_t hash;
    /* schedules that share the arrays, weights and owners included; NULL: this one alone */
    _Atomic uint32_t *users;
};
/* asserts that the rank is held */
struct tt_slice tt_sched_slice(const struct tt_sched *s, uint32_t rank);
/* accepts NULL; the last of those that share frees the arrays */
void tt_sched_free(struct tt_sched *s);
/* The operations of s for another problem: *ret is the caller's, shares the arrays of s, and takes
 * options, segments, count, dtype and redop from `made_for`. NULL: a second owner of s as it is.
 * Safe from any thread as long as s itself is not freed meanwhile. */
tutti_status tt_sched_share(const struct tt_sched *s, const struct tt_shape *made_for,
                            struct tt_sched **ret, struct tutti_error *err);
/* Is it one exchange: every rank sends something of its IN to every other in the first step, one
 * message to each, and everything else is local? Asks all slices that are held; rank 0 stands for
 * all of a symmetric schedule. False when neither suffices. */
bool tt_sched_is_exchange(const struct tt_sched *s);
/* Is it a row of exchanges: in every step with messages each rank sends one chunk to every other
 * rank, and everything else is local? Returns how many places a rank shows to the others in all
 * exchanges together (a place that goes to several in a row counts once); 0: it is none. Asks the
 * same slices. */
uint32_t tt_sched_row(const struct tt_sched *s);
/* The declared route of (src, dst, channel), or NULL. */
const struct tt_sched_route *tt_sched_route(const struct tt_sched *s, uint32_t src, uint32_t dst,
                                            uint32_t channel);

/* ---- builder (build.c): errors are sticky, so that algorithms read as the list of messages they
 * are ---- */
struct tt_builder {
    struct tt_shape shape; /* owned once begun */
    tutti_status status;
    struct tutti_error err;
    uint32_t first_rank, nslices, rank; /* rank: whose operations are being listed */
    struct tt_vec ops, spans, op_start, span_start, routes, route_links;
    uint64_t max_bytes; /* refuse to grow beyond (0: 8 GiB) */
    /* keep fields without a meaning as given, for tt_sched_check to judge; set by readers of
     * untrusted schedules */
    bool verbatim;
};
/* Takes over shape's arrays (also on failure). Ranks are listed in rising order from first_rank. */
void tt_sched_build_begin(struct tt_builder *b, const struct tt_shape *shape, uint32_t first_rank);
void tt_sched_build_rank(struct tt_builder *b, uint32_t rank); /* the next rank's list begins */
/* Makes room before a large build (hint). */
void tt_sched_build_reserve(struct tt_builder *b, uint64_t ops, uint64_t spans);
/* Appends an operation. Spans with len 0 or reps 0 are dropped; an operation left without spans is
 * not emitted. */
void tt_sched_emit(struct tt_builder *b, struct tt_op op, const struct tt_span *spans, size_t n);
void tt_sched_emit_send(struct tt_builder *b, uint32_t step, uint32_t peer, uint16_t channel,
                        const struct tt_span *spans, size_t n);
void tt_sched_emit_recv(struct tt_builder *b, uint32_t step, uint32_t peer, uint16_t channel,
                        const struct tt_span *spans, size_t n);
void tt_sched_emit_recv_reduce(struct tt_builder *b, uint32_t step, uint32_t peer, uint16_t channel,
                               const struct tt_span *spans, size_t n);
void tt_sched_emit_copy(struct tt_builder *b, uint32_t step, const struct tt_span *spans, size_t n);
/* dst range of spans[0].buf = operands spans[1..n-1].src left to right, all on the same chunks. */
void tt_sched_emit_reduce(struct tt_builder *b, uint32_t step, const struct tt_span *spans,
                          size_t n);
void tt_sched_build_route(struct tt_builder *b, uint32_t src, uint32_t dst, uint16_t channel,
                          const uint32_t *links, uint32_t n);
/* Freezes and empties the builder; on failure the sticky error. Does not check well-formedness
 * (tt_sched_check does). */
tutti_status tt_sched_build_freeze(struct tt_builder *b, struct tt_sched **ret,
                                   struct tutti_error *err);
void tt_sched_build_abandon(struct tt_builder *b);
/* Span helpers: a plain range in one buffer; the same with another source; a cyclic range (wraps at
 * `chunks`), 1 or 2 spans. */
struct tt_span tt_sched_span_range(uint32_t buf, uint32_t first, uint32_t len);
struct tt_span tt_sched_span_from(uint32_t buf, uint32_t src, uint32_t first, uint32_t len);
size_t tt_sched_span_cyclic(uint32_t buf, uint32_t src, uint64_t first, uint32_t len,
                            uint32_t chunks, struct tt_span out[2]);
uint64_t tt_sched_span_chunks(const struct tt_span *s); /* len * reps */

/* ---- checks (check.c) ---- */
/* Well-formedness of what is held: field ranges, order of steps and kinds, spans inside the vector,
 * sources and destinations that exist, no two writes of one place in a step, no message that reads
 * what an earlier message of its step writes; fields without a meaning have the value the builder
 * gives them. Spans of a rank that repeat more than 2^28 times together are refused, and fewer when
 * each range must be looked up in a list of owners or weights. The error names rank and op.
 * Everything that reads untrusted schedules may rely on it afterwards. */
struct tt_sched_flaw {
    /* the shape or the routes are at fault, no operation: rank and op are 0, why is empty */
    bool header;
    uint32_t rank;
    uint64_t op;
    char why[320]; /* the error's text without rank and operation */
};
tutti_status tt_sched_check(const struct tt_sched *s, struct tt_sched_flaw *ret_where,
                            struct tutti_error *err);
bool tt_sched_equal(const struct tt_sched *a, const struct tt_sched *b);

/* ---- binding to elements (bind.c) ---- */
/* Where chunks lie when the vector has `count` elements: deterministic, monotone, chunk starts
 * aligned to 64 bytes when every chunk can have 64 bytes (all-to-all: never, its blocks are the
 * user's), else to elements; the last chunk takes the rest. All-to-all has ranks*count elements in
 * this numbering (`count` being one rank's vector; tt_sched_bind_make multiplies), a barrier
 * none. */
struct tt_bind {
    uint64_t count;   /* elements of all chunks together */
    uint64_t quantum; /* elements per alignment unit */
    uint64_t units;   /* count / quantum */
    uint64_t total;   /* sum of weights */
    uint64_t *prefix; /* chunks + 1 sums of weights; NULL: equal weights */
    /* elements of every chunk (the last may have some more); 0: they differ, or there are none */
    uint64_t each;
    uint32_t chunks;
    uint32_t elem_bytes;
};
tutti_status tt_sched_bind_make(const struct tt_shape *s, uint64_t count, tutti_dtype dtype,
                                struct tt_bind *ret, struct tutti_error *err);
void tt_sched_bind_free(struct tt_bind *b);
/* elements before chunk (chunk <= chunks) */
uint64_t tt_sched_bind_offset(const struct tt_bind *b, uint32_t chunk);
uint64_t tt_sched_bind_span_elems(const struct tt_bind *b, const struct tt_span *s);
uint64_t tt_sched_bind_op_bytes(const struct tt_bind *b, const struct tt_slice *sl,
                                const struct tt_op *op); /* bytes of a message / of a destination */
/* equal weights: the most elements that n cyclically consecutive chunks can have */
uint64_t tt_sched_bind_window_max(const struct tt_bind *b, uint64_t n);
uint32_t tt_sched_dtype_bytes(tutti_dtype d);

/* ---- text form (text_write.c describes it): versioned JSON, streamed ---- */
tutti_status tt_sched_write(const struct tt_sched *s, FILE *out, struct tutti_error *err);
/* Reads and checks (tt_sched_check). Memory grows only with what the file really contains. */
tutti_status tt_sched_read(FILE *in, const char *name, struct tt_sched **ret,
                           struct tutti_error *err);
/* For callers that run tt_sched_check themselves, to learn the rank and operation of a flaw;
 * nothing else may read the schedule before. */
tutti_status tt_sched_read_unchecked(FILE *in, const char *name, struct tt_sched **ret,
                                     struct tutti_error *err);
tutti_status tt_sched_read_memory(const char *data, size_t len, const char *name,
                                  struct tt_sched **ret, struct tutti_error *err);

/* ---- one rank's slice as bytes, between processes of one version (pack.c) ---- */
/* The bytes that tt_sched_pack writes to `out` for this rank. */
size_t tt_sched_packed_bytes(const struct tt_sched *s, uint32_t rank);
void tt_sched_pack(const struct tt_sched *s, uint32_t rank, char *out);
/* Reads and checks (tt_sched_check) a schedule that holds one rank; bytes after its end are
 * ignored. Its routes are lost. */
tutti_status tt_sched_unpack(const char *data, size_t len, struct tt_sched **ret,
                             struct tutti_error *err);

/* ---- facts about collectives (shape.c) ---- */
bool tt_sched_coll_is_rooted(tutti_coll c); /* broadcast, reduce, gather, scatter */
bool tt_sched_coll_sums(tutti_coll c);      /* the result has sums of all ranks' elements */
/* data of every rank goes into each result: those that sum, and the barrier */
bool tt_sched_coll_reduces(tutti_coll c);
/* each rank has a block of the vector of its own: the chunks have owners */
bool tt_sched_coll_has_owners(tutti_coll c);

const char *tt_sched_coll_name(tutti_coll c);
const char *tt_sched_dtype_name(tutti_dtype d);
const char *tt_sched_redop_name(tutti_redop r);
/* -1 when unknown. */
int tt_sched_coll_find(const char *name);
int tt_sched_dtype_find(const char *name);
/* redop_find: built-in reductions only; redop_read: also TT_REDOP_USER */
int tt_sched_redop_find(const char *name);
int tt_sched_redop_read(const char *name);
#endif
