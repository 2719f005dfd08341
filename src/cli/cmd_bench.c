/* tutti bench: times a collective on real ranks and prints the table that users of nccl-tests know. Inside a job (tutti run, tutti lab,
 * torchrun, mpirun, srun) it is one rank; otherwise it starts its own ranks on this machine through tutti run. Rank 0 prints. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bench_explain.h"

static const struct cli_option own[] = {{"ranks", 'n', "N", "start N ranks on this machine (default 2; inside a job: the job's)"},
                                        {"begin", 'b', "SIZE", "smallest vector (default 8)"},
                                        {"end", 'e', "SIZE", "largest vector (default 128M)"},
                                        {"factor", 'f', "F", "from one size to the next (default 2)"},
                                        {"iters", 'i', "N", "timed calls per size (default: by time)"},
                                        {"coll", 'c', "COLL", "collective (default allreduce)"},
                                        {"dtype", 'd', "TYPE", "element type (default f32)"},
                                        {"op", 0, "OP", "reduction (default sum)"},
                                        {"algo", 'a', "NAME", "algorithm (default: the planner's choice)"},
                                        {"transport", 0, "NAME", "shm, tcp or mpi (default: shm inside a host, tcp between hosts)"},
                                        {"mem", 0, "KIND", "malloc (default) or tutti: buffers in our shared memory"},
                                        {"in-place", 0, NULL, "input and output are one buffer"},
                                        {"check", 0, NULL, "compare every element of the last call"},
                                        {"explain", 0, NULL, "say what ran, how, and measured by predicted time"},
                                        {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

struct bench {
    const struct cli_args *a;
    struct tutti_comm *comm;
    struct bench_problem p;
    uint64_t begin, end, factor, iters;
    bool check, in_place, mem_tutti, explain;
    void *in, *out;
    struct tutti_json *json;
};

struct row {
    uint64_t bytes, wrong;
    double time_us, algbw, busbw;
    struct tutti_comm_plan_info plan;
    struct bench_explained explained; /* with --explain */
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double bus_factor(const struct bench *b)
{
    double n = b->p.ranks;
    switch (b->p.coll) {
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

static tutti_status call(const struct bench *b)
{
    const struct bench_problem *p = &b->p;
    const void *in = b->in_place ? b->out : b->in;
    switch (p->coll) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce(b->comm, in, b->out, p->count, p->dtype, p->op);
    case TUTTI_REDUCE_SCATTER:
        return tutti_reduce_scatter(b->comm, b->in, b->out, p->count, p->dtype, p->op);
    case TUTTI_ALL_GATHER:
        return tutti_all_gather(b->comm, b->in, b->out, p->count, p->dtype);
    case TUTTI_BROADCAST:
        return tutti_broadcast(b->comm, in, b->out, p->count, p->dtype, 0);
    case TUTTI_REDUCE:
        return tutti_reduce(b->comm, in, b->out, p->count, p->dtype, p->op, 0);
    case TUTTI_GATHER:
        return tutti_gather(b->comm, b->in, b->out, p->count, p->dtype, 0);
    case TUTTI_SCATTER:
        return tutti_scatter(b->comm, b->in, b->out, p->count, p->dtype, 0);
    case TUTTI_ALL_TO_ALL:
        return tutti_all_to_all(b->comm, b->in, b->out, p->count, p->dtype);
    default:
        return tutti_barrier(b->comm);
    }
}

/* The mean time of `n` calls, as rank 0 sees it. */
static tutti_status time_calls(const struct bench *b, uint64_t n, double *ret_us)
{
    double t = now_us();
    tutti_status st = TUTTI_OK;
    for (uint64_t i = 0; !st && i < n; i++)
        st = call(b);
    t = (now_us() - t) / (double)n;
    if (!st)
        st = tutti_broadcast(b->comm, &t, &t, 1, TUTTI_F64, 0);
    *ret_us = t;
    return st;
}

/* Calls per measurement so that one takes about 0.2 s; rank 0's estimate counts for all. A single call may be luckier or unluckier than
 * the rest (who comes late to a core, first touches), so quick calls are estimated from many. */
static tutti_status choose_iters(const struct bench *b, uint64_t *ret)
{
    double t = 0;
    uint64_t n = 1;
    tutti_status st = call(b);
    do {
        if (!st)
            st = time_calls(b, n, &t);
        n *= 8;
    } while (!st && n <= 512 && t * (double)n < 40000);
    double want = 200000 / (t > 0.2 ? t : 0.2);
    *ret = b->iters ? b->iters : (uint64_t)(want < 3 ? 3 : want > 20000 ? 20000 : want);
    return st;
}

static tutti_status measure(const struct bench *b, struct row *r)
{
    uint64_t n = 0, wrong = 0;
    tutti_status st = choose_iters(b, &n);
    double best = 1e300;
    for (int round = 0; !st && round < 3; round++) {
        st = tutti_barrier(b->comm);
        double t0 = now_us(), t;
        for (uint64_t i = 0; !st && i < n; i++)
            st = call(b);
        t = (now_us() - t0) / (double)n;
        if (!st)
            st = tutti_allreduce(b->comm, &t, &t, 1, TUTTI_F64, TUTTI_MAX);
        best = t < best ? t : best;
    }
    if (!st && b->check) {
        bench_fill(&b->p, b->in_place ? b->out : b->in);
        st = call(b);
        wrong = st ? 0 : bench_wrong(&b->p, b->out);
        int64_t all = (int64_t)wrong;
        if (!st)
            st = tutti_allreduce(b->comm, &all, &all, 1, TUTTI_I64, TUTTI_SUM);
        wrong = (uint64_t)all;
    }
    r->time_us = best;
    r->algbw = (double)r->bytes / best / 1e3;
    r->busbw = r->algbw * bus_factor(b);
    r->wrong = wrong;
    return st;
}

static void print_row(const struct bench *b, const struct row *r)
{
    if (b->json) {
        tutti_json_object(b->json, NULL);
        tutti_json_u64(b->json, "bytes", r->bytes);
        tutti_json_u64(b->json, "count", r->bytes / tutti_dtype_bytes(b->p.dtype));
        tutti_json_real(b->json, "time_us", r->time_us);
        tutti_json_real(b->json, "algbw_GBs", r->algbw);
        tutti_json_real(b->json, "busbw_GBs", r->busbw);
        if (b->check)
            tutti_json_u64(b->json, "wrong", r->wrong);
        else
            tutti_json_null(b->json, "wrong");
        tutti_json_string(b->json, "algo", r->plan.algo);
        tutti_json_real(b->json, "predicted_us", r->plan.predicted_us);
        if (b->explain)
            bench_explain_json(b->json, &r->explained);
        tutti_json_end(b->json);
        return;
    }
    char wrong[24] = "N/A";
    if (b->check)
        snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)r->wrong);
    printf("%12llu %12llu %8s %6s %11.2f %8.3f %8.3f %6s   %s %.1f\n", (unsigned long long)r->bytes,
           (unsigned long long)(r->bytes / tutti_dtype_bytes(b->p.dtype)), tutti_dtype_name(b->p.dtype), tutti_redop_name(b->p.op),
           r->time_us, r->algbw, r->busbw, wrong, r->plan.algo, r->plan.predicted_us);
    if (b->explain)
        bench_explain_text(&r->explained, r->time_us);
    fflush(stdout);
}

