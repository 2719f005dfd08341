/* file_cluster.c - clusters as schedulers and launchers list them: Slurm's topology.conf and Open
 * MPI's hostfile. Both become a spec of kind tree, with the names of the file.
 *
 *     SwitchName=s0 Nodes=tux[0-3]         tree:(4 2)@LINK: nodes are ranks
 *     SwitchName=s1 Nodes=tux[4,7]
 *     SwitchName=top Switches=s[0-1]
 *
 *     node0 slots=4                        tree:(4 2)@LINK: slots are ranks
 *     node1 slots=2
 *
 * Neither file says how fast links are (Slurm ignores LinkSpeed): the caller does. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topo/import.h"
#include "topo/topo_int.h"

enum { NAME = 64, RANKS_MAX = 65536, SWITCHES_MAX = 2048, DEPTH_MAX = 16 };

struct switch_line {
    char name[NAME];
    uint32_t line;
    size_t first, n; /* of names: its nodes, or its switches */
    bool leaf, has_parent;
};

/* A file being read. */
struct cluster {
    const char *file, *data, *at, *end;
    struct tt_vec names;    /* char[NAME]: nodes and switches, as listed */
    struct tt_vec switches; /* struct switch_line */
    struct tt_vec ranks;    /* char[NAME], in the order of the spec */
    struct tt_str spec;
    struct tutti_error *err;
};

