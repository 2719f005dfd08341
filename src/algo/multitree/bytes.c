/* bytes.c - grown trees as bytes, so that they need not be grown again. Pure functions on memory:
 * plan/ keeps the bytes in files.
 *
 *     "tutti trees 1\n"  hash of the network (8)  ranks (4)  steps (4)  edges (4)  options (4)
 *     step after step:   number of edges, then for each edge its tree (as distance from the one
 *                        before) and its links
 *
 * Numbers of the second line are variable: 7 bits a byte, the lowest first, the top bit set when
 * more follow; a link is 2 id + 1 when another one of its edge follows, else 2 id. About 4 bytes an
 * edge: 4 MB for 1,024 ranks. Parents, children and steps follow from the links, and are checked
 * while reading: only whole trees of this very network are accepted, whatever the bytes are. The
 * number in the first line changes with the construction. Small forests are not worth keeping: they
 * grow faster than a file opens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algo/multitree/multitree.h"

static const char HEAD[14] = {'t', 'u', 't', 't', 'i', ' ', 't',
                              'r', 'e', 'e', 's', ' ', '1', '\n'};
enum { KEPT_EDGES = 128 * 127, HEADER = sizeof HEAD + 8 + 4 * 4 };

static uint32_t option_bits(const struct tt_multitree_options *o)
{
    return (uint32_t)o->paper_ending | (uint32_t)o->paper_order << 1 | (uint32_t)o->inward << 2;
}

void tt_multitree_name(const struct tt_topo *t, const struct tt_multitree_options *o, char *buf,
                       size_t cap)
{
    snprintf(buf, cap, "%016" PRIx64 "-%" PRIu32, t->hash, option_bits(o));
}

bool tt_multitree_worth_keeping(const struct tt_topo *t)
{
    return (uint64_t)t->ranks * (t->ranks - 1) >= KEPT_EDGES;
}

/* ---- writing ---- */

struct text {
    struct tt_vec bytes;
    bool failed;
};

/* Errors are sticky: the caller checks `failed` once. */
static void bytes_put(struct text *x, const void *p, size_t n)
{
    x->failed = x->failed || !tt_vec_push(&x->bytes, p, n);
}

static void put_number(struct text *x, uint32_t v)
{
    unsigned char b[5];
    size_t n = 0;
    for (; v >= 128; v >>= 7)
        b[n++] = (unsigned char)(v | 128);
    b[n++] = (unsigned char)v;
    bytes_put(x, b, n);
}

static void put_header(struct text *x, const struct tt_topo *t,
                       const struct tt_multitree_options *o, const struct tt_multitree_trees *f)
{
    uint32_t numbers[4] = {f->ranks, f->steps, f->nedges, option_bits(o)};
    bytes_put(x, HEAD, sizeof HEAD);
    bytes_put(x, &t->hash, sizeof t->hash);
    bytes_put(x, numbers, sizeof numbers);
}

/* Trees take turns, so the distance to the tree before is mostly a small number. */
static void put_edges(struct text *x, const struct tt_multitree_trees *f)
{
    uint32_t tree = 0;
    for (uint32_t i = 0, end; i < f->nedges; i = end) {
        for (end = i; end < f->nedges && f->edges[end].step == f->edges[i].step;)
            end++;
        put_number(x, end - i);
        for (uint32_t k = i; k < end; k++) {
            put_number(x, (f->edges[k].tree + f->ranks - tree) % f->ranks);
            tree = f->edges[k].tree;
            for (uint32_t j = f->edges[k].path; j < f->edges[k + 1].path; j++)
                put_number(x, 2 * f->links[j] + (j + 1 < f->edges[k + 1].path));
        }
    }
}

bool tt_multitree_encode(const struct tt_topo *t, const struct tt_multitree_options *o,
                         const struct tt_multitree_trees *f, struct tt_vec *ret)
{
    struct text x = {.bytes.elem = 1};
    put_header(&x, t, o, f);
    put_edges(&x, f);
    if (x.failed)
        tt_vec_free(&x.bytes);
    else
        *ret = x.bytes;
    return !x.failed;
}

/* ---- reading ---- */

struct reader {
    const unsigned char *at, *end;
    const struct tt_topo *t;
    struct tt_multitree_trees f;
    struct tt_vec links;
    uint32_t *joined; /* per tree and rank: step + 2; the root: 1; 0: not a member */
};

/* At most five bytes; values beyond 32 bits are refused. */
static bool get_number(struct reader *r, uint32_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35 && r->at < r->end; shift += 7) {
        v |= (uint64_t)(*r->at & 127) << shift;
        if (!(*r->at++ & 128)) {
            *ret = (uint32_t)v;
            return v <= UINT32_MAX;
        }
    }
    return false;
}

