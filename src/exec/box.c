/* box.c - runs a program that is one exchange: in one step every rank of the host sends something
 * of its short input to every other. No messages are sent: each rank puts its input into its box
 * (direct.h) and takes what it needs from the boxes of all.
 *
 *     all-reduce       box r: all of rank r's vector         rank q: reduces the boxes in order
 *     reduce-scatter   box r: all but the block of rank r    rank q: reduces its blocks
 *     all-gather       box r: rank r's block                 rank q: copies from each box
 *     all-to-all       box r: rank r's row                   rank q: copies its column
 *
 * The pattern (sched/exchange.c) is looked for in the slices of all ranks, since all must take part
 * or none. What a message would have brought lies in its sender's box, at the offset of its chunks
 * in the sender's input, which every rank can compute.
 *
 * A context's box programs form a queue in the order of their requests. Only the first one is in
 * the boxes: the next one puts when the one before has taken, which is what direct_box.c requires.
 *
 * Invariant: e->boxing lists exactly the contexts whose queue is not empty (after
 * tt_exec_box_progress). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_int.h"

/* ---- where chunks lie in a sender's input ---- */

/* Does the sender's input hold this chunk? */
static bool is_in_part(const struct tt_xcompile *x, uint32_t sender, uint32_t chunk)
{
    const struct tt_shape *s = x->shape;
    return s->coll == TUTTI_ALL_TO_ALL
               ? chunk / s->ranks == sender
               : !x->layout.part_in || tt_sched_shape_owner(s, chunk) == sender;
}

/* Elements of the sender's input before the chunk; with chunk == chunks, all of them. */
static uint64_t elems_before(const struct tt_xcompile *x, uint32_t sender, uint32_t chunk)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; c < chunk; c++)
        if (is_in_part(x, sender, c))
            sum += tt_xlayout_elems(&x->layout, c);
    return sum;
}

/* ---- making ---- */

/* The entry of `holds` through which a reduction takes the receive in the box. TT_XNO: it must be
 * copied, because there is no such reduction or its fragments differ. */
static uint32_t hold_of(const struct tt_xcompile *x, uint32_t op)
{
    const struct tt_program *p = x->p;
    uint32_t reduce = p->ops[op].held_by;
    for (uint32_t w = 0; reduce != TT_XNO && w + 1 < p->ops[reduce].width; w++)
        if (p->holds[p->ops[reduce].holds + w] == op)
            return p->ops[op].nfrags == 1 && p->ops[reduce].nfrags == 1 ? p->ops[reduce].holds + w
                                                                        : TT_XNO;
    return TT_XNO;
}

/* Appends a fragment of one operation (entries from `first` on). Chunks that touch in the box and
 * at their destination become one entry. */
static bool add_taken(struct tt_vec *all, size_t first, const struct tt_xboxed *t)
{
    struct tt_xboxed *last = all->len > first ? (struct tt_xboxed *)all->data + all->len - 1 : NULL;
    if (!last || last->from + last->bytes != t->from || last->ref + last->bytes != t->ref)
        return tt_vec_push(all, t, 1) != NULL;
    last->bytes += t->bytes;
    return true;
}

/* Lists what receive i takes from its sender's box. Invariant: `word` is the fragment that holds
 * the next chunk, and `done` elements of it have been listed. */
