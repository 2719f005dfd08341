/* msccl_xml.c - MSCCL's XML, as microsoft/msccl, Azure's executor and RCCL read it.
 *
 * A thread block has one connection: a peer to send to or to receive from, and a channel; it
 * runs its steps in order. One more block has the local acts. A step waits for at most one step
 * of another block of its GPU; further waits are put on nops before it. So the order on a
 * connection is that of the schedule, and every wait of the live rule (sched/deps.h) is either
 * the order inside a block or such a wait:
 *
 *     rank 1   block 0: recv <- 0   r   chunk 0                     (awaited: hasdep)
 *              block 1: send -> 2   s   chunk 0   depid 0, deps 0
 *
 * Written from descriptions of the format. No step is fused (rcs, rrs, rrcs), so that converters
 * for simulators can read it, too. */
#include <assert.h>
#include <stdlib.h>

#include "export/export.h"
#include "export/layout.h"
#include "export/program.h"

/* Limits of all targets: units of a step, 16-bit offsets, channels, connections on a channel. */
enum { COUNT_MAX = 71, OFFSET_MAX = INT16_MAX, CHANNELS_MAX = 32, BLOCKS_PER_CHANNEL = 32 };

/* Limits that differ by target. */
struct limits {
    const char *name;
    uint32_t steps, blocks;
};
static const struct limits targets[] = {{"msccl", 256, 216}, {"azure", 64, 127}, {"rccl", 64, 64}};

enum { LOCAL = UINT32_MAX }; /* the peer of the block of local acts */

/* A thread block; its number is its index in xml.blocks. */
struct block {
    uint32_t peer, channel;
    bool sends;
    struct tt_vec steps; /* struct step */
};

struct step {
    const char *type;
    struct tt_export_place from, to;
    int64_t wait_block, wait_step; /* what it waits for; -1: nothing */
    /* another step waits for this one (hasdep) */
    bool awaited;
};

/* The last step of an operation: others wait for that one. block UINT32_MAX: it has no steps. */
struct last {
    uint32_t block, step;
};

struct xml {
    const struct tt_export_options *o;
    const struct limits *limits;
    struct tt_export_program program;
    struct tt_export_layout layout;
    struct tt_vec blocks; /* struct block; of one rank and one instance */
    struct last *last;    /* by operation */
    struct tt_vec waits;  /* struct last: what the present operation still has to wait for */
    uint32_t channels;
};

static void drop_blocks(struct xml *x)
{
    for (size_t i = 0; i < x->blocks.len; i++)
        tt_vec_free(&((struct block *)tt_vec_at(&x->blocks, i))->steps);
    x->blocks.len = 0;
}

/* The number of the block with the operation's connection, which is made when it is new.
 * UINT32_MAX: out of memory. */
static uint32_t block_of(struct xml *x, const struct tt_op *op)
{
    const bool message = op->kind != TT_OP_COPY && op->kind != TT_OP_REDUCE;
    const struct block want = {.peer = message ? op->peer : LOCAL,
                               .channel = message ? op->channel : 0,
                               .sends = op->kind == TT_OP_SEND,
                               .steps = {.elem = sizeof(struct step)}};
    for (size_t i = 0; i < x->blocks.len; i++) {
        const struct block *b = tt_vec_at(&x->blocks, i);
        if (b->peer == want.peer && b->channel == want.channel && b->sends == want.sends)
            return (uint32_t)i;
    }
    return tt_vec_push(&x->blocks, &want, 1) ? (uint32_t)x->blocks.len - 1 : UINT32_MAX;
}

/* Collects what operation i waits for in other blocks: for each block the latest step, since a
 * block runs in order. *e moves to the first edge of the next operation: edges are sorted by
 * `to`. */
static tutti_status find_waits(struct xml *x, uint32_t i, uint32_t own, size_t *e,
                               struct tutti_error *err)
{
    x->waits.len = 0;
    for (; *e < x->program.edges.len; (*e)++) {
        const struct tt_edge *edge = tt_vec_at(&x->program.edges, *e);
        assert(edge->to >= i);
        if (edge->to != i)
            break;
        const struct last w = x->last[edge->from];
        if (w.block == own || w.block == UINT32_MAX)
            continue;
        struct last *same = NULL;
        for (size_t k = 0; k < x->waits.len; k++)
            if (((struct last *)tt_vec_at(&x->waits, k))->block == w.block)
                same = tt_vec_at(&x->waits, k);
        if (same)
            same->step = same->step > w.step ? same->step : w.step;
        else if (!tt_vec_push(&x->waits, &w, 1))
            return tt_fail_memory(err, "waits");
    }
    return TUTTI_OK;
}

