/* given.c - plans and rules that the user brings: TUTTI_PLAN (schedules in files) and TUTTI_TUNING
 * (rules that fix algorithms).
 *
 *     rank 0    reads the files, checks and proves each schedule, keeps them;
 *               sends what they are for, or why not
 *     others    take that over
 *     later     a call that a plan fits gets its slice from rank 0, like a synthesised plan
 *
 * A plan fits the calls of its collective (and root) on every communicator of its number of ranks;
 * length, type and reduction may be any, since a schedule names chunks. Rank 0 of the communicator
 * reads the file; after a split that may be another process, which must find exactly the plan that
 * the job's rank 0 has proved.
 *
 * Every rank reads the tuning file while the ranks meet. Its rules are settings, compared like the
 * others (agree.c). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"
#include "verify/verify.h"

/* What rank 0 says about one plan. Sent between ranks. */
struct facts {
    uint32_t coll, ranks, root, pad;
    uint64_t hash;
};

/* The result on rank 0 for all plans. Sent between ranks. */
struct answer {
    int32_t status;
    uint32_t pad;
    struct facts facts[TT_GIVEN_MAX];
    char text[sizeof((struct tutti_error *)0)->text];
};

struct given_plan {
    char *path;
    struct facts facts;     /* on all ranks */
    struct tt_sched *whole; /* if this process is a rank 0 that needs it; NULL: not read */
    bool used;
    const char *passed; /* why a call that it fits did not use it; NULL: there was none */
};

struct tt_given {
    size_t n;
    struct given_plan plans[TT_GIVEN_MAX];
};

/* ---- tuning ---- */

tutti_status tt_comm_given_tuning(const char *path, struct tt_tuning **ret, struct tutti_error *err)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return tt_fail(err, TUTTI_ERR_IO, "tuning file %.300s: %s", path, strerror(errno));
    tutti_status st = tt_plan_tuning_read(in, path, ret, err);
    fclose(in);
    return st;
}

/* ---- one plan, at the rank that reads it ---- */

static tutti_status read_plan(const char *path, struct tt_sched **ret, struct tutti_error *err)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return tt_fail(err, TUTTI_ERR_IO, "plan %.300s: %s", path, strerror(errno));
    tutti_status st = tt_sched_read(in, path, ret, err);
    fclose(in);
    return st;
}

/* What the proof leaves open: can the public calls use it? */
static tutti_status check_use(const struct tt_comm *c, const struct tt_sched *s,
                              struct tutti_error *err)
{
    const struct tt_shape *h = &s->shape;
    const char *coll = tt_sched_coll_name(h->coll);
    if (c->config.reproducible && tt_sched_coll_sums(h->coll))
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "%s by a plan of one's own cannot be reproducible: nothing proves that it "
                       "sums in rank order",
                       coll);
    if (h->coll == TUTTI_ALLREDUCE && c->algo && !tt_streq(c->algo, "auto"))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "the algorithm %s is named for allreduce, and a plan is given: only one of "
                       "them can run",
                       c->algo);
    for (uint32_t r = 0; tt_sched_coll_has_owners(h->coll) && r < h->ranks; r++) {
        bool owns = false;
        for (uint32_t k = 0; !owns && k < h->chunks; k++)
            owns = tt_sched_shape_owner(h, k) == r;
        if (!owns)
            return tt_fail(err, TUTTI_ERR_REFUSED,
                           "rank %" PRIu32 " owns no chunk, but %s has a block for every rank", r,
                           coll);
    }
    return TUTTI_OK;
}

static struct facts facts_of(const struct tt_sched *s)
{
    const struct tt_shape *h = &s->shape;
    return (struct facts){
        .coll = (uint32_t)h->coll, .ranks = h->ranks, .root = h->root, .hash = s->hash};
}

/* The first communicator of the job judges the plan; later ones only check that it is still the
 * same. */
static tutti_status admit_plan(const struct tt_comm *c, struct given_plan *p, struct tt_sched *s,
                               struct tutti_error *err)
{
    if (p->facts.ranks)
        return s->hash == p->facts.hash
                   ? TUTTI_OK
                   : tt_fail(err, TUTTI_ERR_DIFFERS,
                             "this is not the plan that rank 0 of the job has proved");
    tutti_status st = tt_comm_prove(s, s, 0, err);
    return st ? st : check_use(c, s, err);
}

