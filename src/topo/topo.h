/* topo.h - a network: ranks, switches, links; where it comes from (spec text, file) and how
 * messages are routed.
 *
 * Vertices: ranks are 0..ranks-1, switches ranks..ranks+switches-1. A struct tt_link is one cable
 * between two vertices with two directions; a directed link has the id 2*i (a to b) or 2*i+1 (b to
 * a) of cable i. Parallel cables are allowed. A topology never changes after it was made (except
 * tt_topo_free), so any number of threads may read it. */
#ifndef TT_TOPO_H
#define TT_TOPO_H

#include "base/base.h"
#include "graph/graph.h"

/* A cable with its two directions. */
struct tt_link {
    uint32_t a, b;
    double bw[2];        /* bytes/s a->b, b->a */
    uint64_t latency_ps; /* each way */
    bool half;           /* half duplex: both directions share bw[0] */
};

/* How routes are found; all of them use the fewest links. Grids (torus, mesh, hypercube, dln2d):
 * dimension order, the first dimension first. Circulant (ring, full, dln): routes of rank 0,
 * shifted; ties go to the positive direction, then to the lower neighbour. Fat-tree: up to the
 * nearest common ancestor, the spine chosen by the destination. Shortest: at each hop the lowest
 * neighbour, of parallel links number (destination mod count); ranks with several links forward. */
enum tt_routing {
    TT_ROUTE_SHORTEST,
    TT_ROUTE_GRID,
    TT_ROUTE_CIRCULANT,
    TT_ROUTE_STAR,
    TT_ROUTE_FATTREE
};

/* What specs and files may ask for; larger networks are refused with the number. */
enum { TT_TOPO_MAX_DIMS = 20, TT_TOPO_MAX_RANKS = 1 << 20, TT_TOPO_MAX_LINKS = 1 << 26 };

/* A memory that all ranks share, as measured with all of them at work: times depend on the vector's
 * length, because caches are finite. A point holds the time of an all-reduce of `bytes` in which
 * every rank sends and receives 2(n-1)/n of it in two steps: from ordinary memory (move), from
 * memory that the ranks map from each other (own); and the time of an exchange of `bytes` of each
 * rank through the box (0: there is no box). */
enum { TT_MEMORY_POINTS = 8 };
struct tt_memory_point {
    uint64_t bytes, move_ps, own_ps, box_ps;
};
struct tt_memory {
    uint32_t npoints; /* 0: the network is not one memory */
    uint64_t box_bytes, segment_bytes;
    struct tt_memory_point point[TT_MEMORY_POINTS]; /* bytes rise */
};
enum tt_topo_memory_time { TT_MEMORY_MOVE, TT_MEMORY_OWN, TT_MEMORY_BOX };
/* The time for a vector of `bytes`, between points in proportion, beyond the last by the slope of
 * the last two. npoints > 0. */
uint64_t tt_topo_memory_time(const struct tt_memory *m, enum tt_topo_memory_time which,
                             uint64_t bytes);
/* Sizes must rise and times be in range; no points at all are accepted. */
tutti_status tt_topo_memory_check(const struct tt_memory *m, struct tutti_error *err);

struct tt_topo {
    char *spec; /* canonical spec text, or the file's name */
    char *kind; /* "torus", ...; "custom" for a file that names none */
    uint32_t ranks, switches, nlinks;
    struct tt_link *links;
    /* NULL, or ranks+switches names (entries may be NULL) */
    char **names;
    /* arc id = directed link id; arcs of a vertex by ascending neighbour, then id */
    struct tt_graph g;
    /* grids: the last dimension varies fastest in the rank number; else 0 */
    uint32_t ndims, dims[TT_TOPO_MAX_DIMS];
    bool wrap; /* torus, not mesh */
    /* renumbering ranks r -> r+1 mod ranks maps the network onto itself (star, ring, full, dln of
     * equal speeds) */
    bool rotational;
    /* moving all ranks along any dimension maps the network onto itself (torus, hypercube of equal
     * speeds) */
    bool toroidal;
    /* messages that a rank may have in flight each way; 0: not declared, any number over all its
     * links */
    uint32_t ports;
    double gamma;         /* seconds per reduced byte */
    uint64_t overhead_ps; /* host time per message */
    struct tt_memory memory;
    struct tt_tree *tree; /* hierarchy (tree:, nics:): nesting of ranks, else NULL; see below */
    enum tt_routing routing;
    struct tt_routes *routes; /* routing tables (route.c); made with the topology */
    /* of everything that influences time; equal networks have equal hashes on every machine */
    uint64_t hash;
};

