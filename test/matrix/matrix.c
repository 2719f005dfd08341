/* The matrix, generated from the algorithm table: every algorithm x every collective it offers x ranks 1..17, 31, 32, 33, 101 x roots x
 * networks it may need x its options (every value that its table lists, segments 1, 3 and 4 when it is pipelined, 1 and 3 up to 9 ranks
 * when not, levels of all kinds where it has levels) x counts 0, 1, P-1, P, P+1, odd, large. checks.c says what each schedule must stand.
 *
 * What the table promises must be proved: an algorithm for any number of ranks (or with levels, or for a torus: there is one for every
 * number of ranks) that has not a single proof in a case is a failure.
 *
 * Usage: matrix SHARD SHARDS [quick | spread]. Cases are dealt to the shards by number. quick: fewer numbers of ranks; spread: those, and
 * every SPREAD-th case of the others. Prints totals; exit 1 when anything was wrong. */
#include <stdlib.h>
#include <string.h>

#include "lockstep.h"
#include "matrix.h"

static const uint32_t all_ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 101};
static const uint32_t quick_ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 17, 33};
enum { SPREAD = 16 };

/* A short list of texts: networks, or values of options. */
enum { TEXT = 64, TEXTS = 16 };
struct texts {
    char at[TEXTS][TEXT];
    size_t n;
};

static void add(struct texts *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct texts *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (t->n == TEXTS || vsnprintf(t->at[t->n], TEXT, fmt, ap) >= TEXT)
        abort();
    t->n++;
    va_end(ap);
}

/* The largest divisor that is not above the square root. */
static uint32_t divisor(uint32_t p)
{
    uint32_t a = 1;
    for (uint32_t d = 2; d * d <= p; d++)
        a = p % d == 0 ? d : a;
    return a;
}

/* What no spec says: a ring whose links differ from each other and in their two directions, each rank with one more to a switch. */
static const char uneven[] = "uneven:";

static tutti_status make_uneven(uint32_t p, struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = tt_topo_new("uneven", p, 1, &t, err);
    for (uint32_t r = 0; r < p && !st; r++) {
        struct tt_link around = {
            .a = r, .b = (r + 1) % p, .bw = {1e9 * (1 + r % 3), 1.25e8 * (1 + r % 5)}, .latency_ps = 1000000 * (r % 4)};
        struct tt_link up = {.a = p, .b = r, .bw = {1.25e9, 3e8 * (1 + r % 2)}, .latency_ps = 2000000 + 500000 * (r % 2)};
        if (r + 1 < p || p > 2)
            st = tt_topo_add_link(t, &around, err);
        if (!st)
            st = tt_topo_add_link(t, &up, err);
    }
    if (st) {
        tt_topo_free(t);
        return st;
    }
    st = tt_topo_finish(t, &t, err);
    if (!st && !t->spec)
        t->spec = strdup("uneven");
    if (!st)
        *ret = t;
    return st;
}

static tutti_status make_network(const char *spec, uint32_t p, struct tt_topo **ret, struct tutti_error *err)
{
    return strncmp(spec, uneven, strlen(uneven)) ? tt_topo_parse(spec, ret, err) : make_uneven(p, ret, err);
}

/* Networks for p ranks: what algorithms may need, and shapes that stress costs and bounds. */
static struct texts networks(uint32_t p)
{
    struct texts t = {.n = 0};
    uint32_t a = divisor(p);
    add(&t, "star:%u@10Gbps,2us", p);
    add(&t, "torus:%ux%u@16GB/s,150ns", a, p / a);
    add(&t, "full:%u,ports=1@10Gbps,1us", p);
    add(&t, "torus:%ux%u,ports=1,overhead=3us@1GB/s,1us,5ps", a, p / a);
    add(&t, "%s%u", uneven, p);
    if (p > 1)
        add(&t, "ring:%u@1Gbps,50us,half", p);
    if (p >= 4)
        add(&t, "tree:(%u %u)@100Gbps/10Gbps,1us", p / 2, p - p / 2);
    if (p >= 8)
        add(&t, "dln:%u@100Gbps,126ns", p);
    if (p == 8 || p == 16)
        add(&t, "%s", p == 8 ? "fattree:2,3" : "fattree:4,2");
    if (p >= 8)
        add(&t, "tree:((%u (1 2)) %u (1 1) 1)@40Gbps/25Gbps/10Gbps,1us", (p - 6) / 2, p - 6 - (p - 6) / 2);
    if (p == 16 || p == 32)
        add(&t, "%s", p == 16 ? "bigraph:4x4" : "bigraph:4x8");
    if (p >= 3 && p <= 5)
        add(&t, "%s", p == 3 ? "nics:10G,10G,2.5G" : p == 4 ? "nics:4G,4G,4G,1G" : "nics:3G,4G,4G,4G,4G");
    return t;
}

