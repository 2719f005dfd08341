/* memory.c - a limit on the memory of this process.
 *
 * Without a limit the kernel promises more memory than there is and later kills the process without
 * a message. With one, the allocation fails and the command can say what was too large. */
#include "cli/cli.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Bytes of this process's data pages (field 6 of /proc/self/statm); 0 when unknown. */
static uint64_t data_bytes(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    if (fscanf(f, "%*s %*s %*s %*s %*s %llu", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Does nothing where the host does not tell how much memory is available. */
void cli_limit_memory(void)
{
    struct rlimit now;
    struct tutti_host host;
    uint64_t used = data_bytes();
    tutti_host(&host);
    if (!used || !host.available_bytes || getrlimit(RLIMIT_DATA, &now))
        return;
    /* RLIMIT_DATA counts what is in use already; a limit that is stricter stays. */
    rlim_t limit = (rlim_t)(used + host.available_bytes);
    if (now.rlim_cur == RLIM_INFINITY || limit < now.rlim_cur) {
        now.rlim_cur = limit;
        setrlimit(RLIMIT_DATA, &now);
    }
}
