/* The tuner: finds the valley of known curves in ten trials, explains itself, keeps and reads back what it learnt; the regression behind
 * it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/tuner.h"

/* Two lines on a logarithmic axis that meet at 2^valley bytes, in picoseconds; unit scales it. */
static uint64_t curve(uint64_t bytes, double valley, double left, double right, double unit)
{
    double d = log2((double)bytes) - valley;
    return (uint64_t)(unit * (1 + (d < 0 ? -left * d : right * d)));
}

static double found(double valley, double left, double right, double unit)
{
    struct tt_tuner t;
    struct tutti_error err = {0};
    uint64_t bytes;
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){0}, &err), TUTTI_OK);
    while (tt_policy_tuner_next(&t, &bytes)) {
        assert_true(bytes >= 65536 && bytes <= (uint64_t)256 << 20);
        tt_policy_tuner_tell(&t, curve(bytes, valley, left, right, unit));
    }
    assert_int_equal(t.n, 10);
    return (double)t.trials[tt_policy_tuner_best(&t)].time_ps / unit;
}

/* Wherever the valley is, and whatever the unit: seconds or microseconds must not matter. */
static void test_finds_valleys(void **state)
{
    (void)state;
    for (double valley = 17; valley <= 27; valley += 0.5) {
        double micro = found(valley, 0.3, 0.08, 1e9), second = found(valley, 0.3, 0.08, 1e12);
        assert_true(micro < 1.05);
        assert_true(fabs(micro - second) < 1e-3);
    }
    assert_true(found(16, 1, 0.1, 1e11) < 1.03); /* at the edges */
    assert_true(found(28, 0.1, 1, 1e11) < 1.03);
}

static void test_regression(void **state)
{
    static const double x[] = {0, 0.2, 0.5, 0.7, 1}, y[] = {0.3, -0.1, -0.4, 0, 0.5};
    struct tt_gp g;
    double mean, deviation, far;
    (void)state;
    tt_policy_gp_fit(&g, x, y, 5);
    for (int i = 0; i < 5; i++) {
        tt_policy_gp_predict(&g, x[i], &mean, &deviation);
        assert_true(fabs(mean - y[i]) < 5e-3);
        assert_true(deviation < 0.02);
    }
    tt_policy_gp_predict(&g, 0.35, &mean, &far);
    assert_true(mean < -0.1 && mean > -0.45);
    assert_true(far > 0.02);
}

static void test_no_value_twice(void **state)
{
    struct tt_tuner t;
    struct tutti_error err = {0};
    uint64_t bytes, seen[64];
    uint32_t n = 0;
    (void)state;
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){.trials = 40}, &err), TUTTI_OK);
    while (tt_policy_tuner_next(&t, &bytes)) {
        for (uint32_t i = 0; i < n; i++)
            assert_int_not_equal(seen[i], bytes);
        seen[n++] = bytes;
        tt_policy_tuner_tell(&t, 1000); /* flat: nothing to learn */
    }
    assert_int_equal(n, 40);
}

static void test_limits(void **state)
{
    struct tt_tuner t;
    struct tutti_error err = {0};
    uint64_t bytes;
    (void)state;
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){.min_bytes = 9, .max_bytes = 8}, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){.trials = 65}, &err), TUTTI_ERR_ARG);
    /* a range of one value */
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){.min_bytes = 1 << 20, .max_bytes = 1 << 20}, &err), TUTTI_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(tt_policy_tuner_next(&t, &bytes));
        assert_int_equal(bytes, 1 << 20);
        tt_policy_tuner_tell(&t, 5);
    }
    assert_false(tt_policy_tuner_next(&t, &bytes));
}

static void test_explains(void **state)
{
    struct tt_tuner t;
    struct tutti_error err = {0};
    struct tt_str out = {0};
    uint64_t bytes;
    (void)state;
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){.trials = 5}, &err), TUTTI_OK);
    while (tt_policy_tuner_next(&t, &bytes))
        tt_policy_tuner_tell(&t, curve(bytes, 22, 0.2, 0.2, 1e11));
    tt_policy_tuner_explain(&t, &out);
    assert_non_null(strstr(out.s, "trial 1: threshold 25 MiB, step "));
    assert_non_null(strstr(out.s, "trial 5: "));
    assert_non_null(strstr(out.s, " *\n"));
    assert_non_null(strstr(out.s, "winner: "));
    assert_non_null(strstr(out.s, "below the next"));
    tt_str_free(&out);
}

