/* file_keys.c - the keys of a topology file: one function per key checks its value and stores it in
 * struct tt_file. Keys may come in any order; file_read.c derives what follows from several. */
#include "topo/topo_int.h"

#include "topo/file.h"

#include <stdlib.h>
#include <string.h>

/* The next value: an integer in [min, max]; the message shows the range. */
static tutti_status read_count(struct tt_file *rd, uint64_t min, uint64_t max, uint64_t *ret,
                               struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_INT, &tok, err);
    if (st)
        return st;
    if (tok.i < 0 || (uint64_t)tok.i < min || (uint64_t)tok.i > max)
        return tt_json_fail(rd->json, err, TUTTI_ERR_RANGE,
                            "%lld is not in the allowed range %llu to %llu", (long long)tok.i,
                            (unsigned long long)min, (unsigned long long)max);
    *ret = (uint64_t)tok.i;
    return TUTTI_OK;
}

tutti_status tt_topo_file_u32(struct tt_file *rd, uint32_t min, uint32_t max, uint32_t *ret,
                              struct tutti_error *err)
{
    uint64_t v = 0;
    tutti_status st = read_count(rd, min, max, &v, err);
    if (!st)
        *ret = (uint32_t)v;
    return st;
}

static tutti_status read_bool(struct tt_file *rd, bool *ret, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_next(rd->json, &tok, err);
    if (st)
        return st;
    if (tok.kind != TT_JSON_TRUE && tok.kind != TT_JSON_FALSE)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "true or false expected");
    *ret = tok.kind == TT_JSON_TRUE;
    return TUTTI_OK;
}

/* Replaces *slot by a copy; the old text stays if there is no memory. */
tutti_status tt_topo_file_set_text(char **slot, const char *text, struct tutti_error *err)
{
    char *copy = tt_strdup(text);
    if (!copy)
        return tt_fail_memory(err, "topology file");
    free(*slot);
    *slot = copy;
    return TUTTI_OK;
}

/* ---- the keys ---- */

/* Each function below reads the value of its key; the key itself has been read. */
static tutti_status read_format(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (!st && !tt_streq(tok.text, TT_TOPO_FORMAT))
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                          "the format is \"%.60s\"; \"%s\" expected", tok.text, TT_TOPO_FORMAT);
    return st;
}

static tutti_status read_version(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_INT, &tok, err);
    if (!st && tok.i != TT_TOPO_VERSION)
        st = tt_json_fail(rd->json, err, TUTTI_ERR_VERSION,
                          "version %lld; this program reads version %d", (long long)tok.i,
                          TT_TOPO_VERSION);
    return st;
}

/* Becomes the topology's spec, which reports show. */
static tutti_status read_name(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (st)
        return st;
    if (tok.len > TT_TOPO_MAX_NAME)
        return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT,
                            "a name of %zu bytes; at most %d are accepted", tok.len,
                            TT_TOPO_MAX_NAME);
    return tt_topo_file_set_text(&rd->t->spec, tok.text, err);
}

/* The name only: the links are compared with the kind when the topology is finished. */
static tutti_status read_kind(struct tt_file *rd, struct tutti_error *err)
{
    char near[200];
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (st)
        return st;
    if (tt_topo_kind_find(tok.text) < 0 && !tt_streq(tok.text, "custom"))
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                            "unknown network kind \"%.40s\" (\"custom\" is allowed) %s", tok.text,
                            tt_topo_kind_near(tok.text, near, sizeof near));
    return tt_topo_file_set_text(&rd->t->kind, tok.text, err);
}

/* At least one size; the product is compared with the ranks by routing. */
static tutti_status read_dims(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    bool end = false;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !end) {
        int64_t v = 0;
        st = tt_json_int_or_end(rd->json, 1, TT_TOPO_MAX_RANKS, &v, &end, err);
        if (st || end)
            break;
        if (rd->t->ndims == TT_TOPO_MAX_DIMS)
            return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT, "more than %d dimensions",
                                TT_TOPO_MAX_DIMS);
        rd->t->dims[rd->t->ndims++] = (uint32_t)v;
    }
    if (!st && rd->t->ndims == 0)
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "no dimensions");
    return st;
}

/* Whether the key was given matters: the default depends on other keys. */
static tutti_status read_wrap(struct tt_file *rd, struct tutti_error *err)
{
    rd->wrap_given = true;
    return read_bool(rd, &rd->t->wrap, err);
}

static tutti_status read_ranks(struct tt_file *rd, struct tutti_error *err)
{
    rd->ranks_given = true;
    return tt_topo_file_u32(rd, 1, TT_TOPO_MAX_RANKS, &rd->t->ranks, err);
}

/* The limit leaves room for the most ranks: together they stay within the vertices. */
static tutti_status read_switches(struct tt_file *rd, struct tutti_error *err)
{
    rd->switches_given = true;
    return tt_topo_file_u32(rd, 0, TT_TOPO_MAX_VERTICES - TT_TOPO_MAX_RANKS, &rd->t->switches, err);
}

static tutti_status read_ports(struct tt_file *rd, struct tutti_error *err)
{
    return tt_topo_file_u32(rd, 0, TT_TOPO_MAX_PORTS, &rd->t->ports, err);
}

