/* row.c - runs a program that is a row of exchanges: in every step with messages each rank of the
 * host sends to every other. No messages are sent: a rank shows in its box (direct.h) what it would
 * have sent, and all ranks meet once where each pair would have exchanged a message.
 *
 * All-reduce by owners in 3 segments; exchange A brings the operands, B the results. A round is one
 * meeting; segments follow each other through the exchanges:
 *
 *     round    0     1        2        3
 *     shown    A0    B0 A1    B1 A2    B2      put into the box; then all meet
 *     taken    A0    B0 A1    B1 A2    B2      operands are reduced where they lie, results copied
 *
 * A reduction puts its result into the box of the next round itself. It may, since all ranks have
 * left that box: a rank that is in this round has taken the one before (direct_box.c has two).
 *
 * What lies in a heap that all ranks map is not copied: the first box says where the messages are,
 * and where results of later exchanges may be written. A rank changes such a place only after the
 * next meeting; sends for which that does not hold are copied (`copies`). If no message goes
 * through a box, an exchange needs no meeting but the one at its end; there are more (every
 * ROUND_BYTES), since meetings are what shows peers that a rank is alive. A rank whose heap is read
 * in the last exchange waits for one more meeting.
 *
 *     first box    flags
 *                  by exchange and rank: where the message to it is,
 *                                        where the message from it may be written
 *                  places of the sends
 *
 * Invariant: what a rank decides for itself (copies, places) it says in its first box; what all
 * must decide alike (rounds, the last meeting) follows from the flags of all. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_int.h"

enum { LINE = 64 };
/* Bytes of a chunk between two meetings when nothing goes through boxes: a rank whose reductions
 * are slow must be seen to move, and a meeting costs little beside so many bytes. */
enum { ROUND_BYTES = 1 << 20 };
/* Flags of a rank. WRITES: its reductions write every result that it sends. OFFERS: every receive
 * after the first exchange offers its place. HEAPS: all that it sends lies in its heap. LAST: its
 * heap is read in the last exchange. */
enum { WRITES = 1, OFFERS = 2, HEAPS = 4, LAST = 8 };

/* Addresses of processes lie below this bit: it says that a place is in a box. (An odd number would
 * not do: elements of one byte may lie at odd addresses.) */
#define IN_BOX (UINT64_C(1) << 63)

/* What a rank tells one other rank about one exchange. */
struct word {
    uint64_t from; /* an address in its heap, or IN_BOX | where in its box */
    uint64_t to;   /* an address in its heap that may be written; 0: none */
};
/* The beginning of the first box. */
struct head {
    uint64_t flags;
    struct word word[]; /* [exchange][rank] */
};

/* ---- making ---- */

/* Room for the longest segment of a chunk. Cutting rounds to cache lines, so a segment may be a
 * little longer than the first. */
static uint64_t slot_bytes(const struct tt_program *p, uint64_t elems)
{
    uint64_t most = elems;
    if (p->segments > 1)
        most = tt_xpart(p, elems, 1) + 2 * ((uint64_t)LINE >> p->elem_shift);
    return (most < elems ? most : elems) << p->elem_shift;
}

/* All sends get slots of one size, in whole lines, so that the boxes of all ranks have the same
 * length. */
static uint64_t longest_slot(const struct tt_xcompile *x)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < x->shape->chunks; c++) {
        uint64_t bytes = slot_bytes(x->p, tt_xlayout_elems(&x->layout, c));
        most = bytes > most ? bytes : most;
    }
    return (most + LINE - 1) / LINE * LINE;
}

/* Do two messages of one span each name the same place? */
static bool same_place(const struct tt_xcompile *x, uint32_t a, uint32_t b)
{
    const struct tt_span *s = &x->slice.spans[x->slice.ops[a].span],
                         *t = &x->slice.spans[x->slice.ops[b].span];
    return s->buf == t->buf && s->first == t->first;
}

/* Finds which exchange each operation belongs to (local ones follow the messages of their step),
 * and where the sends lie in the box. Neighbouring sends of one place share a slot. Invariant: `at`
 * is the first free byte of the box. */
