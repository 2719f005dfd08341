/* supervise.h - several processes as one job: started together, watched, signalled and ended
 * together. run and lab share it.
 *
 * The rules. Standard input belongs to rank 0. SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and
 * SIGUSR2 are forwarded to all ranks; the second SIGINT or SIGTERM kills (not within 50 ms or one
 * second of the first), and so does timeout_ns plus a second after SIGTERM. A rank that exits with
 * a status other than 0, or is killed, makes the job fail and is named; the survivors may go on for
 * timeout_ns plus a second, because they have an error to report; then they get SIGTERM, and two
 * seconds later SIGKILL. A rank that the others blame, and that is stopped for that long after they
 * have ended with status 0, is ended in the same way. A job that can go on with fewer ranks (least)
 * fails when fewer than that are left; until then a rank that fails is only named, and started
 * again if that is asked for, after a pause that doubles from 0.1 s to 30 s. No rank outlives the
 * launcher, even when that is killed. Processes that a rank leaves in its group get two seconds
 * after the last rank. */
#ifndef LAUNCH_SUPERVISE_H
#define LAUNCH_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

/* Where a rank's standard output or error goes. SHOWN: line by line, each line after "[rank] ". */
enum sup_output { SUP_INHERITED, SUP_DISCARDED, SUP_SHOWN_ON_STDOUT, SUP_SHOWN_ON_STDERR };

/* One rank before it starts. Everything is borrowed until launch_supervise returns. */
struct sup_rank {
    char **argv, **env;
    const char *host; /* for messages; NULL: omit from messages */
    enum sup_output out, err;
    /* argv is a connection to another host (ssh): its standard input takes `hello`, then names
     * of signals, a line each; its end of file ends the rank */
    bool remote;
    const char *hello;
    /* Called in the new process before the program is executed. Returns 0, or -1 with errno and
     * *ret_what set. May be NULL. */
    int (*enter)(const void *ctx, const char **ret_what);
    const void *ctx;
};

struct sup_job {
    const char *name; /* the command's name, for messages */
    struct sup_rank *ranks;
    uint32_t size;
    uint64_t timeout_ns;
    int verdict_fd; /* where ranks note which rank is to blame (TUTTI_VERDICT) */
    bool own;       /* the program is this tool: its exit codes are ours */
    /* The job goes on, and succeeds, with so many ranks; 0: all are needed. */
    uint32_t least;
    /* With least: how many times a rank of this machine is started again after it failed, as a
     * newcomer (TUTTI_JOIN) that finds the others at the addresses they noted, or at `meeting`. */
    uint32_t restarts;
    const char *meeting;
};

/* From now on the signals above wait for launch_supervise, so that what is made before it is
 * always removed again. */
void launch_hold_signals(void);
/* Has one of the signals that end a job arrived since? */
bool launch_is_stopped(void);
/* Runs the job to its end and prints what went wrong. Returns the exit code: CLI_OK; CLI_NO when
 * a rank failed (ranks of this tool that all ended alike: their own code); CLI_USAGE when the
 * program cannot be started. launch_hold_signals must have been called. */
int launch_supervise(const struct sup_job *job);
#endif
