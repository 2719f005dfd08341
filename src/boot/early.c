/* early.c - links that arrive before their desk is opened, and whether ranks can be reached at all.
 *
 * Ranks are not in step: a peer may need a link for a communicator that this rank has yet to open.
 * The link is authenticated at once and kept until the desk takes it (porter.c). The number kept is
 * bounded; beyond that, new connections are closed and their dials try again. */
#include <assert.h>
#include <poll.h>

#include "boot/boot_int.h"

enum { EARLY_PER_RANK = 16, EARLY_MORE = 64 };

void tt_boot_early_free(struct tt_early *e)
{
    tt_boot_net_close(&e->fd);
    tt_seal_forget(e, sizeof *e);
}

/* Can this one be dropped for the arrival? A second link of the same rank and role means that the
 * peer has given up the first. If space is short, links whose other end has hung up go as well. */
static bool outlived(const struct tt_early *e, const struct tt_arrival *a, bool full)
{
    struct pollfd p = {.fd = e->fd, .events = POLLRDHUP};

    return (e->role == a->role && e->rank == a->rank) || (full && poll(&p, 1, 0) > 0);
}

/* Drops links that are no longer needed; false: still full. The porter's lock is held. */
static bool make_room(struct tt_boot *b, const struct tt_arrival *a)
{
    size_t max = (size_t)b->config.size * EARLY_PER_RANK + EARLY_MORE, kept = 0;
    struct tt_early **list = b->early.data;
    bool full = b->early.len >= max;

    for (size_t i = 0; i < b->early.len; i++)
        if (outlived(list[i], a, full))
            tt_boot_early_free(list[i]);
        else
            list[kept++] = list[i];
    b->early.len = kept;
    return kept < max;
}

bool tt_boot_early_keep(struct tt_boot *b, const struct tt_arrival *a)
{
    struct tt_early *e = make_room(b, a) ? tt_zalloc(1, sizeof *e) : NULL;

    assert(a->fd >= 0 && a->rank < b->config.size);
    if (!e)
        return false;
    *e = (struct tt_early){.fd = a->fd, .rank = a->rank, .role = a->role, .keys = a->keys};
    /* Push first, then admit: an admitted link that cannot be kept would be lost without its maker
     * knowing. */
    if (tt_vec_push(&b->early, &e, 1)) {
        if (tt_boot_arrival_admit(a))
            return true;
        b->early.len--;
    }
    e->fd = -1; /* still the caller's */
    tt_boot_early_free(e);
    return false;
}

int tt_boot_probe(const struct tt_boot *b, uint32_t rank, uint64_t timeout_ns)
{
    const struct tt_boot_peer *p = &b->peers[rank];

    return rank == b->config.rank
               ? 0
               : tt_boot_net_probe(p->addr_be, p->port, b->source_be, timeout_ns);
}

bool tt_boot_link_down(const struct tt_boot *b)
{
    return tt_boot_iface_down(b->peers[b->config.rank].addr_be);
}
