/* family.c - Tutti communicators that share sockets and a thread.
 *
 * The first communicator of some ranks founds a family: it is opened by a rendezvous of its own
 * (tutti_comm_open_among). A later communicator of the same ranks, or of some of them in any order,
 * becomes a part of that family (tutti_comm_part), provided that all its ranks find the same family
 * to be the largest one that contains them all. They may find different ones, because a rank's
 * threads may open communicators in any order; then the communicator founds a family of its own.
 *
 * A family lives until MPI_Finalize, even if the communicator that founded it is freed. All
 * families are then closed in an order that is the same on all ranks (by id). Closing one waits
 * until all its ranks do, and makes MPI progress meanwhile. */
#include <pthread.h>
#include <stdlib.h>

#include "shim/shim.h"

/* The deadline is for ranks that are alive and do not arrive, and MPI has no such deadline: rank 0
 * may read files for hours while the others wait in a broadcast. A dead rank is found at once
 * through its control connection. */
static const uint64_t a_day_us = UINT64_C(86400000000);

struct family {
    uint64_t id; /* equal on all its ranks and unique among their families; > 0 */
    struct tutti_comm *tutti;
    MPI_Group group;
    int size;
    struct family *next; /* of higher id */
};

/* Guards `families`. Entries are only added until MPI_Finalize, so a pointer found under the lock
 * stays valid. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct family *families;
static _Atomic uint32_t founded;

static int family_gather(void *ctx, const void *mine, size_t bytes, void *ret_all)
{
    return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, ret_all, (int)bytes, MPI_BYTE,
                          *(MPI_Comm *)ctx) != MPI_SUCCESS;
}

/* An id that no other rank creates: this rank's number in the world, and a counter. */
static uint64_t new_id(void)
{
    int world = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &world);
    return (uint64_t)(world + 1) << 32 | atomic_fetch_add(&founded, 1);
}

/* Are all n ranks of the group in the family? Then ranks[n .. 2n) becomes their numbers there.
 * ranks[0 .. n) must be 0 to n - 1. */
static bool has_all(const struct family *f, MPI_Group group, int n, int *ranks)
{
    if (f->size < n ||
        PMPI_Group_translate_ranks(group, n, ranks, f->group, ranks + n) != MPI_SUCCESS)
        return false;
    for (int i = 0; i < n; i++)
        if (ranks[n + i] == MPI_UNDEFINED)
            return false;
    return true;
}

/* The largest family with all ranks of comm, the lowest id of several; NULL: none. On success
 * ranks[n .. 2n) are the ranks' numbers in it. A family stays valid until the end. */
static struct family *family_find(MPI_Comm comm, int n, int *ranks)
{
    struct family *best = NULL;
    MPI_Group group;
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return NULL;
    pthread_mutex_lock(&lock);
    for (struct family *f = families; f; f = f->next)
        if ((!best || f->size > best->size) && has_all(f, group, n, ranks))
            best = f;
    pthread_mutex_unlock(&lock);
    /* has_all has overwritten ranks for later families: translate once more. */
    if (best)
        has_all(best, group, n, ranks);
    PMPI_Group_free(&group);
    return best;
}

/* Do all ranks give the same number? One maximum answers it: max(x) and max(~x) both match only if
 * all x are equal. *id becomes rank 0's. */
static bool family_agree(uint64_t number, uint64_t *id, const struct shim_comm *c, MPI_Comm comm)
{
    uint64_t mine[3] = {number, ~number, c->rank == 0 ? *id : 0}, all[3] = {0};
    if (PMPI_Allreduce(mine, all, 3, MPI_UINT64_T, MPI_MAX, comm) != MPI_SUCCESS)
        return false;
    *id = all[2];
    return all[0] == number && all[1] == ~number;
}

bool shim_family_open(struct shim_comm *c, MPI_Comm comm, struct tutti_error *err)
{
    int n = c->size, *ranks = calloc((size_t)n, 2 * sizeof *ranks);
    struct family *f = ranks ? family_find(comm, n, ranks) : NULL;
    struct tutti_parent parent = {.rank = (uint32_t)c->rank,
                                  .ranks = (uint32_t)n,
                                  .local_rank = -1,
                                  .gather = family_gather,
                                  .ctx = &comm};
    struct tutti_comm_options o = {.size = sizeof o,
                                   .timeout_us = getenv("TUTTI_TIMEOUT") ? 0 : a_day_us};
    tutti_status st;
    /* Rank 0 creates the id even if it is not needed, so that one collective suffices. */
    c->family = c->rank == 0 ? new_id() : 0;
    bool same = family_agree(f ? f->id : 0, &c->family, c, comm);
    c->founder = !same || !f;
    if (c->founder)
        st = tutti_comm_open_among(&o, &parent, &c->tutti, err);
    else
        st = tutti_comm_part(f->tutti, (uint32_t *)ranks + n, &parent, &c->tutti, err);
    free(ranks);
    return !st;
}

bool shim_family_found(const struct shim_comm *c, MPI_Comm comm)
{
    struct family *f = calloc(1, sizeof *f), **at = &families;
    if (!f || PMPI_Comm_group(comm, &f->group) != MPI_SUCCESS) {
        free(f);
        return false;
    }
    f->id = c->family;
    f->tutti = c->tutti;
    f->size = c->size;
    pthread_mutex_lock(&lock);
    /* Sorted by id, so that all ranks close families in the same order. */
    while (*at && (*at)->id < f->id)
        at = &(*at)->next;
    f->next = *at;
    *at = f;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Runs in MPI_Finalize, when no other thread uses the list any more: no lock. */
void shim_families_close(void)
{
    while (families) {
        struct family *f = families;
        families = f->next;
        tutti_comm_close(f->tutti);
        PMPI_Group_free(&f->group);
        free(f);
    }
}
