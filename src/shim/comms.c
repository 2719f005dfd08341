/* comms.c - the Tutti communicator that belongs to an MPI communicator, stored as an attribute of
 * the latter.
 *
 * It is opened by the first blocking call that could be taken (on communicators other than the
 * world, by the one after PATIENCE such calls, since many communicators are created, used once and
 * freed), because only a blocking call may wait for other ranks. All ranks of a communicator make
 * the same calls in the same order, so they open it in the same call. Whether all ranks succeeded
 * is agreed upon; if not, no call is ever taken there. The ranks exchange what they need through
 * MPI's collectives on that communicator: a rank that arrives early waits in MPI, which makes
 * progress on its messages. No MPI communicator is created on the way: the program may have an
 * MPI_Comm_idup under way, and MPI may not support a second one meanwhile.
 *
 *     family.c    the first communicator of some ranks: sockets, a thread.
 *                 Later ones of these ranks, or fewer, are parts of it.
 *
 * MPI_Comm_free deletes the attribute, which is a local operation: our communicator is left as soon
 * as it has no requests, without waiting for other ranks. The rest is closed when MPI_Finalize
 * deletes the attributes of MPI_COMM_SELF, which it does first, whatever language it was called
 * from.
 *
 * Threads: list_lock guards `opened`; of_world and phase are atomic; the other globals are set
 * once, under `once`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/shim.h"

enum { PATIENCE = 3 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
/* In the order in which they were opened, which is also the order for the report. */
static struct shim_comm *opened;
static int of_comm = MPI_KEYVAL_INVALID, of_self = MPI_KEYVAL_INVALID;
static MPI_Comm self = MPI_COMM_NULL;
static int own_rank, last_tag; /* in MPI_COMM_WORLD */
/* that of MPI_COMM_WORLD, the most frequent one, found without asking MPI */
static _Atomic(struct shim_comm *) of_world;
enum { BEFORE, DURING, AFTER };
static _Atomic int phase; /* relative to MPI_Init and MPI_Finalize */
/* For communicators of MPI sessions, outside of MPI_Init and MPI_Finalize: without MPI_COMM_SELF
 * there is no last moment at which to close anything, so their calls are never taken. */
static struct shim_comm of_sessions = {.never = SHIM_SESSION};

static void unlist(const struct shim_comm *c)
{
    pthread_mutex_lock(&list_lock);
    for (struct shim_comm **at = &opened; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

static void comms_enlist(struct shim_comm *c)
{
    pthread_mutex_lock(&list_lock);
    struct shim_comm **at = &opened;
    while (*at)
        at = &(*at)->next;
    c->next = NULL;
    *at = c;
    pthread_mutex_unlock(&list_lock);
}

struct shim_comm *shim_comms_opened(void)
{
    return opened;
}

/* The last reference leaves. A founder's communicator belongs to its family, which outlives it. */
void shim_comm_drop(struct shim_comm *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    unlist(c);
    if (!c->founder)
        tutti_comm_leave(c->tutti);
    free(c);
}

/* MPI calls it when the program frees a communicator. Requests that are still active keep the
 * struct alive. */
static int forget_comm(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval;
    (void)extra;
    if (comm == MPI_COMM_WORLD)
        atomic_store(&of_world, NULL);
    shim_requests_forget(comm);
    shim_comm_drop(value);
    return MPI_SUCCESS;
}

/* MPI calls it at the start of MPI_Finalize. Once the families are closed, all their ranks have
 * completed all their calls, and leaving the parts waits for nobody. Structs are kept: attributes
 * may still point to them. */
static int comms_finish(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    shim_report();
    shim_requests_end();
    shim_families_close();
    while (opened) {
        struct shim_comm *c = opened;
        unlist(c);
        if (!c->founder)
            tutti_comm_leave(c->tutti);
        c->tutti = NULL;
        c->never = SHIM_FAILED;
    }
    phase = AFTER;
    atomic_store(&of_world, NULL);
    PMPI_Comm_free(&self);
    return MPI_SUCCESS;
}

/* Runs when the library is loaded. With the other MPI, handles have another type and every call
 * would go wrong. MPI's version may be queried before MPI_Init. */
__attribute__((constructor)) static void check_flavour(void)
{
#ifdef OPEN_MPI
    static const char mine[] = "openmpi", words[] = "Open MPI", other[] = "mpich";
#else
    static const char mine[] = "mpich", words[] = "MPICH", other[] = "openmpi";
#endif
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    if (PMPI_Get_library_version(version, &n) != MPI_SUCCESS || strstr(version, words))
        return;
    version[strcspn(version, "\n")] = 0;
    fprintf(stderr,
            "tutti-mpi: libtutti-mpi-%s.so is for %s, and this program runs on %.40s: preload "
            "libtutti-mpi-%s.so\n",
            mine, words, version, other);
    _exit(1);
}

/* A program that was started with another MPI's mpirun is as many jobs of one rank as there are
 * processes. MPI does not report that, and no call would ever be taken. */
static void warn_if_strayed(void)
{
    struct tutti_error why;
    int size = 0;
    if (PMPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS && size == 1 &&
        tutti_mpi_strayed(&why))
        shim_note("%s", why.text);
}

/* The largest tag, for shim_poke. */
static void find_last_tag(void)
{
    int *most = NULL, found = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    if (PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found) == MPI_SUCCESS && found)
        last_tag = *most;
}

/* Runs once, right after MPI_Init. Copies of a communicator do not inherit the attribute
 * (MPI_COMM_NULL_COPY_FN): they get one of their own on first use. */
static void comms_prepare(void)
{
    warn_if_strayed();
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_comm, &of_comm, NULL);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comms_finish, &of_self, NULL);
    PMPI_Comm_dup(MPI_COMM_SELF, &self);
    find_last_tag();
    PMPI_Comm_set_attr(MPI_COMM_SELF, of_self, NULL);
    phase = DURING;
}

