/* Direct access between real processes and between threads: boxes (tiny and staged reductions), lanes, abort and deadlines, reading and
 * writing a peer's memory, shared heaps, and what remains when the kernel forbids it or a rank is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "local_ranks.h"
#include "transport/direct.h"
#include "transport/direct_parts.h"

enum { STAGE = 10000, HEAP = 8 << 20 };
static const uint64_t SECOND = 1000000000;

static struct tt_direct_config config(uint32_t me, uint32_t n, void *region)
{
    return (struct tt_direct_config){.nlocal = n,
                                     .me = me,
                                     .region = region,
                                     .stage_bytes = STAGE,
                                     .heap_bytes = HEAP,
                                     .oversubscribed = n > 2,
                                     .let_read = true,
                                     .deadline_ns = tt_now_ns() + 30 * SECOND};
}

static struct tt_direct *open_direct(uint32_t me, uint32_t n, void *region)
{
    struct tt_direct_config c = config(me, n, region);
    struct tt_direct *d;
    struct tutti_error err;

    if (tt_direct_open(&c, &d, &err)) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    CHECK(tt_direct_me(d) == me && tt_direct_nlocal(d) == n && !tt_direct_aborted(d));
    return d;
}

static void both_ways(uint32_t n, rank_fn *fn)
{
    assert_int_equal(run_processes(n, tt_direct_bytes(n, STAGE, 0), fn, NULL), 0);
    run_threads(n, tt_direct_bytes(n, STAGE, 0), fn, NULL);
}

/* Nobody leaves before all have come here (lane 7 is the tests'). */
static void all_here(struct tt_direct *d, uint64_t value)
{
    uint32_t late = 0;

    tt_direct_post(d, 7, value);
    CHECK(tt_direct_await_all(d, 7, value, tt_now_ns() + 60 * SECOND, &late) == TUTTI_OK);
}

/* ---- boxes ---- */

/* Not commutative and not associative: only rank order gives the right bytes. */
static unsigned char mix(unsigned char a, unsigned char b)
{
    return (unsigned char)(a * 31 + b);
}

static void combine(void *ctx, void *dst, const void *const *src, uint32_t n, size_t bytes)
{
    unsigned char *to = dst;

    *(int *)ctx += 1;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char x = 0;
        for (uint32_t r = 0; r < n; r++)
            x = mix(x, ((const unsigned char *)src[r])[i]);
        to[i] = x;
    }
}

static unsigned char input(uint32_t rank, uint32_t round, size_t i)
{
    return (unsigned char)(rank * 97 + round * 11 + i * 3 + (i >> 8));
}

static void one_reduction(struct tt_direct *d, uint32_t round, size_t bytes)
{
    static _Thread_local unsigned char in[STAGE], out[STAGE + 1];
    int calls = 0;
    bool in_place = round % 3 == 0;
    struct tt_direct_reduce op = {.in = in_place ? out : in,
                                  .out = out,
                                  .bytes = bytes,
                                  .fingerprint = tt_mix64(bytes),
                                  .combine = combine,
                                  .ctx = &calls,
                                  .timeout_ns = 60 * SECOND};

    memset(out, 0xaa, sizeof out);
    for (size_t i = 0; i < bytes; i++)
        in[i] = out[i] = input(tt_direct_me(d), round, i);
    CHECK(tt_direct_reduce(d, &op, NULL) == TUTTI_OK && calls == 1);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char x = 0;
        for (uint32_t r = 0; r < tt_direct_nlocal(d); r++)
            x = mix(x, input(r, round, i));
        CHECK(out[i] == x);
    }
    CHECK(out[bytes] == 0xaa);
}

