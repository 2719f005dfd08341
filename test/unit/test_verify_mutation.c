/* test_verify_mutation.c - the verifier against damaged schedules: every algorithm's schedules are changed in one operation, and verify's
 * verdict is compared with what an interpreter that shares nothing with it (lockstep.h) computes with numbers.
 *
 * What verify calls correct must be correct in lockstep and live. What it objects to must be ill-formed, wrong, unmatched or stuck,
 * or have one of the faults that need not show in the result: nothing read, a contribution doubled where nobody looks, a
 * declared symmetry broken. A dropped, doubled or redirected message must be pointed at: at one of its two ends. */
#include "support.h"

#include "algo/algos.h"
#include "verify/verify_int.h"

enum change { DROP, DOUBLE, SWAP, RETARGET, CHUNK, BUFFER, SOURCE, KIND, STEP, OWNER, CHANGES };
static const char *const change_names[CHANGES] = {"drop",   "double", "swap", "retarget", "chunk",
                                                  "buffer", "source", "kind", "step",     "owner"};

struct mutation {
    enum change change;
    uint32_t rank;
    size_t op, other; /* other: what it is swapped with */
    uint64_t dice;
};

static struct {
    unsigned mutants, ill_formed, wrong, unmatched, same, stricter;
} seen;

static bool is_message(const struct tt_op *op)
{
    return op->kind <= TT_OP_RECV_REDUCE;
}

/* ---- making mutants ---- */

static struct tt_shape copy_shape(const struct tt_shape *s, const struct mutation *m)
{
    struct tt_shape c = *s;
    if (s->weights) {
        c.weights = malloc(s->chunks * sizeof *c.weights);
        memcpy(c.weights, s->weights, s->chunks * sizeof *c.weights);
    }
    if (s->owner || m->change == OWNER) {
        c.owner = malloc(s->chunks * sizeof *c.owner);
        for (uint32_t i = 0; i < s->chunks; i++)
            c.owner[i] = tt_sched_shape_owner(s, i);
    }
    if (m->change == OWNER) {
        uint32_t *o = &c.owner[m->dice % s->chunks];
        *o = (*o + 1 + (uint32_t)(m->dice >> 32) % (s->ranks - 1)) % s->ranks;
    }
    if (m->dice & 1)
        c.symmetric = false; /* so that lost symmetry does not hide the other faults */
    return c;
}

static void change_kind(struct tt_op *op, struct tt_span *spans)
{
    op->kind = op->kind == TT_OP_RECV ? TT_OP_RECV_REDUCE : TT_OP_RECV;
    for (uint32_t i = 0; i < op->nspans; i++)
        spans[i].src = spans[i].buf;
}

static void change_buffer(struct tt_op *op, struct tt_span *spans, uint32_t nbufs, uint64_t dice)
{
    uint32_t by = 1 + (uint32_t)(dice >> 8) % (nbufs - 1);
    bool follows = op->kind == TT_OP_SEND || op->kind == TT_OP_RECV;
    for (uint32_t i = 0; i < op->nspans; i++) {
        spans[i].buf = (spans[i].buf + by) % nbufs;
        if (follows || (op->kind == TT_OP_REDUCE && i == 0))
            spans[i].src = spans[i].buf;
    }
}

static void edit(const struct tt_shape *s, const struct mutation *m, struct tt_op *op, struct tt_span *spans)
{
    uint32_t k = (uint32_t)(m->dice >> 16) % op->nspans;
    switch (m->change) {
    case RETARGET:
        op->peer = (op->peer + 1 + (uint32_t)(m->dice >> 8) % (s->ranks - 1)) % s->ranks;
        break;
    case CHUNK:
        for (uint32_t i = 0; i < op->nspans; i++)
            if (i == k || op->kind == TT_OP_REDUCE)
                spans[i].first = spans[i].first > 0 && m->dice & 2 ? spans[i].first - 1 : spans[i].first + 1;
        break;
    case BUFFER:
        change_buffer(op, spans, s->nbufs, m->dice);
        break;
    case SOURCE:
        spans[k].src = (spans[k].src + 1 + (uint32_t)(m->dice >> 8) % (s->nbufs - 1)) % s->nbufs;
        break;
    case KIND:
        change_kind(op, spans);
        break;
    case STEP:
        op->step = op->step > 0 && m->dice & 2 ? op->step - 1 : op->step + 1;
        break;
    default:
        break;
    }
}

