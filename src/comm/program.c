/* program.c - from a call to a program: this rank's slice of the plan that all ranks agree upon
 * (plans.c), compiled and kept for the next call of the same kind.
 *
 *     call --problem_of--> problem --plans_get--> plan --slice--> schedule --compile--> program
 *
 * The table holds programs that a request holds, and up to TT_PROGRAMS others, of which the least
 * recently used is replaced. The lock is held, except in tt_comm_predict, which takes it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"

/* Does `count` mean one block per rank, rather than the whole vector? */
static bool blocks(tutti_coll c)
{
    return c != TUTTI_ALLREDUCE && c != TUTTI_BROADCAST && c != TUTTI_REDUCE && c != TUTTI_BARRIER;
}

static bool same_user(const struct tt_userop *a, const struct tt_userop *b)
{
    if (!a || !b)
        return !a && !b;
    return a->fn == b->fn && a->ctx == b->ctx && a->hash == b->hash;
}

/* Both NULL is equal; one NULL is not. */
static bool same_blocks(const struct tt_blocks *a, const struct tt_blocks *b, size_t n)
{
    size_t bytes = n * sizeof *a->send_counts;
    if (!a || !b)
        return !a && !b;
    return !memcmp(a->send_counts, b->send_counts, bytes) &&
           !memcmp(a->send_at, b->send_at, bytes) &&
           !memcmp(a->recv_counts, b->recv_counts, bytes) && !memcmp(a->recv_at, b->recv_at, bytes);
}

/* Is the kept program for exactly this kind of call? Buffers do not matter: a program works with
 * any. */
TT_HOT static bool program_same(const struct tt_comm *c, const struct tt_kept *k,
                                const struct tt_call *call)
{
    const struct tt_call *a = &k->key;
    if (a->coll != call->coll || a->count != call->count || a->dtype != call->dtype ||
        a->redop != call->redop || a->root != call->root)
        return false;
    if (!same_user(a->user, call->user) || !same_blocks(a->blocks, call->blocks, c->size))
        return false;
    if ((a->algo || call->algo) && !(a->algo && call->algo && tt_streq(a->algo, call->algo)))
        return false;
    if (!k->counts || !call->counts)
        return !k->counts && !call->counts;
    return memcmp(k->counts, call->counts, c->size * sizeof *k->counts) == 0;
}

void tt_comm_algo_of(struct tt_comm *c, tutti_coll coll)
{
    c->algo_coll = coll;
}

/* The algorithm that the call names, else the communicator's own if it is for this collective. */
static const char *named_algo(const struct tt_comm *c, const struct tt_problem *p,
                              const char *named)
{
    return named ? named : p->coll == c->algo_coll ? c->algo : NULL;
}

static tutti_redop redop_of(const struct tt_call *call)
{
    return call->user ? TT_REDOP_USER : call->redop;
}

/* Checks the call and turns it into a problem. Everything that is refused here is refused before
 * any other rank is involved. */
