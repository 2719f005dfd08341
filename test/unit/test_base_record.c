/* The ring of events behind TUTTI_TRACE: order, overwriting, plans, threads, and that noting allocates
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/record.h"
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
    free(r);
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
    free(r);
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
    free(r);
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
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
