/* elastic.c - a job whose members come and go: elastic STEPS [COUNT [PAUSE_US [EVERY]]].
 *
 * "Training" whose every step can be repeated by one process: parameters move by the mean of
 * gradients that depend on step, rank and number of ranks only. A step that fails is repeated by
 * those who live; newcomers, and ranks that missed the last step, get the parameters from the
 * lowest rank that has them. The numbers of ranks of all steps travel with the parameters, so that
 * at the end each process repeats the whole history alone and compares every bit (this needs
 * TUTTI_REPRODUCIBLE=1). Prints, a line each:
 *
 *     CHANGE number size time      the first step after a change is done (monotonic clock, ns)
 *     STEP step time               every hundredth step
 *     OUT status text              this process is no member any more, or never was
 *     END step hash size changes   all steps are done, and the replay is equal
 *     BAD what                     something is wrong
 *
 * STEPS is the most; the job ends sooner when the file ELASTIC_STOP appears, after the same step on
 * all ranks, since the wish to stop travels with the gradients.
 *
 * ELASTIC_DIE=rank: the process that was started as this rank kills itself in step 200; with
 * ELASTIC_AGAIN=1 so does the one that takes its place, 20 steps after it came. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "run/elastic.h"

static size_t count = 1000;
static uint64_t every = 4; /* steps between two admissions; 0: none */
static uint64_t limit, steps = 1000, step; /* limit: of steps at first */
static float *params, *grad;
static uint32_t *sizes; /* of each step done */

/* In [-1, 1), the same wherever it is computed. */
static float value(uint64_t s, uint32_t rank, uint32_t size, size_t i)
{
    return (float)(int32_t)scramble(s * 1000003 + rank * 8191 + size * 131 + i) * 4.656612873e-10f;
}

static void apply(float *p, const float *sum, uint32_t size)
{
    for (size_t i = 0; i < count; i++)
        p[i] -= 0.01f * (sum[i] / (float)size);
}

static uint64_t hash(const float *p)
{
    uint64_t h = 1469598103934665603u;
    for (const unsigned char *c = (const unsigned char *)p; c < (const unsigned char *)(p + count); c++)
        h = (h ^ *c) * 1099511628211u;
    return h;
}

/* The history by one process: sums in rank order. */
static int replay(void)
{
    float *p = calloc(count, sizeof *p), *sum = calloc(count, sizeof *sum);
    for (uint64_t s = 0; s < steps; s++) {
        for (size_t i = 0; i < count; i++) {
            sum[i] = value(s, 0, sizes[s], i);
            for (uint32_t r = 1; r < sizes[s]; r++)
                sum[i] += value(s, r, sizes[s], i);
        }
        apply(p, sum, sizes[s]);
    }
    int same = memcmp(p, params, count * sizeof *p) == 0;
    free(p);
    free(sum);
    return same;
}

/* Everybody gets what the lowest of those has who have done most steps. */
static tutti_status catch_up(struct tutti_comm *c)
{
    uint32_t n = tutti_comm_size(c), root = 0;
    uint64_t *all = calloc(2 * n, sizeof *all), mine[2] = {step, steps}, least;
    tutti_status st = tutti_all_gather(c, mine, all, 2, TUTTI_I64);
    least = all[0];
    for (uint32_t r = 1; r < n; r++) {
        root = all[2 * r] > all[2 * root] ? r : root;
        least = all[2 * r] < least ? all[2 * r] : least;
    }
    uint64_t most = all[2 * root], end = all[2 * root + 1];
    free(all);
    if (st || least == most)
        return st;
    /* Received aside: if a rank dies meanwhile, this one still has what it had. */
    float *p = malloc(count * sizeof *p);
    uint32_t *z = malloc(limit * sizeof *z);
    memcpy(p, params, count * sizeof *p);
    memcpy(z, sizes, limit * sizeof *z);
    st = tutti_broadcast(c, p, p, count, TUTTI_F32, root);
    if (!st)
        st = tutti_broadcast(c, z, z, limit, TUTTI_I32, root);
    if (!st) {
        memcpy(params, p, count * sizeof *p);
        memcpy(sizes, z, limit * sizeof *z);
        step = most;
        steps = end;
    }
    free(p);
    free(z);
    return st;
}

