/* test_lockstep_lowered.c - compiled programs of every algorithm and collective on lockstep's interpreter for them, in place and apart, in
 * one segment and in three, with messages carried out every way and in many orders. Each schedule is proved by verify too: both must
 * agree. test_lockstep_marks.c shows that the interpreter objects to wrong marks. */
#include "lowered.h"
#include "support.h"
#include "verify/verify.h"

#include "exec/exec.h"

#ifdef TT_SANITIZED
enum { SEEDS = 2 };
#else
enum { SEEDS = 6 };
#endif
enum { RANKS_MAX = 8, SEEN = 64 };

struct totals {
    unsigned long schedules, runs;
    struct lw_counts counts;
};

struct one {
    const struct tt_sched *s;
    const struct tt_program *program[RANKS_MAX];
    uint64_t count;
    uint32_t segments;
    tutti_redop redop;
    bool messages; /* no boxes */
};

static void compile(struct one *o)
{
    static const uint32_t places[RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (uint32_t r = 0; r < o->s->shape.ranks; r++) {
        struct tutti_error err = {0};
        struct tt_program *p = NULL;
        struct tt_program_config c = {.sched = o->s,
                                      .rank = r,
                                      .count = o->count,
                                      .dtype = TUTTI_F32,
                                      .redop = o->redop,
                                      .segments = o->segments,
                                      .places = places,
                                      .box_bytes = o->messages ? 0 : 1 << 20};
        if (tt_exec_program_make(&c, &p, &err) != TUTTI_OK)
            fail_msg("%s", err.text);
        o->program[r] = p;
    }
}

static void discard(struct one *o)
{
    for (uint32_t r = 0; r < o->s->shape.ranks; r++)
        tt_exec_program_free((struct tt_program *)(uintptr_t)o->program[r]);
}

static void check_run(const struct one *o, struct lw *l, const struct lw_options *how, struct totals *t)
{
    const struct tt_shape *s = &o->s->shape;
    struct ls_result r = lw_run(l, how);
    t->runs++;
    if (r.verdict != LS_CORRECT)
        fail_msg("%s %s %s ranks %u root %u count %llu segments %u %s, %s, form %d offers %d ordered %d seed %llu: %s: %s", s->algo,
                 s->options, tt_sched_coll_name(s->coll), s->ranks, s->root, (unsigned long long)o->count, o->segments,
                 tt_sched_redop_name(o->redop), how->inplace ? "in place" : "apart", how->form, how->offers, how->ordered,
                 (unsigned long long)how->seed, ls_verdict_name(r.verdict), r.why);
}

static void check_orders(const struct one *o, struct lw *l, struct totals *t)
{
    for (int inplace = 0; inplace < 2; inplace++)
        for (int form = LW_BYTES; form <= LW_MIXED; form++)
            for (uint64_t seed = 0; seed < SEEDS; seed++)
                check_run(o, l,
                          &(struct lw_options){.inplace = inplace,
                                               .form = (enum lw_form)form,
                                               .offers = seed != 1 && form != LW_BYTES,
                                               .ordered = seed == SEEDS - 1,
                                               .seed = tt_mix64(o->count * 4 + (uint64_t)form) + seed},
                          t);
}

static void add_counts(struct lw_counts *sum, const struct lw_counts *c)
{
    sum->tasks += c->tasks;
    sum->held += c->held;
    sum->shared += c->shared;
    sum->written += c->written;
    sum->boxes += c->boxes;
    sum->rows += c->rows;
    sum->stalls += c->stalls;
}

/* Rows are run as messages too. */
static void check_program(struct one *o, struct totals *t)
{
    compile(o);
    bool row = tt_sched_row(o->s) && !o->messages;
    struct lw *l = lw_open(o->s, o->program, o->count);
    check_orders(o, l, t);
    add_counts(&t->counts, lw_counts(l));
    lw_close(l);
    discard(o);
    o->messages = true;
    if (row)
        check_program(o, t);
}

/* Chunks of about two elements, and of one or none; all-to-all in place has blocks of one size. */
static void check_schedule(const struct tt_sched *s, struct totals *t)
{
    struct tt_verify_result v;
    struct tutti_error err = {0};
    uint64_t even = s->shape.coll == TUTTI_ALL_TO_ALL ? 3 * s->shape.ranks : 3 * s->shape.chunks;
    assert_int_equal(tt_verify(s, &(struct tt_verify_options){0}, &v, &err), TUTTI_OK);
    assert_true(v.ok);
    check_program(&(struct one){.s = s, .count = even, .segments = 1}, t);
    check_program(&(struct one){.s = s, .count = even, .segments = 3}, t);
    check_program(&(struct one){.s = s, .count = even + 1, .segments = 1, .redop = TUTTI_AVG}, t);
    check_program(&(struct one){.s = s, .count = s->shape.ranks - 1, .segments = 1}, t);
    t->schedules++;
}

/* ---- the table ---- */

static void check_problem(const struct tt_algo *al, const struct tt_algo_args *a, uint64_t *seen, size_t *nseen, struct totals *t)
{
    struct tt_sched *s = NULL;
    struct tutti_error err;
    if (tt_algo_probe(al, a, &err) != TUTTI_OK)
        return;
    assert_int_equal(tt_algo_build(al, a, &s, &err), TUTTI_OK);
    size_t i = 0;
    while (i < *nseen && seen[i] != s->hash)
        i++;
    if (i == *nseen) {
        assert_true(*nseen < SEEN);
        seen[(*nseen)++] = s->hash;
        check_schedule(s, t);
    }
    tt_sched_free(s);
}

/* The default, two levels where there are levels, and every other value that an option lists. */
static void check_options(const struct tt_algo *al, struct tt_algo_args *a, uint64_t *seen, size_t *nseen, struct totals *t)
{
    uint32_t p = a->problem.ranks;
    struct tutti_error err;
    check_problem(al, a, seen, nseen, t);
    for (const struct tt_algo_option *o = al->options; o && o->key; o++) {
        bool levels = !strcmp(o->key, "levels"), listed = !strstr(o->values, "..");
        char text[64];
        snprintf(text, sizeof text, "levels=2x%u", p / 2);
        for (const char *v = levels && p % 2 == 0 ? text
                             : listed             ? strchr(o->values, '|')
                                                  : NULL;
             v; v = levels ? NULL : strchr(v + 1, '|')) {
            if (!levels)
                snprintf(text, sizeof text, "%s=%.*s", o->key, (int)strcspn(v + 1, "|"), v + 1);
            a->options = (struct tt_options){0};
            assert_int_equal(tt_algo_options_add(&a->options, text, &err), TUTTI_OK);
            check_problem(al, a, seen, nseen, t);
        }
    }
}

static void check_networks(const struct tt_algo *al, const struct tt_problem *problem, struct totals *t)
{
    uint32_t p = problem->ranks, a = p % 2 == 0 ? 2 : 1;
    char specs[4][64];
    uint64_t seen[SEEN];
    size_t nseen = 0;
    snprintf(specs[0], sizeof specs[0], "star:%u", p);
    snprintf(specs[1], sizeof specs[1], "torus:%ux%u", a, p / a);
    snprintf(specs[2], sizeof specs[2], "tree:(%u %u)@100Gbps/10Gbps,1us", p - p / 2, p / 2);
    snprintf(specs[3], sizeof specs[3], p == 4 ? "bigraph:2x2" : p == 8 ? "fattree:2,3" : "ring:%u", p);
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *topo = topo_of(specs[i]);
        check_options(al, &(struct tt_algo_args){.problem = *problem, .topo = topo}, seen, &nseen, t);
        tt_topo_free(topo);
    }
}

static void test_matrix(void **state)
{
    static const uint32_t ranks[] = {2, 3, 4, 5, 7, 8};
    struct totals t = {0};
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    (void)state;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < TUTTI_COLL_COUNT; c++)
            for (size_t k = 0; k < countof(ranks) && table[i]->colls & (1u << c); k++) {
                struct tt_problem p = {.coll = (tutti_coll)c, .ranks = ranks[k], .count = 64};
                check_networks(table[i], &p, &t);
                p.root = ranks[k] - 1;
                if (ls_is_rooted(p.coll))
                    check_networks(table[i], &p, &t);
            }
    printf("%lu schedules, %lu runs: %llu tasks, %llu operands taken where they lay, %llu sends of a shared copy, %llu places written by "
           "a reduction, %llu boxes, %llu of rows\n",
           t.schedules, t.runs, (unsigned long long)t.counts.tasks, (unsigned long long)t.counts.held, (unsigned long long)t.counts.shared,
           (unsigned long long)t.counts.written, (unsigned long long)t.counts.boxes, (unsigned long long)t.counts.rows);
    assert_int_equal(t.counts.stalls, 0);
    assert_true(t.schedules > 300 && t.counts.held && t.counts.shared && t.counts.written && t.counts.boxes && t.counts.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