/* A hierarchy: node 0 is the root; leaves are ranks. Children of node i are first[i] ..
 * first[i]+count[i]-1 (breadth-first numbering). */
struct tt_tree {
    uint32_t nnodes;
    uint32_t *first, *count; /* count 0: a leaf */
    uint32_t *rank;          /* leaf: its rank; inner: UINT32_MAX */
    uint32_t *parent;        /* UINT32_MAX for the root */
    uint32_t *uplink;        /* link id to the parent; UINT32_MAX for the root */
};

/* Makes a topology from "kind:parameters[@link]" or, when `spec` names a readable file (or is "-"),
 * from that file. parse accepts a spec only, read and read_memory a file in any known format. The
 * caller frees *ret with tt_topo_free. Errors name the place: file and line, or the parameter. */
tutti_status tt_topo_open(const char *spec, struct tt_topo **ret, struct tutti_error *err);
tutti_status tt_topo_parse(const char *spec, struct tt_topo **ret, struct tutti_error *err);
tutti_status tt_topo_read(FILE *in, const char *name, struct tt_topo **ret,
                          struct tutti_error *err);
tutti_status tt_topo_read_memory(const char *data, size_t len, const char *name,
                                 struct tt_topo **ret, struct tutti_error *err);
/* Writes the versioned JSON file; what was written reads back with the same hash and writes the
 * same bytes. */
tutti_status tt_topo_write(const struct tt_topo *t, FILE *out, struct tutti_error *err);
/* For Graphviz and SimGrid (convert.c). Errors of the stream are left for the caller to check. */
void tt_topo_write_dot(const struct tt_topo *t, FILE *out);
void tt_topo_write_simgrid(const struct tt_topo *t, FILE *out);
/* The text that file_ns3.c reads, for ns-3's RDMA simulations and ASTRA-sim on them; REFUSED where
 * the directions of a link differ or share it. */
tutti_status tt_topo_write_ns3(const struct tt_topo *t, FILE *out, struct tutti_error *err);
void tt_topo_free(struct tt_topo *t); /* accepts NULL and half-built ones */

/* For generators and readers: an empty topology, links appended, then finished (checks, adjacency,
 * routes, hash). */
tutti_status tt_topo_new(const char *kind, uint32_t ranks, uint32_t switches, struct tt_topo **ret,
                         struct tutti_error *err);
tutti_status tt_topo_add_link(struct tt_topo *t, const struct tt_link *link,
                              struct tutti_error *err);
/* Fails when ranks cannot all reach each other (naming two), a bandwidth is not positive, or a
 * limit is exceeded. Takes over t: freed on failure. */
tutti_status tt_topo_finish(struct tt_topo *t, struct tt_topo **ret, struct tutti_error *err);

/* The route src -> dst (ranks, src != dst) as directed link ids into links[cap]; *ret_len is its
 * length. `cap` must be at least tt_topo_max_route(). Deterministic, thread-safe (tables are made
 * when the topology is). */
tutti_status tt_topo_route(const struct tt_topo *t, uint32_t src, uint32_t dst, uint32_t *links,
                           uint32_t cap, uint32_t *ret_len, struct tutti_error *err);
uint32_t tt_topo_max_route(const struct tt_topo *t); /* an upper bound on route length */
/* Names for messages: "rank 3", "switch 2" or the given name. Returns buf. */
char *tt_topo_vertex_name(const struct tt_topo *t, uint32_t v, char *buf, size_t cap);
/* The rank that a text names: its number, "rank N", or the name it was given. */
tutti_status tt_topo_find_rank(const struct tt_topo *t, const char *text, uint32_t *ret,
                               struct tutti_error *err);
/* Directed link ids (uint32_t) that a text names: "rank 3-switch 0" (both ways), "rank 3 -> switch
 * 0", or a cable's number (both ways). A half-duplex cable is given once, by its first
 * direction. */
