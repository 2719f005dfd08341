/* How opening, all-reduces and descriptors grow with the ranks, over sockets. Run it with `tutti run -n 24`, TUTTI_TRANSPORT=tcp, or by
 * bench/scale. Rank 0 prints; the numbers are gathered at the end, so that gathering opens nothing before it is counted.
 *
 * It fails when a sum is wrong, or when a rank has more descriptors than the neighbours of its schedules explain: OWN (rank 0: and one for
 * each rank), one for each peer of an algorithm that it has used, and two for each peer of the next one, since a rank that is ahead may
 * have begun with it, and both may dial. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

enum { COUNT = 4096, OWN = 16 };

static const struct {
    const char *algo;
    uint32_t fixed, per_log; /* peers of a rank, both ways: a number, and so many times log2 of the ranks */
} tries[] = {{"ring", 2, 0}, {"circulant", 0, 2}, {"halving-doubling", 2, 1}};
enum { TRIES = sizeof tries / sizeof *tries };

struct row {
    uint64_t open_ns, first_ns[TRIES], next_ns[TRIES];
    uint32_t before, opened, after[TRIES];
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, why);
    exit(1);
}

static uint32_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint32_t n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n < 3 ? 0 : n - 3; /* ., .. and its own */
}

static uint64_t sum_once(struct tt_comm *c, const char *algo)
{
    static float in[COUNT], out[COUNT];
    uint32_t n = tt_comm_size(c), rank = tt_comm_rank(c);
    for (uint32_t i = 0; i < COUNT; i++)
        in[i] = (float)(rank + i % 7);
    uint64_t start = tt_now_ns();
    struct tt_call call = {.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = COUNT, .dtype = TUTTI_F32, .algo = algo};
    if (tt_comm_run(c, &call))
        die(algo, tt_comm_last_error(c)->text);
    uint64_t ns = tt_now_ns() - start;
    for (uint32_t i = 0; i < COUNT; i++)
        if (out[i] != (float)(n * (n - 1) / 2 + n * (i % 7)))
            die(algo, "the sum is wrong");
    return ns;
}

static uint32_t log_of(uint32_t n)
{
    uint32_t bits = 0;
    while (n > 1u << bits)
        bits++;
    return bits;
}

static void check(const struct row *r, uint32_t rank, uint32_t n)
{
    char text[160];
    uint32_t used = r->before + OWN + (rank == 0 ? n : 0);
    for (uint32_t i = 0; i <= TRIES; i++) {
        uint32_t has = i ? r->after[i - 1] : r->opened;
        uint32_t peers = i < TRIES ? tries[i].fixed + tries[i].per_log * log_of(n) : 0;
        snprintf(text, sizeof text, "rank %u has %u after %s, at most %u are right", rank, has, i ? tries[i - 1].algo : "opening",
                 used + 2 * peers);
        if (has > used + 2 * peers)
            die("descriptors", text);
        used += peers;
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* One line; `at` is the place of the number of descriptors in a row. */
static void print_line(const char *what, const struct row *rows, uint32_t n, size_t at, const double ms[2])
{
    uint32_t *sorted = calloc(n, sizeof *sorted);
    for (uint32_t r = 0; sorted && r < n; r++)
        memcpy(&sorted[r], (const char *)&rows[r] + at, sizeof *sorted);
    if (!sorted)
        die("report", "no memory");
    uint32_t root = sorted[0];
    qsort(sorted + 1, n - 1, sizeof *sorted, by_size);
    char next[32] = "";
    if (ms[1] > 0)
        snprintf(next, sizeof next, "%.1f", ms[1]);
    printf("%-18s %10.1f %10s   %6u %6u %6u   %6u\n", what, ms[0], next, sorted[1], sorted[1 + (n - 1) / 2], sorted[n - 1], root);
    free(sorted);
}

static void print_all(const struct row *rows, uint32_t n)
{
    double ms[1 + TRIES][2] = {{0}};
    for (uint32_t r = 0; r < n; r++) {
        double open = (double)rows[r].open_ns / 1e6;
        ms[0][0] = open > ms[0][0] ? open : ms[0][0];
        for (uint32_t i = 0; i < TRIES; i++) {
            double first = (double)rows[r].first_ns[i] / 1e6, next = (double)rows[r].next_ns[i] / 1e6;
            ms[1 + i][0] = first > ms[1 + i][0] ? first : ms[1 + i][0];
            ms[1 + i][1] = next > ms[1 + i][1] ? next : ms[1 + i][1];
        }
    }
    printf("%u ranks, all-reduce of %d bytes; times of the slowest rank in ms; descriptors of the ranks but 0, and of rank 0\n", n,
           COUNT * 4);
    printf("%-18s %10s %10s   %6s %6s %6s   %6s\n", "", "first", "next", "min", "median", "max", "rank 0");
    print_line("open", rows, n, offsetof(struct row, opened), ms[0]);
    for (uint32_t i = 0; i < TRIES; i++)
        print_line(tries[i].algo, rows, n, offsetof(struct row, after) + i * sizeof(uint32_t), ms[1 + i]);
}

int main(void)
{
    struct row mine = {.before = descriptors()};
    struct tt_comm_config config;
    struct tutti_error err;
    struct tt_comm *c = NULL;
    uint64_t start = tt_now_ns();
    if (tt_comm_from_env(&config, &err) || tt_comm_open(&config, &c, &err))
        die("open", err.text);
    mine.open_ns = tt_now_ns() - start;
    mine.opened = descriptors();
    uint32_t n = tt_comm_size(c), rank = tt_comm_rank(c);
    for (uint32_t i = 0; i < TRIES; i++) {
        mine.first_ns[i] = sum_once(c, tries[i].algo);
        mine.next_ns[i] = sum_once(c, tries[i].algo);
        mine.after[i] = descriptors();
    }
    struct row *rows = calloc(n, sizeof *rows);
    struct tt_call gather = {.coll = TUTTI_ALL_GATHER, .in = &mine, .out = rows, .count = sizeof mine, .dtype = TUTTI_U8, .algo = "ring"};
    if (!rows || tt_comm_run(c, &gather))
        die("gather", rows ? tt_comm_last_error(c)->text : "no memory");
    if (rank == 0)
        print_all(rows, n);
    check(&mine, rank, n);
    start = tt_now_ns();
    tt_comm_close(c);
    if (rank == 0)
        printf("%-18s %10.1f\n", "close", (double)(tt_now_ns() - start) / 1e6);
    free(rows);
    return 0;
}
