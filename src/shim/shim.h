/* shim.h - runs MPI programs through Tutti without a rebuild. This library is preloaded, defines
 * some of MPI's functions, and calls the real ones by their profiling names (PMPI_).
 *
 *     MPI_Allreduce(...) -> colls.c: is it taken? --yes--> tutti_allreduce
 *                                         '--no, and why--> PMPI_Allreduce
 *     MPI_Iallreduce ... -> icolls.c, requests.c     MPI_Wait ... -> waits.c
 *     types.c           MPI's types and operations in Tutti's terms
 *     comms.c, family.c the communicator that belongs to MPI's
 *     count.c           what was taken and forwarded, the report
 *
 * The invariant: whether a call is taken depends only on values that are equal on all ranks of its
 * communicator: the order of calls on it, the number of bytes, type and operation of a reduction,
 * and what was agreed upon before. The type of a broadcast or a gather is not among them (MPI
 * demands equal signatures, not equal types), so these are taken as bytes, and packed where a
 * rank's type is not contiguous.
 *
 * Waits inside Tutti make MPI progress (shim_poke in comms.c): a peer may be waiting in MPI for a
 * message from this rank before it joins the call. */
#ifndef TT_SHIM_H
#define TT_SHIM_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/tutti.h>

#include "api/shared.h"

#define SHIM_API __attribute__((visibility("default")))

#define SHIM_CALL_LIST(X)                                 \
    X(ALLREDUCE, "MPI_Allreduce")                         \
    X(REDUCE_SCATTER, "MPI_Reduce_scatter")               \
    X(REDUCE_SCATTER_BLOCK, "MPI_Reduce_scatter_block")   \
    X(ALLGATHER, "MPI_Allgather")                         \
    X(BCAST, "MPI_Bcast")                                 \
    X(REDUCE, "MPI_Reduce")                               \
    X(BARRIER, "MPI_Barrier")                             \
    X(IALLREDUCE, "MPI_Iallreduce")                       \
    X(IREDUCE_SCATTER, "MPI_Ireduce_scatter")             \
    X(IREDUCE_SCATTER_BLOCK, "MPI_Ireduce_scatter_block") \
    X(IALLGATHER, "MPI_Iallgather")                       \
    X(IBCAST, "MPI_Ibcast")                               \
    X(IREDUCE, "MPI_Ireduce")                             \
    X(IBARRIER, "MPI_Ibarrier")                           \
    X(ALLREDUCE_INIT, "MPI_Allreduce_init")
enum shim_call {
#define SHIM_CALL_ENUM(id, name) SHIM_##id,
    SHIM_CALL_LIST(SHIM_CALL_ENUM)
#undef SHIM_CALL_ENUM
        SHIM_CALLS
};

/* Why a call was forwarded; TAKEN: it was not. */
#define SHIM_WHY_LIST(X)                                           \
    X(TAKEN, "taken")                                              \
    X(NO_DATA, "no data")                                          \
    X(ONE_RANK, "one rank")                                        \
    X(INTER, "intercommunicator")                                  \
    X(YOUNG, "communicator used rarely so far")                    \
    X(CLOSED, "communicator not opened by a blocking call before") \
    X(FAILED, "communicator could not be opened")                  \
    X(SESSION, "no MPI_Init: a session of MPI's")                  \
    X(TYPE, "type or operation that is not ours")                  \
    X(ARGUMENT, "argument left to MPI to judge")                   \
    X(TRIAL, "timed for comparison")                               \
    X(SLOWER, "MPI was faster when both were timed")               \
    X(APART, "non-blocking or persistent across hosts")            \
    X(UNEVEN, "non-blocking with blocks of unequal length")        \
    X(OFF, "TUTTI_MPI_TAKE=none")
enum shim_why {
#define SHIM_WHY_ENUM(id, text) SHIM_##id,
    SHIM_WHY_LIST(SHIM_WHY_ENUM)
#undef SHIM_WHY_ENUM
        SHIM_WHYS
};

/* ---- types.c ---- */
struct shim_type {
    tutti_dtype dtype;
    size_t each;  /* elements of dtype in one element of MPI's type (2: complex) */
    size_t bytes; /* of one element of MPI's type */
};
/* False: Tutti does not have this reduction. */
bool shim_reduction(MPI_Datatype type, MPI_Op op, struct shim_type *ret_type, tutti_redop *ret_op);
/* The bytes that `count` elements send. False: no such type, or a negative count. */
bool shim_bytes(int count, MPI_Datatype type, size_t *ret);
/* Is an element of this type contiguous memory, in order and without gaps? */
bool shim_is_plain(MPI_Datatype type);
bool shim_is_root(int root, MPI_Comm comm);

/* ---- detour.c ---- */
/* Data in the caller's memory, as MPI describes it. */
struct shim_side {
    void *buf;
    int count;
    MPI_Datatype type;
};
/* Data on its way through memory of our own. All zero: no detour. */
struct shim_detour {
    char *memory;        /* owned; the caller's data, packed, is at its beginning */
    char *result;        /* where in it Tutti writes (the root of a broadcast reads there) */
    struct shim_side to; /* where the result belongs; type MPI_DATATYPE_NULL: plain bytes */
    size_t bytes;        /* of one block of the result */
    int blocks;          /* 0: there is no result to deliver */
};
/* Each begins a detour. False: no memory, and nothing to end. */
bool shim_detour_front(struct shim_detour *d, void *to, size_t bytes);
bool shim_detour_broadcast(struct shim_detour *d, const struct shim_side *s, size_t bytes,
                           bool root);
