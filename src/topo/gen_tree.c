/* gen_tree.c - hierarchies: `tree:` with uneven groups.
 *
 *     ((2 1)(2))    root         A number n is a switch with n ranks, parentheses are a switch with
 *                  /    \        the groups in them. Ranks are numbered from left to right. Every
 *              (2 1)    (2)      node but the root has one uplink; its bandwidth is the k-th of the
 *              /  \      |       link part, k = height of the node (rank 0, number 1, parentheses
 *             2    1     2       1 + the highest inside), the last one repeated; `4:2.5G` or
 *                                `(4 4):2.5G` sets the uplink of that group alone.
 *                    0 1   2    3 4
 *
 * `6x25G` is six ranks on the switch of the parentheses around it, each with a link of 25 Gbit/s:
 * `((6x25G 2x10G):40G 4)` has a switch with eight ranks of two speeds behind 40 Gbit/s.
 *
 * The text is read with an explicit stack (at most 64 deep) into groups in text order; leaves are
 * counted, not stored, until their total passed the limit. Link i-1 is the uplink of tree node i;
 * switches are numbered as the inner nodes, breadth-first. */
#include <assert.h>

#include "topo/topo_int.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct group {
    uint32_t parent; /* index of the group around it */
    uint32_t leaves; /* 0: parentheses */
    /* 0: no switch of its own, its leaves belong to the group around it */
    uint32_t height;
    uint32_t rank;                       /* of its first leaf */
    uint32_t child, last_child, sibling; /* 0: none (the root is never a child) */
    /* given for its own uplink (height 0: for each leaf); 0: by height */
    double bw;
};

struct parser {
    const struct tt_spec *spec;
    const char *text, *p;
    struct tt_vec groups;
    uint32_t stack[TT_SPEC_LEVELS], depth;
    uint32_t last; /* the group that just ended, for ':' */
    uint64_t ranks;
    uint32_t switches;
    bool ended; /* a complete group is right before the current character */
};

static struct group *group_at(const struct parser *ps, uint32_t i)
{
    return tt_vec_at(&ps->groups, i);
}

/* The message shows the position, counted from 1, and the text found there. */
static tutti_status fail_at(const struct parser *ps, const char *why, struct tutti_error *err)
{
    return tt_fail(err, TUTTI_ERR_PARSE, "tree: character %zu (\"%.12s\"): %s",
                   (size_t)(ps->p - ps->text) + 1, ps->p, why);
}

/* Appends a group to the open one; every group counts as a switch until parse_hosts corrects it. */
static tutti_status add_group(struct parser *ps, uint32_t leaves, struct tutti_error *err)
{
    uint32_t i = (uint32_t)ps->groups.len;
    if (i > 0 && ps->depth == 0)
        return fail_at(ps, "a second root; put parentheses around all groups", err);
    assert(ps->depth <= TT_SPEC_LEVELS && ps->ranks <= TT_TOPO_MAX_RANKS);
    struct group g = {
        .parent = UINT32_MAX, .leaves = leaves, .height = 1, .rank = (uint32_t)ps->ranks};
    if (ps->depth)
        g.parent = ps->stack[ps->depth - 1];
    if (!tt_vec_push(&ps->groups, &g, 1))
        return tt_fail_memory(err, "tree");
    ps->switches++;
    if (g.parent != UINT32_MAX) {
        struct group *up = group_at(ps, g.parent);
        if (up->child)
            group_at(ps, up->last_child)->sibling = i;
        else
            up->child = i;
        up->last_child = i;
    }
    ps->last = i;
    return TUTTI_OK;
}

/* Reads the bandwidth at ps->p, for the group that ended last. */
static tutti_status parse_rate(struct parser *ps, const char *what, struct tutti_error *err)
{
    char rate[64];
    size_t n = strcspn(ps->p, " \t():");
    if (n >= sizeof rate)
        return fail_at(ps, "not a bandwidth", err);
    memcpy(rate, ps->p, n);
    rate[n] = 0;
    tutti_status st = tt_parse_rate(rate, &group_at(ps, ps->last)->bw, err);
    if (st)
        tt_fail_prefix(err, "tree: %s", what);
    ps->p += n;
    return st;
}

