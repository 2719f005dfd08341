/* boot.h - how ranks find and trust each other: identity from the launcher's variables, one
 * rendezvous at rank 0, one listening port per process, authenticated sockets on demand. Nothing
 * here knows about schedules.
 *
 * Every connection, before any length is parsed: both ends send a fixed-size greeting (magic,
 * version, role, random challenge), then a fixed-size proof (keyed hash of both challenges, ranks,
 * role and job id with the job key, libsodium crypto_auth / crypto_generichash). A peer that does
 * not prove itself is dropped within the handshake limit, without a word and without disturbing the
 * job; the number of unproved connections is limited. Without a key, which is allowed on loopback,
 * the processes of one user agree on one (local.c); with `insecure` the key is all zeros, and the
 * exchange filters strangers by magic and job id only. With `encrypt` the greetings also carry the
 * two halves of a key exchange, and each connection comes with keys of its own (seal.h). */
#ifndef TT_BOOT_H
#define TT_BOOT_H

#include "seal/seal.h"

enum { TT_BOOT_KEY = 32, TT_BOOT_HOST = 64, TT_BOOT_SETTINGS = 4096, TT_BOOT_SOURCES = 7 };

struct tt_boot_config {
    uint32_t rank, size;
    int local_rank;       /* -1: unknown */
    char rendezvous[128]; /* host:port of rank 0; empty with size 1 */
    /* read when opening, so that the key is not in every copy of this; NULL: `key`, if any */
    const char *key_file;
    uint8_t key[TT_BOOT_KEY];
    /* of an open object has_key also when the user's processes have agreed on one */
    bool has_key, insecure;
    /* seal every connection; needs a key; must be alike on all ranks (part of what is compared) */
    bool encrypt;
    /* NCCL syntax: prefixes "eth,ib", "^docker,lo", "=eth0"; or CIDR "10.0.0.0/8"; empty: choose by
     * route */
    char iface[128];
    uint16_t port_lo, port_hi; /* listening port range; 0: any */
    uint64_t timeout_ns;       /* for opening; 0: 30 s */
    /* "name=value\n..." lines that must be equal on all ranks, at most TT_BOOT_SETTINGS - 16 bytes;
     * NULL: none */
    const char *settings;
};

/* Fills from the environment: ours (TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_RENDEZVOUS),
 * torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (+1 is used: the port itself
 * belongs to torch)), Open MPI (OMPI_COMM_WORLD_*), MPICH/Hydra (PMI_RANK, PMI_SIZE,
 * MPI_LOCALRANKID), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, first of SLURM_NODELIST); and
 * TUTTI_KEY_FILE, TUTTI_INSECURE, TUTTI_IFACE, TUTTI_PORTS, TUTTI_TIMEOUT. TUTTI_RENDEZVOUS, then
 * MASTER_ADDR and MASTER_PORT, overrule what MPI launchers and Slurm imply; ranks that mpirun
 * started on one host meet on loopback, on several hosts one of the two is needed. No variable at
 * all: rank 0 of 1 (origin "none"). Half a set is an error that names what is missing. *ret_origin
 * (may be NULL) says whose variables were used ("torchrun"). */
tutti_status tt_boot_from_env(struct tt_boot_config *ret, const char **ret_origin,
                              struct tutti_error *err);

/* The same without a launcher: what does not depend on one (key, interface, ports, timeout). Rank 0
 * of 1. */
tutti_status tt_boot_options_from_env(struct tt_boot_config *ret, struct tutti_error *err);

/* The key of c comes from this file (over what it was), whose name must stay; says here already why
 * it cannot. */
tutti_status tt_boot_key(struct tt_boot_config *c, const char *path, struct tutti_error *err);

/* Ranks that somebody else (MPI) has brought together. gather: everybody's `bytes` bytes in rank
 * order, on all; collective. */
struct tt_boot_parent {
    uint32_t rank, size;
    int local_rank; /* -1: unknown */
    tutti_status (*gather)(void *ctx, const void *mine, size_t bytes, void *ret_all,
                           struct tutti_error *err);
    void *ctx;
};
/* An MPI has found itself to be of one rank. Has an mpirun started more processes than this one, so
 * that it must be that of another MPI? Then true in the first of them, with a sentence for people
 * in *ret. */
