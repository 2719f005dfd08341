/* machine.c - the network of a machine that NCCL or hwloc describes.
 *
 * GPUs become ranks in the order of their numbers. NVLinks to NVSwitches become one cable to one
 * switch, as NCCL sees them; NVLinks between GPUs are cables of their own. Where NVLink alone joins
 * all GPUs of a single host, PCI is left out, as NCCL does not use it then. With several hosts the
 * machine is repeated, and its network cards are joined by one switch that never blocks. The files
 * have no latencies: each link gets LATENCY_PS. Memory grows with the bytes of the file. */
#include "topo/machine.h"

#include <stdlib.h>
#include <string.h>

#include "topo/file.h"
#include "topo/topo_int.h"

static const uint64_t LATENCY_PS = 500000;

struct tt_device *tt_topo_machine_at(const struct tt_machine *m, uint32_t i)
{
    return tt_vec_at(&m->nodes, i);
}

const char *tt_topo_machine_value(const struct tt_machine *m, const char *key)
{
    const char *v = tt_topo_xml_value(&m->x, key);
    return v ? v : "";
}

/* A number in an attribute; dflt when it is missing. */
tutti_status tt_topo_machine_number(struct tt_machine *m, const char *key, uint64_t max,
                                    uint64_t dflt, uint64_t *ret)
{
    const char *v = tt_topo_xml_value(&m->x, key);
    struct tutti_error why;
    *ret = dflt;
    if (!v || !*v)
        return TUTTI_OK;
    if (tt_parse_u64(v, 0, max, ret, &why))
        return tt_topo_xml_fail(&m->x, m->err, "%s=\"%.40s\": a number from 0 to %llu is expected",
                                key, v, (unsigned long long)max);
    return TUTTI_OK;
}

tutti_status tt_topo_machine_add(struct tt_machine *m, struct tt_device n, uint32_t *ret)
{
    *ret = (uint32_t)m->nodes.len;
    n.parent = m->stack[m->x.depth - 1];
    if (m->nodes.len == TT_MACHINE_NODES)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d devices", TT_MACHINE_NODES);
    return tt_vec_push(&m->nodes, &n, 1) ? TUTTI_OK : tt_fail_memory(m->err, "machine");
}

double tt_topo_machine_cpu_rate(const char *vendor, const char *arch)
{
    if (strstr(vendor, "Intel"))
        return 10e9;
    if (strstr(vendor, "AMD"))
        return 16e9;
    return strstr(arch, "ppc") ? 32e9 : 6e9;
}

/* ---- the network ---- */

/* What becomes a vertex, and of which number. */
struct build {
    struct tt_machine *m;
    uint32_t hosts, ranks, switches; /* of one host */
    uint32_t nvswitch;               /* vertex among the switches of a host; TT_NOWHERE: none */
    bool pci;
    struct tt_topo *t;
};

static int compare_devs(const void *a, const void *b)
{
    const struct tt_device *const *x = a, *const *y = b;
    return (*x)->dev < (*y)->dev ? -1 : (*x)->dev > (*y)->dev;
}

/* Ranks by `dev`; equal ones in the order of the file, since qsort gets them by address. */
static tutti_status number_gpus(struct build *b)
{
    struct tt_machine *m = b->m;
    struct tt_device **gpu = tt_alloc(m->nodes.len + 1, sizeof *gpu);
    if (!gpu)
        return tt_fail_memory(m->err, "GPUs");
    for (uint32_t i = 0; i < m->nodes.len; i++)
        if (tt_topo_machine_at(m, i)->kind == TT_DEVICE_GPU)
            gpu[b->ranks++] = tt_topo_machine_at(m, i);
    if (b->ranks)
        qsort(gpu, b->ranks, sizeof *gpu, compare_devs);
    for (uint32_t i = 0; i < b->ranks; i++)
        gpu[i]->vertex = i;
    free(gpu);
    return b->ranks ? TUTTI_OK : tt_topo_xml_fail(&m->x, m->err, "the machine has no GPU");
}