/* Makes step s wait for w, and marks w as awaited. */
static void await(struct xml *x, struct step *s, const struct last *w)
{
    struct block *b = tt_vec_at(&x->blocks, w->block);
    ((struct step *)tt_vec_at(&b->steps, w->step))->awaited = true;
    s->wait_block = w->block;
    s->wait_step = w->step;
}

static bool push_step(struct xml *x, uint32_t block, const struct step *s)
{
    return tt_vec_push(&((struct block *)tt_vec_at(&x->blocks, block))->steps, s, 1);
}

static struct step step_of(const struct xml *x, const struct tt_act *a, uint32_t chunk,
                           uint32_t len)
{
    static const char *const types[] = {"s", "r", "rrc", "cpy", "re"};
    const uint32_t rank = x->program.rank;
    struct step s = {.type = types[a->kind],
                     .from = tt_export_place(&x->layout, rank,
                                             a->kind == TT_ACT_SEND ? a->buf : a->src, chunk, len),
                     .to = tt_export_place(&x->layout, rank, a->buf, chunk, len),
                     .wait_block = -1,
                     .wait_step = -1};
    return s;
}

/* How many chunks from `chunk` on one step can take; at least one. Both ends cut alike, because
 * both hold the same chunks. */
static uint32_t fit(const struct xml *x, const struct tt_act *a, uint32_t chunk)
{
    uint32_t len = a->chunk + a->len - chunk;
    while (len > 1 && tt_export_place(&x->layout, 0, TT_BUF_SCRATCH, chunk, len).n > COUNT_MAX)
        len = len > COUNT_MAX ? COUNT_MAX : len - 1;
    return len;
}

/* Adds the steps of one act. All waits but one go to nops before the first step. */
static tutti_status add_act(struct xml *x, uint32_t block, const struct tt_act *a,
                            struct tutti_error *err)
{
    for (uint32_t chunk = a->chunk, len; chunk < a->chunk + a->len; chunk += len) {
        len = fit(x, a, chunk);
        struct step s = step_of(x, a, chunk, len);
        if (s.to.n == 0) /* a share of nothing: both ends skip it */
            continue;
        if (s.to.n > COUNT_MAX)
            return tt_fail(
                err, TUTTI_ERR_REFUSED,
                "msccl-xml: a chunk is %llu units, a step takes at most %d (uneven shares)",
                (unsigned long long)s.to.n, COUNT_MAX);
        for (; x->waits.len > 1; x->waits.len--) {
            struct step nop = {.type = "nop"};
            await(x, &nop, tt_vec_at(&x->waits, x->waits.len - 1));
            if (!push_step(x, block, &nop))
                return tt_fail_memory(err, "steps");
        }
        if (x->waits.len)
            await(x, &s, tt_vec_at(&x->waits, 0));
        x->waits.len = 0; /* the other steps follow in the same block */
        if (!push_step(x, block, &s))
            return tt_fail_memory(err, "steps");
    }
    return TUTTI_OK;
}

/* Lists all steps of the present rank. Invariant: last[] is set for the operations before i. */
static tutti_status list_steps(struct xml *x, struct tutti_error *err)
{
    const struct tt_slice *sl = &x->program.slice;
    size_t e = 0;
    drop_blocks(x);
    for (uint32_t i = 0; i < sl->nops; i++) {
        uint32_t n;
        const struct tt_act *acts = tt_export_acts(&x->program, i, &n);
        const uint32_t block = block_of(x, &sl->ops[i]);
        if (block == UINT32_MAX)
            return tt_fail_memory(err, "blocks");
        tutti_status st = find_waits(x, i, block, &e, err);
        for (uint32_t k = 0; !st && k < n; k++)
            st = add_act(x, block, &acts[k], err);
        if (st)
            return st;
        const struct block *b = tt_vec_at(&x->blocks, block);
        x->last[i] = (struct last){b->steps.len ? block : UINT32_MAX,
                                   b->steps.len ? (uint32_t)b->steps.len - 1 : 0};
        x->channels = sl->ops[i].channel >= x->channels ? sl->ops[i].channel + 1u : x->channels;
    }
    return TUTTI_OK;
}

