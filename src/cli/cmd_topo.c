/* cmd_topo.c - tutti topo: describes a network, or converts it to another format (Graphviz,
 * SimGrid, a topology file). Everything printed comes from tutti_topo_info and tutti_topo_floor;
 * values that were estimated on large networks are marked as such ("at least", "about", *_exact
 * in JSON).
 *
 *     $ tutti topo ring:4
 *     ring:4
 *     ranks      4
 *     switches   0
 *     links      4 cables, full duplex
 *     bandwidth  10 Gbit/s
 *     ... */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_option own[] = {
    {"dot", 0, NULL, "as a Graphviz graph"},
    {"simgrid", 0, NULL, "as a SimGrid platform (XML)"},
    {"ns3", 0, NULL, "as the topology text of ns-3's RDMA simulations and ASTRA-sim"},
    {"file", 0, NULL, "as a topology file (JSON that --topo reads)"},
    {"per-rack", 0, "N",
     "ranks (or switches with their hosts) in a rack, for the length of cables (16)"},
    {"from-matrix", 0, "FILE", "a matrix of measured rates (CSV) in place of a SPEC"},
    {"unit", 0, "UNIT", "of a matrix's numbers that have none: Gbps, GB/s, ..."},
    {"latency", 0, "TIME", "of every link of a matrix (default 1us)"},
    {"from-slurm", 0, "FILE", "Slurm's topology.conf in place of a SPEC: nodes are ranks"},
    {"from-hostfile", 0, "FILE", "Open MPI's hostfile in place of a SPEC: slots are ranks"},
    {"link", 0, "LINK", "of these: 100Gbps/25Gbps,2us, the ranks' first (default 10Gbps,1us)"},
    {"kinds", 0, NULL, "list the kinds of networks a SPEC can name"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

/* The floor plan: racks in a grid. null when the network has none (racks is 0). */
static void floor_json(struct tutti_json *j, const struct tutti_topo_floor *f)
{
    if (!f->racks) {
        tutti_json_null(j, "floor");
        return;
    }
    tutti_json_object(j, "floor");
    tutti_json_u64(j, "per_rack", f->per_rack);
    tutti_json_u64(j, "racks", f->racks);
    tutti_json_u64(j, "rack_rows", f->rows);
    tutti_json_u64(j, "rack_columns", f->columns);
    tutti_json_u64(j, "cables_between_racks", f->between_racks);
    tutti_json_real(j, "cable_total_m", f->total_m);
    tutti_json_real(j, "cable_mean_m", f->mean_m);
    tutti_json_real(j, "cable_max_m", f->max_m);
    tutti_json_end(j);
}

/* All properties; the hash as text, because many JSON readers hold numbers as doubles. */
static void print_json(const struct tutti_topo_info *i, const struct tutti_topo_floor *f)
{
    struct tutti_json *j = tutti_json_open(stdout);
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)i->hash);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "spec", i->spec);
    tutti_json_string(j, "kind", i->kind);
    tutti_json_u64(j, "ranks", i->ranks);
    tutti_json_u64(j, "switches", i->switches);
    tutti_json_u64(j, "links", i->links);
    tutti_json_u64(j, "degree", i->degree);
    tutti_json_u64(j, "diameter", i->diameter);
    tutti_json_real(j, "mean_path", i->mean_path);
    tutti_json_bool(j, "distances_exact", i->distances_exact);
    tutti_json_u64(j, "bisection_links", i->bisection);
    tutti_json_bool(j, "bisection_exact", i->bisection_exact);
    floor_json(j, f);
    tutti_json_real(j, "min_bandwidth_Bps", i->min_bw);
    tutti_json_real(j, "max_bandwidth_Bps", i->max_bw);
    tutti_json_real(j, "min_latency_us", i->min_latency_us);
    tutti_json_real(j, "max_latency_us", i->max_latency_us);
    tutti_json_bool(j, "half_duplex", i->half);
    tutti_json_u64(j, "ports", i->ports);
    tutti_json_real(j, "gamma_s_per_byte", i->gamma);
    tutti_json_real(j, "overhead_us", i->overhead_us);
    tutti_json_string(j, "hash", hash);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* "10 Gbit/s", or "2.5 Gbit/s .. 10 Gbit/s" when the two texts differ. */
static void print_range(const char *what, const char *lo, const char *hi)
{
    if (strcmp(lo, hi))
        printf("%-10s %s .. %s\n", what, lo, hi);
    else
        printf("%-10s %s\n", what, lo);
}

