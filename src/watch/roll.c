/* roll.c - the protocol of the roll call (see roll.h).
 *
 * Everything happens in settle(), which runs after each event: it becomes leader if that is due,
 * proposes when every rank has answered or is not waited for, and decides in the same way.
 * Invariant of a leader: `yes` holds exactly the ranks that have promised (COLLECTING) or accepted
 * (PROPOSING) the present ballot, this rank included.
 *
 * A view that was accepted before is proposed again, even if some of its ranks have died since:
 * somebody may have decided it. Those ranks are then found dead by the new world, whose roll call
 * leaves them out. */
#include <assert.h>

#include "watch/roll.h"

#include <string.h>

void tt_roll_unite(struct tt_set *s, const struct tt_set *more)
{
    for (size_t i = 0; i < countof(s->word); i++)
        s->word[i] |= more->word[i];
}

uint32_t tt_roll_count(const struct tt_set *s, uint32_t n)
{
    uint32_t k = 0;
    for (uint32_t r = 0; r < n; r++)
        k += tt_set_has(s, r);
    return k;
}

/* No bit may be set past the last rank: sets are compared and counted. */
static bool fits(const struct tt_set *s, uint32_t n)
{
    for (uint32_t r = n; r < TT_ROLL_RANKS; r++)
        if (tt_set_has(s, r))
            return false;
    return true;
}

static uint32_t leader_of(uint64_t ballot)
{
    return (uint32_t)ballot;
}

bool tt_roll_sane(const struct tt_roll_note *m, uint32_t n)
{
    bool viewed = m->kind == TT_ROLL_PROPOSE || m->kind == TT_ROLL_COMMIT || m->accepted != 0;
    return m->magic == TT_ROLL_MAGIC && m->kind >= TT_ROLL_PREPARE && m->kind < TT_ROLL_KINDS &&
           leader_of(m->ballot) < n && leader_of(m->accepted) < n && fits(&m->dead, n) &&
           fits(&m->view.in, n) &&
           (!viewed || (m->view.job != 0 && tt_roll_count(&m->view.in, n) > 0));
}

bool tt_roll_quorum(const struct tt_set *who, const struct tt_set *dead, uint32_t n, bool trusting)
{
    uint32_t k = tt_roll_count(who, n), ended = 0;
    for (uint32_t r = 0; r < n; r++)
        ended += tt_set_has(dead, r) && !tt_set_has(who, r);
    if (trusting && k > 0 && k + ended == n)
        return true;
    return 2 * k > n || (2 * k == n && tt_set_has(who, 0));
}

static void say(struct tt_roll *r, uint32_t to, enum tt_roll_kind kind, uint64_t ballot)
{
    assert(to < r->n && to != r->me);
    struct tt_roll_out o = {
        .to = to,
        .note = {.magic = TT_ROLL_MAGIC, .kind = kind, .ballot = ballot, .dead = r->dead}};
    if (kind == TT_ROLL_PROMISE)
        o.note.accepted = r->accepted;
    if (kind == TT_ROLL_PROPOSE)
        o.note.view = r->choice;
    else if (kind == TT_ROLL_COMMIT || o.note.accepted)
        o.note.view = r->view;
    r->short_of_memory |= !tt_vec_push(&r->out, &o, 1);
}

static void say_to_all(struct tt_roll *r, enum tt_roll_kind kind, uint64_t ballot)
{
    for (uint32_t q = 0; q < r->n; q++)
        if (q != r->me && !tt_set_has(&r->dead, q))
            say(r, q, kind, ballot);
}

void tt_roll_free(struct tt_roll *r)
{
    tt_vec_free(&r->out);
}

static bool awaited(const struct tt_roll *r, uint32_t q)
{
    return !tt_set_has(&r->dead, q) && !tt_set_has(&r->quiet, q);
}

/* The leader to whom this rank has promised, as long as it shows signs of life; else the lowest
 * rank. This rank is always awaited, so that the loop ends. */
