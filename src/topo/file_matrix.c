/* file_matrix.c - a network from a matrix of measured rates, as CSV.
 *
 *     ,a,b,c            names in the first row and the first column: either, both or none
 *     a,-,94G,9.4G      the diagonal is not looked at
 *     b,94G,-,9.4G
 *     c,9.4G,9.4G,-
 *
 * The model is a tree of switches. Pairs are joined from the fastest to the slowest, as in a
 * maximum spanning tree; where the rate falls by more than a factor of SIMILAR, what was joined so
 * far becomes a group behind a switch of its own:
 *
 *     a   b   c         94 94 | 9.4    a rank's link: the most that it reached with any rank
 *      \ /    |                        a group's link: the most that any of its ranks reached
 *      [ ]---[ ]                       outside, in each direction
 *
 * Limits: pairs that were measured alone say nothing about what a link carries for several of them.
 * A group's link is taken to carry one such pair, which errs on the safe side. Rates that a tree
 * cannot give (a pair slower than both of its ends on one switch) are not kept. */
#include <stdlib.h>
#include <string.h>

#include "topo/import.h"
#include "topo/topo_int.h"

enum { RANKS_MAX = 1024, CELL = 64 };
static const double SIMILAR = 1.5;

struct matrix {
    const char *name, *unit, *at, *end;
    uint32_t line, column; /* of the cell at hand, from 1 */
    uint32_t n;
    bool top_names;      /* the first row holds names */
    double *rate;        /* n x n */
    char (*label)[CELL]; /* n names, "" where none was given */
    struct tutti_error *err;
};

static tutti_status matrix_fail(const struct matrix *m, const char *what, const char *cell)
{
    return tt_fail(m->err, TUTTI_ERR_PARSE, "%.200s:%u:%u: %s%s%.40s%s", m->name, m->line,
                   m->column, what, *cell ? ": \"" : "", cell, *cell ? "\"" : "");
}

/* ---- cells ---- */

/* Copies the next cell without blanks and quotes around it. *ret_last: it ends its line. */
static tutti_status next_cell(struct matrix *m, char *cell, bool *ret_last)
{
    const char *from = m->at;
    while (m->at < m->end && *m->at != ',' && *m->at != ';' && *m->at != '\t' && *m->at != '\n')
        m->at++;
    const char *to = m->at;
    *ret_last = m->at >= m->end || *m->at == '\n';
    m->at += m->at < m->end;
    while (from < to && strchr(" \"\r", *from))
        from++;
    while (from < to && strchr(" \"\r", to[-1]))
        to--;
    if (to - from >= CELL || memchr(from, 0, (size_t)(to - from)))
        return matrix_fail(m, "a cell of at most 63 characters is expected", "");
    memcpy(cell, from, (size_t)(to - from));
    cell[to - from] = 0;
    return TUTTI_OK;
}

/* Blank lines and comments (#) are skipped. */
static void skip_lines(struct matrix *m)
{
    for (;;) {
        const char *p = m->at;
        while (p < m->end && strchr(" \t\r", *p))
            p++;
        if (p >= m->end || (*p != '\n' && *p != '#'))
            break;
        while (p < m->end && *p != '\n')
            p++;
        m->at = p + (p < m->end);
        m->line++;
    }
}

/* A rate; `unit` follows a bare number. */
static bool get_rate(const struct matrix *m, const char *cell, double *ret)
{
    struct tutti_error why;
    char text[CELL + 16];
    bool bare = *cell && cell[strspn(cell, "0123456789.")] == 0;
    if (bare && !m->unit)
        return false;
    snprintf(text, sizeof text, "%s%s", cell, bare ? m->unit : "");
    return !tt_parse_rate(text, ret, &why) && *ret > 0;
}

static bool is_name(const char *cell)
{
    return *cell && !strchr("0123456789.+-", *cell) && strcasecmp(cell, "nan") &&
           strcasecmp(cell, "inf");
}

/* Counts the cells of the line at hand without reading on. *ret_first: its first cell is a name,
 * *ret_other: another one is. */
static tutti_status look_at(const struct matrix *m, uint32_t *ret, bool *ret_first, bool *ret_other)
{
    struct matrix look = *m;
    char cell[CELL];
    bool last = false;
    *ret = 0;
    *ret_first = *ret_other = false;
    while (!last) {
        look.column = *ret + 1;
        tutti_status st = next_cell(&look, cell, &last);
        if (st)
            return st;
        if (*ret)
            *ret_other = *ret_other || is_name(cell);
        else
            *ret_first = is_name(cell);
        if (++*ret > RANKS_MAX + 1)
            return matrix_fail(&look, "more than 1024 ranks", "");
    }
    return TUTTI_OK;
}

