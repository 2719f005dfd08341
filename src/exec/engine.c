/* engine.c - starts programs, knows which ones run, and ends them all when something does not fit.
 *
 * Running programs stand in a small hash table by context and sequence number, where arriving
 * pieces find them, and in slots, whose numbers the cookies of sends carry.
 *
 *     start:  check -> links to peers -> addresses -> initial tasks -> run what is ready
 *             -> take early pieces from the stash -> send the start notices that are due
 *
 * A start does everything that is possible at once: a program whose sends depend on nothing has
 * handed them to the transport when start returns.
 *
 * Invariant: a program is in the table exactly while its state is RUNNING. After the first fault or
 * kill the engine has failed for good: no program runs, and none can be started.
 *
 * Threads: none of its own and no locks. The caller sees to it that one thread at a time uses an
 * engine. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_int.h"

/* STREAMS: pieces that may be half received when their credit is given back (stash.c). */
enum { REQUESTS = 64, EAGER_BYTES = 256 << 10, STREAMS = 8 };

/* ---- making ---- */

/* The inverse of `places`: the rank that has each local place. */
static void make_near(struct tt_engine *e)
{
    for (uint32_t r = 0; r < e->size; r++)
        if (e->places[r] != TT_NO_PLACE)
            e->near[e->places[r]].rank = r;
}

/* Makes the tables. The last piece of `stages` is `gather`, in which a stashed piece is put
 * together. */
static tutti_status make_engine(struct tt_engine *e, struct tutti_error *err)
{
    uint32_t nlocal = e->direct ? tt_direct_nlocal(e->direct) : 0;
    e->slots = tt_zalloc(e->max_requests, sizeof *e->slots);
    e->free_slots = tt_alloc(e->max_requests, sizeof *e->free_slots);
    e->stages = aligned_alloc(64, (TT_XSTAGES + 1) * (size_t)TT_XPIECE);
    e->near = tt_zalloc(nlocal, sizeof *e->near);
    e->gone = tt_zalloc(e->size, sizeof *e->gone);
    if (!e->slots || !e->free_slots || !e->stages || !e->gone || (nlocal && !e->near) ||
        !tt_exec_stash_grow(e))
        return tt_fail_memory(err, "engine");
    if (nlocal)
        make_near(e);
    e->gather = e->stages + TT_XSTAGES * (size_t)TT_XPIECE;
    for (uint32_t i = 0; i < e->max_requests; i++)
        e->free_slots[i] = e->max_requests - 1 - i;
    for (uint32_t i = 0; i < TT_XSTAGES; i++)
        e->free_stage[e->nfree_stages++] = (uint8_t)(TT_XSTAGES - 1 - i);
    return TUTTI_OK;
}

tutti_status tt_exec_engine_make(const struct tt_engine_config *c, struct tt_engine **ret,
                                 struct tutti_error *err)
{
    uint32_t eager = c->eager_bytes ? c->eager_bytes : EAGER_BYTES;
    if (c->max_requests > 1 << 16)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu32 " requests at the same time: at most 65536",
                       c->max_requests);
    struct tt_engine *e = tt_zalloc(1, sizeof *e);
    if (!e)
        return tt_fail_memory(err, "engine");
    e->transport = c->transport;
    e->size = c->transport->size;
    e->max_requests = c->max_requests ? c->max_requests : REQUESTS;
    e->direct = c->places ? c->direct : NULL;
    e->places = c->places;
    e->ref_bytes = c->ref_bytes ? c->ref_bytes : 1;
    e->slabs.elem = sizeof(struct tt_xblock *);
    e->hellos.elem = sizeof(struct tt_xhello);
    /* A box is complete when its memory says so, not when an event comes: the transport's wait must
     * look at it too. */
    tt_exec_window_make(e);
    if (e->direct && c->transport->ops->watch)
        c->transport->ops->watch(c->transport, tt_exec_box_ready, e);
    e->budget = eager / TT_XBLOCK ? eager / TT_XBLOCK : 1;
    e->quarter = e->budget / 4 ? e->budget / 4 : 1;
    e->stash_blocks = e->budget + STREAMS * tt_xcost(TT_XPIECE);
    tutti_status st = make_engine(e, err);
    if (!st)
        *ret = e;
    else
        tt_exec_engine_free(e);
    return st;
}

void tt_exec_engine_free(struct tt_engine *e)
{
    if (!e)
        return;
    if (e->direct && e->transport->ops->watch)
        e->transport->ops->watch(e->transport, NULL, NULL);
    assert(e->nrunning == 0);
    tt_exec_context_free_all(e);
    tt_exec_stash_free(e);
    tt_vec_free(&e->hellos);
    free(e->near);
    free(e->by_id);
    free(e->gone);
    free(e->slots);
    free(e->free_slots);
    free(e->stages);
    free(e);
}

