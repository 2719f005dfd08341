/* tuning_read.c - reads a tuning file.
 *
 *     {"format": "tutti-tuning", "version": 1, "rules": [
 *       {"coll": "allreduce", "min_ranks": 2, "max_ranks": 64,
 *        "min_bytes": 0, "max_bytes": 65536, "algo": "oneshot"},
 *       {"coll": "allreduce", "algo": "ring", "options": {"segments": "4"}}
 *     ]}
 *
 * Ranges include both ends; a missing end is open. Nothing is ignored: unknown or repeated keys,
 * wrong types, unknown algorithms and options that an algorithm does not have are errors with their
 * position in the file. */
#include "base/json.h"
#include "plan/plan_int.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_RULES = 4096 };

/* The keys that an object may have, and bit i of `seen` for those read so far. */
struct keys {
    const char *const *names;
    size_t n;
    unsigned seen;
};

/* Finds the index of a key; refuses unknown ones (naming similar ones) and repeated ones. */
static tutti_status find_key(struct tt_json_reader *r, struct keys *k, const char *name,
                             size_t *ret, struct tutti_error *err)
{
    char near[200];

    for (size_t i = 0; i < k->n; i++) {
        if (!tt_streq(name, k->names[i]))
            continue;
        if (k->seen & 1u << i)
            return tt_json_fail(r, err, TUTTI_ERR_PARSE, "key \"%s\" is given twice", name);
        k->seen |= 1u << i;
        *ret = i;
        return TUTTI_OK;
    }
    tt_near_matches(name, k->names, k->n, near, sizeof near);
    return tt_json_fail(r, err, TUTTI_ERR_PARSE, "unknown key \"%.60s\"%s%s", name,
                        near[0] ? "; " : "", near);
}

/* Reads the next key of an object: *ret is its index, or *ret_end is true at the closing brace. */
static tutti_status next_key(struct tt_json_reader *r, struct keys *k, size_t *ret, bool *ret_end,
                             struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_next(r, &tok, err);

    if (st)
        return st;
    *ret_end = tok.kind == TT_JSON_OBJECT_END;
    return *ret_end ? TUTTI_OK : find_key(r, k, tok.text, ret, err);
}

/* `needed` is a bit set like k->seen. */
static tutti_status need_keys(struct tt_json_reader *r, const struct keys *k, unsigned needed,
                              struct tutti_error *err)
{
    for (size_t i = 0; i < k->n; i++)
        if (needed & ~k->seen & 1u << i)
            return tt_json_fail(r, err, TUTTI_ERR_PARSE, "\"%s\" is missing", k->names[i]);
    return TUTTI_OK;
}

/* Repeats another module's failure with the reader's position. */
static tutti_status fail_here(struct tt_json_reader *r, const struct tutti_error *why,
                              struct tutti_error *err)
{
    return tt_json_fail(r, err, why->status, "%s", why->text);
}

static tutti_status read_string(struct tt_json_reader *r, const char *key,
                                struct tt_json_token *ret, struct tutti_error *err)
{
    tutti_status st = tt_json_next(r, ret, err);

    if (!st && ret->kind != TT_JSON_STRING)
        st = tt_json_fail(r, err, TUTTI_ERR_PARSE, "\"%s\" must be a string", key);
    return st;
}

/* INT is signed in the JSON reader, so max is at most INT64_MAX. */
static tutti_status read_number(struct tt_json_reader *r, const char *key, uint64_t max,
                                uint64_t *ret, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_next(r, &tok, err);

    if (st)
        return st;
    if (tok.kind != TT_JSON_INT || tok.i < 0 || (uint64_t)tok.i > max)
        return tt_json_fail(r, err, TUTTI_ERR_PARSE,
                            "\"%s\" must be a whole number from 0 to %" PRIu64, key, max);
    *ret = (uint64_t)tok.i;
    return TUTTI_OK;
}

