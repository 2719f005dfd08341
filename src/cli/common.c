/* common.c - what the commands share: tables of options that describe a problem, the functions that
 * parse them, complaints, and the progress line.
 *
 * Functions named cli_get_* return 0 or an exit code after they have printed the complaint, so that
 * a command is a chain of `if (!code) code = ...`. */
#include "cli/cli.h"

#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Lists that several commands include in their own tables. */
const struct cli_option cli_topo_options[] = {
    {"topo", 't', "SPEC",
     "the network: kind:parameters[@link], or a topology file; see tutti topo --help"},
    {0}};
const struct cli_option cli_size_options[] = {
    {"size", 's', "SIZE", "bytes of the whole vector: 64K, 1M, 100M (1024-based)"}, {0}};
const struct cli_option cli_coll_options[] = {
    {"coll", 'c', "COLL", "collective (default allreduce)"},
    {"dtype", 'd', "TYPE", "element type (default f32)"},
    {"op", 0, "OP", "reduction (default sum)"},
    {"root", 0, "RANK", "root of a rooted collective (default 0)"},
    {0}};
const struct cli_option cli_algo_options[] = {
    {"algo", 'a', "NAME", "algorithm, or auto; see tutti algos"},
    {"option", 'O', "K=V", "an option of the algorithm; may be repeated"},
    {0}};
const struct cli_option cli_choice_options[] = {
    {"reproducible", 0, NULL,
     "only algorithms that sum in rank order (the same bits for every size)"},
    {"budget", 0, "TIME", "planning budget of auto (default 1s)"},
    {"tuning", 0, "FILE", "a tuning file whose rules override the choice"},
    {0}};
const struct cli_option cli_json_options[] = {
    {"json", 'j', NULL, "one JSON document on standard output"}, {0}};

int cli_bad(const struct cli_args *a, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* In a job all ranks fail alike: one of them prints. */
    if (cli_speaks(text))
        fprintf(stderr, "tutti %s: %s\n", a->command->name, text);
    return CLI_USAGE;
}

int cli_fail(const struct cli_args *a, const struct tutti_error *err)
{
    cli_bad(a, "%s", err->text);
    /* A refusal, a wrong plan and an exhausted budget are answers; everything else is bad input. */
    return err->status == TUTTI_ERR_REFUSED || err->status == TUTTI_ERR_INCORRECT ||
                   err->status == TUTTI_ERR_BUDGET
               ? CLI_NO
               : CLI_USAGE;
}

int cli_parse_topo(const struct cli_args *a, const char *spec, struct tutti_topo **ret)
{
    struct tutti_error err;
    char name[160];
    uint32_t first;
    if (tutti_topo_parse(spec, ret, &err))
        return cli_fail(a, &err);
    uint32_t n = tutti_topo_nowhere(*ret, &first);
    if (n)
        fprintf(stderr,
                "note: %s: %u cable%s to nowhere: %s%s has no rank behind it, and nothing crosses "
                "it\n",
                spec, n, n == 1 ? " leads" : "s lead", n == 1 ? "" : "e.g. ",
                tutti_topo_link_name(*ret, first, name, sizeof name));
    return 0;
}

int cli_get_topo(const struct cli_args *a, struct tutti_topo **ret)
{
    const char *spec = cli_value(a, "topo");
    if (!spec)
        spec = cli_environment("TUTTI_TOPO");
    if (!spec)
        return cli_bad(a, "--topo SPEC is needed, e.g. --topo star:8@1Gbps,50us");
    return cli_parse_topo(a, spec, ret);
}

/* Joins all --option values with commas. A comma inside a value would make two of one, and is
 * refused. */
static int join_options(const struct cli_args *a, char *buf, size_t cap)
{
    size_t len = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < a->nvalues; i++) {
        if (strcmp(a->values[i].option->name, "option"))
            continue;
        const char *v = a->values[i].value;
        if (strchr(v, ',') || len + strlen(v) + 2 > cap)
            return cli_bad(a, "--option %s: one key=value each, %zu characters together at most", v,
                           cap - 1);
        len += (size_t)snprintf(buf + len, cap - len, "%s%s", len ? "," : "", v);
    }
    return 0;
}

