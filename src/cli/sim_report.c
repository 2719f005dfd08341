/* sim_report.c - what tutti sim reports about a simulation of level flow or packet, as text or
 * JSON: time, links, idle ranks, the bound, and which level to believe for such a network.
 *
 *     $ tutti sim --topo star:4@1Gbps,50us --algo ring --size 1M
 *     ring: 13.18 ms in 6 steps, 24 messages (level flow)
 *     busiest link rank 0 -> switch 0 carries 1.5 MiB and is used to 95.4%; ...
 *     contention: at most 1 message on a link in a step; at most 1 at once (rank 0 -> switch 0)
 *     most idle: rank 0 600 us (4.6%), rank 1 600 us (4.6%), ...; mean of all 600 us
 *     bound 12.58 ms, 1.048 x
 *     level flow is the one to believe for this network: ... */
#include "cli/sim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Time / bound; NaN when there is no bound, or when it is 0. */
static double ratio_of(const struct sim_answer *x, double time_us)
{
    return x->bound_us > 0 ? time_us / x->bound_us : (double)NAN;
}

/* The part of the flits that carries no data. */
static double head_share(const struct tutti_sim_info *i)
{
    return i->flits ? (double)i->head_flits / (double)i->flits : 0;
}

/* ---- which level to believe ---- */

/* Tells whether the level that was run is the one to believe for such a network. */
void cli_sim_say_believed(const struct tutti_topo *t, enum sim_level level)
{
    const char *why, *believed = tutti_topo_sim_level(t, &why);
    if (!strcmp(believed, cli_sim_level_name(level)))
        printf("level %s is the one to believe for this network: %s\n", believed, why);
    else
        printf("believe --level %s rather than %s for this network: %s\n", believed,
               cli_sim_level_name(level), why);
}

void cli_sim_json_believed(struct tutti_json *j, const struct tutti_topo *t)
{
    const char *why, *believed = tutti_topo_sim_level(t, &why);
    tutti_json_string(j, "believed_level", believed);
    tutti_json_string(j, "believed_why", why);
}

/* ---- JSON ---- */

/* Totals over the links, the link with the most messages at once, and the busiest one by time. */
static void json_links(struct tutti_json *j, const struct sim_answer *x,
                       const struct tutti_sim_info *i)
{
    struct tutti_sim_link l = {0};
    char name[400];
    tutti_json_object(j, "links");
    tutti_json_u64(j, "directed", i->links);
    tutti_json_u64(j, "used", i->links_used);
    tutti_json_real(j, "mean_utilisation", i->mean_utilisation);
    tutti_json_real(j, "max_utilisation", i->max_utilisation);
    /* Nothing was sent: no link has a peak. */
    if (tutti_sim_link(x->sim, i->peak_link, &l) && l.peak)
        tutti_json_string(j, "peak_link",
                          tutti_topo_link_name(x->t, i->peak_link, name, sizeof name));
    tutti_json_u64(j, "peak_messages", l.peak);
    if (tutti_sim_link(x->sim, i->busiest_link, &l)) {
        tutti_json_string(j, "busiest",
                          tutti_topo_link_name(x->t, i->busiest_link, name, sizeof name));
        tutti_json_real(j, "busiest_utilisation", l.utilisation);
        tutti_json_real(j, "busiest_busy_us", l.busy_us);
    }
    tutti_json_end(j);
}

/* Idle time of all ranks, and its mean and maximum. */
static void json_idle(struct tutti_json *j, const struct sim_answer *x,
                      const struct tutti_sim_info *i)
{
    struct tutti_sim_rank r;
    tutti_json_object(j, "idle");
    tutti_json_real(j, "mean_us", i->mean_idle_us);
    tutti_json_real(j, "max_us", i->max_idle_us);
    tutti_json_array(j, "by_rank_us");
    for (size_t k = 0; tutti_sim_rank(x->sim, k, &r); k++)
        tutti_json_real(j, NULL, r.idle_us);
    tutti_json_end(j);
    tutti_json_end(j);
}

/* What only the packet level knows. */
static void json_packet(struct tutti_json *j, const struct sim_answer *x,
                        const struct tutti_sim_info *i)
{
    tutti_json_object(j, "packet");
    tutti_json_string(j, "flow_control", x->q->o.message_mode ? "message" : "packet");
    tutti_json_u64(j, "cycles", i->cycles);
    tutti_json_u64(j, "flits", i->flits);
    tutti_json_u64(j, "head_flits", i->head_flits);
    tutti_json_real(j, "head_share", head_share(i));
    tutti_json_u64(j, "credit_stalls", i->stalls);
    if (x->q->o.lockstep)
        tutti_json_real(j, "lockstep_wait_us", i->lockstep_wait_us);
    tutti_json_end(j);
}

void cli_sim_print_json(const struct sim_answer *x)
{
    struct tutti_sim_info i;
    char link[400];
    tutti_sim_info(x->sim, &i);
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "level", cli_sim_level_name(x->q->level));
    cli_sim_json_believed(j, x->t);
    tutti_json_string(j, "algo", x->algo);
    tutti_json_real(j, "time_us", i.time_us);
    tutti_json_u64(j, "steps", i.steps);
    tutti_json_u64(j, "messages", i.messages);
    tutti_json_u64(j, "bytes_on_busiest_link", i.bytes_on_busiest_link);
    tutti_json_u64(j, "busiest_link", i.busiest_link);
    if (i.links_used)
        tutti_json_string(j, "busiest_link_name",
                          tutti_topo_link_name(x->t, i.busiest_link, link, sizeof link));
    tutti_json_u64(j, "max_link_contention", i.max_link_contention);
    tutti_json_real(j, "bound_us", x->bound_us);
    tutti_json_real(j, "ratio_to_bound", ratio_of(x, i.time_us));
    tutti_json_u64(j, "events", i.events);
    tutti_json_real(j, "wall_s", x->wall_s);
    if (x->q->level == SIM_FLOW)
        tutti_json_string(j, "sharing", x->q->o.rtt ? "rtt" : "fair");
    json_links(j, x, &i);
    json_idle(j, x, &i);
    if (x->q->level == SIM_PACKET)
        json_packet(j, x, &i);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* ---- text ---- */