tutti_status tt_topo_find_links(const struct tt_topo *t, const char *text, struct tt_vec *ret,
                                struct tutti_error *err);

/* A directed link is slower by a factor > 0; INFINITY: its cable is down. */
struct tt_topo_change {
    uint32_t link;
    double factor;
};
/* The network with these changes; several changes of one link multiply. Fails when ranks can no
 * longer reach each other. */
tutti_status tt_topo_change(const struct tt_topo *t, const struct tt_topo_change *change, size_t n,
                            struct tt_topo **ret, struct tutti_error *err);

/* ---- are two networks the same? (compare.c) ---- */
/* Of cables, ports, gamma and overhead only: equal for equal networks, whatever the order of links,
 * their spelling, names and kind. (t->hash also holds what schedules are made from: the order of
 * links, routing, dimensions and hierarchy.) */
uint64_t tt_topo_cables_hash(const struct tt_topo *t);
/* The first difference of two networks, for a sentence. BOTH: `what` ("the link 1-2") has `a` ("10
 * Gbit/s") here and `b` there. ONLY_A, ONLY_B: only that one has `what` ("a link 2-4 of 10
 * Gbit/s"). Fixed size: it travels. */
enum tt_topo_diff_side { TT_TOPO_BOTH, TT_TOPO_ONLY_A, TT_TOPO_ONLY_B };
struct tt_topo_diff {
    uint32_t differs;
    uint32_t side; /* enum tt_topo_diff_side */
    char what[112], a[112], b[112];
};
tutti_status tt_topo_compare(const struct tt_topo *a, const struct tt_topo *b,
                             struct tt_topo_diff *ret, struct tutti_error *err);

struct tt_topo_metrics {
    uint32_t ranks, switches, links;
    uint32_t degree;   /* largest over ranks; over switches when every rank has one link */
    uint32_t diameter; /* links between the farthest ranks */
    double mean_path;  /* mean links over ordered pairs of different ranks */
    /* false, on large irregular networks: the two are those of pairs of some ranks with all */
    bool exact;
};
/* By closed forms where the network has them, else by searches of bounded work. */
tutti_status tt_topo_measure(const struct tt_topo *t, struct tt_topo_metrics *ret,
                             struct tutti_error *err);

/* The fewest cables between two halves of the ranks (sizes differing by at most 1), as far as
 * known: *ret_exact, or an upper bound, which is a cut that was found. */
tutti_status tt_topo_bisection(const struct tt_topo *t, uint64_t *ret_links, bool *ret_exact,
                               struct tutti_error *err);

/* Cable on a floor of racks; floor.c describes the model. */
struct tt_topo_floor {
    uint32_t per_rack; /* positions: ranks, or switches with their hosts */
    uint32_t racks, rows, columns;
    uint64_t total_mm, longest_mm;
    uint32_t between; /* cables that leave their rack */
};
/* False when the network has no such layout: its switches are not positions of a loop, or per_rack
 * is 0. */
bool tt_topo_floor(const struct tt_topo *t, uint32_t per_rack, struct tt_topo_floor *ret);

/* Cables that nothing can cross, since no rank is behind one of their ends; *ret_first: the first
 * one, in that direction. 0 also without memory, and with one rank. */
uint32_t tt_topo_nowhere(const struct tt_topo *t, uint32_t *ret_first);

/* Injection ports of rank r: declared, or one for each of its links, switches or not. Its egress
 * and ingress in bytes/s: of its fastest links, as many as it has ports. */
uint32_t tt_topo_ports(const struct tt_topo *t, uint32_t rank);
double tt_topo_egress(const struct tt_topo *t, uint32_t rank);
double tt_topo_ingress(const struct tt_topo *t, uint32_t rank);

/* The kinds a spec may name, for help and near matches: name, form, example, description. */
struct tt_topo_kind {
    const char *name, *form, *example, *desc;
};
const struct tt_topo_kind *tt_topo_kinds(size_t *ret_n);
/* Its kind for a sentence: "star"; "a network without a named form" when it was measured or read
 * from a file that names none. */
const char *tt_topo_words(const struct tt_topo *t);
#endif
