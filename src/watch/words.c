/* words.c - the phrases that verdicts consist of: ranks, calls, requests, times. Each
 * function writes into the caller's buffer of TT_WORDS bytes and returns it; long names are
 * truncated. */
#include <inttypes.h>

#include "sched/sched.h"
#include "watch/watch_int.h"

const char *tt_watch_blame_name(enum tt_blame b)
{
#define BLAME_NAME(id, name) name,
    static const char *const names[] = {TT_BLAME_LIST(BLAME_NAME)};
#undef BLAME_NAME
    return (unsigned)b < TT_BLAMES ? names[b] : "unknown";
}

char *tt_watch_words_rank(const struct tt_watch *w, uint32_t rank, char out[TT_WORDS])
{
    snprintf(out, TT_WORDS, "rank %" PRIu32 " (host %s, pid %" PRIu32 ")", rank,
             w->peers[rank].host, w->peers[rank].pid);
    return out;
}

/* The name of its reduction; "": it does not reduce. */
static const char *watch_words_reduces(const struct tt_op_desc *op, char out[TT_WATCH_USEROP + 3])
{
    bool own = op->redop == TT_REDOP_USER;
    snprintf(out, TT_WATCH_USEROP + 3, own ? "'%.*s'" : "%.*s", TT_WATCH_USEROP - 1,
             own ? op->user : tt_sched_redop_name((tutti_redop)op->redop));
    return tt_sched_coll_sums((tutti_coll)op->coll) ? out : "";
}

static bool rooted(const struct tt_op_desc *op)
{
    return tt_sched_coll_is_rooted((tutti_coll)op->coll);
}

/* "send of 20 f32 to rank 3, tag 7". */
static void message(const struct tt_op_desc *op, char out[TT_WORDS])
{
    bool sends = op->busy == TT_OP_SENDING;
    char peer[24] = "any rank", tag[24] = "";
    if (op->root != UINT32_MAX)
        snprintf(peer, sizeof peer, "rank %" PRIu32, op->root);
    if (op->print && op->print < UINT32_MAX)
        snprintf(tag, sizeof tag, ", tag %" PRIu32, (uint32_t)op->print);
    snprintf(out, TT_WORDS, "%s of %" PRIu64 " %s %s %s%s", sends ? "send" : "receive", op->count,
             tt_sched_dtype_name((tutti_dtype)op->dtype), sends ? "to" : "from", peer, tag);
}

/* What the user called, if this is a part of it. */
static const char *purpose(const struct tt_op_desc *op)
{
#define WHY_NAME(id, name) name,
    static const char *const names[] = {TT_WHY_LIST(WHY_NAME)};
#undef WHY_NAME
    return op->why < TT_WHYS ? names[op->why] : "";
}

/* "allreduce of 20 f32". */
static char *what(const struct tt_op_desc *op, char out[TT_WORDS])
{
    if (op->busy >= TT_OP_SENDING)
        message(op, out);
    else if (op->why)
        snprintf(out, TT_WORDS, "%s", purpose(op));
    else if (op->coll == TUTTI_BARRIER)
        snprintf(out, TT_WORDS, "barrier");
    else if (op->count == UINT64_MAX)
        snprintf(out, TT_WORDS, "%s of blocks of %s", tt_sched_coll_name((tutti_coll)op->coll),
                 tt_sched_dtype_name((tutti_dtype)op->dtype));
    else
        snprintf(out, TT_WORDS, "%s of %" PRIu64 " %s", tt_sched_coll_name((tutti_coll)op->coll),
                 op->count, tt_sched_dtype_name((tutti_dtype)op->dtype));
    return out;
}

char *tt_watch_words_call(const struct tt_op_desc *op, char out[TT_WORDS])
{
    char call[TT_WORDS], name[TT_WATCH_USEROP + 3];
    const char *by = watch_words_reduces(op, name);
    what(op, call);
    if (op->why || op->busy >= TT_OP_SENDING || (!*by && !rooted(op)))
        snprintf(out, TT_WORDS, "%.100s", call);
    else if (!rooted(op))
        snprintf(out, TT_WORDS, "%.100s (%s)", call, by);
    else
        snprintf(out, TT_WORDS, "%.100s (%s%sroot %" PRIu32 ")", call, by, *by ? ", " : "",
                 op->root);
    return out;
}

char *tt_watch_words_request(const struct tt_op_desc *op, char out[TT_WORDS])
{
    char call[TT_WORDS];
    if (op->comm == TT_COMM_OPENING)
        snprintf(out, TT_WORDS, "step %" PRIu32 " of the %s", op->seq, purpose(op));
    else
        snprintf(out, TT_WORDS, "%s %" PRIu32 " (%.100s)%s",
                 op->busy >= TT_OP_SENDING ? "message" : "request", op->seq, what(op, call),
                 op->comm && op->busy < TT_OP_SENDING ? " of a split or trainer" : "");
    return out;
}

/* busy: the rank is in the request; otherwise it has left it. */
char *tt_watch_words_during(const struct tt_op_desc *op, bool busy, char out[TT_WORDS])
{
    char request[TT_WORDS];
    if (op->seq == 0)
        snprintf(out, TT_WORDS, "before the first request");
    else
        snprintf(out, TT_WORDS, "%s %.140s", busy ? "during" : "after",
                 tt_watch_words_request(op, request));
    return out;
}
