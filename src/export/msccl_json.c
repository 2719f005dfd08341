/* msccl_json.c - execution plans of MSCCL++.
 *
 * A message is a put into a place of its own in the receiver's scratch buffer, and a signal; the
 * receiver waits, then copies or adds from there. No place is used twice, so that no sender has to
 * wait until a place is free again. Every channel begins with a handshake, because a put must not
 * arrive before the receiver has entered the collective.
 *
 *     sender    put own chunk -> receiver's scratch, nop, signal, (port) flush
 *     receiver  wait, nop, reduce(own chunk, scratch) -> own chunk
 *
 * All threads of a block share a put, a copy or a reduction; signals, waits and semaphores are done
 * by a few of them, and the others run ahead. Only a nop lets the threads meet: one comes before a
 * signal or release that tells of something done, and after a wait or acquire. A put by a port only
 * asks for it: the flush waits until the source has been read and may be overwritten.
 *
 * A thread block takes 64 operations. Longer programs continue in the next block, which waits for a
 * semaphore of the one before: correct and in order, but without overlap inside a GPU. Written from
 * descriptions of the format. */
#include <assert.h>
#include <stdlib.h>

#include "base/json.h"
#include "export/export.h"
#include "export/layout.h"
#include "export/program.h"

enum { OPS_MAX = 64, SEMAPHORES_MAX = 16, CHANNELS_MAX = 16 };

/* A connection of the present rank: its number is its index in plan.open. */
struct connection {
    uint32_t peer, channel;
};

struct plan {
    const struct tt_export_options *o;
    const char *type; /* the type of all channels */
    struct tt_export_program program;
    struct tt_export_layout layout;
    /* by number of the operation; for receives: the first unit of the message's place in scratch */
    uint64_t *slot;
    uint64_t *scratch;  /* by rank: units of scratch in use */
    struct tt_vec open; /* struct connection, of the present rank */
    struct tt_json_writer *w;
    uint32_t block, ops; /* the present thread block, and the operations in it */
    bool stale;          /* something was put, written or waited for since the threads last met */
};

/* Units of all chunks of n acts. */
static uint64_t units_of(const struct plan *p, const struct tt_act *acts, uint32_t n)
{
    uint64_t units = 0;
    for (uint32_t k = 0; k < n; k++)
        units += tt_export_place(&p->layout, 0, TT_BUF_SCRATCH, acts[k].chunk, acts[k].len).n;
    return units;
}

/* Gives every receive of every rank its place in scratch, after the schedule's own scratch
 * buffers. Senders look it up through their partner. */
static tutti_status lay_out(struct plan *p, struct tutti_error *err)
{
    const struct tt_sched *s = p->program.sched;
    p->slot = tt_zalloc(s->nops + 1, sizeof *p->slot);
    p->scratch = tt_zalloc(s->shape.ranks, sizeof *p->scratch);
    tutti_status st = p->slot && p->scratch ? TUTTI_OK : tt_fail_memory(err, "places");
    for (uint32_t r = 0; !st && r < s->shape.ranks; r++) {
        st = tt_export_program_rank(&p->program, r, err);
        uint64_t at = tt_export_scratch_units(&p->layout);
        for (uint32_t i = 0; !st && i < p->program.slice.nops; i++) {
            const uint8_t kind = p->program.slice.ops[i].kind;
            uint32_t n;
            const struct tt_act *acts = tt_export_acts(&p->program, i, &n);
            if (kind != TT_OP_RECV && kind != TT_OP_RECV_REDUCE)
                continue;
            p->slot[tt_export_number(s, r, i)] = at;
            at += units_of(p, acts, n);
        }
        if (!st)
            p->scratch[r] = at;
    }
    return st;
}

