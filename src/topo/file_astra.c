/* file_astra.c - reads ASTRA-sim's network description for its analytical model:
 *
 *     topology: [ Ring, FullyConnected, Switch ]    # the first one varies fastest in the rank
 *     npus_count: [ 2, 8, 4 ]
 *     bandwidth: [ 200.0, 100.0, 50.0 ]             # GB/s of each link, each way
 *     latency: [ 50.0, 500.0, 2000.0 ]              # ns of each link
 *
 * Ranks that differ in one dimension only form a ring, a full mesh or a star (each star with a
 * switch of its own). One dimension alone becomes our ring:N, full:N or star:N. A rank can use its
 * links of all dimensions at once. GB is 10^9 bytes, as written; ASTRA-sim's own analytical model
 * multiplies by 2^30, which makes its links 7.4 % faster than the file says.
 *
 * Only a small part of YAML is understood: "key: [ a, b ]" or "key: a" on a line, and comments. A
 * file of a few bytes can describe a large network, as a spec can, so the links are limited. */
#include "topo/topo_int.h"

#include "topo/file.h"

#include <ctype.h>
#include <string.h>

enum { MAX_LINE = 4000, MAX_LINKS = 1 << 20, MAX_NPUS = 1 << 17 };
enum kind { KIND_RING, KIND_SWITCH, KIND_FULL, KINDS };
static const char *const kind_names[KINDS] = {"Ring", "Switch", "FullyConnected"};
enum key { KEY_TOPOLOGY, KEY_COUNT, KEY_BANDWIDTH, KEY_LATENCY, KEYS };
static const char *const key_names[KEYS] = {"topology", "npus_count", "bandwidth", "latency"};

struct dimension {
    enum kind kind;
    uint32_t n;
    double bw;
    uint64_t latency_ps;
};

struct astra {
    const char *name;
    unsigned long line;
    uint32_t given[KEYS]; /* entries; 0: not seen */
    struct dimension dim[TT_TOPO_MAX_DIMS];
};

static char *file_astra_trim(char *s)
{
    size_t n;
    while (isspace((unsigned char)*s))
        s++;
    for (n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--)
        s[n - 1] = 0;
    return s;
}

/* ---- reading ---- */

/* Names are matched exactly, as ASTRA-sim spells them. */
static tutti_status take_kind(struct astra *x, const char *text, struct dimension *d,
                              struct tutti_error *err)
{
    char near[160];
    for (int k = 0; k < KINDS; k++)
        if (tt_streq(text, kind_names[k])) {
            d->kind = (enum kind)k;
            return TUTTI_OK;
        }
    return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                           "unknown topology \"%.40s\" (known: Ring, Switch, FullyConnected) %s",
                           text, tt_near_matches(text, kind_names, KINDS, near, sizeof near));
}

/* One value of a list, into its dimension; numbers get the unit that the format implies. */
static tutti_status take_entry(struct astra *x, enum key key, const char *text, struct dimension *d,
                               struct tutti_error *err)
{
    char with_unit[80];
    struct tutti_error why;
    tutti_status st;
    uint64_t n = 0;
    if (key == KEY_TOPOLOGY)
        return take_kind(x, text, d, err);
    snprintf(with_unit, sizeof with_unit, "%.60s%s", text,
             key == KEY_BANDWIDTH ? "GB/s"
             : key == KEY_LATENCY ? "ns"
                                  : "");
    if (key == KEY_COUNT)
        st = tt_parse_u64(with_unit, 1, MAX_NPUS, &n, &why);
    else if (key == KEY_BANDWIDTH)
        st = tt_parse_rate(with_unit, &d->bw, &why);
    else
        st = tt_parse_time(with_unit, &d->latency_ps, &why);
    if (key == KEY_COUNT && !st)
        d->n = (uint32_t)n;
    return st ? tt_topo_fail_at(x->name, x->line, err, st, "%s: %.240s", key_names[key], why.text)
              : TUTTI_OK;
}