/* One property per line; ranges only where the links differ. */
static void print_text(const struct tutti_topo_info *i, const struct tutti_topo_floor *f)
{
    char a[64], b[64];
    printf("%s\n", i->spec);
    printf("%-10s %u\n%-10s %u\n%-10s %u cable%s, %s duplex\n", "ranks", i->ranks, "switches",
           i->switches, "links", i->links, i->links == 1 ? "" : "s", i->half ? "half" : "full");
    if (i->links) {
        print_range("bandwidth", tutti_format_rate(i->min_bw, a, sizeof a),
                    tutti_format_rate(i->max_bw, b, sizeof b));
        print_range("latency", tutti_format_us(i->min_latency_us, a, sizeof a),
                    tutti_format_us(i->max_latency_us, b, sizeof b));
    }
    printf("%-10s %u\n", "degree", i->degree);
    printf("%-10s %s%u link%s\n", "diameter", i->distances_exact ? "" : "at least ", i->diameter,
           i->diameter == 1 ? "" : "s");
    printf("%-10s %s%.4g link%s\n", "mean path", i->distances_exact ? "" : "about ", i->mean_path,
           i->mean_path == 1.0 ? "" : "s");
    printf("%-10s %s%llu cable%s\n", "bisection", i->bisection_exact ? "" : "at most ",
           (unsigned long long)i->bisection, i->bisection == 1 ? "" : "s");
    if (f->racks)
        printf("%-10s %.4g km, mean %.3g m, longest %.3g m, %u between racks (%u racks of %u, %u "
               "rows of %u)\n",
               "cable", f->total_m / 1e3, f->mean_m, f->max_m, f->between_racks, f->racks,
               f->per_rack, f->rows, f->columns);
    if (i->ports)
        printf("%-10s %u per rank: messages in flight each way\n", "ports", i->ports);
    else
        printf("%-10s not declared: a rank uses all its links at once\n", "ports");
    if (i->gamma > 0)
        printf("%-10s %.4g ns per byte reduced\n", "gamma", i->gamma * 1e9);
    if (i->overhead_us > 0)
        printf("%-10s %s per message\n", "overhead", tutti_format_us(i->overhead_us, a, sizeof a));
}

/* Describes the network; a network without a floor plan gets a zeroed one. */
static void topo_describe(const struct cli_args *a, const struct tutti_topo *t,
                          const struct tutti_topo_info *i, uint32_t per_rack)
{
    struct tutti_topo_floor floor;
    /* Zeroed, with no racks: the network is not laid out on a floor. */
    if (!tutti_topo_floor(t, per_rack, &floor))
        floor = (struct tutti_topo_floor){0};
    if (cli_flag(a, "json"))
        print_json(i, &floor);
    else
        print_text(i, &floor);
}

/* The library's own table of kinds, as text or JSON. */
static int list_kinds(bool json)
{
    struct tutti_topo_kind_info k;
    struct tutti_json *j = json ? tutti_json_open(stdout) : NULL;
    if (j)
        tutti_json_array(j, NULL);
    for (size_t i = 0; tutti_topo_kind_get(i, &k); i++) {
        if (!j) {
            printf("%-34s %s\n%-34s e.g. %s\n", k.form, k.desc, "", k.example);
            continue;
        }
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", k.name);
        tutti_json_string(j, "form", k.form);
        tutti_json_string(j, "example", k.example);
        tutti_json_string(j, "desc", k.desc);
        tutti_json_end(j);
    }
    if (j) {
        tutti_json_end(j);
        tutti_json_close(j);
    }
    return CLI_OK;
}

/* The option that names a file to import; NULL: none, *ret_n: how many there are. */
static const char *import_option(const struct cli_args *a, size_t *ret_n)
{
    static const char *const names[] = {"from-matrix", "from-slurm", "from-hostfile"};
    const char *found = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < 3; i++)
        if (cli_value(a, names[i])) {
            found = names[i];
            ++*ret_n;
        }
    return found;
}

/* The network of --from-...; options of the other formats are refused. */
static int import(const struct cli_args *a, const char *option, struct tutti_topo **ret)
{
    struct tutti_error err;
    struct tutti_import from = {.kind = option + strlen("from-"),
                                .path = cli_value(a, option),
                                .unit = cli_value(a, "unit"),
                                .link = cli_value(a, "link"),
                                .latency_ps = 1000000};
    bool matrix = !strcmp(from.kind, "matrix");
    if (matrix && from.link)
        return cli_bad(a, "--link: a matrix brings its rates; its latency is --latency");
    if (!matrix && (from.unit || cli_value(a, "latency")))
        return cli_bad(a, "--unit and --latency go with --from-matrix; --link has both here");
    if (cli_value(a, "latency") &&
        tutti_parse_time(cli_value(a, "latency"), &from.latency_ps, &err))
        return cli_bad(a, "--latency: %s", err.text);
    return tutti_topo_import(&from, ret, &err) ? cli_fail(a, &err) : 0;
}