/* An error at c->at, with line and column. */
static tutti_status cluster_fail(const struct cluster *c, const char *at, const char *what,
                                 const char *word)
{
    unsigned line = 1, column = 1;
    for (const char *p = c->data; p < at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    return tt_fail(c->err, TUTTI_ERR_PARSE, "%.200s:%u:%u: %s%s%.60s%s", c->file, line, column,
                   what, *word ? ": \"" : "", word, *word ? "\"" : "");
}

/* Skips blanks, comments and continued lines; with `lines` also ends of lines. */
static void skip(struct cluster *c, bool lines)
{
    for (; c->at < c->end; c->at++) {
        if (*c->at == '\\' && c->at + 1 < c->end && c->at[1] == '\n')
            c->at++;
        else if (*c->at == '#')
            while (c->at + 1 < c->end && c->at[1] != '\n')
                c->at++;
        else if (!strchr(" \t\r", *c->at) && !(lines && *c->at == '\n'))
            return;
    }
}

/* A word up to a blank or one of `stops`, outside of brackets. */
static tutti_status word(struct cluster *c, const char *stops, struct tt_str *ret)
{
    const char *from = c->at;
    int depth = 0;
    ret->len = 0;
    for (; c->at < c->end && *c->at && !isspace((unsigned char)*c->at) && *c->at != '#'; c->at++) {
        depth += (*c->at == '[') - (*c->at == ']');
        if (depth == 0 && strchr(stops, *c->at))
            break;
        tt_str_add(ret, c->at, 1);
    }
    if (ret->failed)
        return tt_fail_memory(c->err, "word");
    if (!ret->len)
        return cluster_fail(c, from, "a word is expected", "");
    return depth ? cluster_fail(c, from, "brackets are not closed", ret->s) : TUTTI_OK;
}

/* ---- lists of names: a[0-3,7]b,c ---- */

static tutti_status add_name(struct cluster *c, const char *at, const char *name)
{
    char text[NAME] = "";
    const size_t len = strlen(name);
    if (len >= NAME)
        return cluster_fail(c, at, "a name of at most 63 characters is expected", name);
    memcpy(text, name, len);
    if (c->names.len >= RANKS_MAX + SWITCHES_MAX)
        return cluster_fail(c, at, "too many names", "");
    return tt_vec_push(&c->names, text, 1) ? TUTTI_OK : tt_fail_memory(c->err, "names");
}

/* One bracket is opened per call: head, a number, then the rest of the text. */
static tutti_status expand(struct cluster *c, const char *at, const char *head, const char *rest,
                           int depth)
{
    const char *open = strchr(rest, '['), *close = open ? strchr(open, ']') : NULL;
    char name[2 * NAME];
    if (!open) {
        if ((size_t)snprintf(name, sizeof name, "%s%s", head, rest) >= NAME)
            return cluster_fail(c, at, "a name of at most 63 characters is expected", rest);
        return add_name(c, at, name);
    }
    if (!close || depth == 4 || strlen(head) + (size_t)(open - rest) >= NAME)
        return cluster_fail(c, at, "a list such as tux[0-3,7] is expected", rest);
    for (const char *p = open + 1; p < close; p++) {
        char *end;
        const int width = (int)strspn(p, "0123456789");
        unsigned long low = strtoul(p, &end, 10), high = low;
        bool ok = width > 0 && width < 10;
        if (ok && *end == '-') {
            const size_t digits = strspn(end + 1, "0123456789");
            ok = digits > 0 && digits < 10;
            high = strtoul(end + 1, &end, 10);
        }
        if (!ok || high < low || high - low >= RANKS_MAX || end > close ||
            (*end != ',' && *end != ']'))
            return cluster_fail(c, at, "a list such as tux[0-3,7] is expected", rest);
        for (unsigned long i = low; i <= high; i++) {
            snprintf(name, sizeof name, "%s%.*s%0*lu", head, (int)(open - rest), rest, width, i);
            tutti_status st = strlen(name) < NAME ? expand(c, at, name, close + 1, depth + 1)
                                                  : cluster_fail(c, at, "a name is too long", rest);
            if (st)
                return st;
        }
        p = end;
    }
    return TUTTI_OK;
}

/* The list at c->at, up to a blank. */
static tutti_status read_list(struct cluster *c, struct tt_str *text)
{
    tutti_status st = TUTTI_OK;
    for (;;) {
        const char *at = c->at;
        st = word(c, ",", text);
        if (!st)
            st = expand(c, at, "", text->s, 0);
        if (st || c->at >= c->end || *c->at != ',')
            return st;
        c->at++;
    }
}

/* ---- topology.conf ---- */

static tutti_status read_pair(struct cluster *c, struct switch_line *s, struct tt_str *text)
{
    const char *at = c->at;
    tutti_status st = word(c, "=", text);
    if (st)
        return st;
    if (c->at >= c->end || *c->at != '=')
        return cluster_fail(c, at, "key=value is expected", text->s);
    c->at++;
    bool nodes = !strcasecmp(text->s, "Nodes"), below = !strcasecmp(text->s, "Switches");
    if (nodes || below) {
        if (s->n)
            return cluster_fail(c, at, "a switch has either Nodes or Switches", s->name);
        s->leaf = nodes;
        s->first = c->names.len;
        st = read_list(c, text);
        s->n = c->names.len - s->first;
        return st;
    }
    bool name = !strcasecmp(text->s, "SwitchName");
    if (!name && strcasecmp(text->s, "LinkSpeed") && strcasecmp(text->s, "Comment"))
        return cluster_fail(c, at, "SwitchName, Nodes, Switches or LinkSpeed is expected", text->s);
    st = word(c, "", text);
    if (!st && name && text->len >= NAME)
        return cluster_fail(c, at, "a name of at most 63 characters is expected", text->s);
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
        skip(c, false);
    }
    if (st)
        return st;
    if (!*s.name || !s.n)
        return cluster_fail(c, at, "a switch needs SwitchName and Nodes or Switches", s.name);
    s.line = (uint32_t)(at - c->data);
    if (c->switches.len == SWITCHES_MAX)
        return cluster_fail(c, at, "too many switches", "");
    for (size_t i = 0; i < c->switches.len; i++)
        if (tt_streq(((struct switch_line *)tt_vec_at(&c->switches, i))->name, s.name))
            return cluster_fail(c, at, "a second switch of this name", s.name);
    return tt_vec_push(&c->switches, &s, 1) ? TUTTI_OK : tt_fail_memory(c->err, "switches");
}