static void divide_operations(const struct tt_xcompile *x, struct tt_xrow *r, uint64_t each)
{
    const struct tt_program *p = x->p;
    uint32_t last = TT_XNO; /* send of this exchange */
    uint64_t at = r->head;
    for (uint32_t i = 0; i < p->nops; i++) {
        bool message = p->ops[i].kind <= TT_OP_RECV_REDUCE;
        if (message && (r->nexchanges == 0 ||
                        x->slice.ops[i].step != x->slice.ops[r->first[r->nexchanges - 1]].step)) {
            r->first[r->nexchanges++] = i;
            last = TT_XNO;
        }
        struct tt_xrowop *o = &r->ops[i];
        assert(r->nexchanges > 0 && r->nexchanges <= x->config->sched->nsteps);
        *o = (struct tt_xrowop){.exchange = r->nexchanges - 1, .filled = TT_XNO, .hold = TT_XNO};
        if (p->ops[i].kind != TT_OP_SEND)
            continue;
        o->at = last != TT_XNO && same_place(x, i, last) ? r->ops[last].at : at;
        at = o->at == at ? at + each : at;
        last = i;
    }
    assert(at <= r->bytes);
    r->first[r->nexchanges] = p->nops;
}

/* Is a send's place written before the next meeting, by an operation of the same exchange? Then
 * peers must not read it there. */
static void find_copies(const struct tt_program *p, struct tt_xrow *r)
{
    for (uint32_t i = 0; i < p->nops; i++)
        for (uint32_t m = 0; p->ops[i].kind == TT_OP_SEND && m < (p->inplace ? 2u : 1u); m++)
            for (uint32_t k = 0; k < p->ops[i].nsucc[m]; k++)
                if (r->ops[p->succ[p->ops[i].succ[m] + k]].exchange <= r->ops[i].exchange)
                    r->ops[i].copies[m] = true;
}

/* Finds reductions whose results are shown in the next exchange, and whether every result that is
 * sent there may be written by its reduction (`writes`). */
static void find_filled(const struct tt_program *p, struct tt_xrow *r)
{
    r->writes = r->nexchanges > 1;
    for (uint32_t i = 0; i < p->nops; i++) {
        const struct tt_xop *o = &p->ops[i];
        uint32_t send = o->kind == TT_OP_REDUCE ? o->group : TT_XNO;
        if (o->kind == TT_OP_SEND && r->ops[i].exchange)
            r->writes = r->writes && o->offer != TT_XNO;
        if (send == TT_XNO || o->nfrags != 1 || r->ops[send].exchange != r->ops[i].exchange + 1)
            continue;
        r->ops[i].filled = send;
        for (uint32_t k = send; k < r->first[r->ops[send].exchange + 1]; k++)
            if (p->ops[k].kind == TT_OP_SEND && r->ops[k].at == r->ops[send].at)
                r->ops[k].filled = i;
    }
    /* A send that no reduction of the exchange before fills cannot be written by one. */
    for (uint32_t i = 0; i < p->nops; i++)
        if (p->ops[i].kind == TT_OP_SEND && r->ops[i].exchange && r->ops[i].filled == TT_XNO)
            r->writes = false;
}

/* A receive is taken where it lies only by a reduction of the same exchange, with one fragment
 * each. Otherwise the mark is removed: the bytes are copied to their place, where the reduction
 * finds them. */
static void settle_holds(struct tt_program *p, struct tt_xrow *r)
{
    for (uint32_t i = 0; i < p->nops; i++)
        for (uint32_t w = 0; p->ops[i].holds != TT_XNO && w + 1 < p->ops[i].width; w++) {
            uint32_t *recv = &p->holds[p->ops[i].holds + w];
            if (*recv == TT_XNO)
                continue;
            r->ops[*recv].hold = p->ops[i].holds + w;
            if (r->ops[*recv].exchange != r->ops[i].exchange || p->ops[*recv].nfrags != 1 ||
                p->ops[i].nfrags != 1) {
                r->ops[*recv].hold = p->ops[*recv].held_by = TT_XNO;
                *recv = TT_XNO;
            }
        }
}

/* No row, or boxes too small for it: p->box stays NULL and the program runs with messages. The
 * answer is the same on all ranks. */
