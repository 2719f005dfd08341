/* lockstep.h - an interpreter of schedules for tests, written from the text of sched.h alone and independent of verify.
 *
 * It moves real 64-bit numbers through the operations, twice: in lockstep, and live (operations start in random order as soon as the
 * rules allow; a message happens only when both ends have started: rendezvous), out of place and in place. The sum is chosen by
 * the caller: plain addition for results, a mixer that is neither associative nor commutative for "the same bits everywhere". */
#ifndef TEST_LOCKSTEP_H
#define TEST_LOCKSTEP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "sched/sched.h"

/* One operation, flattened to places. A place is buffer * chunks + chunk, buffer OUT being IN when in place. */
struct ls_op {
    struct tt_op op;
    uint64_t n; /* chunks */
    uint32_t *chunk;
    uint64_t *write;         /* n, or NULL (SEND) */
    uint64_t *read;          /* n * operands, operand by operand, or NULL (RECV) */
    uint64_t operands, sent; /* sent: scratch for the interpreter */
    bool done;
};

struct ls_rank {
    struct ls_op *ops;
    size_t n;
    uint64_t *value;
    bool *has;
};

struct ls {
    const struct tt_sched *s;
    bool inplace;
    uint64_t (*add)(uint64_t, uint64_t);
    struct ls_rank *rank;
};

static inline uint64_t ls_plain_sum(uint64_t a, uint64_t b)
{
    return a + b;
}

static inline uint64_t ls_ordered_mix(uint64_t a, uint64_t b)
{
    return tt_mix64(a * 3 + tt_mix64(b + 0x9e3779b97f4a7c15u));
}

/* Commutative, not associative: equal for equal trees whatever the order of the two branches. */
static inline uint64_t ls_tree_mix(uint64_t a, uint64_t b)
{
    return tt_mix64(tt_mix64(a + 1) + tt_mix64(b + 1));
}

static inline uint64_t ls_input(uint32_t rank, uint32_t chunk)
{
    return tt_mix64(((uint64_t)rank << 32 | chunk) + 12345);
}

/* The table at the top of sched.h, once more. */
static inline uint32_t ls_owner(const struct tt_shape *s, uint32_t c)
{
    if (s->owner)
        return s->owner[c];
    return s->coll == TUTTI_ALL_TO_ALL ? c % s->ranks : c / (s->chunks / s->ranks);
}

static inline bool ls_has_in(const struct tt_shape *s, uint32_t r, uint32_t c)
{
    if (s->coll == TUTTI_ALL_GATHER || s->coll == TUTTI_GATHER)
        return ls_owner(s, c) == r;
    if (s->coll == TUTTI_BROADCAST || s->coll == TUTTI_SCATTER)
        return r == s->root;
    return s->coll != TUTTI_ALL_TO_ALL || c / s->ranks == r;
}

static inline bool ls_has_out(const struct tt_shape *s, uint32_t r, uint32_t c)
{
    if (s->coll == TUTTI_REDUCE_SCATTER || s->coll == TUTTI_SCATTER || s->coll == TUTTI_ALL_TO_ALL)
        return ls_owner(s, c) == r;
    return (s->coll != TUTTI_REDUCE && s->coll != TUTTI_GATHER) || r == s->root;
}

static inline void *ls_alloc(uint64_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    assert_non_null(p);
    return p;
}

static inline uint64_t ls_place(const struct ls *l, uint32_t buf, uint32_t chunk)
{
    assert_true(buf < l->s->shape.nbufs && chunk < l->s->shape.chunks);
    return (uint64_t)(l->inplace && buf == TT_BUF_OUT ? (uint32_t)TT_BUF_IN : buf) * l->s->shape.chunks + chunk;
}

static inline void ls_check_write(const struct ls *l, uint32_t r, uint32_t buf, uint32_t chunk)
{
    assert_true(buf != TT_BUF_IN);
    if (buf == TT_BUF_OUT)
        assert_true(ls_has_out(&l->s->shape, r, chunk));
}

/* Appends the chunks of one span. */
static inline void ls_flatten_span(const struct ls *l, uint32_t r, struct ls_op *o, const struct tt_span *sp, bool reads, bool writes)
{
    for (uint32_t i = 0; i < sp->reps; i++)
        for (uint32_t j = 0; j < sp->len; j++, o->n++) {
            uint32_t c = sp->first + i * sp->stride + j;
            o->chunk[o->n] = c;
            if (reads)
                o->read[o->n] = ls_place(l, o->op.kind == TT_OP_SEND ? sp->buf : sp->src, c);
            if (writes) {
                ls_check_write(l, r, sp->buf, c);
                o->write[o->n] = ls_place(l, sp->buf, c);
            }
        }
}

