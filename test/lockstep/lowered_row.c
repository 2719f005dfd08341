/* lowered_row.c - rows of exchanges (src/exec/row.c) on cells: what ranks show each other in boxes, and what they take when all have shown.
 *
 * Each rank has two boxes in turn and its buffers in a heap or not, as the form of the run says. A rank takes a round as soon as all have
 * shown it, in any order among the ranks; whoever is ahead changes its memory while others still read, if the program lets it. A rank that
 * has finished has its buffers for itself: nobody may touch them any more. */
#include <stdlib.h>

#include "lowered_int.h"

static struct tt_xrow *row_of(const struct lw *l, uint32_t rank)
{
    return l->rank[rank].p->box->row;
}

/* Which element of its segment element i is. */
static uint64_t place_in_segment(const struct lw_op *o, uint64_t i)
{
    uint64_t n = 0;
    while (n < i && o->segment[i - n - 1] == o->segment[i])
        n++;
    return n;
}

/* Element i of a send in the sender's box of the round that shows its segment. */
static struct lw_cell *in_box(struct lw *l, uint32_t rank, uint32_t send, uint64_t i)
{
    struct lw_rank *k = &l->rank[rank];
    const struct tt_xrowop *x = &row_of(l, rank)->ops[send];
    uint64_t round = l->whole ? x->exchange : x->exchange + k->ops[send].segment[i];
    uint64_t at = x->at / k->p->elem_bytes + place_in_segment(&k->ops[send], i);
    if (at >= k->nbox)
        abort(); /* outside of the box */
    return &k->box[(round & 1) * k->nbox + at];
}

static bool is_heap(const struct lw *l, uint32_t rank, uint32_t send)
{
    const struct lw_rank *k = &l->rank[rank];
    if (!k->heap || !k->ops[send].n)
        return false;
    return k->p->code[k->p->ops[send].code + 1] >> 48 != TT_XBASE_OWN && !row_of(l, rank)->ops[send].copies[k->mode];
}

/* Does the sender of this receive put it into its place? */
static bool is_written(const struct lw *l, uint32_t rank, uint32_t recv)
{
    const struct lw_rank *k = &l->rank[rank];
    bool offered = l->o.offers && k->heap && k->p->ops[recv].offers >> k->mode & 1 && k->ops[recv].n;
    return offered && row_of(l, rank)->ops[recv].exchange && row_of(l, k->ops[recv].peer)->writes;
}

bool lw_row_read(struct lw *l, uint32_t rank, uint32_t recv, uint64_t i, struct lw_cell *ret)
{
    const struct lw_op *o = &l->rank[rank].ops[recv];
    const struct lw_rank *peer = &l->rank[o->peer];
    if (!is_heap(l, o->peer, o->partner)) {
        *ret = *in_box(l, o->peer, o->partner, i);
        return lw_judge(l, rank, recv, ret, peer->ops[o->partner].want[i]);
    }
    if (peer->finished)
        return ls_fault(&l->result, LS_RACE, rank, recv, "reads memory of a rank that has finished");
    l->counts.held++;
    *ret = peer->cells[peer->ops[o->partner].at[i]];
    return lw_judge(l, rank, recv, ret, peer->ops[o->partner].want[i]);
}

/* The result of a reduction, for those who want it. */
bool lw_row_result(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, const struct lw_cell *value)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct tt_xrow *r = row_of(l, rank);
    for (uint32_t s = 0; r->ops[op].filled != TT_XNO && s < k->p->nops; s++) {
        const struct lw_op *o = &k->ops[s];
        if (k->p->ops[s].kind != TT_OP_SEND || r->ops[s].filled != op)
            continue;
        if (!is_written(l, o->peer, o->partner)) {
            if (!is_heap(l, rank, s))
                *in_box(l, rank, s, i) = *value;
            continue;
        }
        if (l->rank[o->peer].finished)
            return ls_fault(&l->result, LS_RACE, rank, s, "writes into a rank that has finished");
        l->counts.written++;
        if (!lw_write(l, o->peer, o->partner, i, value))
            return false;
    }
    return true;
}