/* The network of the command line: imported, or that of the word, which wins over the variable. */
static int get_topo(const struct cli_args *a, struct tutti_topo **ret)
{
    size_t n;
    const char *option = import_option(a, &n),
               *spec = a->nwords ? a->words[0] : cli_environment("TUTTI_TOPO");
    if (n > 1 || (n && a->nwords))
        return cli_bad(a, "one of SPEC, --from-matrix, --from-slurm and --from-hostfile");
    if (!n && (cli_value(a, "unit") || cli_value(a, "link") || cli_value(a, "latency")))
        return cli_bad(a, "--unit, --latency and --link go with --from-...");
    if (n)
        return import(a, option, ret);
    if (!spec)
        return cli_bad(
            a, "a SPEC is needed, e.g. tutti topo torus:8x8@16GB/s,150ns; --kinds lists the kinds");
    return cli_parse_topo(a, spec, ret);
}

static int topo_run(const struct cli_args *a)
{
    if (cli_flag(a, "kinds") && a->nwords)
        return cli_bad(a, "either a SPEC or --kinds");
    if (cli_flag(a, "kinds"))
        return list_kinds(cli_flag(a, "json"));
    if (cli_flag(a, "json") + cli_flag(a, "dot") + cli_flag(a, "simgrid") + cli_flag(a, "ns3") +
            cli_flag(a, "file") >
        1)
        return cli_bad(a, "only one of --json, --dot, --simgrid, --ns3 and --file");
    struct tutti_topo *t = NULL;
    struct tutti_topo_info info = {0};
    struct tutti_error err;
    uint64_t per_rack = 16;
    if (cli_value(a, "per-rack") &&
        tutti_parse_u64(cli_value(a, "per-rack"), 1, 1u << 20, &per_rack, &err))
        return cli_fail(a, &err);
    int code = get_topo(a, &t);
    if (code)
        return code;
    if (cli_flag(a, "dot"))
        tutti_topo_write_dot(t, stdout);
    else if (cli_flag(a, "simgrid"))
        tutti_topo_write_simgrid(t, stdout);
    else if (cli_flag(a, "ns3"))
        code = tutti_topo_write_ns3(t, stdout, &err) ? cli_fail(a, &err) : 0;
    else if (cli_flag(a, "file") ? tutti_topo_write(t, "-", &err) : tutti_topo_info(t, &info, &err))
        code = cli_fail(a, &err);
    else if (!cli_flag(a, "file"))
        topo_describe(a, t, &info, (uint32_t)per_rack);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_topo = {
    .name = "topo",
    .synopsis = "topo SPEC [--json | --dot | --simgrid | --ns3 | --file] [--per-rack N] | "
                "--from-matrix FILE | --from-slurm FILE | --from-hostfile FILE | --kinds [--json]",
    .summary = "describe or convert a network",
    .details =
        "A SPEC is kind:parameters[@link], or the name of a topology file. A link is "
        "bandwidth[,latency[,gamma]][,half], by default 10Gbps,1us,0; 10G means bits per second, "
        "16GB/s bytes. Latency is per link: a message through a star pays two.\n\n"
        "The bisection is in cables: the least number, or that of the best cut that was found. "
        "Distances on very large irregular networks are those from some ranks to all. Cable is "
        "counted on a floor of racks: 2 m inside a rack; between racks 4 m, 0.6 m per column and "
        "2.1 m per row apart (tutti-topology(5)); not for trees of switches.\n\n"
        "Files: ours (JSON), NCCL's and hwloc's descriptions of machines (XML), ns-3's and "
        "ASTRA-sim's. --from-matrix makes a tree of switches from rates that were measured pair "
        "by pair: where rates fall, a group begins, and its link is as fast as its fastest pair "
        "with others.\n\n"
        "Further parameters follow as key=value: ports=N, overhead=TIME. tutti topo --kinds lists "
        "the kinds.",
    .examples = "tutti topo torus:8x8@16GB/s,150ns\n"
                "tutti topo 'tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps' --json\n"
                "tutti topo fattree:8,2 --file > cluster.json\n"
                "tutti topo --from-matrix rates.csv --unit Gbps --file > cluster.json\n"
                "tutti topo --from-slurm /etc/slurm/topology.conf --link 100Gbps/400Gbps,2us\n"
                "tutti topo --kinds",
    .options = options,
    .max_words = 1,
    .run = topo_run,
};
