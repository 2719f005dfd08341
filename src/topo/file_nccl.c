/* file_nccl.c - reads the XML in which NCCL describes a machine (NCCL_TOPO_DUMP_FILE): processors,
 * PCI bridges, GPUs with their NVLinks, network cards.
 *
 *     <system version="1">
 *       <cpu numaid="0" vendor="GenuineIntel">
 *         <pci busid="0000:05:00.0" class="0x060400" link_speed="8 GT/s" link_width="16">
 *           <pci busid="0000:06:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
 *             <gpu dev="0" sm="70" rank="0">
 *               <nvlink target="0000:07:00.0" count="1" tclass="0x030200"/>
 *             </gpu>
 *           </pci>
 *           <pci busid="0000:0c:00.0" class="0x020700" ...>
 *             <nic><net name="mlx5_0" speed="100000"/></nic>
 *           </pci>
 *
 * GPUs become ranks in the order of `dev`. NVLinks to NVSwitches become one cable to one switch, as
 * NCCL sees them; NVLinks between GPUs are cables of their own. Where NVLink alone joins all GPUs
 * of a single host, PCI is left out, as NCCL does not use it then. With several hosts
 * (FILE,hosts=N) the machine is repeated, and its network cards are joined by one switch that
 * never blocks.
 *
 * Rates are those of NCCL's own tables as far as they are remembered here (not confirmed on a real
 * dump): 18 (sm 60), 20 (70, 80), 12 (86) and 20.6 GB/s (90) per NVLink and
 * direction; PCI 0.1875 GB/s per lane and GT/s of encoded speed (12 GB/s for 16 lanes of 8 GT/s);
 * 10 GB/s between Intel processors, 16 between AMD's, 32 between IBM's, else 6. The file has no
 * latencies: each link gets LATENCY_PS. Memory grows with the bytes of the file. */
#include "topo/topo_int.h"

#include <stdlib.h>
#include <string.h>

#include "topo/file.h"
#include "topo/xml.h"

enum {
    BYTES_MAX = 16 << 20,
    NODES_MAX = 4096,
    CPUS_MAX = 64,
    NVLINKS_MAX = 8192,
    NOWHERE = UINT32_MAX
};
static const uint64_t LATENCY_PS = 500000;

enum node_kind { NODE_CPU, NODE_PCI, NODE_GPU, NODE_NIC, NODE_NVSWITCH };

/* Something of the machine. Links to the parent carry `up` bytes/s each way. */
struct node {
    enum node_kind kind;
    uint32_t parent;
    double up;
    char bus[32];
    uint32_t dev, sm;
    double net; /* NIC: to the network */
    uint32_t vertex;
    bool used; /* a GPU or a NIC is at or below it */
};
/* NVLinks of one GPU to one target. */
struct nvlink {
    uint32_t gpu; /* node */
    char target[32];
    bool to_switch;
    uint32_t count;
    uint32_t to; /* the GPU at the other end, by its rank; NOWHERE: none of this machine */
};

struct machine {
    struct tt_xml x;
    struct tt_vec nodes;   /* struct node */
    struct tt_vec nvlinks; /* struct nvlink */
    uint32_t stack[TT_XML_DEPTH + 1];
    uint32_t cpus;
    double cpu_bw; /* between processors */
    struct tutti_error *err;
};

static struct node *node_at(const struct machine *m, uint32_t i)
{
    return tt_vec_at(&m->nodes, i);
}

static const char *value(const struct machine *m, const char *key)
{
    const char *v = tt_topo_xml_value(&m->x, key);
    return v ? v : "";
}

/* A number in an attribute; dflt when it is missing. */
static tutti_status number(struct machine *m, const char *key, uint64_t max, uint64_t dflt,
                           uint64_t *ret)
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

/* ---- rates ---- */

/* Of one lane, from "8 GT/s" (also "8.0 GT/s PCIe"), in GB/s; what NCCL's table has. */
static double lane_rate(const char *speed)
{
    const double gt = strtod(speed, NULL);
    if (gt <= 0)
        return 0.75; /* unknown: as the third generation */
    return gt < 4 ? 0.1875 : gt < 7 ? 0.375 : gt < 12 ? 0.75 : gt < 24 ? 1.5 : gt < 48 ? 3 : 6;
}

