/* The text form: a golden file, exact round trips, and every way a file can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched.h"

static struct tt_sched *freeze(struct tt_builder *b)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sched_build_freeze(b, &s, &err), TUTTI_OK);
    return s;
}

/* Two ranks exchange and sum; with everything optional when `rich`. */
static struct tt_sched *sample(bool rich)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE,
                             .ranks = 2,
                             .chunks = 2,
                             .nbufs = 3,
                             .segments = 4,
                             .inplace = true,
                             .count = 8,
                             .algo = "sample",
                             .options = "a=\"1\",b=2",
                             .topo_hash = UINT64_C(0xfedcba9876543210),
                             .redop = TUTTI_MAX};
    if (rich) {
        shape.weights = tt_zalloc(2, sizeof *shape.weights);
        shape.owner = tt_zalloc(2, sizeof *shape.owner);
        shape.weights[0] = UINT32_MAX;
        shape.weights[1] = 3;
        shape.owner[0] = 1;
    }
    struct tt_builder b;
    tt_sched_build_begin(&b, &shape, 0);
    uint32_t links[] = {4, 4294967295u};
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_build_rank(&b, r);
        struct tt_span in[] = {tt_sched_span_range(TT_BUF_IN, 0, 2)}, scratch[] = {tt_sched_span_range(2, 0, 2)};
        struct tt_span sum[] = {tt_sched_span_range(TT_BUF_OUT, 0, 2), tt_sched_span_from(TT_BUF_OUT, r ? 2 : 0, 0, 2),
                                tt_sched_span_from(TT_BUF_OUT, r ? 0 : 2, 0, 2)};
        tt_sched_emit_send(&b, 0, 1 - r, 3, in, 1);
        tt_sched_emit_recv(&b, 0, 1 - r, 3, scratch, 1);
        tt_sched_emit_reduce(&b, 0, sum, 3);
        if (rich)
            tt_sched_build_route(&b, r, 1 - r, 3, links, 2 * r);
    }
    return freeze(&b);
}

static char *text_of(const struct tt_sched *s, size_t *ret_len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, ret_len);
    assert_non_null(f);
    assert_int_equal(tt_sched_write(s, f, NULL), TUTTI_OK);
    fclose(f);
    return text;
}

