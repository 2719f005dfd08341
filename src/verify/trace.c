/* trace.c - one chunk is wrong: which contributor is missing or doubled, and which operation is
 * at fault?
 *
 * The chunk's moves (tale.c) are played with weights: each contributor in a range [lo, hi) has
 * one, the others have 0, and the result at the bad place is compared with what it should be.
 * Halving the range finds one contributor after log2(ranks) plays; then its copies alone are
 * followed.
 *
 *     counted twice   the first move that adds two places which both hold it
 *     missing         the first move that overwrites its last unread copy; else the write of a copy
 *                     that is never read; else the input that is never used; else the last write of
 *                     the result
 *
 * This needs one word per spot, so it works for 65,536 ranks as for 5. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "verify/trace.h"

/* One play of the tale. */
struct play {
    const struct tt_vtale *tale;
    const struct tt_shape *shape;
    uint64_t *value; /* per spot */
    bool counts;     /* weights are 1; otherwise fixed random numbers modulo 2^61-1 */
};

/* 60 random bits, below the modulus. They need not be secret: this only searches for a fault
 * that is known to exist. */
static uint64_t weight(const struct play *p, uint32_t contributor)
{
    return p->counts ? 1 : tt_mix64(contributor + UINT64_C(0x9e3779b97f4a7c15)) >> 4;
}

/* Counts saturate: only "more than" is asked, and a chain of doublings must not wrap. */
static uint64_t trace_sum(const struct play *p, uint64_t a, uint64_t b)
{
    if (!p->counts)
        return tt_verify_finger_add(a, b);
    return a + b < UINT32_MAX ? a + b : UINT32_MAX; /* saturate */
}

/* Sets all spots to their values before the first move: inputs of contributors in [lo, hi) have
 * their weight. */
static void trace_begin(const struct play *p, uint32_t lo, uint32_t hi)
{
    for (size_t i = 0; i < p->tale->spots.len; i++) {
        const struct tt_vspot *s = tt_vec_at(&p->tale->spots, i);
        uint32_t who = tt_sched_coll_reduces(p->shape->coll) ? s->rank : 0;
        bool has = s->buf == TT_BUF_IN && who >= lo && who < hi &&
                   tt_sched_shape_has_input(p->shape, s->rank, p->tale->chunk);
        p->value[i] = has ? weight(p, who) : 0;
    }
}

static uint64_t result_of(const struct play *p, const struct tt_vmove *m)
{
    return m->b == TT_VNO_PLACE ? p->value[m->a] : trace_sum(p, p->value[m->a], p->value[m->b]);
}

/* Returns what the spot holds after n moves if only contributors in [lo, hi) have weight. */
static uint64_t play_to(const struct play *p, uint32_t lo, uint32_t hi, size_t n, uint32_t spot)
{
    const struct tt_vmove *m = p->tale->moves.data;
    trace_begin(p, lo, hi);
    for (size_t i = 0; i < n; i++)
        p->value[m[i].dst] = result_of(p, &m[i]);
    return p->value[spot];
}

static uint64_t trace_expected(const struct play *p, uint32_t lo, uint32_t hi)
{
    uint64_t all = 0;
    for (uint32_t i = lo; i < hi; i++)
        all = trace_sum(p, all, weight(p, i));
    return all;
}

/* Finds a contributor that the spot does not hold exactly once (counts: one that it holds too
 * often). Invariant: the range [lo, hi) has a wrong sum, so one of its halves has. */
static uint32_t find_contributor(const struct play *p, uint32_t contributors, size_t n,
                                 uint32_t spot)
{
    uint32_t lo = 0, hi = contributors;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        uint64_t is = play_to(p, lo, mid, n, spot), should = trace_expected(p, lo, mid);
        if (p->counts ? is > should : is != should)
            hi = mid;
        else
            lo = mid;
    }
    return lo;
}

static struct tt_op op_of(const struct tt_verifier *v, const struct tt_vmove *m)
{
    return tt_sched_slice(v->sched, m->rank).ops[m->op];
}

