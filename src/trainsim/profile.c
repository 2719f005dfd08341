/* profile.c - a model and its measured times as a file, tutti-profile(5):
 *
 *     {"format": "tutti-profile", "version": 1, "model": "resnet50", "batch": 64,
 *      "times": "measured",
 *      "layers": [{"name": "conv1", "kind": "conv", "forward_us": 812.5, "backward_us": 1630.1,
 *                  "tensors": [{"name": "conv1.weight", "count": 9408, "dtype": "f32"}]}, ..]}
 *
 * Layers are in forward order and have at least one tensor; "times" is "measured" or "derived";
 * "dtype" may be left out (f32), "kind" too (other); "source" is a text for readers. Nothing is
 * ignored: unknown or repeated keys, wrong types and values out of range are errors at their
 * position. What was written reads back identical. */
#include "base/json.h"
#include "trainsim/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limits for files that are damaged or hostile; models are far below them. */
enum { MOST_LAYERS = 1 << 18, MOST_TENSORS = 1 << 20 };
#define MOST_COUNT ((int64_t)1 << 44)
#define MOST_US    1e9 /* about a quarter of an hour */

/* By tutti_dtype. */
static const char *const dtype_names[] = {
#define NAME(id, name, bytes) name,
    TUTTI_DTYPE_LIST(NAME)
#undef NAME
};

/* ---- writing ---- */

/* Defaults are written too: a model has one spelling. */
static void write_layer(struct tt_json_writer *w, const struct tt_model *m,
                        const struct tt_model_layer *l)
{
    tt_json_object(w);
    tt_json_member_string(w, "name", l->name);
    tt_json_member_string(w, "kind", tt_policy_kind_name(l->kind));
    tt_json_member_real(w, "forward_us", (double)l->forward_ps / 1e6);
    tt_json_member_real(w, "backward_us", (double)l->backward_ps / 1e6);
    tt_json_key(w, "tensors");
    tt_json_array(w);
    for (uint32_t i = 0; i < l->ntensors; i++) {
        const struct tt_model_tensor *t = tt_vec_at(&m->tensors, l->first + i);
        tt_json_object_compact(w);
        tt_json_member_string(w, "name", t->name);
        tt_json_member_u64(w, "count", t->count);
        tt_json_member_string(w, "dtype", dtype_names[t->dtype]);
        tt_json_object_end(w);
    }
    tt_json_array_end(w);
    tt_json_object_end(w);
}

void tt_trainsim_profile_write(const struct tt_model *m, FILE *out)
{
    struct tt_json_writer w;
    tt_json_begin(&w, out);
    tt_json_object(&w);
    tt_json_key(&w, "format");
    tt_json_string(&w, "tutti-profile");
    tt_json_key(&w, "version");
    tt_json_u64(&w, 1);
    tt_json_key(&w, "model");
    tt_json_string(&w, m->name);
    tt_json_key(&w, "batch");
    tt_json_u64(&w, m->batch);
    tt_json_key(&w, "times");
    tt_json_string(&w, m->measured ? "measured" : "derived");
    tt_json_key(&w, "source");
    tt_json_string(&w, m->source);
    tt_json_key(&w, "layers");
    tt_json_array(&w);
    for (size_t i = 0; i < m->layers.len; i++)
        write_layer(&w, m, tt_vec_at(&m->layers, i));
    tt_json_array_end(&w);
    tt_json_object_end(&w);
    tt_json_finish(&w);
}

/* ---- reading ---- */

/* The keys of one object; needed and seen are bit sets by index in names. */
struct keys {
    const char *const *names;
    unsigned n, needed, seen;
};

/* The model grows as layers and tensors are read. */
struct reading {
    struct tt_json_reader *r;
    struct tt_model *m;
};

/* The next key's index, or *ret_end at the end of the object; by then all needed keys must have
 * been seen. */
static tutti_status next_key(struct reading *x, struct keys *k, unsigned *ret, bool *ret_end,
                             struct tutti_error *err)
{
    struct tt_json_token tok;
    char near[200];
    tutti_status st = tt_json_next(x->r, &tok, err);
    if (st)
        return st;
    *ret_end = tok.kind == TT_JSON_OBJECT_END;
    for (unsigned i = 0; *ret_end && i < k->n; i++)
        if ((k->needed & 1u << i) && !(k->seen & 1u << i))
            return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "key \"%s\" is missing", k->names[i]);
    if (*ret_end)
        return TUTTI_OK;
    for (unsigned i = 0; i < k->n; i++) {
        if (!tt_streq(tok.text, k->names[i]))
            continue;
        if (k->seen & 1u << i)
            return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "key \"%s\" is given twice",
                                k->names[i]);
        k->seen |= 1u << i;
        *ret = i;
        return TUTTI_OK;
    }
    tt_near_matches(tok.text, k->names, k->n, near, sizeof near);
    return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "unknown key \"%.60s\"%s%s", tok.text,
                        near[0] ? "; " : "", near);
}

