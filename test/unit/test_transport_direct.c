/* Direct access between real processes and between threads: boxes (tiny and staged), abort, dozing, reading a peer's memory,
 * shared heaps, and what remains when the kernel forbids it or a rank is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "direct_notes.h"

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
                                     .deadline_ns = tt_now_ns() + 30 * SECOND};
}

static _Thread_local struct tt_boxes *boxes; /* of all ranks */

static void open_boxes(struct tt_direct *d)
{
    uint32_t places[16];
    struct tutti_error err;

    for (uint32_t r = 0; r < tt_direct_nlocal(d); r++)
        places[r] = r;
    struct tt_boxes_config c = {.n = tt_direct_nlocal(d), .me = tt_direct_me(d), .places = places, .key = 1};
    CHECK(tt_direct_boxes_open(d, &c, &boxes, &err) == TUTTI_OK);
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
    open_boxes(d);
    return d;
}

static void both_ways(uint32_t n, rank_fn *fn)
{
    assert_int_equal(run_processes(n, noted_bytes(n, STAGE), fn, NULL), 0);
    run_threads(n, noted_bytes(n, STAGE), fn, NULL);
}

/* ---- boxes ---- */

/* What all have put; TUTTI_IN_PROGRESS when that is not there after so long. */
static tutti_status get(uint64_t wait_ns, const void *const **ret_all, struct tt_boxes_blame *ret_blame)
{
    uint64_t until = tt_now_ns() + wait_ns;
    tutti_status status;

    while ((status = tt_direct_boxes_get(boxes, ret_all, ret_blame)) == TUTTI_IN_PROGRESS && tt_now_ns() < until)
        sched_yield();
    return status;
}

static unsigned char input(uint32_t rank, uint32_t round, size_t i)
{
    return (unsigned char)(rank * 97 + round * 11 + i * 3 + (i >> 8));
}

static void one_exchange(struct tt_direct *d, uint32_t round, size_t bytes)
{
    static _Thread_local unsigned char in[STAGE];
    const void *const *all = NULL;
    struct tt_boxes_blame blame;

    for (size_t i = 0; i < bytes; i++)
        in[i] = input(tt_direct_me(d), round, i);
    tt_direct_boxes_put(boxes, in, bytes, tt_mix64(bytes));
    memset(in, 0xaa, sizeof in); /* ours again */
    CHECK(get(60 * SECOND, &all, &blame) == TUTTI_OK && tt_direct_boxes_ready(boxes));
    for (uint32_t r = 0; r < tt_direct_nlocal(d); r++)
        for (size_t i = 0; i < bytes; i++)
            CHECK(((const unsigned char *)all[r])[i] == input(r, round, i));
}

static void exchanges(uint32_t me, uint32_t n, void *region, void *arg)
{
    static const size_t sizes[] = {0, 1, 8, 47, 48, 49, 111, 112, 113, 4096, STAGE};
    struct tt_direct *d = open_direct(me, n, region);
    uint32_t round = 0;

    (void)arg;
    CHECK(tt_direct_boxes_max(d) == STAGE);
    for (uint32_t k = 0; k < 40; k++)
        for (size_t i = 0; i < countof(sizes); i++)
            one_exchange(d, round++, sizes[i]);
    for (uint32_t k = 0; k < 500; k++)
        one_exchange(d, round++, 8);
    for (uint32_t k = 0; k < 100; k++) /* tiny and staged ones share the order */
        one_exchange(d, round++, k % 2 ? 8 : 300);
    for (uint32_t k = 0; k < 100; k++) /* turns of the stage end anywhere */
        one_exchange(d, round++, STAGE - k * k % 977);
    tt_direct_close(d);
}

static void test_exchanges(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < countof(counts); i++)
        both_ways(counts[i], exchanges);
}

/* Places follow from the lengths of all puts: a payload never meets the one before it, which peers may still read, and lies inside the
 * stage. What is filled in advance is what peers get. */
