/* given.c - all-reduces on the world and on communicators of two ranks each, for given.sh: what decided each plan, and
 * whether the sums are right. Rank 0 of each communicator prints "RANKS ALGO ORIGIN".
 *
 * Usage: given [PLAN [TUNING]]: files for the options; "-": none. given leave: rank 1 ends without a word.
 * given own: only a reduction of its own, which does not commute. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "api/tool.h"

enum { N = 1031 };

static int try_sum(struct tutti_comm *c)
{
    double x[N];
    uint32_t ranks = tutti_comm_size(c), rank = tutti_comm_rank(c);
    struct tutti_comm_explained e = {.size = sizeof e};
    struct tutti_error err;
    for (int i = 0; i < N; i++)
        x[i] = i + (int)rank;
    if (tutti_allreduce(c, x, x, N, TUTTI_F64, TUTTI_SUM))
        return fprintf(stderr, "%s\n", tutti_comm_last_error(c)->text);
    for (int i = 0; i < N; i++)
        if (x[i] != (double)ranks * i + ranks * (ranks - 1) / 2.0)
            return fprintf(stderr, "rank %u: element %d is %g\n", rank, i, x[i]);
    if (tutti_comm_explain(c, TUTTI_ALLREDUCE, N, TUTTI_F64, TUTTI_SUM, &e, &err))
        return fprintf(stderr, "%s\n", err.text);
    if (rank == 0)
        printf("%u %s %s\n", ranks, e.algo, e.origin);
    return 0;
}

static void keep_left(void *ctx, const void *left, const void *right, void *to, size_t n)
{
    (void)ctx;
    (void)right;
    memmove(to, left, n * sizeof(double));
}

/* The first rank's vector, by everybody. */
static int try_own(struct tutti_comm *c)
{
    double x[N];
    struct tutti_error err;
    tutti_redop op;
    const struct tutti_redop_options o = {.size = sizeof o, .name = "keep left", .fn = keep_left, .elem_bytes = sizeof x[0]};
    for (int i = 0; i < N; i++)
        x[i] = tutti_comm_rank(c);
    if (tutti_redop_create(&o, &op, &err))
        return fprintf(stderr, "%s\n", err.text);
    if (tutti_allreduce(c, x, x, N, TUTTI_F64, op))
        return fprintf(stderr, "%s\n", tutti_comm_last_error(c)->text);
    tutti_redop_free(op);
    for (int i = 0; i < N; i++)
        if (x[i] != 0)
            return fprintf(stderr, "element %d is %g\n", i, x[i]);
    return 0;
}

int main(int argc, char **argv)
{
    struct tutti_comm_options o = {.size = sizeof o};
    struct tutti_error err;
    struct tutti_comm *world, *half;
    bool leave = argc > 1 && !strcmp(argv[1], "leave"), own = argc > 1 && !strcmp(argv[1], "own");
    o.plan = argc > 1 && !leave && !own && strcmp(argv[1], "-") ? argv[1] : NULL;
    o.tuning = argc > 2 && strcmp(argv[2], "-") ? argv[2] : NULL;
    if (tutti_comm_open(&o, &world, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (leave && tutti_comm_rank(world) == 1)
        _exit(0);
    int bad = own ? try_own(world) : try_sum(world);
    if (!bad && !own && tutti_comm_split(world, (int)(tutti_comm_rank(world) / 2), 0, &half, &err))
        bad = fprintf(stderr, "%s\n", err.text);
    if (!bad && !own) {
        bad = try_sum(half);
        tutti_comm_close(half);
    }
    tutti_comm_close(world);
    return bad != 0;
}
