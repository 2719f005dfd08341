/* blame.c - notes to the launcher (blame.h). All ranks append to one file. Each note is a single
 * write to a file opened with O_APPEND, so that lines of different ranks never mix. */
#include "base/blame.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

void tt_blame_note(enum tt_blame_note kind, uint32_t rank, uint32_t size, const char *text)
{
#define BLAME_WORD(id, word) word,
    static const char *const words[] = {TT_BLAME_NOTE_LIST(BLAME_WORD)};
#undef BLAME_WORD
    const char *path = getenv("TUTTI_VERDICT");
    char line[sizeof((struct tutti_error *)0)->text + 64], who[16] = "all";
    int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (rank < size)
        snprintf(who, sizeof who, "%" PRIu32, rank);
    /* A text of several lines would look like several notes: only its first line is written. */
    int n = snprintf(line, sizeof line, "%s%s of %" PRIu32 ": %.*s\n", words[kind], who, size,
                     (int)strcspn(text, "\n"), text);
    if (n < (int)sizeof line && write(fd, line, (size_t)n) != n)
        tt_log_write(TT_LOG_INFO, rank, "TUTTI_VERDICT: %.200s cannot be written", path);
    close(fd);
}

/* How many of the n prints equal `print`. */
static uint32_t count_like(const uint64_t *prints, uint32_t n, uint64_t print)
{
    uint32_t like = 0;
    for (uint32_t r = 0; r < n; r++)
        like += prints[r] == print;
    return like;
}

uint32_t tt_odd_rank(const uint64_t *prints, uint32_t n)
{
    uint32_t odd = 0, fewest = count_like(prints, n, prints[0]);
    for (uint32_t r = 1; r < n; r++) {
        uint32_t like = prints[r] == prints[odd] ? fewest : count_like(prints, n, prints[r]);
        /* Among groups of one size, one without rank 0 is preferred. */
        if (like < fewest ||
            (like == fewest && prints[odd] == prints[0] && prints[r] != prints[0])) {
            odd = r;
            fewest = like;
        }
    }
    return odd;
}
