/* Properties of every policy, fusion and order on random models: every byte in exactly one bucket; launches well-formed; nothing starts
 * before what it needs; one launch at a time, in order; no step below the limit; the timeline agrees with an account of its own kept here.
 */
#include "policy_case.h"

#define MS UINT64_C(1000000000)

struct setting {
    struct tt_policy_tensor *t;
    uint32_t n;
    struct line line;
    struct tt_policy_costs costs;
};

static void random_setting(struct setting *s, struct tt_rng *rng)
{
    uint32_t layer = 0, part = 0;
    s->n = 1 + (uint32_t)tt_rng_below(rng, 60);
    s->t = calloc(s->n, sizeof *s->t);
    for (uint32_t i = 0; i < s->n; i++) {
        bool next = i > 0 && tt_rng_below(rng, 3) > 0;
        layer += next;
        part += tt_rng_below(rng, 12) == 0;
        s->t[i] = (struct tt_policy_tensor){.bytes = 4 * (1 + tt_rng_below(rng, 1u << (2 + tt_rng_below(rng, 21)))),
                                            .elem_bytes = 4,
                                            .kind = (enum tt_tensor_kind)tt_rng_below(rng, TT_KIND_COUNT),
                                            .layer = layer,
                                            .part = part};
        if (tt_rng_below(rng, 4)) {
            s->t[i].forward_ps = tt_rng_below(rng, 3 * MS);
            s->t[i].backward_ps = tt_rng_below(rng, 6 * MS);
        }
    }
    s->line = (struct line){.startup_ps = tt_rng_below(rng, 4 * MS), .ps_per_byte = tt_rng_below(rng, 2000)};
    s->costs = costs_of(&s->line);
    s->costs.update_ps_per_mib = tt_rng_below(rng, 2) ? MS / 3 : 0;
}

static void check_buckets(const struct setting *s, const struct tt_policy *p)
{
    uint32_t tensor = 0;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < p->nbuckets; i++) {
        const struct tt_policy_bucket *b = &p->buckets[i];
        uint64_t bytes = 0;
        assert_int_equal(b->first, tensor);
        assert_int_equal(b->offset_bytes, offset);
        assert_true(b->first <= b->last && b->last < s->n && b->bytes > 0 && b->bytes % 4 == 0);
        for (uint32_t k = b->first; k <= b->last; k++) {
            bytes += s->t[k].bytes;
            assert_int_equal(s->t[k].part, s->t[b->first].part);
        }
        if (b->offset_bytes + b->bytes == bytes) {
            tensor = b->last + 1;
            offset = 0;
        } else {
            assert_true(b->first == b->last && b->offset_bytes + b->bytes < bytes && b->bytes <= p->options.partition_bytes);
            offset += b->bytes;
        }
    }
    assert_int_equal(tensor, s->n);
}

static void check_launches(const struct setting *s, const struct tt_policy *p)
{
    uint32_t *first = malloc(p->nbuckets * sizeof *first), done = 0;
    memset(first, 0xff, p->nbuckets * sizeof *first);
    for (uint32_t i = 0; i < p->nlaunches; i++) {
        const struct tt_policy_launch *l = &p->launches[i];
        const struct tt_policy_bucket *b = &p->buckets[l->bucket];
        assert_true(l->needs_first <= b->first && l->needs_last >= b->last && l->needs_last < s->n);
        assert_int_equal(l->cost_ps, line_cost(&((struct setting *)s)->line, l->coll, b->algo, b->bytes));
        assert_int_equal(l->before_forward, p->wait_at_step ? 0 : b->first);
        if (l->coll == TUTTI_ALL_GATHER) {
            assert_true(b->decoupled && l->needs_launch == first[l->bucket] && l->needs_launch < i);
            done++;
            continue;
        }
        assert_int_equal(l->coll, b->decoupled ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE);
        assert_int_equal(first[l->bucket], UINT32_MAX);
        assert_int_equal(l->needs_launch, TT_NO_LAUNCH);
        first[l->bucket] = i;
        done += !b->decoupled;
    }
    assert_int_equal(done, p->nbuckets);
    free(first);
}

/* When the tensor's gradient is ready. */
static uint64_t ready_of(const struct setting *s, uint32_t tensor)
{
    uint64_t sum = 0;
    for (uint32_t i = s->n; i-- > tensor;)
        sum += s->t[i].backward_ps;
    return sum;
}