/* ---- options; the empty text stands for the default ---- */

static const struct tt_algo_option *option_of(const struct tt_algo *al, const char *key)
{
    for (const struct tt_algo_option *o = al->options; o && o->key; o++)
        if (!strcmp(o->key, key))
            return o;
    return NULL;
}

static void add_prime_levels(struct texts *t, uint32_t p)
{
    char text[TEXT] = "levels=";
    uint32_t rest = p, factors = 0;
    for (uint32_t d = 2; rest > 1; d++)
        for (; rest % d == 0; rest /= d)
            snprintf(text + strlen(text), sizeof text - strlen(text), factors++ ? "x%u" : "%u", d);
    if (factors > 2)
        add(t, "%s", text);
}

/* Two levels both ways and as many as there are prime factors; one level when the number of ranks is prime. */
static struct texts levels_of(const struct tt_algo *al, uint32_t p)
{
    struct texts t = {.n = 0};
    uint32_t a = divisor(p);
    add(&t, "%s", "");
    if (!option_of(al, "levels"))
        return t;
    if (a == 1) {
        add(&t, "levels=%u", p);
        return t;
    }
    add(&t, "levels=%ux%u", a, p / a);
    if (a != p / a)
        add(&t, "levels=%ux%u", p / a, a);
    add_prime_levels(&t, p);
    return t;
}

/* Every value but the first of options that list theirs; free text ("auto|AxB..") and numbers are not listed. */
static struct texts values_of(const struct tt_algo *al)
{
    struct texts t = {.n = 0};
    add(&t, "%s", "");
    for (const struct tt_algo_option *o = al->options; o && o->key; o++) {
        if (strstr(o->values, ".."))
            continue;
        for (const char *v = strchr(o->values, '|'); v; v = strchr(v + 1, '|'))
            add(&t, "%s=%.*s", o->key, (int)strcspn(v + 1, "|"), v + 1);
    }
    return t;
}

static struct texts segments_of(const struct tt_algo *al, uint32_t p)
{
    struct texts t = {.n = 0};
    add(&t, "%s", "");
    if (al->pipelined || p <= 9)
        add(&t, "segments=3");
    if (al->pipelined)
        add(&t, "segments=4");
    return t;
}

/* ---- one case: algorithm, collective, ranks, root ---- */

static bool any_ranks(const struct tt_algo *al)
{
    return !strncmp(al->needs, "any number of ranks", 19);
}

/* Must there be a proof for every number of ranks? */
static bool promised(const struct tt_algo *al)
{
    return any_ranks(al) || option_of(al, "levels") || strstr(al->needs, "torus");
}

/* An algorithm may refuse, but never without a reason; never a collective it offers when it needs no topology (roots and counts are legal),
 * nor levels that multiply to the ranks. */
static bool accepted(struct one *o, bool levels)
{
    struct tutti_error why = {0};
    tutti_status st = tt_algo_probe(o->al, &o->args, &why);
    if (!st)
        return true;
    o->tally->refusals++;
    if (st != TUTTI_ERR_REFUSED || strlen(why.text) < 10)
        complain(o, "refusal without a reason", why.text);
    if (any_ranks(o->al))
        complain(o, "refused although the table says any number of ranks", why.text);
    if (levels)
        complain(o, "refused although the levels fit", why.text);
    return false;
}

static void check_variant(struct one *o, const char *const *options, size_t n)
{
    struct tutti_error err = {0};
    char text[TT_ALGO_OPTIONS];
    o->args.options = (struct tt_options){0};
    for (size_t i = 0; i < n; i++)
        if (*options[i] && tt_algo_options_add(&o->args.options, options[i], &err))
            complain(o, options[i], err.text);
    tt_algo_options_format(&o->args.options, text, sizeof text);
    snprintf(o->label, sizeof o->label, "%s %s on %.63s root %u '%s'", o->al->name, tt_sched_coll_name(o->args.problem.coll),
             o->args.topo->spec, o->args.problem.root, text);
    if (accepted(o, *options[0]))
        check_schedule(o);
}

