/* file_links.c - the two long arrays of a topology file: links and nodes of the hierarchy.
 *
 *     [a, b, bandwidth]
 *     [a, b, bandwidth, latency]                              half (true or false) may follow
 *     [a, b, bandwidth there, bandwidth back, latency]        a latency
 *
 * The ends a and b are vertices, by number or by name. Bandwidths are bytes/s or text such as
 * "10Gbps", latencies picoseconds or text such as "5us". Defaults: 1 us, full duplex. A number in
 * the fourth place can be either: a latency after it makes it a bandwidth, otherwise it is the
 * latency, and is refused when it looks like a bandwidth: 1250000000 would be 1.25 ms. */
#include <string.h>

#include "topo/topo_int.h"

#include "topo/file.h"

/* ---- the tree ---- */

/* [parent, rank or null, uplink]; the opening bracket was read. */
static tutti_status read_node(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    uint32_t node[3] = {0, UINT32_MAX, 0};
    tutti_status st = tt_topo_file_u32(rd, 0, TT_TOPO_MAX_VERTICES, &node[0], err);
    if (!st)
        st = tt_json_next(rd->json, &tok, err);
    if (st)
        return st;
    if (tok.kind == TT_JSON_INT && tok.i >= 0 && tok.i < TT_TOPO_MAX_RANKS)
        node[1] = (uint32_t)tok.i;
    else if (tok.kind != TT_JSON_NULL)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "a rank or null expected");
    st = tt_topo_file_u32(rd, 0, TT_TOPO_MAX_LINKS, &node[2], err);
    if (!st)
        st = tt_json_expect(rd->json, TT_JSON_ARRAY_END, &tok, err);
    if (!st && !tt_vec_push(&rd->tree, node, 1))
        st = tt_fail_memory(err, "tree");
    return st;
}

/* The key "tree": nodes 1, 2, ... in breadth-first order; only set_tree checks their parents. */
tutti_status tt_topo_file_tree(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END) {
        if (tok.kind != TT_JSON_ARRAY)
            return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                                "[parent, rank or null, uplink] expected");
        if (rd->tree.len >= TT_TOPO_MAX_VERTICES)
            return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT, "more than %d nodes",
                                TT_TOPO_MAX_VERTICES);
        st = read_node(rd, err);
    }
    return st;
}

/* ---- links ---- */

/* A bare latency of 0.1 ms or more is more likely a bandwidth. */
enum { DOUBTFUL_PS = 100000000 };
enum field { FIELD_A, FIELD_B, FIELD_THERE, FIELD_FOURTH, FIELD_LATENCY, FIELD_HALF, FIELD_END };

/* What the fourth entry was; a bare number is decided by the entry that follows it. */
enum fourth { FOURTH_NONE, FOURTH_NUMBER, FOURTH_RATE };

struct entries {
    struct tt_link link;
    enum field next;
    enum fourth fourth;
    bool named;                  /* an end is a name that is not looked up yet */
    struct tt_json_token number; /* FOURTH_NUMBER: that number */
};

/* Names are looked up when the whole file has been read (file_names.c). */
static tutti_status take_vertex(struct tt_file *rd, const struct tt_json_token *tok, bool second,
                                struct entries *e, struct tutti_error *err)
{
    if (tok->kind == TT_JSON_STRING) {
        e->named = true;
        return tt_topo_file_named_end(rd, second, tok->text, err);
    }
    if (tok->kind != TT_JSON_INT || tok->i < 0 || tok->i >= TT_TOPO_MAX_VERTICES)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                            "a link begins with the numbers or names of two vertices");
    *(second ? &e->link.b : &e->link.a) = (uint32_t)tok->i;
    return TUTTI_OK;
}

static bool is_number(const struct tt_json_token *tok)
{
    return tok->kind == TT_JSON_INT || tok->kind == TT_JSON_REAL;
}