static void emit(struct tt_builder *b, const struct tt_slice *sl, size_t i, const struct mutation *m)
{
    struct tt_op op = sl->ops[i];
    struct tt_span *spans = malloc(op.nspans * sizeof *spans);
    memcpy(spans, sl->spans + op.span, op.nspans * sizeof *spans);
    if (m)
        edit(&b->shape, m, &op, spans);
    tt_sched_emit(b, op, spans, op.nspans);
    free(spans);
}

static struct tt_sched *mutate(const struct tt_sched *s, const struct mutation *m)
{
    struct tt_builder b;
    struct tt_shape shape = copy_shape(&s->shape, m);
    struct tt_sched *mutant = NULL;
    struct tutti_error err;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        tt_sched_build_rank(&b, r);
        for (size_t i = 0; i < sl.nops; i++) {
            bool here = r == m->rank && i == m->op;
            size_t what = r != m->rank || m->change != SWAP ? i : i == m->op ? m->other : i == m->other ? m->op : i;
            if (!(here && m->change == DROP))
                emit(&b, &sl, what, here ? m : NULL);
            if (here && m->change == DOUBLE)
                emit(&b, &sl, i, NULL);
        }
    }
    assert_int_equal(tt_sched_build_freeze(&b, &mutant, &err), TUTTI_OK);
    return mutant;
}

static bool applies(const struct tt_sched *s, const struct mutation *m)
{
    struct tt_slice sl = tt_sched_slice(s, m->rank);
    tutti_coll c = s->shape.coll;
    if (m->change == OWNER)
        return c == TUTTI_REDUCE_SCATTER || c == TUTTI_ALL_GATHER || c == TUTTI_GATHER || c == TUTTI_SCATTER;
    if (sl.nops == 0)
        return false;
    const struct tt_op *op = &sl.ops[m->op];
    switch (m->change) {
    case SWAP:
        return m->op != m->other;
    case RETARGET:
        return is_message(op) && s->shape.ranks > 2;
    case SOURCE:
        return op->kind == TT_OP_RECV_REDUCE || op->kind == TT_OP_COPY || op->kind == TT_OP_REDUCE;
    case KIND:
        return op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE;
    default:
        return true;
    }
}

/* ---- judging them ---- */

static struct tt_verify_result verify(const struct tt_sched *s, enum tt_verify_method method)
{
    struct tt_verify_options o = {.method = method, .seed = 12345};
    struct tt_verify_result r;
    struct tutti_error err = {0};
    assert_int_equal(tt_verify(s, &o, &r, &err), TUTTI_OK);
    if (!r.ok) {
        assert_true(r.rank < s->shape.ranks && r.op <= tt_sched_slice(s, r.rank).nops);
        assert_true(strlen(r.why) > 10);
    }
    return r;
}

static bool says(const struct tt_verify_result *r, const char *word)
{
    return !r->ok && strstr(r->why, word);
}

/* Some orders and inputs. Places that hold nothing read as garbage: verify objects to that, but it need not show. */
static enum ls_verdict worst(struct ls *l, bool live, bool inplace)
{
    enum ls_verdict v = LS_CORRECT;
    for (uint64_t seed = 1; v == LS_CORRECT && seed <= 3; seed++)
        v = ls_run(l, &(struct ls_options){.seed = seed, .live = live, .inplace = inplace, .lenient = true}).verdict;
    return v;
}