static double nvlink_rate(uint32_t sm)
{
    return sm >= 90 ? 20.6e9 : sm == 86 ? 12e9 : sm >= 70 ? 20e9 : 18e9;
}

static double cpu_rate(const char *vendor, const char *arch)
{
    if (strstr(vendor, "Intel"))
        return 10e9;
    if (strstr(vendor, "AMD"))
        return 16e9;
    return strstr(arch, "ppc") ? 32e9 : 6e9;
}

/* ---- elements ---- */

static tutti_status add_node(struct machine *m, struct node n, uint32_t *ret)
{
    *ret = (uint32_t)m->nodes.len;
    n.parent = m->stack[m->x.depth - 1];
    if (m->nodes.len == NODES_MAX)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d devices", NODES_MAX);
    return tt_vec_push(&m->nodes, &n, 1) ? TUTTI_OK : tt_fail_memory(m->err, "machine");
}

static tutti_status start_cpu(struct machine *m, uint32_t *ret)
{
    const double bw = cpu_rate(value(m, "vendor"), value(m, "arch"));
    m->cpu_bw = m->cpu_bw > bw ? m->cpu_bw : bw;
    if (m->cpus++ == CPUS_MAX)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d processors", CPUS_MAX);
    return add_node(m, (struct node){.kind = NODE_CPU}, ret);
}

static tutti_status start_pci(struct machine *m, uint32_t *ret)
{
    uint64_t width = 16;
    tutti_status st = number(m, "link_width", 64, 16, &width);
    struct node n = {.kind = NODE_PCI};
    snprintf(n.bus, sizeof n.bus, "%.31s", value(m, "busid"));
    n.up = (double)(width ? width : 16) * lane_rate(value(m, "link_speed")) * 1e9;
    return st ? st : add_node(m, n, ret);
}

/* The GPU takes the place of the PCI function around it. */
static tutti_status start_gpu(struct machine *m)
{
    uint64_t dev = 0, sm = 0;
    const uint32_t pci = m->stack[m->x.depth - 1];
    tutti_status st = number(m, "dev", 1 << 16, 0, &dev);
    if (!st)
        st = number(m, "sm", 999, 70, &sm);
    if (st)
        return st;
    if (pci == NOWHERE || node_at(m, pci)->kind != NODE_PCI)
        return tt_topo_xml_fail(&m->x, m->err, "<gpu> outside of <pci>, or two in one");
    node_at(m, pci)->kind = NODE_GPU;
    node_at(m, pci)->dev = (uint32_t)dev;
    node_at(m, pci)->sm = (uint32_t)sm;
    return TUTTI_OK;
}

static tutti_status start_nvlink(struct machine *m)
{
    uint64_t count = 1;
    const char *class = value(m, "tclass");
    struct nvlink l = {.gpu = m->stack[m->x.depth - 1]};
    tutti_status st = number(m, "count", 64, 1, &count);
    if (st)
        return st;
    if (l.gpu == NOWHERE || node_at(m, l.gpu)->kind != NODE_GPU)
        return tt_topo_xml_fail(&m->x, m->err, "<nvlink> outside of <gpu>");
    if (m->nvlinks.len == NVLINKS_MAX)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d NVLinks", NVLINKS_MAX);
    l.to_switch = !strncmp(class, "0x0680", 6);
    l.count = (uint32_t)count;
    snprintf(l.target, sizeof l.target, "%.31s", value(m, "target"));
    return !count || tt_vec_push(&m->nvlinks, &l, 1) ? TUTTI_OK : tt_fail_memory(m->err, "NVLinks");
}

/* Ports of one card add up; the card takes the place of its PCI function. */
static tutti_status start_net(struct machine *m)
{
    uint64_t mbps = 0;
    const uint32_t pci = m->stack[m->x.depth - 1];
    tutti_status st = number(m, "speed", 100000000, 10000, &mbps);
    if (st)
        return st;
    if (pci == NOWHERE)
        return TUTTI_OK; /* sockets that belong to no device */
    struct node *n = node_at(m, pci);
    if (n->kind == NODE_PCI)
        n->kind = NODE_NIC;
    n->net += (double)mbps * 1e6 / 8;
    return TUTTI_OK;
}

