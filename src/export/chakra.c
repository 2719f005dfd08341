/* chakra.c - Chakra execution traces, one file per rank, as ASTRA-sim reads them (also as a custom
 * collective).
 *
 * A file is a row of protobuf messages, each after its length as a varint: GlobalMetadata, then one
 * Node per operation. The few fields that are used are written by hand:
 *
 *     GlobalMetadata  1 version
 *     Node            1 id, 2 name, 3 type, 5 data_deps (packed), 10 attr ...
 *     AttributeProto  1 name, then one value: 7 int32, 9 int64, 13 uint64, 27 bool
 *
 * Field numbers are those of Chakra's schema (et_def.proto). */
#include <string.h>

#include "export/export.h"
#include "export/trace.h"

/* Chakra's NodeType. */
enum { COMPUTE_NODE = 4, SEND_NODE = 5, RECEIVE_NODE = 6 };

/* A growing protobuf message; failed: out of memory, and its contents are not complete. */
struct bytes {
    struct tt_vec v; /* char */
    bool failed;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    b->failed |= n && !tt_vec_push(&b->v, data, n);
}

/* Seven bits per byte, least significant first; the top bit says that more follow. */
static void put_varint(struct bytes *b, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(b, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_number(struct bytes *b, uint32_t field, uint64_t value)
{
    put_varint(b, (uint64_t)field << 3); /* wire type 0: varint */
    put_varint(b, value);
}

static void put_bytes(struct bytes *b, uint32_t field, const void *data, size_t n)
{
    put_varint(b, (uint64_t)field << 3 | 2); /* wire type 2: length, then bytes */
    put_varint(b, n);
    put(b, data, n);
}

/* `part` is a buffer for the nested message, reused between calls. */
static void put_attribute(struct bytes *b, struct bytes *part, const char *name, uint32_t field,
                          uint64_t value)
{
    part->v.len = 0;
    put_bytes(part, 1, name, strlen(name));
    put_number(part, field, value);
    put_bytes(b, 10, part->v.data, part->v.len);
    b->failed |= part->failed;
}

/* data_deps: the numbers of the nodes that this one waits for. */
static void put_waits(struct bytes *b, struct bytes *part, const struct tt_trace *t,
                      const struct tt_node *n)
{
    part->v.len = 0;
    for (uint64_t w = 0; w < n->nwaits; w++)
        put_varint(part, *(const uint64_t *)tt_vec_at(&t->waits, n->wait + w));
    if (n->nwaits)
        put_bytes(b, 5, part->v.data, part->v.len);
    b->failed |= part->failed;
}

/* One Node message: identity, waits, attributes by its kind. */
static void put_node(struct bytes *b, struct bytes *part, const struct tt_trace *t, uint64_t i)
{
    enum { INT32 = 7, INT64 = 9, UINT64 = 13, BOOL = 27 };
    static const uint32_t types[] = {SEND_NODE, RECEIVE_NODE, COMPUTE_NODE};
    static const char *const names[] = {"SEND", "RECV", "COMP"};
    const struct tt_node *n = tt_vec_at(&t->nodes, i);
    char name[64];
    b->v.len = 0;
    snprintf(name, sizeof name, "%s_op%u_segment%u", names[n->kind], n->op, n->segment);
    put_number(b, 1, i);
    put_bytes(b, 2, name, strlen(name));
    put_number(b, 3, types[n->kind]);
    put_waits(b, part, t, n);
    put_attribute(b, part, "is_cpu_op", BOOL, 0);
    if (n->kind == TT_NODE_COMPUTE) {
        put_attribute(b, part, "num_ops", INT64, n->bytes / t->bind.elem_bytes);
        put_attribute(b, part, "tensor_size", UINT64, n->bytes);
        return;
    }
    put_attribute(b, part, "comm_size", INT64, n->bytes);
    put_attribute(b, part, "comm_tag", INT32, n->tag);
    put_attribute(b, part, "comm_src", INT32, n->kind == TT_NODE_SEND ? t->program.rank : n->peer);
    put_attribute(b, part, "comm_dst", INT32, n->kind == TT_NODE_SEND ? n->peer : t->program.rank);
}

/* Writes the message that b holds, after its length as a varint. */
static void print_message(const struct bytes *b, FILE *out)
{
    uint64_t n = b->v.len;
    do {
        putc((int)((n & 0x7f) | (n > 0x7f ? 0x80 : 0)), out);
        n >>= 7;
    } while (n);
    fwrite(b->v.data, 1, b->v.len, out);
}

static tutti_status write_chakra(const struct tt_sched *s, const struct tt_export_options *o,
                                 uint32_t rank, FILE *out, struct tutti_error *err)
{
    struct tt_trace t;
    struct bytes b = {.v = {.elem = 1}}, part = {.v = {.elem = 1}};
    (void)o;
    tutti_status st = tt_export_trace_open(s, &t, err);
    if (st)
        return st;
    st = tt_export_trace_rank(&t, rank, err);
    if (!st) {
        put_bytes(&b, 1, "0.0.4", 5);
        print_message(&b, out);
    }
    for (uint64_t i = 0; !st && i < t.nodes.len; i++) {
        put_node(&b, &part, &t, i);
        if (b.failed)
            st = tt_fail_memory(err, "a node");
        else
            print_message(&b, out);
    }
    tt_vec_free(&b.v);
    tt_vec_free(&part.v);
    tt_export_trace_close(&t);
    return st;
}

const struct tt_export_format tt_export_chakra = {
    .name = "chakra",
    .desc = "Chakra execution traces, one file per rank, for ASTRA-sim",
    .options = "",
    .per_rank = true,
    .write = write_chakra,
};
