/* bucket.c - the k-dimensional bucket algorithm for tori: rings along every dimension, all ports
 * busy all the time.
 *
 * A reduce-scatter along dimension 0, then 1, ... and an all-gather in the opposite order moves the
 * fewest bytes, but uses one dimension and one direction at a time. So the vector is cut in 2D
 * parts (D dimensions of more than one rank): part j starts with dimension j mod D and goes on
 * cyclically, parts below D run in the positive, the others in the negative direction. In stage i
 * part j is on dimension (i+j) mod D: every directed link carries exactly one part in every stage.
 * torus:2x2, D = 2, rank = 2*x0 + x1:
 *
 *     0 - 1   stage   part 0 and 2: along x0, then x1       part 1 and 3: along x1, then x0
 *     |   |     0     0<->2 1<->3   owners {0,1} | {2,3}    0<->1 2<->3   owners {0,2} | {1,3}
 *     2 - 3     1     0<->1 2<->3   owner 0 | 1, 2 | 3      0<->2 1<->3   owner 0 | 2, 1 | 3
 *             2, 3    all-gather: stages 1, 0 again
 *
 * A dimension of 2 is one cable: both directions fold on it.
 *
 * Chunk = owner * 2D + part, so that rank r owns block r. Invariant after stage i: of its part's
 * chunks whose owner agrees with rank r in the dimensions done, r holds the sum over all ranks that
 * agree with r in the dimensions still to come. Stages are aligned: each lasts as long as the
 * largest dimension needs, so that parts never meet on a link. Cost on n^D ranks: 2 D (n-1) steps;
 * every directed link carries 2 (p-1)/p S/(2D), the least any algorithm can reach on a torus; a
 * rank waits for 2D neighbours per step. With unequal sizes the shorter rings pause until the
 * longest is done. Every chunk is summed along one path, hence equal bits everywhere.
 *
 * variant=paper is the "2D-ring" that MultiTree (ISCA 2021) was compared with: the same parts and
 * rings, but a whole all-reduce along one dimension after the other (reduce-scatter and all-gather
 * in each stage, of the whole part each time): as many steps, on n x n ranks (n-1)/n S on every
 * link instead of about S/2. All-reduce only; for comparisons, in lockstep: ranks that run ahead
 * begin the second dimension with blocks that came early, on links where other parts are still in
 * their first, and all wait for those (8 x 8, long vectors: 8/7 of the time). */
#include "algo/algos.h"
#include "algo/phases.h"

enum { MAX_DIMS = TT_TOPO_MAX_DIMS };

/* A digit of the rank number: x = rank / weight % size. */
struct digit {
    uint32_t size, weight;
};

/* The dimensions of more than one rank, in the order of the topology. */
struct grid {
    uint32_t n, longest, ranks;
    struct digit dim[MAX_DIMS];
};

/* One stage of one part: which chunks its blocks have. */
struct stage {
    uint32_t parts, base; /* chunk of the owner whose digits still to come are 0 */
    struct digit along;   /* the digit that tells the blocks apart */
    struct digit run[2];  /* owners of a block: all values of these (size 1: unused) */
};

static struct grid make_grid(const struct tt_topo *t)
{
    struct grid g = {.longest = 1, .ranks = t->ranks};
    uint32_t weight = 1;
    for (uint32_t d = t->ndims; d-- > 0; weight *= t->dims[d])
        if (t->dims[d] > 1)
            g.dim[g.n++] = (struct digit){t->dims[d], weight};
    for (uint32_t i = 0; i < g.n / 2; i++) {
        struct digit keep = g.dim[i];
        g.dim[i] = g.dim[g.n - 1 - i];
        g.dim[g.n - 1 - i] = keep;
    }
    for (uint32_t i = 0; i < g.n; i++)
        g.longest = g.dim[i].size > g.longest ? g.dim[i].size : g.longest;
    return g;
}

/* Dimensions from .. to-1 as one digit: the owners that differ only in them are evenly spaced. */
static struct digit bucket_join(const struct grid *g, uint32_t from, uint32_t to)
{
    struct digit r = {1, 1};
    if (from >= to)
        return r;
    r.weight = g->dim[to - 1].weight;
    for (uint32_t d = from; d < to; d++)
        r.size *= g->dim[d].size;
    return r;
}

/* Stage i of part j is on dimension e = (i+j) mod D. Dimensions j .. e-1 (cyclically) are done;
 * still to come are e+1 .. j-1, one run of dimensions or, beyond the last one, two. */
