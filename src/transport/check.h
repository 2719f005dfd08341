/* check.h - which ways to share memory between processes of this host work: diagnosis for `tutti
 * doctor`. It forks: not for a program with threads. */
#ifndef TT_TRANSPORT_CHECK_H
#define TT_TRANSPORT_CHECK_H

#include "base/base.h"

/* The i-th check; false past the last one. */
bool tt_transport_check(size_t i, struct tt_check *ret);
#endif
