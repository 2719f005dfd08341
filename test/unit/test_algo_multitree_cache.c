/* test_algo_multitree_cache.c - the trees on disk: written once, read back equal, ignored and written again when damaged, bounded; and the
 * checksums (MD5) of all trees that were taken from the authors' own program. */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/multitree.h"

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
static char *repr_of(const struct tt_forest *f)
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
        struct tt_forest_options o = {.paper_ending = true, .paper_order = golden[i].paper_order};
        struct tt_forest f;
        assert_int_equal(tt_forest_make(t, &o, &f, NULL), TUTTI_OK);
        char *text = repr_of(&f);
        md5(text, strlen(text), hex);
        hex[10] = 0;
        if (strcmp(hex, golden[i].md5))
            fail_msg("%s order %d: md5 %s, not %s", golden[i].spec, golden[i].paper_order, hex, golden[i].md5);
        free(text);
        tt_forest_free(&f);
        tt_topo_free(t);
    }
}

/* ---- the cache ---- */

static char home[] = "/tmp/tutti-trees-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(home) ? setenv("XDG_CACHE_HOME", home, 1) : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", home);
    return system(command) ? -1 : 0;
}

static void expect_same(const struct tt_forest *a, const struct tt_forest *b)
{
    assert_int_equal(a->ranks, b->ranks);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->nedges, b->nedges);
    assert_memory_equal(a->edges, b->edges, (a->nedges + (size_t)1) * sizeof *a->edges);
    assert_memory_equal(a->links, b->links, a->edges[a->nedges].path * sizeof *a->links);
}

static void path_of(const struct tt_topo *t, const struct tt_forest_options *o, char path[TT_FOREST_PATH])
{
    assert_true(tt_forest_cache_path(t, o, path, TT_FOREST_PATH));
    assert_memory_equal(path, home, strlen(home));
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void test_kept_and_read(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:12x12", "fattree:12,2", "mesh:2x64", "dragonfly:9,4,4"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_forest_options o = {0}, other = {.paper_ending = true};
        struct tt_forest made, got, again;
        char path[TT_FOREST_PATH];
        path_of(t, &o, path);
        assert_false(tt_forest_cache_load(t, &o, &got));
        assert_int_equal(tt_forest_make(t, &o, &made, NULL), TUTTI_OK);
        assert_false(exists(path));
        assert_int_equal(tt_forest_get(t, &o, &again, NULL), TUTTI_OK);
        assert_true(exists(path));
        assert_true(tt_forest_cache_load(t, &o, &got));
        expect_same(&made, &got);
        expect_same(&made, &again);
        assert_false(tt_forest_cache_load(t, &other, &got)); /* other options, another file */
        tt_forest_free(&got);
        tt_forest_free(&made);
        tt_forest_free(&again);
        tt_topo_free(t);
    }
}

static void test_small_ones_are_not_kept(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:8x8");
    struct tt_forest_options o = {0};
    struct tt_forest f;
    char path[TT_FOREST_PATH];
    path_of(t, &o, path);
    assert_int_equal(tt_forest_get(t, &o, &f, NULL), TUTTI_OK);
    assert_false(exists(path));
    tt_forest_free(&f);
    tt_topo_free(t);
}

static void change_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    fputc(c ^ 0x41, f);
    fclose(f);
}

/* Damage anywhere is noticed, and repaired by the next who grows. */
static void test_damage(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:11x12");
    struct tt_forest_options o = {0};
    struct tt_forest made, got;
    char path[TT_FOREST_PATH];
    path_of(t, &o, path);
    assert_int_equal(tt_forest_make(t, &o, &made, NULL), TUTTI_OK);
    static const long at[] = {0, 12, 14, 22, 26, 30, 34, 38, 39, 40, 5000, -9, -1};
    for (size_t i = 0; i < countof(at); i++) {
        tt_forest_cache_save(t, &o, &made);
        change_byte(path, at[i]);
        assert_false(tt_forest_cache_load(t, &o, &got));
        assert_int_equal(tt_forest_get(t, &o, &got, NULL), TUTTI_OK);
        expect_same(&made, &got);
        tt_forest_free(&got);
        assert_true(tt_forest_cache_load(t, &o, &got)); /* written again */
        tt_forest_free(&got);
    }
    static const off_t lengths[] = {0, 1, 38, 45, 46, 1000};
    for (size_t i = 0; i < countof(lengths); i++) {
        tt_forest_cache_save(t, &o, &made);
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_false(tt_forest_cache_load(t, &o, &got));
    }
    tt_forest_free(&made);
    tt_topo_free(t);
}

