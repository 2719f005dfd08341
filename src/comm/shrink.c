/* shrink.c - going on with other members: without the ranks that failed, with newcomers (admit.c).
 *
 *     roll call on the old world (watch/call.c) -> who goes on, who comes, and the id of their job
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

tutti_status tt_comm_may_change(const struct tt_comm *c, struct tutti_error *err)
{
    if (c->world->mpi)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "ranks of transport mpi cannot go on without each other: MPI ends them all");
    if (c->id != 0)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "this communicator is part of another one: change the members of the one "
                       "that was opened first, then split that");
    if (atomic_load(&c->world->succeeded))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "the members of this communicator have gone on to another one: close it");
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

/* Who left and who came, in words. */
static void describe(const struct tt_world *old, const struct tt_world *w,
                     const struct tt_roll_view *v, struct tt_str *s)
{
    const struct tt_boot_config *was = tt_boot_config(old->boot), *is = tt_boot_config(w->boot);
    uint32_t kept = tt_roll_count(&v->in, was->size), came = is->size - kept;
    char out[120], on[120];
    if (kept == was->size && !came) {
        tt_str_printf(s, "all %" PRIu32 " ranks went on", kept);
        return;
    }
    if (kept < was->size)
        tt_str_printf(s, "%s of %" PRIu32 " left; %s went on as %" PRIu32 " rank%s",
                      ranks_of(&v->in, was->size, false, out, sizeof out), was->size,
                      ranks_of(&v->in, was->size, true, on, sizeof on), kept, kept == 1 ? "" : "s");
    if (came)
        tt_str_printf(s, "%s%" PRIu32 " newcomer%s joined as rank%s %" PRIu32,
                      kept < was->size ? "; " : "", came, came == 1 ? "" : "s",
                      came == 1 ? "" : "s", kept);
    if (came > 1)
        tt_str_printf(s, "-%" PRIu32, is->size - 1);
    if (came)
        tt_str_printf(s, ", %" PRIu32 " ranks now", is->size);
    tt_str_printf(s, ", this one as rank %" PRIu32, is->rank);
}

/* One line for the report and the log: who left, why, who came, who is who now. */
static void remember(const struct tt_world *old, struct tt_world *w,
                     const struct tt_roll_note *word)
{
    struct tt_verdict v;
    struct tt_str s = {0};
    if (old->history)
        tt_str_printf(&s, "%s", old->history);
    size_t begin = s.len;
    tt_str_printf(&s, "  change %" PRIu32 ": ", w->change);
    describe(old, w, &word->view, &s);
    if (tt_watch_verdict(old->watch, &v))
        tt_str_printf(&s, ": %.299s", v.text);
    tt_str_printf(&s, "\n");
    if (s.failed) { /* a line is missing in the report; the job goes on */
        tt_str_free(&s);
        return;
    }
    w->history = s.s;
    if (tt_log_wants(TT_LOG_INFO))
        tt_log_write(TT_LOG_INFO, tt_boot_config(w->boot)->rank, "%.*s", (int)(s.len - begin - 3),
                     s.s + begin + 2);
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

/* Newcomers whose member was left out are not in: nobody could tell them. */
static uint32_t choose_newcomers(const struct tt_roll_view *v, const struct tt_newcomers *all,
                                 struct tt_boot_newcomer *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; v->newcomers && all && i < all->n; i++)
        if (tt_set_has(&v->in, all->list[i].host))
            ret[n++] = all->list[i];
    return n;
}

/* The connection to boot: everything but the ranks is taken from the old world. */
static tutti_status heir_boot(struct tt_world *old, const struct tt_roll_note *word,
                              const struct tt_newcomers *all, struct tt_world *w,
                              struct tutti_error *err)
{
    const struct tt_boot_config *b = tt_boot_config(old->boot);
    uint32_t *members = tt_alloc(b->size, sizeof *members);
    struct tt_boot_newcomer *came = tt_zalloc((all ? all->n : 0) + 1u, sizeof *came);
    struct tt_boot_heirs h = {.members = members,
                              .newcomers = came,
                              .change = w->change,
                              .job = word->view.job,
                              .word = word,
                              .word_bytes = sizeof *word};
    tutti_status st = members && came ? TUTTI_OK : tt_fail_memory(err, "roll call");
    for (uint32_t r = 0; !st && r < b->size; r++)
        if (tt_set_has(&word->view.in, r)) {
            h.me = r == b->rank ? h.n : h.me;
            members[h.n++] = r;
        }
    if (!st) {
        h.nnew = choose_newcomers(&word->view, all, came);
        st = tt_boot_succeed(old->boot, &h, &w->boot, err);
    }
    free(members);
    free(came);
    return st;
}

