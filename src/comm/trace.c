/* trace.c - TUTTI_TRACE (and the counters of TUTTI_TOP, base/board.h): one file of what every
 * rank did, in the format that chrome://tracing, Perfetto and `tutti view` read.
 *
 *     open:  a ring of events (base/record.h) for this process
 *     runs:  calls and waits are noted here, pieces and idle times by exec
 *     close: barriers to compare the clocks, a gather, and rank 0 writes
 *
 * Memory is bounded: a ring of EVENTS events in every process; at rank 0, ALL_BYTES for all of
 * them. The ranks of rank 0's host share its clock. For the others, a barrier that both have passed
 * bounds the difference: each began before the other one's end. After a failure every rank writes
 * what it has to a file of its own, PATH.rankN. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/board.h"
#include "base/json.h"
#include "comm/comm_int.h"

enum { EVENTS = 1 << 16, BEATS = 8 };
static const uint64_t ALL_BYTES = UINT64_C(256) << 20;

/* TUTTI_TOP: ranks of one job on this host have the same rendezvous, or the same parent. */
static tutti_status open_board(struct tt_comm *c, struct tutti_error *err)
{
    struct tt_world *w = c->world;
    char job[TT_BOARD_JOB];
    if (*c->config.boot.rendezvous)
        snprintf(job, sizeof job, "%s", c->config.boot.rendezvous);
    else
        snprintf(job, sizeof job, "of process %d", (int)(c->size > 1 ? getppid() : getpid()));
    return tt_board_make(c->rank, c->size, job, &w->record->board, &w->board_path, err);
}

/* The path is made absolute: the program may change its directory. */
static tutti_status take_path(struct tt_comm *c, struct tutti_error *err)
{
    char *here = c->config.trace[0] == '/' ? NULL : getcwd(NULL, 0);
    struct tt_str path = {0};
    tt_str_printf(&path, "%s%s%s", here ? here : "", here ? "/" : "", c->config.trace);
    free(here);
    c->world->trace_path = path.failed ? NULL : path.s;
    return c->world->trace_path ? TUTTI_OK : tt_fail_memory(err, "TUTTI_TRACE");
}

/* Of the world only. */
tutti_status tt_comm_trace_open(struct tt_comm *c, struct tutti_error *err)
{
    struct tt_world *w = c->world;
    if ((!c->config.trace && !c->config.top) || c->id || w->record || w->ended)
        return TUTTI_OK;
    w->record = tt_record_make(c->config.trace ? EVENTS : 0);
    if (!w->record)
        return tt_fail_memory(err, "TUTTI_TRACE");
    tutti_status st = c->config.top ? open_board(c, err) : TUTTI_OK;
    if (!st && c->config.trace)
        st = take_path(c, err);
    if (!st)
        tt_exec_engine_record(c->engine, w->record);
    return st;
}
void tt_comm_trace_free(struct tt_world *w)
{
    struct tt_record *r = w->record ? w->record : w->ended;
    tt_board_free(r ? r->board : NULL, w->board_path);
    free(w->record);
    free(w->ended);
    free(w->trace_path);
    w->record = w->ended = NULL;
    w->trace_path = w->board_path = NULL;
}

/* ---- notes ---- */

static uint8_t plan_of(struct tt_record *r, const struct tt_kept *k)
{
    const struct tt_sched *s = k->own ? k->own : k->plan ? k->plan->slice : NULL;
    if (!s)
        return TT_RECORD_NO_PLAN;
    struct tt_record_plan p = {.hash = k->plan ? k->plan->hash : s->hash,
                               .count = k->key.count,
                               .segments = s->shape.segments,
                               .root = k->key.root,
                               .coll = (uint8_t)k->key.coll,
                               .dtype = (uint8_t)k->key.dtype,
                               .redop = (uint8_t)k->key.redop};
    snprintf(p.algo, sizeof p.algo, "%s", s->shape.algo);
    snprintf(p.options, sizeof p.options, "%s", s->shape.options);
    return tt_record_plan(r, &p);
}

/* A collective that began at start_ns has ended now; the lock is held. */
void tt_comm_trace_call(struct tt_comm *c, const struct tt_kept *k, const struct tt_op_desc *op,
                        uint32_t seq, uint64_t start_ns)
{
    struct tt_record *r = c->world->record;
    tt_record_note(r, &(struct tt_record_event){
                          .start_ns = start_ns,
                          .end_ns = tt_now_ns(),
                          .bytes = op->count == UINT64_MAX
                                       ? 0
                                       : op->count * tt_sched_dtype_bytes((tutti_dtype)op->dtype),
                          .peer = UINT32_MAX,
                          .comm = (uint32_t)c->id,
                          .seq = seq,
                          .kind = TT_RECORD_CALL,
                          .coll = op->coll,
                          .plan = plan_of(r, k)});
}