/* "6x25G": the number has been read, ps->p is at the x. */
static tutti_status parse_hosts(struct parser *ps, struct tutti_error *err)
{
    if (ps->depth == 0)
        return fail_at(ps, "ranks without a switch; put parentheses around them", err);
    group_at(ps, ps->last)->height = 0;
    ps->switches--;
    ps->p++;
    return parse_rate(ps, "bandwidth of ranks", err);
}

/* The value saturates above the limit, so that long numbers cannot overflow. */
static tutti_status parse_number(struct parser *ps, struct tutti_error *err)
{
    uint64_t n = 0;
    const char *end = ps->p;
    for (; isdigit((unsigned char)*end); end++)
        n = n > TT_TOPO_MAX_RANKS ? n : n * 10 + (uint64_t)(*end - '0');
    if (n == 0)
        return fail_at(ps, "a group of 0 ranks; at least 1 is needed", err);
    tutti_status st = tt_topo_spec_limit(ps->spec, ps->ranks + n, 0, err);
    if (!st)
        st = add_group(ps, (uint32_t)n, err);
    ps->ranks += n;
    ps->p = end;
    ps->ended = true;
    return !st && *ps->p == 'x' ? parse_hosts(ps, err) : st;
}

/* ":2.5G" right after a group. */
static tutti_status parse_uplink(struct parser *ps, struct tutti_error *err)
{
    if (!ps->ended)
        return fail_at(ps, "no group before the ':'", err);
    if (ps->last == 0)
        return fail_at(ps,
                       "the root has no uplink: a group behind one is inside another, as in "
                       "tree:((6x25G 2x10G):40G (8x25G):40G)",
                       err);
    if (group_at(ps, ps->last)->bw > 0)
        return fail_at(ps, "a second bandwidth for one group", err);
    ps->p++;
    return parse_rate(ps, "uplink bandwidth", err);
}

/* Pushes the group: the groups that follow belong to it. */
static tutti_status parse_open(struct parser *ps, struct tutti_error *err)
{
    if (ps->depth == TT_SPEC_LEVELS)
        return fail_at(ps, "nested more than 64 deep", err);
    tutti_status st = add_group(ps, 0, err);
    if (!st) {
        ps->stack[ps->depth++] = ps->last;
        ps->ended = false;
        ps->p++;
    }
    return st;
}

/* A group's height is known when it closes: all groups inside it have closed before. */
static tutti_status parse_close(struct parser *ps, struct tutti_error *err)
{
    if (ps->depth == 0)
        return fail_at(ps, "no parenthesis is open", err);
    ps->last = ps->stack[--ps->depth];
    struct group *g = group_at(ps, ps->last);
    if (!g->child)
        return fail_at(ps, "an empty group", err);
    for (uint32_t c = g->child; c; c = group_at(ps, c)->sibling)
        if (group_at(ps, c)->height >= g->height)
            g->height = group_at(ps, c)->height + 1;
    ps->ended = true;
    ps->p++;
    return TUTTI_OK;
}

/* One token per round; a blank separates, so that ':' after it belongs to no group. */
static tutti_status parse_tree(struct parser *ps, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    while (*ps->p && !st) {
        if (isspace((unsigned char)*ps->p)) {
            ps->ended = false;
            ps->p++;
        } else if (isdigit((unsigned char)*ps->p))
            st = parse_number(ps, err);
        else if (*ps->p == ':')
            st = parse_uplink(ps, err);
        else if (*ps->p == '(')
            st = parse_open(ps, err);
        else if (*ps->p == ')')
            st = parse_close(ps, err);
        else
            st = fail_at(ps, "expected a number, a parenthesis or a ':'", err);
    }
    if (!st && ps->depth)
        st = fail_at(ps, "a parenthesis is not closed", err);
    if (!st && ps->groups.len == 0)
        st = fail_at(ps, "no groups", err);
    return st;
}

struct numbering {
    const struct parser *ps;
    struct tt_tree *tree;
    uint32_t *group_of; /* the group that a node is, or whose leaf it is */
    uint32_t end;       /* nodes that have a number */
};

/* Numbers the leaves of a group as children of node `parent`. */
static void put_leaves(struct numbering *x, uint32_t parent, uint32_t group)
{
    const struct group *g = group_at(x->ps, group);
    assert(x->end + g->leaves <= x->tree->nnodes);
    for (uint32_t k = 0; k < g->leaves; k++, x->end++) {
        x->tree->parent[x->end] = parent;
        x->tree->rank[x->end] = g->rank + k;
        x->group_of[x->end] = group;
    }
}

