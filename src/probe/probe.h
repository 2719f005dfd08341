/* probe.h - measures the network of a live communicator and describes it as a topology.
 *
 * Every rank takes the same decisions from the same figures: after each round of flows all ranks
 * learn what every sender measured (the maximum, by an all-reduce), and the time left is that of
 * rank 0. The phases:
 *
 *     ranks on a host    disjoint pairs in rounds: latency and bandwidth of shared memory
 *     hosts, in pairs    disjoint pairs in rounds, one direction at a time (a tournament): latency
 *                        and bandwidth
 *     fans               one host to several others, and several to one, host after host: the rate
 *                        of its network interface
 *     crowds             every host sends and receives at once (permutations): pairs that a crowd
 *                        slows down are separated by a shared link
 *     groups             hosts that no crowd slows down among themselves; all of a group to others
 *                        at once: the rate of its uplink
 *
 * A rate is taken from the time of a long message less that of a sixth of it, each the best of
 * several. Neither latency nor the burst that a shaped link lets through counts, as long as the
 * sixth (6 ms worth) is longer than the burst. Rates are payload: 95 % of the line rate of
 * Ethernet with 1500-byte frames.
 *
 * Limits: A link that is not full when all hosts send at once is not seen (an uplink shows when
 * a crowd gets less than 65 % of what its pairs reach alone). Several levels of groups appear as
 * one, at the narrowest rate. Fewer than 4 hosts get no groups. Among many hosts, uplinks of
 * half their hosts' rate or more may be missed, because crowds that all cross one are rare; the
 * result then says that it is unsure. Of two uplinks between just two groups, the narrow one is
 * not identified: both get its rate. With several paths, the one taken is unknown. Traffic of
 * others is taken for a property of the network. If no set of flows fills an interface, its rate
 * is an "at least". */
#ifndef TT_PROBE_H
#define TT_PROBE_H

#include "base/base.h"
#include "comm/comm.h"
#include "topo/topo.h"

enum { TT_PROBE_NAME = 64, TT_PROBE_TEXT = 240 };

struct tt_probe_host {
    char name[TT_PROBE_NAME];
    uint32_t first, nranks; /* ranks list[first .. first+nranks-1] */
    uint32_t group;
    uint64_t up, down;               /* bytes/s out of and into the host; 0 with one host */
    bool up_at_least, down_at_least; /* true: no flows filled it, the rate is a lower bound */
    /* between two of its ranks; 0: it has one rank, or time was too short */
    uint64_t memory_bw, memory_lat_ps;
};
struct tt_probe_group {
    uint32_t hosts;
    uint64_t up, down; /* bytes/s of the uplink; 0: not measured (one host, or one group) */
};
/* One direction between two hosts, measured between their first ranks. */
struct tt_probe_pair {
    uint64_t bw;     /* 0: not measured */
    uint64_t lat_ps; /* host overhead included; 0: not measured */
    uint64_t crowd;  /* the least rate in a crowd; 0: not measured */
    uint32_t crowds; /* number of crowds it was in */
};

struct tt_probe {
    uint32_t ranks, hosts, groups;
    uint32_t *list; /* ranks, host by host; struct tt_probe_host has the ranges */
    struct tt_probe_host *host;
    struct tt_probe_group *group;
    struct tt_probe_pair *pair; /* [from * hosts + to] */
    uint32_t pairs;             /* number measured, of hosts * (hosts - 1) */
    bool crowded;               /* there was time for enough crowds */
    bool unsure;                /* crowds slow pairs down, but groups do not explain which */
    uint64_t overhead_ps, gamma_fs, ns;
    uint32_t judged; /* pairs measured with no other flow on their uplinks */
    /* share of the judged pairs that the topology predicts within 15 %; 0 when there are none */
    double confidence;
    struct tt_vec said; /* char[TT_PROBE_TEXT]: findings, what is slow or odd, by name */
};

/* Collective; all ranks get the same result and each frees its own. budget_ns is approximate:
 * rounds under way are finished. */
tutti_status tt_probe_run(struct tt_comm *c, uint64_t budget_ns, struct tt_probe **ret,
                          struct tutti_error *err);
void tt_probe_free(struct tt_probe *p); /* accepts NULL */

/* The functions below need no network. tt_probe_new makes an empty result; host_of[rank] numbers
 * hosts by first appearance. */
tutti_status tt_probe_new(uint32_t ranks, const uint32_t *host_of, struct tt_probe **ret,
                          struct tutti_error *err);
struct tt_probe_pair *tt_probe_pair(const struct tt_probe *p, uint32_t from, uint32_t to);
/* The rate that the pair would reach alone: the narrower of its two ends. */
uint64_t tt_probe_alone(const struct tt_probe *p, uint32_t from, uint32_t to);
/* Is this rate in a crowd so low that something must be shared? */
bool tt_probe_suffers(const struct tt_probe *p, uint32_t from, uint32_t to, uint64_t bw);
/* Finds groups from what crowds did to the pairs (cluster.c). */
void tt_probe_cluster(struct tt_probe *p);
void tt_probe_ungroup(struct tt_probe *p); /* one group after all, and unsure */
/* Sets confidence and findings (judge.c). */
tutti_status tt_probe_judge(struct tt_probe *p, struct tutti_error *err);
/* Builds the topology that the figures describe (model.c); the caller frees it. */
tutti_status tt_probe_topology(const struct tt_probe *p, struct tt_topo **ret,
                               struct tutti_error *err);
#endif