/* Ends of launches from the spans (a launch that takes no time has none; its end is not checked then). */
static void check_spans(const struct setting *s, const struct tt_policy *p, const struct tt_policy_span *spans, size_t n)
{
    uint64_t stream = 0, compute = 0, *ended = calloc(p->nlaunches, sizeof *ended);
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tt_policy_span *x = &spans[i];
        assert_true(x->end_ps > x->start_ps && (i == 0 || x->start_ps >= spans[i - 1].start_ps));
        if (x->kind == TT_SPAN_LAUNCH) {
            const struct tt_policy_launch *l = &p->launches[x->index];
            assert_true(x->start_ps >= stream && x->index >= last);
            assert_true(x->start_ps >= ready_of(s, l->needs_first));
            assert_int_equal(x->end_ps - x->start_ps, l->cost_ps);
            if (l->needs_launch != TT_NO_LAUNCH)
                assert_true(x->start_ps >= ended[l->needs_launch]);
            stream = ended[x->index] = x->end_ps;
            last = x->index;
        } else if (x->kind != TT_SPAN_UPDATE || p->update != TT_UPDATE_SHARD) {
            assert_true(x->start_ps >= compute);
            compute = x->end_ps;
        }
    }
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; spans[i].kind == TT_SPAN_FORWARD && k < p->nlaunches; k++)
            if (p->wait_at_step || p->buckets[p->launches[k].bucket].first <= spans[i].index)
                assert_true(spans[i].start_ps >= ended[k]);
    free(ended);
}

static void check_policy(const struct setting *s, const struct tt_policy_options *o)
{
    struct tutti_error err = {0};
    struct tt_policy_times x;
    struct tt_policy_span *spans = NULL;
    size_t nspans = 0;
    struct tt_policy *p = made(o, s->t, s->n, &s->costs), *again = made(o, s->t, s->n, &s->costs);
    check_buckets(s, p);
    check_launches(s, p);
    assert_int_equal(tt_policy_time(p, s->t, &s->costs, &x, &spans, &nspans, &err), TUTTI_OK);
    check_spans(s, p, spans, nspans);
    assert_true(x.iteration_ps >= x.limit_ps);
    assert_int_equal(x.iteration_ps, x.forward_ps + x.backward_ps + x.update_ps + x.exposed_ps);
    assert_int_equal(p->hash, again->hash);
    free(spans);
    tt_policy_free(p);
    tt_policy_free(again);
}

static void test_all(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 2023);
    for (int round = 0; round < 15; round++) {
        struct setting s;
        random_setting(&s, &rng);
        for (unsigned k = 0; k < TT_POLICY_COUNT; k++)
            for (unsigned f = 0; f < TT_FUSION_COUNT; f++)
                for (unsigned order = 0; order <= TT_ORDER_PUBLISHED; order++)
                    check_policy(
                        &s, &(struct tt_policy_options){.kind = (enum tt_policy_kind)k,
                                                        .fusion = (enum tt_fusion)f,
                                                        .order = (enum tt_policy_order)order,
                                                        .partition_bytes = tt_rng_below(&rng, 3) ? 0 : 4096 + tt_rng_below(&rng, 1 << 20),
                                                        .threshold_bytes = tt_rng_below(&rng, 1 << 24),
                                                        .nearby = (uint32_t)tt_rng_below(&rng, 9)});
        free(s.t);
    }
}

/* The best order is no worse than any; the search no worse than any threshold it contains. */
static void test_best_is_best(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 77);
    for (int round = 0; round < 12; round++) {
        struct setting s;
        random_setting(&s, &rng);
        uint64_t best =
            timed(&(struct tt_policy_options){.kind = TT_POLICY_DEAR, .fusion = TT_FUSION_SEARCH}, s.t, s.n, &s.costs).iteration_ps;
        for (uint64_t x = 65536; x <= (uint64_t)64 << 20; x *= 4)
            for (unsigned order = 0; order <= TT_ORDER_PUBLISHED; order++) {
                struct tt_policy_options o = {
                    .kind = TT_POLICY_DEAR, .fusion = TT_FUSION_THRESHOLD, .threshold_bytes = x, .order = (enum tt_policy_order)order};
                uint64_t bytes = 0;
                for (uint32_t i = 0; i < s.n; i++)
                    bytes += s.t[i].bytes;
                if (x < 2 * bytes)
                    assert_true(timed(&o, s.t, s.n, &s.costs).iteration_ps >= best);
            }
        free(s.t);
    }
}

/* What ranks compare: sizes and choices count, times alone do not. */
static void test_hash(void **state)
{
    struct line l = {.ps_per_byte = 10};
    struct tt_policy_costs c = costs_of(&l);
    struct tt_policy_tensor *t = uniform(8, 1 << 20, MS, MS);
    struct tt_policy_options o = {.kind = TT_POLICY_BUCKET, .threshold_bytes = 3 << 20};
    (void)state;
    struct tt_policy *a = made(&o, t, 8, &c);
    t[3].backward_ps *= 3;
    struct tt_policy *b = made(&o, t, 8, &c);
    t[3].bytes += 4;
    struct tt_policy *d = made(&o, t, 8, &c);
    t[3].bytes -= 4;
    o.threshold_bytes = 2 << 20;
    struct tt_policy *e = made(&o, t, 8, &c);
    assert_int_equal(a->hash, b->hash);
    assert_int_not_equal(a->hash, d->hash);
    assert_int_not_equal(a->hash, e->hash);
    tt_policy_free(a);
    tt_policy_free(b);
    tt_policy_free(d);
    tt_policy_free(e);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_best_is_best), cmocka_unit_test(test_hash)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
