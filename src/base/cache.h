/* cache.h - where files lie that only save time: $XDG_CACHE_HOME/tutti/ or ~/.cache/tutti/.
 * Relative paths in the environment are ignored. */
#ifndef TT_CACHE_H
#define TT_CACHE_H

#include <stdio.h>

#include "base/base.h"

/* The path of a file or folder there; false: there is none, or it is longer than cap. */
bool tt_cache_path(const char *name, char *buf, size_t cap);
/* Replaces the file by what `put` writes, and makes the folders that it lies in: readers see the
 * old file, the new one or none, never a part. Only its owner can read it. False: nothing has
 * changed. */
bool tt_cache_write(const char *path, bool (*put)(FILE *out, const void *ctx), const void *ctx);
#endif
