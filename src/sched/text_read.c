/* text_read.c - reads a schedule file (text_write.c describes the form): the header, then operation
 * by operation into a builder.
 *
 * Nothing is allocated for what the file merely claims: numbers in the header become memory only
 * where the file goes on to list that many things. What was read is frozen, compared with the hash
 * that the file declares, and checked; so callers may rely on a well-formed schedule. */
#include <inttypes.h>

#include "sched/sched_int.h"
#include "sched/text.h"

struct reader {
    struct tt_json_reader *json;
    struct tutti_error *err;
    struct tt_text_header header;
    struct tt_builder builder;
    struct tt_vec spans; /* of the operation being read */
    bool unchecked;
};

/* The next integer of an operation; the array must not end here. */
static tutti_status read_field(struct reader *r, uint32_t max, uint32_t *ret)
{
    int64_t v = 0;
    bool end = false;
    tutti_status st = tt_json_int_or_end(r->json, 0, max, &v, &end, r->err);
    if (!st && end)
        return tt_json_fail(r->json, r->err, TUTTI_ERR_PARSE,
                            "an operation is [kind, step, peer, channel, then for each span buf, "
                            "src, first, len, stride, reps]");
    *ret = (uint32_t)v;
    return st;
}

/* The rest of a span whose `buf` has been read. */
static tutti_status read_span(struct reader *r, uint32_t buf)
{
    uint32_t f[5] = {0};
    for (size_t i = 0; i < countof(f); i++) {
        tutti_status st = read_field(r, UINT32_MAX, &f[i]);
        if (st)
            return st;
    }
    struct tt_span s = {
        .buf = buf, .src = f[0], .first = f[1], .len = f[2], .stride = f[3], .reps = f[4]};
    if (s.len == 0 || s.reps == 0)
        return tt_json_fail(r->json, r->err, TUTTI_ERR_RANGE, "a span of no chunks");
    return tt_vec_push(&r->spans, &s, 1) ? TUTTI_OK : tt_fail_memory(r->err, "spans");
}

/* Spans up to the end of the operation's array; at least one. */
static tutti_status read_spans(struct reader *r)
{
    r->spans.len = 0;
    for (;;) {
        int64_t buf;
        bool end;
        tutti_status st = tt_json_int_or_end(r->json, 0, UINT32_MAX, &buf, &end, r->err);
        if (st)
            return st;
        if (end && r->spans.len == 0)
            return tt_json_fail(r->json, r->err, TUTTI_ERR_PARSE, "an operation without spans");
        if (end)
            return TUTTI_OK;
        st = read_span(r, (uint32_t)buf);
        if (st)
            return st;
    }
}

/* Only ranges of fields are checked here; tt_sched_check decides about the rest. */
static tutti_status read_op(struct reader *r)
{
    uint32_t kind = 0, step = 0, peer = 0, channel = 0;
    tutti_status st = read_field(r, TT_OP_KINDS - 1, &kind);
    if (!st)
        st = read_field(r, TT_MAX_STEPS - 1, &step);
    if (!st)
        st = read_field(r, UINT32_MAX, &peer);
    if (!st)
        st = read_field(r, UINT16_MAX, &channel);
    if (!st)
        st = read_spans(r);
    if (st)
        return st;
    struct tt_op op = {
        .kind = (uint8_t)kind, .step = step, .peer = peer, .channel = (uint16_t)channel};
    tt_sched_emit(&r->builder, op, r->spans.data, r->spans.len);
    if (r->builder.status)
        return tt_json_fail(r->json, r->err, r->builder.status, "%s", r->builder.err.text);
    return TUTTI_OK;
}

/* The next element of an array of arrays; *ret_end: there is none. */
static tutti_status next_array(struct reader *r, const char *what, bool *ret_end)
{
    struct tt_json_token t;
    tutti_status st = tt_json_next(r->json, &t, r->err);
    if (st)
        return st;
    *ret_end = t.kind == TT_JSON_ARRAY_END;
    if (t.kind != TT_JSON_ARRAY && !*ret_end)
        return tt_json_fail(r->json, r->err, TUTTI_ERR_PARSE, "%s must be an array", what);
    return TUTTI_OK;
}

/* Slices are in rank order, from first_rank on. */
static tutti_status read_slice(struct reader *r)
{
    uint64_t rank = (uint64_t)r->header.first_rank + r->builder.nslices;
    if (rank >= r->builder.shape.ranks)
        return tt_json_fail(r->json, r->err, TUTTI_ERR_RANGE,
                            "a slice for rank %" PRIu64 " of %" PRIu32, rank,
                            r->builder.shape.ranks);
    tt_sched_build_rank(&r->builder, (uint32_t)rank);
    if (r->builder.status)
        return tt_json_fail(r->json, r->err, r->builder.status, "%s", r->builder.err.text);
    for (;;) {
        bool end;
        tutti_status st = next_array(r, "an operation", &end);
        if (st || end)
            return st;
        st = read_op(r);
        if (st)
            return st;
    }
}