int cli_get_count(const struct cli_args *a, uint64_t bytes, tutti_dtype dtype, uint64_t *ret)
{
    uint32_t each = tutti_dtype_bytes(dtype);
    if (bytes % each)
        return cli_bad(a, "--size %llu is not a whole number of %s elements (%u bytes each)",
                       (unsigned long long)bytes, tutti_dtype_name(dtype), each);
    *ret = bytes / each;
    return 0;
}

/* --coll, --dtype and --op. -1: the name is unknown; the first such name has set err, and those
 * after it are not looked at. */
static int get_names(const struct cli_args *a, struct tutti_plan_options *o)
{
    struct tutti_error err;
    const char *coll = cli_value(a, "coll"), *dtype = cli_value(a, "dtype"),
               *op = cli_value(a, "op");
    int c = coll ? tutti_coll_find(coll, &err) : TUTTI_ALLREDUCE;
    int d = c < 0 ? -1 : dtype ? tutti_dtype_find(dtype, &err) : TUTTI_F32;
    int r = d < 0 ? -1 : op ? tutti_redop_find(op, &err) : TUTTI_SUM;
    if (r < 0)
        return cli_fail(a, &err);
    o->coll = (tutti_coll)c;
    o->dtype = (tutti_dtype)d;
    o->redop = (tutti_redop)r;
    return 0;
}

/* Only these have --root. */
static bool is_rooted(tutti_coll c)
{
    return c == TUTTI_BROADCAST || c == TUTTI_REDUCE || c == TUTTI_GATHER || c == TUTTI_SCATTER;
}

/* --root and --budget. */
static int get_numbers(const struct cli_args *a, struct cli_problem *p)
{
    struct tutti_error err;
    const char *root = cli_value(a, "root"), *budget = cli_value(a, "budget");
    uint64_t n = 0;
    if (root && !is_rooted(p->o.coll))
        return cli_bad(a, "--root: %s has no root", tutti_coll_name(p->o.coll));
    if (root && tutti_parse_u64(root, 0, UINT32_MAX, &n, &err))
        return cli_bad(a, "--root: %s", err.text);
    p->o.root = (uint32_t)n;
    if (budget && tutti_parse_time(budget, &n, &err))
        return cli_bad(a, "--budget: %s", err.text);
    /* Picoseconds to milliseconds, rounded up: a small budget must not become 0, the default. */
    p->o.budget_ms = budget ? (n + 999999999) / 1000000000 : 0;
    return 0;
}

/* --size, which a barrier must not have. */
static int get_size(const struct cli_args *a, struct cli_problem *p)
{
    struct tutti_error err;
    const char *size = cli_value(a, "size");
    if (!size && p->o.coll != TUTTI_BARRIER)
        return cli_bad(a, "--size is needed, e.g. --size 64M");
    if (size && tutti_parse_size(size, &p->bytes, &err))
        return cli_bad(a, "--size: %s", err.text);
    if (p->o.coll == TUTTI_BARRIER && p->bytes)
        return cli_bad(a, "a barrier moves no data: leave --size out");
    return cli_get_count(a, p->bytes, p->o.dtype, &p->o.count);
}

/* Splits at the first "..", which no size contains. */
int cli_get_range(const struct cli_args *a, const char *option, const char *text, uint64_t *ret_min,
                  uint64_t *ret_max)
{
    const char *dots = strstr(text, "..");
    char low[64];
    struct tutti_error err = {0};
    if (!dots || (size_t)(dots - text) >= sizeof low)
        return cli_bad(a, "--%s %s: MIN..MAX is needed, e.g. 1K..256M", option, text);
    snprintf(low, sizeof low, "%.*s", (int)(dots - text), text);
    if (tutti_parse_size(low, ret_min, &err) || tutti_parse_size(dots + 2, ret_max, &err))
        return cli_bad(a, "--%s %s: %s", option, text, err.text);
    if (*ret_min == 0 || *ret_min > *ret_max)
        return cli_bad(a, "--%s %s: MIN must be at least 1 and not above MAX", option, text);
    return 0;
}

/* --reproducible, or the variable TUTTI_REPRODUCIBLE. */
static int get_reproducible(const struct cli_args *a, bool *ret)
{
    const char *v = cli_environment("TUTTI_REPRODUCIBLE");
    if (v && strcmp(v, "0") && strcmp(v, "1"))
        return cli_bad(a, "TUTTI_REPRODUCIBLE is '%.40s': 0 or 1 is expected", v);
    *ret = cli_flag(a, "reproducible") || (v && !strcmp(v, "1"));
    return 0;
}

