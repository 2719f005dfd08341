/* Neither the job key nor a key of a connection is in the memory of a process that has closed its
 * communicators: each rank searches all of its own. Keys are searched for by what their bytes are when
 * they are changed, so that the search does not find itself. Keys of connections are taken where they
 * are made (the linker puts __wrap_tt_seal_derive in its place). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "boot_ranks.h"
#include "comm/comm.h"

enum { MASK = 0x5a, KEYS = 256 };
static uint8_t masked[KEYS][TT_BOOT_KEY]; /* the first one is the job key */
static _Atomic uint32_t nkeys = 1;
static bool begins[1 << 16]; /* two bytes that a key begins with */

static void note(uint32_t i, const uint8_t *key)
{
    for (size_t k = 0; k < TT_BOOT_KEY && i < KEYS; k++)
        masked[i][k] = key[k] ^ MASK;
    begins[key[0] << 8 | key[1]] = true;
}

void __real_tt_seal_derive(const struct tt_seal_origin *o, enum tt_cipher cipher, struct tt_seal_keys *ret);
void __wrap_tt_seal_derive(const struct tt_seal_origin *o, enum tt_cipher cipher, struct tt_seal_keys *ret);
void __wrap_tt_seal_derive(const struct tt_seal_origin *o, enum tt_cipher cipher, struct tt_seal_keys *ret)
{
    __real_tt_seal_derive(o, cipher, ret);
    note(atomic_fetch_add(&nkeys, 1), ret->send);
    note(atomic_fetch_add(&nkeys, 1), ret->recv);
}

struct job {
    uint16_t port;
    uint32_t size;
    bool encrypt;
    char file[64];
};

static bool is_one(const uint8_t *at, const uint8_t *key)
{
    for (size_t i = 0; i < TT_BOOT_KEY; i++)
        if ((at[i] ^ MASK) != key[i])
            return false;
    return true;
}

static bool is_key(const uint8_t *at)
{
    bool found = false;
    for (uint32_t k = 0; begins[at[0] << 8 | at[1]] && k < nkeys && k < KEYS && !found; k++)
        found = is_one(at, masked[k]);
    return found;
}

/* How often a key stands in writable memory. Mappings of more than a gigabyte are reservations (a sanitizer's
 * shadow has terabytes), which nobody stores a key in. */
static int search(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), found = 0;
    char line[512];

    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[0] != 'r' || mode[1] != 'w' || to - from > 1UL << 30)
            continue;
        for (unsigned long at = from; at < to; at += 4096) {
            static uint8_t page[4096 + TT_BOOT_KEY];
            ssize_t n = pread(memory, page, sizeof page, (off_t)at);
            bool own = at + sizeof page > (unsigned long)page && at < (unsigned long)page + sizeof page;
            for (ssize_t i = 0; !own && i + TT_BOOT_KEY <= n; i++)
                found += is_key(page + i) && i < 4096;
            explicit_bzero(page, sizeof page);
        }
    }
    if (maps)
        fclose(maps);
    close(memory);
    return found;
}

static void open_and_search(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_comm_config c = {.boot = loopback_config(j->size, j->port, 20000), .transport = "tcp", .timeout_ns = UINT64_C(20000000000)};
    struct tt_comm *comm = NULL, *half = NULL;
    struct outcome *o = &outcomes[rank];
    float x = 1, y = 0;

    c.boot.rank = rank;
    c.boot.encrypt = j->encrypt;
    o->status = tt_boot_key(&c.boot, j->file, &o->err);
    if (!o->status)
        o->status = tt_comm_open(&c, &comm, &o->err);
    if (!o->status)
        o->status = tt_comm_split(comm, 0, 0, &half, &o->err);
    if (!o->status)
        o->status = tt_comm_run(half, &(struct tt_call){.coll = TUTTI_ALLREDUCE, .in = &x, .out = &y, .count = 1, .dtype = TUTTI_F32});
    /* they can be found while they are needed */
    int least = j->encrypt ? 4 : 1;
    o->value = comm && search() >= least && y == (float)j->size && nkeys < KEYS ? 0 : 1000;
    tt_comm_close(half);
    tt_comm_close(comm);
    o->value += search();
}

static void closed_communicators_leave_no_key(void **state)
{
    (void)state;
    struct job j = {.size = 3};

    for (int encrypt = 0; encrypt < 2; encrypt++) {
        uint8_t key[TT_BOOT_KEY];
        struct tt_rng r;
        tt_rng_seed(&r, tt_entropy());
        for (size_t i = 0; i < sizeof key; i++)
            key[i] = (uint8_t)tt_rng_next(&r);
        note(0, key);
        snprintf(j.file, sizeof j.file, "/tmp/tutti-test-key-XXXXXX");
        int fd = mkstemp(j.file);
        assert_true(fd >= 0 && write(fd, key, sizeof key) == sizeof key);
        close(fd);
        explicit_bzero(key, sizeof key);
        explicit_bzero(&r, sizeof r);
        j.port = free_port();
        j.encrypt = encrypt;
        run_ranks(j.size, open_and_search, &j);
        unlink(j.file);
        for (uint32_t k = 0; k < j.size; k++) {
            if (outcomes[k].status || outcomes[k].value)
                fail_msg("rank %u: keys were left in %d places (1000: the test itself is wrong): %s", k, outcomes[k].value,
                         outcomes[k].err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_communicators_leave_no_key)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
