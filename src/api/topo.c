/* topo.c - the public functions of topologies over topo/.
 *
 * A topology is counted: its handle and everything made from it hold it (api_topo.holders), and the
 * last one frees it, so that callers may free their objects in any order.
 *
 *     handle ----.
 *     plan ------+--> struct api_topo (holders = 3) --> struct tt_topo, cache of schedules
 *     simulation-'
 *
 * Directed links are numbered 2 * cable and 2 * cable + 1, one for each direction. */
#include "api/api.h"

#include <stdlib.h>

#include "topo/import.h"

/* const is cast away for the counter only. */
struct api_topo *tt_api_topo_hold(const struct api_topo *t)
{
    struct api_topo *held = (struct api_topo *)(uintptr_t)t;
    atomic_fetch_add(&held->holders, 1);
    return held;
}

/* The last holder frees. fetch_sub returns the value before: more than 1 means that others
 * remain. Its default order (seq_cst) makes their uses happen before the free. */
void tt_api_topo_release(struct api_topo *t)
{
    if (!t || atomic_fetch_sub(&t->holders, 1) > 1)
        return;
    tt_topo_free(t->t);
    tt_plan_cache_free(t->plans);
    free(t);
}

tutti_status tt_api_topo_wrap(struct tt_topo *t, bool plans, struct tutti_topo **ret,
                              struct tutti_error *err)
{
    struct api_topo *topo = tt_zalloc(1, sizeof *topo);
    if (!topo) {
        tt_topo_free(t);
        return tt_fail_memory(err, "topology");
    }
    topo->t = t;
    topo->plans = plans ? tt_plan_cache_of_schedules() : NULL;
    topo->holders = 1;
    void *handle = tt_api_make(API_TOPO, topo, NULL, err);
    if (!handle) {
        tt_api_topo_release(topo);
        return TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

tutti_status tutti_topo_parse(const char *spec, struct tutti_topo **ret_topo,
                              struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = api_given(err, "spec", spec, "ret_topo", ret_topo);
    if (!st)
        st = tt_topo_open(spec, &t, err);
    return st ? st : tt_api_topo_wrap(t, true, ret_topo, err);
}

tutti_status tutti_topo_spec(const char *spec, struct tutti_topo **ret, struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = api_given(err, "spec", spec, "ret", ret);
    if (!st)
        st = tt_topo_parse(spec, &t, err);
    return st ? st : tt_api_topo_wrap(t, true, ret, err);
}

tutti_status tutti_topo_import(const struct tutti_import *from, struct tutti_topo **ret,
                               struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = api_given(err, "from", from, "ret", ret);
    if (!st)
        st = api_given(err, "from->kind", from->kind, "from->path", from->path);
    if (!st)
        st = tt_topo_import(&(struct tt_import){.kind = from->kind,
                                                .path = from->path,
                                                .unit = from->unit,
                                                .link = from->link,
                                                .latency_ps = from->latency_ps},
                            &t, err);
    return st ? st : tt_api_topo_wrap(t, true, ret, err);
}

tutti_status tutti_topo_load(const char *path, struct tutti_topo **ret_topo,
                             struct tutti_error *err)
{
    FILE *in;
    const char *name;
    struct tt_topo *t = NULL;
    tutti_status st = api_given(err, "path", path, "ret_topo", ret_topo);
    if (!st)
        st = tt_api_open(path, "r", &in, &name, err);
    if (st)
        return st;
    st = tt_topo_read(in, name, &t, err);
    tt_api_close(in, name, false, NULL);
    return st ? st : tt_api_topo_wrap(t, true, ret_topo, err);
}

/* Puts the parts together to a spec and parses that: one parser for both. */
tutti_status tutti_topo_generate(const char *kind, const char *params, const char *link,
                                 struct tutti_topo **ret_topo, struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    struct tt_str spec = {0};
    tutti_status st = api_given(err, "kind", kind, "params", params, "ret_topo", ret_topo);
    if (st)
        return st;
    tt_str_printf(&spec, "%s:%s%s%s", kind, params, link ? "@" : "", link ? link : "");
    st = spec.failed ? tt_fail_memory(err, "spec") : tt_topo_parse(spec.s, &t, err);
    tt_str_free(&spec);
    return st ? st : tt_api_topo_wrap(t, true, ret_topo, err);
}

tutti_status tutti_topo_write(const struct tutti_topo *topo, const char *path,
                              struct tutti_error *err)
{
    FILE *out;
    const char *name;
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "path", path) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_api_open(path, "w", &out, &name, err);
    if (st)
        return st;
    st = tt_topo_write(t->t, out, err);
    tutti_status closed = tt_api_close(out, name, true, st ? NULL : err);
    return st ? st : closed;
}

/* The topology behind a handle, for functions without a status: aborts on a bad one. */
static const struct tt_topo *must_see(const struct tutti_topo *topo, const char *function)
{
    return ((const struct api_topo *)tt_api_needed(API_TOPO, topo, function))->t;
}

uint32_t tutti_topo_ranks(const struct tutti_topo *topo)
{
    return must_see(topo, __func__)->ranks;
}

void tutti_topo_free(struct tutti_topo *topo)
{
    tt_api_topo_release(api_end(TOPO, topo));
}

bool tutti_topo_kind_get(size_t i, struct tutti_topo_kind_info *ret)
{
    size_t n;
    api_must("ret", ret);
    const struct tt_topo_kind *kinds = tt_topo_kinds(&n);
    if (i >= n)
        return false;
    *ret = (struct tutti_topo_kind_info){kinds[i].name, kinds[i].form, kinds[i].example,
                                         kinds[i].desc};
    return true;
}

/* Ranges of bandwidth and latency over all links, in both directions. The first link sets both
 * ends. */
static void link_ranges(const struct tt_topo *t, struct tutti_topo_info *ret)
{
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        double lo = l->bw[0] < l->bw[1] ? l->bw[0] : l->bw[1],
               hi = l->bw[0] < l->bw[1] ? l->bw[1] : l->bw[0];
        double lat = tt_api_us(l->latency_ps);
        ret->min_bw = i && ret->min_bw < lo ? ret->min_bw : lo;
        ret->max_bw = i && ret->max_bw > hi ? ret->max_bw : hi;
        ret->min_latency_us = i && ret->min_latency_us < lat ? ret->min_latency_us : lat;
        ret->max_latency_us = i && ret->max_latency_us > lat ? ret->max_latency_us : lat;
        ret->half = ret->half || l->half;
    }
}

