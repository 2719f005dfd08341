/* fingerprint.c - elastic trainers: one number for all bits that the steps so far have given the
 * parameters. The ranks compare it before each step (the check, launches.c).
 *
 * A piece of a tensor is read right after its update, while it is in the cache. The fingerprints of
 * a step's pieces are added up, so that the order in which tensors are settled does not matter; the
 * sum is mixed into the hash when the next step begins. The optimizer's state is not read: whatever
 * differs there differs in the parameter after the next update. */
#include <assert.h>
#include <string.h>

#include "train/train_int.h"

enum { LANES = 4 };

/* Lanes of their own, so that multiplications overlap. Each step is invertible: one different word
 * gives another result. */
static uint64_t fingerprint(const char *data, size_t bytes)
{
    uint64_t lane[LANES] = {1, 2, 3, 4}, word[LANES];
    size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(word, data + at, sizeof word);
        for (int j = 0; j < LANES; j++) {
            uint64_t x = lane[j] ^ word[j];
            lane[j] = (x << 29 | x >> 35) * UINT64_C(0x9e3779b97f4a7c15);
        }
    }
    uint64_t h = tt_hash_bytes(bytes, data + at, bytes - at);
    for (int j = 0; j < LANES; j++)
        h = tt_mix64(h ^ lane[j]);
    return h;
}

/* A tensor that no rank used is not updated. */
void tt_train_note(struct tt_trainer *t, uint32_t i, size_t first, size_t n)
{
    const struct tt_tensor *x = &t->tensors[i];
    size_t each = tt_train_param_each(x);
    if (t->options.elastic && x->used)
        t->elastic.step_hash += tt_mix64(fingerprint((char *)x->param + first * each, n * each) ^
                                         tt_mix64(((uint64_t)i << 40) + first));
}

void tt_train_hash_step(struct tt_trainer *t)
{
    struct tt_elastic *e = &t->elastic;
    if (e->hashed == t->steps)
        return;
    e->hash = tt_mix64(e->hash + e->step_hash);
    e->step_hash = 0;
    e->hashed = t->steps;
}

/* The rank whose card most of the others have, the lowest of several. */
static uint32_t find_usual(const uint64_t *cards, uint32_t ranks)
{
    uint32_t most = 0, usual = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t same = 0;
        for (uint32_t q = 0; q < ranks; q++)
            same += cards[2 * q + 1] == cards[2 * r + 1];
        usual = same > most ? r : usual;
        most = same > most ? same : most;
    }
    return usual;
}

tutti_status tt_train_compare(const struct tt_trainer *t, const uint64_t *cards,
                              struct tutti_error *err)
{
    uint32_t usual = find_usual(cards, t->ranks), odd = 0;
    while (odd < t->ranks && cards[2 * odd + 1] == cards[2 * usual + 1])
        odd++;
    if (odd == t->ranks)
        return TUTTI_OK;
    return tt_fail(err, TUTTI_ERR_DIFFERS,
                   "after step %llu the parameters of rank %u are not those of rank %u "
                   "(fingerprints %016llx and %016llx): they or the optimizer's state were changed "
                   "on one rank only",
                   (unsigned long long)cards[2 * usual], odd, usual,
                   (unsigned long long)cards[2 * odd + 1],
                   (unsigned long long)cards[2 * usual + 1]);
}

uint64_t tt_train_fingerprint(struct tt_trainer *t)
{
    if (!t->options.elastic || !t->policy || tt_train_flush(t))
        return 0;
    if (!atomic_load(&t->active))
        tt_train_hash_step(t);
    return t->elastic.hash;
}
