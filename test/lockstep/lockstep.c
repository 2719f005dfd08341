/* lockstep.c - runs of a schedule: the lockstep meaning step by step, and what the runs have in common.
 *
 * Invariant: when a step begins, every cell holds what all earlier steps left. Messages read before any of them writes; segments touch
 * different cells, so their order does not matter. */
#include "lockstep.h"

#include <stdlib.h>
#include <string.h>

#include "parts.h"

const char *ls_verdict_name(enum ls_verdict v)
{
    static const char *const names[] = {"correct", "wrong", "unmatched", "stuck", "empty", "race", "malformed"};
    return names[v];
}

uint64_t ls_plain_sum(uint64_t a, uint64_t b)
{
    return a + b;
}

uint64_t ls_ordered_sum(uint64_t a, uint64_t b)
{
    return tt_mix64(a * 3 + tt_mix64(b + UINT64_C(0x9e3779b97f4a7c15)));
}

uint64_t ls_tree_sum(uint64_t a, uint64_t b)
{
    return tt_mix64(tt_mix64(a + 1) + tt_mix64(b + 1));
}

void *ls_alloc(uint64_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

bool ls_fault(struct ls_result *r, enum ls_verdict v, uint32_t rank, size_t op, const char *what)
{
    if (r->verdict != LS_CORRECT)
        return false;
    *r = (struct ls_result){.verdict = v, .rank = rank, .op = op};
    snprintf(r->why, sizeof r->why, "rank %u op %zu: %.150s", rank, op, what);
    return false;
}

bool ls_is_message(const struct tt_op *op)
{
    return op->kind == TT_OP_SEND || ls_is_receive(op);
}

bool ls_is_receive(const struct tt_op *op)
{
    return op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE;
}

/* ---- operations ---- */

static void add_to(const struct ls *l, uint64_t *sum, const uint64_t *more, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] = l->o.sum(sum[i], more[i]);
}

uint64_t *ls_receive(struct ls *l, uint32_t rank, const struct ls_op *o, const uint64_t *message)
{
    uint64_t n = ls_op_elems(l, rank, o);
    if (o->op->kind == TT_OP_RECV)
        return memcpy(ls_alloc(n, sizeof *message), message, n * sizeof *message);
    uint64_t *data = ls_read(l, rank, o, 0);
    if (data)
        add_to(l, data, message, n);
    return data;
}

bool ls_run_local(struct ls *l, uint32_t rank, const struct ls_op *o)
{
    uint32_t first = o->op->kind == TT_OP_REDUCE ? 1 : 0, operands = first ? o->op->nspans : 1;
    uint64_t *sum = ls_read(l, rank, o, first);
    bool ok = sum != NULL;
    for (uint32_t k = first + 1; ok && k < operands; k++) {
        uint64_t *one = ls_read(l, rank, o, k);
        ok = one != NULL;
        if (ok)
            add_to(l, sum, one, ls_op_elems(l, rank, o));
        free(one);
    }
    ok = ok && ls_write(l, rank, o, sum);
    free(sum);
    return ok;
}

/* ---- the parts of a step, each done by all ranks before the next ---- */

typedef bool step_part(struct ls *l, uint32_t rank, struct ls_op *o);

static bool read_sends(struct ls *l, uint32_t rank, struct ls_op *o)
{
    if (o->op->kind == TT_OP_SEND)
        o->data = ls_read(l, rank, o, 0);
    return o->op->kind != TT_OP_SEND || o->data;
}

static bool add_operands(struct ls *l, uint32_t rank, struct ls_op *o)
{
    if (ls_is_receive(o->op))
        o->data = ls_receive(l, rank, o, l->rank[o->op->peer].ops[o->partner].data);
    return !ls_is_receive(o->op) || o->data;
}

