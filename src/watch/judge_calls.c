/* judge_calls.c - ranks that call different things in the same request, or have not called at all.
 *
 * The answers of all ranks about one request are counted. The usual call is that of more than half
 * of the ranks that have entered it, otherwise that of the lowest of them; the lowest rank with
 * another call is blamed. A rank that has not entered the request is blamed only when no two calls
 * differ: a rank that called something else may be what keeps it. */
#include <assert.h>
#include <inttypes.h>

#include "watch/judge_int.h"

/* ---- different calls ---- */

static bool same_call(const struct tt_op_desc *a, const struct tt_op_desc *b)
{
    return a->count == b->count && a->print == b->print && a->root == b->root &&
           a->coll == b->coll && a->dtype == b->dtype && a->redop == b->redop && a->why == b->why;
}

/* Request `seq` of the communicator in question as rank r entered it; NULL: it has not, or no
 * longer knows. */
static const struct tt_op_desc *entered(const struct tt_watch *w, uint32_t r, uint32_t seq)
{
    const struct tt_seat *s = &w->seats[r];
    return s->answered && s->answer.member ? tt_watch_answer_at(&s->answer, seq) : NULL;
}

/* Which ranks called what in one request. */
struct census {
    /* A rank that called what most ranks did; without a majority the lowest that knows; size: none
     * knows. */
    uint32_t usual;
    uint32_t odd; /* the lowest that called something else; size: none */
    uint32_t known;
    bool sure; /* ranks that have not come yet cannot change the majority */
};

/* The first loop is a majority vote in one pass (Boyer and Moore): if a majority exists, `usual` is
 * one of it. The second loop checks that. */
static struct census count_calls(const struct tt_watch *w, uint32_t seq)
{
    struct census c = {.usual = w->size, .odd = w->size};
    uint32_t votes = 0, lowest = w->size, agree = 0, members = 0;
    for (uint32_t r = 0; r < w->size; r++) {
        const struct tt_op_desc *d = entered(w, r, seq);
        members += w->seats[r].answered && w->seats[r].answer.member;
        if (!d)
            continue;
        lowest = c.known++ ? lowest : r;
        if (votes == 0)
            c.usual = r;
        votes = same_call(d, entered(w, c.usual, seq)) ? votes + 1 : votes - 1;
    }
    for (uint32_t r = 0; r < w->size; r++)
        agree += entered(w, r, seq) && same_call(entered(w, r, seq), entered(w, c.usual, seq));
    assert(agree <= c.known && (c.known == 0 || c.usual < w->size));
    c.usual = 2 * agree > c.known ? c.usual : lowest;
    for (uint32_t r = w->size; r-- > 0;)
        if (entered(w, r, seq) && !same_call(entered(w, r, seq), entered(w, c.usual, seq)))
            c.odd = r;
    c.sure = 2 * agree > members || c.known == members;
    return c;
}

/* Of the requests that were asked about, finds the first that ranks have entered differently: its
 * consequences show only later, in the request of a rank that waits for the wrong one. Unless
 * `final`, only if it is clear which rank is the odd one. */
static bool find_mismatch(const struct tt_watch *w, bool final, uint32_t *ret_seq,
                          struct census *ret)
{
    uint32_t last = w->asked_seq, first = last > TT_ANSWER_PAST ? last - TT_ANSWER_PAST + 1 : 1;
    for (uint32_t s = first; s <= last; s++) {
        *ret = count_calls(w, s);
        *ret_seq = s;
        if (ret->odd < w->size)
            return final || ret->sure;
    }
    return false;
}

bool tt_watch_maybe_mismatched(const struct tt_watch *w)
{
    uint32_t seq;
    struct census c;
    return find_mismatch(w, true, &seq, &c);
}

/* The last request that every answering member has entered; at most the reporter's. */
static uint32_t least_advanced(const struct tt_watch *w)
{
    uint32_t least = w->trouble.op.seq;
    for (uint32_t r = 0; r < w->size; r++) {
        const struct tt_seat *s = &w->seats[r];
        if (!s->left && s->answered && s->answer.member && s->answer.last.seq < least)
            least = s->answer.last.seq;
    }
    return least;
}

/* A rank that waits because of a difference has not got past it, while others may have gone on for
 * long before one of them reports. The first question goes back from the report, the next one
 * starts from the least advanced rank, and further ones continue up to the report:
 *
 *     rank 0   8                       least advanced: asked about 1 .. 32, 33 .. 64, 65
 *     rank 1   8 9 10 ... 65           reports request 65: asked about 34 .. 65 */
bool tt_watch_judge_wants(const struct tt_watch *w, uint32_t *ret_seq)
{
    uint32_t seq = w->trouble.op.seq, next = w->asked_seq + TT_ANSWER_PAST;
    if (tt_watch_about_message(w) || w->trouble.kind == TT_TROUBLE_CLOSED ||
        seq <= TT_ANSWER_PAST || !tt_watch_everybody_answered(w))
        return false;
    if (!w->looked_back) {
        uint32_t least = least_advanced(w);
        if (least + TT_ANSWER_PAST / 2 >= seq)
            return false;
        next = least > TT_ANSWER_PAST ? least : TT_ANSWER_PAST;
    } else if (w->asked_seq >= seq || tt_watch_maybe_mismatched(w)) {
        return false;
    }
    *ret_seq = next < seq ? next : seq;
    return true;
}

