/* cmd_bound.c - tutti bound: the lower bound on the time of a collective, with its certificate.
 *
 * Several kinds of bounds are computed (tutti_bound_get lists them); the largest is the answer.
 * JSON holds enough of the certificate (the cut, the partition) to check the bound without
 * Tutti.
 *
 *     $ tutti bound --topo star:4@1Gbps,50us --size 1M
 *     no schedule is faster than 12.58 ms (volume)
 *       latency         100 us  rank 1 must hear of rank 0: ...
 *       rounds               -  no ports=k declared: ...
 *     * volume        12.58 ms  allreduce of 1 MiB: 6 MiB must leave the 4 ranks together ...
 *       cut           8.389 ms  1 MiB must leave rank 3 (1 of 4) over links of 1 Gbit/s ... */
#include "cli/cli.h"

#include <stdio.h>

static const struct cli_option *const options[] = {cli_topo_options, cli_size_options,
                                                   cli_coll_options, cli_json_options, NULL};

/* The cut: the ranks and switches of the side that the bytes leave. In `side` switches come
 * after the ranks. Nothing when the best bound has no cut. */
static void json_cut(struct tutti_json *j, const struct tutti_topo *t, const struct tutti_bound *b)
{
    double bytes, capacity;
    const uint8_t *side = tutti_bound_cut(b, &bytes, &capacity);
    struct tutti_topo_info info;
    if (!side || tutti_topo_info(t, &info, NULL))
        return;
    tutti_json_object(j, "cut");
    tutti_json_array(j, "ranks");
    for (uint32_t v = 0; v < info.ranks; v++)
        if (side[v])
            tutti_json_u64(j, NULL, v);
    tutti_json_end(j);
    tutti_json_array(j, "switches");
    for (uint32_t v = 0; v < info.switches; v++)
        if (side[info.ranks + v])
            tutti_json_u64(j, NULL, v);
    tutti_json_end(j);
    tutti_json_real(j, "bytes", bytes);
    tutti_json_real(j, "capacity_Bps", capacity);
    tutti_json_end(j);
}

/* The partition: for each rank and switch the number of its part. */
static void json_parts(struct tutti_json *j, const struct tutti_topo *t,
                       const struct tutti_bound *b)
{
    struct tutti_bound_partition p;
    const uint32_t *part = tutti_bound_parts(b, &p);
    struct tutti_topo_info info;
    if (!part || tutti_topo_info(t, &info, NULL))
        return;
    tutti_json_object(j, "partition");
    tutti_json_u64(j, "parts", p.parts);
    tutti_json_array(j, "part_of_rank");
    for (uint32_t v = 0; v < info.ranks; v++)
        tutti_json_u64(j, NULL, part[v]);
    tutti_json_end(j);
    tutti_json_array(j, "part_of_switch"); /* a switch in no part has the number of parts */
    for (uint32_t v = info.ranks; v < info.ranks + info.switches; v++)
        tutti_json_u64(j, NULL, part[v] < p.parts ? part[v] : p.parts);
    tutti_json_end(j);
    tutti_json_real(j, "bytes", p.bytes);
    tutti_json_real(j, "capacity_Bps", p.capacity);
    tutti_json_bool(j, "tight", p.tight);
    tutti_json_end(j);
}

/* The best bound at the top level, then all kinds, then the certificates as data. */
static void print_json(const struct tutti_topo *t, const struct tutti_bound *b)
{
    struct tutti_json *j = tutti_json_open(stdout);
    struct tutti_bound_info i;
    tutti_bound_get(b, tutti_bound_best(b), &i);
    tutti_json_object(j, NULL);
    tutti_json_real(j, "bound_us", i.bound_us);
    tutti_json_string(j, "kind", i.kind);
    tutti_json_string(j, "certificate", i.certificate);
    tutti_json_array(j, "bounds");
    for (size_t k = 0; tutti_bound_get(b, k, &i); k++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "kind", i.kind);
        tutti_json_bool(j, "applies", i.applies);
        tutti_json_real(j, "bound_us", i.bound_us);
        tutti_json_bool(j, "complete", i.complete);
        tutti_json_string(j, "certificate", i.certificate);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    json_cut(j, t, b);
    json_parts(j, t, b);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* The best bound first; then a line per kind, with * at the best. Kinds that do not apply say
 * why. */
static void print_text(const struct tutti_bound *b)
{
    struct tutti_bound_info i;
    char buf[64];
    size_t best = tutti_bound_best(b);
    tutti_bound_get(b, best, &i);
    printf("no schedule is faster than %s (%s)\n", tutti_format_us(i.bound_us, buf, sizeof buf),
           i.kind);
    for (size_t k = 0; tutti_bound_get(b, k, &i); k++) {
        if (i.applies)
            printf("%c %-9s %12s  %s%s\n", k == best ? '*' : ' ', i.kind,
                   tutti_format_us(i.bound_us, buf, sizeof buf), i.certificate,
                   i.complete ? "" : " [not every case was examined]");
        else
            printf("  %-9s %12s  %s\n", i.kind, "-", i.certificate);
    }
}

static int bound_run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    struct tutti_bound *b = NULL;
    struct cli_problem p;
    struct tutti_error err;
    int code = cli_get_problem(a, &p);
    if (!code)
        code = cli_get_topo(a, &t);
    if (code)
        return code;
    if (tutti_bound_make(t, p.o.coll, p.o.root, p.bytes, &b, &err))
        code = cli_fail(a, &err);
    else if (cli_flag(a, "json"))
        print_json(t, b);
    else
        print_text(b);
    tutti_bound_free(b);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_bound = {
    .name = "bound",
    .synopsis = "bound --topo SPEC --size SIZE [--coll COLL] [--json]",
    .summary = "lower bound on the time of a collective, and the certificate for it",
    .details = "No schedule without reduction inside switches can be faster. The certificate names "
               "what must cross which links.",
    .examples = "tutti bound --topo torus:8x8@16GB/s,150ns --size 64M --json\n"
                "tutti bound --topo nics:10G,10G,10G,2.5G --size 100M",
    .options = options,
    .run = bound_run,
};