static bool list_taken(struct tt_xcompile *x, uint32_t i, struct tt_vec *ret)
{
    const struct tt_op *op = &x->slice.ops[i];
    const uint64_t *word = x->p->code + x->p->ops[i].code;
    size_t first = ret->len;
    uint64_t done = 0; /* of the fragment */
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *s = &x->slice.spans[op->span + k];
        for (uint32_t c = 0; c < s->reps * s->len; c++) {
            uint32_t chunk = s->first + c / s->len * s->stride + c % s->len;
            uint64_t elems = tt_xlayout_elems(&x->layout, chunk);
            struct tt_xboxed t = {.rank = op->peer,
                                  .op = i,
                                  .hold = TT_XNO,
                                  .from = elems_before(x, op->peer, chunk) * x->p->elem_bytes,
                                  .bytes = elems * x->p->elem_bytes};
            if (!elems)
                continue;
            t.ref = word[1] + done * x->p->elem_bytes;
            done += elems;
            assert(done <= (word[0] & ~TT_XDIVIDE));
            if (done == (word[0] & ~TT_XDIVIDE)) {
                done = 0;
                word += 2;
            }
            if (!add_taken(ret, first, &t))
                return false;
        }
    }
    if (ret->len == first + 1)
        ((struct tt_xboxed *)ret->data)[first].hold = hold_of(x, i);
    return true;
}

/* Finds the part of the input that no other rank takes (the own block of a reduce-scatter): it need
 * not be put. None if there are several such parts. */
static bool find_unsent(const struct tt_xcompile *x, struct tt_xbox *b)
{
    uint32_t me = x->config->rank, chunks = x->shape->chunks, n = 0, end = 0;
    uint8_t *sent = tt_zalloc(chunks, 1);
    if (!sent)
        return false;
    for (size_t i = 0; i < x->slice.nops; i++)
        for (uint32_t k = 0; x->slice.ops[i].kind == TT_OP_SEND && k < x->slice.ops[i].nspans;
             k++) {
            const struct tt_span *s = &x->slice.spans[x->slice.ops[i].span + k];
            for (uint32_t c = 0; c < s->reps * s->len; c++)
                sent[s->first + c / s->len * s->stride + c % s->len] = 1;
        }
    for (uint32_t c = 0; c < chunks; c++)
        if (is_in_part(x, me, c) && !sent[c]) {
            n++;
            end = c + 1;
        }
    bool one = n > 0;
    for (uint32_t c = end - n; one && c < end; c++)
        one = is_in_part(x, me, c) && !sent[c];
    if (one) {
        b->unsent = (size_t)(elems_before(x, me, end - n) * x->p->elem_bytes);
        b->resumed = (size_t)(elems_before(x, me, end) * x->p->elem_bytes);
    }
    free(sent);
    return true;
}

/* ---- answers that are the same on all ranks ---- */

/* Is every rank's own part one run? A box holds the part as it lies in the input. Exact blocks
 * always are one run. */
static bool parts_touch(const struct tt_xcompile *x)
{
    const struct tt_shape *s = x->shape;
    uint8_t *seen = x->layout.part_in && !x->config->block_counts ? tt_zalloc(s->ranks, 1) : NULL;
    bool touch = true;
    for (uint32_t c = 0; seen && touch && c < s->chunks; c++) {
        uint32_t r = tt_sched_shape_owner(s, c);
        touch = !seen[r] || tt_sched_shape_owner(s, c - 1) == r;
        seen[r] = 1;
    }
    touch = touch && (seen || !x->layout.part_in || x->config->block_counts);
    free(seen);
    return touch;
}

/* Would some rank have to divide what it receives (AVG)? Boxes only copy. The answer must be the
 * same on all ranks, so all slices are looked at. */
static bool divides_received(const struct tt_xcompile *x)
{
    const struct tt_sched *s = x->config->sched;
    if (x->p->divisor == 1 ||
        (s->shape.coll != TUTTI_REDUCE_SCATTER && s->shape.coll != TUTTI_REDUCE))
        return false;
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice slice = tt_sched_slice(s, r);
        for (size_t i = 0; i < slice.nops; i++)
            if (slice.ops[i].kind == TT_OP_RECV && slice.spans[slice.ops[i].span].buf == TT_BUF_OUT)
                return true;
    }
    return false;
}

/* All boxes are as long as the longest input: all ranks must put the same size. */
static size_t box_bytes(const struct tt_xcompile *x)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < x->shape->ranks; r++) {
        uint64_t elems = elems_before(x, r, x->shape->chunks);
        most = elems > most ? elems : most;
    }
    return (size_t)(most * x->p->elem_bytes);
}

