/* test_plan_disk.c - what synthesisers found, on disk: written once, read back equal, ignored and written again when damaged, bounded. */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/multitree/multitree.h"
#include "plan/plan_int.h"

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

static struct tt_algo_args args_of(const struct tt_topo *t)
{
    return (struct tt_algo_args){.topo = t, .problem = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = 4096, .dtype = TUTTI_F32}};
}

static struct tt_sched *planned(const struct tt_algo_args *a)
{
    struct tt_built b;
    struct tutti_error err;
    if (tt_plan_build(&tt_algo_multitree, a, NULL, &b, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return b.sched;
}

/* The file of a build; "": it has none. */
static void path_of(const struct tt_algo_args *a, char path[TT_DISK_PATH])
{
    struct tt_synthesis y = {0};
    path[0] = 0;
    assert_int_equal(tt_algo_name_memos(&tt_algo_multitree, a, &y, NULL), TUTTI_OK);
    for (size_t i = 0; i < TT_ALGO_MEMOS; i++)
        if (y.memo[i].name[0])
            assert_true(tt_plan_disk_path(y.memo[i].name, path, TT_DISK_PATH));
    if (path[0])
        assert_memory_equal(path, home, strlen(home));
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* All bytes of a file; the caller frees. */
static unsigned char *contents(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "r");
    unsigned char *all = malloc(1 << 20);
    assert_non_null(f);
    *ret_n = fread(all, 1, 1 << 20, f);
    fclose(f);
    return all;
}

static void expect_file(const char *path, const unsigned char *want, size_t n)
{
    size_t got_n;
    unsigned char *got = contents(path, &got_n);
    assert_int_equal(got_n, n);
    assert_memory_equal(got, want, n);
    free(got);
}

static void test_kept_and_read(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:12x12", "fattree:12,2", "mesh:2x64", "dragonfly:9,4,4"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_algo_args a = args_of(t), other = a;
        struct stat st, again;
        char path[TT_DISK_PATH], other_path[TT_DISK_PATH];
        path_of(&a, path);
        assert_false(exists(path));
        struct tt_sched *made = build_of(&tt_algo_multitree, &a);
        assert_false(exists(path)); /* the algorithm touches no file */
        struct tt_sched *first = planned(&a);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        struct tt_sched *second = planned(&a);
        assert_int_equal(stat(path, &again), 0);
        assert_int_equal(st.st_ino, again.st_ino); /* not written again */
        assert_true(tt_sched_equal(made, first) && tt_sched_equal(made, second));
        assert_int_equal(made->hash, second->hash);
        assert_int_equal(tt_algo_options_add(&other.options, "ending=paper", NULL), TUTTI_OK);
        path_of(&other, other_path);
        assert_string_not_equal(path, other_path);
        assert_false(exists(other_path));
        tt_sched_free(made);
        tt_sched_free(first);
        tt_sched_free(second);
        tt_topo_free(t);
    }
}

/* The file is what is read, not only written: sound trees of this network are taken, here those of another option. */
static void test_file_is_used(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:8x18");
    struct tt_algo_args a = args_of(t), paper = a;
    struct tt_multitree_options o = {0}, other = {.paper_order = true};
    struct tt_multitree_trees trees;
    struct tt_vec bytes;
    char path[TT_DISK_PATH];
    assert_int_equal(tt_multitree_make(t, &other, &trees, NULL), TUTTI_OK);
    assert_true(tt_multitree_encode(t, &o, &trees, &bytes)); /* passed off as the usual ones */
    path_of(&a, path);
    tt_plan_disk_write(strrchr(path, '/') + 1, &bytes);
    assert_int_equal(tt_algo_options_add(&paper.options, "order=paper", NULL), TUTTI_OK);
    struct tt_sched *got = planned(&a), *own = build_of(&tt_algo_multitree, &a), *want = build_of(&tt_algo_multitree, &paper);
    assert_int_equal(got->hash, want->hash);
    assert_int_not_equal(got->hash, own->hash);
    tt_sched_free(got);
    tt_sched_free(own);
    tt_sched_free(want);
    tt_vec_free(&bytes);
    tt_multitree_free(&trees);
    assert_int_equal(unlink(path), 0);
    tt_topo_free(t);
}

static void test_small_ones_are_not_kept(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:8x8");
    struct tt_algo_args a = args_of(t);
    char path[TT_DISK_PATH];
    path_of(&a, path);
    assert_string_equal(path, "");
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
    struct tt_algo_args a = args_of(t);
    char path[TT_DISK_PATH];
    size_t n;
    path_of(&a, path);
    struct tt_sched *made = planned(&a), *got;
    unsigned char *good = contents(path, &n);
    const char *name = strrchr(path, '/') + 1;
    struct tt_vec bytes;
    static const long at[] = {0, 12, 14, 22, 26, 30, 34, 38, 39, 40, 5000, -9, -1};
    for (size_t i = 0; i < countof(at); i++) {
        change_byte(path, at[i]);
        assert_false(tt_plan_disk_read(name, &bytes));
        got = planned(&a);
        assert_true(tt_sched_equal(made, got));
        expect_file(path, good, n); /* written again */
        tt_sched_free(got);
    }
    static const off_t lengths[] = {0, 1, 8, 9, 38, 45, 46, 1000};
    for (size_t i = 0; i < countof(lengths); i++) {
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_false(tt_plan_disk_read(name, &bytes));
        got = planned(&a);
        assert_true(tt_sched_equal(made, got));
        expect_file(path, good, n);
        tt_sched_free(got);
    }
    free(good);
    tt_sched_free(made);
    tt_topo_free(t);
}

/* A whole file whose trees are not: the algorithm says no, grows, and the file is written again. */
static void test_whole_file_wrong_trees(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:2x70");
    struct tt_algo_args a = args_of(t);
    struct tt_vec bytes = {.elem = 1};
    char path[TT_DISK_PATH];
    size_t n;
    path_of(&a, path);
    struct tt_sched *made = planned(&a), *got;
    unsigned char *good = contents(path, &n);
    assert_non_null(tt_vec_push(&bytes, good, n - 8));
    ((unsigned char *)bytes.data)[26] ^= 1; /* steps */
    tt_plan_disk_write(strrchr(path, '/') + 1, &bytes);
    tt_vec_free(&bytes);
    assert_true(tt_plan_disk_read(strrchr(path, '/') + 1, &bytes));
    got = planned(&a);
    assert_true(tt_sched_equal(made, got));
    expect_file(path, good, n);
    tt_vec_free(&bytes);
    tt_sched_free(got);
    tt_sched_free(made);
    free(good);
    tt_topo_free(t);
}

/* Neither links nor what is no file are followed. */
static void test_no_files(void **state)
{
    (void)state;
    char path[TT_DISK_PATH], real[TT_DISK_PATH];
    struct tt_vec bytes = {.elem = 1}, got;
    assert_non_null(tt_vec_push(&bytes, "some bytes", 10));
    assert_true(tt_plan_disk_path("0123456789abcdef-0", path, sizeof path));
    assert_true(tt_plan_disk_path("0123456789abcdef-1", real, sizeof real));
    tt_plan_disk_write("0123456789abcdef-1", &bytes);
    assert_true(tt_plan_disk_read("0123456789abcdef-1", &got));
    assert_int_equal(got.len, 10);
    assert_memory_equal(got.data, "some bytes", 10);
    tt_vec_free(&got);
    assert_int_equal(symlink(real, path), 0);
    assert_false(tt_plan_disk_read("0123456789abcdef-0", &got));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(tt_plan_disk_read("0123456789abcdef-0", &got));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(tt_plan_disk_read("0123456789abcdef-0", &got));
    assert_int_equal(unlink(path), 0);
    tt_vec_free(&bytes);
}

static void put_old(const char *name, off_t bytes, time_t when)
{
    char path[TT_DISK_PATH];
    snprintf(path, sizeof path, "%s/tutti/trees/%s", home, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0 && futimens(fd, times) == 0);
    close(fd);
}

static bool still_there(const char *name)
{
    char path[TT_DISK_PATH];
    snprintf(path, sizeof path, "%s/tutti/trees/%s", home, name);
    return exists(path);
}

/* 64 MiB in all: the oldest go, foreign files stay. */
static void test_bounded(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:12x13");
    struct tt_algo_args a = args_of(t);
    char path[TT_DISK_PATH];
    path_of(&a, path);
    put_old("00000000000000aa-0", 30 << 20, 1000);
    put_old("00000000000000bb-0", 30 << 20, 2000);
    put_old("00000000000000cc-1.XyZabc", 20 << 20, 1500);
    put_old("notes", 50 << 20, 500);
    tt_sched_free(planned(&a));
    assert_true(exists(path));
    assert_false(still_there("00000000000000aa-0"));
    assert_true(still_there("00000000000000bb-0"));
    assert_true(still_there("00000000000000cc-1.XyZabc"));
    assert_true(still_there("notes"));
    tt_topo_free(t);
}

/* No place for files, or one that cannot be written: schedules all the same. */
static void test_without_a_place(void **state)
{
    (void)state;
    static const char *const places[] = {"relative", "/proc/nowhere"};
    struct tt_topo *t = topo_of("torus:12x12");
    struct tt_algo_args a = args_of(t);
    struct tt_sched *want = build_of(&tt_algo_multitree, &a), *got;
    char *kept = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    for (size_t i = 0; i < countof(places); i++) {
        setenv("XDG_CACHE_HOME", places[i], 1);
        got = planned(&a);
        assert_true(tt_sched_equal(want, got));
        tt_sched_free(got);
    }
    setenv("XDG_CACHE_HOME", home, 1);
    if (kept)
        setenv("HOME", kept, 1);
    free(kept);
    tt_sched_free(want);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_and_read), cmocka_unit_test(test_file_is_used),           cmocka_unit_test(test_small_ones_are_not_kept),
        cmocka_unit_test(test_damage),        cmocka_unit_test(test_whole_file_wrong_trees), cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_bounded),       cmocka_unit_test(test_without_a_place),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
