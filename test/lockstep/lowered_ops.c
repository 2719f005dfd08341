/* lowered_ops.c - what compiled operations do to cells, element by element: reads that look for races, sums, and the ways of a message.
 *
 *     BYTES      taken from the sender's cells when it is sent
 *     REFS       taken from the sender's cells when the receive (or the reduction that holds it) uses it
 *     WINDOWS    taken from a copy that all sends of the group share
 *     WRITTEN    put into the receiver's cells by the reduction at the sender */
#include "lowered_int.h"

static struct lw_message *message_of(const struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    return &l->rank[rank].messages[op * l->segments + segment];
}

bool lw_is_empty(const struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_op *o = &l->rank[rank].ops[op];
    if (l->s->shape.coll == TUTTI_BARRIER && l->rank[rank].p->ops[op].kind <= TT_OP_RECV_REDUCE)
        return false;
    for (uint64_t i = 0; i < o->n; i++)
        if (o->segment[i] == segment)
            return false;
    return true;
}

/* ---- cells ---- */

bool lw_judge(struct lw *l, uint32_t rank, uint32_t op, const struct lw_cell *c, uint32_t want)
{
    char what[100];
    if (c->tag != want) {
        snprintf(what, sizeof what, "finds what op %d wrote, not op %d", (int)c->tag, (int)want);
        return ls_fault(&l->result, LS_RACE, rank, op, what);
    }
    return want != LW_NOTHING || ls_fault(&l->result, LS_EMPTY, rank, op, "reads a place that holds nothing");
}

/* Reference w of element i. */
static bool read_own(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, uint32_t w, struct lw_cell *ret)
{
    const struct lw_op *o = &l->rank[rank].ops[op];
    *ret = l->rank[rank].cells[o->at[i * o->width + w]];
    return lw_judge(l, rank, op, ret, o->want[i * o->width + w]);
}

static bool read_message(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, struct lw_cell *ret)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct lw_op *o = &k->ops[op];
    if (i >= o->n)
        return ls_fault(&l->result, LS_UNMATCHED, rank, op, "is shorter than what is taken from it");
    uint8_t form = message_of(l, rank, op, o->segment[i])->form;
    if (form == LW_REFS)
        return read_own(l, rank, op, i, 0, ret);
    *ret = form == LW_BYTES ? k->data[op][i] : k->copy[k->p->ops[op].group][i];
    return lw_judge(l, rank, op, ret, o->want[i]);
}

bool lw_write(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, const struct lw_cell *value)
{
    const struct lw_op *o = &l->rank[rank].ops[op];
    struct lw_cell *c = &l->rank[rank].cells[o->at[i * o->width]];
    if (c->tag < LW_NOTHING && c->tag > op)
        return ls_fault(&l->result, LS_RACE, rank, op, "writes over what a later operation wrote");
    if (o->divide[i] && value->divided)
        return ls_fault(&l->result, LS_WRONG, rank, op, "divides a mean");
    *c = (struct lw_cell){.value = value->value, .tag = op, .divided = value->divided || o->divide[i]};
    return true;
}

static bool add_to(struct lw *l, uint32_t rank, uint32_t op, struct lw_cell *sum, const struct lw_cell *more)
{
    if (sum->divided || more->divided)
        return ls_fault(&l->result, LS_WRONG, rank, op, "adds to a mean");
    sum->value = l->sum(sum->value, more->value);
    return true;
}

/* ---- messages ---- */

static void copy_group(struct lw *l, uint32_t rank, uint32_t from_op, uint32_t group, uint32_t segment)
{
    struct lw_rank *k = &l->rank[rank];
    const struct lw_op *from = &k->ops[from_op];
    bool *copied = &k->copied[group * l->segments + segment];
    if (!k->copy[group])
        k->copy[group] = ls_alloc(k->ops[group].n, sizeof *k->copy[group]);
    if (*copied)
        l->counts.shared++;
    for (uint64_t i = 0; !*copied && i < from->n && i < k->ops[group].n; i++)
        if (from->segment[i] == segment)
            k->copy[group][i] = k->cells[from->at[i * from->width]];
    *copied = true;
}

