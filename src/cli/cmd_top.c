/* cmd_top.c - tutti top: what the jobs of this user on this host are doing, from the counters that
 * ranks with TUTTI_TOP=1 keep in shared memory (base/board.h).
 *
 *     read -> wait for the interval -> read again -> differences per second -> a table
 *
 *     job 127.0.0.1:40661, 4 of 4 ranks here
 *      rank      pid    calls/s     bytes/s      sent/s  in calls  waiting  most for
 *         0     4711       1234   1.29 GB/s   1.1 GB/s      93 %     40 %  rank 2
 *     slowest: rank 2, for which the others waited 38 % of the time; link rank 2 to rank 0
 *
 * On a terminal the table is drawn anew every interval until the command is ended. */
#include "cli/top.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct cli_option own[] = {
    {"interval", 'i', "TIME", "between two looks (default 1s)"},
    {"once", 0, NULL, "one table, then end (also when standard output is no terminal)"},
    {"prometheus", 0, "[HOST:]PORT",
     "serve the counters as text for Prometheus (default HOST: "
     "127.0.0.1)"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

struct look {
    struct tutti_top *top;
    double s; /* when */
};

/* One rank between two looks: what changed, per second. */
struct line {
    struct tutti_top_rank now;
    size_t i, before; /* its places in both looks; before SIZE_MAX: it is new */
    double calls, bytes, sent, in_calls, waiting;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int look_now(const struct cli_args *a, struct look *ret)
{
    struct tutti_error err;
    if (tutti_top_read(&ret->top, &err))
        return cli_fail(a, &err);
    ret->s = seconds();
    return 0;
}

/* The same rank of the same process in the look before. */
static size_t find_before(const struct look *before, const struct tutti_top_rank *r)
{
    struct tutti_top_rank x;
    for (size_t i = 0; tutti_top_rank(before->top, i, &x); i++)
        if (x.pid == r->pid && x.rank == r->rank && x.opened_ns == r->opened_ns)
            return i;
    return SIZE_MAX;
}

static double per_second(uint64_t now, uint64_t then, double s)
{
    return now >= then && s > 0 ? (double)(now - then) / s : 0;
}

static struct line line_of(const struct look *x, const struct look *y, size_t i)
{
    struct line l = {.i = i};
    struct tutti_top_rank then = {0};
    double s = y->s - x->s;
    tutti_top_rank(y->top, i, &l.now);
    l.before = find_before(x, &l.now);
    if (l.before != SIZE_MAX)
        tutti_top_rank(x->top, l.before, &then);
    l.calls = per_second(l.now.calls, then.calls, s);
    l.bytes = per_second(l.now.call_bytes, then.call_bytes, s);
    l.sent = per_second(l.now.sent_bytes, then.sent_bytes, s);
    l.in_calls = per_second(l.now.call_ns, then.call_ns, s) / 1e9;
    l.waiting = per_second(l.now.idle_ns, then.idle_ns, s) / 1e9;
    return l;
}

/* The part of the time that the line's rank has waited for `peer`. */
static double waited_for(const struct look *x, const struct look *y, const struct line *l,
                         uint32_t peer)
{
    uint64_t then = l->before == SIZE_MAX ? 0 : tutti_top_idle_for(x->top, l->before, peer);
    return per_second(tutti_top_idle_for(y->top, l->i, peer), then, y->s - x->s) / 1e9;
}

/* ---- jobs ---- */

/* Lines [first, first + n) are the ranks of one job that are on this host. */
struct job {
    const struct line *line;
    size_t n;
    /* who is waited for most, by all others together, and by one */
    uint32_t slowest, link_to, link_from;
    double slowest_part, link_part;
};

static void judge(const struct look *x, const struct look *y, struct job *j)
{
    for (uint32_t peer = 0; peer < j->line[0].now.ranks; peer++) {
        double all = 0;
        for (size_t i = 0; i < j->n; i++) {
            double part = waited_for(x, y, &j->line[i], peer);
            all += part;
            if (part > j->link_part) {
                j->link_part = part;
                j->link_from = peer;
                j->link_to = j->line[i].now.rank;
            }
        }
        if (all / (double)j->n > j->slowest_part) {
            j->slowest_part = all / (double)j->n;
            j->slowest = peer;
        }
    }
}

/* The rank that this one waits for most; UINT32_MAX: none. */
static uint32_t most_for(const struct look *x, const struct look *y, const struct line *l)
{
    uint32_t who = UINT32_MAX;
    double most = 0.01;
    for (uint32_t peer = 0; peer < l->now.ranks; peer++)
        if (waited_for(x, y, l, peer) > most) {
            most = waited_for(x, y, l, peer);
            who = peer;
        }
    return who;
}

static void print_job(const struct look *x, const struct look *y, const struct job *j)
{
    char bytes[64], sent[64];
    const struct tutti_top_rank *r = &j->line[0].now;
    printf("job %s on %s: %zu of %u rank%s here\n", r->job, r->host, j->n, r->ranks,
           cli_s(r->ranks));
    printf("%6s %8s %10s %13s %13s %9s %8s  %s\n", "rank", "pid", "calls/s", "bytes/s", "sent/s",
           "in calls", "waiting", "most for");
    for (size_t i = 0; i < j->n; i++) {
        const struct line *l = &j->line[i];
        uint32_t who = most_for(x, y, l);
        printf("%6u %8d %10.0f %13s %13s %7.0f %% %6.0f %%  ", l->now.rank, (int)l->now.pid,
               l->calls, l->bytes > 0 ? tutti_format_rate(l->bytes, bytes, sizeof bytes) : "0",
               l->sent > 0 ? tutti_format_rate(l->sent, sent, sizeof sent) : "0", 100 * l->in_calls,
               100 * l->waiting);
        if (who != UINT32_MAX)
            printf("rank %u", who);
        printf("\n");
    }
    if (j->slowest_part > 0.01)
        printf("slowest: rank %u, for which each rank here waited %.0f %% of the time; link rank "
               "%u to rank %u (%.0f %%)\n",
               j->slowest, 100 * j->slowest_part, j->link_from, j->link_to, 100 * j->link_part);
}

static void json_job(struct tutti_json *json, const struct look *x, const struct look *y,
                     const struct job *j)
{
    tutti_json_object(json, NULL);
    tutti_json_string(json, "job", j->line[0].now.job);
    tutti_json_string(json, "host", j->line[0].now.host);
    tutti_json_u64(json, "ranks", j->line[0].now.ranks);
    if (j->slowest_part > 0) {
        tutti_json_u64(json, "slowest_rank", j->slowest);
        tutti_json_real(json, "waited_for_slowest", j->slowest_part);
        tutti_json_u64(json, "slowest_link_from", j->link_from);
        tutti_json_u64(json, "slowest_link_to", j->link_to);
    }
    tutti_json_array(json, "here");
    for (size_t i = 0; i < j->n; i++) {
        const struct line *l = &j->line[i];
        uint32_t who = most_for(x, y, l);
        tutti_json_object(json, NULL);
        tutti_json_u64(json, "rank", l->now.rank);
        tutti_json_u64(json, "pid", (uint64_t)l->now.pid);
        tutti_json_u64(json, "calls", l->now.calls);
        tutti_json_real(json, "calls_per_s", l->calls);
        tutti_json_real(json, "bytes_per_s", l->bytes);
        tutti_json_real(json, "sent_bytes_per_s", l->sent);
        tutti_json_real(json, "in_calls", l->in_calls);
        tutti_json_real(json, "waiting", l->waiting);
        if (who == UINT32_MAX)
            tutti_json_null(json, "waits_most_for");
        else
            tutti_json_u64(json, "waits_most_for", who);
        tutti_json_end(json);
    }
    tutti_json_end(json);
    tutti_json_end(json);
}

/* All jobs; the boards come in the order of job and rank. Returns the number of ranks. */
static size_t show(const struct cli_args *a, const struct look *x, const struct look *y,
                   struct tutti_json *json)
{
    struct tutti_top_rank r;
    size_t n = 0;
    while (tutti_top_rank(y->top, n, &r))
        n++;
    struct line *line = calloc(n + 1, sizeof *line);
    for (size_t i = 0; line && i < n; i++)
        line[i] = line_of(x, y, i);
    for (size_t first = 0; line && first < n;) {
        struct job j = {.line = line + first};
        while (first + j.n < n && !strcmp(j.line[j.n].now.job, j.line[0].now.job) &&
               j.line[j.n].now.ranks == j.line[0].now.ranks)
            j.n++;
        judge(x, y, &j);
        if (json)
            json_job(json, x, y, &j);
        else
            print_job(x, y, &j);
        first += j.n;
    }
    if (!line)
        cli_bad(a, "out of memory");
    free(line);
    return n;
}

/* ---- the loop ---- */

static void print_all(const struct cli_args *a, const struct look *x, const struct look *y,
                      bool clear)
{
    if (clear)
        printf("\033[H\033[2J");
    printf("tutti top: over %.2g s\n", y->s - x->s);
    if (!show(a, x, y, NULL))
        printf("no rank with TUTTI_TOP=1 runs here (tutti run --top sets it)\n");
    fflush(stdout);
}

static void print_json(const struct cli_args *a, const struct look *x, const struct look *y)
{
    struct tutti_json *json = tutti_json_open(stdout);
    tutti_json_object(json, NULL);
    tutti_json_real(json, "interval_s", y->s - x->s);
    tutti_json_array(json, "jobs");
    show(a, x, y, json);
    tutti_json_end(json);
    tutti_json_end(json);
    tutti_json_close(json);
}

static void rest(uint64_t ps)
{
    struct timespec t = {.tv_sec = (time_t)(ps / 1000000000000),
                         .tv_nsec = (long)(ps % 1000000000000 / 1000)};
    nanosleep(&t, NULL);
}

static int watch(const struct cli_args *a, uint64_t interval_ps)
{
    bool json = cli_flag(a, "json"), once = json || cli_flag(a, "once") || !isatty(STDOUT_FILENO);
    struct look before = {0}, now = {0};
    int code = look_now(a, &before);
    while (!code) {
        rest(interval_ps);
        code = look_now(a, &now);
        if (code)
            break;
        if (json)
            print_json(a, &before, &now);
        else
            print_all(a, &before, &now, !once);
        tutti_top_free(before.top);
        before = now;
        now.top = NULL;
        if (once)
            break;
    }
    tutti_top_free(before.top);
    return code;
}

static int top_run(const struct cli_args *a)
{
    const char *text = cli_value(a, "interval"), *address = cli_value(a, "prometheus");
    uint64_t interval_ps = UINT64_C(1000000000000);
    struct tutti_error err;
    if (text && tutti_parse_time(text, &interval_ps, &err))
        return cli_bad(a, "--interval: %s", err.text);
    if (interval_ps < 10000000000)
        return cli_bad(a, "--interval: at least 10ms");
    if (address && (cli_flag(a, "json") || cli_flag(a, "once") || text))
        return cli_bad(a, "--prometheus goes without --json, --once and --interval");
    return address ? cli_top_serve(a, address) : watch(a, interval_ps);
}

const struct cli_command cli_top = {
    .name = "top",
    .synopsis = "top [--interval TIME] [--once] [--json] | --prometheus [HOST:]PORT",
    .summary = "what running jobs do: calls and bytes per second, waiting, the slowest rank",
    .details = "Shows ranks of this user on this host that run with TUTTI_TOP=1 (tutti run --top "
               "sets it). They count in shared memory that only\n"
               "this user can open; looking does not disturb them. waiting is the time in which a "
               "rank had nothing to do until something of\n"
               "another rank came; the slowest rank is the one that the others wait for. "
               "--prometheus serves the counters at /metrics.",
    .examples = "tutti run -n 4 --top -- ./program & tutti top\n"
                "tutti top --once --json\n"
                "tutti top --prometheus 9464",
    .options = options,
    .run = top_run,
};
