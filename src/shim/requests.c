/* requests.c - our requests as real MPI requests.
 *
 * The program holds an MPI_Request and may pass it to any function that takes one. Ours is
 * therefore a real one: a receive, from this rank itself, of an empty message on a communicator of
 * our own, with a tag that no other active request has. When Tutti's request is done, that message
 * is sent. A persistent all-reduce is a persistent receive. No other function of MPI has to know;
 * only MPI_Cancel must be intercepted.
 *
 *     Iallreduce:  tutti_request_start, Irecv(self, tag)
 *     drive:       tutti_request_test says done -> Send(self, tag)
 *     Wait:        MPI's own, which finds the message
 *
 * Tutti's requests make progress on its own thread, which never calls MPI. The caller of a test or
 * a wait drives them (waits.c). The message of a failed request is sent too, but not before the
 * program asks for the request: the function that completes it then returns the error.
 *
 * `lock` guards the slots. The atomic counters are hints that let callers skip the lock. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/shim.h"

enum {
    RUNNING = 512, /* requests active at a time; below what a Tutti communicator can run */
    GROW = 64
};

/* A slot is free, or belongs to a request until MPI's side of it has ended; a persistent request
 * holds it until it is freed. */
struct slot {
    bool taken;
    struct shim_request of; /* of.tutti NULL: ended at MPI_Finalize */
    MPI_Request handle;
    bool persistent;
    bool active; /* MPI's receive waits for its message */
    /* Tutti's request failed; the error handler was called. */
    bool failed, said;
    /* where the handle of a failed one was last seen in the program's memory */
    const MPI_Request *at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots; /* the index is the tag; the array moves when it grows */
static unsigned nslots, nrunning;
static _Atomic unsigned nactive, nkept, nfailed;

bool shim_requests_active(void)
{
    return atomic_load_explicit(&nactive, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&nfailed, memory_order_relaxed) > 0;
}

static void requests_release(struct slot *s)
{
    assert(s->taken && !s->active);
    tutti_request_free(s->of.tutti);
    shim_comm_drop(s->of.c);
    *s = (struct slot){.taken = false};
}

/* Sends the message that completes MPI's side. Its receive is posted, so the send does not wait.
 * Then the slot is free, unless the request is persistent or an error has yet to be returned. */
static void complete(struct slot *s)
{
    assert(s->taken && s->active && s >= slots && s < slots + nslots);
    PMPI_Send(NULL, 0, MPI_BYTE, 0, (int)(s - slots), shim_self());
    s->active = false;
    atomic_fetch_sub(&nactive, 1);
    if (!s->persistent && !s->failed)
        requests_release(s);
}

/* Completes MPI's side if Tutti's request is done. A failed request is completed only when the
 * program asks for it (shim_failed_find), so that the error can be returned there. The lock is
 * held. */
static void drive(struct slot *s)
{
    tutti_status st = s->active && !s->failed ? tutti_request_test(s->of.tutti) : TUTTI_IN_PROGRESS;
    if (st == TUTTI_IN_PROGRESS)
        return;
    assert(nrunning > 0 && s->taken);
    nrunning--;
    shim_detour_end(&s->of.detour, !st);
    if (!st) {
        complete(s);
        return;
    }
    s->failed = true;
    atomic_fetch_add(&nfailed, 1);
}

/* Calls the error handlers of failed requests. Handlers may belong to the program and call
 * anything, so the lock is released meanwhile; `said` makes sure that each is called once. */
static void say_failures(void)
{
    if (!atomic_load_explicit(&nfailed, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < nslots; i++) {
        if (!slots[i].failed || slots[i].said)
            continue;
        struct slot s = slots[i];
        slots[i].said = true;
        pthread_mutex_unlock(&lock);
        shim_failed(
            s.of.call, s.of.comm,
            &(struct tutti_error){.text = "a rank of it failed (its other calls say which)"});
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

void shim_requests_drive(void)
{
    if (!shim_requests_active() || pthread_mutex_trylock(&lock))
        return; /* the thread that holds the lock is driving */
    for (unsigned i = 0; i < nslots; i++)
        drive(&slots[i]);
    pthread_mutex_unlock(&lock);
    say_failures();
}

/* Looks at first without a pause: a short call is done within a microsecond, and yielding gives the
 * core to Tutti's own thread, which then does what this one would have found done. */
void shim_pause(unsigned looks)
{
    if (looks < 50)
        return;
    if (looks < 150)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = looks < 250 ? 20000 : 100000}, NULL);
}

/* Drives a request until it is done or has failed. The lock is held. */
static void drive_to_end(struct slot *s)
{
    for (unsigned looks = 0; s->active && !s->failed; looks++) {
        drive(s);
        shim_poke(NULL);
        shim_pause(looks);
    }
}

/* A free slot. The array grows if there is none, up to the number of tags that MPI has. NULL: no
 * memory or no tags. The lock is held. */
static struct slot *find_slot(void)
{
    int *most = NULL, found = 0;
    for (unsigned i = 0; i < nslots; i++)
        if (!slots[i].taken)
            return &slots[i];
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    if (!found || nslots + GROW > (unsigned)*most)
        return NULL;
    struct slot *grown = realloc(slots, (nslots + GROW) * sizeof *slots);
    if (!grown)
        return NULL;
    slots = grown;
    memset(&slots[nslots], 0, GROW * sizeof *slots);
    nslots += GROW;
    return &slots[nslots - GROW];
}

/* Starts Tutti's request, and waits first while too many are running. That wait ends, because the
 * requests of a communicator run in the order in which they were started. The lock is held. */
static int activate(struct slot *s)
{
    for (unsigned looks = 0; nrunning >= RUNNING; looks++) {
        for (unsigned i = 0; i < nslots; i++)
            drive(&slots[i]);
        shim_poke(NULL);
        shim_pause(looks);
    }
    if (!s->of.tutti || tutti_request_start(s->of.tutti))
        return MPI_ERR_OTHER;
    assert(s->taken && nrunning < RUNNING);
    s->active = true;
    nrunning++;
    atomic_fetch_add(&nactive, 1);
    return MPI_SUCCESS;
}

/* Cancels a receive that will get no message. */
static void withdraw(MPI_Request *request)
{
    PMPI_Cancel(request);
    PMPI_Wait(request, MPI_STATUS_IGNORE);
}

/* Posts MPI's receive of a filled slot and starts Tutti's request. The lock is held. */
static int requests_launch(struct slot *s, MPI_Request *ret)
{
    int rc = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, (int)(s - slots), shim_self(), ret);
    if (rc != MPI_SUCCESS)
        return rc;
    s->handle = *ret;
    rc = activate(s);
    if (rc != MPI_SUCCESS)
        withdraw(ret);
    return rc;
}

int shim_request_start(const struct shim_request *r, MPI_Request *ret)
{
    int rc = MPI_ERR_NO_MEM;
    pthread_mutex_lock(&lock);
    struct slot *s = find_slot();
    if (s) {
        *s = (struct slot){.taken = true, .of = *r};
        rc = requests_launch(s, ret);
    }
    if (rc == MPI_SUCCESS)
        shim_comm_hold(r->c);
    else if (s)
        *s = (struct slot){.taken = false};
    pthread_mutex_unlock(&lock);
    return rc;
}

int shim_request_keep(const struct shim_request *r, MPI_Request *ret)
{
    int rc = MPI_ERR_NO_MEM;
    MPI_Request handle;
    pthread_mutex_lock(&lock);
    struct slot *s = find_slot();
    if (s)
        rc = PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, (int)(s - slots), shim_self(), &handle);
    if (rc == MPI_SUCCESS) {
        *s = (struct slot){.taken = true, .of = *r, .handle = handle, .persistent = true};
        *ret = handle;
        shim_comm_hold(r->c);
        atomic_fetch_add(&nkept, 1);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Runs while `comm` is being freed: errors of its requests go to MPI_COMM_WORLD from then on. */
void shim_requests_forget(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < nslots; i++)
        if (slots[i].taken && slots[i].of.comm == comm)
            slots[i].of.comm = MPI_COMM_NULL;
    pthread_mutex_unlock(&lock);
}

void shim_requests_end(void)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < nslots; i++) {
        if (!slots[i].taken)
            continue;
        drive_to_end(&slots[i]);
        tutti_request_free(slots[i].of.tutti);
        shim_comm_drop(slots[i].of.c);
        slots[i].of = (struct shim_request){.comm = MPI_COMM_NULL};
    }
    pthread_mutex_unlock(&lock);
}

