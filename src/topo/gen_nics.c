/* gen_nics.c - `nics:` hosts on one switch, each with a rate of its own: nics:25G,6x10G is seven
 * ranks, of which the first has 25 Gbit/s. */
#include <string.h>

#include "topo/topo_int.h"

/* "25G" or "6x25G": the number of ranks, and where the rate begins. */
static tutti_status nic_count(const struct tt_spec *s, size_t arg, uint32_t *ret_n,
                              const char **ret_rate, struct tutti_error *err)
{
    static const uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    const char *text = tt_topo_spec_arg(s, arg);
    size_t n = strspn(text, "0123456789");
    char number[32];
    *ret_n = 1;
    *ret_rate = text;
    if (!n || text[n] != 'x')
        return TUTTI_OK;
    *ret_rate = text + n + 1;
    snprintf(number, sizeof number, "%.*s", n < sizeof number ? (int)n : (int)sizeof number - 1,
             text);
    return tt_topo_spec_count(s, "number of ranks", number, range, ret_n, err);
}

/* The sum is checked before anything is allocated. */
static tutti_status count_nics(const struct tt_spec *s, uint32_t *ret, struct tutti_error *err)
{
    uint64_t ranks = 0;
    tutti_status st = TUTTI_OK;
    for (size_t i = 0; i < s->args.len && !st; i++) {
        uint32_t n;
        const char *rate;
        st = nic_count(s, i, &n, &rate, err);
        if (!st)
            st = tt_topo_spec_limit(s, ranks += n, 0, err);
    }
    *ret = (uint32_t)ranks;
    return st;
}

/* Adds the ranks of one parameter, from rank *next on. */
static tutti_status add_nics(struct tt_topo *t, const struct tt_spec *s, size_t arg, uint32_t *next,
                             struct tutti_error *err)
{
    struct tt_link l = s->link;
    uint32_t n;
    const char *rate;
    tutti_status st = nic_count(s, arg, &n, &rate, err);
    if (!st && (st = tt_parse_rate(rate, &l.bw[0], err)))
        tt_fail_prefix(err, "nics: bandwidth of rank %u", *next);
    l.b = t->ranks;
    l.bw[1] = l.bw[0];
    for (uint32_t k = 0; !st && k < n; k++) {
        uint32_t r = l.a = (*next)++;
        t->tree->parent[r + 1] = 0;
        t->tree->rank[r + 1] = r;
        t->tree->uplink[r + 1] = r;
        st = tt_topo_add_link(t, &l, err);
    }
    return st;
}

/* Every rank has a rate of its own, so the bandwidth of the link part is not used. */
tutti_status tt_topo_gen_nics(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    uint32_t n = 0, next = 0;
    tutti_status st = count_nics(s, &n, err);
    if (!st)
        st = tt_topo_new("nics", n, 1, &t, err);
    if (st)
        return st;
    t->routing = TT_ROUTE_STAR;
    st = tt_topo_tree_new(n + 1, &t->tree, err);
    for (size_t i = 0; i < s->args.len && !st; i++)
        st = add_nics(t, s, i, &next, err);
    if (!st)
        st = tt_topo_tree_link(t->tree, err);
    if (!st)
        *ret = t;
    else
        tt_topo_free(t);
    return st;
}
