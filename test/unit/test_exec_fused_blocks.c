/* Fused reduce-scatter and all-gather between real processes: blocks of many lengths, some empty, apart and in place both ways, through
 * boxes, heaps, the kernel and windows, mixed with all-reduces that use the same windows; ranks that come late; and what the others are
 * told when one differs or leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "exec/fused.h"
#include "local_ranks.h"

enum { STAGE = 256, STREAM = 24 << 10, MOST = 60000 };
static const uint64_t SECOND = 1000000000;

/* Where vectors lie, and what the kernel allows. */
enum way { WINDOWS, KERNEL, HEAP, MIXED, WAYS };

static void forbid_reading(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = countof(code), .filter = code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

struct setup {
    struct tt_direct *d;
    struct tt_fused *f;
    int32_t *a, *b; /* of MOST elements and one more */
};

static int32_t *take(struct tt_direct *d, bool heap)
{
    size_t bytes = (MOST + 1) * sizeof(int32_t);
    int32_t *p = heap ? tt_direct_heap_alloc(d, bytes) : malloc(bytes);
    CHECK(p);
    return p;
}

/* False: this machine does not let processes read each other, and without that the way does not exist. */
static bool set_up(struct setup *s, uint32_t me, uint32_t n, void *region, enum way way)
{
    struct tt_direct_config c = {.nlocal = n,
                                 .me = me,
                                 .region = region,
                                 .stage_bytes = STAGE,
                                 .stream_bytes = way == KERNEL ? 0 : STREAM,
                                 .heap_bytes = way == HEAP || way == MIXED ? 64 << 20 : SIZE_MAX,
                                 .let_read = true,
                                 .deadline_ns = tt_now_ns() + 30 * SECOND};
    struct tutti_error err;
    if (way == WINDOWS)
        forbid_reading();
    CHECK(tt_direct_open(&c, &s->d, &err) == TUTTI_OK);
    CHECK(tt_fused_make(s->d, &s->f, &err) == TUTTI_OK);
    CHECK(way != WINDOWS || !tt_direct_can_read(s->d));
    bool heap = way == HEAP || (way == MIXED && me % 2);
    s->a = take(s->d, heap);
    s->b = take(s->d, heap);
    return tt_direct_can_read(s->d) || tt_fused_can_stream(s->f);
}

static void tear_down(struct setup *s)
{
    tt_fused_free(s->f);
    tt_direct_close(s->d);
}

static int32_t input(uint32_t rank, uint32_t turn, size_t i)
{
    return (int32_t)((rank + 1) * 1000003u + turn * 7919u + (uint32_t)i * 31u);
}

static int32_t sum(uint32_t n, uint32_t turn, size_t i)
{
    uint32_t s = 0;
    for (uint32_t r = 0; r < n; r++)
        s += (uint32_t)input(r, turn, i);
    return (int32_t)s;
}

static void run(const struct setup *s, struct tt_fused_op *op, uint32_t turn)
{
    struct tt_direct_blame blame;
    tutti_status st;
    CHECK(tt_fused_fits(s->f, op));
    tt_fused_begin(s->f, op);
    while ((st = tt_fused_step(s->f, op, turn % 8 ? tt_now_ns() + SECOND : 0, &blame)) == TUTTI_IN_PROGRESS)
        ;
    CHECK(st == TUTTI_OK);
}

/* Lengths of turn t: even or not, short or long, some of them zero. Returns the start of rank me's block. */
static size_t cut(uint32_t n, uint32_t me, uint32_t turn, size_t *counts)
{
    static const size_t scales[] = {1, 7, 100, 1000, 4096, 9999};
    size_t before = 0;
    for (uint32_t r = 0; r < n; r++) {
        size_t k = turn % 4 == 0 ? 1 : (r + turn) % 3;
        counts[r] = k * scales[turn / 2 % countof(scales)] / (k > 1 ? 3 : 1);
        before += r < me ? counts[r] : 0;
    }
    return before;
}

struct turn {
    const struct setup *s;
    uint32_t me, n, number;
    size_t counts[RANKS_MAX], before, total;
};

static void one_scatter(const struct turn *t, int how)
{
    int32_t *in = t->s->a, *out = how == 0 ? t->s->b : how == 1 ? in : in + t->before, *mine = how == 1 ? in + t->before : out;
    for (size_t i = 0; i < t->total; i++)
        in[i] = input(t->me, t->number, i);
    in[t->total] = 77;
    struct tt_fused_op op = {.coll = TUTTI_REDUCE_SCATTER, .in = in, .out = out, .counts = t->counts, .dtype = TUTTI_I32};
    op.fingerprint = t->number + 1;
    op.redop = TUTTI_SUM;
    run(t->s, &op, t->number);
    for (size_t i = 0; i < t->counts[t->me]; i++)
        CHECK(mine[i] == sum(t->n, t->number, t->before + i));
    for (size_t i = 0; i < t->total; i++) /* nothing else was touched */
        CHECK((how && i >= t->before && i < t->before + t->counts[t->me]) || in[i] == input(t->me, t->number, i));
    CHECK(in[t->total] == 77);
}

static void one_gather(const struct turn *t, int how)
{
    int32_t *out = t->s->a, *in = how == 0 ? t->s->b : how == 1 ? out : out + t->before, *mine = how == 1 ? out + t->before : in;
    memset(out, 0, (t->total + 1) * sizeof *out);
    for (size_t i = 0; i < t->counts[t->me]; i++)
        mine[i] = input(t->me, t->number, i);
    struct tt_fused_op op = {.coll = TUTTI_ALL_GATHER, .in = in, .out = out, .counts = t->counts, .dtype = TUTTI_I32};
    op.fingerprint = t->number + 2;
    run(t->s, &op, t->number);
    for (size_t r = 0, at = 0; r < t->n; r++)
        for (size_t i = 0; i < t->counts[r]; i++)
            CHECK(out[at++] == input((uint32_t)r, t->number, i));
    CHECK(out[t->total] == 0);
}

/* Uses the windows too: what is left in them must be left alone as long as somebody reads it. */
static void one_allreduce(const struct turn *t)
{
    size_t count = t->number % 3 * 9000 + 5;
    for (size_t i = 0; i < count; i++)
        t->s->a[i] = input(t->me, t->number, i);
    struct tt_fused_op op = {.in = t->s->a, .out = t->s->b, .count = count, .dtype = TUTTI_I32, .fingerprint = t->number};
    op.redop = TUTTI_SUM;
    run(t->s, &op, t->number);
    for (size_t i = 0; i < count; i++)
        CHECK(t->s->b[i] == sum(t->n, t->number, i));
}

static void many(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct setup s;
    if (!set_up(&s, me, n, region, *(enum way *)arg))
        return;
    for (uint32_t turn = 0; turn < 48; turn++) {
        struct turn t = {.s = &s, .me = me, .n = n, .number = turn};
        t.before = cut(n, me, turn, t.counts);
        size_t all = 0;
        for (uint32_t r = 0; r < n; r++)
            all += t.counts[r];
        if (all == 0)
            continue;
        t.total = all;
        if (turn % (n + 1) == me)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        one_scatter(&t, (int)(turn % 3));
        if (turn % 5 == 0)
            one_allreduce(&t);
        one_gather(&t, (int)((turn + me) % 3));
    }
    tear_down(&s);
}

static void test_ways(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++)
        for (uint32_t n = 2; n <= (way == WINDOWS ? 4 : 3); n++)
            assert_int_equal(run_processes(n, tt_direct_bytes(n, STAGE, STREAM), many, &way), 0);
}

