/* detour.c - data that goes through memory of our own, because a rank's type is not contiguous
 * bytes, or because MPI wants the result of an MPI_IN_PLACE reduce-scatter at the beginning of the
 * input.
 *
 *     begin   allocate memory; if the caller gives data, pack it there
 *             Tutti runs on that memory
 *     end     copy or unpack the result to where it belongs
 *
 * The end may come long after the call (requests.c), when the program may already have freed its
 * type; a detour therefore holds a duplicate of the type. */
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

/* False also if the packed form has another length than the type's size: then it cannot travel as
 * bytes. */
static bool detour_pack(const struct shim_side *s, size_t bytes, char *to, int room)
{
    int at = 0;
    return PMPI_Pack(s->buf, s->count, s->type, to, room, &at, MPI_COMM_SELF) == MPI_SUCCESS &&
           (size_t)at == bytes;
}

/* Allocates memory for packing one side, followed by `more` bytes. *ret_room is the size of the
 * first part. */
static bool make_room(struct shim_detour *d, const struct shim_side *s, size_t more, int *ret_room)
{
    size_t bytes;
    if (PMPI_Pack_size(s->count, s->type, MPI_COMM_SELF, ret_room) != MPI_SUCCESS || *ret_room < 0)
        return false;
    d->memory = __builtin_add_overflow((size_t)*ret_room + 1, more, &bytes) ? NULL : malloc(bytes);
    return d->memory != NULL;
}

/* Where the result goes at the end; blocks > 0 marks that there is a result, and an own type to
 * free. */
static bool set_target(struct shim_detour *d, const struct shim_side *to, size_t bytes, int blocks)
{
    MPI_Datatype own;
    if (PMPI_Type_dup(to->type, &own) != MPI_SUCCESS)
        return false;
    d->to = (struct shim_side){to->buf, to->count, own};
    d->bytes = bytes;
    d->blocks = blocks;
    return true;
}

bool shim_detour_front(struct shim_detour *d, void *to, size_t bytes)
{
    *d = (struct shim_detour){.to = {to, 0, MPI_DATATYPE_NULL}, .bytes = bytes, .blocks = 1};
    d->memory = d->result = malloc(bytes + 1);
    return d->memory != NULL;
}

/* The root only sends, and needs no target. */
bool shim_detour_broadcast(struct shim_detour *d, const struct shim_side *s, size_t bytes,
                           bool root)
{
    int room;
    *d = (struct shim_detour){0};
    bool good = make_room(d, s, bytes, &room) &&
                (root ? detour_pack(s, bytes, d->memory, room) : set_target(d, s, bytes, 1));
    d->result = d->memory;
    if (!good)
        shim_detour_end(d, false);
    return good;
}

bool shim_detour_gather(struct shim_detour *d, const struct shim_side *from,
                        const struct shim_side *to, size_t bytes, int ranks)
{
    size_t all;
    int room;
    *d = (struct shim_detour){0};
    bool good = !__builtin_mul_overflow(bytes, (size_t)ranks, &all) &&
                make_room(d, from, all, &room) && detour_pack(from, bytes, d->memory, room) &&
                set_target(d, to, bytes, ranks);
    if (good)
        d->result = d->memory + room;
    else
        shim_detour_end(d, false);
    return good;
}

/* Block i goes where rank i's data belongs in the caller's buffer. */
static void detour_deliver(const struct shim_detour *d)
{
    MPI_Aint lb = 0, extent = 0;
    if (d->to.type == MPI_DATATYPE_NULL) {
        memcpy(d->to.buf, d->result, d->bytes);
        return;
    }
    PMPI_Type_get_extent(d->to.type, &lb, &extent);
    for (int i = 0; i < d->blocks; i++) {
        int at = 0;
        PMPI_Unpack(d->result + (size_t)i * d->bytes, (int)d->bytes, &at,
                    (char *)d->to.buf + (MPI_Aint)i * d->to.count * extent, d->to.count, d->to.type,
                    MPI_COMM_SELF);
    }
}

void shim_detour_end(struct shim_detour *d, bool good)
{
    if (good && d->blocks > 0)
        detour_deliver(d);
    if (d->blocks > 0 && d->to.type != MPI_DATATYPE_NULL)
        PMPI_Type_free(&d->to.type);
    free(d->memory);
    *d = (struct shim_detour){0};
}

struct shim_side shim_own_block(const struct shim_side *all, int rank)
{
    MPI_Aint lb = 0, extent = 0;
    PMPI_Type_get_extent(all->type, &lb, &extent);
    return (struct shim_side){(char *)all->buf + (MPI_Aint)rank * all->count * extent, all->count,
                              all->type};
}
