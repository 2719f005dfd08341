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
 *     1 -> 0 -> 3 -> 2 -> 1: a ring of waiting ranks has no first one     ->  first report's
 * peer */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "watch/watch_int.h"

/* Time that is lost while things are opened is often the fault of a busy machine: the message
 * mentions the load. */
static void add_busy(struct tt_verdict *v)
{
    char busy[TT_BUSY_TEXT];
    size_t at = strlen(v->text);
    snprintf(v->text + at, sizeof v->text - at, "%s", tt_boot_busy_text(busy));
}

/* Fills the verdict: who, which request, and the text. */
static void __attribute__((format(printf, 6, 7)))
say(const struct tt_watch *w, struct tt_verdict *v, enum tt_blame blame, uint32_t culprit,
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

static bool about_message(const struct tt_watch *w)
{
    return w->trouble.op.busy >= TT_OP_SENDING;
}

/* The request of the case as its reporter entered it: its answer knows more than its report. */
static struct tt_op_desc case_op(const struct tt_watch *w)
{
    const struct tt_seat *s = w->rank == 0 && w->reporter < w->size ? &w->seats[w->reporter] : NULL;
    const struct tt_op_desc *at = s && s->answered && !about_message(w)
                                      ? tt_watch_answer_at(&s->answer, w->trouble.op.seq)
                                      : NULL;
    return at ? *at : w->trouble.op;
}

/* The peer that the reporter waits for, or `other` if it did not know. */
static uint32_t peer_or(const struct tt_watch *w, uint32_t other)
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

/* Have all connected ranks answered the last question? */
static bool everybody_answered(const struct tt_watch *w)
{
    for (uint32_t r = 1; r < w->size; r++)
        if (silent(&w->seats[r]) ||
            (w->seats[r].line.fd >= 0 && w->seats[r].answer.seq != w->asked_seq))
            return false;
    return true;
}

/* Is it rank 0's own link? True if no rank on any other host can be reached, and there are at least
 * two such hosts or the interface itself is down. */
static bool cut_off(const struct tt_watch *w)
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

static void say_own_link(const struct tt_watch *w, const struct tt_op_desc *op, const char *when,
                         struct tt_verdict *ret)
{
    char who[TT_WORDS];
    say(w, ret, TT_BLAME_UNREACHABLE, w->rank, op,
        "%s is unreachable: its own link is cut, no other host answers it, %s",
        tt_watch_words_rank(w, w->rank, who), when);
}

static void say_silent(const struct tt_watch *w, uint32_t r, bool cut, const struct tt_op_desc *op,
                       struct tt_verdict *ret)
{
    const struct tt_line *l = &w->seats[r].line;
    char who[TT_WORDS], when[TT_WORDS];
    say(w, ret, cut ? TT_BLAME_UNREACHABLE : TT_BLAME_STUCK, r, op, "%s is %s: %s for %.1f s, %s",
        tt_watch_words_rank(w, r, who), cut ? "unreachable" : "stuck",
        cut ? "its host has not answered"
            : "its host answers, but the process has shown no life (stopped?)",
        seconds(tt_now_ns() - l->read_ns), tt_watch_words_during(op, true, when));
}

/* Blames a silent rank: the peer waited for if it is silent, else the lowest one. */
static bool judge_silent(const struct tt_watch *w, struct tt_verdict *ret)
{
    struct tt_op_desc op = case_op(w);
    uint32_t r = peer_or(w, 0);
    char when[TT_WORDS];
    if (!silent(&w->seats[r]))
        for (r = 1; r < w->size && !silent(&w->seats[r]); r++)
            ;
    if (r >= w->size)
        return false;
    if (cut_off(w))
        say_own_link(w, &op, tt_watch_words_during(&op, true, when), ret);
    else
        say_silent(w, r,
                   tt_watch_line_cut(w->seats[r].line.fd) ||
                       tt_watch_line_lossy(w->seats[r].line.fd),
                   &op, ret);
    return true;
}

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

static bool maybe_mismatched(const struct tt_watch *w)
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
    if (about_message(w) || w->trouble.kind == TT_TROUBLE_CLOSED || seq <= TT_ANSWER_PAST ||
        !everybody_answered(w))
        return false;
    if (!w->looked_back) {
        uint32_t least = least_advanced(w);
        if (least + TT_ANSWER_PAST / 2 >= seq)
            return false;
        next = least > TT_ANSWER_PAST ? least : TT_ANSWER_PAST;
    } else if (w->asked_seq >= seq || maybe_mismatched(w)) {
        return false;
    }
    *ret_seq = next < seq ? next : seq;
    return true;
}

