/* test_sim_packet_naive.c - the packet level against a second implementation of its rules (packet.h) that shares nothing with it but the
 * classes of virtual channels: cycle by cycle, every flit an object, every buffer and every credit looked at in every cycle. Random
 * messages that start together on networks of one speed; every message must arrive at the same picosecond in both. */
#include "sim_packet_case.h"

enum { CYCLE = 1000, MAX_FLITS = 4096, MAX_LANES = 1024, MAX_MSGS = 64 };

struct flit {
    uint32_t msg, hop;
    bool head, tail;
    uint64_t ready;
};
struct lane {
    struct flit q[MAX_FLITS];
    uint32_t head, len;
    uint64_t credit[MAX_FLITS]; /* when each is at the sender */
    uint32_t ncredits;
    uint64_t next;  /* cycle of the next flit at the earliest */
    int owner, out; /* lane that holds this channel; channel that its first packet holds (-2: ejection); -1: none */
};
struct naive {
    const struct tt_work *w;
    uint8_t *class;
    uint32_t vcs, classes, buffer, latency, nlinks2, ends, nlanes;
    struct lane *lane;
    uint32_t turn[MAX_LANES];
    uint64_t port_free[MAX_LANES];
    uint32_t packets[MAX_MSGS];
    uint64_t arrival[MAX_MSGS], left_at[MAX_MSGS];
    int on[MAX_MSGS]; /* the interface of a message; -1: not yet */
};

static const struct tt_work_conn *conn(const struct naive *n, uint32_t msg)
{
    return &n->w->conn[n->w->msg[msg].conn];
}

static void queue_message(struct naive *n, uint32_t msg, uint32_t lane, uint64_t now, bool message_mode)
{
    struct lane *l = &n->lane[lane];
    uint64_t bytes = tt_sim_work_msg_bytes(n->w, msg, 0), payload = message_mode ? bytes + 1 : 256;
    n->on[msg] = (int)lane;
    n->packets[msg] = 0;
    do {
        uint64_t part = bytes < payload ? bytes : payload;
        uint64_t flits = (part + 15) / 16;
        bytes -= part;
        n->packets[msg]++;
        for (uint64_t k = 0; k <= flits; k++) {
            assert_true(l->len < MAX_FLITS);
            l->q[(l->head + l->len++) % MAX_FLITS] = (struct flit){msg, 0, k == 0, k == flits, now};
        }
    } while (bytes);
}

/* Idle interfaces take the messages of lowest number. */
static void fill(struct naive *n, uint32_t rank, uint64_t now, bool mode)
{
    for (uint32_t m = 0; m < n->w->nmsgs; m++)
        for (uint32_t k = 0; k < n->ends && n->on[m] < 0 && conn(n, m)->src == rank; k++) {
            uint32_t lane = n->nlinks2 * n->vcs + rank * n->ends + k;
            if (n->lane[lane].owner != -1)
                continue;
            n->lane[lane].owner = (int)m; /* busy */
            queue_message(n, m, lane, now, mode);
        }
}

/* Interfaces whose message has left are free, one after the other by the number of that message. */
static void dispatch(struct naive *n, uint64_t now, bool mode)
{
    for (uint32_t r = 0; now == 0 && r < n->w->t->ranks; r++)
        fill(n, r, now, mode);
    for (uint32_t m = 0; m < n->w->nmsgs; m++)
        if (n->on[m] >= 0 && n->left_at[m] == now && now > 0) {
            n->lane[n->on[m]].owner = -1;
            fill(n, conn(n, m)->src, now, mode);
        }
}

static uint32_t port_of(const struct naive *n, const struct flit *f)
{
    const struct tt_work_conn *c = conn(n, f->msg);
    if (f->hop < c->nlinks)
        return n->w->path[c->path_at + f->hop];
    const struct tt_graph *g = &n->w->t->g;
    for (uint32_t i = g->start[c->dst]; i < g->start[c->dst + 1]; i++)
        if (g->id[i] == (n->w->path[c->path_at + c->nlinks - 1] ^ 1))
            return n->nlinks2 + c->dst * n->ends + i - g->start[c->dst];
    fail();
    return 0;
}

