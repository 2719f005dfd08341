/* cache.c - the memory of planning: choices by question, and built schedules by what they depend
 * on. disk.c keeps the files.
 *
 * A question's key is the text of everything a plan depends on: network hash, problem, options,
 * tuning rules. Whole keys are compared; the hash only selects the set. 256 sets of 8 entries
 * bound the memory of a job that keeps changing its sizes: a full set drops its oldest entry.
 * Entries own copies, so a plan that was handed out may be freed at any time.
 *
 *     sets[hash % 256]:  | way 0 | way 1 | ... | way 7 |     next: overwritten by the next put
 *     kept[]:            | longest unused | ... | just used |  evicted from the left
 *
 * Kept schedules come from synthesised algorithms that serve any size. At most SCHEDULES of them
 * are kept, of at most BYTES together; the least recently used are dropped first. They are
 * shared with the plans that use them.
 *
 * Threads: `lock` protects the sets and the list. Under it a plan is copied or a schedule
 * shared, but nothing is planned, built, read or written. */
#include "plan/plan_int.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 256, WAYS = 8, SCHEDULES = 16, BYTES = 64 << 20 };

struct entry {
    char *key;
    struct tt_plan *plan;
};

struct set {
    struct entry way[WAYS];
    unsigned next; /* the entry that the next put overwrites: empty, else the oldest */
};

/* A built schedule and what it was built for. */
struct kept {
    char *key;
    struct tt_built built;
    uint64_t bytes; /* memory of the schedule, by bytes_of */
};

struct tt_plan_cache {
    pthread_mutex_t lock;
    struct set *sets;            /* NULL: choices are not remembered */
    struct kept kept[SCHEDULES]; /* least recently used first */
    size_t nkept;
    uint64_t bytes; /* sum of kept[].bytes, at most BYTES */
};

struct tt_plan_cache *tt_plan_cache_of_schedules(void)
{
    struct tt_plan_cache *c = tt_zalloc(1, sizeof *c);

    if (c)
        pthread_mutex_init(&c->lock, NULL);
    return c;
}

struct tt_plan_cache *tt_plan_cache_make(void)
{
    struct tt_plan_cache *c = tt_plan_cache_of_schedules();

    if (c)
        c->sets = tt_zalloc(SETS, sizeof *c->sets);
    if (c && !c->sets) {
        tt_plan_cache_free(c);
        return NULL;
    }
    return c;
}

static void entry_free(struct entry *e)
{
    free(e->key);
    tt_plan_free(e->plan);
}

static void kept_free(struct kept *k)
{
    free(k->key);
    tt_plan_built_free(&k->built);
}

