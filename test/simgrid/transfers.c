/* transfers.c - a schedule as a list of transfers that another simulator can replay, and our own answer for it.
 *
 *     transfers TOPOLOGY ALGO BYTES [FILE]      a spec or a file
 *
 * Prints one line: time in us (level flow, sharing rtt), max_link_contention, switches, messages, processor seconds of the simulation. FILE
 * gets the transfers as lines of numbers, everything numbered from 0:
 *
 *     tutti-transfers 1
 *     ranks links connections messages operations        the counts
 *     link BYTES_PER_S LATENCY_PS HALF                    one per directed link; half duplex: link 2i stands for both directions
 *     conn SRC DST N LINK..                               one per (src, dst, channel); its messages follow each other
 *     msg CONN BYTES SEND RECV                            in the order of their connection; the operations at its two ends
 *     op NEED N SUCCESSOR..                               what it waits for (a receive: also for its message), who waits for it
 *
 * A message starts when its SEND waits for nobody and the last byte of the one before it on its connection has left; its arrival is one of
 * the things RECV waits for. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "algo/algo.h"
#include "sim/sim_int.h"

static void die(const char *what, const struct tutti_error *err)
{
    fprintf(stderr, "transfers: %s: %s\n", what, err->text);
    exit(1);
}

static void put_links(const struct tt_topo *t, FILE *out)
{
    for (uint32_t d = 0; d < 2 * t->nlinks; d++) {
        const struct tt_link *l = &t->links[d / 2];
        fprintf(out, "link %.17g %" PRIu64 " %d\n", l->bw[l->half ? 0 : d & 1], l->latency_ps, l->half);
    }
}

static void put_conns(const struct tt_work *w, FILE *out)
{
    for (uint32_t i = 0; i < w->nconns; i++) {
        const struct tt_work_conn *c = &w->conn[i];
        fprintf(out, "conn %u %u %u", c->src, c->dst, c->nlinks);
        for (uint32_t k = 0; k < c->nlinks; k++)
            fprintf(out, " %u", w->path[c->path_at + k]);
        fputc('\n', out);
    }
}

static void put_ops(const struct tt_work *w, FILE *out)
{
    for (uint32_t i = 0; i < w->nmsgs; i++)
        fprintf(out, "msg %u %" PRIu64 " %u %u\n", w->msg[i].conn, tt_sim_work_msg_bytes(w, i, 0), w->msg[i].send, w->msg[i].recv);
    for (uint32_t i = 0; i < w->nops; i++) {
        fprintf(out, "op %u %u", w->op[i].need, w->op[i + 1].after - w->op[i].after);
        for (uint32_t k = w->op[i].after; k < w->op[i + 1].after; k++)
            fprintf(out, " %u", w->succ[k]);
        fputc('\n', out);
    }
}

static void write_file(const char *name, const struct tt_sched *s, const struct tt_topo *t, uint64_t count)
{
    struct tutti_error err = {0};
    struct tt_work *w = NULL;
    FILE *out = fopen(name, "w");
    if (!out || tt_sim_work_make(s, t, count, TUTTI_F32, &w, &err))
        die(name, &err);
    fprintf(out, "tutti-transfers 1\n%u %u %u %u %u\n", t->ranks, 2 * t->nlinks, w->nconns, w->nmsgs, w->nops);
    put_links(t, out);
    put_conns(w, out);
    put_ops(w, out);
    tt_sim_work_free(w);
    if (fclose(out) != 0)
        die(name, &err);
}

int main(int argc, char **argv)
{
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    struct tt_sched *s = NULL;
    struct tt_sim_report *r = NULL;
    if (argc < 4) {
        fputs("usage: transfers SPEC ALGO BYTES [FILE]\n", stderr);
        return 2;
    }
    if (tt_topo_open(argv[1], &t, &err))
        die(argv[1], &err);
    uint64_t count = strtoull(argv[3], NULL, 10) / 4;
    struct tt_algo_args a = {.problem = {TUTTI_ALLREDUCE, t->ranks, 0, count, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
    if (!tt_algo_find(argv[2]) || tt_algo_probe(tt_algo_find(argv[2]), &a, &err) || tt_algo_build(tt_algo_find(argv[2]), &a, &s, &err))
        die(argv[2], &err);
    clock_t begin = clock();
    if (tt_sim_run(s, t, count, TUTTI_F32, &(struct tt_sim_options){.level = TT_SIM_FLOW, .sharing = TT_SIM_RTT}, &r, &err))
        die("simulation", &err);
    double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("%.6f %u %u %" PRIu64 " %.3f\n", (double)r->time_ps / 1e6, r->max_link_contention, t->switches, r->messages, took);
    if (argc > 4)
        write_file(argv[4], s, t, count);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
    return 0;
}
