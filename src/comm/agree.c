/* agree.c - what must be equal on all ranks before they plan: library, algorithms, settings and the
 * network.
 *
 * Settings are compared as text while the ranks meet (boot). The network is compared by content
 * once all ranks can communicate: each rank builds its own from what it was given and sends two
 * hashes of it, one of its cables and one of everything (order of links, routing, hierarchy).
 *
 *     a rank could not build it    every rank fails with that rank's reason
 *     all exact hashes are equal   nothing more to do
 *     only the cables are equal    rank 0's network is sent and replaces the others, so that link
 *                                  numbers, routes and levels are literally the same everywhere
 *     the cables differ            rank 0's network is sent; ranks that differ find the first
 *                                  difference; every rank fails with it
 *
 * Communicators made by a split plan on the agreed network, or on one computed from values that
 * rank 0 gave to all ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/blame.h"
#include "comm/comm_int.h"

/* How many differences a message lists, and how many rules are compared by text. */
enum { SENTENCES = 3, RULES = 8 };

/* What a rank says about its own network. Sent between ranks. */
struct stance {
    int32_t status; /* of making it */
    uint32_t pad;
    uint64_t exact, cables, bytes;
    char text[sizeof((struct tutti_error *)0)->text];
};

/* What a rank found when it compared rank 0's network with its own. Sent between ranks. */
struct finding {
    int32_t status;
    uint32_t pad;
    struct tt_topo_diff diff;
    char text[128];
};

struct meeting {
    struct tt_comm *c;
    const struct tt_agreement *how;
    struct stance *stances;
    struct finding *findings;
    bool *set; /* a set of ranks, for messages */
};

/* The first rules as text, so that a message can name the difference; all of them as a hash. */
static void add_rules(const struct tt_tuning *t, struct tt_str *s)
{
    char rule[200];
    tt_str_printf(s, "tuning=%zu rule%s, %016llx\n", tt_plan_tuning_rules(t),
                  tt_plan_tuning_rules(t) == 1 ? "" : "s",
                  (unsigned long long)tt_plan_tuning_rules_hash(t));
    for (size_t i = 0; i < tt_plan_tuning_rules(t) && i < RULES; i++)
        tt_str_printf(s, "tuning rule %zu=%s\n", i + 1,
                      tt_plan_tuning_rule_text(t, i, rule, sizeof rule));
}

/* Two ranks with the same lines choose the same plans: versions, options, rules and the hash of
 * every algorithm. */
void tt_comm_agree_settings(const struct tt_comm_config *c, const struct tt_tuning *tuning,
                            struct tt_str *s)
{
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    tt_str_printf(s,
                  "libtutti=%s\ntransport=%s\nalgo=%s\ntopo=%s\nreproducible=%d\nverify=%d\ndump=%"
                  "d\ntrace=%d\nplan=%s\nchecksum=%s\n",
                  TUTTI_VERSION, c->transport ? c->transport : "auto", c->algo ? c->algo : "auto",
                  c->topo ? "given" : "as found", c->reproducible, c->verify, c->dump != NULL,
                  c->trace != NULL, c->plan ? "given" : "none",
                  c->checksum > 0   ? "1"
                  : c->checksum < 0 ? "0"
                                    : "between hosts");
    if (tuning)
        add_rules(tuning, s);
    else
        tt_str_printf(s, "tuning=%s\n", c->tuning ? "cannot be read" : "none");
    for (size_t i = 0; i < n; i++)
        tt_str_printf(s, "algorithm %s=%016llx\n", table[i]->name,
                      (unsigned long long)tt_algo_hash(table[i]));
}

/* ---- messages ---- */

static const char *ranks_of(const struct meeting *m, char *buf, size_t cap)
{
    return tt_boot_ranks_text(m->set, m->c->size, buf, cap);
}

/* Rank 0 tells the launcher; all ranks fail with the same message. */
static void agree_note(const struct meeting *m, uint32_t rank, const struct tutti_error *err)
{
    if (m->c->rank == 0)
        tt_blame_note(TT_NOTED_HINT, rank, m->c->size, err->text);
}

/* The error of the ranks that could not build their network; the lowest one's reason, and all ranks
 * that have the same. */
