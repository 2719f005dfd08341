/* rebind.c - an elastic trainer goes on with other ranks.
 *
 *     the thread ends    what could be communicated has been
 *     leave              requests and shared memory of the old communicator are freed; the means
 *                        that have come are kept
 *     bind               the ranks compare what they have; whoever is behind or new catches up
 *                        (catchup.c); blocks, requests and the thread are made anew (open.c)
 *     resume             launches whose results no rank has start again, with the same gradients,
 *                        averaged over the ranks that are there now
 *
 * Nothing that a rank has is lost when it fails at any of these lines: rebind can be repeated, with
 * still fewer ranks. */
#include "train/train_int.h"

/* Errors that other ranks cannot cure. */
static tutti_status rebind_check(struct tt_trainer *t, struct tutti_error *err)
{
    if (!t->options.elastic)
        return tt_fail(err, TUTTI_ERR_ARG, "the trainer was opened without `elastic`");
    if (!t->numbered)
        return tt_fail(err, TUTTI_ERR_ARG, "the trainer was never frozen (tutti_trainer_freeze)");
    tutti_status st = tt_train_failed(t);
    if (st == TUTTI_ERR_ARG || st == TUTTI_ERR_DIFFERS) {
        *err = tt_train_error(t);
        return st;
    }
    return TUTTI_OK;
}

/* Everything that belongs to the old communicator ends; of a rank that is not a member yet
 * everything that was made. */
static bool leave(struct tt_trainer *t)
{
    tt_train_launches_unbind(t);
    bool ok = tt_train_layout_unbind(t);
    if (!t->elastic.member) {
        tt_train_launches_free(t);
        tt_train_layout_free(t);
        tt_policy_free(t->policy);
        t->policy = NULL;
    }
    if (t->comm)
        tt_comm_close(t->comm);
    t->comm = NULL;
    t->step_ns = t->first_ns = 0; /* the trace has ended */
    return ok;
}

/* The error is over. */
static void forgive(struct tt_trainer *t)
{
    pthread_mutex_lock(&t->lock);
    t->error = (struct tutti_error){0};
    atomic_store(&t->failed, false);
    pthread_mutex_unlock(&t->lock);
}

tutti_status tt_train_rebind(struct tt_trainer *t, struct tt_comm *c, struct tutti_error *err)
{
    struct tutti_error mine;
    err = err ? err : &mine;
    tutti_status st = rebind_check(t, err);
    if (st)
        return st;
    tt_train_thread_end(t);
    forgive(t);
    st = leave(t) ? tt_train_join(t, c, err) : tt_fail_memory(err, "means");
    return st ? tt_train_fail(t, err) : tt_train_bind(t, err);
}

uint64_t tt_train_bound(const struct tt_trainer *t)
{
    return t->elastic.bound;
}

uint64_t tt_train_steps(struct tt_trainer *t)
{
    return t->steps - (atomic_load(&t->active) ? 1 : 0);
}