/* Every condition here gives the same answer on all ranks: a rank that chose boxes alone would wait
 * for ever. What is not one exchange may still be a row of them. */
tutti_status tt_exec_box_make(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    const struct tt_sched *all = x->config->sched;
    size_t most = x->config->exchange_bytes && x->config->exchange_bytes < x->config->box_bytes
                      ? x->config->exchange_bytes
                      : x->config->box_bytes;
    if (!x->config->box_bytes || !x->config->places || all->nslices != all->shape.ranks)
        return TUTTI_OK;
    if (p->segments > 1 || !tt_sched_is_exchange(all) || !parts_touch(x) || divides_received(x) ||
        box_bytes(x) > most)
        return tt_exec_row_make(x);
    struct tt_vec taken = {.elem = sizeof(struct tt_xboxed)};
    bool ok = true;
    for (uint32_t i = 0; i < p->nops && ok; i++) {
        if (p->ops[i].kind != TT_OP_RECV)
            continue;
        assert(!p->ops[i].divides);
        ok = list_taken(x, i, &taken);
    }
    p->box = tt_zalloc(1, sizeof *p->box);
    p->box_from = tt_zalloc(p->nholds, sizeof *p->box_from);
    if (!ok || !p->box || !p->box_from) {
        tt_vec_free(&taken);
        return tt_fail_memory(x->err, "box");
    }
    *p->box = (struct tt_xbox){
        .bytes = box_bytes(x),
        .mine = (size_t)(elems_before(x, x->config->rank, x->shape->chunks) * p->elem_bytes),
        .base = x->layout.part_in ? TT_XBASE_RUNS : TT_XBASE_IN,
        .n = (uint32_t)taken.len,
        .taken = taken.data};
    assert(p->box->mine <= p->box->bytes && p->box->bytes <= most);
    for (const struct tt_xboxed *t = p->box->taken; t < p->box->taken + p->box->n; t++)
        assert(t->from + t->bytes <= p->box->bytes && (t->hold == TT_XNO || t->hold < p->nholds));
    while (p->box->locals < p->nops && p->ops[p->box->locals].kind <= TT_OP_RECV_REDUCE)
        p->box->locals++;
    return find_unsent(x, p->box) ? TUTTI_OK : tt_fail_memory(x->err, "box");
}

void tt_exec_box_free(struct tt_xbox *b)
{
    if (b) {
        tt_exec_row_free(b->row);
        free(b->taken);
    }
    free(b);
}

/* ---- running ---- */

/* Publishes this rank's input. What a shorter input leaves of the common size, nobody takes. */
TT_HOT static void box_put(struct tt_engine *e, struct tt_program *p)
{
    const struct tt_xbox *b = p->box;
    if (b->row) {
        tt_exec_row_put(e, p);
        return;
    }
    char *to = tt_direct_boxes_next(p->context->boxes, b->bytes);
    const char *from = p->base[b->base];
    if (b->unsent)
        memcpy(to, from, b->unsent);
    if (b->resumed < b->mine)
        memcpy(to + b->resumed, from + b->resumed, b->mine - b->resumed);
    tt_direct_boxes_put(p->context->boxes, to, b->bytes, p->fingerprint);
}

/* Appends the program to its context's queue; the first one puts at once. */
TT_HOT void tt_exec_box_start(struct tt_engine *e, struct tt_program *p)
{
    struct tt_context *x = p->context;
    assert(p->box && x->boxes && p->state == TT_XRUNNING);
    p->box_next = NULL;
    if (p->box->row)
        p->box->row->round = p->box->row->segment = 0; /* the last run may have failed */
    if (!x->box_first) {
        x->box_last = &x->box_first;
        x->boxing = e->boxing;
        e->boxing = x;
    }
    *x->box_last = p;
    x->box_last = &p->box_next;
    if (x->box_first == p)
        box_put(e, p);
}