/* ---- which programs run ---- */

/* Requests that run together have neighbouring numbers and fall in different buckets; the factor
 * keeps contexts apart. */
static uint32_t bucket_of(const struct tt_context *x, uint32_t seq)
{
    return (seq + x->comm * 7u) % TT_XBUCKETS;
}

struct tt_program *tt_exec_find(const struct tt_context *x, uint32_t seq)
{
    struct tt_program *p = x->engine->buckets[bucket_of(x, seq)];
    while (p && (p->seq != seq || p->context != x))
        p = p->chain;
    return p;
}

/* Free slots are a stack: entry max_requests - 1 - nrunning is its top. */
static void engine_enter(struct tt_engine *e, struct tt_program *p)
{
    assert(e->nrunning < e->max_requests && p->seq == p->context->seq);
    struct tt_program **bucket = &e->buckets[bucket_of(p->context, p->seq)];
    p->slot = e->free_slots[e->max_requests - 1 - e->nrunning++];
    assert(!e->slots[p->slot]);
    e->slots[p->slot] = p;
    p->chain = *bucket;
    *bucket = p;
    p->context->nrunning++;
    e->links_running += p->nlinks;
    e->nboxed += p->box != NULL;
}

TT_HOT void tt_exec_leave(struct tt_engine *e, struct tt_program *p)
{
    struct tt_program **at = &e->buckets[bucket_of(p->context, p->seq)];
    assert(e->slots[p->slot] == p && p->context->nrunning > 0 && e->links_running >= p->nlinks);
    for (; *at != p; at = &(*at)->chain)
        assert(*at);
    *at = p->chain;
    e->slots[p->slot] = NULL;
    e->free_slots[e->max_requests - 1 - --e->nrunning] = p->slot;
    e->finished++;
    e->links_running -= p->nlinks;
    e->nboxed -= p->box != NULL;
    p->context->nrunning--;
}

uint64_t tt_exec_engine_finished(const struct tt_engine *e)
{
    return e->finished;
}

/* ---- starting ---- */

static bool overlap(const void *a, uint64_t na, const void *b, uint64_t nb)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return na && nb && x < y + nb && y < x + na;
}

/* Gives every base its address and finds out whether IN and OUT are one memory (exec.h says when).
 * False: they overlap in another way, or the schedule cannot run in place. Runs of the own part lie
 * packed in a buffer of their own, or at their places in the whole vector when both pointers are
 * the same. */
static bool bind_buffers(struct tt_program *p, const struct tt_start *s)
{
    uint64_t in_bytes = p->in_elems << p->elem_shift, out_bytes = p->out_elems << p->elem_shift;
    const char *part = p->part_in ? s->in : s->out, *whole = p->part_in ? s->out : s->in;
    bool same = in_bytes && out_bytes && s->in == s->out;
    p->base[TT_XBASE_IN] = (char *)(uintptr_t)s->in;
    p->base[TT_XBASE_OUT] = s->out;
    p->base[TT_XBASE_OWN] = p->own;
    for (uint32_t i = 0; i < p->nruns; i++) {
        uint64_t at = same ? p->runs[i].whole : p->runs[i].packed;
        p->base[TT_XBASE_RUNS + i] = (char *)((uintptr_t)part + (at << p->elem_shift));
    }
    if (in_bytes && out_bytes && p->nruns == 1)
        same = same || (uintptr_t)part == (uintptr_t)whole + (p->runs[0].whole << p->elem_shift);
    p->mode = same;
    return same ? p->inplace : !overlap(s->in, in_bytes, s->out, out_bytes);
}

/* Everything that can be refused before any state has changed. */
static tutti_status check_start(const struct tt_context *x, const struct tt_start *s,
                                struct tutti_error *err)
{
    const struct tt_program *p = s->program;
    const struct tt_engine *e = x->engine;
    if (e->failed)
        return tt_exec_engine_failure(e, err);
    if (p->state == TT_XRUNNING)
        return tt_fail(err, TUTTI_ERR_ARG, "request %" PRIu32 " is still running", p->seq);
    if (x->any && s->seq != x->seq + 1)
        return tt_fail(err, TUTTI_ERR_ARG, "request %" PRIu32 " follows request %" PRIu32, s->seq,
                       x->seq);
    if (e->nrunning == e->max_requests)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu32 " requests are running, which is the limit",
                       e->max_requests);
    if ((p->in_elems && !s->in) || (p->out_elems && !s->out))
        return tt_fail(err, TUTTI_ERR_ARG, "no buffer");
    return TUTTI_OK;
}

/* Points the program's links at the peers of its context. A program that was last started in the
 * same context keeps its links. */