static bool judge_mismatch(const struct tt_watch *w, bool final, struct tt_verdict *ret)
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
        say(w, ret, TT_BLAME_NOT_ENTERED, r, op,
            "%s has not entered %s: it has closed the communicator", tt_watch_words_rank(w, r, who),
            tt_watch_words_request(op, ours));
        return true;
    }
    tt_watch_words_call(op, theirs);
    tt_watch_words_call(entered(w, c.usual, seq), ours);
    if (c.known == 2)
        snprintf(others, sizeof others, "rank %" PRIu32, c.usual);
    if (tt_streq(theirs, ours))
        say(w, ret, TT_BLAME_MISMATCHED, r, op,
            "calls are mismatched: %s called %s as request %" PRIu32
            " with another plan, or with other block lengths, than %s",
            tt_watch_words_rank(w, r, who), theirs, op->seq, others);
    else
        say(w, ret, TT_BLAME_MISMATCHED, r, op,
            "calls are mismatched: %s called %s as request %" PRIu32 " while %s called %s",
            tt_watch_words_rank(w, r, who), theirs, op->seq, others, ours);
    return true;
}

/* All that is known is that two ranks differ. */
static void say_peer_differs(const struct tt_watch *w, struct tt_verdict *ret)
{
    struct tt_op_desc op = case_op(w);
    uint32_t r = peer_or(w, w->reporter);
    char who[TT_WORDS], request[TT_WORDS];
    if (about_message(w) && w->trouble.text[0])
        say(w, ret, TT_BLAME_MISMATCHED, r, &op, "calls are mismatched: %s %s",
            tt_watch_words_rank(w, r, who), w->trouble.text);
    else
        say(w, ret, TT_BLAME_MISMATCHED, r, &op,
            "calls are mismatched: %s called something else than rank %" PRIu32 " in %s",
            tt_watch_words_rank(w, r, who), w->reporter, tt_watch_words_request(&op, request));
}

/* ---- not entered ---- */

static void say_not_entered(const struct tt_watch *w, uint32_t r, uint32_t more,
                            struct tt_verdict *ret)
{
    assert(r < w->nseats);
    const struct tt_seat *s = &w->seats[r];
    const struct tt_op_desc *last = &s->answer.last;
    struct tt_op_desc op = case_op(w);
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
    say(w, ret, TT_BLAME_NOT_ENTERED, r, &op, "%s has not entered %s: %s%s",
        tt_watch_words_rank(w, r, who), tt_watch_words_request(&op, request), its, others);
}

/* Blames the member that has come least far. A rank that is in another call waits itself, perhaps
 * for one that is in no call, so it comes after those. A rank that is not a member counts only if
 * the reporter waits for it: it was one. */
static bool judge_not_entered(const struct tt_watch *w, struct tt_verdict *ret)
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
    say_not_entered(w, culprit, missing - 1, ret);
    return true;
}

/* ---- the peer waited for ---- */

/* Follows "waits for" from the reporter's peer. In a ring the walk ends after `size` steps, and the
 * first peer is blamed. */
static uint32_t end_of_chain(const struct tt_watch *w)
{
    assert(w->rank == 0);
    uint32_t first = peer_or(w, w->reporter), r = first;
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
    struct tt_op_desc op = case_op(w);
    char who[TT_WORDS], request[TT_WORDS];
    say(w, ret, TT_BLAME_STUCK, r, &op, "%s is stuck in %s: nothing came from it within %.10g s",
        tt_watch_words_rank(w, r, who), tt_watch_words_request(&op, request),
        seconds(w->timeout_ns));
}

/* No rank is visibly at fault, but a path loses data: blames the path to the end of the chain if it
 * is lossy, or else the first lossy one. If all paths of rank 0 to several hosts are lossy, it is
 * rank 0's own link. */
static bool judge_lossy(const struct tt_watch *w, uint32_t first, struct tt_verdict *ret)
{
    struct tt_op_desc op = case_op(w);
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
    say(w, ret, TT_BLAME_UNREACHABLE, culprit, &op,
        "%s is unreachable: %s loses much of what is sent, %s",
        tt_watch_words_rank(w, culprit, who), culprit ? "the way to its host" : "its own link",
        tt_watch_words_during(&op, true, when));
    return true;
}

static void say_message_late(const struct tt_watch *w, struct tt_verdict *ret)
{
    const struct tt_op_desc *op = &w->trouble.op;
    uint32_t r = peer_or(w, w->reporter);
    char who[TT_WORDS], request[TT_WORDS];
    if (w->trouble.peer >= w->size)
        say(w, ret, TT_BLAME_NOT_ENTERED, r, op, "%s waited %.10g s for %s: no rank has sent it",
            tt_watch_words_rank(w, r, who), seconds(w->timeout_ns),
            tt_watch_words_request(op, request));
    else
        say(w, ret, TT_BLAME_NOT_ENTERED, r, op,
            "%s has not entered the other side of %s of rank %" PRIu32 " within %.10g s",
            tt_watch_words_rank(w, r, who), tt_watch_words_request(op, request), w->reporter,
            seconds(w->timeout_ns));
}

/* ---- closed connections ---- */