/* Without reduction the only contributor stands for the chunk's source. */
static uint32_t rank_of(const struct tt_verifier *v, uint32_t contributor, uint32_t chunk)
{
    return tt_sched_coll_reduces(v->shape->coll) ? contributor : tt_verify_source(v->shape, chunk);
}

/* Reports the first move that adds two places which both hold the contributor. It exists: the
 * contributor was found to be counted twice. */
static tutti_status blame_twice(struct tt_verifier *v, struct play *p, uint32_t who)
{
    const struct tt_vmove *m = p->tale->moves.data;
    size_t i = 0;
    p->counts = true;
    trace_begin(p, who, who + 1);
    while (m[i].b == TT_VNO_PLACE || p->value[m[i].a] == 0 || p->value[m[i].b] == 0) {
        p->value[m[i].dst] = result_of(p, &m[i]);
        i++;
        assert(i < p->tale->moves.len);
    }
    struct tt_op op = op_of(v, &m[i]);
    return tt_verify_fault(v, m[i].rank, m[i].op,
                           "step %" PRIu32 ": %s counts the contribution of rank %" PRIu32
                           " to chunk %" PRIu32 " twice",
                           op.step, tt_verify_say_op(&op).s, rank_of(v, who, p->tale->chunk),
                           p->tale->chunk);
}

/* Where the copies of one contribution end. */
struct loss {
    bool *unread;   /* per spot: not read since it was written */
    size_t *writer; /* per spot: the last move that wrote it, + 1 */
    /* the first move of each kind, or NULL */
    const struct tt_vmove *overwriting, *unused;
    bool used; /* the input itself was read */
};

/* Follows the copies of one contribution through all moves and notes where they are lost. */
static void trace_follow(const struct play *p, uint32_t who, struct loss *l)
{
    const struct tt_vmove *m = p->tale->moves.data;
    trace_begin(p, who, who + 1);
    for (size_t i = 0; i < p->tale->moves.len; i++, m++) {
        uint64_t now = result_of(p, m);
        l->used = l->used || now > 0;
        l->unread[m->a] = false;
        if (m->b != TT_VNO_PLACE)
            l->unread[m->b] = false;
        /* The last unread copy in dst is replaced by something without the contribution. */
        if (p->value[m->dst] > 0 && l->unread[m->dst] && now == 0 && !l->overwriting)
            l->overwriting = m;
        p->value[m->dst] = now;
        l->unread[m->dst] = true;
        l->writer[m->dst] = i + 1;
    }
    /* Among copies that end unread outside the results, the one written first. */
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < p->tale->spots.len; i++) {
        const struct tt_vspot *s = tt_vec_at(&p->tale->spots, i);
        bool result =
            s->buf == TT_BUF_OUT && tt_sched_shape_has_output(p->shape, s->rank, p->tale->chunk);
        if (p->value[i] > 0 && l->unread[i] && !result && l->writer[i] > 0 && l->writer[i] < first)
            first = l->writer[i];
    }
    if (first < SIZE_MAX)
        l->unused = tt_vec_at(&p->tale->moves, first - 1);
}

/* The rank's first operation that writes the chunk, where its own input should have been
 * included; `none` if there is no such operation. */
static uint64_t first_write(const struct tt_vtale *t, uint32_t rank, uint64_t none)
{
    for (size_t i = 0; i < t->moves.len; i++) {
        const struct tt_vmove *m = tt_vec_at(&t->moves, i);
        const struct tt_vspot *s = tt_vec_at(&t->spots, m->dst);
        if (m->rank == rank && s->buf != TT_VNO_PLACE)
            return m->op;
    }
    return none;
}

