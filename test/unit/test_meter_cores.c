/* Who must share cores: several ranks per core, ranks that a launcher has bound, emulated hosts on one machine, and separate machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "meter/meter.h"

static struct tt_cores on(uint64_t machine, uint64_t cores)
{
    return (struct tt_cores){.machine = machine, .mask = {cores}};
}

static void test_crowded(void **state)
{
    (void)state;
    struct tt_cores two[] = {on(1, 3), on(1, 3)}, four[] = {on(1, 3), on(1, 3), on(1, 3), on(1, 3)};
    assert_false(tt_meter_cores_crowded(two, 2, 0));
    assert_true(tt_meter_cores_crowded(four, 4, 3));
    struct tt_cores apart[] = {on(1, 3), on(2, 3), on(1, 3), on(2, 3)};
    assert_false(tt_meter_cores_crowded(apart, 4, 0));
}

static void test_bound(void **state)
{
    (void)state;
    struct tt_cores each[] = {on(1, 1), on(1, 2), on(1, 4)}, doubled[] = {on(1, 1), on(1, 1), on(1, 2)};
    for (uint32_t r = 0; r < 3; r++)
        assert_false(tt_meter_cores_crowded(each, 3, r));
    assert_true(tt_meter_cores_crowded(doubled, 3, 0));
    assert_true(tt_meter_cores_crowded(doubled, 3, 1));
    assert_false(tt_meter_cores_crowded(doubled, 3, 2));
    /* 0 may use both cores, but the others fill them. */
    struct tt_cores chain[] = {on(1, 3), on(1, 1), on(1, 2)};
    assert_true(tt_meter_cores_crowded(chain, 3, 0));
}

static void test_unknown(void **state)
{
    (void)state;
    struct tt_cores none[] = {on(1, 0), on(1, 0)}, self;
    assert_false(tt_meter_cores_crowded(none, 2, 0));
    tt_meter_cores_self(&self);
    assert_false(tt_meter_cores_crowded(&self, 1, 0));
    assert_true(self.machine != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crowded), cmocka_unit_test(test_bound), cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
