/* Ranks that somebody else has brought together: the place to meet and the key come by one gather. Ranks are threads, the gather is theirs.
 */
#include "boot/boot_int.h"

#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3 };

struct table {
    pthread_barrier_t all;
    uint8_t bytes[RANKS * 256];
    bool fails;
};
struct rank {
    struct table *table;
    struct tt_boot_config config;
    uint32_t rank;
    tutti_status st;
    struct tutti_error err;
};

static tutti_status gather(void *ctx, const void *mine, size_t bytes, void *ret_all, struct tutti_error *err)
{
    struct rank *r = ctx;
    if (r->table->fails)
        return tt_fail(err, TUTTI_ERR_CONNECT, "no exchange today");
    assert(bytes <= 256);
    memcpy(r->table->bytes + r->rank * bytes, mine, bytes);
    pthread_barrier_wait(&r->table->all);
    memcpy(ret_all, r->table->bytes, RANKS * bytes);
    return TUTTI_OK;
}

static void *adopt(void *arg)
{
    struct rank *r = arg;
    struct tt_boot_parent p = {.rank = r->rank, .size = RANKS, .local_rank = (int)r->rank, .gather = gather, .ctx = r};
    r->st = tt_boot_adopt(&r->config, &p, &r->err);
    return NULL;
}

static void adopt_all(struct table *t, struct rank *ranks)
{
    pthread_t thread[RANKS];
    pthread_barrier_init(&t->all, NULL, RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].table = t;
        ranks[i].rank = i;
        pthread_create(&thread[i], NULL, adopt, &ranks[i]);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&t->all);
}

static void one_host_meets_on_loopback(void **state)
{
    struct table t = {0};
    struct rank ranks[RANKS] = {0};
    uint8_t none[TT_BOOT_KEY] = {0};
    (void)state;
    adopt_all(&t, ranks);
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct tt_boot_config *c = &ranks[i].config;
        assert_int_equal(ranks[i].st, TUTTI_OK);
        assert_int_equal(c->rank, i);
        assert_int_equal(c->size, RANKS);
        assert_int_equal(c->local_rank, (int)i);
        assert_int_equal(strncmp(c->rendezvous, "127.0.0.1:", 10), 0);
        assert_string_equal(c->rendezvous, ranks[0].config.rendezvous);
        assert_true(c->has_key);
        assert_memory_not_equal(c->key, none, TT_BOOT_KEY);
        assert_memory_equal(c->key, ranks[0].config.key, TT_BOOT_KEY);
    }
}

static void a_users_key_is_never_sent(void **state)
{
    struct table t = {0};
    struct rank ranks[RANKS] = {0};
    (void)state;
    ranks[0].config.has_key = true;
    memset(ranks[0].config.key, 0x5a, TT_BOOT_KEY);
    adopt_all(&t, ranks);
    assert_false(ranks[1].config.has_key);
    for (size_t i = 0; i + 4 <= sizeof t.bytes; i++)
        assert_memory_not_equal(t.bytes + i, ranks[0].config.key, 4);
}

static void a_port_range_is_kept_to(void **state)
{
    struct table t = {0};
    struct rank ranks[RANKS] = {0};
    (void)state;
    ranks[0].config.port_lo = 31200;
    ranks[0].config.port_hi = 31299;
    adopt_all(&t, ranks);
    assert_int_equal(ranks[2].st, TUTTI_OK);
    unsigned long port = strtoul(ranks[2].config.rendezvous + 10, NULL, 10);
    assert_in_range(port, 31200, 31299);
}

static void a_failed_exchange_is_told(void **state)
{
    struct table t = {.fails = true};
    struct rank r = {.table = &t, .rank = 1};
    (void)state;
    adopt(&r);
    assert_int_equal(r.st, TUTTI_ERR_CONNECT);
    assert_string_equal(r.err.text, "no exchange today");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_host_meets_on_loopback),
        cmocka_unit_test(a_users_key_is_never_sent),
        cmocka_unit_test(a_port_range_is_kept_to),
        cmocka_unit_test(a_failed_exchange_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
