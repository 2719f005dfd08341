/* text_header.c - reads what precedes the operations in a schedule file: a table of keys, each with
 * its reader.
 *
 * Keys may come in any order; unknown, repeated and missing ones are refused where they are
 * noticed. Numbers are kept within what the schedule's fields hold; whether they make sense
 * together is checked once everything is read. Lists grow with the file, and are compared with the
 * number of chunks only when they are complete: a claimed number allocates nothing. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "sched/text.h"

struct loader {
    struct tt_json_reader *json;
    struct tt_text_header *header;
    struct tutti_error *err;
    uint32_t seen; /* bit i: keys[i] was there */
};

struct key { /* a reader gets the address of its field in the header */
    const char *name;
    tutti_status (*read)(struct loader *l, const struct key *k, void *field);
    size_t field; /* offset in struct tt_text_header */
    uint64_t max; /* numbers: largest value; texts: bytes with terminator */
    bool optional;
};

/* An integer from 0 to k->max. */
static tutti_status read_number(struct loader *l, const struct key *k, int64_t *ret)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(l->json, TT_JSON_INT, &t, l->err);
    if (st)
        return st;
    if (t.i < 0 || (uint64_t)t.i > k->max)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_RANGE, "\"%s\" must be from 0 to %" PRIu64,
                            k->name, k->max);
    *ret = t.i;
    return TUTTI_OK;
}

static tutti_status read_u32(struct loader *l, const struct key *k, void *field)
{
    int64_t v = 0;
    tutti_status st = read_number(l, k, &v);
    if (!st)
        *(uint32_t *)field = (uint32_t)v;
    return st;
}

static tutti_status read_u64(struct loader *l, const struct key *k, void *field)
{
    int64_t v = 0;
    tutti_status st = read_number(l, k, &v);
    if (!st)
        *(uint64_t *)field = (uint64_t)v;
    return st;
}

static tutti_status read_flag(struct loader *l, const struct key *k, void *field)
{
    struct tt_json_token t;
    tutti_status st = tt_json_next(l->json, &t, l->err);
    if (st)
        return st;
    if (t.kind != TT_JSON_TRUE && t.kind != TT_JSON_FALSE)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE, "\"%s\" must be true or false",
                            k->name);
    *(bool *)field = t.kind == TT_JSON_TRUE;
    return TUTTI_OK;
}

static tutti_status read_text(struct loader *l, const struct key *k, void *field)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(l->json, TT_JSON_STRING, &t, l->err);
    if (st)
        return st;
    if (t.len >= k->max)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_RANGE,
                            "\"%s\" is longer than %" PRIu64 " bytes", k->name, k->max - 1);
    memcpy(field, t.text, t.len + 1);
    return TUTTI_OK;
}

/* Lower case only: every number has one form. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 16 digits, as write_hash in text_write.c writes them. */
static tutti_status read_hash(struct loader *l, const struct key *k, void *field)
{
    struct tt_json_token t;
    uint64_t v = 0;
    tutti_status st = tt_json_expect(l->json, TT_JSON_STRING, &t, l->err);
    if (st)
        return st;
    bool good = t.len == 16;
    for (size_t i = 0; good && i < t.len; i++) {
        good = hex_digit(t.text[i]) >= 0;
        v = v << 4 | (uint64_t)(hex_digit(t.text[i]) & 15);
    }
    if (!good)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE,
                            "\"%s\" must be 16 hexadecimal digits (0-9, a-f)", k->name);
    *(uint64_t *)field = v;
    return TUTTI_OK;
}

/* A word of one of the lists of names; *ret is its index. */
static tutti_status read_word(struct loader *l, const struct key *k, int (*find)(const char *),
                              int *ret)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(l->json, TT_JSON_STRING, &t, l->err);
    if (st)
        return st;
    *ret = find(t.text);
    if (*ret < 0)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE, "no \"%s\" is called '%.40s'",
                            k->name, t.text);
    return TUTTI_OK;
}

static tutti_status read_coll(struct loader *l, const struct key *k, void *field)
{
    int i = 0;
    tutti_status st = read_word(l, k, tt_sched_coll_find, &i);
    *(tutti_coll *)field = (tutti_coll)i;
    return st;
}

static tutti_status read_dtype(struct loader *l, const struct key *k, void *field)
{
    int i = 0;
    tutti_status st = read_word(l, k, tt_sched_dtype_find, &i);
    *(tutti_dtype *)field = (tutti_dtype)i;
    return st;
}

