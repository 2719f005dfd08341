/* test_train_alone.c - a trainer of one rank: what is refused and with which words, what stays after an error, flush, and that a step
 * allocates nothing in any thread. Several ranks: test/run/trainer.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#define COUNT_ALL_THREADS
#include "count_allocations.h"
#include "one_rank.h"
#include "train/train.h"

static struct tt_trainer *make(const struct tt_train_options *o, unsigned n)
{
    struct tutti_error err;
    struct tt_trainer *t = NULL;
    uint32_t index;
    assert_int_equal(tt_train_open(comm, o, &t, &err), TUTTI_OK);
    for (unsigned i = 0; i < n; i++) {
        struct tt_train_tensor x = {.name = i % 2 ? "odd" : "even", .count = 10 + i, .kind = TT_KIND_FC};
        assert_int_equal(tt_train_add(t, &x, &index, &err), TUTTI_OK);
        assert_int_equal(index, i);
    }
    struct tt_train_group g = {.lr = 1};
    assert_int_equal(tt_train_set_group(t, 0, &g, &err), TUTTI_OK);
    assert_int_equal(tt_train_freeze(t, &err), TUTTI_OK);
    return t;
}

static void says(const struct tutti_error *err, const char *words)
{
    if (!strstr(err->text, words))
        fail_msg("'%s' does not say '%s'", err->text, words);
}

static void refused(const struct tt_train_options *o, const char *words)
{
    struct tutti_error err;
    struct tt_trainer *t = NULL;
    assert_true(tt_train_open(comm, o, &t, &err) < 0);
    assert_null(t);
    says(&err, words);
}

static void bad_options(void **state)
{
    (void)state;
    refused(&(struct tt_train_options){.optimizer = (enum tt_optimizer)9}, "no optimizer 9");
    refused(&(struct tt_train_options){.clip_norm = 1}, "needs an optimizer");
    refused(&(struct tt_train_options){.clip_norm = -1, .optimizer = TT_OPT_SGD}, "norm of -1");
    refused(&(struct tt_train_options){.policy = {.kind = TT_POLICY_DEAR_SHARDED}}, "needs an optimizer");
    refused(&(struct tt_train_options){.window = 65}, "window of 65");
    refused(&(struct tt_train_options){.elastic = true}, "it needs an optimizer");
    refused(&(struct tt_train_options){.elastic = true, .optimizer = TT_OPT_SGD, .policy = {.kind = TT_POLICY_DEAR_SHARDED}},
            "its share of the optimizer's state is lost");
}

static void bad_tensor(struct tt_trainer *t, struct tt_train_tensor x, const char *words)
{
    struct tutti_error err;
    uint32_t index = 77;
    assert_true(tt_train_add(t, &x, &index, &err) < 0);
    assert_int_equal(index, 77);
    says(&err, words);
}

static void bad_tensors(void **state)
{
    struct tutti_error err;
    struct tt_trainer *t;
    char name[200];
    (void)state;
    memset(name, 'x', sizeof name);
    name[199] = 0;
    assert_int_equal(tt_train_open(comm, &(struct tt_train_options){.optimizer = TT_OPT_ADAM}, &t, &err), TUTTI_OK);
    assert_int_equal(tt_train_freeze(t, &err), TUTTI_ERR_ARG);
    says(&err, "needs tensors");
    bad_tensor(t, (struct tt_train_tensor){.name = "", .count = 1}, "name");
    bad_tensor(t, (struct tt_train_tensor){.name = name, .count = 1}, "name of 1 to 127");
    bad_tensor(t, (struct tt_train_tensor){.name = "a", .count = 0}, "0 elements");
    bad_tensor(t, (struct tt_train_tensor){.name = "a", .count = SIZE_MAX / 2}, "elements");
    bad_tensor(t, (struct tt_train_tensor){.name = "a", .count = 1, .dtype = TUTTI_I32}, "not i32");
    bad_tensor(t, (struct tt_train_tensor){.name = "a", .count = 1, .dtype = (tutti_dtype)99}, "no such type");
    bad_tensor(t, (struct tt_train_tensor){.name = "a", .count = 1, .group = 1024}, "group 1024");
    assert_int_equal(tt_train_set_group(t, 0, &(struct tt_train_group){.lr = -1}, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_train_set_group(t, 0, &(struct tt_train_group){.beta1 = 1}, &err), TUTTI_ERR_RANGE);
    assert_null(tt_train_grad(t, 0));
    assert_int_equal(tt_train_ready(t, 0), TUTTI_ERR_ARG);
    tt_train_close(t);
    tt_train_close(NULL);
}

static void step(struct tt_trainer *t, unsigned n, float value)
{
    for (unsigned i = n; i-- > 0;) {
        assert_int_equal(tt_train_wait(t, i), TUTTI_OK); /* the gradient is ours again */
        for (unsigned e = 0; e < 10 + i; e++)
            ((float *)tt_train_grad(t, i))[e] = value;
        assert_int_equal(tt_train_ready(t, i), TUTTI_OK);
    }
    assert_int_equal(tt_train_step(t), TUTTI_OK);
}

