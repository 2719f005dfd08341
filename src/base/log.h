/* log.h - messages of the library to people: one line each, with time and rank, on standard error
 * or in a file.
 *
 * Errors are returned, never only logged. Nothing on the way of a started request logs. Safe from
 * any thread: a line is one write. */
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

/* TUTTI_LOG and TUTTI_LOG_FILE are read by the first call of a process; later calls change nothing.
 * `rank` is what %r in the file's name becomes. */
tutti_status tt_log_setup(uint32_t rank, struct tutti_error *err);
/* Is this level written? Without TUTTI_LOG only warnings are: errors are returned to the program,
 * which tells them. */
bool tt_log_wants(enum tt_log_level level);
void tt_log_write(enum tt_log_level level, uint32_t rank, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#endif
