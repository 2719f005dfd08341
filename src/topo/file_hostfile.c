/* file_hostfile.c - Open MPI's hostfile as a spec of kind tree (file_cluster.c draws one): a line
 * per host, its slots are ranks. A host that is listed again adds slots; they become ranks where
 * the host was first named. */
#include <string.h>

#include "topo/cluster.h"

/* "node0 slots=4 max_slots=8"; names and slots are kept as one line of switches each. */
static tutti_status read_host(struct cluster *c, struct tt_str *text)
{
    struct switch_line s = {.leaf = true, .line = (uint32_t)(c->at - c->data)};
    const char *at = c->at;
    tutti_status st = tt_topo_cluster_word(c, "", text);
    if (!st && text->len >= NAME - 8)
        return tt_topo_cluster_fail(c, at, "a name of at most 55 characters is expected", text->s);
    if (!st)
        snprintf(s.name, sizeof s.name, "%s", text->s);
    tt_topo_cluster_skip(c, false);
    while (!st && c->at < c->end && *c->at != '\n') {
        const char *here = c->at;
        struct tutti_error why;
        uint64_t n = 0;
        st = tt_topo_cluster_word(c, "", text);
        if (!st && !strncmp(text->s, "slots=", 6)) {
            if (tt_parse_u64(text->s + 6, 1, RANKS_MAX, &n, &why))
                return tt_topo_cluster_fail(c, here, "slots=N is expected", text->s);
            s.n = n;
        } else if (!st && strncmp(text->s, "max_slots=", 10) &&
                   strncmp(text->s, "max-slots=", 10)) {
            return tt_topo_cluster_fail(c, here, "slots=N or max_slots=N is expected", text->s);
        }
        tt_topo_cluster_skip(c, false);
    }
    if (!st && !s.n)
        return tt_topo_cluster_fail(
            c, at,
            "a host without slots=N has as many as cores, which the file does not "
            "tell: say how many",
            s.name);
    struct switch_line *same = st ? NULL : tt_topo_cluster_switch(c, s.name);
    if (same) {
        same->n += s.n; /* lines of one host add up */
        return TUTTI_OK;
    }
    if (!st && c->switches.len == SWITCHES_MAX)
        return tt_topo_cluster_fail(c, at, "too many hosts", "");
    return st || tt_vec_push(&c->switches, &s, 1) ? st : tt_fail_memory(c->err, "hosts");
}

static tutti_status put_hosts(struct cluster *c)
{
    tutti_status st = c->switches.len ? TUTTI_OK : tt_topo_cluster_fail(c, c->data, "no hosts", "");
    bool many = c->switches.len > 1;
    for (size_t i = 0; !st && i < c->switches.len; i++) {
        const struct switch_line *s = tt_vec_at(&c->switches, i);
        char text[NAME + 24];
        snprintf(text, sizeof text, "%s%zu%s",
                 !many ? ""
                 : i   ? " "
                       : "(",
                 s->n, many && i + 1 == c->switches.len ? ")" : "");
        tt_str_add(&c->spec, text, strlen(text));
        if (c->ranks.len + s->n > RANKS_MAX)
            return tt_topo_cluster_fail(c, c->data + s->line, "more than 65536 slots", s->name);
        for (size_t k = 0; !st && k < s->n; k++) {
            char rank[NAME + 24] = "";
            snprintf(rank, sizeof rank, "%s:%zu", s->name, k);
            if (!tt_vec_push(&c->ranks, rank, 1))
                st = tt_fail_memory(c->err, "ranks");
        }
    }
    return st;
}

tutti_status tt_topo_import_hostfile(const char *data, size_t len, const char *name,
                                     const char *link, struct tt_topo **ret,
                                     struct tutti_error *err)
{
    struct cluster c;
    struct tt_str text = {0};
    tutti_status st = TUTTI_OK;
    tt_topo_cluster_open(&c, data, len, name, err);
    for (tt_topo_cluster_skip(&c, true); !st && c.at < c.end; tt_topo_cluster_skip(&c, true))
        st = read_host(&c, &text);
    if (!st)
        st = put_hosts(&c);
    if (!st)
        st = tt_topo_cluster_make(&c, link, ret);
    tt_str_free(&text);
    tt_topo_cluster_free(&c);
    return st;
}
