/* enter.c - a process that becomes a member of a job that runs.
 *
 *     a member's address --> reach, prove --> own listener --> join --> waits --> ticket
 *           ^  the next                                                  |
 *           '---------------- the member is gone, or went on without us -'
 *
 * The addresses are tried in turn until the deadline, since some of the members may have ended. A
 * member that refuses (another key, version or setting) ends the attempt with its reason, and so
 * does the end of the job: nobody listens at any of the addresses. Each
 * attempt has a listener of its own: if members count on an earlier one that was given up, they
 * find that nobody listens there any more, and go on without it at once. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "boot/boot_int.h"

#define TURN_NS  UINT64_C(1000000000) /* for reaching one of several members */
#define PAUSE_NS UINT64_C(50000000)   /* between two attempts */

/* The next of the addresses "a:1,b:2"; begins again after the last one. False: it is too long. */
static bool next_address(const char *list, const char **at, char *ret, size_t cap)
{
    const char *from = **at ? *at : list;
    size_t n = strcspn(from, ",");

    *at = from + n + (from[n] == ',');
    return n > 0 && (size_t)snprintf(ret, cap, "%.*s", (int)n, from) < cap;
}

static tutti_status find_member(struct tt_boot *b, struct tt_place *at, struct tutti_error *err)
{
    char host[TT_BOOT_HOST * 2];
    tutti_status st = tt_boot_rendezvous_parse(b->config.rendezvous, host, &at->port, err);

    if (!st)
        st = tt_boot_resolve(host, at->deadline_ns, &at->addr_be, err);
    if (!st)
        st = tt_boot_check_trust(&b->config, at->addr_be, err);
    if (!st && !b->config.has_key && !b->config.insecure)
        st = tt_fail(err, TUTTI_ERR_AUTH,
                     "a process that joins a job needs the job's key: set TUTTI_KEY_FILE on all "
                     "ranks from the beginning");
    return st;
}

/* The job that the ticket is for. */
static tutti_status take_ticket(const struct tt_boot *b, const struct tt_boot_config *c,
                                const struct tt_frame_in *in, struct tt_boot **ret,
                                uint32_t *ret_change, struct tutti_error *err)
{
    struct tt_boot_config own = *c;
    struct tt_ticket t;
    struct tt_boot *job;
    bool ok = in->frame.kind == TT_FRAME_TICKET &&
              tt_boot_ticket_parse(in->body, (size_t)in->frame.length, &t, &own.size);

    if (!ok)
        return tt_fail(err, TUTTI_ERR_CONNECT, "the member (%s) sent a ticket that makes no sense",
                       b->config.rendezvous);
    own.rank = t.rank;
    job = tt_boot_make(&own);
    if (!job)
        return tt_fail_memory(err, "rendezvous");
    memcpy(job->config.key, b->config.key, sizeof job->config.key);
    job->config.has_key = b->config.has_key;
    job->offer = b->offer;
    job->job = t.job;
    job->source_be = b->source_be;
    if (!tt_boot_table_parse(in->body + TT_TICKET_FIXED, (size_t)in->frame.length - TT_TICKET_FIXED,
                             own.size, job->peers)) {
        tt_boot_close(job);
        return tt_fail(err, TUTTI_ERR_CONNECT, "the member (%s) sent a table that makes no sense",
                       b->config.rendezvous);
    }
    *ret_change = t.change;
    *ret = job;
    return TUTTI_OK;
}

/* Waits at the member that was reached. */
static tutti_status wait_inside(struct tt_boot *b, const struct tt_boot_config *c,
                                const struct tt_place *at, struct tt_boot **ret,
                                uint32_t *ret_change, struct tutti_error *err)
{
    struct tt_frame_in in = {.body = tt_alloc(TT_TICKET_MAX, 1), .cap = TT_TICKET_MAX};
    tutti_status st =
        in.body ? tt_boot_join_await(b, &in, at, err) : tt_fail_memory(err, "rendezvous");

    if (!st && in.frame.kind == TT_FRAME_REFUSAL) {
        tt_boot_refusal_parse(in.body, (size_t)in.frame.length, err);
        st = err->status;
    } else if (!st) {
        st = take_ticket(b, c, &in, ret, ret_change, err);
    } else if (st == TUTTI_ERR_TIMEOUT) {
        char span[32];
        tt_fail(err, st,
                "the member (%s) took us in, but the members have not admitted us within %s "
                "(tutti_comm_admit, which all of them must call; TUTTI_TIMEOUT)",
                b->config.rendezvous, tt_boot_net_span(b->config.timeout_ns, span, sizeof span));
    }
    free(in.body);
    return st;
}

