/* Squeezed bytes: a reader of its own makes the same bytes of them again, and what repeats gets short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "export/squeeze.h"

struct text {
    const unsigned char *at, *end;
};

static uint64_t read_number(struct text *t)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(t->at < t->end && shift < 63);
        v |= (uint64_t)(*t->at & 127) << shift;
        if (*t->at++ < 128)
            return v;
    }
}

/* Fails unless `in` becomes the n bytes of `want`. */
static void stretch(const struct tt_vec *in, const unsigned char *want, size_t n)
{
    unsigned char *out = malloc(n + 1);
    struct text t = {in->data, (const unsigned char *)in->data + in->len};
    size_t len = 0;
    while (t.at < t.end) {
        const uint64_t plain = read_number(&t);
        assert_true(plain <= (uint64_t)(t.end - t.at) && plain <= n - len);
        memcpy(out + len, t.at, plain);
        t.at += plain;
        len += plain;
        if (t.at == t.end)
            break;
        const uint64_t length = read_number(&t) + 4, distance = read_number(&t);
        assert_true(distance >= 1 && distance <= len && length <= n - len);
        for (uint64_t i = 0; i < length; i++, len++)
            out[len] = out[len - distance];
    }
    assert_int_equal(len, n);
    assert_memory_equal(out, want, n);
    free(out);
}

/* Bytes after squeezing. */
static size_t squeeze(const unsigned char *bytes, size_t n)
{
    struct tt_vec out = {.elem = 1};
    assert_true(tt_export_squeeze(bytes, n, &out));
    stretch(&out, bytes, n);
    const size_t len = out.len;
    tt_vec_free(&out);
    return len;
}

static void test_short(void **state)
{
    (void)state;
    for (size_t n = 0; n < 12; n++) {
        squeeze((const unsigned char *)"aaaaaaaaaaaa", n);
        squeeze((const unsigned char *)"abcdefghijkl", n);
        squeeze((const unsigned char *)"abcdabcdabcd", n);
    }
}

/* Runs, a pattern with a long period, and noise. */
static void test_long(void **state)
{
    (void)state;
    enum { N = 100000 };
    unsigned char *bytes = malloc(N);
    uint32_t x = 1;
    memset(bytes, 7, N);
    assert_true(squeeze(bytes, N) < 16);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (unsigned char)((i % 1009) * 37 >> 3);
    assert_true(squeeze(bytes, N) < 1200);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (unsigned char)((x = x * 1103515245 + 12345) >> 24);
    assert_true(squeeze(bytes, N) < N + N / 50);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