tutti_status tt_exec_row_make(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    uint32_t places = tt_sched_row(x->config->sched), n = x->shape->ranks,
             steps = x->config->sched->nsteps;
    uint64_t each = longest_slot(x),
             head = sizeof(struct head) + (uint64_t)steps * n * sizeof(struct word);
    head = (head + LINE - 1) / LINE * LINE;
    if (!places || each > x->config->box_bytes || head > x->config->box_bytes ||
        places * each > x->config->box_bytes - head)
        return TUTTI_OK;
    struct tt_xrow *r = tt_zalloc(1, sizeof *r);
    p->box = tt_zalloc(1, sizeof *p->box);
    p->box_from = tt_zalloc(p->nholds, sizeof *p->box_from);
    if (r) {
        r->first = tt_zalloc(steps + 1, sizeof *r->first);
        r->ops = tt_zalloc(p->nops, sizeof *r->ops);
    }
    if (!r || !r->first || !r->ops || !p->box || !p->box_from) {
        tt_exec_row_free(r);
        return tt_fail_memory(x->err, "row");
    }
    p->box->row = r;
    r->nranks = n;
    r->head = (size_t)head;
    r->bytes = (size_t)(head + places * each);
    r->per_round = each < ROUND_BYTES ? (uint32_t)(ROUND_BYTES / (each ? each : 1)) : 1;
    r->per_round = r->per_round < p->segments ? r->per_round : p->segments;
    r->gathers =
        places + 1 < n && x->config->count * p->elem_bytes > (uint64_t)x->config->box_bytes;
    divide_operations(x, r, each);
    find_copies(p, r);
    find_filled(p, r);
    settle_holds(p, r);
    return TUTTI_OK;
}

void tt_exec_row_free(struct tt_xrow *r)
{
    if (r) {
        free(r->first);
        free(r->ops);
    }
    free(r);
}

/* ---- what ranks tell each other ---- */

static uint32_t peer_of(const struct tt_program *p, uint32_t i)
{
    return p->links[p->ops[i].link].peer;
}

/* The operation's part of a segment; false: it is empty. Messages of a row have one chunk, hence
 * one fragment, which needs no walk; of other operations only the first fragment is found. */
TT_HOT static bool part_of(const struct tt_program *p, uint32_t i, uint32_t segment,
                           struct tt_xfrag *ret)
{
    const struct tt_xop *op = &p->ops[i];
    const uint64_t *word = p->code + op->code;
    assert(segment < p->segments);
    if (p->segments == 1 && op->nfrags == 1) {
        *ret = tt_xfrag_whole(word);
        return ret->elems > 0;
    }
    struct tt_xwalk w = {.p = p, .word = word, .width = op->width, .segment = segment};
    w.want = tt_exec_op_bytes(p, op, segment) >> p->elem_shift;
    return tt_xwalk_next(&w, ret);
}

/* The operation's whole place; NULL: it is empty, or not in this rank's heap. */
TT_HOT static char *heap_place(const struct tt_engine *e, const struct tt_program *p, uint32_t i)
{
    const uint64_t *word = p->code + p->ops[i].code;
    if (!p->ops[i].elems)
        return NULL;
    char *at = p->base[word[1] >> 48] + (word[1] & TT_XREF_OFFSET);
    return tt_direct_owns(e->direct, at, (size_t)(p->ops[i].elems << p->elem_shift)) ? at : NULL;
}

/* Fills the head of the first box. A flag of all operations is cleared by the first one it does not
 * hold for; empty messages do not count. */
TT_HOT static void row_say(const struct tt_engine *e, struct tt_program *p, struct head *h)
{
    struct tt_xrow *r = p->box->row;
    h->flags = OFFERS | HEAPS | (r->writes ? WRITES : 0);
    for (uint32_t i = 0; i < p->nops; i++) {
        const struct tt_xop *op = &p->ops[i];
        struct tt_xrowop *o = &r->ops[i];
        if (op->kind > TT_OP_RECV)
            continue;
        struct word *w = &h->word[o->exchange * r->nranks + peer_of(p, i)];
        bool last = o->exchange + 1 == r->nexchanges;
        char *at = heap_place(e, p, i);
        if (op->kind == TT_OP_SEND) {
            o->heap = at && !o->copies[p->mode];
            w->from = o->heap ? (uintptr_t)at : IN_BOX | o->at;
            h->flags &= o->heap || !op->elems ? ~UINT64_C(0) : ~(uint64_t)HEAPS;
            h->flags |= o->heap && last ? LAST : 0;
        } else {
            w->to = at && o->exchange && op->offers >> p->mode & 1 ? (uintptr_t)at : 0;
            h->flags &= w->to || !o->exchange || !op->elems ? ~UINT64_C(0) : ~(uint64_t)OFFERS;
        }
    }
}

