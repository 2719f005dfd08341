/* shrink.c - going on without the ranks that failed.
 *
 *     roll call on the old world (watch/call.c) -> who goes on, and the id of their job
 *        -> boot of the new world, its control lines (boot/succeed.c) -> watch -> communicator
 *        -> a rank died meanwhile: the same again, from the new world
 *
 * Nothing of the old world is used by the new one: its job id is part of every handshake, names of
 * shared memory come from it, and its connections stay with the old communicator. A rank that died
 * after the agreement is found by the watch of the new world while it opens, on all its ranks; they
 * then call the roll of the new world, without the caller noticing.
 *
 * The network is measured anew and described as found: what the user gave (a topology, plans) was
 * for another number of ranks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"
#include "watch/call.h"

static tutti_status shrink_check(const struct tt_comm *c, struct tutti_error *err)
{
    if (c->world->mpi)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "ranks of transport mpi cannot go on without each other: MPI ends them all");
    if (c->id != 0)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "this communicator is part of another one: shrink the one that was opened "
                       "first, then split that");
    if (c->size < 2)
        return tt_fail(err, TUTTI_ERR_ARG, "a communicator of one rank cannot become smaller");
    return TUTTI_OK;
}

/* ---- words ---- */

/* "ranks 1, 3", of those of a world of n that are (not) in the view. */
static char *ranks_of(const struct tt_set *s, uint32_t n, bool in, char *buf, size_t cap)
{
    bool *set = tt_zalloc(n, sizeof *set);
    for (uint32_t r = 0; set && r < n; r++)
        set[r] = tt_set_has(s, r) == in;
    if (set)
        tt_boot_ranks_text(set, n, buf, cap);
    else
        snprintf(buf, cap, "some ranks");
    free(set);
    return buf;
}

/* One line for the report and the log: who left, why, who is who now. */
static void remember(const struct tt_world *old, struct tt_world *w,
                     const struct tt_roll_note *word)
{
    const struct tt_boot_config *was = tt_boot_config(old->boot), *is = tt_boot_config(w->boot);
    char out[120], on[120], why[300] = "";
    struct tt_verdict v;
    struct tt_str s = {0};
    if (old->history)
        tt_str_printf(&s, "%s", old->history);
    if (tt_watch_verdict(old->watch, &v))
        snprintf(why, sizeof why, ": %s", v.text);
    size_t begin = s.len;
    if (is->size == was->size)
        tt_str_printf(&s, "  change %" PRIu32 ": all %" PRIu32 " ranks went on%s\n", w->change,
                      is->size, why);
    else
        tt_str_printf(&s,
                      "  change %" PRIu32 ": %s of %" PRIu32 " left; %s went on as %" PRIu32
                      " rank%s, this one as rank %" PRIu32 "%s\n",
                      w->change, ranks_of(&word->view.in, was->size, false, out, sizeof out),
                      was->size, ranks_of(&word->view.in, was->size, true, on, sizeof on), is->size,
                      is->size == 1 ? "" : "s", is->rank, why);
    if (s.failed) { /* a line is missing in the report; the job goes on */
        tt_str_free(&s);
        return;
    }
    w->history = s.s;
    if (tt_log_wants(TT_LOG_INFO))
        tt_log_write(TT_LOG_INFO, is->rank, "%.*s", (int)(s.len - begin - 3), s.s + begin + 2);
}

static tutti_status fail_out(const struct tt_world *w, const struct tt_roll_note *word,
                             struct tutti_error *err)
{
    uint32_t n = tt_boot_config(w->boot)->size;
    char on[200];
    return tt_fail(err, TUTTI_ERR_PEER,
                   "rank %u was left out: %s went on without it, because it was silent or did not "
                   "come in time; it may join again as a new rank",
                   tt_boot_config(w->boot)->rank, ranks_of(&word->view.in, n, true, on, sizeof on));
}

/* ---- the new world ---- */

