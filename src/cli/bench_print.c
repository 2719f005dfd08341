/* bench_print.c - the table that users of nccl-tests know, or the same as one JSON document: the
 * host of every rank, a row per size, the average.
 *
 *     # rank   0 pid   4711 on node0
 *     #                                       out of place             in place
 *     #    size   count  type redop    time  algbw ...  time  algbw  busbw #wrong   plan, predicted
 *
 * Columns keep their places: a value that was not measured is printed as N/A, or as null in JSON.
 * Rows are printed and flushed as they are measured; JSON is one document that print_end closes. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 64, LISTED = 64 };

/* Where a rank runs. Sent as bytes: all ranks run the same program. */
struct seat {
    uint32_t pid;
    char host[HOST_BYTES];
};

/* A barrier has neither sizes nor bandwidths: its columns say so. */
static bool is_barrier(const struct bench *b)
{
    return b->p.coll == TUTTI_BARRIER;
}

/* The reduction's name, or "none" for collectives that do not reduce. */
static const char *redop_of(const struct bench *b)
{
    tutti_coll c = b->p.coll;
    bool reduces = c == TUTTI_ALLREDUCE || c == TUTTI_REDUCE_SCATTER || c == TUTTI_REDUCE;
    return reduces ? tutti_redop_name(b->p.op) : "none";
}

/* ---- hosts of the ranks ---- */

/* Collective. *ret has the seats of all ranks on rank 0 (zeroed elsewhere); the
 * caller frees it. */
static tutti_status gather_seats(struct bench *b, struct seat **ret)
{
    struct seat mine = {.pid = (uint32_t)getpid()}, *all = calloc(b->p.ranks, sizeof *all);
    if (!all)
        return TUTTI_ERR_MEMORY;
    gethostname(mine.host, sizeof mine.host - 1);
    tutti_status st = tutti_gather(b->comm, &mine, all, sizeof mine, TUTTI_U8, 0);
    if (st)
        free(all);
    else
        *ret = all;
    return st;
}

static void json_seats(struct bench *b, const struct seat *all)
{
    tutti_json_array(b->json, "seats");
    for (uint32_t r = 0; r < b->p.ranks; r++) {
        tutti_json_object(b->json, NULL);
        tutti_json_u64(b->json, "rank", r);
        tutti_json_string(b->json, "host", all[r].host);
        tutti_json_u64(b->json, "pid", all[r].pid);
        tutti_json_end(b->json);
    }
    tutti_json_end(b->json);
}

/* One line per rank, or per run of consecutive ranks on one host when there are more than
 * LISTED. */
static void print_seats(const struct bench *b, const struct seat *all)
{
    uint32_t n = b->p.ranks, first = 0;
    for (uint32_t r = 0; r < n && n <= LISTED; r++)
        printf("# rank %3u pid %6u on %s\n", r, all[r].pid, all[r].host);
    for (uint32_t r = 1; r <= n && n > LISTED; r++)
        if (r == n || strcmp(all[r].host, all[first].host)) {
            printf("# ranks %u-%u on %s\n", first, r - 1, all[first].host);
            first = r;
        }
}

/* ---- the head ---- */

/* Words of the headline. */
static const char *mem_words(const struct bench *b)
{
    return b->mem_tutti ? "tutti_mem_alloc'd" : "malloc'd";
}

static const char *place_words(const struct bench *b)
{
    return b->places[0] && b->places[1] ? "out of place and in place"
           : b->places[1]               ? "in place"
                                        : "out of place";
}

static void json_head(struct bench *b, const struct tutti_speeds *s, bool one_rate,
                      const struct seat *seats)
{
    char guard[64];
    tutti_comm_guard(b->comm, guard, sizeof guard);
    b->json = tutti_json_open(stdout);
    tutti_json_object(b->json, NULL);
    tutti_json_string(b->json, "coll", tutti_coll_name(b->p.coll));
    tutti_json_u64(b->json, "ranks", b->p.ranks);
    tutti_json_string(b->json, "dtype", tutti_dtype_name(b->p.dtype));
    tutti_json_string(b->json, "op", redop_of(b));
    tutti_json_string(b->json, "mem", b->mem_tutti ? "tutti" : "malloc");
    tutti_json_bool(b->json, "in_place", !b->places[0]);
    tutti_json_string(b->json, "sockets", guard);
    tutti_json_bool(b->json, "speeds_steady", s->steady);
    tutti_json_bool(b->json, "speeds_of_one_pair", one_rate);
    json_seats(b, seats);
    tutti_json_array(b->json, "rows");
}