static void reductions(uint32_t me, uint32_t n, void *region, void *arg)
{
    static const size_t sizes[] = {0, 1, 8, 47, 48, 49, 111, 112, 113, 4096, STAGE};
    struct tt_direct *d = open_direct(me, n, region);
    uint32_t round = 0;

    (void)arg;
    CHECK(tt_direct_box_max(d) == STAGE);
    for (uint32_t k = 0; k < 40; k++)
        for (size_t i = 0; i < countof(sizes); i++)
            one_reduction(d, round++, sizes[i]);
    for (uint32_t k = 0; k < 500; k++)
        one_reduction(d, round++, 8);
    for (uint32_t k = 0; k < 100; k++) /* tiny and staged ones share the order */
        one_reduction(d, round++, k % 2 ? 8 : 300);
    tt_direct_close(d);
}

static void test_reductions(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < countof(counts); i++)
        both_ways(counts[i], reductions);
}

static void split_phase(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    const void *const *all = NULL;
    struct tt_direct_blame blame = {.peer = 99};
    uint32_t mine = 100 + me;

    (void)arg;
    if (me == 1)
        CHECK(tt_direct_await(d, 0, 0, 1, tt_now_ns() + 60 * SECOND) == TUTTI_OK);
    tt_direct_put(d, &mine, sizeof mine, 5);
    if (me == 0) { /* rank 1 waits for us before it puts */
        CHECK(tt_direct_get(d, 0, &all, &blame) == TUTTI_IN_PROGRESS && blame.peer == 1 && !all);
        CHECK(tt_direct_get(d, tt_now_ns() + 2000000, &all, &blame) == TUTTI_IN_PROGRESS && !all);
        CHECK(tt_direct_waited_ns(d, 1) >= 1000000);
        tt_direct_post(d, 0, 1);
    }
    CHECK(tt_direct_get(d, tt_now_ns() + 60 * SECOND, &all, NULL) == TUTTI_OK);
    for (uint32_t r = 0; r < n; r++)
        CHECK(*(const uint32_t *)all[r] == 100 + r);
    all_here(d, 1);
    tt_direct_close(d);
}

static void test_split_phase(void **state)
{
    (void)state;
    both_ways(2, split_phase);
    both_ways(3, split_phase);
}

static void differing(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    struct tt_direct_blame blame = {.peer = 99};
    unsigned char x[200] = {0};
    int calls = 0;
    struct tt_direct_reduce op = {.in = x,
                                  .out = x,
                                  .bytes = me == 2 ? 200 : 8,
                                  .fingerprint = me == 2 ? 0xbad00000001 : 0x600d00000001,
                                  .combine = combine,
                                  .ctx = &calls,
                                  .timeout_ns = 60 * SECOND};

    (void)arg;
    CHECK(tt_direct_reduce(d, &op, &blame) == TUTTI_ERR_DIFFERS && calls == 0);
    CHECK(blame.peer == (me == 2 ? 0 : 2) && blame.mine == op.fingerprint);
    CHECK(blame.theirs == (me == 2 ? 0x600d00000001 : 0xbad00000001));
    tt_direct_close(d);
}

static void test_differing(void **state)
{
    (void)state;
    both_ways(3, differing);
}

/* ---- lanes ---- */

static void lanes(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    uint32_t left = (me + n - 1) % n;
    uint64_t deadline = tt_now_ns() + 60 * SECOND;

    (void)arg;
    CHECK(tt_direct_await(d, 3, me, 1, 0) == TUTTI_IN_PROGRESS && tt_direct_await(d, 3, left, 0, 0) == TUTTI_OK);
    /* Round and round: my k-th step follows my left neighbour's (k-1)-th. */
    for (uint64_t k = 1; k <= 300; k++) {
        unsigned slot = k & 1;
        struct tt_direct_desc desc = {.in = k, .out = me, .in_bytes = k + me, .out_bytes = 1, .fingerprint = k * k, .in_kind = 1};
        tt_direct_describe(d, 2, slot, &desc);
        tt_direct_post(d, 2, k);
        CHECK(tt_direct_await(d, 2, left, k, deadline) == TUTTI_OK && tt_direct_posted(d, 2, left) >= k);
        const struct tt_direct_desc *seen = tt_direct_described(d, 2, slot, left);
        CHECK(seen->in == k && seen->out == left && seen->in_bytes == k + left && seen->fingerprint == k * k && seen->in_kind == 1);
        tt_direct_post(d, 3, k);
        CHECK(tt_direct_await_all(d, 3, k, deadline, NULL) == TUTTI_OK);
    }
    tt_direct_close(d);
}