/* ---- failed ones ---- */

/* The entry of the program's array that holds the handle; NULL: not there. */
static const MPI_Request *place_of(MPI_Request handle, int count, const MPI_Request *requests)
{
    for (int i = 0; i < count; i++)
        if (requests[i] == handle)
            return &requests[i];
    return NULL;
}

void shim_failed_find(int count, const MPI_Request *requests)
{
    if (!atomic_load_explicit(&nfailed, memory_order_relaxed) || !requests)
        return;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < nslots; i++) {
        struct slot *s = &slots[i];
        const MPI_Request *at = s->failed ? place_of(s->handle, count, requests) : NULL;
        /* seen here, or the place now holds something else */
        if (at || (s->at >= requests && s->at < requests + count))
            s->at = at;
        if (at && s->active)
            complete(s);
    }
    pthread_mutex_unlock(&lock);
}

bool shim_failed_take(const MPI_Request *at)
{
    bool found = false;
    if (!atomic_load_explicit(&nfailed, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; !found && i < nslots; i++) {
        struct slot *s = &slots[i];
        found = s->failed && !s->active && s->at == at;
        if (!found)
            continue;
        atomic_fetch_sub(&nfailed, 1);
        s->failed = s->said = false;
        s->at = NULL;
        if (!s->persistent)
            requests_release(s);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- functions of MPI that take requests, except those that complete them (waits.c) ---- */

/* The slot of a request of ours; NULL: not ours. A slot is freed before MPI can hand out its handle
 * again, so handles in slots are unique. The lock is held. */
static struct slot *requests_find(MPI_Request handle)
{
    for (unsigned i = 0; i < nslots; i++)
        if (slots[i].taken && slots[i].handle == handle)
            return &slots[i];
    return NULL;
}

/* The same, for persistent requests only. */
static struct slot *kept(MPI_Request handle)
{
    struct slot *s = requests_find(handle);
    return s && s->persistent ? s : NULL;
}

/* MPI posts the receive first; then Tutti's request may start. If that fails the receive is
 * withdrawn. */
SHIM_API int MPI_Start(MPI_Request *request)
{
    int rc = PMPI_Start(request);
    if (rc != MPI_SUCCESS || !atomic_load(&nkept))
        return rc;
    pthread_mutex_lock(&lock);
    struct slot *s = kept(*request);
    MPI_Comm comm = s && s->of.comm != MPI_COMM_NULL ? s->of.comm : MPI_COMM_WORLD;
    if (s)
        rc = activate(s);
    if (rc != MPI_SUCCESS)
        withdraw(request);
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

/* Freeing an active persistent request waits for it here; MPI would let it run on. */
SHIM_API int MPI_Request_free(MPI_Request *request)
{
    if (request && atomic_load(&nkept)) {
        pthread_mutex_lock(&lock);
        struct slot *s = kept(*request);
        if (s) {
            drive_to_end(s);
            if (s->active)
                complete(s);
            if (s->failed)
                atomic_fetch_sub(&nfailed, 1);
            requests_release(s);
            atomic_fetch_sub(&nkept, 1);
        }
        pthread_mutex_unlock(&lock);
    }
    return PMPI_Request_free(request);
}

/* MPI forbids cancelling a collective. For MPI our request is a receive: cancelling would succeed,
 * and the message that completes it would match a later request with the same tag. */
SHIM_API int MPI_Cancel(MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_NULL;
    if (request && (shim_requests_active() || atomic_load(&nkept))) {
        pthread_mutex_lock(&lock);
        struct slot *s = requests_find(*request);
        comm = !s ? comm : s->of.comm != MPI_COMM_NULL ? s->of.comm : MPI_COMM_WORLD;
        pthread_mutex_unlock(&lock);
    }
    if (comm == MPI_COMM_NULL)
        return PMPI_Cancel(request);
    PMPI_Comm_call_errhandler(comm, MPI_ERR_REQUEST);
    return MPI_ERR_REQUEST;
}
