/* cache.c - files of the cache: their path, and replacing one as a whole. */
#include "base/cache.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };

bool tt_cache_path(const char *name, char *buf, size_t cap)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;

    if (cache && cache[0] == '/')
        n = snprintf(buf, cap, "%s/tutti/%s", cache, name);
    else if (home && home[0] == '/')
        n = snprintf(buf, cap, "%s/.cache/tutti/%s", home, name);
    return n > 0 && (size_t)n < cap;
}

/* From the cache itself on, folder by folder. Errors show when the file is opened. */
static void make_folders(const char *path)
{
    char folder[PATH];
    const char *at = NULL;

    for (const char *s = strstr(path, "/tutti/"); s; s = strstr(s + 1, "/tutti/"))
        at = s;
    assert(at); /* tt_cache_path has made the path */
    for (; at; at = strchr(at + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(at - path), path);
        mkdir(folder, 0700);
    }
}

bool tt_cache_write(const char *path, bool (*put)(FILE *out, const void *ctx), const void *ctx)
{
    char tmp[PATH + 8];

    make_folders(path);
    snprintf(tmp, sizeof tmp, "%s.XXXXXX", path);
    int fd = mkostemp(tmp, O_CLOEXEC); /* mode 0600 */
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool ok = put(out, ctx);
    ok = fclose(out) == 0 && ok && rename(tmp, path) == 0;
    if (!ok)
        unlink(tmp);
    return ok;
}
