/* memory.c - memory of communicators (tutti_mem_alloc).
 *
 * Every block is listed with its owner, so that a pointer that was never allocated, or belongs
 * to another communicator, or was freed already, is reported before an allocator is damaged. Few
 * blocks live at a time and none is allocated on a hot path: a list is enough. A block that was
 * kept beyond its communicator has no owner any more; the last such block of a heap unmaps the
 * heap.
 *
 * `lock` protects the list only; the communicator's own allocator is called without it.
 *
 *     alloc --> owned by c --free--> gone
 *                  |--keep, c closes--> without owner --free(NULL, ..)--> gone
 *                  '--c closes--------> gone */
#include "api/api.h"

#include <pthread.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "transport/shm_region.h"

struct block {
    void *at;
    const struct tt_comm *owner; /* NULL: its communicator was closed */
    bool keep;                   /* survives closing (tutti_mem_keep) */
    /* without owner: a trainer uses the heap, too, so that it is never unmapped */
    bool stays;
    struct tt_region heap; /* without owner: where it lies; base NULL: it came from malloc */
};
static struct tt_vec blocks = {.elem = sizeof(struct block)};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Adds a block to the list; false when out of memory. */
static bool memory_note(const struct block *b)
{
    pthread_mutex_lock(&lock);
    bool ok = tt_vec_push(&blocks, b, 1);
    pthread_mutex_unlock(&lock);
    return ok;
}

/* Removes the block of c that begins at `at`, or with at NULL the last one that is not kept.
 * *ret_last: no other block without owner lies in the same heap, which can then be unmapped. */
static bool forget(const struct tt_comm *c, const void *at, struct block *ret, bool *ret_last)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    struct block *all = blocks.data;
    for (size_t i = blocks.len; i-- > 0 && !found;)
        if (all[i].owner == c && (at ? all[i].at == at : !all[i].keep)) {
            found = true;
            *ret = all[i];
            all[i] = all[--blocks.len];
        }
    *ret_last = found;
    for (size_t i = 0; i < blocks.len && found && ret->heap.base; i++)
        *ret_last = *ret_last && (all[i].owner || all[i].heap.base != ret->heap.base);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Frees a block without owner; `last` is from forget(). */
static void free_kept(struct block *b, bool last)
{
    if (!b->heap.base)
        free(b->at);
    else if (last && !b->stays)
        tt_shm_region_free(&b->heap);
}

/* A block that cannot be listed is freed again: unlisted, it could never be freed safely. */
tutti_status tutti_mem_alloc(struct tutti_comm *comm, size_t bytes, void **ret_memory,
                             struct tutti_error *err)
{
    void *p = NULL;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_memory", ret_memory) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_mem_alloc(c, bytes, &p, err);
    if (st)
        return st;
    if (!memory_note(&(struct block){.at = p, .owner = c})) {
        tt_comm_mem_free(c, p);
        return tt_fail_memory(err, "list of blocks");
    }
    *ret_memory = p;
    return TUTTI_OK;
}

void tutti_mem_free(struct tutti_comm *comm, void *memory)
{
    if (!memory)
        return;
    struct block b;
    bool last;
    struct tt_comm *c = comm ? api_need(COMM, comm) : NULL;
    if (!forget(c, memory, &b, &last))
        tt_api_stop(
            __func__, "%p was not allocated by tutti_mem_alloc on %s, or was freed already", memory,
            c ? "this communicator" : "a communicator that was closed after tutti_mem_keep");
    if (c)
        tt_comm_mem_free(c, memory);
    else
        free_kept(&b, last);
}

/* Marks what is allocated now; later blocks are not kept. */
void tutti_mem_keep(struct tutti_comm *comm)
{
    const struct tt_comm *c = api_need(COMM, comm);
    pthread_mutex_lock(&lock);
    struct block *all = blocks.data;
    for (size_t i = 0; i < blocks.len; i++)
        all[i].keep = all[i].keep || all[i].owner == c;
    pthread_mutex_unlock(&lock);
}

/* First frees what is not kept, while the heap still works; then marks the kept blocks as
 * ownerless and copies where their heap lies. */
void tt_api_memory_drop(struct tt_comm *c)
{
    struct block b;
    bool last;
    while (forget(c, NULL, &b, &last))
        tt_comm_mem_free(c, b.at);
    const struct tt_region *heap = tt_comm_mem_heap(c);
    pthread_mutex_lock(&lock);
    struct block *all = blocks.data;
    for (size_t i = 0; i < blocks.len; i++)
        if (all[i].owner == c) {
            all[i].owner = NULL;
            all[i].stays = tt_comm_has_twin(c);
            all[i].heap = heap ? *heap : (struct tt_region){.fd = -1};
        }
    pthread_mutex_unlock(&lock);
}