tutti_status tt_comm_world_rejoin(struct tt_world *w, struct tutti_error *err)
{
    tutti_status st = tt_boot_rejoin(w->boot, tt_now_ns() + w->timeout_ns / 2, err);
    if (!st)
        st = tt_watch_open(w->boot, w->timeout_ns, &w->watch, err);
    return st ? st : tt_log_setup(tt_boot_config(w->boot)->rank, err);
}

/* The tuning rules move: the old communicator is only closed from now on. */
static tutti_status heir_make(struct tt_world *old, const struct tt_roll_note *word,
                              const struct tt_newcomers *all, struct tt_world **ret,
                              struct tutti_error *err)
{
    struct tt_world *w = tt_zalloc(1, sizeof *w);
    if (!w)
        return tt_fail_memory(err, "communicator");
    w->refs = 1;
    w->checksum = old->checksum;
    w->timeout_ns = old->timeout_ns;
    w->change = old->change + 1;
    tutti_status st = heir_boot(old, word, all, w, err);
    if (!st)
        atomic_store(&old->succeeded, true);
    if (!st)
        st = tt_comm_world_rejoin(w, err);
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

/* The ranks of w agree; *ret is the world of those who go on and of the newcomers. */
static tutti_status world_succeed(struct tt_world *w, const struct tt_newcomers *all,
                                  struct tt_world **ret, struct tutti_error *err)
{
    struct tt_standing s;
    struct tt_roll_note word;
    tt_watch_standing(w->watch, &s);
    s.newcomers = all && all->known ? all->n : 0;
    tutti_status st = tt_watch_call_roll(w->boot, &s, w->timeout_ns, &word, err);
    if (st)
        return st;
    if (!tt_set_has(&word.view.in, tt_boot_config(w->boot)->rank))
        return fail_out(w, &word, err);
    if (word.view.newcomers && (!all || word.view.newcomers != all->n))
        return tt_fail(err, TUTTI_ERR_PEER, "the ranks admitted newcomers that this one knows not");
    return heir_make(w, &word, all, ret, err);
}

/* Each failed attempt is a change of its own; there are not more than members to lose, and one in
 * which all of them go on. */
tutti_status tt_comm_go_on(struct tt_world *w, struct tt_comm_config *config, struct tt_comm **ret,
                           struct tutti_error *err)
{
    tutti_status st;
    config->topo = config->plan = config->tuning = config->trace = NULL;
    for (uint32_t left = tt_boot_config(w->boot)->size + 1;; left--) {
        const struct tt_boot_config *b = tt_boot_config(w->boot);
        struct tt_world *next = NULL;
        struct tt_verdict v;
        config->boot.rank = b->rank;
        config->boot.size = b->size;
        st = tt_comm_open_on(w, config, ret, err);
        if (!st || !left || b->size < 2 || !tt_watch_verdict(w->watch, &v))
            break;
        st = world_succeed(w, NULL, &next, err);
        if (st)
            break;
        tt_comm_world_release(w);
        w = next;
    }
    tt_comm_world_release(w);
    return st;
}

tutti_status tt_comm_succeed(struct tt_comm *c, const struct tt_newcomers *all,
                             struct tt_comm **ret, struct tutti_error *err)
{
    struct tt_comm_config config = c->config;
    struct tt_world *w = NULL;
    tutti_status st = world_succeed(c->world, all, &w, err);
    config.algo = c->algo;
    return st ? st : tt_comm_go_on(w, &config, ret, err);
}

tutti_status tt_comm_shrink(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err)
{
    tutti_status st = tt_comm_may_change(c, err);
    if (!st && c->size < 2)
        st = tt_fail(err, TUTTI_ERR_ARG, "a communicator of one rank cannot become smaller");
    return st ? st : tt_comm_succeed(c, NULL, ret, err);
}

uint32_t tt_comm_changes(const struct tt_comm *c)
{
    return c->world->change;
}
