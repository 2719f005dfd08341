/* Sizes, rates and times: exact values, every refusal with its status and words, and that printed forms read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

typedef tutti_status (*parse_u64_fn)(const char *, uint64_t *, struct tutti_error *);

struct good {
    const char *text;
    uint64_t value;
};

struct bad {
    const char *text;
    tutti_status status;
    const char *says;
};

static void check_good(parse_u64_fn parse, const struct good *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tutti_error err = {0};
        uint64_t v = 0;
        if (parse(cases[i].text, &v, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        if (v != cases[i].value)
            fail_msg("%s gives %llu", cases[i].text, (unsigned long long)v);
    }
}

static void check_refusal(const struct bad *c, tutti_status status, const struct tutti_error *err)
{
    if (status != c->status || err->status != c->status)
        fail_msg("%s: status %d, %s", c->text, status, err->text);
    if (!strstr(err->text, c->says))
        fail_msg("%s: \"%s\" does not say \"%s\"", c->text, err->text, c->says);
    assert_non_null(strstr(err->text, *c->text ? c->text : "\"\""));
}

static void check_bad(parse_u64_fn parse, const struct bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tutti_error err = {0};
        uint64_t v = 12345;
        check_refusal(&cases[i], parse(cases[i].text, &v, &err), &err);
        assert_int_equal(v, 12345);
        assert_int_equal(parse(cases[i].text, &v, NULL), cases[i].status);
    }
}

static void size_good(void **state)
{
    static const struct good cases[] = {
        {"0", 0},
        {"8", 8},
        {"007", 7},
        {"64K", 65536},
        {"64k", 65536},
        {"64M", 67108864},
        {"64 MiB", 67108864},
        {"100KB", 102400},
        {"100KiB", 102400},
        {"1.5G", 1610612736},
        {"0.5K", 512},
        {"2.000", 2},
        {"1.0000000000000000000000000000000B", 1},
        {"1T", UINT64_C(1) << 40},
        {"2P", UINT64_C(1) << 51},
        {"15.5E", UINT64_C(31) << 59},
        {"18446744073709551615", UINT64_MAX},
        {"0.0009765625K", 1},
    };
    (void)state;
    check_good(tt_parse_size, cases, countof(cases));
}

static void size_bad(void **state)
{
    static const struct bad cases[] = {
        {"", TUTTI_ERR_PARSE, "expected a size"},
        {"K", TUTTI_ERR_PARSE, "expected a size"},
        {" 8", TUTTI_ERR_PARSE, "expected a size"},
        {"+8", TUTTI_ERR_PARSE, "expected a size"},
        {"0x10", TUTTI_ERR_PARSE, "unknown unit \"x10\""},
        {"8 ", TUTTI_ERR_PARSE, "unknown unit"},
        {"8  K", TUTTI_ERR_PARSE, "unknown unit"},
        {"8Ki", TUTTI_ERR_PARSE, "unknown unit"},
        {"8iB", TUTTI_ERR_PARSE, "unknown unit"},
        {"8Kb", TUTTI_ERR_PARSE, "unknown unit"},
        {"8KBx", TUTTI_ERR_PARSE, "unknown unit"},
        {"1e6", TUTTI_ERR_PARSE, "unknown unit"},
        {".5K", TUTTI_ERR_PARSE, "expected a size"},
        {"5.K", TUTTI_ERR_PARSE, "no digits after"},
        {"1.2.3", TUTTI_ERR_PARSE, "unknown unit"},
        {"nan", TUTTI_ERR_PARSE, "expected a size"},
        {"-1", TUTTI_ERR_RANGE, "negative"},
        {"1.3", TUTTI_ERR_RANGE, "whole number of bytes"},
        {"0.1K", TUTTI_ERR_RANGE, "whole number of bytes"},
        {"18446744073709551616", TUTTI_ERR_RANGE, "too large"},
        {"16E", TUTTI_ERR_RANGE, "too large"},
        {"999999999999999999999999E", TUTTI_ERR_RANGE, "too large"},
        {"1234567890123456789012345", TUTTI_ERR_RANGE, "too many digits"},
        {"0.0000000000000000000000001K", TUTTI_ERR_RANGE, "too many digits"},
    };
    (void)state;
    check_bad(tt_parse_size, cases, countof(cases));
}

static void time_good(void **state)
{
    static const struct good cases[] = {
        {"0", 0},
        {"0.0", 0},
        {"0s", 0},
        {"500ps", 500},
        {"150ns", 150000},
        {"20us", 20000000},
        {"20\xc2\xb5s", 20000000},
        {"1.5ms", 1500000000},
        {"30s", 30000000000000},
        {"1.25 us", 1250000},
        {"0.001ns", 1},
        {"18446744.073709551615s", UINT64_MAX},
    };
    (void)state;
    check_good(tt_parse_time, cases, countof(cases));
}

static void time_bad(void **state)
{
    static const struct bad cases[] = {
        {"", TUTTI_ERR_PARSE, "expected a time"},
        {"5", TUTTI_ERR_PARSE, "needs a unit"},
        {"5m", TUTTI_ERR_PARSE, "unknown unit"},
        {"5US", TUTTI_ERR_PARSE, "unknown unit"},
        {"5us ", TUTTI_ERR_PARSE, "unknown unit"},
        {"inf", TUTTI_ERR_PARSE, "expected a time"},
        {"-5us", TUTTI_ERR_RANGE, "negative"},
        {"0.5ps", TUTTI_ERR_RANGE, "whole number of picoseconds"},
        {"18446744.073709551616s", TUTTI_ERR_RANGE, "too large"},
    };
    (void)state;
    check_bad(tt_parse_time, cases, countof(cases));
}

static void rate_good(void **state)
{
    static const struct {
        const char *text;
        double bytes_per_s;
    } cases[] = {
        {"10Gbps", 1.25e9},
        {"10G", 1.25e9},
        {"10g", 1.25e9},
        {"10Gb", 1.25e9},
        {"10Gb/s", 1.25e9},
        {"10Gbit/s", 1.25e9},
        {"10 Gbit/s", 1.25e9},
        {"10gbit", 1.25e9},
        {"10GBIT", 1.25e9},
        {"10Gbits/s", 1.25e9},
        {"100Mbit", 1.25e7},
        {"2.5G", 312500000.0},
        {"8bps", 1.0},
        {"8b/s", 1.0},
        {"3bit", 0.375},
        {"16GB/s", 16e9},
        {"16gB/s", 16e9},
        {"16GBps", 16e9},
        {"125MB/s", 1.25e8},
        {"7B/s", 7.0},
        {"0.1B/s", 0.1},
        {"12.3456789GB/s", 12345678900.0},
        {"400T", 5e13},
        {"1P", 1.25e14},
        {"123456789012345678901234PB/s", 123456789012345678901234e15},
        {"0.000000000000000000000001B/s", 1e-24},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct tutti_error err = {0};
        double v = 0;
        if (tt_parse_rate(cases[i].text, &v, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        if (v != cases[i].bytes_per_s)
            fail_msg("%s gives %.17g", cases[i].text, v);
    }
}

static void rate_bad(void **state)
{
    static const struct bad cases[] = {
        {"", TUTTI_ERR_PARSE, "expected a rate"},         {"10", TUTTI_ERR_PARSE, "needs a unit"},
        {"0", TUTTI_ERR_PARSE, "needs a unit"},           {"10GB", TUTTI_ERR_PARSE, "bits or bytes"},
        {"10B", TUTTI_ERR_PARSE, "unknown unit"},         {"10GBPS", TUTTI_ERR_PARSE, "unknown unit"},
        {"10GiB/s", TUTTI_ERR_PARSE, "unknown unit"},     {"10Ebps", TUTTI_ERR_PARSE, "unknown unit"},
        {"1e400", TUTTI_ERR_PARSE, "unknown unit"},       {"1e9bps", TUTTI_ERR_PARSE, "unknown unit"},
        {"nan", TUTTI_ERR_PARSE, "expected a rate"},      {"inf", TUTTI_ERR_PARSE, "expected a rate"},
        {"Gbps", TUTTI_ERR_PARSE, "expected a rate"},     {"10Gbpsx", TUTTI_ERR_PARSE, "unknown unit"},
        {"-1Gbps", TUTTI_ERR_RANGE, "negative"},          {"0Gbps", TUTTI_ERR_RANGE, "more than zero"},
        {"0.000MB/s", TUTTI_ERR_RANGE, "more than zero"},
    };
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct tutti_error err = {0};
        double v = 0.5;
        check_refusal(&cases[i], tt_parse_rate(cases[i].text, &v, &err), &err);
        assert_true(v == 0.5);
    }
}

static void u64(void **state)
{
    struct tutti_error err = {0};
    uint64_t v = 7;

    (void)state;
    assert_int_equal(tt_parse_u64("0", 0, 10, &v, &err), TUTTI_OK);
    assert_int_equal(v, 0);
    assert_int_equal(tt_parse_u64("18446744073709551615", 0, UINT64_MAX, &v, &err), TUTTI_OK);
    assert_true(v == UINT64_MAX);
    v = 7;
    static const struct bad cases[] = {
        {"", TUTTI_ERR_PARSE, "whole number"},   {"1x", TUTTI_ERR_PARSE, "whole number"},
        {" 1", TUTTI_ERR_PARSE, "whole number"}, {"1.0", TUTTI_ERR_PARSE, "whole number"},
        {"-1", TUTTI_ERR_RANGE, "negative"},     {"+1", TUTTI_ERR_PARSE, "whole number"},
        {"-", TUTTI_ERR_PARSE, "whole number"},  {"0", TUTTI_ERR_RANGE, "from 1 to 10"},
        {"11", TUTTI_ERR_RANGE, "from 1 to 10"}, {"18446744073709551617", TUTTI_ERR_RANGE, "from 1 to 10"},
    };
    for (size_t i = 0; i < countof(cases); i++)
        check_refusal(&cases[i], tt_parse_u64(cases[i].text, 1, 10, &v, &err), &err);
    assert_int_equal(v, 7);
}

static void format_sizes(void **state)
{
    static const struct good cases[] = {
        {"0 B", 0},
        {"1 B", 1},
        {"1023 B", 1023},
        {"1 KiB", 1024},
        {"1.001 KiB", 1025},
        {"64 MiB", 67108864},
        {"1.5 GiB", 1610612736},
        {"1023 KiB", 1023 * 1024},
        {"1 MiB", 1048575},
        {"95.37 MiB", 100000000},
        {"9.766 KiB", 10000},
        {"100 MiB", 104857600},
        {"16 EiB", UINT64_MAX},
    };
    char buf[32];

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        assert_string_equal(tt_format_size(cases[i].value, buf, sizeof buf), cases[i].text);
}

static void format_times(void **state)
{
    static const struct good cases[] = {
        {"0 s", 0},
        {"999 ps", 999},
        {"1 ns", 1000},
        {"150 ns", 150000},
        {"1.25 us", 1250000},
        {"20 us", 20000000},
        {"1 us", 999999},
        {"999.9 ns", 999949},
        {"1.5 ms", 1500000000},
        {"30 s", 30000000000000},
        {"18446744 s", UINT64_MAX},
    };
    char buf[32];

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        assert_string_equal(tt_format_time(cases[i].value, buf, sizeof buf), cases[i].text);
}

static void format_rates(void **state)
{
    static const struct {
        const char *text;
        double bytes_per_s;
    } cases[] = {
        {"10 Gbit/s", 1.25e9}, {"128 Gbit/s", 16e9}, {"2.5 Gbit/s", 312500000.0}, {"100 Mbit/s", 1.25e7}, {"8 bit/s", 1},
        {"0.8 bit/s", 0.1},    {"1 Kbit/s", 125},    {"400 Tbit/s", 5e13},        {"0 bit/s", 0},         {"12.35 Gbit/s", 1.5432e9},
    };
    char buf[32];

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        assert_string_equal(tt_format_rate(cases[i].bytes_per_s, buf, sizeof buf), cases[i].text);
    tt_format_rate(1e300, buf, sizeof buf); /* absurd, but must not overflow */
    assert_string_equal(buf, "8e+300 bit/s");
}

