/* symmetry.c - runs one rank instead of all if every rank does the same on a network that looks
 * the same from every rank.
 *
 * If the operations of all ranks are those of rank 0 shifted, and renumbering r -> r+1 maps the
 * network onto itself, the run stays symmetric at every moment: all ranks send, receive and wait
 * together, and the links of a class (cost/classes.h) carry the same at the same rates. It is
 * then enough to run rank 0. Rank 0 receives what it sends itself (what rank 0 sends to rank d,
 * rank N-d sends to rank 0), and a route becomes the classes that it crosses, some of them
 * several times: that is how often a link of the class carries the message of some rank.
 *
 *     ring of 8, 0 -> 2: the class "one up", twice. Every link up carries two such messages:
 *     0 -> 2 and 7 -> 1 on the link 0 -> 1.
 *
 * Conditions: chunks of equal length; no what-ifs, routes of its own, half-duplex cables,
 * declared ports (the order in which ports are given may differ) or timeline. The declaration is
 * checked operation by operation, and a schedule that is not symmetric is simulated in full.
 * Only a schedule that holds nothing but rank 0 is taken at its word: a ring of 65,536 ranks is
 * not available otherwise. */
#include <stdlib.h>
#include <string.h>

#include "cost/classes.h"
#include "sim/sim_int.h"

/* Adjacent chunks of one place. */
struct range {
    uint64_t buf; /* buffer << 32 | source */
    uint32_t first, end;
};
/* The comparison of one rank with rank 0; the vectors are reused. */
struct check {
    const struct tt_sched *s;
    uint32_t rank;
    /* struct range: of an operation of this rank, shifted back; of rank 0's */
    struct tt_vec mine, first;
    bool failed;
};

/* Extends the last range if r continues it. */
static void add_range(struct check *c, struct tt_vec *to, const struct range *r)
{
    struct range *last = to->len ? (struct range *)to->data + to->len - 1 : NULL;
    if (last && last->buf == r->buf && last->end == r->first)
        last->end = r->end;
    else if (r->first < r->end && !tt_vec_push(to, r, 1))
        c->failed = true;
}