static tutti_status problem_of(const struct tt_comm *c, const struct tt_call *call,
                               struct tt_problem *ret, struct tutti_error *err)
{
    uint64_t total = call->count;
    if ((unsigned)call->coll >= TUTTI_COLL_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no collective %d", (int)call->coll);
    if ((unsigned)call->dtype >= TUTTI_DTYPE_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no data type %d", (int)call->dtype);
    if ((unsigned)call->redop >= TUTTI_REDOP_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no reduction %d", (int)call->redop);
    if (call->user && call->user->elem_bytes != tt_sched_dtype_bytes(call->dtype))
        return tt_fail(err, TUTTI_ERR_ARG, "the reduction is for elements of %u bytes, %s has %u",
                       call->user->elem_bytes, tt_sched_dtype_name(call->dtype),
                       tt_sched_dtype_bytes(call->dtype));
    if (tt_sched_coll_sums(call->coll) && !call->user && !tt_redop_fits(call->redop, call->dtype))
        return tt_fail(err, TUTTI_ERR_ARG, "%s of %s: %s", tt_sched_redop_name(call->redop),
                       tt_sched_dtype_name(call->dtype),
                       tt_dtype_is_opaque(call->dtype) ? "a reduction of the caller's own is needed"
                                                       : "integers are needed");
    if (call->root >= c->size)
        return tt_fail(err, TUTTI_ERR_RANGE, "root %u is not one of the %u ranks", call->root,
                       c->size);
    if (call->counts) {
        total = 0;
        for (uint32_t r = 0; r < c->size; r++)
            if (__builtin_add_overflow(total, call->counts[r], &total))
                return tt_fail(err, TUTTI_ERR_RANGE, "the counts of all ranks together overflow");
    } else if (blocks(call->coll) && call->coll != TUTTI_ALL_TO_ALL &&
               __builtin_mul_overflow(total, c->size, &total)) {
        return tt_fail(err, TUTTI_ERR_RANGE, "count %zu times %u ranks overflows", call->count,
                       c->size);
    }
    if (call->coll == TUTTI_ALL_TO_ALL && __builtin_mul_overflow(total, c->size, &total))
        return tt_fail(err, TUTTI_ERR_RANGE, "count %zu times %u ranks overflows", call->count,
                       c->size);
    /* Half of the address space is more than any buffer: later sums of bytes cannot overflow. */
    uint64_t bytes;
    if (__builtin_mul_overflow(total, (uint64_t)tt_sched_dtype_bytes(call->dtype) * c->size,
                               &bytes) ||
        bytes > SIZE_MAX / 2)
        return tt_fail(err, TUTTI_ERR_RANGE, "%llu elements are more than memory can hold",
                       (unsigned long long)total);
    *ret = (struct tt_problem){.coll = call->coll,
                               .ranks = c->size,
                               .root = call->root,
                               .count = total,
                               .dtype = call->dtype,
                               .redop = redop_of(call),
                               .ordered = call->user && !call->user->commutative};
    return TUTTI_OK;
}

const struct tt_sched *tt_comm_kept_sched(const struct tt_kept *k)
{
    return k->own ? k->own : k->plan->slice;
}

static tutti_status program_compile(struct tt_comm *c, const struct tt_call *call,
                                    const struct tt_problem *p, struct tt_kept *k,
                                    struct tutti_error *err)
{
    uint64_t *counts = NULL;
    if (blocks(call->coll) && !call->blocks) {
        counts = tt_alloc(c->size, sizeof *counts);
        if (!counts)
            return tt_fail_memory(err, "block counts");
        for (uint32_t r = 0; r < c->size; r++)
            counts[r] = call->counts ? call->counts[r] : call->count;
    }
    struct tt_program_config pc = {.sched = tt_comm_kept_sched(k),
                                   .rank = c->rank,
                                   .count = p->count,
                                   .dtype = call->dtype,
                                   .redop = call->redop,
                                   .user = call->user,
                                   .block_counts = counts,
                                   .blocks = call->blocks,
                                   .places = c->wire.places,
                                   .box_bytes = call->blocks ? 0 : c->box_bytes,
                                   .exchange_bytes = TT_BOX_BYTES};
    tutti_status st = tt_exec_program_make(&pc, &k->program, err);
    free(counts);
    return st;
}

void tt_comm_call_reduction(const struct tt_call *call, struct tt_op_desc *op)
{
    static_assert((int)TT_WATCH_USEROP == (int)TT_USEROP_NAME, "verdicts hold the whole name");
    op->redop = (uint8_t)redop_of(call);
    if (call->user)
        memcpy(op->user, call->user->name, sizeof op->user);
}

/* A hash of what must be equal on all ranks for a call, whatever its plan. Block lengths of an
 * all-to-all differ between ranks and are left out. */
static uint64_t print_of(const struct tt_comm *c, const struct tt_call *call)
{
    uint64_t facts[] = {c->id,
                        (uint64_t)call->coll,
                        call->count,
                        (uint64_t)call->dtype,
                        (uint64_t)call->redop,
                        call->root,
                        0,
                        call->user ? call->user->hash : 0};
    facts[6] = call->blocks   ? 1
               : call->counts ? tt_hash_bytes(1, call->counts, c->size * sizeof *call->counts)
                              : 0;
    return tt_hash_bytes(0, facts, sizeof facts);
}

/* What a call asks the planner: the algorithm that the call or the communicator names, else the
 * planner's choice. */
static tutti_status ask_of(const struct tt_comm *c, const struct tt_call *call,
                           struct tt_comm_ask *ret, struct tutti_error *err)
{
    struct tt_comm_ask ask = {.why.op = {.comm = c->tag,
                                         .coll = (uint8_t)call->coll,
                                         .dtype = (uint8_t)call->dtype,
                                         .root = call->root,
                                         .print = print_of(c, call),
                                         .why = (uint8_t)call->why,
                                         .busy = TT_OP_COLL}};
    tt_comm_call_reduction(call, &ask.why.op);
    tutti_status st = problem_of(c, call, &ask.problem, err);
    if (st)
        return st;
    ask.why.op.count = call->blocks ? UINT64_MAX : call->counts ? ask.problem.count : call->count;
    /* Lengths differ between ranks, so nothing may depend on them: `direct`, the one algorithm that
     * sends every block straight to its receiver. */
    ask.algo = call->blocks ? "direct" : named_algo(c, &ask.problem, call->algo);
    *ret = ask;
    return TUTTI_OK;
}

static tutti_status copy_counts(const struct tt_comm *c, const struct tt_call *call,
                                struct tt_kept *k, struct tutti_error *err)
{
    if (!call->counts)
        return TUTTI_OK;
    k->counts = tt_alloc(c->size, sizeof *k->counts);
    if (!k->counts)
        return tt_fail_memory(err, "block counts");
    memcpy(k->counts, call->counts, c->size * sizeof *k->counts);
    return TUTTI_OK;
}

static tutti_status copy_blocks(const struct tt_comm *c, const struct tt_call *call,
                                struct tt_kept *k, struct tutti_error *err)
{
    size_t n = c->size, *all = call->blocks ? tt_alloc(4 * n, sizeof *all) : NULL;
    const struct tt_blocks *b = call->blocks;
    if (!b)
        return TUTTI_OK;
    if (!all)
        return tt_fail_memory(err, "block counts");
    memcpy(all, b->send_counts, n * sizeof *all);
    memcpy(all + n, b->send_at, n * sizeof *all);
    memcpy(all + 2 * n, b->recv_counts, n * sizeof *all);
    memcpy(all + 3 * n, b->recv_at, n * sizeof *all);
    k->blocks = (struct tt_blocks){all, all + n, all + 2 * n, all + 3 * n};
    return TUTTI_OK;
}

/* Fills k for a call; on failure the caller frees what is there. */
static tutti_status program_make(struct tt_comm *c, const struct tt_call *call, struct tt_kept *k,
                                 struct tutti_error *err)
{
    struct tt_comm_ask ask;
    tutti_status st = ask_of(c, call, &ask, err);
    if (!st)
        st = tt_comm_plans_get(c, &ask, &k->plan, err);
    if (!st)
        st = copy_counts(c, call, k, err);
    if (!st)
        st = copy_blocks(c, call, k, err);
    /* A synthesised plan brings its slice; a closed form is listed here, and proved if that is
     * wanted. */
    if (!st && !k->plan->slice)
        st = tt_comm_plans_slice(c, k->plan, &k->own, err);
    if (!st && k->own)
        st = tt_comm_prove_admit(c, k->plan, k->own, err);
    if (!st)
        st = program_compile(c, call, &ask.problem, k, err);
    if (st)
        return st;
    k->key = *call;
    k->key.in = k->key.out = NULL;
    k->key.counts = k->counts;
    k->key.blocks = call->blocks ? &k->blocks : NULL;
    if (call->user) {
        k->user = *call->user;
        k->key.user = &k->user;
    }
    k->info = (struct tt_comm_plan_info){.algo = k->plan->name,
                                         .predicted_us = (double)k->plan->predicted_ps / 1e6,
                                         .own_us = (double)k->plan->own_ps / 1e6,
                                         .bound_us = (double)k->plan->bound_ps / 1e6,
                                         .fused = c->wire.one_host};
    k->fingerprint = tt_mix64(ask.why.op.print ^ tt_mix64(k->plan->hash));
    k->op = ask.why.op;
    k->op.print = k->fingerprint;
    return TUTTI_OK;
}

void tt_comm_kept_free(struct tt_kept *k)
{
    if (!k)
        return;
    tt_exec_program_free(k->program);
    tt_sched_free(k->own);
    free(k->counts);
    free((void *)(uintptr_t)k->blocks.send_counts);
    free(k);
}

/* A free slot, or the least recently used one that is neither held nor running. The table grows
 * while fewer than TT_PROGRAMS are idle. */
static tutti_status find_slot(struct tt_comm *c, size_t *ret, struct tutti_error *err)
{
    size_t best = SIZE_MAX, idle = 0;
    for (size_t i = 0; i < c->nkept; i++) {
        if (!c->kept[i]) {
            *ret = i;
            return TUTTI_OK;
        }
        if (c->kept[i]->holders || c->kept[i]->running)
            continue;
        idle++;
        if (best == SIZE_MAX || c->kept[i]->used < c->kept[best]->used)
            best = i;
    }
    if (idle < TT_PROGRAMS) {
        struct tt_kept **grown =
            realloc(c->kept, (c->nkept + TT_PROGRAMS) * sizeof(struct tt_kept *));
        if (!grown)
            return tt_fail_memory(err, "programs");
        memset(grown + c->nkept, 0, TT_PROGRAMS * sizeof(struct tt_kept *));
        c->kept = grown;
        best = c->nkept;
        c->nkept += TT_PROGRAMS;
    }
    assert(best < c->nkept);
    *ret = best;
    return TUTTI_OK;
}

static bool program_fits(const struct tt_comm *c, size_t i, const struct tt_call *call)
{
    const struct tt_kept *k = i < c->nkept ? c->kept[i] : NULL;
    return k && !k->holders && !k->running && program_same(c, k, call);
}

/* The slot of an idle program for this call; nkept if there is none. The last one used is tried
 * first. */
static size_t program_find(const struct tt_comm *c, const struct tt_call *call)
{
    if (program_fits(c, c->recent, call))
        return c->recent;
    for (size_t i = 0; i < c->nkept; i++)
        if (program_fits(c, i, call))
            return i;
    return c->nkept;
}

/* Makes the program before a slot is chosen, so that a failure replaces nothing. */
static tutti_status program_add(struct tt_comm *c, const struct tt_call *call, size_t *ret,
                                struct tutti_error *err)
{
    struct tt_kept *k = tt_zalloc(1, sizeof *k);
    tutti_status st = k ? program_make(c, call, k, err) : tt_fail_memory(err, "program");
    if (!st)
        st = find_slot(c, ret, err);
    if (st) {
        tt_comm_kept_free(k);
        return st;
    }
    assert(!c->kept[*ret] || (!c->kept[*ret]->holders && !c->kept[*ret]->running));
    tt_comm_kept_free(c->kept[*ret]);
    c->kept[*ret] = k;
    return TUTTI_OK;
}

TT_HOT tutti_status tt_comm_program(struct tt_comm *c, const struct tt_call *call,
                                    struct tt_kept **ret, struct tutti_error *err)
{
    size_t i = program_find(c, call);
    tutti_status st = i < c->nkept ? TUTTI_OK : program_add(c, call, &i, err);
    if (st)
        return st;
    assert(!c->kept[i]->running && c->kept[i]->program);
    c->recent = i;
    c->kept[i]->used = ++c->clock;
    *ret = c->kept[i];
    return TUTTI_OK;
}

tutti_status tt_comm_predict(struct tt_comm *c, const struct tt_call *call, uint64_t *ret_ps,
                             struct tutti_error *err)
{
    struct tt_comm_ask ask;
    tt_comm_lock(c);
    tutti_status st = ask_of(c, call, &ask, err);
    if (!st)
        st = tt_comm_plans_predict(c, &ask, ret_ps, err);
    tt_comm_unlock(c);
    return st;
}