/* A number is bytes/s; its range is checked with the whole link. */
static tutti_status take_rate(struct tt_file *rd, const struct tt_json_token *tok, double *ret,
                              struct tutti_error *err)
{
    struct tutti_error why;
    if (is_number(tok)) {
        *ret = tok->d;
        return TUTTI_OK;
    }
    if (tok->kind != TT_JSON_STRING)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                            "a bandwidth expected: bytes/s, or text such as \"10Gbps\"");
    tutti_status st = tt_parse_rate(tok->text, ret, &why);
    return st ? tt_json_fail(rd->json, err, st, "bandwidth: %.300s", why.text) : st;
}

/* As a number only whole picoseconds are accepted. */
static tutti_status take_time(struct tt_file *rd, const struct tt_json_token *tok, uint64_t *ret,
                              struct tutti_error *err)
{
    struct tutti_error why;
    if (tok->kind == TT_JSON_INT && tok->i >= 0) {
        *ret = (uint64_t)tok->i;
        return TUTTI_OK;
    }
    if (tok->kind != TT_JSON_STRING)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                            "a latency expected: whole picoseconds, or text such as \"5us\"");
    tutti_status st = tt_parse_time(tok->text, ret, &why);
    return st ? tt_json_fail(rd->json, err, st, "latency: %.300s", why.text) : st;
}

static tutti_status take_half(struct tt_file *rd, const struct tt_json_token *tok, bool *ret,
                              struct tutti_error *err)
{
    if (tok->kind != TT_JSON_TRUE && tok->kind != TT_JSON_FALSE)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "true (half duplex) or false expected");
    *ret = tok->kind == TT_JSON_TRUE;
    return TUTTI_OK;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && memcmp(text + n - k, end, k) == 0;
}

/* Decided by the unit, so that a malformed time is refused as a latency. */
static bool is_time(const struct tt_json_token *tok)
{
    return tok->kind == TT_JSON_STRING && ends_in(tok->text, "s") && !ends_in(tok->text, "/s") &&
           !ends_in(tok->text, "bps") && !ends_in(tok->text, "Bps");
}

/* Stores the entry as the bandwidth back for now; settle_fourth corrects that. */
static tutti_status take_fourth(struct tt_file *rd, const struct tt_json_token *tok,
                                struct entries *e, struct tutti_error *err)
{
    if (is_time(tok)) {
        e->next = FIELD_HALF;
        return take_time(rd, tok, &e->link.latency_ps, err);
    }
    e->fourth = is_number(tok) ? FOURTH_NUMBER : FOURTH_RATE;
    e->number = *tok;
    return take_rate(rd, tok, &e->link.bw[1], err);
}

/* Is a bare number more likely meant as the bandwidth back? It equals the bandwidth there, or is
 * 0.1 ms or more. */
static bool is_doubtful(const struct entries *e)
{
    return e->number.kind == TT_JSON_INT && e->number.i > 0 &&
           (e->number.d == e->link.bw[0] || e->number.i >= DOUBTFUL_PS);
}

/* Shows both readings and how to write each without doubt. */
static tutti_status refuse_doubtful(struct tt_file *rd, const struct entries *e,
                                    struct tutti_error *err)
{
    char rate[40], time[40];
    tt_format_rate(e->number.d, rate, sizeof rate);
    tt_format_time((uint64_t)e->number.i, time, sizeof time);
    return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                        "link %u: %lld can be a bandwidth back of %s or a latency of %s: write [a, "
                        "b, bandwidth there, bandwidth back, "
                        "latency], or the latency as text (\"%s\")",
                        rd->t->nlinks, (long long)e->number.i, rate, time, time);
}