/* The GPU at the other end of every NVLink. */
static void resolve_nvlinks(struct tt_machine *m)
{
    for (size_t i = 0; i < m->nvlinks.len; i++) {
        struct tt_nvlink *l = tt_vec_at(&m->nvlinks, i);
        l->to = TT_NOWHERE;
        for (uint32_t k = 0; !l->to_switch && k < m->nodes.len; k++)
            if (tt_topo_machine_at(m, k)->kind == TT_DEVICE_GPU &&
                !strcasecmp(tt_topo_machine_at(m, k)->bus, l->target))
                l->to = tt_topo_machine_at(m, k)->vertex;
    }
}

/* Does NVLink alone join all GPUs? Grows the set of what GPU 0 reaches; the NVSwitch stands behind
 * the last GPU. */
static bool nvlink_joins(const struct build *b, bool *seen)
{
    const struct tt_machine *m = b->m;
    bool more = true;
    uint32_t n = 0;
    seen[0] = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < m->nvlinks.len; i++) {
            const struct tt_nvlink *l = tt_vec_at(&m->nvlinks, i);
            bool *one = &seen[tt_topo_machine_at(m, l->gpu)->vertex];
            bool *two = l->to_switch ? &seen[b->ranks] : l->to != TT_NOWHERE ? &seen[l->to] : one;
            more = more || *one != *two;
            *one = *two = *one || *two;
        }
    }
    for (uint32_t i = 0; i < b->ranks; i++)
        n += seen[i];
    return n == b->ranks;
}

/* PCI bridges and processors with a GPU or (several hosts) a NIC below them are switches. */
static void number_switches(struct build *b)
{
    struct tt_machine *m = b->m;
    for (uint32_t i = (uint32_t)m->nodes.len; b->pci && i-- > 0;) {
        struct tt_device *n = tt_topo_machine_at(m, i);
        n->used = n->used || n->kind == TT_DEVICE_GPU || (n->kind == TT_DEVICE_NIC && b->hosts > 1);
        if (n->used && n->parent != TT_NOWHERE)
            tt_topo_machine_at(m, n->parent)->used = true;
    }
    b->nvswitch = TT_NOWHERE;
    for (uint32_t i = 0; i < m->nodes.len; i++) {
        struct tt_device *n = tt_topo_machine_at(m, i);
        if (n->kind != TT_DEVICE_GPU && n->used)
            n->vertex = b->switches++;
    }
    for (size_t i = 0; i < m->nvlinks.len; i++)
        if (((struct tt_nvlink *)tt_vec_at(&m->nvlinks, i))->to_switch && b->nvswitch == TT_NOWHERE)
            b->nvswitch = b->switches++;
}

/* Vertices of host h: its ranks, then all switches after the ranks of all hosts. */
static uint32_t rank_of(const struct build *b, uint32_t h, uint32_t i)
{
    return h * b->ranks + i;
}

static uint32_t switch_of(const struct build *b, uint32_t h, uint32_t i)
{
    return b->hosts * b->ranks + h * b->switches + i;
}

static uint32_t vertex_of(const struct build *b, uint32_t h, const struct tt_device *n)
{
    return n->kind == TT_DEVICE_GPU ? rank_of(b, h, n->vertex) : switch_of(b, h, n->vertex);
}

static tutti_status join(struct build *b, uint32_t from, uint32_t to, double bw)
{
    const struct tt_link l = {.a = from, .b = to, .bw = {bw, bw}, .latency_ps = LATENCY_PS};
    return tt_topo_add_link(b->t, &l, b->m->err);
}

/* The PCI tree, processors all joined with each other, network cards. */
static tutti_status join_pci(struct build *b, uint32_t h)
{
    struct tt_machine *m = b->m;
    tutti_status st = TUTTI_OK;
    const uint32_t network = b->hosts * (b->ranks + b->switches);
    for (uint32_t i = 0; !st && i < m->nodes.len; i++) {
        const struct tt_device *n = tt_topo_machine_at(m, i);
        if (!n->used)
            continue;
        if (n->parent != TT_NOWHERE)
            st = join(b, vertex_of(b, h, n), vertex_of(b, h, tt_topo_machine_at(m, n->parent)),
                      n->up);
        for (uint32_t k = 0; !st && n->kind == TT_DEVICE_CPU && k < i; k++)
            if (tt_topo_machine_at(m, k)->kind == TT_DEVICE_CPU && tt_topo_machine_at(m, k)->used)
                st = join(b, vertex_of(b, h, n), vertex_of(b, h, tt_topo_machine_at(m, k)),
                          m->cpu_bw);
        if (!st && n->kind == TT_DEVICE_NIC)
            st = join(b, vertex_of(b, h, n), network, n->net);
    }
    return st;
}

