/* words.c - the certificates as sentences: what must move, what carries it, and the division
 * that gives the time. Texts are cut, never wrong: lists of ranks end in "..." when they are too
 * long. */
#include <inttypes.h>

#include "bound/bound_int.h"
#include "sched/sched.h"

enum { WORD = 32, LIST = 200, NAME = 40 };

/* `some_rank`: the bound holds for an unknown rank; `halved`: it is half of a largest distance. */
void tt_bound_words_latency(const struct tt_ask *q, struct tt_bound *b, bool some_rank, bool halved)
{
    char time[WORD], from[WORD * 2], to[WORD * 2];
    tt_topo_vertex_name(q->t, b->from, from, sizeof from);
    tt_topo_vertex_name(q->t, b->to, to, sizeof to);
    tt_format_time(b->time_ps, time, sizeof time);
    if (halved)
        snprintf(b->text, sizeof b->text,
                 "some rank concerns all others; %s and %s are so far apart that it has %s or more "
                 "to one of them",
                 from, to, time);
    else if (some_rank)
        snprintf(b->text, sizeof b->text,
                 "some rank concerns all others; even for %s the way to %s takes at least %s", from,
                 to, time);
    else
        snprintf(b->text, sizeof b->text,
                 "%s must hear of %s: no path between them takes less than %s", to, from, time);
}

void tt_bound_words_rounds(const struct tt_ask *q, struct tt_bound *b)
{
    char time[WORD], round[WORD];
    snprintf(b->text, sizeof b->text,
             "with %" PRIu32 " port%s per rank news reaches %" PRIu32 " ranks in %" PRIu32
             " rounds of at least %s: %s",
             b->ports, b->ports == 1 ? "" : "s", q->p, b->rounds,
             tt_format_time(b->round_ps, round, sizeof round),
             tt_format_time(b->time_ps, time, sizeof time));
}

/* `verb` is "leave", "enter" or "leave and enter". */
void tt_bound_words_volume(const struct tt_ask *q, struct tt_bound *b, const char *verb)
{
    char size[WORD], whole[WORD], rate[WORD], time[WORD], who[WORD * 2], through[WORD];
    tt_format_size((uint64_t)b->bytes, size, sizeof size);
    tt_format_size(q->bytes, whole, sizeof whole);
    tt_format_rate(b->capacity, rate, sizeof rate);
    tt_format_time(b->time_ps, time, sizeof time);
    if (b->from != UINT32_MAX)
        tt_topo_vertex_name(q->t, b->from, who, sizeof who);
    else
        snprintf(who, sizeof who, "the %" PRIu32 " ranks together", q->p);
    if (q->t->ports)
        snprintf(through, sizeof through, "%" PRIu32 " port%s per rank", q->t->ports,
                 q->t->ports == 1 ? "" : "s");
    else
        snprintf(through, sizeof through, "links");
    snprintf(b->text, sizeof b->text, "%s of %s: %s must %s %s through %s of %s: %s / %s = %s",
             tt_sched_coll_name(q->coll), whole, size, verb, who, through, rate, size, rate, time);
}

/* Appends consecutive ranks: "0-7", "12"; by name where there are names: "web1 to web8", "ann,
 * bob", "old". Returns the length written. */
static size_t put_row(const struct tt_topo *t, uint32_t first, uint32_t last, char *buf, size_t cap)
{
    char from[NAME], to[NAME];
    if (!t->names)
        return (size_t)snprintf(buf, cap, first == last ? "%" PRIu32 : "%" PRIu32 "-%" PRIu32,
                                first, last);
    tt_topo_vertex_name(t, first, from, sizeof from);
    tt_topo_vertex_name(t, last, to, sizeof to);
    if (first == last)
        return (size_t)snprintf(buf, cap, "%s", from);
    return (size_t)snprintf(buf, cap, last == first + 1 ? "%s, %s" : "%s to %s", from, to);
}

/* Room for the longest entry of put_row and its separators. */
static size_t row_room(const struct tt_topo *t)
{
    return t->names ? 2 * NAME + 16 : 48;
}

/* Lists the ranks of one side as "0-7, 12", cut with "..." before `cap` is full. */
static void list_ranks(const struct tt_ask *q, const uint8_t *side, uint8_t which, char *buf,
                       size_t cap)
{
    size_t len = 0;
    buf[0] = 0;
    for (uint32_t v = 0; v < q->p; v++) {
        uint32_t end = v;
        if (side[v] != which)
            continue;
        while (end + 1 < q->p && side[end + 1] == which)
            end++;
        if (len + row_room(q->t) > cap) {
            snprintf(buf + len, cap - len, ", ...");
            return;
        }
        len += len ? (size_t)snprintf(buf + len, cap - len, ", ") : 0;
        len += put_row(q->t, v, end, buf + len, cap - len);
        v = end;
    }
}

