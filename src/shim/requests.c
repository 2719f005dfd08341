/* requests.c - our requests in the clothes of MPI's.
 *
 * The program holds an MPI_Request and may give it to any function that takes one. Ours therefore is a real one: a receive, from this rank
 * itself, of an empty message on a communicator of our own, with a tag that no other active request has. When Tutti's request is done, that
 * message is sent. A persistent all-reduce is a persistent receive. Nothing else in MPI need know; only MPI_Cancel must not.
 *
 *     Iallreduce:  tutti_request_start, Irecv(self, tag)      drive: tutti_request_test says done -> Send(self, tag)      Wait: MPI's own
 *
 * Tutti's requests progress by its own thread, which never calls MPI; who tests or waits drives (waits.c). */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "shim/shim.h"

enum { SLOTS = 512 }; /* active or persistent ones at the same time; below what a communicator of Tutti can run */

struct slot {
    struct tutti_request *tutti; /* NULL: free */
    MPI_Request handle;
    MPI_Comm comm;
    enum shim_call call;
    struct shim_detour detour;
    bool persistent, active;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[SLOTS];
static _Atomic unsigned nactive, nkept;
static unsigned used; /* slots below this have been used */

bool shim_requests_active(void)
{
    return atomic_load_explicit(&nactive, memory_order_relaxed) > 0;
}

/* The message that completes MPI's side; its receive is posted, so this does not wait. */
static void complete(unsigned i)
{
    struct slot *s = &slots[i];
    shim_detour_end(&s->detour, true);
    PMPI_Send(NULL, 0, MPI_BYTE, 0, (int)i, shim_self());
    s->active = false;
    atomic_fetch_sub(&nactive, 1);
    if (s->persistent)
        return;
    tutti_request_free(s->tutti);
    s->tutti = NULL;
}

static void drive(unsigned i)
{
    struct slot *s = &slots[i];
    tutti_status st = s->active ? tutti_request_test(s->tutti) : TUTTI_IN_PROGRESS;
    if (st == TUTTI_OK)
        complete(i);
    else if (st < 0)
        shim_failed(s->call, s->comm, &(struct tutti_error){.status = st, .text = "a rank of it failed (its other calls say which)"});
}

void shim_requests_drive(void)
{
    if (!shim_requests_active() || pthread_mutex_trylock(&lock))
        return; /* who has the lock is driving */
    for (unsigned i = 0; i < used; i++)
        drive(i);
    pthread_mutex_unlock(&lock);
}

void shim_pause(unsigned looks)
{
    if (looks < 100)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = looks < 200 ? 20000 : 100000}, NULL);
}

/* A free slot; waits for one when there is none, which ends because requests of a communicator run in the order of their starts. The lock
 * is held. */
static unsigned find_slot(void)
{
    for (unsigned looks = 0;; looks++) {
        for (unsigned i = 0; i < SLOTS; i++)
            if (!slots[i].tutti) {
                used = i >= used ? i + 1 : used;
                return i;
            }
        for (unsigned i = 0; i < used; i++)
            drive(i);
        shim_poke(NULL);
        shim_pause(looks);
    }
}

static int activate(struct slot *s)
{
    if (tutti_request_start(s->tutti))
        return MPI_ERR_OTHER;
    s->active = true;
    atomic_fetch_add(&nactive, 1);
    return MPI_SUCCESS;
}

int shim_request_start(struct tutti_request *r, enum shim_call call, MPI_Comm comm, const struct shim_detour *d, MPI_Request *ret)
{
    pthread_mutex_lock(&lock);
    unsigned i = find_slot();
    slots[i] = (struct slot){.tutti = r, .comm = comm, .call = call, .detour = *d};
    int rc = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, (int)i, shim_self(), ret);
    slots[i].handle = *ret;
    if (rc == MPI_SUCCESS)
        rc = activate(&slots[i]);
    if (rc != MPI_SUCCESS)
        slots[i].tutti = NULL;
    pthread_mutex_unlock(&lock);
    return rc;
}

int shim_request_keep(struct tutti_request *r, MPI_Comm comm, MPI_Request *ret)
{
    pthread_mutex_lock(&lock);
    unsigned i = find_slot();
    slots[i] = (struct slot){.tutti = r, .comm = comm, .call = SHIM_ALLREDUCE_INIT, .persistent = true};
    int rc = PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, (int)i, shim_self(), &slots[i].handle);
    if (rc == MPI_SUCCESS) {
        *ret = slots[i].handle;
        atomic_fetch_add(&nkept, 1);
    } else {
        slots[i].tutti = NULL;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* The slot of a request of ours; NULL: not ours. A slot is free before MPI can give its handle to somebody else. The lock is held. */
static struct slot *find(MPI_Request handle)
{
    for (unsigned i = 0; i < used; i++)
        if (slots[i].tutti && slots[i].handle == handle)
            return &slots[i];
    return NULL;
}

/* ... of a persistent one. */
static struct slot *kept(MPI_Request handle)
{
    struct slot *s = find(handle);
    return s && s->persistent ? s : NULL;
}

SHIM_API int MPI_Start(MPI_Request *request)
{
    int rc = PMPI_Start(request);
    if (rc != MPI_SUCCESS || !atomic_load(&nkept))
        return rc;
    pthread_mutex_lock(&lock);
    struct slot *s = kept(*request);
    MPI_Comm comm = s ? s->comm : MPI_COMM_NULL;
    if (s)
        rc = activate(s);
    pthread_mutex_unlock(&lock);
    return rc == MPI_SUCCESS ? rc : (PMPI_Comm_call_errhandler(comm, rc), rc);
}

SHIM_API int MPI_Startall(int count, MPI_Request requests[])
{
    int rc = MPI_SUCCESS;
    if (!atomic_load(&nkept))
        return PMPI_Startall(count, requests);
    for (int i = 0; rc == MPI_SUCCESS && i < count; i++)
        rc = MPI_Start(&requests[i]);
    return rc;
}

SHIM_API int MPI_Request_free(MPI_Request *request)
{
    struct slot *s = NULL;
    if (request && atomic_load(&nkept)) {
        pthread_mutex_lock(&lock);
        s = kept(*request);
        for (unsigned looks = 0; s && s->active; looks++) {
            drive((unsigned)(s - slots));
            shim_poke(NULL);
            shim_pause(looks);
        }
        if (s) {
            tutti_request_free(s->tutti);
            s->tutti = NULL;
            atomic_fetch_sub(&nkept, 1);
        }
        pthread_mutex_unlock(&lock);
    }
    return PMPI_Request_free(request);
}

/* MPI forbids it for collectives. As it is a receive for MPI it would succeed, and the message that completes it meet another one. */
SHIM_API int MPI_Cancel(MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_NULL;
    if (request && (shim_requests_active() || atomic_load(&nkept))) {
        pthread_mutex_lock(&lock);
        struct slot *s = find(*request);
        comm = s ? s->comm : comm;
        pthread_mutex_unlock(&lock);
    }
    if (comm == MPI_COMM_NULL)
        return PMPI_Cancel(request);
    PMPI_Comm_call_errhandler(comm, MPI_ERR_REQUEST);
    return MPI_ERR_REQUEST;
}