static tutti_status connect_links(struct tt_context *x, struct tt_program *p,
                                  struct tutti_error *err)
{
    tutti_status st = tt_exec_context_prepare(x, p, err);
    if (p->box && !x->boxes)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "the program needs boxes, and the communicator has none");
    for (uint32_t i = 0; !st && p->context != x && i < p->nlinks; i++)
        p->links[i].pe = x->peers[p->links[i].peer];
    if (!st)
        p->context = x;
    return st;
}

/* Copies the initial states. The work list begins with the tasks that can run at once. */
static void reset(struct tt_program *p)
{
    assert(p->nfirst[p->mode] <= p->ntasks && (p->mode == 0 || p->inplace));
    memcpy(p->tasks, p->fresh[p->mode], p->ntasks * sizeof *p->tasks);
    memcpy(p->work, p->first[p->mode], p->nfirst[p->mode] * sizeof *p->work);
    memset(p->pieces, TT_XMISSING, (size_t)p->npieces);
    p->work_head = 0;
    p->work_tail = p->nfirst[p->mode];
    p->tasks_left = p->ntasks;
    p->owed = 0;
    for (uint32_t i = 0; i < p->nlinks; i++) {
        struct tt_xlink *l = &p->links[i];
        l->in_left = l->in_pieces;
        l->out_left = l->out_pieces;
        l->head = TT_XNO;
        l->piece = 0;
        l->waiting = l->heard = false;
    }
}

/* Credit is counted before the first send: a peer's line of bytes (credit.c) must include this
 * request. */
static void engine_launch(struct tt_engine *e, struct tt_program *p)
{
    assert(p->state == TT_XRUNNING && p->context->any && p->context->seq == p->seq);
    engine_enter(e, p);
    tt_exec_stats_start(e, p);
    if (p->box) {
        tt_exec_box_start(e, p);
        return;
    }
    tt_exec_credit_start(p);
    if (p->refs)
        tt_exec_offers_clear(p);
    tt_exec_work(e, p);
}

TT_HOT tutti_status tt_exec_context_start(struct tt_context *x, const struct tt_start *s,
                                          struct tutti_error *err)
{
    struct tt_engine *e = x->engine;
    struct tt_program *p = s->program;
    tutti_status st = check_start(x, s, err);
    if (!st)
        st = connect_links(x, p, err);
    if (st)
        return st;
    if (!bind_buffers(p, s))
        return tt_fail(err, TUTTI_ERR_ARG, "%s",
                       p->mode ? "this schedule cannot run in place" : "input and output overlap");
    if (!p->box)
        reset(p);
    p->carried = (struct tt_carried){0};
    p->seq = x->seq = s->seq;
    p->fingerprint = x->fingerprint = s->fingerprint;
    p->state = TT_XRUNNING;
    x->any = true;
    engine_launch(e, p);
    /* Pieces that came early are used only now, after everything that needs no message has been
     * done. */
    if (x->stashed)
        tt_exec_stash_take(p);
    if (e->ndeferred)
        tt_exec_retry_deferred(e);
    if (x->any_closed)
        tt_exec_missing(e, p);
    if (e->failed)
        return tt_exec_engine_failure(e, err);
    if (!p->box)
        tt_exec_credit_tell(e, p);
    return TUTTI_OK;
}

/* ---- asking ---- */

TT_HOT tutti_status tt_exec_engine_test(struct tt_engine *e, const struct tt_program *p,
                                        struct tutti_error *err)
{
    if (p->state == TT_XFAILED)
        return tt_exec_engine_failure(e, err);
    return p->state == TT_XRUNNING ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

/* The first message task that waits for nothing but its peer. */
static uint32_t first_waiting(const struct tt_program *p, bool sends)
{
    for (uint32_t t = 0; t < p->ntasks; t++) {
        uint8_t kind = p->ops[tt_xtask_op(p, t)].kind;
        if (kind <= TT_OP_RECV_REDUCE && (kind == TT_OP_SEND) == sends && p->tasks[t].waits == 0 &&
            p->tasks[t].left)
            return t;
    }
    return TT_XNO;
}

/* Receives come first: a peer that stops receiving has usually stopped sending. */
uint32_t tt_exec_program_waiting(const struct tt_program *p)
{
    const struct tt_context *x = p->context;
    if (p->state != TT_XRUNNING)
        return UINT32_MAX;
    if (p->box)
        return tt_context_world(x, x->box_missing);
    uint32_t t = first_waiting(p, false);
    if (t == TT_XNO)
        t = first_waiting(p, true);
    return t == TT_XNO ? UINT32_MAX : p->links[p->ops[tt_xtask_op(p, t)].link].pe->world;
}