static const struct tt_tuner_label label = {"resnet50", "dear", 0xabc};

static tutti_status read_text(const char *text, struct tt_tuner *ret, struct tutti_error *err)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    tutti_status st = tt_policy_tuner_read(f, "f.json", &label, ret, err);
    fclose(f);
    return st;
}

static void test_file(void **state)
{
    struct tt_tuner t, back;
    struct tutti_error err = {0};
    char *text = NULL;
    size_t len;
    uint64_t bytes;
    FILE *f = open_memstream(&text, &len);
    (void)state;
    assert_int_equal(tt_policy_tuner_init(&t, &(struct tt_tuner_options){0}, &err), TUTTI_OK);
    while (tt_policy_tuner_next(&t, &bytes))
        tt_policy_tuner_tell(&t, curve(bytes, 20, 0.2, 0.1, 1e11));
    tt_policy_tuner_write(&t, &label, f);
    fclose(f);
    if (read_text(text, &back, &err))
        fail_msg("%s", err.text);
    assert_int_equal(back.n, t.n);
    assert_int_equal(tt_policy_tuner_best(&back), tt_policy_tuner_best(&t));
    for (uint32_t i = 0; i < t.n; i++) {
        assert_int_equal(back.trials[i].threshold_bytes, t.trials[i].threshold_bytes);
        assert_int_equal(back.trials[i].time_ps, t.trials[i].time_ps);
    }
    assert_false(tt_policy_tuner_next(&back, &bytes));
    free(text);
}

static void test_bad_files(void **state)
{
#define HEAD  "{\"format\": \"tutti-fusion\", \"version\": 1, \"model\": \"resnet50\", \"policy\": \"dear\", \"key\": \"0000000000000abc\", "
#define RANGE "\"min_bytes\": 1024, \"max_bytes\": 4096, "
    static const struct {
        const char *text;
        tutti_status status;
        const char *words;
    } bad[] = {
        {"[]", TUTTI_ERR_PARSE, "f.json:1"},
        {"{}", TUTTI_ERR_PARSE, "\"format\" is missing"},
        {HEAD RANGE "\"trials\": []}", TUTTI_ERR_PARSE, "no trials"},
        {HEAD RANGE "\"trials\": [[1024]]}", TUTTI_ERR_PARSE, ""},
        {HEAD RANGE "\"trials\": [[1024, 0]]}", TUTTI_ERR_RANGE, "0 is not within"},
        {HEAD RANGE "\"trials\": [[1024, 5, 6]]}", TUTTI_ERR_PARSE, ""},
        {HEAD RANGE "\"trials\": [[1024, 5]], \"trials\": []}", TUTTI_ERR_PARSE, "twice"},
        {HEAD RANGE "\"trails\": []}", TUTTI_ERR_PARSE, "did you mean trials"},
        {HEAD RANGE "\"trials\": [[1024, 5]]} x", TUTTI_ERR_PARSE, ""},
        {HEAD "\"min_bytes\": 4097, \"max_bytes\": 4096, \"trials\": [[1024, 5]]}", TUTTI_ERR_PARSE, "range is empty"},
        {"{\"format\": \"tutti-fusion\", \"version\": 2}", TUTTI_ERR_RANGE, "2 is not within 1..1"},
        {"{\"format\": \"tutti-fusion\", \"model\": \"vgg16\"}", TUTTI_ERR_MISMATCH, "model is \"vgg16\", not \"resnet50\""},
        {"{\"format\": \"tutti-fusion\", \"key\": \"0000000000000abd\"}", TUTTI_ERR_MISMATCH, "key"},
    };
    (void)state;
    for (size_t i = 0; i < countof(bad); i++) {
        struct tt_tuner t = {.n = 99};
        struct tutti_error err = {0};
        tutti_status st = read_text(bad[i].text, &t, &err);
        if (st != bad[i].status || !strstr(err.text, bad[i].words))
            fail_msg("%s: %d %s", bad[i].text, st, err.text);
        assert_int_equal(t.n, 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finds_valleys),  cmocka_unit_test(test_regression),
                                       cmocka_unit_test(test_no_value_twice), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_explains),       cmocka_unit_test(test_file),
                                       cmocka_unit_test(test_bad_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
