/* tuner_file.c - the trials of a tuner as a file. Trials are pairs of integers; expectations are
 * not kept, since they only explain one search.
 *
 *     {"format": "tutti-fusion", "version": 1, "model": "resnet50", "policy": "dear",
 *      "key": "00ff...", "min_bytes": 65536,
 *      "max_bytes": 268435456, "trials": [[26214400, 412000000000], ..]}
 *
 * Unknown, repeated or missing keys, values out of range and a `key` (hash) other than the caller's
 * are errors with their position. */
#include "base/json.h"
#include "policy/tuner.h"

#include <inttypes.h>
#include <string.h>

enum key { FORMAT, VERSION, MODEL, POLICY, KEY, MIN_BYTES, MAX_BYTES, TRIALS, NKEYS };
static const char *const names[NKEYS] = {"format", "version",   "model",     "policy",
                                         "key",    "min_bytes", "max_bytes", "trials"};
enum { MOST_BYTES_LOG2 = 50 };

void tt_policy_tuner_write(const struct tt_tuner *t, const struct tt_tuner_label *label, FILE *out)
{
    struct tt_json_writer w;
    char key[20];
    snprintf(key, sizeof key, "%016" PRIx64, label->key);
    tt_json_begin(&w, out);
    tt_json_object(&w);
    tt_json_key(&w, names[FORMAT]);
    tt_json_string(&w, "tutti-fusion");
    tt_json_key(&w, names[VERSION]);
    tt_json_u64(&w, 1);
    tt_json_key(&w, names[MODEL]);
    tt_json_string(&w, label->model);
    tt_json_key(&w, names[POLICY]);
    tt_json_string(&w, label->policy);
    tt_json_key(&w, names[KEY]);
    tt_json_string(&w, key);
    tt_json_key(&w, names[MIN_BYTES]);
    tt_json_u64(&w, t->o.min_bytes);
    tt_json_key(&w, names[MAX_BYTES]);
    tt_json_u64(&w, t->o.max_bytes);
    tt_json_key(&w, names[TRIALS]);
    tt_json_array(&w);
    for (uint32_t i = 0; i < t->n; i++) {
        tt_json_array_compact(&w);
        tt_json_u64(&w, t->trials[i].threshold_bytes);
        tt_json_u64(&w, t->trials[i].time_ps);
        tt_json_array_end(&w);
    }
    tt_json_array_end(&w);
    tt_json_object_end(&w);
    tt_json_finish(&w);
}

struct reading {
    struct tt_json_reader *r;
    const struct tt_tuner_label *label;
    struct tt_tuner t;
    unsigned seen;
};

/* A text that must equal `want`: another format is a parse error, another job a mismatch. */
static tutti_status read_text(struct reading *x, enum key k, const char *want,
                              struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(x->r, TT_JSON_STRING, &tok, err);
    if (!st && strcmp(tok.text, want))
        st = tt_json_fail(x->r, err, k == FORMAT ? TUTTI_ERR_PARSE : TUTTI_ERR_MISMATCH,
                          "%s is \"%.60s\", not \"%.60s\"", names[k], tok.text, want);
    return st;
}

static tutti_status read_number(struct reading *x, int64_t min, int64_t max, uint64_t *ret,
                                struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(x->r, TT_JSON_INT, &tok, err);
    if (!st && (tok.i < min || tok.i > max))
        st = tt_json_fail(x->r, err, TUTTI_ERR_RANGE,
                          "%" PRId64 " is not within %" PRId64 "..%" PRId64, tok.i, min, max);
    if (!st)
        *ret = (uint64_t)tok.i;
    return st;
}

/* [bytes, picoseconds]; the opening bracket has been read. */
static tutti_status read_trial(struct reading *x, struct tutti_error *err)
{
    struct tt_trial trial = {0};
    struct tt_json_token tok;
    if (x->t.n == TT_TUNER_TRIALS)
        return tt_json_fail(x->r, err, TUTTI_ERR_LIMIT, "more than %d trials",
                            (int)TT_TUNER_TRIALS);
    tutti_status st = read_number(x, 1, INT64_C(1) << MOST_BYTES_LOG2, &trial.threshold_bytes, err);
    if (!st)
        st = read_number(x, 1, INT64_MAX, &trial.time_ps, err);
    if (!st)
        st = tt_json_expect(x->r, TT_JSON_ARRAY_END, &tok, err);
    if (!st)
        x->t.trials[x->t.n++] = trial;
    return st;
}

