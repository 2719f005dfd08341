/* watch_int.h - what the files of the watch share.
 *
 * From the bottom up: posts (what this rank does, written by its calls, read by the thread), wire
 * (messages on a control connection), pids (ends of processes), words (messages), judge (the rules:
 * they read the board and change nothing), case (opening, asking, settling), gather (bytes of all
 * for all), the thread, and watch.c. */
#ifndef TT_WATCH_INT_H
#define TT_WATCH_INT_H

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "watch/watch.h"

/* ---- posts.c: what this rank does, by communicator ---- */

/* TT_POST_PAST: a rank can be 64 requests ahead of one that receives from it (exec/credit.c), and
 * 128 ahead of that rank's own receivers. What it entered must still be known when the last of them
 * asks: 16 such steps. */
enum {
    TT_POSTS = 32,
    TT_POST_PAST = 1024,
    TT_ANSWER_PAST = 32,
    TT_DESC_WORDS = sizeof(struct tt_op_desc) / 8
};
struct tt_post {
    _Atomic uint64_t comm;    /* number + 1; 0: free */
    _Atomic uint32_t version; /* odd while being written */
    _Atomic uint64_t head;    /* seq << 1 | busy; 0: nothing entered yet */
    _Atomic uint64_t past[TT_POST_PAST][TT_DESC_WORDS];
};
struct tt_posts {
    struct tt_post at[TT_POSTS]; /* the world's is first */
    _Atomic uint32_t latest;     /* index of the one entered last */
    _Atomic uint32_t talks;      /* messages in progress */
};
/* What a rank knows about request `seq` of a communicator and the TT_ANSWER_PAST - 1 before it.
 * Sent between ranks. */
struct tt_answer {
    uint32_t comm, seq;
    uint32_t member; /* the rank is a member of the communicator */
    uint32_t busy;   /* it is in a call, on this communicator or another */
    struct tt_op_desc last;
    /* Request s at s % TT_ANSWER_PAST, as it was entered; another seq there: not known. */
    struct tt_op_desc past[TT_ANSWER_PAST];
};
/* Request s according to the answer; NULL: not known. */
const struct tt_op_desc *tt_watch_answer_at(const struct tt_answer *a, uint32_t s);
void tt_watch_posts_join(struct tt_posts *p, uint32_t comm); /* one join or part at a time */
void tt_watch_posts_part(struct tt_posts *p, uint32_t comm);
void tt_watch_posts_enter(struct tt_posts *p, const struct tt_op_desc *op);
void tt_watch_posts_leave(struct tt_posts *p, uint32_t comm);
struct tt_answer tt_watch_posts_answer(const struct tt_posts *p, uint32_t comm, uint32_t seq);
void tt_watch_posts_talk(struct tt_posts *p, bool begins);
/* The last request of the communicator entered last; seq 0: none yet. */
struct tt_op_desc tt_watch_posts_latest(const struct tt_posts *p);

/* ---- wire.c: one control connection ---- */

enum tt_note_type {
    TT_NOTE_BEAT = 1,
    TT_NOTE_ASK,
    TT_NOTE_ANSWER,
    TT_NOTE_TROUBLE,
    TT_NOTE_VERDICT,
    TT_NOTE_FAREWELL,
    TT_NOTE_ENDED,
    TT_NOTE_PIECE,
    TT_NOTE_TYPES
};
/* One piece of a parcel: bytes [at, at + 512), as far as there are. */
enum { TT_PIECE = 512 };
struct tt_piece {
    uint32_t seq, pad;
    uint64_t at, total;
    uint8_t data[TT_PIECE];
};
struct tt_note {
    uint32_t magic, type;
    union {
        struct tt_op_desc beat;
        struct tt_answer answer; /* ASK: only comm and seq */
        struct tt_trouble trouble;
        struct tt_verdict verdict;
        uint32_t ended; /* a rank whose process has ended */
        struct tt_piece piece;
    } u; /* sent as far as the type needs */
};
enum { TT_LINE_OUT = 4096 };
struct tt_line {
    const struct tt_boot_line *io; /* owned by boot */
    int fd;                        /* its socket; -1: none, or ended */
    uint64_t read_ns;              /* when the last note arrived */
    /* The error met while sending: the kernel reports it only once, and not again when reading. */
    int error;
    size_t in_got, out_len;
    struct tt_note in;
    uint8_t out[TT_LINE_OUT];
    struct {
        const uint8_t *data; /* not owned; must stay until done == total */
        uint64_t done, total;
        uint32_t seq;
        bool here; /* not all of it is in `out` yet */
    } parcel;      /* sent piece by piece, between other notes */
};
enum tt_line_state { TT_LINE_NOTE, TT_LINE_EMPTY, TT_LINE_END };
/* Queues a note and sends what the socket takes at once; without room the note is dropped. Failures
 * show when reading. */