static void assert_round_trip(struct tt_sched *s)
{
    size_t len, len2;
    struct tt_sched *back = NULL;
    struct tutti_error err = {0};
    char *text = text_of(s, &len);
    if (tt_sched_read_memory(text, len, "memory", &back, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    assert_true(tt_sched_equal(s, back));
    assert_true(s->hash == back->hash);
    assert_int_equal(s->steps, back->steps);
    assert_int_equal(s->nsteps, back->nsteps);
    char *again = text_of(back, &len2);
    assert_int_equal(len, len2);
    assert_memory_equal(text, again, len);
    free(text);
    free(again);
    tt_sched_free(back);
    tt_sched_free(s);
}

static const char golden[] = "{\n"
                             "  \"format\": \"tutti-schedule\",\n"
                             "  \"version\": 1,\n"
                             "  \"coll\": \"allreduce\",\n"
                             "  \"ranks\": 2,\n"
                             "  \"root\": 0,\n"
                             "  \"algo\": \"sample\",\n"
                             "  \"options\": \"a=\\\"1\\\",b=2\",\n"
                             "  \"count\": 8,\n"
                             "  \"dtype\": \"f32\",\n"
                             "  \"op\": \"max\",\n"
                             "  \"topo_hash\": \"fedcba9876543210\",\n"
                             "  \"chunks\": 2,\n"
                             "  \"buffers\": 3,\n"
                             "  \"segments\": 4,\n"
                             "  \"inplace\": true,\n"
                             "  \"symmetric\": false,\n"
                             "  \"slices\": [\n"
                             "    [\n"
                             "      [0,0,1,3,0,0,0,2,0,1],\n"
                             "      [1,0,1,3,2,2,0,2,0,1],\n"
                             "      [3,0,0,0,1,1,0,2,0,1,1,0,0,2,0,1,1,2,0,2,0,1]\n"
                             "    ],\n"
                             "    [\n"
                             "      [0,0,0,3,0,0,0,2,0,1],\n"
                             "      [1,0,0,3,2,2,0,2,0,1],\n"
                             "      [3,0,0,0,1,1,0,2,0,1,1,2,0,2,0,1,1,0,0,2,0,1]\n"
                             "    ]\n"
                             "  ]\n"
                             "}\n";

static void test_golden(void **state)
{
    size_t len;
    struct tt_sched *s = sample(false);
    char *text = text_of(s, &len);
    assert_string_equal(text, golden);
    free(text);
    tt_sched_free(s);
    (void)state;
}

static struct tt_sched *partial(void)
{
    struct tt_shape shape = {.coll = TUTTI_ALL_TO_ALL, .ranks = 4, .chunks = 16, .nbufs = 2, .segments = 1, .dtype = TUTTI_BF16};
    struct tt_builder b;
    tt_sched_build_begin(&b, &shape, 1);
    for (uint32_t r = 1; r < 3; r++)
        tt_sched_build_rank(&b, r);
    struct tt_span from[] = {{.first = 2, .len = 1, .stride = 8, .reps = 2, .buf = 1, .src = 1}, tt_sched_span_range(1, 6, 1)};
    tt_sched_emit_recv(&b, TT_MAX_STEPS - 1, 0, UINT16_MAX, from, 2);
    return freeze(&b);
}

static void test_round_trips(void **state)
{
    assert_round_trip(sample(false));
    assert_round_trip(sample(true));
    assert_round_trip(partial());
    struct tt_shape shape = {.coll = TUTTI_BARRIER, .ranks = 1, .chunks = 1, .nbufs = 2, .segments = 1};
    struct tt_builder b;
    tt_sched_build_begin(&b, &shape, 0);
    tt_sched_build_rank(&b, 0);
    assert_round_trip(freeze(&b));
    (void)state;
}

/* Random ring-like programs of many ranks. */
static void test_random_round_trips(void **state)
{
    struct tt_rng rng;
    tt_rng_seed(&rng, 21);
    for (int round = 0; round < 50; round++) {
        uint32_t ranks = 2 + (uint32_t)tt_rng_below(&rng, 30), chunks = 64;
        struct tt_shape shape = {.coll = TUTTI_ALLREDUCE,
                                 .ranks = ranks,
                                 .chunks = chunks,
                                 .nbufs = 9,
                                 .segments = 1,
                                 .count = tt_rng_next(&rng) >> 1,
                                 .root = ranks - 1};
        struct tt_builder b;
        tt_sched_build_begin(&b, &shape, 0);
        for (uint32_t r = 0; r < ranks; r++) {
            tt_sched_build_rank(&b, r);
            for (uint32_t step = 0; step < 10; step++) {
                struct tt_span s[2];
                size_t n = tt_sched_span_cyclic(1 + step % 8, 1 + step % 8, tt_rng_next(&rng) >> 1, 1 + (uint32_t)tt_rng_below(&rng, 64),
                                                chunks, s);
                tt_sched_emit_send(&b, step * 7, (r + 1) % ranks, (uint16_t)tt_rng_below(&rng, 65536), s, n);
                tt_sched_emit_recv(&b, step * 7, (r + 1) % ranks, 0, s, n);
            }
        }
        assert_round_trip(freeze(&b));
    }
    (void)state;
}

/* ---- wrong files ---- */

/* The golden file with the first `from` replaced by `to`. */
static char *edited(const char *from, const char *to)
{
    const char *at = strstr(golden, from);
    assert_non_null(at);
    char *text = malloc(sizeof golden + strlen(to));
    size_t head = (size_t)(at - golden);
    memcpy(text, golden, head);
    strcpy(text + head, to);
    strcat(text, at + strlen(from));
    return text;
}

static void assert_refused(const char *text, tutti_status status, const char *part)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sched_read_memory(text, strlen(text), "plan.json", &s, &err), status);
    assert_null(s);
    if (!strstr(err.text, part))
        fail_msg("expected '%s', got '%s'", part, err.text);
}

