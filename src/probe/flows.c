/* flows.c - measures a round of flows. All ranks run them together; afterwards all ranks know
 * every sender's time and rank 0's clock.
 *
 * A whole is TT_PROBE_ROW parts. The rate of a flow is (whole - part) bytes / (time of the whole
 * - time of the part), each time the best of some tries. On a busy machine the part may have
 * been disturbed in every try, which makes the difference too short. The rate is therefore at
 * most the whole divided by its own time less an idle round trip; a burst makes that too fast by
 * less than one part of the whole. Tries end when the second best times confirm the best ones.
 *
 *     time  |            .  whole     slope = rate; a burst lowers both points, latency raises both
 *           |      . ^ part
 *           |. idle
 *           +-------------------- bytes */
#include "probe/probe_int.h"

#include <string.h>

enum { SMALL_BYTES = 8, SMALL_ROUNDS = 20, FIRST_BYTES = 64 << 10 };

struct tt_probe_flow *tt_probe_flow(const struct tt_probing *m, size_t i)
{
    return tt_vec_at(&m->flows, i);
}

struct tt_probe_flow *tt_probe_add(struct tt_probing *m, uint32_t from, uint32_t to, uint64_t guess)
{
    return tt_vec_push(&m->flows,
                       &(struct tt_probe_flow){
                           .from = from, .to = to, .guess = guess + !guess, .idle_ns = m->idle_ns},
                       1);
}

bool tt_probe_time_left(const struct tt_probing *m, unsigned percent)
{
    return m->used_ns < m->budget_ns / 100 * percent;
}

/* Fills `wire` with the flows in comm's form, and makes room for the answers: one per flow, one
 * clock. */
static tutti_status flows_put(struct tt_probing *m)
{
    m->wire.len = m->answer.len = 0;
    for (size_t i = 0; i < m->flows.len; i++) {
        const struct tt_probe_flow *f = tt_probe_flow(m, i);
        if (!tt_vec_push(&m->wire,
                         &(struct tt_comm_flow){
                             .from = f->from, .to = f->to, .bytes = f->bytes, .pulled = f->pulled},
                         1))
            return tt_fail_memory(m->err, "flows");
    }
    return tt_vec_push(&m->answer, NULL, m->flows.len + 1) ? TUTTI_OK
                                                           : tt_fail_memory(m->err, "flows");
}

/* Runs the flows with their `bytes` and sets their ns. Collective; afterwards every rank has the
 * same figures, so that all take the same decisions. */
static tutti_status flows_step(struct tt_probing *m, uint32_t rounds)
{
    size_t n = m->flows.len;
    tutti_status st = flows_put(m);
    if (st)
        return st;
    int64_t *ns = m->answer.data;
    struct tt_flow_set set = {
        .flows = m->wire.data, .n = (uint32_t)n, .rounds = rounds, .data = m->data};
    st = tt_comm_flows(m->c, &set, m->answer.data, m->err);
    if (st)
        return st;
    /* Only the end that timed a flow has its time, all other ranks have 0: the maximum is that
     * time. The last element carries rank 0's clock. */
    ns[n] = tt_comm_rank(m->c) == 0 ? (int64_t)(tt_now_ns() - m->began_ns) : 0;
    st = tt_comm_run(m->c, &(struct tt_call){.coll = TUTTI_ALLREDUCE,
                                             .in = ns,
                                             .out = ns,
                                             .count = n + 1,
                                             .dtype = TUTTI_I64,
                                             .redop = TUTTI_MAX});
    if (st)
        return tt_fail(m->err, st, "%s", tt_comm_last_error(m->c)->text);
    for (size_t i = 0; i < n; i++)
        tt_probe_flow(m, i)->ns = (uint64_t)(ns[i] > 0 ? ns[i] : 1);
    m->used_ns = (uint64_t)ns[n];
    return TUTTI_OK;
}

tutti_status tt_probe_latency(struct tt_probing *m)
{
    for (size_t i = 0; i < m->flows.len; i++)
        tt_probe_flow(m, i)->bytes = SMALL_BYTES;
    return m->flows.len ? flows_step(m, SMALL_ROUNDS) : TUTTI_OK;
}

static uint64_t flows_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes of a part: about TT_PROBE_PART_MS at the guessed rate, within the limits. */
static uint64_t part_of(uint64_t guess)
{
    uint64_t bytes = guess / 1000 * TT_PROBE_PART_MS / 64 * 64;
    return bytes < TT_PROBE_MIN_BYTES ? TT_PROBE_MIN_BYTES : flows_least(bytes, TT_PROBE_MAX_BYTES);
}

/* A first message lowers guesses that are far too high. A burst can only make it look too fast,
 * so the guess never becomes too low. */
static tutti_status correct_guesses(struct tt_probing *m)
{
    for (size_t i = 0; i < m->flows.len; i++)
        tt_probe_flow(m, i)->bytes = FIRST_BYTES;
    tutti_status st = flows_step(m, 1);
    for (size_t i = 0; !st && i < m->flows.len; i++) {
        struct tt_probe_flow *f = tt_probe_flow(m, i);
        uint64_t seen = (uint64_t)((double)FIRST_BYTES * 1e9 / (double)f->ns);
        f->guess = flows_least(f->guess, 2 * seen);
    }
    return st;
}

