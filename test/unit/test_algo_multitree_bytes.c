/* test_algo_multitree_bytes.c - trees as bytes: read back equal, refused when they are not whole trees of the network; and the checksums
 * (MD5) of all trees that were taken from the authors' own program. */
#include "support.h"

#include <stdio.h>

#include "algo/multitree/multitree.h"

/* ---- checksums ---- */

static uint32_t rol(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

/* RFC 1321 on a whole message; the sines of its table as they are defined there. */
static void md5_block(const unsigned char *p, uint32_t h[4])
{
    static const unsigned turn[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t w[16], a = h[0], b = h[1], c = h[2], d = h[3];
    memcpy(w, p, sizeof w);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t f, g, k = (uint32_t)(uint64_t)(4294967296.0 * __builtin_fabs(__builtin_sin((double)i + 1)));
        if (i < 16)
            f = (b & c) | (~b & d), g = i;
        else if (i < 32)
            f = (d & b) | (~d & c), g = (5 * i + 1) % 16;
        else if (i < 48)
            f = b ^ c ^ d, g = (3 * i + 5) % 16;
        else
            f = c ^ (b | ~d), g = 7 * i % 16;
        f += a + k + w[g];
        a = d;
        d = c;
        c = b;
        b += rol(f, turn[i / 16][i % 4]);
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d;
}

static void md5(const char *text, size_t n, char hex[33])
{
    uint32_t h[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    size_t padded = (n + 8) / 64 * 64 + 64;
    unsigned char *p = calloc(padded, 1), out[16];
    uint64_t bits = 8 * (uint64_t)n;
    memcpy(p, text, n);
    p[n] = 0x80;
    memcpy(p + padded - 8, &bits, 8);
    for (size_t i = 0; i < padded; i += 64)
        md5_block(p + i, h);
    memcpy(out, h, 16);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", out[i]);
    free(p);
}

/* As the notes have it: the repr of [(root, ((child, parent, step), ...)), ...]. */
static char *repr_of(const struct tt_multitree_trees *f)
{
    struct tt_str s = {0};
    for (uint32_t r = 0; r < f->ranks; r++) {
        tt_str_printf(&s, "%s(%u, (", r ? ", " : "[", r);
        for (uint32_t i = 0, n = 0; i < f->nedges; i++)
            if (f->edges[i].tree == r)
                tt_str_printf(&s, "%s(%u, %u, %u)", n++ ? ", " : "", f->edges[i].child, f->edges[i].parent, f->edges[i].step);
        tt_str_printf(&s, "))");
    }
    tt_str_printf(&s, "]");
    assert_false(s.failed);
    return s.s;
}

static void test_checksums(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        bool paper_order;
        const char *md5;
    } golden[] = {{"torus:4x4", false, "e2c272a5d1"}, {"torus:4x4", true, "e2c272a5d1"}, {"torus:8x8", false, "17e4eb41fa"},
                  {"torus:8x8", true, "17e4eb41fa"},  {"mesh:4x4", false, "27778f857b"}, {"mesh:4x4", true, "cbfe9ffa77"},
                  {"mesh:8x8", false, "78a696958a"},  {"mesh:8x8", true, "f1505447c1"}};
    char hex[33];
    md5("abc", 3, hex);
    assert_string_equal(hex, "900150983cd24fb0d6963f7d28e17f72");
    for (size_t i = 0; i < countof(golden); i++) {
        struct tt_topo *t = topo_of(golden[i].spec);
        struct tt_multitree_options o = {.paper_ending = true, .paper_order = golden[i].paper_order};
        struct tt_multitree_trees f;
        assert_int_equal(tt_multitree_make(t, &o, &f, NULL), TUTTI_OK);
        char *text = repr_of(&f);
        md5(text, strlen(text), hex);
        hex[10] = 0;
        if (strcmp(hex, golden[i].md5))
            fail_msg("%s order %d: md5 %s, not %s", golden[i].spec, golden[i].paper_order, hex, golden[i].md5);
        free(text);
        tt_multitree_free(&f);
        tt_topo_free(t);
    }
}

/* ---- as bytes ---- */

static void expect_same(const struct tt_multitree_trees *a, const struct tt_multitree_trees *b)
{
    assert_int_equal(a->ranks, b->ranks);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->nedges, b->nedges);
    assert_memory_equal(a->edges, b->edges, (a->nedges + (size_t)1) * sizeof *a->edges);
    assert_memory_equal(a->links, b->links, a->edges[a->nedges].path * sizeof *a->links);
}

static void test_there_and_back(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:12x12", "fattree:12,2", "mesh:2x64", "dragonfly:9,4,4", "star:3"};
    struct tt_topo *foreign = topo_of("torus:12x12@1Gbps,1us");
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_multitree_options o = {0}, other = {.paper_ending = true};
        struct tt_multitree_trees made, got;
        struct tt_vec bytes;
        assert_int_equal(tt_multitree_make(t, &o, &made, NULL), TUTTI_OK);
        assert_true(tt_multitree_encode(t, &o, &made, &bytes));
        assert_true(tt_multitree_decode(t, &o, &bytes, &got));
        expect_same(&made, &got);
        assert_false(tt_multitree_decode(t, &other, &bytes, &got));
        assert_false(tt_multitree_decode(foreign, &o, &bytes, &got));
        tt_multitree_free(&got);
        tt_multitree_free(&made);
        tt_vec_free(&bytes);
        tt_topo_free(t);
    }
    tt_topo_free(foreign);
}

