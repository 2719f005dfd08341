/* spec.c - the one-line description of a network: kind:parameters[@link].
 *
 *     star:8@1Gbps,50us          dln:1024,t=3,ports=2@16GB/s,150ns,0.1ns,half
 *     tree:((4 4:2.5G)(4 2))@100Gbps/25Gbps/10Gbps
 *
 * Both parts are lists separated by commas. An entry with '=' is a key=value parameter, the word
 * `half` makes all links half duplex; the other entries are, in order, the kind's own parameters,
 * and bandwidth, latency, gamma in the link part. A link part may begin with the latency
 * (`star:8@5us`: default bandwidth). Only a tree takes several bandwidths (a '/' that begins "/s"
 * belongs to the unit). No number in the text leads to an allocation before it was checked against
 * the limits.
 *
 * The text is copied once and cut in place: every entry is a pointer into that copy. */
#include "topo/topo_int.h"

#include "topo/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Removes blanks at both ends, in place. */
static char *spec_trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        s[--n] = 0;
    return s;
}

char *tt_topo_spec_cut(char **rest, char sep)
{
    char *piece = *rest, *end = strchr(piece, sep);
    if (end)
        *end = 0;
    *rest = end ? end + 1 : NULL;
    return spec_trim(piece);
}

const char *tt_topo_spec_arg(const struct tt_spec *s, size_t i)
{
    return *(const char **)tt_vec_at(&s->args, i);
}

/* The message shows the form of the kind and an example. */
tutti_status tt_topo_spec_want(const struct tt_spec *s, size_t n, struct tutti_error *err)
{
    const struct tt_topo_kind *k = &tt_topo_kinds(NULL)[tt_topo_kind_find(s->kind)];
    if (s->args.len == n)
        return TUTTI_OK;
    return tt_fail(err, TUTTI_ERR_PARSE,
                   "%s: %zu parameter%s given, %zu expected: %s, for example %s", s->kind,
                   s->args.len, s->args.len == 1 ? "" : "s", n, k->form, k->example);
}

tutti_status tt_topo_spec_count(const struct tt_spec *s, const char *what, const char *text,
                                const uint64_t range[2], uint32_t *ret, struct tutti_error *err)
{
    uint64_t v;
    struct tutti_error why;
    if (tt_parse_u64(text, range[0], range[1], &v, &why))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "%s: %s is \"%.40s\"; allowed are whole numbers from %llu to %llu", s->kind,
                       what, text, (unsigned long long)range[0], (unsigned long long)range[1]);
    *ret = (uint32_t)v;
    return TUTTI_OK;
}

/* Called with products before they are allocated; links 0: not known yet. */
tutti_status tt_topo_spec_limit(const struct tt_spec *s, uint64_t ranks, uint64_t links,
                                struct tutti_error *err)
{
    if (ranks > TT_TOPO_MAX_RANKS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%s: %llu ranks; at most %d are accepted", s->kind,
                       (unsigned long long)ranks, TT_TOPO_MAX_RANKS);
    if (links > TT_TOPO_MAX_LINKS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%s: %llu links; at most %d are accepted", s->kind,
                       (unsigned long long)links, TT_TOPO_MAX_LINKS);
    return TUTTI_OK;
}

/* The product stays below 2^40: each factor is at most 2^20, and the product is checked after each
 * of them. */
tutti_status tt_topo_spec_dims(const struct tt_spec *s, const char *text, uint32_t *dims,
                               uint32_t *ret_ndims, struct tutti_error *err)
{
    static const uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    uint32_t n = 0;
    uint64_t product = 1;
    tutti_status st = TUTTI_OK;
    char *copy = tt_strdup(text), *rest = copy;
    if (!copy)
        return tt_fail_memory(err, "spec");
    while (rest && !st) {
        char what[32];
        snprintf(what, sizeof what, "size of dimension %u", n + 1);
        char *piece = tt_topo_spec_cut(&rest, 'x');
        if (n == TT_TOPO_MAX_DIMS)
            st = tt_fail(err, TUTTI_ERR_LIMIT, "%s: more than %d dimensions", s->kind,
                         TT_TOPO_MAX_DIMS);
        else
            st = tt_topo_spec_count(s, what, piece, range, &dims[n], err);
        if (!st)
            st = tt_topo_spec_limit(s, product *= dims[n++], 0, err);
    }
    free(copy);
    if (!st)
        *ret_ndims = n;
    return st;
}

