/* hdrm.c - halving-doubling with rank mapping on BiGraph (EFLOPS, HPCA 2020): every step loads
 * every link between switches at most once.
 *
 * A BiGraph has an upper and a lower half of switches, each switch of one joined with each of the
 * other. Halving-doubling is run on numbers v that are dealt to the ranks so that partners v and
 * v^2^s always hang on opposite sides, and no two pairs of a step share a cable. With n switches of
 * m ranks, v = j n + 2 i + b (group j < m, pair i < n/2, b one of the two):
 *
 *     side = b + (ones in i) + (ones in j), modulo 2
 *     upper: switch (i + j) mod n/2, lower: switch n/2 + i        rank = switch m + j
 *
 *     bigraph:1x4: switches 0 1 | 2 3; v = 0: pair 0, upper 0;  1: lower 2;
 *                  2: pair 1 (one 1: turned), lower 3;  3: upper 1
 *       step 0: ranks 0<->2 3<->1, halves;  step 1: 0<->3, 2<->1, quarters;  then back, growing
 *
 * Reduce-scatter: at distance 1, 2, 4, .. the chunks that differ from v in the bit of the distance
 * go to the partner; v keeps chunk v. Invariant before distance d: v holds, of the chunks equal to
 * v modulo d, the sum over the d numbers that agree with v from bit log2 d on. Cost: 2 log2 p
 * steps, 2 (p-1)/p of the vector per rank; a rank waits for one partner a step. All-reduce only:
 * chunk v ends at v's rank, not at rank v. */
#include "algo/algos.h"
#include "algo/phases.h"

struct bigraph {
    uint32_t switches, hosts;
};

static uint32_t rank_of(const struct bigraph *g, uint32_t v)
{
    uint32_t j = v / g->switches, i = v % g->switches / 2, half = g->switches / 2;
    bool lower = (v ^ (uint32_t)__builtin_parity(i) ^ (uint32_t)__builtin_parity(j)) & 1;
    return (lower ? half + i : (i + j) % half) * g->hosts + j;
}

/* The inverse: the group is the place on the switch, the pair follows from the switch, the rest
 * from the side. */
static uint32_t number_of(const struct bigraph *g, uint32_t rank)
{
    uint32_t sw = rank / g->hosts, j = rank % g->hosts, half = g->switches / 2;
    bool lower = sw >= half;
    uint32_t i = lower ? sw - half : (sw + half - j % half) % half;
    uint32_t b =
        ((uint32_t)lower ^ (uint32_t)__builtin_parity(i) ^ (uint32_t)__builtin_parity(j)) & 1;
    return j * g->switches + 2 * i + b;
}

static tutti_status hdrm_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    const struct tt_topo *t = a->topo;
    if (!tt_streq(t->kind, "bigraph"))
        return tt_fail(why, TUTTI_ERR_REFUSED, "needs a bigraph, not %s", tt_topo_words(t));
    if (t->ranks & (t->ranks - 1) || t->switches & (t->switches - 1))
        return tt_fail(why, TUTTI_ERR_REFUSED, "needs powers of two, not %u switches of %u ranks",
                       t->switches, t->ranks / t->switches);
    return TUTTI_OK;
}

static tutti_status hdrm_shape(const struct tt_algo_args *a, struct tt_shape *s,
                               struct tutti_error *err)
{
    (void)err;
    s->chunks = a->problem.ranks;
    return TUTTI_OK;
}

static void hdrm_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    uint32_t p = a->problem.ranks, step = 0;
    struct bigraph g = {.switches = a->topo->switches, .hosts = p / a->topo->switches};
    uint32_t v = number_of(&g, rank);
    for (uint32_t d = 1; d < p; d *= 2, step++) {
        uint32_t peer = rank_of(&g, v ^ d), src = d == 1 ? TT_BUF_IN : TT_BUF_OUT;
        struct tt_span give = {.first = (v ^ d) % (2 * d),
                               .len = 1,
                               .stride = 2 * d,
                               .reps = p / (2 * d),
                               .buf = src,
                               .src = src};
        struct tt_span keep = {.first = v % (2 * d),
                               .len = 1,
                               .stride = 2 * d,
                               .reps = p / (2 * d),
                               .buf = TT_BUF_OUT,
                               .src = src};
        tt_sched_emit_send(b, step, peer, 0, &give, 1);
        tt_sched_emit_recv_reduce(b, step, peer, 0, &keep, 1);
    }
    for (uint32_t d = p / 2; d > 0; d /= 2, step++) {
        uint32_t peer = rank_of(&g, v ^ d);
        struct tt_span give = {.first = v % (2 * d),
                               .len = 1,
                               .stride = 2 * d,
                               .reps = p / (2 * d),
                               .buf = TT_BUF_OUT,
                               .src = TT_BUF_OUT};
        struct tt_span take = give;
        take.first = (v ^ d) % (2 * d);
        tt_sched_emit_send(b, step, peer, 0, &give, 1);
        tt_sched_emit_recv(b, step, peer, 0, &take, 1);
    }
}

const struct tt_algo tt_algo_hdrm = {
    .name = "hdrm",
    .desc = "halving-doubling with ranks mapped to a BiGraph: no link between switches is wanted "
            "twice (EFLOPS)",
    .needs = "a bigraph of powers of two",
    .home = "bigraph",
    .colls = TT_COLLS(ALLREDUCE),
    .needs_topo = true,
    .probe = hdrm_probe,
    .shape = hdrm_shape,
    .slice = hdrm_slice,
};