/* The names of the first line, of which there must be n, or one more above a column of names. */
static tutti_status read_names(struct matrix *m, uint32_t cells, char (*label)[CELL])
{
    char cell[CELL];
    bool last = false;
    for (uint32_t i = 0; !last; i++) {
        tutti_status st = next_cell(m, cell, &last);
        if (st)
            return st;
        m->column = i + 1;
        memcpy(label[i], cell, CELL);
    }
    m->column = 1;
    m->line++;
    return cells > 2 || !*label[0] || is_name(label[0]) ? TUTTI_OK
                                                        : matrix_fail(m, "names are expected", "");
}

static tutti_status read_row(struct matrix *m, uint32_t i, bool left)
{
    char cell[CELL];
    bool last = false;
    tutti_status st = TUTTI_OK;
    if (left) {
        st = next_cell(m, cell, &last);
        if (!st && !m->top_names)
            memcpy(m->label[i], cell, CELL);
        m->column++;
    }
    for (uint32_t j = 0; !st && j < m->n; j++, m->column++) {
        if (last)
            return matrix_fail(m, "the row is too short", "");
        st = next_cell(m, cell, &last);
        if (!st && i != j && !get_rate(m, cell, &m->rate[i * m->n + j]))
            return matrix_fail(m,
                               m->unit
                                   ? "a rate such as 9.4 or 9.4Gbps is expected"
                                   : "a rate such as 9.4Gbps or 1.2GB/s is expected (or say the "
                                     "unit of all numbers: --unit)",
                               *cell ? cell : "empty");
    }
    return !st && !last ? matrix_fail(m, "the row is too long", "") : st;
}

/* The shape: names on top, names on the left, and n from the first row of rates. Names that stand
 * on top are read. */
static tutti_status read_shape(struct matrix *m, bool *ret_left)
{
    uint32_t cells = 0, top = 0;
    bool first = false, other = false;
    char(*label)[CELL] = tt_zalloc(RANKS_MAX + 2, sizeof *label);
    tutti_status st = label ? look_at(m, &cells, &first, &other) : tt_fail_memory(m->err, "names");
    if (!st && other) {
        m->top_names = true;
        top = cells;
        st = read_names(m, cells, label);
        skip_lines(m);
        if (!st)
            st = m->at < m->end ? look_at(m, &cells, &first, &other)
                                : matrix_fail(m, "rows of rates are missing", "");
    }
    *ret_left = first;
    m->n = cells - (first ? 1 : 0);
    if (!st && m->n < 2)
        st = matrix_fail(m, "a matrix of at least two ranks is expected", "");
    if (!st && m->top_names && top != m->n && !(first && top == m->n + 1))
        st = matrix_fail(m, "the row has not as many cells as there are names above it", "");
    m->rate = st ? NULL : tt_zalloc((size_t)m->n * m->n, sizeof *m->rate);
    m->label = st ? NULL : tt_zalloc((size_t)m->n + 1, sizeof *m->label);
    if (!st && (!m->rate || !m->label))
        st = tt_fail_memory(m->err, "matrix");
    for (uint32_t i = 0; !st && m->top_names && i < m->n; i++)
        memcpy(m->label[i], label[i + (top - m->n)], CELL);
    free(label);
    return st;
}

static tutti_status read_matrix(struct matrix *m)
{
    bool left = false;
    m->line = m->column = 1;
    skip_lines(m);
    tutti_status st =
        m->at < m->end ? read_shape(m, &left) : matrix_fail(m, "a matrix of rates is expected", "");
    for (uint32_t i = 0; !st && i < m->n; i++, m->line++) {
        m->column = 1;
        skip_lines(m);
        st = m->at < m->end ? read_row(m, i, left) : matrix_fail(m, "rows are missing", "");
    }
    if (st)
        return st;
    skip_lines(m);
    m->column = 1;
    return m->at < m->end ? matrix_fail(m, "more rows than columns", "") : TUTTI_OK;
}

/* ---- the tree ---- */

/* Nodes 0 .. n-1 are ranks, the others what was joined. `rate` is that of the slowest pair inside.
 * A node whose children went to a larger one has neither children nor a parent. */
struct tree {
    const struct matrix *m;
    uint32_t *parent, *in; /* by node: its switch; by rank: the root that holds it */
    double *rate;
    uint32_t nodes;
};

static double pair_rate(const struct matrix *m, uint32_t i, uint32_t j)
{
    const double a = m->rate[i * m->n + j], b = m->rate[j * m->n + i];
    return a < b ? a : b;
}

/* `old` goes into `node`: as a group of its own, or, when it is as fast, with its children. */
static void take_in(struct tree *t, uint32_t old, uint32_t node, double rate)
{
    bool group = old < t->m->n || t->rate[old] > SIMILAR * rate;
    for (uint32_t i = 0; i < t->m->n; i++)
        if (t->in[i] == old)
            t->in[i] = node;
    if (group)
        t->parent[old] = node;
    for (uint32_t i = 0; !group && i < t->nodes; i++)
        if (t->parent[i] == old)
            t->parent[i] = node;
}

