/* boot.h - how ranks find and trust each other: identity from the launcher's variables, one
 * rendezvous at rank 0, one listening port per process, authenticated sockets on demand. Nothing
 * here depends on schedules.
 *
 * On every connection, before any length is parsed, both ends send a fixed-size greeting (magic,
 * version, role, random challenge) and then a fixed-size proof (keyed hash of both greetings with
 * the job key; auth.c). A peer that does not prove itself is dropped within the handshake limit,
 * without an answer and without disturbing the job; the number of unproved connections is limited.
 * Without a key, which is allowed on loopback, the processes of one user agree on one (local.c).
 * With `insecure` the key is all zeros, and the exchange filters strangers by magic and job id
 * only. With `encrypt` the greetings also carry the two halves of a key exchange, and each
 * connection comes with keys of its own (seal.h).
 *
 * Members of a job may change: ranks that failed are left out, newcomers are let in. Each change is
 * a new object with a new job id (tt_boot_succeed). */
#ifndef TT_BOOT_H
#define TT_BOOT_H

#include "seal/seal.h"

enum { TT_BOOT_KEY = 32, TT_BOOT_HOST = 64, TT_BOOT_SETTINGS = 4096, TT_BOOT_SOURCES = 7 };

struct tt_boot_config {
    uint32_t rank, size;
    int local_rank;       /* -1: unknown */
    char rendezvous[128]; /* host:port of rank 0; empty with size 1 */
    /* host:port[,host:port..] of members of a job that runs: this process becomes a further member
     * (enter.c), and rank, size and rendezvous are not used. Borrowed; NULL: none. */
    const char *join;
    /* Read when opening, so that not every copy of this struct holds the key; NULL: use `key`, if
     * any. The string is borrowed. */
    const char *key_file;
    uint8_t key[TT_BOOT_KEY];
    /* In an open object, has_key is also true if the user's processes have agreed on a key. */
    bool has_key, insecure;
    /* Seal every connection. Needs a key, and must be equal on all ranks (it is compared with the
     * settings). */
    bool encrypt;
    /* NCCL syntax: prefixes "eth,ib", "^docker,lo", "=eth0"; or CIDR "10.0.0.0/8"; empty: choose by
     * route */
    char iface[128];
    uint16_t port_lo, port_hi; /* range of listening ports; 0: any */
    uint64_t timeout_ns;       /* for opening; 0: 30 s */
    /* "name=value\n..." lines that must be equal on all ranks, at most TT_BOOT_SETTINGS - 16 bytes;
     * NULL: none */
    const char *settings;
};

/* Fills *ret from the environment: ours (TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK,
 * TUTTI_RENDEZVOUS), torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; the port
 * after it is used, since the port itself belongs to torch, or one below 30000 if that may be an
 * outgoing connection), Open MPI (OMPI_COMM_WORLD_*), MPICH/Hydra (PMI_RANK, PMI_SIZE,
 * MPI_LOCALRANKID), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, first host of
 * SLURM_NODELIST); and TUTTI_KEY_FILE, TUTTI_INSECURE, TUTTI_IFACE, TUTTI_PORTS, TUTTI_TIMEOUT.
 * TUTTI_RENDEZVOUS, then MASTER_ADDR and MASTER_PORT, take precedence over what MPI launchers and
 * Slurm imply. Ranks that mpirun started on one host meet on loopback; on several hosts one of the
 * two is needed. Without any variable: rank 0 of 1 (origin "none"). An incomplete set is an error
 * that names what is missing. *ret_origin (may be NULL) is the name of the launcher whose variables
 * were used ("torchrun"). */
tutti_status tt_boot_from_env(struct tt_boot_config *ret, const char **ret_origin,
                              struct tutti_error *err);

/* Only what does not depend on a launcher: key, interface, ports, timeout. Rank 0 of 1. */
tutti_status tt_boot_options_from_env(struct tt_boot_config *ret, struct tutti_error *err);