static tutti_status read_slices(struct reader *r)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(r->json, TT_JSON_ARRAY, &t, r->err);
    while (!st) {
        bool end;
        st = next_array(r, "a slice", &end);
        if (st || end)
            break;
        st = read_slice(r);
    }
    if (!st && !r->header.partial && r->builder.nslices != r->builder.shape.ranks)
        return tt_json_fail(r->json, r->err, TUTTI_ERR_PARSE,
                            "%" PRIu32 " slices of %" PRIu32
                            " ranks: only a file with \"first_rank\" may hold some of them",
                            r->builder.nslices, r->builder.shape.ranks);
    return st;
}

/* Hands over the list; NULL for an empty one. */
static uint32_t *take_list(struct tt_vec *v)
{
    uint32_t *list = v->len ? v->data : NULL;
    if (list)
        *v = (struct tt_vec){.elem = v->elem};
    return list;
}

/* verbatim: a file's fields reach tt_sched_check as they are. */
static void begin_build(struct reader *r)
{
    struct tt_text_header *h = &r->header;
    h->shape.weights = take_list(&h->weights);
    h->shape.owner = take_list(&h->owner);
    tt_sched_build_begin(&r->builder, &h->shape, h->first_rank);
    r->builder.verbatim = true;
    for (size_t at = 0; at < h->routes.len;) {
        const uint32_t *route = tt_vec_at(&h->routes, at);
        tt_sched_build_route(&r->builder, route[0], route[1], (uint16_t)route[2], route + 4,
                             route[3]);
        at += 4 + (size_t)route[3];
    }
}

static tutti_status read_document(struct reader *r)
{
    struct tt_json_token t;
    tutti_status st = tt_sched_text_read_header(r->json, &r->header, r->err);
    if (st)
        return st;
    begin_build(r);
    st = read_slices(r);
    if (!st)
        st = tt_json_next(r->json, &t, r->err);
    if (!st && t.kind == TT_JSON_KEY)
        return tt_json_fail(r->json, r->err, TUTTI_ERR_PARSE, "key \"%.40s\" after the slices",
                            t.text);
    return st ? st : tt_json_expect(r->json, TT_JSON_END, &t, r->err);
}

/* Freezes what was read and accepts it if hash and check agree. */
static tutti_status text_read_finish(struct reader *r, struct tt_sched **ret)
{
    struct tt_sched *s = NULL;
    tutti_status st = tt_sched_build_freeze(&r->builder, &s, r->err);
    if (!st && r->header.has_hash && s->hash != r->header.hash)
        st = tt_fail(r->err, TUTTI_ERR_PARSE,
                     "damaged: the contents have hash %016" PRIx64 ", the file says %016" PRIx64,
                     s->hash, r->header.hash);
    if (!st && !r->unchecked)
        st = tt_sched_check(s, NULL, r->err);
    if (st) {
        tt_sched_free(s);
        return st;
    }
    *ret = s;
    return TUTTI_OK;
}

/* Closes r->json and frees all that reading needed. */
static tutti_status read_all(struct reader *r, const char *name, struct tt_sched **ret,
                             struct tutti_error *err)
{
    /* The prefix is added to a local error: err may be NULL. */
    struct tutti_error why = {.status = TUTTI_OK};
    r->err = &why;
    r->spans.elem = sizeof(struct tt_span);
    tutti_status st = read_document(r);
    if (!st) {
        st = text_read_finish(r, ret);
        if (st)
            tt_fail_prefix(&why, "%s", name);
    }
    if (st && err)
        *err = why;
    tt_sched_build_abandon(&r->builder);
    tt_sched_text_free_header(&r->header);
    tt_vec_free(&r->spans);
    tt_json_close(r->json);
    return st;
}

tutti_status tt_sched_read(FILE *in, const char *name, struct tt_sched **ret,
                           struct tutti_error *err)
{
    struct reader r = {.unchecked = false};
    tutti_status st = tt_json_open_file(in, name, &r.json, err);
    return st ? st : read_all(&r, name, ret, err);
}

tutti_status tt_sched_read_unchecked(FILE *in, const char *name, struct tt_sched **ret,
                                     struct tutti_error *err)
{
    struct reader r = {.unchecked = true};
    tutti_status st = tt_json_open_file(in, name, &r.json, err);
    return st ? st : read_all(&r, name, ret, err);
}

tutti_status tt_sched_read_memory(const char *data, size_t len, const char *name,
                                  struct tt_sched **ret, struct tutti_error *err)
{
    struct reader r = {.unchecked = false};
    tutti_status st = tt_json_open_memory(data, len, name, &r.json, err);
    return st ? st : read_all(&r, name, ret, err);
}
