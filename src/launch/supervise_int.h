/* supervise_int.h - what the files of the supervisor share. One thread uses all of it. */
#ifndef LAUNCH_SUPERVISE_INT_H
#define LAUNCH_SUPERVISE_INT_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/supervise.h"

/* ---- supervise_output.c: lines of many streams on two descriptors, never mixed ---- */

/* A rank's pipe and the bytes of it that were not written yet. */
struct sup_stream {
    int fd; /* our end of the rank's pipe; -1: ended */
    int to; /* STDOUT_FILENO or STDERR_FILENO */
    char prefix[16];
    char *buf;
    size_t from, len; /* unwritten bytes: buf[from .. from + len) */
};

/* All streams, and the two descriptors that they share. */
struct sup_screen {
    struct sup_stream *streams;
    size_t count;
    struct {
        struct sup_stream *now; /* the stream whose line is being written; NULL: between lines */
        size_t done, line;      /* bytes written of prefix and line; the line's length */
        size_t turn;            /* the stream that was last */
        bool broken;            /* its reader has gone */
    } outlets[2];               /* standard output, standard error */
};

/* Makes a pipe whose lines will appear on `to`. *ret_fd is the rank's end, which the caller
 * closes. The screen must have room for one more stream. */
bool launch_screen_add(struct sup_screen *s, uint32_t rank, int to, int *ret_fd);
/* Adds what poll should wait for to fds; returns how many (at most count + 2). */
size_t launch_screen_poll(struct sup_screen *s, struct pollfd *fds);
void launch_screen_serve(struct sup_screen *s, const struct pollfd *fds, size_t n);
bool launch_screen_idle(const struct sup_screen *s); /* all streams ended, everything written */
/* Closes our ends of all pipes, even if other processes hold the other ends; what has arrived is
 * still written. */
void launch_screen_cut(struct sup_screen *s);
void launch_screen_close(struct sup_screen *s);

/* ---- supervise_note.c ---- */

/* A note of the ranks (base/blame.h). */
struct sup_blame {
    uint32_t rank; /* the blamed rank; size: none */
    bool unheard;  /* noted by some rank: results are wrong, and no call could report it */
    bool all;      /* all ranks have the same reason */
    char text[512];
};
/* Parses a note, "[hint |unheard ]2 of 4: sentence" or "... all of 4: ..."; false for other
 * lines (cli_speaks and doors are in the same file). */
bool launch_read_note(const char *line, uint32_t job_size, struct sup_blame *ret);
bool launch_is_suspended(pid_t pid); /* by a signal (T); t is a debugger's */

/* ---- supervise_start.c: from struct sup_rank to a process ---- */

/* A rank that was started. */
struct sup_live {
    pid_t pid; /* 0: not started */
    bool ended;
    /* pid is also its process group; otherwise it shares ours, and gets the terminal's signals */
    bool own_group;
    bool told;           /* we sent it a signal that ends it */
    bool lost;           /* it failed, and the others may go on without it */
    uint32_t restarts;   /* so far */
    uint64_t restart_ns; /* when it will be started again; 0: it will not */
    int control;         /* remote: the pipe to its standard input; else -1 */
    int status;          /* as of waitpid, once ended */
    /* the round of waitpid in which it ended: ranks of one round cannot be ordered */
    uint32_t turn;
};

/* A failure: what could not be done, and its errno. */
struct sup_trouble {
    char what[64];
    int why;
};

/* Starts one rank. False with *ret_trouble when the program could not be executed; nothing is
 * left then. */
bool launch_start(const struct sup_rank *r, uint32_t rank, struct sup_screen *screen,
                  struct sup_live *ret, struct sup_trouble *ret_trouble);
/* The same for a rank that failed: as a newcomer, with TUTTI_JOIN set. */
bool launch_start_again(const struct sup_job *job, uint32_t rank, struct sup_screen *screen,
                        struct sup_live *ret, struct sup_trouble *ret_trouble);
/* Sends a signal to the rank, and with `all` to everything in its group. Does nothing for ended
 * ranks. */
void launch_signal(struct sup_live *l, int sig, bool all);
/* Signals what an ended rank has left in its group; false when there is nothing. sig 0 only
 * looks. */
bool launch_signal_rest(const struct sup_live *l, int sig);

const sigset_t *launch_held_signals(void);

/* ---- supervise.c: the state of the job ---- */

#define SECOND        UINT64_C(1000000000)
#define SUP_REPORT_NS SECOND /* ranks may take this long beyond their own timeout to report */

/* In the order of severity: a phase is only entered from a lower one, except back to RUNNING
 * from AWAITING. Comparisons like phase < SETTLING depend on it. */
enum phase { RUNNING, AWAITING, STOPPING, SETTLING, GRACE, ENDING, KILLING, RESTING, OVER };

/* The state of the supervisor. due_ns: when next_phase is called; 0: never. */
struct sup {
    const struct sup_job *job;
    struct sup_live *live;
    struct sup_screen screen;
    struct pollfd *fds;
    int signals;
    enum phase phase;
    uint64_t due_ns, failed_ns;
    uint32_t left;                          /* ranks that have not ended */
    uint32_t turns;                         /* rounds of waitpid so far */
    uint32_t culprit;                       /* the rank that was named; size: none yet */
    struct sup_blame blame;                 /* the notes when the culprit was named */
    int stopped_by;                         /* the signal that asked the job to end; 0: none */
    bool rested;                            /* leftovers of the ranks were killed */
    bool dropped;                           /* everything was sent SIGKILL directly */
    bool ended_by_us;                       /* ranks did not end in time by themselves */
    uint64_t terminated_ns, interrupted_ns; /* when SIGTERM, SIGINT came first; 0: not yet */
};

/* ---- supervise_name.c: which rank is named ---- */

bool launch_rank_failed(const struct sup_live *l);
/* Ranks that run, or have ended well. */
uint32_t launch_count_well(const struct sup *s);
/* Prints how a rank ended, without an end of line. */
void launch_say_end(const struct sup *s, uint32_t r);
/* Is the blamed rank still running? Then it may be about to fail itself. */
bool launch_awaits_blamed(const struct sup *s);
/* The note about a rank that keeps up the job, though it does nothing: ranks have ended, those left
 * are stopped, and this one is blamed. A blamed rank that runs may be well and busy: an old note
 * does not tell. .rank is size when there is none. */
struct sup_blame launch_find_hanging(const struct sup *s);
void launch_name_hanging(struct sup *s, const struct sup_blame *b);
/* All ranks have exited with status 0: did one note that results are wrong? */
void launch_name_unheard(struct sup *s);
/* Ranks of this tool that all exited with the same status have printed their reason themselves. */
bool launch_is_told(const struct sup *s);
void launch_name_culprit(struct sup *s);
/* Says what became of the other ranks. */
void launch_say_rest(struct sup *s);

/* ---- supervise_restart.c: ranks that are started again ---- */

uint64_t launch_now_ns(void);
/* When the next rank will be started again; 0: none. Starts those that are due. */
uint64_t launch_restart_due(struct sup *s, uint64_t now);
/* Says whether the rank that failed will be started again, and ends the line. */
void launch_plan_restart(struct sup *s, uint32_t r);

#endif
