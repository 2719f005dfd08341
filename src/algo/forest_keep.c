/* forest_keep.c - the last packings of this process: pricing, counting and building one plan ask for the same one several times.
 *
 * A packing depends on the network, the kind and the number of trees alone, so that remembering cannot change a result. A few are kept, the
 * oldest goes. Thread-safe; packing itself happens outside the lock, and of two threads that pack the same the first one's is kept. */
#include <pthread.h>
#include <stdlib.h>

#include "algo/forest.h"

enum { KEPT = 4 };

struct tt_pack_kept {
    struct tt_packing packing;
    uint64_t topo_hash;
    enum tt_pack_kind kind;
    uint32_t trees, users; /* users: borrowers, and the memory itself */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_pack_kept *kept[KEPT];
static unsigned next_slot;

const struct tt_packing *tt_pack_of(const struct tt_pack_kept *k)
{
    return &k->packing;
}

static void let_go(struct tt_pack_kept *k)
{
    if (!k || --k->users > 0)
        return;
    tt_packing_free(&k->packing);
    free(k);
}

void tt_pack_release(struct tt_pack_kept *k)
{
    pthread_mutex_lock(&lock);
    let_go(k);
    pthread_mutex_unlock(&lock);
}

static struct tt_pack_kept *find(uint64_t hash, enum tt_pack_kind kind, uint32_t trees)
{
    for (unsigned i = 0; i < KEPT; i++) {
        struct tt_pack_kept *k = kept[i];
        if (k && k->topo_hash == hash && k->kind == kind && k->trees == trees) {
            k->users++;
            return k;
        }
    }
    return NULL;
}

static struct tt_pack_kept *look_up(uint64_t hash, enum tt_pack_kind kind, uint32_t trees)
{
    pthread_mutex_lock(&lock);
    struct tt_pack_kept *k = find(hash, kind, trees);
    pthread_mutex_unlock(&lock);
    return k;
}

/* Keeps `made` for its borrower and for later; what another thread has kept meanwhile is taken instead. */
static struct tt_pack_kept *keep(struct tt_pack_kept *made)
{
    pthread_mutex_lock(&lock);
    struct tt_pack_kept *other = find(made->topo_hash, made->kind, made->trees);
    if (other) {
        let_go(made);
    } else {
        let_go(kept[next_slot]);
        made->users++;
        kept[next_slot] = made;
        next_slot = (next_slot + 1) % KEPT;
    }
    pthread_mutex_unlock(&lock);
    return other ? other : made;
}

tutti_status tt_pack_get(const struct tt_algo_args *a, struct tt_pack_kept **ret, struct tutti_error *err)
{
    enum tt_pack_kind kind = tt_pack_kind_of(a->problem.coll);
    uint32_t trees = tt_pack_trees(a);
    struct tt_pack_kept *k = look_up(a->topo->hash, kind, trees);
    if (k) {
        *ret = k;
        return TUTTI_OK;
    }
    k = tt_zalloc(1, sizeof(*k));
    if (!k)
        return tt_fail_memory(err, "forest");
    *k = (struct tt_pack_kept){.topo_hash = a->topo->hash, .kind = kind, .trees = trees, .users = 1};
    tutti_status st = tt_pack_make(a->topo, kind, trees, &k->packing, err);
    if (st != TUTTI_OK) {
        free(k);
        return st;
    }
    *ret = keep(k);
    return TUTTI_OK;
}