static tutti_status read_gamma(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    struct tutti_error why;
    tutti_status st = tt_json_next(rd->json, &tok, err);
    if (st)
        return st;
    if (tok.kind != TT_JSON_INT && tok.kind != TT_JSON_REAL)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "a number expected (seconds per byte)");
    st = tt_topo_gamma_check(tok.d, &why);
    if (st)
        return tt_json_fail(rd->json, err, st, "%s", why.text);
    rd->t->gamma = tok.d > 0 ? tok.d : 0; /* no negative zero: it would have another hash */
    return TUTTI_OK;
}

static tutti_status read_overhead(struct tt_file *rd, struct tutti_error *err)
{
    return read_count(rd, 0, TT_TOPO_MAX_LATENCY_PS, &rd->t->overhead_ps, err);
}

/* [bytes, move_ps, own_ps, box_ps]; the opening bracket has been read. */
static tutti_status read_point(struct tt_file *rd, struct tt_memory *m, struct tutti_error *err)
{
    struct tt_json_token tok;
    uint64_t v[4] = {0};
    if (m->npoints == TT_MEMORY_POINTS)
        return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT, "more than %d points",
                            (int)TT_MEMORY_POINTS);
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < 4; i++)
        st = read_count(rd, 0, UINT64_C(1) << 60, &v[i], err);
    if (!st)
        st = tt_json_expect(rd->json, TT_JSON_ARRAY_END, &tok, err);
    if (!st)
        m->point[m->npoints++] = (struct tt_memory_point){v[0], v[1], v[2], v[3]};
    return st;
}

static tutti_status read_points(struct tt_file *rd, struct tt_memory *m, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END)
        st = tok.kind == TT_JSON_ARRAY
                 ? read_point(rd, m, err)
                 : tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                                "a point [bytes, move_ps, own_ps, box_ps] expected");
    return st;
}

/* The values are checked here, where the position in the file is known. */
static tutti_status read_memory(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_memory m = {0};
    struct tt_json_token tok;
    struct tutti_error why;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_OBJECT, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_OBJECT_END) {
        if (tt_streq(tok.text, "box_bytes"))
            st = read_count(rd, 0, UINT64_C(1) << 60, &m.box_bytes, err);
        else if (tt_streq(tok.text, "segment_bytes"))
            st = read_count(rd, 0, UINT64_C(1) << 60, &m.segment_bytes, err);
        else if (tt_streq(tok.text, "points"))
            st = read_points(rd, &m, err);
        else
            st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                              "memory has box_bytes, segment_bytes and points, not \"%.40s\"",
                              tok.text);
    }
    if (!st && tt_topo_memory_check(&m, &why))
        st = tt_json_fail(rd->json, err, TUTTI_ERR_RANGE, "%s", why.text);
    rd->t->memory = m;
    return st;
}

static tutti_status read_routing(struct tt_file *rd, struct tutti_error *err)
{
    char near[200];
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (st)
        return st;
    for (int i = 0; i < TT_ROUTINGS; i++)
        if (tt_streq(tok.text, tt_topo_routing_names[i])) {
            rd->t->routing = (enum tt_routing)i;
            rd->routing_given = true;
            return TUTTI_OK;
        }
    return tt_json_fail(
        rd->json, err, TUTTI_ERR_PARSE, "unknown routing \"%.40s\" %s", tok.text,
        tt_near_matches(tok.text, tt_topo_routing_names, TT_ROUTINGS, near, sizeof near));
}

/* How many names there must be is known only when "ranks" and "switches" are read: set_names. */
static tutti_status read_names(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END) {
        char *name = NULL;
        if (tok.kind != TT_JSON_STRING && tok.kind != TT_JSON_NULL)
            return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "a name or null expected");
        if (tok.kind == TT_JSON_STRING && !(name = tt_strdup(tok.text)))
            return tt_fail_memory(err, "names");
        if (!tt_vec_push(&rd->names, &name, 1)) {
            free(name);
            return tt_fail_memory(err, "names");
        }
    }
    return st;
}

/* ---- the table ---- */

/* `seen` in struct tt_file has a bit for each key. */
static const struct {
    const char *name;
    tutti_status (*read)(struct tt_file *rd, struct tutti_error *err);
} keys[] = {
    {"format", read_format},
    {"version", read_version},
    {"name", read_name},
    {"kind", read_kind},
    {"dims", read_dims},
    {"wrap", read_wrap},
    {"ranks", read_ranks},
    {"switches", read_switches},
    {"ports", read_ports},
    {"gamma_s_per_byte", read_gamma},
    {"overhead_ps", read_overhead},
    {"memory", read_memory},
    {"routing", read_routing},
    {"names", read_names},
    {"tree", tt_topo_file_tree},
    {"links", tt_topo_file_links},
};

/* Every key may occur once: two values would contradict each other. */
tutti_status tt_topo_file_key(struct tt_file *rd, const struct tt_json_token *tok,
                              struct tutti_error *err)
{
    const char *names[countof(keys)];
    char near[200];
    for (size_t i = 0; i < countof(keys); i++) {
        names[i] = keys[i].name;
        if (!tt_streq(tok->text, keys[i].name))
            continue;
        if (rd->seen & 1u << i)
            return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "\"%s\" is there twice",
                                keys[i].name);
        rd->seen |= 1u << i;
        return keys[i].read(rd, err);
    }
    return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "unknown key \"%.40s\" %s", tok->text,
                        tt_near_matches(tok->text, names, countof(keys), near, sizeof near));
}

/* For keys that are needed only in some files. */
bool tt_topo_file_was_read(const struct tt_file *rd, const char *key)
{
    for (size_t i = 0; i < countof(keys); i++)
        if (tt_streq(keys[i].name, key))
            return rd->seen >> i & 1;
    return false;
}
