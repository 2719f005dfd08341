/* table.c - all algorithms, one line each. The order decides ties between equally fast candidates
 * and the order of every list that is printed. */
#include "algo/algos.h"

#include <string.h>

static const struct tt_algo *const table[] = {
    &tt_algo_ring,
    &tt_algo_bi_ring,
    &tt_algo_recursive_doubling,
    &tt_algo_halving_doubling,
    &tt_algo_circulant,
    &tt_algo_direct,
    &tt_algo_double_tree,
    &tt_algo_bucket,
    &tt_algo_hierarchical,
    &tt_algo_swing,
    &tt_algo_chain,
    &tt_algo_binomial,
    &tt_algo_oneshot,
    &tt_algo_multitree,
    &tt_algo_shd,
    &tt_algo_hdrm,
    &tt_algo_flex,
    &tt_algo_forest,
};

const struct tt_algo *const *tt_algo_table(size_t *ret_n)
{
    *ret_n = countof(table);
    return table;
}

const struct tt_algo *tt_algo_find(const char *name)
{
    for (size_t i = 0; i < countof(table); i++)
        if (tt_streq(table[i]->name, name))
            return table[i];
    return NULL;
}

/* The terminator is included: "ab" "c" and "a" "bc" differ. */
static uint64_t feed_text(uint64_t h, const char *text)
{
    return tt_hash_bytes(h, text, strlen(text) + 1);
}

/* Ranks compare it: two builds whose algorithms differ would build different schedules. */
uint64_t tt_algo_hash(const struct tt_algo *al)
{
    uint64_t facts[] = {al->colls,     al->needs_topo, al->uses_topo,    al->weighs,
                        al->pipelined, al->rank_order, al->build != NULL};
    uint64_t h = feed_text(tt_hash_bytes(1, facts, sizeof facts), al->name);
    for (const struct tt_algo_option *o = al->options; o && o->key; o++) {
        uint64_t range[] = {o->min, o->max};
        h = tt_hash_bytes(feed_text(feed_text(h, o->key), o->values), range, sizeof range);
    }
    return h;
}

tutti_status tt_algo_unknown(const char *name, struct tutti_error *err)
{
    const char *names[countof(table)];
    char near[200], all[300] = "";
    size_t used = 0;
    for (size_t i = 0; i < countof(table); i++) {
        names[i] = table[i]->name;
        if (used < sizeof all)
            used +=
                (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    }
    if (*tt_near_matches(name, names, countof(table), near, sizeof near))
        return tt_fail(err, TUTTI_ERR_ARG, "no algorithm '%.64s'; %s", name, near);
    return tt_fail(err, TUTTI_ERR_ARG, "no algorithm '%.64s' (known: auto, %s)", name, all);
}
