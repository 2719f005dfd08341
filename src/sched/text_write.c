/* text_write.c - a schedule as JSON, one operation per line.
 *
 *   {
 *     "format": "tutti-schedule", "version": 1,
 *     "coll": "allreduce", "ranks": 2, "root": 0, "algo": "ring", "options": "",
 *     "count": 8, "dtype": "f32", "op": "sum", "topo_hash": "0000000000000000",
 *     "chunks": 2, "buffers": 2, "segments": 1, "inplace": true, "symmetric": true,
 *     "slices": [                             one list per rank
 *       [
 *         [0,0,1,0, 0,0,0,1,0,1],     kind, step, peer, channel; then of each span buf, src, first,
 *                                     len, stride, reps
 *         ...
 *
 * Kinds are numbered send 0, recv 1, recv-reduce 2, reduce 3, copy 4. Optional keys: "weights" and
 * "owner" (one number per chunk), "routes" ([src,dst,channel,link...]), "first_rank" (when not all
 * ranks are held), "hash" (the plan hash: read and compared, but not written, so that a schedule
 * edited by hand can still be read; verify judges it). Every key has its place and every number one
 * form, so that equal schedules are equal files. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "sched/sched_int.h"
#include "sched/text.h"

/* Hashes use all 64 bits, which many JSON readers cannot hold as numbers. */
static void write_hash(struct tt_json_writer *w, const char *key, uint64_t v)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, v);
    tt_json_member_string(w, key, hex);
}

static void write_list(struct tt_json_writer *w, const char *key, const uint32_t *list, size_t n)
{
    if (!list)
        return;
    tt_json_key(w, key);
    tt_json_array_compact(w);
    for (size_t i = 0; i < n; i++)
        tt_json_u64(w, list[i]);
    tt_json_array_end(w);
}

static void write_shape(struct tt_json_writer *w, const struct tt_shape *s)
{
    tt_json_member_string(w, "format", TT_TEXT_FORMAT);
    tt_json_member_u64(w, "version", TT_TEXT_VERSION);
    tt_json_member_string(w, "coll", tt_sched_coll_name(s->coll));
    tt_json_member_u64(w, "ranks", s->ranks);
    tt_json_member_u64(w, "root", s->root);
    tt_json_member_string(w, "algo", s->algo);
    tt_json_member_string(w, "options", s->options);
    tt_json_member_u64(w, "count", s->count);
    tt_json_member_string(w, "dtype", tt_sched_dtype_name(s->dtype));
    tt_json_member_string(w, "op", tt_sched_redop_name(s->redop));
    write_hash(w, "topo_hash", s->topo_hash);
    if (*s->network)
        tt_json_member_string(w, "network", s->network);
    tt_json_member_u64(w, "chunks", s->chunks);
    tt_json_member_u64(w, "buffers", s->nbufs);
    tt_json_member_u64(w, "segments", s->segments);
    tt_json_member_bool(w, "inplace", s->inplace);
    tt_json_member_bool(w, "symmetric", s->symmetric);
    write_list(w, "weights", s->weights, s->chunks);
    write_list(w, "owner", s->owner, s->chunks);
}

static void write_routes(struct tt_json_writer *w, const struct tt_sched *s)
{
    if (s->nroutes == 0)
        return;
    tt_json_key(w, "routes");
    tt_json_array(w);
    for (uint32_t i = 0; i < s->nroutes; i++) {
        const struct tt_sched_route *r = &s->routes[i];
        tt_json_array_compact(w);
        tt_json_u64(w, r->src);
        tt_json_u64(w, r->dst);
        tt_json_u64(w, r->channel);
        for (uint32_t k = 0; k < r->nlinks; k++)
            tt_json_u64(w, r->links[k]);
        tt_json_array_end(w);
    }
    tt_json_array_end(w);
}

static void write_op(struct tt_json_writer *w, const struct tt_op *op, const struct tt_span *spans)
{
    tt_json_array_compact(w);
    tt_json_u64(w, op->kind);
    tt_json_u64(w, op->step);
    tt_json_u64(w, op->peer);
    tt_json_u64(w, op->channel);
    for (uint32_t i = 0; i < op->nspans; i++) {
        const struct tt_span *s = &spans[op->span + i];
        tt_json_u64(w, s->buf);
        tt_json_u64(w, s->src);
        tt_json_u64(w, s->first);
        tt_json_u64(w, s->len);
        tt_json_u64(w, s->stride);
        tt_json_u64(w, s->reps);
    }
    tt_json_array_end(w);
}

static void write_slices(struct tt_json_writer *w, const struct tt_sched *s)
{
    tt_json_key(w, "slices");
    tt_json_array(w);
    for (uint32_t i = 0; i < s->nslices && !ferror(w->out); i++) {
        struct tt_slice slice = tt_sched_slice(s, s->first_rank + i);
        tt_json_array(w);
        for (size_t k = 0; k < slice.nops; k++)
            write_op(w, &slice.ops[k], slice.spans);
        tt_json_array_end(w);
    }
    tt_json_array_end(w);
}

tutti_status tt_sched_write(const struct tt_sched *s, FILE *out, struct tutti_error *err)
{
    struct tt_json_writer w;
    tt_json_begin(&w, out);
    tt_json_object(&w);
    write_shape(&w, &s->shape);
    write_routes(&w, s);
    if (s->first_rank != 0 || s->nslices != s->shape.ranks)
        tt_json_member_u64(&w, "first_rank", s->first_rank);
    write_slices(&w, s);
    tt_json_object_end(&w);
    tt_json_finish(&w);
    errno = 0;
    if (fflush(out) != 0 || ferror(out))
        return tt_fail(err, TUTTI_ERR_IO, "cannot write the schedule%s%s", errno ? ": " : "",
                       errno ? strerror(errno) : "");
    return TUTTI_OK;
}
