/* iov.c - lists of memory pieces. Lengths come from callers: their sum may not fit a size_t, so
 * each is compared with what is left of the limit before it is added. */
#include "base/iov.h"

#include <assert.h>

bool tt_iov_total(const struct iovec *iov, int niov, int most, size_t limit, size_t *ret)
{
    size_t sum = 0;
    if (niov < 0 || niov > most)
        return false;
    for (int i = 0; i < niov; i++) {
        if (iov[i].iov_len > limit - sum)
            return false;
        sum += iov[i].iov_len;
        assert(sum <= limit);
    }
    *ret = sum;
    return true;
}
