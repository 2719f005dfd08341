/* bench_measure.c - calls a collective repeatedly and takes the time.
 *
 * A measurement is the best of three rounds. A round is a barrier and then as many calls as take
 * about 0.2 s; its time is the mean of a call on the slowest rank. The best round counts because
 * disturbances by other processes only ever add time. In place means what users of MPI and NCCL
 * know: one buffer for both, with the block of a rank at its position in the vector. */
#include "cli/bench.h"

#include <string.h>
#include <time.h>

/* Monotonic, so that a change of the system's time does not enter a measurement. */
static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* busbw = algbw * this factor: the usual correction by which the figure is comparable with the
 * bandwidth of a link, whatever the collective and the number of ranks n. */
static double bus_factor(const struct bench_problem *p)
{
    double n = p->ranks;
    switch (p->coll) {
    case TUTTI_ALLREDUCE:
        return 2 * (n - 1) / n;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_ALL_GATHER:
    case TUTTI_ALL_TO_ALL:
        return (n - 1) / n;
    default:
        return 1;
    }
}

/* All-to-all has no call in place, and a barrier no buffers. */
bool cli_bench_runs_in_place(tutti_coll coll)
{
    return coll != TUTTI_ALL_TO_ALL && coll != TUTTI_BARRIER;
}

/* The two buffers of a call. In place the whole vector is b->out, and the rank's own block is
 * passed by its address inside it. */
struct buffers {
    void *in, *out;
};

static struct buffers buffers_of(const struct bench *b, bool in_place)
{
    const struct bench_problem *p = &b->p;
    char *own = (char *)b->out + p->rank * p->count * tutti_dtype_bytes(p->dtype);
    if (!in_place)
        return (struct buffers){b->in, b->out};
    switch (p->coll) {
    case TUTTI_REDUCE_SCATTER:
        return (struct buffers){b->out, own};
    case TUTTI_ALL_GATHER:
        return (struct buffers){own, b->out};
    case TUTTI_GATHER: /* Only the root has the whole vector. */
        return p->rank == 0 ? (struct buffers){own, b->out} : (struct buffers){b->in, b->out};
    case TUTTI_SCATTER:
        return p->rank == 0 ? (struct buffers){b->out, own} : (struct buffers){b->in, b->out};
    default:
        return (struct buffers){b->out, b->out};
    }
}

/* One call of the measured collective. Rooted ones have root 0. */
static tutti_status call(const struct bench *b, const struct buffers *x)
{
    const struct bench_problem *p = &b->p;
    switch (p->coll) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce(b->comm, x->in, x->out, p->count, p->dtype, p->op);
    case TUTTI_REDUCE_SCATTER:
        return tutti_reduce_scatter(b->comm, x->in, x->out, p->count, p->dtype, p->op);
    case TUTTI_ALL_GATHER:
        return tutti_all_gather(b->comm, x->in, x->out, p->count, p->dtype);
    case TUTTI_BROADCAST:
        return tutti_broadcast(b->comm, x->in, x->out, p->count, p->dtype, 0);
    case TUTTI_REDUCE:
        return tutti_reduce(b->comm, x->in, x->out, p->count, p->dtype, p->op, 0);
    case TUTTI_GATHER:
        return tutti_gather(b->comm, x->in, x->out, p->count, p->dtype, 0);
    case TUTTI_SCATTER:
        return tutti_scatter(b->comm, x->in, x->out, p->count, p->dtype, 0);
    case TUTTI_ALL_TO_ALL:
        return tutti_all_to_all(b->comm, x->in, x->out, p->count, p->dtype);
    default:
        return tutti_barrier(b->comm);
    }
}

/* Makes n calls. *ret_us is the mean time of a call on this rank, also when a call failed. */
static tutti_status time_calls(const struct bench *b, const struct buffers *x, uint64_t n,
                               double *ret_us)
{
    double t0 = now_us();
    tutti_status st = TUTTI_OK;
    for (uint64_t i = 0; !st && i < n; i++)
        st = call(b, x);
    *ret_us = (now_us() - t0) / (double)n;
    return st;
}

/* Chooses the number of calls of a round, so that a round takes about 0.2 s. All ranks must make
 * the same number of calls, hence rank 0's estimate is broadcast. A single call says little (a
 * rank may wait for a core, or touch its memory for the first time): the estimate begins with
 * one call and repeats with eight times as many until they take 40 ms together. These calls are
 * the warm-up, too, unless --warmup gives a number. */
static tutti_status choose_iters(const struct bench *b, const struct buffers *x, uint64_t *ret)
{
    double t = 0;
    uint64_t n = 1;
    tutti_status st = TUTTI_OK;
    for (uint64_t i = 0; !st && i < (b->warmup_given ? b->warmup : 1); i++)
        st = call(b, x);
    bool estimate = !b->iters || !b->warmup_given;
    while (!st && estimate && n <= 512 && t * (double)n < 40000) {
        st = time_calls(b, x, n, &t);
        if (!st)
            st = tutti_broadcast(b->comm, &t, &t, 1, TUTTI_F64, 0);
        n *= 8;
    }
    /* 0.2 us is the floor, so that a clock that did not move does not ask for infinitely many
     * calls. */
    double want = 200000 / (t > 0.2 ? t : 0.2);
    *ret = b->iters ? b->iters : (uint64_t)(want < 3 ? 3 : want > 20000 ? 20000 : want);
    return st;
}

/* Makes one call on fresh data and counts the wrong elements of all ranks. The output is
 * overwritten first, so that results of earlier calls cannot pass for those of this one. */
static tutti_status count_wrong(const struct bench *b, const struct buffers *x, uint64_t *ret)
{
    memset(b->out, 0x5a, cli_bench_out_elems(&b->p) * tutti_dtype_bytes(b->p.dtype));
    cli_bench_fill(&b->p, x->in);
    tutti_status st = call(b, x);
    int64_t all = st ? 0 : (int64_t)cli_bench_wrong(&b->p, x->out);
    if (!st)
        st = tutti_allreduce(b->comm, &all, &all, 1, TUTTI_I64, TUTTI_SUM);
    *ret = (uint64_t)all;
    return st;
}

tutti_status cli_bench_measure(const struct bench *b, bool in_place, struct bench_row *r)
{
    const struct buffers x = buffers_of(b, in_place);
    struct bench_time *ret = &r->place[in_place];
    uint64_t n = 0;
    double best = 1e300;
    cli_bench_fill(&b->p, x.in);
    tutti_status st = choose_iters(b, &x, &n);
    for (int round = 0; !st && round < 3; round++) {
        double t = 0;
        st = tutti_barrier(b->comm);
        if (!st)
            st = time_calls(b, &x, n, &t);
        /* The slowest rank's mean counts: a collective is done when all ranks are. */
        if (!st)
            st = tutti_allreduce(b->comm, &t, &t, 1, TUTTI_F64, TUTTI_MAX);
        best = t < best ? t : best;
    }
    if (!st && b->check)
        st = count_wrong(b, &x, &ret->wrong);
    if (st)
        return st;
    ret->known = true;
    ret->time_us = best;
    ret->algbw = (double)r->bytes / best / 1e3;
    ret->busbw = ret->algbw * bus_factor(&b->p);
    return TUTTI_OK;
}
