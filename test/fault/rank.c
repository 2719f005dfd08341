/* rank.c - a rank of a fault test: all-reduces in a loop until something fails, makes the faults a rank makes itself, and tells the parent
 * what it was told, when, and what it left behind. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "round.h"

enum { WARM = 6, BREAK = 9 };

void __tsan_init(void) __attribute__((weak)); /* that sanitizer has a thread of its own */

int count_entries(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    int n = 0;
    if (!d)
        return -1;
    while ((e = readdir(d)))
        n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

/* Threads more than there should be. One that has been joined may stay in the list for a moment. */
static int threads_left(int expected)
{
    int left = 1;
    for (int i = 0; left > 0 && i < 1000; i++) {
        left = count_entries("/proc/self/task", "") - expected;
        if (left > 0)
            usleep(1000);
    }
    return left;
}

static tutti_status reduce(struct tt_comm *c, const float *in, float *out, size_t count)
{
    struct tt_call call = {.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = count, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
    return tt_comm_run(c, &call);
}

/* Rank i gives i + 1. */
static bool right(const float *out, const struct round *r, uint32_t rank)
{
    float sum = 0;
    for (uint32_t i = 0; i < r->n; i++)
        sum += !r->split || i % 2 == rank % 2 ? (float)(i + 1) : 0;
    for (size_t i = 0; i < r->count; i++)
        if (out[i] != sum)
            return false;
    return true;
}

void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

uint64_t round_moment(const struct round *r)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t t = atomic_load(&r->reports[i].started_ns);
        if (t == 0)
            return 0;
        last = t > last ? t : last;
    }
    return last + atomic_load(&r->reports[r->victim].usual_ns) * r->tenths_of_percent / 1000;
}

double round_phase(const struct round *r, uint64_t at)
{
    uint64_t usual = atomic_load(&r->reports[r->victim].usual_ns);
    if (!at || !usual)
        return -1;
    return 100 * ((double)at - (double)round_moment(r)) / (double)usual + r->tenths_of_percent / 10.0;
}

static tutti_status misbehave(struct tt_comm *c, const struct round *r, const float *in, float *out)
{
    uint64_t at;
    if (r->fault < MISMATCH || r->fault > ABORT)
        return reduce(c, in, out, r->count);
    while ((at = round_moment(r)) == 0)
        usleep(100);
    sleep_until(r->fault == LATE ? at + TIMEOUT + SECOND / 2 : at);
    if (r->fault == ABORT)
        tt_comm_abort(c, "because the test says so");
    return reduce(c, in, out, r->fault == MISMATCH ? r->count / 2 : r->count);
}

/* Until something fails. */
static tutti_status work(struct tt_comm *c, uint32_t me, struct round *r, const float *in, float *out)
{
    struct report *rep = &r->reports[me];
    tutti_status st = TUTTI_OK;
    uint64_t from = tt_now_ns(), until = from + LIMIT / 2;
    for (uint64_t i = 0; !st && tt_now_ns() < until; i++) {
        if (i == WARM)
            from = tt_now_ns();
        if (i == BREAK) {
            atomic_store(&rep->usual_ns, (tt_now_ns() - from) / (BREAK - WARM));
            atomic_store(&rep->started_ns, tt_now_ns());
        }
        memset(out, 0, r->count * sizeof *out);
        st = i == BREAK && me == r->victim ? misbehave(c, r, in, out) : reduce(c, in, out, r->count);
        rep->wrong = rep->wrong || (!st && !right(out, r, me));
    }
    return st;
}

/* The operation has failed: nobody may write into this rank's output any more. */
static bool left_alone(float *out)
{
    memset(out, 0x5a, LONG * sizeof *out);
    usleep(30000);
    for (size_t i = 0; i < LONG * sizeof *out; i++)
        if (((const unsigned char *)out)[i] != 0x5a)
            return false;
    return true;
}

static void run_job(struct tt_comm *world, uint32_t rank, struct round *r)
{
    struct report *rep = &r->reports[rank];
    struct tutti_error err = {0};
    float *in = malloc(LONG * sizeof *in), *own = malloc(LONG * sizeof *own), *out = own;
    struct tt_comm *c = world;
    void *memory = NULL;
    rep->opened = in && own ? TUTTI_OK : TUTTI_ERR_MEMORY;
    if (!rep->opened && r->split)
        rep->opened = tt_comm_split(world, (int)rank % 2, 0, &c, &err);
    if (!rep->opened && r->shared)
        rep->opened = tt_comm_mem_alloc(c, LONG * sizeof *out, &memory, &err);
    out = memory ? memory : out;
    for (size_t i = 0; in && i < LONG; i++)
        in[i] = (float)(rank + 1);
    if (!rep->opened) {
        rep->status = work(c, rank, r, in, out);
        rep->failed_ns = tt_now_ns();
        rep->wrong = rep->wrong || !left_alone(out);
        snprintf(rep->text, sizeof rep->text, "%s", tt_comm_last_error(c)->text);
        rep->again = reduce(world, in, out, 1);
        snprintf(rep->text_again, sizeof rep->text_again, "%s", tt_comm_last_error(world)->text);
        if (memory)
            tt_comm_mem_free(c, memory);
        if (r->split)
            tt_comm_close(c);
    } else {
        snprintf(rep->text, sizeof rep->text, "%s", err.text);
    }
    free(in);
    free(own);
}

void round_be_rank(uint32_t rank, struct round *r, const struct tt_comm_config *config)
{
    struct report *rep = &r->reports[rank];
    struct tutti_error err = {0};
    struct tt_comm *c;
    int fds = count_entries("/proc/self/fd", ""), threads = count_entries("/proc/self/task", "");
    rep->pid = (uint32_t)getpid();
    rep->opened = tt_comm_open(config, &c, &err);
    snprintf(rep->text, sizeof rep->text, "%s", err.text);
    if (!rep->opened) {
        run_job(c, rank, r);
        tt_comm_close(c);
    }
    rep->fds = count_entries("/proc/self/fd", "") - fds;
    rep->threads = threads_left(threads + (__tsan_init != NULL));
    atomic_store(&rep->done, true);
    exit(rep->opened != TUTTI_OK); /* with leak check */
}

void nap(uint64_t us, uint64_t *stalled)
{
    uint64_t from = tt_now_ns();
    usleep((useconds_t)us);
    uint64_t took = tt_now_ns() - from;
    if (took > SECOND / 100)
        *stalled += took;
}
