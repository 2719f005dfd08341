/* forged.c - when ranks run into different plans or calls in spite of all comparing, every rank is told; nobody sums wrongly or hangs.
 *
 *     forged CASE     one rank of a job of 4, TUTTI_TOPO and TUTTI_ALGO as the case says (forged.sh)
 *
 * plan      rank 1's network is exchanged after opening: its hierarchical plan has other levels under the same name
 * count     a first call of a synthesised plan, with another count at rank 2
 * count0    ... at rank 0
 * late      ... which rank 2 does not enter at all
 * order     rank 3 makes two requests of synthesised plans in the other order
 * refused   an algorithm that refuses: the same reason everywhere, and the communicator goes on
 *
 * Prints "rank R STATUS TEXT", or "rank R WRONG". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_int.h"

static tutti_status sum(struct tt_comm *c, size_t n, const char *algo)
{
    float *x = malloc(n * sizeof *x), *y = calloc(n, sizeof *y);
    float all = (float)((1u << tt_comm_size(c)) - 1);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(1u << tt_comm_rank(c));
    struct tt_call call = {.coll = TUTTI_ALLREDUCE, .in = x, .out = y, .count = n, .dtype = TUTTI_F32, .redop = TUTTI_SUM, .algo = algo};
    tutti_status st = tt_comm_run(c, &call);
    for (size_t i = 0; !st && i < n; i++)
        if (y[i] != all) {
            printf("rank %u WRONG\n", tt_comm_rank(c));
            exit(9);
        }
    free(x);
    free(y);
    return st;
}

static tutti_status make_two(struct tt_comm *c)
{
    static float x[2][400], y[2][400];
    bool turned = tt_comm_rank(c) == 3;
    struct tt_request *r[2] = {NULL, NULL};
    tutti_status st = TUTTI_OK;
    for (int i = 0; i < 2 && !st; i++) {
        int k = turned ? !i : i;
        struct tt_call call = {.in = x[k], .out = y[k], .count = k ? 400 : 384, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
        st = tt_comm_request_make(c, &call, &r[k]);
    }
    if (!st)
        st = sum(c, 384, NULL);
    tt_comm_request_free(r[0]);
    tt_comm_request_free(r[1]);
    return st;
}

static tutti_status run_case(struct tt_comm *c, const char *name)
{
    uint32_t me = tt_comm_rank(c);
    struct tutti_error err;
    if (tt_streq(name, "plan") && me == 1) {
        tt_topo_free(c->world->topo);
        c->topo = c->world->topo = NULL;
        if (tt_topo_parse("torus:4x2", &c->world->topo, &err))
            return err.status;
        c->topo = c->world->topo;
    }
    if (tt_streq(name, "late") && me == 2)
        sleep(4);
    if (tt_streq(name, "order"))
        return make_two(c);
    if (tt_streq(name, "refused")) {
        tutti_status st = sum(c, 384, NULL);
        printf("rank %u first %d %s\n", me, st, tt_comm_last_error(c)->text);
        return sum(c, 384, "ring");
    }
    bool odd = (tt_streq(name, "count") && me == 2) || (tt_streq(name, "count0") && me == 0);
    return sum(c, odd ? 400 : 384, NULL);
}

int main(int argc, char **argv)
{
    struct tt_comm_config config;
    struct tt_comm *c;
    struct tutti_error err;
    if (argc != 2 || tt_comm_from_env(&config, &err) || tt_comm_open(&config, &c, &err)) {
        printf("cannot open: %s\n", argc == 2 ? err.text : "a case is missing");
        return 2;
    }
    tutti_status st = run_case(c, argv[1]);
    printf("rank %u %d %s\n", tt_comm_rank(c), st, st ? tt_comm_last_error(c)->text : "");
    tt_comm_close(c);
    return 0;
}