/* An element that is unknown, or only wraps others (nic), stands for its parent. */
static tutti_status machine_start(struct machine *m, const char *name)
{
    const uint32_t depth = m->x.depth;
    uint32_t mine = m->stack[depth - 1];
    tutti_status st = TUTTI_OK;
    if (tt_streq(name, "cpu"))
        st = start_cpu(m, &mine);
    else if (tt_streq(name, "pci"))
        st = start_pci(m, &mine);
    else if (tt_streq(name, "gpu"))
        st = start_gpu(m);
    else if (tt_streq(name, "nvlink"))
        st = start_nvlink(m);
    else if (tt_streq(name, "net"))
        st = start_net(m);
    m->stack[depth] = mine;
    return st;
}

static tutti_status read_machine(struct machine *m)
{
    enum tt_xml_kind kind;
    const char *name = NULL;
    bool any = false;
    m->stack[0] = NOWHERE;
    for (;;) {
        tutti_status st = tt_topo_xml_next(&m->x, &kind, &name, m->err);
        if (st || kind == TT_XML_END_OF_FILE)
            return st ? st : any ? TUTTI_OK : tt_topo_xml_fail(&m->x, m->err, "no <system>");
        if (kind != TT_XML_START)
            continue;
        if (!any && !tt_streq(name, "system"))
            return tt_topo_xml_fail(&m->x, m->err,
                                    "<%s>: NCCL's files begin with <system> (NCCL_TOPO_DUMP_FILE "
                                    "writes them)",
                                    name);
        any = true;
        st = machine_start(m, name);
        if (st)
            return st;
    }
}

/* ---- the network ---- */

/* What becomes a vertex, and of which number. */
struct build {
    struct machine *m;
    uint32_t hosts, ranks, switches; /* of one host */
    uint32_t nvswitch;               /* vertex among the switches of a host; NOWHERE: none */
    bool pci;
    struct tt_topo *t;
};

static int compare_devs(const void *a, const void *b)
{
    const struct node *const *x = a, *const *y = b;
    return (*x)->dev < (*y)->dev ? -1 : (*x)->dev > (*y)->dev;
}

/* Ranks by `dev`; equal ones in the order of the file, since qsort gets them by address. */
static tutti_status number_gpus(struct build *b)
{
    struct machine *m = b->m;
    struct node **gpu = tt_alloc(m->nodes.len + 1, sizeof *gpu);
    if (!gpu)
        return tt_fail_memory(m->err, "GPUs");
    for (uint32_t i = 0; i < m->nodes.len; i++)
        if (node_at(m, i)->kind == NODE_GPU)
            gpu[b->ranks++] = node_at(m, i);
    if (b->ranks)
        qsort(gpu, b->ranks, sizeof *gpu, compare_devs);
    for (uint32_t i = 0; i < b->ranks; i++)
        gpu[i]->vertex = i;
    free(gpu);
    return b->ranks ? TUTTI_OK : tt_topo_xml_fail(&m->x, m->err, "the machine has no GPU");
}

/* The GPU at the other end of every NVLink. */
static void resolve_nvlinks(struct machine *m)
{
    for (size_t i = 0; i < m->nvlinks.len; i++) {
        struct nvlink *l = tt_vec_at(&m->nvlinks, i);
        l->to = NOWHERE;
        for (uint32_t k = 0; !l->to_switch && k < m->nodes.len; k++)
            if (node_at(m, k)->kind == NODE_GPU && !strcasecmp(node_at(m, k)->bus, l->target))
                l->to = node_at(m, k)->vertex;
    }
}

/* Does NVLink alone join all GPUs? Grows the set of what GPU 0 reaches; the NVSwitch stands behind
 * the last GPU. */
