/* judge.c - the rules. They read the board and write a verdict; they change nothing else.
 *
 * A case is one rank's trouble with one request. By the time rank 0 judges, every living rank has
 * been asked about that request, so silence is meaningful and the answers are fresh. The order of
 * the rules is the order of certainty: a rank that does not answer at all, a rank that called
 * something else, a rank that has not come, and only then the peer that the reporter happens to
 * wait for. Since that peer may be waiting itself, the reports of the others are followed to the
 * end of the chain:
 *
 *     rank 1 waits for 0, rank 0 waits for 3, rank 3 waits for nobody     ->  rank 3
 *     1 -> 0 -> 3 -> 2 -> 1: a ring of waiting ranks has no first one     ->  the peer of the
 *                                                                             first report
 *
 * judge_calls.c has the rules about calls, judge_end.c those about closed connections. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "watch/judge_int.h"

/* Time that is lost while things are opened is often the fault of a busy machine: the message
 * mentions the load. */
static void add_busy(struct tt_verdict *v)
{
    char busy[TT_BUSY_TEXT];
    size_t at = strlen(v->text);
    snprintf(v->text + at, sizeof v->text - at, "%s", tt_boot_busy_text(busy));
}

void __attribute__((format(printf, 6, 7)))
tt_watch_say(const struct tt_watch *w, struct tt_verdict *v, enum tt_blame blame, uint32_t culprit,
             const struct tt_op_desc *op, const char *fmt, ...)
{
    va_list ap;
    assert(culprit < w->size);
    *v = (struct tt_verdict){.blame = (uint32_t)blame,
                             .culprit = culprit,
                             .seq = op->seq,
                             .coll = op->coll,
                             .pid = w->peers[culprit].pid};
    memcpy(v->host, w->peers[culprit].host, sizeof v->host);
    va_start(ap, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, ap);
    va_end(ap);
    if (op->comm == TT_COMM_OPENING && (blame == TT_BLAME_STUCK || blame == TT_BLAME_NOT_ENTERED))
        add_busy(v);
}

bool tt_watch_about_message(const struct tt_watch *w)
{
    return w->trouble.op.busy >= TT_OP_SENDING;
}

struct tt_op_desc tt_watch_case_op(const struct tt_watch *w)
{
    const struct tt_seat *s = w->rank == 0 && w->reporter < w->size ? &w->seats[w->reporter] : NULL;
    const struct tt_op_desc *at = s && s->answered && !tt_watch_about_message(w)
                                      ? tt_watch_answer_at(&s->answer, w->trouble.op.seq)
                                      : NULL;
    return at ? *at : w->trouble.op;
}

