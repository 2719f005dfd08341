/* page_fold.c - which vertices of a large network are drawn as one, and the network of a page.
 *
 * Grids are folded in blocks: the longest dimension is halved (rounded up) until few enough groups
 * are left, so that what is drawn is a grid again. In other networks consecutive ranks are a group,
 * and consecutive switches. Cables between the same two groups are drawn as one. */
#include <stdlib.h>
#include <string.h>

#include "export/column.h"
#include "export/page.h"

void tt_export_fold_free(struct tt_page_fold *f)
{
    free(f->group);
    free(f->cable);
    free(f->turned);
    free(f->link);
    *f = (struct tt_page_fold){0};
}

/* Groups of a grid: blocks of block[d] positions in dimension d; the last dimension varies fastest.
 */
static void fold_grid(struct tt_page_fold *f)
{
    const struct tt_topo *t = f->t;
    uint32_t block[TT_TOPO_MAX_DIMS];
    uint64_t groups = 1;
    f->ndims = t->ndims;
    for (uint32_t d = 0; d < t->ndims; d++) {
        block[d] = 1;
        f->dims[d] = t->dims[d];
        groups *= t->dims[d];
    }
    while (groups > TT_PAGE_RANKS) {
        uint32_t longest = 0;
        for (uint32_t d = 1; d < t->ndims; d++)
            if (f->dims[d] > f->dims[longest])
                longest = d;
        block[longest] *= 2;
        groups = groups / f->dims[longest];
        f->dims[longest] = (t->dims[longest] + block[longest] - 1) / block[longest];
        groups *= f->dims[longest];
    }
    f->rank_groups = (uint32_t)groups;
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t rest = r, at = 0, factor = 1;
        for (uint32_t d = t->ndims; d-- > 0; rest /= t->dims[d]) {
            at += rest % t->dims[d] / block[d] * factor;
            factor *= f->dims[d];
        }
        f->group[r] = at;
    }
}

/* Consecutive vertices first..first+n-1 in at most `most` groups, numbered from `from`. */
static uint32_t fold_run(struct tt_page_fold *f, uint32_t first, uint32_t n, uint32_t most,
                         uint32_t from)
{
    const uint32_t each = n ? (n + most - 1) / most : 1;
    for (uint32_t i = 0; i < n; i++)
        f->group[first + i] = from + i / each;
    return (n + each - 1) / each;
}

static int compare_cables(const void *a, const void *b)
{
    const struct tt_link *x = a, *y = b;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

/* The drawn cable from group a to group b (a < b). */
static uint32_t find_cable(const struct tt_page_fold *f, uint32_t a, uint32_t b)
{
    const struct tt_link key = {.a = a, .b = b};
    return (
        uint32_t)((struct tt_link *)bsearch(&key, f->link, f->cables, sizeof key, compare_cables) -
                  f->link);
}

/* Joins the cables of a folded network by the groups of their ends. */
static void join_cables(struct tt_page_fold *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->t->nlinks; i++) {
        const struct tt_link *l = &f->t->links[i];
        const uint32_t a = f->group[l->a], b = f->group[l->b];
        f->turned[i] = a > b;
        if (a != b)
            f->link[n++] = (struct tt_link){.a = a < b ? a : b, .b = a < b ? b : a};
    }
    if (n)
        qsort(f->link, n, sizeof *f->link, compare_cables);
    for (uint32_t i = 0; i < n; i++)
        if (!f->cables || compare_cables(&f->link[i], &f->link[f->cables - 1]))
            f->link[f->cables++] = f->link[i];
    for (uint32_t i = 0; i < f->t->nlinks; i++) {
        const struct tt_link *l = &f->t->links[i];
        const uint32_t a = f->group[l->a], b = f->group[l->b];
        f->cable[i] = a == b ? UINT32_MAX : find_cable(f, a < b ? a : b, a < b ? b : a);
        if (a == b)
            continue;
        struct tt_link *to = &f->link[f->cable[i]];
        to->bw[f->turned[i]] += l->bw[0];
        to->bw[!f->turned[i]] += l->bw[1];
        to->latency_ps = to->latency_ps > l->latency_ps ? to->latency_ps : l->latency_ps;
        to->half = to->half || l->half;
    }
}

static void keep_all(struct tt_page_fold *f)
{
    const struct tt_topo *t = f->t;
    for (uint32_t v = 0; v < t->ranks + t->switches; v++)
        f->group[v] = v;
    for (uint32_t i = 0; i < t->nlinks; i++)
        f->cable[i] = i;
    if (t->nlinks)
        memcpy(f->link, t->links, t->nlinks * sizeof *f->link);
    f->rank_groups = t->ranks;
    f->groups = t->ranks + t->switches;
    f->cables = t->nlinks;
    f->ndims = t->ndims;
    memcpy(f->dims, t->dims, sizeof f->dims);
}

tutti_status tt_export_fold_make(const struct tt_topo *t, struct tt_page_fold *ret,
                                 struct tutti_error *err)
{
    struct tt_page_fold f = {.t = t,
                             .folded = t->ranks > TT_PAGE_RANKS || t->switches > TT_PAGE_RANKS};
    f.group = tt_alloc((size_t)t->ranks + t->switches, sizeof *f.group);
    f.cable = tt_alloc((size_t)t->nlinks + 1, sizeof *f.cable);
    f.turned = tt_zalloc((size_t)t->nlinks + 1, sizeof *f.turned);
    f.link = tt_zalloc((size_t)t->nlinks + 1, sizeof *f.link);
    if (!f.group || !f.cable || !f.turned || !f.link) {
        tt_export_fold_free(&f);
        return tt_fail_memory(err, "network of a page");
    }
    if (!f.folded) {
        keep_all(&f);
    } else {
        if (t->ndims && !t->switches)
            fold_grid(&f);
        else
            f.rank_groups = fold_run(&f, 0, t->ranks, TT_PAGE_RANKS, 0);
        f.groups =
            f.rank_groups + fold_run(&f, t->ranks, t->switches, TT_PAGE_RANKS, f.rank_groups);
        join_cables(&f);
    }
    *ret = f;
    return TUTTI_OK;
}

