/* Calls of all-reduce, before each of which one rank sleeps. Run it with `tutti run` and TUTTI_REPORT=1.
 * Usage: slow RANK MILLISECONDS BYTES CALLS [split|start|own]
 * split: on a communicator of all ranks in reverse order. start: persistent requests. own: the others' own reports must name that rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

static struct tutti_comm *comm;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, why);
    exit(1);
}

static void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void split(void)
{
    struct tutti_error err;
    struct tutti_comm *part;
    if (tutti_comm_split(comm, 0, -(int)tutti_comm_rank(comm), &part, &err))
        die("split", err.text);
    tutti_comm_close(comm);
    comm = part;
}

/* What this rank alone has seen names the one that slept. */
static void check_own(long who)
{
    struct tutti_error err;
    char *text, want[64];
    if (tutti_comm_report(comm, &text, &err))
        die("report", err.text);
    snprintf(want, sizeof want, "slowest rank: %ld (arrived late by", who);
    if (!strstr(text, want))
        die("another rank is named", text);
    free(text);
}

int main(int argc, char **argv)
{
    struct tutti_error err;
    struct tutti_request *request = NULL;
    if (argc < 5)
        return 2;
    long who = atol(argv[1]), ms = atol(argv[2]), bytes = atol(argv[3]), calls = atol(argv[4]);
    const char *how = argc > 5 ? argv[5] : "";
    float *x = calloc((size_t)bytes / 4 + 1, sizeof *x);
    if (tutti_comm_open(NULL, &comm, &err))
        die("open", err.text);
    long rank = tutti_comm_rank(comm);
    if (!strcmp(how, "split"))
        split();
    size_t count = (size_t)bytes / 4;
    if (!strcmp(how, "start") && tutti_allreduce_init(comm, x, x, count, TUTTI_F32, TUTTI_SUM, &request))
        die("init", tutti_comm_last_error(comm)->text);
    for (long i = 0; i < calls; i++) {
        if (rank == who)
            nap(ms);
        tutti_status st = request ? tutti_request_start(request) : tutti_allreduce(comm, x, x, count, TUTTI_F32, TUTTI_SUM);
        if (!st && request)
            st = tutti_request_wait(request);
        if (st)
            die("allreduce", tutti_comm_last_error(comm)->text);
    }
    if (!strcmp(how, "own") && rank != who)
        check_own(who);
    tutti_request_free(request);
    tutti_comm_close(comm);
    free(x);
    return 0;
}