/* Verify against the interpreter; NULL when they agree. */
static const char *disagreement(const struct tt_sched *s, const struct tt_verify_result *r)
{
    struct tt_sched_flaw flaw = {0};
    struct tutti_error err;
    if (tt_sched_check(s, &flaw, &err) != TUTTI_OK) {
        seen.ill_formed++;
        return r->ok || r->rank != flaw.rank || r->op != flaw.op ? "an ill-formed schedule must be refused at its flaw" : NULL;
    }
    struct ls *l = ls_open(s);
    enum ls_verdict lock = worst(l, false, false), live = worst(l, true, s->shape.inplace);
    ls_close(l);
    if (lock == LS_MALFORMED || live == LS_MALFORMED)
        return "called well-formed, but the interpreter cannot run it";
    seen.wrong += lock == LS_WRONG;
    seen.unmatched += lock == LS_UNMATCHED;
    if (r->ok) {
        seen.same++;
        return lock != LS_CORRECT ? "called correct, but wrong in lockstep" : live != LS_CORRECT ? "called correct, but wrong live" : NULL;
    }
    bool matching = says(r, "no partner") || says(r, "in the same step") || says(r, "expects");
    if (matching && lock != LS_UNMATCHED)
        return "all messages match";
    if (says(r, "deadlock") && live != LS_STUCK)
        return "there is no deadlock";
    if (lock == LS_CORRECT && live == LS_CORRECT) {
        seen.stricter++;
        if (!says(r, "twice") && !says(r, "holds nothing") && !says(r, "not symmetric"))
            return "it is correct";
    }
    if (says(r, "not symmetric") && (lock != LS_CORRECT || live != LS_CORRECT))
        return "worse than asymmetric";
    return NULL;
}

/* A dropped, doubled or redirected message: is one of its ends named? At the changed rank the operation itself or one beside it, or
 * another of the same line and step: two messages of equal chunks cannot be told apart. */
static bool pointed_at(const struct tt_sched *s, const struct tt_sched *mutant, const struct mutation *m, const struct tt_verify_result *r)
{
    const struct tt_op *op = &tt_sched_slice(s, m->rank).ops[m->op];
    struct tt_slice now = tt_sched_slice(mutant, m->rank);
    if (r->rank != m->rank)
        return r->rank == op->peer;
    if (r->op + 1 >= m->op && r->op <= m->op + 1)
        return true;
    return r->op < now.nops && m->op < now.nops && now.ops[r->op].step == op->step && now.ops[r->op].peer == now.ops[m->op].peer;
}

static void judge(const struct tt_sched *s, const struct mutation *m)
{
    struct tt_sched *mutant = mutate(s, m);
    struct tt_verify_result exact = verify(mutant, TT_VERIFY_EXACT), finger = verify(mutant, TT_VERIFY_FINGERPRINT);
    const char *why = disagreement(mutant, &exact);
    bool message = m->change != OWNER && is_message(&tt_sched_slice(s, m->rank).ops[m->op]);
    seen.mutants++;
    if (!why && exact.ok != finger.ok && !(finger.ok && says(&exact, "twice")))
        why = "exact and fingerprint verdicts differ";
    if (!why && message && (m->change == DROP || m->change == DOUBLE || m->change == RETARGET)) {
        if (exact.ok)
            why = "a message more or less must be seen";
        else if (!pointed_at(s, mutant, m, &exact) || !pointed_at(s, mutant, m, &finger))
            why = "points elsewhere";
    }
    /* a local operation or a sum left out shows late, but must be traced back */
    if (!why && !exact.ok && (m->change == DROP || m->change == KIND)) {
        const struct tt_op *op = &tt_sched_slice(s, m->rank).ops[m->op];
        if (exact.rank != m->rank && !(message && exact.rank == op->peer))
            why = "blames another rank";
    }
    if (why)
        print_error("%s %s of %u ranks, %s of op %zu (%zu) of rank %u, dice %lx: %s\nverify: %s\n", s->shape.algo,
                    tt_sched_coll_name(s->shape.coll), s->shape.ranks, change_names[m->change], m->op, m->other, m->rank,
                    (unsigned long)m->dice, why, exact.ok ? "correct" : exact.why);
    assert_null(why);
    tt_sched_free(mutant);
}