/* A non-empty text that fits into cap bytes with its terminator. */
static tutti_status read_name(struct reading *x, char *ret, size_t cap, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(x->r, TT_JSON_STRING, &tok, err);
    if (!st && (tok.len == 0 || tok.len >= cap))
        st = tt_json_fail(x->r, err, TUTTI_ERR_LIMIT,
                          "a text of %zu bytes: 1 to %zu are accepted here", tok.len, cap - 1);
    if (!st)
        memcpy(ret, tok.text, tok.len + 1);
    return st;
}

/* A whole number from 1 to max. */
static tutti_status read_int(struct reading *x, int64_t max, uint64_t *ret, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(x->r, TT_JSON_INT, &tok, err);
    if (!st && (tok.i < 1 || tok.i > max))
        st = tt_json_fail(x->r, err, TUTTI_ERR_RANGE, "%" PRId64 " is not within 1..%" PRId64,
                          tok.i, max);
    if (!st)
        *ret = (uint64_t)tok.i;
    return st;
}

/* Microseconds, rounded to whole picoseconds: what was written reads back identical. */
static tutti_status read_time(struct reading *x, uint64_t *ret_ps, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_next(x->r, &tok, err);
    if (st)
        return st;
    if (tok.kind != TT_JSON_INT && tok.kind != TT_JSON_REAL)
        return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "a time in microseconds is needed");
    if (!(tok.d >= 0 && tok.d <= MOST_US))
        return tt_json_fail(x->r, err, TUTTI_ERR_RANGE, "%g us is not within 0..%g", tok.d,
                            MOST_US);
    *ret_ps = (uint64_t)llround(tok.d * 1e6);
    return TUTTI_OK;
}

/* One of the names, returned as its index. */
static tutti_status read_choice(struct reading *x, const char *const *names, size_t n,
                                unsigned *ret, struct tutti_error *err)
{
    struct tt_json_token tok;
    char near[200];
    tutti_status st = tt_json_expect(x->r, TT_JSON_STRING, &tok, err);
    for (size_t i = 0; !st && i < n; i++)
        if (tt_streq(tok.text, names[i])) {
            *ret = (unsigned)i;
            return TUTTI_OK;
        }
    if (st)
        return st;
    tt_near_matches(tok.text, names, n, near, sizeof near);
    return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "\"%.60s\" is not known here%s%s", tok.text,
                        near[0] ? "; " : "", near);
}

/* One tensor of the layer that is being read; its opening brace has been read. */
static tutti_status read_tensor(struct reading *x, uint32_t layer, struct tutti_error *err)
{
    static const char *const names[] = {"name", "count", "dtype"};
    struct keys k = {names, 3, 3, 0};
    struct tt_model_tensor t = {.layer = layer, .dtype = TUTTI_F32};
    tutti_status st = TUTTI_OK;
    bool end = false;
    while (!st) {
        unsigned key = 0, choice = 0;
        st = next_key(x, &k, &key, &end, err);
        if (st || end)
            break;
        if (key == 0)
            st = read_name(x, t.name, sizeof t.name, err);
        else if (key == 1)
            st = read_int(x, MOST_COUNT, &t.count, err);
        else
            st = read_choice(x, dtype_names, countof(dtype_names), &choice, err);
        if (!st && key == 2)
            t.dtype = (tutti_dtype)choice;
    }
    if (!st && x->m->tensors.len >= MOST_TENSORS)
        st = tt_json_fail(x->r, err, TUTTI_ERR_LIMIT, "more than %d tensors", (int)MOST_TENSORS);
    if (!st && !tt_vec_push(&x->m->tensors, &t, 1))
        st = tt_fail_memory(err, "tensors");
    return st;
}

/* A list of objects; `each` reads one whose opening brace has been read. */
static tutti_status
read_list(struct reading *x, tutti_status (*each)(struct reading *, uint32_t, struct tutti_error *),
          uint32_t arg, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(x->r, TT_JSON_ARRAY, &tok, err);
    while (!st) {
        st = tt_json_next(x->r, &tok, err);
        if (st || tok.kind == TT_JSON_ARRAY_END)
            break;
        st = tok.kind == TT_JSON_OBJECT
                 ? each(x, arg, err)
                 : tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "an object is needed");
    }
    return st;
}

/* In the order of `names` in read_layer; keys 0 to 3 are needed. */
enum layer_key { L_NAME, L_FORWARD, L_BACKWARD, L_TENSORS, L_KIND };

/* Reads the value of one key of a layer. */
static tutti_status read_layer_value(struct reading *x, enum layer_key key,
                                     struct tt_model_layer *l, struct tutti_error *err)
{
    const char *kinds[TT_KIND_COUNT];
    unsigned kind = 0;
    tutti_status st;
    switch (key) {
    case L_NAME:
        return read_name(x, l->name, sizeof l->name, err);
    case L_FORWARD:
        return read_time(x, &l->forward_ps, err);
    case L_BACKWARD:
        return read_time(x, &l->backward_ps, err);
    case L_TENSORS:
        /* The layer is appended after its tensors: its index is the current length. */
        return read_list(x, read_tensor, (uint32_t)x->m->layers.len, err);
    default:
        for (unsigned i = 0; i < TT_KIND_COUNT; i++)
            kinds[i] = tt_policy_kind_name((enum tt_tensor_kind)i);
        st = read_choice(x, kinds, TT_KIND_COUNT, &kind, err);
        l->kind = (enum tt_tensor_kind)kind;
        return st;
    }
}

