/* view_run.c - the page of a real run: its trace beside simulations of the plans that it used, on
 * the network that its ranks planned on. A plan that cannot be made again (one of the user's, or of
 * another version) is shown without a simulation, with the reason. */
#include "cli/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIMULATED = 6 }; /* the plans that took the most time */

/* Is plan i one of those to simulate? */
static bool is_chosen(const struct tutti_run *run, size_t i)
{
    struct tutti_run_plan mine, other;
    size_t above = 0;
    tutti_run_plan(run, i, &mine);
    for (size_t k = 0; tutti_run_plan(run, k, &other); k++)
        above += other.total_us > mine.total_us || (other.total_us == mine.total_us && k < i);
    return above < SIMULATED && mine.calls && mine.count;
}

/* Plans and simulates what calls have used. False: p->why says why not. */
static bool repeat_plan(const struct tutti_topo *t, const struct tutti_run_plan *r,
                        struct tutti_plan_options *o, struct view_plan *p)
{
    struct tutti_error err = {0};
    struct tutti_sim_options sim = {.timeline = true};
    char options[256];
    bool has = strstr(r->options, "segments=") != NULL || r->segments <= 1;
    snprintf(options, sizeof options, "%s%ssegments=%u", r->options, *r->options ? "," : "",
             r->segments);
    *o = (struct tutti_plan_options){.size = sizeof *o,
                                     .coll = r->coll,
                                     .dtype = r->dtype,
                                     .redop = r->redop,
                                     .root = r->root,
                                     .count = r->count,
                                     .algo = r->algo,
                                     .options = has ? r->options : options};
    bool ok = !tutti_plan_make(t, o, &p->plan, &err) &&
              !tutti_plan_schedule(p->plan, &p->s, &err) &&
              !tutti_sim_run(p->s, t, o->count, o->dtype, &sim, &p->sim, &err);
    snprintf(p->why, sizeof p->why, "%s", ok ? "" : err.text);
    o->options = NULL;
    return ok;
}

static tutti_status put_plan(struct tutti_json *j, const struct tutti_run *run, size_t i,
                             const struct tutti_topo *t, struct tutti_error *err)
{
    struct tutti_run_plan r;
    struct view_plan p = {0};
    struct tutti_plan_options o;
    struct tutti_sim_info info;
    struct tutti_plan_info plan;
    tutti_status st = TUTTI_OK;
    tutti_run_plan(run, i, &r);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "algo", r.algo);
    tutti_json_string(j, "options", r.options);
    tutti_json_string(j, "coll", tutti_coll_name(r.coll));
    tutti_json_u64(j, "bytes", r.count * tutti_dtype_bytes(r.dtype));
    if (t && is_chosen(run, i) && repeat_plan(t, &r, &o, &p)) {
        tutti_sim_info(p.sim, &info);
        tutti_plan_info(p.plan, NULL, &plan);
        tutti_json_real(j, "time_us", info.time_us);
        tutti_json_real(j, "predicted_us", plan.predicted_us);
        st = tutti_json_simulated(j, "schedule", p.s, t, p.sim, &o, err);
    } else {
        tutti_json_string(j, "refused",
                          *p.why ? p.why
                          : t    ? "not simulated"
                                 : "the trace has no network");
    }
    tutti_json_end(j);
    tutti_sim_free(p.sim);
    tutti_schedule_free(p.s);
    tutti_plan_free(p.plan);
    return st;
}

static tutti_status put_run(struct tutti_json *j, const struct tutti_run *run,
                            const struct tutti_topo *t, const char *title, struct tutti_error *err)
{
    struct tutti_run_info info;
    struct tutti_run_plan r;
    tutti_run_info(run, &info);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "page", "run");
    tutti_json_string(j, "version", tutti_version());
    tutti_json_string(j, "title", title);
    tutti_json_u64(j, "ranks", info.ranks);
    tutti_json_u64(j, "lost", info.lost);
    tutti_json_array(j, "colls");
    for (int c = 0; c < TUTTI_COLL_COUNT; c++)
        tutti_json_string(j, NULL, tutti_coll_name((tutti_coll)c));
    tutti_json_end(j);
    tutti_status st = t ? tutti_json_network(j, "network", t, err) : TUTTI_OK;
    if (!st)
        st = tutti_json_run(j, "run", run, err);
    tutti_json_array(j, "plans");
    for (size_t i = 0; !st && tutti_run_plan(run, i, &r); i++)
        st = put_plan(j, run, i, t, err);
    tutti_json_end(j);
    tutti_json_end(j);
    return st;
}

int cli_view_run(const struct cli_args *a, const char *path, FILE *out)
{
    struct tutti_run *run = NULL;
    struct tutti_topo *t = NULL;
    struct tutti_error err = {0}, none;
    char title[400];
    if (tutti_run_read(path, &run, &err))
        return cli_fail(a, &err);
    if (tutti_run_topo(run, &t, &none))
        fprintf(stderr, "tutti view: no simulation: %s\n", none.text);
    const char *slash = strrchr(path, '/');
    snprintf(title, sizeof title, "What happened: %.300s", slash ? slash + 1 : path);
    FILE *data = tutti_page_begin(out, title);
    struct tutti_json *j = data ? tutti_json_open(data) : NULL;
    tutti_status st = j ? put_run(j, run, t, title, &err) : TUTTI_ERR_MEMORY;
    tutti_json_close(j);
    if (data)
        tutti_page_end(data, out);
    tutti_topo_free(t);
    tutti_run_free(run);
    return !j ? cli_bad(a, "out of memory") : st ? cli_fail(a, &err) : 0;
}
