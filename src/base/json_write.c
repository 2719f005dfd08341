/* json_write.c - writes JSON without building it first.
 *
 * The writer holds two flags per open level: whether it is written on one line, and whether it
 * already has a member (so that the next one needs a comma). Levels that are not compact have a
 * line per member, indented by two spaces; a compact level, and everything inside it, has no
 * white space. Plans hold millions of integers, so those bypass printf. Reals are written with
 * the fewest digits that read back to the same double, with a point in every locale. Bytes that
 * are not UTF-8 become U+FFFD, so that what we write is always valid JSON. */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void json_write_put(struct tt_json_writer *w, char c)
{
    putc_unlocked(c, w->out);
}

static void put_text(struct tt_json_writer *w, const char *s, size_t n)
{
    fwrite_unlocked(s, 1, n, w->out);
}

static void new_line(struct tt_json_writer *w)
{
    json_write_put(w, '\n');
    for (int i = 0; i < w->depth; i++)
        put_text(w, "  ", 2);
}

/* Writes comma and indentation before a member: a key, or a value that does not follow a key. */
static void before_member(struct tt_json_writer *w)
{
    if (w->depth == 0)
        return;
    bool *any = &w->any[w->depth - 1];
    if (*any)
        json_write_put(w, ',');
    *any = true;
    if (!w->compact[w->depth - 1])
        new_line(w);
}

static void before_value(struct tt_json_writer *w)
{
    if (!w->after_key)
        before_member(w);
    w->after_key = false;
}

static void open_level(struct tt_json_writer *w, char bracket, bool compact)
{
    assert(w->depth < TT_JSON_DEPTH);
    before_value(w);
    json_write_put(w, bracket);
    w->compact[w->depth] = compact || (w->depth > 0 && w->compact[w->depth - 1]);
    w->any[w->depth] = false;
    w->depth++;
}

static void close_level(struct tt_json_writer *w, char bracket)
{
    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    if (w->any[w->depth] && !w->compact[w->depth])
        new_line(w);
    json_write_put(w, bracket);
}

void tt_json_begin(struct tt_json_writer *w, FILE *out)
{
    *w = (struct tt_json_writer){.out = out};
}

void tt_json_object(struct tt_json_writer *w)
{
    open_level(w, '{', false);
}

void tt_json_object_compact(struct tt_json_writer *w)
{
    open_level(w, '{', true);
}

void tt_json_object_end(struct tt_json_writer *w)
{
    close_level(w, '}');
}

void tt_json_array(struct tt_json_writer *w)
{
    open_level(w, '[', false);
}

void tt_json_array_compact(struct tt_json_writer *w)
{
    open_level(w, '[', true);
}

void tt_json_array_end(struct tt_json_writer *w)
{
    close_level(w, ']');
}

/* Writes the escape of a byte below 0x20, a quote or a backslash. */
static void put_escaped(struct tt_json_writer *w, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    static const char hex[] = "0123456789abcdef";
    const char *at = strchr(from, c);

    json_write_put(w, '\\');
    if (at) {
        json_write_put(w, to[at - from]);
        return;
    }
    put_text(w, "u00", 3);
    json_write_put(w, hex[(c >> 4) & 15]);
    json_write_put(w, hex[c & 15]);
}

static void put_quoted(struct tt_json_writer *w, const char *s)
{
    json_write_put(w, '"');
    for (size_t left = strlen(s), n; left; s += n, left -= n) {
        size_t valid = tt_utf8_len(s, left);
        n = valid ? valid : 1;
        if (!valid)
            put_text(w, "\xef\xbf\xbd", 3);
        else if ((unsigned char)*s < 0x20 || *s == '"' || *s == '\\')
            put_escaped(w, *s);
        else
            put_text(w, s, n);
    }
    json_write_put(w, '"');
}

void tt_json_key(struct tt_json_writer *w, const char *key)
{
    assert(w->depth > 0 && !w->after_key);
    before_member(w);
    put_quoted(w, key);
    json_write_put(w, ':');
    if (!w->compact[w->depth - 1])
        json_write_put(w, ' ');
    w->after_key = true;
}

void tt_json_string(struct tt_json_writer *w, const char *s)
{
    if (!s) {
        tt_json_null(w);
        return;
    }
    before_value(w);
    put_quoted(w, s);
}

void tt_json_u64(struct tt_json_writer *w, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;

    before_value(w);
    do
        digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    put_text(w, digits + at, sizeof digits - at);
}

/* %.15g drops trailing zeros and so gives the shortest text of every normal number that it can
 * express; subnormal numbers have fewer significant digits. */
void tt_json_real(struct tt_json_writer *w, double v)
{
    char text[40];

    if (!isfinite(v)) {
        tt_json_null(w);
        return;
    }
    for (int precision = fpclassify(v) == FP_SUBNORMAL ? 1 : 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v)
            break;
    }
    before_value(w);
    /* The locale's decimal point, perhaps several bytes, becomes a single ".". */
    bool point = false;
    for (const char *p = text; *p; p++) {
        bool ours = strchr("0123456789+-e", *p) != NULL;
        if (ours || !point)
            json_write_put(w, ours ? *p : '.');
        point = point || !ours;
    }
}

void tt_json_bool(struct tt_json_writer *w, bool v)
{
    before_value(w);
    put_text(w, v ? "true" : "false", v ? 4 : 5);
}

void tt_json_null(struct tt_json_writer *w)
{
    before_value(w);
    put_text(w, "null", 4);
}

void tt_json_member_string(struct tt_json_writer *w, const char *key, const char *s)
{
    tt_json_key(w, key);
    tt_json_string(w, s);
}

void tt_json_member_u64(struct tt_json_writer *w, const char *key, uint64_t v)
{
    tt_json_key(w, key);
    tt_json_u64(w, v);
}

void tt_json_member_real(struct tt_json_writer *w, const char *key, double v)
{
    tt_json_key(w, key);
    tt_json_real(w, v);
}

void tt_json_member_bool(struct tt_json_writer *w, const char *key, bool v)
{
    tt_json_key(w, key);
    tt_json_bool(w, v);
}

void tt_json_finish(struct tt_json_writer *w)
{
    assert(w->depth == 0 && !w->after_key);
    json_write_put(w, '\n');
}
