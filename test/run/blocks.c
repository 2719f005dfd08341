/* blocks.c - all-to-all with blocks of any length on real ranks: empty ones, some that are whole pieces, places in any
 * order with gaps, requests that are started again. With an argument one pair of ranks does not agree about a length, in
 * one of the ways that are hard to see: every rank must be told, long before the deadline.
 *
 *     blocks [more | less | piece | empty | nothing] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/tool.h"

enum { MOST = 16, PIECE = 131072, GAP = 5 };

static struct tutti_comm *comm;
static uint32_t rank, ranks;
static size_t send_counts[MOST], recv_counts[MOST], send_at[MOST], recv_at[MOST];
static unsigned char *in, *out;
static size_t elem, in_elems, out_elems;

static void check(int line, bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "blocks.c:%d: rank %u: %s (%s)\n", line, rank, what, tutti_comm_last_error(comm)->text);
    tutti_comm_abort(comm, "a test failed");
    exit(1);
}
#define CHECK(ok) check(__LINE__, (ok), #ok)

static unsigned mix(unsigned a, unsigned b, unsigned c)
{
    unsigned x = a * 2654435761u + b * 40503u + c * 9973u + 1;
    x ^= x >> 13;
    return x * 2246822519u >> 9;
}

/* Elements that rank s sends to rank d in round `round`. */
static size_t length(unsigned s, unsigned d, unsigned round)
{
    unsigned x = mix(s, d, round);
    switch (x % 5) {
    case 0:
        return 0;
    case 1:
        return PIECE / elem * (1 + x / 5 % 3);
    case 2:
        return PIECE / elem + x % 100;
    default:
        return x % 1000;
    }
}

static unsigned char byte_of(unsigned s, unsigned d, size_t i)
{
    return (unsigned char)(mix(s, d, (unsigned)i) >> 3);
}

/* Blocks by rank, backwards in odd rounds, with gaps. */
static size_t place(const size_t *counts, size_t *at, bool backwards)
{
    size_t end = 0;
    for (uint32_t k = 0; k < ranks; k++) {
        uint32_t r = backwards ? ranks - 1 - k : k;
        at[r] = end;
        end += counts[r] + (backwards ? GAP : 0);
    }
    return end;
}

static void prepare(unsigned round)
{
    for (uint32_t r = 0; r < ranks; r++) {
        send_counts[r] = length(rank, r, round);
        recv_counts[r] = length(r, rank, round);
    }
    in_elems = place(send_counts, send_at, round % 2);
    out_elems = place(recv_counts, recv_at, round % 2);
    in = malloc(in_elems * elem + 1);
    out = malloc(out_elems * elem + 1);
    CHECK(in && out);
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < send_counts[r] * elem; i++)
            in[send_at[r] * elem + i] = byte_of(rank, r, i);
}

static void compare(unsigned round)
{
    for (uint32_t r = 0; r < ranks; r++) {
        for (size_t i = 0; i < recv_counts[r] * elem; i++)
            CHECK(out[recv_at[r] * elem + i] == byte_of(r, rank, i));
        for (size_t i = 0; round % 2 && i < GAP * elem; i++)
            CHECK(out[(recv_at[r] + recv_counts[r]) * elem + i] == 0xee);
    }
    memset(out, 0xee, out_elems * elem);
}

static void try_round(unsigned round, tutti_dtype dtype)
{
    struct tutti_request *request = NULL;
    elem = tutti_dtype_bytes(dtype);
    prepare(round);
    bool packed = round % 2 == 0;
    memset(out, 0xee, out_elems * elem);
    CHECK(!tutti_all_to_all_v(comm, in, send_counts, packed ? NULL : send_at, out, recv_counts, packed ? NULL : recv_at, dtype));
    compare(round);
    CHECK(!tutti_all_to_all_v_init(comm, in, send_counts, send_at, out, recv_counts, recv_at, dtype, &request));
    for (int k = 0; k < 2; k++) {
        CHECK(!tutti_request_start(request) && !tutti_request_wait(request));
        compare(round);
    }
    tutti_request_free(request);
    free(in);
    free(out);
}

/* Mistakes that a rank sees alone leave the communicator as it was. */
static void test_arguments(void)
{
    size_t ones[MOST], same[MOST] = {0}, huge[MOST] = {0};
    static float x[2 * MOST];
    for (uint32_t r = 0; r < ranks; r++)
        ones[r] = 1;
    if (ranks > 1)
        CHECK(tutti_all_to_all_v(comm, x, ones, NULL, x + MOST, ones, same, TUTTI_F32) == TUTTI_ERR_ARG);
    CHECK(tutti_all_to_all_v(comm, x, ones, NULL, x, ones, NULL, TUTTI_F32) == TUTTI_ERR_ARG);
    CHECK(tutti_all_to_all_v(comm, x, NULL, NULL, x + MOST, ones, NULL, TUTTI_F32) == TUTTI_ERR_ARG);
    ones[rank] = 2;
    CHECK(tutti_all_to_all_v(comm, x, ones, NULL, x + MOST, same, NULL, TUTTI_F32) == TUTTI_ERR_ARG);
    CHECK(strstr(tutti_comm_last_error(comm)->text, "sends 2 elements to itself and expects 0"));
    huge[rank] = SIZE_MAX;
    CHECK(tutti_all_to_all_v(comm, x, huge, ones, x + MOST, huge, NULL, TUTTI_F32) < 0);
    CHECK(!tutti_barrier(comm));
}

/* Rank 0 sends something else to rank 1 than that expects. */
static int disagree(const char *how)
{
    size_t sent = 1000, expected = 1000;
    struct timespec a, b;
    elem = 1;
    if (!strcmp(how, "more"))
        expected = 1001;
    else if (!strcmp(how, "less"))
        expected = 999;
    else if (!strcmp(how, "piece")) { /* the first piece is as expected */
        sent = PIECE;
        expected = 2 * (size_t)PIECE;
    } else if (!strcmp(how, "empty"))
        expected = 0;
    else
        sent = 0;
    send_counts[1] = rank == 0 ? sent : 0;
    recv_counts[0] = rank == 1 ? expected : 0;
    in = calloc(3, PIECE);
    out = calloc(3, PIECE);
    CHECK(in && out);
    clock_gettime(CLOCK_MONOTONIC, &a);
    tutti_status st = tutti_all_to_all_v(comm, in, send_counts, NULL, out, recv_counts, NULL, TUTTI_U8);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (!st) /* its own part was done before the two found out: its next call fails */
        st = tutti_barrier(comm);
    printf("rank %u: %d after %lds: %s\n", rank, st, (long)(b.tv_sec - a.tv_sec), tutti_comm_last_error(comm)->text);
    if (rank > 1) /* may also hear that one of the two has left, after its error */
        return st >= 0;
    return st != TUTTI_ERR_DIFFERS || !strstr(tutti_comm_last_error(comm)->text, "mismatched");
}

int main(int argc, char **argv)
{
    static const tutti_dtype dtypes[] = {TUTTI_U8, TUTTI_F64, TUTTI_OPAQUE16, TUTTI_U16};
    struct tutti_error err;
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    CHECK(ranks <= MOST);
    if (argc > 1)
        return disagree(argv[1]);
    for (unsigned round = 0; round < 12; round++)
        try_round(round, dtypes[round % 4]);
    test_arguments();
    tutti_comm_close(comm);
    return 0;
}
