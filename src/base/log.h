/* log.h - messages of the library to people: one line each, with time and rank, on standard error
 * or in a file.
 *
 * Errors are returned, never only logged. Nothing between the start and the end of a request logs.
 * Any thread may call: a line is one write. */
#ifndef TT_LOG_H
#define TT_LOG_H

#include "base/base.h"

#define TT_LOG_LIST(X) \
    X(NONE, "none") X(ERROR, "error") X(WARN, "warn") X(INFO, "info") X(DEBUG, "debug")
enum tt_log_level {
#define TT_LOG_ENUM(id, name) TT_LOG_##id,
    TT_LOG_LIST(TT_LOG_ENUM)
#undef TT_LOG_ENUM
        TT_LOG_LEVELS
};

/* The first call of a process reads TUTTI_LOG and TUTTI_LOG_FILE; later calls change nothing.
 * `rank` replaces %r in the file's name. */
tutti_status tt_log_setup(uint32_t rank, struct tutti_error *err);
/* Is this level written? Without TUTTI_LOG only warnings are: errors are returned to the
 * program, which reports them. */
bool tt_log_wants(enum tt_log_level level);
void tt_log_write(enum tt_log_level level, uint32_t rank, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#endif
