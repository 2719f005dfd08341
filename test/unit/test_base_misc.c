/* Errors, memory, vectors, strings, near matches, random numbers and hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static void errors(void **state)
{
    struct tutti_error err = {0};
    char longer[2000];

    (void)state;
    assert_int_equal(tt_fail(&err, TUTTI_ERR_ARG, "no %s for %d", "room", 7), TUTTI_ERR_ARG);
    assert_int_equal(err.status, TUTTI_ERR_ARG);
    assert_string_equal(err.text, "no room for 7");
    tt_fail_prefix(&err, "file %d", 3);
    assert_string_equal(err.text, "file 3: no room for 7");
    tt_fail(&err, TUTTI_ERR_PARSE, "again: %s", err.text);
    assert_string_equal(err.text, "again: file 3: no room for 7");
    tt_fail(&err, TUTTI_ERR_PARSE, "%s", "\x1b[31m\nfake\x7f");
    assert_string_equal(err.text, "?[31m?fake?");
    assert_int_equal(tt_fail_memory(&err, "plan"), TUTTI_ERR_MEMORY);
    assert_string_equal(err.text, "out of memory (plan)");
    assert_int_equal(tt_fail(NULL, TUTTI_ERR_IO, "x"), TUTTI_ERR_IO);
    tt_fail_prefix(NULL, "x");
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    tt_fail(&err, TUTTI_ERR_ARG, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    tt_fail_prefix(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void status_texts(void **state)
{
    (void)state;
    assert_string_equal(tt_status_text(TUTTI_OK), "success");
    assert_string_equal(tt_status_text(TUTTI_ERR_INCORRECT), "schedule is not correct");
    assert_string_equal(tt_status_text(12345), "unknown status");
}

static void memory(void **state)
{
    (void)state;
    assert_null(tt_alloc(SIZE_MAX / 2, 4));
    assert_null(tt_zalloc(SIZE_MAX, SIZE_MAX));
    assert_null(tt_resize(NULL, SIZE_MAX / 8 + 2, 8));
    void *p = tt_alloc(0, 8);
    assert_non_null(p);
    free(p);
    unsigned char *z = tt_zalloc(1000, 3);
    assert_non_null(z);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(z[i], 0);
    free(z);
    char *s = tt_strdup("abc");
    assert_string_equal(s, "abc");
    free(s);
}

static void vectors(void **state)
{
    struct tt_vec v = {.elem = sizeof(int)};

    (void)state;
    assert_non_null(tt_vec_push(&v, NULL, 0));
    assert_int_equal(v.len, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(*(int *)tt_vec_push(&v, &i, 1), i);
    int *zeros = tt_vec_push(&v, NULL, 500);
    assert_non_null(zeros);
    assert_int_equal(v.len, 1500);
    for (int i = 0; i < 1500; i++)
        assert_int_equal(*(int *)tt_vec_at(&v, (size_t)i), i < 1000 ? i : 0);
    assert_null(tt_vec_push(&v, NULL, SIZE_MAX / 2));
    assert_null(tt_vec_push(&v, NULL, SIZE_MAX));
    assert_int_equal(v.len, 1500);
    tt_vec_free(&v);
    assert_int_equal(v.len, 0);
    int seven = 7;
    assert_non_null(tt_vec_push(&v, &seven, 1));
    assert_int_equal(*(int *)tt_vec_at(&v, 0), 7);
    tt_vec_free(&v);
}

static void strings(void **state)
{
    struct tt_str b = {0};

    (void)state;
    tt_str_add(&b, "", 0);
    assert_string_equal(b.s, "");
    for (int i = 0; i < 300; i++)
        tt_str_printf(&b, "%d,", i);
    assert_false(b.failed);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 200 * 4);
    assert_memory_equal(b.s, "0,1,2,", 6);
    assert_string_equal(b.s + b.len - 4, "299,");
    tt_str_add(&b, "tail", 2);
    assert_string_equal(b.s + b.len - 6, "299,ta");
    tt_str_add(&b, "x", SIZE_MAX - 10);
    assert_true(b.failed);
    tt_str_add(&b, "more", 4);
    assert_string_equal(b.s + b.len - 2, "ta");
    tt_str_free(&b);
    assert_null(b.s);
    assert_false(b.failed);
}

static void utf8(void **state)
{
    static const struct {
        const char *s;
        size_t len;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},
        {"\xc0\x80", 0},         /* overlong NUL */
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xc2", 0}, /* cut short */
        {"\xe2\x82", 0},
        {"\xe2\x28\xa1", 0},
        {"\xe2\x82\x28", 0},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        assert_int_equal(tt_utf8_len(cases[i].s, strlen(cases[i].s)), cases[i].len);
    assert_int_equal(tt_utf8_len("a", 0), 0);
}