/* Reports the most specific reason that was found: see the top of this file. */
static tutti_status say_missing(struct tt_verifier *v, const struct tt_vtale *t,
                                const struct loss *l, uint32_t who, uint32_t spot)
{
    const struct tt_vspot *s = tt_vec_at(&t->spots, spot);
    uint32_t from = rank_of(v, who, t->chunk);
    const struct tt_vmove *m = l->overwriting ? l->overwriting
                               : l->unused    ? l->unused
                                              : tt_vec_at(&t->moves, l->writer[spot] - 1);
    struct tt_op op = op_of(v, m);
    char head[128];
    snprintf(head, sizeof head,
             "chunk %" PRIu32 " ends at rank %" PRIu32 " without the contribution of rank %" PRIu32,
             t->chunk, s->rank, from);
    if (!l->used)
        return tt_verify_fault(v, from, first_write(t, from, tt_sched_slice(v->sched, from).nops),
                               "%s: rank %" PRIu32 " never uses this chunk of its input", head,
                               from);
    const char *end = l->overwriting ? "overwrites it before it is read"
                      : l->unused    ? "brings it, and nobody reads it"
                                     : "is the last to write there";
    return tt_verify_fault(v, m->rank, m->op, "%s: at rank %" PRIu32 " in step %" PRIu32 " %s %s",
                           head, m->rank, op.step, tt_verify_say_op(&op).s, end);
}

static tutti_status blame_missing(struct tt_verifier *v, struct play *p, uint32_t who,
                                  uint32_t spot)
{
    size_t n = p->tale->spots.len;
    struct loss l = {.unread = tt_zalloc(n, sizeof *l.unread),
                     .writer = tt_zalloc(n, sizeof *l.writer)};
    tutti_status st;
    if (!l.unread || !l.writer)
        st = tt_fail_memory(v->err, "tracing a chunk");
    else {
        p->counts = true;
        trace_follow(p, who, &l);
        st = say_missing(v, p->tale, &l, who, spot);
    }
    free(l.unread);
    free(l.writer);
    return st;
}

/* Returns the first move after which a place holds more contributions than there are
 * contributors; the number of moves if there is none. */
static size_t find_overfull(const struct play *p, uint32_t contributors)
{
    const struct tt_vmove *m = p->tale->moves.data;
    trace_begin(p, 0, contributors);
    for (size_t i = 0; i < p->tale->moves.len; i++) {
        p->value[m[i].dst] = result_of(p, &m[i]);
        if (p->value[m[i].dst] > contributors)
            return i;
    }
    return p->tale->moves.len;
}

/* Overfull places come first: they are faults where they occur, while the result is wrong only
 * at the end. `spot` is an index + 1 until it is found not to be 0. */
static tutti_status blame(struct tt_verifier *v, struct play *p, uint32_t rank)
{
    uint32_t n = v->domain.contributors,
             spot = tt_verify_map_get(&p->tale->index, (uint64_t)rank << 32 | TT_BUF_OUT);
    size_t moves = p->tale->moves.len;
    p->counts = true;
    size_t overfull = find_overfull(p, n);
    if (overfull < moves) {
        const struct tt_vmove *m = tt_vec_at(&p->tale->moves, overfull);
        return blame_twice(v, p, find_contributor(p, n, overfull + 1, m->dst));
    }
    if (spot-- == 0)
        return tt_verify_fault(v, rank, tt_sched_slice(v->sched, rank).nops,
                               "chunk %" PRIu32 " of the result never arrives at rank %" PRIu32
                               ": no operation writes it there",
                               p->tale->chunk, rank);
    p->counts = false;
    uint32_t who = find_contributor(p, n, moves, spot);
    p->counts = true;
    return play_to(p, who, who + 1, moves, spot) > 1 ? blame_twice(v, p, who)
                                                     : blame_missing(v, p, who, spot);
}

tutti_status tt_verify_trace(struct tt_verifier *v, uint32_t chunk, uint32_t rank, uint64_t op)
{
    struct tt_slice sl = tt_sched_slice(v->sched, rank);
    struct tt_vtale tale;
    tutti_status st =
        tt_verify_tale_make(v, chunk, op < sl.nops ? sl.ops[op].step : UINT32_MAX, &tale);
    if (st)
        return st;
    struct play p = {
        .tale = &tale, .shape = v->shape, .value = tt_alloc(tale.spots.len, sizeof *p.value)};
    st = p.value ? blame(v, &p, rank) : tt_fail_memory(v->err, "tracing a chunk");
    free(p.value);
    tt_verify_tale_free(&tale);
    return st;
}
