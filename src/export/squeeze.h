/* squeeze.h - bytes shorter by naming what came before.
 *
 *     n, n bytes as they are, length - 4, distance, n, ...
 *
 * copies `length` bytes from `distance` bytes back, which may overlap what they make. Numbers are
 * written as in column.h. The lists of schedules repeat from rank to rank and from step to step:
 * they take a tenth to a hundredth of their bytes. page/data.js is the reader. */
#ifndef TT_EXPORT_SQUEEZE_H
#define TT_EXPORT_SQUEEZE_H

#include "base/base.h"

/* Appends n bytes, squeezed, to `out` (elements of 1 byte). False: out of memory, `out` may hold a
 * part. */
bool tt_export_squeeze(const unsigned char *bytes, size_t n, struct tt_vec *out);
#endif
