/* Control lines on which somebody sits in the middle: what was written comes out, or the line ends
 * and says so; nothing else ever comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sodium.h>

#include "boot_ranks.h"

enum { LENGTH = 4, FIRST = 24, SECOND = 1500, THIRD = 1, ALL = FIRST + SECOND + THIRD, CATCH = 8192 };
static uint8_t text[ALL], caught[CATCH], altered[2 * CATCH];
static struct tt_seal_keys keys[2];
static bool sealed;
static size_t tag; /* bytes that follow each part */

static int make_keys(void **state)
{
    (void)state;
    if (sodium_init() < 0)
        return -1;
    for (size_t i = 0; i < ALL; i++)
        text[i] = (uint8_t)(i * 5 + 1);
    keys[0].cipher = keys[1].cipher = tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA;
    randombytes_buf(keys[0].send, TT_SEAL_KEY);
    randombytes_buf(keys[0].recv, TT_SEAL_KEY);
    memcpy(keys[1].send, keys[0].recv, TT_SEAL_KEY);
    memcpy(keys[1].recv, keys[0].send, TT_SEAL_KEY);
    return 0;
}

static void line_pair(struct tt_boot_line *l)
{
    int fd[2];
    struct tt_seal_keys none = {0};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++)
        assert_true(tt_boot_line_open(&l[i], fd[i], sealed ? &keys[i] : &none));
}

static void write_text(const struct tt_boot_line *l)
{
    static const size_t parts[] = {FIRST, SECOND, THIRD};
    const uint8_t *p = text;

    for (size_t i = 0; i < countof(parts); p += parts[i++]) {
        size_t sent = 0;
        assert_int_equal(tt_boot_line_write(l, p, parts[i], &sent), TT_NET_OK);
        assert_int_equal(sent, parts[i]);
    }
}

static void bytes_come_out_as_they_went_in(void **state)
{
    struct tt_boot_line l[2];
    uint8_t got[ALL + 1];
    size_t n = 0;
    (void)state;
    line_pair(l);
    write_text(&l[0]);
    for (size_t want = 0; want < ALL; want += 7) /* in steps that fit no record */
        assert_int_equal(tt_boot_line_read(&l[1], got, want, &n), TT_NET_OK);
    assert_int_equal(tt_boot_line_read(&l[1], got, ALL + 1, &n), TT_NET_AGAIN);
    assert_int_equal(n, ALL);
    assert_memory_equal(got, text, ALL);
    tt_boot_line_close(&l[0]);
    errno = 1;
    assert_int_equal(tt_boot_line_read(&l[1], got, ALL + 1, &n), TT_NET_END);
    assert_int_equal(errno, 0);
    tt_boot_line_close(&l[1]);
}

/* More than the socket takes: writing goes on where it stopped. */
static void long_writes_go_on(void **state)
{
    enum { MUCH = 3 << 20 };
    struct tt_boot_line l[2];
    uint8_t *much = malloc(MUCH), *got = malloc(MUCH);
    size_t sent = 0, n = 0;
    (void)state;
    for (size_t i = 0; i < MUCH; i++)
        much[i] = (uint8_t)(i * 7 + (i >> 9));
    line_pair(l);
    assert_int_equal(tt_boot_line_write(&l[0], much, MUCH, &sent), TT_NET_AGAIN);
    while (sent < MUCH) {
        assert_true(tt_boot_line_read(&l[1], got, MUCH, &n) != TT_NET_END);
        assert_true(tt_boot_line_write(&l[0], much, MUCH, &sent) != TT_NET_END);
    }
    assert_int_equal(tt_boot_line_read(&l[1], got, MUCH, &n), TT_NET_OK);
    assert_memory_equal(got, much, MUCH);
    tt_boot_line_close(&l[0]);
    tt_boot_line_close(&l[1]);
    free(much);
    free(got);
}

/* ---- in the middle ---- */

