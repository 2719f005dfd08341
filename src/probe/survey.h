/* survey.h - diagnosis: what can be said about the hosts and ranks of a job without opening a
 * communicator. */
#ifndef TT_SURVEY_H
#define TT_SURVEY_H

#include "comm/comm.h"

/* Checks of this host: the i-th one; false past the last. May start child processes. */
bool tt_probe_host_check(const struct tt_comm_config *c, size_t i, struct tt_check *ret);
enum { TT_HOST_CHECKS_MAX = 32 };
struct tt_host {
    char name[TT_BOOT_HOST], kernel[64], isa[16];
    uint32_t cores, online; /* that this process may use; that exist */
    uint64_t memory_bytes, available_bytes;
};
void tt_probe_host_look(struct tt_host *ret);

/* One rank as all ranks know it. Fixed size: it is sent. */
struct tt_survey_rank {
    struct tt_boot_peer peer;
    struct tt_host host;
    uint32_t failed; /* bit i: check i failed */
};
struct tt_survey {
    uint32_t ranks, rank;
    struct tt_survey_rank *at;
    int32_t *reach; /* [from][to]: 0 or errno of a connection attempt */
    bool tcp_only;
};
/* Collective: all ranks of the job meet; each runs its host's checks and tries a connection to
 * every other rank; all get all results and part again. A communicator can be opened at the same
 * rendezvous afterwards. */
tutti_status tt_probe_survey_make(const struct tt_comm_config *c, struct tt_survey **ret,
                                  struct tutti_error *err);
void tt_probe_survey_free(struct tt_survey *s); /* accepts NULL */
/* "shm" or "tcp": what a communicator would use between two ranks; "self" for a == b. */
const char *tt_probe_survey_transport(const struct tt_survey *s, uint32_t a, uint32_t b);
#endif
