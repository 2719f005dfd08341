/* trace_file.c - the file of TUTTI_TRACE, in the format that chrome://tracing, Perfetto and `tutti
 * view` read: complete events ("ph": "X") of one process per rank and one thread per kind. Other
 * readers skip the keys that only we know: format, plans, trainers, topology. */
#include "comm/trace_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"

/* What to add to the times of rank r to have those of rank 0: the middle of what all barriers
 * allow. */
static int64_t clock_offset(const struct tt_trace_part *zero, const struct tt_trace_part *r)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int i = 0; i < TT_TRACE_BEATS; i++) {
        int64_t least = zero->beat[i].start_ns - r->beat[i].end_ns;
        int64_t most = zero->beat[i].end_ns - r->beat[i].start_ns;
        low = least > low ? least : low;
        high = most < high ? most : high;
    }
    return low + (high - low) / 2;
}

static struct tt_trace_part *part_at(const struct tt_trace_parts *w, uint32_t i)
{
    return (struct tt_trace_part *)(void *)(w->all + i * w->each);
}

static struct tt_record_event *events_at(const struct tt_trace_parts *w, uint32_t i)
{
    return (struct tt_record_event *)(void *)(part_at(w, i) + 1);
}

static int64_t offset_of(const struct tt_trace_parts *w, uint32_t i)
{
    const struct tt_boot_peer *peers = tt_boot_peers(w->c->world->boot);
    bool same = w->n == 1 || peers[w->first + i].host_id == peers[w->first].host_id;
    return same ? 0 : clock_offset(part_at(w, 0), part_at(w, i));
}

/* Names in a trace come from host names and the tables: escaped anyway. */
static void put_string(const char *text, FILE *out)
{
    struct tt_json_writer w;
    tt_json_begin(&w, out);
    tt_json_string(&w, text);
}

/* ---- lanes ---- */

/* Events of one thread of a trace must not overlap, since viewers stack them. An event goes to the
 * first lane of its kind that is free when it begins, and to the last one if none is. */
enum { LANES = 128 };

/* Gives every event of a rank its lane (`pad`). used[kind]: how many lanes that makes. They are
 * noted when they end, so that ends increase. */
static void choose_lanes(struct tt_record_event *e, uint64_t n, uint32_t used[TT_RECORD_KINDS])
{
    uint64_t free_ns[TT_RECORD_KINDS][LANES] = {{0}};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *lane = free_ns[e[i].kind];
        uint8_t k = 0;
        while (k < LANES - 1 && lane[k] > e[i].start_ns)
            k++;
        lane[k] = e[i].end_ns > lane[k] ? e[i].end_ns : lane[k];
        e[i].pad = k;
        used[e[i].kind] = used[e[i].kind] > k ? used[e[i].kind] : k + 1U;
    }
}

