/* test_comm_dump.c - plan files of a communicator that has only what writing needs: each plan once, what was written reads back equal, what
 * is too large or cannot be written is left out without harm. */
#include "support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/comm_int.h"

static char folder[] = "/tmp/tutti-dump-XXXXXX";

static struct tt_plan *plan_of(const struct tt_topo *t, const char *algo)
{
    struct tt_plan *p;
    struct tutti_error err;
    struct tt_problem problem = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = 4096};
    assert_int_equal(tt_plan_make(t, &problem, &(struct tt_plan_options){.algo = algo}, NULL, &p, &err), TUTTI_OK);
    return p;
}

static struct tt_sched *slice_of(const struct tt_comm *c, const struct tt_plan *p)
{
    struct tt_sched *s;
    struct tutti_error err;
    struct tt_algo_args args = {.problem = p->problem, .topo = c->topo, .options = p->options};
    assert_int_equal(tt_algo_slice(p->algo, &args, c->rank, 1, &s, &err), TUTTI_OK);
    return s;
}

/* Files in the folder; the name of one of them. */
static int files(char *ret_name)
{
    DIR *d = opendir(folder);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            n++;
            snprintf(ret_name, 256, "%s", e->d_name);
        }
    closedir(d);
    return n;
}

/* A ring of 5: a first line about the whole, then one line per operation, among them 8 sends to the next rank. */
static void check_lowered(const char *path)
{
    char line[400];
    int lines = 0, sends = 0;
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        if (lines++ == 0)
            expect_says(line, " operations in 1 segment, f32 sum");
        else
            expect_says(line, "  waits ");
        sends += strstr(line, "send        -> 1 channel 0 message ") != NULL;
    }
    fclose(in);
    assert_int_equal(sends, 8);
    unlink(path);
}

static void test_once(void **state)
{
    struct tt_comm c = {.topo = topo_of("star:5"), .size = 5, .tag = 0x2b, .dump = folder};
    struct tt_plan *p = plan_of(c.topo, "ring");
    const struct tt_agreed agreed = {.problem = p->problem, .algo = p->algo, .options = p->options};
    struct tt_sched *mine = slice_of(&c, p), *back, *whole;
    struct tutti_error err;
    char name[256], path[300];
    (void)state;
    assert_int_equal(tt_comm_prove_admit(&c, &agreed, mine, &err), TUTTI_OK);
    assert_int_equal(files(name), 2);
    assert_memory_equal(name, "allreduce-ring-5-16384-c2b-", 27);
    snprintf(path, sizeof path, "%s/%.43s-rank0.txt", folder, name);
    check_lowered(path);
    snprintf(path, sizeof path, "%s/%.43s.json", folder, name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(tt_sched_read(in, name, &back, &err), TUTTI_OK);
    fclose(in);
    assert_int_equal(tt_plan_schedule(p, c.topo, &whole, &err), TUTTI_OK);
    assert_true(tt_sched_equal(back, whole));
    unlink(path);
    assert_int_equal(tt_comm_prove_admit(&c, &agreed, mine, &err), TUTTI_OK);
    assert_int_equal(files(name), 0); /* it was written once */
    tt_sched_free(back);
    tt_sched_free(whole);
    tt_sched_free(mine);
    tt_plan_free(p);
    tt_vec_free(&c.passed);
    tt_topo_free(c.topo);
}

static void test_too_large(void **state)
{
    struct tt_comm c = {.topo = topo_of("star:4096"), .size = 4096, .dump = folder};
    struct tt_plan *p = plan_of(c.topo, "ring");
    const struct tt_agreed agreed = {.problem = p->problem, .algo = p->algo, .options = p->options};
    struct tt_sched *mine = slice_of(&c, p);
    struct tutti_error err;
    char name[256];
    (void)state;
    assert_false(tt_comm_dump_wants(&c, p, mine));
    assert_int_equal(tt_comm_prove_admit(&c, &agreed, mine, &err), TUTTI_OK); /* the job goes on */
    assert_int_equal(files(name), 0);
    tt_sched_free(mine);
    tt_plan_free(p);
    tt_vec_free(&c.passed);
    tt_topo_free(c.topo);
}

static void test_folder_gone(void **state)
{
    char gone[300];
    snprintf(gone, sizeof gone, "%s/gone", folder);
    struct tt_comm c = {.topo = topo_of("star:3"), .size = 3, .dump = gone};
    struct tt_plan *p = plan_of(c.topo, "direct");
    const struct tt_agreed agreed = {.problem = p->problem, .algo = p->algo, .options = p->options};
    struct tt_sched *mine = slice_of(&c, p);
    struct tutti_error err;
    (void)state;
    assert_true(tt_comm_dump_wants(&c, p, mine));
    assert_int_equal(tt_comm_prove_admit(&c, &agreed, mine, &err), TUTTI_OK);
    tt_sched_free(mine);
    tt_plan_free(p);
    tt_vec_free(&c.passed);
    tt_topo_free(c.topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_once), cmocka_unit_test(test_too_large), cmocka_unit_test(test_folder_gone)};
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
