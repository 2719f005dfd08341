/* iov.h - lists of memory pieces, as send and accept take them. */
#ifndef TT_BASE_IOV_H
#define TT_BASE_IOV_H

#include <stdbool.h>
#include <sys/uio.h>

/* The bytes of a list in *ret. False, and *ret unchanged: fewer than 0 or more than `most` entries,
 * or more than `limit` bytes. */
bool tt_iov_total(const struct iovec *iov, int niov, int most, size_t limit, size_t *ret);

#endif
