/* board.h - counters of a process that others of the same user may look at while it runs
 * (TUTTI_TOP=1, tutti top): a file in shared memory that is mapped by the process that counts, and
 * read, not mapped, by those who look.
 *
 *     /dev/shm/tutti-top-UID/PID-N     the folder and the files are the user's alone (0700, 0600)
 *
 * Nothing is sent and nobody is asked: looking does not disturb what runs. */
#ifndef TT_BOARD_H
#define TT_BOARD_H

#include <stdatomic.h>

#include "base/record.h"

enum { TT_BOARD_HOST = 64, TT_BOARD_JOB = 128, TT_BOARD_RANKS = 1 << 20 };

/* As it lies in the file. Only one version of Tutti reads what it wrote: `magic` says which. */
struct tt_board {
    char magic[8];
    uint32_t rank, ranks;
    int32_t pid;
    uint32_t pad;
    uint64_t opened_ns;                          /* of the host's clock that tt_now_ns has */
    char host[TT_BOARD_HOST], job[TT_BOARD_JOB]; /* job: equal for its ranks */
    _Atomic uint64_t calls, call_bytes, call_ns; /* collectives that have ended */
    _Atomic uint64_t waits, wait_ns;             /* waits for requests */
    _Atomic uint64_t sent_bytes, received_bytes; /* pieces of messages */
    _Atomic uint64_t idle_ns;                    /* with nothing to do but wait for others */
    _Atomic uint64_t idle_for[];                 /* of that, until something of this rank came */
};

/* A board of this process; magic, pid, host and opened_ns are filled in. *ret_path is its file,
 * which the caller frees. */
tutti_status tt_board_make(uint32_t rank, uint32_t ranks, const char *job, struct tt_board **ret,
                           char **ret_path, struct tutti_error *err);
/* Unmaps it and removes its file. Accepts NULL. */
void tt_board_free(struct tt_board *b, char *path);
/* Counts one event; any thread. */
void tt_board_count(struct tt_board *b, const struct tt_record_event *e);

/* Copies of the boards of all living processes of this user on this host, in the order of job and
 * rank; files of dead processes are removed. The caller frees each and the list. */
tutti_status tt_board_list(struct tt_board ***ret, size_t *ret_n, struct tutti_error *err);
#endif