static void near_matches(void **state)
{
    static const char *const names[] = {"ring", "bi-ring", "recursive-doubling", "halving-doubling", "circulant", "direct", "oneshot"};
    char buf[100], tiny[20], none[13];

    (void)state;
    const size_t n = countof(names);
    assert_string_equal(tt_near_matches("rign", names, n, buf, sizeof buf), "did you mean ring?");
    assert_string_equal(tt_near_matches("RINGS", names, n, buf, sizeof buf), "did you mean ring?");
    assert_string_equal(tt_near_matches("ring", names, n, buf, sizeof buf), "did you mean ring, bi-ring?");
    assert_string_equal(tt_near_matches("circulent", names, n, buf, sizeof buf), "did you mean circulant?");
    assert_string_equal(tt_near_matches("doubling", names, n, buf, sizeof buf), "did you mean recursive-doubling, halving-doubling?");
    assert_string_equal(tt_near_matches("xyzzy", names, n, buf, sizeof buf), "");
    assert_string_equal(tt_near_matches("", names, n, buf, sizeof buf), "");
    assert_string_equal(tt_near_matches("ring", names, 0, buf, sizeof buf), "");
    assert_string_equal(tt_near_matches("ring", names, n, tiny, sizeof tiny), "did you mean ring?");
    assert_string_equal(tt_near_matches("ring", names, n, none, sizeof none), "");
    char longer[500];
    memset(longer, 'r', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_string_equal(tt_near_matches(longer, names, n, buf, sizeof buf), "");
}

/* The first outputs of xoshiro256** from the state 1, 2, 3, 4 (as in Rust's rand_xoshiro) and of splitmix64 from 0. */
static void random_known(void **state)
{
    static const uint64_t xoshiro[] = {11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600};
    struct tt_rng r = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < countof(xoshiro); i++)
        assert_true(tt_rng_next(&r) == xoshiro[i]);
    tt_rng_seed(&r, 0);
    assert_true(r.s[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(r.s[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(r.s[2] == UINT64_C(0x06c45d188009454f));
}

static void random_below(void **state)
{
    struct tt_rng r;
    unsigned count[7] = {0};

    (void)state;
    tt_rng_seed(&r, 42);
    for (int i = 0; i < 70000; i++)
        count[tt_rng_below(&r, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(count[i], 9600, 10400);
    for (int i = 0; i < 100; i++)
        assert_int_equal(tt_rng_below(&r, 1), 0);
    uint64_t n = (UINT64_C(3) << 62) + 1, high = 0; /* a quarter of all draws is rejected */
    for (int i = 0; i < 10000; i++) {
        uint64_t v = tt_rng_below(&r, n);
        assert_true(v < n);
        high += v >= n / 2;
    }
    assert_in_range(high, 4700, 5300);
    assert_true(tt_entropy() != tt_entropy());
}

static void hashes(void **state)
{
    const char text[] = "abcdefghijklmnopqrstuvwxyz";
    const char zeros[16] = {0};

    (void)state;
    assert_true(tt_hash_bytes(1, text, 26) == tt_hash_bytes(1, text, 26));
    assert_true(tt_hash_bytes(1, text, 26) != tt_hash_bytes(2, text, 26));
    for (size_t n = 1; n <= 26; n++)
        assert_true(tt_hash_bytes(1, text, n) != tt_hash_bytes(1, text, n - 1));
    for (size_t n = 1; n <= 16; n++)
        assert_true(tt_hash_bytes(0, zeros, n) != tt_hash_bytes(0, zeros, n - 1));
    assert_true(tt_mix64(1) != tt_mix64(2));
    /* cached plans are keyed by these: the values must not change from one version or machine to the next */
    assert_true(tt_hash_bytes(0, "", 0) == UINT64_C(0xa706dd2f4d197e6f));
    assert_true(tt_hash_bytes(7, text, 26) == UINT64_C(0x28b9b394ffa4c537));
    uint64_t before = tt_now_ns();
    assert_true(tt_now_ns() >= before);
}

static void logs(void **state)
{
    static const struct {
        uint64_t n;
        unsigned log;
    } cases[] = {{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {1024, 10}, {1025, 11}, {UINT64_C(1) << 63, 63}, {UINT64_MAX, 64}};

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        assert_int_equal(tt_ceil_log2(cases[i].n), cases[i].log);
    assert_int_equal(tt_floor_pow2(1), 1);
    assert_int_equal(tt_floor_pow2(7), 4);
    assert_int_equal(tt_floor_pow2(8), 8);
    assert_true(tt_floor_pow2(UINT64_MAX) == UINT64_C(1) << 63);
}

/* A text that does not fit is marked, and cut between characters. */
static void fitted(void **state)
{
    char to[8];
    (void)state;
    tt_str_fit(to, sizeof to, "1234567");
    assert_string_equal(to, "1234567");
    tt_str_fit(to, sizeof to, "12345678");
    assert_string_equal(to, "1234...");
    tt_str_fit(to, sizeof to, "123\xc3\xa4\xc3\xa4"); /* 7 bytes */
    assert_string_equal(to, "123\xc3\xa4\xc3\xa4");
    tt_str_fit(to, sizeof to, "123\xc3\xa4\xc3\xa4!");
    assert_string_equal(to, "123...");
    tt_str_fit(to, sizeof to, "");
    assert_string_equal(to, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),  cmocka_unit_test(status_texts), cmocka_unit_test(memory),       cmocka_unit_test(vectors),
        cmocka_unit_test(strings), cmocka_unit_test(utf8),         cmocka_unit_test(near_matches), cmocka_unit_test(random_known),
        cmocka_unit_test(hashes),  cmocka_unit_test(random_below), cmocka_unit_test(logs),         cmocka_unit_test(fitted),
    };
    return cmocka_run_group_tests_name("base misc", tests, NULL, NULL);
}