/* Copies what is copied, then runs the local operations in order; held operands are read in the
 * boxes. All receives are in one step, so the order among them does not matter. */
TT_HOT static void box_use(struct tt_program *p, const void *const *all)
{
    const struct tt_xbox *b = p->box;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct tt_xboxed *t = &b->taken[i];
        const char *from = (const char *)all[t->rank] + t->from;
        if (t->hold != TT_XNO) {
            p->box_from[t->hold] = from;
            __builtin_prefetch(from); /* it is in the sender's cache: fetch from all at once */
        } else {
            memcpy(p->base[t->ref >> 48] + (t->ref & TT_XREF_OFFSET), from, t->bytes);
        }
    }
    for (uint32_t i = b->locals; i < p->nops; i++)
        if (p->ops[i].kind > TT_OP_RECV_REDUCE)
            tt_exec_local(p, i, 0);
    p->carried.box = p->nlinks;
}

/* The program is done, and the next one of the queue may put. */
static void box_finish(struct tt_engine *e, struct tt_program *p)
{
    struct tt_context *x = p->context;
    assert(x->box_first == p);
    x->box_first = p->box_next;
    p->state = TT_XDONE;
    tt_exec_leave(e, p);
    if (x->box_first)
        box_put(e, x->box_first);
}

/* All ranks have put: does the work. A row may need more rounds (row.c). */
TT_HOT static void box_take(struct tt_engine *e, struct tt_program *p, const void *const *all)
{
    bool done = true;
    p->context->moved++;
    if (p->box->row)
        done = tt_exec_row_take(e, p, all);
    else
        box_use(p, all);
    if (done && !e->failed)
        box_finish(e, p);
}

/* Called from the transport's wait (ops->watch), in the same thread: would box_progress find
 * something? */
bool tt_exec_box_ready(void *engine)
{
    const struct tt_engine *e = engine;
    const struct tt_context *x = e->boxing;
    while (x && !tt_direct_boxes_ready(x->boxes))
        x = x->boxing;
    return x != NULL;
}

/* Takes what is complete in one context; true: something was finished, or failed. A rank that is
 * missing is remembered (tt_exec_program_waiting names it) and looked up among the ended ranks. */
TT_HOT static bool take_boxes(struct tt_context *x)
{
    struct tt_engine *e = x->engine;
    const void *const *all;
    struct tt_boxes_blame blame = {0};
    bool any = false;
    while (x->box_first && !e->failed) {
        tutti_status st = tt_direct_boxes_get(x->boxes, &all, &blame);
        if (st == TUTTI_IN_PROGRESS) {
            uint32_t missing = tt_context_world(x, x->box_missing = blame.peer);
            if (e->gone[missing])
                tt_exec_lost(e, missing);
            break;
        }
        any = true;
        struct tt_xpeer *pe = st == TUTTI_ERR_DIFFERS ? tt_exec_context_peer(x, blame.peer) : NULL;
        if (pe)
            tt_exec_mismatch(e, pe, x->box_first, blame.theirs);
        else if (st)
            tt_exec_lost(e, UINT32_MAX);
        else {
            if (e->idle_since)
                tt_exec_stats_boxed(x);
            struct tt_program *p = x->box_first;
            box_take(e, p, all);
            if (x->box_first == p) /* a row goes on: let the caller look at other things first */
                break;
        }
    }
    return any;
}

/* Serves every context of the list once and drops those whose queue has become empty. */
TT_HOT bool tt_exec_box_progress(struct tt_engine *e)
{
    bool any = false;
    for (struct tt_context **at = &e->boxing, *x = *at; x; x = *at) {
        assert(x->box_first);
        any = take_boxes(x) || any;
        if (e->failed)
            return true;
        if (x->box_first)
            at = &x->boxing;
        else
            *at = x->boxing;
    }
    return any;
}
