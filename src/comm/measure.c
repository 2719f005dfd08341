/* measure.c - alpha, beta and gamma: ping-pong between two ranks of one host and between rank 0 and
 * a rank of another host.
 *
 * Rank 0 directs: it sends all ranks the next step (rounds and bytes), all run it, and its duration
 * decides about the following one, so that a slow network is not measured longer than a fast one.
 * Each kind of link may take SHARE_NS, after a first round of any length. Ranks that take no part
 * run the same requests, empty for them, since all ranks must number their requests alike.
 *
 *     rank 0   step 8 B x 1  there/back  step 8 B x 19  there/back ... step 1 MiB x 2 ... end
 *     partner  ask           there/back  ask            there/back ... ask            ... ask
 *     others   ask           (empty)     ask            (empty)    ... ask            ... ask
 *
 * The figures are kept for the next opening (speeds.c). Kept figures are used unless the first
 * rounds show that they were measured on a machine that was busy then. At the end all ranks report
 * the CPU use of themselves and their machines (busy.c): figures of a busy machine are marked, and
 * soon measured again. Only the amount of work is compiled in. */
#include <assert.h>
#include <stdlib.h>

#include "comm/comm_int.h"

enum {
    SMALL_BYTES = 8,
    SMALL_ROUNDS = 19,
    CHECK_ROUNDS = 4,
    BURST = 16,
    FIRST_BYTES = 4 << 10,
    GROWTH = 4,
    LARGE_BYTES = 1 << 20,
    ROW = 4,
    TRIES = 4,
    HOST_BYTES = 64 << 20,
    HOST_MIN = 6 << 20,
    HOST_MAX = 16 << 20,
    HOST_GROUPS = 4
};
static const uint64_t SHARE_NS = 90000000;
/* A busy machine may take many times as long for the rounds inside a host. After HOST_LATE_NS the
 * number of groups falls to one, after HOST_END_NS to a single round. */
static const uint64_t HOST_LATE_NS = 400000000, HOST_END_NS = 1000000000;

enum step_kind { STEP_RALLY, STEP_BURST, STEP_HOST, STEP_BUSY, STEP_END };
struct step { /* sent by all to all, so it is short; rank 0's counts */
    uint64_t bytes;
    uint64_t ns; /* the result of rank `from` */
    uint32_t kind, from, peer, rounds;
};
struct figures { /* sent after END */
    struct tt_speeds speeds;
    uint32_t report, pad; /* rank 0 wants a report at the end */
};

struct measure {
    const struct tt_measure *how;
    struct tt_comm *c;
    struct step *all;
    struct tt_busy *busy; /* of all ranks, after BUSY */
    struct figures end;
    char *data;
    uint32_t from, peer; /* the pair that the schedules are for */
    struct tt_sched *there, *back;
    uint64_t ns; /* best round of the last step */
    struct tt_busy since;
    struct tutti_error *err;
};

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

static tutti_status measure_exchange(struct measure *m, const struct step *mine)
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

/* Runs a step that all ranks know. Afterwards rank 0 has its duration in m->ns, even if rank `from`
 * timed it. */
static tutti_status run_step(struct measure *m, const struct step *s)
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
    st = measure_exchange(m, &answer);
    m->ns = m->all[s->from].ns;
    return st;
}

/* ---- rank 0 ---- */

struct pair {
    uint32_t from, peer;
};

/* Announces a step to all ranks and runs it. */
static tutti_status measure_step(struct measure *m, enum step_kind kind, struct pair with,
                                 uint64_t bytes, uint64_t rounds)
{
    struct step s = {.kind = kind,
                     .from = with.from,
                     .peer = with.peer,
                     .bytes = bytes,
                     .rounds = (uint32_t)rounds};
    tutti_status st = measure_exchange(m, &s);
    return st ? st : run_step(m, &s);
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Round trip of a short message; the first round tells for how many more there is time. */
static tutti_status small(struct measure *m, struct pair with, uint64_t *ret_ns)
{
    tutti_status st = measure_step(m, STEP_RALLY, with, SMALL_BYTES, 1);
    uint64_t first = m->ns, more = st ? 0 : at_most(SMALL_ROUNDS, SHARE_NS / 4 / (first + 1));
    if (more)
        st = measure_step(m, STEP_RALLY, with, SMALL_BYTES, more);
    *ret_ns = st ? 0 : at_most(first, m->ns);
    return st;
}

/* Sends one message of this length, then several in a row, and computes what each further one
 * takes. A traffic shaper lets a first burst through at once, which makes a single message look too
 * fast; the difference does not contain that. The best of several tries counts, as time allows,
 * since other processes may have used the core. Zero: there was no time for any. */
static tutti_status row(struct measure *m, struct pair with, uint64_t bytes, uint64_t round_ns,
                        uint64_t *ret_ns)
{
    uint64_t more = at_most(ROW, SHARE_NS / (round_ns + 1)), best = UINT64_MAX,
             end = tt_now_ns() + SHARE_NS / 2;
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && more >= 2 && i < TRIES && (!i || tt_now_ns() < end); i++) {
        st = measure_step(m, STEP_BURST, with, bytes, 1);
        uint64_t one = m->ns;
        if (!st)
            st = measure_step(m, STEP_BURST, with, bytes, more);
        if (!st && m->ns * more > one)
            best = at_most(best, (m->ns * more - one) / (more - 1));
    }
    *ret_ns = best == UINT64_MAX ? 0 : best;
    return st;
}