static int compare_connections(const void *a, const void *b)
{
    const struct connection *x = a, *y = b;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

/* Lists the connections of the present rank. Sorted, so that the n-th connection to a peer is
 * the peer's n-th connection to this rank. */
static tutti_status find_connections(struct plan *p, struct tutti_error *err)
{
    p->open.len = 0;
    for (uint32_t i = 0; i < p->program.slice.nops; i++) {
        const struct tt_op *op = &p->program.slice.ops[i];
        bool known = op->kind == TT_OP_COPY || op->kind == TT_OP_REDUCE;
        for (size_t k = 0; !known && k < p->open.len; k++) {
            const struct connection *c = tt_vec_at(&p->open, k);
            known = c->peer == op->peer && c->channel == op->channel;
        }
        if (!known && !tt_vec_push(&p->open, &(struct connection){op->peer, op->channel}, 1))
            return tt_fail_memory(err, "connections");
    }
    if (p->open.len > 1)
        qsort(p->open.data, p->open.len, sizeof(struct connection), compare_connections);
    if (p->open.len <= CHANNELS_MAX)
        return TUTTI_OK;
    return tt_fail(
        err, TUTTI_ERR_REFUSED,
        "msccl-json: rank %u has %zu connections, a thread block takes at most %d channels",
        p->program.rank, p->open.len, CHANNELS_MAX);
}

static uint64_t connection_of(const struct plan *p, const struct tt_op *op)
{
    for (size_t k = 0; k < p->open.len; k++) {
        const struct connection *c = tt_vec_at(&p->open, k);
        if (c->peer == op->peer && c->channel == op->channel)
            return k;
    }
    assert(false); /* every message has a connection */
    return 0;
}

static void member_number(struct tt_json_writer *w, const char *key, uint64_t value)
{
    tt_json_key(w, key);
    tt_json_u64(w, value);
}

static void member_text(struct tt_json_writer *w, const char *key, const char *value)
{
    tt_json_key(w, key);
    tt_json_string(w, value);
}

static void list_of_one(struct tt_json_writer *w, const char *key, uint64_t value)
{
    tt_json_key(w, key);
    tt_json_array_compact(w);
    tt_json_u64(w, value);
    tt_json_array_end(w);
}

/* ---- thread blocks ---- */

/* A list of one entry that names the type of the channels and the numbers of all connections; empty
 * when there are none. */
static void all_connections(struct plan *p, const char *key, const char *type, const char *ids)
{
    struct tt_json_writer *w = p->w;
    tt_json_key(w, key);
    tt_json_array(w);
    if (p->open.len) {
        tt_json_object_compact(w);
        member_text(w, type, p->type);
        tt_json_key(w, ids);
        tt_json_array_compact(w);
        for (size_t k = 0; k < p->open.len; k++)
            tt_json_u64(w, k);
        tt_json_array_end(w);
        tt_json_object_end(w);
    }
    tt_json_array_end(w);
}

/* Begins a block. Every block of a rank may use all its channels and the scratch buffer of every
 * peer. */
static void open_block(struct plan *p)
{
    struct tt_json_writer *w = p->w;
    tt_json_object(w);
    member_number(w, "id", p->block);
    all_connections(p, "channels", "channel_type", "channel_ids");
    all_connections(p, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids");
    tt_json_key(w, "ops");
    tt_json_array(w);
    p->ops = 0;
    p->stale = false;
}

static void close_block(struct plan *p)
{
    tt_json_array_end(p->w);
    tt_json_object_end(p->w);
}

static void semaphore_op(struct plan *p, const char *name, uint64_t id)
{
    tt_json_object_compact(p->w);
    member_text(p->w, "name", name);
    list_of_one(p->w, "semaphore_ids", id);
    tt_json_object_end(p->w);
    p->ops++;
}

static void nop(struct plan *p)
{
    tt_json_object_compact(p->w);
    member_text(p->w, "name", "nop");
    tt_json_object_end(p->w);
    p->ops++;
    p->stale = false;
}

/* When the block has no room left for one operation and for the nop and the release that end a
 * block, the program continues in the next block. */
static void make_room(struct plan *p)
{
    if (p->ops + 3 <= OPS_MAX)
        return;
    if (p->stale)
        nop(p);
    semaphore_op(p, "sem_release", p->block);
    close_block(p);
    p->block++;
    open_block(p);
    semaphore_op(p, "sem_acquire", p->block - 1);
    nop(p);
}

static void begin_op(struct plan *p, const char *name)
{
    make_room(p);
    tt_json_object_compact(p->w);
    member_text(p->w, "name", name);
    p->ops++;
}

static void end_op(struct plan *p)
{
    tt_json_object_end(p->w);
}

static void channel_op(struct plan *p, const char *name, uint64_t connection)
{
    begin_op(p, name);
    member_text(p->w, "channel_type", p->type);
    list_of_one(p->w, "channel_ids", connection);
    end_op(p);
}

/* Lets the threads of a block meet, so that what any of them did before holds for all after. Not
 * when nothing was done since they last met. */
static void meet(struct plan *p)
{
    if (p->stale)
        make_room(p);
    if (p->stale)
        nop(p);
}

static void local_buffer(struct plan *p, struct tt_export_place at)
{
    const char type[2] = {at.buf, 0};
    tt_json_object_compact(p->w);
    member_text(p->w, "type", type);
    member_number(p->w, "index", at.at);
    member_number(p->w, "size", at.n);
    tt_json_object_end(p->w);
}

static void put_act(struct plan *p, const struct tt_act *a, uint64_t connection, uint64_t slot)
{
    const struct tt_export_place from =
        tt_export_place(&p->layout, p->program.rank, a->buf, a->chunk, a->len);
    begin_op(p, "put");
    member_text(p->w, "channel_type", p->type);
    list_of_one(p->w, "channel_ids", connection);
    tt_json_key(p->w, "src_buff");
    tt_json_array_compact(p->w);
    local_buffer(p, from);
    tt_json_array_end(p->w);
    tt_json_key(p->w, "dst_buff");
    tt_json_array_compact(p->w);
    tt_json_object_compact(p->w);
    member_number(p->w, "buffer_id", connection);
    member_number(p->w, "index", slot);
    member_number(p->w, "size", from.n);
    tt_json_object_end(p->w);
    tt_json_array_end(p->w);
    end_op(p);
    p->stale = true;
}

/* Writes to = from (copy), or to = with + from (re). */
static void local_act(struct plan *p, struct tt_export_place to, const struct tt_export_place *with,
                      struct tt_export_place from)
{
    begin_op(p, with ? "re" : "copy");
    tt_json_key(p->w, "src_buff");
    tt_json_array_compact(p->w);
    if (with)
        local_buffer(p, *with);
    local_buffer(p, from);
    tt_json_array_end(p->w);
    tt_json_key(p->w, "dst_buff");
    tt_json_array_compact(p->w);
    local_buffer(p, to);
    tt_json_array_end(p->w);
    if (with)
        member_text(p->w, "reduce_op", "sum");
    end_op(p);
    p->stale = true;
}

/* The puts must read what earlier acts wrote: meet first. One signal for all of them, when all
 * threads are done. */
static void write_send(struct plan *p, const struct tt_op *op, const struct tt_act *acts,
                       uint32_t n, uint64_t number)
{
    const uint64_t connection = connection_of(p, op);
    uint64_t slot = p->slot[p->program.partner[number]];
    meet(p);
    for (uint32_t k = 0; k < n; k++) {
        put_act(p, &acts[k], connection, slot);
        slot += units_of(p, &acts[k], 1);
    }
    meet(p);
    channel_op(p, "signal", connection);
    if (tt_streq(p->type, "port")) {
        channel_op(p, "flush", connection);
        p->stale = true;
    }
}

static void write_receive(struct plan *p, const struct tt_op *op, const struct tt_act *acts,
                          uint32_t n, uint64_t number)
{
    const uint32_t rank = p->program.rank;
    uint64_t slot = p->slot[number];
    channel_op(p, "wait", connection_of(p, op));
    p->stale = true;
    meet(p);
    for (uint32_t k = 0; k < n; k++) {
        const struct tt_export_place to =
            tt_export_place(&p->layout, rank, acts[k].buf, acts[k].chunk, acts[k].len);
        const struct tt_export_place own =
            tt_export_place(&p->layout, rank, acts[k].src, acts[k].chunk, acts[k].len);
        local_act(p, to, acts[k].kind == TT_ACT_RECV_ADD ? &own : NULL,
                  (struct tt_export_place){'s', slot, to.n});
        slot += to.n;
    }
}

static void write_local(struct plan *p, const struct tt_act *acts, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const struct tt_export_place to =
            tt_export_place(&p->layout, p->program.rank, acts[k].buf, acts[k].chunk, acts[k].len);
        meet(p);
        local_act(
            p, to, acts[k].kind == TT_ACT_ADD ? &to : NULL,
            tt_export_place(&p->layout, p->program.rank, acts[k].src, acts[k].chunk, acts[k].len));
    }
}

/* The handshake (relaxed signals and waits on all channels), then the operations in the
 * schedule's order. */
static void write_ops(struct plan *p)
{
    p->block = 0;
    open_block(p);
    for (size_t k = 0; k < p->open.len; k++)
        channel_op(p, "rlxsignal", k);
    for (size_t k = 0; k < p->open.len; k++)
        channel_op(p, "rlxwait", k);
    p->stale = p->open.len > 0;
    meet(p);
    for (uint32_t i = 0; i < p->program.slice.nops; i++) {
        const struct tt_op *op = &p->program.slice.ops[i];
        const uint64_t number = tt_export_number(p->program.sched, p->program.rank, i);
        uint32_t n;
        const struct tt_act *acts = tt_export_acts(&p->program, i, &n);
        switch (op->kind) {
        case TT_OP_SEND:
            write_send(p, op, acts, n, number);
            break;
        case TT_OP_RECV:
        case TT_OP_RECV_REDUCE:
            write_receive(p, op, acts, n, number);
            break;
        default:
            write_local(p, acts, n);
            break;
        }
    }
    close_block(p);
}

/* ---- ranks ---- */
/* remote_buffers k is the scratch buffer of connection k's peer: puts name it by that number. */
static void write_connections(struct plan *p)
{
    struct tt_json_writer *w = p->w;
    tt_json_key(w, "channels");
    tt_json_array(w);
    tt_json_object_compact(w);
    member_text(w, "channel_type", p->type);
    tt_json_key(w, "connected_to");
    tt_json_array_compact(w);
    for (size_t k = 0; k < p->open.len; k++)
        tt_json_u64(w, ((const struct connection *)tt_vec_at(&p->open, k))->peer);
    tt_json_array_end(w);
    tt_json_object_end(w);
    tt_json_array_end(w);
    tt_json_key(w, "remote_buffers");
    tt_json_array(w);
    for (size_t k = 0; k < p->open.len; k++) {
        tt_json_object_compact(w);
        member_number(w, "rank", ((const struct connection *)tt_vec_at(&p->open, k))->peer);
        member_text(w, "type", "s");
        tt_json_key(w, "access_channel_types");
        tt_json_array_compact(w);
        tt_json_string(w, p->type);
        tt_json_array_end(w);
        tt_json_object_end(w);
    }
    tt_json_array_end(w);
}

/* One element of "gpus". Whether the semaphores suffice is known only when the operations have been
 * written. */
static tutti_status write_rank(struct plan *p, struct tutti_error *err)
{
    struct tt_json_writer *w = p->w;
    tutti_status st = find_connections(p, err);
    if (st)
        return st;
    tt_json_object(w);
    member_number(w, "id", p->program.rank);
    member_number(w, "input_chunks", tt_export_input_units(&p->layout));
    member_number(w, "output_chunks", tt_export_output_units(&p->layout));
    member_number(w, "scratch_chunks", p->scratch[p->program.rank]);
    write_connections(p);
    tt_json_key(w, "threadblocks");
    tt_json_array(w);
    write_ops(p);
    tt_json_array_end(w);
    tt_json_key(w, "semaphores");
    tt_json_array(w);
    for (uint32_t k = 0; k < p->block; k++) {
        tt_json_object_compact(w);
        member_number(w, "init_value", 0);
        tt_json_object_end(w);
    }
    tt_json_array_end(w);
    tt_json_object_end(w);
    if (p->block <= SEMAPHORES_MAX)
        return TUTTI_OK;
    return tt_fail(
        err, TUTTI_ERR_REFUSED,
        "msccl-json: rank %u needs %u thread blocks of %d operations in a row, %d at most",
        p->program.rank, p->block + 1, OPS_MAX, SEMAPHORES_MAX + 1);
}

static void write_head(struct plan *p)
{
    static const char *const names[] = {[TUTTI_ALLREDUCE] = "allreduce",
                                        [TUTTI_REDUCE_SCATTER] = "reducescatter",
                                        [TUTTI_ALL_GATHER] = "allgather",
                                        [TUTTI_BROADCAST] = "broadcast"};
    struct tt_json_writer *w = p->w;
    const struct tt_shape *s = p->layout.shape;
    char name[64];
    snprintf(name, sizeof name, "tutti-%s", s->algo);
    member_text(w, "name", name);
    member_text(w, "collective", names[s->coll]);
    member_text(w, "protocol", p->o->protocol ? p->o->protocol : "Simple");
    tt_json_key(w, "inplace");
    tt_json_bool(w, s->inplace && s->coll == TUTTI_ALLREDUCE);
    member_number(w, "min_message_size", p->o->min_bytes);
    if (p->o->max_bytes)
        member_number(w, "max_message_size", p->o->max_bytes);
}

static tutti_status write_json(const struct tt_sched *s, const struct tt_export_options *o,
                               uint32_t rank, FILE *out, struct tutti_error *err)
{
    struct tt_json_writer w;
    struct plan p = {.o = o,
                     .type = o->channel ? o->channel : "memory",
                     .open = {.elem = sizeof(struct connection)},
                     .w = &w};
    assert(rank == 0);
    tutti_status st = tt_export_layout_open(&s->shape, "msccl-json", &p.layout, err);
    if (!st)
        st = tt_export_program_open(s, &p.program, err);
    if (!st)
        st = lay_out(&p, err);
    if (!st) {
        tt_json_begin(&w, out);
        tt_json_object(&w);
        write_head(&p);
        tt_json_key(&w, "gpus");
        tt_json_array(&w);
    }
    for (uint32_t r = 0; !st && r < s->shape.ranks; r++) {
        st = tt_export_program_rank(&p.program, r, err);
        if (!st)
            st = write_rank(&p, err);
    }
    if (!st) {
        tt_json_array_end(&w);
        tt_json_object_end(&w);
        tt_json_finish(&w);
    }
    tt_vec_free(&p.open);
    free(p.slot);
    free(p.scratch);
    tt_export_program_close(&p.program);
    tt_export_layout_close(&p.layout);
    return st;
}

const struct tt_export_format tt_export_msccl_json = {
    .name = "msccl-json",
    .desc = "an execution plan of MSCCL++",
    .options = "protocol channel min_bytes max_bytes",
    .write = write_json,
};
