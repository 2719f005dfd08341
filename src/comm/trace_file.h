/* trace_file.h - between trace.c, which gathers events, and trace_file.c, which writes them. */
#ifndef TT_COMM_TRACE_FILE_H
#define TT_COMM_TRACE_FILE_H

#include <stdio.h>

#include "comm/comm_int.h"

enum { TT_TRACE_BEATS = 8 };

/* What a rank sends to rank 0; its events follow. */
struct tt_trace_part {
    struct tt_log_beat beat[TT_TRACE_BEATS];
    uint64_t n, lost;
};

/* Ranks first..first + n - 1, and what rank `first` alone knows: plans and trainers. */
struct tt_trace_parts {
    const struct tt_comm *c;
    const struct tt_record *record; /* ended */
    char *all;                      /* their parts; writing puts lanes into the events */
    size_t each;                    /* bytes of one */
    uint32_t first, n;
    FILE *out;        /* set by write */
    uint64_t zero_ns; /* the same: the first event */
};
/* Failures are logged, and leave no file. */
void tt_comm_trace_write(struct tt_trace_parts *w, const char *path);
#endif
