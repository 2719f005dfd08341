/* Memory that is not there: without a limit the kernel promises it and later kills the process
 * without a word. With one, allocation fails and the command says what was too large. */
#include "cli/cli.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Data pages of this process, in bytes; 0 when unknown. */
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

void cli_limit_memory(void)
{
    struct rlimit now;
    struct tutti_host host;
    uint64_t used = data_bytes();
    tutti_host(&host);
    if (!used || !host.available_bytes || getrlimit(RLIMIT_DATA, &now))
        return;
    rlim_t limit = (rlim_t)(used + host.available_bytes);
    if (now.rlim_cur == RLIM_INFINITY || limit < now.rlim_cur) {
        now.rlim_cur = limit;
        setrlimit(RLIMIT_DATA, &now);
    }
}
