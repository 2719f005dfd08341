/* shm_region.h - memory that processes of one host share without a name: an anonymous file (memfd)
 * that others open as /proc/<pid>/fd/<n>.
 *
 * Its key is plain data to be sent to the others by whatever means. When all have joined, the maker
 * closes the descriptor and nothing refers to the memory any more but the mappings: it disappears
 * with the last process that maps it, however that process ends. */
#ifndef TT_SHM_REGION_H
#define TT_SHM_REGION_H

#include "base/base.h"

struct tt_region {
    void *base; /* NULL: none */
    size_t bytes;
    int fd; /* the maker's until sealed; -1 otherwise */
};

/* Fixed size, no padding: it travels. Device and inode tell a stale descriptor number from the
 * right one. */
struct tt_region_key {
    uint64_t bytes, dev, ino;
    uint32_t pid;
    int32_t fd;
};

/* Zeroed memory of `bytes` (rounded up to pages), not backed until touched, of a size that nobody
 * can change. Pairs with tt_shm_region_free. TUTTI_ERR_LIMIT: ulimit -f is too small. */
tutti_status tt_shm_region_make(size_t bytes, struct tt_region *ret, struct tutti_error *err);
/* Only before sealing. */
tutti_status tt_shm_region_describe(const struct tt_region *r, struct tt_region_key *ret,
                                    struct tutti_error *err);
/* Maps the memory of another process (or of this one). TUTTI_ERR_CONNECT with the reason when the
 * kernel does not allow it, or when what the key names is not sealed memory of this user. */
tutti_status tt_shm_region_join(const struct tt_region_key *key, struct tt_region *ret,
                                struct tutti_error *err);
/* Nobody can join any more. */
void tt_shm_region_seal(struct tt_region *r);
/* Unmaps; accepts a zeroed or freed one. The memory lives on while others map it. */
void tt_shm_region_free(struct tt_region *r);
#endif
