/* xml.c - tokens of XML with positions (xml.h). */
#include "topo/xml.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void tt_topo_xml_open(struct tt_xml *x, const char *data, size_t len, const char *name)
{
    *x = (struct tt_xml){.name = name, .data = data, .at = data, .end = data + len, .token = data};
}

tutti_status tt_topo_xml_fail(const struct tt_xml *x, struct tutti_error *err, const char *fmt, ...)
{
    unsigned long line = 1, column = 1;
    char why[300];
    va_list ap;
    for (const char *c = x->data; c < x->token; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return tt_fail(err, TUTTI_ERR_PARSE, "%.200s:%lu:%lu: %s", x->name, line, column, why);
}

const char *tt_topo_xml_value(const struct tt_xml *x, const char *key)
{
    for (uint32_t i = 0; i < x->nattributes; i++)
        if (tt_streq(x->attribute[i].key, key))
            return x->attribute[i].value;
    return NULL;
}

static bool starts(const struct tt_xml *x, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)(x->end - x->at) >= n && !memcmp(x->at, text, n);
}

static void skip_blanks(struct tt_xml *x)
{
    while (x->at < x->end && isspace((unsigned char)*x->at))
        x->at++;
}

/* Skips to behind `end`. */
static tutti_status skip_past(struct tt_xml *x, const char *end, struct tutti_error *err)
{
    const char *found = memmem(x->at, (size_t)(x->end - x->at), end, strlen(end));
    if (!found)
        return tt_topo_xml_fail(x, err, "the file ends before '%s'", end);
    x->at = found + strlen(end);
    return TUTTI_OK;
}

static bool is_name(int c)
{
    return isalnum(c) || c == '_' || c == '-' || c == ':' || c == '.';
}

static tutti_status read_name(struct tt_xml *x, char name[TT_XML_NAME], struct tutti_error *err)
{
    size_t n = 0;
    while (x->at + n < x->end && is_name((unsigned char)x->at[n]))
        n++;
    if (!n || n >= TT_XML_NAME)
        return tt_topo_xml_fail(x, err,
                                n ? "a name of %zu characters is too long"
                                  : "a name is expected after %zu characters",
                                n);
    memcpy(name, x->at, n);
    name[n] = 0;
    x->at += n;
    return TUTTI_OK;
}

/* One entity after '&'; *ret is its character. */
static tutti_status read_entity(struct tt_xml *x, char *ret, struct tutti_error *err)
{
    static const struct {
        const char *text;
        char is;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < countof(known); i++)
        if (starts(x, known[i].text)) {
            x->at += strlen(known[i].text);
            *ret = known[i].is;
            return TUTTI_OK;
        }
    char number[8] = "";
    size_t n = 0;
    while (x->at + n < x->end && x->at[n] != ';' && n < sizeof number - 1)
        n++;
    memcpy(number, x->at, n);
    long code = starts(x, "&#x")  ? strtol(number + 3, NULL, 16)
                : starts(x, "&#") ? strtol(number + 2, NULL, 10)
                                  : 0;
    if (code < 1 || code > 127 || x->at + n >= x->end)
        return tt_topo_xml_fail(x, err, "unknown entity '%s'", number);
    x->at += n + 1;
    *ret = (char)code;
    return TUTTI_OK;
}

static tutti_status read_value(struct tt_xml *x, char value[TT_XML_VALUE], struct tutti_error *err)
{
    size_t n = 0;
    const char quote = x->at < x->end ? *x->at : 0;
    if (quote != '"' && quote != '\'')
        return tt_topo_xml_fail(x, err, "a value in quotes is expected");
    x->at++;
    while (x->at < x->end && *x->at != quote) {
        char c = *x->at;
        if (c == '<' || n == TT_XML_VALUE - 1)
            return tt_topo_xml_fail(x, err, "a value that is too long or has a '<'");
        tutti_status st = TUTTI_OK;
        if (c == '&')
            st = read_entity(x, &c, err);
        else
            x->at++;
        if (st)
            return st;
        value[n++] = c;
    }
    if (x->at >= x->end)
        return tt_topo_xml_fail(x, err, "the file ends inside of a value");
    x->at++;
    value[n] = 0;
    return TUTTI_OK;
}

