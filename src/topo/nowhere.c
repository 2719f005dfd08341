/* nowhere.c - cables that lead nowhere: no rank is at their far end or behind it, so nothing ever
 * crosses them. Usually a rate was meant for something that the description leaves out.
 *
 *     tree:((2 2):40G)     rank - switch 1 -40G- switch 0     the root has nothing else
 *
 * Switches whose cables all go to one neighbour are taken away, with these cables, until there are
 * none; every round looks at all cables once. */
#include "topo/topo_int.h"

#include <stdlib.h>
#include <string.h>

#define MANY (UINT32_MAX - 1)

/* The only vertex at the other end of v's cables; UINT32_MAX: it has none, MANY: several. */
static void note_neighbour(uint32_t *only, uint32_t v, uint32_t other)
{
    only[v] = only[v] == UINT32_MAX || only[v] == other ? other : MANY;
}

/* Does direction `back` of the cable lead to a switch that has no other neighbour? */
static bool ends_there(const struct tt_topo *t, const uint32_t *only, uint32_t cable, bool back)
{
    uint32_t v = back ? t->links[cable].a : t->links[cable].b;
    return v >= t->ranks && only[v] != MANY;
}

/* One round: marks cables, counts them, and notes the first one ever found. */
static uint32_t take_ends(const struct tt_topo *t, const uint32_t *only, bool *gone,
                          uint32_t *ret_first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        bool to = !gone[i] && ends_there(t, only, i, false),
             back = !gone[i] && ends_there(t, only, i, true);
        if (!to && !back)
            continue;
        gone[i] = true;
        n++;
        if (*ret_first == UINT32_MAX)
            *ret_first = 2 * i + !to;
    }
    return n;
}

uint32_t tt_topo_nowhere(const struct tt_topo *t, uint32_t *ret_first)
{
    uint32_t vertices = t->ranks + t->switches, found = 0, more = 1;
    bool *gone = tt_zalloc(t->nlinks + (size_t)1, sizeof *gone);
    uint32_t *only = tt_alloc(vertices, sizeof *only);
    *ret_first = UINT32_MAX;
    while (gone && only && t->ranks > 1 && t->switches && more) {
        memset(only, 0xff, vertices * sizeof *only);
        for (uint32_t i = 0; i < t->nlinks; i++)
            if (!gone[i]) {
                note_neighbour(only, t->links[i].a, t->links[i].b);
                note_neighbour(only, t->links[i].b, t->links[i].a);
            }
        more = take_ends(t, only, gone, ret_first);
        found += more;
    }
    free(gone);
    free(only);
    return found;
}