static bool has_credit(const struct lane *l, uint64_t now)
{
    return l->ncredits && l->credit[0] <= now;
}

/* The channel by which the lane's first flit could leave now: -1 none, -2 ejection. */
static int channel(const struct naive *n, const struct lane *l, uint64_t now)
{
    const struct flit *f = &l->q[l->head];
    const struct tt_work_conn *c = conn(n, f->msg);
    if (f->hop == c->nlinks)
        return -2;
    if (!f->head)
        return has_credit(&n->lane[l->out], now) ? l->out : -1;
    for (uint32_t v = n->class[c->path_at + f->hop]; v < n->vcs; v += n->classes) {
        int out = (int)(n->w->path[c->path_at + f->hop] * n->vcs + v);
        if (n->lane[out].owner < 0 && has_credit(&n->lane[out], now))
            return out;
    }
    return -1;
}

static void move(struct naive *n, uint32_t lane, uint32_t port, uint64_t now)
{
    struct lane *l = &n->lane[lane];
    int out = channel(n, l, now);
    struct flit f = l->q[l->head];
    l->head = (l->head + 1) % MAX_FLITS;
    l->len--;
    l->next = now + 1;
    l->out = out;
    n->turn[port] = lane;
    n->port_free[port] = now + 1;
    if (lane < n->nlinks2 * n->vcs)
        l->credit[l->ncredits++] = now + n->latency + 1;
    else if (f.tail && l->len == 0)
        n->left_at[f.msg] = now + 1;
    if (out == -2) {
        if (f.tail && --n->packets[f.msg] == 0)
            n->arrival[f.msg] = now + 1;
        return;
    }
    struct lane *to = &n->lane[out];
    memmove(to->credit, to->credit + 1, --to->ncredits * sizeof to->credit[0]);
    to->owner = f.tail ? -1 : (int)lane;
    f.hop++;
    f.ready = now + 1 + n->latency + 1;
    to->q[(to->head + to->len++) % MAX_FLITS] = f;
}

/* One cycle: all ports decide on what was there when it began, then everything moves. */
static void cycle(struct naive *n, uint64_t now)
{
    uint32_t nports = n->nlinks2 + n->w->t->ranks * n->ends;
    static uint32_t winner[MAX_LANES];
    static uint64_t best[MAX_LANES];
    for (uint32_t p = 0; p < nports; p++)
        best[p] = UINT64_MAX;
    for (uint32_t i = 0; i < n->nlanes; i++) {
        const struct lane *l = &n->lane[i];
        if (!l->len || l->q[l->head].ready > now || l->next > now || channel(n, l, now) == -1)
            continue;
        uint32_t p = port_of(n, &l->q[l->head]);
        uint64_t turn = i > n->turn[p] ? i : i + n->nlanes;
        if (n->port_free[p] <= now && turn < best[p]) {
            best[p] = turn;
            winner[p] = i;
        }
    }
    for (uint32_t p = 0; p < nports; p++)
        if (best[p] != UINT64_MAX)
            move(n, winner[p], p, now);
}

static void simulate(struct naive *n, bool mode)
{
    for (uint32_t i = 0; i < n->nlanes; i++) {
        struct lane *l = &n->lane[i];
        l->head = l->len = l->ncredits = 0;
        l->next = 0;
        l->owner = l->out = -1;
        for (; i < n->nlinks2 * n->vcs && l->ncredits < n->buffer; l->ncredits++)
            l->credit[l->ncredits] = 0;
    }
    for (uint32_t p = 0; p < MAX_LANES; p++) {
        n->turn[p] = UINT32_MAX;
        n->port_free[p] = 0;
    }
    uint32_t missing = n->w->nmsgs;
    for (uint64_t now = 0; missing; now++) {
        assert_true(now < 10000000);
        dispatch(n, now, mode);
        cycle(n, now);
        missing = 0;
        for (uint32_t m = 0; m < n->w->nmsgs; m++)
            missing += n->arrival[m] == 0;
    }
}

static const char *const specs[] = {"ring:6@16GB/s,%uns",      "torus:4x4@16GB/s,%uns", "mesh:3x3@16GB/s,%uns",
                                    "hypercube:8@16GB/s,%uns", "full:5@16GB/s,%uns",    "torus:5x3@16GB/s,%uns"};