static void expect_correct(const struct tt_sched *s)
{
    struct tt_verify_result r = verify(s, TT_VERIFY_AUTO);
    const char *why = disagreement(s, &r);
    if (!r.ok || why)
        print_error("%s %s of %u ranks: %s; %s\n", s->shape.algo, tt_sched_coll_name(s->shape.coll), s->shape.ranks, r.ok ? "ok" : r.why,
                    why ? why : "");
    assert_true(r.ok);
    assert_null(why);
}

static void some_mutants(const struct tt_sched *s, unsigned n, uint64_t seed)
{
    struct tt_rng rng;
    tt_rng_seed(&rng, seed);
    expect_correct(s);
    for (unsigned i = 0; i < n; i++) {
        struct mutation m = {
            .change = (enum change)(i % CHANGES), .rank = (uint32_t)tt_rng_below(&rng, s->shape.ranks), .dice = tt_rng_next(&rng)};
        size_t nops = tt_sched_slice(s, m.rank).nops;
        m.op = nops ? tt_rng_below(&rng, nops) : 0;
        m.other = nops ? (m.dice & 4 ? (m.op + 1) % nops : tt_rng_below(&rng, nops)) : 0;
        if (applies(s, &m))
            judge(s, &m);
    }
}

/* ---- the schedules ---- */

static struct tt_sched *small_ring(void)
{
    enum { P = 5 };
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE,
                             .ranks = P,
                             .chunks = P,
                             .nbufs = 3,
                             .segments = 1,
                             .inplace = true,
                             .symmetric = true,
                             .algo = "hand-made ring"};
    struct tt_builder b;
    struct tt_sched *s = NULL;
    struct tutti_error err;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < P; r++) {
        tt_sched_build_rank(&b, r);
        for (uint32_t t = 0; t < 2 * P - 2; t++) {
            uint32_t back = t < P - 1 ? t + 1 : t - (P - 1), c = (r + P - back) % P, d = (c + P - 1) % P;
            struct tt_span out = tt_sched_span_range(t ? TT_BUF_OUT : TT_BUF_IN, c, 1);
            struct tt_span in = tt_sched_span_from(TT_BUF_OUT, t < P - 1 ? TT_BUF_IN : TT_BUF_OUT, d, 1);
            tt_sched_emit_send(&b, t, (r + 1) % P, 0, &out, 1);
            if (t < P - 1)
                tt_sched_emit_recv_reduce(&b, t, (r + P - 1) % P, 0, &in, 1);
            else
                tt_sched_emit_recv(&b, t, (r + P - 1) % P, 0, &in, 1);
        }
    }
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
    return s;
}

/* Every change of every operation of the hand-made ring. */
static void every_mutant_of_a_ring(void **state)
{
    (void)state;
    struct tt_sched *s = small_ring();
    expect_correct(s);
    for (int c = 0; c < CHANGES; c++)
        for (uint32_t r = 0; r < s->shape.ranks; r++)
            for (size_t i = 0; i < tt_sched_slice(s, r).nops; i++)
                for (uint64_t dice = 0; dice < 4; dice++) {
                    size_t nops = tt_sched_slice(s, r).nops;
                    struct mutation m = {.change = (enum change)c, .rank = r, .op = i, .other = (i + 1 + dice * dice) % nops, .dice = dice};
                    if (applies(s, &m))
                        judge(s, &m);
                }
    tt_sched_free(s);
}

/* Every collective of one algorithm on this many ranks. */
static unsigned algorithm(const struct tt_algo *al, uint32_t ranks, const struct tt_topo *topo)
{
    unsigned built = 0;
    for (int c = 0; c < TUTTI_COLL_COUNT; c++) {
        struct tt_algo_args a = {.topo = topo};
        struct tt_sched *s = NULL;
        struct tutti_error err;
        a.problem = (struct tt_problem){.coll = (tutti_coll)c, .ranks = ranks, .root = (uint32_t)c % ranks, .count = 1000};
        if (!(al->colls & 1u << c) || tt_algo_build(al, &a, &s, &err) != TUTTI_OK)
            continue;
        some_mutants(s, 8 * CHANGES, (uint64_t)c * 100 + ranks);
        tt_sched_free(s);
        built++;
    }
    return built;
}