/* Refuses what the target's engine could not load, with the limit that is broken. */
static tutti_status check_limits(const struct xml *x, uint32_t instances, struct tutti_error *err)
{
    const struct limits *l = x->limits;
    const uint64_t scratch = tt_export_scratch_units(&x->layout) * instances,
                   units = x->layout.units * instances;
    uint32_t per_channel[CHANNELS_MAX] = {0};
    if (x->channels * (uint64_t)instances > CHANNELS_MAX)
        return tt_fail(
            err, TUTTI_ERR_REFUSED,
            "msccl-xml: %u channels of the schedule, %u instances: more than %d channels",
            x->channels, instances, CHANNELS_MAX);
    if (units > OFFSET_MAX || scratch > OFFSET_MAX)
        return tt_fail(
            err, TUTTI_ERR_REFUSED,
            "msccl-xml: offsets of %llu units do not fit in 16 bits (fewer chunks or instances)",
            (unsigned long long)(units > scratch ? units : scratch));
    if (x->blocks.len * instances > l->blocks)
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "msccl-xml: rank %u needs %zu thread blocks, %s takes at most %u",
                       x->program.rank, x->blocks.len * instances, l->name, l->blocks);
    for (size_t i = 0; i < x->blocks.len; i++) {
        const struct block *b = tt_vec_at(&x->blocks, i);
        if (b->steps.len > l->steps)
            return tt_fail(
                err, TUTTI_ERR_REFUSED,
                "msccl-xml: rank %u needs %zu steps in one thread block, %s takes at most %u%s",
                x->program.rank, b->steps.len, l->name, l->steps,
                l->steps < targets[0].steps && b->steps.len <= targets[0].steps
                    ? " (target=msccl takes more)"
                    : "");
        if (b->peer != LOCAL && ++per_channel[b->channel] > BLOCKS_PER_CHANNEL)
            return tt_fail(err, TUTTI_ERR_REFUSED,
                           "msccl-xml: rank %u has more than %d connections on a channel",
                           x->program.rank, BLOCKS_PER_CHANNEL);
    }
    return TUTTI_OK;
}

/* Units before instance k in a buffer. */
static uint64_t instance_base(const struct xml *x, char buf, uint32_t k)
{
    return k * (buf == 's' ? tt_export_scratch_units(&x->layout) : x->layout.units);
}

/* Instances are copies: blocks and offsets are shifted. A nop has no place (to.buf is 0). */
static void print_step(const struct xml *x, const struct step *s, size_t number, uint32_t instance,
                       FILE *out)
{
    const int64_t block =
        s->wait_block < 0 ? -1 : s->wait_block + (int64_t)(instance * x->blocks.len);
    if (!s->to.buf) {
        fprintf(out,
                "      <step s=\"%zu\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" "
                "dstoff=\"-1\" cnt=\"0\"",
                number);
    } else {
        fprintf(out,
                "      <step s=\"%zu\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%llu\" dstbuf=\"%c\" "
                "dstoff=\"%llu\" cnt=\"%llu\"",
                number, s->type, s->from.buf,
                (unsigned long long)(s->from.at + instance_base(x, s->from.buf, instance)),
                s->to.buf, (unsigned long long)(s->to.at + instance_base(x, s->to.buf, instance)),
                (unsigned long long)s->to.n);
    }
    fprintf(out, " depid=\"%lld\" deps=\"%lld\" hasdep=\"%d\"/>\n", (long long)block,
            (long long)s->wait_step, s->awaited);
}

static void print_rank(const struct xml *x, uint32_t instances, FILE *out)
{
    fprintf(out, "  <gpu id=\"%u\" i_chunks=\"%llu\" o_chunks=\"%llu\" s_chunks=\"%llu\">\n",
            x->program.rank, (unsigned long long)(tt_export_input_units(&x->layout) * instances),
            (unsigned long long)(tt_export_output_units(&x->layout) * instances),
            (unsigned long long)(tt_export_scratch_units(&x->layout) * instances));
    for (uint32_t k = 0; k < instances; k++)
        for (size_t i = 0; i < x->blocks.len; i++) {
            const struct block *b = tt_vec_at(&x->blocks, i);
            const long long peer = b->peer == LOCAL ? -1 : (long long)b->peer;
            fprintf(out, "    <tb id=\"%zu\" send=\"%lld\" recv=\"%lld\" chan=\"%u\">\n",
                    k * x->blocks.len + i, b->sends ? peer : -1, b->sends ? -1 : peer,
                    b->channel + k * x->channels);
            for (size_t n = 0; n < b->steps.len; n++)
                print_step(x, tt_vec_at(&b->steps, n), n, k, out);
            fprintf(out, "    </tb>\n");
        }
    fprintf(out, "  </gpu>\n");
}