/* Random pairs, each at most once, all in step 0. */
static struct tt_sched *pairs(const struct tt_topo *t, struct tt_rng *rng)
{
    struct sim_case_msg m[MAX_MSGS];
    size_t n = 0, want = 1 + tt_rng_below(rng, MAX_MSGS);
    for (uint32_t tries = 0; tries < 200 && n < want; tries++) {
        uint32_t src = (uint32_t)tt_rng_below(rng, t->ranks), dst = (uint32_t)tt_rng_below(rng, t->ranks);
        bool fresh = src != dst;
        for (size_t i = 0; i < n; i++)
            fresh = fresh && (m[i].src != src || m[i].dst != dst);
        if (fresh) {
            m[n] = (struct sim_case_msg){src, dst, 0, (uint32_t)n};
            n++;
        }
    }
    return sim_sched(t, (uint32_t)n, m, n, false);
}

static void compare(const struct naive *n, const struct tt_sim_report *r, uint64_t seed)
{
    for (size_t i = 0; i < r->ntimeline; i++) {
        uint32_t msg = 0;
        while (conn(n, msg)->src != r->timeline[i].src || conn(n, msg)->dst != r->timeline[i].dst)
            msg++;
        if (n->arrival[msg] * CYCLE != r->timeline[i].end_ps)
            fail_msg("seed %llu: message %u->%u: %llu ps, cycle by cycle %llu", (unsigned long long)seed, r->timeline[i].src,
                     r->timeline[i].dst, (unsigned long long)r->timeline[i].end_ps, (unsigned long long)(n->arrival[msg] * CYCLE));
    }
}

static void one(uint64_t seed, struct lane *lanes)
{
    struct tt_rng rng;
    struct tutti_error err = {0};
    char spec[64];
    tt_rng_seed(&rng, seed);
    uint32_t latency = (uint32_t)tt_rng_below(&rng, 40);
    snprintf(spec, sizeof spec, specs[tt_rng_below(&rng, countof(specs))], latency);
    struct tt_topo *t = topo_of(spec);
    struct tt_sched *s = pairs(t, &rng);
    uint64_t count = s->shape.chunks * (1 + tt_rng_below(&rng, 500));
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .timeline = true};
    o.packet.message_mode = tt_rng_below(&rng, 2);
    o.packet.buffer_flits = 1 + (uint32_t)tt_rng_below(&rng, 60);
    o.packet.vcs = 2 + (uint32_t)tt_rng_below(&rng, 3);
    struct tt_work *w = NULL;
    assert_int_equal(tt_sim_work_make(s, t, count, TUTTI_F32, &w, &err), TUTTI_OK);
    static uint8_t class[1 << 16];
    struct naive n = {.w = w, .class = class, .vcs = o.packet.vcs, .buffer = o.packet.buffer_flits, .latency = latency, .lane = lanes};
    n.nlinks2 = 2 * t->nlinks;
    for (uint32_t r = 0; r < t->ranks; r++)
        n.ends = tt_topo_ports(t, r) > n.ends ? tt_topo_ports(t, r) : n.ends;
    o.packet.interfaces = n.ends;
    n.nlanes = n.nlinks2 * n.vcs + t->ranks * n.ends;
    assert_true(n.nlanes <= MAX_LANES);
    assert_int_equal(tt_sim_net_classes(w, n.nlinks2, class, &n.classes, &err), TUTTI_OK);
    assert_true(n.classes <= n.vcs);
    for (uint32_t m = 0; m < w->nmsgs; m++)
        n.on[m] = -1;
    simulate(&n, o.packet.message_mode);
    struct tt_sim_report *r = sim_run(s, t, count, &o);
    assert_int_equal(r->ntimeline, w->nmsgs);
    compare(&n, r, seed);
    tt_sim_report_free(r);
    tt_sim_work_free(w);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_naive(void **state)
{
    (void)state;
    struct lane *lanes = tt_zalloc(MAX_LANES, sizeof *lanes);
    assert_non_null(lanes);
    const char *more = getenv("TUTTI_NAIVE_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : 60;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        one(seed, lanes);
    free(lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_naive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