uint32_t tt_roll_leader(const struct tt_roll *r)
{
    uint32_t q = leader_of(r->promised);
    if (r->promised && awaited(r, q))
        return q;
    assert(awaited(r, r->me));
    for (q = 0; !awaited(r, q);)
        q++;
    return q;
}

/* ---- leading ---- */

static void begin_ballot(struct tt_roll *r)
{
    assert(!r->decided);
    r->phase = TT_ROLL_COLLECTING;
    r->ballot = r->promised = (uint64_t)++r->number << 32 | r->me;
    assert(r->ballot >> 32 > r->accepted >> 32); /* numbers of all ballots heard of are below */
    r->yes = (struct tt_set){0};
    tt_set_add(&r->yes, r->me);
    r->best = r->accepted;
    r->choice = r->view;
    say_to_all(r, TT_ROLL_PREPARE, r->ballot);
}

/* Has every rank that is waited for answered? */
static bool answered(const struct tt_roll *r)
{
    for (uint32_t q = 0; q < r->n; q++)
        if (awaited(r, q) && !tt_set_has(&r->yes, q) &&
            (r->phase == TT_ROLL_COLLECTING || tt_set_has(&r->asked, q)))
            return false;
    return true;
}

static bool may_decide(const struct tt_roll *r)
{
    return tt_roll_quorum(&r->yes, &r->dead, r->n, !r->doubtful);
}

/* Proposes all that promised, unless a view was accepted before. */
static void propose(struct tt_roll *r)
{
    if (!r->best) {
        r->choice.in = r->yes;
        r->choice.newcomers = r->newcomers;
        while (!(r->choice.job = tt_entropy()))
            ;
    }
    assert(r->phase == TT_ROLL_COLLECTING && tt_set_has(&r->yes, r->me) && r->choice.job);
    r->phase = TT_ROLL_PROPOSING;
    r->asked = r->yes;
    r->yes = (struct tt_set){0};
    tt_set_add(&r->yes, r->me);
    r->accepted = r->ballot;
    r->view = r->choice;
    for (uint32_t q = 0; q < r->n; q++)
        if (q != r->me && tt_set_has(&r->asked, q))
            say(r, q, TT_ROLL_PROPOSE, r->ballot);
}

static void decide(struct tt_roll *r, const struct tt_roll_view *v)
{
    bool led = r->phase != TT_ROLL_FOLLOWING;
    assert(!r->decided && v->job && tt_roll_count(&v->in, r->n) > 0);
    r->decided = true;
    r->view = *v;
    r->phase = TT_ROLL_FOLLOWING;
    if (led)
        say_to_all(r, TT_ROLL_COMMIT, r->ballot);
}

/* Does what is due. A ballot that has no quorum waits: for proof that others have ended, for a
 * silent rank, or for the deadline of the carrier. A proposal that lost its quorum is a new ballot,
 * for which the silent ones are asked again. */
static void settle(struct tt_roll *r)
{
    if (r->decided)
        return;
    if (r->phase == TT_ROLL_FOLLOWING && tt_roll_leader(r) == r->me)
        begin_ballot(r);
    if (r->phase == TT_ROLL_COLLECTING && answered(r) && may_decide(r))
        propose(r);
    if (r->phase == TT_ROLL_PROPOSING && answered(r)) {
        if (may_decide(r))
            decide(r, &r->choice);
        else
            begin_ballot(r);
    }
    assert(r->phase == TT_ROLL_FOLLOWING || tt_set_has(&r->yes, r->me));
}

/* ---- events ---- */

void tt_roll_begin(struct tt_roll *r, const struct tt_roll_start *s)
{
    assert(s->me < s->n && s->n <= TT_ROLL_RANKS);
    *r = (struct tt_roll){.n = s->n,
                          .me = s->me,
                          .doubtful = s->doubtful,
                          .newcomers = s->newcomers,
                          .out = {.elem = sizeof(struct tt_roll_out)}};
    settle(r);
}

