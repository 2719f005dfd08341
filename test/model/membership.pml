/* membership.pml - the roll call (src/watch/roll.c) as a model for spin: who goes on after a
 * failure. test/model/check.sh runs it; docs/how/membership.md explains the protocol.
 *
 *     -DN=3       ranks, 3 to 5
 *     -DFAILS=2   processes that end, at any moment, leaders too
 *     -DWRONG=1   times that a rank believes a living one to be silent
 *     -DDROPS=1   answers that are lost with their connection, so that the question comes again
 *     -DCUT=1     the network may fall into two halves, once, at any moment
 *     -DMUTANT=k  a deliberate mistake that must be found
 *
 * One channel per ordered pair carries what the first rank sends to the second: PREPARE, PROPOSE,
 * COMMIT. The answer is handled by the leader in the step in which the follower gives it, or is
 * lost; since a question may wait in its channel for as long as it likes, an answer that comes late
 * is the same as a question that is read late. A question in the channel of a rank that has ended
 * may still be read. An end is proved to each survivor separately, at any later time. When nothing
 * can happen any more the monitor looks at who would wait until its deadline. */
#ifndef N
#define N 3
#endif
#ifndef FAILS
#define FAILS 2
#endif
#ifndef WRONG
#define WRONG 0
#endif
#ifndef DROPS
#define DROPS 0
#endif
#ifndef CUT
#define CUT 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define ROOM   8
#define ROUNDS 6 /* ballots have numbers below this; a run that needs more is not followed */
#define ALL    ((1 << N) - 1)

mtype = { PREPARE, PROPOSE, COMMIT };
#define FOLLOWING  0
#define COLLECTING 1
#define PROPOSING  2

/* A ballot is number * 8 + leader; 0: none. Sets of ranks are bit masks. */
byte promised[N], accepted[N], view[N], decided[N];
byte known[N]; /* proved dead, as far as the rank knows */
byte quiet[N];
byte phase[N], ballot[N], asked[N], yes[N], best[N], choice[N];
byte ended, fails, wrong, drops;
byte half = ALL; /* a rank reaches those on its side of the cut */
bool lost;
chan to[N * N] = [ROOM] of { mtype, byte, byte };

#define BIT(r)      (1 << (r))
#define ENDED(r)    (ended & BIT(r))
#define REACHES(a, b) (((half >> (a)) & 1) == ((half >> (b)) & 1))
#define AWAITED(r, q) (!((known[r] | quiet[r]) & BIT(q)))

/* Scratch of inline functions, which run in one atomic step: no part of the state. */
hidden byte q_, k_, l_, ok_;

inline count(set, ret)
{
    ret = ((set) & 1) + ((set) >> 1 & 1) + ((set) >> 2 & 1) + ((set) >> 3 & 1) + ((set) >> 4 & 1);
}

/* May the ranks in `who` decide, if `gone` have ended? */
inline quorum(who, gone, ret)
{
    count(who, k_);
#if MUTANT == 1 /* any set of ranks may decide */
    ret = true;
#elif MUTANT == 2 /* half of the ranks suffice, whichever half */
    ret = (((who) | (gone)) == ALL || 2 * k_ >= N);
#else
    ret = (((who) | (gone)) == ALL || 2 * k_ > N || (2 * k_ == N && ((who) & 1)));
#endif
}

inline send(src, dest, tag, b, v)
{
    if
    :: !(known[src] & BIT(dest)) && REACHES(src, dest) ->
        assert(len(to[(src) * N + (dest)]) < ROOM); /* a send never waits */
        to[(src) * N + (dest)] ! tag(b, v)
    :: (known[src] & BIT(dest)) || !REACHES(src, dest) -> skip
    fi
}

inline send_all(src, tag, b, v)
{
    for (q_ : 0 .. N - 1) {
        if
        :: q_ != src -> send(src, q_, tag, b, v)
        :: else -> skip
        fi
    }
}

inline decide(r, v)
{
    decided[r] = v;
    for (q_ : 0 .. N - 1) { /* the promise: no two living ranks have different views */
        assert(ENDED(q_) || ENDED(r) || decided[q_] == 0 || decided[q_] == v)
    }
    if
    :: phase[r] != FOLLOWING -> phase[r] = FOLLOWING; send_all(r, COMMIT, ballot[r], v)
    :: else -> skip
    fi
}

/* The rank that r expects to lead. */
inline leader(r, ret)
{
    ret = promised[r] & 7;
    if
    :: promised[r] != 0 && AWAITED(r, ret) -> skip
    :: else ->
        ret = 0;
        do
        :: !AWAITED(r, ret) -> ret++
        :: else -> break
        od
    fi
}

