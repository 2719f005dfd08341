/* Sealed control lines: from an edited stream exactly those bytes come out whose records came whole
 * and untouched before the first edit; then the line ends. */
#include <errno.h>
#include <sys/socket.h>

#include "boot/boot_int.h"
#include "edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WRITES = 5, TEXT = 2000, WIRE = 8192, RECORDS_MAX = 8 };
static const size_t writes[WRITES] = {24, 8, 1, 1100, 40};
static uint8_t text[TEXT], genuine[WIRE], wire[WIRE], got[TEXT];
static size_t genuine_bytes, ends[RECORDS_MAX], plain[RECORDS_MAX]; /* of each record: where it ends, bytes up to there */
static size_t records;

static void must(bool ok)
{
    if (!ok)
        abort();
}

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd[2];
    size_t same, sent = 0, n, done = 0, whole = 0;

    if (!records)
        record();
    n = edit(data, size, genuine, genuine_bytes, wire, WIRE, &same);
    while (whole < records && ends[whole] <= same)
        whole++;
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd));
    struct tt_boot_line l = open_end(fd[0], false);
    must(tt_boot_net_drain(fd[1], wire, n, &sent) == TT_NET_OK);
    tt_boot_net_close(&fd[1]);
    errno = 1;
    must(tt_boot_line_read(&l, got, TEXT, &done) == TT_NET_END);
    must(errno == EBADMSG || errno == 0);
    must(done == (whole ? plain[whole - 1] : 0) && !memcmp(got, text, done));
    tt_boot_line_close(&l);
    return 0;
}
