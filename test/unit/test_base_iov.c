/* Sums of lists of memory pieces: lengths that overflow, lists that are too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/iov.h"

enum { MOST = 4 };

static void sums(void **state)
{
    const struct iovec iov[MOST] = {{NULL, 1}, {NULL, 0}, {NULL, 20}, {NULL, 300}};
    size_t total = 7;
    (void)state;
    assert_true(tt_iov_total(iov, 0, MOST, 0, &total));
    assert_int_equal(total, 0);
    assert_true(tt_iov_total(iov, MOST, MOST, 321, &total));
    assert_int_equal(total, 321);
}

static void refuses(void **state)
{
    const struct iovec iov[2] = {{NULL, SIZE_MAX - 1}, {NULL, 3}}; /* the sum is 1 modulo 2^64 */
    size_t total = 7;
    (void)state;
    assert_false(tt_iov_total(iov, 2, MOST, SIZE_MAX, &total));
    assert_false(tt_iov_total(iov, 1, MOST, 1000, &total));
    assert_false(tt_iov_total(iov + 1, 1, MOST, 2, &total));
    assert_false(tt_iov_total(iov + 1, -1, MOST, 100, &total));
    assert_false(tt_iov_total(iov + 1, 1, 0, 100, &total));
    assert_int_equal(total, 7); /* set only on success */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