void tt_bound_words_cut(const struct tt_ask *q, struct tt_bound *b)
{
    char size[WORD], rate[WORD], time[WORD], list[LIST];
    bool few = b->side_ranks <= q->p - b->side_ranks; /* name the smaller side */
    uint32_t n = few ? b->side_ranks : q->p - b->side_ranks;
    list_ranks(q, b->side, few, list, sizeof list);
    tt_format_size((uint64_t)b->bytes, size, sizeof size);
    tt_format_rate(b->capacity, rate, sizeof rate);
    tt_format_time(b->time_ps, time, sizeof time);
    snprintf(b->text, sizeof b->text,
             "%s must %s %s%s (%" PRIu32 " of %" PRIu32 ") over links of %s: %s / %s = %s", size,
             b->both ? "leave and enter"
             : few   ? "leave"
                     : "enter",
             q->t->names ? ""
             : n == 1    ? "rank "
                         : "ranks ",
             list, n, q->p, rate, size, rate, time);
}

/* Lists the ranks of the parts as "0-3 | 4-7 | ...": the first consecutive ranks of each, and
 * ".." where it has more. */
static void list_parts(const struct tt_ask *q, const struct tt_bound *b, char *buf, size_t cap)
{
    size_t len = 0;
    buf[0] = 0;
    for (uint32_t k = 0; k < b->parts; k++) {
        uint32_t v = 0, end;
        while (b->part[v] != k)
            v++;
        for (end = v; end + 1 < q->p && b->part[end + 1] == k; end++) {
        }
        bool more = false; /* the part's ranks are not all consecutive */
        for (uint32_t w = end + 1; w < q->p; w++)
            more |= b->part[w] == k;
        if (len + row_room(q->t) > cap) {
            snprintf(buf + len, cap - len, " | ...");
            return;
        }
        len += k ? (size_t)snprintf(buf + len, cap - len, " | ") : 0;
        len += put_row(q->t, v, end, buf + len, cap - len);
        len += more ? (size_t)snprintf(buf + len, cap - len, ", ..") : 0;
    }
}

void tt_bound_words_partition(const struct tt_ask *q, struct tt_bound *b)
{
    char size[WORD], rate[WORD], time[WORD], list[LIST - 40] = "", whole[WORD];
    if (b->parts < q->p)
        list_parts(q, b, list, sizeof list);
    tt_format_size((uint64_t)b->bytes, size, sizeof size);
    tt_format_size(q->bytes, whole, sizeof whole);
    tt_format_rate(b->capacity, rate, sizeof rate);
    tt_format_time(b->time_ps, time, sizeof time);
    snprintf(b->text, sizeof b->text,
             "%" PRIu32 " parts (%s): each element passes 2*(%" PRIu32
             "-1) times from part to part, so 4*%" PRIu32
             " * %s must leave and enter them over links of %s both ways: %s / %s = %s%s",
             b->parts, b->parts < q->p ? list : "every rank by itself", b->parts, b->parts - 1,
             whole, rate, size, rate, time, b->tight ? "; packed trees reach it" : "");
}

/* `from`: how many ranks take in too little to sum all the time. */
void tt_bound_words_reduction(const struct tt_ask *q, struct tt_bound *b)
{
    char size[WORD], rate[WORD], time[WORD], whole[WORD], fed[LIST] = "";
    tt_format_size((uint64_t)b->bytes, size, sizeof size);
    tt_format_size(q->bytes, whole, sizeof whole);
    tt_format_rate(1 / q->t->gamma, rate, sizeof rate);
    tt_format_time(b->time_ps, time, sizeof time);
    if (b->from)
        snprintf(fed, sizeof fed, ", of which %" PRIu32 " take in less than that", b->from);
    snprintf(b->text, sizeof b->text,
             "each element takes %" PRIu32 "-1 additions: %s of %s must be summed by %" PRIu32
             " ranks at %s each%s: %s",
             q->p, size, whole, q->p, rate, fed, time);
}

void tt_bound_words_overhead(const struct tt_ask *q, struct tt_bound *b)
{
    char time[WORD], apart[WORD], way[WORD];
    snprintf(b->text, sizeof b->text,
             "a rank passes on messages %s apart, and each is under way for %s at least: news "
             "reaches %" PRIu32 " ranks in %s",
             tt_format_time(q->t->overhead_ps, apart, sizeof apart),
             tt_format_time(b->round_ps, way, sizeof way), q->p,
             tt_format_time(b->time_ps, time, sizeof time));
}