/* What goes over the wire for `text`. */
static size_t listen_in(void)
{
    struct tt_boot_line l[2];
    size_t n = 0;

    line_pair(l);
    write_text(&l[0]);
    assert_int_equal(tt_boot_net_fill(l[1].fd, caught, CATCH, &n), TT_NET_AGAIN);
    tt_boot_line_close(&l[0]);
    tt_boot_line_close(&l[1]);
    assert_int_equal(n, ALL + 4 * (LENGTH + 2 * tag)); /* the second write needs two records */
    return n;
}

/* A reader gets n bytes of `altered` and then the end; it must have got a beginning of `text`.
 * Returns errno. */
static int read_altered(size_t n)
{
    struct tt_boot_line l[2];
    uint8_t got[ALL];
    size_t done = 0, sent = 0;

    line_pair(l);
    assert_int_equal(tt_boot_net_drain(l[0].fd, altered, n, &sent), TT_NET_OK);
    tt_boot_line_close(&l[0]);
    errno = 1;
    enum tt_net went = tt_boot_line_read(&l[1], got, ALL, &done);
    int error = errno;
    assert_true(done <= ALL);
    assert_memory_equal(got, text, done);
    tt_boot_line_close(&l[1]);
    return went == TT_NET_OK ? -1 : error;
}

static void each_flipped_byte_ends_the_line(void **state)
{
    size_t n = listen_in();
    (void)state;
    for (size_t i = 0; i < n; i++) {
        memcpy(altered, caught, n);
        altered[i] ^= (uint8_t)(1 << i % 8);
        if (read_altered(n) != EBADMSG)
            fail_msg("byte %zu of %zu was altered, and nobody noticed", i, n);
    }
}

static void records_cannot_be_cut_moved_or_repeated(void **state)
{
    size_t n = listen_in(), first = LENGTH + FIRST + 2 * tag, last = LENGTH + THIRD + 2 * tag;
    (void)state;
    for (size_t i = 0; i < n; i += i < 100 ? 1 : 97) { /* a byte is missing, or came twice, or the rest never came */
        memcpy(altered, caught, i);
        memcpy(altered + i, caught + i + 1, n - i - 1);
        int missing = read_altered(n - 1);
        assert_true(missing == EBADMSG || (missing == 0 && i >= n - last));
        memcpy(altered, caught, n);
        memmove(altered + i + 1, caught + i, n - i);
        assert_int_equal(read_altered(n + 1), i + 1 < n ? EBADMSG : -1);
        memcpy(altered, caught, n);
        assert_int_equal(read_altered(i), 0);
    }
    memcpy(altered, caught, first); /* the first record twice */
    memcpy(altered + first, caught, n);
    assert_int_equal(read_altered(n + first), EBADMSG);
    memcpy(altered, caught + first, n - first); /* without the first */
    assert_int_equal(read_altered(n - first), EBADMSG);
    memcpy(altered, caught + n - last, last); /* the last one first */
    memcpy(altered + last, caught, n - last);
    assert_int_equal(read_altered(n), EBADMSG);
    memcpy(altered, caught, n);
    assert_int_equal(read_altered(n), -1); /* untouched it is taken: what keys know is only each other */
}

/* A line of another connection, or the other direction of this one, has other keys. */
static void lines_do_not_mix(void **state)
{
    struct tt_seal_keys mine = keys[0];
    (void)state;
    if (!sealed)
        return; /* a checksum knows no connections */
    size_t n = listen_in();
    memcpy(altered, caught, n);
    memcpy(keys[1].recv, mine.recv, TT_SEAL_KEY);
    assert_int_equal(read_altered(n), EBADMSG);
    memcpy(keys[1].recv, mine.send, TT_SEAL_KEY);
    assert_int_equal(read_altered(n), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(long_writes_go_on),
        cmocka_unit_test(each_flipped_byte_ends_the_line),
        cmocka_unit_test(records_cannot_be_cut_moved_or_repeated),
        cmocka_unit_test(lines_do_not_mix),
    };
    int bad = 0;
    for (int i = 0; i < 2; i++) {
        sealed = i;
        tag = sealed ? TT_SEAL_TAG : 4;
        bad += cmocka_run_group_tests_name(sealed ? "sealed lines" : "plain lines", tests, make_keys, NULL);
    }
    return bad;
}