/* A file whose check is right but whose trees are not: reading stays inside its arrays and says no. */
static void test_sound_check_wrong_trees(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:2x70");
    struct tt_forest_options o = {0};
    struct tt_forest made, got;
    char path[TT_FOREST_PATH];
    path_of(t, &o, path);
    assert_int_equal(tt_forest_make(t, &o, &made, NULL), TUTTI_OK);
    struct tt_rng rng;
    tt_rng_seed(&rng, 7);
    tt_forest_cache_save(t, &o, &made);
    FILE *f = fopen(path, "r");
    unsigned char *good = malloc(1 << 20), *bad = malloc(1 << 20);
    size_t n = fread(good, 1, 1 << 20, f);
    fclose(f);
    for (int i = 0; i < 300; i++) {
        memcpy(bad, good, n);
        size_t where = i < 24 ? 14 + (size_t)i : 38 + (size_t)tt_rng_below(&rng, n - 46);
        bad[where] ^= (unsigned char)(1 + tt_rng_below(&rng, 255));
        uint64_t check = tt_hash_bytes(0, bad, n - 8);
        memcpy(bad + n - 8, &check, 8);
        f = fopen(path, "w");
        assert_int_equal(fwrite(bad, 1, n, f), n);
        fclose(f);
        if (tt_forest_cache_load(t, &o, &got)) { /* another tree that is one: as many edges, all sound */
            assert_int_equal(got.nedges, made.nedges);
            tt_forest_free(&got);
        }
    }
    free(good);
    free(bad);
    tt_forest_free(&made);
    tt_topo_free(t);
}

static void put_old(const char *name, off_t bytes, time_t when)
{
    char path[TT_FOREST_PATH];
    snprintf(path, sizeof path, "%s/tutti/trees/%s", home, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0 && futimens(fd, times) == 0);
    close(fd);
}

static bool still_there(const char *name)
{
    char path[TT_FOREST_PATH];
    snprintf(path, sizeof path, "%s/tutti/trees/%s", home, name);
    return exists(path);
}

/* 64 MiB in all: the oldest go, foreign files stay. */
static void test_bounded(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:12x13");
    struct tt_forest_options o = {0};
    struct tt_forest f;
    char path[TT_FOREST_PATH];
    path_of(t, &o, path);
    put_old("00000000000000aa-0", 30 << 20, 1000);
    put_old("00000000000000bb-0", 30 << 20, 2000);
    put_old("00000000000000cc-1.XyZabc", 20 << 20, 1500);
    put_old("notes", 50 << 20, 500);
    assert_int_equal(tt_forest_get(t, &o, &f, NULL), TUTTI_OK);
    assert_true(exists(path));
    assert_false(still_there("00000000000000aa-0"));
    assert_true(still_there("00000000000000bb-0"));
    assert_true(still_there("00000000000000cc-1.XyZabc"));
    assert_true(still_there("notes"));
    tt_forest_free(&f);
    tt_topo_free(t);
}

/* No place for a cache, or one that cannot be written: trees all the same. */
static void test_without_a_place(void **state)
{
    (void)state;
    static const char *const places[] = {"relative", "/proc/nowhere"};
    struct tt_topo *t = topo_of("torus:12x12");
    struct tt_forest_options o = {0};
    struct tt_forest f;
    char *kept = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    for (size_t i = 0; i < countof(places); i++) {
        setenv("XDG_CACHE_HOME", places[i], 1);
        assert_int_equal(tt_forest_get(t, &o, &f, NULL), TUTTI_OK);
        assert_int_equal(f.nedges, 144 * 143);
        tt_forest_free(&f);
    }
    setenv("XDG_CACHE_HOME", home, 1);
    if (kept)
        setenv("HOME", kept, 1);
    free(kept);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums),
        cmocka_unit_test(test_kept_and_read),
        cmocka_unit_test(test_small_ones_are_not_kept),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_sound_check_wrong_trees),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_without_a_place),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