struct entry {
    struct tt_boot *b; /* this process alone */
    const struct tt_boot_config *c;
    uint64_t deadline_ns;
    unsigned gone; /* attempts in a row that found nobody listening */
};

/* One attempt at b->config.rendezvous. Until several addresses were tried, reaching one of them may
 * take a turn only. */
static tutti_status attempt(struct entry *e, struct tt_boot **ret, uint32_t *ret_change,
                            struct tutti_error *err)
{
    struct tt_boot *b = e->b;
    uint64_t turn = tt_now_ns() + TURN_NS, job;
    bool several = strchr(e->c->join, ',') != NULL;
    struct tt_place at = {.deadline_ns = several && turn < e->deadline_ns ? turn : e->deadline_ns};
    tutti_status st = find_member(b, &at, err);

    if (!st)
        st = tt_boot_iface_choose(b->config.iface, at.addr_be, &b->peers[0].addr_be, err);
    if (!st)
        st = tt_boot_join_reach(b, &at, &job, err);
    at.deadline_ns = e->deadline_ns;
    e->gone = st == TUTTI_ERR_PEER ? e->gone + 1 : 0;
    if (!st)
        st = tt_boot_join_listen(b, &at, err);
    if (!st)
        st = tt_boot_join_say(b, e->deadline_ns, err);
    if (!st)
        st = wait_inside(b, e->c, &at, ret, ret_change, err);
    if (!st) {
        (*ret)->listener = b->listener;
        b->listener = -1;
        st = tt_boot_porter_open(*ret, err);
        if (st)
            tt_boot_close(*ret);
    }
    tt_boot_line_close(&b->control[0]);
    tt_boot_net_close(&b->listener);
    return st;
}

/* How many addresses? */
static unsigned count_addresses(const char *list)
{
    unsigned n = 1;

    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Errors after which another member, or a later moment, may help. */
static bool passing(tutti_status st)
{
    return st == TUTTI_ERR_PEER || st == TUTTI_ERR_TIMEOUT || st == TUTTI_ERR_CONNECT;
}

/* The last attempt ended for a reason of its own, which is said behind ours. */
static tutti_status fail_late(const struct tt_boot_config *own, struct tutti_error *err)
{
    char span[32], last[sizeof err->text];

    snprintf(last, sizeof last, "%s", err->text);
    return tt_fail(err, TUTTI_ERR_TIMEOUT,
                   "no member has admitted us within %s (TUTTI_TIMEOUT); the last attempt: %s",
                   tt_boot_net_span(own->timeout_ns, span, sizeof span), last);
}

static tutti_status attempt_all(struct entry *e, struct tt_boot **ret, uint32_t *ret_change,
                                struct tutti_error *err)
{
    struct tt_boot_config *own = &e->b->config;
    const char *at = "";
    tutti_status st;

    for (;;) {
        if (!next_address(e->c->join, &at, own->rendezvous, sizeof own->rendezvous))
            return tt_fail(err, TUTTI_ERR_ARG, "\"%.60s\" is not a list of addresses host:port",
                           e->c->join);
        st = attempt(e, ret, ret_change, err);
        if (!st || !passing(st) || e->gone >= 2 * count_addresses(e->c->join))
            return st;
        if (tt_now_ns() >= e->deadline_ns)
            return st == TUTTI_ERR_TIMEOUT ? st : fail_late(own, err);
        tt_boot_net_poll(NULL, 0, tt_now_ns() + PAUSE_NS);
    }
}

tutti_status tt_boot_enter(const struct tt_boot_config *c, struct tt_boot **ret,
                           uint32_t *ret_change, struct tutti_error *err)
{
    struct tt_boot_config alone = *c;
    struct tutti_error why = {0};
    struct entry e = {.c = c};
    tutti_status st = TUTTI_OK;

    alone.rank = 0;
    alone.size = 1;
    if (sodium_init() < 0)
        return tt_fail(err, TUTTI_ERR_IO, "libsodium cannot be initialised");
    e.b = tt_boot_make(&alone);
    explicit_bzero(alone.key, sizeof alone.key);
    if (!e.b)
        return tt_fail_memory(err, "rendezvous");
    if (c->key_file)
        st = tt_boot_key_load(c->key_file, e.b->config.key, &why);
    e.b->config.has_key |= c->key_file != NULL;
    e.b->offer = e.b->config.has_key ? TT_OFFER_FILE : TT_OFFER_NONE;
    e.deadline_ns = tt_boot_net_deadline(e.b->config.timeout_ns);
    if (!st)
        st = attempt_all(&e, ret, ret_change, &why);
    tt_boot_close(e.b);
    return !st ? st : tt_fail(err, st, "%s", why.text);
}