/* Sets each flow's bytes to so many parts. */
static void lengths(struct tt_probing *m, uint64_t times)
{
    for (size_t i = 0; i < m->flows.len; i++) {
        struct tt_probe_flow *f = tt_probe_flow(m, i);
        f->bytes = part_of(f->guess) * times;
    }
}

/* best[0] and best[1] are the best and second best times of all tries. */
static void flows_note(uint64_t best[2], uint64_t ns)
{
    best[1] = ns < best[0] ? best[0] : flows_least(best[1], ns);
    best[0] = flows_least(best[0], ns);
}

/* The time until the last flow had ended. */
static uint64_t slowest(const struct tt_probing *m)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < m->flows.len; i++)
        ns = tt_probe_flow(m, i)->ns > ns ? tt_probe_flow(m, i)->ns : ns;
    return ns;
}

/* One try: a part, then a whole, of all flows at the same time. */
static tutti_status once(struct tt_probing *m)
{
    lengths(m, 1);
    tutti_status st = flows_step(m, 1);
    for (size_t i = 0; !st && i < m->flows.len; i++)
        flows_note(tt_probe_flow(m, i)->part, tt_probe_flow(m, i)->ns);
    flows_note(m->part, st ? UINT64_MAX : slowest(m));
    lengths(m, TT_PROBE_ROW);
    if (!st)
        st = flows_step(m, 1);
    for (size_t i = 0; !st && i < m->flows.len; i++)
        flows_note(tt_probe_flow(m, i)->whole, tt_probe_flow(m, i)->ns);
    flows_note(m->whole, st ? UINT64_MAX : slowest(m));
    return st;
}

/* Best and second best differ by at most 2 % of the whole: another try would hardly change the
 * rate. */
static bool flows_agree(const uint64_t part[2], const uint64_t whole[2])
{
    uint64_t little = whole[0] / 100 * 2;
    return whole[1] - whole[0] <= little && part[1] - part[0] <= little;
}

static bool all_agree(const struct tt_probing *m)
{
    for (size_t i = 0; i < m->flows.len; i++)
        if (!flows_agree(tt_probe_flow(m, i)->part, tt_probe_flow(m, i)->whole))
            return false;
    return true;
}

/* The slope from part to whole, limited by the whole's own rate (see the top). Never 0. */
static uint64_t rate(uint64_t bytes, uint64_t whole_ns, uint64_t part_ns, uint64_t idle_ns)
{
    double further = (double)bytes / TT_PROBE_ROW * (TT_PROBE_ROW - 1),
           ns = (double)whole_ns - (double)part_ns;
    double own_ns = whole_ns > 2 * idle_ns ? (double)(whole_ns - idle_ns) : (double)whole_ns / 2;
    double most = (double)bytes / own_ns, slope = ns > 0 ? further / ns : most;
    return (uint64_t)((slope < most ? slope : most) * 1e9) + 1;
}

tutti_status tt_probe_rates_again(struct tt_probing *m)
{
    tutti_status st = once(m);
    for (size_t i = 0; !st && i < m->flows.len; i++) {
        struct tt_probe_flow *f = tt_probe_flow(m, i);
        f->bw = rate(f->bytes, f->whole[0], f->part[0], f->idle_ns);
    }
    return st;
}

tutti_status tt_probe_rates_once(struct tt_probing *m)
{
    for (size_t i = 0; i < m->flows.len; i++) {
        struct tt_probe_flow *f = tt_probe_flow(m, i);
        f->part[0] = f->part[1] = f->whole[0] = f->whole[1] = UINT64_MAX;
    }
    m->part[0] = m->part[1] = m->whole[0] = m->whole[1] = UINT64_MAX;
    return tt_probe_rates_again(m);
}

tutti_status tt_probe_rates(struct tt_probing *m, bool guesses)
{
    if (!m->flows.len)
        return TUTTI_OK;
    tutti_status st = guesses ? correct_guesses(m) : TUTTI_OK;
    /* At least two tries, since one cannot confirm itself. */
    for (int k = 0; !st && k < TT_PROBE_TRIES &&
                    (k < 2 || (!all_agree(m) && (!m->until_ns || m->used_ns < m->until_ns)));
         k++)
        st = k ? tt_probe_rates_again(m) : tt_probe_rates_once(m);
    return st;
}

/* The aggregate counts until the last flow ends, so the times of the slowest flow are compared. */
tutti_status tt_probe_joint(struct tt_probing *m, uint64_t *ret_bw)
{
    uint64_t bytes = 0, idle = UINT64_MAX;
    tutti_status st = TUTTI_OK;
    for (int k = 0; !st && k < TT_PROBE_TRIES && (k < 2 || !flows_agree(m->part, m->whole)); k++)
        st = k ? tt_probe_rates_again(m) : tt_probe_rates_once(m);
    for (size_t i = 0; i < m->flows.len; i++) {
        bytes += tt_probe_flow(m, i)->bytes;
        idle = flows_least(idle, tt_probe_flow(m, i)->idle_ns);
    }
    if (!st)
        *ret_bw = rate(bytes, m->whole[0], m->part[0], idle);
    return st;
}

uint64_t tt_probe_last_rate(const struct tt_probe_flow *f)
{
    return rate(f->bytes, f->ns, f->part[0], f->idle_ns);
}