/* Uses what a peer says about the message of operation i. False: it is not valid. Both ends come to
 * the same answer whether a message is written: the writer from the offer, the reader from the
 * writer's flag and its own offer. */
TT_HOT static bool row_hear(const struct tt_engine *e, struct tt_program *p, uint32_t i,
                            const struct head *mine, const struct head *theirs)
{
    const struct tt_xrow *r = p->box->row;
    const struct tt_xop *op = &p->ops[i];
    struct tt_xrowop *o = &p->box->row->ops[i];
    const struct tt_xlink *l = &p->links[op->link];
    const struct word *w = &theirs->word[o->exchange * r->nranks + p->context->rank];
    size_t bytes = (size_t)(op->elems << p->elem_shift);
    o->peer = NULL;
    if (op->kind == TT_OP_SEND) {
        o->written = o->exchange && r->writes && w->to;
        o->peer = o->written ? tt_direct_resolve(e->direct, l->place, w->to, bytes) : NULL;
        return o->peer || !o->written;
    }
    o->written =
        o->exchange && theirs->flags & WRITES && mine->word[o->exchange * r->nranks + l->peer].to;
    if (!(w->from & IN_BOX) && bytes && !o->written) {
        o->peer = tt_direct_resolve(e->direct, l->place, w->from, bytes);
        return o->peer;
    }
    o->at = w->from & ~IN_BOX;
    return o->written || o->at <= tt_direct_boxes_max(e->direct) - slot_bytes(p, op->elems);
}

/* In the first round: what all decide alike, then each message. No last meeting is needed if every
 * result is written: then no heap is read in the last exchange. Ranks that share cores also meet
 * after a large gathering from boxes: otherwise each would show its next input between the takes of
 * the others, and push out of their cache what all are about to take. */
TT_HOT static bool hear_all(const struct tt_engine *e, struct tt_program *p, const void *const *all,
                            uint32_t *ret_peer)
{
    struct tt_xrow *r = p->box->row;
    const struct head *mine = all[p->context->rank];
    uint64_t every = ~UINT64_C(0), any = 0;
    for (uint32_t q = 0; q < r->nranks; q++) {
        uint64_t flags = ((const struct head *)all[q])->flags;
        every &= flags;
        any |= flags;
    }
    r->whole = every & HEAPS;
    r->last = any & LAST ? !(every & OFFERS && every & WRITES)
                         : r->gathers && tt_direct_crowded(e->direct);
    for (uint32_t i = 0; i < p->nops; i++)
        if (p->ops[i].kind <= TT_OP_RECV && !row_hear(e, p, i, mine, all[peer_of(p, i)])) {
            *ret_peer = peer_of(p, i);
            return false;
        }
    return true;
}

/* ---- running ---- */

/* Of an exchange when nothing goes through boxes. */
static uint32_t rounds_each(const struct tt_program *p)
{
    return (p->segments + p->box->row->per_round - 1) / p->box->row->per_round;
}

static uint32_t rounds_of(const struct tt_program *p)
{
    const struct tt_xrow *r = p->box->row;
    return r->whole ? r->nexchanges * rounds_each(p) : r->nexchanges + p->segments - 1;
}

/* The first segment of the present round, and how many it has, when nothing goes through boxes. */
static uint32_t first_segment(const struct tt_program *p, uint32_t *ret_n)
{
    const struct tt_xrow *r = p->box->row;
    uint32_t first = r->round % rounds_each(p) * r->per_round;
    assert(first < p->segments);
    *ret_n = p->segments - first < r->per_round ? p->segments - first : r->per_round;
    return first;
}

/* The segment of an exchange that is in a round (they follow each other diagonally); TT_XNO:
 * none. */