uint32_t tt_watch_peer_or(const struct tt_watch *w, uint32_t other)
{
    return w->trouble.peer < w->size ? w->trouble.peer : other;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* ---- silence ---- */

/* Connected, but it has not answered the question of this case. */
static bool silent(const struct tt_seat *s)
{
    return s->line.fd >= 0 && !s->answered;
}

bool tt_watch_everybody_answered(const struct tt_watch *w)
{
    for (uint32_t r = 1; r < w->size; r++)
        if (silent(&w->seats[r]) ||
            (w->seats[r].line.fd >= 0 && w->seats[r].answer.seq != w->asked_seq))
            return false;
    return true;
}

bool tt_watch_cut_off(const struct tt_watch *w)
{
    uint64_t mine = w->peers[0].host_id, first = mine;
    bool two = false;
    for (uint32_t r = 1; r < w->size; r++) {
        const struct tt_seat *s = &w->seats[r];
        if (w->peers[r].host_id == mine || s->left)
            continue;
        /* a connection that has ended is the reason for asking */
        if (s->line.fd >= 0 && (s->answered || !tt_watch_line_cut(s->line.fd)))
            return false;
        two = two || (first != mine && first != w->peers[r].host_id);
        first = w->peers[r].host_id;
    }
    return two || (first != mine && tt_boot_link_down(w->boot));
}

void tt_watch_say_own_link(const struct tt_watch *w, const struct tt_op_desc *op, const char *when,
                           struct tt_verdict *ret)
{
    char who[TT_WORDS];
    tt_watch_say(w, ret, TT_BLAME_UNREACHABLE, w->rank, op,
                 "%s is unreachable: its own link is cut, no other host answers it, %s",
                 tt_watch_words_rank(w, w->rank, who), when);
}

void tt_watch_say_silent(const struct tt_watch *w, uint32_t r, bool cut,
                         const struct tt_op_desc *op, struct tt_verdict *ret)
{
    const struct tt_line *l = &w->seats[r].line;
    char who[TT_WORDS], when[TT_WORDS];
    tt_watch_say(w, ret, cut ? TT_BLAME_UNREACHABLE : TT_BLAME_STUCK, r, op,
                 "%s is %s: %s for %.1f s, %s", tt_watch_words_rank(w, r, who),
                 cut ? "unreachable" : "stuck",
                 cut ? "its host has not answered"
                     : "its host answers, but the process has shown no life (stopped?)",
                 seconds(tt_now_ns() - l->read_ns), tt_watch_words_during(op, true, when));
}

bool tt_watch_judge_silent(const struct tt_watch *w, struct tt_verdict *ret)
{
    struct tt_op_desc op = tt_watch_case_op(w);
    uint32_t r = tt_watch_peer_or(w, 0);
    char when[TT_WORDS];
    if (!silent(&w->seats[r]))
        for (r = 1; r < w->size && !silent(&w->seats[r]); r++)
            ;
    if (r >= w->size)
        return false;
    if (tt_watch_cut_off(w))
        tt_watch_say_own_link(w, &op, tt_watch_words_during(&op, true, when), ret);
    else
        tt_watch_say_silent(w, r,
                            tt_watch_line_cut(w->seats[r].line.fd) ||
                                tt_watch_line_lossy(w->seats[r].line.fd),
                            &op, ret);
    return true;
}

/* ---- the peer waited for ---- */

/* Follows "waits for" from the reporter's peer. In a ring the walk ends after `size` steps, and the
 * first peer is blamed. */
static uint32_t end_of_chain(const struct tt_watch *w)
{
    assert(w->rank == 0);
    uint32_t first = tt_watch_peer_or(w, w->reporter), r = first;
    for (uint32_t steps = 0; steps < w->size; steps++) {
        const struct tt_seat *s = &w->seats[r];
        if (!s->troubled || s->trouble.kind != TT_TROUBLE_DEADLINE ||
            s->trouble.op.comm != w->trouble.op.comm || s->trouble.peer >= w->size)
            return r;
        r = s->trouble.peer;
    }
    return first;
}

static void say_stuck(const struct tt_watch *w, uint32_t r, struct tt_verdict *ret)
{
    struct tt_op_desc op = tt_watch_case_op(w);
    char who[TT_WORDS], request[TT_WORDS];
    tt_watch_say(w, ret, TT_BLAME_STUCK, r, &op,
                 "%s is stuck in %s: nothing came from it within %.10g s",
                 tt_watch_words_rank(w, r, who), tt_watch_words_request(&op, request),
                 seconds(w->timeout_ns));
}

/* No rank is visibly at fault, but a path loses data: blames the path to the end of the chain if it
 * is lossy, or else the first lossy one. If all paths of rank 0 to several hosts are lossy, it is
 * rank 0's own link. */
static bool judge_lossy(const struct tt_watch *w, uint32_t first, struct tt_verdict *ret)
{
    struct tt_op_desc op = tt_watch_case_op(w);
    uint64_t mine = w->peers[0].host_id, other = mine;
    uint32_t lossy = 0, apart = 0, culprit = w->size;
    bool two = false;
    char who[TT_WORDS], when[TT_WORDS];
    for (uint32_t r = 1; r < w->size; r++) {
        if (w->peers[r].host_id == mine || w->seats[r].line.fd < 0)
            continue;
        bool bad = tt_watch_line_lossy(w->seats[r].line.fd);
        two = two || (other != mine && other != w->peers[r].host_id);
        other = w->peers[r].host_id;
        apart++;
        lossy += bad;
        if (bad && (culprit == w->size || r == first))
            culprit = r;
    }
    if (!lossy)
        return false;
    culprit = two && lossy == apart ? 0 : culprit;
    tt_watch_say(w, ret, TT_BLAME_UNREACHABLE, culprit, &op,
                 "%s is unreachable: %s loses much of what is sent, %s",
                 tt_watch_words_rank(w, culprit, who),
                 culprit ? "the way to its host" : "its own link",
                 tt_watch_words_during(&op, true, when));
    return true;
}

static void say_message_late(const struct tt_watch *w, struct tt_verdict *ret)
{
    const struct tt_op_desc *op = &w->trouble.op;
    uint32_t r = tt_watch_peer_or(w, w->reporter);
    char who[TT_WORDS], request[TT_WORDS];
    if (w->trouble.peer >= w->size)
        tt_watch_say(w, ret, TT_BLAME_NOT_ENTERED, r, op,
                     "%s waited %.10g s for %s: no rank has sent it",
                     tt_watch_words_rank(w, r, who), seconds(w->timeout_ns),
                     tt_watch_words_request(op, request));
    else
        tt_watch_say(w, ret, TT_BLAME_NOT_ENTERED, r, op,
                     "%s has not entered the other side of %s of rank %" PRIu32 " within %.10g s",
                     tt_watch_words_rank(w, r, who), tt_watch_words_request(op, request),
                     w->reporter, seconds(w->timeout_ns));
}

/* ---- entry points ---- */

/* The rules in their order of certainty. Unless `final`, a rule decides only if later answers
 * cannot change it. */
bool tt_watch_judge_case(const struct tt_watch *w, bool final, struct tt_verdict *ret)
{
    assert(w->rank == 0 && w->reporter < w->size);
    if (!final && !tt_watch_everybody_answered(w))
        return false;
    if (w->trouble.kind == TT_TROUBLE_CLOSED)
        return tt_watch_judge_closed(w, final, ret);
    if (w->trouble.kind == TT_TROUBLE_MISMATCH) {
        bool found = !tt_watch_about_message(w) && tt_watch_judge_mismatch(w, final, ret);
        if (!found && (final || tt_watch_about_message(w))) {
            tt_watch_say_peer_differs(w, ret);
            found = true;
        }
        return found;
    }
    if (tt_watch_judge_silent(w, ret))
        return true;
    if (tt_watch_about_message(w))
        say_message_late(w, ret);
    else if (!tt_watch_judge_mismatch(w, final, ret)) {
        if (!final && tt_watch_maybe_mismatched(w))
            return false;
        if (tt_watch_judge_not_entered(w, ret))
            return true;
        if (!final)
            return false;
        if (w->trouble.peer >= w->size && w->trouble.text[0])
            /* the reporter does not know either which rank it waits for */
            tt_watch_judge_word(w, w->reporter, &w->trouble, ret);
        else if (!judge_lossy(w, end_of_chain(w), ret))
            say_stuck(w, end_of_chain(w), ret);
    }
    return true;
}

void tt_watch_judge_alone(const struct tt_watch *w, struct tt_verdict *ret)
{
    struct tt_op_desc op = w->trouble.op;
    uint32_t r = tt_watch_peer_or(w, w->rank);
    char when[TT_WORDS];
    if (w->trouble.kind == TT_TROUBLE_CLOSED) {
        tt_watch_describe_end(w, r, w->rank, &op, when);
        tt_watch_say_dead(w, r, &op, when, ret);
    } else if (w->trouble.kind == TT_TROUBLE_MISMATCH)
        tt_watch_say_peer_differs(w, ret);
    else if (tt_watch_about_message(w))
        say_message_late(w, ret);
    else
        say_stuck(w, r, ret);
}

bool tt_watch_judge_is_word(const struct tt_trouble *t)
{
    return t->kind == TT_TROUBLE_ABORT || t->kind == TT_TROUBLE_UNABLE ||
           t->kind == TT_TROUBLE_LINK;
}

void tt_watch_judge_word(const struct tt_watch *w, uint32_t rank, const struct tt_trouble *t,
                         struct tt_verdict *ret)
{
    char who[TT_WORDS], call[TT_WORDS];
    tt_watch_words_rank(w, rank, who);
    if (t->kind == TT_TROUBLE_LINK)
        tt_watch_say(w, ret, TT_BLAME_UNREACHABLE, rank, &t->op,
                     "%s is unreachable: its own link is cut, it says, %s", who,
                     tt_watch_words_during(&t->op, true, call));
    else if (t->kind == TT_TROUBLE_ABORT)
        tt_watch_say(w, ret, TT_BLAME_ABORTED, rank, &t->op, "%s aborted: %s", who, t->text);
    else
        tt_watch_say(w, ret, TT_BLAME_UNABLE, rank, &t->op, "%s cannot go on with %s: %s", who,
                     tt_watch_words_call(&t->op, call), t->text);
}
