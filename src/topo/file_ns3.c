/* file_ns3.c - reads the topology text of ns-3's RDMA simulations, as ASTRA-sim and others use it:
 *
 *    9 1 8                   nodes (switches included), switches, links
 *    8                       the numbers of the switches
 *    0 8 200Gbps 0.0005ms 0  two nodes, bandwidth each way, delay, error rate; a line for each link
 *    ...
 *
 * White space separates words, lines do not matter. Nodes that are not switches become ranks 0, 1,
 * ... in the order of their numbers, and so do the switches; where that changes a number, vertices
 * get names ("node 7"). Routes are those of shortest routing (fewest links), while ns-3 spreads
 * flows over equal paths by a hash. Links that lose packets have no counterpart here and are
 * refused. Memory grows with the bytes of the file, never with a number in it: n nodes need n-1
 * links to be connected, and every link takes MIN_LINK bytes. */
#include "topo/topo_int.h"

#include "topo/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 40, MIN_LINK = 10 /* the shortest: "0 1 1G 0 0" */ };

struct text {
    const char *name, *at, *end;
    unsigned long line;
    char word[WORD]; /* the last one read */
};

/* Counts lines for the messages. */
static void skip_blanks(struct text *x)
{
    for (; x->at < x->end && isspace((unsigned char)*x->at); x->at++)
        x->line += *x->at == '\n';
}

/* Reads the next word into x->word; `what` names it in messages. */
static tutti_status next_word(struct text *x, const char *what, struct tutti_error *err)
{
    size_t n = 0;
    skip_blanks(x);
    while (x->at + n < x->end && !isspace((unsigned char)x->at[n]))
        n++;
    if (!n)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                               "the file ends where %s should stand", what);
    if (n >= WORD)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                               "%s expected, not a word of %zu characters", what, n);
    memcpy(x->word, x->at, n);
    x->word[n] = 0;
    x->at += n;
    if (strlen(x->word) != n)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE, "%s expected, not a byte 0",
                               what);
    return TUTTI_OK;
}

/* A whole number from 0 to max; `what` names it in messages. */
static tutti_status next_number(struct text *x, const char *what, uint64_t max, uint32_t *ret,
                                struct tutti_error *err)
{
    struct tutti_error why;
    uint64_t v;
    tutti_status st = next_word(x, what, err);
    if (st)
        return st;
    st = tt_parse_u64(x->word, 0, max, &v, &why);
    if (st)
        return tt_topo_fail_at(x->name, x->line, err, st, "%s: %.200s", what, why.text);
    *ret = (uint32_t)v;
    return TUTTI_OK;
}

struct network {
    uint32_t nodes, switches, links;
    uint32_t *vertex; /* by node: its vertex; while reading: 1 for switches */
};

/* The counts are compared with each other and with the size of the file before anything is
 * allocated for them. */
static tutti_status read_counts(struct text *x, struct network *n, struct tutti_error *err)
{
    tutti_status st = next_number(x, "the number of nodes", TT_TOPO_MAX_VERTICES, &n->nodes, err);
    if (!st)
        st = next_number(x, "the number of switches", TT_TOPO_MAX_VERTICES, &n->switches, err);
    if (!st)
        st = next_number(x, "the number of links", TT_TOPO_MAX_LINKS, &n->links, err);
    if (st)
        return st;
    if (n->switches >= n->nodes)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_RANGE,
                               "%u nodes of which %u are switches leave no ranks", n->nodes,
                               n->switches);
    if (n->nodes - 1 > n->links)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_RANGE,
                               "%u nodes cannot all be joined by %u links", n->nodes, n->links);
    if (n->links > (size_t)(x->end - x->at) / MIN_LINK)
        return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                               "%u links are announced, but the file is too short for them",
                               n->links);
    return TUTTI_OK;
}

/* Reads the switches' numbers, then numbers the vertices: ranks first, then switches, each in the
 * order of their nodes. */
static tutti_status read_switches(struct text *x, struct network *n, struct tutti_error *err)
{
    uint32_t id = 0, rank = 0, next = n->nodes - n->switches;
    for (uint32_t i = 0; i < n->switches; i++) {
        tutti_status st = next_number(x, "a switch's number", n->nodes - 1, &id, err);
        if (st)
            return st;
        if (n->vertex[id])
            return tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_RANGE,
                                   "node %u is a switch twice", id);
        n->vertex[id] = 1;
    }
    for (uint32_t i = 0; i < n->nodes; i++)
        n->vertex[i] = n->vertex[i] ? next++ : rank++;
    return TUTTI_OK;
}