bool tt_watch_judge_mismatch(const struct tt_watch *w, bool final, struct tt_verdict *ret)
{
    uint32_t seq;
    struct census c;
    char who[TT_WORDS], theirs[TT_WORDS], ours[TT_WORDS], others[TT_WORDS] = "the others";
    if (!find_mismatch(w, final, &seq, &c))
        return false;
    /* of two ranks, the one that closes is the odd one */
    if (c.known == 2 && entered(w, c.usual, seq)->why == TT_WHY_CLOSE) {
        uint32_t other = c.odd;
        c.odd = c.usual;
        c.usual = other;
    }
    assert(c.usual < w->size && c.odd < w->size && c.usual != c.odd);
    uint32_t r = c.odd;
    const struct tt_op_desc *op = entered(w, r, seq);
    if (op->why == TT_WHY_CLOSE) {
        op = entered(w, c.usual, seq);
        tt_watch_say(w, ret, TT_BLAME_NOT_ENTERED, r, op,
                     "%s has not entered %s: it has closed the communicator",
                     tt_watch_words_rank(w, r, who), tt_watch_words_request(op, ours));
        return true;
    }
    tt_watch_words_call(op, theirs);
    tt_watch_words_call(entered(w, c.usual, seq), ours);
    if (c.known == 2)
        snprintf(others, sizeof others, "rank %" PRIu32, c.usual);
    if (tt_streq(theirs, ours))
        tt_watch_say(w, ret, TT_BLAME_MISMATCHED, r, op,
                     "calls are mismatched: %s called %s as request %" PRIu32
                     " with another plan, or with other block lengths, than %s",
                     tt_watch_words_rank(w, r, who), theirs, op->seq, others);
    else
        tt_watch_say(w, ret, TT_BLAME_MISMATCHED, r, op,
                     "calls are mismatched: %s called %s as request %" PRIu32 " while %s called %s",
                     tt_watch_words_rank(w, r, who), theirs, op->seq, others, ours);
    return true;
}

void tt_watch_say_peer_differs(const struct tt_watch *w, struct tt_verdict *ret)
{
    struct tt_op_desc op = tt_watch_case_op(w);
    uint32_t r = tt_watch_peer_or(w, w->reporter);
    char who[TT_WORDS], request[TT_WORDS];
    if (tt_watch_about_message(w) && w->trouble.text[0])
        tt_watch_say(w, ret, TT_BLAME_MISMATCHED, r, &op, "calls are mismatched: %s %s",
                     tt_watch_words_rank(w, r, who), w->trouble.text);
    else
        tt_watch_say(w, ret, TT_BLAME_MISMATCHED, r, &op,
                     "calls are mismatched: %s called something else than rank %" PRIu32 " in %s",
                     tt_watch_words_rank(w, r, who), w->reporter,
                     tt_watch_words_request(&op, request));
}

/* ---- not entered ---- */

void tt_watch_say_not_entered(const struct tt_watch *w, uint32_t r, uint32_t more,
                              struct tt_verdict *ret)
{
    assert(r < w->nseats);
    const struct tt_seat *s = &w->seats[r];
    const struct tt_op_desc *last = &s->answer.last;
    struct tt_op_desc op = tt_watch_case_op(w);
    char who[TT_WORDS], request[TT_WORDS], its[TT_WORDS], others[48] = "";
    if (s->left)
        snprintf(its, sizeof its, "it has closed its communicators");
    else if (!s->answer.member)
        snprintf(its, sizeof its, "it has closed this communicator");
    else if (last->seq == 0)
        snprintf(its, sizeof its, "it has not called anything yet");
    else
        snprintf(its, sizeof its, "it is %s request %" PRIu32, last->busy ? "in" : "past",
                 last->seq);
    if (more)
        snprintf(others, sizeof others,
                 more == 1 ? "; nor has 1 other rank" : "; nor have %" PRIu32 " other ranks", more);
    tt_watch_say(w, ret, TT_BLAME_NOT_ENTERED, r, &op, "%s has not entered %s: %s%s",
                 tt_watch_words_rank(w, r, who), tt_watch_words_request(&op, request), its, others);
}

bool tt_watch_judge_not_entered(const struct tt_watch *w, struct tt_verdict *ret)
{
    const struct tt_op_desc *op = &w->trouble.op;
    uint32_t culprit = w->size, missing = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < w->size; r++) {
        const struct tt_seat *s = &w->seats[r];
        bool gone = s->left ? op->comm == 0 || op->comm == TT_COMM_OPENING || r == w->trouble.peer
                            : s->answered && !s->answer.member && r == w->trouble.peer;
        bool behind = !s->left && s->answered && s->answer.member && s->answer.last.seq < op->seq;
        uint64_t how = gone ? 0 : s->answer.last.seq + ((uint64_t)s->answer.busy << 32);
        if (r == w->reporter || (!gone && !behind))
            continue;
        missing++;
        if (how < least) {
            least = how;
            culprit = r;
        }
    }
    if (culprit == w->size)
        return false;
    tt_watch_say_not_entered(w, culprit, missing - 1, ret);
    return true;
}
