/* file_hwloc.c - reads the XML that hwloc's lstopo writes about a machine (versions 2 and 3).
 *
 *     <topology version="2.0">
 *       <object type="Machine">
 *         <object type="Package">
 *           <info name="CPUVendor" value="GenuineIntel"/>
 *           <object type="Bridge" bridge_type="0-1">
 *             <object type="Bridge" bridge_type="1-1" pci_busid="0000:05:00.0"
 *                     pci_link_speed="15.75">
 *               <object type="PCIDev" pci_busid="0000:06:00.0" pci_link_speed="15.753846">
 *                 <object type="OSDev" name="cuda0" osdev_type="5"/>
 *
 * Ranks are the PCI devices that hold a device of CUDA, NVML, ROCm, Level Zero or OpenCL, in the
 * order of its number; without any, 3D controllers and accelerators in the order of the file. Links
 * carry pci_link_speed (GB/s), as hwloc gives it; between packages the rates of NCCL's table are
 * assumed. NVLinks stand in hwloc's matrix NVLinkBandwidth, which is not read: such a file is
 * refused rather than taken for a machine without NVLinks. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "topo/machine.h"

/* A package or the machine itself: what PCI hangs on. Neither is below the other. */
static tutti_status start_processor(struct tt_machine *m, uint32_t *ret)
{
    if (m->cpus++ == TT_MACHINE_CPUS)
        return tt_topo_xml_fail(&m->x, m->err, "more than %d processors", TT_MACHINE_CPUS);
    tutti_status st = tt_topo_machine_add(m, (struct tt_device){.kind = TT_DEVICE_CPU}, ret);
    if (!st)
        tt_topo_machine_at(m, *ret)->parent = TT_NOWHERE;
    return st;
}

/* A bridge between PCI and PCI, or a device. A host bridge has no link of its own. */
static tutti_status start_pci(struct tt_machine *m, uint32_t *ret)
{
    const char *speed = tt_topo_machine_value(m, "pci_link_speed"),
               *class = tt_topo_machine_value(m, "pci_type");
    struct tt_device n = {.kind = TT_DEVICE_PCI, .dev = TT_NOWHERE};
    char *end;
    if (tt_streq(tt_topo_machine_value(m, "bridge_type"), "0-1"))
        return TUTTI_OK;
    n.up = strtod(speed, &end) * 1e9;
    if (*end || !(n.up >= 0) || n.up > 1e15)
        return tt_topo_xml_fail(&m->x, m->err, "pci_link_speed=\"%.40s\": GB/s are expected",
                                speed);
    snprintf(n.bus, sizeof n.bus, "%.31s", tt_topo_machine_value(m, "pci_busid"));
    /* classes of GPUs without a display, and of accelerators */
    n.accelerator = !strncmp(class, "0302", 4) || !strncmp(class, "1200", 4);
    return tt_topo_machine_add(m, n, ret);
}

/* A device of the operating system makes the PCI device around it a GPU. */
static tutti_status start_device(struct tt_machine *m)
{
    static const char *const kinds[] = {"cuda", "nvml", "rsmi", "ze", "opencl"};
    const char *name = tt_topo_machine_value(m, "name"), *digit = name + strlen(name);
    const uint32_t pci = m->stack[m->x.depth - 1];
    bool gpu = false;
    for (size_t i = 0; i < countof(kinds); i++) {
        size_t len = strlen(kinds[i]);
        gpu = gpu || (!strncmp(name, kinds[i], len) && isdigit((unsigned char)name[len]));
    }
    if (!gpu || pci == TT_NOWHERE || tt_topo_machine_at(m, pci)->kind != TT_DEVICE_PCI)
        return TUTTI_OK;
    while (digit > name && isdigit((unsigned char)digit[-1]))
        digit--;
    tt_topo_machine_at(m, pci)->kind = TT_DEVICE_GPU;
    tt_topo_machine_at(m, pci)->dev = (uint32_t)(strtoul(digit, NULL, 10) & 0xffff);
    return TUTTI_OK;
}

/* Other objects (caches, cores, NUMA nodes) stand for their parent. */
static tutti_status start_object(struct tt_machine *m, uint32_t *mine)
{
    const char *type = tt_topo_machine_value(m, "type");
    if (tt_streq(type, "Machine") || tt_streq(type, "Package"))
        return start_processor(m, mine);
    if (tt_streq(type, "Bridge") || tt_streq(type, "PCIDev"))
        return start_pci(m, mine);
    return tt_streq(type, "OSDev") ? start_device(m) : TUTTI_OK;
}

static tutti_status start(struct tt_machine *m, const char *name)
{
    const uint32_t depth = m->x.depth;
    uint32_t mine = m->stack[depth - 1];
    tutti_status st = TUTTI_OK;
    if (tt_streq(name, "object")) {
        st = start_object(m, &mine);
    } else if (tt_streq(name, "info") && tt_streq(tt_topo_machine_value(m, "name"), "CPUVendor")) {
        const double bw = tt_topo_machine_cpu_rate(tt_topo_machine_value(m, "value"), "");
        m->cpu_bw = m->cpu_bw > bw ? m->cpu_bw : bw;
    } else if (tt_streq(tt_topo_machine_value(m, "name"), "NVLinkBandwidth")) {
        return tt_topo_xml_fail(&m->x, m->err,
                                "the machine has NVLinks, which are not read from hwloc's files: "
                                "take NCCL's description (NCCL_TOPO_DUMP_FILE)");
    }
    m->stack[depth] = mine;
    return st;
}

/* Without devices of an operating system: accelerators by class. Then every link on the way from a
 * GPU to its processor must have a speed. */
static tutti_status check_gpus(struct tt_machine *m)
{
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < m->nodes.len; i++)
        gpus += tt_topo_machine_at(m, i)->kind == TT_DEVICE_GPU;
    for (uint32_t i = 0, dev = 0; !gpus && i < m->nodes.len; i++) {
        struct tt_device *n = tt_topo_machine_at(m, i);
        if (n->accelerator) {
            n->kind = TT_DEVICE_GPU;
            n->dev = dev++;
        }
    }
    for (uint32_t i = 0; i < m->nodes.len; i++)
        for (uint32_t k = i; tt_topo_machine_at(m, i)->kind == TT_DEVICE_GPU && k != TT_NOWHERE;
             k = tt_topo_machine_at(m, k)->parent) {
            const struct tt_device *n = tt_topo_machine_at(m, k);
            if (n->kind != TT_DEVICE_CPU && !(n->up > 0))
                return tt_topo_xml_fail(&m->x, m->err,
                                        "PCI device %s has no pci_link_speed (lstopo, run as root, "
                                        "finds it)",
                                        n->bus);
        }
    return TUTTI_OK;
}

tutti_status tt_topo_machine_hwloc(struct tt_machine *m)
{
    enum tt_xml_kind kind;
    const char *name = NULL;
    m->cpu_bw = tt_topo_machine_cpu_rate("", "");
    for (;;) {
        tutti_status st = tt_topo_xml_next(&m->x, &kind, &name, m->err);
        if (!st && kind == TT_XML_END_OF_FILE)
            return check_gpus(m);
        if (!st && kind == TT_XML_START)
            st = start(m, name);
        if (st)
            return st;
    }
}
