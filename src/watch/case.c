/* case.c - the life of a case: it is opened, all ranks are asked, it is settled. The lock is
 * held throughout.
 *
 *     trouble --open_case--> case --ask_all--> answers --judge (judge.c)--> settle
 *
 * Invariants: the verdict is set once and never changes afterwards; at rank 0 setting it sends it
 * to all. */
#include <assert.h>

#include "watch/watch_int.h"

void tt_watch_tell(struct tt_watch *w, struct tt_note *n)
{
    for (uint32_t r = 0; r < w->nseats; r++)
        tt_watch_line_put(&w->seats[r].line, n);
}

/* The release store pairs with the acquire load in tt_watch_verdict: the verdict is complete when
 * the flag is seen. Rank 0 tells the others first: its program may end as soon as it sees it. */
void tt_watch_settle(struct tt_watch *w, const struct tt_verdict *v)
{
    struct tt_note n = {.type = TT_NOTE_VERDICT, .u.verdict = *v};
    if (atomic_load_explicit(&w->judged, memory_order_relaxed))
        return;
    assert(tt_watch_locked(w) && v->culprit < w->size && v->blame < TT_BLAMES);
    w->verdict = *v;
    w->judged_ns = tt_now_ns();
    if (w->rank == 0 && w->running)
        tt_watch_tell(w, &n);
    atomic_store_explicit(&w->judged, true, memory_order_release);
    pthread_cond_broadcast(&w->changed);
}

bool tt_watch_has_case(const struct tt_watch *w)
{
    return w->reporter != UINT32_MAX && !atomic_load_explicit(&w->judged, memory_order_relaxed);
}

void tt_watch_open_case(struct tt_watch *w, uint32_t reporter, const struct tt_trouble *t)
{
    assert(tt_watch_locked(w) && (w->rank == 0 ? reporter < w->nseats : reporter == w->rank));
    if (w->rank == 0) {
        w->seats[reporter].trouble = *t;
        w->seats[reporter].troubled = true;
    }
    if (w->reporter != UINT32_MAX)
        return;
    w->reporter = reporter;
    w->trouble = *t;
    w->asked_seq = t->op.seq;
    w->case_ns = tt_now_ns();
}

/* Rank 0 answers its own question at once; the others' answers arrive as notes. */
void tt_watch_ask_all(struct tt_watch *w)
{
    assert(tt_watch_locked(w) && w->rank == 0 && w->reporter < w->size);
    w->asked_ns = tt_now_ns();
    struct tt_note n = {.type = TT_NOTE_ASK,
                        .u.answer = {.comm = w->trouble.op.comm, .seq = w->asked_seq}};
    w->seats[0].answer = tt_watch_posts_answer(&w->posts, n.u.answer.comm, n.u.answer.seq);
    w->seats[0].answered = true;
    tt_watch_tell(w, &n);
}

bool tt_watch_ask_further(struct tt_watch *w)
{
    if (!tt_watch_judge_wants(w, &w->asked_seq))
        return false;
    w->looked_back = true;
    tt_watch_ask_all(w);
    return true;
}

/* Is rank 0 connected, and has it said nothing since the report? */
static bool root_is_silent(const struct tt_watch *w)
{
    return w->rank != 0 && w->running && w->seats[0].line.fd >= 0 &&
           w->seats[0].line.read_ns < w->case_ns;
}

/* Decides by what this rank knows. The thread may have had no time to read what has arrived, for
 * example a verdict before the end of a connection, so it is read here first. */
void tt_watch_settle_alone(struct tt_watch *w)
{
    struct tt_verdict v;
    assert(tt_watch_locked(w));
    uint32_t r = w->rank ? 0 : w->trouble.peer;
    if (w->reporter != UINT32_MAX && r < w->nseats)
        tt_watch_read(w, r);
    if (w->reporter != UINT32_MAX && root_is_silent(w))
        tt_watch_judge_silent_root(w, tt_watch_line_cut(w->seats[0].line.fd),
                                   tt_boot_link_down(w->boot), &v);
    else
        tt_watch_judge_alone(w, &v);
    tt_watch_settle(w, &v);
}