tutti_status tutti_topo_info(const struct tutti_topo *topo, struct tutti_topo_info *ret,
                             struct tutti_error *err)
{
    const struct api_topo *object = api_find(TOPO, topo, err);
    struct tt_topo_metrics m;
    uint64_t bisection;
    bool exact;
    tutti_status st = object ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (st)
        return st;
    const struct tt_topo *t = object->t;
    st = tt_topo_measure(t, &m, err);
    if (!st)
        st = tt_topo_bisection(t, &bisection, &exact, err);
    if (st)
        return st;
    *ret = (struct tutti_topo_info){.spec = t->spec,
                                    .kind = t->kind,
                                    .ranks = m.ranks,
                                    .switches = m.switches,
                                    .links = m.links,
                                    .degree = m.degree,
                                    .diameter = m.diameter,
                                    .mean_path = m.mean_path,
                                    .ports = t->ports,
                                    .gamma = t->gamma,
                                    .overhead_us = tt_api_us(t->overhead_ps),
                                    .hash = t->hash,
                                    .bisection = bisection,
                                    .bisection_exact = exact,
                                    .distances_exact = m.exact};
    link_ranges(t, ret);
    return TUTTI_OK;
}

/* Millimetres to metres; the mean is over all cables. */
bool tutti_topo_floor(const struct tutti_topo *topo, uint32_t per_rack,
                      struct tutti_topo_floor *ret)
{
    struct tt_topo_floor f;
    const struct tt_topo *t = must_see(topo, __func__);
    uint32_t cables = t->nlinks;
    api_must("ret", ret);
    if (!tt_topo_floor(t, per_rack, &f))
        return false;
    *ret = (struct tutti_topo_floor){.per_rack = f.per_rack,
                                     .racks = f.racks,
                                     .rows = f.rows,
                                     .columns = f.columns,
                                     .between_racks = f.between,
                                     .total_m = (double)f.total_mm / 1e3,
                                     .mean_m = cables ? (double)f.total_mm / 1e3 / cables : 0,
                                     .max_m = (double)f.longest_mm / 1e3};
    return true;
}

uint32_t tutti_topo_nowhere(const struct tutti_topo *topo, uint32_t *ret_first)
{
    const struct tt_topo *t = must_see(topo, __func__);
    uint32_t first;
    api_must("ret_first", ret_first);
    uint32_t n = tt_topo_nowhere(t, &first);
    if (n)
        *ret_first = first;
    return n;
}

uint64_t tutti_topo_hash(const struct tutti_topo *topo)
{
    return must_see(topo, __func__)->hash;
}

void tutti_topo_write_dot(const struct tutti_topo *topo, FILE *out)
{
    const struct tt_topo *t = must_see(topo, __func__);
    api_must("out", out);
    tt_topo_write_dot(t, out);
}

void tutti_topo_write_simgrid(const struct tutti_topo *topo, FILE *out)
{
    const struct tt_topo *t = must_see(topo, __func__);
    api_must("out", out);
    tt_topo_write_simgrid(t, out);
}

tutti_status tutti_topo_write_ns3(const struct tutti_topo *topo, FILE *out, struct tutti_error *err)
{
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "out", out) : TUTTI_ERR_ARG;
    return st ? st : tt_topo_write_ns3(t->t, out, err);
}

