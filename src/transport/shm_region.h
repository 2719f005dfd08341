/* shm_region.h - memory that processes of one host share without a name: an anonymous file (memfd)
 * that others open as /proc/<pid>/fd/<n>.
 *
 *     maker    make -> describe -> (the key goes to the others) -> all have joined -> seal -> free
 *     others   join -> free
 *
 * The key is plain data, to be sent by any means. When all have joined, the maker closes the
 * descriptor, and only mappings keep the memory alive: it disappears with the last process that
 * maps it, however that process ends. */
#ifndef TT_SHM_REGION_H
#define TT_SHM_REGION_H

#include "base/base.h"

struct tt_region {
    void *base; /* NULL: none */
    size_t bytes;
    int fd; /* the maker's until sealed; -1 otherwise */
};

/* Fixed size, no padding: it is sent as it is. Device and inode tell a descriptor number that has
 * been used again from the right one. */
struct tt_region_key {
    uint64_t bytes, dev, ino;
    uint32_t pid;
    int32_t fd;
};

/* Zeroed memory of `bytes` (rounded up to pages), not backed until touched, of a size that no
 * process can change. Pairs with tt_shm_region_free. TUTTI_ERR_LIMIT: ulimit -f is too small. */
tutti_status tt_shm_region_make(size_t bytes, struct tt_region *ret, struct tutti_error *err);
/* The key of a region made here; only before sealing. */
tutti_status tt_shm_region_describe(const struct tt_region *r, struct tt_region_key *ret,
                                    struct tutti_error *err);
/* Maps the memory of another process (or of this one). TUTTI_ERR_CONNECT with the reason when the
 * kernel does not allow it, or when what the key names is not sealed memory of this user. */
tutti_status tt_shm_region_join(const struct tt_region_key *key, struct tt_region *ret,
                                struct tutti_error *err);
/* Closes the descriptor: no process can join any more. */
void tt_shm_region_seal(struct tt_region *r);
/* Unmaps; accepts a zeroed or freed one. The memory lives on while others map it. */
void tt_shm_region_free(struct tt_region *r);
#endif
