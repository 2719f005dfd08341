/* desk.h - the desks and the porter that serves them: what porter.c and desk.c share. */
#ifndef TT_BOOT_DESK_H
#define TT_BOOT_DESK_H

#include <pthread.h>

#include "boot/boot_int.h"
#include "boot/porter.h"

enum pair_state { NONE, DIALLING, READY, FAILED, TAKEN };

/* One attempt to make a link, or its result. It is in exactly one of its desk's lists: dials or
 * ready. */
struct visit {
    struct visit *next;
    struct tt_porter_link link;
    struct tt_dial dial;
    uint64_t deadline_ns, early_ns; /* see tt_boot_desk_limit */
    uint32_t revents;
};

struct tt_desk {
    struct tt_desk *next;
    struct tt_boot *boot;
    uint64_t role, timeout_ns;
    int bell;        /* eventfd, readable while `ready` is not empty */
    uint8_t *states; /* enum pair_state by rank */
    struct visit *dials, *ready, **ready_end;
};

struct tt_porter {
    /* guards everything below except the descriptors' numbers, and all desks */
    pthread_mutex_t lock;
    int epoll; /* polls the gate's epoll, kick, and the sockets of the dials */
    int kick;  /* eventfd: wakes the serving thread when a dial was added */
    struct tt_gate gate;
    struct tt_desk *desks;
    uint64_t due_ns; /* when to serve at the latest */
};

/* desk.c, porter.c; the lock is held */
void tt_boot_eventfd_ring(int eventfd);
void tt_boot_eventfd_hush(int eventfd);
struct tt_desk *tt_boot_desk_find(const struct tt_porter *p, uint64_t role);
void tt_boot_desk_fail(struct tt_desk *d, struct visit *v);
/* When to give up. A host that has accepted may be slow to answer; one that has not accepted by
 * early_ns is taken as unreachable. */
uint64_t tt_boot_desk_limit(const struct visit *v);
/* Advances every dial of a desk; those that are done or hopeless move to the ready list. */
void tt_boot_desk_dial(struct tt_desk *d, const struct tt_trust *trust);
/* A visit with its dial filled in, but not begun. NULL: no memory. */
struct visit *tt_boot_desk_visit(const struct tt_desk *d, uint32_t peer);
/* An arrival for an open desk; closed if it is not admitted. */
void tt_boot_desk_place(struct tt_desk *d, struct tt_arrival *a);

#endif
