/* fail.c - errors stay: the first one is what every later call answers. What this rank did wrong is
 * told to all others by an abort that names the tensor, so that nobody waits for a gradient that
 * will not come. */
#include <stdarg.h>

#include "train/train_int.h"

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
    tt_comm_abort(t->comm, text);
    tt_train_ring(t);
    return st;
}

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
