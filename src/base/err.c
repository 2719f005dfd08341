/* err.c - how a failure gets its text.
 *
 * A status says what kind of thing failed, the text says what to do about it. Texts quote names,
 * keys and arguments that may come from hostile files, so control characters are replaced here, in
 * one place: no input can control the reader's terminal or forge a second line. Texts are cut to
 * fit and never overrun. The format's arguments may include err->text itself, because the text is
 * formatted into a buffer of its own first. */
#define TT_ERR_IMPLEMENTATION
#include "base/base.h"

#include <string.h>

/* Copies the text into *err, with control characters replaced by "?". */
static void store(struct tutti_error *err, const char *text)
{
    size_t n = strnlen(text, sizeof err->text - 1);

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        err->text[i] = c < 0x20 || c == 0x7f ? '?' : text[i];
    }
    err->text[n] = 0;
}

tutti_status tt_fail(struct tutti_error *err, tutti_status status, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list ap;

    if (!err)
        return status;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err->status = status;
    store(err, text);
    return status;
}

tutti_status tt_fail_memory(struct tutti_error *err, const char *what)
{
    return tt_fail(err, TUTTI_ERR_MEMORY, "out of memory (%s)", what);
}

void tt_fail_prefix(struct tutti_error *err, const char *fmt, ...)
{
    /* Room for both texts; store() cuts the result. */
    char text[2 * sizeof err->text + 2];
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t len = strlen(text);
    snprintf(text + len, sizeof text - len, ": %s", err->text);
    store(err, text);
}

const char *tt_status_text(tutti_status status)
{
#define STATUS_TEXT(name, value, text) {(value), (text)},
    static const struct {
        tutti_status status;
        const char *text;
    } table[] = {TUTTI_STATUS_LIST(STATUS_TEXT)};
#undef STATUS_TEXT

    for (size_t i = 0; i < countof(table); i++)
        if (table[i].status == status)
            return table[i].text;
    return "unknown status";
}
