/* survey.c - examines hosts and ranks without opening a communicator, because opening would fail at
 * the first thing that does not work.
 *
 * The ranks meet as usual (boot) and stay connected to rank 0 only. Each tries to reach every other
 * rank's listener, starting after its own rank so that not all probe the same one; the errno of
 * each attempt goes into a table that all ranks get. Every attempt has its share of the deadline,
 * so the survey ends in time even if a firewall drops everything. */
#include "probe/survey.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "transport/check.h"

/* The checks are those of transport, then boot, then the protection; i counts through all three. */
bool tt_probe_host_check(const struct tt_comm_config *c, size_t i, struct tt_check *ret)
{
    struct tt_check skipped;
    size_t own = 0;
    bool tcp_only = tt_comm_apart(c);
    while (own <= i && tt_transport_check(own, own == i ? ret : &skipped))
        own++;
    if (own > i) {
        ret->needed = ret->needed && !tcp_only;
        return true;
    }
    if (tt_boot_check(&c->boot, i - own, ret))
        return true;
    if (i > own && !tt_boot_check(&c->boot, i - own - 1, &skipped))
        return false;
    tt_comm_guard_check(c, ret);
    return true;
}

/* The number after `name` in /proc/meminfo, in bytes; 0: not there. */
static uint64_t meminfo(const char *name)
{
    char line[128];
    unsigned long long kib = 0;
    size_t len = strlen(name);
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && !kib && fgets(line, sizeof line, f))
        if (!strncmp(line, name, len) && sscanf(line + len, ": %llu", &kib) != 1)
            kib = 0;
    if (f)
        fclose(f);
    return kib * 1024;
}

void tt_probe_host_look(struct tt_host *ret)
{
    struct utsname u;
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    struct tt_host h = {.online = online > 0 ? (uint32_t)online : 1};
    h.cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : h.online;
    h.memory_bytes = meminfo("MemTotal");
    h.available_bytes = meminfo("MemAvailable");
    snprintf(h.isa, sizeof h.isa, "%s", tt_kernel_isa());
    if (uname(&u) == 0)
        snprintf(h.kernel, sizeof h.kernel, "%.20s %.40s", u.sysname, u.release);
    if (gethostname(h.name, sizeof h.name - 1) != 0)
        snprintf(h.name, sizeof h.name, "unknown");
    *ret = h;
}

static uint32_t failed_checks(const struct tt_comm_config *c)
{
    struct tt_check k;
    uint32_t failed = 0;
    for (size_t i = 0; i < TT_HOST_CHECKS_MAX && tt_probe_host_check(c, i, &k); i++)
        failed |= (uint32_t)!k.ok << i;
    return failed;
}

/* Fills one row of the table. The attempts together take half of the deadline at most. */
static void knock(struct tt_boot *b, uint64_t timeout_ns, int32_t *row)
{
    const struct tt_boot_config *c = tt_boot_config(b);
    uint64_t each = timeout_ns / 2 / c->size;
    each = each < 2000000000 ? each : 2000000000;
    for (uint32_t i = 0; i < c->size; i++) {
        uint32_t r = (c->rank + i) % c->size;
        row[r] = tt_boot_probe(b, r, each);
    }
}

static tutti_status survey_learn(struct tt_boot *b, const struct tt_survey_rank *me,
                                 struct tt_survey *s, uint64_t timeout_ns, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    int32_t *row = tt_zalloc(s->ranks, sizeof *row);
    if (!row)
        return tt_fail_memory(err, "survey");
    knock(b, timeout_ns, row);
    struct tt_survey_rank mine = *me;
    mine.peer = tt_boot_peers(b)[s->rank];
    st = tt_boot_exchange(b, &mine, sizeof mine, s->at, timeout_ns, err);
    if (!st)
        st = tt_boot_exchange(b, row, s->ranks * sizeof *row, s->reach, timeout_ns, err);
    free(row);
    return st;
}

tutti_status tt_probe_survey_make(const struct tt_comm_config *c, struct tt_survey **ret,
                                  struct tutti_error *err)
{
    struct tt_survey *s = tt_zalloc(1, sizeof *s);
    struct tt_survey_rank me = {.failed = failed_checks(c)};
    uint64_t timeout_ns = c->timeout_ns ? c->timeout_ns : 30000000000u;
    struct tt_boot *b = NULL;
    if (!s)
        return tt_fail_memory(err, "survey");
    tt_probe_host_look(&me.host);
    s->ranks = c->boot.size;
    s->rank = c->boot.rank;
    s->tcp_only = tt_comm_apart(c);
    s->at = tt_zalloc(s->ranks, sizeof *s->at);
    s->reach = tt_zalloc((size_t)s->ranks * s->ranks, sizeof *s->reach);
    tutti_status st =
        s->at && s->reach ? tt_boot_open(&c->boot, &b, err) : tt_fail_memory(err, "survey");
    if (!st)
        st = survey_learn(b, &me, s, timeout_ns, err);
    tt_boot_close(b);
    if (st) {
        tt_probe_survey_free(s);
        return st;
    }
    *ret = s;
    return TUTTI_OK;
}

void tt_probe_survey_free(struct tt_survey *s)
{
    if (!s)
        return;
    free(s->at);
    free(s->reach);
    free(s);
}

const char *tt_probe_survey_transport(const struct tt_survey *s, uint32_t a, uint32_t b)
{
    bool here = s->at[a].peer.host_id == s->at[b].peer.host_id && !s->tcp_only;
    return a == b ? "self" : here ? "shm" : "tcp";
}
