/* run.c - the public functions of traces over export/run.h. The topology inside of a trace is read
 * from the file again when it is asked for. */
#include "export/run.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"

enum { TOPO_MAX = 64 << 20 };

struct api_run {
    struct tt_run r;
    char *path;
};

bool tutti_run_is(const char *path)
{
    char head[128] = "";
    FILE *in = !path || tt_streq(path, "-") ? NULL : fopen(path, "r");
    if (!in)
        return false;
    size_t n = fread(head, 1, sizeof head - 1, in);
    fclose(in);
    head[n] = 0;
    return strstr(head, "\"tutti-trace\"") != NULL;
}

static void run_free(struct api_run *run)
{
    if (!run)
        return;
    tt_export_run_free(&run->r);
    free(run->path);
    free(run);
}

tutti_status tutti_run_read(const char *path, struct tutti_run **ret, struct tutti_error *err)
{
    FILE *in;
    const char *name;
    tutti_status st = api_given(err, "path", path, "ret", ret);
    if (!st)
        st = tt_api_open(path, "r", &in, &name, err);
    if (st)
        return st;
    struct api_run *run = tt_zalloc(1, sizeof *run);
    if (run)
        run->path = tt_strdup(path);
    st = run && run->path ? tt_export_run_read(in, name, &run->r, err)
                          : tt_fail_memory(err, "trace");
    tt_api_close(in, name, false, NULL);
    void *handle = st ? NULL : tt_api_make(API_RUN, run, NULL, err);
    if (!handle) {
        run_free(run);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_run_free(struct tutti_run *run)
{
    run_free(api_end(RUN, run));
}

void tutti_run_info(const struct tutti_run *run, struct tutti_run_info *ret)
{
    const struct api_run *x = api_need(RUN, run);
    api_must("ret", ret);
    *ret =
        (struct tutti_run_info){.ranks = x->r.ranks, .events = x->r.events.len, .lost = x->r.lost};
}

bool tutti_run_plan(const struct tutti_run *run, size_t i, struct tutti_run_plan *ret)
{
    const struct api_run *x = api_need(RUN, run);
    api_must("ret", ret);
    if (i >= x->r.plans.len)
        return false;
    const struct tt_record_plan *p = tt_vec_at(&x->r.plans, i);
    *ret = (struct tutti_run_plan){.algo = p->algo,
                                   .options = p->options,
                                   .coll = (tutti_coll)p->coll,
                                   .dtype = (tutti_dtype)p->dtype,
                                   .redop = (tutti_redop)p->redop,
                                   .root = p->root,
                                   .segments = p->segments,
                                   .count = p->count};
    for (size_t k = 0; k < x->r.events.len; k++) {
        const struct tt_run_event *e = tt_vec_at(&x->r.events, k);
        if (e->kind != TT_RECORD_CALL || e->plan != i)
            continue;
        ret->calls += e->rank == 0;
        ret->total_us += (double)e->length_ns / 1e3;
    }
    return true;
}

/* Reads bytes from..to of the file. The caller frees the result; NULL: it is not there. */
static char *read_part(const char *path, uint64_t from, uint64_t to)
{
    FILE *in = fopen(path, "r");
    size_t n = (size_t)(to - from);
    char *text = in && fseeko(in, (off_t)from, SEEK_SET) == 0 ? tt_alloc(n + 1, 1) : NULL;
    if (text && fread(text, 1, n, in) != n) {
        free(text);
        text = NULL;
    }
    if (in)
        fclose(in);
    return text;
}

tutti_status tutti_run_topo(const struct tutti_run *run, struct tutti_topo **ret,
                            struct tutti_error *err)
{
    const struct api_run *x = api_find(RUN, run, err);
    struct tt_topo *t = NULL;
    if (!x || api_given(err, "ret", ret))
        return TUTTI_ERR_ARG;
    uint64_t from = x->r.topo_from, to = x->r.topo_to;
    if (to <= from || to - from > TOPO_MAX)
        return tt_fail(err, TUTTI_ERR_PARSE, "%.200s holds no topology", x->path);
    char *text = read_part(x->path, from, to), *brace = text ? memchr(text, '{', to - from) : NULL;
    tutti_status st = TUTTI_ERR_PARSE;
    if (brace)
        st = tt_topo_read_memory(brace, (size_t)(to - from) - (size_t)(brace - text), x->path, &t,
                                 err);
    else
        tt_fail(err, st, "%.200s: the topology cannot be read", x->path);
    free(text);
    return st ? st : tt_api_topo_wrap(t, true, ret, err);
}

tutti_status tutti_json_run(struct tutti_json *j, const char *key, const struct tutti_run *run,
                            struct tutti_error *err)
{
    const struct api_run *x = api_find(RUN, run, err);
    struct tt_json_writer *w = tt_api_json_value(j, key, __func__);
    if (!x) {
        tt_json_null(w);
        return TUTTI_ERR_ARG;
    }
    return tt_export_run_write(&x->r, w, err);
}