static void places(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    const void *const *all = NULL;
    struct tt_boxes_blame blame;
    char *last = NULL, *lowest = NULL, *highest = NULL;
    size_t last_bytes = 0;

    (void)arg;
    for (uint32_t k = 0; k < 3000; k++) {
        uint64_t dice = tt_mix64(k);
        size_t bytes = 1 + (size_t)(dice >> 8) % (dice % 4 ? dice % 4 == 1 ? 200 : 3000 : STAGE);
        char *at = tt_direct_boxes_next(boxes, bytes);
        CHECK(!last || at + bytes <= last || last + last_bytes <= at);
        if (bytes > TT_DIRECT_TINY) {
            lowest = !lowest || at < lowest ? at : lowest;
            highest = !highest || at + bytes > highest ? at + bytes : highest;
        }
        memset(at, (int)(me + k), bytes);
        tt_direct_boxes_put(boxes, at, bytes, k);
        CHECK(get(60 * SECOND, &all, &blame) == TUTTI_OK && all[me] == at);
        for (uint32_t r = 0; r < n; r++)
            CHECK(((const unsigned char *)all[r])[bytes - 1] == (unsigned char)(r + k));
        last = at;
        last_bytes = bytes;
    }
    CHECK(highest - lowest <= 8 * (STAGE + TT_LINE)); /* ROOM_CORE_EACH of direct.c */
    tt_direct_close(d);
}

static void test_places(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 4; n++)
        run_threads(n, noted_bytes(n, STAGE), places, NULL);
}

static void split_phase(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    const void *const *all = NULL;
    struct tt_boxes_blame blame = {.peer = 99};
    uint32_t mine = 100 + me;

    (void)arg;
    if (me == 1)
        until_posted(d, 0, 1);
    tt_direct_boxes_put(boxes, &mine, sizeof mine, 5);
    if (me == 0) { /* rank 1 waits for us before it puts */
        while (tt_direct_boxes_get(boxes, &all, &blame) == TUTTI_IN_PROGRESS && blame.peer != 1)
            sched_yield(); /* as many as three ranks, of which another may be late, too */
        CHECK(blame.peer == 1 && !tt_direct_boxes_ready(boxes) && !all);
        CHECK(get(2000000, &all, &blame) == TUTTI_IN_PROGRESS && blame.peer == 1 && !all);
        post(d, 1);
    }
    CHECK(get(60 * SECOND, &all, &blame) == TUTTI_OK);
    for (uint32_t r = 0; r < n; r++)
        CHECK(*(const uint32_t *)all[r] == 100 + r);
    all_here(d, 2);
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
    struct tt_boxes_blame blame = {.peer = 99};
    unsigned char x[200] = {0};
    const void *const *all = NULL;

    (void)arg;
    tt_direct_boxes_put(boxes, x, me == 2 ? 200 : 8, me == 2 ? 0xbad00000001 : 0x600d00000001);
    CHECK(get(60 * SECOND, &all, &blame) == TUTTI_ERR_DIFFERS && !all);
    CHECK(blame.peer == (me == 2 ? 0 : 2));
    CHECK(blame.theirs == (me == 2 ? 0x600d00000001 : 0xbad00000001));
    tt_direct_close(d);
}

static void test_differing(void **state)
{
    (void)state;
    both_ways(3, differing);
}

/* ---- sleepers, and ranks that do not come ---- */

static void until_sleeping(struct tt_direct_shared *shared, uint32_t rank)
{
    uint64_t deadline = tt_now_ns() + 30 * SECOND;

    while (!atomic_load(&shared->rank[rank].door.sleeping)) {
        CHECK(tt_now_ns() < deadline);
        usleep(100);
    }
}