char *tutti_topo_vertex_name(const struct tutti_topo *topo, uint32_t vertex, char *buf, size_t cap)
{
    const struct tt_topo *t = must_see(topo, __func__);
    api_must("buf", buf);
    return tt_topo_vertex_name(t, vertex, buf, cap);
}

/* Directed link 2 * cable goes from a to b, 2 * cable + 1 back. */
char *tutti_topo_link_name(const struct tutti_topo *topo, uint32_t directed_link, char *buf,
                           size_t cap)
{
    const struct tt_topo *t = must_see(topo, __func__);
    bool back = directed_link & 1;
    char from[64], to[64];
    api_must("buf", buf);
    if (directed_link / 2 >= t->nlinks)
        tt_api_stop(__func__, "there is no link %u", directed_link);
    const struct tt_link *l = &t->links[directed_link / 2];
    tt_topo_vertex_name(t, back ? l->b : l->a, from, sizeof from);
    tt_topo_vertex_name(t, back ? l->a : l->b, to, sizeof to);
    snprintf(buf, cap, "%s -> %s", from, to);
    return buf;
}

tutti_status tutti_topo_find_links(const struct tutti_topo *topo, const char *text, uint32_t **ret,
                                   size_t *ret_n, struct tutti_error *err)
{
    struct tt_vec links;
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "text", text, "ret", ret, "ret_n", ret_n) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_topo_find_links(t->t, text, &links, err);
    if (st)
        return st;
    *ret = links.data;
    *ret_n = links.len;
    return TUTTI_OK;
}

/* Chooses by latency. Hosts on Ethernet share links by congestion control and have deep buffers,
 * which fluids resemble; links of less than a microsecond have credits and short buffers. */
const char *tutti_topo_sim_level(const struct tutti_topo *topo, const char **ret_why)
{
    const struct tt_topo *t = must_see(topo, __func__);
    uint64_t slowest = 0;
    api_must("ret_why", ret_why);
    for (uint32_t i = 0; i < t->nlinks; i++)
        slowest = t->links[i].latency_ps > slowest ? t->links[i].latency_ps : slowest;
    if (t->memory.npoints) {
        *ret_why = "ranks share one memory, whose measured times only level step knows";
        return "step";
    }
    if (slowest >= 1000000) {
        *ret_why = "links of 1 us or more are those of hosts on Ethernet, whose transports share "
                   "links fairly";
        return "flow";
    }
    *ret_why = "links under 1 us are those of interconnects with credits and short buffers (on a "
               "chip or board, InfiniBand)";
    return "packet";
}

tutti_status tutti_topo_find_rank(const struct tutti_topo *topo, const char *text, uint32_t *ret,
                                  struct tutti_error *err)
{
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "text", text, "ret", ret) : TUTTI_ERR_ARG;
    return st ? st : tt_topo_find_rank(t->t, text, ret, err);
}

/* Slows every link of the rank, in both directions. A half-duplex cable has one capacity: one
 * change. */
static bool add_rank(const struct tt_topo *t, const struct tutti_sim_slow *slow,
                     struct tt_vec *changes)
{
    bool ok = true;
    for (uint32_t i = 0; i < t->nlinks && ok; i++)
        if (t->links[i].a == slow->rank || t->links[i].b == slow->rank) {
            const struct tt_topo_change both[2] = {{2 * i, slow->factor},
                                                   {2 * i + 1, slow->factor}};
            ok = tt_vec_push(changes, both, t->links[i].half ? 1 : 2) != NULL;
        }
    return ok;
}

/* A slow rank is translated to its slow links; topo/ knows only links. */
tutti_status tutti_topo_change(const struct tutti_topo *topo, const struct tutti_sim_slow *slow,
                               size_t nslow, const struct tutti_sim_degrade *degrade,
                               size_t ndegrade, struct tutti_topo **ret, struct tutti_error *err)
{
    const struct api_topo *t = api_find(TOPO, topo, err);
    struct tt_vec changes = {.elem = sizeof(struct tt_topo_change)};
    struct tt_topo *changed = NULL;
    tutti_status st = t ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (!st && nslow)
        st = api_given(err, "slow", slow);
    if (!st && ndegrade)
        st = api_given(err, "degrade", degrade);
    if (st)
        return st;
    bool ok = true;
    for (size_t i = 0; i < nslow && ok; i++)
        ok = add_rank(t->t, &slow[i], &changes);
    for (size_t i = 0; i < ndegrade && ok; i++)
        ok = tt_vec_push(&changes, &(struct tt_topo_change){degrade[i].link, degrade[i].factor},
                         1) != NULL;
    st = ok ? tt_topo_change(t->t, changes.data, changes.len, &changed, err)
            : tt_fail_memory(err, "changes");
    tt_vec_free(&changes);
    return st ? st : tt_api_topo_wrap(changed, true, ret, err);
}
