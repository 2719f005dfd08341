/* trace.c - TUTTI_TRACE (and the counters of TUTTI_TOP, base/board.h): one file of what every
 * rank did.
 *
 *     open:  a ring of events (base/record.h) for this process
 *     runs:  calls and waits are noted here, pieces and idle times by exec, steps by train
 *     close: barriers to compare the clocks, a gather, and rank 0 writes (trace_file.c)
 *
 * Memory is bounded: a ring of EVENTS events in every process; at rank 0, ALL_BYTES for all of
 * them. The ranks of rank 0's host share its clock. For the others, a barrier that both have passed
 * bounds the difference: each began before the other one's end. After a failure every rank writes
 * what it has to a file of its own, PATH.rankN. */
#include <stdlib.h>
#include <unistd.h>

#include "base/board.h"
#include "comm/trace_file.h"

enum { EVENTS = 1 << 16 };
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
    if ((!c->config.trace && !c->config.top) || c->id || w->record)
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
    tt_board_free(w->record ? w->record->board : NULL, w->board_path);
    tt_record_free(w->record);
    free(w->trace_path);
    w->record = NULL;
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
                        const struct tt_trace_call *call)
{
    struct tt_record *r = c->world->record;
    tt_record_note(r, &(struct tt_record_event){
                          .start_ns = call->start_ns,
                          .end_ns = tt_now_ns(),
                          .bytes = op->count == UINT64_MAX
                                       ? 0
                                       : op->count * tt_sched_dtype_bytes((tutti_dtype)op->dtype),
                          .peer = UINT32_MAX,
                          .comm = (uint32_t)c->id,
                          .seq = call->seq,
                          .piece = call->request,
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

bool tt_comm_traced(const struct tt_comm *c)
{
    return c->world->trace_path != NULL;
}

void tt_comm_trace_note(struct tt_comm *c, struct tt_record_event e)
{
    e.peer = UINT32_MAX;
    e.comm = (uint32_t)c->id;
    e.plan = TT_RECORD_NO_PLAN;
    tt_record_note(c->world->record, &e);
}

void tt_comm_trace_trainer(struct tt_comm *c, struct tt_record_trainer *t)
{
    t->comm = (uint32_t)c->id;
    tt_record_add_trainer(c->world->record, t);
}

/* ---- gathering ---- */

static tutti_status trace_beat(struct tt_comm *c, struct tt_log_beat *beat)
{
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < TT_TRACE_BEATS; i++) {
        beat[i].start_ns = (int64_t)tt_now_ns();
        st = tt_comm_run(c, &(struct tt_call){.coll = TUTTI_BARRIER});
        beat[i].end_ns = (int64_t)tt_now_ns();
    }
    return st;
}

static void write_alone(struct tt_comm *c, const struct tt_record *r, char *mine, size_t bytes)
{
    struct tt_trace_parts w = {
        .c = c, .record = r, .all = mine, .each = bytes, .first = c->rank, .n = 1};
    struct tt_str path = {0};
    tt_str_printf(&path, "%s.rank%u", c->world->trace_path, c->rank);
    if (!path.failed)
        tt_comm_trace_write(&w, path.s);
    tt_str_free(&path);
}

/* Nothing is noted from now on. The record itself stays until the world ends: a thread of a twin
 * may still try. */
static struct tt_record *stop_noting(struct tt_comm *c)
{
    tt_comm_lock(c);
    tt_exec_engine_record(c->engine, NULL);
    tt_comm_unlock(c);
    tt_record_end(c->world->record);
    return c->world->record;
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
    bool ok = !trace_beat(c, ((struct tt_trace_part *)(void *)mine)->beat) &&
              (all || c->rank != 0) && !tt_comm_run(c, &gather);
    struct tt_trace_parts w = {.c = c, .record = r, .all = all, .each = bytes, .n = c->size};
    if (ok && all)
        tt_comm_trace_write(&w, c->world->trace_path);
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
    uint64_t most =
        (ALL_BYTES / c->size - sizeof(struct tt_trace_part)) / sizeof(struct tt_record_event);
    most = most < r->cap ? most : r->cap;
    uint64_t noted = tt_record_noted(r), top = agree_events(c, noted < most ? noted : most);
    uint64_t room = top ? top : most;
    size_t bytes = sizeof(struct tt_trace_part) + room * sizeof(struct tt_record_event);
    char *mine = tt_zalloc(1, bytes);
    struct tt_trace_part *part = (struct tt_trace_part *)(void *)mine;
    if (!mine)
        return; /* the others notice by the deadline; there is no memory to tell them */
    part->n = tt_record_last(r, room, (struct tt_record_event *)(void *)(part + 1), &part->lost);
    if (!top || !write_together(c, r, mine, bytes))
        write_alone(c, r, mine, bytes);
    free(mine);
}
