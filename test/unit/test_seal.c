/* Records and checksums as functions on buffers. Golden values were made with Python:
 * hashlib.blake2b, and AESGCM and ChaCha20Poly1305 of the package cryptography. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sodium.h>

#include "seal/seal.h"

static uint8_t KEY[TT_SEAL_KEY];
static const enum tt_cipher ciphers[] = {TT_CIPHER_AES, TT_CIPHER_CHACHA};

static int make_key(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < sizeof KEY; i++)
        KEY[i] = i;
    return sodium_init() < 0;
}

/* Every cipher that this CPU has. */
static bool can(enum tt_cipher c)
{
    if (c != TT_CIPHER_AES || tt_seal_has_aes())
        return true;
    print_message("no AES instructions here: AES-256-GCM is not tried\n");
    return false;
}

static void hex_equal(const uint8_t *bytes, size_t n, const char *want)
{
    char hex[256];
    assert_string_equal(sodium_bin2hex(hex, sizeof hex, bytes, n), want);
}

static void records_have_golden_values(void **state)
{
    static const char *const golden[2][2] = {
        {"7ac9c1aadcebeb86c5062788a1978933d8ddbbf3ee", "9659f64bcdef80e7d26a67d7847d8dd3b45902f5a3"},
        {"6ccd3645c4f1bfbe06d9ceb18df93baac5886fde02", "e04a0f9aad087f41f78ffc2d327c7e2eb15f263b73"},
    };
    (void)state;
    for (size_t i = 0; i < countof(ciphers); i++) {
        struct tt_seal s;
        uint8_t out[5 + TT_SEAL_TAG];
        if (!can(ciphers[i]))
            continue;
        tt_seal_begin(&s, ciphers[i], KEY);
        for (int k = 0; k < 2; k++) {
            tt_seal_put(&s, "tutti", 5, out);
            hex_equal(out, sizeof out, golden[i][k]);
        }
    }
}

static void keys_come_from_all_that_was_said(void **state)
{
    uint8_t shared[TT_SEAL_KEY], zeros[TT_SEAL_KEY] = {0};
    struct tt_seal_origin c = {KEY, shared, (const uint8_t *)"hello from c", (const uint8_t *)"hello from a", 12, false}, a = c;
    struct tt_seal_keys ck, ak;
    (void)state;
    memset(shared, 7, sizeof shared);
    a.accepting = true;
    tt_seal_derive(&c, TT_CIPHER_AES, &ck);
    tt_seal_derive(&a, TT_CIPHER_AES, &ak);
    hex_equal(ck.send, sizeof ck.send, "befc3bc1cfc44c7d049a47449594244b521fa7f0c379a7b124567fe337b8b950");
    hex_equal(ck.recv, sizeof ck.recv, "1bd31a54b281a7fb3be3077ff18c05bd4827de3197770e547f2e1ebb97b04ee1");
    assert_memory_equal(ck.send, ak.recv, TT_SEAL_KEY);
    assert_memory_equal(ck.recv, ak.send, TT_SEAL_KEY);
    assert_int_equal(ak.cipher, TT_CIPHER_AES);
    for (int i = 0; i < 4; i++) { /* each part matters */
        struct tt_seal_origin o = c;
        struct tt_seal_keys k;
        o.secret = i == 0 ? zeros : o.secret;
        o.shared = i == 1 ? zeros : o.shared;
        o.connector = i == 2 ? c.acceptor : o.connector;
        o.acceptor = i == 3 ? c.connector : o.acceptor;
        tt_seal_derive(&o, TT_CIPHER_AES, &k);
        assert_memory_not_equal(k.send, ck.send, TT_SEAL_KEY);
        assert_memory_not_equal(k.recv, ck.recv, TT_SEAL_KEY);
    }
}

enum { RECORDS = 5, LONGEST = 100000, ROOM = LONGEST + TT_SEAL_TAG };
static const size_t lengths[RECORDS] = {0, 1, 48, 32768, LONGEST};
static uint8_t plain[LONGEST], wire[RECORDS][ROOM], back[ROOM];

static void put_all(enum tt_cipher cipher, struct tt_seal *ret_reader)
{
    struct tt_seal s;
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)(i * 7 + (i >> 8));
    tt_seal_begin(&s, cipher, KEY);
    tt_seal_begin(ret_reader, cipher, KEY);
    for (int i = 0; i < RECORDS; i++)
        tt_seal_put(&s, plain, lengths[i], wire[i]);
    tt_seal_end(&s);
    assert_true(sodium_is_zero((const uint8_t *)&s, sizeof s));
}