static void test_wrong_files(void **state)
{
    static const struct {
        const char *from, *to;
        tutti_status status;
        const char *part;
    } cases[] = {
        {"tutti-schedule", "tutti-topology", TUTTI_ERR_PARSE, "plan.json:2:13: \"format\" is 'tutti-topology'"},
        {"\"version\": 1", "\"version\": 2", TUTTI_ERR_VERSION, "plan.json:3:14: version 2"},
        {"\"root\": 0", "\"rooot\": 0", TUTTI_ERR_PARSE, "plan.json:6:3: unknown key \"rooot\""},
        {"\"root\": 0", "\"ranks\": 2", TUTTI_ERR_PARSE, "plan.json:6:3: \"ranks\" stands here a second time"},
        {"  \"root\": 0,\n", "", TUTTI_ERR_PARSE, "\"root\" is missing"},
        {"\"ranks\": 2", "\"ranks\": -2", TUTTI_ERR_RANGE, "\"ranks\" must be from 0 to"},
        {"\"ranks\": 2", "\"ranks\": 2.5", TUTTI_ERR_PARSE, "plan.json:5:12"},
        {"\"ranks\": 2", "\"ranks\": 99999999999", TUTTI_ERR_RANGE, "\"ranks\""},
        {"\"ranks\": 2", "\"ranks\": 3", TUTTI_ERR_PARSE, "2 slices of 3 ranks"},
        {"\"ranks\": 2", "\"ranks\": 1", TUTTI_ERR_RANGE, "a slice for rank 1 of 1"},
        {"\"ranks\": 2", "\"ranks\": 0", TUTTI_ERR_RANGE, "a slice for rank 0 of 0"},
        {"\"ranks\": 2", "\"first_rank\": 1, \"ranks\": 2", TUTTI_ERR_RANGE, "a slice for rank 2 of 2"},
        {"\"ranks\": 2", "\"first_rank\": 4294967295, \"ranks\": 2", TUTTI_ERR_RANGE, "rank 4294967295 of 2"},
        {"allreduce", "alreduce", TUTTI_ERR_PARSE, "no \"coll\" is called 'alreduce'"},
        {"f32", "f31", TUTTI_ERR_PARSE, "no \"dtype\" is called 'f31'"},
        {"max", "mix", TUTTI_ERR_PARSE, "no \"op\" is called 'mix'"},
        {"\"sample\"", "\"0123456789012345678901234567890123456789\"", TUTTI_ERR_RANGE, "longer than 31"},
        {"\"sample\"", "7", TUTTI_ERR_PARSE, "plan.json:7:11"},
        {"fedc", "FEDC", TUTTI_ERR_PARSE, "16 hexadecimal"},
        {"fedc", "fed", TUTTI_ERR_PARSE, "16 hexadecimal"},
        {"\"inplace\": true", "\"inplace\": 1", TUTTI_ERR_PARSE, "true or false"},
        {"\"chunks\": 2", "\"chunks\": 2, \"weights\": [1]", TUTTI_ERR_PARSE, "\"weights\" has 1 numbers"},
        {"\"chunks\": 2", "\"chunks\": 2, \"owner\": [0,1,0]", TUTTI_ERR_PARSE, "\"owner\" has 3 numbers"},
        {"\"chunks\": 2", "\"chunks\": 2, \"owner\": []", TUTTI_ERR_PARSE, "\"owner\" has 0 numbers"},
        {"\"chunks\": 2", "\"chunks\": 2, \"owner\": [0,2]", TUTTI_ERR_INCORRECT, "plan.json: owner 2 of chunk 1"},
        {"\"chunks\": 2", "\"chunks\": 2, \"weights\": [0,0]", TUTTI_ERR_INCORRECT, "weights are zero"},
        {"\"chunks\": 2", "\"chunks\": 2, \"weights\": [1,4294967296]", TUTTI_ERR_RANGE, "4294967296"},
        {"\"chunks\": 2", "\"chunks\": 4294967295, \"weights\": [1,2]", TUTTI_ERR_PARSE, "not one for each of 4294967295"},
        {"\"chunks\": 2", "\"chunks\": 2, \"routes\": [[0,1]]", TUTTI_ERR_PARSE, "a route is ["},
        {"\"chunks\": 2", "\"chunks\": 2, \"routes\": [7]", TUTTI_ERR_PARSE, "a route is an array"},
        {"\"chunks\": 2", "\"chunks\": 2, \"routes\": [[0,1,65536]]", TUTTI_ERR_RANGE, "channel 65536"},
        {"\"chunks\": 2", "\"chunks\": 2, \"routes\": [[0,0,0]]", TUTTI_ERR_INCORRECT, "route from rank 0 to rank 0"},
        {"\"chunks\": 2", "\"chunks\": 2, \"routes\": [[0,1,0,5],[0,1,0,6]]", TUTTI_ERR_ARG, "two routes"},
        {"\"chunks\": 2", "\"chunks\": 2, \"hash\": \"0000000000000000\"", TUTTI_ERR_PARSE, "plan.json: damaged"},
        {"\"chunks\": 2", "\"chunks\": 1", TUTTI_ERR_INCORRECT,
         "plan.json: rank 0 op 0 (send, step 0): a span from chunk 0 ends at 2 of 1"},
        {"\"buffers\": 3", "\"buffers\": 2", TUTTI_ERR_INCORRECT, "rank 0 op 1"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3]", TUTTI_ERR_PARSE, "plan.json:20:15: an operation without spans"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3,0,0,0,2,0]", TUTTI_ERR_PARSE, "an operation is [kind"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[]", TUTTI_ERR_PARSE, "an operation is [kind"},
        {"[0,0,1,3,0,0,0,2,0,1]", "{}", TUTTI_ERR_PARSE, "an operation must be an array"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[5,0,1,3,0,0,0,2,0,1]", TUTTI_ERR_RANGE, "plan.json:20:8: 5 is not from 0 to 4"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,4194304,1,3,0,0,0,2,0,1]", TUTTI_ERR_RANGE, "4194304"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,65536,0,0,0,2,0,1]", TUTTI_ERR_RANGE, "65536"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3,0,0,0,0,0,1]", TUTTI_ERR_RANGE, "a span of no chunks"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3,0,0,0,2,0,4294967296]", TUTTI_ERR_RANGE, "4294967296"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,0,3,0,0,0,2,0,1]", TUTTI_ERR_INCORRECT, "rank 0 op 0 (send, step 0): a message to oneself"},
        {"[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3,0,0,0,2,0,1", TUTTI_ERR_PARSE, "plan.json:2"},
        {"  ]\n}", "  ],\n  \"root\": 0\n}", TUTTI_ERR_PARSE, "key \"root\" after the slices"},
        {"  ]\n}\n", "  ]\n}\n{}", TUTTI_ERR_PARSE, "plan.json:31:1"},
        {"\"slices\": [", "\"slices\": 7, \"x\": [", TUTTI_ERR_PARSE, "expected an array"},
        {"{\n", "[", TUTTI_ERR_PARSE, "plan.json:1:1: expected an object"},
        {"\"slices\"", "\"slice\"", TUTTI_ERR_PARSE, "unknown key"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        char *text = edited(cases[i].from, cases[i].to);
        assert_refused(text, cases[i].status, cases[i].part);
        free(text);
    }
    assert_refused("", TUTTI_ERR_PARSE, "plan.json:1:1");
    assert_refused("{}", TUTTI_ERR_PARSE, "ends without \"slices\"");
    (void)state;
}

