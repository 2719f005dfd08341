/* file_names.c - ends of links that a topology file gives by name: ["web1", "hub", "10Gbps"].
 *
 * "names" may come before or after "links", so names are kept until the whole file was read and
 * then looked up in a sorted list: a file of many names costs no more than sorting them. "rank 3"
 * and "switch 0", the names that reports give to unnamed vertices, are understood too. */
#include "topo/topo_int.h"

#include "topo/file.h"

#include <stdlib.h>
#include <string.h>

struct named_end { /* which end of which link still needs its vertex */
    uint32_t link;
    bool second;
    char *name;
};

struct vertex {
    const char *name;
    uint32_t v;
};

/* The link is the one that the caller adds next: its index is the current number of links. */
tutti_status tt_topo_file_named_end(struct tt_file *rd, bool second, const char *name,
                                    struct tutti_error *err)
{
    struct named_end e = {rd->t->nlinks, second, tt_strdup(name)};
    rd->ends.elem = sizeof e;
    if (e.name && tt_vec_push(&rd->ends, &e, 1))
        return TUTTI_OK;
    free(e.name);
    return tt_fail_memory(err, "names");
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct vertex *)x)->name, ((const struct vertex *)y)->name);
}

static tutti_status sort_names(const struct tt_topo *t, struct tt_vec *sorted,
                               struct tutti_error *err)
{
    uint32_t n = t->names ? t->ranks + t->switches : 0;
    for (uint32_t v = 0; v < n; v++)
        if (t->names[v] && !tt_vec_push(sorted, &(struct vertex){t->names[v], v}, 1))
            return tt_fail_memory(err, "names");
    if (sorted->len)
        qsort(sorted->data, sorted->len, sizeof(struct vertex), by_name);
    return TUTTI_OK;
}

/* The vertex of a name; a name that two vertices have is refused. */
static tutti_status look_up(const struct tt_topo *t, const struct tt_vec *sorted,
                            const struct named_end *e, uint32_t *ret, struct tutti_error *err)
{
    const struct vertex key = {e->name, 0}, *first = sorted->data,
                        *last = first ? first + sorted->len - 1 : NULL;
    const struct vertex *at = first ? bsearch(&key, first, sorted->len, sizeof key, by_name) : NULL;
    if (at && ((at > first && !by_name(at - 1, at)) || (at < last && !by_name(at, at + 1))))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "link %u: two vertices have the name \"%.80s\"; give the number", e->link,
                       e->name);
    if (at)
        *ret = at->v;
    else if (!tt_topo_plain_vertex(t, e->name, ret))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "link %u: there is no vertex \"%.80s\": neither in \"names\" nor \"rank N\" "
                       "or \"switch N\"",
                       e->link, e->name);
    return TUTTI_OK;
}

/* Called once all keys are read and the names are in the topology. */
tutti_status tt_topo_file_set_ends(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_vec sorted = {.elem = sizeof(struct vertex)};
    tutti_status st = rd->ends.len ? sort_names(rd->t, &sorted, err) : TUTTI_OK;
    for (size_t i = 0; i < rd->ends.len && !st; i++) {
        const struct named_end *e = tt_vec_at(&rd->ends, i);
        struct tt_link *l = &rd->t->links[e->link];
        st = look_up(rd->t, &sorted, e, e->second ? &l->b : &l->a, err);
    }
    tt_vec_free(&sorted);
    return st;
}

void tt_topo_file_free_ends(struct tt_file *rd)
{
    for (size_t i = 0; i < rd->ends.len; i++)
        free(((struct named_end *)tt_vec_at(&rd->ends, i))->name);
    tt_vec_free(&rd->ends);
}
