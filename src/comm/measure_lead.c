/* measure_lead.c - rank 0: chooses the steps of a measurement by the times of those before, so that
 * a slow network is not measured longer than a fast one (measure.c draws them and carries them
 * out).
 *
 * Each kind of link may take SHARE_NS, after a first round of any length. Figures of an earlier job
 * are used unless the first rounds show that they were taken on a machine that was busy then. Only
 * the amount of work is compiled in. */
#include <stdlib.h>

#include "comm/measure.h"

enum {
    SMALL_BYTES = 8,
    SMALL_ROUNDS = 19,
    CHECK_ROUNDS = 4,
    BURST = 16,
    FIRST_BYTES = 4 << 10,
    GROWTH = 4,
    ROW = 4,
    TRIES = 4,
    HOST_BYTES = 64 << 20,
    HOST_MIN = 6 << 20,
    HOST_MAX = 16 << 20,
    HOST_GROUPS = 4,
    HOST_FEWEST = 3
};
static const uint64_t SHARE_NS = 90000000;
/* A busy machine may take many times as long for the rounds inside a host. After HOST_LATE_NS the
 * number of groups falls to one, after HOST_END_NS to a single round; but the last length, which
 * stands for all that are longer, has HOST_FEWEST groups (of one round each) in any case. */
static const uint64_t HOST_LATE_NS = 400000000, HOST_END_NS = 1000000000;

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
    tutti_status st = tt_comm_measure_exchange(m, &s);
    return st ? st : tt_comm_measure_run(m, &s);
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
        if (bytes == TT_MEASURE_BYTES || next > SHARE_NS / 2)
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
            uint64_t groups = ns > HOST_END_NS ? 0 : ns > HOST_LATE_NS ? 1 : HOST_GROUPS;
            if (i == countof(lengths) && groups < HOST_FEWEST)
                groups = HOST_FEWEST;
            st = measure_step(m, STEP_HOST, (struct pair){.peer = kind}, p.bytes, groups);
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

tutti_status tt_comm_measure_lead(struct measure *m)
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
    return st ? st : tt_comm_measure_exchange(m, &end);
}
