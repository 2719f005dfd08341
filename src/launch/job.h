/* job.h - what every rank of a started job must know: its place, the meeting point, the key. run
 * and lab share it. */
#ifndef LAUNCH_JOB_H
#define LAUNCH_JOB_H

#include <netinet/in.h>

#include "cli/cli.h"

extern const struct cli_option launch_job_options[]; /* --elastic --prefix --timeout .. */

struct launch_job {
    uint32_t size;
    char address[256]; /* where rank 0 listens */
    /* of TUTTI_RENDEZVOUS and of MASTER_PORT: two, so that torch and tutti can both listen */
    uint16_t port, torch_port;
    uint64_t timeout_ns;
    const char *timeout;           /* as written on the command line; NULL: not given */
    const char *join;              /* value of TUTTI_JOIN; NULL: not given */
    uint32_t least, restarts;      /* of --elastic and --restarts, see struct sup_job */
    uint32_t most;                 /* value of TUTTI_MAX_RANKS; 0: not given */
    bool given_key;                /* the user's TUTTI_KEY_FILE is used instead of a new key */
    const char *trace;             /* value of TUTTI_TRACE; NULL: not given */
    bool top;                      /* TUTTI_TOP=1 */
    char plan[4096], tuning[4096]; /* values of TUTTI_PLAN and TUTTI_TUNING; "": not given */
    char key[66];                  /* hex digits and a newline, for ssh */
    int key_fd;                    /* memory that holds the key's bytes */
    char key_file[64]; /* its name under /proc, for processes of this user, while we live */
    int verdict_fd;    /* where ranks note which rank is to blame (base/blame.h) */
    char verdict_file[64];
};

/* Reads --elastic, --timeout or TUTTI_TIMEOUT, --plan and --tuning, and makes the key and its file.
 * Returns 0 or the exit code after a complaint. */
int launch_job_open(const struct cli_args *a, uint32_t size, struct launch_job *ret);
/* Wipes the key and closes its file. Accepts a zeroed job. */
void launch_job_close(struct launch_job *j);
/* Finds two TCP ports that are free now at this address of this machine. If another process
 * takes one before rank 0 does, rank 0 fails and says so. */
bool launch_job_find_ports(struct launch_job *j, struct in_addr at);

struct launch_place {
    uint32_t rank, local_rank, local_size;
};
/* Binds this process to its share of the cores that it may use, when there are enough for all
 * ranks of its machine. Returns 0, or -1 with errno. */
int launch_bind_share(const struct launch_place *place, const char **ret_what);
/* The variables of a rank, "NAME=VALUE", ended by NULL: ours and torchrun's. `remote`: without
 * the files (their paths mean nothing there), but with those TUTTI_ variables of our own
 * environment that a remote shell would not have. NULL: out of memory. */
char **launch_job_variables(const struct launch_job *j, const struct launch_place *place,
                            bool remote);
/* Our environment with those variables; the list and its strings are the caller's. */
char **launch_job_environment(const struct launch_job *j, const struct launch_place *place);
void launch_job_free_list(char **list); /* accepts NULL */
#endif
