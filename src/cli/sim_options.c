/* sim_options.c - the options of tutti sim: the table, which level each option goes with, jitter,
 * and the parameters of the packet level.
 *
 * An option that has no meaning at the chosen level is refused, not ignored. 0 in the options
 * struct means the simulator's default. */
#include "cli/sim.h"

#include <string.h>

const struct cli_option cli_sim_options[] = {
    {"plan", 'p', "FILE", "a plan written by tutti plan, in place of --algo"},
    {"level", 'l', "LEVEL",
     "flow (default): messages share links; packet: flits and credits; step: the planner's cost"},
    {"sharing", 0, "RULE",
     "flow: fair (default, max-min) or rtt (by route latency, as SimGrid's CM02)"},
    {"flow-control", 0, "MODE", "packet: a head flit per packet (default), or per message"},
    {"flit", 0, "SIZE", "packet: bytes of a flit (default 16)"},
    {"payload", 0, "SIZE", "packet: bytes of a packet beside its head flit (default 256)"},
    {"cycles-per-flit", 0, "N", "packet: cycles a link takes per flit (default 1)"},
    {"vcs", 0, "N", "packet: virtual channels of an input (default 4, or what the routes need)"},
    {"buffer", 0, "FLITS",
     "packet: buffer of a virtual channel (default: the link's round trip and a packet)"},
    {"router-cycles", 0, "N", "packet: pipeline of a switch (default 1)"},
    {"interfaces", 0, "N", "packet: injection ports of a rank (default: the network's)"},
    {"lockstep", 0, NULL,
     "packet: interfaces issue steps in order, waiting an estimated time for steps without work"},
    {"aggregate", 0, "RATE",
     "packet: speed of reductions at the interface (default: by the network's gamma)"},
    {"jitter", 0, "X",
     "what if every message's latency were stretched by a random factor 1 to 1+X"},
    {"seed", 0, "N", "of the jitter (default 0)"},
    {"timeline", 0, "FILE", "write all messages for Perfetto or chrome://tracing (JSON)"},
    {"links", 0, "FILE", "write bytes, busy time and utilisation of every directed link (CSV)"},
    {0}};

/* The levels that each option goes with, as bits of enum sim_level; options not listed go with
 * all. */
static const struct {
    const char *option;
    unsigned levels;
} goes_with[] = {{"sharing", SIM_FLOW},
                 {"flow-control", SIM_PACKET},
                 {"flit", SIM_PACKET},
                 {"payload", SIM_PACKET},
                 {"cycles-per-flit", SIM_PACKET},
                 {"vcs", SIM_PACKET},
                 {"buffer", SIM_PACKET},
                 {"router-cycles", SIM_PACKET},
                 {"interfaces", SIM_PACKET},
                 {"lockstep", SIM_PACKET},
                 {"aggregate", SIM_PACKET},
                 {"slow", SIM_FLOW | SIM_PACKET},
                 {"degrade", SIM_FLOW | SIM_PACKET},
                 {"jitter", SIM_FLOW | SIM_PACKET},
                 {"seed", SIM_FLOW | SIM_PACKET},
                 {"timeline", SIM_FLOW | SIM_PACKET},
                 {"links", SIM_FLOW | SIM_PACKET}};

/* In the order of the bits of enum sim_level. */
static const char *const level_names[] = {"step", "flow", "packet"};

const char *cli_sim_level_name(enum sim_level level)
{
    return level_names[level == SIM_STEP ? 0 : level == SIM_FLOW ? 1 : 2];
}

/* The default is flow. The position of a name in level_names is the bit of its level. */
int cli_sim_level_get(const struct cli_args *a, enum sim_level *ret)
{
    const char *text = cli_value(a, "level");
    enum sim_level level = SIM_FLOW;
    char near[160];
    unsigned i = 0;
    while (text && i < 3 && strcmp(text, level_names[i]))
        i++;
    if (i == 3) {
        tutti_near_matches(text, level_names, 3, near, sizeof near);
        return cli_bad(a, "no level '%.40s'%s%s (known: step, flow, packet)", text,
                       *near ? "; " : "", near);
    }
    /* level_names is in the order of the bits. */
    if (text)
        level = (enum sim_level)(1u << i);
    for (size_t k = 0; k < sizeof goes_with / sizeof goes_with[0]; k++)
        if (cli_value(a, goes_with[k].option) && !(goes_with[k].levels & level))
            return cli_bad(a, "--%s goes with --level %s, not with --level %s", goes_with[k].option,
                           goes_with[k].levels == SIM_PACKET ? "packet"
                           : goes_with[k].levels == SIM_FLOW ? "flow"
                                                             : "flow or packet",
                           cli_sim_level_name(level));
    *ret = level;
    return 0;
}

