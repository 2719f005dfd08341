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
 * Neither file says how fast links are (Slurm ignores LinkSpeed): the caller does. Here is what
 * both readers (file_slurm.c, file_hostfile.c) share: words, lists of names, and the network. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topo/cluster.h"

tutti_status tt_topo_cluster_fail(const struct cluster *c, const char *at, const char *what,
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

void tt_topo_cluster_skip(struct cluster *c, bool lines)
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

tutti_status tt_topo_cluster_word(struct cluster *c, const char *stops, struct tt_str *ret)
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
        return tt_topo_cluster_fail(c, from, "a word is expected", "");
    return depth ? tt_topo_cluster_fail(c, from, "brackets are not closed", ret->s) : TUTTI_OK;
}

/* ---- lists of names: a[0-3,7]b,c ---- */

static tutti_status add_name(struct cluster *c, const char *at, const char *name)
{
    char text[NAME] = "";
    const size_t len = strlen(name);
    if (len >= NAME)
        return tt_topo_cluster_fail(c, at, "a name of at most 63 characters is expected", name);
    memcpy(text, name, len);
    if (c->names.len >= RANKS_MAX + SWITCHES_MAX)
        return tt_topo_cluster_fail(c, at, "too many names", "");
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
            return tt_topo_cluster_fail(c, at, "a name of at most 63 characters is expected", rest);
        return add_name(c, at, name);
    }
    if (!close || depth == 4 || strlen(head) + (size_t)(open - rest) >= NAME)
        return tt_topo_cluster_fail(c, at, "a list such as tux[0-3,7] is expected", rest);
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
            return tt_topo_cluster_fail(c, at, "a list such as tux[0-3,7] is expected", rest);
        for (unsigned long i = low; i <= high; i++) {
            snprintf(name, sizeof name, "%s%.*s%0*lu", head, (int)(open - rest), rest, width, i);
            tutti_status st = strlen(name) < NAME
                                  ? expand(c, at, name, close + 1, depth + 1)
                                  : tt_topo_cluster_fail(c, at, "a name is too long", rest);
            if (st)
                return st;
        }
        p = end;
    }
    return TUTTI_OK;
}

tutti_status tt_topo_cluster_list(struct cluster *c, struct tt_str *text)
{
    tutti_status st = TUTTI_OK;
    for (;;) {
        const char *at = c->at;
        st = tt_topo_cluster_word(c, ",", text);
        if (!st)
            st = expand(c, at, "", text->s, 0);
        if (st || c->at >= c->end || *c->at != ',')
            return st;
        c->at++;
    }
}

const char *tt_topo_cluster_name(const struct cluster *c, size_t i)
{
    return tt_vec_at(&c->names, i);
}

struct switch_line *tt_topo_cluster_switch(const struct cluster *c, const char *name)
{
    for (size_t i = 0; i < c->switches.len; i++) {
        struct switch_line *s = tt_vec_at(&c->switches, i);
        if (tt_streq(s->name, name))
            return s;
    }
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* ---- the network ---- */

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
            st = tt_topo_cluster_fail(c, c->data, "a node stands there twice", sorted[i]);
    free(sorted);
    return st;
}

tutti_status tt_topo_cluster_make(struct cluster *c, const char *link, struct tt_topo **ret)
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

void tt_topo_cluster_open(struct cluster *c, const char *data, size_t len, const char *name,
                          struct tutti_error *err)
{
    *c = (struct cluster){.file = name, .data = data, .at = data, .end = data + len, .err = err};
    c->names.elem = c->ranks.elem = NAME;
    c->switches.elem = sizeof(struct switch_line);
    tt_str_add(&c->spec, "tree:", 5);
}

void tt_topo_cluster_free(struct cluster *c)
{
    tt_vec_free(&c->names);
    tt_vec_free(&c->switches);
    tt_vec_free(&c->ranks);
    tt_str_free(&c->spec);
}