static const char *name_at(const struct cluster *c, size_t i)
{
    return tt_vec_at(&c->names, i);
}

static struct switch_line *find_switch(const struct cluster *c, const char *name)
{
    for (size_t i = 0; i < c->switches.len; i++) {
        struct switch_line *s = tt_vec_at(&c->switches, i);
        if (tt_streq(s->name, name))
            return s;
    }
    return NULL;
}

/* The spec of the switch and all below it; ranks get their names on the way. A switch that is below
 * itself has a parent twice, so that the recursion ends. */
static tutti_status put_switch(struct cluster *c, const struct switch_line *s, int depth)
{
    const char *at = c->data + s->line;
    if (depth > DEPTH_MAX)
        return cluster_fail(c, at, "more than 16 levels of switches", s->name);
    if (s->leaf) {
        char n[24];
        snprintf(n, sizeof n, "%zu", s->n);
        tt_str_add(&c->spec, n, strlen(n));
        if (c->ranks.len + s->n > RANKS_MAX)
            return cluster_fail(c, at, "more than 65536 nodes", "");
        return tt_vec_push(&c->ranks, name_at(c, s->first), s->n) ? TUTTI_OK
                                                                  : tt_fail_memory(c->err, "ranks");
    }
    tt_str_add(&c->spec, "(", 1);
    for (size_t i = 0; i < s->n; i++) {
        struct switch_line *below = find_switch(c, name_at(c, s->first + i));
        if (!below)
            return cluster_fail(c, at, "no such switch", name_at(c, s->first + i));
        if (below->has_parent)
            return cluster_fail(c, at, "the switch is below two others: this is no tree",
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
                below = tt_streq(name_at(c, other->first + n), s->name);
        }
        if (below)
            continue;
        if (*ret)
            return cluster_fail(c, c->data + s->line,
                                "two switches have no switch above them: nothing joins them",
                                s->name);
        *ret = s;
    }
    return *ret ? TUTTI_OK : cluster_fail(c, c->data, "no switch is above all others", "");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* ---- both ---- */

static tutti_status check_names(struct cluster *c)
{
    char(*sorted)[NAME] = tt_alloc(c->ranks.len + 1, sizeof *sorted);
    tutti_status st = sorted ? TUTTI_OK : tt_fail_memory(c->err, "names");
    for (size_t i = 0; !st && i < c->ranks.len; i++)
        memcpy(sorted[i], tt_vec_at(&c->ranks, i), NAME);
    if (!st && c->ranks.len)
        qsort(sorted, c->ranks.len, sizeof *sorted, compare_names);
    for (size_t i = 1; !st && i < c->ranks.len; i++)
        if (!strcmp(sorted[i], sorted[i - 1]))
            st = cluster_fail(c, c->data, "a node stands there twice", sorted[i]);
    free(sorted);
    return st;
}

/* Makes the network of the spec and gives its ranks their names. */
static tutti_status make(struct cluster *c, const char *link, struct tt_topo **ret)
{
    struct tt_topo *t = NULL;
    tutti_status st = check_names(c);
    if (!st && link) {
        tt_str_add(&c->spec, "@", 1);
        tt_str_add(&c->spec, link, strlen(link));
    }
    if (!st && c->spec.failed)
        st = tt_fail_memory(c->err, "spec");
    if (!st)
        st = tt_topo_parse(c->spec.s, &t, c->err);
    if (st)
        return st;
    t->names = tt_zalloc((size_t)t->ranks + t->switches, sizeof *t->names);
    for (uint32_t i = 0; t->names && i < t->ranks && !st; i++)
        if (!(t->names[i] = tt_strdup(tt_vec_at(&c->ranks, i))))
            st = tt_fail_memory(c->err, "names");
    if (!t->names)
        st = tt_fail_memory(c->err, "names");
    if (st)
        tt_topo_free(t);
    else
        *ret = t;
    return st;
}

static void cluster_open(struct cluster *c, const char *data, size_t len, const char *name,
                         struct tutti_error *err)
{
    *c = (struct cluster){.file = name, .data = data, .at = data, .end = data + len, .err = err};
    c->names.elem = c->ranks.elem = NAME;
    c->switches.elem = sizeof(struct switch_line);
    tt_str_add(&c->spec, "tree:", 5);
}

static void cluster_free(struct cluster *c)
{
    tt_vec_free(&c->names);
    tt_vec_free(&c->switches);
    tt_vec_free(&c->ranks);
    tt_str_free(&c->spec);
}

tutti_status tt_topo_import_slurm(const char *data, size_t len, const char *name, const char *link,
                                  struct tt_topo **ret, struct tutti_error *err)
{
    struct cluster c;
    struct tt_str text = {0};
    struct switch_line *root = NULL;
    tutti_status st = TUTTI_OK;
    cluster_open(&c, data, len, name, err);
    for (skip(&c, true); !st && c.at < c.end; skip(&c, true))
        st = read_switch(&c, &text);
    if (!st)
        st = find_root(&c, &root);
    if (!st)
        st = put_switch(&c, root, 0);
    for (size_t i = 0; !st && i < c.switches.len; i++) {
        const struct switch_line *s = tt_vec_at(&c.switches, i);
        if (s != root && !s->has_parent)
            st = cluster_fail(&c, data + s->line, "the switch is not below the topmost one",
                              s->name);
    }
    if (!st)
        st = make(&c, link, ret);
    tt_str_free(&text);
    cluster_free(&c);
    return st;
}

/* ---- hostfile ---- */

/* "node0 slots=4 max_slots=8"; names and slots are kept as one line of switches each. */
static tutti_status read_host(struct cluster *c, struct tt_str *text)
{
    struct switch_line s = {.leaf = true, .line = (uint32_t)(c->at - c->data)};
    const char *at = c->at;
    tutti_status st = word(c, "", text);
    if (!st && text->len >= NAME - 8)
        return cluster_fail(c, at, "a name of at most 55 characters is expected", text->s);
    if (!st)
        snprintf(s.name, sizeof s.name, "%s", text->s);
    skip(c, false);
    while (!st && c->at < c->end && *c->at != '\n') {
        const char *here = c->at;
        struct tutti_error why;
        uint64_t n = 0;
        st = word(c, "", text);
        if (!st && !strncmp(text->s, "slots=", 6)) {
            if (tt_parse_u64(text->s + 6, 1, RANKS_MAX, &n, &why))
                return cluster_fail(c, here, "slots=N is expected", text->s);
            s.n = n;
        } else if (!st && strncmp(text->s, "max_slots=", 10) &&
                   strncmp(text->s, "max-slots=", 10)) {
            return cluster_fail(c, here, "slots=N or max_slots=N is expected", text->s);
        }
        skip(c, false);
    }
    if (!st && !s.n)
        return cluster_fail(c, at,
                            "a host without slots=N has as many as cores, which the file does not "
                            "tell: say how many",
                            s.name);
    struct switch_line *same = st ? NULL : find_switch(c, s.name);
    if (same) {
        same->n += s.n; /* lines of one host add up */
        return TUTTI_OK;
    }
    if (!st && c->switches.len == SWITCHES_MAX)
        return cluster_fail(c, at, "too many hosts", "");
    return st || tt_vec_push(&c->switches, &s, 1) ? st : tt_fail_memory(c->err, "hosts");
}

static tutti_status put_hosts(struct cluster *c)
{
    tutti_status st = c->switches.len ? TUTTI_OK : cluster_fail(c, c->data, "no hosts", "");
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
            return cluster_fail(c, c->data + s->line, "more than 65536 slots", s->name);
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
    cluster_open(&c, data, len, name, err);
    for (skip(&c, true); !st && c.at < c.end; skip(&c, true))
        st = read_host(&c, &text);
    if (!st)
        st = put_hosts(&c);
    if (!st)
        st = make(&c, link, ret);
    tt_str_free(&text);
    cluster_free(&c);
    return st;
}
