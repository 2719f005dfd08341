/* adopt.c - the rendezvous and a key for ranks that something else (MPI) has already brought
 * together, so that nothing has to be configured.
 *
 * There is one exchange. Every rank sends its host id; rank 0 also sends where it will listen and a
 * key made for this job. Ranks of one host meet on loopback. Otherwise rank 0 listens on one of the
 * addresses that its interface filter admits: that of the default route, else the first. The port
 * was free a moment ago; if another process takes it in between, opening fails with an error that
 * says so. A key that the user gave is never sent: every rank then needs its own copy, and boot
 * names the ranks that have none. */
#include "boot/boot_int.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* What a rank sends; of ranks other than 0 only host_id is used. All ranks run one build with one
 * byte order. */
struct offer {
    uint64_t host_id;
    uint32_t addr_be;           /* towards other hosts; 0: none */
    uint16_t port, inside_port; /* on addr_be, and on loopback */
    uint8_t has_key, pad[3];
    uint8_t key[TT_BOOT_KEY];
};

/* A port that is free now. The socket is closed again: rank 0 opens it when the ranks meet. */
static tutti_status free_port(const struct tt_boot_config *c, uint32_t addr_be, uint16_t *ret,
                              struct tutti_error *err)
{
    struct tt_listen l = {.addr_be = addr_be, .lo = c->port_lo, .hi = c->port_hi};
    int fd = -1;
    tutti_status st = tt_boot_listen_open(&l, &fd, ret, err);
    if (!st)
        tt_boot_net_close(&fd);
    return st;
}

/* Fills this rank's offer. Having no address for other hosts is an error only if it turns out to be
 * needed. */
static tutti_status make_offer(const struct tt_boot_config *c, struct offer *o,
                               struct tutti_error *err)
{
    struct tt_boot_peer self;
    uint64_t net;
    tt_boot_host_self(&self, &net);
    *o = (struct offer){.host_id = self.host_id};
    if (c->rank != 0)
        return TUTTI_OK;
    o->addr_be = tt_boot_iface_outward(c->iface);
    if (o->addr_be && free_port(c, o->addr_be, &o->port, NULL))
        o->addr_be = 0;
    /* A key for this job, unless the user gave one. */
    o->has_key = !c->has_key && !c->key_file;
    if (o->has_key)
        randombytes_buf(o->key, sizeof o->key);
    return free_port(c, htonl(INADDR_LOOPBACK), &o->inside_port, err);
}

/* Every rank derives the same rendezvous from the same gathered offers. */
static tutti_status take_offer(struct tt_boot_config *c, const struct offer *all,
                               struct tutti_error *err)
{
    bool inside = true;
    char where[TT_NET_TEXT];
    for (uint32_t r = 1; r < c->size; r++)
        inside = inside && all[r].host_id == all[0].host_id;
    if (!all[0].inside_port)
        return tt_fail(err, TUTTI_ERR_CONNECT, "rank 0 has no port to listen on");
    if (!inside && !all[0].addr_be)
        return tt_fail(err, TUTTI_ERR_CONNECT,
                       "rank 0 has no address that other hosts can reach: set TUTTI_IFACE there");
    snprintf(c->rendezvous, sizeof c->rendezvous, "%s",
             inside ? tt_boot_net_text(htonl(INADDR_LOOPBACK), all[0].inside_port, where)
                    : tt_boot_net_text(all[0].addr_be, all[0].port, where));
    if (!c->has_key && !c->key_file && all[0].has_key) {
        memcpy(c->key, all[0].key, sizeof c->key);
        c->has_key = true;
    }
    return TUTTI_OK;
}

tutti_status tt_boot_adopt(struct tt_boot_config *c, const struct tt_boot_parent *p,
                           struct tutti_error *err)
{
    struct offer mine, *all = NULL;
    tutti_status st = TUTTI_OK, own;

    c->rank = p->rank;
    c->size = p->size;
    c->local_rank = p->local_rank;
    c->rendezvous[0] = 0;
    if (c->size < 2)
        return TUTTI_OK;
    if (sodium_init() < 0)
        return tt_fail(err, TUTTI_ERR_IO, "libsodium cannot be initialised");
    all = tt_zalloc(c->size, sizeof *all);
    /* This rank's own error must not keep it out of the gather: the others wait there. */
    own = make_offer(c, &mine, err);
    if (!all)
        own = tt_fail_memory(err, "rendezvous");
    else
        st = p->gather(p->ctx, &mine, sizeof mine, all, own ? NULL : err);
    if (!st && !own)
        st = take_offer(c, all, err);
    if (all)
        sodium_memzero(all[0].key, sizeof all[0].key);
    sodium_memzero(&mine, sizeof mine);
    free(all);
    return own ? own : st;
}
