/* dump.c - runs every collective by every algorithm that does not refuse it, for dump.sh to compare what TUTTI_DUMP wrote with what
 * tutti plan writes. Rank 0 prints one line per kind of call: "ran COLL NAMED BYTES ALGO PREDICTED_US", NAMED "auto" when the planner
 * chose.
 *
 * Usage: dump [full]. Without `full` one vector length is run, with it three, with other data types, reductions and roots. Linked with the
 * modules, because a call's algorithm is named in struct tt_call, which the installed interface does not show. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

struct size {
    size_t elems; /* of the whole vector */
    tutti_dtype dtype;
    tutti_redop redop;
};
static const struct size sizes[] = {{40960, TUTTI_F32, TUTTI_SUM}, {37, TUTTI_F64, TUTTI_MAX}, {1000003, TUTTI_BF16, TUTTI_AVG}};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST_BYTES = 2 * 1000003 + 4096 };

static struct tt_comm *comm;
static void *in, *out;

static void die(const char *what, tutti_status st)
{
    fprintf(stderr, "rank %u: %s: status %d: %s\n", tt_comm_rank(comm), what, (int)st, tt_comm_last_error(comm)->text);
    exit(1);
}

static void say(const struct tt_call *call, size_t total)
{
    struct tt_comm_explained e;
    struct tutti_error err;
    tutti_status st = tt_comm_explain(comm, call, &e, &err);
    if (st)
        die(err.text, st);
    if (tt_comm_rank(comm) == 0)
        printf("ran %s %s %zu %s %.6f\n", tt_sched_coll_name(call->coll), call->algo ? call->algo : "auto",
               total * tt_sched_dtype_bytes(call->dtype), e.algo, e.predicted_us);
}

/* Elements of a block for a vector of n; the whole vector where there are no blocks. */
static size_t count_of(tutti_coll coll, size_t n)
{
    bool blocks = coll == TUTTI_ALL_TO_ALL || tt_sched_coll_has_owners(coll);
    return coll == TUTTI_BARRIER ? 0 : blocks ? n / tt_comm_size(comm) : n;
}

static void run(tutti_coll coll, const struct tt_algo *al, const struct size *s)
{
    uint32_t ranks = tt_comm_size(comm);
    size_t count = count_of(coll, s->elems), total = count == s->elems ? count : count * ranks;
    struct tt_call call = {
        .coll = coll, .in = in, .out = out, .count = count, .dtype = s->dtype, .redop = s->redop, .algo = al ? al->name : NULL};
    call.root = tt_sched_coll_is_rooted(coll) && s != sizes ? ranks - 1 : 0;
    if (!tt_sched_coll_sums(coll))
        call.redop = TUTTI_SUM;
    tutti_status st = tt_comm_run(comm, &call);
    if (st == TUTTI_ERR_REFUSED)
        return;
    if (st)
        die(al ? al->name : "auto", st);
    say(&call, total);
}

static void run_all(const struct size *s)
{
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++) {
        run((tutti_coll)coll, NULL, s);
        for (size_t i = 0; i < n; i++)
            if (table[i]->colls & 1u << coll)
                run((tutti_coll)coll, table[i], s);
    }
}

/* Blocks of different lengths, one of them empty: the schedule is that of the total. */
static void run_blocks(tutti_coll coll, const char *algo)
{
    uint32_t ranks = tt_comm_size(comm);
    size_t *counts = calloc(ranks, sizeof *counts), total = 0;
    for (uint32_t r = 0; counts && r < ranks; r++)
        total += counts[r] = r == 1 ? 0 : 100 + 7 * r;
    struct tt_call call = {.coll = coll, .in = in, .out = out, .counts = counts, .algo = algo};
    tutti_status st = tt_comm_run(comm, &call);
    if (st)
        die("blocks", st);
    say(&call, total);
    free(counts);
}

/* Two groups at the same time, each with a topology of its own. */
static void run_halves(struct tt_comm *world)
{
    struct tutti_error err;
    tutti_status st = tt_comm_split(world, (int)(tt_comm_rank(world) % 2), 0, &comm, &err);
    if (st)
        die(err.text, st);
    st = tt_comm_run(comm, &(struct tt_call){.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = 5000, .algo = "ring"});
    if (st)
        die("half", st);
    tt_comm_close(comm);
    comm = world;
}

int main(int argc, char **argv)
{
    struct tt_comm_config config;
    struct tutti_error err;
    bool full = argc > 1 && !strcmp(argv[1], "full");
    tutti_status st = tt_comm_from_env(&config, &err);
    if (!st)
        st = tt_comm_open(&config, &comm, &err);
    if (st) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    in = calloc(2, MOST_BYTES);
    out = calloc(2, MOST_BYTES);
    if (!in || !out)
        return 1;
    for (int i = 0; i < (full ? SIZES : 1); i++)
        run_all(&sizes[i]);
    run_blocks(TUTTI_ALL_GATHER, "ring");
    run_blocks(TUTTI_REDUCE_SCATTER, "direct");
    if (tt_comm_size(comm) > 2)
        run_halves(comm);
    tt_comm_close(comm);
    free(in);
    free(out);
    return 0;
}
