/* cmd_bench.c - tutti bench: times a collective on real ranks. This file has the options, the loop
 * over sizes and the buffers; bench_measure.c measures, bench_print.c prints.
 *
 *     tutti bench -n 4 --> tutti run -n 4 tutti bench ... --> rank 0 .. 3: run_rank
 *
 * Inside a job (tutti run, tutti lab, torchrun, mpirun, srun) the process is one rank; otherwise it
 * starts its own ranks on this machine through tutti run. The command line is parsed before that
 * and again by every rank, so that a mistake is reported once and before anything starts. */
#include "cli/bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

static const struct cli_option own[] = {
    {"ranks", 'n', "N", "start N ranks on this machine (default 2; inside a job: the job's)"},
    {"begin", 'b', "SIZE", "smallest vector (default 8)"},
    {"end", 'e', "SIZE", "largest vector (default 128M)"},
    {"factor", 'f', "F", "from one size to the next (default 2)"},
    {"iters", 'i', "N", "timed calls per size (default: by time)"},
    {"warmup", 'w', "N", "calls before those that are timed (default: by time)"},
    {"coll", 'c', "COLL", "collective (default allreduce)"},
    {"dtype", 'd', "TYPE", "element type (default f32)"},
    {"op", 0, "OP", "reduction (default sum)"},
    {"algo", 'a', "NAME", "algorithm (default: the planner's choice)"},
    {"plan", 0, "FILE", "run this plan (its collective is the default of --coll)"},
    {"tuning", 0, "FILE", "rules that fix algorithms"},
    {"transport", 0, "NAME", "shm, tcp or mpi (default: shm inside a host, tcp between hosts)"},
    {"mem", 0, "KIND", "malloc (default) or tutti: buffers in our shared memory"},
    {"in-place", 0, NULL, "only in place: input and output are one buffer (default: both ways)"},
    {"out-of-place", 0, NULL, "only out of place"},
    {"check", 0, NULL, "compare every element of one more call"},
    {"explain", 0, NULL, "say what ran, how, and measured over predicted time"},
    {"html", 0, "FILE", "also write a page for a browser"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

/* A size option into *ret, `dflt` when it was not given. Returns 0 or the exit code. */
static int get_size(const struct cli_args *a, const char *name, uint64_t dflt, uint64_t *ret)
{
    const char *v = cli_value(a, name);
    struct tutti_error err;
    *ret = dflt;
    return v && tutti_parse_size(v, ret, &err) ? cli_bad(a, "--%s: %s", name, err.text) : 0;
}

/* Reads the file of --plan for what it says about the run: the collective, the number of ranks,
 * and whether it can run in place. The communicator reads the file again for itself. */
static int parse_plan(struct bench *b)
{
    const char *plan = cli_value(b->a, "plan");
    struct tutti_schedule *s;
    struct tutti_schedule_info info;
    struct tutti_error err;
    if (!plan)
        return 0;
    if (cli_value(b->a, "algo"))
        return cli_bad(b->a, "--plan and --algo both say what runs: give one of them");
    if (tutti_schedule_read(plan, &s, &err))
        return cli_fail(b->a, &err);
    tutti_schedule_info(s, &info);
    snprintf(b->plan_ranks, sizeof b->plan_ranks, "%u", info.ranks);
    tutti_schedule_free(s);
    if (cli_value(b->a, "coll") && b->p.coll != info.coll)
        return cli_bad(b->a, "--coll %s: the plan is for %s", cli_value(b->a, "coll"),
                       tutti_coll_name(info.coll));
    b->p.coll = info.coll;
    b->plan_apart = !info.inplace;
    return 0;
}

/* Which ways are measured: both, unless an option or the collective excludes one. */
static int parse_places(struct bench *b)
{
    bool in = cli_flag(b->a, "in-place"), out = cli_flag(b->a, "out-of-place"),
         can = cli_bench_runs_in_place(b->p.coll) && !b->plan_apart;
    if (in && out)
        return cli_bad(b->a, "--in-place and --out-of-place: without either, both are measured");
    if (in && !can)
        return cli_bad(b->a, "--in-place: %s has no calls in place",
                       b->plan_apart ? "the plan" : tutti_coll_name(b->p.coll));
    b->places[0] = !in;
    b->places[1] = !out && can;
    return 0;
}

enum { MOST_CALLS = 100000 }; /* per size: a mistyped number should not take days */

/* Numbers that parse but make no sense together. */
static int check_counts(const struct bench *b)
{
    const struct cli_args *a = b->a;
    if (b->begin == 0)
        return cli_bad(a, "--begin 0: sizes begin at one element or more");
    if (b->begin > b->end)
        return cli_bad(a, "--begin %s is more than --end %s",
                       cli_value(a, "begin") ? cli_value(a, "begin") : "8",
                       cli_value(a, "end") ? cli_value(a, "end") : "128M");
    if (b->factor < 2)
        return cli_bad(a, "--factor %s: each size is at least twice the one before",
                       cli_value(a, "factor"));
    if (b->iters > MOST_CALLS || b->warmup > MOST_CALLS)
        return cli_bad(a,
                       "-%c %s: at most %d calls per size (this is not nccl-tests' -i, the step in "
                       "bytes; here sizes grow by -f)",
                       b->iters > MOST_CALLS ? 'i' : 'w',
                       cli_value(a, b->iters > MOST_CALLS ? "iters" : "warmup"), MOST_CALLS);
    return 0;
}

/* Only for a run that starts its own ranks; in a job run_rank compares with the job's size. */
static int check_plan_ranks(const struct bench *b)
{
    const char *n = cli_value(b->a, "ranks");
    if (n && *b->plan_ranks && strcmp(n, b->plan_ranks))
        return cli_bad(b->a, "-n %s: the plan is for %s ranks", n, b->plan_ranks);
    return 0;
}

/* Fills *b from the command line. Everything is checked before ranks are started or meet. */
static int bench_parse(struct bench *b)
{
    const struct cli_args *a = b->a;
    struct tutti_error err;
    const char *coll = cli_value(a, "coll"), *dtype = cli_value(a, "dtype"),
               *op = cli_value(a, "op"), *mem = cli_value(a, "mem");
    int c = coll ? tutti_coll_find(coll, &err) : TUTTI_ALLREDUCE,
        d = dtype ? tutti_dtype_find(dtype, &err) : TUTTI_F32,
        o = op ? tutti_redop_find(op, &err) : TUTTI_SUM;
    if (c < 0 || d < 0 || o < 0)
        return cli_fail(a, &err);
    b->p = (struct bench_problem){
        .coll = (tutti_coll)c, .dtype = (tutti_dtype)d, .op = (tutti_redop)o};
    int planned = parse_plan(b);
    /* In a job --ranks has already been obeyed by the launcher. */
    if (!planned && !cli_in_job())
        planned = check_plan_ranks(b);
    if (planned)
        return planned;
    if (mem && strcmp(mem, "malloc") && strcmp(mem, "tutti"))
        return cli_bad(a, "--mem %s: malloc or tutti", mem);
    /* The same fact for the run and for the prediction. */
    b->mem_tutti = b->p.own = mem && !strcmp(mem, "tutti");
    b->check = cli_flag(a, "check") && b->p.coll != TUTTI_BARRIER;
    b->explain = cli_flag(a, "explain");
    int code = parse_places(b);
    if (!code)
        code = get_size(a, "begin", 8, &b->begin);
    if (!code)
        code = get_size(a, "end", 128 << 20, &b->end);
    if (!code)
        code = get_size(a, "factor", 2, &b->factor);
    if (!code)
        code = get_size(a, "iters", 0, &b->iters);
    b->warmup_given = cli_value(a, "warmup") != NULL;
    if (!code)
        code = get_size(a, "warmup", 0, &b->warmup);
    if (!code && b->begin % tutti_dtype_bytes(b->p.dtype))
        code = cli_bad(a, "--begin %llu: not a whole number of elements of %u bytes",
                       (unsigned long long)b->begin, tutti_dtype_bytes(b->p.dtype));
    return code ? code : check_counts(b);
}

/* Collectives whose count is that of the whole vector; for the others it is that of a block. */
static bool is_whole(tutti_coll c)
{
    return c == TUTTI_ALLREDUCE || c == TUTTI_BROADCAST || c == TUTTI_REDUCE;
}

/* The count to pass to the call so that the whole vector has `bytes`, rounded down to whole
 * blocks. */
static size_t count_for(const struct bench *b, uint64_t bytes)
{
    size_t n = bytes / tutti_dtype_bytes(b->p.dtype);
    return b->p.coll == TUTTI_BARRIER ? 0 : is_whole(b->p.coll) ? n : n / b->p.ranks;
}

/* The bytes of the whole vector that a call with the current count moves. */
static uint64_t bytes_of(const struct bench *b)
{
    return (uint64_t)b->p.count * (is_whole(b->p.coll) ? 1 : b->p.ranks) *
           tutti_dtype_bytes(b->p.dtype);
}

/* Allocates both buffers for the largest size. Each can hold input or output, since in-place
 * calls use one for both; 16 spare elements keep them non-empty. On failure the caller frees
 * what was allocated. */
static tutti_status bench_buffers(struct bench *b, struct tutti_error *err)
{
    b->p.count = count_for(b, b->end);
    size_t each = tutti_dtype_bytes(b->p.dtype), in = (cli_bench_in_elems(&b->p) + 16) * each,
           out = (cli_bench_out_elems(&b->p) + 16) * each;
    /* In place, one buffer is input and output: both need the larger length. */
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
    /* Touch all pages now, not during the first timed calls. */
    memset(b->in, 0, in);
    memset(b->out, 0, in);
    return TUTTI_OK;
}

/* A call of the library failed: its reason is the communicator's last error. Returns CLI_NO. */
static int call_failed(const struct bench *b)
{
    cli_bad(b->a, "%s", tutti_comm_last_error(b->comm)->text);
    return CLI_NO;
}

/* Measures one size, both ways. Collective. */
static int run_row(struct bench *b, struct bench_row *r)
{
    struct tutti_error err;
    if (tutti_comm_plan(b->comm, b->p.coll, b->p.count, b->p.dtype, b->p.op, &r->plan, &err))
        return cli_fail(b->a, &err);
    /* The prediction for the buffers that are really used. */
    r->plan.predicted_us = b->mem_tutti ? r->plan.own_us : r->plan.predicted_us;
    for (int i = 0; i < 2; i++) {
        if (!b->places[i])
            continue;
        if (cli_bench_measure(b, i, r))
            return call_failed(b);
        b->wrong += r->place[i].wrong;
        b->busbw_sum += r->place[i].busbw;
        b->measured++;
    }
    /* The prediction is for out of place when both were measured. */
    double time_us = r->place[!r->place[0].known].time_us;
    if (b->explain && cli_bench_explain(b->comm, &b->p, time_us, &r->explained, &err))
        return cli_fail(b->a, &err);
    return CLI_OK;
}

/* A block needs at least one element per rank: a smaller --begin is raised, and rank 0 says so. */
static void raise_begin(struct bench *b)
{
    uint64_t least = (uint64_t)b->p.ranks * tutti_dtype_bytes(b->p.dtype);
    if (b->p.coll == TUTTI_BARRIER || is_whole(b->p.coll) || b->begin >= least)
        return;
    if (b->p.rank == 0)
        fprintf(
            cli_flag(b->a, "json") ? stderr : stdout,
            "# sizes begin at %llu B: each of the %u ranks has a block of one element or more\n",
            (unsigned long long)least, b->p.ranks);
    b->begin = least;
    b->end = b->end < least ? least : b->end;
}

/* The loop over sizes. Collective: every rank takes part in each decision to go on, so that no
 * rank waits for one that has ended. */
static int run_rows(struct bench *b)
{
    int code = cli_bench_print_head(b) ? call_failed(b) : CLI_OK;
    for (uint64_t bytes = b->begin; bytes <= b->end && code == CLI_OK; bytes *= b->factor) {
        bool more = false;
        code = cli_ranks_go_on(b->comm, &more) ? call_failed(b) : CLI_OK;
        if (!more)
            break;
        b->p.count = count_for(b, bytes);
        struct bench_row r = {.bytes = bytes_of(b)};
        code = run_row(b, &r);
        if (code == CLI_OK && b->p.rank == 0)
            cli_bench_print_row(b, &r);
        if (code == CLI_OK && b->p.rank == 0 && cli_value(b->a, "html"))
            code = cli_bench_keep(b, &r);
        /* A barrier has no sizes: one row. The other condition keeps bytes *= factor from
         * overflowing. */
        if (b->p.coll == TUTTI_BARRIER || bytes > UINT64_MAX / b->factor)
            break;
    }
    /* A JSON document is closed also after a failure, to stay valid. */
    if (b->p.rank == 0 && (code == CLI_OK || b->json))
        cli_bench_print_end(b);
    if (b->p.rank == 0 && code == CLI_OK && cli_value(b->a, "html"))
        code = cli_bench_page(b);
    free(b->rows);
    return b->wrong ? CLI_NO : code;
}

/* One rank of the job: opens the communicator, measures, and frees everything in any case. */
static int run_rank(struct bench *b)
{
    struct tutti_error err;
    /* A reader that ends (head) must not kill the rank: cli_ranks_go_on finds out instead. */
    signal(SIGPIPE, SIG_IGN);
    struct tutti_comm_options o = {.size = sizeof o,
                                   .transport = cli_value(b->a, "transport"),
                                   .algo = cli_value(b->a, "algo"),
                                   .plan = cli_value(b->a, "plan"),
                                   .tuning = cli_value(b->a, "tuning")};
    if (tutti_comm_open(&o, &b->comm, &err))
        return cli_fail(b->a, &err);
    /* --algo names the algorithm of the measured collective, not that of all-reduce. */
    tutti_comm_algo_of(b->comm, b->p.coll);
    b->p.rank = tutti_comm_rank(b->comm);
    b->p.ranks = tutti_comm_size(b->comm);
    raise_begin(b);
    /* The ranks know each other's number only now; all take the same decision, rank 0 reports
     * it. */
    bool misfit = *b->plan_ranks && strtoul(b->plan_ranks, NULL, 10) != b->p.ranks;
    if (misfit && b->p.rank == 0)
        cli_bad(b->a, "the plan is for %s ranks, the job has %u", b->plan_ranks, b->p.ranks);
    int code = misfit ? CLI_USAGE : bench_buffers(b, &err) ? cli_fail(b->a, &err) : run_rows(b);
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

/* A page that cannot be written should fail before anything is measured. */
static int check_page(const struct cli_args *a)
{
    const char *html = cli_value(a, "html");
    struct cli_output page = {0};
    if (html && !strcmp(html, "-"))
        return cli_bad(a, "--html -: the table goes to standard output; give the page a file");
    int code = cli_output_open(a, "html", &page);
    cli_output_drop(&page);
    return code;
}

/* Outside a job the ranks are started by replacing this process: cli_start_ranks does not
 * return. */
static int bench_run(const struct cli_args *a)
{
    struct bench b = {.a = a};
    int code = bench_parse(&b);
    if (code)
        return code;
    code = cli_in_job() ? 0 : check_page(a);
    if (code)
        return code;
    return cli_in_job() ? run_rank(&b) : cli_start_ranks(a, *b.plan_ranks ? b.plan_ranks : "2");
}

const struct cli_command cli_bench = {
    .name = "bench",
    .synopsis = "bench [-n N] [-b 8 -e 128M -f 2] [-i N] [-w N] [--coll COLL] [--algo NAME | "
                "--plan FILE] [--transport shm|tcp|mpi] "
                "[--dtype T] [--op OP] [--check] "
                "[--explain] [--html FILE] [--json]",
    .summary = "time a collective on real ranks: the table of nccl-tests",
    .details =
        "Both out of place and in place are timed, each as the best of three means over calls of "
        "about 0.2 s (or -i N calls). With --check every element of one more call is compared, "
        "and the exit status is 1 when any is wrong. The last line is the average bus "
        "bandwidth.\n\n"
        "algbw is bytes / time; busbw is algbw * 2(n-1)/n for all-reduce, (n-1)/n for "
        "reduce-scatter, all-gather and all-to-all, 1 for the others (10^9 bytes/s). The last "
        "columns are the plan and its predicted time.\n\n"
        "Inside a job (tutti run, tutti lab, torchrun, mpirun, srun) it is one rank.\n\n"
        "--explain adds what ran: the schedule with its options and segments, how many pieces of "
        "all ranks' messages went as bytes (message), by reads, writes and boxes, and measured "
        "over predicted time.",
    .examples = "tutti bench -n 4 -b 8 -e 64M\ntutti bench --plan plan.json -b 64K -e 64M "
                "--check\ntutti bench -n 4 --transport tcp "
                "--check\ntutti bench -n 4 -b 16K -e 16M -f 4 "
                "--explain --html bench.html\ntutti lab --nodes 4 --rate 1gbit -- tutti bench "
                "-b 64K -e 64M\nmpirun -n 4 tutti bench --transport mpi -b 8 -e 64M",
    .options = options,
    .opens_comm = true,
    .run = bench_run,
};