bool tt_boot_strayed(struct tutti_error *ret);
/* Sets rank, size and rendezvous of c, and a key when it has none, by one gather. Collective. */
tutti_status tt_boot_adopt(struct tt_boot_config *c, const struct tt_boot_parent *p,
                           struct tutti_error *err);

/* One rank as all know it. */
struct tt_boot_peer {
    char host[TT_BOOT_HOST];
    /* equal exactly when two ranks share memory (kernel boot id and namespaces: pid, ipc, mount)
     * and one network: the network namespaces of `lab` on one machine count as different hosts */
    uint64_t host_id;
    uint32_t pid;
    uint32_t addr_be; /* IPv4 address its listener is bound to, network order */
    uint16_t port;    /* of its one listening socket */
    /* other addresses its connections may come from (a host with several networks); 0: none */
    uint32_t sources_be[TT_BOOT_SOURCES];
};

struct tt_boot;
/* Meets all ranks at the rendezvous; returns when all have the same table. Compares version and
 * settings: a difference is refused on every rank with a diff naming the ranks. Never advertises
 * loopback to a peer on another host. Errors name what was missing: "rank 3 did not come within 30
 * s". */
tutti_status tt_boot_open(const struct tt_boot_config *c, struct tt_boot **ret,
                          struct tutti_error *err);
void tt_boot_close(struct tt_boot *b); /* accepts NULL; sockets handed out stay open */
const struct tt_boot_config *tt_boot_config(const struct tt_boot *b);
const struct tt_boot_peer *tt_boot_peers(const struct tt_boot *b); /* size entries */
/* random job id, equal on all ranks */
uint64_t tt_boot_job(const struct tt_boot *b);

/* Control plane after opening: a connected, authenticated line to rank 0 (rank 0: one per other
 * rank; fd -1 where there is none), whose bytes are sealed when the job encrypts and summed
 * otherwise. Owned by b. Read and write go as far as they can without waiting, also on a blocking
 * socket; their counters go on from the last call. Written bytes count when they are on their way:
 * after AGAIN, come again with the same ones. END: errno says why, 0 for an orderly end, EBADMSG
 * when the bytes are not those that were sent. */
struct tt_boot_line {
    int fd;
    struct tt_line_parts *state;
};
enum tt_net { TT_NET_OK, TT_NET_AGAIN, TT_NET_END };
const struct tt_boot_line *tt_boot_line(const struct tt_boot *b, uint32_t rank);
enum tt_net tt_boot_line_read(const struct tt_boot_line *l, void *buf, size_t want, size_t *got);
enum tt_net tt_boot_line_write(const struct tt_boot_line *l, const void *buf, size_t want,
                               size_t *sent);
/* All ranks give `bytes` bytes, all get size*bytes in rank order, through rank 0. Used while
 * opening things; blocking, with deadline. */
tutti_status tt_boot_exchange(struct tt_boot *b, const void *mine, size_t bytes, void *ret_all,
                              uint64_t timeout_ns, struct tutti_error *err);

/* Can rank r's listener be reached right now (TCP connect within timeout_ns)? 0 or errno. Used to
 * tell "I am cut off" from "r is gone". */
int tt_boot_probe(const struct tt_boot *b, uint32_t rank, uint64_t timeout_ns);

/* Has this rank's own network interface gone down, or lost the carrier? False when it works, and
 * when nobody knows. */
bool tt_boot_link_down(const struct tt_boot *b);

/* "; this host is busy (load 9.1 on 2 cores)", for the end of a sentence about lost time; empty
 * when it is not. Returns buf. */
enum { TT_BUSY_TEXT = 80 };
const char *tt_boot_busy_text(char buf[TT_BUSY_TEXT]);

/* "rank 3", "ranks 0, 2-5, 9"; cut to fit with the number of those left out. Returns buf. */
char *tt_boot_ranks_text(const bool *set, uint32_t size, char *buf, size_t cap);

/* What ranks need to meet, tried on this host alone: sockets on loopback with c's port range,
 * interfaces that c's filter leaves. The i-th check; false past the last one. */
bool tt_boot_check(const struct tt_boot_config *c, size_t i, struct tt_check *ret);
#endif
