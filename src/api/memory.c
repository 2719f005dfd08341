/* Memory of communicators: every block is noted with its owner, so that what was never allocated, or by
 * another communicator, or freed already, is told before an allocator is damaged. Few blocks live at a time
 * and none is allocated on a hot path: a list is enough. */
#include "api/api.h"

#include <pthread.h>

#include "comm/comm.h"

struct block {
    void *at;
    const struct tt_comm *owner;
};
static struct tt_vec blocks = {.elem = sizeof(struct block)};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool note(const struct block *b)
{
    pthread_mutex_lock(&lock);
    bool ok = tt_vec_push(&blocks, b, 1);
    pthread_mutex_unlock(&lock);
    return ok;
}

/* Removes the last block of c, or the one that begins at `at`; where it was, NULL: there is none. */
static void *forget(const struct tt_comm *c, const void *at)
{
    void *found = NULL;
    pthread_mutex_lock(&lock);
    struct block *all = blocks.data;
    for (size_t i = blocks.len; i-- > 0 && !found;)
        if (all[i].owner == c && (!at || all[i].at == at)) {
            found = all[i].at;
            all[i] = all[--blocks.len];
        }
    pthread_mutex_unlock(&lock);
    return found;
}

tutti_status tutti_mem_alloc(struct tutti_comm *comm, size_t bytes, void **ret_memory, struct tutti_error *err)
{
    void *p = NULL;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_memory", ret_memory) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_mem_alloc(c, bytes, &p, err);
    if (st)
        return st;
    if (!note(&(struct block){p, c})) {
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
    struct tt_comm *c = api_need(COMM, comm);
    if (!forget(c, memory))
        api_stop(__func__, "%p was not allocated by tutti_mem_alloc on this communicator, or was freed already", memory);
    tt_comm_mem_free(c, memory);
}

void api_memory_drop(struct tt_comm *c)
{
    for (void *p = forget(c, NULL); p; p = forget(c, NULL))
        tt_comm_mem_free(c, p);
}