/* Joins the roots of the fastest pair that are still apart, n - 1 times. O(n^3). */
static void grow(struct tree *t)
{
    const uint32_t n = t->m->n;
    for (uint32_t round = 1; round < n; round++) {
        uint32_t a = 0, b = 0;
        double best = -1;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < i; j++)
                if (t->in[i] != t->in[j] && pair_rate(t->m, i, j) > best) {
                    best = pair_rate(t->m, i, j);
                    a = i;
                    b = j;
                }
        const uint32_t node = t->nodes, one = t->in[a], two = t->in[b];
        t->rate[node] = best;
        t->parent[node] = UINT32_MAX;
        take_in(t, one, node, best);
        take_in(t, two, node, best);
        t->nodes++;
    }
}

static bool is_below(const struct tree *t, uint32_t node, uint32_t above)
{
    while (node != UINT32_MAX && node != above)
        node = t->parent[node];
    return node == above;
}

/* The most that ranks below the node reached outside, and were reached with. */
static void link_rates(const struct matrix *m, const bool *inside, double bw[2])
{
    bw[0] = bw[1] = 0;
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t j = 0; j < m->n; j++)
            if (inside[i] && !inside[j]) {
                const double up = m->rate[i * m->n + j], down = m->rate[j * m->n + i];
                bw[0] = bw[0] > up ? bw[0] : up;
                bw[1] = bw[1] > down ? bw[1] : down;
            }
}

static tutti_status add_links(const struct tree *t, const uint32_t *vertex, uint64_t latency_ps,
                              struct tt_topo *topo)
{
    bool inside[RANKS_MAX];
    tutti_status st = TUTTI_OK;
    for (uint32_t v = 0; !st && v < t->nodes; v++) {
        struct tt_link l = {.a = vertex[v], .latency_ps = latency_ps};
        if (l.a == UINT32_MAX || t->parent[v] == UINT32_MAX)
            continue;
        for (uint32_t i = 0; i < t->m->n; i++)
            inside[i] = is_below(t, i, v);
        l.b = vertex[t->parent[v]];
        link_rates(t->m, inside, l.bw);
        st = tt_topo_add_link(topo, &l, t->m->err);
    }
    return st;
}

/* Switches are the nodes that have children: absorbed ones have none. */
static tutti_status build(const struct tree *t, uint64_t latency_ps, struct tt_topo **ret)
{
    const struct matrix *m = t->m;
    uint32_t vertex[2 * RANKS_MAX], switches = 0;
    for (uint32_t v = 0; v < t->nodes; v++)
        vertex[v] = v < m->n ? v : UINT32_MAX;
    for (uint32_t v = 0; v < t->nodes; v++) {
        const uint32_t p = t->parent[v];
        if (p != UINT32_MAX && vertex[p] == UINT32_MAX)
            vertex[p] = m->n + switches++;
    }
    struct tt_topo *topo = NULL;
    tutti_status st = tt_topo_new("custom", m->n, switches, &topo, m->err);
    if (st)
        return st;
    topo->spec = tt_strdup("matrix");
    topo->names = tt_zalloc((size_t)m->n + switches, sizeof *topo->names);
    st = topo->spec && topo->names ? add_links(t, vertex, latency_ps, topo)
                                   : tt_fail_memory(m->err, "topology");
    for (uint32_t i = 0; !st && i < m->n; i++)
        if (*m->label[i] && !(topo->names[i] = tt_strdup(m->label[i])))
            st = tt_fail_memory(m->err, "names");
    if (st) {
        tt_topo_free(topo);
        return st;
    }
    return tt_topo_finish(topo, ret, m->err);
}

static tutti_status make_tree(const struct matrix *m, uint64_t latency_ps, struct tt_topo **ret)
{
    const size_t most = 2 * (size_t)m->n;
    struct tree t = {m, tt_alloc(most, sizeof *t.parent), tt_alloc(m->n, sizeof *t.in),
                     tt_zalloc(most, sizeof *t.rate), m->n};
    tutti_status st = t.parent && t.in && t.rate ? TUTTI_OK : tt_fail_memory(m->err, "tree");
    for (uint32_t i = 0; !st && i < m->n; i++) {
        t.parent[i] = UINT32_MAX;
        t.in[i] = i;
    }
    if (!st) {
        grow(&t);
        st = build(&t, latency_ps, ret);
    }
    free(t.parent);
    free(t.in);
    free(t.rate);
    return st;
}

tutti_status tt_topo_import_matrix(const char *data, size_t len, const char *name, const char *unit,
                                   uint64_t latency_ps, struct tt_topo **ret,
                                   struct tutti_error *err)
{
    struct matrix m = {.name = name, .unit = unit, .at = data, .end = data + len, .err = err};
    tutti_status st = read_matrix(&m);
    if (!st)
        st = make_tree(&m, latency_ps, ret);
    free(m.rate);
    free(m.label);
    return st;
}