/* Makes c read its key from this file (replacing any other source). The string is borrowed. Tries
 * the file now, so that the error is reported early. */
tutti_status tt_boot_key(struct tt_boot_config *c, const char *path, struct tutti_error *err);

/* Ranks that something else (MPI) has brought together. gather is collective: every rank gives
 * `bytes` bytes and gets those of all ranks in rank order. */
struct tt_boot_parent {
    uint32_t rank, size;
    int local_rank; /* -1: unknown */
    tutti_status (*gather)(void *ctx, const void *mine, size_t bytes, void *ret_all,
                           struct tutti_error *err);
    void *ctx;
};
/* For an MPI that sees a single rank: did an mpirun start more processes than this one, which must
 * then belong to another MPI? True in the first of them only, with a message for the user in
 * *ret. */
bool tt_boot_strayed(struct tutti_error *ret);
/* Sets rank, size and rendezvous of c, and a key if it has none, by one gather. Collective. */
tutti_status tt_boot_adopt(struct tt_boot_config *c, const struct tt_boot_parent *p,
                           struct tutti_error *err);

/* One rank, as all ranks know it. */
struct tt_boot_peer {
    char host[TT_BOOT_HOST];
    /* Equal exactly when two ranks share memory (kernel boot id; pid, ipc and mount namespaces) and
     * one network: the network namespaces of `lab` on one machine count as different hosts. */
    uint64_t host_id;
    uint32_t pid;
    uint32_t addr_be; /* IPv4 address of its listener, network order */
    uint16_t port;    /* of its one listening socket */
    /* Other addresses that its connections may come from (a host with several networks); 0:
     * none. */
    uint32_t sources_be[TT_BOOT_SOURCES];
};

struct tt_boot;
/* Meets all ranks at the rendezvous; returns when all have the same table. Blocking, with the
 * configured deadline. Versions and settings are compared; a difference is refused on every rank
 * with a diff that names the ranks. Loopback is never advertised to a peer on another host. Errors
 * name what was missing: "rank 3 did not come within 30 s". c is copied. */
tutti_status tt_boot_open(const struct tt_boot_config *c, struct tt_boot **ret,
                          struct tutti_error *err);
void tt_boot_close(struct tt_boot *b); /* accepts NULL; sockets handed out stay open */
const struct tt_boot_config *tt_boot_config(const struct tt_boot *b);
const struct tt_boot_peer *tt_boot_peers(const struct tt_boot *b); /* size entries */
/* Random job id, equal on all ranks. */
uint64_t tt_boot_job(const struct tt_boot *b);

/* Control plane after opening: a connected, authenticated line to rank 0 (rank 0: one per other
 * rank; fd -1 where there is none). Its bytes are sealed if the job encrypts and checksummed
 * otherwise. Owned by b. Read and write go as far as they can without waiting, even on a blocking
 * socket; the counters continue from the last call. Bytes count as written when they are handed to
 * the kernel: after AGAIN, call again with the same bytes. END: errno says why, 0 for an orderly
 * end, EBADMSG if the bytes are not those that were sent. */
struct tt_boot_line {
    int fd;
    struct tt_line_parts *state;
};
/* Takes ownership of fd. False: no memory; fd is then still in *l. */
bool tt_boot_line_open(struct tt_boot_line *l, int fd, const struct tt_seal_keys *keys);
/* Accepts a closed line. */
void tt_boot_line_close(struct tt_boot_line *l);
enum tt_net { TT_NET_OK, TT_NET_AGAIN, TT_NET_END };
const struct tt_boot_line *tt_boot_line(const struct tt_boot *b, uint32_t rank);
enum tt_net tt_boot_line_read(const struct tt_boot_line *l, void *buf, size_t want, size_t *got);
enum tt_net tt_boot_line_write(const struct tt_boot_line *l, const void *buf, size_t want,
                               size_t *sent);
