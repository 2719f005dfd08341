/* file_slurm.c - Slurm's topology.conf as a spec of kind tree (file_cluster.c draws one). A switch
 * lists its nodes or its switches; exactly one has none above it, and no switch is its own
 * descendant. Nodes become ranks in the order in which the tree is walked. */
#include <string.h>

#include "topo/cluster.h"

static tutti_status read_pair(struct cluster *c, struct switch_line *s, struct tt_str *text)
{
    const char *at = c->at;
    tutti_status st = tt_topo_cluster_word(c, "=", text);
    if (st)
        return st;
    if (c->at >= c->end || *c->at != '=')
        return tt_topo_cluster_fail(c, at, "key=value is expected", text->s);
    c->at++;
    bool nodes = !strcasecmp(text->s, "Nodes"), below = !strcasecmp(text->s, "Switches");
    if (nodes || below) {
        if (s->n)
            return tt_topo_cluster_fail(c, at, "a switch has either Nodes or Switches", s->name);
        s->leaf = nodes;
        s->first = c->names.len;
        st = tt_topo_cluster_list(c, text);
        s->n = c->names.len - s->first;
        return st;
    }
    bool name = !strcasecmp(text->s, "SwitchName");
    if (!name && strcasecmp(text->s, "LinkSpeed") && strcasecmp(text->s, "Comment"))
        return tt_topo_cluster_fail(c, at, "SwitchName, Nodes, Switches or LinkSpeed is expected",
                                    text->s);
    st = tt_topo_cluster_word(c, "", text);
    if (!st && name && text->len >= NAME)
        return tt_topo_cluster_fail(c, at, "a name of at most 63 characters is expected", text->s);
    if (!st && name)
        snprintf(s->name, sizeof s->name, "%s", text->s);
    return st;
}

/* One line. */
static tutti_status read_switch(struct cluster *c, struct tt_str *text)
{
    struct switch_line s = {0};
    const char *at = c->at;
    tutti_status st = TUTTI_OK;
    while (!st && c->at < c->end && *c->at != '\n') {
        st = read_pair(c, &s, text);
        tt_topo_cluster_skip(c, false);
    }
    if (st)
        return st;
    if (!*s.name || !s.n)
        return tt_topo_cluster_fail(c, at, "a switch needs SwitchName and Nodes or Switches",
                                    s.name);
    s.line = (uint32_t)(at - c->data);
    if (c->switches.len == SWITCHES_MAX)
        return tt_topo_cluster_fail(c, at, "too many switches", "");
    for (size_t i = 0; i < c->switches.len; i++)
        if (tt_streq(((struct switch_line *)tt_vec_at(&c->switches, i))->name, s.name))
            return tt_topo_cluster_fail(c, at, "a second switch of this name", s.name);
    return tt_vec_push(&c->switches, &s, 1) ? TUTTI_OK : tt_fail_memory(c->err, "switches");
}

/* The spec of the switch and all below it; ranks get their names on the way. A switch that is below
 * itself has a parent twice, so that the recursion ends. */
static tutti_status put_switch(struct cluster *c, const struct switch_line *s, int depth)
{
    const char *at = c->data + s->line;
    if (depth > DEPTH_MAX)
        return tt_topo_cluster_fail(c, at, "more than 16 levels of switches", s->name);
    if (s->leaf) {
        char n[24];
        snprintf(n, sizeof n, "%zu", s->n);
        tt_str_add(&c->spec, n, strlen(n));
        if (c->ranks.len + s->n > RANKS_MAX)
            return tt_topo_cluster_fail(c, at, "more than 65536 nodes", "");
        return tt_vec_push(&c->ranks, tt_topo_cluster_name(c, s->first), s->n)
                   ? TUTTI_OK
                   : tt_fail_memory(c->err, "ranks");
    }
    tt_str_add(&c->spec, "(", 1);
    for (size_t i = 0; i < s->n; i++) {
        struct switch_line *below =
            tt_topo_cluster_switch(c, tt_topo_cluster_name(c, s->first + i));
        if (!below)
            return tt_topo_cluster_fail(c, at, "no such switch",
                                        tt_topo_cluster_name(c, s->first + i));
        if (below->has_parent)
            return tt_topo_cluster_fail(c, at, "the switch is below two others: this is no tree",
                                        below->name);
        below->has_parent = true;
        if (i)
            tt_str_add(&c->spec, " ", 1);
        tutti_status st = put_switch(c, below, depth + 1);
        if (st)
            return st;
    }
    tt_str_add(&c->spec, ")", 1);
    return c->spec.failed ? tt_fail_memory(c->err, "spec") : TUTTI_OK;
}

/* The switch that is below no other one; all others must be below it. */
static tutti_status find_root(const struct cluster *c, struct switch_line **ret)
{
    *ret = NULL;
    for (size_t i = 0; i < c->switches.len; i++) {
        struct switch_line *s = tt_vec_at(&c->switches, i);
        bool below = false;
        for (size_t k = 0; k < c->switches.len && !below; k++) {
            const struct switch_line *other = tt_vec_at(&c->switches, k);
            for (size_t n = 0; !other->leaf && n < other->n && !below; n++)
                below = tt_streq(tt_topo_cluster_name(c, other->first + n), s->name);
        }
        if (below)
            continue;
        if (*ret)
            return tt_topo_cluster_fail(
                c, c->data + s->line, "two switches have no switch above them: nothing joins them",
                s->name);
        *ret = s;
    }
    return *ret ? TUTTI_OK : tt_topo_cluster_fail(c, c->data, "no switch is above all others", "");
}

tutti_status tt_topo_import_slurm(const char *data, size_t len, const char *name, const char *link,
                                  struct tt_topo **ret, struct tutti_error *err)
{
    struct cluster c;
    struct tt_str text = {0};
    struct switch_line *root = NULL;
    tutti_status st = TUTTI_OK;
    tt_topo_cluster_open(&c, data, len, name, err);
    for (tt_topo_cluster_skip(&c, true); !st && c.at < c.end; tt_topo_cluster_skip(&c, true))
        st = read_switch(&c, &text);
    if (!st)
        st = find_root(&c, &root);
    if (!st)
        st = put_switch(&c, root, 0);
    for (size_t i = 0; !st && i < c.switches.len; i++) {
        const struct switch_line *s = tt_vec_at(&c.switches, i);
        if (s != root && !s->has_parent)
            st = tt_topo_cluster_fail(&c, data + s->line, "the switch is not below the topmost one",
                                      s->name);
    }
    if (!st)
        st = tt_topo_cluster_make(&c, link, ret);
    tt_str_free(&text);
    tt_topo_cluster_free(&c);
    return st;
}
