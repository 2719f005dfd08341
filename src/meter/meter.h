/* meter.h - figures: what is known about speeds, and which ranks were slow.
 *
 * Nothing here sends a message: comm measures (comm/measure.c) and gathers everybody's notes
 * (comm/report_all.c), because opening and closing a communicator do. This module keeps the
 * figures, says how far they can be trusted, and concludes.
 *
 * Which ranks were slow: what every rank records while it runs (only if a report is wanted), and
 * what follows from all notes together. The times are of each rank's own clock; barriers at both
 * ends tell how the clocks differ. */
#ifndef TT_METER_H
#define TT_METER_H

#include "base/base.h"
#include "topo/topo.h"
#include "transport/transport.h"

/* Message times as measured at opening; equal on all ranks. Zeros: there is no such link. */
struct tt_speed {
    uint64_t bw;          /* bytes/s */
    uint64_t latency_ps;  /* one way */
    uint64_t overhead_ps; /* host time per message */
};
enum { TT_TAKEN_MOST = 200 };
struct tt_speeds {
    struct tt_speed shm, tcp;
    uint64_t gamma_fs; /* femtoseconds per reduced byte */
    /* Per mille of the cores that other processes used meanwhile; above TT_TAKEN_MOST the figures
     * are unreliable. */
    uint64_t taken;
    struct tt_memory memory; /* when all ranks share one host; npoints 0: not measured */
};

/* speeds.c: earlier measurements, kept in a file of the user. */
enum { TT_SPEEDS_PATH = 4096 };
bool tt_meter_speeds_load(uint64_t key, struct tt_speeds *ret);
void tt_meter_speeds_save(uint64_t key, const struct tt_speeds *s);
/* The file where speeds are kept (speeds.c); false: there is no place for it. */
bool tt_meter_speeds_path(char *buf, size_t cap);

/* cores.c: which cores of which machine a rank may use. Sent as raw memory between ranks of one
 * build and byte order. */
enum { TT_CORES_MAX = 1024 };
struct tt_cores {
    uint64_t machine; /* equal: the same cores, even across emulated hosts and containers */
    uint64_t mask[TT_CORES_MAX / 64];
};
void tt_meter_cores_self(struct tt_cores *ret);
/* Does rank `me` have to share its cores with others of all[n]? */
bool tt_meter_cores_crowded(const struct tt_cores *all, uint32_t n, uint32_t me);

/* busy.c: CPU use of the machine; now, then the difference since then; taken: per mille of the
 * cores that ranks wanted and other processes used, on the machine where that was most. */
struct tt_busy { /* sent between ranks */
    uint64_t machine, wall_ns, own_ns, all_ns;
    uint32_t cores, pad;
};
void tt_meter_busy_now(struct tt_busy *ret);
void tt_meter_busy_since(struct tt_busy *b);
uint32_t tt_meter_busy_taken(const struct tt_busy *all, uint32_t n);

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
void tt_meter_log_enter(struct tt_log *l, uint32_t call);
void tt_meter_log_wait(struct tt_log *l, uint32_t call);
void tt_meter_log_leave(struct tt_log *l, uint32_t call);

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
void tt_meter_find_slow(const struct tt_evidence *e, int64_t *scratch, struct tt_findings *ret);
/* Bytes/s; 0 if too few bytes were sent to tell. */
double tt_meter_link_rate(const struct tt_link_stats *s);
#endif
