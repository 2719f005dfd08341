/* round.h - one round of the fault tests: what the parent decides, and what the ranks leave for it. rank.c is the ranks' half, check.c
 * what every parent checks; fault.c and cut.c are parents. */
#ifndef TEST_FAULT_ROUND_H
#define TEST_FAULT_ROUND_H

#include <stdatomic.h>

#include "comm/comm.h"

enum { RANKS = 4, LONG = 1 << 20, SHORT = 16 };
#define SECOND  UINT64_C(1000000000)
#define TIMEOUT (SECOND * 3 / 2)
#define LIMIT   (30 * SECOND) /* a round that takes longer hangs */

/* From MISMATCH to ABORT the victim makes them itself; the others are the parent's. */
enum fault { KILL, STOP, MISMATCH, LATE, ABORT, CUT };

/* What a rank leaves for the parent. */
struct report {
    _Atomic uint64_t started_ns; /* when the operation to be broken began here */
    _Atomic uint64_t usual_ns;   /* what one takes */
    uint64_t failed_ns;
    tutti_status opened, status, again;
    char text[504], text_again[504];
    bool wrong;
    uint32_t pid;
    int fds, threads; /* more than before */
    _Atomic bool done;
};
/* In memory that all see. */
struct round {
    uint32_t n, victim;
    bool split;     /* even and odd ranks reduce apart */
    bool shared;    /* outputs are memory of ours, which peers write into */
    bool silent;    /* cut: the interface looks well */
    bool impatient; /* and: kernels break connections before the deadline */
    size_t count;
    enum fault fault;
    uint32_t tenths_of_percent; /* of the operation's duration */
    struct report reports[RANKS];
};

/* When the fault shall happen: measured from the moment the last rank entered. 0: not known yet. */
uint64_t round_moment(const struct round *r);
/* Where in its operation `at` fell, in percent of the usual duration; -1: nowhere. */
double round_phase(const struct round *r, uint64_t at);
/* Opens, reduces until something fails, closes, reports, exits (with leak check). */
_Noreturn void round_be_rank(uint32_t rank, struct round *r, const struct tt_comm_config *config);

/* What a rank must have been told. */
struct told {
    uint32_t culprit; /* RANKS: anybody */
    const char *says;
    tutti_status status;
    uint64_t latest_ns; /* when; what was under way at the fault may come on top, since deadlines count from the last sign of progress */
};
/* 0, or 1 after a line that says what is wrong with it. */
int round_check(const struct round *r, uint32_t rank, const struct told *want);
int round_complain(const struct round *r, uint32_t rank, const char *what);

void sleep_until(uint64_t ns);
/* Files whose name contains `part`. */
int count_entries(const char *dir, const char *part);
/* Sleeps that long; *stalled grows by what it took longer. A round that fails on a machine that had no time for its processes proves
 * nothing: it is void, and played again. */
void nap(uint64_t us, uint64_t *stalled);
#define STALLED (SECOND / 10)
enum { TRIES = 5 };
#endif
