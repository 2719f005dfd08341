/* report.h - who was slow: what every rank writes down while it runs (only when a report is
 * wanted), and what follows from all notes together. The notes are times of each rank's own clock;
 * barriers at both ends tell how the clocks differ. */
#ifndef TT_REPORT_H
#define TT_REPORT_H

#include "comm/comm.h"
#include "transport/transport.h"

enum { TT_LOG_CALLS = 4096, TT_LOG_BEATS = 8 };

/* One call. blocked_ns is all time spent in waits before it: what lies between two calls and is not
 * in it is the rank's own work. */
struct tt_log_call {
    int64_t start_ns, wait_ns, end_ns, blocked_ns;
};
struct tt_log_beat {
    int64_t start_ns, end_ns;
};
struct tt_log {
    struct tt_log_beat beats[2][TT_LOG_BEATS]; /* barriers when it began and when it ended */
    /* number of the first call that counts; an entry before it says when that was possible */
    uint32_t first;
    int64_t blocked_ns;
    uint64_t *before_bytes;                 /* [peer]: what its link had seen before */
    struct tt_log_call calls[TT_LOG_CALLS]; /* call number modulo TT_LOG_CALLS */
};

/* log.c; all accept NULL: nothing is noted. */
void tt_comm_log_enter(struct tt_log *l, uint32_t call);
void tt_comm_log_wait(struct tt_log *l, uint32_t call);
void tt_comm_log_leave(struct tt_log *l, uint32_t call);

/* find.c: the notes of all ranks. */
struct tt_evidence {
    uint32_t ranks;
    /* the last ones, of each rank; one more entry stands before them */
    uint32_t calls;
    const bool *same_clock;                       /* [rank]: as rank 0 */
    struct tt_log_beat (*beats)[2][TT_LOG_BEATS]; /* [rank] */
    struct tt_log_call *log;                      /* [rank][calls + 1]; changed to rank 0's clock */
    const struct tt_link_stats *links;            /* [to][from]; bytes 0: not known */
};
struct tt_rank_finding {
    uint64_t in_calls_ns;
    /* the mean over the other ranks of the time they waited before it entered */
    uint64_t awaited_ns;
    uint64_t late_ns;    /* of that: while it did its own work, more of it than others */
    uint32_t late_calls; /* in which it was late by its own work */
    uint64_t slow_ns;    /* what the worst of its links took longer than a usual one would have */
    double rate;         /* of its fastest link, bytes/s; 0: not known */
};
enum tt_slow_why { TT_SLOW_NOBODY, TT_SLOW_LATE, TT_SLOW_SENDING };
struct tt_findings {
    struct tt_rank_finding *rank; /* given by the caller */
    uint32_t slowest;
    enum tt_slow_why why;
    double usual_rate;           /* of a rank's fastest link; 0: not known */
    uint32_t link_from, link_to; /* the slowest link */
    double link_rate;            /* 0: not known */
};
/* scratch: ranks entries. */
void tt_comm_find_slow(const struct tt_evidence *e, int64_t *scratch, struct tt_findings *ret);
/* Bytes/s; 0 when too little went over it to tell. */
double tt_comm_link_rate(const struct tt_link_stats *s);
#endif
