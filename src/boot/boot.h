/* boot.h - how ranks find and trust each other: identity from the launcher's variables, one rendezvous at rank 0, one listening port per
 * process, authenticated sockets on demand. Nothing here knows about schedules.
 *
 * Every connection, before any length is parsed: both ends send a fixed-size greeting (magic, version, role, random challenge), then a
 * fixed-size proof (keyed hash of both challenges, ranks, role and job id with the job key, libsodium crypto_auth / crypto_generichash). A
 * peer that does not prove itself is dropped within the handshake limit, without a word and without disturbing the job; at most 64 unproved
 * connections are kept at a time. Without a key (allowed on loopback only, or with `insecure`) the key is all zeros: the exchange still
 * filters strangers by magic and job id. */
#ifndef TT_BOOT_H
#define TT_BOOT_H

#include "base/base.h"

enum { TT_BOOT_KEY = 32, TT_BOOT_HOST = 64, TT_BOOT_SETTINGS = 4096 };

struct tt_boot_config {
    uint32_t rank, size;
    int local_rank;       /* -1: unknown */
    char rendezvous[128]; /* host:port of rank 0; empty with size 1 */
    uint8_t key[TT_BOOT_KEY];
    bool has_key, insecure;
    char iface[128];           /* NCCL syntax: prefixes "eth,ib", "^docker,lo", "=eth0"; or CIDR "10.0.0.0/8"; empty: choose by route */
    uint16_t port_lo, port_hi; /* listening port range; 0: any */
    uint64_t timeout_ns;       /* for opening; 0: 30 s */
    const char *settings;      /* "name=value\n..." lines that must be equal on all ranks, at most TT_BOOT_SETTINGS bytes; NULL: none */
};

/* Fills from the environment: ours (TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_RENDEZVOUS), torchrun (RANK, WORLD_SIZE, LOCAL_RANK,
 * MASTER_ADDR, MASTER_PORT (+1 is used: the port itself belongs to torch)), Open MPI (OMPI_COMM_WORLD_*), MPICH/Hydra (PMI_RANK, PMI_SIZE,
 * MPI_LOCALRANKID), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, first of SLURM_NODELIST); and TUTTI_KEY_FILE, TUTTI_INSECURE,
 * TUTTI_IFACE, TUTTI_PORTS, TUTTI_TIMEOUT. TUTTI_RENDEZVOUS, then MASTER_ADDR and MASTER_PORT, overrule what MPI launchers and Slurm imply;
 * ranks that mpirun started on one host meet on loopback, on several hosts one of the two is needed. No variable at all: rank 0 of 1
 * (origin "none"). Half a set is an error that names what is missing. *ret_origin (may be NULL) says whose variables were used
 * ("torchrun"). */
tutti_status tt_boot_from_env(struct tt_boot_config *ret, const char **ret_origin, struct tutti_error *err);

/* The same without a launcher: what does not depend on one (key, interface, ports, timeout). Rank 0 of 1. */
tutti_status tt_boot_options_from_env(struct tt_boot_config *ret, struct tutti_error *err);

/* Ranks that somebody else (MPI) has brought together. gather: everybody's `bytes` bytes in rank order, on all; collective. */
struct tt_boot_parent {
    uint32_t rank, size;
    int local_rank; /* -1: unknown */
    tutti_status (*gather)(void *ctx, const void *mine, size_t bytes, void *ret_all, struct tutti_error *err);
    void *ctx;
};
/* Sets rank, size and rendezvous of c, and a key when it has none, by one gather. Collective. */
tutti_status tt_boot_adopt(struct tt_boot_config *c, const struct tt_boot_parent *p, struct tutti_error *err);

/* One rank as all know it. */
struct tt_boot_peer {
    char host[TT_BOOT_HOST];
    uint64_t host_id; /* equal exactly when two ranks share memory (kernel boot id and namespaces: pid, ipc, mount) and one network: the
                         network namespaces of `lab` on one machine count as different hosts */
    uint32_t pid;
    uint32_t addr_be; /* IPv4 address its listener is bound to, network order */
    uint16_t port;    /* of its one listening socket */
};

struct tt_boot;
/* Meets all ranks at the rendezvous; returns when all have the same table. Compares version and settings: a difference is refused on every
 * rank with a diff naming the ranks. Never advertises loopback to a peer on another host. Errors name what was missing: "rank 3 did not
 * come within 30 s". */
tutti_status tt_boot_open(const struct tt_boot_config *c, struct tt_boot **ret, struct tutti_error *err);
void tt_boot_close(struct tt_boot *b); /* accepts NULL; sockets handed out stay open */
const struct tt_boot_config *tt_boot_config(const struct tt_boot *b);
const struct tt_boot_peer *tt_boot_peers(const struct tt_boot *b); /* size entries */
uint64_t tt_boot_job(const struct tt_boot *b);                     /* random job id, equal on all ranks */

/* Control plane after opening: a connected, authenticated, blocking socket to rank 0 (rank 0: one per other rank, index by rank, -1 for
 * itself). Owned by b. */
int tt_boot_control_fd(const struct tt_boot *b, uint32_t rank);
/* All ranks give `bytes` bytes, all get size*bytes in rank order, through rank 0. Used while opening things; blocking, with deadline. */
tutti_status tt_boot_exchange(struct tt_boot *b, const void *mine, size_t bytes, void *ret_all, uint64_t timeout_ns,
                              struct tutti_error *err);

/* A new authenticated socket to each peer r with want[r] (symmetric: both must want each other), tagged `role` (e.g. stripe number): the
 * lower rank accepts, the higher connects. fds[r] = -1 where not wanted. All must call it in the same order. The sockets are TCP,
 * TCP_NODELAY, blocking; the caller owns them. */
tutti_status tt_boot_connect(struct tt_boot *b, const bool *want, uint32_t role, int *fds, uint64_t timeout_ns, struct tutti_error *err);

/* Can rank r's listener be reached right now (TCP connect within timeout_ns)? 0 or errno. Used to tell "I am cut off" from "r is gone". */
int tt_boot_probe(const struct tt_boot *b, uint32_t rank, uint64_t timeout_ns);

/* Has this rank's own network interface gone down, or lost the carrier? False when it works, and when nobody knows. */
bool tt_boot_link_down(const struct tt_boot *b);

/* "rank 3", "ranks 0, 2-5, 9"; cut to fit with the number of those left out. Returns buf. */
char *tt_ranks_text(const bool *set, uint32_t size, char *buf, size_t cap);

/* What ranks need to meet, tried on this host alone: sockets on loopback with c's port range, interfaces that c's filter leaves. The i-th
 * check; false past the last one. */
bool tt_boot_check(const struct tt_boot_config *c, size_t i, struct tt_check *ret);
#endif
