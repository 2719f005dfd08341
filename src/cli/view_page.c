/* view_page.c - the document of a page of schedules: problem, network, bound, and for each plan the
 * summary of its simulation, its proof and its messages. docs/reference/formats.md says nothing
 * about it: the page's script is its only reader. */
#include "cli/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A cut or a partition, as a number per vertex. */
static tutti_status put_sides(struct tutti_json *j, const char *key, const struct view *v,
                              const uint8_t *side, const uint32_t *part, struct tutti_error *err)
{
    struct tutti_topo_info info;
    if (tutti_topo_info(v->t, &info, err))
        return TUTTI_ERR_ARG;
    if (part)
        return tutti_json_vertices(j, key, v->t, part, err);
    size_t n = (size_t)info.ranks + info.switches;
    uint32_t *value = calloc(n + 1, sizeof *value);
    for (size_t i = 0; value && i < n; i++)
        value[i] = side[i];
    tutti_status st = TUTTI_OK;
    if (value)
        st = tutti_json_vertices(j, key, v->t, value, err);
    free(value);
    return st;
}

/* Every kind of bound; of the cut and the partition, where they lie. */
static tutti_status put_bound(struct tutti_json *j, const struct view *v, struct tutti_error *err)
{
    struct tutti_bound *b = NULL;
    struct tutti_bound_info info;
    struct tutti_bound_partition p = {0};
    double bytes = 0, capacity = 0;
    const struct tutti_plan_options *o = &v->problem.o;
    tutti_status st = tutti_bound_make(v->t, o->coll, o->root, v->problem.bytes, &b, err);
    if (st)
        return st;
    tutti_json_object(j, "bound");
    tutti_json_u64(j, "best", tutti_bound_best(b));
    tutti_json_array(j, "kinds");
    for (size_t i = 0; tutti_bound_get(b, i, &info); i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "kind", info.kind);
        tutti_json_bool(j, "applies", info.applies);
        tutti_json_bool(j, "complete", info.complete);
        tutti_json_real(j, "bound_us", info.bound_us);
        tutti_json_string(j, "certificate", info.certificate);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    const uint8_t *side = tutti_bound_cut(b, &bytes, &capacity);
    const uint32_t *part = tutti_bound_parts(b, &p);
    if (side)
        st = put_sides(j, "cut", v, side, NULL, err);
    if (part && !st)
        st = put_sides(j, "parts", v, NULL, part, err);
    tutti_json_end(j);
    tutti_bound_free(b);
    return st;
}

static void put_proof(struct tutti_json *j, const struct tutti_verdict *p)
{
    tutti_json_object(j, "proof");
    tutti_json_bool(j, "exact", p->exact);
    tutti_json_real(j, "error_probability", p->error_probability);
    tutti_json_u64(j, "ops", p->ops);
    tutti_json_u64(j, "messages", p->messages);
    tutti_json_end(j);
}

/* Per rank and per directed link; the script folds them where the network is folded. */
static void put_loads(struct tutti_json *j, const struct tutti_sim *sim)
{
    struct tutti_sim_rank r;
    struct tutti_sim_link l;
    tutti_json_array(j, "idle_us");
    for (size_t i = 0; tutti_sim_rank(sim, i, &r); i++)
        tutti_json_real(j, NULL, round(r.idle_us * 1e3) / 1e3);
    tutti_json_end(j);
    tutti_json_array(j, "link_use");
    for (size_t i = 0; tutti_sim_link(sim, i, &l); i++)
        tutti_json_real(j, NULL, round(l.utilisation * 1e4) / 1e4);
    tutti_json_end(j);
}

/* What tutti sim reports, as fields of the open object. */
static void put_summary(struct tutti_json *j, const struct view *v, const struct view_plan *p)
{
    struct tutti_schedule_info s;
    struct tutti_sim_info x;
    char name[400];
    tutti_schedule_info(p->s, &s);
    tutti_sim_info(p->sim, &x);
    tutti_json_string(j, "options", s.options);
    tutti_json_u64(j, "segments", s.segments);
    tutti_json_u64(j, "steps", x.steps);
    tutti_json_u64(j, "messages", x.messages);
    tutti_json_real(j, "time_us", x.time_us);
    tutti_json_u64(j, "links", x.links);
    tutti_json_u64(j, "links_used", x.links_used);
    tutti_json_u64(j, "bytes_on_busiest_link", x.bytes_on_busiest_link);
    tutti_json_u64(j, "busiest_link", x.busiest_link);
    tutti_json_string(j, "busiest_link_name",
                      x.messages ? tutti_topo_link_name(v->t, x.busiest_link, name, sizeof name)
                                 : NULL);
    tutti_json_u64(j, "max_link_contention", x.max_link_contention);
    tutti_json_bool(j, "uneven", s.uneven);
    if (s.ranks <= 256)
        put_loads(j, p->sim);
}

static tutti_status put_plan(struct tutti_json *j, const struct view *v, const struct view_plan *p,
                             struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    tutti_json_object(j, NULL);
    tutti_json_string(j, "algo", p->name);
    tutti_json_string(j, "file", p->file);
    if (*p->why) {
        tutti_json_string(j, "refused", p->why);
    } else {
        put_summary(j, v, p);
        put_proof(j, &p->verdict);
        st = tutti_json_simulated(j, "schedule", p->s, v->t, p->sim, &v->problem.o, err);
    }
    tutti_json_end(j);
    return st;
}

static tutti_status put_document(struct tutti_json *j, const struct view *v, const char *title,
                                 struct tutti_error *err)
{
    tutti_json_object(j, NULL);
    tutti_json_string(j, "page", "schedules");
    tutti_json_string(j, "version", tutti_version());
    tutti_json_string(j, "title", title);
    tutti_json_string(j, "coll", tutti_coll_name(v->problem.o.coll));
    tutti_json_string(j, "dtype", tutti_dtype_name(v->problem.o.dtype));
    tutti_json_u64(j, "bytes", v->problem.bytes);
    tutti_json_bool(j, "made_up", v->made_up);
    tutti_status st = tutti_json_network(j, "network", v->t, err);
    if (!st)
        st = put_bound(j, v, err);
    tutti_json_array(j, "plans");
    for (size_t i = 0; i < v->n && !st; i++)
        st = put_plan(j, v, &v->plan[i], err);
    tutti_json_end(j);
    tutti_json_end(j);
    return st;
}

int cli_view_page(const struct cli_args *a, const struct view *v, FILE *out)
{
    struct tutti_error err = {0};
    char title[300], size[64];
    struct tutti_topo_info info;
    if (tutti_topo_info(v->t, &info, &err))
        return cli_fail(a, &err);
    snprintf(title, sizeof title, "%s of %s on %.200s", tutti_coll_name(v->problem.o.coll),
             tutti_format_size(v->problem.bytes, size, sizeof size), info.spec);
    FILE *data = tutti_page_begin(out, title);
    struct tutti_json *j = data ? tutti_json_open(data) : NULL;
    if (!j) {
        if (data)
            fclose(data);
        return cli_bad(a, "out of memory");
    }
    tutti_status st = put_document(j, v, title, &err);
    tutti_json_close(j);
    tutti_page_end(data, out);
    return st ? cli_fail(a, &err) : 0;
}