static struct stage make_stage(const struct grid *g, uint32_t part, uint32_t i, uint32_t rank)
{
    uint32_t j = part % g->n, e = (i + j) % g->n, owner = 0;
    struct stage s = {.parts = 2 * g->n, .along = g->dim[e]};
    for (uint32_t k = 0; k < i; k++) {
        const struct digit *done = &g->dim[(j + k) % g->n];
        owner += rank / done->weight % done->size * done->weight;
    }
    s.base = owner * s.parts + part;
    s.run[0] = bucket_join(g, e + 1, e < j ? j : g->n);
    s.run[1] = bucket_join(g, 0, e < j ? 0 : j);
    /* the longer run is one strided span, the other is listed */
    if (s.run[0].size < s.run[1].size) {
        struct digit keep = s.run[0];
        s.run[0] = s.run[1];
        s.run[1] = keep;
    }
    return s;
}

static size_t stage_block(const void *ctx, uint32_t block, struct tt_span *ret)
{
    const struct stage *s = ctx;
    uint32_t first = s->base + s->parts * block * s->along.weight;
    bool one = s->run[0].size == 1;
    for (uint32_t k = 0; k < s->run[1].size; k++)
        ret[k] = (struct tt_span){.first = first + s->parts * k * s->run[1].weight,
                                  .len = 1,
                                  .stride = one ? 0 : s->parts * s->run[0].weight,
                                  .reps = s->run[0].size};
    return s->run[1].size;
}

static bool separate(const struct tt_algo_args *a)
{
    return tt_streq(tt_algo_option_text(&tt_algo_bucket, &a->options, "variant"), "paper");
}

static tutti_status bucket_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    const struct tt_topo *t = a->topo;
    if (separate(a) && a->problem.coll != TUTTI_ALLREDUCE)
        return tt_fail(why, TUTTI_ERR_REFUSED, "variant=paper has only allreduce, not %s",
                       tt_sched_coll_name(a->problem.coll));
    if (t->ndims == 0)
        return tt_fail(why, TUTTI_ERR_REFUSED, "needs a torus, not %s", tt_topo_words(t));
    for (uint32_t d = 0; d < t->ndims; d++)
        if (!t->wrap && t->dims[d] > 2)
            return tt_fail(why, TUTTI_ERR_REFUSED,
                           "needs a torus: dimension %u of the mesh has %u ranks and no link that "
                           "closes its ring",
                           d, t->dims[d]);
    struct grid g = make_grid(t);
    if (2ull * g.n * g.ranks > UINT32_MAX)
        return tt_fail(why, TUTTI_ERR_REFUSED, "too many chunks: %u parts of %u ranks", 2 * g.n,
                       g.ranks);
    for (uint32_t j = 0; j < g.n; j++) {
        /* later stages have fewer owners per block, in fewer runs */
        struct stage s = make_stage(&g, j, 0, 0);
        if (s.run[1].size > TT_GROUP_SPANS)
            return tt_fail(why, TUTTI_ERR_REFUSED,
                           "messages would have %u ranges of chunks, more than %d", s.run[1].size,
                           TT_GROUP_SPANS);
    }
    return TUTTI_OK;
}