/* No latency follows the fourth entry, so it must be the latency itself. */
static tutti_status settle_fourth(struct tt_file *rd, struct entries *e, struct tutti_error *err)
{
    if (e->fourth == FOURTH_NONE)
        return TUTTI_OK;
    if (e->fourth == FOURTH_RATE)
        return tt_json_fail(
            rd->json, err, TUTTI_ERR_PARSE,
            "link %u: a latency expected after two bandwidths: [a, b, bandwidth, latency] or "
            "[a, b, bandwidth there, bandwidth back, latency]",
            rd->t->nlinks);
    if (is_doubtful(e))
        return refuse_doubtful(rd, e, err);
    e->fourth = FOURTH_NONE;
    e->link.bw[1] = e->link.bw[0];
    return take_time(rd, &e->number, &e->link.latency_ps, err);
}

/* `half` in this place means that no latency follows the fourth entry. */
static tutti_status take_latency(struct tt_file *rd, const struct tt_json_token *tok,
                                 struct entries *e, struct tutti_error *err)
{
    if (tok->kind == TT_JSON_TRUE || tok->kind == TT_JSON_FALSE) {
        tutti_status st = settle_fourth(rd, e, err);
        e->next = FIELD_END;
        return st ? st : take_half(rd, tok, &e->link.half, err);
    }
    e->fourth = FOURTH_NONE;
    return take_time(rd, tok, &e->link.latency_ps, err);
}

/* Takes one entry of a link and moves on to the next field. */
static tutti_status take_field(struct tt_file *rd, const struct tt_json_token *tok,
                               struct entries *e, struct tutti_error *err)
{
    tutti_status st;
    switch (e->next++) {
    case FIELD_A:
        return take_vertex(rd, tok, false, e, err);
    case FIELD_B:
        return take_vertex(rd, tok, true, e, err);
    case FIELD_THERE:
        st = take_rate(rd, tok, &e->link.bw[0], err);
        e->link.bw[1] = e->link.bw[0];
        return st;
    case FIELD_FOURTH:
        return take_fourth(rd, tok, e, err);
    case FIELD_LATENCY:
        return take_latency(rd, tok, e, err);
    case FIELD_HALF:
        return take_half(rd, tok, &e->link.half, err);
    case FIELD_END:
        break;
    }
    return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                        "a link has at most 6 entries, and nothing follows half");
}

/* The ends are checked here, where the position is known, unless they are names, or "ranks" or
 * "switches" come later in the file; tt_topo_finish checks them in any case. */
static tutti_status check_link(struct tt_file *rd, const struct entries *e, struct tutti_error *err)
{
    struct tutti_error why;
    const struct tt_link *l = &e->link;
    if (l->half && l->bw[0] != l->bw[1])
        return tt_json_fail(rd->json, err, TUTTI_ERR_RANGE,
                            "link %u is half duplex but has two bandwidths", rd->t->nlinks);
    if (!rd->ranks_given || !rd->switches_given || e->named)
        return TUTTI_OK;
    tutti_status st = tt_topo_link_check(rd->t, l, &why);
    return st ? tt_json_fail(rd->json, err, st, "link %u: %.300s", rd->t->nlinks, why.text) : st;
}

/* One link; its opening bracket has been read. */
static tutti_status read_link(struct tt_file *rd, struct tutti_error *err)
{
    struct entries e = {.link.latency_ps = 1000000};
    struct tt_json_token tok;
    tutti_status st;
    while (!(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END) {
        st = take_field(rd, &tok, &e, err);
        if (st)
            return st;
    }
    if (!st && e.next < FIELD_FOURTH)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                            "a link needs at least two vertices and a bandwidth");
    if (!st)
        st = settle_fourth(rd, &e, err);
    if (!st)
        st = check_link(rd, &e, err);
    return st ? st : tt_topo_add_link(rd->t, &e.link, err);
}

/* The key "links": links are appended as they are read, so a long list needs no second copy. */
tutti_status tt_topo_file_links(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END) {
        if (tok.kind != TT_JSON_ARRAY)
            return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                                "a link expected: [a, b, bandwidth, ...]");
        st = read_link(rd, err);
    }
    return st;
}