static uint32_t segment_in(const struct tt_program *p, uint32_t exchange, uint32_t round)
{
    return exchange <= round && round - exchange < p->segments ? round - exchange : TT_XNO;
}

/* Copies into the box what no heap shows and no reduction has put there. `done`: sends that share a
 * slot are copied once. */
TT_HOT static void show(struct tt_program *p, uint32_t exchange, uint32_t segment, char *box)
{
    const struct tt_xrow *r = p->box->row;
    uint64_t done = 0;
    struct tt_xfrag f;
    for (uint32_t i = r->first[exchange];
         i < r->first[exchange + 1] && p->ops[i].kind == TT_OP_SEND; i++) {
        const struct tt_xrowop *o = &r->ops[i];
        if (o->heap || o->filled != TT_XNO || o->at == done || !part_of(p, i, segment, &f))
            continue;
        assert(o->at >= r->head && o->at + (f.elems << p->elem_shift) <= r->bytes);
        memcpy(box + o->at, tt_xat(p, &f, 0), (size_t)f.elems << p->elem_shift);
        done = o->at;
    }
}

/* Fills this rank's box for the round and publishes it. The put is the release: what was written
 * before is visible to every rank that gets the box. A meeting without payload takes no room. */
TT_HOT void tt_exec_row_put(struct tt_engine *e, struct tt_program *p)
{
    struct tt_xrow *r = p->box->row;
    assert(r->segment == 0);
    size_t bytes = r->round && r->whole ? 0 : r->bytes;
    char *box = tt_direct_boxes_next(p->context->boxes, bytes);
    if (r->round == 0) {
        r->whole = r->last = false; /* not known yet */
        row_say(e, p, (struct head *)(void *)box);
    }
    for (uint32_t x = 0; x < r->nexchanges && !r->whole; x++)
        if (segment_in(p, x, r->round) != TT_XNO)
            show(p, x, segment_in(p, x, r->round), box);
    tt_direct_boxes_put(p->context->boxes, box, bytes, p->fingerprint);
}

/* Adds the destinations of a reduction's result besides its own place: the places that peers
 * offered, which need a lease, and the next box for the others. Returns how many there are
 * in all. */
TT_HOT static uint32_t add_places(struct tt_program *p, uint32_t i, uint64_t at, bool *ret_leased)
{
    const struct tt_xrow *r = p->box->row;
    uint32_t send = r->ops[i].filled, n = 1;
    assert(send != TT_XNO && p->ops[send].kind == TT_OP_SEND);
    bool shown = false;
    for (uint32_t k = send; k < r->first[r->ops[send].exchange + 1] && p->ops[k].kind == TT_OP_SEND;
         k++) {
        const struct tt_xrowop *o = &r->ops[k];
        if (o->filled != i)
            continue;
        if (o->written)
            p->to[n++] = o->peer + at;
        shown = shown || !(o->written || o->heap);
    }
    assert(n <= p->nlinks + 1); /* `to` has room for the box, too */
    *ret_leased = n > 1;
    if (shown)
        p->to[n++] =
            (char *)tt_direct_boxes_next(p->context->boxes, p->box->row->bytes) + r->ops[send].at;
    return n;
}

/* Reduces one fragment to all its destinations. False: a peer has aborted. */
TT_HOT static bool reduce(struct tt_engine *e, struct tt_program *p, uint32_t i,
                          const struct tt_xfrag *f)
{
    const struct tt_xop *op = &p->ops[i];
    bool leased;
    for (uint32_t w = 1; w < op->width; w++) {
        const void *held = op->holds == TT_XNO ? NULL : p->box_from[op->holds + w - 1];
        p->operands[w - 1] = held ? held : tt_xat(p, f, w);
    }
    p->to[0] = tt_xat(p, f, 0);
    const struct tt_reduce r = {.dtype = p->dtype,
                                .redop = p->redop,
                                .user = p->user.fn ? &p->user : NULL,
                                .nsrc = op->width - 1,
                                .ndst = add_places(p, i, f->from, &leased),
                                .src = p->operands,
                                .dst = p->to,
                                .count = (size_t)f->elems,
                                .divisor = f->divide ? p->divisor : 1};
    if (leased && !tt_direct_lease(e->direct))
        return false;
    tt_kernel_reduce_run(&r);
    if (leased)
        tt_direct_release(e->direct);
    return true;
}

