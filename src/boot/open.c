/* open.c - the object of a job's ranks: checks its configuration, meets, closes.
 *
 * Everything that can be wrong with the configuration is refused before any socket is opened. The
 * rule of trust is here: a rendezvous on loopback needs nothing, since the processes of one user
 * agree on a key there (local.c; all listeners are on loopback then); any other needs a key or the
 * explicit setting `insecure`. */
#include "boot/boot_int.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#ifndef TUTTI_VERSION
#define TUTTI_VERSION "unknown"
#endif

enum { OWN_SETTINGS = 16 }; /* "encrypt=1\n" */

static tutti_status check_config(const struct tt_boot_config *c, struct tutti_error *err)
{
    size_t n = c->settings ? strnlen(c->settings, TT_BOOT_SETTINGS + 1) : 0;

    if (c->size == 0 || c->size > TT_BOOT_SIZE_MAX)
        return tt_fail(err, TUTTI_ERR_RANGE, "a job of %u ranks: must be 1 to %d", c->size,
                       TT_BOOT_SIZE_MAX);
    if (c->rank >= c->size)
        return tt_fail(err, TUTTI_ERR_RANGE, "rank %u of %u ranks: must be 0 to %u", c->rank,
                       c->size, c->size - 1);
    if (c->size > 1 && !c->rendezvous[0])
        return tt_fail(err, TUTTI_ERR_ARG,
                       "%u ranks and no rendezvous: set TUTTI_RENDEZVOUS to rank 0's host:port",
                       c->size);
    if ((c->port_lo == 0) != (c->port_hi == 0) || c->port_lo > c->port_hi)
        return tt_fail(err, TUTTI_ERR_RANGE, "port range %u-%u is empty", c->port_lo, c->port_hi);
    if (n > TT_BOOT_SETTINGS - OWN_SETTINGS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "settings are longer than %d bytes",
                       TT_BOOT_SETTINGS - OWN_SETTINGS);
    if (c->has_key && sodium_is_zero(c->key, sizeof c->key))
        return tt_fail(err, TUTTI_ERR_ARG, "the job key is all zeros");
    return TUTTI_OK;
}

/* The rule of trust (see above). */
tutti_status tt_boot_check_trust(const struct tt_boot_config *c, uint32_t addr_be,
                                 struct tutti_error *err)
{
    if (c->has_key || c->insecure || tt_boot_net_loopback(addr_be))
        return TUTTI_OK;
    return tt_fail(err, TUTTI_ERR_AUTH,
                   "the rendezvous %s is not loopback and there is no job key: make one with "
                   "(umask 077; head -c 32 /dev/urandom > key), copy it to "
                   "every host and set TUTTI_KEY_FILE, or set TUTTI_INSECURE=1 to let anyone in",
                   c->rendezvous);
}

/* How many connections a rank needs depends on its schedules, so the limit is raised as far as
 * allowed. Rank 0 needs one connection per rank, the listener and the unproved ones; poll(2) obeys
 * the same limit. */
static tutti_status raise_descriptors(uint32_t rank, uint32_t size, struct tutti_error *err)
{
    struct rlimit l;
    rlim_t need = rank == 0 ? (rlim_t)size + 256 : 0;

    if (getrlimit(RLIMIT_NOFILE, &l) != 0)
        return TUTTI_OK;
    if (l.rlim_cur < l.rlim_max &&
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){l.rlim_max, l.rlim_max}) == 0)
        l.rlim_cur = l.rlim_max;
    if (l.rlim_cur >= need)
        return TUTTI_OK;
    return tt_fail(
        err, TUTTI_ERR_LIMIT,
        "rank 0 of %u ranks needs %llu file descriptors and may have %llu: raise ulimit -n", size,
        (unsigned long long)need, (unsigned long long)l.rlim_cur);
}

/* The lines that are compared: the caller's and our own. NULL: out of memory. */
static char *settings_make(const struct tt_boot_config *c)
{
    struct tt_str s = {0};

    tt_str_printf(&s, "encrypt=%d\n%s", c->encrypt, c->settings ? c->settings : "");
    if (s.failed)
        tt_str_free(&s);
    return s.s;
}

