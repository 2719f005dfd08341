/* test_comm_bells.c - where calls sleep that share an engine: each at a bell of its own, so that what is rung for one is not taken by another
 * one; bells are kept for the next sleep, some of them. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/comm_int.h"

enum { SLEEPERS = 2 * TT_BELLS };

static bool rings(int bell)
{
    struct pollfd p = {.fd = bell, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_own(void **state)
{
    struct tt_shared *s = tt_comm_shared_make();
    struct tt_comm c = {.shared = s};
    struct tt_waiting w[SLEEPERS] = {{0}};
    (void)state;
    assert_non_null(s);
    for (uint32_t i = 0; i < SLEEPERS; i++) {
        w[i].bell = tt_comm_bell_take(s);
        assert_true(w[i].bell >= 0);
        atomic_store(&w[i].sleep, TT_AT_BELL);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(w[i].bell, w[k].bell);
    }
    tt_comm_waiting_wake(&c, &w[1]);
    for (uint32_t i = 0; i < SLEEPERS; i++)
        assert_int_equal(rings(w[i].bell), i == 1);
    for (uint32_t i = 0; i < SLEEPERS; i++)
        tt_comm_bell_give(s, w[i].bell);
    assert_int_equal(s->nbells, TT_BELLS);
    tt_comm_shared_free(s);
}

/* Without descriptors a call naps, and nobody rings. */
static void test_none(void **state)
{
    struct tt_shared *s = tt_comm_shared_make();
    struct tt_comm c = {.shared = s};
    struct tt_waiting w = {.bell = -1};
    (void)state;
    assert_non_null(s);
    atomic_store(&w.sleep, TT_AT_BELL);
    tt_comm_waiting_wake(&c, &w);
    tt_comm_bell_give(s, -1);
    assert_int_equal(s->nbells, 0);
    tt_comm_shared_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own), cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