void tt_plan_cache_free(struct tt_plan_cache *c)
{
    if (!c)
        return;
    for (size_t s = 0; c->sets && s < SETS; s++)
        for (size_t w = 0; w < WAYS; w++)
            entry_free(&c->sets[s].way[w]);
    free(c->sets);
    for (size_t i = 0; i < c->nkept; i++)
        kept_free(&c->kept[i]);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- choices ---- */

tutti_status tt_plan_key(const struct tt_topo *t, const struct tt_problem *p,
                         const struct tt_plan_options *o, struct tt_str *ret_key,
                         struct tutti_error *err)
{
    char options[TT_MAX_OPTIONS * sizeof(struct tt_option_value) + 1];
    struct tt_str b = {0};

    tt_algo_options_format(&o->algo_options, options, sizeof options);
    tt_str_printf(&b, "%016" PRIx64 " %d %" PRIu32 " %" PRIu32 " %" PRIu64 " %d %d %d ", t->hash,
                  (int)p->coll, p->ranks, p->root, p->count, (int)p->dtype, (int)p->redop,
                  p->ordered);
    tt_str_printf(&b, "%d %" PRIu64 " %" PRIu64 " %016" PRIx64 " %s %s", o->reproducible,
                  o->budget_ms, o->flow_ms, tt_plan_tuning_hash(o->tuning),
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

/* The caller holds the lock, and must copy the plan before it releases it. */
static const struct tt_plan *cache_find(const struct set *s, const char *key)
{
    for (size_t w = 0; w < WAYS; w++)
        if (s->way[w].key && tt_streq(s->way[w].key, key))
            return s->way[w].plan;
    return NULL;
}

tutti_status tt_plan_cache_find(struct tt_plan_cache *c, const struct tt_str *key, size_t vertices,
                                struct tt_plan **ret, struct tutti_error *err)
{
    const struct tt_plan *known;
    struct tt_plan *copy = NULL;
    tutti_status st = TUTTI_OK;

    if (c->sets) {
        pthread_mutex_lock(&c->lock);
        known = cache_find(&c->sets[set_of(key->s)], key->s);
        if (known)
            st = tt_plan_copy(known, vertices, &copy, err);
        pthread_mutex_unlock(&c->lock);
    }
    if (!st)
        *ret = copy;
    return st;
}

tutti_status tt_plan_cache_put(struct tt_plan_cache *c, const struct tt_str *key,
                               const struct tt_plan *p, size_t vertices, struct tutti_error *err)
{
    struct entry e, old;
    struct set *s;
    tutti_status st;

    if (!c->sets)
        return TUTTI_OK;
    e = (struct entry){.key = tt_strdup(key->s)};
    st = e.key ? tt_plan_copy(p, vertices, &e.plan, err) : tt_fail_memory(err, "plan key");
    if (st) {
        entry_free(&e);
        return st;
    }
    /* The copy above and the free below happen outside the lock, which only covers the exchange. */
    s = &c->sets[set_of(key->s)];
    pthread_mutex_lock(&c->lock);
    assert(s->next < WAYS);
    old = s->way[s->next];
    s->way[s->next] = e;
    s->next = (s->next + 1) % WAYS;
    pthread_mutex_unlock(&c->lock);
    entry_free(&old);
    return TUTTI_OK;
}

/* ---- schedules ---- */

/* Network, algorithm, collective, ranks and all options except segments=K; NULL: no memory.
 * Count, type and reduction are left out because the schedule serves any of them. */
static char *built_key(const struct tt_algo *al, const struct tt_algo_args *a)
{
    char text[TT_MAX_OPTIONS * sizeof(struct tt_option_value) + 1];
    struct tt_options o = {0};
    struct tt_str b = {0};

    for (size_t i = 0; i < a->options.n; i++)
        if (!tt_streq(a->options.item[i].key, "segments"))
            o.item[o.n++] = a->options.item[i];
    assert(o.n <= a->options.n && o.n <= TT_MAX_OPTIONS);
    tt_algo_options_format(&o, text, sizeof text);
    tt_str_printf(&b, "%016" PRIx64 " %d %" PRIu32 " %s %s", a->topo ? a->topo->hash : 0,
                  (int)a->problem.coll, a->problem.ranks, al->name, text);
    if (b.failed)
        tt_str_free(&b);
    return b.s;
}

/* Memory of a schedule, counted as if it did not share its operations. */
static uint64_t bytes_of(const struct tt_sched *s)
{
    uint64_t bytes =
        s->nops * sizeof *s->ops + s->nspans * sizeof *s->spans + s->nroutes * sizeof *s->routes;

    for (uint32_t i = 0; i < s->nroutes; i++)
        bytes += s->routes[i].nlinks * sizeof *s->routes[i].links;
    return bytes + 2 * ((uint64_t)s->nslices + 1) * sizeof *s->op_start + sizeof *s;
}

/* Removes item i and returns it; the order of the others stays. The caller holds the lock. */
static struct kept cache_take(struct tt_plan_cache *c, size_t i)
{
    struct kept k = c->kept[i];

    assert(i < c->nkept && c->bytes >= k.bytes);
    c->nkept--;
    c->bytes -= k.bytes;
    memmove(&c->kept[i], &c->kept[i + 1], (c->nkept - i) * sizeof k);
    return k;
}

/* Appends as most recently used; the caller holds the lock and has made room. */
static void cache_append(struct tt_plan_cache *c, struct kept k)
{
    assert(c->nkept < SCHEDULES && c->bytes + k.bytes <= BYTES);
    c->bytes += k.bytes;
    c->kept[c->nkept++] = k;
}

/* Makes the schedule of this key the most recently used, which moves it to the end of kept[];
 * false: it is not there. The caller holds the lock. */
static bool cache_touch(struct tt_plan_cache *c, const char *key)
{
    for (size_t i = 0; i < c->nkept; i++)
        if (tt_streq(c->kept[i].key, key)) {
            cache_append(c, cache_take(c, i));
            return true;
        }
    return false;
}

bool tt_plan_cache_find_built(struct tt_plan_cache *c, const struct tt_algo *al,
                              const struct tt_algo_args *a, struct tt_built *ret)
{
    char *key = built_key(al, a);
    struct tt_built b = {0};

    if (!key)
        return false;
    pthread_mutex_lock(&c->lock);
    if (cache_touch(c, key)) {
        const struct kept *k = &c->kept[c->nkept - 1];
        if (!tt_sched_share(k->built.sched, NULL, &b.sched, NULL))
            b.report = k->built.report;
    }
    pthread_mutex_unlock(&c->lock);
    free(key);
    if (b.sched)
        *ret = b;
    return b.sched != NULL;
}

void tt_plan_cache_put_built(struct tt_plan_cache *c, const struct tt_algo *al,
                             const struct tt_algo_args *a, const struct tt_built *b)
{
    struct kept k = {.bytes = bytes_of(b->sched), .built.report = b->report}, old;

    if (k.bytes > BYTES || tt_sched_share(b->sched, NULL, &k.built.sched, NULL))
        return;
    k.key = built_key(al, a);
    if (!k.key) {
        kept_free(&k);
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (!cache_touch(c, k.key)) { /* else another thread has put the same key meanwhile */
        /* Ends: k fits an empty list, because k.bytes <= BYTES was checked above. */
        while (c->nkept == SCHEDULES || c->bytes + k.bytes > BYTES) {
            old = cache_take(c, 0);
            kept_free(&old);
        }
        assert(c->nkept < SCHEDULES && c->bytes + k.bytes <= BYTES);
        cache_append(c, k);
        k = (struct kept){0}; /* the list owns it now */
    }
    pthread_mutex_unlock(&c->lock);
    kept_free(&k);
}