/* "[ a, b ]" or "a". */
static tutti_status take_list(struct astra *x, enum key key, char *value, struct tutti_error *err)
{
    size_t n = strlen(value);
    char *rest = value;
    if (*value == '[') {
        if (value[n - 1] != ']')
            return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                                   "%s: the list does not end with ] on its line", key_names[key]);
        value[n - 1] = 0;
        rest = value + 1;
    }
    while (rest) {
        char *entry = tt_topo_spec_cut(&rest, ',');
        if (x->given[key] == TT_TOPO_MAX_DIMS)
            return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_LIMIT,
                                   "%s: more than %d dimensions", key_names[key], TT_TOPO_MAX_DIMS);
        tutti_status st = take_entry(x, key, entry, &x->dim[x->given[key]++], err);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* One line, cut in place: comment, blank, document mark or "key: value". */
static tutti_status take_line(struct astra *x, char *line, struct tutti_error *err)
{
    char near[160];
    line[strcspn(line, "#")] = 0;
    line = file_astra_trim(line);
    if (!*line || tt_streq(line, "---"))
        return TUTTI_OK;
    char *colon = strchr(line, ':');
    if (!colon)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                               "\"key: [ values ]\" expected, not \"%.40s\"", line);
    *colon = 0;
    char *key = file_astra_trim(line), *value = file_astra_trim(colon + 1);
    for (int k = 0; k < KEYS; k++) {
        if (!tt_streq(key, key_names[k]))
            continue;
        if (x->given[k])
            return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE, "%s is there twice",
                                   key);
        return take_list(x, (enum key)k, value, err);
    }
    return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE, "unknown key \"%.40s\" %s", key,
                           tt_near_matches(key, key_names, KEYS, near, sizeof near));
}

/* Lines are copied to a buffer of their own: the data is the caller's and has no terminator. */
static tutti_status read_lines(struct astra *x, const char *data, size_t len,
                               struct tutti_error *err)
{
    char line[MAX_LINE];
    for (size_t at = 0; at < len; x->line++) {
        const char *nl = memchr(data + at, '\n', len - at);
        size_t n = nl ? (size_t)(nl - data) - at : len - at;
        if (n >= MAX_LINE || memchr(data + at, 0, n))
            return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                                   "a line is longer than %d characters or holds a byte 0",
                                   MAX_LINE - 1);
        memcpy(line, data + at, n);
        line[n] = 0;
        tutti_status st = take_line(x, line, err);
        if (st)
            return st;
        at += n + 1;
    }
    return TUTTI_OK;
}

/* ---- building ---- */

/* Cables of one line of ranks along this dimension; a ring of two is one cable. */
static uint64_t links_of(const struct dimension *d)
{
    uint64_t n = d->n;
    if (n == 1)
        return 0;
    return d->kind == KIND_FULL ? n * (n - 1) / 2 : d->kind == KIND_RING && n == 2 ? 1 : n;
}

/* Needs all keys with equally many entries, and a network that is not too large. */
static tutti_status file_astra_check(const struct astra *x, uint32_t *ret_ranks,
                                     uint32_t *ret_switches, struct tutti_error *err)
{
    uint64_t ranks = 1, links = 0, switches = 0;
    for (int k = 0; k < KEYS; k++) {
        if (!x->given[k])
            return tt_fail(err, TUTTI_ERR_PARSE, "%.200s: \"%s\" is missing", x->name,
                           key_names[k]);
        if (x->given[k] != x->given[KEY_TOPOLOGY])
            return tt_fail(err, TUTTI_ERR_PARSE, "%.200s: %s has %u entries, topology has %u",
                           x->name, key_names[k], x->given[k], x->given[KEY_TOPOLOGY]);
    }
    for (uint32_t i = 0; i < x->given[KEY_COUNT]; i++) {
        /* Checked after every factor: the product never overflows. */
        ranks *= x->dim[i].n;
        if (ranks > MAX_NPUS)
            return tt_fail(err, TUTTI_ERR_LIMIT,
                           "%.200s: more than %d ranks; such a file may have that many", x->name,
                           MAX_NPUS);
    }
    for (uint32_t i = 0; i < x->given[KEY_COUNT]; i++) {
        uint64_t lines = ranks / x->dim[i].n;
        links += lines * links_of(&x->dim[i]);
        switches += x->dim[i].kind == KIND_SWITCH && x->dim[i].n > 1 ? lines : 0;
    }
    if (links > MAX_LINKS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%.200s: %llu links; such a file may have %d", x->name,
                       (unsigned long long)links, MAX_LINKS);
    *ret_ranks = (uint32_t)ranks;
    *ret_switches = (uint32_t)switches;
    return TUTTI_OK;
}