bool lw_post(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    struct lw_rank *k = &l->rank[rank];
    const struct lw_op *o = &k->ops[op];
    struct lw_message *m = message_of(l, rank, op, segment);
    m->form = (uint8_t)(l->o.form == LW_MIXED ? tt_rng_below(&l->rng, LW_MIXED) : l->o.form);
    if (m->form == LW_WINDOWS && k->p->ops[op].group == TT_XNO)
        m->form = LW_BYTES; /* a copy for one peer */
    if (m->written)
        m->form = LW_WRITTEN;
    if (m->form == LW_WINDOWS)
        copy_group(l, rank, op, k->p->ops[op].group, segment);
    if (m->form == LW_BYTES && !k->data[op])
        k->data[op] = ls_alloc(o->n, sizeof *k->data[op]);
    for (uint64_t i = 0; m->form == LW_BYTES && i < o->n; i++)
        if (o->segment[i] == segment && !read_own(l, rank, op, i, 0, &k->data[op][i]))
            return false;
    return true;
}

bool lw_use(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_op *o = &l->rank[rank].ops[op];
    for (uint64_t i = 0; i < o->n; i++) {
        struct lw_cell got, sum;
        if (o->segment[i] != segment)
            continue;
        if (!read_message(l, o->peer, o->partner, i, &got))
            return false;
        sum = got;
        if (o->width == 2 && !(read_own(l, rank, op, i, 1, &sum) && add_to(l, rank, op, &sum, &got)))
            return false;
        if (!lw_write(l, rank, op, i, &sum))
            return false;
    }
    return true;
}

/* One place, as an address with a length can say it? */
bool lw_can_offer(const struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct lw_op *o = &k->ops[op];
    uint64_t last = UINT64_MAX;
    if (!(k->p->ops[op].offers >> k->mode & 1) || lw_is_empty(l, rank, op, segment))
        return false;
    for (uint64_t i = 0; i < o->n; i++) {
        if (o->segment[i] != segment)
            continue;
        if (last != UINT64_MAX && o->at[i * o->width] != last + 1)
            return false;
        last = o->at[i * o->width];
    }
    return true;
}

/* ---- local operations ---- */

/* Operand w (from 1) of element i of a reduction: held at its sender, in a box, or an own place. */
static bool read_operand(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, uint32_t w, struct lw_cell *ret)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct tt_xop *x = &k->p->ops[op];
    uint32_t recv = x->holds == TT_XNO ? TT_XNO : k->p->holds[x->holds + w - 1];
    const struct lw_op *r = recv == TT_XNO ? NULL : &k->ops[recv];
    if (r && k->p->box && k->p->box->row)
        return lw_row_read(l, rank, recv, i, ret);
    const struct lw_boxed *b = r && k->p->box ? &k->from[x->holds + w - 1] : NULL;
    if (b && b->at) {
        if (i >= b->n)
            return ls_fault(&l->result, LS_UNMATCHED, rank, op, "takes more than is in the box");
        *ret = b->at[i];
        return lw_judge(l, rank, op, ret, LW_INPUT);
    }
    if (!r || k->p->box || !message_of(l, r->peer, r->partner, k->ops[op].segment[i])->held)
        return read_own(l, rank, op, i, w, ret);
    l->counts.held++;
    return read_message(l, r->peer, r->partner, i, ret);
}

