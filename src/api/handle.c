/* handle.c - the table of handles (handle.h). A slot comes from a stack of free ones, or is the
 * next one that was never used.
 *
 * The table is lock-free, because a fork in another thread must not leave a lock behind that
 * no thread releases. The stack is a linked list of slot numbers; a counter beside its head changes
 * with every operation, so that a head that was popped and pushed again meanwhile is not taken
 * for the same (the ABA problem). Invariant: a slot is on the stack, or beyond `used`, or holds
 * a handle, never two of these.
 *
 * Memory order: tt_api_make stores `handle` with release, after all other fields; handle_live()
 * loads it with acquire. A thread that sees the handle sees the fields of its slot. */
#include <assert.h>

#include "api/handle.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(uintptr_t) == 8, "handles need 64 bits");
#define MARK        ((uintptr_t)0x54 << 56)
#define GENERATIONS ((uint32_t)1 << 30)

struct slot {
    _Atomic uintptr_t handle; /* as given out; 0: the slot holds none */
    _Atomic(void *) object;
    uintptr_t of;          /* the handle that this one needs; 0: none */
    uint32_t process;      /* tt_fork_generation when it was made */
    uint32_t generation;   /* handles that this slot has had */
    _Atomic uint32_t next; /* when free: the next free slot + 1; 0: the last */
};
static struct slot slots[API_HANDLES]; /* 1/4 million, but pages never touched cost nothing */
static _Atomic uint64_t free_slots;    /* counter << 32 | first free slot + 1 */
static _Atomic uint32_t used;          /* slots that were ever taken */
/* The last refusal of this thread (tt_api_refusal). */
static _Thread_local struct tutti_error refusal;

static const struct {
    const char *name, *end;
    bool forks;
} kinds[API_KINDS] = {
#define KIND_ROW(id, name, end, forks) [API_##id] = {name, end, forks},
    API_KIND_LIST(KIND_ROW)};

/* ---- sentences ---- */

const struct tutti_error *tt_api_refusal(void)
{
    return &refusal;
}

/* refusal.text is formatted first: err may point to it. */
tutti_status tt_api_bad(const char *function, struct tutti_error *err, tutti_status st,
                        const char *fmt, ...)
{
    char text[sizeof refusal.text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tt_fail(&refusal, st, "%s: %s", function, text);
    return tt_fail(err, st, "%s", refusal.text);
}

void tt_api_stop(const char *function, const char *fmt, ...)
{
    char text[sizeof refusal.text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "tutti: %s: %s\n", function, text);
    abort();
}

/* The name of the first NULL among pairs of name and pointer, or NULL. */
static const char *find_null(va_list ap)
{
    for (const char *name = va_arg(ap, const char *); name; name = va_arg(ap, const char *))
        if (!va_arg(ap, const void *))
            return name;
    return NULL;
}

tutti_status tt_api_given_list(const char *function, struct tutti_error *err, va_list ap)
{
    const char *name = find_null(ap);
    return name ? tt_api_bad(function, err, TUTTI_ERR_ARG, "%s is NULL", name) : TUTTI_OK;
}

tutti_status tt_api_given_all(const char *function, struct tutti_error *err, ...)
{
    va_list ap;
    va_start(ap, err);
    tutti_status st = tt_api_given_list(function, err, ap);
    va_end(ap);
    return st;
}

void tt_api_must_all(const char *function, ...)
{
    va_list ap;
    va_start(ap, function);
    const char *name = find_null(ap);
    va_end(ap);
    if (name)
        tt_api_stop(function, "%s is NULL", name);
}

/* ---- the table ---- */

/* Any number has a slot: the masked bits are always a valid index, whatever the caller passes. */
static struct slot *slot_of(uintptr_t h)
{
    return &slots[(h >> 8) & (API_HANDLES - 1)];
}

/* Does the slot hold exactly this handle? Acquire pairs with the release in tt_api_make. */
static bool handle_live(uintptr_t h)
{
    return h && atomic_load_explicit(&slot_of(h)->handle, memory_order_acquire) == h;
}

/* A free slot, which only this thread has from now on; NULL when the table is full. */
static struct slot *take_slot(void)
{
    uint64_t head = atomic_load(&free_slots), next;
    while ((uint32_t)head) {
        struct slot *s = &slots[(uint32_t)head - 1];
        assert((uint32_t)head <= API_HANDLES);
        /* s->next may be stale when another thread takes s first; then the counter has changed
         * and the exchange fails. */
        next = ((head >> 32) + 1) << 32 | atomic_load(&s->next);
        if (atomic_compare_exchange_weak(&free_slots, &head, next))
            return s;
    }
    uint32_t n = atomic_load(&used);
    while (n < API_HANDLES)
        if (atomic_compare_exchange_weak(&used, &n, n + 1))
            return &slots[n];
    return NULL;
}

/* Puts a slot on the stack. The caller has cleared its handle. */
static void give_slot(struct slot *s)
{
    assert(s >= slots && s < slots + API_HANDLES && !atomic_load(&s->handle));
    uint64_t head = atomic_load(&free_slots), next;
    do {
        atomic_store(&s->next, (uint32_t)head);
        next = ((head >> 32) + 1) << 32 | (uint64_t)(s - slots + 1);
    } while (!atomic_compare_exchange_weak(&free_slots, &head, next));
}

void *tt_api_make(enum api_kind kind, void *object, const void *of, struct tutti_error *err)
{
    struct slot *s = take_slot();
    if (!s) {
        tt_fail(err, TUTTI_ERR_LIMIT, "more than %d handles at the same time", (int)API_HANDLES);
        return NULL;
    }
    assert(object && kind < API_KINDS && !atomic_load(&s->handle));
    /* The generation wraps after 2^30 handles of the same slot: only then could an old handle
     * look like a new one. */
    s->generation = (s->generation + 1) % GENERATIONS;
    uintptr_t h =
        MARK | (uintptr_t)s->generation << 26 | (uintptr_t)(s - slots) << 8 | (uintptr_t)kind;
    s->of = (uintptr_t)of;
    s->process = tt_fork_generation();
    atomic_store_explicit(&s->object, object, memory_order_relaxed);
    atomic_store_explicit(&s->handle, h, memory_order_release);
    return (void *)h; // NOLINT(performance-no-int-to-ptr)
}

/* Made by the process that this one was forked from, and of a kind that does not survive a fork? */
static bool is_foreign(const struct slot *s, enum api_kind kind)
{
    return !kinds[kind].forks && tt_fork_foreign(s->process);
}

bool tt_api_orphan(const void *handle)
{
    uintptr_t h = (uintptr_t)handle;
    return handle_live(h) && slot_of(h)->of && !handle_live(slot_of(h)->of);
}

/* The kind that h was a handle of, if it looks like one of ours, else API_NOTHING. For messages
 * only. */
static enum api_kind handle_former(uintptr_t h)
{
    bool ours = h >> 56 == MARK >> 56 && (h >> 8 & (API_HANDLES - 1)) < atomic_load(&used);
    return ours && (h & 0xff) < API_KINDS ? (enum api_kind)(h & 0xff) : API_NOTHING;
}

/* Reports why the handle cannot be used. The order matters: each test assumes that those before
 * it did not apply. */
static tutti_status handle_refuse(enum api_kind kind, const void *handle, const char *function,
                                  struct tutti_error *err)
{
    const char *name = kinds[kind].name;
    uintptr_t h = (uintptr_t)handle;
    enum api_kind was = handle_former(h);
    if (!h)
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "the %s is NULL", name);
    if (was == API_NOTHING)
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "a %s is needed, %p is none", name, handle);
    if (was != kind)
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "a %s is needed, this is a %s", name,
                          kinds[was].name);
    if (!handle_live(h))
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "the %s was %s already", name,
                          kinds[kind].end);
    if (is_foreign(slot_of(h), kind))
        return tt_api_bad(
            function, err, TUTTI_ERR_ARG,
            "the %s belongs to the process that this one was forked from; open one here", name);
    return tt_api_bad(function, err, TUTTI_ERR_ARG, "the %s that the %s belongs to was closed",
                      kinds[slot_of(h)->of & 0xff].name, name);
}

