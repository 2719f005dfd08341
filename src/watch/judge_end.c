/* judge_end.c - connections that closed: a process that ended, a path that failed, altered bytes.
 *
 * A process that ends closes its control connection too, and at once; a data connection that closes
 * alone is a matter of the path. What the rank was doing is taken from its last answer or
 * heartbeat, and said only as far as it is known. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "watch/judge_int.h"

void tt_watch_say_dead(const struct tt_watch *w, uint32_t r, const struct tt_op_desc *op,
                       const char *when, struct tt_verdict *ret)
{
    char who[TT_WORDS];
    tt_watch_say(w, ret, TT_BLAME_DEAD, r, op, "%s is dead: its connection closed %s",
                 tt_watch_words_rank(w, r, who), when);
}

/* The rank that found altered bytes on a connection has closed it; the other end only knows of the
 * close. size: there is none. */
static uint32_t who_found_altered(const struct tt_watch *w)
{
    uint32_t r = 0;
    while (r < w->size && !(w->seats[r].troubled && w->seats[r].trouble.kind == TT_TROUBLE_CLOSED &&
                            w->seats[r].trouble.text[0] && w->seats[r].trouble.peer < w->size))
        r++;
    return r;
}

static bool judge_altered(const struct tt_watch *w, struct tt_verdict *ret)
{
    uint32_t by = who_found_altered(w);
    assert(w->rank == 0); /* only rank 0 has the reports of all */
    char who[TT_WORDS], when[TT_WORDS];
    if (by == w->size)
        return false;
    const struct tt_trouble *t = &w->seats[by].trouble;
    tt_watch_say(w, ret, TT_BLAME_UNREACHABLE, t->peer, &t->op,
                 "%s is unreachable from rank %" PRIu32 ": %s between them %s",
                 tt_watch_words_rank(w, t->peer, who), by, t->text,
                 tt_watch_words_during(&t->op, true, when));
    return true;
}

bool tt_watch_judge_closed(const struct tt_watch *w, bool final, struct tt_verdict *ret)
{
    struct tt_op_desc op = tt_watch_case_op(w);
    uint32_t r = tt_watch_peer_or(w, w->reporter);
    char who[TT_WORDS], when[TT_WORDS];
    if (judge_altered(w, ret))
        return true;
    if (w->seats[r].left) {
        tt_watch_say_not_entered(w, r, 0, ret);
        return true;
    }
    if (!final)
        return false;
    if (!tt_watch_judge_silent(w, ret))
        tt_watch_say(
            w, ret, TT_BLAME_UNREACHABLE, r, &op,
            "%s is unreachable from rank %" PRIu32 ": the connection between them broke %s",
            tt_watch_words_rank(w, r, who), w->reporter, tt_watch_words_during(&op, true, when));
    return true;
}

/* The last request of a communicator that a rank is known to have entered: by its answer, or by its
 * last heartbeat, which may be a quarter of a second old. 0: none is known. */
static uint32_t last_known(const struct tt_watch *w, uint32_t rank, uint32_t comm)
{
    const struct tt_seat *s = rank < w->nseats ? &w->seats[rank] : NULL;
    uint32_t beat = s && s->doing.comm == comm ? s->doing.seq : 0;
    uint32_t told = s && s->answered && s->answer.comm == comm ? s->answer.last.seq : 0;
    return beat > told ? beat : told;
}

void tt_watch_describe_end(const struct tt_watch *w, uint32_t rank, uint32_t by,
                           const struct tt_op_desc *op, char ret_when[TT_WORDS])
{
    assert(by < w->size);
    uint32_t known = op->busy < TT_OP_SENDING ? last_known(w, rank, op->comm) : 0;
    char request[TT_WORDS], heard[48] = "";
    /* opening is faster than heartbeats: the rank may be well beyond, even in its first call */
    if (op->comm == TT_COMM_OPENING) {
        snprintf(ret_when, TT_WORDS, "during or right after the opening of the communicator");
        return;
    }
    if (op->seq == 0 || known >= op->seq) {
        tt_watch_words_during(op, true, ret_when);
        return;
    }
    if (known)
        snprintf(heard, sizeof heard, "; it was last heard in request %" PRIu32, known);
    snprintf(ret_when, TT_WORDS, "while rank %" PRIu32 " was in %.80s%s", by,
             tt_watch_words_request(op, request), heard);
}

/* What was going on when `rank` ended: the request of the case; else this rank's own on the same
 * communicator; else what the last heartbeat said. */
static struct tt_op_desc scene(const struct tt_watch *w, uint32_t rank, char ret_when[TT_WORDS])
{
    assert(rank < w->nseats);
    struct tt_op_desc op = w->seats[rank].doing;
    struct tt_answer mine =
        tt_watch_posts_answer(&w->posts, op.comm == TT_COMM_OPENING ? 0 : op.comm, 0);
    char request[TT_WORDS];
    if (mine.member && mine.comm == 0 && mine.last.seq == 0)
        mine = tt_watch_posts_answer(&w->posts, TT_COMM_OPENING, 0);
    if (w->reporter != UINT32_MAX) {
        op = tt_watch_case_op(w);
        tt_watch_describe_end(w, rank, w->reporter, &op, ret_when);
    } else if (mine.member && (mine.comm != op.comm || mine.last.seq >= op.seq)) {
        op = mine.last;
        if (op.busy == TT_OP_IDLE)
            tt_watch_words_during(&op, false, ret_when);
        else
            tt_watch_describe_end(w, rank, w->rank, &op, ret_when);
    } else {
        snprintf(ret_when, TT_WORDS, "(last heard in %.130s)",
                 tt_watch_words_request(&op, request));
    }
    return op;
}

/* These errors mean that the process ended; any other means that the network to it failed. */
bool tt_watch_judge_is_death(int error)
{
    return error == 0 || error == ECONNRESET || error == EPIPE || error == EBADMSG;
}

void tt_watch_judge_end(const struct tt_watch *w, uint32_t rank, int error, bool lonely,
                        struct tt_verdict *ret)
{
    char who[TT_WORDS], when[TT_WORDS];
    struct tt_op_desc op = scene(w, rank, when);
    if (tt_watch_judge_is_death(error))
        tt_watch_say_dead(w, rank, &op, when, ret);
    else if (lonely || (w->rank == 0 && tt_watch_cut_off(w)))
        tt_watch_say_own_link(w, &op, when, ret);
    else
        tt_watch_say(w, ret, TT_BLAME_UNREACHABLE, rank, &op, "%s is unreachable: %s %s",
                     tt_watch_words_rank(w, rank, who), strerror(error), when);
}

void tt_watch_judge_silent_root(const struct tt_watch *w, bool cut, bool lonely,
                                struct tt_verdict *ret)
{
    struct tt_op_desc op = w->trouble.op;
    char when[TT_WORDS];
    if (lonely)
        tt_watch_say_own_link(w, &op, tt_watch_words_during(&op, true, when), ret);
    else
        tt_watch_say_silent(w, 0, cut, &op, ret);
}