static tutti_status fail_unmade(const struct meeting *m, uint32_t first, struct tutti_error *err)
{
    const struct stance *s = &m->stances[first];
    char ranks[120];
    uint32_t n = 0;
    for (uint32_t r = 0; r < m->c->size; r++)
        n += m->set[r] = m->stances[r].status == s->status && tt_streq(m->stances[r].text, s->text);
    if (n == m->c->size)
        tt_fail(err, (tutti_status)s->status, "%s", s->text);
    else
        tt_fail(err, (tutti_status)s->status, "%s: %s", ranks_of(m, ranks, sizeof ranks), s->text);
    agree_note(m, n == m->c->size ? n : first, err);
    return err->status;
}

static void say_difference(const struct meeting *m, const struct tt_topo_diff *d,
                           struct tt_str *out)
{
    char ranks[120];
    ranks_of(m, ranks, sizeof ranks);
    tt_str_printf(out, "%s", out->len ? "; " : "");
    if (d->side == TT_TOPO_BOTH)
        tt_str_printf(out, "%s has %s at rank 0 and %s at %s", d->what, d->a, d->b, ranks);
    else if (d->side == TT_TOPO_ONLY_B)
        tt_str_printf(out, "the topology of %s has %s, that of rank 0 has none", ranks, d->what);
    else
        tt_str_printf(out, "the topology of rank 0 has %s, that of %s has none", d->what, ranks);
}

static bool same_finding(const struct finding *a, const struct finding *b)
{
    return a->diff.differs && b->diff.differs && memcmp(&a->diff, &b->diff, sizeof a->diff) == 0;
}

static void set_like(struct meeting *m, const struct finding *f)
{
    for (uint32_t r = 0; r < m->c->size; r++)
        m->set[r] = same_finding(&m->findings[r], f);
}

/* The rank whose cables differ from the others'; rank 1 if there is no memory to count. */
static uint32_t find_odd(const struct meeting *m)
{
    uint64_t *cables = tt_alloc(m->c->size, sizeof *cables);
    for (uint32_t r = 0; cables && r < m->c->size; r++)
        cables[r] = m->stances[r].cables;
    uint32_t odd = cables ? tt_odd_rank(cables, m->c->size) : 1;
    free(cables);
    return odd;
}

/* The error that lists each difference once, with the ranks that have it: the first few. */
static tutti_status fail_different(struct meeting *m, struct tutti_error *err)
{
    struct tt_str out = {0};
    char ranks[120];
    int said = 0;
    for (uint32_t r = 0; r < m->c->size && said < SENTENCES; r++) {
        bool first = m->findings[r].diff.differs;
        for (uint32_t q = 0; first && q < r; q++)
            first = !same_finding(&m->findings[q], &m->findings[r]);
        if (!first)
            continue;
        set_like(m, &m->findings[r]);
        say_difference(m, &m->findings[r].diff, &out);
        said++;
    }
    for (uint32_t r = 0; r < m->c->size; r++)
        m->set[r] = m->stances[r].cables != m->stances[0].cables;
    ranks_of(m, ranks, sizeof ranks);
    tt_fail(err, TUTTI_ERR_DIFFERS, "%s %s another network than rank 0: %s", ranks,
            strncmp(ranks, "ranks", 5) == 0 ? "have" : "has", out.s ? out.s : "its cables differ");
    tt_str_free(&out);
    agree_note(m, find_odd(m), err);
    return TUTTI_ERR_DIFFERS;
}

/* ---- the network that is sent ---- */

static tutti_status write_text(const struct tt_topo *t, char **ret, size_t *ret_bytes,
                               struct tutti_error *err)
{
    FILE *out = open_memstream(ret, ret_bytes);
    if (!out)
        return tt_fail_memory(err, "topology");
    tutti_status st = tt_topo_write(t, out, err);
    if (fclose(out) != 0 && !st)
        st = tt_fail_memory(err, "topology");
    return st;
}

/* Parses rank 0's network and compares it with this rank's own. *ret is the caller's, even after an
 * error. */