struct tt_boot *tt_boot_make(const struct tt_boot_config *c)
{
    struct tt_boot *b = tt_zalloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->config = *c;
    b->config.join = NULL;
    b->config.settings = NULL;
    b->config.rendezvous[sizeof b->config.rendezvous - 1] = 0;
    b->config.iface[sizeof b->config.iface - 1] = 0;
    if (!c->has_key)
        memset(b->config.key, 0, sizeof b->config.key);
    b->config.key_file = NULL;
    if (c->timeout_ns == 0)
        b->config.timeout_ns = TT_BOOT_TIMEOUT_NS;
    if (c->encrypt)
        crypto_kx_keypair(b->pair.share, b->pair.secret);
    b->listener = -1;
    b->early.elem = sizeof(struct tt_early *);
    b->past.elem = sizeof(struct tt_past);
    b->guests.elem = sizeof(struct tt_guest *);
    b->peers = tt_zalloc(c->size, sizeof *b->peers);
    b->control = tt_alloc(c->size, sizeof *b->control);
    b->config.settings = settings_make(c);
    /* control is freed first: its lines are not initialised yet, and tt_boot_close would close
     * them. */
    if (!b->peers || !b->control || !b->config.settings) {
        free(b->control);
        b->control = NULL;
        tt_boot_close(b);
        return NULL;
    }
    for (uint32_t r = 0; r < c->size; r++)
        b->control[r] = (struct tt_boot_line){.fd = -1};
    tt_boot_host_self(&b->peers[c->rank], &b->net_id);
    return b;
}

struct tt_trust tt_boot_trust(const struct tt_boot *b, enum tt_conn_kind kind)
{
    return (struct tt_trust){.key = b->config.key,
                             .keyed = b->config.has_key,
                             .rank = b->config.rank,
                             .job = b->job,
                             .kind = kind,
                             .past = kind == TT_CONN_DATA ? b->past.data : NULL,
                             .npast = kind == TT_CONN_DATA ? b->past.len : 0,
                             .welcome = kind == TT_CONN_DATA && b->welcome,
                             .pair = b->config.encrypt ? &b->pair : NULL};
}

tutti_status tt_boot_self_join(const struct tt_boot *b, struct tt_boot_join *ret,
                               struct tutti_error *err)
{
    struct tt_boot_join j = {.size = b->config.size,
                             .net_id = b->net_id,
                             .peer = b->peers[b->config.rank],
                             .settings = b->config.settings,
                             .settings_len = strlen(b->config.settings)};
    int n = snprintf(j.version, sizeof j.version, "%s", TUTTI_VERSION);

    if (n < 0 || (size_t)n >= sizeof j.version)
        return tt_fail(err, TUTTI_ERR_LIMIT, "version %s is too long", TUTTI_VERSION);
    *ret = j;
    return TUTTI_OK;
}

/* The message for a rank whose own interface is down: not the others but this rank is the cause. */
tutti_status tt_boot_fail_own_link(const struct tt_boot *b, const char *span,
                                   struct tutti_error *err)
{
    const struct tt_boot_peer *me = &b->peers[b->config.rank];

    return tt_fail(err, TUTTI_ERR_TIMEOUT,
                   "rank %u (host %s, pid %u) is unreachable: its own link is cut, the ranks did "
                   "not meet within %s",
                   b->config.rank, me->host, me->pid, span);
}

/* A job on loopback without a key creates one that only processes of this user get. */
static tutti_status find_key(struct tt_boot *b, const struct tt_place *at, struct tutti_error *err)
{
    struct tt_boot_config *c = &b->config;

    b->offer = c->has_key ? TT_OFFER_FILE : TT_OFFER_NONE;
    if (c->has_key || c->insecure) {
        if (c->encrypt && !c->has_key)
            return tt_fail(
                err, TUTTI_ERR_AUTH,
                "encryption is asked for (TUTTI_ENCRYPT=1) and there is no job key to begin with: "
                "make one with (umask 077; "
                "head -c 32 /dev/urandom > key), copy it to every host and set TUTTI_KEY_FILE");
        return TUTTI_OK;
    }
    b->offer = TT_OFFER_KEY;
    if (c->rank != 0)
        return tt_boot_local_fetch(b, at, err);
    randombytes_buf(c->key, sizeof c->key);
    c->has_key = true;
    return TUTTI_OK;
}