static tutti_status read_link(struct text *x, const struct network *n, struct tt_link *l,
                              struct tutti_error *err)
{
    struct tutti_error why;
    uint32_t a = 0, b = 0;
    tutti_status st = next_number(x, "a link's first node", n->nodes - 1, &a, err);
    if (!st)
        st = next_number(x, "a link's second node", n->nodes - 1, &b, err);
    if (!st)
        st = next_word(x, "a link's bandwidth", err);
    if (st)
        return st;
    st = tt_parse_rate(x->word, &l->bw[0], &why);
    if (st)
        return tt_topo_fail_at(x->name, x->line, err, st, "bandwidth of the link %u-%u: %.200s", a,
                               b, why.text);
    l->bw[1] = l->bw[0];
    st = next_word(x, "a link's delay", err);
    if (st)
        return st;
    st = tt_parse_time(x->word, &l->latency_ps, &why);
    if (st)
        return tt_topo_fail_at(x->name, x->line, err, st, "delay of the link %u-%u: %.200s", a, b,
                               why.text);
    st = next_word(x, "a link's error rate", err);
    if (st)
        return st;
    /* Any spelling of zero: "0", "0.0", "0.000". */
    if (strspn(x->word, "0.") != strlen(x->word) || x->word[0] != '0')
        return tt_topo_fail_at(
            x->name, x->line, err, TUTTI_ERR_RANGE,
            "the link %u-%u has error rate %s: links that lose packets are not modelled (0 "
            "is needed)",
            a, b, x->word);
    l->a = n->vertex[a];
    l->b = n->vertex[b];
    return TUTTI_OK;
}

/* Each link is checked here, where its line is known, and nothing may follow the last. */
static tutti_status read_links(struct text *x, const struct network *n, struct tt_topo *t,
                               struct tutti_error *err)
{
    struct tutti_error why;
    for (uint32_t i = 0; i < n->links; i++) {
        struct tt_link l = {0};
        tutti_status st = read_link(x, n, &l, err);
        if (st)
            return st;
        st = tt_topo_link_check(t, &l, &why);
        if (st)
            return tt_topo_fail_at(x->name, x->line, err, st, "%.280s", why.text);
        st = tt_topo_add_link(t, &l, err);
        if (st)
            return st;
    }
    skip_blanks(x);
    return x->at == x->end ? TUTTI_OK
                           : tt_topo_fail_at(x->name, x->line, err, TUTTI_ERR_PARSE,
                                             "there is more than the %u links announced", n->links);
}

/* Names all vertices "node 7" when any of them has another number than in the file. */
static tutti_status name_nodes(const struct network *n, struct tt_topo *t, struct tutti_error *err)
{
    char name[24];
    uint32_t i = 0;
    while (i < n->nodes && n->vertex[i] == i)
        i++;
    if (i == n->nodes)
        return TUTTI_OK;
    t->names = tt_zalloc(n->nodes, sizeof *t->names);
    for (i = 0; t->names && i < n->nodes; i++) {
        snprintf(name, sizeof name, "node %u", i);
        t->names[n->vertex[i]] = tt_strdup(name);
        if (!t->names[n->vertex[i]])
            return tt_fail_memory(err, "names");
    }
    return t->names ? TUTTI_OK : tt_fail_memory(err, "names");
}

/* The topology is finished by tt_topo_finish, which frees it on failure. */
static tutti_status read_network(struct text *x, struct network *n, struct tt_topo **ret,
                                 struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = read_switches(x, n, err);
    if (st)
        return st;
    st = tt_topo_new("custom", n->nodes - n->switches, n->switches, &t, err);
    if (st)
        return st;
    t->spec = tt_strdup(strlen(x->name) <= TT_TOPO_MAX_NAME / 4 ? x->name : "ns-3");
    st = t->spec ? read_links(x, n, t, err) : tt_fail_memory(err, "topology");
    if (!st)
        st = name_nodes(n, t, err);
    if (st) {
        tt_topo_free(t);
        return st;
    }
    st = tt_topo_finish(t, ret, err);
    if (st)
        tt_fail_prefix(err, "%.200s", x->name);
    return st;
}

tutti_status tt_topo_file_ns3(const char *data, size_t len, const char *name, struct tt_topo **ret,
                              struct tutti_error *err)
{
    struct text x = {.name = name, .at = data, .end = data + len, .line = 1};
    struct network n = {0};
    tutti_status st = read_counts(&x, &n, err);
    if (st)
        return st;
    n.vertex = tt_zalloc(n.nodes, sizeof *n.vertex);
    st = n.vertex ? read_network(&x, &n, ret, err) : tt_fail_memory(err, "nodes");
    free(n.vertex);
    return st;
}
