/* run_trainer.c - the trainers of a trace: what they launch in every step, and the step as their
 * policy has planned it. */
#include <string.h>

#include "export/run_int.h"
#include "sched/sched.h"

static const uint64_t TIME_MAX = (uint64_t)1 << 60; /* in ps: 13 days */

/* The one that is being read. */
static struct tt_record_trainer *this_trainer(const struct tt_run_reader *x)
{
    return tt_vec_at(&x->run->trainers, x->run->trainers.len - 1);
}

/* Makes room for one more of n elements, which doubles as it grows. False: out of memory. */
static bool grow(void **list, uint32_t n, size_t each)
{
    if (n & (n - 1) && n)
        return true;
    void *more = tt_resize(*list, n ? 2 * (size_t)n : 1, each);
    *list = more ? more : *list;
    return more != NULL;
}

/* ---- launches ---- */

static tutti_status read_launch_value(struct tt_run_reader *x, const char *key,
                                      struct tt_record_launch *l)
{
    if (tt_streq(key, "coll"))
        return tt_export_run_word(x, tt_sched_coll_find, &l->coll);
    if (tt_streq(key, "bytes"))
        return tt_export_run_number(x, key, INT64_MAX, &l->bytes);
    if (tt_streq(key, "first"))
        return tt_export_run_text(x, l->first, sizeof l->first);
    if (tt_streq(key, "last"))
        return tt_export_run_text(x, l->last, sizeof l->last);
    if (tt_streq(key, "algo"))
        return tt_export_run_text(x, l->algo, sizeof l->algo);
    return tt_json_skip(x->json, x->err);
}

static tutti_status read_launch(struct tt_run_reader *x)
{
    struct tt_record_trainer *t = this_trainer(x);
    struct tt_record_launch l = {0};
    char key[32];
    bool end = false;
    while (!end) {
        tutti_status st = tt_export_run_key(x, key, sizeof key, &end);
        if (!st && !end)
            st = read_launch_value(x, key, &l);
        if (st)
            return st;
    }
    if (t->nlaunches == TT_RECORD_LAUNCHES)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_LIMIT, "more than %d launches",
                            TT_RECORD_LAUNCHES);
    if (!grow((void **)&t->launch, t->nlaunches, sizeof l))
        return tt_fail_memory(x->err, "launches");
    t->launch[t->nlaunches++] = l;
    return TUTTI_OK;
}

/* ---- spans ---- */

static int find_span(const char *name)
{
    for (int i = 0; i < TT_RECORD_SPANS; i++)
        if (tt_streq(name, tt_record_span_name((unsigned)i)))
            return i;
    return -1;
}

static tutti_status read_span_value(struct tt_run_reader *x, const char *key,
                                    struct tt_record_span *s)
{
    uint64_t n = 0;
    if (tt_streq(key, "kind"))
        return tt_export_run_word(x, find_span, &s->kind);
    if (tt_streq(key, "start_ps"))
        return tt_export_run_number(x, key, TIME_MAX, &s->start_ps);
    if (tt_streq(key, "end_ps"))
        return tt_export_run_number(x, key, TIME_MAX, &s->end_ps);
    if (!tt_streq(key, "launch"))
        return tt_json_skip(x->json, x->err);
    tutti_status st = tt_export_run_number(x, key, TT_RECORD_LAUNCHES, &n);
    s->index = (uint32_t)n;
    return st;
}

static tutti_status read_span(struct tt_run_reader *x)
{
    struct tt_record_trainer *t = this_trainer(x);
    struct tt_record_span s = {0};
    char key[32];
    bool end = false;
    while (!end) {
        tutti_status st = tt_export_run_key(x, key, sizeof key, &end);
        if (!st && !end)
            st = read_span_value(x, key, &s);
        if (st)
            return st;
    }
    if (s.end_ps < s.start_ps)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_RANGE, "a span that ends before it begins");
    if (t->nspans == TT_RECORD_MOST_SPANS)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_LIMIT, "more than %d spans",
                            TT_RECORD_MOST_SPANS);
    if (!grow((void **)&t->span, t->nspans, sizeof s))
        return tt_fail_memory(x->err, "spans");
    t->span[t->nspans++] = s;
    return TUTTI_OK;
}

/* ---- trainers ---- */