/* Finds the rendezvous and meets the other ranks there. On success control lines are blocking
 * sockets, and the porter owns the listener. */
static tutti_status open_gather(struct tt_boot *b, struct tutti_error *err)
{
    struct tt_place at = {.deadline_ns = tt_boot_net_deadline(b->config.timeout_ns)};
    char host[TT_BOOT_HOST * 2];
    tutti_status st = tt_boot_rendezvous_parse(b->config.rendezvous, host, &at.port, err);

    if (!st)
        st = tt_boot_resolve(host, at.deadline_ns, &at.addr_be, err);
    if (!st)
        st = tt_boot_check_trust(&b->config, at.addr_be, err);
    if (!st)
        st = raise_descriptors(b->config.rank, b->config.size, err);
    if (!st)
        st = find_key(b, &at, err);
    if (!st)
        st = b->config.rank == 0 ? tt_boot_meet(b, &at, err) : tt_boot_join(b, &at, err);
    if (st)
        return st;
    for (uint32_t r = 0; r < b->config.size; r++)
        if (b->control[r].fd >= 0)
            tt_boot_net_hand_out(b->control[r].fd);
    return tt_boot_porter_open(b, err);
}

tutti_status tt_boot_open(const struct tt_boot_config *c, struct tt_boot **ret,
                          struct tutti_error *err)
{
    struct tutti_error why = {0};
    struct tt_boot *b;
    tutti_status st;

    if (sodium_init() < 0)
        return tt_fail(err, TUTTI_ERR_IO, "libsodium cannot be initialised");
    st = check_config(c, err);
    if (st)
        return st;
    b = tt_boot_make(c);
    if (!b)
        return tt_fail_memory(err, "rendezvous");
    if (c->key_file)
        st = tt_boot_key_load(c->key_file, b->config.key, &why);
    b->config.has_key |= c->key_file != NULL;
    if (c->size == 1)
        b->job = tt_entropy() | 1;
    else if (!st)
        st = open_gather(b, &why);
    if (st) {
        /* Callees read their error, so they get `why`: err may be NULL. */
        tt_boot_close(b);
        return tt_fail(err, st, "%s", why.text);
    }
    *ret = b;
    return TUTTI_OK;
}

void tt_boot_close(struct tt_boot *b)
{
    if (!b)
        return;
    tt_boot_porter_close(b);
    for (size_t i = 0; i < b->early.len; i++)
        tt_boot_early_free(*(struct tt_early **)tt_vec_at(&b->early, i));
    tt_vec_free(&b->early);
    for (uint32_t r = 0; b->control && r < b->config.size; r++)
        tt_boot_line_close(&b->control[r]);
    tt_boot_net_close(&b->listener);
    for (size_t i = 0; i < TT_TOLD; i++)
        if (b->told[i].state)
            tt_boot_line_close(&b->told[i]);
    for (size_t i = 0; i < b->past.len; i++)
        free(((struct tt_past *)tt_vec_at(&b->past, i))->word);
    tt_vec_free(&b->past);
    free(b->known_be);
    free(b->control);
    free(b->peers);
    free((char *)(uintptr_t)b->config.settings);
    sodium_memzero(b, sizeof *b); /* keys */
    free(b);
}

const struct tt_boot_config *tt_boot_config(const struct tt_boot *b)
{
    return &b->config;
}

const struct tt_boot_peer *tt_boot_peers(const struct tt_boot *b)
{
    return b->peers;
}

uint64_t tt_boot_job(const struct tt_boot *b)
{
    return b->job;
}

const struct tt_boot_line *tt_boot_line(const struct tt_boot *b, uint32_t rank)
{
    assert(rank < b->config.size);
    return &b->control[rank];
}