static tutti_status read_trials(struct reading *x, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(x->r, TT_JSON_ARRAY, &tok, err);
    while (!st) {
        st = tt_json_next(x->r, &tok, err);
        if (st || tok.kind == TT_JSON_ARRAY_END)
            break;
        st = tok.kind == TT_JSON_ARRAY
                 ? read_trial(x, err)
                 : tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "a trial is [bytes, picoseconds]");
    }
    return st;
}

/* The label's values are compared while reading, so that the message has the position. */
static tutti_status read_value(struct reading *x, enum key k, struct tutti_error *err)
{
    char key[20];
    uint64_t version;
    snprintf(key, sizeof key, "%016" PRIx64, x->label->key);
    switch (k) {
    case FORMAT:
        return read_text(x, k, "tutti-fusion", err);
    case VERSION:
        return read_number(x, 1, 1, &version, err);
    case MODEL:
        return read_text(x, k, x->label->model, err);
    case POLICY:
        return read_text(x, k, x->label->policy, err);
    case KEY:
        return read_text(x, k, key, err);
    case MIN_BYTES:
        return read_number(x, 1, INT64_C(1) << MOST_BYTES_LOG2, &x->t.o.min_bytes, err);
    case MAX_BYTES:
        return read_number(x, 1, INT64_C(1) << MOST_BYTES_LOG2, &x->t.o.max_bytes, err);
    default:
        return read_trials(x, err);
    }
}

static tutti_status read_member(struct reading *x, const char *name, struct tutti_error *err)
{
    char near[200];
    for (unsigned k = 0; k < NKEYS; k++) {
        if (!tt_streq(name, names[k]))
            continue;
        if (x->seen & 1u << k)
            return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "key \"%s\" is given twice", names[k]);
        x->seen |= 1u << k;
        return read_value(x, (enum key)k, err);
    }
    tt_near_matches(name, names, NKEYS, near, sizeof near);
    return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "unknown key \"%.60s\"%s%s", name,
                        near[0] ? "; " : "", near);
}

/* All keys were read, their values fit together, and nothing follows. */
static tutti_status check_whole(struct reading *x, struct tutti_error *err)
{
    struct tt_json_token tok;
    for (unsigned k = 0; k < NKEYS; k++)
        if (!(x->seen & 1u << k))
            return tt_json_fail(x->r, err, TUTTI_ERR_PARSE, "key \"%s\" is missing", names[k]);
    if (x->t.n == 0 || x->t.o.min_bytes > x->t.o.max_bytes)
        return tt_json_fail(x->r, err, TUTTI_ERR_PARSE,
                            "there are no trials, or the range is empty");
    return tt_json_expect(x->r, TT_JSON_END, &tok, err);
}

tutti_status tt_policy_tuner_read(FILE *in, const char *name, const struct tt_tuner_label *label,
                                  struct tt_tuner *ret, struct tutti_error *err)
{
    struct reading x = {.label = label};
    struct tt_json_token tok;
    tutti_status st = tt_json_open_file(in, name, &x.r, err);
    if (st)
        return st;
    st = tt_json_expect(x.r, TT_JSON_OBJECT, &tok, err);
    while (!st) {
        st = tt_json_next(x.r, &tok, err);
        if (st || tok.kind == TT_JSON_OBJECT_END)
            break;
        st = read_member(&x, tok.text, err);
    }
    if (!st)
        st = check_whole(&x, err);
    if (!st) {
        /* The tuner is finished: it proposes no further trial. */
        x.t.o.trials = x.t.n;
        x.t.o.start_bytes = x.t.trials[0].threshold_bytes;
        *ret = x.t;
    }
    tt_json_close(x.r);
    return st;
}