/* Prints the four titles once for each way that is measured. */
static void print_columns(const struct bench *b, const char *fmt, const char *const words[4])
{
    for (int i = 0; i < 2; i++)
        if (b->places[i])
            printf(fmt, words[0], words[1], words[2], words[3]);
}

/* Three lines: the two ways, the names of the columns, their units. */
static void print_titles(const struct bench *b)
{
    static const char *const names[] = {"time", "algbw", "busbw", "#wrong"}, *const units[] = {
                                                                                 "(us)", "(GB/s)",
                                                                                 "(GB/s)", ""};
    static const char *const titles[] = {"out of place", "in place"};
    printf("#%11s %12s %8s %6s", "", "", "", "");
    for (int i = 0; i < 2; i++)
        if (b->places[i])
            printf(" %*s%*s", 25, titles[i], 11, "");
    printf("\n#%11s %12s %8s %6s", "size", "count", "type", "redop");
    print_columns(b, " %11s %8s %8s %6s", names);
    printf("   plan, predicted\n#%11s %12s %8s %6s", "(B)", "(elements)", "", "");
    print_columns(b, " %11s %8s %8s %6s", units);
    printf("   (us)\n");
}

/* The first lines of the table. */
static void text_head(const struct bench *b, const struct seat *seats)
{
    char guard[64];
    tutti_comm_guard(b->comm, guard, sizeof guard);
    printf(
        "# tutti %s: %s on %u rank%s, %s buffers, %s; sockets: %s; best of 3 means, slowest rank\n",
        tutti_version(), tutti_coll_name(b->p.coll), b->p.ranks, b->p.ranks == 1 ? "" : "s",
        mem_words(b), place_words(b), guard);
    for (size_t i = 0; i < sizeof b->doubts / sizeof b->doubts[0]; i++)
        if (b->doubts[i][0])
            printf("# %s\n", b->doubts[i]);
    print_seats(b, seats);
    print_titles(b);
}

/* Opening a communicator measures one pair of hosts. With three hosts or more, the predictions
 * assume that all pairs are as fast, unless a topology was given. */
static bool assumes_one_rate(const struct bench *b, const struct seat *seats)
{
    uint32_t hosts = 1;
    for (uint32_t i = 1; i < b->p.ranks; i++) {
        uint32_t k = 0;
        while (k < i && strcmp(seats[k].host, seats[i].host))
            k++;
        hosts += k == i;
    }
    return hosts > 2 && !getenv("TUTTI_TOPO");
}

/* Table and page say these sentences alike. */
static void note_doubts(struct bench *b, const struct tutti_speeds *s, bool one_rate)
{
    if (s->taken > 0 && !s->steady)
        snprintf(b->doubts[0], sizeof b->doubts[0],
                 "speeds were measured while other processes used %.0f%% of the cores: predictions "
                 "may be off",
                 100 * s->taken);
    if (one_rate)
        snprintf(b->doubts[1], sizeof b->doubts[1],
                 "predictions take all hosts to be as fast as the two that were measured; if they "
                 "are not: tutti probe -o net.json, then TUTTI_TOPO=net.json");
}

tutti_status cli_bench_print_head(struct bench *b)
{
    struct seat *seats = NULL;
    struct tutti_speeds speeds = {0};
    struct tutti_error err;
    tutti_status st = gather_seats(b, &seats);
    if (!st)
        st = tutti_comm_speeds(b->comm, false, &speeds, &err);
    if (!st && b->p.rank == 0) {
        bool one_rate = assumes_one_rate(b, seats);
        note_doubts(b, &speeds, one_rate);
        if (cli_flag(b->a, "json"))
            json_head(b, &speeds, one_rate, seats);
        else
            text_head(b, seats);
    }
    free(seats);
    return st;
}

