/* sim_files.c - the files of tutti sim: --timeline (the trace event format that Perfetto and
 * chrome://tracing open) and --links (CSV).
 *
 * Timeline: a process per rank, with tracks "send", "receive" and "reduce". A message is shown at
 * both ends, from the departure of its first byte to the arrival of its last. Slices of one track
 * must not overlap, so a rank with several messages at once gets more lanes:
 *
 *     send     |--A--|   |--D--|
 *     send 2     |--B--------|
 *     send 3       |--C--|
 *
 * The lists come ordered by start, and each slice goes to the first lane that is free by then: this
 * greedy rule uses no more lanes than there are slices at once. */
#include "cli/sim.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

enum track { TRACK_SEND, TRACK_RECEIVE, TRACK_REDUCE, TRACKS };
static const char *const track_names[TRACKS] = {"send", "receive", "reduce"};
enum { TRACK_SHIFT = 20 }; /* thread id of a track: kind << TRACK_SHIFT | number */

struct lanes {
    uint64_t *free_at; /* per lane: when its last slice ends */
    size_t n;
};

struct timeline {
    FILE *out;
    const struct sim_answer *x;
    struct lanes *lanes; /* by rank * TRACKS + track */
    bool any;            /* something was written: a comma is due */
};

/* The first lane that is free at start_ps, or a new one; SIZE_MAX when out of memory. */
static size_t take_lane(struct lanes *l, uint64_t start_ps, uint64_t end_ps)
{
    size_t i = 0;
    while (i < l->n && l->free_at[i] > start_ps)
        i++;
    if (i == l->n) {
        uint64_t *more = realloc(l->free_at, (l->n + 1) * sizeof *more);
        if (!more)
            return SIZE_MAX;
        l->free_at = more;
        l->n++;
    }
    /* A slice of no length still takes its lane for a moment, so that equal ones do not overlap. */
    l->free_at[i] = end_ps > start_ps ? end_ps : start_ps + 1;
    return i;
}

/* Events are separated by commas; the first has none before it. */
static void comma(struct timeline *t)
{
    fputs(t->any ? ",\n" : "\n", t->out);
    t->any = true;
}

/* Microseconds with six decimals: exact, since the simulator counts picoseconds. */
static void put_us(FILE *out, uint64_t ps)
{
    fprintf(out, "%llu.%06u", (unsigned long long)(ps / 1000000), (unsigned)(ps % 1000000));
}

/* One bar of the timeline. */
struct slice {
    uint32_t rank, step;
    enum track track;
    uint64_t bytes, start_ps, end_ps;
};

/* Writes a slice up to its first arguments; the caller adds further arguments, the name and the
 * closing braces. False when out of memory. */
static bool begin_slice(struct timeline *t, const struct slice *s)
{
    size_t lane = take_lane(&t->lanes[(size_t)s->rank * TRACKS + s->track], s->start_ps, s->end_ps);
    if (lane == SIZE_MAX)
        return false;
    comma(t);
    fprintf(t->out, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%zu,\"ts\":", s->rank,
            (size_t)s->track << TRACK_SHIFT | lane);
    put_us(t->out, s->start_ps);
    fputs(",\"dur\":", t->out);
    put_us(t->out, s->end_ps - s->start_ps);
    fprintf(t->out, ",\"args\":{\"step\":%u,\"bytes\":%llu", s->step, (unsigned long long)s->bytes);
    return true;
}

/* One end of a message, with the time that it waited before it could start. */
static bool put_message(struct timeline *t, const struct tutti_sim_event *e, enum track track)
{
    bool sent = track == TRACK_SEND;
    /* The other end. */
    uint32_t peer = sent ? e->dst : e->src;
    char size[64];
    struct slice s = {sent ? e->src : e->dst, e->step, track, e->bytes, e->start_ps, e->end_ps};
    if (!begin_slice(t, &s))
        return false;
    fprintf(t->out, ",\"peer\":%u,\"channel\":%u,\"segment\":%u,\"waited_us\":", peer, e->channel,
            e->segment);
    put_us(t->out, e->start_ps > e->ready_ps ? e->start_ps - e->ready_ps : 0);
    fprintf(t->out, "},\"name\":\"step %u: %s %s rank %u\"}", e->step,
            tutti_format_size(e->bytes, size, sizeof size), sent ? "to" : "from", peer);
    return true;
}