void tt_watch_line_put(struct tt_line *l, struct tt_note *n);
void tt_watch_line_push(struct tt_line *l);
/* Starts sending a parcel; data must stay until it is sent. */
void tt_watch_line_send(struct tt_line *l, uint32_t seq, const void *data, uint64_t bytes);
/* Is there anything that was not sent yet? */
bool tt_watch_line_busy(const struct tt_line *l);
/* Reads the next note into l->in. END: *ret_errno is 0 for an orderly end, EBADMSG for bytes that
 * are not a note. */
enum tt_line_state tt_watch_line_take(struct tt_line *l, int *ret_errno);
/* Has the other kernel not acknowledged our data for long, or has ours given up? Then the machine
 * or the network to it has failed, not the process. */
bool tt_watch_line_cut(int fd);
/* Is much of what is sent to the other host lost on the way? */
bool tt_watch_line_lossy(int fd);

/* ---- pids.c: processes of this host; used by one thread only ---- */

struct tt_pids;
/* NULL: no memory, nothing is watched. */
struct tt_pids *tt_watch_pids_open(const struct tt_boot_peer *peers, uint32_t me, uint32_t size);
/* Accepts NULL, as the others do. */
void tt_watch_pids_close(struct tt_pids *p);
/* Readable if take() has something. */
int tt_watch_pids_fd(const struct tt_pids *p);
/* A rank whose process has ended; each is reported once. */
bool tt_watch_pids_take(struct tt_pids *p, uint32_t *ret_rank);

/* ---- the watch ---- */

/* One rank as seen from here. Rank 0 has a seat for every rank (its own without a line); the others
 * only have one for rank 0. */
struct tt_seat {
    struct tt_line line;
    bool left;         /* it has said farewell */
    uint64_t ended_ns; /* since when its process is known to have ended; 0: it is not */
    bool answered;     /* it has answered the question of the present case */
    struct {
        uint8_t *data; /* owned */
        uint64_t got, total;
        uint32_t seq;
        bool whole;
    } parcel; /* arriving from it */
    bool troubled;
    struct tt_op_desc doing; /* from its last heartbeat */
    struct tt_answer answer;
    struct tt_trouble trouble;
};

struct tt_watch {
    struct tt_boot *boot;
    const struct tt_boot_peer *peers;
    uint32_t rank, size, nseats;
    uint64_t timeout_ns;
    struct tt_posts posts;
    /* set once, when verdict is complete (release; pairs with acquire in tt_watch_verdict) */
    _Atomic bool judged;
    struct tt_verdict verdict;
    uint64_t judged_ns; /* when; complete like the verdict */
    _Atomic bool stood; /* this process stood still for so long that others may have given it up */

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    struct tt_seat *seats;
    uint32_t reporter; /* the rank whose trouble made the case; UINT32_MAX: there is no case */
    uint64_t case_ns;  /* since when */
    struct tt_trouble trouble;
    uint64_t asked_ns;  /* rank 0: when all were last asked */
    uint32_t asked_seq; /* and about which request, with those before it */
    /* and whether they were asked about the requests of the least advanced rank */
    bool looked_back;
    bool running, stop;
    bool asking; /* the thread is probing whose link it is */
    bool ends;   /* some seat has ended_ns */
    struct tt_pids *pids;
    int wake;           /* eventfd */
    struct pollfd *fds; /* used by the thread: nseats, then wake, the porter's, the pids' */
    pthread_t thread;
};