static inline void ls_flatten(const struct ls *l, uint32_t r, struct ls_op *o, const struct tt_slice *sl, size_t i)
{
    const struct tt_span *sp = &sl->spans[sl->ops[i].span];
    uint32_t nsp = sl->ops[i].nspans;
    bool reads = sl->ops[i].kind != TT_OP_RECV, writes = sl->ops[i].kind != TT_OP_SEND;
    uint64_t total = 0;
    o->op = sl->ops[i];
    assert_true(nsp > 0);
    for (uint32_t k = 0; k < nsp; k++)
        total += (uint64_t)sp[k].len * sp[k].reps;
    o->chunk = ls_alloc(total, sizeof(uint32_t));
    o->read = ls_alloc(total, sizeof(uint64_t));
    o->write = ls_alloc(total, sizeof(uint64_t));
    o->operands = reads ? 1 : 0;
    if (o->op.kind != TT_OP_REDUCE) {
        for (uint32_t k = 0; k < nsp; k++)
            ls_flatten_span(l, r, o, &sp[k], reads, writes);
        return;
    }
    struct ls_op tmp = *o; /* operands fill `read` one after the other, the destination `write` */
    for (uint32_t k = 1; k < nsp; k++) {
        assert_true(sp[k].first == sp[0].first && sp[k].len == sp[0].len && sp[k].stride == sp[0].stride && sp[k].reps == sp[0].reps);
        ls_flatten_span(l, r, &tmp, &sp[k], true, false);
    }
    ls_flatten_span(l, r, o, &sp[0], false, true);
    o->operands = nsp - 1;
}

static inline struct ls ls_open(const struct tt_sched *s, bool inplace, bool same_chunks, uint64_t (*add)(uint64_t, uint64_t))
{
    struct ls l = {.s = s, .inplace = inplace, .add = add, .rank = ls_alloc(s->shape.ranks, sizeof(struct ls_rank))};
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        struct ls_rank *k = &l.rank[r];
        k->n = sl.nops;
        k->ops = ls_alloc(sl.nops, sizeof(struct ls_op));
        k->value = ls_alloc((uint64_t)s->shape.nbufs * s->shape.chunks, sizeof(uint64_t));
        k->has = ls_alloc((uint64_t)s->shape.nbufs * s->shape.chunks, sizeof(bool));
        for (size_t i = 0; i < sl.nops; i++)
            ls_flatten(&l, r, &k->ops[i], &sl, i);
        for (uint32_t c = 0; c < s->shape.chunks; c++)
            if (ls_has_in(&s->shape, r, c)) {
                k->has[c] = true;
                k->value[c] = ls_input(r, same_chunks ? 0 : c);
            }
    }
    return l;
}

static inline void ls_close(struct ls *l)
{
    for (uint32_t r = 0; r < l->s->shape.ranks; r++) {
        for (size_t i = 0; i < l->rank[r].n; i++) {
            free(l->rank[r].ops[i].chunk);
            free(l->rank[r].ops[i].read);
            free(l->rank[r].ops[i].write);
        }
        free(l->rank[r].ops);
        free(l->rank[r].value);
        free(l->rank[r].has);
    }
    free(l->rank);
}

static inline uint64_t ls_get(const struct ls_rank *k, uint64_t place)
{
    assert_true(k->has[place]);
    return k->value[place];
}

static inline void ls_set(struct ls_rank *k, uint64_t place, uint64_t v)
{
    k->has[place] = true;
    k->value[place] = v;
}

static inline bool ls_is_receive(const struct ls_op *o)
{
    return o->op.kind == TT_OP_RECV || o->op.kind == TT_OP_RECV_REDUCE;
}

static inline bool ls_is_local(const struct ls_op *o)
{
    return o->op.kind == TT_OP_REDUCE || o->op.kind == TT_OP_COPY;
}

static inline void ls_do_local(struct ls *l, struct ls_rank *k, struct ls_op *o)
{
    for (uint64_t i = 0; i < o->n; i++) {
        uint64_t v = ls_get(k, o->read[i]);
        for (uint64_t j = 1; j < o->operands; j++)
            v = l->add(v, ls_get(k, o->read[j * o->n + i]));
        ls_set(k, o->write[i], v);
    }
    o->done = true;
}

/* Delivers n values; the chunks of both ends must be the same in the same order. */
static inline void ls_deliver(struct ls *l, struct ls_rank *k, struct ls_op *o, const struct ls_op *from, const uint64_t *values)
{
    assert_int_equal(o->n, from->n);
    assert_int_equal(o->op.step, from->op.step);
    assert_memory_equal(o->chunk, from->chunk, o->n * sizeof(uint32_t));
    for (uint64_t i = 0; i < o->n; i++)
        ls_set(k, o->write[i], o->op.kind == TT_OP_RECV ? values[i] : l->add(ls_get(k, o->read[i]), values[i]));
    o->done = true;
}