static void test_lanes(void **state)
{
    (void)state;
    both_ways(2, lanes);
    both_ways(5, lanes);
}

/* ---- waits that end badly ---- */

static void until_sleeping(struct tt_direct *d, uint32_t rank)
{
    uint64_t deadline = tt_now_ns() + 30 * SECOND;

    while (!atomic_load(&d->shared->rank[rank].door.sleeping)) {
        CHECK(tt_now_ns() < deadline);
        usleep(100);
    }
}

static void aborting(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    uint64_t deadline = tt_now_ns() + 60 * SECOND;
    uint32_t late = 99;
    int x = 0;
    struct tt_direct_reduce op = {.in = &x, .out = &x, .bytes = 4, .combine = combine, .ctx = &x, .timeout_ns = UINT64_MAX};

    (void)arg;
    if (me == 2) {
        until_sleeping(d, 0);
        until_sleeping(d, 1);
        tt_direct_abort(d);
        CHECK(tt_direct_aborted(d));
    } else if (me == 0) {
        CHECK(tt_direct_await_all(d, 0, 1, deadline, &late) == TUTTI_ERR_ABORTED && late == 0);
        CHECK(tt_direct_await(d, 0, 1, 1, UINT64_MAX) == TUTTI_ERR_ABORTED);
    } else {
        CHECK(tt_direct_reduce(d, &op, NULL) == TUTTI_ERR_ABORTED && x == 0);
    }
    CHECK(tt_now_ns() < deadline);
    tt_direct_close(d);
}

static void test_abort(void **state)
{
    (void)state;
    both_ways(3, aborting);
}

static void woken(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    uint64_t deadline = tt_now_ns() + 60 * SECOND;

    (void)arg;
    for (uint64_t k = 1; k <= 5; k++)
        if (me == 0) {
            CHECK(tt_direct_await(d, 1, 1, k, deadline) == TUTTI_OK);
            tt_direct_post(d, 0, k);
        } else {
            until_sleeping(d, 0);
            tt_direct_post(d, 1, k);
            CHECK(tt_direct_await(d, 0, 0, k, deadline) == TUTTI_OK);
        }
    tt_direct_close(d);
}

static void test_sleepers_are_woken(void **state)
{
    (void)state;
    both_ways(2, woken);
}

/* Rank 0 dozes without a limit: a ring that is lost would leave it there for good. */
static void dozed(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);

    (void)arg;
    for (uint64_t k = 1; k <= 300; k++) {
        while (me == 0 && tt_direct_posted(d, 1, 1) < k) {
            uint32_t ticket = tt_direct_doze_begin(d);
            if (tt_direct_posted(d, 1, 1) >= k)
                tt_direct_doze_end(d);
            else
                tt_direct_doze(d, ticket, UINT64_MAX);
        }
        tt_direct_post(d, 1, k);
        CHECK(tt_direct_await(d, 1, 1 - me, k, tt_now_ns() + 60 * SECOND) == TUTTI_OK);
    }
    uint32_t ticket = tt_direct_doze_begin(d);
    tt_direct_rouse(d);
    tt_direct_doze(d, ticket, UINT64_MAX);
    all_here(d, 1);
    CHECK(atomic_load(&d->shared->rank[me].door.sleeping) == 0);
    tt_direct_close(d);
}

static void test_dozers_are_woken(void **state)
{
    (void)state;
    both_ways(2, dozed);
}