static tutti_status read_coll(struct tt_json_reader *r, tutti_coll *ret, struct tutti_error *err)
{
#define COLL_NAME(id, name) name,
    static const char *const names[] = {TUTTI_COLL_LIST(COLL_NAME)};
#undef COLL_NAME
    struct tt_json_token tok;
    char near[200];
    int found;
    tutti_status st = read_string(r, "coll", &tok, err);

    if (st)
        return st;
    found = tt_sched_coll_find(tok.text);
    if (found < 0) {
        tt_near_matches(tok.text, names, countof(names), near, sizeof near);
        return tt_json_fail(r, err, TUTTI_ERR_PARSE, "no collective '%.60s'%s%s", tok.text,
                            near[0] ? "; " : "", near);
    }
    *ret = (tutti_coll)found;
    return TUTTI_OK;
}

static tutti_status read_algo(struct tt_json_reader *r, const struct tt_algo **ret,
                              struct tutti_error *err)
{
    struct tt_json_token tok;
    struct tutti_error why;
    const struct tt_algo *al;
    tutti_status st = read_string(r, "algo", &tok, err);

    if (st)
        return st;
    al = tt_algo_find(tok.text);
    if (!al) {
        tt_algo_unknown(tok.text, &why);
        return fail_here(r, &why, err);
    }
    *ret = al;
    return TUTTI_OK;
}

/* Reads {"segments": "4", ...}. Whether the algorithm has these options is checked at the end of
 * the rule, because "algo" may follow "options". */
static tutti_status read_options(struct tt_json_reader *r, struct tt_options *o,
                                 struct tutti_error *err)
{
    struct tt_json_token tok;
    struct tt_option_value key;
    char text[sizeof(struct tt_option_value) + 2];
    struct tutti_error why;
    tutti_status st = tt_json_expect(r, TT_JSON_OBJECT, &tok, err);

    while (!st) {
        st = tt_json_next(r, &tok, err);
        if (st || tok.kind == TT_JSON_OBJECT_END)
            break;
        if (tok.len >= sizeof key.key)
            return tt_json_fail(r, err, TUTTI_ERR_PARSE, "no option has so long a name");
        memcpy(key.key, tok.text, tok.len + 1); /* tok.text is overwritten by the next token */
        st = read_string(r, key.key, &tok, err);
        if (st)
            break;
        if (tok.len >= sizeof key.value)
            return tt_json_fail(r, err, TUTTI_ERR_PARSE, "the value of \"%s\" is too long",
                                key.key);
        snprintf(text, sizeof text, "%s=%s", key.key, tok.text);
        if (tt_algo_options_add(o, text, &why))
            return fail_here(r, &why, err);
    }
    return st;
}

/* In the order of rule_keys; the values are indices of it. */
enum rule_key { COLL, MIN_RANKS, MAX_RANKS, MIN_BYTES, MAX_BYTES, ALGO, OPTIONS };
static const char *const rule_keys[] = {"coll",      "min_ranks", "max_ranks", "min_bytes",
                                        "max_bytes", "algo",      "options"};

static tutti_status read_member(struct tt_json_reader *r, enum rule_key key,
                                struct tt_tuning_rule *rule, struct tutti_error *err)
{
    switch (key) {
    case COLL:
        return read_coll(r, &rule->coll, err);
    case MIN_RANKS:
        return read_number(r, rule_keys[key], UINT32_MAX, &rule->min_ranks, err);
    case MAX_RANKS:
        return read_number(r, rule_keys[key], UINT32_MAX, &rule->max_ranks, err);
    case MIN_BYTES:
        return read_number(r, rule_keys[key], INT64_MAX, &rule->min_bytes, err);
    case MAX_BYTES:
        return read_number(r, rule_keys[key], INT64_MAX, &rule->max_bytes, err);
    case ALGO:
        return read_algo(r, &rule->algo, err);
    case OPTIONS:
    default:
        return read_options(r, &rule->options, err);
    }
}

