/* probe.h - measures the network of a live communicator into a topology.
 *
 * Every rank makes the same decisions from the same figures: after each round of flows all learn
 * what every sender measured (the largest, by an all-reduce), and the time that is left is rank
 * 0's. The road:
 *
 *     ranks on a host    disjoint pairs in rounds: latency and bandwidth of shared memory
 *     hosts, in pairs    disjoint pairs in rounds, one way at a time (a tournament): latency and
 *                        bandwidth
 *     fans               one host to several others, and several to one, hosts one after the other:
 *                        the rate of its network interface
 *     crowds             every host sends and receives at once (permutations): pairs that a crowd
 *                        slows down are separated by a shared link
 *     groups             hosts that no crowd slows down among themselves; all of a group to others
 *                        at once: the rate of its uplink
 *
 * Rates are the time of a long message less that of a sixth of it, best of several each: neither
 * latency nor the burst that a shaped link lets through counts, as long as the sixth (6 ms worth)
 * is longer than the burst. They are payload: through Ethernet with 1500-byte frames, 95 % of the
 * line's.
 *
 * What this can not see: links that are not full when everybody sends at once (an uplink shows when
 * a crowd gets less than 65 % of what its pairs reach alone); more than one level of groups (deeper
 * ones appear as one, at the narrowest rate); groups among fewer than 4 hosts; uplinks of half
 * their hosts' rate or more among many hosts (crowds that all cross one are rare: then the result
 * says that it is unsure); which of two uplinks between just two groups is the narrow one (both get
 * the rate); which path of several was taken; traffic of others (it is taken for the network); a
 * network interface that no set of flows fills (the rate is then "at least"). */
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
    bool up_at_least, down_at_least; /* no flows filled it */
    /* between two of its ranks; 0: it has one rank, or there was no time */
    uint64_t memory_bw, memory_lat_ps;
};
struct tt_probe_group {
    uint32_t hosts;
    uint64_t up, down; /* bytes/s; 0: one host, or one group */
};
/* One way between two hosts (their first ranks). */
struct tt_probe_pair {
    uint64_t bw;     /* 0: not measured */
    uint64_t lat_ps; /* host overhead included; 0: not measured */
    uint64_t crowd;  /* the least in a crowd; 0: not measured */
    uint32_t crowds; /* how often it was in one */
};

struct tt_probe {
    uint32_t ranks, hosts, groups;
    uint32_t *list; /* ranks, host by host */
    struct tt_probe_host *host;
    struct tt_probe_group *group;
    struct tt_probe_pair *pair; /* [from * hosts + to] */
    uint32_t pairs;             /* measured, of hosts * (hosts - 1) */
    bool crowded;               /* there was time for crowds */
    bool unsure;                /* crowds slow pairs down, but no groups explain which */
    uint64_t overhead_ps, gamma_fs, ns;
    uint32_t judged; /* pairs that were measured with nobody else on the way */
    /* the part of the judged pairs that the topology predicts within 15 %; 0 when there are none */
    double confidence;
    struct tt_vec said; /* char[TT_PROBE_TEXT]: what is slow or odd, by name */
};

/* Collective; the same result on all ranks. budget_ns: about how long it may take (rounds under way
 * are finished). */
tutti_status tt_probe_run(struct tt_comm *c, uint64_t budget_ns, struct tt_probe **ret,
                          struct tutti_error *err);
void tt_probe_free(struct tt_probe *p); /* accepts NULL */

/* The parts that need no network. An empty result of ranks on hosts: host_of[rank] numbers hosts by
 * first appearance. */
tutti_status tt_probe_new(uint32_t ranks, const uint32_t *host_of, struct tt_probe **ret,
                          struct tutti_error *err);
struct tt_probe_pair *tt_probe_pair(const struct tt_probe *p, uint32_t from, uint32_t to);
/* What the pair would reach alone: the narrower of its two ends. */
uint64_t tt_probe_alone(const struct tt_probe *p, uint32_t from, uint32_t to);
/* Is this rate in a crowd so much less that something must be shared? */
bool tt_probe_suffers(const struct tt_probe *p, uint32_t from, uint32_t to, uint64_t bw);
/* Groups from what crowds did to the pairs (cluster.c). */
void tt_probe_cluster(struct tt_probe *p);
void tt_probe_ungroup(struct tt_probe *p); /* the groups were refuted */
/* Confidence and findings (judge.c). */
tutti_status tt_probe_judge(struct tt_probe *p, struct tutti_error *err);
/* The topology of the figures (model.c). */
tutti_status tt_probe_topology(const struct tt_probe *p, struct tt_topo **ret,
                               struct tutti_error *err);
#endif