void tt_watch_wake(const struct tt_watch *w); /* wakes the thread */
/* For assertions: some thread holds the lock, which where it is asserted is the caller. */
static inline bool tt_watch_locked(struct tt_watch *w)
{
    return pthread_mutex_trylock(&w->lock) == EBUSY;
}

/* ---- case.c: with the lock held ---- */

bool tt_watch_has_case(const struct tt_watch *w); /* and no verdict yet */
/* The first trouble makes the case. Troubles of other ranks are remembered, since they tell who
 * waits for whom. */
void tt_watch_open_case(struct tt_watch *w, uint32_t reporter, const struct tt_trouble *t);
void tt_watch_ask_all(struct tt_watch *w); /* rank 0 */
/* Rank 0: asks about other requests if that can help; false: there is nothing more to ask. */
bool tt_watch_ask_further(struct tt_watch *w);
/* From rank 0 to all; from the others to rank 0. */
void tt_watch_tell(struct tt_watch *w, struct tt_note *n);
/* only the first verdict counts */
void tt_watch_settle(struct tt_watch *w, const struct tt_verdict *v);
/* Without rank 0's board: rank 0 has left, or the watch is not running. */
void tt_watch_settle_alone(struct tt_watch *w);

/* ---- gather.c: with the lock held ---- */

/* A piece has arrived; false: it is invalid. */
bool tt_watch_gather_take(struct tt_watch *w, uint32_t r, const struct tt_piece *p);

/* ---- thread.c ---- */

void *tt_watch_run(void *watch);
/* Reads everything that has arrived from a rank, up to the end of its connection; with the lock
 * held. */
void tt_watch_read(struct tt_watch *w, uint32_t rank);

/* ---- judge.c: the rules; functions that return bool are true if there is a verdict ---- */

/* Rank 0, about the case. `final`: ranks that have not answered by now count as silent, and nothing
 * more will arrive. */
bool tt_watch_judge_case(const struct tt_watch *w, bool final, struct tt_verdict *ret);
/* Have all ranks answered the last question, and do the answers leave earlier requests in doubt
 * (looking back), or later ones? *ret_seq: the one to ask about. */
bool tt_watch_judge_wants(const struct tt_watch *w, uint32_t *ret_seq);
/* The connection of `rank` ended without farewell: because its process ended, or because the
 * network to it failed. lonely: no other host answers this rank either (rank 0 determines that
 * itself). */
void tt_watch_judge_end(const struct tt_watch *w, uint32_t rank, int error, bool lonely,
                        struct tt_verdict *ret);
bool tt_watch_judge_is_death(int error);
/* Rank 0 does not answer this rank's report. cut: neither does its kernel; lonely: nor does any
 * other host. */
void tt_watch_judge_silent_root(const struct tt_watch *w, bool cut, bool lonely,
                                struct tt_verdict *ret);
/* No rank can be asked: decides by what this rank itself has seen. */
void tt_watch_judge_alone(const struct tt_watch *w, struct tt_verdict *ret);
/* A rank's own statement: it aborts, or cannot go on. */
void tt_watch_judge_word(const struct tt_watch *w, uint32_t rank, const struct tt_trouble *t,
                         struct tt_verdict *ret);
bool tt_watch_judge_is_word(const struct tt_trouble *t);

/* ---- words.c ---- */

enum { TT_WORDS = 160 };
/* "rank 2 (host b, pid 4711)" */
char *tt_watch_words_rank(const struct tt_watch *w, uint32_t rank, char out[TT_WORDS]);
/* "broadcast of 10 f32 (root 0)" */
char *tt_watch_words_call(const struct tt_op_desc *op, char out[TT_WORDS]);
/* "request 17 (allreduce of 1048576 f32)" */
char *tt_watch_words_request(const struct tt_op_desc *op, char out[TT_WORDS]);
/* "during request ..", "after ..", "before its .." */
char *tt_watch_words_during(const struct tt_op_desc *op, bool busy, char out[TT_WORDS]);
#endif
