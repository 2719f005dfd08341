/* sim_packet_case.h - small schedules and runs for the tests of the packet level: a list of messages instead of an algorithm. */
#ifndef SIM_PACKET_CASE_H
#define SIM_PACKET_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "sim/packet.h"
#include "topo_spec.h"

struct sim_case_msg {
    uint32_t src, dst, step, chunk;
};

/* What rank r does for message m: its end of it, if it has one. */
static inline void sim_case_op(struct tt_builder *b, uint32_t r, const struct sim_case_msg *m, bool sends, bool sums)
{
    struct tt_span span = {m->chunk, 1, 0, 1, TT_BUF_IN, TT_BUF_IN};
    if (sends && m->src == r)
        tt_sched_emit_send(b, m->step, m->dst, 0, &span, 1);
    if (!sends && m->dst == r && sums)
        tt_sched_emit_recv_reduce(b, m->step, m->src, 0, &span, 1);
    else if (!sends && m->dst == r)
        tt_sched_emit_recv(b, m->step, m->src, 0, &span, 1);
}

/* The messages (by step) on `chunks` equal chunks; received into IN, so that later sends of the chunk wait. */
static inline struct tt_sched *sim_sched(const struct tt_topo *t, uint32_t chunks, const struct sim_case_msg *m, size_t n, bool sums)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .chunks = chunks, .nbufs = 2, .segments = 1, .count = chunks};
    struct tt_builder b;
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < t->ranks; r++) {
        tt_sched_build_rank(&b, r);
        for (size_t i = 0; i < n; i++) { /* within a step: sends, then receives */
            if (i && m[i].step == m[i - 1].step)
                continue;
            for (int sends = 1; sends >= 0; sends--)
                for (size_t k = i; k < n && m[k].step == m[i].step; k++)
                    sim_case_op(&b, r, &m[k], sends, sums);
        }
    }
    if (tt_sched_build_freeze(&b, &s, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return s;
}

static inline struct tt_sched *sim_algo(const char *name, const struct tt_topo *t, uint64_t count)
{
    struct tt_algo_args a = {.problem = {TUTTI_ALLREDUCE, t->ranks, 0, count, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    if (tt_algo_build(tt_algo_find(name), &a, &s, &err) != TUTTI_OK)
        fail_msg("%s: %s", name, err.text);
    return s;
}

static inline struct tt_sim_report *sim_run(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                                            const struct tt_sim_options *o)
{
    struct tutti_error err = {0};
    struct tt_sim_report *r = NULL;
    if (tt_sim_run(s, t, count, TUTTI_F32, o, &r, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return r;
}

/* The time of one list of messages with `bytes` per chunk. */
static inline uint64_t sim_time(const char *spec, const struct sim_case_msg *m, size_t n, uint64_t bytes, const struct tt_sim_packet *p)
{
    struct tt_topo *t = topo_of(spec);
    uint32_t chunks = 0;
    for (size_t i = 0; i < n; i++)
        chunks = m[i].chunk >= chunks ? m[i].chunk + 1 : chunks;
    struct tt_sched *s = sim_sched(t, chunks, m, n, false);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = *p};
    struct tt_sim_report *r = sim_run(s, t, chunks * bytes / 4, &o);
    uint64_t time = r->time_ps;
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
    return time;
}
#endif