bool shim_detour_gather(struct shim_detour *d, const struct shim_side *from,
                        const struct shim_side *to, size_t bytes, int ranks);
/* Delivers the result if good; frees everything. Accepts a zeroed detour. */
void shim_detour_end(struct shim_detour *d, bool good);
/* The block of `rank` in a gathered buffer. */
struct shim_side shim_own_block(const struct shim_side *all, int rank);

/* ---- comms.c ---- */
void shim_begin(void); /* right after MPI_Init, when no call of the program is under way */
enum { SHIM_SIZES = 48 };
/* What is known about calls of one kind and size (power of two) on a communicator; equal on all
 * ranks once `verdict` is set. */
struct shim_trial {
    float ours_us, mpi_us; /* best times; 0: none */
    uint8_t calls;
    int8_t verdict; /* 0 none yet, 1 Tutti, -1 MPI */
};
struct shim_comm {
    struct tutti_comm *tutti; /* NULL: not opened (yet) */
    _Atomic uint32_t refs;    /* held by MPI's communicator until it is freed, and by requests */
    uint64_t family;          /* id of the family that it founds */
    bool founder;             /* tutti belongs to the family */
    enum shim_why never;      /* SHIM_TAKEN, or why no call is ever taken */
    int rank, size;
    /* agreed when it is opened */
    enum shim_take { SHIM_TAKE_AUTO, SHIM_TAKE_ALL, SHIM_TAKE_NONE } take;
    bool one_host;
    uint32_t calls;    /* blocking calls that could have been taken, before it was opened */
    uint32_t patience; /* open after so many calls */
    struct shim_trial trial[SHIM_CALLS][SHIM_SIZES];
    uint64_t taken[SHIM_CALLS][SHIM_SIZES];
    struct shim_comm *next; /* in the list of opened ones */
};
/* The attribute of MPI's communicator, made on first use. NULL: no memory, or no communicator. */
struct shim_comm *shim_comm_of(MPI_Comm comm);
/* A request on it begins; shim_comm_drop when it has ended. MPI's communicator may be freed in
 * between. */
static inline struct shim_comm *shim_comm_hold(struct shim_comm *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}
void shim_comm_drop(struct shim_comm *c); /* accepts NULL */
/* Is it open, or can it be opened now that it has been used often enough? Otherwise the reason why
 * not. Collective in `comm`. */
enum shim_why shim_comm_ready(struct shim_comm *c, MPI_Comm comm);
struct shim_comm *shim_comms_opened(void); /* head of the list */
void shim_poke(void *unused);              /* makes MPI progress */
/* A duplicate of MPI_COMM_SELF, for messages to this rank itself. */
MPI_Comm shim_self(void);
/* Only this rank has run out of memory: aborts the communicator, so that the others learn of it. */
int shim_no_memory(enum shim_call call, MPI_Comm comm, struct shim_comm *c);
/* A call of ours failed: prints why and calls MPI's error handler, which usually ends the job. */
int shim_failed(enum shim_call call, MPI_Comm comm, const struct tutti_error *why);

/* ---- family.c ---- */
/* open: opens c->tutti, or says why not; collective in `comm`. found: called when all ranks have it
 * and c is a founder; others may join from then on, and c->tutti belongs to the family. False: it
 * still belongs to c. */
bool shim_family_open(struct shim_comm *c, MPI_Comm comm, struct tutti_error *err);
bool shim_family_found(const struct shim_comm *c, MPI_Comm comm);
void shim_families_close(void); /* waits for the other ranks of each */

/* ---- count.c ---- */
struct shim_settings {
    bool report;
    /* from this rank's environment; shim_comm.take is what all ranks agreed upon */
    enum shim_take take;
};
const struct shim_settings *shim_settings(void);
void shim_count(enum shim_call call, enum shim_why why, size_t bytes);
void shim_report(void);
/* Prints one line on standard error. */
void shim_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
unsigned shim_size_class(size_t bytes);
double shim_now_us(void);
const char *shim_call_name(enum shim_call call);

/* ---- requests.c ---- */
/* Starts one; *ret is a real MPI request that completes when ours does. On success, request and
 * detour are no longer the caller's. MPI_ERR_NO_MEM: nothing was tried. */
struct shim_request {
    struct tutti_request *tutti;
    struct shim_comm *c;
    MPI_Comm comm; /* MPI's communicator of c; MPI_COMM_NULL: freed */
    enum shim_call call;
    struct shim_detour detour;
};
int shim_request_start(const struct shim_request *r, MPI_Request *ret);
/* The same for a persistent request, which is not started yet. */
int shim_request_keep(const struct shim_request *r, MPI_Request *ret);
bool shim_requests_active(void);          /* or failed with an error not yet returned */
void shim_requests_drive(void);           /* completes MPI's side of those that are done */
void shim_requests_forget(MPI_Comm comm); /* called while comm is being freed; its requests go on */
/* Waits for all; persistent requests can no longer be started. */
void shim_requests_end(void);
/* Which of these have failed? MPI's side of them is completed; for each request that MPI then
 * reports done, call shim_failed_take with its place. */
void shim_failed_find(int count, const MPI_Request *requests);
bool shim_failed_take(const MPI_Request *at);
/* Between two polls: nothing at first, then yields, then sleeps. */
void shim_pause(unsigned looks);
#endif