/* Until the members hold still: every change is followed by catching up, in which more may die. */
static void settle(struct tutti_comm **c, tutti_status (*change)(struct tutti_comm *, struct tutti_comm **, struct tutti_error *))
{
    struct tutti_error err = {0};
    do {
        struct tutti_comm *next = NULL;
        tutti_status st = change(*c, &next, &err);
        if (st)
            out("OUT", st, err.text);
        if (next == *c)
            return;
        tutti_comm_close(*c);
        *c = next;
        change = tutti_comm_shrink;
        /* Alone nobody can fail. */
    } while (catch_up(*c) && tutti_comm_size(*c) > 1);
}

/* `came`: the step in which this process came. */
static void strike(uint64_t came)
{
    const char *who = getenv("ELASTIC_DIE"), *rank = getenv("TUTTI_RANK");
    bool mine = who && rank && !strcmp(who, rank);
    if (mine && !getenv("TUTTI_JOIN") && step == 200)
        kill(getpid(), SIGKILL);
    if (mine && getenv("TUTTI_JOIN") && getenv("ELASTIC_AGAIN") && step == came + 20)
        kill(getpid(), SIGKILL);
}

static tutti_status one_step(struct tutti_comm *c)
{
    uint32_t rank = tutti_comm_rank(c), size = tutti_comm_size(c);
    for (size_t i = 0; i < count; i++)
        grad[i] = value(step, rank, size, i);
    const char *stop = getenv("ELASTIC_STOP");
    grad[count] = stop && step % 4 == 0 && access(stop, F_OK) == 0;
    tutti_status st = tutti_allreduce(c, grad, grad, count + 1, TUTTI_F32, TUTTI_SUM);
    if (st)
        return st;
    apply(params, grad, size);
    sizes[step++] = size;
    if (grad[count] > 0)
        steps = step;
    return TUTTI_OK;
}

int main(int argc, char **argv)
{
    struct tutti_error err = {0};
    struct tutti_comm *c = NULL;
    tutti_status st;
    unsigned pause = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    uint32_t seen = 0;
    steps = argc > 1 ? (uint64_t)atoll(argv[1]) : steps;
    count = argc > 2 ? (size_t)atoll(argv[2]) : count;
    every = argc > 4 ? (uint64_t)atoll(argv[4]) : every;
    params = calloc(count, sizeof *params);
    grad = calloc(count + 1, sizeof *grad);
    limit = steps;
    sizes = calloc(limit, sizeof *sizes);
    if ((st = tutti_comm_open(NULL, &c, &err)))
        out("OUT", st, err.text);
    if (tutti_comm_changes(c) && catch_up(c) && tutti_comm_size(c) > 1)
        settle(&c, tutti_comm_shrink);
    uint64_t came = step;
    for (;;) {
        strike(came);
        /* The last barrier: whoever passes it knows that nobody has a step to repeat. */
        bool done = step == steps;
        st = done ? tutti_barrier(c) : one_step(c);
        if (st) {
            settle(&c, tutti_comm_shrink);
            continue;
        }
        if (tutti_comm_changes(c) != seen) {
            seen = tutti_comm_changes(c);
            printf("CHANGE %u %u %" PRIu64 "\n", seen, tutti_comm_size(c), now_ns());
            fflush(stdout);
        }
        if (step % 100 == 0) {
            printf("STEP %" PRIu64 " %" PRIu64 "\n", step, now_ns());
            fflush(stdout);
        }
        if (done)
            break;
        if (every && step % every == 0)
            settle(&c, tutti_comm_admit);
        if (pause)
            usleep(pause);
    }
    if (!replay())
        out("BAD", 0, "the replay differs");
    printf("END %" PRIu64 " %016" PRIx64 " %u %u\n", step, hash(params), tutti_comm_size(c), tutti_comm_changes(c));
    fflush(stdout);
    tutti_comm_close(c);
    return 0;
}