/* The first undone operation of `r` with this peer and channel that sends (or receives), or NULL. */
static inline struct ls_op *ls_next(struct ls *l, uint32_t r, uint32_t peer, uint32_t channel, bool send)
{
    for (size_t i = 0; i < l->rank[r].n; i++) {
        struct ls_op *o = &l->rank[r].ops[i];
        if (!o->done && !ls_is_local(o) && o->op.peer == peer && o->op.channel == channel && (o->op.kind == TT_OP_SEND) == send)
            return o;
    }
    return NULL;
}

static inline void ls_check_order(const struct ls *l)
{
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        for (size_t i = 1; i < l->rank[r].n; i++) {
            const struct ls_op *a = &l->rank[r].ops[i - 1], *b = a + 1;
            int ka = a->op.kind == TT_OP_SEND ? 0 : ls_is_receive(a) ? 1 : 2, kb = b->op.kind == TT_OP_SEND ? 0 : ls_is_receive(b) ? 1 : 2;
            assert_true(a->op.step < b->op.step || (a->op.step == b->op.step && ka <= kb));
        }
}

/* All messages of one step read the state before it. */
static inline void ls_lockstep_step(struct ls *l, uint32_t step)
{
    uint32_t p = l->s->shape.ranks;
    uint64_t **values = ls_alloc(p, sizeof(*values));
    for (uint32_t r = 0; r < p; r++) {
        uint64_t total = 0, at = 0;
        for (size_t i = 0; i < l->rank[r].n; i++)
            total += l->rank[r].ops[i].op.step == step && l->rank[r].ops[i].op.kind == TT_OP_SEND ? l->rank[r].ops[i].n : 0;
        values[r] = ls_alloc(total, sizeof(uint64_t));
        for (size_t i = 0; i < l->rank[r].n; i++) {
            struct ls_op *o = &l->rank[r].ops[i];
            if (o->op.step != step || o->op.kind != TT_OP_SEND)
                continue;
            o->sent = at;
            for (uint64_t j = 0; j < o->n; j++)
                values[r][at++] = ls_get(&l->rank[r], o->read[j]);
        }
    }
    for (uint32_t r = 0; r < p; r++)
        for (size_t i = 0; i < l->rank[r].n; i++) {
            struct ls_op *o = &l->rank[r].ops[i];
            if (o->op.step != step || !ls_is_receive(o))
                continue;
            struct ls_op *from = ls_next(l, o->op.peer, r, o->op.channel, true);
            assert_non_null(from);
            ls_deliver(l, &l->rank[r], o, from, values[o->op.peer] + from->sent);
            from->done = true;
        }
    for (uint32_t r = 0; r < p; r++)
        for (size_t i = 0; i < l->rank[r].n; i++)
            if (l->rank[r].ops[i].op.step == step && ls_is_local(&l->rank[r].ops[i]))
                ls_do_local(l, &l->rank[r], &l->rank[r].ops[i]);
    for (uint32_t r = 0; r < p; r++)
        free(values[r]);
    free(values);
}

static inline void ls_check_all_done(const struct ls *l)
{
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        for (size_t i = 0; i < l->rank[r].n; i++)
            if (!l->rank[r].ops[i].done)
                fail_msg("%s %s p=%" PRIu32 ": rank %" PRIu32 " op %zu never happens", l->s->shape.algo, tt_coll_name(l->s->shape.coll),
                         l->s->shape.ranks, r, i);
}

static inline void ls_run_lockstep(struct ls *l)
{
    ls_check_order(l);
    for (uint32_t step = 0; step < l->s->nsteps; step++)
        ls_lockstep_step(l, step);
    ls_check_all_done(l);
}

/* Do two operations share a place that one of them writes? */
static inline bool ls_conflict(const struct ls_op *a, const struct ls_op *b)
{
    bool aw = a->op.kind != TT_OP_SEND, bw = b->op.kind != TT_OP_SEND;
    for (uint64_t i = 0; aw && i < a->n; i++) {
        for (uint64_t j = 0; j < b->n * b->operands; j++)
            if (a->write[i] == b->read[j])
                return true;
        for (uint64_t j = 0; bw && j < b->n; j++)
            if (a->write[i] == b->write[j])
                return true;
    }
    for (uint64_t i = 0; bw && i < a->n * a->operands; i++)
        for (uint64_t j = 0; j < b->n; j++)
            if (a->read[i] == b->write[j])
                return true;
    return false;
}