/* Rank 0 dozes, rank 1 looks for boxes, rank 2 aborts. */
static void aborting(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    uint64_t deadline = tt_now_ns() + 60 * SECOND;
    const void *const *all = NULL;
    struct tt_boxes_blame blame;

    (void)arg;
    all_here(d, 1);
    if (me == 2) {
        until_sleeping(d->shared, 0);
        until_posted(d, 1, 2);
        tt_direct_abort(d);
    } else if (me == 0) {
        while (!tt_direct_aborted(d)) { /* rank 1's put wakes it, too */
            uint32_t ticket = tt_direct_doze_begin(d);
            if (tt_direct_aborted(d))
                tt_direct_doze_end(d);
            else
                tt_direct_doze(d, ticket, UINT64_MAX);
        }
    } else {
        tt_direct_boxes_put(boxes, NULL, 0, 1);
        post(d, 2);
        CHECK(get(60 * SECOND, &all, &blame) == TUTTI_ERR_ABORTED && !all && tt_direct_boxes_ready(boxes));
    }
    CHECK(tt_direct_aborted(d) && tt_now_ns() < deadline);
    tt_direct_close(d);
}

static void test_abort(void **state)
{
    (void)state;
    both_ways(3, aborting);
}

/* The others sleep in opening until the last one comes. */
static void woken(uint32_t me, uint32_t n, void *region, void *arg)
{
    uint64_t start = tt_now_ns();

    (void)arg;
    for (uint32_t r = 0; me == n - 1 && r < me; r++)
        until_sleeping(region, r);
    struct tt_direct *d = open_direct(me, n, region);
    CHECK(tt_now_ns() - start < 20 * SECOND); /* the deadline is later */
    tt_direct_close(d);
}

static void test_sleepers_are_woken(void **state)
{
    (void)state;
    both_ways(2, woken);
    both_ways(3, woken);
}

/* Rank 0 dozes without a limit: a ring that is lost would leave it there for good. */
static void dozed(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    const void *const *all = NULL;
    struct tt_boxes_blame blame;

    (void)arg;
    for (uint64_t k = 1; k <= 300; k++) {
        tt_direct_boxes_put(boxes, &k, sizeof k, 1);
        while (me == 0 && !tt_direct_boxes_ready(boxes)) {
            uint32_t ticket = tt_direct_doze_begin(d);
            if (tt_direct_boxes_ready(boxes))
                tt_direct_doze_end(d);
            else
                tt_direct_doze(d, ticket, UINT64_MAX);
        }
        CHECK(get(60 * SECOND, &all, &blame) == TUTTI_OK && *(const uint64_t *)all[1 - me] == k);
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

/* Rank 1 is killed. */
static void bereaved(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    struct tt_boxes_blame blame = {.peer = 99};
    char word[8] = {0};
    const void *const *all = NULL;
    void *heap = tt_direct_heap_alloc(d, 100);

    (void)arg;
    CHECK(heap);
    if (me == 1) {
        memcpy(heap, "last will", 10);
        note_of(d, 1)->at = (uintptr_t)heap;
    }
    all_here(d, 1);
    if (me == 1)
        raise(SIGKILL);
    tt_direct_boxes_put(boxes, word, 4, 1);
    while (get(SECOND / 2, &all, &blame) == TUTTI_IN_PROGRESS && blame.peer != 1)
        ;
    CHECK(blame.peer == 1 && !all);
    /* Its heap is still mapped here and safe to read. */
    const char *theirs = tt_direct_resolve(d, 1, note_of(d, 1)->at, 10);
    CHECK(theirs && strcmp(theirs, "last will") == 0);
    tt_direct_close(d);
}

static void test_killed_peer(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, noted_bytes(3, STAGE), bereaved, NULL), 1u << 1);
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

static void restricted(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct_config c = config(me, n, region);
    struct tt_direct *d;
    struct tutti_error err;
    char x = 0;

    (void)arg;
    if (me == n - 1)
        c.heap_bytes = SIZE_MAX;
    CHECK(tt_direct_open(&c, &d, &err) == TUTTI_OK);
    /* All know, not only the one concerned. */
    CHECK(!tt_direct_has_heap(d));
    open_boxes(d);
    CHECK(tt_direct_heap_alloc(d, 100) == NULL && tt_direct_resolve(d, (me + 1) % n, (uintptr_t)&x, 1) == NULL);
    one_exchange(d, 1, STAGE);
    tt_direct_close(d);
}

static void test_restricted(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, noted_bytes(3, STAGE), restricted, NULL), 0);
}