/* Names of vertices; a group's are those of its first and last vertex, which the script builds. */
static void write_names(const struct tt_page_fold *f, struct tt_json_writer *w)
{
    if (!f->t->names || f->folded)
        return;
    tt_json_key(w, "names");
    tt_json_array_compact(w);
    for (uint32_t v = 0; v < f->groups; v++)
        tt_json_string(w, f->t->names[v]);
    tt_json_array_end(w);
}

/* Bandwidths and latencies repeat: cables are given by the number of their class. */
static bool same_class(const struct tt_link *x, const struct tt_link *y)
{
    return x->bw[0] == y->bw[0] && x->bw[1] == y->bw[1] && x->latency_ps == y->latency_ps &&
           x->half == y->half;
}

/* Finds or adds the class of a cable; classes beyond 4,096 are not searched. */
static size_t class_of(struct tt_vec *classes, const struct tt_link *l)
{
    const struct tt_link *c = classes->data;
    for (size_t i = 0; i < classes->len && i < 4096; i++)
        if (same_class(&c[i], l))
            return i;
    return tt_vec_push(classes, l, 1) ? classes->len - 1 : 0;
}

static void write_classes(const struct tt_vec *classes, struct tt_json_writer *w)
{
    tt_json_key(w, "classes");
    tt_json_array(w);
    for (size_t i = 0; i < classes->len; i++) {
        const struct tt_link *l = tt_vec_at(classes, i);
        tt_json_array_compact(w);
        tt_json_real(w, l->bw[0]);
        tt_json_real(w, l->bw[1]);
        tt_json_real(w, (double)l->latency_ps / 1e6);
        tt_json_bool(w, l->half);
        tt_json_array_end(w);
    }
    tt_json_array_end(w);
}

static bool write_cables(const struct tt_page_fold *f, struct tt_json_writer *w)
{
    struct tt_vec classes = {.elem = sizeof(struct tt_link)};
    struct tt_column column[3] = {0};
    static const char *const key[3] = {"a", "b", "class"};
    bool ok = true;
    for (uint32_t i = 0; i < f->cables; i++) {
        const struct tt_link *l = &f->link[i];
        tt_export_column_add(&column[0], l->a);
        tt_export_column_add(&column[1], (int64_t)l->b - l->a);
        tt_export_column_add(&column[2], (int64_t)class_of(&classes, l));
    }
    ok = f->cables == 0 || classes.len > 0;
    for (int i = 0; i < 3; i++) {
        tt_json_key(w, key[i]);
        ok = tt_export_column_write(&column[i], w) && ok;
    }
    write_classes(&classes, w);
    tt_vec_free(&classes);
    return ok;
}

/* Ranks and switches of each drawn vertex, for its label. */
static bool write_members(const struct tt_page_fold *f, struct tt_json_writer *w)
{
    struct tt_column c = {0};
    if (!f->folded)
        return true;
    for (uint32_t v = 0; v < f->t->ranks + f->t->switches; v++)
        tt_export_column_add(&c, f->group[v]);
    tt_json_key(w, "group");
    return tt_export_column_write(&c, w);
}

tutti_status tt_export_page_network(const struct tt_page_fold *f, struct tt_json_writer *w,
                                    struct tutti_error *err)
{
    tt_json_object(w);
    tt_json_member_string(w, "spec", f->t->spec);
    tt_json_member_string(w, "kind", f->t->kind);
    tt_json_member_u64(w, "ranks", f->t->ranks);
    tt_json_member_u64(w, "switches", f->t->switches);
    tt_json_member_u64(w, "links", f->t->nlinks);
    tt_json_member_u64(w, "drawn_ranks", f->rank_groups);
    tt_json_member_u64(w, "drawn", f->groups);
    tt_json_member_bool(w, "wrap", f->t->wrap);
    tt_json_key(w, "dims");
    tt_json_array_compact(w);
    for (uint32_t d = 0; d < f->ndims; d++)
        tt_json_u64(w, f->dims[d]);
    tt_json_array_end(w);
    write_names(f, w);
    bool members = write_members(f, w), cables = write_cables(f, w); /* both, to keep the form */
    tt_json_object_end(w);
    return members && cables ? TUTTI_OK : tt_fail_memory(err, "network of a page");
}

tutti_status tt_export_page_vertices(const struct tt_page_fold *f, const uint32_t *value,
                                     struct tt_json_writer *w, struct tutti_error *err)
{
    struct tt_column c = {0};
    uint32_t *first = tt_alloc((size_t)f->groups + 1, sizeof *first);
    if (!first)
        return tt_fail_memory(err, "network of a page");
    for (uint32_t v = f->t->ranks + f->t->switches; v-- > 0;)
        first[f->group[v]] = v;
    for (uint32_t g = 0; g < f->groups; g++)
        tt_export_column_add(&c, value[first[g]] == UINT32_MAX ? -1 : (int64_t)value[first[g]]);
    free(first);
    return tt_export_column_write(&c, w) ? TUTTI_OK : tt_fail_memory(err, "network of a page");
}