/* Numbers the nodes breadth-first. The node numbers are the queue: nodes before i have their
 * children numbered, nodes before x.end have a number. */
static void number_nodes(const struct parser *ps, struct tt_tree *tree, uint32_t *group_of)
{
    struct numbering x = {ps, tree, group_of, 1};
    group_of[0] = 0;
    for (uint32_t i = 0; i < tree->nnodes; i++) {
        if (tree->rank[i] != UINT32_MAX)
            continue;
        put_leaves(&x, i, group_of[i]);
        for (uint32_t c = group_at(ps, group_of[i])->child; c; c = group_at(ps, c)->sibling) {
            if (!group_at(ps, c)->height) {
                put_leaves(&x, i, c);
                continue;
            }
            assert(x.end < tree->nnodes);
            tree->parent[x.end] = i;
            group_of[x.end++] = c;
        }
    }
}

/* The root's height is the number of levels of links: further bandwidths would apply to none. */
static tutti_status check_rates(const struct parser *ps, struct tutti_error *err)
{
    uint32_t levels = group_at(ps, 0)->height;
    char rate[32];
    if (ps->spec->nbw <= levels)
        return TUTTI_OK;
    return tt_fail(err, TUTTI_ERR_PARSE,
                   "tree: bandwidth %u (%s) is one too many: this tree has %u level%s of links",
                   levels + 1, tt_format_rate(ps->spec->bw[levels], rate, sizeof rate), levels,
                   levels == 1 ? "" : "s");
}

/* The bandwidth of a group's own uplink, or of the link of one of its leaves. */
static double uplink_bw(const struct parser *ps, const struct group *g, bool leaf)
{
    if (g->bw > 0 && leaf == !g->height)
        return g->bw;
    uint32_t height = leaf ? 0 : g->height;
    return ps->spec->bw[height < ps->spec->nbw ? height : ps->spec->nbw - 1];
}

/* From here on group_of[i] becomes the vertex of node i: the loop runs in node order, so a parent's
 * entry is converted before its children need it. */
static tutti_status add_uplinks(const struct parser *ps, struct tt_topo *t, uint32_t *group_of,
                                struct tutti_error *err)
{
    struct tt_tree *tree = t->tree;
    uint32_t switches = 1;
    tutti_status st = TUTTI_OK;
    group_of[0] = t->ranks;
    for (uint32_t i = 1; i < tree->nnodes && !st; i++) {
        bool leaf = tree->rank[i] != UINT32_MAX;
        struct tt_link l = ps->spec->link;
        l.bw[0] = l.bw[1] = uplink_bw(ps, group_at(ps, group_of[i]), leaf);
        group_of[i] = leaf ? tree->rank[i] : t->ranks + switches++;
        assert(tree->parent[i] < i);
        l.a = group_of[i];
        l.b = group_of[tree->parent[i]];
        tree->uplink[i] = i - 1;
        st = tt_topo_add_link(t, &l, err);
    }
    return st;
}

/* Nodes are the switches and the ranks together; links follow in node order. */
static tutti_status gen_tree_build(const struct parser *ps, struct tt_topo **ret,
                                   struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    uint32_t groups = ps->switches, ranks = (uint32_t)ps->ranks;
    uint32_t *group_of = tt_alloc(groups + ranks, sizeof *group_of);
    tutti_status st =
        group_of ? tt_topo_new("tree", ranks, groups, &t, err) : tt_fail_memory(err, "tree");
    if (!st)
        st = tt_topo_tree_new(groups + ranks, &t->tree, err);
    if (!st) {
        number_nodes(ps, t->tree, group_of);
        st = add_uplinks(ps, t, group_of, err);
    }
    if (!st)
        st = tt_topo_tree_link(t->tree, err);
    free(group_of);
    if (!st)
        *ret = t;
    else
        tt_topo_free(t);
    return st;
}

tutti_status tt_topo_gen_tree(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err)
{
    tutti_status st = tt_topo_spec_want(s, 1, err);
    if (st)
        return st;
    struct parser ps = {
        .spec = s, .text = tt_topo_spec_arg(s, 0), .groups = {.elem = sizeof(struct group)}};
    ps.p = ps.text;
    st = parse_tree(&ps, err);
    if (!st)
        st = check_rates(&ps, err);
    if (!st)
        st = gen_tree_build(&ps, ret, err);
    tt_vec_free(&ps.groups);
    return st;
}
