/* settings.c - messages: lists of ranks, and where the settings of ranks differ.
 *
 * Settings are "name=value" lines that must be equal on all ranks; the order of the lines does not
 * matter. Ranks usually agree, which costs one comparison each. Otherwise the message lists every
 * name whose value differs from rank 0's on some rank, each with its values and the ranks that have
 * them; only the first few of both, which is enough to see which rank was started with other
 * settings. */
#include "boot/boot_int.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES = 4, VALUES = 3, VALUE_TEXT = 40 };

/* A substring of the settings. */
struct piece {
    const char *s;
    size_t n;
};

/* Adds "a" or "a-b"; false if it does not fit. */
static bool add_run(char *buf, size_t cap, size_t *used, uint32_t a, uint32_t b)
{
    char text[32];
    int n = a == b ? snprintf(text, sizeof text, "%s%u", *used ? ", " : "", a)
                   : snprintf(text, sizeof text, "%s%u%s%u", *used ? ", " : "", a,
                              b == a + 1 ? ", " : "-", b);

    if (*used + (size_t)n + 1 > cap)
        return false;
    memcpy(buf + *used, text, (size_t)n + 1);
    *used += (size_t)n;
    return true;
}

static uint32_t count_set(const bool *set, uint32_t from, uint32_t size)
{
    uint32_t n = 0;

    for (uint32_t r = from; r < size; r++)
        n += set[r];
    return n;
}

char *tt_boot_ranks_text(const bool *set, uint32_t size, char *buf, size_t cap)
{
    enum { HEAD = 6, TAIL = 24 }; /* "ranks ", " and 1048576 more" */
    char *list = buf + HEAD;
    size_t used = 0;
    uint32_t r = 0;

    if (cap < HEAD + TAIL + 16) {
        buf[0] = 0;
        return buf;
    }
    list[0] = 0;
    /* Invariant: runs of ranks below r are in the list. */
    while (r < size) {
        uint32_t end = r;
        while (end < size && set[end])
            end++;
        if (end > r && !add_run(list, cap - HEAD - TAIL, &used, r, end - 1))
            break;
        r = end > r ? end : r + 1;
    }
    if (r < size)
        snprintf(list + used, TAIL, " and %u more", count_set(set, r, size));
    memcpy(buf, "ranks ", HEAD);
    /* A single rank: "rank 3" instead of "ranks 3". */
    if (count_set(set, 0, size) == 1) {
        memmove(buf + HEAD - 1, list, strlen(list) + 1);
        buf[HEAD - 2] = ' ';
    }
    return buf;
}

/* Parses the next line of *at and advances it; false at the end. */
static bool next_line(const char **at, struct piece *ret_name, struct piece *ret_value)
{
    const char *line = *at, *end, *eq;

    while (*line == '\n')
        line++;
    if (!*line)
        return false;
    end = line + strcspn(line, "\n");
    eq = memchr(line, '=', (size_t)(end - line));
    *ret_name = (struct piece){line, (size_t)((eq ? eq : end) - line)};
    *ret_value = eq ? (struct piece){eq + 1, (size_t)(end - eq - 1)} : (struct piece){end, 0};
    *at = end;
    return true;
}

static bool settings_same(struct piece a, struct piece b)
{
    if (!a.s || !b.s)
        return a.s == b.s;
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

/* The value of a name; s is NULL if the name is not there. */
static struct piece value_of(const char *settings, struct piece name)
{
    struct piece n, v;

    while (next_line(&settings, &n, &v))
        if (settings_same(n, name))
            return v;
    return (struct piece){NULL, 0};
}

static void add_value(struct tt_str *out, struct piece v)
{
    if (v.s)
        tt_str_printf(out, "\"%.*s\"%s", (int)(v.n < VALUE_TEXT ? v.n : VALUE_TEXT), v.s,
                      v.n > VALUE_TEXT ? "..." : "");
    else
        tt_str_printf(out, "not set");
}

/* Writes: algo is "ring" on rank 0 but "direct" on ranks 1-3. `left` has room for 2 * size: the
 * ranks whose value was not written yet, and those with the current value. */
static void settings_describe(const char *const *settings, uint32_t size, struct piece name,
                              bool *left, struct tt_str *out)
{
    bool *have = left + size;
    char ranks[96];
    uint32_t first = 0;

    tt_str_printf(out, "%s%.*s is ", out->len ? "; " : "", (int)name.n, name.s);
    for (uint32_t r = 0; r < size; r++)
        left[r] = true;
    for (unsigned k = 0; k < VALUES && first < size; k++) {
        struct piece v = value_of(settings[first], name);
        for (uint32_t r = 0; r < size; r++) {
            have[r] = left[r] && settings_same(value_of(settings[r], name), v);
            left[r] = left[r] && !have[r];
        }
        tt_str_printf(out, "%s", k == 0 ? "" : k == 1 ? " but " : " and ");
        add_value(out, v);
        tt_str_printf(out, " on %s", tt_boot_ranks_text(have, size, ranks, sizeof ranks));
        while (first < size && !left[first])
            first++;
    }
    if (first < size)
        tt_str_printf(out, " and else on %s", tt_boot_ranks_text(left, size, ranks, sizeof ranks));
}

/* Appends to names the lines of `from` whose value is different in `other`; *more: there was no
 * room for all. */
static void settings_collect(const char *from, const char *other, struct piece names[NAMES],
                             size_t *n, bool *more)
{
    struct piece name, value;

    while (next_line(&from, &name, &value)) {
        bool known = settings_same(value, value_of(other, name));
        for (size_t k = 0; k < *n; k++)
            known = known || settings_same(names[k], name);
        if (known)
            continue;
        if (*n == NAMES) {
            *more = true;
            return;
        }
        names[(*n)++] = name;
    }
}

bool tt_boot_settings_differ(const char *const *settings, uint32_t size, struct tt_str *out)
{
    struct piece names[NAMES];
    size_t n = 0;
    bool more = false, *room;

    /* Both directions, since a name may be set on one side only. */
    for (uint32_t r = 1; r < size; r++) {
        if (tt_streq(settings[r], settings[0]))
            continue;
        settings_collect(settings[0], settings[r], names, &n, &more);
        settings_collect(settings[r], settings[0], names, &n, &more);
    }
    if (n == 0)
        return false;
    room = tt_zalloc(2 * (size_t)size, sizeof *room);
    for (size_t k = 0; room && k < n; k++)
        settings_describe(settings, size, names[k], room, out);
    if (more)
        tt_str_printf(out, "; and more");
    free(room);
    return true;
}