static int by_first(const void *x, const void *y)
{
    const struct range *a = x, *b = y;
    if (a->buf != b->buf)
        return a->buf < b->buf ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Lists the ranges of an operation with its chunks shifted back by `shift`, sorted and merged.
 * Operands of a reduction keep their order, because it matters. Strided spans count as a
 * failure: the schedule is then simulated in full. */
static void ranges_of(struct check *c, const struct tt_op *op, const struct tt_span *spans,
                      uint32_t shift, struct tt_vec *to)
{
    uint32_t chunks = c->s->shape.chunks;
    to->len = 0;
    for (uint32_t i = 0; i < op->nspans; i++) {
        const struct tt_span *s = &spans[i];
        uint32_t first = s->first >= shift ? s->first - shift : s->first + (chunks - shift);
        uint64_t end = (uint64_t)first + s->len, buf = (uint64_t)s->buf << 32 | s->src;
        c->failed = c->failed || s->reps != 1;
        add_range(c, to, &(struct range){buf, first, end < chunks ? (uint32_t)end : chunks});
        if (end > chunks)
            add_range(c, to, &(struct range){buf, 0, (uint32_t)(end - chunks)});
    }
    if (op->kind == TT_OP_REDUCE || to->len < 2)
        return;
    qsort(to->data, to->len, sizeof(struct range), by_first);
    struct range *r = to->data;
    size_t n = 1;
    for (size_t i = 1; i < to->len; i++) {
        if (r[i].buf == r[n - 1].buf && r[i].first == r[n - 1].end)
            r[n - 1].end = r[i].end;
        else
            r[n++] = r[i];
    }
    to->len = n;
}

/* Operation i of both: equal except for the shift of peers and chunks? */
static bool same_op(struct check *c, const struct tt_slice *a, const struct tt_slice *b, size_t i)
{
    const struct tt_op *x = &a->ops[i], *y = &b->ops[i];
    uint32_t n = c->s->shape.ranks, shift = c->rank * (c->s->shape.chunks / n);
    bool message = x->kind != TT_OP_REDUCE && x->kind != TT_OP_COPY;
    uint32_t peer = message ? (uint32_t)(((uint64_t)x->peer + c->rank) % n) : x->peer;
    if (x->kind != y->kind || x->step != y->step || x->channel != y->channel || y->peer != peer)
        return false;
    const struct tt_span *p = a->spans + x->span, *q = b->spans + y->span;
    if (x->nspans == 1 && y->nspans == 1 && p->reps == 1 && q->reps == 1) /* the usual case */
        return p->len == q->len && p->buf == q->buf && p->src == q->src &&
               q->first == (p->first + (uint64_t)shift) % c->s->shape.chunks;
    ranges_of(c, x, p, 0, &c->first);
    ranges_of(c, y, q, shift, &c->mine);
    return !c->failed && c->first.len == c->mine.len &&
           (!c->first.len ||
            memcmp(c->first.data, c->mine.data, c->first.len * sizeof(struct range)) == 0);
}

/* Are all ranks' operations those of rank 0, shifted? Lack of memory counts as no. */
static bool shifted(const struct tt_sched *s)
{
    struct check c = {
        .s = s, .mine = {.elem = sizeof(struct range)}, .first = {.elem = sizeof(struct range)}};
    struct tt_slice zero = tt_sched_slice(s, 0);
    bool same = true;
    for (c.rank = 1; c.rank < s->shape.ranks && same; c.rank++) {
        struct tt_slice sl = tt_sched_slice(s, c.rank);
        same = sl.nops == zero.nops;
        for (size_t i = 0; i < sl.nops && same; i++)
            same = same_op(&c, &zero, &sl, i);
    }
    tt_vec_free(&c.mine);
    tt_vec_free(&c.first);
    return same && !c.failed;
}

static bool any_half(const struct tt_topo *t)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        if (t->links[i].half)
            return true;
    return false;
}

/* The first link of every class; NULL if links have no classes or there is no memory. */
static uint32_t *class_links(const struct tt_topo *t)
{
    uint32_t *first = tt_alloc((size_t)t->ranks + 1, sizeof *first);
    uint64_t *rate = tt_alloc((size_t)t->ranks + 1, sizeof *rate);
    if (!first || !rate || tt_cost_classes_find(t, first, rate, NULL)) {
        free(first);
        first = NULL;
    }
    free(rate);
    return first;
}

bool tt_sim_holds_one(const struct tt_sched *s)
{
    return s->shape.symmetric && s->shape.ranks > 1 && s->first_rank == 0 && s->nslices == 1;
}

uint32_t *tt_sim_symmetric(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                           tutti_dtype dtype, const struct tt_sim_options *o)
{
    const struct tt_sim_whatif *q = &o->whatif;
    struct tt_bind b;
    if (o->level != TT_SIM_FLOW || o->timeline || q->nslow || q->ndegrade || q->jitter > 0 ||
        !s->shape.symmetric || s->shape.weights || s->shape.ranks < 2 || s->nroutes || t->ports ||
        !t->rotational || s->shape.chunks % s->shape.ranks != 0 || any_half(t))
        return NULL;
    if (tt_sched_bind_make(&s->shape, count, dtype, &b, NULL))
        return NULL;
    bool equal = b.each * b.chunks == b.count && b.each > 0;
    tt_sched_bind_free(&b);
    return equal && (tt_sim_holds_one(s) || shifted(s)) ? class_links(t) : NULL;
}

/* Every link gets its class's report, every rank that of rank 0. */
void tt_sim_spread(struct tt_sim_report *r, const struct tt_sim_input *in)
{
    for (uint32_t d = 0; d < r->nlinks2; d++)
        r->links[d] = r->links[in->w->class_link[tt_cost_class_of(in->t, d)]];
    for (uint32_t i = 1; i < r->ranks; i++)
        r->rank[i] = r->rank[0];
}