/* Parses one of two words: *ret is true for the second; the first is the default. */
static int get_word(const struct cli_args *a, const char *option, const char *const words[2],
                    bool *ret)
{
    const char *text = cli_value(a, option);
    *ret = text && !strcmp(text, words[1]);
    if (!text || *ret || !strcmp(text, words[0]))
        return 0;
    return cli_bad(a, "--%s: '%.40s' is neither %s nor %s", option, text, words[0], words[1]);
}

/* --slow, --degrade and --jitter. q->o borrows the arrays of q->whatif. */
static int get_whatif(const struct cli_args *a, const struct tutti_topo *t, struct sim_request *q)
{
    struct tutti_error err;
    const char *jitter = cli_value(a, "jitter"), *seed = cli_value(a, "seed");
    int code = cli_whatif_get(a, t, &q->whatif);
    if (code)
        return code;
    if (jitter && !cli_read_factor(jitter, 1000, &q->o.jitter))
        return cli_bad(a, "--jitter: '%.40s' is not a number between 0 and 1000", jitter);
    if (seed && !jitter)
        return cli_bad(a, "--seed goes with --jitter");
    if (seed && tutti_parse_u64(seed, 0, UINT64_MAX, &q->o.seed, &err))
        return cli_bad(a, "--seed: %s", err.text);
    q->o.slow = q->whatif.slow;
    q->o.nslow = q->whatif.nslow;
    q->o.degrade = q->whatif.degrade;
    q->o.ndegrade = q->whatif.ndegrade;
    return 0;
}

/* Parses a number, or a size, from 1 to max. *ret stays 0 (the default) when the option is not
 * given. */
static int get_number(const struct cli_args *a, const char *option, bool size, uint64_t max,
                      uint32_t *ret)
{
    struct tutti_error err;
    const char *text = cli_value(a, option);
    uint64_t v = 0;
    if (!text)
        return 0;
    if (size ? tutti_parse_size(text, &v, &err) : tutti_parse_u64(text, 1, max, &v, &err))
        return cli_bad(a, "--%s: %s", option, err.text);
    if (v < 1 || v > max)
        return cli_bad(a, "--%s: %llu is not in the allowed range 1 to %llu", option,
                       (unsigned long long)v, (unsigned long long)max);
    *ret = (uint32_t)v;
    return 0;
}

/* The parameters of the packet level; one table line for each number. */
static int get_packet(const struct cli_args *a, struct tutti_sim_options *o)
{
    const struct {
        const char *option;
        bool size;
        uint64_t max;
        uint32_t *at;
    } numbers[] = {{"flit", true, 1 << 16, &o->flit_bytes},
                   {"payload", true, 1 << 24, &o->payload_bytes},
                   {"cycles-per-flit", false, 1 << 16, &o->cycles_per_flit},
                   {"vcs", false, 64, &o->vcs},
                   {"buffer", false, 1 << 24, &o->buffer_flits},
                   {"router-cycles", false, 1 << 16, &o->router_cycles},
                   {"interfaces", false, 1 << 16, &o->interfaces}};
    struct tutti_error err;
    const char *rate = cli_value(a, "aggregate");
    int code = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !code; i++)
        code = get_number(a, numbers[i].option, numbers[i].size, numbers[i].max, numbers[i].at);
    if (!code && rate && tutti_parse_rate(rate, &o->aggregate_bytes_per_s, &err))
        code = cli_bad(a, "--aggregate: %s", err.text);
    o->lockstep = cli_flag(a, "lockstep");
    return code ? code
                : get_word(a, "flow-control", (const char *const[2]){"packet", "message"},
                           &o->message_mode);
}

int cli_sim_request_get(const struct cli_args *a, const struct tutti_topo *t, enum sim_level level,
                        struct sim_request *ret)
{
    *ret = (struct sim_request){
        .level = level,
        .o = {.packet = level == SIM_PACKET, .timeline = cli_value(a, "timeline") != NULL}};
    int code = get_word(a, "sharing", (const char *const[2]){"fair", "rtt"}, &ret->o.rtt);
    if (!code)
        code = get_packet(a, &ret->o);
    if (!code)
        code = get_whatif(a, t, ret);
    if (code)
        cli_sim_request_free(ret);
    return code;
}

void cli_sim_request_free(struct sim_request *q)
{
    cli_whatif_free(&q->whatif);
}