static void records_open_in_order_only(void **state)
{
    struct tt_seal r;
    (void)state;
    for (size_t c = 0; c < countof(ciphers); c++) {
        if (!can(ciphers[c]))
            continue;
        put_all(ciphers[c], &r);
        for (int i = 0; i < RECORDS; i++) {
            assert_true(tt_seal_take(&r, wire[i], lengths[i], back));
            assert_memory_equal(back, plain, lengths[i]);
        }
        assert_false(tt_seal_take(&r, wire[4], lengths[4], back)); /* repeated */
        put_all(ciphers[c], &r);
        assert_false(tt_seal_take(&r, wire[1], lengths[1], back)); /* the first one was left out */
        put_all(ciphers[c], &r);
        assert_true(tt_seal_take(&r, wire[0], lengths[0], back));
        assert_false(tt_seal_take(&r, wire[2], lengths[2], back)); /* moved ahead */
        assert_false(tt_seal_take(&r, wire[1], lengths[1], back));
        put_all(ciphers[c], &r);
        assert_false(tt_seal_take(&r, wire[2] + 1, lengths[2] - 1, back)); /* shortened */
    }
}

static void any_flipped_bit_is_found(void **state)
{
    struct tt_seal r, fresh;
    (void)state;
    for (size_t c = 0; c < countof(ciphers); c++) {
        if (!can(ciphers[c]))
            continue;
        put_all(ciphers[c], &fresh);
        for (int i = 0; i < 2; i++)
            assert_true(tt_seal_take(&fresh, wire[i], lengths[i], back));
        for (size_t bit = 0; bit < 8 * (lengths[2] + TT_SEAL_TAG); bit++) {
            r = fresh;
            wire[2][bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(tt_seal_take(&r, wire[2], lengths[2], back));
            wire[2][bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_true(tt_seal_take(&fresh, wire[2], lengths[2], back));
    }
}

/* In place, and across a change of the key. */
static void keys_change_after_an_epoch(void **state)
{
    (void)state;
    for (size_t c = 0; c < countof(ciphers); c++) {
        struct tt_seal s, r;
        uint8_t text[5 + TT_SEAL_TAG];
        if (!can(ciphers[c]))
            continue;
        tt_seal_begin(&s, ciphers[c], KEY);
        tt_seal_begin(&r, ciphers[c], KEY);
        s.number = r.number = TT_SEAL_EPOCH - 1;
        for (int i = 0; i < 3; i++) {
            memcpy(text, "tutti", 5);
            tt_seal_put(&s, text, 5, text);
            assert_true(tt_seal_take(&r, text, 5, text));
            assert_memory_equal(text, "tutti", 5);
            assert_int_equal(memcmp(s.key, KEY, sizeof KEY) == 0, i == 0);
        }
        hex_equal(s.key, sizeof s.key, "bf3df22efb3b05b64582caa9e06535a4ec8b4fbf56758b478cfa004a1701ea50");
    }
}

/* ---- checksums ---- */

static void checksums_have_golden_values(void **state)
{
    uint8_t zeros[32] = {0}, rising[32];
    (void)state;
    for (uint8_t i = 0; i < sizeof rising; i++)
        rising[i] = i;
    /* RFC 3720, B.4, and the usual check value */
    assert_int_equal(tt_seal_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(tt_seal_crc32c(0, zeros, sizeof zeros), 0x8a9136aa);
    assert_int_equal(tt_seal_crc32c(0, rising, sizeof rising), 0x46dd794e);
    assert_int_equal(tt_seal_crc32c_tables(0, "123456789", 9), 0xe3069283);
    assert_int_equal(tt_seal_crc32c_tables(0, rising, sizeof rising), 0x46dd794e);
    assert_int_equal(tt_seal_crc32c(0, NULL, 0), 0);
    print_message("checksums by %s\n", tt_seal_crc32c_way());
}

/* Both ways agree at any place and length, whole or in two steps. */
static void checksums_do_not_depend_on_the_way(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 1);
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (uint8_t)tt_rng_next(&rng);
    for (int i = 0; i < 3000; i++) {
        size_t n = (size_t)tt_rng_below(&rng, i % 3 ? 9000 : 70), at = (size_t)tt_rng_below(&rng, sizeof plain - n);
        size_t cut = (size_t)tt_rng_below(&rng, n + 1);
        uint32_t want = tt_seal_crc32c_tables(0, plain + at, n);
        assert_int_equal(tt_seal_crc32c(0, plain + at, n), want);
        assert_int_equal(tt_seal_crc32c(tt_seal_crc32c(0, plain + at, cut), plain + at + cut, n - cut), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_have_golden_values),         cmocka_unit_test(keys_come_from_all_that_was_said),
        cmocka_unit_test(records_open_in_order_only),         cmocka_unit_test(any_flipped_bit_is_found),
        cmocka_unit_test(keys_change_after_an_epoch),         cmocka_unit_test(checksums_have_golden_values),
        cmocka_unit_test(checksums_do_not_depend_on_the_way),
    };
    return cmocka_run_group_tests(tests, make_key, NULL);
}