/* A held operand is only pointed to; the reduction that follows in the same round reads it. */
static void row_receive(struct tt_program *p, uint32_t i, uint32_t segment, const char *from)
{
    const struct tt_xop *op = &p->ops[i];
    uint32_t hold = p->box->row->ops[i].hold;
    if (hold != TT_XNO) {
        p->box_from[hold] = from;
        return;
    }
    struct tt_xwalk w = {
        .p = p, .word = p->code + op->code, .width = op->width, .segment = segment};
    w.want = tt_exec_op_bytes(p, op, segment) >> p->elem_shift;
    tt_exec_consume(p, op, &w, from);
}

/* Does one segment of an exchange. False: a peer has aborted: checked after reading from heaps,
 * whose owners may have changed them then. */
TT_HOT static bool row_take(struct tt_engine *e, struct tt_program *p, uint32_t exchange,
                            uint32_t segment, const void *const *all)
{
    const struct tt_xrow *r = p->box->row;
    assert(exchange < r->nexchanges && segment < p->segments);
    bool reads = false;
    struct tt_xfrag f;
    for (uint32_t i = r->first[exchange]; i < r->first[exchange + 1]; i++) {
        const struct tt_xrowop *o = &r->ops[i];
        uint8_t kind = p->ops[i].kind;
        if (kind == TT_OP_SEND || (kind == TT_OP_RECV && o->written) || !part_of(p, i, segment, &f))
            continue;
        if (kind == TT_OP_RECV) {
            reads = reads || o->peer;
            row_receive(p, i, segment,
                        o->peer ? o->peer + f.from : (const char *)all[peer_of(p, i)] + o->at);
        } else if (o->filled == TT_XNO) {
            tt_exec_local(p, i, segment);
        } else if (!reduce(e, p, i, &f)) {
            return false;
        }
    }
    return !reads || !tt_direct_aborted(e->direct);
}

/* The work of a round. A round of several segments does one per call, so that the caller can do
 * other things in between. *ret_more: there are more. */
TT_HOT static bool take_round(struct tt_engine *e, struct tt_program *p, const void *const *all,
                              bool *ret_more)
{
    struct tt_xrow *r = p->box->row;
    bool ok = true;
    *ret_more = false;
    if (r->whole) {
        uint32_t n, first = first_segment(p, &n);
        ok = row_take(e, p, r->round / rounds_each(p), first + r->segment, all);
        *ret_more = ++r->segment < n;
        return ok;
    }
    for (uint32_t x = 0; x < r->nexchanges && ok; x++)
        if (segment_in(p, x, r->round) != TT_XNO)
            ok = row_take(e, p, x, segment_in(p, x, r->round), all);
    return ok;
}

/* Nothing went as a message: what was not written was read, in a box or a heap. */
static void row_count(struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nops; i++) {
        bool written = p->box->row->ops[i].written;
        p->carried.read += p->ops[i].kind == TT_OP_SEND && !written ? p->segments : 0;
        p->carried.write += p->ops[i].kind == TT_OP_SEND && written ? p->segments : 0;
    }
}

TT_HOT bool tt_exec_row_take(struct tt_engine *e, struct tt_program *p, const void *const *all)
{
    struct tt_xrow *r = p->box->row;
    uint32_t liar = UINT32_MAX;
    if (r->round == 0 && r->segment == 0 && !hear_all(e, p, all, &liar)) {
        tt_exec_fault(e, &(struct tt_exec_engine_fault){.kind = TT_FAULT_PROTOCOL,
                                                        .peer = tt_context_world(p->context, liar),
                                                        .seq = p->seq});
        return false;
    }
    /* Only known once hear_all has set `whole`. The round after the last only waits for readers. */
    uint32_t rounds = rounds_of(p);
    bool more = false;
    if (r->round < rounds && !take_round(e, p, all, &more)) {
        tt_exec_lost(e, UINT32_MAX);
        return false;
    }
    if (more)
        return false;
    r->segment = 0;
    if (++r->round < rounds + r->last) {
        tt_exec_row_put(e, p);
        return false;
    }
    r->round = 0;
    row_count(p);
    return true;
}