/* Another ballot is above this rank's own: it follows. */
static void yield_to(struct tt_roll *r, uint64_t ballot)
{
    assert(!r->decided && ballot >= r->promised);
    r->promised = ballot;
    r->phase = TT_ROLL_FOLLOWING;
}

static void take_prepare(struct tt_roll *r, uint32_t q, uint64_t ballot)
{
    if (ballot > r->promised)
        yield_to(r, ballot);
    say(r, q, ballot == r->promised ? TT_ROLL_PROMISE : TT_ROLL_REFUSE, r->promised);
}

static void take_proposal(struct tt_roll *r, uint32_t q, const struct tt_roll_note *m)
{
    if (m->ballot < r->promised) {
        say(r, q, TT_ROLL_REFUSE, r->promised);
        return;
    }
    yield_to(r, m->ballot);
    r->accepted = m->ballot;
    r->view = m->view;
    say(r, q, TT_ROLL_ACCEPT, m->ballot);
}

static void take_promise(struct tt_roll *r, uint32_t q, const struct tt_roll_note *m)
{
    if (r->phase != TT_ROLL_COLLECTING || m->ballot != r->ballot)
        return;
    tt_set_add(&r->yes, q);
    if (m->accepted > r->best) {
        r->best = m->accepted;
        r->choice = m->view;
    }
}

static void take_kind(struct tt_roll *r, uint32_t q, const struct tt_roll_note *m)
{
    switch ((enum tt_roll_kind)m->kind) {
    case TT_ROLL_PREPARE:
        take_prepare(r, q, m->ballot);
        break;
    case TT_ROLL_PROMISE:
        take_promise(r, q, m);
        break;
    case TT_ROLL_REFUSE:
        if (m->ballot > r->promised)
            yield_to(r, m->ballot);
        break;
    case TT_ROLL_PROPOSE:
        take_proposal(r, q, m);
        break;
    case TT_ROLL_ACCEPT:
        if (r->phase == TT_ROLL_PROPOSING && m->ballot == r->ballot)
            tt_set_add(&r->yes, q);
        break;
    case TT_ROLL_LEAVE:
        tt_set_add(&r->quiet, q);
        break;
    default:
        break;
    }
}

void tt_roll_linked(struct tt_roll *r, uint32_t q)
{
    if (r->decided)
        say(r, q, TT_ROLL_COMMIT, r->promised);
    else if (r->phase == TT_ROLL_COLLECTING && !tt_set_has(&r->yes, q))
        say(r, q, TT_ROLL_PREPARE, r->ballot);
    else if (r->phase == TT_ROLL_PROPOSING && tt_set_has(&r->asked, q) && !tt_set_has(&r->yes, q))
        say(r, q, TT_ROLL_PROPOSE, r->ballot);
}

/* A rank that speaks is alive, whatever others believe; this one knows that of itself. */
void tt_roll_take(struct tt_roll *r, uint32_t q, const struct tt_roll_note *m)
{
    assert(q < r->n && q != r->me && tt_roll_sane(m, r->n));
    uint32_t number = (uint32_t)(m->ballot >> 32);
    tt_roll_unite(&r->dead, &m->dead);
    tt_set_remove(&r->dead, r->me);
    tt_set_remove(&r->quiet, q);
    r->number = number > r->number ? number : r->number;
    if (m->kind == TT_ROLL_COMMIT && !r->decided)
        decide(r, &m->view);
    else if (r->decided && m->kind < TT_ROLL_COMMIT)
        say(r, q, TT_ROLL_COMMIT, r->promised);
    else if (!r->decided)
        take_kind(r, q, m);
    settle(r);
}

void tt_roll_dead(struct tt_roll *r, uint32_t q)
{
    if (q != r->me)
        tt_set_add(&r->dead, q);
    settle(r);
}

void tt_roll_quiet(struct tt_roll *r, uint32_t q)
{
    if (q != r->me)
        tt_set_add(&r->quiet, q);
    settle(r);
}