/* Everybody adds its number to everybody's buffer, in turn. */
static void heaps(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    size_t count = 5000;
    uint32_t *mine = tt_direct_heap_alloc(d, count * sizeof *mine);

    (void)arg;
    CHECK(mine && (uintptr_t)mine % 64 == 0);
    CHECK(tt_direct_owns(d, mine, count * sizeof *mine) && !tt_direct_owns(d, mine, HEAP));
    note_of(d, me)->at = (uintptr_t)mine;
    all_here(d, 1);
    for (uint32_t turn = 0; turn < n; turn++) {
        for (uint32_t r = 0; turn == me && r < n; r++) {
            uint64_t theirs = note_of(d, r)->at;
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

static unsigned mapped_heaps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned n = 0;

    CHECK(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "memfd:tutti") != NULL;
    fclose(f);
    return n;
}

static void leaves_nothing(uint32_t me, uint32_t n, void *region, void *arg)
{
    unsigned files = open_files(), heaps = mapped_heaps();
    struct tt_direct *d = open_direct(me, n, region);

    (void)arg;
    CHECK(open_files() == files && mapped_heaps() == heaps + n);
    tt_direct_heap_free(d, tt_direct_heap_alloc(d, 1000));
    tt_direct_close(d);
    CHECK(open_files() == files && mapped_heaps() == heaps);
}

/* A buffer that lives keeps its heap, which is the caller's then. */
static void leaves_a_heap(uint32_t me, uint32_t n, void *region, void *arg)
{
    unsigned heaps = mapped_heaps();
    struct tt_direct *d = open_direct(me, n, region);
    char *p = tt_direct_heap_alloc(d, 1000);

    (void)arg;
    CHECK(p && tt_direct_heap(d));
    struct tt_region heap = *tt_direct_heap(d);
    tt_direct_close(d);
    memset(p, 1, 1000);
    CHECK(mapped_heaps() == heaps + 1);
    tt_shm_region_free(&heap);
    CHECK(mapped_heaps() == heaps);
}

static void test_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, noted_bytes(3, STAGE), leaves_nothing, NULL), 0);
    assert_int_equal(run_processes(3, noted_bytes(3, STAGE), leaves_a_heap, NULL), 0);
}

/* ---- regions and arguments ---- */

static void test_region(void **state)
{
    (void)state;
    struct tt_region a = {0}, b = {0};
    struct tt_region_key key, wrong;
    struct tutti_error err;

    assert_int_equal(tt_shm_region_make(SIZE_MAX, &a, &err), TUTTI_ERR_MEMORY);
    assert_int_equal(tt_shm_region_make(10000, &a, &err), TUTTI_OK);
    assert_true(a.bytes >= 10000);
    assert_int_equal(tt_shm_region_describe(&a, &key, &err), TUTTI_OK);
    assert_int_equal(tt_shm_region_join(&key, &b, &err), TUTTI_OK);
    assert_ptr_not_equal(a.base, b.base);
    strcpy(a.base, "shared");
    assert_string_equal(b.base, "shared");
    wrong = key, wrong.ino++;
    assert_int_equal(tt_shm_region_join(&wrong, &b, &err), TUTTI_ERR_CONNECT);
    wrong = key, wrong.bytes *= 2;
    assert_int_equal(tt_shm_region_join(&wrong, &b, &err), TUTTI_ERR_CONNECT);
    tt_shm_region_seal(&a);
    assert_int_equal(tt_shm_region_join(&key, &b, &err), TUTTI_ERR_CONNECT);
    tt_shm_region_free(&a);
    assert_string_equal(b.base, "shared"); /* lives on */
    tt_shm_region_free(&b);
    tt_shm_region_free(&b);
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
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_split_phase),
        cmocka_unit_test(test_differing),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_sleepers_are_woken),
        cmocka_unit_test(test_dozers_are_woken),
        cmocka_unit_test(test_killed_peer),
        cmocka_unit_test(test_open_alone),
        cmocka_unit_test(test_restricted),
        cmocka_unit_test(test_heaps),
        cmocka_unit_test(test_heap_order),
        cmocka_unit_test(test_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
