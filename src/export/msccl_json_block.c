/* msccl_json_block.c - the operations of a rank, in thread blocks of at most OPS_MAX (msccl_json.c
 * says why operations come in this order, and when threads must meet).
 *
 * Invariant: `stale` is set exactly while something was done that other threads of the block may
 * not have seen yet; no signal or release is written then. */
#include "export/msccl_json.h"

/* A list of one entry that names the type of the channels and the numbers of all connections; empty
 * when there are none. */
static void all_connections(struct plan *p, const char *key, const char *type, const char *ids)
{
    struct tt_json_writer *w = p->w;
    tt_json_key(w, key);
    tt_json_array(w);
    if (p->open.len) {
        tt_json_object_compact(w);
        tt_json_member_string(w, type, p->type);
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
    tt_json_member_u64(w, "id", p->block);
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
    tt_json_member_string(p->w, "name", name);
    tt_export_msccl_list_of_one(p->w, "semaphore_ids", id);
    tt_json_object_end(p->w);
    p->ops++;
}

static void nop(struct plan *p)
{
    tt_json_object_compact(p->w);
    tt_json_member_string(p->w, "name", "nop");
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
    tt_json_member_string(p->w, "name", name);
    p->ops++;
}

static void end_op(struct plan *p)
{
    tt_json_object_end(p->w);
}

static void channel_op(struct plan *p, const char *name, uint64_t connection)
{
    begin_op(p, name);
    tt_json_member_string(p->w, "channel_type", p->type);
    tt_export_msccl_list_of_one(p->w, "channel_ids", connection);
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
    tt_json_member_string(p->w, "type", type);
    tt_json_member_u64(p->w, "index", at.at);
    tt_json_member_u64(p->w, "size", at.n);
    tt_json_object_end(p->w);
}

static void put_act(struct plan *p, const struct tt_act *a, uint64_t connection, uint64_t slot)
{
    const struct tt_export_place from =
        tt_export_place(&p->layout, p->program.rank, a->buf, a->chunk, a->len);
    begin_op(p, "put");
    tt_json_member_string(p->w, "channel_type", p->type);
    tt_export_msccl_list_of_one(p->w, "channel_ids", connection);
    tt_json_key(p->w, "src_buff");
    tt_json_array_compact(p->w);
    local_buffer(p, from);
    tt_json_array_end(p->w);
    tt_json_key(p->w, "dst_buff");
    tt_json_array_compact(p->w);
    tt_json_object_compact(p->w);
    tt_json_member_u64(p->w, "buffer_id", connection);
    tt_json_member_u64(p->w, "index", slot);
    tt_json_member_u64(p->w, "size", from.n);
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
        tt_json_member_string(p->w, "reduce_op", "sum");
    end_op(p);
    p->stale = true;
}

/* The puts must read what earlier acts wrote: meet first. One signal for all of them, when all
 * threads are done. */
static void write_send(struct plan *p, const struct tt_op *op, const struct tt_act *acts,
                       uint32_t n, uint64_t number)
{
    const uint64_t connection = tt_export_msccl_connection_of(p, op);
    uint64_t slot = p->slot[p->program.partner[number]];
    meet(p);
    for (uint32_t k = 0; k < n; k++) {
        put_act(p, &acts[k], connection, slot);
        slot += tt_export_msccl_units_of(p, &acts[k], 1);
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
    channel_op(p, "wait", tt_export_msccl_connection_of(p, op));
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

void tt_export_msccl_write_ops(struct plan *p)
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
