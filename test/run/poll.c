/* Requests that are only tested or joined, never waited for. Run it with `tutti run -n 3`; the first word says what happens:
 *
 *     done    every rank starts and tests until it is done: the right sum; a request that is not under way tests as done and starts again
 *     late    the last rank never starts: testing ends with the deadline's error, which names it
 *     dead    the last rank dies: testing ends with the verdict, which names it; dead-join: joining does
 *
 * Ranks that were told print "told: " and the words; after that, every further test and start gives an error too. With `late` the second
 * word is a directory where they say so to the last rank, which leaves when all have. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/tool.h"

enum { COUNT = 200003, ROUNDS = 20, PATIENCE = 6000 };
static struct tutti_comm *comm;
static uint32_t rank, ranks;
static float in[COUNT], out[COUNT];
static bool joining;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "rank %u: FAILED: %s: %s\n", rank, what, why);
    exit(1);
}

static void must(tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_comm_last_error(comm)->text);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static tutti_status test_until_decided(struct tutti_request *r)
{
    tutti_status st;
    if (joining)
        return tutti_request_join(r);
    while ((st = tutti_request_test(r)) == TUTTI_IN_PROGRESS)
        if (rank % 2) /* some are eager, some are not */
            nap();
    return st;
}

static void all_done(struct tutti_request *r)
{
    for (int round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < COUNT; i++)
            in[i] = (float)(round * (int)(rank + 1));
        joining = round % 4 == (int)rank;
        must(tutti_request_test(r), "test before start");
        must(tutti_request_start(r), "start");
        must(test_until_decided(r), "test");
        for (size_t i = 0; i < COUNT; i++)
            if (out[i] != (float)(round * (int)(ranks * (ranks + 1) / 2)))
                die("sum", "wrong");
        must(joining ? tutti_request_join(r) : tutti_request_test(r), "test after the end");
    }
}

static void marker(char *buf, size_t cap, const char *directory, uint32_t r)
{
    snprintf(buf, cap, "%s/told.%u", directory, r);
}

static void told(struct tutti_request *r, const char *directory)
{
    char path[1024], words[64];
    tutti_status st = tutti_request_start(r); /* who is slow may hear of a death here already */
    st = st ? st : test_until_decided(r);
    snprintf(words, sizeof words, "rank %u", ranks - 1);
    if (st >= 0)
        die("test", "done without the last rank");
    if (!strstr(tutti_comm_last_error(comm)->text, words))
        die("the error does not name the last rank", tutti_comm_last_error(comm)->text);
    printf("told: %s\n", tutti_comm_last_error(comm)->text);
    if (tutti_request_test(r) >= 0 || tutti_request_wait(r) >= 0 || tutti_request_join(r) >= 0)
        die("the request", "failed, and says later that it has not");
    if (tutti_request_start(r) == TUTTI_OK || tutti_request_test(r) >= 0)
        die("the request", "works after the communicator has failed");
    marker(path, sizeof path, directory, rank);
    FILE *f = fopen(path, "w");
    if (!f || fclose(f))
        die("marker", path);
}

/* The last rank stays until everybody was told. */
static void stay(const char *directory)
{
    char path[1024];
    for (uint32_t r = 0, tries = 0; r + 1 < ranks; tries++) {
        marker(path, sizeof path, directory, r);
        if (access(path, F_OK) == 0)
            r++;
        else if (tries > PATIENCE)
            die("nobody was told", path);
        else
            nap();
    }
}

int main(int argc, char **argv)
{
    struct tutti_error err;
    struct tutti_request *r;
    const char *what = argc > 1 ? argv[1] : "done", *directory = argc > 2 ? argv[2] : ".";
    if (tutti_comm_open(NULL, &comm, &err))
        die("open", err.text);
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    joining = strstr(what, "-join") != NULL;
    must(tutti_allreduce_init(comm, in, out, COUNT, TUTTI_F32, TUTTI_SUM, &r), "init");
    must(tutti_barrier(comm), "barrier");
    if (!strcmp(what, "done"))
        all_done(r);
    else if (rank + 1 < ranks)
        told(r, directory);
    else if (!strncmp(what, "dead", 4))
        raise(SIGKILL);
    else
        stay(directory);
    tutti_request_free(r);
    tutti_comm_close(comm);
    return 0;
}