static void say_dead(const struct tt_watch *w, uint32_t r, const struct tt_op_desc *op,
                     const char *when, struct tt_verdict *ret)
{
    char who[TT_WORDS];
    say(w, ret, TT_BLAME_DEAD, r, op, "%s is dead: its connection closed %s",
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
    char who[TT_WORDS], when[TT_WORDS];
    if (by == w->size)
        return false;
    const struct tt_trouble *t = &w->seats[by].trouble;
    say(w, ret, TT_BLAME_UNREACHABLE, t->peer, &t->op,
        "%s is unreachable from rank %" PRIu32 ": %s between them %s",
        tt_watch_words_rank(w, t->peer, who), by, t->text,
        tt_watch_words_during(&t->op, true, when));
    return true;
}

/* A data connection broke. If a process ended, its control connection ends at the same moment and
 * decides the case; otherwise both processes live and the path between them has failed. */
static bool judge_closed(const struct tt_watch *w, bool final, struct tt_verdict *ret)
{
    struct tt_op_desc op = case_op(w);
    uint32_t r = peer_or(w, w->reporter);
    char who[TT_WORDS], when[TT_WORDS];
    if (judge_altered(w, ret))
        return true;
    if (w->seats[r].left) {
        say_not_entered(w, r, 0, ret);
        return true;
    }
    if (!final)
        return false;
    if (!judge_silent(w, ret))
        say(w, ret, TT_BLAME_UNREACHABLE, r, &op,
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

/* "during request 17 (..)" if the rank is known to have entered it, else what `by` was doing and
 * what is known. */
static void describe_end(const struct tt_watch *w, uint32_t rank, uint32_t by,
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
        op = case_op(w);
        describe_end(w, rank, w->reporter, &op, ret_when);
    } else if (mine.member && (mine.comm != op.comm || mine.last.seq >= op.seq)) {
        op = mine.last;
        if (op.busy == TT_OP_IDLE)
            tt_watch_words_during(&op, false, ret_when);
        else
            describe_end(w, rank, w->rank, &op, ret_when);
    } else {
        snprintf(ret_when, TT_WORDS, "(last heard in %.130s)",
                 tt_watch_words_request(&op, request));
    }
    return op;
}

/* ---- entry points ---- */

/* The rules in their order of certainty. Unless `final`, a rule decides only if later answers
 * cannot change it. */
bool tt_watch_judge_case(const struct tt_watch *w, bool final, struct tt_verdict *ret)
{
    assert(w->rank == 0 && w->reporter < w->size);
    if (!final && !everybody_answered(w))
        return false;
    if (w->trouble.kind == TT_TROUBLE_CLOSED)
        return judge_closed(w, final, ret);
    if (w->trouble.kind == TT_TROUBLE_MISMATCH) {
        bool found = !about_message(w) && judge_mismatch(w, final, ret);
        if (!found && (final || about_message(w))) {
            say_peer_differs(w, ret);
            found = true;
        }
        return found;
    }
    if (judge_silent(w, ret))
        return true;
    if (about_message(w))
        say_message_late(w, ret);
    else if (!judge_mismatch(w, final, ret)) {
        if (!final && maybe_mismatched(w))
            return false;
        if (judge_not_entered(w, ret))
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
        say_dead(w, rank, &op, when, ret);
    else if (lonely || (w->rank == 0 && cut_off(w)))
        say_own_link(w, &op, when, ret);
    else
        say(w, ret, TT_BLAME_UNREACHABLE, rank, &op, "%s is unreachable: %s %s",
            tt_watch_words_rank(w, rank, who), strerror(error), when);
}

void tt_watch_judge_silent_root(const struct tt_watch *w, bool cut, bool lonely,
                                struct tt_verdict *ret)
{
    struct tt_op_desc op = w->trouble.op;
    char when[TT_WORDS];
    if (lonely)
        say_own_link(w, &op, tt_watch_words_during(&op, true, when), ret);
    else
        say_silent(w, 0, cut, &op, ret);
}

void tt_watch_judge_alone(const struct tt_watch *w, struct tt_verdict *ret)
{
    struct tt_op_desc op = w->trouble.op;
    uint32_t r = peer_or(w, w->rank);
    char when[TT_WORDS];
    if (w->trouble.kind == TT_TROUBLE_CLOSED) {
        describe_end(w, r, w->rank, &op, when);
        say_dead(w, r, &op, when, ret);
    } else if (w->trouble.kind == TT_TROUBLE_MISMATCH)
        say_peer_differs(w, ret);
    else if (about_message(w))
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
        say(w, ret, TT_BLAME_UNREACHABLE, rank, &t->op,
            "%s is unreachable: its own link is cut, it says, %s", who,
            tt_watch_words_during(&t->op, true, call));
    else if (t->kind == TT_TROUBLE_ABORT)
        say(w, ret, TT_BLAME_ABORTED, rank, &t->op, "%s aborted: %s", who, t->text);
    else
        say(w, ret, TT_BLAME_UNABLE, rank, &t->op, "%s cannot go on with %s: %s", who,
            tt_watch_words_call(&t->op, call), t->text);
}