/* Whatever is printed reads back, within the rounding to four digits. */
static void formats_read_back(void **state)
{
    struct tt_rng r;
    char buf[32];

    (void)state;
    tt_rng_seed(&r, 1);
    for (int i = 0; i < 20000; i++) {
        uint64_t v = tt_rng_next(&r) >> tt_rng_below(&r, 64), bytes;
        struct tutti_error err;
        double got;
        if (tt_parse_rate(tt_format_rate((double)v + 1, buf, sizeof buf), &got, &err))
            fail_msg("%s", err.text);
        assert_true(got > ((double)v + 1) * 0.9994 && got < ((double)v + 1) * 1.0006);
        v >>= 1;
        if (tt_parse_time(tt_format_time(v, buf, sizeof buf), &bytes, &err))
            fail_msg("%s", err.text);
        assert_true((double)bytes >= (double)v * 0.9994 && (double)bytes <= (double)v * 1.0006);
        tt_format_size(v, buf, sizeof buf);
        assert_true(strspn(buf, "0123456789.") <= 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_good),    cmocka_unit_test(size_bad),          cmocka_unit_test(time_good),
        cmocka_unit_test(time_bad),     cmocka_unit_test(rate_good),         cmocka_unit_test(rate_bad),
        cmocka_unit_test(u64),          cmocka_unit_test(format_sizes),      cmocka_unit_test(format_times),
        cmocka_unit_test(format_rates), cmocka_unit_test(formats_read_back),
    };
    return cmocka_run_group_tests_name("base units", tests, NULL, NULL);
}
