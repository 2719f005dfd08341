/* file_write.c - the topology file: versioned JSON, one link per line.
 *
 *     {
 *       "format": "tutti-topology",
 *       "version": 1,
 *       "name": "ring:3",
 *       "kind": "ring",
 *       "ranks": 3,
 *       "switches": 0,
 *       "routing": "circulant",
 *       "links": [
 *         [0,1,1250000000,1250000000,1000000,false],   a, b, bytes/s a to b, bytes/s b to a,
 *                                                      latency in ps, half duplex
 *         ...
 *
 * Also "dims" and "wrap" of grids, "ports", "gamma_s_per_byte" and "overhead_ps" when not 0,
 * "memory" of a host (topo.h), "names" of all vertices or none, and "tree": [parent, rank or null,
 * uplink] of the nodes 1, 2, ... of the hierarchy. What is written here reads back (file_read.c)
 * with the same hash and writes the same bytes. */
#include "topo/topo_int.h"

#include "topo/file.h"

#include <errno.h>
#include <string.h>

const char *const tt_topo_routing_names[TT_ROUTINGS] = {"shortest", "grid", "circulant", "star",
                                                        "fattree"};

/* One entry per vertex; null for those without a name. */
static void write_names(struct tt_json_writer *w, const struct tt_topo *t)
{
    tt_json_key(w, "names");
    tt_json_array(w);
    for (uint32_t v = 0; v < t->ranks + t->switches; v++)
        tt_json_string(w, t->names[v]);
    tt_json_array_end(w);
}

/* Nodes in breadth-first order, so that reading needs no sorting. */
static void write_tree(struct tt_json_writer *w, const struct tt_tree *tree)
{
    tt_json_key(w, "tree");
    tt_json_array(w);
    for (uint32_t i = 1; i < tree->nnodes; i++) {
        tt_json_array_compact(w);
        tt_json_u64(w, tree->parent[i]);
        if (tree->rank[i] == UINT32_MAX)
            tt_json_null(w);
        else
            tt_json_u64(w, tree->rank[i]);
        tt_json_u64(w, tree->uplink[i]);
        tt_json_array_end(w);
    }
    tt_json_array_end(w);
}

/* All six entries, defaults included: a network has one spelling. */
static void write_links(struct tt_json_writer *w, const struct tt_topo *t)
{
    tt_json_key(w, "links");
    tt_json_array(w);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        tt_json_array_compact(w);
        tt_json_u64(w, l->a);
        tt_json_u64(w, l->b);
        tt_json_real(w, l->bw[0]);
        tt_json_real(w, l->bw[1]);
        tt_json_u64(w, l->latency_ps);
        tt_json_bool(w, l->half);
        tt_json_array_end(w);
    }
    tt_json_array_end(w);
}

static void write_dims(struct tt_json_writer *w, const struct tt_topo *t)
{
    tt_json_key(w, "dims");
    tt_json_array_compact(w);
    for (uint32_t d = 0; d < t->ndims; d++)
        tt_json_u64(w, t->dims[d]);
    tt_json_array_end(w);
    tt_json_member_bool(w, "wrap", t->wrap);
}

static void write_memory(struct tt_json_writer *w, const struct tt_memory *m)
{
    tt_json_key(w, "memory");
    tt_json_object(w);
    tt_json_member_u64(w, "box_bytes", m->box_bytes);
    tt_json_member_u64(w, "segment_bytes", m->segment_bytes);
    tt_json_key(w, "points");
    tt_json_array(w);
    for (uint32_t i = 0; i < m->npoints; i++) {
        const uint64_t all[] = {m->point[i].bytes, m->point[i].move_ps, m->point[i].own_ps,
                                m->point[i].box_ps};
        tt_json_array(w);
        for (size_t k = 0; k < countof(all); k++)
            tt_json_u64(w, all[k]);
        tt_json_array_end(w);
    }
    tt_json_array_end(w);
    tt_json_object_end(w);
}

/* A spec that is too long for a JSON string of ours is replaced by the kind. */
static void write_head(struct tt_json_writer *w, const struct tt_topo *t)
{
    tt_json_member_string(w, "format", TT_TOPO_FORMAT);
    tt_json_member_u64(w, "version", TT_TOPO_VERSION);
    tt_json_member_string(w, "name", strlen(t->spec) <= TT_TOPO_MAX_NAME ? t->spec : t->kind);
    tt_json_member_string(w, "kind", t->kind);
    if (t->ndims)
        write_dims(w, t);
    tt_json_member_u64(w, "ranks", t->ranks);
    tt_json_member_u64(w, "switches", t->switches);
    if (t->ports)
        tt_json_member_u64(w, "ports", t->ports);
    if (t->gamma > 0) {
        tt_json_member_real(w, "gamma_s_per_byte", t->gamma);
    }
    if (t->overhead_ps)
        tt_json_member_u64(w, "overhead_ps", t->overhead_ps);
    if (t->memory.npoints)
        write_memory(w, &t->memory);
    tt_json_member_string(w, "routing", tt_topo_routing_names[t->routing]);
}

tutti_status tt_topo_write(const struct tt_topo *t, FILE *out, struct tutti_error *err)
{
    struct tt_json_writer w;
    tt_json_begin(&w, out);
    tt_json_object(&w);
    write_head(&w, t);
    if (t->names)
        write_names(&w, t);
    if (t->tree)
        write_tree(&w, t->tree);
    write_links(&w, t);
    tt_json_object_end(&w);
    tt_json_finish(&w);
    if (fflush(out) != 0 || ferror(out))
        return tt_fail(err, TUTTI_ERR_IO, "cannot write the topology: %s", strerror(errno));
    return TUTTI_OK;
}