/* All ranks give `bytes` bytes and get size*bytes in rank order, through rank 0. For setting things
 * up; blocking, with a deadline (timeout_ns 0: the configured one). Collective; after a failure b
 * refuses further exchanges. */
tutti_status tt_boot_exchange(struct tt_boot *b, const void *mine, size_t bytes, void *ret_all,
                              uint64_t timeout_ns, struct tutti_error *err);

/* Newcomers (guest.c): processes with the job's key that want to become members. */

/* From now on newcomers may come to this rank's listener, from any address, and wait there; so they
 * may in the jobs that follow this one. False: it has no listener, because it began alone. */
bool tt_boot_welcome(struct tt_boot *b);
struct tt_boot_newcomer {
    struct tt_boot_peer peer;
    uint32_t host; /* the rank at which it waits */
};
/* Those who wait here, at most max. */
uint32_t tt_boot_newcomers(struct tt_boot *b, struct tt_boot_newcomer *ret, uint32_t max);
/* Becomes a member by c->join. Returns when the members have admitted this process, with the job
 * that it is a part of; *ret_change is the number of that change. Blocking, with the configured
 * deadline. The caller makes the control lines (tt_boot_rejoin). */
tutti_status tt_boot_enter(const struct tt_boot_config *c, struct tt_boot **ret,
                           uint32_t *ret_change, struct tutti_error *err);

/* The ranks that go on when members leave or come, as all of them have agreed (watch/roll.h). */
struct tt_boot_heirs {
    const uint32_t *members; /* their ranks until now, ascending; the new rank is the index */
    uint32_t n, me;
    /* Their ranks follow those of the members; the same list on all ranks. */
    const struct tt_boot_newcomer *newcomers;
    uint32_t nnew;
    uint32_t change; /* how many times members have changed; newcomers are told */
    uint64_t job;    /* the new job's id */
    /* What a rank of the old job is told that asks later, on a link of role TT_ROLE_ROLL; copied.
     */
    const void *word;
    size_t word_bytes;
};
/* A new job of these ranks, made by each of them alone: nothing is exchanged. It has the key, the
 * settings and the peers of the old one and takes over its listener, so that no further link can be
 * accepted for the old job; connections of the old job are not of the new one, since its id is part
 * of every handshake. old stays open otherwise. Newcomers that wait here are told. */
tutti_status tt_boot_succeed(struct tt_boot *old, const struct tt_boot_heirs *h,
                             struct tt_boot **ret, struct tutti_error *err);
/* Makes the control lines of such a job, until deadline_ns at most. A line to a rank that is gone
 * or does not come stays closed (fd -1). Serves the porter meanwhile. */
tutti_status tt_boot_rejoin(struct tt_boot *b, uint64_t deadline_ns, struct tutti_error *err);

/* Can rank r's listener be reached right now (TCP connect within timeout_ns)? 0 or errno.
 * Distinguishes "I am cut off" from "r is gone". */
int tt_boot_probe(const struct tt_boot *b, uint32_t rank, uint64_t timeout_ns);

/* Is this rank's own network interface down, or without a carrier? False if it works or if that is
 * unknown. */
bool tt_boot_link_down(const struct tt_boot *b);

/* "; this host is busy (load 9.1 on 2 cores)", to end a message about lost time; empty if the host
 * is not busy. Returns buf. */
enum { TT_BUSY_TEXT = 80 };
const char *tt_boot_busy_text(char buf[TT_BUSY_TEXT]);

/* "rank 3", "ranks 0, 2-5, 9"; truncated to fit, with the number of ranks left out. Returns buf. */
char *tt_boot_ranks_text(const bool *set, uint32_t size, char *buf, size_t cap);

/* Tries on this host alone what ranks need in order to meet: sockets on loopback with c's port
 * range, interfaces that c's filter admits. Runs the i-th check; false past the last one. */
bool tt_boot_check(const struct tt_boot_config *c, size_t i, struct tt_check *ret);
#endif