/* The last update is not lost, gradients are zero afterwards; with deferred policies parameters wait for whoever asks. */
static void flushes(void **state)
{
    (void)state;
    for (enum tt_policy_kind k = 0; k < TT_POLICY_COUNT; k++) {
        struct tt_trainer *t = make(&(struct tt_train_options){.policy = {.kind = k}, .optimizer = TT_OPT_SGD}, 5);
        assert_int_equal(tt_train_flush(t), TUTTI_OK);
        for (int s = 0; s < 4; s++)
            step(t, 5, 0.25f);
        assert_int_equal(tt_train_wait(t, 3), TUTTI_OK);
        assert_true(*(float *)tt_train_param(t, 3) == -1);
        assert_int_equal(tt_train_flush(t), TUTTI_OK);
        for (uint32_t i = 0; i < 5; i++)
            for (unsigned e = 0; e < 10 + i; e++) {
                assert_true(((float *)tt_train_param(t, i))[e] == -1);
                assert_true(((float *)tt_train_grad(t, i))[e] == 0);
            }
        assert_null(tt_train_grad(t, 5));
        tt_train_close(t);
    }
}

/* Between average and step the caller decides what is updated, and the norm is that of what is left: of tensors "even" (10
 * elements), "odd" (11) and "even" (12), the first is dropped, the second scaled by 3 and the third nobody used. */
static void uses(void **state)
{
    struct tt_train_options o = {.policy = {.kind = TT_POLICY_DEAR}, .optimizer = TT_OPT_SGD, .clip_norm = 1, .allow_unused = true};
    struct tt_trainer *t = make(&o, 3);
    float *g[3], *p[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        g[i] = tt_train_grad(t, i);
        p[i] = tt_train_param(t, i);
        for (unsigned k = 0; k < 10 + i; k++)
            g[i][k] = 1;
    }
    assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
    assert_int_equal(tt_train_ready(t, 1), TUTTI_OK);
    assert_int_equal(tt_train_average(t), TUTTI_OK);
    assert_false(tt_train_used(t, 2));
    for (unsigned k = 0; k < 12; k++) {
        g[1][k < 11 ? k : 0] = 3;
        g[2][k] = 5;
    }
    float before[3] = {p[0][0], p[1][0], p[2][0]};
    double norm = sqrt(11 * 9.0 + 12 * 25.0);
    assert_int_equal(tt_train_use(t, 0, false), TUTTI_OK);
    assert_int_equal(tt_train_use(t, 2, true), TUTTI_OK);
    assert_int_equal(tt_train_step(t), TUTTI_OK);
    assert_int_equal(tt_train_flush(t), TUTTI_OK);
    assert_true(fabs(tt_train_norm(t) - norm) < 1e-9);
    assert_true(p[0][0] == before[0]);
    assert_true(fabs(before[1] - p[1][0] - 3 / norm) < 1e-6);
    assert_true(fabs(before[2] - p[2][0] - 5 / norm) < 1e-6);
    assert_int_equal(tt_train_updates(t, 0), 0);
    assert_int_equal(tt_train_updates(t, 1), 1);
    assert_int_equal(tt_train_updates(t, 2), 1);
    tt_train_close(t);
}

static void allocates_nothing(void **state)
{
    (void)state;
    for (enum tt_policy_kind k = 0; k < TT_POLICY_COUNT; k++) {
        struct tt_train_options o = {.policy = {.kind = k}, .optimizer = TT_OPT_ADAMW, .clip_norm = k % 2 ? 1 : 0};
        struct tt_trainer *t = make(&o, 9);
        step(t, 9, 1);
        watched = 1;
        for (int s = 0; s < 20; s++)
            step(t, 9, 1);
        tt_train_flush(t);
        watched = 0;
        assert_int_equal(allocations, 0);
        tt_train_close(t);
    }
}