inline begin_ballot(r)
{
    if
    :: (promised[r] >> 3) + 1 < ROUNDS ->
        ballot[r] = (((promised[r] >> 3) + 1) << 3) + r;
        promised[r] = ballot[r];
        phase[r] = COLLECTING;
        yes[r] = BIT(r);
        best[r] = accepted[r];
        choice[r] = view[r];
        send_all(r, PREPARE, ballot[r], 0)
    :: else -> phase[r] = FOLLOWING; lost = true
    fi
}

inline propose(r)
{
    if
#if MUTANT == 3 /* views that were accepted before are forgotten */
    :: true -> choice[r] = yes[r]
#else
    :: best[r] == 0 -> choice[r] = yes[r]
#endif
    :: else -> skip
    fi;
    phase[r] = PROPOSING;
    asked[r] = yes[r];
    yes[r] = BIT(r);
    accepted[r] = ballot[r];
    view[r] = choice[r];
    for (q_ : 0 .. N - 1) {
        if
        :: q_ != r && (asked[r] & BIT(q_)) -> send(r, q_, PROPOSE, ballot[r], choice[r])
        :: else -> skip
        fi
    }
}

/* settle() of roll.c */
inline settle(r)
{
    if
    :: decided[r] == 0 ->
        leader(r, l_);
        if
        :: phase[r] == FOLLOWING && l_ == r -> begin_ballot(r)
        :: else -> skip
        fi;
#if MUTANT == 4 /* silence is taken for death */
        quorum(yes[r], known[r] | quiet[r], ok_);
#else
        quorum(yes[r], known[r], ok_);
#endif
        if
        :: phase[r] == COLLECTING && (yes[r] | known[r] | quiet[r]) == ALL && ok_ -> propose(r)
        :: else -> skip
        fi;
#if MUTANT == 4
        quorum(yes[r], known[r] | quiet[r], ok_);
#else
        quorum(yes[r], known[r], ok_);
#endif
        if
        :: phase[r] == PROPOSING && (asked[r] & ~(yes[r] | known[r] | quiet[r])) == 0 ->
            if
            :: ok_ -> decide(r, choice[r])
            :: else -> begin_ballot(r)
            fi
        :: else -> skip
        fi
    :: else -> skip
    fi
}

/* What the follower answers reaches leader s, or is lost with the connection. */
#define ANSWERS (!ENDED(s) && REACHES(s, me) && decided[s] == 0)

/* tt_roll_linked() of roll.c: the connection from leader s to q was made anew. */
inline again(s, q)
{
    if
    :: phase[s] == COLLECTING && !(yes[s] & BIT(q)) -> send(s, q, PREPARE, ballot[s], 0)
    :: phase[s] == PROPOSING && (asked[s] & ~yes[s] & BIT(q)) ->
        send(s, q, PROPOSE, ballot[s], choice[s])
    :: else -> skip
    fi
}

inline prepared(me, s, b)
{
    if
    :: b > promised[me] -> promised[me] = b; phase[me] = FOLLOWING
    :: else -> skip
    fi;
    if
    :: !ANSWERS -> skip
    :: ANSWERS && drops < DROPS && b == promised[me] -> drops++; again(s, me)
    :: ANSWERS && b == promised[me] && phase[s] == COLLECTING && ballot[s] == b ->
        yes[s] = yes[s] | BIT(me);
        known[s] = (known[s] | known[me]) & ~BIT(s);
        quiet[s] = quiet[s] & ~BIT(me);
        if
        :: accepted[me] > best[s] -> best[s] = accepted[me]; choice[s] = view[me]
        :: else -> skip
        fi
    :: ANSWERS && b < promised[me] && promised[me] > promised[s] ->
        promised[s] = promised[me];
        phase[s] = FOLLOWING
    :: ANSWERS && (b < promised[me] -> promised[me] <= promised[s]
                                   : (phase[s] != COLLECTING || ballot[s] != b)) -> skip
    fi
}

inline proposed(me, s, b, v)
{
#if MUTANT == 5 /* a promise is not kept */
    if
    :: true ->
#else
    if
    :: b >= promised[me] ->
#endif
        promised[me] = b;
        phase[me] = FOLLOWING;
        accepted[me] = b;
        view[me] = v;
        if
        :: ANSWERS && phase[s] == PROPOSING && ballot[s] == b ->
            if
            :: yes[s] = yes[s] | BIT(me); quiet[s] = quiet[s] & ~BIT(me)
            :: drops < DROPS -> drops++; again(s, me)
            fi
        :: else -> skip
        fi
    :: else ->
        if
        :: ANSWERS && promised[me] > promised[s] -> promised[s] = promised[me]; phase[s] = FOLLOWING
        :: else -> skip
        fi
    fi
}

