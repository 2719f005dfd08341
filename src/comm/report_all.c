/* report_all.c - TUTTI_REPORT=1: which ranks were slow, from the notes of all, printed by rank 0 on
 * standard error when a communicator closes. This is the one place where the library prints,
 * because the variable asks for it.
 *
 *     begin:  barriers, then notes in every call        end:  barriers, gather, find.c, print
 *
 * Begin and end are collective: some barriers to compare the clocks, and at the end a gather of the
 * notes. Notes cost three clock readings per call and no communication. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"
#include "meter/meter.h"

enum { ROWS = 64, MIN_CALLS = 16 };
/* limit of rank x rank x call: find.c takes time proportional to that */
static const uint64_t WORK = 1 << 26;

/* ---- notes ---- */

/* Several barriers: the one with the least delay bounds the difference of clocks best. */
static tutti_status report_all_beat(struct tt_comm *c, struct tt_log_beat *beats)
{
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < TT_LOG_BEATS; i++) {
        beats[i].start_ns = (int64_t)tt_now_ns();
        st = tt_comm_run(c, &(struct tt_call){.coll = TUTTI_BARRIER});
        beats[i].end_ns = (int64_t)tt_now_ns();
    }
    return st;
}

static void log_free(struct tt_log *l)
{
    if (l)
        free(l->before_bytes);
    free(l);
}

static struct tt_link_stats link_of(const struct tt_comm *c, uint32_t peer)
{
    struct tt_link_stats s;
    return tt_transport_link(c->wire.transport, peer, &s) ? s : (struct tt_link_stats){0};
}

tutti_status tt_comm_report_begin(struct tt_comm *c, struct tutti_error *err)
{
    if (!c->config.report || c->size < 2)
        return TUTTI_OK;
    struct tt_log *l = tt_zalloc(1, sizeof *l);
    if (l)
        l->before_bytes = tt_zalloc(c->size, sizeof *l->before_bytes);
    tutti_status st = l && l->before_bytes ? TUTTI_OK : tt_fail_memory(err, "report");
    if (!st && (st = report_all_beat(c, l->beats[0])))
        tt_fail(err, st, "%s", c->last.text);
    if (st) {
        log_free(l);
        return st;
    }
    for (uint32_t r = 0; r < c->size; r++)
        l->before_bytes[r] = link_of(c, r).bytes;
    tt_meter_log_enter(l, c->calls);
    l->first = c->calls + 1;
    c->log = l;
    return TUTTI_OK;
}

/* ---- gathering ---- */

/* How a rank's contribution to the gather is laid out: beats, calls, links. */
struct parts {
    uint32_t calls;
    size_t calls_at, links_at, bytes;
};

/* All ranks have made the same number of calls, so all compute the same layout. */
static struct parts parts_of(const struct tt_comm *c, uint32_t seen)
{
    struct parts p = {.calls = seen < TT_LOG_CALLS - 1 ? seen : TT_LOG_CALLS - 1};
    uint64_t fits = WORK / ((uint64_t)c->size * c->size);
    fits = fits < MIN_CALLS ? MIN_CALLS : fits;
    p.calls = p.calls < fits ? p.calls : (uint32_t)fits;
    p.calls_at = sizeof(struct tt_log_beat[2][TT_LOG_BEATS]);
    p.links_at = p.calls_at + (p.calls + 1) * sizeof(struct tt_log_call);
    p.bytes = p.links_at + c->size * sizeof(struct tt_link_stats);
    return p;
}

/* Fills this rank's contribution: its last calls, and its links without what was sent before the
 * notes began. */
static void report_all_fill(struct tt_comm *c, const struct tt_log *l, uint32_t last,
                            const struct parts *p, char *mine)
{
    struct tt_log_call *calls = (struct tt_log_call *)(void *)(mine + p->calls_at);
    struct tt_link_stats *links = (struct tt_link_stats *)(void *)(mine + p->links_at);
    memcpy(mine, l->beats, sizeof l->beats);
    for (uint32_t i = 0; i <= p->calls; i++)
        calls[i] = l->calls[(last - p->calls + i) % TT_LOG_CALLS];
    for (uint32_t r = 0; r < c->size; r++) {
        links[r] = link_of(c, r);
        links[r].bytes -= l->before_bytes[r];
    }
}