static void check_network(struct one *o, const char *spec)
{
    struct texts levels = levels_of(o->al, o->args.problem.ranks), values = values_of(o->al),
                 segments = segments_of(o->al, o->args.problem.ranks);
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    if (make_network(spec, o->args.problem.ranks, &t, &err)) {
        complain(o, spec, err.text);
        return;
    }
    o->args.topo = t;
    o->plans = tt_plan_cache_of_schedules();
    for (size_t i = 0; i < levels.n; i++)
        for (size_t j = 0; j < values.n; j++)
            for (size_t k = 0; k < segments.n; k++)
                check_variant(o, (const char *const[]){levels.at[i], values.at[j], segments.at[k]}, 3);
    tt_plan_cache_free(o->plans);
    tt_topo_free(t);
}

static void check_case(const struct tt_algo *al, struct tt_problem problem, struct tally *tally)
{
    struct one o = {.al = al, .tally = tally, .args.problem = problem};
    struct texts nets = networks(problem.ranks);
    snprintf(o.label, sizeof o.label, "%s %s of %u ranks root %u", al->name, tt_sched_coll_name(problem.coll), problem.ranks, problem.root);
    for (size_t i = 0; i < nets.n; i++)
        check_network(&o, nets.at[i]);
    tally->cases++;
    tally->promised += promised(al);
    tally->kept += promised(al) && o.nproved > 0;
    if (promised(al) && o.nproved == 0)
        complain(&o, "not proved once although the table promises it", al->needs);
}

/* ---- all cases ---- */

struct deal {
    unsigned long shard, shards, next; /* next: number of the next case */
    unsigned long every;               /* of the numbers of ranks that are not quick ones, which cases; 0: none */
};

static bool is_quick(uint32_t p)
{
    for (size_t i = 0; i < countof(quick_ranks); i++)
        if (quick_ranks[i] == p)
            return true;
    return false;
}

/* Is the next case this shard's? */
static bool is_dealt(struct deal *d, uint32_t p)
{
    unsigned long number = d->next++;
    if (number % d->shards != d->shard)
        return false;
    return is_quick(p) || (d->every && number / d->shards % d->every == 0);
}

static void check_collective(const struct tt_algo *al, tutti_coll coll, uint32_t p, struct deal *d, struct tally *tally)
{
    const uint32_t roots[] = {0, p - 1, p / 2};
    size_t n = !ls_is_rooted(coll) ? 1 : p < countof(roots) ? p : countof(roots);
    for (size_t k = 0; k < n; k++)
        if (is_dealt(d, p))
            check_case(al, (struct tt_problem){.coll = coll, .ranks = p, .root = roots[k], .count = coll == TUTTI_BARRIER ? 0 : 1009},
                       tally);
}

static void print_tally(const char *name, const struct tally *t)
{
    printf("%-20s %5lu cases, %5lu of %5lu promised proved, %6lu schedules, %6lu proofs, %7lu runs on numbers, %7lu prices against bounds, "
           "%5lu refusals with reasons, %lu wrong\n",
           name, t->cases, t->kept, t->promised, t->schedules, t->proved, t->runs, t->prices, t->refusals, t->failures);
}

static struct tally check_algorithm(const struct tt_algo *al, struct deal *d)
{
    struct tally tally = {0};
    for (size_t r = countof(all_ranks); r-- > 0;)
        for (int c = 0; c < TUTTI_COLL_COUNT; c++)
            if (al->colls & (1u << c))
                check_collective(al, (tutti_coll)c, all_ranks[r], d, &tally);
    print_tally(al->name, &tally);
    return tally;
}

static void add_tally(struct tally *sum, const struct tally *t)
{
    sum->cases += t->cases;
    sum->promised += t->promised;
    sum->kept += t->kept;
    sum->schedules += t->schedules;
    sum->proved += t->proved;
    sum->runs += t->runs;
    sum->prices += t->prices;
    sum->refusals += t->refusals;
    sum->failures += t->failures;
}

int main(int argc, char **argv)
{
    struct deal d = {.shard = argc > 2 ? strtoul(argv[1], NULL, 10) : 0, .shards = argc > 2 ? strtoul(argv[2], NULL, 10) : 0};
    const char *which = argc > 3 ? argv[3] : "";
    if (d.shard >= d.shards || (*which && strcmp(which, "quick") && strcmp(which, "spread"))) {
        fprintf(stderr, "usage: matrix SHARD SHARDS [quick | spread], SHARD from 0 to SHARDS-1\n");
        return 2;
    }
    d.every = !*which ? 1 : !strcmp(which, "spread") ? SPREAD : 0;
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    struct tally sum = {0};
    for (size_t i = 0; i < n; i++) {
        struct tally t = check_algorithm(table[i], &d);
        add_tally(&sum, &t);
    }
    print_tally("all", &sum);
    return sum.failures || !sum.proved || sum.kept != sum.promised ? 1 : 0;
}
