/* supervise_int.h - what the files of the supervisor share. */
#ifndef CLI_SUPERVISE_PARTS_H
#define CLI_SUPERVISE_PARTS_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/supervise.h"

/* ---- supervise_output.c: lines of many streams on two descriptors, never mixed ---- */

struct sup_stream {
    int fd; /* our end of the rank's pipe; -1: ended */
    int to; /* STDOUT_FILENO or STDERR_FILENO */
    char prefix[16];
    char *buf;
    size_t from, len; /* unwritten bytes: buf[from .. from + len) */
};

struct sup_screen {
    struct sup_stream *streams;
    size_t count;
    struct {
        struct sup_stream *now; /* whose line is being written; NULL: between lines */
        size_t done, line;      /* bytes of prefix and line written, and the line's length */
        size_t turn;            /* who was last */
        bool broken;            /* nobody reads it any more */
    } outlets[2];               /* standard output, standard error */
};

/* Makes a pipe whose lines will appear on `to`; *ret_fd is the rank's end (the caller closes it).
 * The screen has room for it. */
bool launch_screen_add(struct sup_screen *s, uint32_t rank, int to, int *ret_fd);
/* Adds what is to be waited for to fds; returns how many (at most count + 2). */
size_t launch_screen_poll(struct sup_screen *s, struct pollfd *fds);
void launch_screen_serve(struct sup_screen *s, const struct pollfd *fds, size_t n);
bool launch_screen_idle(const struct sup_screen *s); /* all streams ended, everything written */
/* whoever still holds a pipe is not waited for; what came is still written */
void launch_screen_cut(struct sup_screen *s);
void launch_screen_close(struct sup_screen *s);

/* ---- supervise_start.c: from struct sup_rank to a process ---- */

struct sup_live {
    pid_t pid; /* 0: not started */
    bool ended;
    /* pid is also the group; otherwise it shares ours, and the terminal's signals */
    bool own_group;
    bool told;     /* we sent a signal that ends it */
    int control;   /* remote: the pipe to its standard input; else -1 */
    int status;    /* as of waitpid, once ended */
    uint32_t turn; /* ended as the how manieth; those that ended between two looks have the same */
};

/* errno-style failure: what could not be done, and why. */
struct sup_trouble {
    char what[64];
    int why;
};

bool launch_start(const struct sup_rank *r, uint32_t rank, struct sup_screen *screen,
                  struct sup_live *ret, struct sup_trouble *ret_trouble);
/* To the rank, and with `all` to everything it started. Safe on ranks that have ended. */
void launch_signal(struct sup_live *l, int sig, bool all);
/* Kills what an ended rank left in its group; false when there is nothing. With sig 0 it only
 * looks. */
bool launch_signal_rest(const struct sup_live *l, int sig);

const sigset_t *launch_held_signals(void);
#endif