/* ---- printing ---- */

static void say_rank(const struct tt_comm *c, uint32_t r, struct tt_str *s)
{
    const struct tt_boot_peer *p = &tt_boot_peers(c->world->boot)[c->members[r]];
    tt_str_printf(s, "rank %u (host %s, pid %u)", c->members[r], p->host, p->pid);
}

static void say_row(const struct tt_comm *c, uint32_t r, const struct tt_rank_finding *f,
                    struct tt_str *s)
{
    const struct tt_boot_peer *p = &tt_boot_peers(c->world->boot)[c->members[r]];
    char rate[32] = "-";
    if (f->rate > 0)
        tt_format_rate(f->rate, rate, sizeof rate);
    tt_str_printf(s, "tutti: %6u %-16s %8u %12.3f %12.3f %12.3f   %s\n", c->members[r], p->host,
                  p->pid, (double)f->in_calls_ns / 1e6, (double)f->awaited_ns / 1e6,
                  (double)f->late_ns / 1e6, rate);
}

static void say_slowest(const struct tt_comm *c, const struct tt_findings *f, uint32_t calls,
                        struct tt_str *s)
{
    const struct tt_rank_finding *x = &f->rank[f->slowest];
    char a[32], b[32];
    tt_str_printf(s, "tutti: slowest rank: ");
    if (f->why == TT_SLOW_NOBODY) {
        tt_str_printf(s, "none stands out\n");
        return;
    }
    say_rank(c, f->slowest, s);
    if (f->why == TT_SLOW_LATE)
        tt_str_printf(s,
                      " arrived late in %u of %u calls: it was still working while the others "
                      "waited %.3f ms each\n",
                      x->late_calls, calls, (double)x->late_ns / 1e6);
    else if (x->rate < f->usual_rate)
        tt_str_printf(s,
                      " sent slowly: its fastest link reaches %s where %s are usual, which cost at "
                      "least %.3f ms\n",
                      tt_format_rate(x->rate, a, sizeof a),
                      tt_format_rate(f->usual_rate, b, sizeof b), (double)x->slow_ns / 1e6);
    else
        tt_str_printf(
            s, " sent slowly: not all its links reach the usual %s, which cost at least %.3f ms\n",
            tt_format_rate(f->usual_rate, b, sizeof b), (double)x->slow_ns / 1e6);
}

static void say_link(const struct tt_comm *c, const struct tt_findings *f, struct tt_str *s)
{
    char a[32], b[32], u[32];
    if (f->link_rate <= 0) {
        tt_str_printf(s, "tutti: slowest link: not known (%s)\n",
                      c->wire.nlocal == c->size ? "all is shared memory"
                                                : "no rank had to wait for much of it");
        return;
    }
    tt_str_printf(s,
                  "tutti: slowest link: from rank %u to rank %u: %s measured (usual: %s; predicted "
                  "for one alone: %s)\n",
                  c->members[f->link_from], c->members[f->link_to],
                  tt_format_rate(f->link_rate, a, sizeof a),
                  tt_format_rate(f->usual_rate, u, sizeof u),
                  tt_format_rate((double)c->speeds.tcp.bw, b, sizeof b));
}

/* A line for each change of the members before this communicator (shrink.c). */
static void say_changes(const struct tt_comm *c, struct tt_str *s)
{
    for (const char *at = c->world->history; at && *at;) {
        size_t n = strcspn(at, "\n");
        tt_str_printf(s, "tutti: %.*s\n", (int)(n - 2), at + 2);
        at += n + (at[n] == '\n');
    }
}