/* Errors abort the job, so each has a communicator of its own. */
static bool elastic_wrong; /* the trainer of wrong() is elastic */
static void wrong(void (*act)(struct tt_trainer *), const char *words)
{
    open_comm(NULL);
    struct tt_trainer *t = make(&(struct tt_train_options){.optimizer = TT_OPT_SGD, .elastic = elastic_wrong}, 4);
    act(t);
    struct tutti_error err = tt_train_error(t);
    says(&err, words);
    says(&err, "rank 0");
    assert_int_equal(tt_train_step(t), TUTTI_ERR_ARG);
    assert_int_equal(tt_train_flush(t), TUTTI_ERR_ARG);
    tt_train_close(t);
    close_comm(NULL);
}

static void twice(struct tt_trainer *t)
{
    assert_int_equal(tt_train_ready(t, 3), TUTTI_OK);
    assert_int_equal(tt_train_ready(t, 3), TUTTI_ERR_ARG);
}

static void never(struct tt_trainer *t)
{
    assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
    assert_int_equal(tt_train_step(t), TUTTI_ERR_ARG);
}

static void beyond(struct tt_trainer *t)
{
    assert_int_equal(tt_train_ready(t, 4), TUTTI_ERR_ARG);
}

static void use_early(struct tt_trainer *t)
{
    assert_int_equal(tt_train_use(t, 0, false), TUTTI_ERR_ARG);
}

static void early(struct tt_trainer *t)
{
    assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
    assert_int_equal(tt_train_flush(t), TUTTI_ERR_ARG);
}

static void unsynchronised(struct tt_trainer *t)
{
    assert_int_equal(tt_train_sync(t, false), TUTTI_OK);
    assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
    assert_int_equal(tt_train_flush(t), TUTTI_OK);
    assert_int_equal(tt_train_step(t), TUTTI_ERR_ARG);
}

static void averages(struct tt_trainer *t)
{
    struct tutti_error err;
    assert_int_equal(tt_train_average(t), TUTTI_ERR_ARG);
    assert_int_equal(tt_train_rebind(t, comm, &err), TUTTI_ERR_ARG); /* a mistake of this rank is final */
    says(&err, "may be averaged anew");
}

/* The same steps with and without: the same parameters, and a fingerprint that follows them. */
static void elastic(void **state)
{
    struct tutti_error err;
    float last[2] = {0};
    uint64_t prints[2];
    (void)state;
    for (unsigned e = 0; e < 2; e++) {
        struct tt_trainer *t = make(&(struct tt_train_options){.optimizer = TT_OPT_SGD, .elastic = e, .policy = {.kind = TT_POLICY_DEAR}}, 3);
        for (unsigned s = 0; s < 3; s++) {
            step(t, 3, 1.5f);
            assert_int_equal(tt_train_steps(t), s + 1);
        }
        assert_int_equal(tt_train_flush(t), TUTTI_OK);
        last[e] = *(float *)tt_train_param(t, 0);
        prints[0] = tt_train_fingerprint(t);
        assert_true(e == (prints[0] != 0));
        assert_int_equal(tt_train_rebind(t, comm, &err), e ? TUTTI_OK : TUTTI_ERR_ARG);
        if (!e)
            says(&err, "without `elastic`");
        assert_int_equal(tt_train_bound(t), e ? 3 : 0);
        step(t, 3, 1.5f);
        prints[1] = tt_train_fingerprint(t);
        assert_true(e == (prints[0] != prints[1]));
        tt_train_close(t);
    }
    assert_true(last[0] == last[1]);
}

static void mistakes(void **state)
{
    (void)state;
    elastic_wrong = true;
    wrong(averages, "may be averaged anew");
    elastic_wrong = false;
    wrong(twice, "tensor odd is ready once more");
    wrong(use_early, "between average and step");
    wrong(never, "tensor odd was not ready in step 1");
    wrong(beyond, "tensor 4: there are 4");
    wrong(early, "flush in step 1");
    wrong(unsynchronised, "synchronisation is off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(bad_options, open_comm, close_comm),
                                       cmocka_unit_test_setup_teardown(bad_tensors, open_comm, close_comm),
                                       cmocka_unit_test_setup_teardown(flushes, open_comm, close_comm),
                                       cmocka_unit_test_setup_teardown(elastic, open_comm, close_comm),
                                       cmocka_unit_test_setup_teardown(uses, open_comm, close_comm),
                                       cmocka_unit_test_setup_teardown(allocates_nothing, open_comm, close_comm),
                                       cmocka_unit_test(mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
