/* report.h - which ranks were slow: what every rank records while it runs (only if a report is
 * wanted), and what follows from all notes together. The times are of each rank's own clock;
 * barriers at both ends tell how the clocks differ. */
#ifndef TT_REPORT_H
#define TT_REPORT_H

#include "comm/comm.h"
#include "transport/transport.h"

enum { TT_LOG_CALLS = 4096, TT_LOG_BEATS = 8 };

/* One call. blocked_ns is all time spent in waits before it: time between two calls that is not
 * blocked is the rank's own work. */
struct tt_log_call {
    int64_t start_ns, wait_ns, end_ns, blocked_ns;
};
/* One barrier, for comparing clocks. */
struct tt_log_beat {
    int64_t start_ns, end_ns;
};
struct tt_log {
    struct tt_log_beat beats[2][TT_LOG_BEATS]; /* barriers when it began and when it ended */
    /* Number of the first call that counts; the entry before it tells when that call could have
     * begun. */
    uint32_t first;
    int64_t blocked_ns;
    uint64_t *before_bytes;                 /* [peer]: what its link had seen before */
    struct tt_log_call calls[TT_LOG_CALLS]; /* call number modulo TT_LOG_CALLS */
};

/* log.c. All accept NULL and then record nothing. */
void tt_comm_log_enter(struct tt_log *l, uint32_t call);
void tt_comm_log_wait(struct tt_log *l, uint32_t call);
void tt_comm_log_leave(struct tt_log *l, uint32_t call);

/* find.c: the notes of all ranks. Pointers are borrowed. */
struct tt_evidence {
    uint32_t ranks;
    /* The last calls of each rank; one more entry precedes them. */
    uint32_t calls;
    const bool *same_clock;                       /* [rank]: has the same clock as rank 0 */
    struct tt_log_beat (*beats)[2][TT_LOG_BEATS]; /* [rank] */
    struct tt_log_call *log;           /* [rank][calls + 1]; converted to rank 0's clock */
    const struct tt_link_stats *links; /* [to][from]; bytes 0: not known */
};
struct tt_rank_finding {
    uint64_t in_calls_ns;
    /* The time that the other ranks waited before it entered, averaged over them. */
    uint64_t awaited_ns;
    uint64_t late_ns;    /* of that: while it did its own work, beyond what others did */
    uint32_t late_calls; /* calls in which it was late by its own work */
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
/* scratch has room for one entry per rank. e->log is changed. */
void tt_comm_find_slow(const struct tt_evidence *e, int64_t *scratch, struct tt_findings *ret);
/* Bytes/s; 0 if too few bytes were sent to tell. */
double tt_comm_link_rate(const struct tt_link_stats *s);
#endif