/* The busiest link by time, and the one with the most messages at once. */
static void say_links(const struct sim_answer *x, const struct tutti_sim_info *i)
{
    struct tutti_sim_link l;
    char name[400], size[64];
    if (!i->links_used || !tutti_sim_link(x->sim, i->busiest_link, &l))
        return;
    printf("busiest link %s carries %s and is used to %.1f%%; %u of %u directed links carry "
           "something, %.1f%% on average\n",
           tutti_topo_link_name(x->t, i->busiest_link, name, sizeof name),
           tutti_format_size(l.bytes, size, sizeof size), l.utilisation * 100, i->links_used,
           i->links, i->mean_utilisation * 100);
    if (!tutti_sim_link(x->sim, i->peak_link, &l))
        return;
    printf("contention: at most %u message%s on a link in a step; at most %u at once (%s)\n",
           i->max_link_contention, cli_s(i->max_link_contention), l.peak,
           tutti_topo_link_name(x->t, i->peak_link, name, sizeof name));
}

/* How many idle ranks are listed. */
enum { IDLEST = 3 };

/* The ranks with the most idle time, longest first, the lower rank first among equals. Returns
 * how many. An insertion into a list of at most IDLEST: invariant: who[0..n) is sorted and holds
 * the most idle of the ranks seen so far. */
static size_t find_idlest(const struct tutti_sim *sim, size_t who[IDLEST], double idle_us[IDLEST])
{
    struct tutti_sim_rank r;
    size_t n = 0;
    for (size_t i = 0; tutti_sim_rank(sim, i, &r); i++) {
        /* at == IDLEST: the list is full; the rank enters only if it moves up. */
        size_t at = n < IDLEST ? n++ : IDLEST;
        for (; at > 0 && idle_us[at - 1] < r.idle_us; at--)
            if (at < IDLEST) {
                who[at] = who[at - 1];
                idle_us[at] = idle_us[at - 1];
            }
        if (at < IDLEST) {
            who[at] = i;
            idle_us[at] = r.idle_us;
        }
    }
    return n;
}

/* The most idle ranks with the part of the time that they are idle. */
static void say_idle(const struct sim_answer *x, const struct tutti_sim_info *i)
{
    size_t who[IDLEST], n;
    double idle_us[IDLEST];
    char a[64];
    if (!(i->time_us > 0))
        return;
    if (!(i->max_idle_us > 0)) {
        printf("no rank is idle\n");
        return;
    }
    n = find_idlest(x->sim, who, idle_us);
    printf("most idle:");
    for (size_t k = 0; k < n && idle_us[k] > 0; k++)
        printf("%s rank %zu %s (%.1f%%)", k ? "," : "", who[k],
               tutti_format_us(idle_us[k], a, sizeof a), idle_us[k] / i->time_us * 100);
    printf("; mean of all %s\n", tutti_format_us(i->mean_idle_us, a, sizeof a));
}

/* Flits, heads and stalls; with --lockstep also the waiting that it adds. */
static void say_packet(const struct sim_answer *x, const struct tutti_sim_info *i)
{
    char a[64];
    printf("%llu cycle%s; %llu flits, %.2f%% of them heads (one per %s); %llu flits waited for a "
           "credit\n",
           (unsigned long long)i->cycles, cli_s(i->cycles), (unsigned long long)i->flits,
           head_share(i) * 100, x->q->o.message_mode ? "message" : "packet",
           (unsigned long long)i->stalls);
    if (x->q->o.lockstep)
        printf("lockstep: interfaces waited %s in all\n",
               tutti_format_us(i->lockstep_wait_us, a, sizeof a));
}

/* The bound, or the reason why there is none to compare with. */
static void say_bound(const struct sim_answer *x, const struct tutti_sim_info *i)
{
    char a[64];
    if (x->q->whatif.faster)
        printf("bound not stated: a what-if makes the network faster than described\n");
    else if (isnan(x->bound_us))
        printf("bound not stated: the plan's blocks are uneven\n");
    else if (x->bound_us > 0)
        printf("bound %s, %.3f x\n", tutti_format_us(x->bound_us, a, sizeof a),
               ratio_of(x, i->time_us));
    else
        printf("bound %s\n", tutti_format_us(x->bound_us, a, sizeof a));
}

void cli_sim_print_text(const struct sim_answer *x)
{
    struct tutti_sim_info i;
    char a[64];
    tutti_sim_info(x->sim, &i);
    printf("%s: %s in %u step%s, %llu message%s (level %s)\n", x->algo,
           tutti_format_us(i.time_us, a, sizeof a), i.steps, cli_s(i.steps),
           (unsigned long long)i.messages, cli_s(i.messages), cli_sim_level_name(x->q->level));
    say_links(x, &i);
    say_idle(x, &i);
    if (x->q->level == SIM_PACKET)
        say_packet(x, &i);
    say_bound(x, &i);
    cli_sim_say_believed(x->t, x->q->level);
}