static bool show(struct lw *l, uint32_t rank, uint32_t send, uint32_t segment)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct lw_op *o = &k->ops[send];
    bool skip = k->p->ops[send].kind != TT_OP_SEND || row_of(l, rank)->ops[send].filled != TT_XNO || is_heap(l, rank, send);
    for (uint64_t i = 0; i < o->n && !skip; i++) {
        if (o->segment[i] != segment)
            continue;
        struct lw_cell c = k->cells[o->at[i]];
        if (!lw_judge(l, rank, send, &c, o->want[i]))
            return false;
        *in_box(l, rank, send, i) = c;
    }
    return true;
}

static bool take(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct lw_op *o = &k->ops[op];
    uint8_t kind = k->p->ops[op].kind;
    if (kind > TT_OP_RECV_REDUCE)
        return lw_local(l, rank, op, segment);
    bool skip = kind == TT_OP_SEND || row_of(l, rank)->ops[op].hold != TT_XNO || is_written(l, rank, op);
    for (uint64_t i = 0; i < o->n && !skip; i++) {
        struct lw_cell c;
        if (o->segment[i] == segment && !(lw_row_read(l, rank, op, i, &c) && lw_write(l, rank, op, i, &c)))
            return false;
    }
    return true;
}

/* Does `act` for all operations whose segment is in the round. */
static bool each(struct lw *l, uint32_t rank, uint32_t round, bool (*act)(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment))
{
    const struct tt_xrow *r = row_of(l, rank);
    bool ok = true;
    for (uint32_t x = 0; x < r->nexchanges; x++)
        for (uint32_t s = 0; s < l->segments; s++)
            for (uint32_t op = r->first[x]; op < r->first[x + 1] && ok && round == (l->whole ? x : x + s); op++)
                ok = act(l, rank, op, s);
    return ok;
}

static uint32_t rounds_of(const struct lw *l)
{
    uint32_t n = row_of(l, 0)->nexchanges;
    return l->whole ? n : n + l->segments - 1;
}

/* What all decide alike: is no box needed, does anybody read a heap in the last exchange? */
static void agree(struct lw *l)
{
    bool read = false, written = true;
    l->whole = true;
    for (uint32_t r = 0; r < l->s->shape.ranks; r++) {
        const struct lw_rank *k = &l->rank[r];
        for (uint32_t op = 0; op < k->p->nops; op++) {
            bool send = k->p->ops[op].kind == TT_OP_SEND, last = row_of(l, r)->ops[op].exchange + 1 == row_of(l, r)->nexchanges;
            if (k->p->ops[op].kind > TT_OP_RECV_REDUCE || !k->ops[op].n)
                continue;
            l->whole = l->whole && (!send || is_heap(l, r, op));
            read = read || (send && last && is_heap(l, r, op));
            written = written && (send || !last || is_written(l, r, op));
        }
    }
    l->again = read && !written;
}

bool lw_row_put(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    if (!k->box) {
        k->nbox = row_of(l, rank)->bytes / k->p->elem_bytes;
        k->box = ls_alloc(2 * k->nbox, sizeof *k->box);
        for (uint64_t i = 0; i < 2 * k->nbox; i++)
            k->box[i].tag = LW_NOTHING;
    }
    return each(l, rank, k->round, show);
}

/* True: the rank has more to show. */
bool lw_row_take(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    if (!each(l, rank, k->round, take))
        return false;
    k->finished = ++k->round == rounds_of(l) + l->again;
    l->counts.boxes += k->finished;
    l->counts.rows += k->finished;
    return !k->finished;
}

void lw_row_begin(struct lw *l)
{
    if (!l->rank[0].p->box || !row_of(l, 0))
        return;
    for (uint32_t r = 0; r < l->s->shape.ranks; r++) {
        struct lw_rank *k = &l->rank[r];
        k->round = 0;
        k->finished = false;
        k->heap = l->o.form == LW_MIXED ? tt_rng_below(&l->rng, 2) : l->o.form == LW_REFS;
    }
    agree(l);
}