/* The links of an edge: from a rank through switches to a rank. Sets parent and child. */
static bool get_path(struct reader *r, struct tt_multitree_edge *e)
{
    const struct tt_topo *t = r->t;
    uint32_t v, at = UINT32_MAX;
    e->path = (uint32_t)r->links.len;
    do {
        if (!get_number(r, &v) || v / 4 >= t->nlinks)
            return false;
        uint32_t link = v / 2, a = t->links[link / 2].a, b = t->links[link / 2].b,
                 tail = link & 1 ? b : a;
        bool first = at == UINT32_MAX;
        if (first ? tail >= t->ranks : tail != at || tail < t->ranks)
            return false;
        e->parent = first ? tail : e->parent;
        at = link & 1 ? a : b;
        if (r->links.len >= UINT32_MAX || !tt_vec_push(&r->links, &link, 1))
            return false;
    } while (v & 1);
    e->child = at;
    return at < t->ranks;
}

/* The parent must have joined in an earlier step, the child must not have joined. */
static bool get_edge(struct reader *r, uint32_t step, uint32_t *tree, struct tt_multitree_edge *e)
{
    uint32_t n = r->f.ranks, turn;
    if (!get_number(r, &turn) || turn >= n || !get_path(r, e))
        return false;
    *tree = *tree + turn < n ? *tree + turn : *tree + turn - n;
    e->tree = *tree;
    e->step = step;
    uint32_t *joined = r->joined + (size_t)*tree * n;
    if (joined[e->parent] == 0 || joined[e->parent] > step + 1 || joined[e->child] != 0)
        return false;
    joined[e->child] = step + 2;
    return true;
}

/* n (n-1) valid edges, one for every rank and tree but the roots, are whole trees. */
static bool get_edges(struct reader *r)
{
    uint32_t tree = 0, done = 0;
    for (uint32_t step = 0; step < r->f.steps; step++) {
        uint32_t n;
        if (!get_number(r, &n) || n == 0 || n > r->f.nedges - done)
            return false;
        for (; n > 0; n--, done++)
            if (!get_edge(r, step, &tree, &r->f.edges[done]))
                return false;
    }
    r->f.edges[done] = (struct tt_multitree_edge){.path = (uint32_t)r->links.len};
    return done == r->f.nedges && r->at == r->end;
}

/* The number of edges sizes an allocation: it must be that of this network. */
static bool get_header(struct reader *r, const struct tt_multitree_options *o)
{
    uint64_t hash;
    uint32_t numbers[4];
    memcpy(&hash, r->at + sizeof HEAD, sizeof hash);
    memcpy(numbers, r->at + sizeof HEAD + sizeof hash, sizeof numbers);
    r->f =
        (struct tt_multitree_trees){.ranks = numbers[0], .steps = numbers[1], .nedges = numbers[2]};
    bool ok = memcmp(r->at, HEAD, sizeof HEAD) == 0 && hash == r->t->hash &&
              numbers[0] == r->t->ranks && numbers[3] == option_bits(o);
    r->at += HEADER;
    return ok && numbers[0] > 1 && (uint64_t)numbers[0] * (numbers[0] - 1) == numbers[2];
}

static bool decode(struct reader *r, const struct tt_multitree_options *o)
{
    if (!get_header(r, o))
        return false;
    uint32_t n = r->f.ranks;
    r->joined = tt_zalloc((size_t)n * n, sizeof *r->joined);
    r->f.edges = tt_alloc((size_t)r->f.nedges + 1, sizeof *r->f.edges);
    if (!r->joined || !r->f.edges)
        return false;
    for (uint32_t i = 0; i < n; i++)
        r->joined[(size_t)i * n + i] = 1;
    return get_edges(r);
}

bool tt_multitree_decode(const struct tt_topo *t, const struct tt_multitree_options *o,
                         const struct tt_vec *bytes, struct tt_multitree_trees *ret)
{
    struct reader r = {.at = bytes->data, .t = t, .links.elem = sizeof(uint32_t)};
    bool ok = bytes->len >= HEADER;
    if (ok) {
        r.end = r.at + bytes->len;
        ok = decode(&r, o);
    }
    free(r.joined);
    if (ok) {
        r.f.links = r.links.data;
        *ret = r.f;
        return true;
    }
    free(r.f.edges);
    tt_vec_free(&r.links);
    return false;
}

tutti_status tt_multitree_get(const struct tt_topo *t, const struct tt_multitree_options *o,
                              struct tt_algo_memo *m, struct tt_multitree_trees *ret,
                              struct tutti_error *err)
{
    if (tt_multitree_decode(t, o, &m->known, ret))
        return TUTTI_OK;
    tutti_status st = tt_multitree_make(t, o, ret, err);
    if (!st && m->name[0])
        /* without memory the trees are grown again next time */
        (void)tt_multitree_encode(t, o, ret, &m->found);
    return st;
}
