/* memory.c - a host's memory as a network: measured times by vector length (topo.h).
 *
 *     time |            .             below the first point: its time
 *          |        .                 between two points: on the line that joins them
 *          |   . .                    beyond the last: on the line of the last two
 *          +--------------- bytes
 *
 * Integers throughout, so that every machine reads the same times from the same points. */
#include "topo/topo_int.h"

static const uint64_t LARGEST_PS = UINT64_C(1) << 50; /* about 18 minutes */
static const uint64_t LARGEST_BYTES = UINT64_C(1) << 40;

static uint64_t value(const struct tt_memory_point *p, enum tt_topo_memory_time which)
{
    return which == TT_MEMORY_MOVE ? p->move_ps : which == TT_MEMORY_OWN ? p->own_ps : p->box_ps;
}

/* On the line through a and b, at least 1: a falling line must not reach zero. */
static uint64_t memory_between(const struct tt_memory_point *a, const struct tt_memory_point *b,
                               enum tt_topo_memory_time which, uint64_t bytes)
{
    __int128 dy = (__int128)value(b, which) - value(a, which), dx = (__int128)b->bytes - a->bytes;
    __int128 y = value(a, which) + dy * ((__int128)bytes - a->bytes) / dx;
    return y < 1 ? 1 : y > (__int128)INT64_MAX ? (uint64_t)INT64_MAX : (uint64_t)y;
}

/* The first point's time also holds for smaller sizes. */
uint64_t tt_topo_memory_time(const struct tt_memory *m, enum tt_topo_memory_time which,
                             uint64_t bytes)
{
    uint32_t i = 1;
    if (bytes <= m->point[0].bytes || m->npoints == 1)
        return value(&m->point[0], which);
    while (i + 1 < m->npoints && bytes > m->point[i].bytes)
        i++;
    return memory_between(&m->point[i - 1], &m->point[i], which, bytes);
}

tutti_status tt_topo_memory_check(const struct tt_memory *m, struct tutti_error *err)
{
    if (m->npoints > TT_MEMORY_POINTS || m->box_bytes > LARGEST_BYTES ||
        m->segment_bytes > LARGEST_BYTES)
        return tt_fail(err, TUTTI_ERR_RANGE, "memory: at most %d points, and sizes up to 2^40",
                       (int)TT_MEMORY_POINTS);
    for (uint32_t i = 0; i < m->npoints; i++) {
        const struct tt_memory_point *p = &m->point[i];
        if ((i && p->bytes <= p[-1].bytes) || p->bytes > LARGEST_BYTES)
            return tt_fail(err, TUTTI_ERR_RANGE,
                           "memory: the sizes of points must rise, up to 2^40");
        if (!p->move_ps || !p->own_ps || p->move_ps > LARGEST_PS || p->own_ps > LARGEST_PS ||
            p->box_ps > LARGEST_PS)
            return tt_fail(err, TUTTI_ERR_RANGE, "memory: point %u has times out of range", i);
    }
    return TUTTI_OK;
}
