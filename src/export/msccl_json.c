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

#include "export/msccl_json.h"

uint64_t tt_export_msccl_units_of(const struct plan *p, const struct tt_act *acts, uint32_t n)
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
            at += tt_export_msccl_units_of(p, acts, n);
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

uint64_t tt_export_msccl_connection_of(const struct plan *p, const struct tt_op *op)
{
    for (size_t k = 0; k < p->open.len; k++) {
        const struct connection *c = tt_vec_at(&p->open, k);
        if (c->peer == op->peer && c->channel == op->channel)
            return k;
    }
    assert(false); /* every message has a connection */
    return 0;
}

void tt_export_msccl_list_of_one(struct tt_json_writer *w, const char *key, uint64_t value)
{
    tt_json_key(w, key);
    tt_json_array_compact(w);
    tt_json_u64(w, value);
    tt_json_array_end(w);
}

/* ---- ranks ---- */
/* remote_buffers k is the scratch buffer of connection k's peer: puts name it by that number. */
static void write_connections(struct plan *p)
{
    struct tt_json_writer *w = p->w;
    tt_json_key(w, "channels");
    tt_json_array(w);
    tt_json_object_compact(w);
    tt_json_member_string(w, "channel_type", p->type);
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
        tt_json_member_u64(w, "rank", ((const struct connection *)tt_vec_at(&p->open, k))->peer);
        tt_json_member_string(w, "type", "s");
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
    tt_json_member_u64(w, "id", p->program.rank);
    tt_json_member_u64(w, "input_chunks", tt_export_input_units(&p->layout));
    tt_json_member_u64(w, "output_chunks", tt_export_output_units(&p->layout));
    tt_json_member_u64(w, "scratch_chunks", p->scratch[p->program.rank]);
    write_connections(p);
    tt_json_key(w, "threadblocks");
    tt_json_array(w);
    tt_export_msccl_write_ops(p);
    tt_json_array_end(w);
    tt_json_key(w, "semaphores");
    tt_json_array(w);
    for (uint32_t k = 0; k < p->block; k++) {
        tt_json_object_compact(w);
        tt_json_member_u64(w, "init_value", 0);
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
    tt_json_member_string(w, "name", name);
    tt_json_member_string(w, "collective", names[s->coll]);
    tt_json_member_string(w, "protocol", p->o->protocol ? p->o->protocol : "Simple");
    tt_json_member_bool(w, "inplace", s->inplace && s->coll == TUTTI_ALLREDUCE);
    tt_json_member_u64(w, "min_message_size", p->o->min_bytes);
    if (p->o->max_bytes)
        tt_json_member_u64(w, "max_message_size", p->o->max_bytes);
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