/* ---- rows ---- */

/* A number, or null when it is not known. */
static void json_real_if(struct tutti_json *j, const char *key, bool known, double v)
{
    if (known)
        tutti_json_real(j, key, v);
    else
        tutti_json_null(j, key);
}

/* The fields of one measurement. A barrier moves no bytes and has no bandwidth. */
static void json_time(const struct bench *b, const struct bench_time *t)
{
    tutti_json_real(b->json, "time_us", t->time_us);
    json_real_if(b->json, "algbw_GBs", !is_barrier(b), t->algbw);
    json_real_if(b->json, "busbw_GBs", !is_barrier(b), t->busbw);
    if (b->check)
        tutti_json_u64(b->json, "wrong", t->wrong);
    else
        tutti_json_null(b->json, "wrong");
}

/* The row's own fields are those of out of place, or of in place when only that was measured;
 * with both, in_place is an object of its own. */
static void json_row(const struct bench *b, const struct bench_row *r)
{
    tutti_json_object(b->json, NULL);
    tutti_json_u64(b->json, "bytes", r->bytes);
    tutti_json_u64(b->json, "count", r->bytes / tutti_dtype_bytes(b->p.dtype));
    json_time(b, &r->place[!r->place[0].known]);
    if (r->place[0].known && r->place[1].known) {
        tutti_json_object(b->json, "in_place");
        json_time(b, &r->place[1]);
        tutti_json_end(b->json);
    }
    tutti_json_string(b->json, "algo", r->plan.algo);
    tutti_json_real(b->json, "predicted_us", r->plan.predicted_us);
    if (b->explain)
        cli_bench_explain_json(b->json, &r->explained);
    tutti_json_end(b->json);
}

/* The four columns of one measurement. */
static void print_time(const struct bench *b, const struct bench_time *t)
{
    char algbw[24] = "N/A", busbw[24] = "N/A", wrong[24] = "N/A";
    if (!t->known) {
        printf(" %11s %8s %8s %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    if (!is_barrier(b)) {
        snprintf(algbw, sizeof algbw, "%.3f", t->algbw);
        snprintf(busbw, sizeof busbw, "%.3f", t->busbw);
    }
    if (b->check)
        snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)t->wrong);
    printf(" %11.2f %8s %8s %6s", t->time_us, algbw, busbw, wrong);
}

/* Flushed, so that a row is seen when it is measured, not when a buffer is full. */
static void text_row(const struct bench *b, const struct bench_row *r)
{
    printf("%12llu %12llu %8s %6s", (unsigned long long)r->bytes,
           (unsigned long long)(r->bytes / tutti_dtype_bytes(b->p.dtype)),
           is_barrier(b) ? "none" : tutti_dtype_name(b->p.dtype), redop_of(b));
    for (int i = 0; i < 2; i++)
        if (b->places[i])
            print_time(b, &r->place[i]);
    printf("   %s %.1f\n", r->plan.algo, r->plan.predicted_us);
    /* The time that belongs to the prediction: out of place when it was measured. */
    if (b->explain)
        cli_bench_explain_text(&r->explained, r->place[!r->place[0].known].time_us);
    fflush(stdout);
}

void cli_bench_print_row(const struct bench *b, const struct bench_row *r)
{
    if (b->json)
        json_row(b, r);
    else
        text_row(b, r);
}

/* ---- the end ---- */

/* Closes the arrays and objects that print_head has opened, also after a failure, so that the
 * document stays valid JSON. */
void cli_bench_print_end(struct bench *b)
{
    bool average = b->measured && !is_barrier(b);
    double mean = average ? b->busbw_sum / (double)b->measured : 0;
    if (b->json) {
        tutti_json_end(b->json);
        json_real_if(b->json, "avg_busbw_GBs", average, mean);
        tutti_json_end(b->json);
        tutti_json_close(b->json);
        return;
    }
    if (b->check)
        printf("# wrong values: %llu %s\n", (unsigned long long)b->wrong,
               b->wrong ? "FAILED" : "OK");
    if (average)
        printf("# average bus bandwidth: %.3f GB/s\n", mean);
}