int cli_get_choice(const struct cli_args *a, struct cli_problem *ret)
{
    *ret = (struct cli_problem){.o = {.size = sizeof(struct tutti_plan_options)}};
    int code = get_names(a, &ret->o);
    if (!code)
        code = get_numbers(a, ret);
    if (!code)
        code = join_options(a, ret->options, sizeof ret->options);
    if (!code)
        code = get_reproducible(a, &ret->o.reproducible);
    if (code)
        return code;
    ret->o.algo = cli_value(a, "algo");
    ret->o.tuning = cli_value(a, "tuning");
    if (!ret->o.algo && !ret->o.tuning) /* the command line wins over the environment */
        ret->o.algo = cli_environment("TUTTI_ALGO");
    ret->o.options = ret->options[0] ? ret->options : NULL;
    return 0;
}

int cli_get_problem(const struct cli_args *a, struct cli_problem *ret)
{
    int code = cli_get_choice(a, ret);
    return code ? code : get_size(a, ret);
}

void cli_say_skipped(const struct tutti_plan *p, uint64_t budget_ms)
{
    struct tutti_plan_info info;
    struct tutti_candidate c;
    bool some = false;
    /* Suggest five times the budget that was not enough. */
    uint64_t more_ms = 5 * (budget_ms ? budget_ms : 1000);
    tutti_plan_info(p, NULL, &info);
    for (size_t i = 0; !info.from_tuning && !tutti_plan_explain(p, i, &c, NULL); i++)
        if (c.skipped) {
            printf("%s%s", some ? ", " : "not priced (planning budget): ", c.algo);
            some = true;
        }
    if (some && more_ms % 1000)
        printf("; --budget %llums may find a better one\n", (unsigned long long)more_ms);
    else if (some)
        printf("; --budget %llus may find a better one\n", (unsigned long long)more_ms / 1000);
}

/* Monotonic time, for progress lines. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cli_progress_begin(struct cli_progress *p, const char *what)
{
    *p = (struct cli_progress){.what = what, .start_ns = now_ns()};
}

const char *cli_time_left(double elapsed_s, double fraction, char *buf, size_t cap)
{
    /* The rest takes as long per unit of work as the part that is done. */
    double s = elapsed_s * (1 - fraction) / fraction;
    if (s < 100)
        snprintf(buf, cap, "about %.0f s left", ceil(s));
    else if (s < 6000)
        snprintf(buf, cap, "about %.0f min left", ceil(s / 60));
    else
        snprintf(buf, cap, "about %.0f h left", ceil(s / 3600));
    return buf;
}

void cli_progress_show(void *progress, double fraction)
{
    struct cli_progress *p = progress;
    uint64_t now = now_ns();
    char left[48] = "";
    /* Not before one second of work, and at most ten times a second. */
    if (!isatty(STDERR_FILENO) || now - p->start_ns < 1000000000u || now - p->last_ns < 100000000u)
        return;
    /* The bar has 40 characters. */
    int full = (int)(fraction * 40);
    if (fraction >= 0.001)
        cli_time_left((double)(now - p->start_ns) / 1e9, fraction, left, sizeof left);
    fprintf(stderr, "\r%s [%.*s%.*s] %3.0f%% %-20s", p->what, full,
            "########################################", 40 - full,
            "........................................", fraction * 100, left);
    p->last_ns = now;
    p->shown = true;
}

void cli_progress_end(struct cli_progress *p)
{
    /* Overwrites the line with blanks: bar, percentage and estimate take at most 71 characters. */
    if (p->shown)
        fprintf(stderr, "\r%*s\r", (int)strlen(p->what) + 71, "");
}

bool cli_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    /* A pipe without a reader reports POLLERR to its writer. */
    return poll(&out, 1, 0) > 0 && out.revents & POLLERR;
}

int cli_finish(int code)
{
    /* A reader that has gone is no error: head has read what it wanted. */
    if ((fflush(stdout) == 0 && !ferror(stdout)) || cli_reader_gone())
        return code;
    fprintf(stderr, "tutti: standard output could not be written\n");
    return CLI_USAGE;
}
