/* options.c - the options of algorithms: "key=value" texts, checked against what the algorithm
 * lists.
 *
 * Options keep the texts as they were given; an algorithm asks for a value by name and gets the
 * default when there is none. Values are checked once, in tt_algo_options_check: lookups afterwards
 * cannot fail. Every algorithm has the option `segments`. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"

static const struct tt_algo_option segments_option = {
    .key = "segments",
    .values = "N",
    .desc = "segments of every chunk that run one after another (pipelining)",
    .min = 1,
    .max = TT_MAX_SEGMENTS};

static const struct tt_option_value *find_value(const struct tt_options *o, const char *key)
{
    for (size_t i = 0; i < o->n; i++)
        if (tt_streq(o->item[i].key, key))
            return &o->item[i];
    return NULL;
}

static const struct tt_algo_option *find_option(const struct tt_algo *al, const char *key)
{
    if (tt_streq(key, segments_option.key))
        return &segments_option;
    for (const struct tt_algo_option *op = al ? al->options : NULL; op && op->key; op++)
        if (tt_streq(op->key, key))
            return op;
    return NULL;
}

/* Printable characters other than the separators of the canonical text. */
static bool is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~' || strchr(",=\"\\", s[i]))
            return false;
    return n > 0;
}

/* Only the syntax is checked here: the algorithm may not be known yet. */
tutti_status tt_algo_options_add(struct tt_options *o, const char *key_value,
                                 struct tutti_error *err)
{
    const char *eq = strchr(key_value, '=');
    size_t nkey = eq ? (size_t)(eq - key_value) : 0, nvalue = eq ? strlen(eq + 1) : 0;
    struct tt_option_value item = {0};
    if (!eq || !is_plain(key_value, nkey) || !is_plain(eq + 1, nvalue))
        return tt_fail(err, TUTTI_ERR_PARSE, "option '%.64s': expected key=value", key_value);
    if (nkey >= sizeof item.key || nvalue >= sizeof item.value)
        return tt_fail(err, TUTTI_ERR_PARSE, "option '%.64s': key or value is too long", key_value);
    memcpy(item.key, key_value, nkey);
    memcpy(item.value, eq + 1, nvalue);
    if (find_value(o, item.key))
        return tt_fail(err, TUTTI_ERR_ARG, "option '%s' is given twice", item.key);
    if (o->n == TT_MAX_OPTIONS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "more than %d options", (int)TT_MAX_OPTIONS);
    o->item[o->n++] = item;
    return TUTTI_OK;
}

/* Is `value` one of "a|b|c"? The separator itself is no part of a value. */
static bool is_listed(const char *values, const char *value)
{
    size_t n = strlen(value);
    if (strchr(value, '|'))
        return false;
    for (const char *v = values; v; v = strchr(v, '|')) {
        v += *v == '|';
        if (strncmp(v, value, n) == 0 && (v[n] == '|' || v[n] == 0))
            return true;
    }
    return false;
}

/* Does the list end in an entry such as "AxB..": any text, checked by the algorithm's probe? */
static bool takes_text(const char *values)
{
    size_t n = strlen(values);
    return n > 2 && tt_streq(values + n - 2, "..");
}

/* Suggests near matches and lists all options. */
static tutti_status unknown_option(const struct tt_algo *al, const char *key,
                                   struct tutti_error *err)
{
    const char *names[16] = {segments_option.key};
    size_t n = 1;
    char near[120], all[200];
    size_t used = (size_t)snprintf(all, sizeof all, "%s", segments_option.key);
    for (const struct tt_algo_option *op = al->options; op && op->key && n < countof(names); op++) {
        names[n++] = op->key;
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, ", %s", op->key);
    }
    tt_near_matches(key, names, n, near, sizeof near);
    return tt_fail(err, TUTTI_ERR_ARG, "%s has no option '%s'%s%s (it knows %s)", al->name, key,
                   *near ? "; " : "", near, all);
}

static tutti_status check_value(const struct tt_algo_option *op, const char *value,
                                struct tutti_error *err)
{
    uint64_t number;
    if (tt_streq(op->values, "N")) {
        tutti_status st = tt_parse_u64(value, op->min, op->max, &number, err);
        if (st && err)
            tt_fail_prefix(err, "option %s", op->key);
        return st;
    }
    if (!takes_text(op->values) && !is_listed(op->values, value))
        return tt_fail(err, TUTTI_ERR_ARG, "option %s: '%s' is none of %s", op->key, value,
                       op->values);
    return TUTTI_OK;
}

/* The limit is that of the shape's field: the canonical text must fit there. */
tutti_status tt_algo_options_check(const struct tt_algo *al, const struct tt_options *o,
                                   struct tutti_error *err)
{
    size_t text = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct tt_algo_option *op = find_option(al, o->item[i].key);
        tutti_status st =
            op ? check_value(op, o->item[i].value, err) : unknown_option(al, o->item[i].key, err);
        if (st)
            return st;
        text += strlen(o->item[i].key) + strlen(o->item[i].value) + 2;
    }
    if (text > TT_ALGO_OPTIONS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "the options are longer than %d characters together",
                       (int)TT_ALGO_OPTIONS);
    return TUTTI_OK;
}

const char *tt_algo_option_text(const struct tt_algo *al, const struct tt_options *o,
                                const char *key)
{
    /* Per thread: algorithms are pure and may be asked by several threads at once. */
    static _Thread_local char first[sizeof o->item[0].value];
    const struct tt_option_value *v = find_value(o, key);
    const struct tt_algo_option *op = find_option(al, key);
    if (v)
        return v->value;
    assert(op && !tt_streq(op->values, "N"));
    size_t n = strcspn(op->values, "|");
    assert(n < sizeof first);
    memcpy(first, op->values, n);
    first[n] = 0;
    return first;
}

/* dflt applies to values that are absent; the check has refused all others. */
uint64_t tt_algo_option_number(const struct tt_algo *al, const struct tt_options *o,
                               const char *key, uint64_t dflt)
{
    const struct tt_option_value *v = find_value(o, key);
    const struct tt_algo_option *op = find_option(al, key);
    uint64_t number;
    if (!v || !op || tt_parse_u64(v->value, op->min, op->max, &number, NULL))
        return dflt;
    return number;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct tt_option_value *)a)->key,
                  ((const struct tt_option_value *)b)->key);
}

/* Sorted by key: equal options have equal text, whatever the order they were given in. */
void tt_algo_options_format(const struct tt_options *o, char *buf, size_t cap)
{
    struct tt_options sorted = *o;
    size_t used = 0;
    assert(cap > 0);
    qsort(sorted.item, sorted.n, sizeof sorted.item[0], by_key);
    buf[0] = 0;
    for (size_t i = 0; i < sorted.n && used < cap; i++)
        used += (size_t)snprintf(buf + used, cap - used, "%s%s=%s", i ? "," : "",
                                 sorted.item[i].key, sorted.item[i].value);
}
