/* Sealed control lines: from an edited stream exactly those bytes come out whose records came whole
 * and untouched before the first edit; then the line ends. */
#include <errno.h>
#include <sys/socket.h>

#include "boot/boot_int.h"
#include "edit.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WRITES = 5, TEXT = 2000, WIRE = 8192, RECORDS_MAX = 8 };
static const size_t writes[WRITES] = {24, 8, 1, 1100, 40};
static uint8_t text[TEXT], genuine[WIRE], wire[WIRE], got[TEXT];
static size_t genuine_bytes, ends[RECORDS_MAX], plain[RECORDS_MAX]; /* of each record: where it ends, bytes up to there */
static size_t records;

static struct tt_boot_line open_end(int fd, bool sender)
{
    struct tt_seal_keys k = {.cipher = tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA};
    struct tt_boot_line l;
    memset(sender ? k.send : k.recv, 7, TT_SEAL_KEY);
    memset(sender ? k.recv : k.send, 8, TT_SEAL_KEY);
    must(tt_boot_line_open(&l, fd, &k));
    return l;
}

/* A write of more than 1,024 bytes makes two records: one is written up to there at a time. */
static void record(void)
{
    int fd[2];
    size_t at = 0;
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd));
    struct tt_boot_line l = open_end(fd[0], true);
    for (size_t i = 0; i < TEXT; i++)
        text[i] = (uint8_t)(i * 5 + 1);
    for (int i = 0; i < WRITES; i++)
        for (size_t left = writes[i]; left > 0;) {
            size_t n = left < 1024 ? left : 1024, sent = 0;
            must(tt_boot_line_write(&l, text + at, n, &sent) == TT_NET_OK);
            must(tt_boot_net_fill(fd[1], genuine, WIRE, &genuine_bytes) == TT_NET_AGAIN);
            at += n;
            left -= n;
            plain[records] = at;
            ends[records++] = genuine_bytes;
        }
    tt_boot_line_close(&l);
    tt_boot_net_close(&fd[1]);
}

/* Reads the n bytes of wire, of which the first same ones are genuine. Returns what did not hold, or NULL. */
static const char *fault(size_t n, size_t same)
{
    int fd[2];
    size_t sent = 0, done = 0, whole = 0;
    const char *bad = NULL;

    while (whole < records && ends[whole] <= same)
        whole++;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
        return "a pair of sockets";
    struct tt_boot_line l = open_end(fd[0], false);
    if (tt_boot_net_drain(fd[1], wire, n, &sent) != TT_NET_OK)
        bad = "the socket takes the stream";
    tt_boot_net_close(&fd[1]);
    errno = 1;
    if (tt_boot_line_read(&l, got, TEXT, &done) != TT_NET_END)
        bad = bad ? bad : "the line ends";
    if (errno != EBADMSG && errno != 0)
        bad = bad ? bad : "it ends in order, or because it was altered";
    if (done != (whole ? plain[whole - 1] : 0) || memcmp(got, text, done) != 0)
        bad = bad ? bad : "exactly the whole records before the first edit come out";
    tt_boot_line_close(&l);
    return bad;
}

/* Nothing here depends on anything but the input, except the kernel's sockets: what does not hold is
 * printed and tried again, and what does not hold twice counts. (One run in CI ended here, with an
 * input on which nothing fails.) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t same, n;
    const char *bad;

    if (!records)
        record();
    n = edit(data, size, genuine, genuine_bytes, wire, WIRE, &same);
    bad = fault(n, same);
    if (bad) {
        fprintf(stderr, "fuzz_line: this did not hold: %s (errno: %s); again\n", bad, strerror(errno));
        must(!fault(n, same));
    }
    return 0;
}