static uint64_t *time_of(struct tt_record_trainer *t, const char *key)
{
    return tt_streq(key, "iteration_ps")  ? &t->iteration_ps
           : tt_streq(key, "forward_ps")  ? &t->forward_ps
           : tt_streq(key, "backward_ps") ? &t->backward_ps
           : tt_streq(key, "exposed_ps")  ? &t->exposed_ps
           : tt_streq(key, "stepped_ps")  ? &t->stepped_ps
                                          : NULL;
}

static tutti_status read_value(struct tt_run_reader *x, const char *key)
{
    struct tt_record_trainer *t = this_trainer(x);
    uint64_t n = 0, *time = time_of(t, key);
    if (time)
        return tt_export_run_number(x, key, TIME_MAX, time);
    if (tt_streq(key, "policy"))
        return tt_export_run_text(x, t->policy, sizeof t->policy);
    if (tt_streq(key, "launches"))
        return tt_export_run_list(x, read_launch);
    if (tt_streq(key, "spans"))
        return tt_export_run_list(x, read_span);
    if (!tt_streq(key, "comm"))
        return tt_json_skip(x->json, x->err);
    tutti_status st = tt_export_run_number(x, key, UINT32_MAX, &n);
    t->comm = (uint32_t)n;
    return st;
}

tutti_status tt_export_run_trainer(struct tt_run_reader *x)
{
    char key[32];
    bool end = false;
    if (x->run->trainers.len == TT_RECORD_TRAINERS)
        return tt_json_fail(x->json, x->err, TUTTI_ERR_LIMIT, "more than %d trainers",
                            TT_RECORD_TRAINERS);
    if (!tt_vec_push(&x->run->trainers, NULL, 1))
        return tt_fail_memory(x->err, "trainers");
    while (!end) {
        tutti_status st = tt_export_run_key(x, key, sizeof key, &end);
        if (!st && !end)
            st = read_value(x, key);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* ---- for a page ---- */

static void write_us(struct tt_json_writer *w, const char *key, uint64_t ps)
{
    tt_json_key(w, key);
    tt_json_real(w, (double)ps / 1e6);
}

static void write_launches(const struct tt_record_trainer *t, struct tt_json_writer *w)
{
    tt_json_key(w, "launches");
    tt_json_array(w);
    for (uint32_t i = 0; i < t->nlaunches; i++) {
        const struct tt_record_launch *l = &t->launch[i];
        const char *const text[][2] = {{"coll", tt_sched_coll_name((tutti_coll)l->coll)},
                                       {"first", l->first},
                                       {"last", l->last},
                                       {"algo", l->algo}};
        tt_json_object_compact(w);
        for (size_t k = 0; k < countof(text); k++) {
            tt_json_key(w, text[k][0]);
            tt_json_string(w, text[k][1]);
        }
        tt_json_key(w, "bytes");
        tt_json_u64(w, l->bytes);
        tt_json_object_end(w);
    }
    tt_json_array_end(w);
}

static void write_spans(const struct tt_record_trainer *t, struct tt_json_writer *w)
{
    tt_json_key(w, "spans");
    tt_json_array(w);
    for (uint32_t i = 0; i < t->nspans; i++) {
        tt_json_object_compact(w);
        tt_json_key(w, "kind");
        tt_json_string(w, tt_record_span_name(t->span[i].kind));
        tt_json_key(w, "launch");
        tt_json_u64(w, t->span[i].index);
        write_us(w, "start", t->span[i].start_ps);
        write_us(w, "end", t->span[i].end_ps);
        tt_json_object_end(w);
    }
    tt_json_array_end(w);
}

void tt_export_run_trainer_write(const struct tt_record_trainer *t, struct tt_json_writer *w)
{
    tt_json_object(w);
    tt_json_key(w, "comm");
    tt_json_u64(w, t->comm);
    tt_json_key(w, "policy");
    tt_json_string(w, t->policy);
    write_us(w, "iteration_us", t->iteration_ps);
    write_us(w, "forward_us", t->forward_ps);
    write_us(w, "backward_us", t->backward_ps);
    write_us(w, "exposed_us", t->exposed_ps);
    write_us(w, "stepped_us", t->stepped_ps);
    write_launches(t, w);
    write_spans(t, w);
    tt_json_object_end(w);
}