static void write_thread(const struct tt_trace_parts *w, uint32_t rank, uint32_t kind,
                         uint32_t lane)
{
    static const char *const names[TT_RECORD_KINDS] = {
        "calls",     "waits for requests",     "sends",  "receives", "idle", "training steps",
        "gradients", "communication of steps", "exposed"};
    fprintf(w->out,
            ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{"
            "\"name\":\"%s",
            rank, kind * LANES + lane, names[kind]);
    if (lane)
        fprintf(w->out, " (%u)", lane + 1);
    fputs("\"}}", w->out);
}

/* A rank is a process of the trace; each lane of a kind is one of its threads. */
static void write_rank(const struct tt_trace_parts *w, uint32_t i)
{
    const uint32_t r = w->first + i;
    uint32_t used[TT_RECORD_KINDS] = {0};
    char name[160];
    snprintf(name, sizeof name, "rank %u (%s)", r, tt_boot_peers(w->c->world->boot)[r].host);
    fprintf(w->out, "%s{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":",
            i ? ",\n" : "", r);
    put_string(name, w->out);
    fputs("}}", w->out);
    choose_lanes(events_at(w, i), part_at(w, i)->n, used);
    for (uint32_t k = 0; k < TT_RECORD_KINDS; k++)
        for (uint32_t lane = 0; lane < used[k]; lane++)
            write_thread(w, r, k, lane);
}

/* ---- events ---- */

static void write_event(const struct tt_trace_parts *w, uint32_t rank, int64_t offset,
                        const struct tt_record_event *e)
{
    double ts = (double)((int64_t)e->start_ns + offset - (int64_t)w->zero_ns) / 1e3;
    double us = (double)(e->end_ns - e->start_ns) / 1e3;
    const bool coll = e->kind == TT_RECORD_CALL || e->kind == TT_RECORD_LAUNCH;
    const char *name = coll ? tt_sched_coll_name((tutti_coll)e->coll) : tt_record_name(e->kind);
    fprintf(w->out,
            ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,"
            "\"dur\":%.3f,\"args\":{\"comm\":%u,\"seq\":%u",
            tt_record_name(e->kind), name, rank, (unsigned)e->kind * LANES + e->pad, ts, us,
            e->comm, e->seq);
    if (e->kind == TT_RECORD_CALL)
        fprintf(w->out, ",\"bytes\":%" PRIu64 ",\"plan\":%d,\"request\":%u", e->bytes,
                e->plan == TT_RECORD_NO_PLAN ? -1 : e->plan, e->piece);
    if (e->kind == TT_RECORD_SEND || e->kind == TT_RECORD_RECEIVE)
        fprintf(w->out, ",\"peer\":%u,\"bytes\":%" PRIu64 ",\"message\":%u,\"piece\":%u", e->peer,
                e->bytes, e->message, e->piece);
    if (e->kind == TT_RECORD_IDLE)
        fprintf(w->out, ",\"peer\":%u", e->peer);
    if (e->kind == TT_RECORD_LAUNCH || e->kind == TT_RECORD_EXPOSED)
        fprintf(w->out, ",\"launch\":%u,\"bytes\":%" PRIu64, e->message, e->bytes);
    fputs("}}", w->out);
}

/* The plans that this process has used; all ranks use the same ones in the same order. */
static void write_plans(const struct tt_trace_parts *w)
{
    const struct tt_record *r = w->record;
    fputs("\"plans\":[", w->out);
    for (uint32_t i = 0; i < r->nplans; i++) {
        const struct tt_record_plan *p = &r->plan[i];
        fprintf(w->out, "%s\n{\"coll\":\"%s\",\"dtype\":\"%s\",\"op\":\"%s\",\"root\":%u,",
                i ? "," : "", tt_sched_coll_name((tutti_coll)p->coll),
                tt_sched_dtype_name((tutti_dtype)p->dtype),
                tt_sched_redop_name((tutti_redop)p->redop), p->root);
        fprintf(w->out,
                "\"count\":%" PRIu64 ",\"segments\":%u,\"hash\":\"%016" PRIx64 "\",\"algo\":",
                p->count, p->segments, p->hash);
        put_string(p->algo, w->out);
        fputs(",\"options\":", w->out);
        put_string(p->options, w->out);
        fputs("}", w->out);
    }
    fputs("]", w->out);
}

/* ---- trainers ---- */

static void write_launches(const struct tt_record_trainer *t, struct tt_json_writer *j)
{
    tt_json_key(j, "launches");
    tt_json_array(j);
    for (uint32_t k = 0; k < t->nlaunches; k++) {
        const struct tt_record_launch *l = &t->launch[k];
        tt_json_object_compact(j);
        tt_json_key(j, "coll");
        tt_json_string(j, tt_sched_coll_name((tutti_coll)l->coll));
        tt_json_key(j, "bytes");
        tt_json_u64(j, l->bytes);
        tt_json_key(j, "first");
        tt_json_string(j, l->first);
        tt_json_key(j, "last");
        tt_json_string(j, l->last);
        tt_json_key(j, "algo");
        tt_json_string(j, l->algo);
        tt_json_object_end(j);
    }
    tt_json_array_end(j);
}

static void write_spans(const struct tt_record_trainer *t, struct tt_json_writer *j)
{
    tt_json_key(j, "spans");
    tt_json_array(j);
    for (uint32_t k = 0; k < t->nspans; k++) {
        tt_json_object_compact(j);
        tt_json_key(j, "kind");
        tt_json_string(j, tt_record_span_name(t->span[k].kind));
        tt_json_key(j, "launch");
        tt_json_u64(j, t->span[k].index);
        tt_json_key(j, "start_ps");
        tt_json_u64(j, t->span[k].start_ps);
        tt_json_key(j, "end_ps");
        tt_json_u64(j, t->span[k].end_ps);
        tt_json_object_end(j);
    }
    tt_json_array_end(j);
}

/* Trainers of this process; all ranks have the same ones. */
static void write_trainers(const struct tt_trace_parts *w)
{
    struct tt_json_writer j;
    tt_json_begin(&j, w->out);
    tt_json_array(&j);
    for (uint32_t i = 0; i < w->record->ntrainers; i++) {
        const struct tt_record_trainer *t = &w->record->trainer[i];
        const struct {
            const char *key;
            uint64_t v;
        } time[] = {{"iteration_ps", t->iteration_ps},
                    {"forward_ps", t->forward_ps},
                    {"backward_ps", t->backward_ps},
                    {"exposed_ps", t->exposed_ps},
                    {"stepped_ps", t->stepped_ps}};
        tt_json_object(&j);
        tt_json_key(&j, "comm");
        tt_json_u64(&j, t->comm);
        tt_json_key(&j, "policy");
        tt_json_string(&j, t->policy);
        for (size_t k = 0; k < countof(time); k++) {
            tt_json_key(&j, time[k].key);
            tt_json_u64(&j, time[k].v);
        }
        write_launches(t, &j);
        write_spans(t, &j);
        tt_json_object_end(&j);
    }
    tt_json_array_end(&j);
}

/* ---- the document ---- */

static tutti_status write_document(struct tt_trace_parts *w, struct tutti_error *err)
{
    uint64_t lost = 0;
    w->zero_ns = UINT64_MAX;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tt_record_event *e = events_at(w, i);
        int64_t offset = offset_of(w, i);
        lost += part_at(w, i)->lost;
        for (uint64_t k = 0; k < part_at(w, i)->n; k++) {
            uint64_t start = (uint64_t)((int64_t)e[k].start_ns + offset);
            w->zero_ns = start < w->zero_ns ? start : w->zero_ns;
        }
    }
    fprintf(w->out,
            "{\"format\":\"tutti-trace\",\"version\":1,\"ranks\":%u,\"lost\":%" PRIu64
            ",\n\"displayTimeUnit\":\"ns\",\n",
            w->c->size, lost);
    write_plans(w);
    fputs(",\n\"trainers\":", w->out);
    write_trainers(w);
    fputs(",\n\"topology\":", w->out);
    tutti_status st = tt_topo_write(w->c->topo, w->out, err);
    fputs(",\"traceEvents\":[\n", w->out);
    for (uint32_t i = 0; i < w->n; i++)
        write_rank(w, i);
    for (uint32_t i = 0; i < w->n; i++)
        for (uint64_t k = 0; k < part_at(w, i)->n; k++)
            write_event(w, w->first + i, offset_of(w, i), &events_at(w, i)[k]);
    fputs("\n]}\n", w->out);
    return st;
}

/* A file that could not be finished is removed; the job itself is not in trouble. */
void tt_comm_trace_write(struct tt_trace_parts *w, const char *path)
{
    struct tutti_error err = {0};
    w->out = fopen(path, "w");
    tutti_status st = w->out ? write_document(w, &err) : TUTTI_ERR_IO;
    bool bad = w->out && ferror(w->out);
    if (w->out && fclose(w->out) != 0)
        bad = true;
    if (st || bad) {
        tt_log_write(TT_LOG_ERROR, w->c->rank, "TUTTI_TRACE: cannot write %.300s: %s", path,
                     *err.text ? err.text : strerror(errno));
        if (w->out)
            remove(path);
    }
}
