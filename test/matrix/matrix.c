/* The matrix, generated from the algorithm table: every algorithm x every collective it offers x ranks 1..17, 31, 32, 33, 101 x networks it
 * may need x counts 0, 1, P-1, P, P+1, odd, large. Each schedule is checked, proved, run on numbers by an independent interpreter (in place
 * too), written and read back, sliced, priced, and its time compared with the lower bound.
 *
 * Usage: matrix SHARD SHARDS [quick]. Work is dealt to the shards by case number. Prints a summary; exit 1 at the first wrong case of any
 * kind. */
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "bound/bound.h"
#include "cost/cost.h"
#include "interp.h"
#include "verify/verify.h"

static const uint32_t all_ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 101};
static const uint32_t quick_ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 17, 33};

enum { SPEC = 64 };

struct tally {
    unsigned long cases, schedules, refusals, runs, prices, failures;
};

struct one {
    const struct tt_algo *al;
    struct tt_algo_args args;
    char label[256];
    struct tally *tally;
};

static void complain(struct one *o, const char *what, const char *why)
{
    printf("FAILED %s: %s: %s\n", o->label, what, why);
    o->tally->failures++;
}

/* The schedule reads back from its own text. */
static void check_text(struct one *o, const struct tt_sched *s)
{
    char *text = NULL;
    size_t len = 0;
    struct tt_sched *again = NULL;
    struct tutti_error err = {0};
    FILE *f = open_memstream(&text, &len);
    tutti_status st = tt_sched_write(s, f, &err);
    fclose(f);
    if (st || tt_sched_read_memory(text, len, "text", &again, &err))
        complain(o, "text form", err.text);
    else if (!tt_sched_equal(s, again))
        complain(o, "text form", "reads back different");
    tt_sched_free(again);
    free(text);
}

/* A rank's slice built alone is the one in the whole. */
static void check_slice(struct one *o, const struct tt_sched *s, uint32_t rank)
{
    struct tt_sched *part = NULL;
    struct tutti_error err = {0};
    if (tt_algo_slice(o->al, &o->args, rank, 1, &part, &err)) {
        complain(o, "slice", err.text);
        return;
    }
    struct tt_slice a = tt_sched_slice(s, rank), b = tt_sched_slice(part, rank);
    if (a.nops != b.nops || a.nspans != b.nspans || memcmp(a.ops, b.ops, a.nops * sizeof *a.ops) ||
        memcmp(a.spans, b.spans, a.nspans * sizeof *a.spans))
        complain(o, "slice", "differs from the whole build");
    tt_sched_free(part);
}

static void check_proof(struct one *o, const struct tt_sched *s)
{
    struct tt_verify_result v;
    struct tutti_error err = {0};
    if (tt_verify(s, &(struct tt_verify_options){0}, &v, &err)) {
        complain(o, "verify", err.text);
    } else if (!v.ok) {
        char why[512];
        snprintf(why, sizeof why, "rank %u op %llu: %s", v.rank, (unsigned long long)v.op, v.why);
        complain(o, "verify", why);
    }
}

static void check_run(struct one *o, const struct tt_sched *s, uint64_t count)
{
    char why[256];
    for (int inplace = 0; inplace <= (s->shape.inplace ? 1 : 0); inplace++) {
        o->tally->runs++;
        if (!interp_run(s, count, inplace, why, sizeof why))
            complain(o, inplace ? "run in place" : "run", why);
    }
}

/* Time is never below the bound, whole and (where both exist) by symmetry. */
static void check_price(struct one *o, const struct tt_sched *s, uint64_t count)
{
    const struct tt_topo *t = o->args.topo;
    struct tt_cost cost;
    struct tt_bounds bounds;
    struct tutti_error err = {0};
    uint64_t bytes = count * tt_dtype_bytes(s->shape.dtype);
    o->tally->prices++;
    if (tt_cost_sched(s, t, count, s->shape.dtype, &cost, &err)) {
        complain(o, "cost", err.text);
        return;
    }
    if (tt_bounds_make(t, s->shape.coll, s->shape.root, bytes, &bounds, &err)) {
        complain(o, "bound", err.text);
        return;
    }
    if (cost.time_ps < bounds.time_ps) {
        char why[700];
        snprintf(why, sizeof why, "%llu ps on %s for %llu elements, bound %llu ps: %s", (unsigned long long)cost.time_ps, t->spec,
                 (unsigned long long)count, (unsigned long long)bounds.time_ps, bounds.item[bounds.best].text);
        complain(o, "time below the bound", why);
    }
    if (s->shape.symmetric && t->rotational && !s->shape.weights) {
        struct tt_cost fast;
        if (tt_cost_symmetric(s, t, count, s->shape.dtype, &fast, &err))
            complain(o, "cost by symmetry", err.text);
        else if (fast.time_ps < cost.time_ps || fast.steps != cost.steps)
            complain(o, "cost by symmetry", "below the cost of the whole");
    }
    tt_bounds_free(&bounds);
}

