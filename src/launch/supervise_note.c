/* supervise_note.c - what is known of ranks besides their ends: what they write into the launcher's
 * file (base/blame.h), and whether the kernel has stopped them. */
#include "launch/supervise_int.h"

#include <stdio.h>
#include <string.h>

bool launch_read_note(const char *line, uint32_t job_size, struct sup_blame *ret)
{
    static const char *const words[] = {"", "hint ", "unheard "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t skip = strlen(words[i]);
        unsigned rank = job_size, size = 0;
        int text = 0;
        if (strncmp(line, words[i], skip) != 0)
            continue;
        bool all = sscanf(line + skip, "all of %u: %n", &size, &text) == 1 && text;
        if (!all && (sscanf(line + skip, "%u of %u: %n", &rank, &size, &text) != 2 || !text ||
                     rank >= job_size))
            continue;
        if (size != job_size)
            continue;
        *ret = (struct sup_blame){.rank = rank, .unheard = i == 2, .all = all};
        line += skip + (size_t)text;
        snprintf(ret->text, sizeof ret->text, "%.*s", (int)strcspn(line, "\n"), line);
        return true;
    }
    return false;
}

bool launch_is_suspended(pid_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "re");
    bool got = in && fgets(line, sizeof line, in);
    if (in)
        fclose(in);
    const char *name_end = got ? strrchr(line, ')') : NULL;
    return name_end && !strncmp(name_end, ") T", 3);
}
