/* names.c - public tables, names and numbers with units: what the tool prints and parses.
 * Everything comes from the lists of the modules, so that nothing is listed twice. */
#include "api/api.h"

#include <string.h>

#include "algo/algo.h"
#include "base/variables.h"

enum { MAX_OPTIONS = 16 };

/* The options of the answer are in thread-local memory: valid until the next call in this
 * thread. Every algorithm also takes "segments". */
bool tutti_algo_get(size_t i, struct tutti_algo_info *ret)
{
    static const struct tutti_algo_option_info segments = {
        "segments", "K", "cut every chunk in K parts and pipeline them"};
    static _Thread_local struct tutti_algo_option_info options[MAX_OPTIONS];
    size_t n;
    api_must("ret", ret);
    const struct tt_algo *const *table = tt_algo_table(&n);
    if (i >= n)
        return false;
    const struct tt_algo *al = table[i];
    size_t nopt = 0;
    for (const struct tt_algo_option *o = al->options; o && o->key && nopt + 1 < MAX_OPTIONS; o++)
        options[nopt++] = (struct tutti_algo_option_info){o->key, o->values, o->desc};
    options[nopt++] = segments;
    *ret = (struct tutti_algo_info){.name = al->name,
                                    .desc = al->desc,
                                    .needs = al->needs,
                                    .colls = al->colls,
                                    .pipelined = al->pipelined,
                                    .rank_order = al->rank_order,
                                    .options = options,
                                    .noptions = nopt};
    return true;
}

const char *tutti_coll_name(tutti_coll c)
{
    return tt_sched_coll_name(c);
}

const char *tutti_dtype_name(tutti_dtype d)
{
    return tt_sched_dtype_name(d);
}

const char *tutti_redop_name(tutti_redop r)
{
    return tt_sched_redop_name(r);
}

uint32_t tutti_dtype_bytes(tutti_dtype d)
{
    return tt_sched_dtype_bytes(d);
}

/* Is text an abbreviation: some letters of the name, in order, as in "bcast"? */
static bool abbreviates(const char *text, const char *name)
{
    if (*text != *name || strlen(text) < 3)
        return false;
    for (; *text && *name; name++)
        text += *text == *name;
    return !*text;
}

/* Fails with a list of all names (they are few) and the near ones; returns -1. */
static int names_unknown(const char *what, const char *name, const char *const *names, size_t n,
                         struct tutti_error *err)
{
    struct tt_str all = {0};
    char near[160];
    for (size_t i = 0; i < n; i++)
        tt_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    tt_near_matches(name, names, n, near, sizeof near);
    for (size_t i = 0; i < n && !*near; i++)
        if (abbreviates(name, names[i]))
            snprintf(near, sizeof near, "did you mean %s?", names[i]);
    tt_fail(err, TUTTI_ERR_ARG, "no %s '%.64s'%s%s (known: %s)", what, name, *near ? "; " : "",
            near, all.s ? all.s : "");
    tt_str_free(&all);
    return -1;
}

#define SECOND(id, name)             name,
#define SECOND_OF_3(id, name, bytes) name,
static const char *const coll_names[] = {TUTTI_COLL_LIST(SECOND)};
static const char *const dtype_names[] = {TUTTI_DTYPE_LIST(SECOND_OF_3)};
static const char *const redop_names[] = {TUTTI_REDOP_LIST(SECOND)};

/* The three finders differ only in their tables. */
int tutti_coll_find(const char *name, struct tutti_error *err)
{
    if (api_given(err, "name", name))
        return -1;
    int i = tt_sched_coll_find(name);
    return i >= 0 ? i : names_unknown("collective", name, coll_names, countof(coll_names), err);
}

int tutti_dtype_find(const char *name, struct tutti_error *err)
{
    if (api_given(err, "name", name))
        return -1;
    int i = tt_sched_dtype_find(name);
    return i >= 0 ? i : names_unknown("data type", name, dtype_names, countof(dtype_names), err);
}

int tutti_redop_find(const char *name, struct tutti_error *err)
{
    if (api_given(err, "name", name))
        return -1;
    int i = tt_sched_redop_find(name);
    return i >= 0 ? i : names_unknown("reduction", name, redop_names, countof(redop_names), err);
}

tutti_status tutti_parse_size(const char *text, uint64_t *ret_bytes, struct tutti_error *err)
{
    tutti_status st = api_given(err, "text", text, "ret_bytes", ret_bytes);
    return st ? st : tt_parse_size(text, ret_bytes, err);
}

tutti_status tutti_parse_rate(const char *text, double *ret_bytes_per_s, struct tutti_error *err)
{
    tutti_status st = api_given(err, "text", text, "ret_bytes_per_s", ret_bytes_per_s);
    return st ? st : tt_parse_rate(text, ret_bytes_per_s, err);
}

tutti_status tutti_parse_time(const char *text, uint64_t *ret_ps, struct tutti_error *err)
{
    tutti_status st = api_given(err, "text", text, "ret_ps", ret_ps);
    return st ? st : tt_parse_time(text, ret_ps, err);
}

tutti_status tutti_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                             struct tutti_error *err)
{
    tutti_status st = api_given(err, "text", text, "ret", ret);
    return st ? st : tt_parse_u64(text, min, max, ret, err);
}

char *tutti_format_size(uint64_t bytes, char *buf, size_t cap)
{
    api_must("buf", buf);
    return tt_format_size(bytes, buf, cap);
}

char *tutti_format_rate(double bytes_per_s, char *buf, size_t cap)
{
    api_must("buf", buf);
    return tt_format_rate(bytes_per_s, buf, cap);
}

/* Rounded to picoseconds, in which base/ formats. */
char *tutti_format_us(double us, char *buf, size_t cap)
{
    api_must("buf", buf);
    return tt_format_time((uint64_t)(us * 1e6 + 0.5), buf, cap);
}

char *tutti_near_matches(const char *name, const char *const *names, size_t n, char *buf,
                         size_t cap)
{
    api_must("name", name, "buf", buf);
    if (n && !names)
        tt_api_stop(__func__, "names is NULL");
    return tt_near_matches(name, names, n, buf, cap);
}

/* The table of base/variables.c; all texts are static. */
bool tutti_variable_get(size_t i, struct tutti_variable *ret)
{
    size_t n;
    api_must("ret", ret);
    const struct tt_variable *all = tt_variables(&n);
    if (i < n)
        *ret = (struct tutti_variable){all[i].name, all[i].dflt, all[i].meaning};
    return i < n;
}

bool tutti_variable_unknown(size_t i, struct tutti_unknown_variable *ret)
{
    struct tt_unknown_variable u;
    api_must("ret", ret);
    if (!tt_variable_unknown(i, &u))
        return false;
    memcpy(ret->name, u.name, sizeof ret->name);
    memcpy(ret->near, u.near, sizeof ret->near);
    return true;
}