static void report_all_print(const struct tt_comm *c, const struct tt_findings *f, uint32_t calls,
                             uint32_t seen)
{
    struct tt_str s = {0};
    char guard[TT_GUARD_WORDS];
    tt_comm_guard(c, guard, sizeof guard);
    tt_str_printf(
        &s, "tutti: report of %u ranks%s, the last %u of %u calls; sockets: %s; times in ms\n",
        c->size, c->id ? " (a split)" : "", calls, seen, guard);
    tt_str_printf(&s, "tutti: %6s %-16s %8s %12s %12s %12s   %s\n", "rank", "host", "pid",
                  "in calls", "awaited", "of it late", "fastest link");
    for (uint32_t r = 0; r < c->size && r < ROWS; r++)
        say_row(c, r, &f->rank[r], &s);
    if (c->size > ROWS)
        tt_str_printf(&s, "tutti: ... and %u more ranks\n", c->size - ROWS);
    say_slowest(c, f, calls, &s);
    say_link(c, f, &s);
    say_changes(c, &s);
    if (!s.failed)
        fputs(s.s, stderr);
    tt_str_free(&s);
}

/* ---- at rank 0 ---- */

struct tables {
    struct tt_log_beat (*beats)[2][TT_LOG_BEATS];
    struct tt_log_call *log;
    struct tt_link_stats *links;
    bool *same_clock;
    struct tt_rank_finding *rank;
    int64_t *scratch;
};

static void tables_free(struct tables *t)
{
    free(t->beats);
    free(t->log);
    free(t->links);
    free(t->same_clock);
    free(t->rank);
    free(t->scratch);
}

static bool tables_make(uint32_t n, const struct parts *p, struct tables *t)
{
    t->beats = tt_alloc(n, sizeof *t->beats);
    t->log = tt_alloc((size_t)n * (p->calls + 1), sizeof *t->log);
    t->links = tt_alloc((size_t)n * n, sizeof *t->links);
    t->same_clock = tt_alloc(n, sizeof *t->same_clock);
    t->rank = tt_zalloc(n, sizeof *t->rank);
    t->scratch = tt_alloc(n, sizeof *t->scratch);
    return t->beats && t->log && t->links && t->same_clock && t->rank && t->scratch;
}

/* Rank 0: sorts the contributions into tables, evaluates them and prints. Without memory there is
 * no report. */
static void report_all_conclude(const struct tt_comm *c, const struct parts *p, const char *all,
                                uint32_t seen)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    struct tables t = {0};
    if (tables_make(c->size, p, &t)) {
        for (uint32_t r = 0; r < c->size; r++) {
            const char *from = all + r * p->bytes;
            memcpy(t.beats[r], from, sizeof t.beats[r]);
            memcpy(t.log + (size_t)r * (p->calls + 1), from + p->calls_at,
                   (p->calls + 1) * sizeof *t.log);
            memcpy(t.links + (size_t)r * c->size, from + p->links_at, c->size * sizeof *t.links);
            t.same_clock[r] = peers[c->members[r]].host_id == peers[c->members[0]].host_id;
        }
        struct tt_evidence e = {.ranks = c->size,
                                .calls = p->calls,
                                .same_clock = t.same_clock,
                                .beats = t.beats,
                                .log = t.log,
                                .links = t.links};
        struct tt_findings f = {.rank = t.rank};
        tt_meter_find_slow(&e, t.scratch, &f);
        report_all_print(c, &f, p->calls, seen);
    }
    tables_free(&t);
}

void tt_comm_report_drop(struct tt_comm *c)
{
    log_free(c->log);
    c->log = NULL;
}

/* Called while closing, before the barrier there. After a failure there is no report. */
void tt_comm_report_end(struct tt_comm *c)
{
    struct tt_log *l = c->log;
    uint32_t last = c->calls, seen = l ? last + 1 - l->first : 0;
    c->log = NULL;
    if (seen && !c->failed) {
        struct parts p = parts_of(c, seen);
        char *mine = tt_zalloc(1, p.bytes), *all = c->rank == 0 ? tt_alloc(c->size, p.bytes) : NULL;
        struct tt_call gather = {
            .coll = TUTTI_GATHER, .in = mine, .out = all, .count = p.bytes, .dtype = TUTTI_U8};
        bool ok = mine && (all || c->rank != 0) && !report_all_beat(c, l->beats[1]);
        if (ok)
            report_all_fill(c, l, last, &p, mine);
        if (ok && !tt_comm_run(c, &gather) && all)
            report_all_conclude(c, &p, all, seen);
        free(mine);
        free(all);
    }
    log_free(l);
}