static tutti_status read_redop(struct loader *l, const struct key *k, void *field)
{
    int i = 0;
    tutti_status st = read_word(l, k, tt_sched_redop_read, &i);
    *(tutti_redop *)field = (tutti_redop)i;
    return st;
}

/* The format and version come first in files that this program writes, but need not. */
static tutti_status read_format(struct loader *l, const struct key *k, void *field)
{
    struct tt_json_token t;
    (void)field;
    tutti_status st = tt_json_expect(l->json, TT_JSON_STRING, &t, l->err);
    if (!st && !tt_streq(t.text, TT_TEXT_FORMAT))
        return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE,
                            "\"%s\" is '%.40s', not '" TT_TEXT_FORMAT "'", k->name, t.text);
    return st;
}

static tutti_status read_version(struct loader *l, const struct key *k, void *field)
{
    tutti_status st = read_u32(l, k, field);
    if (!st && l->header->version != TT_TEXT_VERSION)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_VERSION,
                            "version %" PRIu32
                            " of the schedule format; this program reads version %d",
                            l->header->version, TT_TEXT_VERSION);
    return st;
}

/* Integers up to the end of an array whose opening bracket has been read. */
static tutti_status read_integers(struct loader *l, uint64_t max, struct tt_vec *list)
{
    for (;;) {
        int64_t v;
        bool end;
        tutti_status st = tt_json_int_or_end(l->json, 0, (int64_t)max, &v, &end, l->err);
        if (st || end)
            return st;
        uint32_t item = (uint32_t)v;
        if (!tt_vec_push(list, &item, 1))
            return tt_fail_memory(l->err, "schedule header");
    }
}

static tutti_status read_list(struct loader *l, const struct key *k, void *field)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(l->json, TT_JSON_ARRAY, &t, l->err);
    return st ? st : read_integers(l, k->max, field);
}

/* Appends src, dst, channel, number of links, links. The number is known only at the end of the
 * array, so the links are moved by one to make room for it. */
static tutti_status read_route(struct loader *l, const struct key *k, struct tt_vec *routes)
{
    enum { FIXED = 3 }; /* src, dst, channel */
    size_t at = routes->len;
    tutti_status st = read_integers(l, k->max, routes);
    if (st)
        return st;
    size_t n = routes->len - at;
    if (n < FIXED)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE,
                            "a route is [source, destination, channel, link...]");
    if (!tt_vec_push(routes, NULL, 1))
        return tt_fail_memory(l->err, "routes");
    uint32_t *route = tt_vec_at(routes, at);
    if (route[2] > UINT16_MAX)
        return tt_json_fail(l->json, l->err, TUTTI_ERR_RANGE,
                            "channel %" PRIu32 " of a route is above %d", route[2], UINT16_MAX);
    memmove(route + FIXED + 1, route + FIXED, (n - FIXED) * sizeof *route);
    route[FIXED] = (uint32_t)(n - FIXED);
    return TUTTI_OK;
}

static tutti_status read_routes(struct loader *l, const struct key *k, void *field)
{
    struct tt_json_token t;
    tutti_status st = tt_json_expect(l->json, TT_JSON_ARRAY, &t, l->err);
    while (!st) {
        st = tt_json_next(l->json, &t, l->err);
        if (st || t.kind == TT_JSON_ARRAY_END)
            break;
        if (t.kind != TT_JSON_ARRAY)
            return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE, "a route is an array");
        st = read_route(l, k, field);
    }
    return st;
}