/* These two put the name of the value before the reason. */
static tutti_status parse_rate(const char *what, const char *text, double *ret,
                               struct tutti_error *err)
{
    tutti_status st = tt_parse_rate(text, ret, err);
    if (st)
        tt_fail_prefix(err, "%s", what);
    return st;
}

static tutti_status parse_time(const char *what, const char *text, uint64_t *ret,
                               struct tutti_error *err)
{
    tutti_status st = tt_parse_time(text, ret, err);
    if (st)
        tt_fail_prefix(err, "%s", what);
    return st;
}

/* ---- key=value ---- */

/* Is `key` one of the words that the kind's table entry lists? */
static bool takes_key(const struct tt_spec *s, const char *key)
{
    const char *keys = tt_topo_kind_maker(tt_topo_kind_find(s->kind))->keys,
               *at = strstr(keys, key);
    size_t n = strlen(key);
    return n > 0 && at && (at == keys || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ');
}

static tutti_status fail_key(const struct tt_spec *s, const char *key, struct tutti_error *err)
{
    const char *keys = tt_topo_kind_maker(tt_topo_kind_find(s->kind))->keys;
    return tt_fail(err, TUTTI_ERR_PARSE,
                   "%s: unknown parameter \"%.40s\"; it takes %s%sports, overhead", s->kind, key,
                   keys, *keys ? ", " : "");
}

static tutti_status parse_ports(struct tt_spec *s, const char *value, struct tutti_error *err)
{
    static const uint64_t range[2] = {1, TT_TOPO_MAX_PORTS};
    return tt_topo_spec_count(s, "ports", value, range, &s->ports, err);
}

/* ports and overhead are for every kind, the others only for kinds that list them. A value is kept
 * as text: its generator knows the range. */
static tutti_status parse_key(struct tt_spec *s, char *piece, struct tutti_error *err)
{
    char *value = piece, *key = tt_topo_spec_cut(&value, '=');
    value = spec_trim(value);
    if (tt_streq(key, "ports"))
        return parse_ports(s, value, err);
    if (tt_streq(key, "overhead"))
        return parse_time("overhead", value, &s->overhead_ps, err);
    if (!takes_key(s, key))
        return fail_key(s, key, err);
    const char **slot = tt_streq(key, "t") ? &s->t : tt_streq(key, "h") ? &s->h : &s->over;
    if (*slot)
        return tt_fail(err, TUTTI_ERR_PARSE, "%s: parameter \"%s\" is given twice", s->kind, key);
    *slot = value;
    return TUTTI_OK;
}

/* ---- the two lists ---- */

/* Handles what both lists share; *ret_plain: the entry is none of that and is the caller's. */
static tutti_status parse_piece(struct tt_spec *s, char *piece, bool *ret_plain,
                                struct tutti_error *err)
{
    *ret_plain = false;
    if (!*piece)
        return tt_fail(err, TUTTI_ERR_PARSE, "%s: empty parameter (two commas, or one at an end)",
                       s->kind);
    if (strchr(piece, '='))
        return parse_key(s, piece, err);
    *ret_plain = !tt_streq(piece, "half");
    if (*ret_plain)
        return TUTTI_OK;
    if (s->link.half)
        return tt_fail(err, TUTTI_ERR_PARSE, "%s: \"half\" is given twice", s->kind);
    s->link.half = true;
    return TUTTI_OK;
}

/* Plain entries become the positional parameters, in order. */
static tutti_status parse_params(struct tt_spec *s, char *rest, struct tutti_error *err)
{
    while (rest) {
        bool plain;
        char *piece = tt_topo_spec_cut(&rest, ',');
        tutti_status st = parse_piece(s, piece, &plain, err);
        if (st)
            return st;
        if (plain && !tt_vec_push(&s->args, &piece, 1))
            return tt_fail_memory(err, "spec");
    }
    return TUTTI_OK;
}

/* Cuts at the end of a rate in "16GB/s/4GB/s": the first '/' that is not followed by 's'. */
static char *cut_rate(char **rest)
{
    char *piece = *rest, *p = piece;
    while (*p && !(p[0] == '/' && p[1] != 's'))
        p++;
    *rest = *p ? p + 1 : NULL;
    *p = 0;
    return spec_trim(piece);
}

/* One bandwidth per level of a tree, from the ranks upwards. */
static tutti_status parse_rates(struct tt_spec *s, char *rest, struct tutti_error *err)
{
    s->nbw = 0;
    while (rest) {
        if (s->nbw == TT_SPEC_LEVELS)
            return tt_fail(err, TUTTI_ERR_LIMIT, "%s: more than %d bandwidths", s->kind,
                           TT_SPEC_LEVELS);
        tutti_status st = parse_rate("bandwidth", cut_rate(&rest), &s->bw[s->nbw], err);
        if (st)
            return st;
        s->nbw++;
    }
    if (s->nbw > 1 && !tt_streq(s->kind, "tree"))
        return tt_fail(err, TUTTI_ERR_PARSE, "%s: %u bandwidths given; only tree takes several",
                       s->kind, s->nbw);
    return TUTTI_OK;
}

/* Field 0 is the bandwidth, 1 the latency, 2 gamma. */
static tutti_status parse_field(struct tt_spec *s, int field, char *piece, struct tutti_error *err)
{
    if (field == 0)
        return parse_rates(s, piece, err);
    if (field == 1)
        return parse_time("latency", piece, &s->link.latency_ps, err);
    if (field > 2)
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "%s: \"%.40s\" is too much: a link is bandwidth,latency,gamma", s->kind,
                       piece);
    uint64_t ps;
    tutti_status st = parse_time("gamma (reduction time per byte)", piece, &ps, err);
    if (!st)
        s->gamma = (double)ps / 1e12;
    return st;
}