static void mutants_of_algorithms(void **state)
{
    (void)state;
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (size_t i = 0; i < n; i++) {
        unsigned built = 0;
        for (uint32_t ranks = 2; ranks <= 9 && !table[i]->needs_topo; ranks++)
            built += algorithm(table[i], ranks, NULL);
        if (!table[i]->needs_topo && strcmp(table[i]->name, "hierarchical") != 0)
            assert_true(built >= 8);
    }
}

static void mutants_on_networks(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:2x2",         "torus:3x2", "torus:2x2x2", "torus:3x3",
                                        "tree:((2 2)(2 2))", "mesh:3x3",  "fattree:2,3"};
    size_t n;
    unsigned built = 0;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (size_t k = 0; k < countof(specs); k++) {
        struct tt_topo *topo = topo_of(specs[k]);
        for (size_t i = 0; i < n; i++)
            if (table[i]->needs_topo || strcmp(table[i]->name, "hierarchical") == 0)
                built += algorithm(table[i], topo->ranks, topo);
        tt_topo_free(topo);
    }
    assert_true(built >= 8);
}

/* Parts of blocks and columns: chunks lie apart, and the proof numbers them anew (fold.c). */
static void mutants_in_parts(void **state)
{
    (void)state;
    static const char *const specs[] = {"dln:32", "ring:24", "dln2d:4x8"};
    static const char *const options[] = {"direction=both", "copies=3"};
    unsigned folded = 0;
    for (size_t k = 0; k < countof(specs) * countof(options); k++)
        for (int c = TUTTI_ALLREDUCE; c <= TUTTI_ALL_GATHER; c++) {
            struct tt_topo *topo = topo_of(specs[k / countof(options)]);
            struct tt_algo_args a = {.topo = topo};
            a.problem = (struct tt_problem){.coll = (tutti_coll)c, .ranks = topo->ranks, .count = 1000};
            assert_int_equal(tt_algo_options_add(&a.options, options[k % countof(options)], NULL), TUTTI_OK);
            struct tt_sched *s = build_of(&tt_algo_shd, &a);
            folded += tt_verify_fold_choose(s).every > 1;
            some_mutants(s, 4 * CHANGES, k * 100 + (uint64_t)c);
            tt_sched_free(s);
            tt_topo_free(topo);
        }
    print_message("%u of 18 are folded\n", folded);
    assert_true(folded >= 6);
}

/* ---- deadlock ---- */

enum { KNOT_RANKS = 4, KNOT_MESSAGES = 8 };
struct knot_message {
    uint32_t src, dst, chunk, from, to, operand;
    uint16_t channel;
    bool reduces;
};

static void emit_knot(struct tt_builder *b, uint32_t r, const struct knot_message *m, const size_t *order)
{
    struct tt_span all[2] = {tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 2), tt_sched_span_from(TT_BUF_SCRATCH, TT_BUF_IN, 0, 2)};
    tt_sched_build_rank(b, r);
    tt_sched_emit_copy(b, 0, &all[0], 1);
    tt_sched_emit_copy(b, 0, &all[1], 1);
    for (size_t i = 0; i < KNOT_MESSAGES; i++) {
        struct tt_span span = tt_sched_span_range(m[i].from, m[i].chunk, 1);
        if (m[i].src == r)
            tt_sched_emit_send(b, 1, m[i].dst, m[i].channel, &span, 1);
    }
    for (size_t i = 0; i < KNOT_MESSAGES; i++) {
        const struct knot_message *k = &m[order[i]];
        struct tt_span to = tt_sched_span_range(k->to, k->chunk, 1), sum = tt_sched_span_from(k->to, k->operand, k->chunk, 1);
        if (k->dst == r && k->reduces)
            tt_sched_emit_recv_reduce(b, 1, k->src, k->channel, &sum, 1);
        else if (k->dst == r)
            tt_sched_emit_recv(b, 1, k->src, k->channel, &to, 1);
    }
}

