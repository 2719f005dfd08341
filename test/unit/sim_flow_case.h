/* sim_flow_case.h - what the tests of the simulator share: schedules made of a few messages, runs that must succeed. */
#ifndef TEST_SIM_CASE_H
#define TEST_SIM_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "cost/cost.h"
#include "sim/sim.h"
#include "topo_spec.h"

/* `bytes` of chunk `chunk` from src to dst: every chunk has its own length. */
struct sim_msg {
    uint32_t src, dst, step, chunk;
};

/* A line of ranks: bw[i] and latency_ps[i] are those of the cable between i and i + 1. */
static inline struct tt_topo *sim_line(uint32_t ranks, const double *bw, const uint64_t *latency_ps, bool half)
{
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    assert_int_equal(tt_topo_new("custom", ranks, 0, &t, &err), TUTTI_OK);
    for (uint32_t i = 0; i + 1 < ranks; i++) {
        const struct tt_link l = {i, i + 1, {bw[i], bw[i]}, latency_ps[i], half};
        assert_int_equal(tt_topo_add_link(t, &l, &err), TUTTI_OK);
    }
    assert_int_equal(tt_topo_finish(t, &t, &err), TUTTI_OK);
    return t;
}

static inline void sim_emit(struct tt_builder *b, const struct sim_msg *m, size_t n, uint32_t rank, uint32_t step, bool sends)
{
    for (size_t i = 0; i < n; i++) {
        struct tt_span s = tt_sched_span_range(sends && m[i].src != 0 && m[i].step ? TT_BUF_OUT
                                               : sends                             ? TT_BUF_IN
                                                                                   : TT_BUF_OUT,
                                               m[i].chunk, 1);
        if (m[i].step != step || (sends ? m[i].src : m[i].dst) != rank)
            continue;
        if (sends)
            tt_sched_emit_send(b, step, m[i].dst, 0, &s, 1);
        else
            tt_sched_emit_recv(b, step, m[i].src, 0, &s, 1);
    }
}

/* A schedule of these messages, listed by step. In step 0 ranks send their input, later what they received (rank 0: always its input). */
static inline struct tt_sched *sim_sched(uint32_t ranks, uint32_t chunks, const uint32_t *weights, const struct sim_msg *m, size_t n)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = ranks, .chunks = chunks, .nbufs = 2, .segments = 1, .dtype = TUTTI_I8};
    struct tutti_error err = {0};
    struct tt_builder b;
    struct tt_sched *s = NULL;
    uint32_t steps = 0;
    for (size_t i = 0; i < n; i++)
        steps = m[i].step >= steps ? m[i].step + 1 : steps;
    if (weights) {
        shape.weights = tt_alloc(chunks, sizeof *shape.weights);
        memcpy(shape.weights, weights, chunks * sizeof *weights);
    }
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < ranks; r++) {
        tt_sched_build_rank(&b, r);
        for (uint32_t step = 0; step < steps; step++) {
            sim_emit(&b, m, n, r, step, true);
            sim_emit(&b, m, n, r, step, false);
        }
    }
    if (tt_sched_build_freeze(&b, &s, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return s;
}

static inline struct tt_sim_report *sim_run(const struct tt_sched *s, const struct tt_topo *t, uint64_t bytes,
                                            const struct tt_sim_options *o)
{
    struct tutti_error err = {0};
    struct tt_sim_report *r = NULL;
    if (tt_sim_run(s, t, bytes, TUTTI_I8, o ? o : &(struct tt_sim_options){0}, &r, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return r;
}

/* The time alone. */
static inline uint64_t sim_time(const struct tt_sched *s, const struct tt_topo *t, uint64_t bytes, const struct tt_sim_options *o)
{
    struct tt_sim_report *r = sim_run(s, t, bytes, o);
    uint64_t ps = r->time_ps;
    tt_sim_report_free(r);
    return ps;
}

/* The algorithm's all-reduce of so many f32, or NULL when it refuses. */
static inline struct tt_sched *sim_algo(const char *algo, const struct tt_topo *t, uint64_t count, uint32_t segments)
{
    struct tt_algo_args a = {.problem = {TUTTI_ALLREDUCE, t->ranks, 0, count, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    if (tt_algo_probe(tt_algo_find(algo), &a, &err) != TUTTI_OK)
        return NULL;
    if (tt_algo_build(tt_algo_find(algo), &a, &s, &err) != TUTTI_OK)
        fail_msg("%s: %s", algo, err.text);
    if (segments)
        s->shape.segments = segments;
    return s;
}
#endif