/* `field` counts the plain entries; keys and `half` may be anywhere between them. */
static tutti_status parse_link(struct tt_spec *s, char *rest, struct tutti_error *err)
{
    int field = 0;
    while (rest) {
        bool plain;
        uint64_t ps;
        char *piece = tt_topo_spec_cut(&rest, ',');
        tutti_status st = parse_piece(s, piece, &plain, err);
        if (!st && plain) {
            double rate;
            /* A first entry that is a time, no rate: the default bandwidth stays. */
            if (field == 0 && tt_parse_rate(piece, &rate, NULL) && !tt_parse_time(piece, &ps, NULL))
                field = 1;
            st = parse_field(s, field++, piece, err);
        }
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* Cuts s->text into kind, parameters and link part and reads both lists. s->args is freed by the
 * caller, also on failure. */
static tutti_status spec_parse(struct tt_spec *s, struct tutti_error *err)
{
    char buf[200], *rest = s->text, *link;
    s->args.elem = sizeof(const char *);
    /* The defaults: 10 Gbit/s and 1 us. */
    s->link.latency_ps = 1000000;
    s->bw[0] = 1.25e9;
    s->nbw = 1;
    s->kind = tt_topo_spec_cut(&rest, ':');
    int kind = tt_topo_kind_find(s->kind);
    if (kind < 0)
        return tt_fail(err, TUTTI_ERR_PARSE, "unknown network kind \"%.40s\"%s%s", s->kind,
                       *tt_topo_kind_near(s->kind, buf, sizeof buf) ? "; " : "", buf);
    link = rest ? strchr(rest, '@') : NULL;
    if (link)
        *link++ = 0;
    if (!rest || !*spec_trim(rest))
        return tt_fail(err, TUTTI_ERR_PARSE, "%s needs parameters: %s, for example %s", s->kind,
                       tt_topo_kinds(NULL)[kind].form, tt_topo_kinds(NULL)[kind].example);
    tutti_status st = parse_params(s, rest, err);
    if (!st && link)
        st = parse_link(s, link, err);
    s->link.bw[0] = s->link.bw[1] = s->bw[0];
    return st;
}

/* Runs the kind's generator and finishes what it made. The spec keeps the text as it was given. */
static tutti_status spec_make(const struct tt_spec *s, const char *text, struct tt_topo **ret,
                              struct tutti_error *err)
{
    struct tt_topo *t;
    tutti_status st = tt_topo_kind_maker(tt_topo_kind_find(s->kind))->make(s, &t, err);
    if (st)
        return st;
    t->ports = s->ports;
    t->gamma = s->gamma;
    t->overhead_ps = s->overhead_ps;
    t->spec = tt_strdup(text);
    if (!t->spec) {
        tt_topo_free(t);
        return tt_fail_memory(err, "spec");
    }
    spec_trim(t->spec);
    st = tt_topo_finish(t, ret, err);
    if (st)
        tt_fail_prefix(err, "%s", s->kind);
    return st;
}

tutti_status tt_topo_parse(const char *spec, struct tt_topo **ret, struct tutti_error *err)
{
    if (strnlen(spec, TT_SPEC_MAX_TEXT + 1) > TT_SPEC_MAX_TEXT)
        return tt_fail(err, TUTTI_ERR_LIMIT, "the network description is longer than %d characters",
                       TT_SPEC_MAX_TEXT);
    while (isspace((unsigned char)*spec))
        spec++;
    struct tt_spec s = {.text = tt_strdup(spec)};
    if (!s.text)
        return tt_fail_memory(err, "spec");
    tutti_status st = spec_parse(&s, err);
    if (!st)
        st = spec_make(&s, spec, ret, err);
    tt_vec_free(&s.args);
    free(s.text);
    return st;
}

/* ---- spec or file ---- */

/* Is the text before the first ':' (and before any '/') a kind? */
static bool names_kind(const char *text)
{
    size_t n = strcspn(text, ":/");
    char kind[32];
    if (text[n] != ':' || n >= sizeof kind)
        return false;
    memcpy(kind, text, n);
    kind[n] = 0;
    return tt_topo_kind_find(spec_trim(kind)) >= 0;
}

/* Explains why a text is neither a spec nor a readable file; suggests the nearest kind. */
static tutti_status fail_neither(const char *text, int why, struct tutti_error *err)
{
    char kind[40], buf[200];
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(text, ":/"), text);
    int k = tt_topo_kind_find(kind);
    if (k >= 0)
        return tt_fail(err, TUTTI_ERR_PARSE, "\"%.60s\" needs parameters: %s, for example %s", text,
                       tt_topo_kinds(NULL)[k].form, tt_topo_kinds(NULL)[k].example);
    tt_topo_kind_near(kind, buf, sizeof buf);
    return tt_fail(err, TUTTI_ERR_PARSE,
                   "\"%.120s\" is neither a network kind:parameters (no kind \"%s\"%s%s) nor a "
                   "file that can be read: %s",
                   text, kind, *buf ? "; " : "", buf, strerror(why));
}

/* A known kind before ':' is a spec even if a file of that name exists. */
tutti_status tt_topo_open(const char *spec, struct tt_topo **ret, struct tutti_error *err)
{
    if (tt_streq(spec, "-"))
        return tt_topo_read(stdin, "standard input", ret, err);
    if (names_kind(spec))
        return tt_topo_parse(spec, ret, err);
    FILE *in = fopen(spec, "rb");
    int why = errno;
    tutti_status st;
    if (!in && tt_topo_file_hosts(spec, ret, &st, err))
        return st;
    if (!in)
        return fail_neither(spec, why, err);
    st = tt_topo_read(in, spec, ret, err);
    fclose(in);
    return st;
}