/* Tries longer messages as long as the next length would not take too long. *ret_bytes per *ret_ns
 * is the rate one way, with the short message's time subtracted. */
static tutti_status large(struct measure *m, struct pair with, uint64_t small_ns,
                          uint64_t *ret_bytes, uint64_t *ret_ns)
{
    uint64_t bytes = FIRST_BYTES, net = 1, further = 0;
    tutti_status st = measure_step(m, STEP_RALLY, with, bytes, 1);
    while (!st) {
        net = m->ns > small_ns ? m->ns - small_ns : 1;
        uint64_t next = small_ns + net * GROWTH;
        if (bytes == LARGE_BYTES || next > SHARE_NS / 2)
            break;
        bytes *= GROWTH;
        st = measure_step(m, STEP_RALLY, with, bytes, next > SHARE_NS / 4 ? 1 : 2);
    }
    if (!st)
        st = row(m, with, bytes, small_ns + net, &further);
    *ret_bytes = bytes;
    *ret_ns = further > net / 2 ? further : net / 2;
    return st;
}

/* Half of a round trip is one way. The host's share of it is at most what each message of a burst
 * takes. */
static tutti_status play(struct measure *m, struct pair with, struct tt_speed *ret)
{
    uint64_t small_ns = 0, each_ns = 0, bytes = 0, ns = 1;
    tutti_status st = small(m, with, &small_ns);
    if (!st)
        st = measure_step(m, STEP_BURST, with, SMALL_BYTES, BURST);
    each_ns = m->ns;
    if (!st)
        st = large(m, with, small_ns, &bytes, &ns);
    if (st)
        return st;
    uint64_t one_way_ps = small_ns * 500;
    ret->bw = (uint64_t)((double)bytes / ((double)(ns + !ns) / 1e9));
    ret->overhead_ps = at_most(each_ns * 1000, one_way_ps);
    ret->latency_ps = one_way_ps - ret->overhead_ps / 2;
    return TUTTI_OK;
}

/* The last length exceeds what the caches hold several times, over all ranks. */
static uint64_t last_bytes(const struct tt_comm *c)
{
    uint64_t share = (uint64_t)HOST_BYTES / c->size / 4096 * 4096;
    return share < HOST_MIN ? HOST_MIN : share > HOST_MAX ? HOST_MAX : share;
}

/* Collectives inside the host, at several lengths; the number of groups falls as time passes. */
static tutti_status host(struct measure *m, struct tt_memory *ret)
{
    static const uint64_t lengths[] = {8, 2 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
    struct tt_memory mem = {.box_bytes = TT_BOX_BYTES, .segment_bytes = TT_SEGMENT_BYTES};
    tutti_status st = TUTTI_OK;
    uint64_t begin = tt_now_ns();
    for (size_t i = 0; !st && i <= countof(lengths); i++) {
        struct tt_memory_point p = {.bytes = i < countof(lengths) ? lengths[i] : last_bytes(m->c)};
        uint64_t *ps[] = {&p.move_ps, &p.own_ps, &p.box_ps};
        for (uint32_t kind = TT_HOST_MOVE; !st && kind <= TT_HOST_BOX; kind++) {
            if (kind == TT_HOST_BOX && p.bytes > TT_BOX_BYTES)
                continue;
            uint64_t ns = tt_now_ns() - begin;
            st = measure_step(m, STEP_HOST, (struct pair){.peer = kind}, p.bytes,
                              ns > HOST_END_NS    ? 0
                              : ns > HOST_LATE_NS ? 1
                                                  : HOST_GROUPS);
            *ps[kind] = m->ns;
        }
        mem.point[mem.npoints++] = p;
    }
    *ret = mem;
    return st;
}

/* Femtoseconds per byte of a sum of two float vectors; the best of three; 0: no memory. */
static uint64_t measure_gamma(void)
{
    enum { N = 1 << 16 };
    float *a = tt_zalloc(N, sizeof *a), *b = tt_zalloc(N, sizeof *b);
    uint64_t best = UINT64_MAX;
    for (int i = 0; a && b && i < 3; i++) {
        uint64_t t0 = tt_now_ns();
        tt_kernel_reduce_two(TUTTI_F32, TUTTI_SUM, a, a, b, N);
        best = at_most(tt_now_ns() - t0, best);
    }
    free(a);
    free(b);
    return best == UINT64_MAX ? 0 : best * 1000000 / (N * sizeof *a);
}

static bool same_host(const struct tt_comm *c, uint32_t a, uint32_t b)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    bool apart = tt_comm_apart(&c->config);
    return !apart && peers[c->members[a]].host_id == peers[c->members[b]].host_id;
}