void tt_comm_trace_wait(struct tt_comm *c, uint32_t seq, uint64_t start_ns)
{
    tt_record_note(c->world->record, &(struct tt_record_event){.start_ns = start_ns,
                                                               .end_ns = tt_now_ns(),
                                                               .peer = UINT32_MAX,
                                                               .comm = (uint32_t)c->id,
                                                               .seq = seq,
                                                               .kind = TT_RECORD_WAIT,
                                                               .plan = TT_RECORD_NO_PLAN});
}

/* ---- gathering ---- */

/* What a rank sends to rank 0; its events follow. */
struct part {
    struct tt_log_beat beat[BEATS];
    uint64_t n, lost;
};

static tutti_status trace_beat(struct tt_comm *c, struct tt_log_beat *beat)
{
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < BEATS; i++) {
        beat[i].start_ns = (int64_t)tt_now_ns();
        st = tt_comm_run(c, &(struct tt_call){.coll = TUTTI_BARRIER});
        beat[i].end_ns = (int64_t)tt_now_ns();
    }
    return st;
}

/* What to add to the times of rank r to have those of rank 0: the middle of what all barriers
 * allow. */
static int64_t clock_offset(const struct part *zero, const struct part *r)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int i = 0; i < BEATS; i++) {
        int64_t least = zero->beat[i].start_ns - r->beat[i].end_ns;
        int64_t most = zero->beat[i].end_ns - r->beat[i].start_ns;
        low = least > low ? least : low;
        high = most < high ? most : high;
    }
    return low + (high - low) / 2;
}

/* ---- the file ---- */

struct writer {
    const struct tt_comm *c;
    const struct tt_record *record;
    FILE *out;
    const char *all; /* parts of all ranks */
    size_t each;     /* bytes of one */
    uint64_t zero_ns;
    uint32_t first, n; /* ranks in `all` */
};

static const struct part *part_at(const struct writer *w, uint32_t i)
{
    return (const struct part *)(const void *)(w->all + i * w->each);
}

static const struct tt_record_event *events_at(const struct writer *w, uint32_t i)
{
    return (const struct tt_record_event *)(const void *)(part_at(w, i) + 1);
}

static int64_t offset_of(const struct writer *w, uint32_t i)
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

/* A rank is a process of the trace; calls, waits and messages are its threads. */
static void write_ranks(const struct writer *w)
{
    static const char *const lanes[] = {"calls", "waits for requests", "sends", "receives", "idle"};
    const struct tt_boot_peer *peers = tt_boot_peers(w->c->world->boot);
    for (uint32_t i = 0; i < w->n; i++) {
        uint32_t r = w->first + i;
        char name[160];
        snprintf(name, sizeof name, "rank %u (%s)", r, peers[r].host);
        fprintf(w->out, "%s{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":",
                i ? ",\n" : "", r);
        put_string(name, w->out);
        fputs("}}", w->out);
        for (size_t k = 0; k < countof(lanes); k++)
            fprintf(w->out,
                    ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{"
                    "\"name\":\"%s\"}}",
                    r, k, lanes[k]);
    }
}

static void write_event(const struct writer *w, uint32_t rank, int64_t offset,
                        const struct tt_record_event *e)
{
    double ts = (double)((int64_t)e->start_ns + offset - (int64_t)w->zero_ns) / 1e3;
    double us = (double)(e->end_ns - e->start_ns) / 1e3;
    const char *name = e->kind == TT_RECORD_CALL ? tt_sched_coll_name((tutti_coll)e->coll)
                                                 : tt_record_name(e->kind);
    fprintf(w->out,
            ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,"
            "\"dur\":%.3f,\"args\":{\"comm\":%u,\"seq\":%u",
            tt_record_name(e->kind), name, rank, e->kind, ts, us, e->comm, e->seq);
    if (e->kind == TT_RECORD_CALL)
        fprintf(w->out, ",\"bytes\":%" PRIu64 ",\"plan\":%d", e->bytes,
                e->plan == TT_RECORD_NO_PLAN ? -1 : e->plan);
    if (e->kind == TT_RECORD_SEND || e->kind == TT_RECORD_RECEIVE)
        fprintf(w->out, ",\"peer\":%u,\"bytes\":%" PRIu64 ",\"message\":%u,\"piece\":%u", e->peer,
                e->bytes, e->message, e->piece);
    if (e->kind == TT_RECORD_IDLE)
        fprintf(w->out, ",\"peer\":%u", e->peer);
    fputs("}}", w->out);
}

/* The plans that this process has used; all ranks use the same ones in the same order. */
static void write_plans(const struct writer *w)
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

static tutti_status write_document(struct writer *w, struct tutti_error *err)
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
    fputs(",\n\"topology\":", w->out);
    tutti_status st = tt_topo_write(w->c->topo, w->out, err);
    fputs(",\"traceEvents\":[\n", w->out);
    write_ranks(w);
    for (uint32_t i = 0; i < w->n; i++)
        for (uint64_t k = 0; k < part_at(w, i)->n; k++)
            write_event(w, w->first + i, offset_of(w, i), &events_at(w, i)[k]);
    fputs("\n]}\n", w->out);
    return st;
}