static tutti_status inspect(struct meeting *m, struct tt_topo *own, const char *text,
                            struct tt_topo **ret, struct finding *f)
{
    struct tutti_error why = {0};
    struct tt_topo *t = NULL;
    tutti_status st =
        tt_topo_read_memory(text, (size_t)m->stances[0].bytes, "rank 0's topology", &t, &why);
    if (!st)
        st = tt_topo_compare(t, own, &f->diff, &why);
    if (st)
        tt_str_fit(f->text, sizeof f->text, why.text);
    f->status = st;
    *ret = t;
    return st;
}

/* Takes ownership of `own`. All ranks get rank 0's network, or the same error. */
static tutti_status adopt(struct meeting *m, struct tt_topo *own, char *text, struct tt_topo **ret,
                          struct tutti_error *err)
{
    struct tt_comm *c = m->c;
    struct finding mine = {0};
    struct tt_topo *theirs = NULL;
    struct tt_hand h = {.op =
                            tt_comm_setup_op(&(struct tt_setup){.through = c, .why = TT_WHY_OPEN})};
    h.op.print = m->stances[0].exact;
    tutti_status st = tt_comm_hand_all(c, &h, text, (size_t)m->stances[0].bytes, err);
    if (!st && c->rank != 0)
        inspect(m, own, text, &theirs, &mine);
    if (!st)
        st = m->how->exchange(m->how->ctx, &mine, sizeof mine, m->findings, err);
    /* Every rank has the same findings, so every rank reports the same error. */
    for (uint32_t r = 0; !st && r < c->size; r++)
        if (m->findings[r].status)
            st = tt_fail(err, (tutti_status)m->findings[r].status, "rank %u: %s", r,
                         m->findings[r].text);
    for (uint32_t r = 0; !st && r < c->size; r++)
        if (m->findings[r].diff.differs || m->stances[r].cables != m->stances[0].cables)
            st = fail_different(m, err);
    if (!st && theirs) {
        tt_topo_free(own);
        own = theirs;
        theirs = NULL;
    }
    tt_topo_free(theirs);
    if (st)
        tt_topo_free(own);
    else
        *ret = own;
    return st;
}

/* Takes ownership of `own`. `text` is rank 0's network as text, NULL on other ranks. Every decision
 * is made from the stances, which are equal on all ranks. */
static tutti_status agree_settle(struct meeting *m, struct tt_topo *own, char *text,
                                 struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_comm *c = m->c;
    bool same = true;
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; r < c->size && !st; r++) {
        if (m->stances[r].status)
            st = fail_unmade(m, r, err);
        same = same && m->stances[r].exact == m->stances[0].exact;
    }
    char *place = NULL;
    if (!st && !same && !text && !(text = place = tt_zalloc((size_t)m->stances[0].bytes + 1, 1)))
        st = tt_fail_memory(err, "topology");
    if (st) {
        tt_topo_free(own);
        return st;
    }
    if (same)
        *ret = own;
    else
        st = adopt(m, own, text, ret, err);
    free(place);
    return st;
}

tutti_status tt_comm_agree_topology(struct tt_comm *c, const struct tt_agreement *how,
                                    struct tt_topo **ret, struct tutti_error *err)
{
    struct meeting m = {.c = c, .how = how};
    struct tutti_error why = {0};
    struct tt_topo *own = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct stance mine = {.status = tt_comm_topology(c, &own, &why)};
    if (!mine.status && c->rank == 0)
        mine.status = write_text(own, &text, &bytes, &why);
    if (!mine.status) {
        mine.exact = own->hash;
        mine.cables = tt_topo_cables_hash(own);
        mine.bytes = bytes;
    } else {
        memcpy(mine.text, why.text, sizeof mine.text);
    }
    /* A rank that could not build its network takes part all the same: the others wait for its
     * stance. */
    m.stances = tt_zalloc(c->size, sizeof *m.stances);
    m.findings = tt_zalloc(c->size, sizeof *m.findings);
    m.set = tt_zalloc(c->size, sizeof *m.set);
    tutti_status st =
        m.stances && m.findings && m.set ? TUTTI_OK : tt_fail_memory(err, "agreement");
    if (!st)
        st = how->exchange(how->ctx, &mine, sizeof mine, m.stances, err);
    if (!st)
        st = agree_settle(&m, own, text, ret, err);
    else
        tt_topo_free(own);
    free(text);
    free(m.stances);
    free(m.findings);
    free(m.set);
    return st;
}