/* Rank 1 is killed while the others sleep. */
static void bereaved(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    struct tt_direct_blame blame = {.peer = 99};
    char word[8] = {0};
    int x = 0;
    struct tt_direct_reduce op = {.in = &x, .out = &x, .bytes = 4, .combine = combine, .ctx = &x, .timeout_ns = SECOND / 2};
    void *heap = tt_direct_heap_alloc(d, 100);

    (void)arg;
    CHECK(heap);
    if (me == 1) {
        struct tt_direct_desc desc = {.out = (uintptr_t)heap, .out_bytes = 10};
        memcpy(heap, "last will", 10);
        tt_direct_describe(d, 0, 0, &desc);
    }
    all_here(d, 1);
    if (me == 1) {
        until_sleeping(d, 0);
        until_sleeping(d, 2);
        raise(SIGKILL);
    }
    uint64_t start = tt_now_ns();
    CHECK(tt_direct_reduce(d, &op, &blame) == TUTTI_ERR_TIMEOUT && blame.peer == 1 && x == 0);
    CHECK(tt_now_ns() - start >= SECOND / 2);
    /* Its heap is still mapped here and safe to read; its own memory is gone. */
    const char *theirs = tt_direct_resolve(d, 1, tt_direct_described(d, 0, 0, 1)->out, 10);
    CHECK(theirs && strcmp(theirs, "last will") == 0);
    if (tt_direct_can_read(d))
        CHECK(tt_direct_read(d, 1, (uintptr_t)d, word, sizeof word) != TUTTI_OK);
    tt_direct_close(d);
}

static void test_killed_peer(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, tt_direct_bytes(3, STAGE, 0), bereaved, NULL), 1u << 1);
}

static void alone(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct_config c = config(me, n, region);
    struct tt_direct *d = NULL;
    struct tutti_error err;

    (void)arg;
    if (me == 1) { /* comes when rank 0 has given up */
        struct tt_direct_shared *shared = region;
        while (!atomic_load(&shared->aborted))
            usleep(1000);
        CHECK(tt_direct_open(&c, &d, &err) == TUTTI_ERR_ABORTED && !d);
        return;
    }
    c.deadline_ns = tt_now_ns() + SECOND / 10;
    CHECK(tt_direct_open(&c, &d, &err) == TUTTI_ERR_TIMEOUT && !d);
    CHECK(strstr(err.text, "local rank 1 of 2 did not come"));
}

static void test_open_alone(void **state)
{
    (void)state;
    both_ways(2, alone);
}

/* ---- memory ---- */

static void copies(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    size_t bytes = 3 << 20;
    unsigned char *mine = malloc(bytes), *got = malloc(bytes);
    uint32_t right = (me + 1) % n;

    (void)arg;
    CHECK(mine && got);
    if (!tt_direct_can_read(d)) {
        CHECK(tt_direct_read(d, right, (uintptr_t)mine, got, 1) == TUTTI_ERR_REFUSED);
        goto out;
    }
    for (size_t i = 0; i < bytes; i++)
        mine[i] = input(me, 1, i);
    struct tt_direct_desc desc = {.in = (uintptr_t)mine, .in_bytes = bytes, .in_kind = tt_direct_kind_of(d, mine, bytes)};
    CHECK(desc.in_kind == TT_DIRECT_PRIVATE && tt_direct_kind_of(d, NULL, 0) == TT_DIRECT_NONE);
    tt_direct_describe(d, 0, 0, &desc);
    all_here(d, 1);
    uint64_t theirs = tt_direct_described(d, 0, 0, right)->in;
    CHECK(tt_direct_read(d, right, theirs + 5, got, bytes - 5) == TUTTI_OK);
    for (size_t i = 5; i < bytes; i++)
        CHECK(got[i - 5] == input(right, 1, i));
    if (getpid() != (pid_t)d->pid[right]) {
        CHECK(tt_direct_read(d, right, 16, got, 8) == TUTTI_ERR_ARG);
        CHECK(tt_direct_resolve(d, right, theirs, bytes) == NULL);
    }
    all_here(d, 2);
    memset(got, (int)(me + 1), bytes);
    CHECK(tt_direct_write(d, right, theirs, got, bytes) == TUTTI_OK);
    CHECK(tt_direct_write(d, right, theirs, got, 0) == TUTTI_OK);
    all_here(d, 3);
    for (size_t i = 0; i < bytes; i++)
        CHECK(mine[i] == (me + n - 1) % n + 1);
out:
    free(mine);
    free(got);
    tt_direct_close(d);
}

