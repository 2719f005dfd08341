/* tuning.c - the rules of a tuning file: what a user has measured and wants obeyed. The first rule
 * that covers the problem wins. tuning_read.c reads a file; tuning_rules.c compares the rules of
 * ranks, and tries them on a network. */
#include "base/json.h"
#include "plan/plan_int.h"

#include <stdlib.h>
#include <string.h>

struct tt_tuning {
    char *name;
    struct tt_vec rules; /* struct tt_tuning_rule */
    uint64_t hash;
};

void tt_plan_tuning_free(struct tt_tuning *t)
{
    if (!t)
        return;
    free(t->name);
    tt_vec_free(&t->rules);
    free(t);
}

const char *tt_plan_tuning_name(const struct tt_tuning *t)
{
    return t->name;
}

const struct tt_vec *tt_plan_tuning_list(const struct tt_tuning *t)
{
    return &t->rules;
}

uint64_t tt_plan_tuning_hash(const struct tt_tuning *t)
{
    return t ? t->hash : 0;
}

/* First match wins, so a file lists special cases before general ones. */
const struct tt_tuning_rule *tt_plan_tuning_match(const struct tt_tuning *t,
                                                  const struct tt_problem *p, uint64_t bytes)
{
    for (size_t i = 0; i < t->rules.len; i++) {
        const struct tt_tuning_rule *r = tt_vec_at(&t->rules, i);
        if (r->coll == p->coll && r->min_ranks <= p->ranks && p->ranks <= r->max_ranks &&
            r->min_bytes <= bytes && bytes <= r->max_bytes)
            return r;
    }
    return NULL;
}

/* Identifies the content for the plan cache. The name is included because explanations quote it. */
uint64_t tt_plan_tuning_hash_rules(const char *name, const struct tt_vec *rules)
{
    uint64_t h = tt_hash_bytes(rules->len, name, strlen(name));
    char options[TT_MAX_OPTIONS * sizeof(struct tt_option_value) + 1];

    for (size_t i = 0; i < rules->len; i++) {
        const struct tt_tuning_rule *r = tt_vec_at(rules, i);
        const uint64_t numbers[] = {(uint64_t)r->coll, r->min_ranks, r->max_ranks, r->min_bytes,
                                    r->max_bytes};
        tt_algo_options_format(&r->options, options, sizeof options);
        h = tt_hash_bytes(h, numbers, sizeof numbers);
        h = tt_hash_bytes(h, r->algo->name, strlen(r->algo->name));
        h = tt_hash_bytes(h, options, strlen(options));
    }
    return h;
}

/* Reads everything from r and closes it in every case. */
static tutti_status tuning_make(struct tt_json_reader *r, const char *name, struct tt_tuning **ret,
                                struct tutti_error *err)
{
    struct tt_tuning *t = tt_zalloc(1, sizeof *t);
    tutti_status st;

    if (t) {
        t->rules.elem = sizeof(struct tt_tuning_rule);
        t->name = tt_strdup(name);
    }
    st = t && t->name ? tt_plan_tuning_rules_read(r, &t->rules, err)
                      : tt_fail_memory(err, "tuning file");
    tt_json_close(r);
    if (st) {
        tt_plan_tuning_free(t);
        return st;
    }
    t->hash = tt_plan_tuning_hash_rules(name, &t->rules);
    *ret = t;
    return TUTTI_OK;
}

tutti_status tt_plan_tuning_read(FILE *in, const char *name, struct tt_tuning **ret,
                                 struct tutti_error *err)
{
    struct tt_json_reader *r;
    tutti_status st = tt_json_open_file(in, name, &r, err);

    return st ? st : tuning_make(r, name, ret, err);
}

tutti_status tt_plan_tuning_read_memory(const char *data, size_t len, const char *name,
                                        struct tt_tuning **ret, struct tutti_error *err)
{
    struct tt_json_reader *r;
    tutti_status st = tt_json_open_memory(data, len, name, &r, err);

    return st ? st : tuning_make(r, name, ret, err);
}
