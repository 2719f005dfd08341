/* run.c - the reader of traces (run.h): the document, its plans and events. */
#include "export/run_int.h"

#include <math.h>
#include <string.h>

#include "sched/sched.h"

enum { EVENTS_MAX = 1 << 22, RANKS_MAX = 1 << 16 };

tutti_status tt_export_run_number(struct tt_run_reader *x, const char *what, uint64_t max,
                                  uint64_t *ret)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(x->json, TT_JSON_INT, &t, x->err);
    if (st)
        return st;
    if (t.i < 0 || (uint64_t)t.i > max)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_RANGE, "\"%s\" must be from 0 to %llu", what,
                            (unsigned long long)max);
    *ret = (uint64_t)t.i;
    return TUTTI_OK;
}

/* A time in microseconds, as nanoseconds. */
static tutti_status read_time(struct tt_run_reader *x, const char *what, uint64_t *ret)
{
    struct tt_json_token t;
    tutti_status st = tt_json_next(x->json, &t, x->err);
    if (st)
        return st;
    if ((t.kind != TT_JSON_INT && t.kind != TT_JSON_REAL) || !(t.d >= 0 && t.d <= 1e12))
        return tt_json_fail(x->json, x->err, TUTTI_ERR_RANGE,
                            "\"%s\" must be microseconds from 0 to 1e12", what);
    *ret = (uint64_t)llround(t.d * 1e3);
    return TUTTI_OK;
}

tutti_status tt_export_run_key(struct tt_run_reader *x, char *key, size_t cap, bool *ret_end)
{
    struct tt_json_token t;
    tutti_status st = tt_json_next(x->json, &t, x->err);
    if (st)
        return st;
    *ret_end = t.kind == TT_JSON_OBJECT_END;
    snprintf(key, cap, "%s", t.kind == TT_JSON_KEY ? t.text : "");
    return TUTTI_OK;
}

/* ---- plans ---- */

tutti_status tt_export_run_word(struct tt_run_reader *x, int (*find)(const char *), uint8_t *ret)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(x->json, TT_JSON_STRING, &t, x->err);
    int i = st ? 0 : find(t.text);
    if (!st && i < 0)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_PARSE, "unknown name '%.40s'", t.text);
    *ret = (uint8_t)i;
    return st;
}

tutti_status tt_export_run_text(struct tt_run_reader *x, char *ret, size_t cap)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(x->json, TT_JSON_STRING, &t, x->err);
    if (!st && t.len >= cap)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_RANGE, "a text of %zu bytes is too long",
                            t.len);
    if (!st)
        memcpy(ret, t.text, t.len + 1);
    return st;
}

static tutti_status read_plan_value(struct tt_run_reader *x, const char *key,
                                    struct tt_record_plan *p)
{
    uint64_t n = 0;
    tutti_status st;
    if (tt_streq(key, "coll"))
        return tt_export_run_word(x, tt_sched_coll_find, &p->coll);
    if (tt_streq(key, "dtype"))
        return tt_export_run_word(x, tt_sched_dtype_find, &p->dtype);
    if (tt_streq(key, "op"))
        return tt_export_run_word(x, tt_sched_redop_read, &p->redop);
    if (tt_streq(key, "algo"))
        return tt_export_run_text(x, p->algo, sizeof p->algo);
    if (tt_streq(key, "options"))
        return tt_export_run_text(x, p->options, sizeof p->options);
    if (tt_streq(key, "count"))
        return tt_export_run_number(x, key, INT64_MAX, &p->count);
    if (tt_streq(key, "segments")) {
        st = tt_export_run_number(x, key, TT_MAX_SEGMENTS, &n);
        p->segments = (uint32_t)n;
        return st;
    }
    if (tt_streq(key, "root")) {
        st = tt_export_run_number(x, key, RANKS_MAX, &n);
        p->root = (uint32_t)n;
        return st;
    }
    return tt_json_skip(x->json, x->err);
}

static tutti_status read_plan(struct tt_run_reader *x)
{
    struct tt_record_plan p = {0};
    char key[32];
    bool end;
    for (;;) {
        tutti_status st = tt_export_run_key(x, key, sizeof key, &end);
        if (!st && !end)
            st = read_plan_value(x, key, &p);
        if (st)
            return st;
        if (!end)
            continue;
        if (x->run->plans.len >= TT_RECORD_PLANS)
            return tt_json_fail(x->json, x->err, TUTTI_ERR_LIMIT, "more than %d plans",
                                TT_RECORD_PLANS);
        return tt_vec_push(&x->run->plans, &p, 1) ? TUTTI_OK : tt_fail_memory(x->err, "plans");
    }
}