/* NVLinks between two GPUs stand at both; the one of the lower rank counts. Those of one GPU to all
 * NVSwitches are one cable. */
static tutti_status join_nvlinks(struct build *b, uint32_t h)
{
    struct tt_machine *m = b->m;
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; !st && r < b->ranks; r++) {
        double to_switch = 0;
        for (size_t i = 0; !st && i < m->nvlinks.len; i++) {
            const struct tt_nvlink *l = tt_vec_at(&m->nvlinks, i);
            const struct tt_device *gpu = tt_topo_machine_at(m, l->gpu);
            if (gpu->vertex != r)
                continue;
            if (l->to_switch)
                to_switch += l->count * gpu->nvlink;
            else if (l->to != TT_NOWHERE && l->to > r)
                st = join(b, rank_of(b, h, r), rank_of(b, h, l->to), l->count * gpu->nvlink);
        }
        if (!st && to_switch > 0)
            st = join(b, rank_of(b, h, r), switch_of(b, h, b->nvswitch), to_switch);
    }
    return st;
}

static tutti_status build_network(struct build *b, const char *name)
{
    const uint32_t network = b->hosts > 1;
    tutti_status st = tt_topo_new("custom", b->hosts * b->ranks, b->hosts * b->switches + network,
                                  &b->t, b->m->err);
    if (st)
        return st;
    b->t->spec = tt_strdup(strlen(name) <= TT_TOPO_MAX_NAME / 4 ? name : "machine");
    if (!b->t->spec)
        st = tt_fail_memory(b->m->err, "topology");
    for (uint32_t h = 0; !st && h < b->hosts; h++) {
        st = b->pci ? join_pci(b, h) : TUTTI_OK;
        if (!st)
            st = join_nvlinks(b, h);
    }
    return st;
}

/* Several hosts need a card each; a single one needs PCI only where NVLink does not join all. */
static tutti_status plan_network(struct build *b)
{
    tutti_status st = number_gpus(b);
    bool nics = false;
    if (st)
        return st;
    for (uint32_t i = 0; i < b->m->nodes.len; i++)
        nics = nics || tt_topo_machine_at(b->m, i)->kind == TT_DEVICE_NIC;
    if (b->hosts > 1 && !nics)
        return tt_topo_xml_fail(&b->m->x, b->m->err,
                                "several hosts need network cards, and the file has none (<net>)");
    bool *seen = tt_zalloc((size_t)b->ranks + 1, sizeof *seen);
    if (!seen)
        return tt_fail_memory(b->m->err, "GPUs");
    resolve_nvlinks(b->m);
    b->pci = b->hosts > 1 || !nvlink_joins(b, seen);
    free(seen);
    number_switches(b);
    return TUTTI_OK;
}

tutti_status tt_topo_machine(const char *data, size_t len, const char *name, uint32_t hosts,
                             tt_machine_reader read, struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_machine *m = tt_zalloc(1, sizeof *m);
    if (!m)
        return tt_fail_memory(err, "machine");
    m->nodes.elem = sizeof(struct tt_device);
    m->nvlinks.elem = sizeof(struct tt_nvlink);
    m->err = err;
    m->stack[0] = TT_NOWHERE;
    tt_topo_xml_open(&m->x, data, len, name);
    struct build b = {.m = m, .hosts = hosts};
    tutti_status st = len > TT_MACHINE_BYTES
                          ? tt_topo_xml_fail(&m->x, err, "more than %d bytes", TT_MACHINE_BYTES)
                          : read(m);
    if (!st)
        st = plan_network(&b);
    if (!st && (uint64_t)hosts * (b.ranks + b.switches) > TT_TOPO_MAX_RANKS)
        st = tt_fail(err, TUTTI_ERR_LIMIT, "%.200s: %u hosts of %u GPUs are too many", name, hosts,
                     b.ranks);
    if (!st)
        st = build_network(&b, name);
    tt_vec_free(&m->nodes);
    tt_vec_free(&m->nvlinks);
    free(m);
    if (st) {
        tt_topo_free(b.t);
        return st;
    }
    st = tt_topo_finish(b.t, ret, err);
    if (st)
        tt_fail_prefix(err, "%.200s", name);
    return st;
}