static void test_copies(void **state)
{
    (void)state;
    both_ways(2, copies);
    both_ways(4, copies);
}

/* The last rank is not allowed to read anybody's memory. */
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

static void restricted(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct_config c = config(me, n, region);
    struct tt_direct *d;
    struct tutti_error err;
    char x = 0;

    (void)arg;
    if (me == n - 1) {
        forbid_reading();
        c.heap_bytes = SIZE_MAX;
    }
    CHECK(tt_direct_open(&c, &d, &err) == TUTTI_OK);
    /* All know, not only the one concerned. */
    CHECK(!tt_direct_can_read(d) && !tt_direct_has_heap(d));
    CHECK(tt_direct_read(d, (me + 1) % n, (uintptr_t)&x, &x, 1) == TUTTI_ERR_REFUSED);
    CHECK(tt_direct_write(d, (me + 1) % n, (uintptr_t)&x, &x, 1) == TUTTI_ERR_REFUSED);
    CHECK(tt_direct_heap_alloc(d, 100) == NULL && tt_direct_resolve(d, (me + 1) % n, (uintptr_t)&x, 1) == NULL);
    one_reduction(d, 1, STAGE);
    tt_direct_close(d);
}

static void test_restricted(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, tt_direct_bytes(3, STAGE, 0), restricted, NULL), 0);
}

/* Everybody adds its number to everybody's buffer, in turn. */
static void heaps(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    size_t count = 5000;
    uint32_t *mine = tt_direct_heap_alloc(d, count * sizeof *mine);

    (void)arg;
    CHECK(mine && (uintptr_t)mine % 64 == 0);
    struct tt_direct_desc desc = {.out = (uintptr_t)mine, .out_kind = tt_direct_kind_of(d, mine, count * sizeof *mine)};
    CHECK(desc.out_kind == TT_DIRECT_HEAP && tt_direct_kind_of(d, mine, HEAP) == TT_DIRECT_PRIVATE);
    tt_direct_describe(d, 1, 0, &desc);
    all_here(d, 1);
    for (uint32_t turn = 0; turn < n; turn++) {
        for (uint32_t r = 0; turn == me && r < n; r++) {
            uint64_t theirs = tt_direct_described(d, 1, 0, r)->out;
            uint32_t *p = tt_direct_resolve(d, r, theirs, count * sizeof *p);
            CHECK(p && (r != me || p == mine));
            if (d->pid[r] != d->pid[me]) {
                CHECK(tt_direct_resolve(d, r, theirs, HEAP) == NULL && tt_direct_resolve(d, r, d->heap_base[r] - 1, 1) == NULL);
                CHECK(tt_direct_resolve(d, r, theirs, SIZE_MAX) == NULL);
            }
            for (size_t i = 0; i < count; i++)
                p[i] = p[i] * 10 + me + 1;
        }
        all_here(d, 2 + turn);
    }
    uint32_t want = 0;
    for (uint32_t r = 0; r < n; r++)
        want = want * 10 + r + 1;
    for (size_t i = 0; i < count; i++)
        CHECK(mine[i] == want);
    all_here(d, 100);
    tt_direct_heap_free(d, mine);
    tt_direct_heap_free(d, NULL);
    tt_direct_close(d);
}

static void test_heaps(void **state)
{
    (void)state;
    both_ways(2, heaps);
    both_ways(4, heaps);
}

static void heap_order(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    char *p[4];

    (void)n, (void)arg;
    for (int i = 0; i < 4; i++) {
        p[i] = tt_direct_heap_alloc(d, 100000);
        CHECK(p[i] && (i == 0 || p[i] >= p[i - 1] + 100000));
        memset(p[i], 'a' + i, 100000);
    }
    /* Ranks are shifted by odd numbers of pages and lines. */
    size_t shift = (size_t)(p[0] - (char *)d->heap[me].base) % 65536;
    CHECK(shift == me * (4096u + 9 * 64));
    tt_direct_heap_free(d, p[1]);
    tt_direct_heap_free(d, p[2]);
    char *again = tt_direct_heap_alloc(d, 200000); /* fits the gap of both */
    CHECK(again == p[1]);
    for (size_t i = 0; i < 200000; i++)
        CHECK(again[i] == 0);
    CHECK(p[0][99999] == 'a' && p[3][0] == 'd');
    CHECK(tt_direct_heap_alloc(d, HEAP) == NULL && tt_direct_heap_alloc(d, SIZE_MAX) == NULL);
    CHECK(tt_direct_heap_alloc(d, 0) != NULL);
    tt_direct_close(d);
}

