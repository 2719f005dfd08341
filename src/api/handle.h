/* handle.h - what callers hold: handles, and the table behind them.
 *
 * A handle looks like a pointer but is a number: a slot of a table, a generation (how often the
 * slot had been given out), and the kind of object. The slot stores the handle that it was given
 * out as, so that one comparison tells a live handle from NULL, from a closed one, from one of
 * another kind and from any other pointer, without touching memory that may be gone:
 *
 *    63    56 55           26 25      8 7    0
 *    | 0x54  | generation    | slot    | kind |   no address: the first byte makes it non-canonical
 *
 * Finding an object takes no lock and may be done by any number of threads; so may making and
 * ending handles. Using an object while another thread ends it is still the caller's mistake.
 *
 * Functions that return a status report a bad argument as TUTTI_ERR_ARG with a sentence. The others
 * print the sentence and abort, because they have no value that could mean a failure. */
#ifndef TT_API_HANDLE_H
#define TT_API_HANDLE_H

#include <stdarg.h>

#include "base/base.h"

/* kind; its name; the word for its end; does it work in a forked child, too? */
#define API_KIND_LIST(X)                         \
    X(TOPO, "topology", "freed", true)           \
    X(PLAN, "plan", "freed", true)               \
    X(SCHEDULE, "schedule", "freed", true)       \
    X(COMM, "communicator", "closed", false)     \
    X(REQUEST, "request", "freed", false)        \
    X(TRAINER, "trainer", "closed", false)       \
    X(BOUND, "bound", "freed", true)             \
    X(SIM, "simulation", "freed", true)          \
    X(PROBE, "measured network", "freed", true)  \
    X(MODEL, "model", "freed", true)             \
    X(PRICES, "list of prices", "closed", true)  \
    X(TRAINSIM, "simulated step", "freed", true) \
    X(SURVEY, "survey", "freed", true)           \
    X(JSON, "JSON document", "closed", true)     \
    X(RUN, "trace of a run", "freed", true)      \
    X(TOP, "look at running jobs", "freed", true)
enum api_kind {
    API_NOTHING,
#define API_KIND_ENUM(id, name, end, forks) API_##id,
    API_KIND_LIST(API_KIND_ENUM)
#undef API_KIND_ENUM
        API_KINDS
};

enum { API_HANDLES = 1 << 18 }; /* the most at the same time */

/* Makes a handle for `object`, which needs the handle `of` to live (NULL: none). Returns NULL
 * with *err when the table is full; the object stays the caller's. */
void *tt_api_make(enum api_kind kind, void *object, const void *of, struct tutti_error *err);

/* Is it a live handle whose `of` has ended? */
bool tt_api_orphan(const void *handle);

/* The object behind a handle. found: NULL with a sentence when there is none; needed: aborts;
 * peek: NULL silently. Communicators, requests and trainers of a parent process are not found. */
void *tt_api_found(enum api_kind kind, const void *handle, const char *function,
                   struct tutti_error *err);
void *tt_api_needed(enum api_kind kind, const void *handle, const char *function);
void *tt_api_peek(enum api_kind kind, const void *handle); /* NULL, and no message */
#define api_find(kind, handle, err) tt_api_found(API_##kind, (handle), __func__, (err))
#define api_need(kind, handle)      tt_api_needed(API_##kind, (handle), __func__)

/* Ends a handle: its object is the caller's to free. Returns NULL when there is nothing to do:
 * the handle is NULL, or belongs to a parent process. Aborts when it is not a live handle of
 * this kind; of two threads that end the same handle, one aborts. */
void *tt_api_ended(enum api_kind kind, const void *handle, const char *function);
#define api_end(kind, handle) tt_api_ended(API_##kind, (handle), __func__)

/* Calls fn with the object of every live handle of this kind that needs `of`. No other thread
 * may end them meanwhile. */
void tt_api_each(enum api_kind kind, const void *of, void (*fn)(void *object));

/* The last refusal of these functions in this thread: what tutti_comm_last_error returns for
 * something that is no communicator. */
const struct tutti_error *tt_api_refusal(void);

/* Arguments are pairs of name and pointer. given: TUTTI_ERR_ARG with a sentence when a pointer
 * is NULL; must: aborts. The macros add the NULL that ends the list. */
tutti_status tt_api_given_all(const char *function, struct tutti_error *err, ...);
tutti_status tt_api_given_list(const char *function, struct tutti_error *err, va_list ap);
void tt_api_must_all(const char *function, ...);
#define api_given(err, ...) tt_api_given_all(__func__, (err), __VA_ARGS__, (const char *)NULL)
#define api_must(...)       tt_api_must_all(__func__, __VA_ARGS__, (const char *)NULL)

/* bad: fails with st and "function: sentence", remembered for tt_api_refusal; err may be NULL.
 * stop: prints the sentence and aborts. */
tutti_status tt_api_bad(const char *function, struct tutti_error *err, tutti_status st,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));
_Noreturn void tt_api_stop(const char *function, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#endif
