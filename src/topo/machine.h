/* machine.h - a machine as its own tools describe it (NCCL, hwloc): processors, PCI bridges, GPUs,
 * network cards and NVLinks, and the network that they are. A reader fills a machine from XML;
 * machine.c builds the network. */
#ifndef TT_TOPO_MACHINE_H
#define TT_TOPO_MACHINE_H

#include "topo/topo.h"
#include "topo/xml.h"

enum {
    TT_MACHINE_BYTES = 16 << 20,
    TT_MACHINE_NODES = 4096,
    TT_MACHINE_CPUS = 64,
    TT_MACHINE_NVLINKS = 8192,
    TT_NOWHERE = UINT32_MAX
};

enum tt_device_kind { TT_DEVICE_CPU, TT_DEVICE_PCI, TT_DEVICE_GPU, TT_DEVICE_NIC };

/* Something of the machine. Links to the parent carry `up` bytes/s each way. */
struct tt_device {
    enum tt_device_kind kind;
    uint32_t parent;
    double up;
    char bus[32];
    uint32_t dev;     /* GPU: its number, by which ranks are ordered */
    bool accelerator; /* by its PCI class (hwloc) */
    double nvlink;    /* of one NVLink of this GPU, bytes/s */
    double net;       /* NIC: to the network */
    uint32_t vertex;
    bool used; /* a GPU or a NIC is at or below it */
};
/* NVLinks of one GPU to one target. */
struct tt_nvlink {
    uint32_t gpu; /* node */
    char target[32];
    bool to_switch;
    uint32_t count;
    uint32_t to; /* the GPU at the other end, by its rank; TT_NOWHERE: none of this machine */
};

struct tt_machine {
    struct tt_xml x;
    struct tt_vec nodes;   /* struct tt_device */
    struct tt_vec nvlinks; /* struct tt_nvlink */
    uint32_t stack[TT_XML_DEPTH + 1];
    uint32_t cpus;
    double cpu_bw; /* between processors */
    struct tutti_error *err;
};

/* Reads the elements of an opened document into the machine. */
typedef tutti_status (*tt_machine_reader)(struct tt_machine *m);
/* The machine that `data` describes, repeated `hosts` times. `name` is for errors and the spec. The
 * caller frees *ret (tt_topo_free). */
tutti_status tt_topo_machine(const char *data, size_t len, const char *name, uint32_t hosts,
                             tt_machine_reader read, struct tt_topo **ret, struct tutti_error *err);

struct tt_device *tt_topo_machine_at(const struct tt_machine *m, uint32_t i);
/* Adds a device below that of the element which holds the one just read; *ret is its number. */
tutti_status tt_topo_machine_add(struct tt_machine *m, struct tt_device n, uint32_t *ret);
/* An attribute of the element just read, "" when it is missing; the same as a number, dflt when it
 * is missing. */
const char *tt_topo_machine_value(const struct tt_machine *m, const char *key);
tutti_status tt_topo_machine_number(struct tt_machine *m, const char *key, uint64_t max,
                                    uint64_t dflt, uint64_t *ret);

/* Bytes/s between two processors, by NCCL's table. */
double tt_topo_machine_cpu_rate(const char *vendor, const char *arch);

tutti_status tt_topo_machine_nccl(struct tt_machine *m);  /* file_nccl.c */
tutti_status tt_topo_machine_hwloc(struct tt_machine *m); /* file_hwloc.c */
#endif
