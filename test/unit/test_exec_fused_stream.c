/* Fused all-reduce through windows in shared memory, between real processes whose kernel forbids reading each other: many sizes and types
 * in a row, in place and not, with a window so small that most vectors need many rounds, and ranks that come late. */
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

enum { STAGE = 256, STREAM = 24 << 10, COUNT_MAX = 70000 };
static const uint64_t SECOND = 1000000000;

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

static struct tt_direct *open_direct(uint32_t me, uint32_t n, void *region)
{
    struct tt_direct_config c = {.nlocal = n,
                                 .me = me,
                                 .region = region,
                                 .stage_bytes = STAGE,
                                 .stream_bytes = STREAM,
                                 .heap_bytes = SIZE_MAX,
                                 .deadline_ns = tt_now_ns() + 30 * SECOND};
    struct tt_direct *d;
    struct tutti_error err;
    forbid_reading();
    CHECK(tt_direct_open(&c, &d, &err) == TUTTI_OK);
    CHECK(!tt_direct_can_read(d));
    return d;
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

static void dawdle(uint32_t me, uint32_t n, uint32_t turn)
{
    if (turn % (n + 1) == me)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void one(struct tt_fused *f, uint32_t me, uint32_t n, uint32_t turn, size_t count)
{
    static int32_t in[COUNT_MAX], out[COUNT_MAX + 1];
    bool place = turn % 3 == 0;
    struct tt_direct_blame blame;
    for (size_t i = 0; i < count; i++)
        (place ? out : in)[i] = input(me, turn, i);
    out[count] = 77;
    struct tt_fused_op op = {
        .in = place ? out : in, .out = out, .count = count, .dtype = TUTTI_I32, .redop = TUTTI_SUM, .fingerprint = turn + count};
    dawdle(me, n, turn);
    tt_fused_begin(f, &op);
    tutti_status st;
    while ((st = tt_fused_step(f, &op, turn % 2 ? tt_now_ns() + SECOND : 0, &blame)) == TUTTI_IN_PROGRESS)
        ;
    CHECK(st == TUTTI_OK);
    for (size_t i = 0; i < count; i++)
        CHECK(out[i] == sum(n, turn, i));
    CHECK(out[count] == 77);
}

static void many(uint32_t me, uint32_t n, void *region, void *arg)
{
    static const size_t counts[] = {65, 1, 100, 1023, 4096, 2, 20000, 70000, 64, 66, 6144, 33333};
    struct tt_direct *d = open_direct(me, n, region);
    struct tt_fused *f;
    struct tutti_error err;
    (void)arg;
    CHECK(tt_fused_make(d, &f, &err) == TUTTI_OK);
    CHECK(tt_fused_can_stream(f));
    for (uint32_t turn = 0; turn < 48; turn++)
        one(f, me, n, turn, counts[turn % countof(counts)]);
    tt_fused_free(f);
    tt_direct_close(d);
}

static void test_ranks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 5; n++)
        assert_int_equal(run_processes(n, tt_direct_bytes(n, STAGE, STREAM), many, NULL), 0);
}

/* The others learn at once who differs; nobody's memory was touched. */
static void differs(uint32_t me, uint32_t n, void *region, void *arg)
{
    static int32_t in[1000], out[1000];
    struct tt_direct *d = open_direct(me, n, region);
    struct tt_fused *f;
    struct tutti_error err;
    struct tt_direct_blame blame = {.peer = UINT32_MAX};
    (void)arg;
    CHECK(tt_fused_make(d, &f, &err) == TUTTI_OK);
    struct tt_fused_op op = {.in = in, .out = out, .count = 1000, .dtype = TUTTI_I32, .fingerprint = me == 1 ? 5 : 4};
    tt_fused_begin(f, &op);
    CHECK(tt_fused_step(f, &op, tt_now_ns() + 30 * SECOND, &blame) == TUTTI_ERR_DIFFERS);
    CHECK(blame.peer == (me == 1 ? 0 : 1));
    tt_fused_free(f);
    tt_direct_close(d);
}

static void test_differs(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, tt_direct_bytes(3, STAGE, STREAM), differs, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks), cmocka_unit_test(test_differs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
