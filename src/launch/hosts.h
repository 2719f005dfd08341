/* hosts.h - the machines of tutti run: which rank runs where, where rank 0 is met, how a rank
 * starts on another machine. */
#ifndef CLI_RUN_HOSTS_H
#define CLI_RUN_HOSTS_H

#include "launch/job.h"

enum { RUN_MAX_HOSTS = 256 };

struct launch_hosts {
    char *text;                       /* what names point into */
    const char *names[RUN_MAX_HOSTS]; /* NULL: this machine */
    uint32_t slots[RUN_MAX_HOSTS];    /* 1 when not given */
    bool slotted;                     /* some are given: hosts are filled one after the other */
    size_t count;
};

/* From --hosts or --hostfile; without them, this machine alone. 0, or the exit code after the
 * complaint. */
int launch_hosts_open(const struct cli_args *a, struct launch_hosts *ret);
void launch_hosts_close(struct launch_hosts *h);
/* How many ranks there are unless -n says so: one for each slot. */
uint64_t launch_slots(const struct launch_hosts *h);
/* The host of a rank (NULL: this machine). Hosts take blocks of ranks in the order given: as many
 * as they have slots, or, when none were given, as equal as they can be. */
const char *launch_host_of(const struct launch_hosts *h, uint32_t rank, uint32_t size);
struct launch_place launch_place_of(const struct launch_hosts *h, uint32_t rank, uint32_t size);
/* What ssh connects to for `host` (user@name, an alias of ~/.ssh/config): a name or an address. */
void launch_host_name(const char *host, char *ret, size_t cap);
/* Address and ports at which the job's ranks meet. */
int launch_find_meeting(const struct cli_args *a, const struct launch_hosts *h,
                        struct launch_job *job);
/* The ssh command that starts the program on `host`; its standard input takes the key, then
 * signals. NULL: no memory. */
char **launch_remote_argv(const struct launch_job *job, const struct launch_place *place,
                          const char *host, char *const *program);
#endif