static tutti_status file_astra_join(struct tt_topo *t, const struct dimension *d, uint32_t a,
                                    uint32_t b, struct tutti_error *err)
{
    struct tt_link l = {.a = a, .b = b, .bw = {d->bw, d->bw}, .latency_ps = d->latency_ps};
    return tt_topo_add_link(t, &l, err);
}

/* Joins the ranks base, base+stride, ... of one line along a dimension; hub: its switch. */
static tutti_status join_line(struct tt_topo *t, const struct dimension *d, uint32_t base,
                              uint32_t stride, uint32_t hub, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    for (uint32_t i = 0; i < d->n && !st && d->n > 1; i++) {
        uint32_t at = base + i * stride;
        if (d->kind == KIND_SWITCH)
            st = file_astra_join(t, d, at, hub, err);
        else if (d->kind == KIND_RING && (i + 1 < d->n || d->n > 2))
            st = file_astra_join(t, d, at, base + (i + 1) % d->n * stride, err);
        for (uint32_t k = i + 1; d->kind == KIND_FULL && k < d->n && !st; k++)
            st = file_astra_join(t, d, at, base + k * stride, err);
    }
    return st;
}

/* A line begins at every rank whose coordinate in this dimension is 0. The ports are set only where
 * there are switches: without them a port per link is the default anyway. */
static tutti_status join_all(const struct astra *x, struct tt_topo *t, struct tutti_error *err)
{
    uint32_t stride = 1, hub = t->ranks, ports = 0;
    for (uint32_t i = 0; i < x->given[KEY_COUNT]; i++) {
        const struct dimension *d = &x->dim[i];
        bool hubs = d->kind == KIND_SWITCH && d->n > 1;
        for (uint32_t r = 0; r < t->ranks; r++) {
            if (r / stride % d->n)
                continue;
            tutti_status st = join_line(t, d, r, stride, hub, err);
            if (st)
                return st;
            hub += hubs;
        }
        ports += d->n == 1 || hubs ? hubs : d->kind == KIND_FULL ? d->n - 1 : d->n == 2 ? 1 : 2;
        stride *= d->n;
    }
    t->ports = t->switches ? ports : 0;
    return TUTTI_OK;
}

/* Several dimensions: a custom network, routed by shortest routes. */
static tutti_status build_product(const struct astra *x, uint32_t ranks, uint32_t switches,
                                  struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = tt_topo_new("custom", ranks, switches, &t, err);
    if (st)
        return st;
    t->spec = tt_strdup(strlen(x->name) <= TT_TOPO_MAX_NAME / 4 ? x->name : "astra-sim");
    st = t->spec ? join_all(x, t, err) : tt_fail_memory(err, "topology");
    if (st) {
        tt_topo_free(t);
        return st;
    }
    return tt_topo_finish(t, ret, err);
}

/* One dimension goes through our own spec, so that it gets the kind and its closed forms. */
static tutti_status file_astra_build(const struct astra *x, struct tt_topo **ret,
                                     struct tutti_error *err)
{
    static const char *const ours[KINDS] = {"ring", "star", "full"};
    const struct dimension *d = &x->dim[0];
    uint32_t ranks = 0, switches = 0;
    char spec[160];
    tutti_status st = file_astra_check(x, &ranks, &switches, err);
    if (st)
        return st;
    snprintf(spec, sizeof spec, "%s:%u@%.3fB/s,%llups", ours[d->kind], d->n, d->bw,
             (unsigned long long)d->latency_ps);
    st = x->given[KEY_COUNT] == 1 ? tt_topo_parse(spec, ret, err)
                                  : build_product(x, ranks, switches, ret, err);
    if (st)
        tt_fail_prefix(err, "%.200s", x->name);
    return st;
}

tutti_status tt_topo_file_astra(const char *data, size_t len, const char *name,
                                struct tt_topo **ret, struct tutti_error *err)
{
    struct astra x = {.name = name, .line = 1};
    tutti_status st = read_lines(&x, data, len, err);
    return st ? st : file_astra_build(&x, ret, err);
}
