/* key.c - the job key from its file.
 *
 * The file holds at least 32 random bytes, raw or as hex digits, and only its owner may read it. 32
 * bytes are the key itself; longer secrets are hashed to 32. Every process that can read the key
 * can join the job, so a file that others can read is refused, as ssh does. The key never appears
 * in messages, and every copy of it on the stack is erased. */
#include "boot/boot_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_FILE_MAX = 4096 };
#define HOW_TO_MAKE "make one with: (umask 077; head -c 32 /dev/urandom > key)"

/* Length without trailing white space, such as the newline of an editor. */
static size_t trimmed(const uint8_t *text, size_t n)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) && text[n - 1])
        n--;
    return n;
}

static bool all_hex(const uint8_t *text, size_t n)
{
    static const char digits[] = "0123456789abcdefABCDEF";

    for (size_t i = 0; i < n; i++)
        if (!text[i] || !strchr(digits, text[i]))
            return false;
    return n > 0;
}

/* Makes the key from the secret; refuses one that is too short or all zeros. */
static tutti_status condense(const uint8_t *secret, size_t n, uint8_t ret_key[TT_BOOT_KEY],
                             struct tutti_error *err)
{
    if (n < TT_BOOT_KEY)
        return tt_fail(err, TUTTI_ERR_ARG, "holds %zu bytes, a key has at least %d; " HOW_TO_MAKE,
                       n, TT_BOOT_KEY);
    if (sodium_is_zero(secret, n))
        return tt_fail(err, TUTTI_ERR_ARG, "is all zeros; " HOW_TO_MAKE);
    if (n == TT_BOOT_KEY)
        memcpy(ret_key, secret, n);
    else
        crypto_generichash(ret_key, TT_BOOT_KEY, secret, n, NULL, 0);
    return TUTTI_OK;
}

tutti_status tt_boot_key_parse(const uint8_t *text, size_t n, uint8_t ret_key[TT_BOOT_KEY],
                               struct tutti_error *err)
{
    uint8_t secret[KEY_FILE_MAX / 2];
    size_t digits = trimmed(text, n), bytes = 0;
    tutti_status st;

    if (n > KEY_FILE_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT, "is longer than %d bytes", KEY_FILE_MAX);
    /* Raw bytes are not trimmed: a random key may end with a byte that looks like white space. */
    if (!all_hex(text, digits))
        return condense(text, n, ret_key, err);
    if (digits < 2 * TT_BOOT_KEY || digits % 2 != 0)
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "holds %zu hex digits, a key has at least %d and an even number; " HOW_TO_MAKE, digits,
            2 * TT_BOOT_KEY);
    sodium_hex2bin(secret, sizeof secret, (const char *)text, digits, NULL, &bytes, NULL);
    st = condense(secret, bytes, ret_key, err);
    sodium_memzero(secret, sizeof secret);
    return st;
}

/* fstat on the open descriptor, so that the file cannot be exchanged between check and read. */
static tutti_status check_owner(int fd, struct tutti_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return tt_fail(err, TUTTI_ERR_IO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return tt_fail(err, TUTTI_ERR_ARG, "is not a regular file");
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return tt_fail(err, TUTTI_ERR_ARG, "belongs to another user (uid %u)", (unsigned)st.st_uid);
    if (st.st_mode & 077)
        return tt_fail(err, TUTTI_ERR_ARG, "is readable by others (mode %04o): chmod 600 it",
                       (unsigned)(st.st_mode & 07777));
    return TUTTI_OK;
}

/* cap is one more than the limit, so that a file that is too long is noticed. */
static tutti_status read_all(int fd, uint8_t *text, size_t cap, size_t *ret_n,
                             struct tutti_error *err)
{
    size_t n = 0;

    while (n < cap) {
        ssize_t got = read(fd, text + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tt_fail(err, TUTTI_ERR_IO, "%s", strerror(errno));
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret_n = n;
    return TUTTI_OK;
}

tutti_status tt_boot_key_load(const char *path, uint8_t ret_key[TT_BOOT_KEY],
                              struct tutti_error *err)
{
    uint8_t text[KEY_FILE_MAX + 1];
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not make us wait */
    tutti_status st;

    if (sodium_init() < 0)
        st = tt_fail(err, TUTTI_ERR_IO, "libsodium cannot be initialised");
    else if (fd < 0)
        st = tt_fail(err, TUTTI_ERR_IO, "%s", strerror(errno));
    else
        st = check_owner(fd, err);
    if (!st)
        st = read_all(fd, text, sizeof text, &n, err);
    if (!st)
        st = tt_boot_key_parse(text, n, ret_key, err);
    if (st)
        tt_fail_prefix(err, "key file %s", path);
    sodium_memzero(text, sizeof text);
    tt_boot_net_close(&fd);
    return st;
}