/* Reads and admits the plan unless that was done before. */
static tutti_status given_load(const struct tt_comm *c, struct given_plan *p,
                               struct tutti_error *err)
{
    struct tt_sched *s = NULL;
    tutti_status st = p->whole ? TUTTI_OK : read_plan(p->path, &s, err);
    if (p->whole || st)
        return st;
    st = admit_plan(c, p, s, err);
    if (st) {
        tt_fail_prefix(err, "plan %.200s", p->path);
        tt_sched_free(s);
        return st;
    }
    p->whole = s;
    p->facts = facts_of(s);
    return TUTTI_OK;
}

/* ---- all ranks ---- */

void tt_comm_given_free(struct tt_given *g)
{
    for (size_t i = 0; g && i < g->n; i++) {
        free(g->plans[i].path);
        tt_sched_free(g->plans[i].whole);
    }
    free(g);
}

/* Splits "a.json:b.json". */
static tutti_status list_paths(const char *text, struct tt_given **ret, struct tutti_error *err)
{
    struct tt_given *g = tt_zalloc(1, sizeof *g);
    if (!g)
        return tt_fail_memory(err, "plans");
    for (size_t len; *text; text += len + (text[len] == ':')) {
        len = strcspn(text, ":");
        if (!len)
            continue;
        if (g->n == TT_GIVEN_MAX) {
            tt_comm_given_free(g);
            return tt_fail(err, TUTTI_ERR_LIMIT, "more than %d plans are given", TT_GIVEN_MAX);
        }
        char *path = strndup(text, len);
        if (!path) {
            tt_comm_given_free(g);
            return tt_fail_memory(err, "plans");
        }
        g->plans[g->n++].path = path;
    }
    *ret = g;
    return TUTTI_OK;
}

static bool fits_size(const struct given_plan *p, const struct tt_comm *c)
{
    return p->facts.ranks == c->size;
}

/* The result on rank 0 of c: the world's rank 0 judges all plans, that of another communicator
 * loads those that fit it. */
static void given_answer(struct tt_comm *c, bool first, struct answer *ret)
{
    struct tt_given *g = c->world->given;
    struct tutti_error why = {0};
    for (size_t i = 0; i < g->n && !ret->status; i++) {
        if (first || fits_size(&g->plans[i], c))
            ret->status = given_load(c, &g->plans[i], &why);
        ret->facts[i] = g->plans[i].facts;
    }
    if (ret->status)
        memcpy(ret->text, why.text, sizeof ret->text);
}

/* Does any plan fit c? All ranks have the same facts, so all decide alike. */
static bool concerns(const struct tt_comm *c)
{
    const struct tt_given *g = c->world->given;
    for (size_t i = 0; g && i < g->n; i++)
        if (fits_size(&g->plans[i], c))
            return true;
    return false;
}

/* Collective: rank 0's result becomes that of all ranks. */
static tutti_status given_take(struct tt_comm *c, bool first, const struct tt_agreement *how,
                               struct tutti_error *err)
{
    struct answer mine = {0}, *all = tt_alloc(c->size, sizeof *all);
    struct tt_given *g = c->world->given;
    if (!all)
        return tt_fail_memory(err, "plans");
    if (c->rank == 0)
        given_answer(c, first, &mine);
    if (mine.status)
        tt_comm_tell_refusal(c->world, "plan", c->config.plan);
    tutti_status st = how->exchange(how->ctx, &mine, sizeof mine, all, err);
    if (!st && all[0].status)
        st = tt_fail(err, (tutti_status)all[0].status, "%.*s", (int)sizeof mine.text - 1,
                     all[0].text);
    for (size_t i = 0; !st && i < g->n; i++)
        g->plans[i].facts = all[0].facts[i];
    free(all);
    return st;
}

/* A plan for another number of ranks than the job has is more often a mistake than meant for a
 * split. */