/* A file that could not be finished is removed; the job itself is not in trouble. */
static void write_file(struct writer *w, const char *path)
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

static void write_alone(struct tt_comm *c, const struct tt_record *r, const char *mine,
                        size_t bytes)
{
    struct writer w = {.c = c, .record = r, .all = mine, .each = bytes, .first = c->rank, .n = 1};
    struct tt_str path = {0};
    tt_str_printf(&path, "%s.rank%u", c->world->trace_path, c->rank);
    if (!path.failed)
        write_file(&w, path.s);
    tt_str_free(&path);
}

/* Nothing is noted from now on. The record itself stays until the world ends: a thread of a twin
 * may just be writing to it. */
static struct tt_record *stop_noting(struct tt_comm *c)
{
    tt_comm_lock(c);
    struct tt_record *r = c->world->record;
    c->world->record = NULL;
    c->world->ended = r;
    tt_exec_engine_record(c->engine, NULL);
    tt_comm_unlock(c);
    return r;
}

/* The largest number of events that any rank has, at most `mine` can be sent. 0: some rank has
 * failed. */
static uint64_t agree_events(struct tt_comm *c, uint64_t mine)
{
    uint64_t top = mine;
    struct tt_call most = {.coll = TUTTI_ALLREDUCE,
                           .in = &mine,
                           .out = &top,
                           .count = 1,
                           .dtype = TUTTI_I64,
                           .redop = TUTTI_MAX};
    return c->failed || (c->size > 1 && tt_comm_run(c, &most)) ? 0 : top;
}

/* Sends all parts to rank 0, which writes. False: that was not possible. */
static bool write_together(struct tt_comm *c, const struct tt_record *r, char *mine, size_t bytes)
{
    char *all = c->rank == 0 ? tt_alloc(c->size, bytes) : NULL;
    struct tt_call gather = {
        .coll = TUTTI_GATHER, .in = mine, .out = all, .count = bytes, .dtype = TUTTI_U8};
    bool ok = !trace_beat(c, ((struct part *)(void *)mine)->beat) && (all || c->rank != 0) &&
              !tt_comm_run(c, &gather);
    struct writer w = {.c = c, .record = r, .all = all, .each = bytes, .n = c->size};
    if (ok && all)
        write_file(&w, c->world->trace_path);
    free(all);
    return ok;
}

/* Called while closing, before the barrier there. All ranks send as many bytes: the gather's blocks
 * are equal. */
void tt_comm_trace_end(struct tt_comm *c)
{
    if (!c->world->record || c->id)
        return;
    struct tt_record *r = stop_noting(c);
    if (!c->world->trace_path)
        return; /* TUTTI_TOP alone */
    uint64_t most = (ALL_BYTES / c->size - sizeof(struct part)) / sizeof(struct tt_record_event);
    most = most < r->cap ? most : r->cap;
    uint64_t noted = atomic_load(&r->next), top = agree_events(c, noted < most ? noted : most);
    uint64_t room = top ? top : most;
    size_t bytes = sizeof(struct part) + room * sizeof(struct tt_record_event);
    char *mine = tt_zalloc(1, bytes);
    struct part *part = (struct part *)(void *)mine;
    if (!mine)
        return; /* the others notice by the deadline; there is no memory to tell them */
    part->n = tt_record_last(r, room, (struct tt_record_event *)(void *)(part + 1), &part->lost);
    if (!top || !write_together(c, r, mine, bytes))
        write_alone(c, r, mine, bytes);
    free(mine);
}