/* A reduction, on the track "reduce" of its rank. */
static bool put_reduction(struct timeline *t, const struct tutti_sim_work *w)
{
    char size[64];
    struct slice s = {w->rank, w->step, TRACK_REDUCE, w->bytes, w->start_ps, w->end_ps};
    if (!begin_slice(t, &s))
        return false;
    fprintf(t->out, "},\"name\":\"step %u: reduce %s\"}", w->step,
            tutti_format_size(w->bytes, size, sizeof size));
    return true;
}

/* The name of one lane, and its place: lanes of a kind stay together, because the id sorts them. */
static void put_track(struct timeline *t, uint32_t rank, size_t track, size_t lane)
{
    size_t tid = track << TRACK_SHIFT | lane;
    comma(t);
    fprintf(t->out,
            "{\"ph\":\"M\",\"pid\":%u,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":\"%s",
            rank, tid, track_names[track]);
    if (lane)
        fprintf(t->out, " %zu", lane + 1);
    fputs("\"}}", t->out);
    comma(t);
    fprintf(t->out,
            "{\"ph\":\"M\",\"pid\":%u,\"tid\":%zu,\"name\":\"thread_sort_index\",\"args\":{\"sort_"
            "index\":%zu}}",
            rank, tid, tid);
}

/* Names and order of processes and tracks. Last, because the number of lanes is known only then. */
static void put_names(struct timeline *t, uint32_t ranks)
{
    char number[32], name[400];
    for (uint32_t r = 0; r < ranks; r++) {
        tutti_topo_vertex_name(t->x->t, r, name, sizeof name);
        snprintf(number, sizeof number, "rank %u", r);
        comma(t);
        fprintf(t->out,
                "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"%s", r,
                number);
        if (strcmp(name, number)) {
            fputs(" (", t->out);
            cli_put_json_text(t->out, name);
            fputc(')', t->out);
        }
        fputs("\"}}", t->out);
        comma(t);
        fprintf(t->out,
                "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":"
                "%u}}",
                r, r);
        for (size_t track = 0; track < TRACKS; track++)
            for (size_t lane = 0; lane < t->lanes[(size_t)r * TRACKS + track].n; lane++)
                put_track(t, r, track, lane);
    }
}

bool cli_sim_write_timeline(const struct sim_answer *x, FILE *out)
{
    uint32_t ranks = tutti_topo_ranks(x->t);
    struct timeline t = {
        .out = out, .x = x, .lanes = calloc((size_t)ranks * TRACKS, sizeof *t.lanes)};
    struct tutti_sim_event e;
    struct tutti_sim_work w;
    bool ok = t.lanes != NULL;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    for (size_t i = 0; ok && tutti_sim_event(x->sim, i, &e); i++)
        ok = put_message(&t, &e, TRACK_SEND) && put_message(&t, &e, TRACK_RECEIVE);
    for (size_t i = 0; ok && tutti_sim_work(x->sim, i, &w); i++)
        ok = put_reduction(&t, &w);
    if (ok)
        put_names(&t, ranks);
    fputs("\n]}\n", out);
    for (size_t i = 0; t.lanes && i < (size_t)ranks * TRACKS; i++)
        free(t.lanes[i].free_at);
    free(t.lanes);
    return ok;
}

/* One field of a CSV file, quoted when it contains a comma, a quote or a line end (RFC 4180). */
static void put_field(FILE *out, const char *s)
{
    bool quote = strpbrk(s, ",\"\r\n") != NULL;
    if (quote)
        fputc('"', out);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', out);
        fputc(*s, out);
    }
    if (quote)
        fputc('"', out);
}

void cli_sim_write_links(const struct sim_answer *x, FILE *out)
{
    struct tutti_sim_link l;
    char name[400];
    fputs("link,name,bandwidth_bytes_per_s,bytes,busy_us,utilisation,peak_messages\n", out);
    for (uint32_t i = 0; tutti_sim_link(x->sim, i, &l); i++) {
        fprintf(out, "%u,", i);
        put_field(out, tutti_topo_link_name(x->t, i, name, sizeof name));
        fprintf(out, ",%.15g,%llu,%.6f,%.6f,%u\n", l.bytes_per_s, (unsigned long long)l.bytes,
                l.busy_us, l.utilisation, l.peak);
    }
}