/* Key order is free, a right hash is accepted, and what is not canonical becomes so. */
static void test_accepted_variants(void **state)
{
    struct tt_sched *s = sample(false), *back = NULL;
    struct tutti_error err = {0};
    char hash[64];
    snprintf(hash, sizeof hash, "\"hash\": \"%016llx\", \"chunks\": 2", (unsigned long long)s->hash);
    char *variants[] = {
        edited("\"chunks\": 2", hash),
        edited("  \"version\": 1,\n  \"coll\": \"allreduce\",\n", "  \"coll\": \"allreduce\",\n  \"version\": 1,\n"),
        edited("[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3,0,0,0,1,0,1,0,0,1,1,0,1]"),
        edited("[0,0,1,3,0,0,0,2,0,1]", "[0,0,1,3,0,0,0,1,1,2]"),
    };
    for (size_t i = 0; i < countof(variants); i++) {
        if (tt_sched_read_memory(variants[i], strlen(variants[i]), "variant", &back, &err) != TUTTI_OK)
            fail_msg("%s", err.text);
        assert_true(tt_sched_equal(s, back));
        tt_sched_free(back);
        free(variants[i]);
    }
    tt_sched_free(s);
    (void)state;
}

/* Fields without a meaning: reading keeps them, so that the check can refuse what a program that trusts them would misread. */
static void test_unused_fields(void **state)
{
    static const char *const cases[][2] = {
        {"[0,0,1,3,0,2,0,2,0,1]", "names buffer 2 as a source"},
        {"[0,0,1,3,0,0,0,2,4,1]", "not repeated has stride 4"},
        {"[0,0,1,3,0,0,0,1,0,1,0,0,1,1,5,1]", "not repeated has stride 5"},
        {"[0,0,1,3,0,0,0,1,5,1,0,0,1,1,0,1]", "not repeated has stride 5"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        char *text = edited("[0,0,1,3,0,0,0,2,0,1]", cases[i][0]);
        struct tt_sched *s = NULL;
        struct tutti_error err = {0};
        assert_int_equal(tt_sched_read_memory(text, strlen(text), "file", &s, &err), TUTTI_ERR_INCORRECT);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("expected '%s', got '%s'", cases[i][1], err.text);
        free(text);
    }
    (void)state;
}

/* Cut anywhere, the file is refused; so is nearly every flipped byte, and none of them does harm. */
static void test_damage(void **state)
{
    size_t len;
    struct tt_sched *rich = sample(true);
    char *text = text_of(rich, &len);
    for (size_t cut = 0; cut + 1 < len; cut++) {
        struct tt_sched *s = NULL;
        struct tutti_error err = {0};
        assert_int_not_equal(tt_sched_read_memory(text, cut, "cut", &s, &err), TUTTI_OK);
        assert_memory_equal(err.text, "cut:", 4);
    }
    struct tt_rng rng;
    tt_rng_seed(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        struct tt_sched *s = NULL;
        size_t at = tt_rng_below(&rng, len);
        char old = text[at];
        text[at] = i % 2 ? (char)('0' + tt_rng_below(&rng, 10)) : (char)tt_rng_below(&rng, 256);
        if (tt_sched_read_memory(text, len, "flip", &s, NULL) == TUTTI_OK)
            assert_int_equal(tt_sched_check(s, NULL, NULL), TUTTI_OK);
        tt_sched_free(s);
        text[at] = old;
    }
    free(text);
    tt_sched_free(rich);
    (void)state;
}

static void test_files(void **state)
{
    struct tt_sched *s = sample(true), *back = NULL;
    struct tutti_error err = {0};
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(tt_sched_write(s, f, &err), TUTTI_OK);
    rewind(f);
    assert_int_equal(tt_sched_read(f, "tmp", &back, &err), TUTTI_OK);
    assert_true(tt_sched_equal(s, back));
    tt_sched_free(back);
    fclose(f);

    /* Without checking, a flaw is found by whoever asks for it, with rank and operation. */
    char *text = edited("[1,0,0,3,2,2,0,2,0,1]", "[1,0,0,3,9,9,0,2,0,1]");
    struct tt_sched_flaw where = {0};
    f = fmemopen(text, strlen(text), "r");
    assert_int_equal(tt_sched_read_unchecked(f, "tmp", &back, &err), TUTTI_OK);
    assert_int_equal(tt_sched_check(back, &where, &err), TUTTI_ERR_INCORRECT);
    assert_int_equal(where.rank, 1);
    assert_int_equal(where.op, 1);
    tt_sched_free(back);
    fclose(f);
    free(text);

    f = fopen("/dev/full", "w");
    if (f) {
        assert_int_equal(tt_sched_write(s, f, &err), TUTTI_ERR_IO);
        assert_non_null(strstr(err.text, "No space"));
        fclose(f);
    }
    tt_sched_free(s);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),      cmocka_unit_test(test_round_trips),       cmocka_unit_test(test_random_round_trips),
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_accepted_variants), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_files),       cmocka_unit_test(test_unused_fields),
    };
    return cmocka_run_group_tests_name("sched text", tests, NULL, NULL);
}
