/* tuning_rules.c - the rules of a tuning file for ranks that must agree on them: in words, as a
 * hash, and the check whether a network can obey them. Ranks compare hashes and show words when
 * they differ, so neither may depend on the file's name. */
#include "plan/plan_int.h"

#include <inttypes.h>
#include <string.h>

static const struct tt_tuning_rule *rule_at(const struct tt_tuning *t, size_t i)
{
    return tt_vec_at(tt_plan_tuning_list(t), i);
}

size_t tt_plan_tuning_rules(const struct tt_tuning *t)
{
    return tt_plan_tuning_list(t)->len;
}

/* Appends ", 2-64 ranks", ", from 2 ranks", ", up to 64 ranks" or nothing. `most`: an open upper
 * end. */
static void add_range(struct tt_str *s, uint64_t min, uint64_t max, uint64_t most, const char *unit)
{
    if (min && max < most)
        tt_str_printf(s, ", %" PRIu64 "-%" PRIu64 " %s", min, max, unit);
    else if (min)
        tt_str_printf(s, ", from %" PRIu64 " %s", min, unit);
    else if (max < most)
        tt_str_printf(s, ", up to %" PRIu64 " %s", max, unit);
}

char *tt_plan_tuning_rule_text(const struct tt_tuning *t, size_t i, char *buf, size_t cap)
{
    const struct tt_tuning_rule *r = rule_at(t, i);
    char options[TT_MAX_OPTIONS * sizeof(struct tt_option_value) + 1];
    struct tt_str s = {0};
    tt_algo_options_format(&r->options, options, sizeof options);
    tt_str_printf(&s, "%s", tt_sched_coll_name(r->coll));
    add_range(&s, r->min_ranks, r->max_ranks, UINT32_MAX, "ranks");
    add_range(&s, r->min_bytes, r->max_bytes, INT64_MAX, "bytes");
    tt_str_printf(&s, ": %s%s%s", r->algo->name, *options ? " " : "", options);
    snprintf(buf, cap, "%s", s.s ? s.s : "");
    tt_str_free(&s);
    return buf;
}

uint64_t tt_plan_tuning_rules_hash(const struct tt_tuning *t)
{
    return tt_plan_tuning_hash_rules("", tt_plan_tuning_list(t));
}

/* Probes the rule's algorithm at one length of its range: algorithms refuse by ranks, root and
 * network, not by length. */
static tutti_status check_rule(const struct tt_tuning_rule *r, const struct tt_topo *topo,
                               bool reproducible, struct tutti_error *err)
{
    struct tt_algo_args a = {.problem = {.coll = r->coll,
                                         .ranks = topo->ranks,
                                         .count = r->min_bytes / 4 + 1,
                                         .dtype = TUTTI_F32},
                             .topo = topo,
                             .options = r->options};
    if (r->coll == TUTTI_BARRIER)
        a.problem.count = 0;
    if (reproducible && tt_sched_coll_sums(r->coll) && !r->algo->rank_order)
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "%s does not sum in rank order, and sums must be reproducible",
                       r->algo->name);
    return tt_algo_probe(r->algo, &a, err);
}

tutti_status tt_plan_tuning_check(const struct tt_tuning *t, const struct tt_topo *topo,
                                  bool reproducible, struct tutti_error *err)
{
    char words[200];
    for (size_t i = 0; i < tt_plan_tuning_rules(t); i++) {
        const struct tt_tuning_rule *r = rule_at(t, i);
        if (topo->ranks < r->min_ranks || topo->ranks > r->max_ranks)
            continue;
        tutti_status st = check_rule(r, topo, reproducible, err);
        if (st) {
            tt_fail_prefix(err, "%.200s: rule %zu (%s) cannot be kept on %" PRIu32 " ranks",
                           tt_plan_tuning_name(t), r->number,
                           tt_plan_tuning_rule_text(t, i, words, sizeof words), topo->ranks);
            return st;
        }
    }
    return TUTTI_OK;
}
