/* Kept speeds: what was saved comes back, what is damaged, old or somebody else's does not, and nothing ever fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "meter/meter.h"

static char dir[64], path[TT_SPEEDS_PATH];
static const struct tt_speeds sample = {.shm = {5000000000, 400000, 100000}, .tcp = {118000000, 52000000, 9000000}, .gamma_fs = 34297};

static int fresh(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tutti-speeds-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("XDG_CACHE_HOME", dir, 1);
    assert_true(tt_meter_speeds_path(path, sizeof path));
    return 0;
}

static int clean(void **state)
{
    (void)state;
    char sub[128];
    chmod(dir, 0700);
    unlink(path);
    snprintf(sub, sizeof sub, "%s/tutti", dir);
    rmdir(sub);
    assert_int_equal(rmdir(dir), 0); /* no temporary file is left */
    return 0;
}

static size_t slurp(char *buf, size_t cap)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(buf, 1, cap - 1, f) : 0;
    buf[n] = '\0';
    if (f)
        fclose(f);
    return n;
}

static void spill(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fwrite(text, 1, n, f);
    fclose(f);
}

static bool equal(const struct tt_speeds *a, const struct tt_speeds *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void comes_back(void **state)
{
    (void)state;
    struct tt_speeds s;
    struct stat st;
    assert_false(tt_meter_speeds_load(7, &s));
    tt_meter_speeds_save(7, &sample);
    assert_true(tt_meter_speeds_load(7, &s) && equal(&s, &sample));
    assert_false(tt_meter_speeds_load(8, &s));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct tt_speeds other = sample;
    other.gamma_fs = 1;
    tt_meter_speeds_save(UINT64_MAX, &other);
    tt_meter_speeds_save(7, &other); /* replaces */
    assert_true(tt_meter_speeds_load(7, &s) && equal(&s, &other));
    assert_true(tt_meter_speeds_load(UINT64_MAX, &s) && equal(&s, &other));
}

/* The newest 64 are kept. */
static void bounded(void **state)
{
    (void)state;
    struct tt_speeds s;
    char text[64 << 10];
    for (uint64_t key = 0; key < 100; key++)
        tt_meter_speeds_save(key, &sample);
    size_t lines = 0;
    slurp(text, sizeof text);
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 65);
    assert_true(tt_meter_speeds_load(99, &s) && tt_meter_speeds_load(36, &s));
    assert_false(tt_meter_speeds_load(35, &s));
}

/* Every single changed byte is noticed; the other line still counts. */
static void damaged(void **state)
{
    (void)state;
    struct tt_speeds s;
    char text[2048], copy[2048];
    tt_meter_speeds_save(1, &sample);
    tt_meter_speeds_save(2, &sample);
    size_t n = slurp(text, sizeof text), last = (size_t)(strrchr(text, '\n') - text);
    while (last > 0 && text[last - 1] != '\n')
        last--;
    for (size_t i = last; i < n; i++) {
        memcpy(copy, text, n);
        copy[i] ^= 1;
        spill(copy, n);
        assert_false(tt_meter_speeds_load(1, &s));
        assert_true(tt_meter_speeds_load(2, &s));
    }
    for (size_t cut = 0; cut < n; cut++) {
        spill(text, cut);
        assert_false(tt_meter_speeds_load(1, &s));
    }
    memcpy(copy, text, n);
    copy[13] = '4'; /* another version */
    spill(copy, n);
    assert_false(tt_meter_speeds_load(2, &s));
    memset(copy, 0xff, sizeof copy);
    spill(copy, sizeof copy);
    assert_false(tt_meter_speeds_load(2, &s));
    tt_meter_speeds_save(3, &sample); /* a damaged file is replaced */
    assert_true(tt_meter_speeds_load(3, &s));
}

/* Writes a line of any age, with the right check. */
static void write_aged(int64_t age_s, int taken)
{
    char line[512];
    int n = snprintf(line, sizeof line, "%016x %" PRId64 " 1 2 3 4 5 6 7 %d 8 9", 5, (int64_t)time(NULL) - age_s, taken);
    for (int i = 0; i < 4 * TT_MEMORY_POINTS; i++) /* two points, the rest unused */
        n += snprintf(line + n, sizeof line - (size_t)n, " %d", i < 8 ? 10 + i : 0);
    char text[1024];
    int m = snprintf(text, sizeof text, "tutti speeds 3\n%s %016" PRIx64 "\n", line, tt_hash_bytes(1, line, (size_t)n));
    spill(text, (size_t)m);
}