/* The connection to boot: everything but the ranks is taken from the old world. */
static tutti_status heir_boot(struct tt_world *old, const struct tt_roll_note *word,
                              struct tt_boot **ret, struct tutti_error *err)
{
    const struct tt_boot_config *b = tt_boot_config(old->boot);
    uint32_t *members = tt_alloc(b->size, sizeof *members);
    struct tt_boot_heirs h = {
        .members = members, .job = word->view.job, .word = word, .word_bytes = sizeof *word};
    if (!members)
        return tt_fail_memory(err, "roll call");
    for (uint32_t r = 0; r < b->size; r++)
        if (tt_set_has(&word->view.in, r)) {
            h.me = r == b->rank ? h.n : h.me;
            members[h.n++] = r;
        }
    tutti_status st = tt_boot_succeed(old->boot, &h, ret, err);
    free(members);
    return st;
}

/* The tuning rules move: calls on the old communicator only return its verdict. */
static tutti_status heir_make(struct tt_world *old, const struct tt_roll_note *word,
                              struct tt_world **ret, struct tutti_error *err)
{
    struct tt_world *w = tt_zalloc(1, sizeof *w);
    if (!w)
        return tt_fail_memory(err, "communicator");
    w->refs = 1;
    w->checksum = old->checksum;
    w->timeout_ns = old->timeout_ns;
    w->change = old->change + 1;
    tutti_status st = heir_boot(old, word, &w->boot, err);
    if (!st)
        st = tt_boot_rejoin(w->boot, tt_now_ns() + w->timeout_ns / 2, err);
    if (!st)
        st = tt_watch_open(w->boot, w->timeout_ns, &w->watch, err);
    if (!st)
        st = tt_log_setup(tt_boot_config(w->boot)->rank, err);
    if (st) {
        tt_comm_world_release(w);
        return st;
    }
    w->tuning = old->tuning;
    old->tuning = NULL;
    remember(old, w, word);
    *ret = w;
    return TUTTI_OK;
}

/* One change: the ranks of w agree, and those who go on open a communicator. *ret_next is the new
 * world once there is one. */
static tutti_status change(struct tt_world *w, struct tt_comm_config *config,
                           struct tt_world **ret_next, struct tt_comm **ret,
                           struct tutti_error *err)
{
    struct tt_standing s;
    struct tt_roll_note word;
    tt_watch_standing(w->watch, &s);
    tutti_status st = tt_watch_call_roll(w->boot, &s, w->timeout_ns, &word, err);
    if (st)
        return st;
    if (!tt_set_has(&word.view.in, tt_boot_config(w->boot)->rank))
        return fail_out(w, &word, err);
    st = heir_make(w, &word, ret_next, err);
    if (st)
        return st;
    config->boot.rank = tt_boot_config((*ret_next)->boot)->rank;
    config->boot.size = tt_boot_config((*ret_next)->boot)->size;
    return tt_comm_open_on(*ret_next, config, ret, err);
}

/* Each failed attempt is a change of its own; there are not more than members to lose, and one in
 * which all of them go on. */
tutti_status tt_comm_shrink(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err)
{
    struct tt_comm_config config = c->config;
    struct tt_world *w = c->world;
    struct tt_verdict v;
    tutti_status st = shrink_check(c, err);
    if (st)
        return st;
    config.topo = config.plan = config.tuning = config.trace = NULL;
    config.algo = c->algo;
    atomic_fetch_add(&w->refs, 1);
    for (uint32_t left = c->size + 1;;) {
        struct tt_world *next = NULL;
        st = change(w, &config, &next, ret, err);
        bool again = st && next && --left && tt_boot_config(next->boot)->size > 1 &&
                     tt_watch_verdict(next->watch, &v);
        if (next) {
            tt_comm_world_release(w);
            w = next;
        }
        if (!again)
            break;
    }
    tt_comm_world_release(w);
    return st;
}

uint32_t tt_comm_changes(const struct tt_comm *c)
{
    return c->world->change;
}