static tutti_status bucket_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                 struct tutti_error *err)
{
    (void)err;
    struct grid g = make_grid(a->topo);
    s->grid = !separate(a);
    s->chunks = g.n ? 2 * g.n * g.ranks : 1;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

static struct tt_group stage_group(const struct stage *s, uint32_t rank)
{
    uint32_t me = rank / s->along.weight % s->along.size;
    return (struct tt_group){.n = s->along.size,
                             .me = me,
                             .first = rank - me * s->along.weight,
                             .stride = s->along.weight,
                             .block = stage_block,
                             .ctx = s};
}

/* The same in all phases of a rank. */
struct frame {
    const struct grid *grid;
    bool rs, ag;
    uint32_t work, stage_steps;
};

static struct tt_phase scatter_phase(const struct frame *f, const struct tt_group *g, uint32_t part,
                                     uint32_t i)
{
    uint32_t last = f->grid->n - 1;
    return (struct tt_phase){.kind = &tt_algo_ring_rs,
                             .group = *g,
                             .in = i == 0 ? TT_BUF_IN : f->work,
                             .work = f->work,
                             .out = i == last ? TT_BUF_OUT : f->work,
                             .step = i * f->stage_steps,
                             .channel = (uint16_t)part,
                             .reverse = part >= f->grid->n};
}

static struct tt_phase gather_phase(const struct frame *f, const struct tt_group *g, uint32_t part,
                                    uint32_t i)
{
    uint32_t last = f->grid->n - 1, before = f->rs ? f->grid->n : 0;
    return (struct tt_phase){.kind = &tt_algo_ring_ag,
                             .group = *g,
                             .in = f->rs || i < last ? TT_BUF_OUT : TT_BUF_IN,
                             .out = TT_BUF_OUT,
                             .step = (before + last - i) * f->stage_steps,
                             .channel = (uint16_t)part,
                             .reverse = part >= f->grid->n};
}

/* variant=paper: in each stage every rank of a ring ends with all of the part, summed along the
 * dimensions so far. Block b of a part: the chunks of owners b*n/size .. (b+1)*n/size - 1,
 * regardless of where these owners are. */
static size_t separate_phases(const struct frame *f, uint32_t rank, uint32_t part, uint32_t i,
                              struct tt_phase ret[2])
{
    const struct grid *g = f->grid;
    const struct digit *along = &g->dim[(i + part) % g->n];
    uint32_t me = rank / along->weight % along->size, each = g->ranks / along->size,
             parts = 2 * g->n;
    struct tt_group group = {
        .n = along->size, .me = me, .first = rank - me * along->weight, .stride = along->weight};
    group.blocks = (struct tt_group_blocks){.first = part,
                                            .step = each * parts,
                                            .len = 1,
                                            .stride = each > 1 ? parts : 0,
                                            .reps = each};
    ret[0] = (struct tt_phase){.kind = &tt_algo_ring_rs,
                               .group = group,
                               .in = i == 0 ? TT_BUF_IN : TT_BUF_OUT,
                               .work = TT_BUF_OUT,
                               .out = TT_BUF_OUT,
                               .step = 2 * i * f->stage_steps,
                               .channel = (uint16_t)part,
                               .reverse = part >= g->n};
    ret[1] = ret[0];
    ret[1].kind = &tt_algo_ring_ag;
    ret[1].in = TT_BUF_OUT;
    ret[1].step += f->stage_steps;
    return 2;
}

/* The phases of stage i of a part: reduce-scatter and all-gather, as the collective has them. */
static size_t joint_phases(const struct frame *f, const struct stage *s, uint32_t rank,
                           const uint32_t part_stage[2], struct tt_phase ret[2])
{
    struct tt_group group = stage_group(s, rank);
    size_t n = 0;
    if (f->rs)
        ret[n++] = scatter_phase(f, &group, part_stage[0], part_stage[1]);
    if (f->ag)
        ret[n++] = gather_phase(f, &group, part_stage[0], part_stage[1]);
    return n;
}

static void bucket_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    struct grid g = make_grid(a->topo);
    struct frame f = {.grid = &g,
                      .rs = tt_sched_coll_reduces(a->problem.coll),
                      .ag = tt_algo_coll_gathers(a->problem.coll)};
    f.work = f.ag ? TT_BUF_OUT : TT_BUF_SCRATCH;
    f.stage_steps = g.longest - 1;
    struct stage stages[2 * MAX_DIMS * MAX_DIMS];
    struct tt_vec phases = {.elem = sizeof(struct tt_phase)};
    if (g.n == 0) {
        tt_algo_emit_alone(b);
        return;
    }
    bool ok = true, paper = separate(a);
    for (uint32_t k = 0; k < 2 * g.n * g.n; k++) {
        const uint32_t at[2] = {k / g.n, k % g.n};
        struct tt_phase two[2];
        stages[k] = make_stage(&g, at[0], at[1], rank);
        size_t n = paper ? separate_phases(&f, rank, at[0], at[1], two)
                         : joint_phases(&f, &stages[k], rank, at, two);
        ok = ok && tt_vec_push(&phases, two, n);
    }
    if (ok)
        tt_algo_phases_emit(b, phases.data, phases.len);
    else
        b->status = tt_fail_memory(&b->err, "bucket");
    tt_vec_free(&phases);
}

static const struct tt_algo_option bucket_options[] = {
    {.key = "variant",
     .values = "optimal|paper",
     .desc = "paper: a whole all-reduce along each dimension in turn (the 2D-ring MultiTree was "
             "compared with)"},
    {.key = NULL},
};

const struct tt_algo tt_algo_bucket = {
    .name = "bucket",
    .desc = "rings along every dimension of a torus at once, in both directions: least load on "
            "every link",
    .needs = "a torus (any number of dimensions, any sizes)",
    .home = "torus hypercube",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .needs_topo = true,
    .options = bucket_options,
    .probe = bucket_probe,
    .shape = bucket_shape,
    .slice = bucket_slice,
};
