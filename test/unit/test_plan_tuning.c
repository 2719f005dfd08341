/* Tuning files: obeyed where they apply, refused with file, position and reason where they cannot be, never ignored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"

static const char FULL[] = "{\"format\": \"tutti-tuning\", \"version\": 1, \"rules\": [\n"
                           "  {\"coll\": \"allreduce\", \"min_ranks\": 4, \"max_ranks\": 8, \"min_bytes\": 1024, \"max_bytes\": 4096,\n"
                           "   \"algo\": \"ring\", \"options\": {\"segments\": \"4\"}},\n"
                           "  {\"coll\": \"allreduce\", \"max_bytes\": 8192, \"algo\": \"direct\"},\n"
                           "  {\"coll\": \"broadcast\", \"algo\": \"chain\"},\n"
                           "  {\"coll\": \"reduce-scatter\", \"algo\": \"bucket\"}\n"
                           "]}\n";

static struct tt_tuning *read_text(const char *text)
{
    struct tutti_error err = {0};
    struct tt_tuning *t = NULL;

    if (tt_plan_tuning_read_memory(text, strlen(text), "tune.json", &t, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return t;
}

static tutti_status plan_with(const struct tt_tuning *tuning, const char *spec, tutti_coll coll, uint64_t count, struct tt_plan_options *o,
                              struct tt_plan **ret, struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st;

    assert_int_equal(tt_topo_parse(spec, &t, err), TUTTI_OK);
    o->tuning = tuning;
    st = tt_plan_make(t, &(struct tt_problem){.coll = coll, .ranks = t->ranks, .count = count}, o, NULL, ret, err);
    tt_topo_free(t);
    return st;
}

/* Plans an f32 problem on a star and returns the algorithm's name; *ret_tuned tells whether a rule decided. */
static const char *winner(const struct tt_tuning *tuning, unsigned ranks, tutti_coll coll, uint64_t bytes, bool *ret_tuned)
{
    struct tt_plan_options o = {0};
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;
    const char *name;
    char spec[32];

    snprintf(spec, sizeof(spec), "star:%u@1Gbps,50us", ranks);
    if (plan_with(tuning, spec, coll, bytes / 4, &o, &plan, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    *ret_tuned = plan->from_tuning;
    name = plan->algo->name;
    assert_non_null(plan->candidates);
    assert_string_equal(plan->candidates[plan->winner].algo->name, name);
    tt_plan_free(plan);
    return name;
}

static void first_matching_rule_wins(void **state)
{
    (void)state;
    struct tt_tuning *t = read_text(FULL);
    bool tuned;

    assert_string_equal(winner(t, 4, TUTTI_ALLREDUCE, 1024, &tuned), "ring");
    assert_true(tuned);
    assert_string_equal(winner(t, 8, TUTTI_ALLREDUCE, 4096, &tuned), "ring");
    assert_string_equal(winner(t, 9, TUTTI_ALLREDUCE, 4096, &tuned), "direct");
    assert_string_equal(winner(t, 3, TUTTI_ALLREDUCE, 4096, &tuned), "direct");
    assert_string_equal(winner(t, 8, TUTTI_ALLREDUCE, 1020, &tuned), "direct");
    assert_string_equal(winner(t, 8, TUTTI_ALLREDUCE, 4100, &tuned), "direct");
    assert_string_equal(winner(t, 8, TUTTI_ALLREDUCE, 8192, &tuned), "direct");
    assert_true(tuned);
    winner(t, 8, TUTTI_ALLREDUCE, 8196, &tuned);
    assert_false(tuned);
    winner(t, 8, TUTTI_ALL_GATHER, 1024, &tuned);
    assert_false(tuned);
    tt_plan_tuning_free(t);
}

static void options_of_the_rule_are_used(void **state)
{
    (void)state;
    struct tt_tuning *t = read_text(FULL);
    struct tt_plan_options o = {0};
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;

    assert_int_equal(plan_with(t, "star:8", TUTTI_ALLREDUCE, 512, &o, &plan, &err), TUTTI_OK);
    assert_int_equal(tt_algo_option_number(plan->algo, &plan->options, "segments", 1), 4);
    assert_true(plan->from_tuning);
    for (size_t i = 0; i < plan->ncandidates; i++)
        if (i != plan->winner) {
            assert_true(plan->candidates[i].skipped);
            assert_string_equal(plan->candidates[i].why, "not priced: rule 1 of tune.json fixes ring");
        }
    tt_plan_free(plan);

    /* a pipelined algorithm still gets its segments; the user's own wish is joined */
    assert_int_equal(tt_algo_options_add(&o.algo_options, "segments=2", &err), TUTTI_OK);
    assert_int_equal(plan_with(t, "star:8", TUTTI_BROADCAST, 512, &o, &plan, &err), TUTTI_OK);
    assert_int_equal(tt_algo_option_number(plan->algo, &plan->options, "segments", 1), 2);
    tt_plan_free(plan);
    tt_plan_tuning_free(t);
}

static void contradictions_are_loud(void **state)
{
    (void)state;
    struct tt_tuning *t = read_text(FULL);
    struct tt_plan_options o = {0};
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;

    assert_int_equal(tt_algo_options_add(&o.algo_options, "segments=2", &err), TUTTI_OK);
    assert_int_equal(plan_with(t, "star:8", TUTTI_ALLREDUCE, 512, &o, &plan, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "tune.json: rule 1: segments=2 was asked for"));

    /* the bucket algorithm wants a grid */
    o.algo_options.n = 0;
    assert_int_equal(plan_with(t, "star:8", TUTTI_REDUCE_SCATTER, 512, &o, &plan, &err), TUTTI_ERR_REFUSED);
    assert_int_equal(strncmp(err.text, "tune.json: rule 4: bucket: ", 27), 0);
    assert_true(strlen(err.text) > 30);

    o.reproducible = true;
    assert_int_equal(plan_with(t, "star:8", TUTTI_ALLREDUCE, 512, &o, &plan, &err), TUTTI_ERR_REFUSED);
    assert_non_null(strstr(err.text, "tune.json: rule 1: ring: sums in an order"));
    assert_null(plan);
    tt_plan_tuning_free(t);
}

/* A caller that names an algorithm has decided; the file is for auto. */
static void a_named_algorithm_is_not_overridden(void **state)
{
    (void)state;
    struct tt_tuning *t = read_text(FULL);
    struct tt_plan_options o = {.algo = "recursive-doubling"};
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;

    assert_int_equal(plan_with(t, "star:8", TUTTI_ALLREDUCE, 512, &o, &plan, &err), TUTTI_OK);
    assert_string_equal(plan->algo->name, "recursive-doubling");
    assert_false(plan->from_tuning);
    tt_plan_free(plan);
    tt_plan_tuning_free(t);
}

static void cache_knows_the_rules(void **state)
{
    (void)state;
    struct tt_tuning *a = read_text(FULL), *same = read_text(FULL),
                     *other =
                         read_text("{\"format\":\"tutti-tuning\",\"version\":1,\"rules\":[{\"coll\":\"allreduce\",\"algo\":\"direct\"}]}");
    const struct tt_tuning *asked[] = {NULL, a, same, other};
    const bool known[] = {false, false, true, false};
    struct tt_plan_cache *c = tt_plan_cache_make();
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;

    assert_int_equal(tt_topo_parse("star:8", &t, &err), TUTTI_OK);
    for (size_t i = 0; i < countof(asked); i++) {
        struct tt_problem p = {.coll = TUTTI_ALLREDUCE, .ranks = 8, .count = 512};
        struct tt_plan *plan = NULL;
        assert_int_equal(tt_plan_make(t, &p, &(struct tt_plan_options){.tuning = asked[i]}, c, &plan, &err), TUTTI_OK);
        assert_int_equal(plan->from_cache, known[i]);
        assert_int_equal(plan->from_tuning, i > 0);
        tt_plan_free(plan);
    }
    tt_plan_cache_free(c);
    tt_plan_tuning_free(a);
    tt_plan_tuning_free(same);
    tt_plan_tuning_free(other);
    tt_topo_free(t);
}

static void files_read_like_memory(void **state)
{
    (void)state;
    FILE *in = tmpfile();
    struct tutti_error err = {0};
    struct tt_tuning *t = NULL;
    bool tuned;

    assert_non_null(in);
    fputs(FULL, in);
    rewind(in);
    assert_int_equal(tt_plan_tuning_read(in, "file.json", &t, &err), TUTTI_OK);
    assert_string_equal(winner(t, 4, TUTTI_ALLREDUCE, 1024, &tuned), "ring");
    tt_plan_tuning_free(t);
    fclose(in);
}

/* ---- what is wrong with a file ---- */

#define RULES(text) "{\"format\":\"tutti-tuning\",\"version\":1,\"rules\":[" text "]}"

static void wrong_files_are_refused_at_their_position(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tutti_status status;
        const char *part;
    } cases[] = {
        {"", TUTTI_ERR_PARSE, "tune.json:1:"},
        {"[]", TUTTI_ERR_PARSE, "tune.json:1:1: "},
        {"{}", TUTTI_ERR_PARSE, "\"format\" is missing"},
        {"{\"format\":\"tutti-plan\"}", TUTTI_ERR_PARSE, "tutti-plan"},
        {"{\"format\":\"tutti-tuning\",\"version\":2}", TUTTI_ERR_VERSION, "version 2"},
        {"{\"format\":\"tutti-tuning\",\"version\":\"1\"}", TUTTI_ERR_PARSE, "\"version\" must be a whole number"},
        {"{\"format\":\"tutti-tuning\",\"version\":1}", TUTTI_ERR_PARSE, "\"rules\" is missing"},
        {"{\"format\":\"tutti-tuning\",\"version\":1,\"version\":1}", TUTTI_ERR_PARSE, "given twice"},
        {"{\"fromat\":\"tutti-tuning\"}", TUTTI_ERR_PARSE, "unknown key \"fromat\"; did you mean format"},
        {"{\"format\":\"tutti-tuning\",\"version\":1,\"rules\":{}}", TUTTI_ERR_PARSE, "tune.json:1:"},
        {RULES("7"), TUTTI_ERR_PARSE, "a rule must be an object"},
        {RULES("{}"), TUTTI_ERR_PARSE, "\"coll\" is missing"},
        {RULES("{\"coll\":\"allreduce\"}"), TUTTI_ERR_PARSE, "\"algo\" is missing"},
        {RULES("{\"coll\":\"alreduce\",\"algo\":\"ring\"}"), TUTTI_ERR_PARSE, "no collective 'alreduce'; did you mean allreduce"},
        {RULES("{\"coll\":3,\"algo\":\"ring\"}"), TUTTI_ERR_PARSE, "\"coll\" must be a string"},
        {RULES("{\"coll\":\"allreduce\",\n\"algo\":\"rnig\"}"), TUTTI_ERR_ARG, "tune.json:2:8: "},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"rnig\"}"), TUTTI_ERR_ARG, "did you mean ring"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"auto\"}"), TUTTI_ERR_ARG, "auto"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"min_ranks\":-1}"), TUTTI_ERR_PARSE, "\"min_ranks\" must be a whole number"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"max_ranks\":4294967296}"), TUTTI_ERR_PARSE, "from 0 to 4294967295"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"min_bytes\":1.5}"), TUTTI_ERR_PARSE, "\"min_bytes\" must be a whole number"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"max_bytes\":\"4K\"}"), TUTTI_ERR_PARSE, "\"max_bytes\" must be"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"min_ranks\":5,\"max_ranks\":4}"), TUTTI_ERR_PARSE, "larger than"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"min_bytes\":5,\"max_bytes\":4}"), TUTTI_ERR_PARSE, "larger than"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"algo\":\"ring\"}"), TUTTI_ERR_PARSE, "given twice"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"min_rank\":5}"), TUTTI_ERR_PARSE, "did you mean min_ranks"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"options\":[]}"), TUTTI_ERR_PARSE, "tune.json:1:"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"options\":{\"segments\":4}}"), TUTTI_ERR_PARSE, "must be a string"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"options\":{\"colour\":\"red\"}}"), TUTTI_ERR_ARG, "colour"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\",\"options\":{\"a-very-long-option-name-indeed\":\"1\"}}"), TUTTI_ERR_PARSE,
         "long"},
        {RULES("{\"coll\":\"allreduce\",\"algo\":\"ring\"}") " x", TUTTI_ERR_PARSE, "tune.json:1:"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct tutti_error err = {0};
        struct tt_tuning *t = NULL;
        tutti_status st = tt_plan_tuning_read_memory(cases[i].text, strlen(cases[i].text), "tune.json", &t, &err);
        assert_null(t);
        if (st != cases[i].status || !strstr(err.text, cases[i].part) || strncmp(err.text, "tune.json:", 10) != 0)
            fail_msg("%s\n gives %d: %s\n want %d: %s", cases[i].text, st, err.text, cases[i].status, cases[i].part);
    }
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    size_t whole = sizeof(FULL) - 2; /* without the newline */

    for (size_t len = 0; len < whole; len++) {
        struct tutti_error err = {0};
        struct tt_tuning *t = NULL;
        assert_int_equal(tt_plan_tuning_read_memory(FULL, len, "tune.json", &t, &err), TUTTI_ERR_PARSE);
        assert_null(t);
    }
}

static void too_many_rules_are_refused(void **state)
{
    (void)state;
    struct tt_str b = {0};
    struct tutti_error err = {0};
    struct tt_tuning *t = NULL;

    tt_str_printf(&b, "{\"format\":\"tutti-tuning\",\"version\":1,\"rules\":[");
    for (int i = 0; i < 5000; i++)
        tt_str_printf(&b, "%s{\"coll\":\"allreduce\",\"algo\":\"ring\"}", i ? "," : "");
    tt_str_printf(&b, "]}");
    assert_int_equal(tt_plan_tuning_read_memory(b.s, b.len, "tune.json", &t, &err), TUTTI_ERR_LIMIT);
    tt_str_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_matching_rule_wins),
        cmocka_unit_test(options_of_the_rule_are_used),
        cmocka_unit_test(contradictions_are_loud),
        cmocka_unit_test(a_named_algorithm_is_not_overridden),
        cmocka_unit_test(cache_knows_the_rules),
        cmocka_unit_test(files_read_like_memory),
        cmocka_unit_test(wrong_files_are_refused_at_their_position),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(too_many_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