/* The first two ranks that share a host; false: none do. */
static bool local_pair(const struct tt_comm *c, struct pair *ret)
{
    for (uint32_t b = 1; b < c->size; b++)
        for (uint32_t a = 0; a < b; a++)
            if (same_host(c, a, b)) {
                *ret = (struct pair){a, b};
                return true;
            }
    return false;
}

/* Rank 0 and the first rank of another host; false: there is none. */
static bool remote_pair(const struct tt_comm *c, struct pair *ret)
{
    for (uint32_t r = 1; r < c->size; r++)
        if (!same_host(c, 0, r)) {
            *ret = (struct pair){0, r};
            return true;
        }
    return false;
}

/* Is a short message now at least twice as fast as the kept figure? Then the figure was measured on
 * a busy machine. (A slower one proves nothing: this may be the busy moment.) */
static tutti_status outdated(struct measure *m, struct pair with, const struct tt_speed *kept,
                             bool *ret)
{
    tutti_status st = measure_step(m, STEP_RALLY, with, SMALL_BYTES, CHECK_ROUNDS);
    if (!st && m->ns * 1000 < kept->latency_ps + kept->overhead_ps / 2)
        *ret = true;
    return st;
}

/* The share of the cores that other processes used since the measurement began. */
static tutti_status measure_judge(struct measure *m, uint64_t *ret_taken)
{
    tutti_status st = measure_step(m, STEP_BUSY, (struct pair){0, 0}, 0, 1);
    if (!st)
        *ret_taken = tt_meter_busy_taken(m->busy, m->c->size);
    return st;
}

/* Rank 0: uses the kept figures if they are still plausible, else measures, and ends with
 * STEP_END. */
static tutti_status lead(struct measure *m)
{
    struct tt_comm *c = m->c;
    struct step end = {.kind = STEP_END};
    struct tt_speeds *s = &m->end.speeds;
    struct pair with[2] = {{0}};
    bool there_is[2] = {local_pair(c, &with[0]), remote_pair(c, &with[1])};
    struct tt_speed *of[2] = {&s->shm, &s->tcp};
    uint64_t key = tt_comm_speeds_key(c);
    bool fresh = m->how->again || !tt_meter_speeds_load(key, s);
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && !fresh && i < 2; i++)
        if (there_is[i])
            st = outdated(m, with[i], of[i], &fresh);
    if (fresh)
        *s = (struct tt_speeds){.gamma_fs = measure_gamma()};
    for (int i = 0; !st && fresh && i < 2; i++)
        if (there_is[i])
            st = play(m, with[i], of[i]);
    if (!st && fresh && c->size > 1 && c->wire.one_host && c->size <= TT_WHOLE_RANKS)
        st = host(m, &s->memory);
    if (!st && fresh && c->size > 1)
        st = measure_judge(m, &s->taken);
    if (!st && fresh && c->size > 1)
        tt_meter_speeds_save(key, s);
    return st ? st : measure_exchange(m, &end);
}

/* ---- the others ---- */

/* The other ranks: run what rank 0 announces until it announces the end. */
static tutti_status follow(struct measure *m)
{
    struct step none = {.kind = STEP_END};
    tutti_status st = measure_exchange(m, &none);
    while (!st && m->all[0].kind != STEP_END) {
        struct step s = m->all[0];
        st = run_step(m, &s);
        if (!st)
            st = measure_exchange(m, &none);
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
    m.data = tt_zalloc(LARGE_BYTES, 1);
    tutti_status st = m.all && m.busy && m.data ? TUTTI_OK : tt_fail_memory(err, "measuring");
    if (!st)
        st = c->rank == 0 ? lead(&m) : follow(&m);
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
