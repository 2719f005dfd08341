/* The ring of events behind TUTTI_TRACE and the board of TUTTI_TOP: order, overwriting, plans, trainers,
 * the end, threads that note, look and end at the same time (run under ThreadSanitizer too), and that
 * noting allocates nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/board.h"
#include "count_allocations.h"

enum { CAP = 64, THREADS = 4, EACH = 1000 };

static void note(struct tt_record *r, uint32_t seq)
{
    tt_record_note(r, &(struct tt_record_event){.seq = seq, .kind = TT_RECORD_CALL});
}

/* The last events are kept, in order; the number of the others is told. */
static void test_ring(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(CAP);
    struct tt_record_event last[CAP];
    uint64_t lost = 7;
    assert_int_equal(tt_record_last(r, CAP, last, &lost), 0);
    assert_int_equal(lost, 0);
    for (uint32_t i = 0; i < 10; i++)
        note(r, i);
    assert_int_equal(tt_record_last(r, CAP, last, &lost), 10);
    assert_int_equal(lost, 0);
    assert_int_equal(last[9].seq, 9);
    for (uint32_t i = 10; i < 1000; i++)
        note(r, i);
    assert_int_equal(tt_record_last(r, CAP, last, &lost), CAP);
    assert_int_equal(lost, 1000 - CAP);
    for (uint32_t i = 0; i < CAP; i++)
        assert_int_equal(last[i].seq, 1000 - CAP + i);
    assert_int_equal(tt_record_last(r, 5, last, &lost), 5);
    assert_int_equal(last[4].seq, 999);
    assert_int_equal(lost, 995);
    tt_record_free(r);
}

static void test_plans(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(CAP);
    struct tt_record_plan p = {.hash = 1, .count = 100};
    assert_int_equal(tt_record_plan(r, &p), 0);
    assert_int_equal(tt_record_plan(r, &p), 0);
    p.count = 101;
    assert_int_equal(tt_record_plan(r, &p), 1);
    for (p.hash = 2; p.hash < TT_RECORD_PLANS; p.hash++)
        assert_int_equal(tt_record_plan(r, &p), p.hash);
    p.hash = 1000;
    assert_int_equal(tt_record_plan(r, &p), TT_RECORD_NO_PLAN);
    tt_record_free(r);
}

static void *noting(void *record)
{
    for (uint32_t i = 0; i < EACH; i++)
        note(record, i);
    return NULL;
}

/* Every thread's events are there, whole. */
static void test_threads(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(THREADS * EACH);
    struct tt_record_event *last = calloc(THREADS * EACH, sizeof *last);
    pthread_t thread[THREADS];
    uint64_t lost, sum = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, noting, r), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(tt_record_last(r, THREADS * EACH, last, &lost), THREADS * EACH);
    for (int i = 0; i < THREADS * EACH; i++)
        sum += last[i].seq;
    assert_int_equal(sum, (uint64_t)THREADS * EACH * (EACH - 1) / 2);
    free(last);
    tt_record_free(r);
}

/* What comes after the end is not noted: no event, no plan, no trainer. */
static void test_end(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(CAP);
    struct tt_record_event last[CAP];
    struct tt_record_trainer t = {.comm = 3, .nlaunches = 1, .launch = calloc(1, sizeof *t.launch)};
    uint64_t lost;
    note(r, 1);
    tt_record_add_trainer(r, &t);
    assert_null(t.launch); /* taken */
    tt_record_end(r);
    note(r, 2);
    t = (struct tt_record_trainer){.launch = calloc(1, sizeof *t.launch)};
    tt_record_add_trainer(r, &t);
    assert_int_equal(tt_record_plan(r, &(struct tt_record_plan){.hash = 1}), TT_RECORD_NO_PLAN);
    assert_int_equal(tt_record_last(r, CAP, last, &lost), 1);
    assert_int_equal(last[0].seq, 1);
    assert_int_equal(r->ntrainers, 1);
    assert_int_equal(r->trainer[0].comm, 3);
    tt_record_free(r);
}

static void test_many_trainers(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(CAP);
    for (int i = 0; i < TT_RECORD_TRAINERS + 2; i++) {
        struct tt_record_trainer t = {.span = calloc(1, sizeof *t.span)};
        tt_record_add_trainer(r, &t);
        assert_null(t.span);
    }
    assert_int_equal(r->ntrainers, TT_RECORD_TRAINERS);
    tt_record_free(r);
}

/* The board of this process among those that a look finds; the caller frees it. */
static struct tt_board *find_own(void)
{
    struct tt_board **list, *own = NULL;
    struct tutti_error err;
    size_t n;
    assert_int_equal(tt_board_list(&list, &n, &err), TUTTI_OK);
    for (size_t i = 0; i < n; i++)
        if (!own && list[i]->pid == (int32_t)getpid())
            own = list[i];
        else
            free(list[i]);
    free(list);
    return own;
}

static void *planning(void *record)
{
    for (uint32_t i = 0; i < EACH; i++)
        tt_record_plan(record, &(struct tt_record_plan){.hash = i % 80});
    return NULL;
}

/* Threads note and plan while another looks at the board and the ring; then the record ends while they
 * still try. */
static void test_looking(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(CAP);
    struct tt_record_event last[CAP];
    struct tutti_error err;
    pthread_t thread[THREADS];
    char *path = NULL;
    uint64_t lost, seen = 0;
    assert_int_equal(tt_board_make(0, 1, "a job of test_base_record", &r->board, &path, &err), TUTTI_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i ? noting : planning, r), 0);
    for (int i = 0; i < 20; i++) {
        struct tt_board *b = find_own();
        assert_non_null(b);
        assert_true(b->calls >= seen);
        seen = b->calls;
        free(b);
        assert_true(tt_record_last(r, CAP, last, &lost) <= CAP);
    }
    tt_record_end(r);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&r->board->calls), tt_record_noted(r));
    assert_true(r->nplans <= TT_RECORD_PLANS);
    tt_board_free(r->board, path);
    tt_record_free(r);
    assert_null(find_own());
}

static void test_no_allocation(void **state)
{
    (void)state;
    struct tt_record *r = tt_record_make(CAP);
    struct tt_record_plan p = {.hash = 1};
    watched = 1;
    for (uint32_t i = 0; i < 1000; i++) {
        note(r, i);
        p.hash = i;
        tt_record_plan(r, &p);
    }
    watched = 0;
    assert_int_equal(allocations, 0);
    tt_record_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),          cmocka_unit_test(test_plans),         cmocka_unit_test(test_threads),
        cmocka_unit_test(test_end),           cmocka_unit_test(test_many_trainers), cmocka_unit_test(test_looking),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