void shim_begin(void)
{
    pthread_once(&once, comms_prepare);
}

SHIM_API int MPI_Init(int *argc, char ***argv)
{
    int rc = PMPI_Init(argc, argv);
    if (rc == MPI_SUCCESS)
        shim_begin();
    return rc;
}

SHIM_API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int rc = PMPI_Init_thread(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        shim_begin();
    return rc;
}

/* Are we between MPI_Init and MPI_Finalize? MPI_Init may have been called where it is not
 * intercepted: from Fortran's mpi_f08. */
static bool in_world(void)
{
    int flag = 0;
    if (phase == BEFORE && PMPI_Initialized(&flag) == MPI_SUCCESS && flag)
        shim_begin();
    return phase == DURING;
}

MPI_Comm shim_self(void)
{
    return self;
}

/* Makes MPI progress while Tutti waits. It probes MPI_COMM_WORLD, because MPICH probes for messages
 * to oneself without making progress on others. The tag is one that hardly any program uses: a
 * probe that finds a message returns without making progress. */
void shim_poke(void *unused)
{
    int flag;
    (void)unused;
    PMPI_Iprobe(own_rank, last_tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* never is set here for what can never be taken: intercommunicators and single ranks. */
static struct shim_comm *comms_make(MPI_Comm comm)
{
    struct shim_comm *c = calloc(1, sizeof *c);
    int inter = 0;
    if (!c)
        return NULL;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_rank(comm, &c->rank);
    PMPI_Comm_size(comm, &c->size);
    c->never = inter ? SHIM_INTER : c->size < 2 ? SHIM_ONE_RANK : SHIM_TAKEN;
    c->patience = comm == MPI_COMM_WORLD ? 0 : PATIENCE;
    c->refs = 1;
    if (PMPI_Comm_set_attr(comm, of_comm, c) != MPI_SUCCESS) {
        free(c);
        return NULL;
    }
    return c;
}

struct shim_comm *shim_comm_of(MPI_Comm comm)
{
    void *value = NULL;
    int found = 0;
    /* Acquire pairs with the release below: another thread may just have stored the pointer. */
    struct shim_comm *c =
        comm == MPI_COMM_WORLD ? atomic_load_explicit(&of_world, memory_order_acquire) : NULL;
    if (c || comm == MPI_COMM_NULL)
        return c;
    if (!in_world())
        return &of_sessions;
    if (PMPI_Comm_get_attr(comm, of_comm, &value, &found) != MPI_SUCCESS)
        return NULL;
    c = found ? value : comms_make(comm);
    if (comm == MPI_COMM_WORLD)
        atomic_store_explicit(&of_world, c, memory_order_release);
    return c;
}

/* Variables may differ between ranks: rank 0's apply, so that all ranks take the same calls. */
static void agree_on_settings(struct shim_comm *c, MPI_Comm comm)
{
    int take = (int)shim_settings()->take;
    PMPI_Bcast(&take, 1, MPI_INT, 0, comm);
    c->take = (enum shim_take)take;
    if (c->take == SHIM_TAKE_NONE)
        c->never = SHIM_OFF;
}

/* Collective in comm. MPI_MIN over success: the communicator is used only if every rank has it. */
static void open_now(struct shim_comm *c, MPI_Comm comm)
{
    struct tutti_error err = {0};
    agree_on_settings(c, comm);
    if (c->never != SHIM_TAKEN)
        return;
    int mine = shim_family_open(c, comm, &err), all = 0;
    PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    if (all) {
        c->one_host = tutti_comm_local(c->tutti) == (uint32_t)c->size;
        tutti_comm_on_idle(c->tutti, shim_poke, NULL);
        c->founder = c->founder && shim_family_found(c, comm);
        comms_enlist(c);
        return;
    }
    c->never = SHIM_FAILED;
    if (!mine)
        shim_note("rank %d of %d: not used: %s", c->rank, c->size, err.text);
    tutti_comm_leave(c->tutti);
    c->tutti = NULL;
}

enum shim_why shim_comm_ready(struct shim_comm *c, MPI_Comm comm)
{
    if (!c->tutti && c->never == SHIM_TAKEN && c->calls++ >= c->patience)
        open_now(c, comm);
    return c->tutti ? SHIM_TAKEN : c->never != SHIM_TAKEN ? c->never : SHIM_YOUNG;
}

int shim_no_memory(enum shim_call call, MPI_Comm comm, struct shim_comm *c)
{
    tutti_comm_abort(c->tutti, "out of memory");
    return shim_failed(call, comm,
                       &(struct tutti_error){.status = TUTTI_ERR_MEMORY, .text = "out of memory"});
}

int shim_failed(enum shim_call call, MPI_Comm comm, const struct tutti_error *why)
{
    int rank = -1;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    shim_note("%s on rank %d: %s", shim_call_name(call), rank, why->text);
    PMPI_Comm_call_errhandler(comm != MPI_COMM_NULL ? comm : MPI_COMM_WORLD, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}
