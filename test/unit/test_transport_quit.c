/* Leaving an operation in the middle: after tt_direct_quit nobody writes into the leaver's heap, whether the writer goes on, is slow or
 * hangs with its lease in the hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "direct_notes.h"

enum { BYTES = 1 << 20, BLOCK = 16 << 10, MINE = 0x11, THEIRS = 0x22 };
static const uint64_t SECOND = 1000000000;

static struct tt_direct *open_direct(uint32_t me, uint32_t n, void *region)
{
    struct tt_direct_config c = {
        .nlocal = n, .me = me, .region = region, .heap_bytes = 8 << 20, .oversubscribed = n > 2, .deadline_ns = tt_now_ns() + 30 * SECOND};
    struct tt_direct *d;
    struct tutti_error err;

    if (tt_direct_open(&c, &d, &err)) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    CHECK(tt_direct_has_heap(d));
    return d;
}

/* Rank 0's buffer, as each rank sees it. */
static unsigned char *lend(struct tt_direct *d)
{
    if (tt_direct_me(d) == 0)
        note_of(d, 0)->at = (uintptr_t)tt_direct_heap_alloc(d, BYTES);
    post(d, 1);
    until_posted(d, 0, 1);
    return tt_direct_resolve(d, 0, note_of(d, 0)->at, BYTES);
}

static bool is_all(const unsigned char *p, unsigned char value)
{
    for (size_t i = 0; i < BYTES; i++)
        if (p[i] != value)
            return false;
    return true;
}

/* Everybody writes into rank 0's buffer until rank 0 has enough of it. */
static void writing(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    unsigned char *buffer = lend(d);

    (void)arg;
    if (me > 0) {
        CHECK(tt_direct_lease(d));
        post(d, 2);
        for (size_t at = 0; !tt_direct_aborted(d); at = (at + BLOCK) % BYTES)
            memset(buffer + at, THEIRS, BLOCK);
        tt_direct_release(d);
        CHECK(!tt_direct_lease(d)); /* never again */
        until_posted(d, 0, 3);
    } else {
        for (uint32_t r = 1; r < n; r++)
            until_posted(d, r, 2);
        usleep(2000);
        tt_direct_quit(d);
        memset(buffer, MINE, BYTES);
        usleep(20000);
        CHECK(is_all(buffer, MINE));
        post(d, 3);
    }
    tt_direct_close(d);
}

static void test_writers_stop(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(run_processes(3, noted_bytes(3, 0), writing, NULL), 0);
    run_threads(2, noted_bytes(2, 0), writing, NULL); /* two writers of one place would race with each other */
}

/* Rank 1 hangs with its lease, as a stopped process does, and goes on when rank 0 has long left. */
static void hanging(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_direct *d = open_direct(me, n, region);
    unsigned char *buffer = lend(d);

    (void)arg;
    if (me == 1) {
        CHECK(tt_direct_lease(d));
        post(d, 2);
        until_posted(d, 0, 3);
        memset(buffer, THEIRS, BYTES);
        post(d, 4);
        until_posted(d, 0, 5);
    } else {
        memset(buffer, THEIRS + 1, BYTES);
        until_posted(d, 1, 2);
        uint64_t from = tt_now_ns();
        tt_direct_quit(d);
        tt_direct_quit(d); /* once more changes nothing */
        CHECK(tt_now_ns() - from < SECOND);
        CHECK(d->detached && is_all(buffer, THEIRS + 1)); /* what was there is there */
        memset(buffer, MINE, BYTES);
        post(d, 3);
        until_posted(d, 1, 4);
        CHECK(is_all(buffer, MINE));
        tt_direct_heap_free(d, buffer);
        unsigned char *next = tt_direct_heap_alloc(d, BYTES);
        CHECK(next && is_all(next, 0));
        post(d, 5);
    }
    tt_direct_close(d);
}

static void test_hanging_writer(void **state)
{
    (void)state;
    assert_int_equal(run_processes(2, noted_bytes(2, 0), hanging, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writers_stop),
        cmocka_unit_test(test_hanging_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