/* The result goes to the own place and to those that were offered for sends of it. */
static bool write_result(struct lw *l, uint32_t rank, uint32_t op, uint64_t i, const struct lw_cell *value)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct tt_xop *x = &k->p->ops[op];
    if (!lw_write(l, rank, op, i, value))
        return false;
    struct lw_cell result = k->cells[k->ops[op].at[i * x->width]];
    if (k->p->box && k->p->box->row)
        return lw_row_result(l, rank, op, i, &result);
    for (uint32_t n = 0; !k->p->box && n < x->nsucc[k->mode]; n++) {
        uint32_t send = k->p->succ[x->succ[k->mode] + n];
        const struct lw_op *s = &k->ops[send];
        struct lw_message *m = message_of(l, rank, send, k->ops[op].segment[i]);
        if (k->p->ops[send].kind != TT_OP_SEND || k->p->ops[send].offer == TT_XNO || !m->offered)
            continue;
        l->counts.written += !m->written;
        m->written = true;
        if (!lw_write(l, s->peer, s->partner, i, &result))
            return false;
    }
    return true;
}

bool lw_local(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_rank *k = &l->rank[rank];
    const struct tt_xop *x = &k->p->ops[op];
    const struct lw_op *o = &k->ops[op];
    for (uint64_t i = 0; i < o->n; i++) {
        struct lw_cell sum, more;
        bool itself = x->kind == TT_OP_COPY && !o->divide[i] && o->at[i * 2] == o->at[i * 2 + 1];
        if (o->segment[i] != segment || itself)
            continue;
        if (!read_operand(l, rank, op, i, 1, &sum))
            return false;
        for (uint32_t w = 2; w < o->width; w++)
            if (!read_operand(l, rank, op, i, w, &more) || !add_to(l, rank, op, &sum, &more))
                return false;
        if (!write_result(l, rank, op, i, &sum))
            return false;
    }
    bool windows = l->o.form == LW_WINDOWS || (l->o.form == LW_MIXED && tt_rng_below(&l->rng, 2));
    if (x->group != TT_XNO && windows && !k->p->box)
        copy_group(l, rank, op, x->group, segment);
    return true;
}

/* ---- boxes ---- */

bool lw_put(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    const struct tt_xbox *b = k->p->box;
    uint64_t mine = b->mine / k->p->elem_bytes, at = mine ? lw_cell_at(k, (uint64_t)b->base << 48) : 0;
    k->nbox = b->bytes / k->p->elem_bytes;
    k->box = ls_alloc(k->nbox, sizeof *k->box);
    for (uint64_t i = 0; i < k->nbox; i++) {
        uint64_t byte = i * k->p->elem_bytes;
        bool put = i < mine && (byte < b->unsent || byte >= b->resumed);
        k->box[i] = put ? k->cells[at + i] : (struct lw_cell){.tag = LW_NOTHING};
    }
    return true;
}

static bool take_boxed(struct lw *l, uint32_t rank, const struct tt_xboxed *t)
{
    const struct lw_rank *k = &l->rank[rank], *peer = &l->rank[t->rank];
    uint64_t n = t->bytes / k->p->elem_bytes, from = t->from / k->p->elem_bytes;
    if (from + n > peer->nbox)
        return ls_fault(&l->result, LS_UNMATCHED, rank, t->op, "takes more than is in the box");
    if (t->hold != TT_XNO) {
        k->from[t->hold] = (struct lw_boxed){.at = peer->box + from, .n = peer->nbox - from};
        return true;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct lw_cell *c = &k->cells[lw_cell_at(k, t->ref) + i];
        if (!lw_judge(l, rank, t->op, &peer->box[from + i], LW_INPUT))
            return false;
        *c = peer->box[from + i];
        c->tag = t->op;
    }
    return true;
}

bool lw_get(struct lw *l, uint32_t rank)
{
    const struct tt_program *p = l->rank[rank].p;
    for (uint32_t i = 0; i < p->box->n; i++)
        if (!take_boxed(l, rank, &p->box->taken[i]))
            return false;
    for (uint32_t op = 0; op < p->nops; op++)
        if (p->ops[op].kind > TT_OP_RECV_REDUCE && !lw_local(l, rank, op, 0))
            return false;
    l->counts.boxes++;
    return true;
}
