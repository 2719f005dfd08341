/* check.c - what every rank of a fault test must have been told, and in which state it must have left. */
#include <string.h>

#include "round.h"

int round_complain(const struct round *r, uint32_t rank, const char *what)
{
    const struct report *rep = &r->reports[rank];
    printf("  FAILED rank %u: %s (opened %d, status %d, again %d, after %.3f s): %s\n", rank, what, rep->opened, rep->status, rep->again,
           ((double)rep->failed_ns - (double)rep->started_ns) / 1e9, rep->text);
    return 1;
}

static const char *fault_with_text(const struct round *r, const struct report *rep, const struct told *want)
{
    char who[64], pid[32];
    if (rep->status != want->status || !strstr(rep->text, want->says))
        return "another class";
    if (want->culprit < RANKS) {
        snprintf(who, sizeof who, "rank %u (host ", want->culprit);
        snprintf(pid, sizeof pid, "pid %u)", r->reports[want->culprit].pid);
        if (!strstr(rep->text, who) || !strstr(rep->text, pid))
            return "another culprit";
    }
    if (want->status != TUTTI_ERR_ABORTED && !strstr(rep->text, "request "))
        return "no request";
    if (rep->again != rep->status || !tt_streq(rep->text, rep->text_again))
        return "the next call says something else";
    return NULL;
}

int round_check(const struct round *r, uint32_t rank, const struct told *want)
{
    const struct report *rep = &r->reports[rank];
    const char *wrong = !atomic_load(&rep->done) ? "it did not end by itself" : rep->wrong ? "WRONG NUMBERS" : NULL;
    if (!wrong)
        wrong = fault_with_text(r, rep, want);
    if (!wrong && rep->failed_ns > want->latest_ns + atomic_load(&rep->usual_ns))
        wrong = "later than the deadline and a second";
    if (!wrong && rep->fds)
        wrong = "it left descriptors";
    if (!wrong && rep->threads > 0)
        wrong = "it left threads";
    return wrong ? round_complain(r, rank, wrong) : 0;
}