/* One layer; its opening brace has been read. */
static tutti_status read_layer(struct reading *x, uint32_t unused, struct tutti_error *err)
{
    static const char *const names[] = {"name", "forward_us", "backward_us", "tensors", "kind"};
    struct keys k = {names, 5, 15, 0};
    struct tt_model_layer l = {.kind = TT_KIND_OTHER, .first = (uint32_t)x->m->tensors.len};
    tutti_status st = TUTTI_OK;
    bool end = false;
    (void)unused;
    while (!st) {
        unsigned key = 0;
        st = next_key(x, &k, &key, &end, err);
        if (st || end)
            break;
        st = read_layer_value(x, (enum layer_key)key, &l, err);
    }
    /* Tensors are appended in file order, so those of this layer are the last ones. */
    l.ntensors = (uint32_t)x->m->tensors.len - l.first;
    if (!st && l.ntensors == 0)
        st = tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "layer \"%s\" has no tensors", l.name);
    if (!st && x->m->layers.len >= MOST_LAYERS)
        st = tt_json_fail(x->r, err, TUTTI_ERR_LIMIT, "more than %d layers", (int)MOST_LAYERS);
    if (!st && !tt_vec_push(&x->m->layers, &l, 1))
        st = tt_fail_memory(err, "layers");
    return st;
}

/* In the order of `names` in read_all; all but "source" are needed. */
enum top_key { T_FORMAT, T_VERSION, T_MODEL, T_BATCH, T_TIMES, T_LAYERS, T_SOURCE };

/* Reads the value of one key of the document. Texts go straight into the model. */
static tutti_status read_top_value(struct reading *x, enum top_key key, struct tutti_error *err)
{
    static const char *const format[] = {"tutti-profile"}, *const times[] = {"derived", "measured"};
    unsigned choice = 0;
    uint64_t number = 0;
    tutti_status st;
    switch (key) {
    case T_FORMAT:
        return read_choice(x, format, 1, &choice, err);
    case T_VERSION:
        return read_int(x, 1, &number, err);
    case T_MODEL:
        return read_name(x, x->m->name, sizeof x->m->name, err);
    case T_BATCH:
        st = read_int(x, 1 << 20, &number, err);
        x->m->batch = (uint32_t)number;
        return st;
    case T_TIMES:
        st = read_choice(x, times, 2, &choice, err);
        x->m->measured = choice == 1;
        return st;
    case T_LAYERS:
        return read_list(x, read_layer, 0, err);
    default:
        return read_name(x, x->m->source, sizeof x->m->source, err);
    }
}

/* The document is one object with at least one layer, and nothing follows it. */
static tutti_status read_all(struct reading *x, struct tutti_error *err)
{
    static const char *const names[] = {"format", "version", "model", "batch",
                                        "times",  "layers",  "source"};
    struct keys k = {names, 7, 63, 0};
    struct tt_json_token tok;
    bool end = false;
    tutti_status st = tt_json_expect(x->r, TT_JSON_OBJECT, &tok, err);
    while (!st) {
        unsigned key = 0;
        st = next_key(x, &k, &key, &end, err);
        if (st || end)
            break;
        st = read_top_value(x, (enum top_key)key, err);
    }
    if (!st && x->m->layers.len == 0)
        st = tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "there are no layers");
    return st ? st : tt_json_expect(x->r, TT_JSON_END, &tok, err);
}

/* Takes over the reader: closes it in any case. */
static tutti_status read_with(struct tt_json_reader *r, const char *name, struct tt_model **ret,
                              struct tutti_error *err)
{
    struct reading x = {.r = r, .m = tt_zalloc(1, sizeof *x.m)};
    tutti_status st = x.m ? TUTTI_OK : tt_fail_memory(err, "profile");
    if (!st) {
        x.m->layers.elem = sizeof(struct tt_model_layer);
        x.m->tensors.elem = sizeof(struct tt_model_tensor);
        snprintf(x.m->source, sizeof x.m->source, "profile %.200s", name);
        st = read_all(&x, err);
    }
    tt_json_close(r);
    if (st) {
        tt_trainsim_model_free(x.m);
        return st;
    }
    *ret = x.m;
    return TUTTI_OK;
}

tutti_status tt_trainsim_profile_read(FILE *in, const char *name, struct tt_model **ret,
                                      struct tutti_error *err)
{
    struct tt_json_reader *r = NULL;
    tutti_status st = tt_json_open_file(in, name, &r, err);
    return st ? st : read_with(r, name, ret, err);
}

tutti_status tt_trainsim_profile_read_memory(const char *data, size_t len, const char *name,
                                             struct tt_model **ret, struct tutti_error *err)
{
    struct tt_json_reader *r = NULL;
    tutti_status st = tt_json_open_memory(data, len, name, &r, err);
    return st ? st : read_with(r, name, ret, err);
}
