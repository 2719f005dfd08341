/* cache.c - results by problem key.
 *
 * The key is the text of everything a plan depends on: network hash, problem, options, tuning rules. Keys are compared whole; the
 * hash only finds the set. 256 sets of 8 entries bound the memory of a job that keeps changing its sizes: a full set forgets
 * its oldest entry. Entries own copies, so that a plan handed out may be freed at any time. */
#include "plan/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 256, WAYS = 8 };

struct entry {
    char *key;
    struct tt_plan *plan;
};

struct set {
    struct entry way[WAYS];
    unsigned next; /* the one to be overwritten: empty or the oldest */
};

struct tt_plan_cache {
    struct set sets[SETS];
};

struct tt_plan_cache *tt_plan_cache_make(void)
{
    return tt_zalloc(1, sizeof(struct tt_plan_cache));
}

static void entry_free(struct entry *e)
{
    free(e->key);
    tt_plan_free(e->plan);
}

void tt_plan_cache_free(struct tt_plan_cache *c)
{
    if (!c)
        return;
    for (size_t s = 0; s < SETS; s++)
        for (size_t w = 0; w < WAYS; w++)
            entry_free(&c->sets[s].way[w]);
    free(c);
}

tutti_status tt_plan_key(const struct tt_topo *t, const struct tt_problem *p, const struct tt_plan_options *o, struct tt_str *ret_key,
                         struct tutti_error *err)
{
    char options[TT_MAX_OPTIONS * sizeof(struct tt_option_value) + 1];
    struct tt_str b = {0};

    tt_options_format(&o->algo_options, options, sizeof(options));
    tt_str_printf(&b, "%016" PRIx64 " %d %" PRIu32 " %" PRIu32 " %" PRIu64 " %d %d ", t->hash, (int)p->coll, p->ranks, p->root, p->count,
                  (int)p->dtype, (int)p->redop);
    tt_str_printf(&b, "%d %" PRIu64 " %016" PRIx64 " %s %s", o->reproducible, o->budget_ms, tt_tuning_hash(o->tuning),
                  o->algo ? o->algo : "auto", options);
    if (b.failed) {
        tt_str_free(&b);
        return tt_fail_memory(err, "plan key");
    }
    *ret_key = b;
    return TUTTI_OK;
}

static size_t set_of(const char *key)
{
    return (size_t)(tt_hash_bytes(0, key, strlen(key)) % SETS);
}

const struct tt_plan *tt_plan_cache_find(const struct tt_plan_cache *c, const struct tt_str *key)
{
    const struct set *s = &c->sets[set_of(key->s)];

    for (size_t w = 0; w < WAYS; w++)
        if (s->way[w].key && tt_streq(s->way[w].key, key->s))
            return s->way[w].plan;
    return NULL;
}

tutti_status tt_plan_cache_put(struct tt_plan_cache *c, const struct tt_str *key, const struct tt_plan *p, size_t vertices,
                               struct tutti_error *err)
{
    struct set *s = &c->sets[set_of(key->s)];
    struct entry *old = &s->way[s->next], e = {.key = tt_strdup(key->s)};
    tutti_status st;

    if (!e.key)
        return tt_fail_memory(err, "plan key");
    st = tt_plan_copy(p, vertices, &e.plan, err);
    if (st != TUTTI_OK) {
        entry_free(&e);
        return st;
    }
    entry_free(old);
    *old = e;
    s->next = (s->next + 1) % WAYS;
    return TUTTI_OK;
}