static void say_sizes(const struct tt_comm *c)
{
    const struct tt_given *g = c->world->given;
    for (size_t i = 0; c->rank == 0 && i < g->n; i++) {
        const struct given_plan *p = &g->plans[i];
        const char *coll = tt_sched_coll_name((tutti_coll)p->facts.coll);
        if (fits_size(p, c))
            tt_log_write(TT_LOG_INFO, 0, "plan %s is proved and runs every %s on %" PRIu32 " ranks",
                         p->path, coll, c->size);
        else
            tt_log_write(TT_LOG_WARN, 0,
                         "plan %s is for %s on %" PRIu32 " ranks and the job has %" PRIu32
                         ": it runs on communicators of %" PRIu32 " ranks only",
                         p->path, coll, p->facts.ranks, c->size, p->facts.ranks);
    }
}

tutti_status tt_comm_given_open(struct tt_comm *c, const struct tt_agreement *how,
                                struct tutti_error *err)
{
    bool first = !c->world->given;
    const struct tt_tuning *rules = c->world->tuning;
    tutti_status st =
        rules ? tt_plan_tuning_check(rules, c->topo, c->config.reproducible, err) : TUTTI_OK;
    if (st && c->rank == 0)
        tt_comm_tell_refusal(c->world, "tuning file", c->config.tuning);
    if (!st && first && c->config.plan)
        st = list_paths(c->config.plan, &c->world->given, err);
    if (!st && c->world->given && (first || concerns(c)))
        st = given_take(c, first, how, err);
    if (!st && first && c->world->given)
        say_sizes(c);
    return st;
}

static void say_unused(const struct given_plan *p)
{
    const char *coll = tt_sched_coll_name((tutti_coll)p->facts.coll);
    if (p->passed)
        tt_log_write(TT_LOG_WARN, 0, "plan %s never ran: the calls of %s %s", p->path, coll,
                     p->passed);
    else if (tt_sched_coll_is_rooted((tutti_coll)p->facts.coll))
        tt_log_write(TT_LOG_WARN, 0,
                     "plan %s never ran: no call was the %s with root %" PRIu32 " that it is for",
                     p->path, coll, p->facts.root);
    else
        tt_log_write(TT_LOG_WARN, 0, "plan %s never ran: no call was the %s that it is for",
                     p->path, coll);
}

/* Warns about plans that never ran. Plans for fewer ranks may have run without this process. */
void tt_comm_given_close(const struct tt_comm *c)
{
    const struct tt_given *g = c->world->given;
    if (c->rank != 0 || c->tag || c->failed)
        return;
    for (size_t i = 0; g && i < g->n; i++)
        if (fits_size(&g->plans[i], c) && !g->plans[i].used)
            say_unused(&g->plans[i]);
}

static bool given_fits(const struct given_plan *p, const struct tt_comm *c,
                       const struct tt_problem *q)
{
    return fits_size(p, c) && p->facts.coll == (uint32_t)q->coll &&
           (!tt_sched_coll_is_rooted(q->coll) || p->facts.root == q->root);
}

/* Why the call cannot be run by a user's plan; NULL: it can. */
static const char *hindrance(const struct tt_comm_ask *ask)
{
    if (ask->algo && !tt_streq(ask->algo, "auto"))
        return "named their algorithm";
    return tt_algo_problem_ordered(&ask->problem)
               ? "had to be summed in rank order (an avg of integers, or a reduction that does not "
                 "commute), "
                 "which no plan of one's own is proved to do"
               : NULL;
}

bool tt_comm_given_runs(struct tt_comm *c, const struct tt_comm_ask *ask)
{
    struct tt_given *g = c->world->given;
    for (size_t i = 0; g && i < g->n; i++)
        if (given_fits(&g->plans[i], c, &ask->problem)) {
            const char *why = hindrance(ask);
            g->plans[i].used = g->plans[i].used || !why;
            if (!ask->why.op.why) /* the user's own call, not part of opening something */
                g->plans[i].passed = why;
            return !why;
        }
    return false;
}

tutti_status tt_comm_given_plan(struct tt_comm *c, const struct tt_problem *p,
                                struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_given *g = c->world->given;
    size_t i = 0;
    /* tt_comm_given_runs was true for this problem, so a plan is found. */
    while (!given_fits(&g->plans[i], c, p))
        i++;
    struct tt_shape made_for = g->plans[i].whole->shape;
    made_for.count = p->count;
    made_for.dtype = p->dtype;
    made_for.redop = p->redop;
    return tt_sched_share(g->plans[i].whole, &made_for, ret, err);
}