static void print_head(struct bench *b)
{
    if (cli_flag(b->a, "json")) {
        b->json = tutti_json_open(stdout);
        tutti_json_object(b->json, NULL);
        tutti_json_string(b->json, "coll", tutti_coll_name(b->p.coll));
        tutti_json_u64(b->json, "ranks", b->p.ranks);
        tutti_json_string(b->json, "dtype", tutti_dtype_name(b->p.dtype));
        tutti_json_string(b->json, "op", tutti_redop_name(b->p.op));
        tutti_json_string(b->json, "mem", b->mem_tutti ? "tutti" : "malloc");
        tutti_json_bool(b->json, "in_place", b->in_place);
        tutti_json_array(b->json, "rows");
        return;
    }
    printf("# tutti %s: %s on %u ranks, %s buffers, %s; best of 3 means, slowest rank\n", tutti_version(), tutti_coll_name(b->p.coll),
           b->p.ranks, b->mem_tutti ? "tutti_mem_alloc'd" : "malloc'd", b->in_place ? "in place" : "out of place");
    printf("#%11s %12s %8s %6s %11s %8s %8s %6s   %s\n", "size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong",
           "plan, predicted");
    printf("#%11s %12s %8s %6s %11s %8s %8s %6s   %s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)");
}

static int get_size(const struct cli_args *a, const char *name, uint64_t dflt, uint64_t *ret)
{
    const char *v = cli_value(a, name);
    struct tutti_error err;
    *ret = dflt;
    return v && tutti_parse_size(v, ret, &err) ? cli_bad(a, "--%s: %s", name, err.text) : 0;
}