/* ---- what does not fit ---- */

static void fits(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct setup s;
    size_t counts[] = {10, 20, 30}, in, out;
    (void)arg;
    set_up(&s, me, n, region, HEAP);
    struct tt_fused_op op = {.coll = TUTTI_REDUCE_SCATTER, .in = s.a, .out = s.b, .counts = counts, .dtype = TUTTI_I32};
    tt_fused_elems(s.f, &op, &in, &out);
    CHECK(in == 60 && out == counts[me]);
    CHECK(tt_fused_fits(s.f, &op));
    op.out = s.a + (me == 0 ? 0 : me == 1 ? 10 : 30);
    CHECK(tt_fused_fits(s.f, &op));
    op.out = s.a + 11;
    CHECK(!tt_fused_fits(s.f, &op));
    op = (struct tt_fused_op){.coll = TUTTI_ALL_GATHER, .in = s.a + 59, .out = s.a, .count = 20, .dtype = TUTTI_I32};
    tt_fused_elems(s.f, &op, &in, &out);
    CHECK(in == 20 && out == 60);
    CHECK(!tt_fused_fits(s.f, &op));
    op.in = s.a + 60;
    CHECK(tt_fused_fits(s.f, &op));
    tear_down(&s);
}

static void test_fits(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, tt_direct_bytes(3, STAGE, STREAM), fits, NULL), 0);
}

/* ---- what goes wrong ---- */

/* Rank 1 calls something else; then, in another job, it aborts while the others wait for it. */
static void wrong(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct setup s;
    struct tt_direct_blame blame = {.peer = UINT32_MAX};
    bool differs = *(int *)arg / 2, gather = *(int *)arg % 2;
    set_up(&s, me, n, region, HEAP);
    struct tt_fused_op op = {.coll = gather ? TUTTI_ALL_GATHER : TUTTI_REDUCE_SCATTER, .in = s.a, .out = s.b, .count = 5000};
    op.fingerprint = differs && me == 1 ? 5 : 4;
    if (!differs && me == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        tt_direct_quit(s.d);
    } else {
        tt_fused_begin(s.f, &op);
        tutti_status st = tt_fused_step(s.f, &op, tt_now_ns() + 30 * SECOND, &blame);
        CHECK(st == (differs ? TUTTI_ERR_DIFFERS : TUTTI_ERR_ABORTED));
        CHECK(blame.peer == (me == 1 ? 0 : 1));
    }
    tear_down(&s);
}

static void test_wrong(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++)
        assert_int_equal(run_processes(3, tt_direct_bytes(3, STAGE, STREAM), wrong, &what), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways), cmocka_unit_test(test_fits), cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