/* A step of random messages between places that all hold something. Receives are listed in another order than sends, but messages on one
 * (sender, receiver, channel) keep theirs. */
static struct tt_sched *random_knot(struct tt_rng *rng, uint32_t ranks)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = ranks, .chunks = 2, .nbufs = 4, .segments = 1, .inplace = false};
    struct knot_message m[KNOT_MESSAGES];
    size_t order[KNOT_MESSAGES];
    struct tt_builder b;
    struct tt_sched *s = NULL;
    struct tutti_error err;
    for (size_t i = 0; i < KNOT_MESSAGES; i++) {
        m[i].src = (uint32_t)tt_rng_below(rng, ranks);
        m[i].dst = (m[i].src + 1 + (uint32_t)tt_rng_below(rng, ranks - 1)) % ranks;
        m[i].chunk = (uint32_t)tt_rng_below(rng, 2);
        m[i].from = 1 + (uint32_t)tt_rng_below(rng, 2);
        m[i].to = 1 + (uint32_t)tt_rng_below(rng, 3);
        m[i].operand = (uint32_t)tt_rng_below(rng, 3);
        m[i].channel = (uint16_t)tt_rng_below(rng, 2);
        m[i].reduces = tt_rng_below(rng, 2);
        order[i] = i;
    }
    for (size_t i = 0; i + 1 < KNOT_MESSAGES; i++) {
        const struct knot_message *x = &m[order[i]], *y = &m[order[i + 1]];
        bool line = x->src == y->src && x->dst == y->dst && x->channel == y->channel;
        if (!line && tt_rng_below(rng, 2)) {
            size_t first = order[i];
            order[i] = order[i + 1];
            order[i + 1] = first;
        }
    }
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < ranks; r++)
        emit_knot(&b, r, m, order);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
    return s;
}

/* Verify must say deadlock exactly when ranks that run by themselves get stuck. */
static void deadlock_means_stuck(void **state)
{
    (void)state;
    struct tt_rng rng;
    unsigned stuck = 0, free_running = 0;
    tt_rng_seed(&rng, 99);
    for (unsigned i = 0; i < 60000 && (stuck < 200 || free_running < 200); i++) {
        struct tt_sched *s = random_knot(&rng, 2 + i % (KNOT_RANKS - 1));
        struct tt_sched_flaw flaw;
        struct tutti_error err;
        if (tt_sched_check(s, &flaw, &err) == TUTTI_OK) {
            struct tt_verify_result r = verify(s, TT_VERIFY_EXACT);
            struct ls_options o = {.seed = i + 1, .live = true, .inplace = s->shape.inplace, .lenient = true};
            bool is_stuck = ls_run_once(s, &o).verdict == LS_STUCK, said = says(&r, "deadlock");
            if (is_stuck != said)
                print_error("knot %u: stuck %d, verify: %s\n", i, is_stuck, r.ok ? "correct" : r.why);
            assert_int_equal(is_stuck, said);
            stuck += is_stuck;
            free_running += !is_stuck;
        }
        tt_sched_free(s);
    }
    print_message("%u knots stuck, %u not\n", stuck, free_running);
    assert_true(stuck >= 50 && free_running >= 200);
}

/* The mutants must really have met all kinds of fate. */
static void all_fates_were_met(void **state)
{
    (void)state;
    print_message("%u mutants: %u ill-formed, %u unmatched, %u wrong, %u still correct, %u correct but refused\n", seen.mutants,
                  seen.ill_formed, seen.unmatched, seen.wrong, seen.same, seen.stricter);
    assert_true(seen.mutants > 5000);
    assert_true(seen.ill_formed > 100 && seen.unmatched > 100 && seen.wrong > 100 && seen.same > 100);
    assert_true(seen.stricter < seen.mutants / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_of_a_ring), cmocka_unit_test(mutants_of_algorithms), cmocka_unit_test(mutants_on_networks),
        cmocka_unit_test(mutants_in_parts),       cmocka_unit_test(all_fates_were_met),    cmocka_unit_test(deadlock_means_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