static int parse(struct bench *b)
{
    const struct cli_args *a = b->a;
    struct tutti_error err;
    const char *coll = cli_value(a, "coll"), *dtype = cli_value(a, "dtype"), *op = cli_value(a, "op"), *mem = cli_value(a, "mem");
    int c = coll ? tutti_coll_find(coll, &err) : TUTTI_ALLREDUCE, d = dtype ? tutti_dtype_find(dtype, &err) : TUTTI_F32,
        o = op ? tutti_redop_find(op, &err) : TUTTI_SUM;
    if (c < 0 || d < 0 || o < 0)
        return cli_fail(a, &err);
    b->p = (struct bench_problem){.coll = (tutti_coll)c, .dtype = (tutti_dtype)d, .op = (tutti_redop)o};
    if (mem && strcmp(mem, "malloc") && strcmp(mem, "tutti"))
        return cli_bad(a, "--mem %s: malloc or tutti", mem);
    b->mem_tutti = b->p.own = mem && !strcmp(mem, "tutti");
    b->in_place = cli_flag(a, "in-place");
    b->check = cli_flag(a, "check");
    b->explain = cli_flag(a, "explain");
    if (b->in_place && b->p.coll != TUTTI_ALLREDUCE && b->p.coll != TUTTI_BROADCAST)
        return cli_bad(a, "--in-place: only for allreduce and broadcast");
    int code = get_size(a, "begin", 8, &b->begin);
    if (!code)
        code = get_size(a, "end", 128 << 20, &b->end);
    if (!code)
        code = get_size(a, "factor", 2, &b->factor);
    if (!code)
        code = get_size(a, "iters", 0, &b->iters);
    if (!code && b->begin % tutti_dtype_bytes(b->p.dtype))
        code = cli_bad(a, "--begin %llu: not a whole number of elements of %u bytes", (unsigned long long)b->begin,
                       tutti_dtype_bytes(b->p.dtype));
    if (!code && (b->begin == 0 || b->begin > b->end || b->factor < 2))
        code = cli_bad(a, "sizes from --begin to --end by --factor: at least 1, rising, a factor of 2 or more");
    return code;
}

/* Elements of the whole vector of `bytes` to the count of the public call, rounded down to whole blocks. */
static size_t count_for(const struct bench *b, uint64_t bytes)
{
    size_t n = bytes / tutti_dtype_bytes(b->p.dtype);
    bool whole = b->p.coll == TUTTI_ALLREDUCE || b->p.coll == TUTTI_BROADCAST || b->p.coll == TUTTI_REDUCE;
    return b->p.coll == TUTTI_BARRIER ? 0 : whole ? n : n / b->p.ranks;
}

static tutti_status buffers(struct bench *b, struct tutti_error *err)
{
    b->p.count = count_for(b, b->end);
    size_t each = tutti_dtype_bytes(b->p.dtype), in = (bench_in_elems(&b->p) + 16) * each, out = (bench_out_elems(&b->p) + 16) * each;
    in = in > out ? in : out;
    if (b->mem_tutti) {
        tutti_status st = tutti_mem_alloc(b->comm, in, &b->in, err);
        return st ? st : tutti_mem_alloc(b->comm, in, &b->out, err);
    }
    b->in = malloc(in);
    b->out = malloc(in);
    if (!b->in || !b->out) {
        *err = (struct tutti_error){.status = TUTTI_ERR_MEMORY, .text = "out of memory"};
        return TUTTI_ERR_MEMORY;
    }
    memset(b->in, 0, in);
    memset(b->out, 0, in);
    return TUTTI_OK;
}

