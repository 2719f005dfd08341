/* find.c - finds links by the names that our output prints: "rank 3-switch 0" (both directions),
 * "rank 3 -> switch 0" (one), or the number of a cable (both). Parallel cables are all included.
 *
 * A given name may itself contain "-", so every "-" is tried as the one between the two ends; the
 * text must have exactly one reading. An end is a given name, "rank N", "switch N", or the number
 * of a vertex (switches come after the ranks).
 *
 *     "web-1-hub"    web | 1-hub: no such vertices      web-1 | hub: the reading */
#include "topo/topo_int.h"

#include <stdlib.h>
#include <string.h>

enum { END_CHARS = 200, QUOTE = 80 };

struct reading {
    uint32_t from, to;
    bool one_way;
};

/* The trimmed copy of n characters; false when it does not fit. */
static bool take_end(const char *text, size_t n, char *buf)
{
    while (n && *text == ' ') {
        text++;
        n--;
    }
    while (n && text[n - 1] == ' ')
        n--;
    if (!n || n >= END_CHARS)
        return false;
    memcpy(buf, text, n);
    buf[n] = 0;
    return true;
}

/* "<prefix>N" for N < limit. */
static bool numbered(const char *text, const char *prefix, uint64_t limit, uint64_t *ret)
{
    size_t n = strlen(prefix);
    return limit && !strncmp(text, prefix, n) && !tt_parse_u64(text + n, 0, limit - 1, ret, NULL);
}

bool tt_topo_plain_vertex(const struct tt_topo *t, const char *text, uint32_t *ret)
{
    uint64_t n = 0, vertices = (uint64_t)t->ranks + t->switches;
    if (numbered(text, "switch ", t->switches, &n)) {
        *ret = t->ranks + (uint32_t)n;
        return true;
    }
    if (!numbered(text, "rank ", t->ranks, &n) && !numbered(text, "", vertices, &n))
        return false;
    *ret = (uint32_t)n;
    return true;
}

/* Given names come first: a vertex may be named like a number. */
static bool find_vertex(const struct tt_topo *t, const char *text, uint32_t *ret)
{
    for (uint32_t v = 0; t->names && v < t->ranks + t->switches; v++)
        if (t->names[v] && tt_streq(t->names[v], text)) {
            *ret = v;
            return true;
        }
    return tt_topo_plain_vertex(t, text, ret);
}

/* Switches have names and numbers too, but are no ranks. */
tutti_status tt_topo_find_rank(const struct tt_topo *t, const char *text, uint32_t *ret,
                               struct tutti_error *err)
{
    uint32_t v;
    if (!find_vertex(t, text, &v) || v >= t->ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "there is no rank \"%.*s\"; %s has %u, counted from 0",
                       QUOTE, text, t->spec, t->ranks);
    *ret = v;
    return TUTTI_OK;
}

/* Names the end that is not a vertex, in the reading at the first "-". */
static tutti_status fail_ends(const struct tt_topo *t, const char *text, struct tutti_error *err)
{
    char end[END_CHARS];
    uint32_t v;
    const char *dash = strchr(text, '-');
    if (!dash)
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "\"%.*s\" is no link: two ends as in \"rank 0-%s\", or a cable's number 0 "
                       "to %u, are expected",
                       QUOTE, text, t->switches ? "switch 0" : "rank 1",
                       t->nlinks ? t->nlinks - 1 : 0);
    bool first_ok = take_end(text, (size_t)(dash - text), end) && find_vertex(t, end, &v);
    const char *bad = first_ok ? dash + 1 + (dash[1] == '>') : text;
    size_t n = first_ok ? strlen(bad) : (size_t)(dash - text);
    bad += strspn(bad, " ");
    return tt_fail(
        err, TUTTI_ERR_RANGE,
        "link \"%.*s\": there is no \"%.*s\"; %s has %u rank%s and %u switch%s, counted from 0",
        QUOTE, text, (int)(n < QUOTE ? n : QUOTE), bad, t->spec, t->ranks, t->ranks == 1 ? "" : "s",
        t->switches, t->switches == 1 ? "" : "es");
}

/* Tries every "-"; fails unless exactly one gives two vertices. */
static tutti_status read_ends(const struct tt_topo *t, const char *text, struct reading *ret,
                              struct tutti_error *err)
{
    char from[END_CHARS], to[END_CHARS];
    unsigned found = 0;
    for (const char *dash = strchr(text, '-'); dash; dash = strchr(dash + 1, '-')) {
        struct reading r = {.one_way = dash[1] == '>'};
        const char *second = dash + 1 + r.one_way;
        if (!take_end(text, (size_t)(dash - text), from) || !take_end(second, strlen(second), to))
            continue;
        if (!find_vertex(t, from, &r.from) || !find_vertex(t, to, &r.to))
            continue;
        *ret = r;
        found++;
    }
    if (found > 1)
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "link \"%.*s\" can be read in %u ways: use the numbers of the vertices",
                       QUOTE, text, found);
    return found ? TUTTI_OK : fail_ends(t, text, err);
}

/* Appends cable i in the direction from its first end (back: from its second). A half-duplex cable
 * has one shared bandwidth, so it is appended once. */
static bool push_cable(const struct tt_topo *t, uint32_t i, bool back, bool one_way,
                       struct tt_vec *links)
{
    bool half = t->links[i].half;
    const uint32_t first = 2 * i + (back && !half), ids[2] = {first, first ^ 1};
    return tt_vec_push(links, ids, half || one_way ? 1 : 2) != NULL;
}

/* All cables between the two ends, in the order of their numbers. */
static tutti_status find_collect(const struct tt_topo *t, const struct reading *r,
                                 struct tt_vec *ret, struct tutti_error *err)
{
    char a[80], b[80];
    for (uint32_t i = 0; i < t->nlinks; i++) {
        bool there = t->links[i].a == r->from && t->links[i].b == r->to,
             back = t->links[i].b == r->from && t->links[i].a == r->to;
        if (!there && !back)
            continue;
        if (!push_cable(t, i, back, r->one_way, ret))
            return tt_fail_memory(err, "links");
    }
    if (ret->len)
        return TUTTI_OK;
    return tt_fail(err, TUTTI_ERR_RANGE, "%s: no link joins %s with %s", t->spec,
                   tt_topo_vertex_name(t, r->from, a, sizeof a),
                   tt_topo_vertex_name(t, r->to, b, sizeof b));
}

/* A plain number is a cable. *ret is set only on success; the caller frees it. */
tutti_status tt_topo_find_links(const struct tt_topo *t, const char *text, struct tt_vec *ret,
                                struct tutti_error *err)
{
    struct reading r = {0};
    struct tt_vec links = {.elem = sizeof(uint32_t)};
    uint64_t cable;
    tutti_status st = TUTTI_OK;
    if (t->nlinks && !tt_parse_u64(text, 0, t->nlinks - 1, &cable, NULL)) {
        if (!push_cable(t, (uint32_t)cable, false, false, &links))
            st = tt_fail_memory(err, "links");
    } else {
        st = read_ends(t, text, &r, err);
        if (!st)
            st = find_collect(t, &r, &links, err);
    }
    if (!st)
        *ret = links;
    else
        tt_vec_free(&links);
    return st;
}