static void *object_of(enum api_kind kind, uintptr_t h)
{
    if (!handle_live(h) || (h & 0xff) != (uintptr_t)kind)
        return NULL;
    return atomic_load_explicit(&slot_of(h)->object, memory_order_relaxed);
}

/* The object of a handle that is live, of this kind, of this process, and whose `of` is live;
 * else NULL. */
TT_HOT static void *handle_object(enum api_kind kind, uintptr_t h)
{
    const struct slot *s = slot_of(h);
    void *object = object_of(kind, h);
    return object && !is_foreign(s, kind) && (!s->of || handle_live(s->of)) ? object : NULL;
}

void *tt_api_peek(enum api_kind kind, const void *handle)
{
    return handle_object(kind, (uintptr_t)handle);
}

TT_HOT void *tt_api_found(enum api_kind kind, const void *handle, const char *function,
                          struct tutti_error *err)
{
    void *object = handle_object(kind, (uintptr_t)handle);
    if (!object)
        handle_refuse(kind, handle, function, err);
    return object;
}

void *tt_api_needed(enum api_kind kind, const void *handle, const char *function)
{
    struct tutti_error err;
    void *object = handle_object(kind, (uintptr_t)handle);
    if (!object) {
        handle_refuse(kind, handle, function, &err);
        fprintf(stderr, "tutti: %s\n", err.text);
        abort();
    }
    return object;
}

void *tt_api_ended(enum api_kind kind, const void *handle, const char *function)
{
    uintptr_t h = (uintptr_t)handle, expected = h;
    if (!handle)
        return NULL;
    void *object = object_of(kind, h);
    bool foreign = object && is_foreign(slot_of(h), kind);
    /* The exchange decides between two threads that end the same handle: one gets the object,
     * the other one aborts in tt_api_needed. */
    if (!object || !atomic_compare_exchange_strong(&slot_of(h)->handle, &expected, 0))
        tt_api_needed(kind, handle, function);
    else
        give_slot(slot_of(h));
    return foreign ? NULL : object;
}

void tt_api_each(enum api_kind kind, const void *of, void (*fn)(void *object))
{
    uint32_t n = atomic_load(&used);
    for (uint32_t i = 0; i < n; i++) {
        uintptr_t h = atomic_load_explicit(&slots[i].handle, memory_order_acquire);
        if (h && (h & 0xff) == (uintptr_t)kind && slots[i].of == (uintptr_t)of)
            fn(atomic_load_explicit(&slots[i].object, memory_order_relaxed));
    }
}