static int run_rows(struct bench *b)
{
    int code = CLI_OK;
    uint64_t wrong = 0;
    if (b->p.rank == 0)
        print_head(b);
    for (uint64_t bytes = b->begin; bytes <= b->end && code == CLI_OK; bytes *= b->factor) {
        struct row r = {.bytes = bytes};
        struct tutti_error err;
        b->p.count = count_for(b, bytes);
        if (b->p.count == 0 && b->p.coll != TUTTI_BARRIER)
            continue;
        bench_fill(&b->p, b->in_place ? b->out : b->in);
        tutti_status planned = tutti_comm_plan(b->comm, b->p.coll, b->p.count, b->p.dtype, b->p.op, &r.plan, &err);
        r.plan.predicted_us = b->mem_tutti ? r.plan.own_us : r.plan.predicted_us;
        if (planned != TUTTI_OK)
            code = cli_fail(b->a, &err);
        else if (measure(b, &r) != TUTTI_OK)
            code = cli_bad(b->a, "%s", tutti_comm_last_error(b->comm)->text) ? CLI_NO : CLI_NO;
        else if (b->explain && bench_explain(b->comm, &b->p, r.time_us, &r.explained, &err) != TUTTI_OK)
            code = cli_fail(b->a, &err);
        else if (b->p.rank == 0)
            print_row(b, &r);
        wrong += r.wrong;
        if (b->p.coll == TUTTI_BARRIER)
            break;
    }
    if (b->json) {
        tutti_json_end(b->json);
        tutti_json_end(b->json);
        tutti_json_close(b->json);
    }
    return wrong ? CLI_NO : code;
}

static int run_rank(struct bench *b)
{
    struct tutti_error err;
    struct tutti_comm_options o = {.size = sizeof o, .transport = cli_value(b->a, "transport"), .algo = cli_value(b->a, "algo")};
    if (tutti_comm_open(&o, &b->comm, &err))
        return cli_fail(b->a, &err);
    tutti_comm_algo_of(b->comm, b->p.coll);
    b->p.rank = tutti_comm_rank(b->comm);
    b->p.ranks = tutti_comm_size(b->comm);
    int code = buffers(b, &err) ? cli_fail(b->a, &err) : run_rows(b);
    if (b->mem_tutti) {
        tutti_mem_free(b->comm, b->in);
        tutti_mem_free(b->comm, b->out);
    } else {
        free(b->in);
        free(b->out);
    }
    tutti_comm_close(b->comm);
    return code;
}

static int run(const struct cli_args *a)
{
    struct bench b = {.a = a};
    int code = parse(&b);
    if (code)
        return code;
    return cli_in_job() ? run_rank(&b) : cli_start_ranks(a, "2");
}

const struct cli_command cli_bench = {
    .name = "bench",
    .synopsis = "bench [-n N] [-b 8 -e 128M -f 2] [--coll COLL] [--algo NAME] [--transport shm|tcp|mpi] [--dtype T] [--op OP] [--check] "
                "[--explain] [--json]",
    .summary = "time a collective on real ranks: the table of nccl-tests",
    .details = "algbw is bytes / time; busbw is algbw * 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter, all-gather and all-to-all, 1 "
               "for the others\n"
               "(10^9 bytes/s). The last columns are the plan and its predicted time. Inside a job (tutti run, tutti lab, torchrun, "
               "mpirun, srun) it is one rank.\n"
               "--explain adds what ran: the schedule with its options and segments, how many pieces of all ranks' messages went as bytes "
               "(message), by\nreads, writes and boxes, and the measured by the predicted time.",
    .examples = "tutti bench -n 4 -b 8 -e 64M\ntutti bench -n 4 --transport tcp --check\ntutti bench -n 4 -b 16K -e 16M -f 4 "
                "--explain\ntutti lab --nodes 4 --rate 1gbit -- tutti bench "
                "-b 64K -e 64M\nmpirun -n 4 tutti bench --transport mpi -b 8 -e 64M",
    .options = options,
    .run = run,
};
