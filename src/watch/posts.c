/* posts.c - what this rank does, written by its calls and read by the watch's thread.
 *
 * There is one post per communicator, because different threads may call on different
 * communicators. A post remembers its last requests, so that a rank that has gone on (the root of a
 * broadcast) can still tell how it entered an earlier one.
 *
 * Writing takes a few dozen stores. It is a sequence lock whose words are atomics:
 *
 *     writer   version odd (relaxed), words (release), version even (release)
 *     reader   version (acquire), words (acquire), version (relaxed): equal and even, or retry
 *
 * A release store of a word keeps "odd" before it; an acquire load of a word keeps the second look
 * at the version after it. The reader retries if it met a writer. A writer that never ends would be
 * a stopped thread in a living process, so after READ_TRIES the reader takes what it has. */
#include <assert.h>
#include <sched.h>
#include <string.h>

#include "watch/watch_int.h"

static_assert(sizeof(struct tt_op_desc) % 8 == 0, "descriptions are copied by words");

enum { READ_TRIES = 1000 };

static uint32_t watch_posts_find(const struct tt_posts *p, uint32_t comm)
{
    uint32_t i = 0;
    while (i < TT_POSTS &&
           atomic_load_explicit(&p->at[i].comm, memory_order_acquire) != (uint64_t)comm + 1)
        i++;
    return i;
}

/* `head` is reset before `comm` is published (release; pairs with the acquire in
 * watch_posts_find). */
void tt_watch_posts_join(struct tt_posts *p, uint32_t comm)
{
    for (uint32_t i = 0; i < TT_POSTS; i++)
        if (atomic_load_explicit(&p->at[i].comm, memory_order_relaxed) == 0) {
            atomic_store_explicit(&p->at[i].head, 0, memory_order_relaxed);
            atomic_store_explicit(&p->at[i].comm, (uint64_t)comm + 1, memory_order_release);
            return;
        }
}

void tt_watch_posts_part(struct tt_posts *p, uint32_t comm)
{
    uint32_t i = watch_posts_find(p, comm);
    if (i < TT_POSTS)
        atomic_store_explicit(&p->at[i].comm, 0, memory_order_release);
}

static void begin_write(struct tt_post *p)
{
    atomic_store_explicit(&p->version, atomic_load_explicit(&p->version, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void end_write(struct tt_post *p)
{
    atomic_store_explicit(&p->version, atomic_load_explicit(&p->version, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* Release stores: a reader that sees any new word also sees that the version is odd. */
TT_HOT void tt_watch_posts_enter(struct tt_posts *p, const struct tt_op_desc *op)
{
    uint32_t i = watch_posts_find(p, op->comm);
    uint64_t words[TT_DESC_WORDS];
    if (i == TT_POSTS)
        return;
    struct tt_post *post = &p->at[i];
    _Atomic uint64_t *past = post->past[op->seq % TT_POST_PAST];
    memcpy(words, op, sizeof words);
    begin_write(post);
    atomic_store_explicit(&post->head, (uint64_t)op->seq << 1 | 1, memory_order_release);
    for (size_t k = 0; k < TT_DESC_WORDS; k++)
        atomic_store_explicit(&past[k], words[k], memory_order_release);
    end_write(post);
    atomic_store_explicit(&p->latest, i, memory_order_relaxed);
}

TT_HOT void tt_watch_posts_leave(struct tt_posts *p, uint32_t comm)
{
    uint32_t i = watch_posts_find(p, comm);
    if (i == TT_POSTS)
        return;
    uint64_t head = atomic_load_explicit(&p->at[i].head, memory_order_relaxed);
    atomic_store_explicit(&p->at[i].head, head & ~(uint64_t)1, memory_order_release);
}

/* UINT32_MAX is -1 modulo 2^32. */
void tt_watch_posts_talk(struct tt_posts *p, bool begins)
{
    atomic_fetch_add_explicit(&p->talks, begins ? 1 : UINT32_MAX, memory_order_relaxed);
}

static struct tt_op_desc watch_posts_load(const struct tt_post *post, uint32_t seq)
{
    uint64_t words[TT_DESC_WORDS];
    struct tt_op_desc d;
    for (size_t k = 0; k < TT_DESC_WORDS; k++)
        words[k] = atomic_load_explicit(&post->past[seq % TT_POST_PAST][k], memory_order_acquire);
    memcpy(&d, words, sizeof d);
    return d;
}

/* Sets a->last to the latest request, idle if it has been left; seq 0 before the first. */
static void watch_posts_look(const struct tt_post *post, struct tt_answer *a)
{
    uint64_t head = atomic_load_explicit(&post->head, memory_order_acquire);
    uint32_t last = (uint32_t)(head >> 1);
    a->last = (struct tt_op_desc){.comm = a->comm};
    memset(a->past, 0, sizeof a->past);
    if (!last)
        return;
    a->last = watch_posts_load(post, last);
    if (!(head & 1))
        a->last.busy = TT_OP_IDLE;
    for (uint32_t s = a->seq, n = 0; s > 0 && n < TT_ANSWER_PAST; s--, n++)
        a->past[s % TT_ANSWER_PAST] = watch_posts_load(post, s);
}

/* An entry is valid only if it is the request asked for: slots are reused modulo TT_ANSWER_PAST. */
const struct tt_op_desc *tt_watch_answer_at(const struct tt_answer *a, uint32_t s)
{
    const struct tt_op_desc *d = &a->past[s % TT_ANSWER_PAST];
    return s && d->seq == s && d->comm == a->comm && s <= a->last.seq && s <= a->seq &&
                   s + TT_ANSWER_PAST > a->seq
               ? d
               : NULL;
}

static void read_post(const struct tt_post *post, struct tt_answer *a)
{
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t before = atomic_load_explicit(&post->version, memory_order_acquire);
        watch_posts_look(post, a);
        if (!(before & 1) && atomic_load_explicit(&post->version, memory_order_relaxed) == before)
            return;
        sched_yield();
    }
}

struct tt_answer tt_watch_posts_answer(const struct tt_posts *p, uint32_t comm, uint32_t seq)
{
    struct tt_answer a = {.comm = comm, .seq = seq};
    uint32_t i = watch_posts_find(p, comm);
    if (i < TT_POSTS) {
        a.member = 1;
        read_post(&p->at[i], &a);
    }
    a.busy = atomic_load_explicit(&p->talks, memory_order_relaxed) > 0;
    for (i = 0; i < TT_POSTS; i++)
        a.busy |= atomic_load_explicit(&p->at[i].comm, memory_order_acquire) &&
                  atomic_load_explicit(&p->at[i].head, memory_order_relaxed) & 1;
    return a;
}

struct tt_op_desc tt_watch_posts_latest(const struct tt_posts *p)
{
    const struct tt_post *post = &p->at[atomic_load_explicit(&p->latest, memory_order_relaxed)];
    assert(post < p->at + TT_POSTS);
    struct tt_answer a = {
        .comm = (uint32_t)(atomic_load_explicit(&post->comm, memory_order_relaxed) - 1)};
    read_post(post, &a);
    return a.last;
}
