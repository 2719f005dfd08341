/* page.c - the data of pages over export/: networks, and schedules with the times of a simulation.
 *
 *     topology -> fold -> network
 *     schedule + fold + events of the simulation -> lists of messages and times */
#include "export/page.h"

#include <stdlib.h>

#include "api/api.h"
#include "export/export.h"

FILE *tutti_page_begin(FILE *out, const char *title)
{
    api_must("out", out, "title", title);
    return tt_export_page_begin(out, title);
}

void tutti_page_end(FILE *data, FILE *out)
{
    api_must("data", data, "out", out);
    tt_export_page_end(data, out);
}

void tutti_page_plain(FILE *out, const char *title)
{
    api_must("out", out, "title", title);
    tt_export_page_plain(out, title);
}

void tutti_xml_text(const char *text, FILE *out)
{
    api_must("text", text, "out", out);
    tt_export_xml_text(text, out);
}

const char *tutti_picture_colour(size_t i)
{
    return tt_export_colour(i);
}

tutti_status tutti_json_network(struct tutti_json *j, const char *key,
                                const struct tutti_topo *topo, struct tutti_error *err)
{
    struct tt_page_fold f;
    const struct api_topo *t = api_find(TOPO, topo, err);
    struct tt_json_writer *w = tt_api_json_value(j, key, __func__);
    tutti_status st = t ? tt_export_fold_make(t->t, &f, err) : TUTTI_ERR_ARG;
    if (st) {
        tt_json_null(w);
        return st;
    }
    st = tt_export_page_network(&f, w, err);
    tt_export_fold_free(&f);
    return st;
}

tutti_status tutti_json_vertices(struct tutti_json *j, const char *key,
                                 const struct tutti_topo *topo, const uint32_t *value,
                                 struct tutti_error *err)
{
    struct tt_page_fold f;
    const struct api_topo *t = api_find(TOPO, topo, err);
    struct tt_json_writer *w = tt_api_json_value(j, key, __func__);
    tutti_status st = t ? api_given(err, "value", value) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_export_fold_make(t->t, &f, err);
    if (st) {
        tt_json_null(w);
        return st;
    }
    st = tt_export_page_vertices(&f, value, w, err);
    tt_export_fold_free(&f);
    return st;
}

/* The messages of a simulation in the form of export/. The caller frees *ret. */
static tutti_status copy_events(const struct tutti_sim *sim, struct tt_page_event **ret,
                                size_t *ret_n, struct tutti_error *err)
{
    struct tutti_sim_event e;
    struct tt_vec all = {.elem = sizeof(struct tt_page_event)};
    for (size_t i = 0; tutti_sim_event(sim, i, &e); i++) {
        struct tt_page_event x = {.src = e.src,
                                  .dst = e.dst,
                                  .step = e.step,
                                  .channel = e.channel,
                                  .segment = e.segment,
                                  .bytes = e.bytes,
                                  .start_ps = e.start_ps,
                                  .end_ps = e.end_ps};
        if (!tt_vec_push(&all, &x, 1)) {
            tt_vec_free(&all);
            return tt_fail_memory(err, "messages");
        }
    }
    *ret = all.data;
    *ret_n = all.len;
    return TUTTI_OK;
}

tutti_status tutti_json_simulated(struct tutti_json *j, const char *key,
                                  const struct tutti_schedule *schedule,
                                  const struct tutti_topo *topo, const struct tutti_sim *sim,
                                  const struct tutti_plan_options *problem, struct tutti_error *err)
{
    struct tt_page_fold f = {0};
    struct tutti_sim_info info;
    const struct tt_sched *s = api_find(SCHEDULE, schedule, err);
    const struct api_topo *t = s ? api_find(TOPO, topo, err) : NULL;
    struct tt_json_writer *w = tt_api_json_value(j, key, __func__);
    struct tt_page_schedule p = {.s = s, .fold = &f};
    bool all = t && api_find(SIM, sim, err);
    tutti_status st = all ? api_given(err, "problem", problem) : TUTTI_ERR_ARG;
    if (!st)
        st = copy_events(sim, &p.event, &p.nevents, err);
    if (!st)
        st = tt_export_fold_make(t->t, &f, err);
    if (!st) {
        tutti_sim_info(sim, &info);
        p.count = problem->count;
        p.dtype = problem->dtype;
        p.time_ps = (uint64_t)(info.time_us * 1e6 + 0.5);
        st = tt_export_page_schedule(&p, w, err);
    } else {
        tt_json_null(w);
    }
    tt_export_fold_free(&f);
    free(p.event);
    return st;
}