/* Every key that may precede the slices, with the limits of its field. */
#define FIELD(member) offsetof(struct tt_text_header, member)
static const struct key keys[] = {
    {.name = "format", .read = read_format},
    {.name = "version", .read = read_version, .field = FIELD(version), .max = UINT32_MAX},
    {.name = "coll", .read = read_coll, .field = FIELD(shape.coll)},
    {.name = "ranks", .read = read_u32, .field = FIELD(shape.ranks), .max = TT_MAX_RANKS},
    {.name = "root", .read = read_u32, .field = FIELD(shape.root), .max = UINT32_MAX},
    {.name = "algo", .read = read_text, .field = FIELD(shape.algo), .max = TT_ALGO_NAME},
    {.name = "options", .read = read_text, .field = FIELD(shape.options), .max = TT_ALGO_OPTIONS},
    {.name = "count", .read = read_u64, .field = FIELD(shape.count), .max = INT64_MAX},
    {.name = "dtype", .read = read_dtype, .field = FIELD(shape.dtype)},
    {.name = "op", .read = read_redop, .field = FIELD(shape.redop)},
    {.name = "topo_hash", .read = read_hash, .field = FIELD(shape.topo_hash)},
    {.name = "network",
     .read = read_text,
     .field = FIELD(shape.network),
     .max = TT_NETWORK_SPEC,
     .optional = true},
    {.name = "chunks", .read = read_u32, .field = FIELD(shape.chunks), .max = UINT32_MAX},
    {.name = "buffers", .read = read_u32, .field = FIELD(shape.nbufs), .max = TT_MAX_BUFS},
    {.name = "segments", .read = read_u32, .field = FIELD(shape.segments), .max = TT_MAX_SEGMENTS},
    {.name = "inplace", .read = read_flag, .field = FIELD(shape.inplace)},
    {.name = "symmetric", .read = read_flag, .field = FIELD(shape.symmetric)},
    {.name = "weights",
     .read = read_list,
     .field = FIELD(weights),
     .max = UINT32_MAX,
     .optional = true},
    {.name = "owner",
     .read = read_list,
     .field = FIELD(owner),
     .max = UINT32_MAX,
     .optional = true},
    {.name = "routes",
     .read = read_routes,
     .field = FIELD(routes),
     .max = UINT32_MAX,
     .optional = true},
    {.name = "first_rank",
     .read = read_u32,
     .field = FIELD(first_rank),
     .max = UINT32_MAX,
     .optional = true},
    {.name = "hash", .read = read_hash, .field = FIELD(hash), .optional = true},
};
static_assert(countof(keys) <= 32, "`seen` has a bit for each key");

static bool seen(const struct loader *l, const char *name)
{
    for (size_t i = 0; i < countof(keys); i++)
        if (tt_streq(keys[i].name, name))
            return l->seen >> i & 1;
    return false;
}

static tutti_status read_member(struct loader *l, const char *name)
{
    for (size_t i = 0; i < countof(keys); i++) {
        if (!tt_streq(keys[i].name, name))
            continue;
        if (l->seen >> i & 1)
            return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE,
                                "\"%s\" stands here a second time", keys[i].name);
        l->seen |= UINT32_C(1) << i;
        return keys[i].read(l, &keys[i], (char *)l->header + keys[i].field);
    }
    return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE, "unknown key \"%.40s\"", name);
}

static tutti_status check_length(struct loader *l, const char *name, const struct tt_vec *list)
{
    uint32_t chunks = l->header->shape.chunks;
    if (!seen(l, name) || list->len == chunks)
        return TUTTI_OK;
    return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE,
                        "\"%s\" has %zu numbers, not one for each of %" PRIu32 " chunks", name,
                        list->len, chunks);
}

/* Called at the key "slices": no header key may follow. */
static tutti_status check_complete(struct loader *l)
{
    struct tt_text_header *h = l->header;
    for (size_t i = 0; i < countof(keys); i++)
        if (!keys[i].optional && !(l->seen >> i & 1))
            return tt_json_fail(l->json, l->err, TUTTI_ERR_PARSE,
                                "key \"%s\" is missing before the slices", keys[i].name);
    tutti_status st = check_length(l, "weights", &h->weights);
    if (!st)
        st = check_length(l, "owner", &h->owner);
    h->partial = seen(l, "first_rank");
    h->has_hash = seen(l, "hash");
    return st;
}

/* Leaves the reader at the value of "slices". */
tutti_status tt_sched_text_read_header(struct tt_json_reader *json, struct tt_text_header *ret,
                                       struct tutti_error *err)
{
    struct loader l = {.json = json, .header = ret, .err = err};
    struct tt_json_token t;
    *ret = (struct tt_text_header){.weights = {.elem = sizeof(uint32_t)},
                                   .owner = {.elem = sizeof(uint32_t)},
                                   .routes = {.elem = sizeof(uint32_t)}};
    tutti_status st = tt_json_expect(json, TT_JSON_OBJECT, &t, err);
    while (!st) {
        st = tt_json_next(json, &t, err);
        if (st)
            break;
        if (t.kind != TT_JSON_KEY)
            return tt_json_fail(json, err, TUTTI_ERR_PARSE, "the document ends without \"slices\"");
        if (tt_streq(t.text, "slices"))
            return check_complete(&l);
        st = read_member(&l, t.text);
    }
    return st;
}

void tt_sched_text_free_header(struct tt_text_header *h)
{
    tt_vec_free(&h->weights);
    tt_vec_free(&h->owner);
    tt_vec_free(&h->routes);
}