static void aged(void **state)
{
    (void)state;
    struct tt_speeds s;
    tt_meter_speeds_save(5, &sample); /* makes the directory */
    write_aged(3600, TT_TAKEN_MOST);
    assert_true(tt_meter_speeds_load(5, &s));
    assert_int_equal(s.tcp.bw, 4);
    assert_int_equal(s.memory.segment_bytes, 9);
    assert_int_equal(s.memory.npoints, 2);
    assert_int_equal(s.memory.point[1].box_ps, 17);
    write_aged(2 * 86400, 0);
    assert_false(tt_meter_speeds_load(5, &s));
    write_aged(-7200, 0); /* from the future */
    assert_false(tt_meter_speeds_load(5, &s));
    write_aged(30, TT_TAKEN_MOST + 1); /* of a busy machine: for a minute */
    assert_true(tt_meter_speeds_load(5, &s));
    assert_int_equal(s.taken, TT_TAKEN_MOST + 1);
    write_aged(90, TT_TAKEN_MOST + 1);
    assert_false(tt_meter_speeds_load(5, &s));
}

/* What others take is what ranks want and do not get. */
static void busy(void **state)
{
    (void)state;
    /* 100 ms on 4 cores; two ranks of one process each, others use one and a half cores: there is room */
    struct tt_busy b[4] = {{.machine = 1, .wall_ns = 100, .own_ns = 100, .all_ns = 350, .cores = 4},
                           {.machine = 1, .wall_ns = 100, .own_ns = 100, .all_ns = 350, .cores = 4}};
    assert_int_equal(tt_meter_busy_taken(b, 2), 0);
    b[0].all_ns = b[1].all_ns = 400 + 100; /* rounding of the kernel's counts */
    assert_int_equal(tt_meter_busy_taken(b, 2), 500);
    b[0].all_ns = b[1].all_ns = 0; /* not known */
    assert_int_equal(tt_meter_busy_taken(b, 2), 0);
    /* two cores, four ranks, which sleep half of the time; others use half a core */
    for (int r = 0; r < 4; r++)
        b[r] = (struct tt_busy){.machine = 7, .wall_ns = 100, .own_ns = 25, .all_ns = 150, .cores = 2};
    assert_int_equal(tt_meter_busy_taken(b, 4), 250);
    /* two machines: the worse one counts */
    b[2].machine = b[3].machine = 8;
    b[2].all_ns = b[3].all_ns = 50;
    assert_int_equal(tt_meter_busy_taken(b, 4), 500);
    b[0].all_ns = b[1].all_ns = 1000;
    assert_int_equal(tt_meter_busy_taken(b, 4), 1000);
    struct tt_busy since;
    tt_meter_busy_now(&since);
    uint64_t began = since.own_ns, t0 = tt_now_ns();
    while (tt_now_ns() - t0 < 20000000)
        ;
    tt_meter_busy_since(&since);
    assert_true(since.wall_ns >= 20000000 && since.own_ns > 0 && since.cores > 0 && began + since.own_ns >= since.own_ns);
}

static void elsewhere(void **state)
{
    (void)state;
    struct tt_speeds s;
    char link_to[128];
    tt_meter_speeds_save(5, &sample);
    snprintf(link_to, sizeof link_to, "%s/other", dir);
    assert_int_equal(rename(path, link_to), 0);
    assert_int_equal(symlink(link_to, path), 0);
    assert_false(tt_meter_speeds_load(5, &s)); /* links are not followed */
    unlink(link_to);
    setenv("XDG_CACHE_HOME", "relative", 1); /* no place by the rules: the home directory's */
    unsetenv("HOME");
    char nowhere[64];
    assert_false(tt_meter_speeds_path(nowhere, sizeof nowhere));
    tt_meter_speeds_save(6, &sample);
    assert_false(tt_meter_speeds_load(6, &s));
    setenv("HOME", "/home/someone", 1);
    assert_true(tt_meter_speeds_path(nowhere, sizeof nowhere));
    assert_string_equal(nowhere, "/home/someone/.cache/tutti/speeds");
    assert_false(tt_meter_speeds_path(nowhere, 10));
    setenv("XDG_CACHE_HOME", "/dev/null", 1); /* cannot be made: silence */
    tt_meter_speeds_save(6, &sample);
    assert_false(tt_meter_speeds_load(6, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(comes_back, fresh, clean),
                                       cmocka_unit_test_setup_teardown(bounded, fresh, clean),
                                       cmocka_unit_test_setup_teardown(damaged, fresh, clean),
                                       cmocka_unit_test_setup_teardown(aged, fresh, clean),
                                       cmocka_unit_test(busy),
                                       cmocka_unit_test_setup_teardown(elsewhere, fresh, clean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