/* At the closing brace: are all necessary keys there and do their values fit together? */
static tutti_status check_rule(struct tt_json_reader *r, const struct keys *k,
                               const struct tt_tuning_rule *rule, struct tutti_error *err)
{
    struct tutti_error why;
    tutti_status st = need_keys(r, k, 1u << COLL | 1u << ALGO, err);

    if (st)
        return st;
    if (rule->min_ranks > rule->max_ranks)
        return tt_json_fail(r, err, TUTTI_ERR_PARSE, "\"min_ranks\" is larger than \"max_ranks\"");
    if (rule->min_bytes > rule->max_bytes)
        return tt_json_fail(r, err, TUTTI_ERR_PARSE, "\"min_bytes\" is larger than \"max_bytes\"");
    if (tt_algo_options_check(rule->algo, &rule->options, &why))
        return fail_here(r, &why, err);
    return TUTTI_OK;
}

/* Reads one rule after its opening brace. Open ends keep their initial values. */
static tutti_status read_rule(struct tt_json_reader *r, size_t number, struct tt_tuning_rule *ret,
                              struct tutti_error *err)
{
    struct keys k = {rule_keys, countof(rule_keys), 0};
    struct tt_tuning_rule rule = {
        .max_ranks = UINT32_MAX, .max_bytes = UINT64_MAX, .number = number};
    size_t key = 0;
    bool end = false;
    tutti_status st = TUTTI_OK;

    while (!st && !end) {
        st = next_key(r, &k, &key, &end, err);
        if (!st && !end)
            st = read_member(r, (enum rule_key)key, &rule, err);
    }
    if (!st)
        st = check_rule(r, &k, &rule, err);
    if (!st)
        *ret = rule;
    return st;
}

static tutti_status read_rules(struct tt_json_reader *r, struct tt_vec *rules,
                               struct tutti_error *err)
{
    struct tt_tuning_rule rule;
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(r, TT_JSON_ARRAY, &tok, err);

    while (!st) {
        st = tt_json_next(r, &tok, err);
        if (st || tok.kind == TT_JSON_ARRAY_END)
            break;
        if (tok.kind != TT_JSON_OBJECT)
            return tt_json_fail(r, err, TUTTI_ERR_PARSE, "a rule must be an object");
        if (rules->len == MAX_RULES)
            return tt_json_fail(r, err, TUTTI_ERR_LIMIT, "more than %d rules", MAX_RULES);
        st = read_rule(r, rules->len + 1, &rule, err);
        if (!st && !tt_vec_push(rules, &rule, 1))
            st = tt_fail_memory(err, "tuning rules");
    }
    return st;
}

static tutti_status read_format(struct tt_json_reader *r, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = read_string(r, "format", &tok, err);

    if (!st && !tt_streq(tok.text, "tutti-tuning"))
        st = tt_json_fail(
            r, err, TUTTI_ERR_PARSE,
            "this is not a tuning file: its format is \"%.60s\", not \"tutti-tuning\"", tok.text);
    return st;
}

static tutti_status read_version(struct tt_json_reader *r, struct tutti_error *err)
{
    uint64_t version = 0;
    tutti_status st = read_number(r, "version", INT64_MAX, &version, err);

    if (!st && version != 1)
        st = tt_json_fail(r, err, TUTTI_ERR_VERSION,
                          "version %" PRIu64 " is not supported; this build reads version 1",
                          version);
    return st;
}

/* Keys may come in any order, but each exactly once. */
tutti_status tt_plan_tuning_rules_read(struct tt_json_reader *r, struct tt_vec *rules,
                                       struct tutti_error *err)
{
    static const char *const names[] = {"format", "version", "rules"};
    struct keys k = {names, countof(names), 0};
    struct tt_json_token tok;
    size_t key = 0;
    bool end = false;
    tutti_status st = tt_json_expect(r, TT_JSON_OBJECT, &tok, err);

    while (!st && !end) {
        st = next_key(r, &k, &key, &end, err);
        if (!st && !end)
            st = key == 0   ? read_format(r, err)
                 : key == 1 ? read_version(r, err)
                            : read_rules(r, rules, err);
    }
    if (!st)
        st = need_keys(r, &k, 7, err); /* bits 0 to 2: all three keys */
    if (!st)
        st = tt_json_expect(r, TT_JSON_END, &tok, err);
    return st;
}