inline read_from(me, s)
{
    to[s * N + me] ? kind(b, v);
    quiet[me] = quiet[me] & ~BIT(s);
    if
    :: decided[me] != 0 && kind != COMMIT -> send(me, s, COMMIT, promised[me], decided[me])
    :: decided[me] != 0 && kind == COMMIT -> skip
    :: decided[me] == 0 && kind == COMMIT -> decide(me, v)
    :: decided[me] == 0 && kind == PREPARE -> prepared(me, s, b)
    :: decided[me] == 0 && kind == PROPOSE -> proposed(me, s, b, v)
    fi
}

#define READS  1
#define PROVES 2
#define MISSES 3
#define LEARNS 4

/* Does me expect s to lead? Then it has a link to s, on which s tells the decision, if it has one. */
#define EXPECTS(me, s)                                                                             \
    (AWAITED(me, s) && ((promised[me] != 0 && AWAITED(me, promised[me] & 7))                       \
                            -> (promised[me] & 7) == s                                             \
                            : (~(known[me] | quiet[me]) & (BIT(s) - 1)) == 0))

/* `me` can read what s sent; the end of s can be proved to it; s is beyond the cut and falls
 * silent; s has decided and says so. */
#define EVENTS(s)                                                                                  \
    :: !ENDED(me) && s != me && nempty(to[(s) * N + me]) && (ENDED(s) || REACHES(s, me)) ->        \
       from = s; what = READS                                                                         \
    :: !ENDED(me) && decided[me] == 0 && ENDED(s) && !(known[me] & BIT(s)) && REACHES(s, me) ->    \
       from = s; what = PROVES                                                                        \
    :: !ENDED(me) && decided[me] == 0 && !REACHES(s, me) && AWAITED(me, s) ->                     \
       from = s; what = MISSES                                                                     \
    :: !ENDED(me) && decided[me] == 0 && !ENDED(s) && decided[s] != 0 && REACHES(s, me) &&         \
           EXPECTS(me, s) -> from = s; what = LEARNS

proctype rank(byte me)
{
    mtype kind;
    byte b, v, from, what;
    atomic { settle(me) };
end:
    do
    :: atomic {
        if
        EVENTS(0)
        EVENTS(1)
        EVENTS(2)
#if N > 3
        EVENTS(3)
#endif
#if N > 4
        EVENTS(4)
#endif
        fi;
        if
        :: what == READS -> read_from(me, from)
        :: what == PROVES -> known[me] = known[me] | BIT(from)
        :: what == MISSES -> quiet[me] = quiet[me] | BIT(from)
        :: what == LEARNS -> decide(me, decided[from])
        fi;
        settle(me);
        if /* the one that got an answer goes on too */
        :: what == READS && !ENDED(from) -> settle(from)
        :: else -> skip
        fi;
        b = 0; v = 0; from = 0; what = 0; kind = 0
    }
    od
}

/* Ends processes, makes ranks suspect each other, cuts the network: as often as allowed, or not. */
proctype fate()
{
    byte r, q;
    do
    :: atomic { fails < FAILS -> select(r : 0 .. N - 1);
        if
        :: !ENDED(r) -> ended = ended | BIT(r); fails++
        :: else -> skip
        fi }
    :: atomic { wrong < WRONG -> select(r : 0 .. N - 1); select(q : 0 .. N - 1);
        if
        :: r != q && !ENDED(r) && decided[r] == 0 ->
            quiet[r] = quiet[r] | BIT(q);
            wrong++;
            settle(r)
        :: else -> skip
        fi }
#if CUT
    :: atomic { half == ALL -> select(r : 1 .. ALL - 1); half = r }
#endif
    :: break
    od
}

/* Nothing can happen any more. Ranks that have decided go on, or know that they are out; the others
 * would wait for their deadline and end with an error: only the smaller half after a cut may. */
proctype monitor()
{
    byte r, side, living;
    timeout;
    atomic {
        living = ALL & ~ended;
        for (r : 0 .. N - 1) {
            side = (half == ALL -> living : ((half >> r) & 1 -> half & living : living & ~half));
            quorum(side, 0, ok_);
            if
            :: ENDED(r) || lost -> skip
            :: else ->
                assert(decided[r] != 0 || half != ALL); /* nobody waits for ever */
                /* a living rank is left out only if it was suspected or cut off */
                assert(wrong || half != ALL || (decided[r] & BIT(r)));
                /* after a cut the greater half goes on */
                assert(decided[r] != 0 || !ok_)
            fi
        }
    }
}

init
{
    byte r;
    atomic {
        for (r : 0 .. N - 1) { run rank(r) };
        run fate();
        run monitor()
    }
}