static void test_heap_order(void **state)
{
    (void)state;
    both_ways(3, heap_order);
}

static unsigned open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    CHECK(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static bool maps_heap(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;

    CHECK(f);
    while (fgets(line, sizeof line, f))
        found |= strstr(line, "memfd:tutti") != NULL;
    fclose(f);
    return found;
}

static void leaves_nothing(uint32_t me, uint32_t n, void *region, void *arg)
{
    unsigned before = open_files();
    struct tt_direct *d = open_direct(me, n, region);

    (void)arg;
    CHECK(open_files() == before && maps_heap());
    CHECK(tt_direct_heap_alloc(d, 1000));
    tt_direct_close(d);
    CHECK(open_files() == before && !maps_heap());
}

static void test_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, tt_direct_bytes(3, STAGE, 0), leaves_nothing, NULL), 0);
}

/* ---- regions and arguments ---- */

static void test_region(void **state)
{
    (void)state;
    struct tt_region a = {0}, b = {0};
    struct tt_region_key key, wrong;
    struct tutti_error err;

    assert_int_equal(tt_region_make(SIZE_MAX, &a, &err), TUTTI_ERR_MEMORY);
    assert_int_equal(tt_region_make(10000, &a, &err), TUTTI_OK);
    assert_true(a.bytes >= 10000);
    assert_int_equal(tt_region_describe(&a, &key, &err), TUTTI_OK);
    assert_int_equal(tt_region_join(&key, &b, &err), TUTTI_OK);
    assert_ptr_not_equal(a.base, b.base);
    strcpy(a.base, "shared");
    assert_string_equal(b.base, "shared");
    wrong = key, wrong.ino++;
    assert_int_equal(tt_region_join(&wrong, &b, &err), TUTTI_ERR_CONNECT);
    wrong = key, wrong.bytes *= 2;
    assert_int_equal(tt_region_join(&wrong, &b, &err), TUTTI_ERR_CONNECT);
    tt_region_seal(&a);
    assert_int_equal(tt_region_join(&key, &b, &err), TUTTI_ERR_CONNECT);
    tt_region_free(&a);
    assert_string_equal(b.base, "shared"); /* lives on */
    tt_region_free(&b);
    tt_region_free(&b);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    struct tt_direct *d = NULL;
    struct tutti_error err;
    void *region = shared_region(tt_direct_bytes(2, 0, 0));
    struct tt_direct_config c = config(0, 2, region);

    assert_int_equal(tt_direct_bytes(0, 4096, 0), 0);
    assert_int_equal(tt_direct_bytes(2, SIZE_MAX, 0), 0);
    assert_int_equal(tt_direct_bytes(UINT32_MAX, 0, 0), 0);
    c.me = 2;
    assert_int_equal(tt_direct_open(&c, &d, &err), TUTTI_ERR_ARG);
    c.me = 0, c.region = (char *)region + 64;
    assert_int_equal(tt_direct_open(&c, &d, &err), TUTTI_ERR_ARG);
    assert_null(d);
    tt_direct_close(NULL);
    munmap(region, tt_direct_bytes(2, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_split_phase),
        cmocka_unit_test(test_differing),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_sleepers_are_woken),
        cmocka_unit_test(test_dozers_are_woken),
        cmocka_unit_test(test_killed_peer),
        cmocka_unit_test(test_open_alone),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_restricted),
        cmocka_unit_test(test_heaps),
        cmocka_unit_test(test_heap_order),
        cmocka_unit_test(test_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