/* ---- events ---- */

static int find_kind(const char *name)
{
    for (int i = 0; i < TT_RECORD_KINDS; i++)
        if (tt_streq(name, tt_record_name((unsigned)i)))
            return i;
    return -1;
}

/* The arguments of an event; -1 is a plan that is not known. */
static tutti_status read_arguments(struct tt_run_reader *x, struct tt_run_event *e)
{
    struct tt_json_token t;
    char key[32];
    bool end;
    tutti_status st = tt_json_expect(x->json, TT_JSON_OBJECT, &t, x->err);
    while (!st) {
        uint64_t n = 0;
        st = tt_export_run_key(x, key, sizeof key, &end);
        if (st || end)
            break;
        uint32_t *field = tt_streq(key, "peer")      ? &e->peer
                          : tt_streq(key, "comm")    ? &e->comm
                          : tt_streq(key, "seq")     ? &e->seq
                          : tt_streq(key, "message") ? &e->message
                          : tt_streq(key, "launch")  ? &e->message
                          : tt_streq(key, "piece")   ? &e->piece
                          : tt_streq(key, "request") ? &e->piece
                                                     : NULL;
        if (field) {
            st = tt_export_run_number(x, key, UINT32_MAX, &n);
            *field = (uint32_t)n;
        } else if (tt_streq(key, "bytes")) {
            st = tt_export_run_number(x, key, INT64_MAX, &e->bytes);
        } else if (tt_streq(key, "plan")) {
            st = tt_json_expect(x->json, TT_JSON_INT, &t, x->err);
            e->plan = !st && t.i >= 0 && t.i < TT_RECORD_PLANS ? (uint8_t)t.i : TT_RECORD_NO_PLAN;
        } else {
            st = tt_json_skip(x->json, x->err);
        }
    }
    return st;
}

/* An event as it stands in the file; only complete ones of a kind of ours are kept. */
struct raw {
    struct tt_run_event e;
    char phase, name[32];
    int kind;
};

static tutti_status read_event_value(struct tt_run_reader *x, const char *key, struct raw *r)
{
    char text[32];
    uint64_t n = 0;
    tutti_status st;
    if (tt_streq(key, "ph")) {
        st = tt_export_run_text(x, text, sizeof text);
        r->phase = st ? 0 : text[0];
        return st;
    }
    if (tt_streq(key, "cat")) {
        st = tt_export_run_text(x, text, sizeof text);
        r->kind = st ? -1 : find_kind(text);
        return st;
    }
    if (tt_streq(key, "name"))
        return tt_export_run_text(x, r->name, sizeof r->name);
    if (tt_streq(key, "pid")) {
        st = tt_export_run_number(x, key, RANKS_MAX, &n);
        r->e.rank = (uint32_t)n;
        return st;
    }
    if (tt_streq(key, "ts"))
        return read_time(x, key, &r->e.start_ns);
    if (tt_streq(key, "dur"))
        return read_time(x, key, &r->e.length_ns);
    if (tt_streq(key, "args") && r->phase == 'X')
        return read_arguments(x, &r->e);
    return tt_json_skip(x->json, x->err);
}

static tutti_status keep_event(struct tt_run_reader *x, struct raw *r)
{
    struct tt_run *run = x->run;
    if (r->phase != 'X' || r->kind < 0)
        return TUTTI_OK;
    if (r->e.rank >= run->ranks || (r->e.peer >= run->ranks && r->e.peer != UINT32_MAX))
        return tt_json_fail(x->json, x->err, TUTTI_ERR_RANGE,
                            "an event of rank %u with peer %u, but there are %u ranks", r->e.rank,
                            r->e.peer, run->ranks);
    if (run->events.len >= EVENTS_MAX)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_LIMIT, "more than %d events", EVENTS_MAX);
    const bool named = r->kind == TT_RECORD_CALL || r->kind == TT_RECORD_LAUNCH;
    const int coll = named ? tt_sched_coll_find(r->name) : 0;
    if (coll < 0)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_PARSE, "no collective is called '%.40s'",
                            r->name);
    r->e.kind = (uint8_t)r->kind;
    r->e.coll = (uint8_t)coll;
    return tt_vec_push(&run->events, &r->e, 1) ? TUTTI_OK : tt_fail_memory(x->err, "events");
}