static bool write_messages(struct ls *l, uint32_t rank, struct ls_op *o)
{
    if (!ls_is_receive(o->op))
        return true;
    if (o->op->kind == TT_OP_RECV_REDUCE && ls_operand_is_new(l, rank, o))
        return ls_fault(&l->result, LS_MALFORMED, rank, (size_t)(o - l->rank[rank].ops),
                        "reads what an earlier message of its step writes");
    return ls_write(l, rank, o, o->data);
}

static bool run_locals(struct ls *l, uint32_t rank, struct ls_op *o)
{
    return ls_is_message(o->op) || ls_run_local(l, rank, o);
}

static bool forget(struct ls *l, uint32_t rank, struct ls_op *o)
{
    (void)l;
    (void)rank;
    free(o->data);
    o->data = NULL;
    return true;
}

static bool run_part(struct ls *l, uint32_t step, step_part *part)
{
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        for (size_t i = l->rank[r].step[step]; i < l->rank[r].step[step + 1]; i++)
            if (!part(l, r, &l->rank[r].ops[i]))
                return false;
    return true;
}

static bool run_step(struct ls *l, uint32_t step)
{
    static step_part *const parts[] = {read_sends, add_operands, write_messages, run_locals};
    bool ok = true;
    l->now = LS_FIRST_STAMP + step;
    for (size_t i = 0; ok && i < countof(parts); i++)
        ok = run_part(l, step, parts[i]);
    run_part(l, step, forget);
    return ok;
}

static bool run_lockstep(struct ls *l)
{
    if (l->unmatched.verdict != LS_CORRECT) {
        l->result = l->unmatched;
        return false;
    }
    for (uint32_t step = 0; step < l->s->nsteps; step++)
        for (l->segment = 0; l->segment < l->s->shape.segments; l->segment++)
            if (!run_step(l, step))
                return false;
    return true;
}

/* ---- whole runs ---- */

struct ls *ls_open(const struct tt_sched *s)
{
    struct ls *l = ls_alloc(1, sizeof *l);
    l->s = s;
    ls_take_apart(l);
    return l;
}

void ls_close(struct ls *l)
{
    if (!l)
        return;
    ls_memory_end(l);
    for (uint32_t r = 0; l->rank && r < l->s->shape.ranks; r++) {
        tt_vec_free(&l->rank[r].items);
        free(l->rank[r].ops);
        free(l->rank[r].step);
    }
    free(l->rank);
    free(l);
}

struct ls_result ls_run(struct ls *l, const struct ls_options *o)
{
    l->o = *o;
    l->o.sum = o->sum ? o->sum : ls_plain_sum;
    l->result = l->flaw;
    if (l->result.verdict == LS_CORRECT && ls_memory_begin(l) && (o->live ? ls_run_live(l) : run_lockstep(l)))
        ls_check_results(l);
    return l->result;
}

struct ls_result ls_run_once(const struct tt_sched *s, const struct ls_options *o)
{
    struct ls *l = ls_open(s);
    struct ls_result r = ls_run(l, o);
    ls_close(l);
    return r;
}

struct ls_result ls_prove(const struct tt_sched *s)
{
    static const struct {
        const char *name;
        struct ls_options o;
    } modes[] = {
        {"in lockstep", {.seed = 1}},
        {"live", {.seed = 2, .live = true}},
        {"in lockstep in place", {.seed = 3, .inplace = true}},
        {"live in place", {.seed = 4, .inplace = true, .live = true}},
        {"bits of an ordered sum", {.seed = 5, .sum = ls_ordered_sum}},
    };
    struct ls *l = ls_open(s);
    struct ls_result r = {0};
    for (size_t i = 0; r.verdict == LS_CORRECT && i < countof(modes); i++) {
        char why[sizeof r.why];
        if (modes[i].o.inplace && !s->shape.inplace)
            continue;
        r = ls_run(l, &modes[i].o);
        snprintf(why, sizeof why, "%s: %.*s", modes[i].name, (int)sizeof why / 2, r.why);
        memcpy(r.why, why, sizeof why);
    }
    ls_close(l);
    return r;
}