static bool nvlink_joins(const struct build *b, bool *seen)
{
    const struct machine *m = b->m;
    bool more = true;
    uint32_t n = 0;
    seen[0] = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < m->nvlinks.len; i++) {
            const struct nvlink *l = tt_vec_at(&m->nvlinks, i);
            bool *one = &seen[node_at(m, l->gpu)->vertex];
            bool *two = l->to_switch ? &seen[b->ranks] : l->to != NOWHERE ? &seen[l->to] : one;
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
    struct machine *m = b->m;
    for (uint32_t i = (uint32_t)m->nodes.len; b->pci && i-- > 0;) {
        struct node *n = node_at(m, i);
        n->used = n->used || n->kind == NODE_GPU || (n->kind == NODE_NIC && b->hosts > 1);
        if (n->used && n->parent != NOWHERE)
            node_at(m, n->parent)->used = true;
    }
    b->nvswitch = NOWHERE;
    for (uint32_t i = 0; i < m->nodes.len; i++) {
        struct node *n = node_at(m, i);
        if (n->kind != NODE_GPU && n->used)
            n->vertex = b->switches++;
    }
    for (size_t i = 0; i < m->nvlinks.len; i++)
        if (((struct nvlink *)tt_vec_at(&m->nvlinks, i))->to_switch && b->nvswitch == NOWHERE)
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

static uint32_t vertex_of(const struct build *b, uint32_t h, const struct node *n)
{
    return n->kind == NODE_GPU ? rank_of(b, h, n->vertex) : switch_of(b, h, n->vertex);
}

static tutti_status join(struct build *b, uint32_t from, uint32_t to, double bw)
{
    const struct tt_link l = {.a = from, .b = to, .bw = {bw, bw}, .latency_ps = LATENCY_PS};
    return tt_topo_add_link(b->t, &l, b->m->err);
}

/* The PCI tree, processors all joined with each other, network cards. */
static tutti_status join_pci(struct build *b, uint32_t h)
{
    struct machine *m = b->m;
    tutti_status st = TUTTI_OK;
    const uint32_t network = b->hosts * (b->ranks + b->switches);
    for (uint32_t i = 0; !st && i < m->nodes.len; i++) {
        const struct node *n = node_at(m, i);
        if (!n->used)
            continue;
        if (n->parent != NOWHERE)
            st = join(b, vertex_of(b, h, n), vertex_of(b, h, node_at(m, n->parent)), n->up);
        for (uint32_t k = 0; !st && n->kind == NODE_CPU && k < i; k++)
            if (node_at(m, k)->kind == NODE_CPU && node_at(m, k)->used)
                st = join(b, vertex_of(b, h, n), vertex_of(b, h, node_at(m, k)), m->cpu_bw);
        if (!st && n->kind == NODE_NIC)
            st = join(b, vertex_of(b, h, n), network, n->net);
    }
    return st;
}

/* NVLinks between two GPUs stand at both; the one of the lower rank counts. Those of one GPU to all
 * NVSwitches are one cable. */
static tutti_status join_nvlinks(struct build *b, uint32_t h)
{
    struct machine *m = b->m;
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; !st && r < b->ranks; r++) {
        double to_switch = 0;
        for (size_t i = 0; !st && i < m->nvlinks.len; i++) {
            const struct nvlink *l = tt_vec_at(&m->nvlinks, i);
            const struct node *gpu = node_at(m, l->gpu);
            if (gpu->vertex != r)
                continue;
            if (l->to_switch)
                to_switch += l->count * nvlink_rate(gpu->sm);
            else if (l->to != NOWHERE && l->to > r)
                st = join(b, rank_of(b, h, r), rank_of(b, h, l->to),
                          l->count * nvlink_rate(gpu->sm));
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
    b->t->spec = tt_strdup(strlen(name) <= TT_TOPO_MAX_NAME / 4 ? name : "nccl");
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
        nics = nics || node_at(b->m, i)->kind == NODE_NIC;
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

tutti_status tt_topo_file_nccl(const char *data, size_t len, const char *name, uint32_t hosts,
                               struct tt_topo **ret, struct tutti_error *err)
{
    struct machine *m = tt_zalloc(1, sizeof *m);
    if (!m)
        return tt_fail_memory(err, "machine");
    m->nodes.elem = sizeof(struct node);
    m->nvlinks.elem = sizeof(struct nvlink);
    m->err = err;
    tt_topo_xml_open(&m->x, data, len, name);
    struct build b = {.m = m, .hosts = hosts};
    tutti_status st = len > BYTES_MAX
                          ? tt_topo_xml_fail(&m->x, err, "more than %d bytes", BYTES_MAX)
                          : read_machine(m);
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