static tutti_status read_event(struct tt_run_reader *x)
{
    struct raw r = {.kind = -1, .e = {.peer = UINT32_MAX, .plan = TT_RECORD_NO_PLAN}};
    char key[32];
    bool end = false;
    while (!end) {
        tutti_status st = tt_export_run_key(x, key, sizeof key, &end);
        if (!st && !end)
            st = read_event_value(x, key, &r);
        if (st)
            return st;
    }
    return keep_event(x, &r);
}

/* ---- the document ---- */

tutti_status tt_export_run_list(struct tt_run_reader *x,
                                tutti_status (*one)(struct tt_run_reader *x))
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(x->json, TT_JSON_ARRAY, &t, x->err);
    while (!st) {
        st = tt_json_next(x->json, &t, x->err);
        if (st || t.kind == TT_JSON_ARRAY_END)
            break;
        if (t.kind != TT_JSON_OBJECT)
            return tt_json_fail(x->json, x->err, TUTTI_ERR_PARSE, "an object is expected");
        st = one(x);
    }
    return st;
}

/* Only notes where it lies: a reader of topologies reads it. */
static tutti_status read_topology(struct tt_run_reader *x)
{
    x->run->topo_from = tt_json_bytes(x->json);
    tutti_status st = tt_json_skip(x->json, x->err);
    x->run->topo_to = tt_json_bytes(x->json);
    return st;
}

static tutti_status read_top(struct tt_run_reader *x, const char *key, bool *format)
{
    uint64_t n = 0;
    char text[32];
    tutti_status st = TUTTI_OK;
    if (tt_streq(key, "format")) {
        st = tt_export_run_text(x, text, sizeof text);
        *format = !st && tt_streq(text, "tutti-trace");
        return st;
    }
    if (tt_streq(key, "ranks")) {
        st = tt_export_run_number(x, key, RANKS_MAX, &n);
        x->run->ranks = (uint32_t)n;
        return st;
    }
    if (tt_streq(key, "lost"))
        return tt_export_run_number(x, key, INT64_MAX, &x->run->lost);
    if (tt_streq(key, "plans"))
        return tt_export_run_list(x, read_plan);
    if (tt_streq(key, "trainers"))
        return tt_export_run_list(x, tt_export_run_trainer);
    if (tt_streq(key, "topology"))
        return read_topology(x);
    if (tt_streq(key, "traceEvents"))
        return *format ? tt_export_run_list(x, read_event)
                       : tt_json_fail(x->json, x->err, TUTTI_ERR_PARSE,
                                      "not a trace of Tutti: no \"format\": \"tutti-trace\" before "
                                      "the events");
    return tt_json_skip(x->json, x->err);
}

static tutti_status read_document(struct tt_run_reader *x)
{
    struct tt_json_token t;
    char key[32];
    bool end = false, format = false;
    tutti_status st = tt_json_expect(x->json, TT_JSON_OBJECT, &t, x->err);
    while (!st && !end) {
        st = tt_export_run_key(x, key, sizeof key, &end);
        if (!st && !end)
            st = read_top(x, key, &format);
    }
    if (!st && (!format || !x->run->ranks))
        st = tt_json_fail(x->json, x->err, TUTTI_ERR_PARSE, "not a trace of Tutti");
    return st ? st : tt_json_expect(x->json, TT_JSON_END, &t, x->err);
}

tutti_status tt_export_run_read(FILE *in, const char *name, struct tt_run *ret,
                                struct tutti_error *err)
{
    struct tt_run run = {.events = {.elem = sizeof(struct tt_run_event)},
                         .plans = {.elem = sizeof(struct tt_record_plan)},
                         .trainers = {.elem = sizeof(struct tt_record_trainer)}};
    struct tt_run_reader x = {.run = &run, .err = err};
    tutti_status st = tt_json_open_file(in, name, &x.json, err);
    if (!st)
        st = read_document(&x);
    tt_json_close(x.json);
    if (st)
        tt_export_run_free(&run);
    else
        *ret = run;
    return st;
}

void tt_export_run_free(struct tt_run *r)
{
    for (size_t i = 0; i < r->trainers.len; i++)
        tt_record_trainer_clear(tt_vec_at(&r->trainers, i));
    tt_vec_free(&r->events);
    tt_vec_free(&r->plans);
    tt_vec_free(&r->trainers);
    *r = (struct tt_run){0};
}
