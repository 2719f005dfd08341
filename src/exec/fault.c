/* fault.c - the end of an engine: the first fault is kept, and ends every program and letter.
 *
 * A fault is a peer that closed, a piece that fits no program, a call that differs, or a kill from
 * above. Which rank is to blame is not decided here: the watch asks all ranks (watch/judge.c).
 * Invariant: once failed, no program runs and none starts; the fault is never replaced. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "exec/exec_int.h"

/* The engine's lists point into programs that are about to end, so they are emptied first. */
static void fail_all(struct tt_engine *e, const struct tt_exec_engine_fault *f)
{
    assert(!e->failed);
    e->failed = true;
    e->fault = *f;
    e->waiting = e->waiting_last = NULL;
    e->boxing = NULL;
    e->owing = e->held = 0;
    for (uint32_t i = 0; i < e->max_requests; i++) {
        struct tt_program *p = e->slots[i];
        if (!p)
            continue;
        p->state = TT_XFAILED;
        tt_exec_leave(e, p);
    }
    assert(e->nrunning == 0);
    tt_exec_letter_fail_all(e);
}

void tt_exec_fault(struct tt_engine *e, const struct tt_exec_engine_fault *f)
{
    if (!e->failed)
        fail_all(e, f);
}

void tt_exec_protocol(struct tt_engine *e, const struct tt_xpeer *pe, uint32_t seq)
{
    tt_exec_fault(e, &(struct tt_exec_engine_fault){
                         .kind = TT_FAULT_PROTOCOL, .peer = pe->world, .seq = seq});
}

/* The first mismatch is reported to its peer as well (progress.c), so that both ranks name the
 * other. */
void tt_exec_mismatch(struct tt_engine *e, const struct tt_xpeer *pe, const struct tt_program *p,
                      uint64_t theirs)
{
    const struct tt_exec_engine_fault f = {.kind = TT_FAULT_MISMATCH,
                                           .peer = pe->world,
                                           .seq = p->seq,
                                           .mine = p->fingerprint,
                                           .theirs = theirs,
                                           .context = p->context};
    e->report = e->failed ? e->report : p->context;
    tt_exec_fault(e, &f);
}

/* Programs in boxes have no pieces to miss: box.c looks for ended ranks itself. */
void tt_exec_missing(struct tt_engine *e, const struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nlinks && !p->box && p->state == TT_XRUNNING; i++) {
        const struct tt_xlink *l = &p->links[i];
        const struct tt_xpeer *pe = l->pe;
        if (pe->closed && (l->in_left || l->out_left))
            tt_exec_fault(e, &(struct tt_exec_engine_fault){.kind = TT_FAULT_CLOSED,
                                                            .peer = pe->world,
                                                            .seq = p->seq,
                                                            .error = pe->error});
    }
}

const struct tt_exec_engine_fault *tt_exec_engine_fault(const struct tt_engine *e)
{
    return &e->fault;
}

void tt_exec_engine_kill(struct tt_engine *e, const struct tt_exec_engine_fault *why)
{
    tt_exec_fault(e, why);
}

tutti_status tt_exec_engine_failure(const struct tt_engine *e, struct tutti_error *err)
{
    const struct tt_exec_engine_fault *f = &e->fault;
    switch (f->kind) {
    case TT_FAULT_MISMATCH:
        if (f->letter)
            return tt_fail(err, TUTTI_ERR_DIFFERS,
                           "rank %" PRIu32 " %s something else with tag %" PRIu32, f->peer,
                           f->letter == TT_LETTER_IN ? "sends" : "receives", f->seq);
        return tt_fail(err, TUTTI_ERR_DIFFERS,
                       "rank %" PRIu32 " calls something else as request %" PRIu32
                       " (fingerprint %016" PRIx64 ", ours is %016" PRIx64 ")",
                       f->peer, f->seq, f->theirs, f->mine);
    case TT_FAULT_CLOSED:
        return tt_fail(err, TUTTI_ERR_PEER,
                       "rank %" PRIu32 " closed its connection during request %" PRIu32 "%s%s",
                       f->peer, f->seq, f->error ? ": " : "", f->error ? strerror(f->error) : "");
    case TT_FAULT_PROTOCOL:
        if (f->letter)
            return tt_fail(err, TUTTI_ERR_PEER,
                           "rank %" PRIu32 " sent piece %" PRIu64
                           " of its message with tag %" PRIu32 " twice",
                           f->peer, f->theirs, f->seq);
        return tt_fail(err, TUTTI_ERR_PEER,
                       "rank %" PRIu32 " broke the protocol in request %" PRIu32, f->peer, f->seq);
    default:
        return tt_fail(err, TUTTI_ERR_ABORTED, "the communicator was aborted");
    }
}