/* One pass over all ranks. Without `out` it only counts channels and checks the limits; the
 * header needs the channels of all ranks. */
static tutti_status pass(struct xml *x, uint32_t instances, FILE *out, struct tutti_error *err)
{
    const uint32_t ranks = x->layout.shape->ranks;
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; !st && r < ranks; r++) {
        st = tt_export_program_rank(&x->program, r, err);
        if (!st) {
            free(x->last);
            x->last = tt_alloc(x->program.slice.nops + 1, sizeof *x->last);
            st = x->last ? list_steps(x, err) : tt_fail_memory(err, "steps");
        }
        if (!st)
            st = check_limits(x, instances, err);
        if (!st && out)
            print_rank(x, instances, out);
    }
    return st;
}

static void print_head(const struct xml *x, uint32_t instances, FILE *out)
{
    static const char *const names[] = {[TUTTI_ALLREDUCE] = "allreduce",
                                        [TUTTI_REDUCE_SCATTER] = "reduce_scatter",
                                        [TUTTI_ALL_GATHER] = "allgather",
                                        [TUTTI_BROADCAST] = "broadcast"};
    const struct tt_shape *s = x->layout.shape;
    /* Azure and RCCL spell reduce-scatter without the underscore. */
    const bool rccl = x->limits != &targets[0];
    const bool both = s->inplace && (s->coll == TUTTI_ALLREDUCE || s->coll == TUTTI_BROADCAST);
    fprintf(out, "<algo name=\"tutti-");
    tt_export_xml_text(s->algo, out);
    fprintf(out,
            "\" proto=\"%s\" nchannels=\"%u\" nchunksperloop=\"%llu\" ngpus=\"%u\" coll=\"%s\" "
            "inplace=\"%d\" "
            "outofplace=\"1\" minBytes=\"%llu\" maxBytes=\"%llu\">\n",
            x->o->protocol ? x->o->protocol : "Simple", x->channels * instances,
            (unsigned long long)(x->layout.units * instances), s->ranks,
            rccl && s->coll == TUTTI_REDUCE_SCATTER ? "reducescatter" : names[s->coll], both,
            (unsigned long long)x->o->min_bytes, (unsigned long long)x->o->max_bytes);
}

static tutti_status prepare(struct xml *x, const struct tt_sched *s, struct tutti_error *err)
{
    const char *target = x->o->target ? x->o->target : "msccl";
    for (size_t i = 0; i < countof(targets); i++)
        if (tt_streq(targets[i].name, target))
            x->limits = &targets[i];
    if (!x->limits)
        return tt_fail(err, TUTTI_ERR_ARG, "target=%.40s: msccl, azure or rccl is expected",
                       target);
    if (x->o->instances > 1 && tt_sched_coll_has_owners(s->shape.coll))
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "msccl-xml: instances cut the vector, and %s gives each rank a block of it",
                       tt_sched_coll_name(s->shape.coll));
    tutti_status st = tt_export_layout_open(&s->shape, "msccl-xml", &x->layout, err);
    return st ? st : tt_export_program_open(s, &x->program, err);
}

static tutti_status write_xml(const struct tt_sched *s, const struct tt_export_options *o,
                              uint32_t rank, FILE *out, struct tutti_error *err)
{
    const uint32_t instances = o->instances ? o->instances : 1;
    struct xml x = {.o = o,
                    .blocks = {.elem = sizeof(struct block)},
                    .waits = {.elem = sizeof(struct last)},
                    .channels = 1};
    assert(rank == 0);
    tutti_status st = prepare(&x, s, err);
    if (!st)
        st = pass(&x, instances, NULL, err);
    if (!st) {
        print_head(&x, instances, out);
        st = pass(&x, instances, out, err);
    }
    if (!st)
        fprintf(out, "</algo>\n");
    drop_blocks(&x);
    tt_vec_free(&x.blocks);
    tt_vec_free(&x.waits);
    free(x.last);
    tt_export_program_close(&x.program);
    tt_export_layout_close(&x.layout);
    return st;
}

const struct tt_export_format tt_export_msccl_xml = {
    .name = "msccl-xml",
    .desc = "MSCCL's XML, for GPUs by microsoft/msccl, Azure's executor and RCCL, and for "
            "ASTRA-sim's converter",
    .options = "instances protocol target min_bytes max_bytes",
    .write = write_xml,
};
