/* test_exec_threads.c - ranks as threads over shared memory and over sockets: the real transports, real concurrency, and no allocation
 * between start and completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "count_allocations.h"
#include "exec_case.h"

enum { TEAM = 6, JOBS = 10, AHEAD = 3, RING = 512 << 10, STRIPES = 2 };

/* ---- a team ---- */

struct team {
    uint32_t n;
    void *region;
    size_t region_bytes;
    struct tt_transport *transport[TEAM];
    struct tt_engine *engine[TEAM];
    struct tt_context *context[TEAM];
    struct exec_job *jobs;
    unsigned rounds;
};
struct member {
    struct team *team;
    uint32_t rank;
    unsigned allocations;
    bool failed;
};

static void open_shm(struct team *t)
{
    struct tutti_error err;
    uint32_t local[TEAM];
    t->region_bytes = tt_shm_bytes(t->n, RING);
    t->region = mmap(NULL, t->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(t->region != MAP_FAILED);
    for (uint32_t r = 0; r < t->n; r++)
        local[r] = r;
    for (uint32_t r = 0; r < t->n; r++) {
        struct tt_shm_config c = {.rank = r,
                                  .size = t->n,
                                  .nlocal = t->n,
                                  .me = r,
                                  .local = local,
                                  .region = t->region,
                                  .ring_bytes = RING,
                                  .oversubscribed = true};
        assert_int_equal(tt_shm_open(&c, &t->transport[r], &err), TUTTI_OK);
    }
}

static void open_tcp(struct team *t)
{
    struct tutti_error err;
    int fds[TEAM][STRIPES * TEAM];
    memset(fds, -1, sizeof fds);
    for (uint32_t k = 0; k < STRIPES; k++)
        for (uint32_t a = 0; a < t->n; a++)
            for (uint32_t b = a + 1; b < t->n; b++) {
                int two[2];
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
                fds[a][k * t->n + b] = two[0];
                fds[b][k * t->n + a] = two[1];
            }
    for (uint32_t r = 0; r < t->n; r++) {
        struct tt_tcp_config c = {.rank = r, .size = t->n, .stripes = STRIPES, .fds = fds[r]};
        assert_int_equal(tt_tcp_open(&c, &t->transport[r], &err), TUTTI_OK);
    }
}

static void begin(struct member *m, uint32_t job, uint32_t seq)
{
    struct team *t = m->team;
    struct exec_job *j = &t->jobs[job];
    struct tutti_error err;
    struct tt_start s = {.program = j->program[m->rank], .in = j->in[m->rank], .out = j->out[m->rank], .seq = seq, .fingerprint = seq};
    m->failed = m->failed || tt_exec_context_start(t->context[m->rank], &s, &err) != TUTTI_OK;
}

static void finish(struct member *m, uint32_t job)
{
    struct team *t = m->team;
    struct tt_transport *tr = t->transport[m->rank];
    struct tutti_error err;
    tutti_status st = TUTTI_IN_PROGRESS;
    for (unsigned idle = 0; !m->failed && st == TUTTI_IN_PROGRESS;) {
        idle = tt_exec_engine_progress(t->engine[m->rank]) ? 0 : idle + 1;
        st = tt_exec_engine_test(t->engine[m->rank], t->jobs[job].program[m->rank], &err);
        if (idle > 20)
            tr->ops->wait(tr, tt_now_ns() + 20000000);
        else if (idle)
            sched_yield();
    }
    m->failed = m->failed || st != TUTTI_OK;
}

/* Up to AHEAD requests run at the same time. */
static void *work(void *arg)
{
    struct member *m = arg;
    uint32_t all = JOBS * m->team->rounds;
    for (uint32_t i = 0; i < JOBS; i++)
        m->failed = m->failed || !case_prepare(m->team->context[m->rank], m->team->jobs[i].program[m->rank]);
    watched = 1;
    for (uint32_t i = 0; i < all + AHEAD; i++) {
        if (i >= AHEAD)
            finish(m, (i - AHEAD) % JOBS);
        if (i < all)
            begin(m, i % JOBS, 1 + i);
    }
    watched = 0;
    m->allocations = allocations;
    return NULL;
}

static void run_team(struct team *t)
{
    struct member member[TEAM];
    pthread_t thread[TEAM];
    struct tutti_error err;
    for (uint32_t r = 0; r < t->n; r++) {
        struct tt_engine_config c = {.transport = t->transport[r]};
        assert_int_equal(tt_exec_engine_make(&c, &t->engine[r], &err), TUTTI_OK);
        t->context[r] = case_context(t->engine[r], t->n, r);
    }
    for (uint32_t r = 0; r < t->n; r++) {
        member[r] = (struct member){.team = t, .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, work, &member[r]), 0);
    }
    for (uint32_t r = 0; r < t->n; r++)
        pthread_join(thread[r], NULL);
    for (uint32_t r = 0; r < t->n; r++) {
        assert_false(member[r].failed);
        assert_int_equal(member[r].allocations, 0);
        tt_exec_engine_free(t->engine[r]);
        t->transport[r]->ops->close(t->transport[r]);
    }
    if (t->region)
        munmap(t->region, t->region_bytes);
}

static void run_jobs(uint32_t ranks, void (*open)(struct team *), unsigned rounds)
{
    const struct exec_case cases[JOBS] = {
        {.algo = "oneshot", .ranks = ranks, .count = 2},
        {.algo = "ring", .ranks = ranks, .count = 200003},
        {.algo = "recursive-doubling", .ranks = ranks, .count = 900, .redop = TUTTI_AVG},
        {.algo = "direct", .ranks = ranks, .count = 70001, .redop = TUTTI_MAX},
        {.algo = "oneshot", .coll = TUTTI_BARRIER, .ranks = ranks},
        {.algo = "chain", .coll = TUTTI_BROADCAST, .ranks = ranks, .count = 150001},
        {.algo = "halving-doubling", .coll = TUTTI_REDUCE_SCATTER, .ranks = ranks, .count = 50001, .blocks = true},
        {.algo = "circulant", .coll = TUTTI_ALL_GATHER, .ranks = ranks, .count = 90001},
        {.algo = "direct", .coll = TUTTI_ALL_TO_ALL, .ranks = ranks, .count = 40001, .dtype = TUTTI_BF16},
        {.algo = "binomial", .coll = TUTTI_REDUCE, .ranks = ranks, .count = 30001, .dtype = TUTTI_I64, .root = ranks - 1},
    };
    static struct exec_job jobs[JOBS];
    struct team t = {.n = ranks, .jobs = jobs, .rounds = rounds};
    for (uint32_t i = 0; i < JOBS; i++)
        assert_true(case_make(&cases[i], &jobs[i]));
    open(&t);
    run_team(&t);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_true(case_check(&jobs[i]));
        case_free(&jobs[i]);
    }
}

static void test_shm(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= TEAM; ranks++)
        run_jobs(ranks, open_shm, 4);
}

static void test_tcp(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= TEAM; ranks++)
        run_jobs(ranks, open_tcp, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_allocations),
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
