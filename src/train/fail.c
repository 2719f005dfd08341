/* fail.c - errors are sticky: every later call returns the first one. A mistake of this rank is
 * told to all others by an abort that names the tensor, so that no rank waits for a gradient that
 * never comes.
 *
 * `error` is written under `lock` before `failed` is set, and never changes after that. */
#include <stdarg.h>

#include "train/train_int.h"

/* Callable from any thread. Wakes every sleeper on `news`: the launch it waits for may never
 * be done. */
tutti_status tt_train_fail(struct tt_trainer *t, const struct tutti_error *err)
{
    pthread_mutex_lock(&t->lock);
    if (!atomic_load(&t->failed)) {
        t->error = *err;
        atomic_store(&t->failed, true);
    }
    tutti_status st = t->error.status;
    pthread_cond_broadcast(&t->news);
    pthread_mutex_unlock(&t->lock);
    return st;
}

tutti_status tt_train_blame(struct tt_trainer *t, const char *fmt, ...)
{
    struct tutti_error err = {.status = TUTTI_ERR_ARG};
    char text[sizeof err.text - 32];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tt_fail(&err, TUTTI_ERR_ARG, "rank %u: %s", t->rank, text);
    tutti_status st = tt_train_fail(t, &err);
    /* Other ranks learn of it from the abort; the bell ends the own thread's sleep. */
    tt_comm_abort(t->comm, text);
    tt_train_ring(t);
    return st;
}

/* The acquire pairs with the store of `failed` in tt_train_fail: the error is visible. */
tutti_status tt_train_failed(struct tt_trainer *t)
{
    return atomic_load_explicit(&t->failed, memory_order_acquire) ? t->error.status : TUTTI_OK;
}

struct tutti_error tt_train_error(struct tt_trainer *t)
{
    pthread_mutex_lock(&t->lock);
    struct tutti_error e = t->error;
    pthread_mutex_unlock(&t->lock);
    return e;
}