/* A memo with a name is given what was grown, and gives it back; one without is left alone. */
static void test_memo(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:8x8");
    struct tt_multitree_options o = {0};
    struct tt_algo_memo silent = {.name = ""}, asked = {.name = "x"}, known;
    struct tt_multitree_trees f[4];
    assert_int_equal(tt_multitree_get(t, &o, &silent, &f[0], NULL), TUTTI_OK);
    assert_int_equal(silent.found.len, 0);
    assert_int_equal(tt_multitree_get(t, &o, &asked, &f[1], NULL), TUTTI_OK);
    assert_true(asked.found.len > 64 * 63);
    known = (struct tt_algo_memo){.name = "x", .known = asked.found};
    assert_int_equal(tt_multitree_get(t, &o, &known, &f[2], NULL), TUTTI_OK);
    assert_int_equal(known.found.len, 0); /* nothing had to be searched */
    known.known.len--;
    assert_int_equal(tt_multitree_get(t, &o, &known, &f[3], NULL), TUTTI_OK);
    assert_int_equal(known.found.len, asked.found.len); /* damaged: grown again */
    assert_memory_equal(known.found.data, asked.found.data, asked.found.len);
    for (size_t i = 0; i < countof(f); i++) {
        expect_same(&f[0], &f[i]);
        if (i > 0)
            tt_multitree_free(&f[i]);
    }
    tt_multitree_free(&f[0]);
    tt_vec_free(&asked.found);
    tt_vec_free(&known.found);
    tt_topo_free(t);
}

/* Which trees are kept, under which names: large networks alone; both directions where they differ; equal options, equal names. */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        tutti_coll coll;
        bool sum, hand;
    } want[] = {{"torus:8x8", TUTTI_ALLREDUCE, false, false},
                {"torus:12x12", TUTTI_ALLREDUCE, false, true},
                {"torus:12x12", TUTTI_REDUCE_SCATTER, false, true},
                {"torus:12x12", TUTTI_ALL_GATHER, false, true}};
    for (size_t i = 0; i < countof(want); i++) {
        struct tt_topo *t = topo_of(want[i].spec);
        struct tt_algo_args a = {.topo = t, .problem = {.coll = want[i].coll, .ranks = t->ranks, .count = 7}};
        struct tt_synthesis y = {0}, paper = {0};
        char name[24];
        assert_int_equal(tt_algo_name_memos(&tt_algo_multitree, &a, &y, NULL), TUTTI_OK);
        assert_int_equal(y.memo[0].name[0] != 0, want[i].sum);
        assert_int_equal(y.memo[1].name[0] != 0, want[i].hand);
        tt_multitree_name(t, &(struct tt_multitree_options){0}, name, sizeof name);
        assert_string_equal(y.memo[1].name, want[i].hand ? name : "");
        assert_int_equal(tt_algo_options_add(&a.options, "ending=paper", NULL), TUTTI_OK);
        assert_int_equal(tt_algo_name_memos(&tt_algo_multitree, &a, &paper, NULL), TUTTI_OK);
        assert_true(!want[i].hand || strcmp(paper.memo[1].name, y.memo[1].name) != 0);
        tt_topo_free(t);
    }
}

/* Bytes that are not whole trees: reading stays inside its arrays and says no. */
static void test_wrong_trees(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:2x70");
    struct tt_multitree_options o = {0};
    struct tt_multitree_trees made, got;
    struct tt_vec good, bad = {.elem = 1};
    struct tt_rng rng;
    tt_rng_seed(&rng, 7);
    assert_int_equal(tt_multitree_make(t, &o, &made, NULL), TUTTI_OK);
    assert_true(tt_multitree_encode(t, &o, &made, &good));
    unsigned refused = 0;
    for (unsigned i = 0; i < 300; i++) {
        assert_non_null(tt_vec_push(&bad, good.data, good.len));
        size_t where = i < 38 ? i : 38 + (size_t)tt_rng_below(&rng, good.len - 38);
        ((unsigned char *)bad.data)[where] ^= (unsigned char)(1 + tt_rng_below(&rng, 255));
        if (tt_multitree_decode(t, &o, &bad, &got)) { /* another tree that is one: as many edges, all sound */
            assert_true(i >= 38);
            assert_int_equal(got.nedges, made.nedges);
            tt_multitree_free(&got);
        } else {
            refused++;
        }
        tt_vec_free(&bad);
    }
    assert_true(refused > 200);
    for (size_t n = 0; n < good.len; n += n < 64 ? 1 : 997) {
        struct tt_vec cut = {.data = good.data, .len = n, .elem = 1};
        assert_false(tt_multitree_decode(t, &o, &cut, &got));
    }
    tt_vec_free(&good);
    tt_multitree_free(&made);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums), cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_memo),
        cmocka_unit_test(test_names),     cmocka_unit_test(test_wrong_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
