/* measure.c - alpha, beta and gamma: ping-pong between two ranks of one host and between rank 0 and
 * a rank of another host.
 *
 * Rank 0 directs: it sends all ranks the next step (rounds and bytes), all run it, and its duration
 * decides about the following one (measure_lead.c). Ranks that take no part run the same requests,
 * empty for them, since all ranks must number their requests alike.
 *
 *     rank 0   step 8 B x 1  there/back  step 8 B x 19  there/back ... step 1 MiB x 2 ... end
 *     partner  ask           there/back  ask            there/back ... ask            ... ask
 *     others   ask           (empty)     ask            (empty)    ... ask            ... ask
 *
 * The figures are kept for the next opening (speeds.c). At the end all ranks report the CPU use of
 * themselves and their machines (meter/busy.c): figures of a busy machine are marked, and soon
 * measured again. */
#include <assert.h>
#include <stdlib.h>

#include "comm/measure.h"

/* Runs one message (or an empty program) and waits for it. Every rank runs the same sequence. */
static tutti_status measure_pass(struct measure *m, const struct tt_sched *s, uint64_t bytes)
{
    struct tt_comm *c = m->c;
    struct tt_program *p = NULL;
    struct tt_op_desc op = tt_comm_setup_op(&(struct tt_setup){.through = c, .why = m->how->why});
    struct tt_program_config pc = {
        .sched = s, .rank = c->rank, .count = bytes, .dtype = TUTTI_U8, .redop = TUTTI_SUM};
    tutti_status st = tt_exec_program_make(&pc, &p, m->err);
    if (!st) {
        st = tt_comm_start(
            c,
            &(struct tt_start){.program = p, .in = m->data, .out = m->data, .fingerprint = bytes},
            &op);
        if (!st)
            st = tt_comm_finish(c, p, &op);
        if (st)
            tt_fail(m->err, st, "%s", c->last.text);
    }
    tt_exec_program_free(p);
    return st;
}

static void forget_pair(struct measure *m)
{
    tt_sched_free(m->there);
    tt_sched_free(m->back);
    m->there = m->back = NULL;
}

/* Builds the schedules of a pair; those of the last pair are reused. */
static tutti_status know_pair(struct measure *m, const struct step *s)
{
    struct tt_comm *c = m->c;
    if (m->there && m->back && m->from == s->from && m->peer == s->peer)
        return TUTTI_OK;
    forget_pair(m);
    m->from = s->from;
    m->peer = s->peer;
    tutti_status st =
        tt_comm_message_sched(c->size, c->rank, (uint32_t[]){s->from, s->peer}, &m->there, m->err);
    return st ? st
              : tt_comm_message_sched(c->size, c->rank, (uint32_t[]){s->peer, s->from}, &m->back,
                                      m->err);
}

/* RALLY: there and back, `rounds` times; the best round counts. BURST: `rounds` messages there, one
 * back; the average per message counts. */
static tutti_status perform(struct measure *m, const struct step *s)
{
    tutti_status st = know_pair(m, s);
    assert(s->rounds > 0);
    uint64_t t0 = tt_now_ns(), best = UINT64_MAX;
    for (uint32_t i = 0; !st && i < s->rounds; i++) {
        st = measure_pass(m, m->there, s->bytes);
        if (!st && s->kind == STEP_RALLY)
            st = measure_pass(m, m->back, s->bytes);
        uint64_t t = tt_now_ns();
        best = t - t0 < best ? t - t0 : best;
        t0 = s->kind == STEP_RALLY ? t : t0;
    }
    if (!st && s->kind == STEP_BURST) {
        st = measure_pass(m, m->back, s->bytes);
        best = (tt_now_ns() - t0) / s->rounds;
    }
    m->ns = best;
    return st;
}

tutti_status tt_comm_measure_exchange(struct measure *m, const struct step *mine)
{
    return m->how->exchange(m->how->ctx, mine, sizeof *mine, m->all, m->err);
}

static tutti_status tell_busy(struct measure *m)
{
    struct tt_busy mine = m->since;
    tt_meter_busy_since(&mine);
    return m->how->exchange(m->how->ctx, &mine, sizeof mine, m->busy, m->err);
}

/* Rank 0's figures become those of all ranks. */
static tutti_status measure_conclude(struct measure *m)
{
    struct figures *all = tt_zalloc(m->c->size, sizeof *all);
    tutti_status st = all ? m->how->exchange(m->how->ctx, &m->end, sizeof m->end, all, m->err)
                          : tt_fail_memory(m->err, "measuring");
    if (!st)
        m->end = all[0];
    free(all);
    return st;
}

tutti_status tt_comm_measure_run(struct measure *m, const struct step *s)
{
    if (s->kind == STEP_BUSY)
        return tell_busy(m);
    if (s->kind == STEP_HOST)
        return tt_comm_host_measure(m->c, (enum tt_host_kind)s->peer, s->bytes, s->rounds, &m->ns,
                                    m->err);
    tutti_status st = perform(m, s);
    if (st || s->from == 0)
        return st;
    struct step answer = {.ns = m->ns};
    st = tt_comm_measure_exchange(m, &answer);
    m->ns = m->all[s->from].ns;
    return st;
}

/* ---- the others ---- */

/* The other ranks: run what rank 0 announces until it announces the end. */
static tutti_status follow(struct measure *m)
{
    struct step none = {.kind = STEP_END};
    tutti_status st = tt_comm_measure_exchange(m, &none);
    while (!st && m->all[0].kind != STEP_END) {
        struct step s = m->all[0];
        st = tt_comm_measure_run(m, &s);
        if (!st)
            st = tt_comm_measure_exchange(m, &none);
    }
    return st;
}

tutti_status tt_comm_measure(struct tt_comm *c, const struct tt_measure *how,
                             struct tutti_error *err)
{
    struct measure m = {.how = how, .c = c, .err = err};
    tt_meter_busy_now(&m.since);
    m.all = tt_zalloc(c->size, sizeof *m.all);
    m.busy = tt_zalloc(c->size, sizeof *m.busy);
    m.end.report = c->config.report;
    m.data = tt_zalloc(TT_MEASURE_BYTES, 1);
    tutti_status st = m.all && m.busy && m.data ? TUTTI_OK : tt_fail_memory(err, "measuring");
    if (!st)
        st = c->rank == 0 ? tt_comm_measure_lead(&m) : follow(&m);
    if (!st)
        st = measure_conclude(&m);
    if (!st) {
        c->speeds = m.end.speeds;
        c->config.report = m.end.report;
    }
    forget_pair(&m);
    free(m.all);
    free(m.busy);
    free(m.data);
    return st;
}