static inline bool ls_may_start(struct ls *l, uint32_t r, const struct ls_op *o)
{
    for (const struct ls_op *e = l->rank[r].ops; e < o; e++)
        if (!e->done && ls_conflict(e, o))
            return false;
    return ls_is_local(o) || ls_next(l, r, o->op.peer, o->op.channel, o->op.kind == TT_OP_SEND) == o;
}

/* One attempt of an operation: local ones run, a receive runs when its sender may start too. */
static inline bool ls_try(struct ls *l, uint32_t r, struct ls_op *o)
{
    if (o->done || o->op.kind == TT_OP_SEND || !ls_may_start(l, r, o))
        return false;
    if (ls_is_local(o)) {
        ls_do_local(l, &l->rank[r], o);
        return true;
    }
    struct ls_op *from = ls_next(l, o->op.peer, r, o->op.channel, true);
    if (!from || !ls_may_start(l, o->op.peer, from))
        return false;
    uint64_t *values = ls_alloc(from->n, sizeof(uint64_t));
    for (uint64_t i = 0; i < from->n; i++)
        values[i] = ls_get(&l->rank[o->op.peer], from->read[i]);
    ls_deliver(l, &l->rank[r], o, from, values);
    from->done = true;
    free(values);
    return true;
}

/* Random fair order until nothing can move. */
static inline void ls_run_live(struct ls *l, uint64_t seed)
{
    struct tt_rng rng;
    tt_rng_seed(&rng, seed);
    for (bool moved = true; moved;) {
        moved = false;
        uint32_t p = l->s->shape.ranks, first = (uint32_t)tt_rng_below(&rng, p);
        for (uint32_t i = 0; i < p; i++) {
            struct ls_rank *k = &l->rank[(first + i) % p];
            size_t from = k->n ? (size_t)tt_rng_below(&rng, k->n) : 0;
            for (size_t j = 0; j < k->n; j++)
                moved |= ls_try(l, (first + i) % p, &k->ops[(from + j) % k->n]);
        }
    }
    ls_check_all_done(l);
}

/* What OUT c of rank r must be under plain addition. */
static inline uint64_t ls_expected(const struct tt_shape *s, uint32_t c)
{
    uint64_t sum = 0;
    switch (s->coll) {
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
        return ls_input(ls_owner(s, c), c);
    case TUTTI_BROADCAST:
    case TUTTI_SCATTER:
        return ls_input(s->root, c);
    case TUTTI_ALL_TO_ALL:
        return ls_input(c / s->ranks, c);
    default:
        for (uint32_t r = 0; r < s->ranks; r++)
            sum += ls_input(r, c);
        return sum;
    }
}

static inline void ls_check_results(const struct ls *l)
{
    const struct tt_shape *s = &l->s->shape;
    for (uint32_t r = 0; r < s->ranks; r++)
        for (uint32_t c = 0; c < s->chunks; c++)
            if (ls_has_out(s, r, c) && ls_get(&l->rank[r], ls_place(l, TT_BUF_OUT, c)) != ls_expected(s, c))
                fail_msg("%s %s p=%" PRIu32 "%s: chunk %" PRIu32 " is wrong at rank %" PRIu32, s->algo, tt_coll_name(s->coll), s->ranks,
                         l->inplace ? " in place" : "", c, r);
}

/* Both meanings, out of place and (where declared) in place. */
static inline void ls_prove(const struct tt_sched *s)
{
    for (int mode = 0; mode < 4; mode++) {
        if (mode >= 2 && !s->shape.inplace)
            break;
        struct ls l = ls_open(s, mode >= 2, false, ls_plain_sum);
        if (mode % 2 == 0)
            ls_run_lockstep(&l);
        else
            ls_run_live(&l, s->shape.ranks);
        ls_check_results(&l);
        ls_close(&l);
    }
}

/* All ranks start with the same number in all chunks. Asserts that all ranks end with the same numbers (meant for sums that depend on the
 * order); returns chunk 0's, and whether every chunk got the same, that is, was summed in the same way. */
static inline uint64_t ls_same_bits(const struct tt_sched *s, uint64_t (*add)(uint64_t, uint64_t), bool *ret_one_tree)
{
    struct ls l = ls_open(s, false, true, add);
    uint64_t chunk0 = 0;
    *ret_one_tree = true;
    ls_run_lockstep(&l);
    for (uint32_t c = 0; c < s->shape.chunks; c++) {
        uint64_t want = ls_get(&l.rank[0], ls_place(&l, TT_BUF_OUT, c));
        chunk0 = c == 0 ? want : chunk0;
        *ret_one_tree = *ret_one_tree && want == chunk0;
        for (uint32_t r = 1; r < s->shape.ranks; r++)
            assert_true(ls_get(&l.rank[r], ls_place(&l, TT_BUF_OUT, c)) == want);
    }
    ls_close(&l);
    return chunk0;
}
#endif