/* name="value" ... up to > or />. */
static tutti_status read_attributes(struct tt_xml *x, struct tutti_error *err)
{
    x->nattributes = 0;
    for (;;) {
        skip_blanks(x);
        if (starts(x, ">") || starts(x, "/>")) {
            x->pending = *x->at == '/';
            x->at += x->pending ? 2 : 1;
            return TUTTI_OK;
        }
        if (x->nattributes == TT_XML_ATTRIBUTES)
            return tt_topo_xml_fail(x, err, "more than %d attributes", TT_XML_ATTRIBUTES);
        tutti_status st = read_name(x, x->attribute[x->nattributes].key, err);
        skip_blanks(x);
        if (!st && !starts(x, "="))
            st = tt_topo_xml_fail(x, err, "'=' is expected after %s",
                                  x->attribute[x->nattributes].key);
        if (st)
            return st;
        x->at++;
        skip_blanks(x);
        st = read_value(x, x->attribute[x->nattributes].value, err);
        if (st)
            return st;
        x->nattributes++;
    }
}

static tutti_status read_start(struct tt_xml *x, const char **ret_name, struct tutti_error *err)
{
    if (x->depth == TT_XML_DEPTH)
        return tt_topo_xml_fail(x, err, "more than %d elements inside of each other", TT_XML_DEPTH);
    x->at++;
    tutti_status st = read_name(x, x->open[x->depth], err);
    if (!st)
        st = read_attributes(x, err);
    *ret_name = x->open[x->depth];
    x->depth += !st;
    return st;
}

static tutti_status read_end(struct tt_xml *x, const char **ret_name, struct tutti_error *err)
{
    char name[TT_XML_NAME];
    x->at += 2;
    tutti_status st = read_name(x, name, err);
    skip_blanks(x);
    if (!st && (!x->depth || !tt_streq(name, x->open[x->depth - 1]) || !starts(x, ">")))
        st = tt_topo_xml_fail(x, err, "</%s> does not close <%s>", name,
                              x->depth ? x->open[x->depth - 1] : "");
    if (st)
        return st;
    x->at++;
    *ret_name = x->open[--x->depth];
    return TUTTI_OK;
}

/* Does the document type at hand only name a file? One with declarations of its own has a '['. */
static bool names_file_only(const struct tt_xml *x)
{
    const char *end = memchr(x->at, '>', (size_t)(x->end - x->at));
    return end && !memchr(x->at, '[', (size_t)(end - x->at));
}

/* Everything that is no element. */
static tutti_status skip_rest(struct tt_xml *x, struct tutti_error *err)
{
    for (;;) {
        while (x->at < x->end && *x->at != '<')
            x->at++;
        x->token = x->at;
        tutti_status st = TUTTI_OK;
        if (starts(x, "<!--"))
            st = skip_past(x, "-->", err);
        else if (starts(x, "<?"))
            st = skip_past(x, "?>", err);
        else if (starts(x, "<!DOCTYPE") && names_file_only(x))
            st = skip_past(x, ">", err); /* hwloc writes one; the file is not read */
        else if (starts(x, "<!"))
            st = tt_topo_xml_fail(x, err, "document types and CDATA are not read");
        else
            return TUTTI_OK;
        if (st)
            return st;
    }
}

tutti_status tt_topo_xml_next(struct tt_xml *x, enum tt_xml_kind *ret, const char **ret_name,
                              struct tutti_error *err)
{
    if (x->pending) {
        x->pending = false;
        *ret = TT_XML_END;
        *ret_name = x->open[--x->depth];
        return TUTTI_OK;
    }
    tutti_status st = skip_rest(x, err);
    if (st)
        return st;
    if (x->at == x->end) {
        *ret = TT_XML_END_OF_FILE;
        return x->depth
                   ? tt_topo_xml_fail(x, err, "the file ends inside of <%s>", x->open[x->depth - 1])
                   : TUTTI_OK;
    }
    *ret = starts(x, "</") ? TT_XML_END : TT_XML_START;
    return *ret == TT_XML_END ? read_end(x, ret_name, err) : read_start(x, ret_name, err);
}
