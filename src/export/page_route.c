/* page_route.c - the ways that messages take through the network of a page: as lists, or added up
 * over time when there are too many messages to show one by one.
 *
 * A message uses each link of its route at an even rate from its start to its end; latency is part
 * of that time, so that the use of a fast link of high latency looks smoother than it is. */
#include <math.h>
#include <stdlib.h>

#include "export/column.h"
#include "export/page_int.h"

/* The route of a message: its own, or the topology's. links has room for the longest. */
static tutti_status find_route(const struct tt_page_schedule *p, const struct tt_page_event *e,
                               uint32_t *room, uint32_t cap, const uint32_t **ret, uint32_t *ret_n,
                               struct tutti_error *err)
{
    const struct tt_sched_route *own =
        p->s->nroutes ? tt_sched_route(p->s, e->src, e->dst, e->channel) : NULL;
    *ret = own ? own->links : room;
    if (own) {
        *ret_n = own->nlinks;
        return TUTTI_OK;
    }
    return tt_topo_route(p->fold->t, e->src, e->dst, room, cap, ret_n, err);
}

static bool same_way(const struct tt_page_event *a, const struct tt_page_event *b)
{
    return a->src == b->src && a->dst == b->dst && a->channel == b->channel;
}

/* Events are sorted by connection. */
tutti_status tt_export_page_routes(const struct tt_page_schedule *p, struct tt_json_writer *w,
                                   struct tutti_error *err)
{
    enum { SRC, TO, CHANNEL, N, LINK, COLUMNS };
    static const char *const key[COLUMNS] = {"p_src", "p_to", "p_channel", "p_n", "p_link"};
    struct tt_column c[COLUMNS] = {0};
    const uint32_t cap = tt_topo_max_route(p->fold->t);
    uint32_t *room = tt_alloc((size_t)cap + 1, sizeof *room), n = 0;
    const uint32_t *links = NULL;
    tutti_status st = room ? TUTTI_OK : tt_fail_memory(err, "routes");
    for (size_t i = 0; !st && i < p->nevents; i++) {
        const struct tt_page_event *e = &p->event[i];
        if (i && same_way(e, e - 1))
            continue;
        st = find_route(p, e, room, cap, &links, &n, err);
        if (st)
            break;
        tt_export_column_add(&c[SRC], e->src);
        tt_export_column_add(&c[TO], (int64_t)e->dst - e->src);
        tt_export_column_add(&c[CHANNEL], e->channel);
        tt_export_column_add(&c[N], n);
        for (uint32_t k = 0; k < n; k++)
            tt_export_column_add(&c[LINK], links[k]);
    }
    for (int i = 0; i < COLUMNS; i++) {
        tt_json_key(w, key[i]);
        if (!tt_export_column_write(&c[i], w) && !st)
            st = tt_fail_memory(err, "routes");
    }
    free(room);
    return st;
}

/* Adds `bytes` that cross from start to end to the parts of the time that they touch. */
static void add_use(double *use, const struct tt_page_schedule *p, const struct tt_page_event *e,
                    double bytes)
{
    const double part = (double)p->time_ps / TT_PAGE_PARTS, start = (double)e->start_ps,
                 end = (double)e->end_ps;
    const double rate = end > start ? bytes / (end - start) : 0;
    for (int i = (int)(start / part); i < TT_PAGE_PARTS && i * part < end; i++)
        use[i] += rate * (fmin(end, (i + 1) * part) - fmax(start, i * part));
}

static void write_use(const struct tt_page_schedule *p, const double *use, struct tt_column *c)
{
    const struct tt_page_fold *f = p->fold;
    const double part_s = (double)p->time_ps * 1e-12 / TT_PAGE_PARTS;
    for (uint32_t l = 0; l < 2 * f->cables; l++) {
        const double could = f->link[l / 2].bw[l & 1] * part_s;
        for (int i = 0; i < TT_PAGE_PARTS; i++)
            tt_export_column_add(
                c, could > 0
                       ? (int64_t)fmin(
                             1000, round(1000 * use[(size_t)l * TT_PAGE_PARTS + (size_t)i] / could))
                       : 0);
    }
}

tutti_status tt_export_page_use(const struct tt_page_schedule *p, struct tt_json_writer *w,
                                struct tutti_error *err)
{
    const struct tt_page_fold *f = p->fold;
    const uint32_t cap = tt_topo_max_route(f->t);
    struct tt_column c = {0};
    double *use = tt_zalloc((size_t)f->cables * 2 * TT_PAGE_PARTS + 1, sizeof *use);
    uint32_t *room = tt_alloc((size_t)cap + 1, sizeof *room), n = 0;
    const uint32_t *links = NULL;
    tutti_status st = use && room ? TUTTI_OK : tt_fail_memory(err, "use of links");
    for (size_t i = 0; !st && p->time_ps && i < p->nevents; i++) {
        const struct tt_page_event *e = &p->event[i];
        st = find_route(p, e, room, cap, &links, &n, err);
        for (uint32_t k = 0; !st && k < n; k++) {
            const uint32_t cable = f->cable[links[k] / 2];
            if (cable != UINT32_MAX)
                add_use(use + ((size_t)cable * 2 + ((links[k] & 1) ^ f->turned[links[k] / 2])) *
                                  TT_PAGE_PARTS,
                        p, e, (double)e->bytes);
        }
    }
    if (!st)
        write_use(p, use, &c);
    tt_json_member_u64(w, "parts", TT_PAGE_PARTS);
    tt_json_key(w, "use");
    if (!tt_export_column_write(&c, w) && !st)
        st = tt_fail_memory(err, "use of links");
    free(use);
    free(room);
    return st;
}