static void check_schedule(struct one *o, bool run_numbers)
{
    uint32_t p = o->args.problem.ranks;
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    if (tt_algo_build(o->al, &o->args, &s, &err)) {
        complain(o, "build", err.text);
        return;
    }
    o->tally->schedules++;
    struct tt_sched_flaw flaw;
    if (tt_sched_check(s, &flaw, &err))
        complain(o, "check", err.text);
    uint64_t counts[] = {0, 1, p - 1, p, p + 1, 1009, (1u << 22) + 3};
    size_t n = o->args.problem.coll == TUTTI_BARRIER ? 1 : countof(counts);
    if (run_numbers) {
        check_proof(o, s);
        check_slice(o, s, 0);
        check_slice(o, s, p / 2);
        check_slice(o, s, p - 1);
        if (p <= 17)
            check_text(o, s);
        for (size_t i = 0; i + 1 < n || i < 1; i++) /* the large count is priced, not run */
            check_run(o, s, counts[i]);
    }
    for (size_t i = 0; i < n; i++)
        check_price(o, s, counts[i]);
    tt_sched_free(s);
}

/* Networks for p ranks: what algorithms may need, and shapes that stress costs and bounds. */
static size_t networks(uint32_t p, char specs[][SPEC], size_t max)
{
    size_t n = 0;
    uint32_t a = 1;
    for (uint32_t d = 2; d * d <= p; d++)
        a = p % d == 0 ? d : a;
    snprintf(specs[n++], SPEC, "star:%u@10Gbps,2us", p);
    snprintf(specs[n++], SPEC, "torus:%ux%u@16GB/s,150ns", a, p / a);
    if (p > 1)
        snprintf(specs[n++], SPEC, "ring:%u@1Gbps,50us,half", p);
    if (p >= 4)
        snprintf(specs[n++], SPEC, "tree:(%u %u)@100Gbps/10Gbps,1us", p / 2, p - p / 2);
    if (p >= 8)
        snprintf(specs[n++], SPEC, "dln:%u@100Gbps,126ns", p);
    if (p == 8 || p == 16)
        snprintf(specs[n++], SPEC, p == 8 ? "fattree:2,3" : "fattree:4,2");
    if (p == 16 || p == 32)
        snprintf(specs[n++], SPEC, p == 16 ? "bigraph:4x4" : "bigraph:4x8");
    if (p >= 3 && p <= 5)
        snprintf(specs[n++], SPEC, p == 3 ? "nics:10G,10G,2.5G" : p == 4 ? "nics:4G,4G,4G,1G" : "nics:3G,4G,4G,4G,4G");
    return n < max ? n : max;
}

/* An algorithm may refuse, but never without a reason; one that needs no topology never refuses a collective it offers (roots and counts
 * are legal). */
static bool accepted(struct one *o)
{
    struct tutti_error why = {0};
    tutti_status st = tt_algo_probe(o->al, &o->args, &why);
    if (!st)
        return true;
    o->tally->refusals++;
    if (st != TUTTI_ERR_REFUSED || strlen(why.text) < 10)
        complain(o, "refusal without a reason", why.text);
    if (!strncmp(o->al->needs, "any number of ranks", 19))
        complain(o, "refused although the table says any number of ranks", why.text);
    return false;
}

static void check_case(struct one *o, tutti_coll coll, uint32_t p, uint32_t root)
{
    char specs[12][SPEC];
    size_t n = networks(p, specs, countof(specs));
    bool done = false;
    for (size_t i = 0; i < n; i++) {
        struct tt_topo *t = NULL;
        struct tutti_error err = {0};
        snprintf(o->label, sizeof o->label, "%s %s on %.63s root %u", o->al->name, tt_coll_name(coll), specs[i], root);
        if (tt_topo_parse(specs[i], &t, &err)) {
            complain(o, "topology", err.text);
            continue;
        }
        o->args = (struct tt_algo_args){.topo = t,
                                        .problem = {.coll = coll, .ranks = p, .root = root, .count = coll == TUTTI_BARRIER ? 0 : 1009}};
        if (accepted(o)) {
            check_schedule(o, !done || o->al->needs_topo);
            done = true;
        }
        tt_topo_free(t);
    }
    o->tally->cases++;
}

static bool rooted(tutti_coll c)
{
    return c == TUTTI_BROADCAST || c == TUTTI_REDUCE || c == TUTTI_GATHER || c == TUTTI_SCATTER;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: matrix SHARD SHARDS [quick]\n");
        return 2;
    }
    unsigned long shard = strtoul(argv[1], NULL, 10), shards = strtoul(argv[2], NULL, 10), number = 0;
    bool quick = argc > 3 && !strcmp(argv[3], "quick");
    const uint32_t *ranks = quick ? quick_ranks : all_ranks;
    size_t nranks = quick ? countof(quick_ranks) : countof(all_ranks), n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    struct tally tally = {0};
    for (size_t r = nranks; r-- > 0;)
        for (size_t i = 0; i < n; i++)
            for (int c = 0; c < TUTTI_COLL_COUNT; c++) {
                if (!(table[i]->colls & (1u << c)))
                    continue;
                uint32_t p = ranks[r], roots[] = {0, p - 1, p / 2};
                for (size_t k = 0; k < (rooted((tutti_coll)c) ? (p < 3 ? p : 3u) : 1); k++)
                    if (number++ % shards == shard)
                        check_case(&(struct one){.al = table[i], .tally = &tally}, (tutti_coll)c, p, roots[k]);
            }
    printf("matrix %lu/%lu: %lu cases, %lu schedules proved, %lu runs on numbers, %lu prices against bounds, %lu refusals with reasons, "
           "%lu wrong\n",
           shard, shards, tally.cases, tally.schedules, tally.runs, tally.prices, tally.refusals, tally.failures);
    return tally.failures || !tally.schedules ? 1 : 0;
}
