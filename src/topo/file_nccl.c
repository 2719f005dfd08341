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
 * GPUs are numbered by `dev`.
 *
 * Rates are those of NCCL's own tables as far as they are remembered here (not confirmed on a real
 * dump): 18 (sm 60), 20 (70, 80), 12 (86) and 20.6 GB/s (90) per NVLink and
 * direction; PCI 0.1875 GB/s per lane and GT/s of encoded speed (12 GB/s for 16 lanes of 8 GT/s);
 * 10 GB/s between Intel processors, 16 between AMD's, 32 between IBM's, else 6. */
#include <stdlib.h>
#include <string.h>

#include "topo/machine.h"

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

/* ---- elements ---- */

static tutti_status start_cpu(struct tt_machine *m, uint32_t *ret)
{
    const double bw = tt_topo_machine_cpu_rate(tt_topo_machine_value(m, "vendor"),
                                               tt_topo_machine_value(m, "arch"));
    m->cpu_bw = m->cpu_bw > bw ? m->cpu_bw : bw;
    if (m->cpus++ == TT_MACHINE_CPUS)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d processors", TT_MACHINE_CPUS);
    return tt_topo_machine_add(m, (struct tt_device){.kind = TT_DEVICE_CPU}, ret);
}

static tutti_status start_pci(struct tt_machine *m, uint32_t *ret)
{
    uint64_t width = 16;
    tutti_status st = tt_topo_machine_number(m, "link_width", 64, 16, &width);
    struct tt_device n = {.kind = TT_DEVICE_PCI};
    snprintf(n.bus, sizeof n.bus, "%.31s", tt_topo_machine_value(m, "busid"));
    n.up = (double)(width ? width : 16) * lane_rate(tt_topo_machine_value(m, "link_speed")) * 1e9;
    return st ? st : tt_topo_machine_add(m, n, ret);
}

/* The GPU takes the place of the PCI function around it. */
static tutti_status start_gpu(struct tt_machine *m)
{
    uint64_t dev = 0, sm = 0;
    const uint32_t pci = m->stack[m->x.depth - 1];
    tutti_status st = tt_topo_machine_number(m, "dev", 1 << 16, 0, &dev);
    if (!st)
        st = tt_topo_machine_number(m, "sm", 999, 70, &sm);
    if (st)
        return st;
    if (pci == TT_NOWHERE || tt_topo_machine_at(m, pci)->kind != TT_DEVICE_PCI)
        return tt_topo_xml_fail(&m->x, m->err, "<gpu> outside of <pci>, or two in one");
    tt_topo_machine_at(m, pci)->kind = TT_DEVICE_GPU;
    tt_topo_machine_at(m, pci)->dev = (uint32_t)dev;
    tt_topo_machine_at(m, pci)->nvlink = nvlink_rate((uint32_t)sm);
    return TUTTI_OK;
}

static tutti_status start_nvlink(struct tt_machine *m)
{
    uint64_t count = 1;
    const char *class = tt_topo_machine_value(m, "tclass");
    struct tt_nvlink l = {.gpu = m->stack[m->x.depth - 1]};
    tutti_status st = tt_topo_machine_number(m, "count", 64, 1, &count);
    if (st)
        return st;
    if (l.gpu == TT_NOWHERE || tt_topo_machine_at(m, l.gpu)->kind != TT_DEVICE_GPU)
        return tt_topo_xml_fail(&m->x, m->err, "<nvlink> outside of <gpu>");
    if (m->nvlinks.len == TT_MACHINE_NVLINKS)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d NVLinks", TT_MACHINE_NVLINKS);
    l.to_switch = !strncmp(class, "0x0680", 6);
    l.count = (uint32_t)count;
    snprintf(l.target, sizeof l.target, "%.31s", tt_topo_machine_value(m, "target"));
    return !count || tt_vec_push(&m->nvlinks, &l, 1) ? TUTTI_OK : tt_fail_memory(m->err, "NVLinks");
}

/* Ports of one card add up; the card takes the place of its PCI function. */
static tutti_status start_net(struct tt_machine *m)
{
    uint64_t mbps = 0;
    const uint32_t pci = m->stack[m->x.depth - 1];
    tutti_status st = tt_topo_machine_number(m, "speed", 100000000, 10000, &mbps);
    if (st)
        return st;
    if (pci == TT_NOWHERE)
        return TUTTI_OK; /* sockets that belong to no device */
    struct tt_device *n = tt_topo_machine_at(m, pci);
    if (n->kind == TT_DEVICE_PCI)
        n->kind = TT_DEVICE_NIC;
    n->net += (double)mbps * 1e6 / 8;
    return TUTTI_OK;
}

/* An element that is unknown, or only wraps others (nic), stands for its parent. */
static tutti_status machine_start(struct tt_machine *m, const char *name)
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

tutti_status tt_topo_machine_nccl(struct tt_machine *m)
{
    enum tt_xml_kind kind;
    const char *name = NULL;
    bool any = false;
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
