/* hosts.h - the machines of tutti run: the host of each rank, the meeting point, and how a rank
 * starts on another machine. */
#ifndef LAUNCH_HOSTS_H
#define LAUNCH_HOSTS_H

#include "launch/job.h"

enum { RUN_MAX_HOSTS = 256 };

struct launch_hosts {
    char *text;                       /* the text that names point into */
    const char *names[RUN_MAX_HOSTS]; /* NULL: this machine */
    uint32_t slots[RUN_MAX_HOSTS];    /* 1 when not given */
    bool slotted;                     /* some are given: hosts are filled one after the other */
    size_t count;
};

/* From --hosts or --hostfile; without them, this machine alone. Returns 0 or the exit code after
 * a complaint. */
int launch_hosts_open(const struct cli_args *a, struct launch_hosts *ret);
void launch_hosts_close(struct launch_hosts *h);
/* The number of ranks when -n is not given: one for each slot. */
uint64_t launch_slots(const struct launch_hosts *h);
/* The host of a rank (NULL: this machine). Hosts take blocks of ranks in the order given: as
 * many as they have slots, or blocks as equal as possible when no slots were given. */
const char *launch_host_of(const struct launch_hosts *h, uint32_t rank, uint32_t size);
struct launch_place launch_place_of(const struct launch_hosts *h, uint32_t rank, uint32_t size);
/* The name or address that ssh connects to for `host` (user@name, or an alias of ~/.ssh/config). */
void launch_host_name(const char *host, char *ret, size_t cap);
/* Sets the address and the ports at which the job's ranks meet. Returns 0 or the exit code. */
int launch_find_meeting(const struct cli_args *a, const struct launch_hosts *h,
                        struct launch_job *job);
/* The ssh command that starts the program on `host`. Its standard input takes the key, then
 * names of signals. The caller frees it with launch_job_free_list. NULL: out of memory. */
char **launch_remote_argv(const struct launch_job *job, const struct launch_place *place,
                          const char *host, char *const *program);
#endif
