/* The JSON reader against what RFC 8259 allows and forbids, at every buffer boundary, with exact positions in its refusals; the
 * writer's exact bytes; and that what is written reads back identical. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

/* All tokens of a document as text: { } [ ] k:key s:string i:integer r:real T F N, each followed by a space. */
static tutti_status dump(struct tt_json_reader *r, struct tt_str *out, struct tutti_error *err)
{
    static const char marks[] = ".{}[]ksirTFN";

    for (;;) {
        struct tt_json_token t;
        tutti_status status = tt_json_next(r, &t, err);
        if (status || t.kind == TT_JSON_END)
            return status;
        tt_str_printf(out, "%c", marks[t.kind]);
        if (t.kind == TT_JSON_KEY || t.kind == TT_JSON_STRING) {
            assert_int_equal(strlen(t.text), t.len);
            tt_str_printf(out, ":%s", t.text);
        } else if (t.kind == TT_JSON_INT)
            tt_str_printf(out, ":%lld", (long long)t.i);
        else if (t.kind == TT_JSON_REAL)
            tt_str_printf(out, ":%.17g", t.d);
        tt_str_printf(out, " ");
    }
}

static tutti_status dump_text(const char *text, size_t len, struct tt_str *out, struct tutti_error *err)
{
    struct tt_json_reader *r;

    assert_int_equal(tt_json_open_memory(text, len, "doc", &r, err), TUTTI_OK);
    tutti_status status = dump(r, out, err);
    if (status) { /* the first error stays */
        struct tt_json_token t;
        struct tutti_error again = {0};
        assert_int_equal(tt_json_next(r, &t, &again), status);
        assert_string_equal(again.text, err->text);
    } else
        assert_int_equal(tt_json_bytes(r), len);
    tt_json_close(r);
    return status;
}

static void accepted(void **state)
{
    static const struct {
        const char *text, *tokens;
    } cases[] = {
        {"0", "i:0 "},
        {" [ ] ", "[ ] "},
        {"{}", "{ } "},
        {"{\"a\":1,\"b\":[true,false,null]}", "{ k:a i:1 k:b [ T F N ] } "},
        {"{ \"a\" : { \"\" : \"\" } , \"a\" : [[],[1]] }\r\n\t", "{ k:a { k: s: } k:a [ [ ] [ i:1 ] ] } "},
        {"[-0,-1,9223372036854775807,-9223372036854775808]", "[ i:0 i:-1 i:9223372036854775807 i:-9223372036854775808 ] "},
        {"[9223372036854775808,-9223372036854775809,18446744073709551616]",
         "[ r:9.2233720368547758e+18 r:-9.2233720368547758e+18 r:1.8446744073709552e+19 ] "},
        {"[1.5,-0.25,1e3,1E+2,12e-1,0.1,0e5]", "[ r:1.5 r:-0.25 r:1000 r:100 r:1.2 r:0.10000000000000001 r:0 ] "},
        {"[1e-400,1e-99999999999999999999,0e999999999]", "[ r:0 r:0 r:0 ] "},
        {"1.7976931348623157e308", "r:1.7976931348623157e+308 "},
        {"0.000000000000000000000000000000000000000000000000000000012e57", "r:12 "},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s:\"\\/\b\f\n\r\t "},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"", "s:A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 "},
        {"\"\\uffff\\u07ff\\u0800\"", "s:\xef\xbf\xbf\xdf\xbf\xe0\xa0\x80 "},
        {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"", "s:\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f "},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_str out = {0};
        struct tutti_error err = {0};
        if (dump_text(cases[i].text, strlen(cases[i].text), &out, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_string_equal(out.s, cases[i].tokens);
        tt_str_free(&out);
    }
}

static void refused(void **state)
{
    static const struct {
        const char *text;
        tutti_status status;
        const char *says;
    } cases[] = {
        {"", TUTTI_ERR_PARSE, "doc:1:1: expected a value, found the end of the input"},
        {"  \n ", TUTTI_ERR_PARSE, "doc:2:2: expected a value, found the end of the input"},
        {"[1,]", TUTTI_ERR_PARSE, "doc:1:4: expected a value, found ']'"},
        {"{\"a\":1,}", TUTTI_ERR_PARSE, "doc:1:8: expected a key in double quotes, found '}'"},
        {"[,1]", TUTTI_ERR_PARSE, "doc:1:2: expected a value, found ','"},
        {"[1 2]", TUTTI_ERR_PARSE, "doc:1:4: expected ',' or ']', found '2'"},
        {"[1}", TUTTI_ERR_PARSE, "doc:1:3: expected ',' or ']', found '}'"},
        {"{\"a\":1]", TUTTI_ERR_PARSE, "doc:1:7: expected ',' or '}', found ']'"},
        {"{\"a\" 1}", TUTTI_ERR_PARSE, "doc:1:6: expected ':' after the key, found '1'"},
        {"{\"a\":}", TUTTI_ERR_PARSE, "doc:1:6: expected a value, found '}'"},
        {"{a:1}", TUTTI_ERR_PARSE, "doc:1:2: expected a key in double quotes, found 'a'"},
        {"{1:1}", TUTTI_ERR_PARSE, "doc:1:2: expected a key"},
        {"]", TUTTI_ERR_PARSE, "doc:1:1: expected a value, found ']'"},
        {"1 1", TUTTI_ERR_PARSE, "doc:1:3: expected nothing after the document, found '1'"},
        {"{}\n{}", TUTTI_ERR_PARSE, "doc:2:1: expected nothing after the document"},
        {"[", TUTTI_ERR_PARSE, "doc:1:2: expected a value, found the end"},
        {"[\n\n  1,\n  x", TUTTI_ERR_PARSE, "doc:4:3: expected a value, found 'x'"},
        {"01", TUTTI_ERR_PARSE, "must not begin with a zero"},
        {"-01", TUTTI_ERR_PARSE, "must not begin with a zero"},
        {"-", TUTTI_ERR_PARSE, "expected a digit"},
        {"+1", TUTTI_ERR_PARSE, "expected a value, found '+'"},
        {".5", TUTTI_ERR_PARSE, "expected a value, found '.'"},
        {"5.", TUTTI_ERR_PARSE, "expected a digit"},
        {"5.e1", TUTTI_ERR_PARSE, "expected a digit, found 'e'"},
        {"1e", TUTTI_ERR_PARSE, "expected a digit"},
        {"1e+", TUTTI_ERR_PARSE, "expected a digit"},
        {"0x10", TUTTI_ERR_PARSE, "expected nothing after the document, found 'x'"},
        {"NaN", TUTTI_ERR_PARSE, "expected a value, found 'N'"},
        {"nul", TUTTI_ERR_PARSE, "doc:1:4: expected null, found the end"},
        {"trUe", TUTTI_ERR_PARSE, "doc:1:3: expected true, found 'U'"},
        {"truex", TUTTI_ERR_PARSE, "doc:1:5: expected nothing"},
        {"1e400", TUTTI_ERR_RANGE, "number too large"},
        {"-1e99999999999999999999", TUTTI_ERR_RANGE, "number too large"},
        {"12345678901234567890123456789012345678901234567890123456789012345", TUTTI_ERR_LIMIT, "longer than 64"},
        {"0.00000000000000000000000000000000000000000000000000000000000001e1", TUTTI_ERR_LIMIT, "longer than 64"},
        {"\"abc", TUTTI_ERR_PARSE, "doc:1:5: expected the end of the string, found the end of the input"},
        {"\"a\nb\"", TUTTI_ERR_PARSE, "control character 0x0a"},
        {"\"\x1f\"", TUTTI_ERR_PARSE, "control character 0x1f"},
        {"\"\\x\"", TUTTI_ERR_PARSE, "after a backslash, found 'x'"},
        {"\"\\", TUTTI_ERR_PARSE, "after a backslash, found the end"},
        {"\"\\u12g4\"", TUTTI_ERR_PARSE, "four hexadecimal digits"},
        {"\"\\u12", TUTTI_ERR_PARSE, "four hexadecimal digits"},
        {"\"\\u0000\"", TUTTI_ERR_PARSE, "NUL"},
        {"\"\\ud800\"", TUTTI_ERR_PARSE, "surrogate pair"},
        {"\"\\ud800\\n\"", TUTTI_ERR_PARSE, "surrogate pair"},
        {"\"\\ud800\\u0041\"", TUTTI_ERR_PARSE, "surrogate pair"},
        {"\"\\ude00\"", TUTTI_ERR_PARSE, "surrogate pair"},
        {"\"\x80\"", TUTTI_ERR_PARSE, "not UTF-8"},
        {"\"\xc0\x80\"", TUTTI_ERR_PARSE, "not UTF-8"},
        {"\"\xe2\x82\"", TUTTI_ERR_PARSE, "not UTF-8"},
        {"\"\xed\xa0\x80\"", TUTTI_ERR_PARSE, "not UTF-8"},
        {"\"\xf5\x80\x80\x80\"", TUTTI_ERR_PARSE, "not UTF-8"},
        {"\xef\xbb\xbf{}", TUTTI_ERR_PARSE, "found byte 0xef"},
        {"[\v1]", TUTTI_ERR_PARSE, "found byte 0x0b"},
        {"// no\n1", TUTTI_ERR_PARSE, "found '/'"},
        {"'a'", TUTTI_ERR_PARSE, "found '''"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_str out = {0};
        struct tutti_error err = {0};
        tutti_status status = dump_text(cases[i].text, strlen(cases[i].text), &out, &err);
        if (status != cases[i].status || err.status != status || !strstr(err.text, cases[i].says) || strncmp(err.text, "doc:", 4))
            fail_msg("%s: status %d, \"%s\", expected \"%s\"", cases[i].text, status, err.text, cases[i].says);
        tt_str_free(&out);
    }
    struct tutti_error err = {0};
    struct tt_str out = {0};
    assert_int_equal(dump_text("[\0]", 3, &out, &err), TUTTI_ERR_PARSE);
    assert_non_null(strstr(err.text, "found byte 0x00"));
    assert_int_equal(dump_text("\"\0\"", 3, &out, &err), TUTTI_ERR_PARSE);
    assert_non_null(strstr(err.text, "control character 0x00"));
    tt_str_free(&out);
}

static tutti_status nested(int depth)
{
    struct tt_str doc = {0}, out = {0};
    struct tutti_error err = {0};

    for (int i = 0; i < depth; i++)
        tt_str_add(&doc, i % 2 ? "{\"a\":" : "[", i % 2 ? 5 : 1);
    tt_str_add(&doc, "1", 1);
    for (int i = depth; i-- > 0;)
        tt_str_add(&doc, i % 2 ? "}" : "]", 1);
    tutti_status status = dump_text(doc.s, doc.len, &out, &err);
    if (status)
        assert_non_null(strstr(err.text, "deeper than 32"));
    tt_str_free(&doc);
    tt_str_free(&out);
    return status;
}

static tutti_status long_string(size_t len, const char *unit, size_t unit_bytes)
{
    struct tt_str doc = {0}, out = {0};
    struct tutti_error err = {0};

    tt_str_add(&doc, "\"", 1);
    for (size_t n = 0; n < len; n += unit_bytes)
        tt_str_printf(&doc, "%s", unit);
    tt_str_add(&doc, "\"", 1);
    tutti_status status = dump_text(doc.s, doc.len, &out, &err);
    if (!status)
        assert_int_equal(out.len, len + 3);
    tt_str_free(&doc);
    tt_str_free(&out);
    return status;
}

static void limits(void **state)
{
    (void)state;
    assert_int_equal(nested(TT_JSON_DEPTH), TUTTI_OK);
    assert_int_equal(nested(TT_JSON_DEPTH + 1), TUTTI_ERR_LIMIT);
    assert_int_equal(nested(100000), TUTTI_ERR_LIMIT);
    assert_int_equal(long_string(TT_JSON_TEXT, "x", 1), TUTTI_OK);
    assert_int_equal(long_string(TT_JSON_TEXT + 1, "x", 1), TUTTI_ERR_LIMIT);
    assert_int_equal(long_string(TT_JSON_TEXT, "\\ud83d\\ude00", 4), TUTTI_OK);
    assert_int_equal(long_string(TT_JSON_TEXT + 4, "\\ud83d\\ude00", 4), TUTTI_ERR_LIMIT);
    assert_int_equal(long_string(TT_JSON_TEXT + 2, "\xe2\x82\xac", 3), TUTTI_ERR_LIMIT);
    assert_int_equal(long_string(1000000, "x", 1), TUTTI_ERR_LIMIT);
}

/* A document cut anywhere is refused, never taken for complete, and never makes the reader run past its end. */
static void truncated(void **state)
{
    static const char doc[] = "{\"k\\u00e9\":[1,-2.5e3,\"\\ud83d\\ude00\xe2\x82\xac\",true,null,{\"x\":false}]}";

    (void)state;
    for (size_t n = 0; n < sizeof doc - 1; n++) {
        struct tt_str out = {0};
        struct tutti_error err = {0};
        char *copy = malloc(n ? n : 1); /* exact size, so that the address sanitizer sees one byte too far */
        assert_non_null(copy);
        memcpy(copy, doc, n);
        assert_int_equal(dump_text(copy, n, &out, &err), TUTTI_ERR_PARSE);
        tt_str_free(&out);
        free(copy);
    }
}

/* The same tokens through a file, with the document shifted across the 64 KiB window boundary byte by byte. */
static void windows(void **state)
{
    static const char doc[] = "{\"k\\u00e9\":[1234567890,-2.5e3,\"\\ud83d\\ude00\xe2\x82\xac\",true,null]}";
    static const char tokens[] = "{ k:k\xc3\xa9 [ i:1234567890 r:-2500 s:\xf0\x9f\x98\x80\xe2\x82\xac T N ] } ";

    (void)state;
    for (size_t shift = 65536 - sizeof doc; shift <= 65537; shift++) {
        FILE *f = tmpfile();
        struct tt_json_reader *r;
        struct tt_str out = {0};
        struct tutti_error err = {0};
        assert_non_null(f);
        for (size_t i = 0; i < shift; i++)
            putc(i % 100 == 99 ? '\n' : ' ', f);
        fputs(doc, f);
        fputs(" x", f);
        rewind(f);
        assert_int_equal(tt_json_open_file(f, "file", &r, &err), TUTTI_OK);
        assert_int_equal(dump(r, &out, &err), TUTTI_ERR_PARSE);
        assert_string_equal(out.s, tokens);
        char says[60];
        snprintf(says, sizeof says, "file:%zu:%zu: expected nothing", shift / 100 + 1, shift % 100 + sizeof doc + 1);
        if (strncmp(err.text, says, strlen(says)))
            fail_msg("\"%s\", expected \"%s\"", err.text, says);
        tt_json_close(r);
        tt_str_free(&out);
        fclose(f);
    }
}

static void io_error(void **state)
{
    struct tt_json_reader *r;
    struct tt_json_token t;
    struct tutti_error err = {0};
    FILE *f = fopen("/", "r"); /* reading a directory fails */

    (void)state;
    assert_non_null(f);
    assert_int_equal(tt_json_open_file(f, "dir", &r, &err), TUTTI_OK);
    assert_int_equal(tt_json_next(r, &t, &err), TUTTI_ERR_IO);
    assert_non_null(strstr(err.text, "dir:1:1: cannot read"));
    tt_json_close(r);
    fclose(f);
    tt_json_close(NULL);
}

static void helpers(void **state)
{
    static const char doc[] = "{\"skip\":[1,{\"a\":[]},2],\n \"n\":[3,-4,5],\"s\":\"x\"}";
    struct tt_json_reader *r;
    struct tt_json_token t;
    struct tutti_error err = {0};
    int64_t v = 99;
    bool end;

    (void)state;
    assert_int_equal(tt_json_open_memory(doc, sizeof doc - 1, "doc", &r, &err), TUTTI_OK);
    assert_int_equal(tt_json_expect(r, TT_JSON_OBJECT, &t, &err), TUTTI_OK);
    assert_int_equal(tt_json_expect(r, TT_JSON_KEY, &t, &err), TUTTI_OK);
    assert_string_equal(t.text, "skip");
    assert_int_equal(tt_json_skip(r, &err), TUTTI_OK);
    assert_int_equal(tt_json_expect(r, TT_JSON_KEY, &t, &err), TUTTI_OK);
    assert_string_equal(t.text, "n");
    assert_int_equal(tt_json_fail(r, &err, TUTTI_ERR_ARG, "unknown key \"%s\"", t.text), TUTTI_ERR_ARG);
    assert_string_equal(err.text, "doc:2:2: unknown key \"n\"");
    assert_int_equal(tt_json_expect(r, TT_JSON_ARRAY, &t, &err), TUTTI_OK);
    assert_int_equal(tt_json_int_or_end(r, 3, 3, &v, &end, &err), TUTTI_OK);
    assert_false(end);
    assert_int_equal(v, 3);
    assert_int_equal(tt_json_int_or_end(r, 0, 9, &v, &end, &err), TUTTI_ERR_RANGE);
    assert_string_equal(err.text, "doc:2:9: -4 is not from 0 to 9");
    assert_int_equal(v, 3);
    assert_int_equal(tt_json_int_or_end(r, 5, INT64_MAX, &v, &end, &err), TUTTI_OK);
    assert_int_equal(v, 5);
    assert_int_equal(tt_json_int_or_end(r, 0, 9, &v, &end, &err), TUTTI_OK);
    assert_true(end);
    assert_int_equal(tt_json_expect(r, TT_JSON_STRING, &t, &err), TUTTI_ERR_PARSE);
    assert_string_equal(err.text, "doc:2:15: expected a string, found a key");
    assert_int_equal(tt_json_skip(r, &err), TUTTI_OK);
    assert_int_equal(tt_json_skip(r, &err), TUTTI_ERR_PARSE);
    assert_string_equal(err.text, "doc:2:22: expected a value, found the end of the object");
    assert_int_equal(tt_json_expect(r, TT_JSON_END, &t, &err), TUTTI_OK);
    assert_int_equal(tt_json_expect(r, TT_JSON_END, &t, &err), TUTTI_OK);
    tt_json_close(r);
}

static void integers_only(void **state)
{
    static const char *const docs[] = {"[1.0]", "[1e2]", "[\"1\"]", "[9223372036854775808]", "[[]]", "[null]"};

    (void)state;
    for (size_t i = 0; i < countof(docs); i++) {
        struct tt_json_reader *r;
        struct tt_json_token t;
        struct tutti_error err = {0};
        int64_t v;
        bool end;
        assert_int_equal(tt_json_open_memory(docs[i], strlen(docs[i]), "doc", &r, &err), TUTTI_OK);
        assert_int_equal(tt_json_expect(r, TT_JSON_ARRAY, &t, &err), TUTTI_OK);
        assert_int_equal(tt_json_int_or_end(r, INT64_MIN, INT64_MAX, &v, &end, &err), TUTTI_ERR_PARSE);
        assert_non_null(strstr(err.text, "doc:1:2: expected an integer"));
        tt_json_close(r);
    }
}

/* ---- writer ---- */

static void write_sample(struct tt_json_writer *w)
{
    tt_json_object(w);
    tt_json_key(w, "name");
    tt_json_string(w, "q\"b\\n\n\x01\xc3\xa9\xff.");
    tt_json_key(w, "none");
    tt_json_string(w, NULL);
    tt_json_key(w, "empty");
    tt_json_array(w);
    tt_json_array_end(w);
    tt_json_key(w, "rows");
    tt_json_array(w);
    tt_json_array_compact(w);
    tt_json_u64(w, 0);
    tt_json_u64(w, UINT64_MAX);
    tt_json_object(w);
    tt_json_key(w, "x");
    tt_json_real(w, 0.1);
    tt_json_key(w, "y");
    tt_json_bool(w, true);
    tt_json_object_end(w);
    tt_json_array_end(w);
    tt_json_object_compact(w);
    tt_json_object_end(w);
    tt_json_bool(w, false);
    tt_json_array_end(w);
    tt_json_object_end(w);
    tt_json_finish(w);
}

static void writer_bytes(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    struct tt_json_writer w;

    (void)state;
    assert_non_null(f);
    tt_json_begin(&w, f);
    write_sample(&w);
    fclose(f);
    assert_string_equal(text, "{\n"
                              "  \"name\": \"q\\\"b\\\\n\\n\\u0001\xc3\xa9\xef\xbf\xbd.\",\n"
                              "  \"none\": null,\n"
                              "  \"empty\": [],\n"
                              "  \"rows\": [\n"
                              "    [0,18446744073709551615,{\"x\":0.1,\"y\":true}],\n"
                              "    {},\n"
                              "    false\n"
                              "  ]\n"
                              "}\n");
    struct tt_str out = {0};
    struct tutti_error err;
    assert_int_equal(dump_text(text, len, &out, &err), TUTTI_OK);
    tt_str_free(&out);
    free(text);
}

static char *real_text(double v)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    struct tt_json_writer w;

    assert_non_null(f);
    tt_json_begin(&w, f);
    tt_json_real(&w, v);
    fclose(f);
    return text;
}

static void check_real(double v)
{
    char *text = real_text(v);
    struct tt_json_reader *r;
    struct tt_json_token t;
    struct tutti_error err;

    assert_int_equal(tt_json_open_memory(text, strlen(text), "real", &r, &err), TUTTI_OK);
    assert_int_equal(tt_json_next(r, &t, &err), TUTTI_OK);
    if (memcmp(&t.d, &v, sizeof v))
        fail_msg("%s reads back as %.17g", text, t.d);
    tt_json_close(r);
    free(text);
}

static void reals(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {-2.5, "-2.5"},
        {1.25e9, "1250000000"},
        {1e22, "1e+22"},
        {0.1 + 0.2, "0.30000000000000004"},
        {-0.0, "-0"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
    };
    struct tt_rng r;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        char *text = real_text(cases[i].v);
        assert_string_equal(text, cases[i].text);
        free(text);
        check_real(cases[i].v);
    }
    char *null = real_text((double)INFINITY);
    assert_string_equal(null, "null");
    free(null);
    tt_rng_seed(&r, 5);
    for (int i = 0; i < 5000; i++) {
        uint64_t bits = tt_rng_next(&r);
        double v;
        memcpy(&v, &bits, sizeof v);
        if ((bits >> 52 & 0x7ff) != 0x7ff)
            check_real(v);
    }
}

/* With a locale that writes 0,5 (where the machine has one) nothing changes. */
static void other_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        skip();
    char *text = real_text(0.5);
    check_real(0.1);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "0.5");
    free(text);
}

static void full_disk(void **state)
{
    FILE *f = fopen("/dev/full", "w");
    struct tt_json_writer w;

    (void)state;
    if (!f)
        skip();
    tt_json_begin(&w, f);
    write_sample(&w);
    assert_int_not_equal(fflush(f) | ferror(f), 0);
    fclose(f);
}

/* Random bytes and random edits of a good document: any answer is right, but no crash, no endless loop. */
static void noise(void **state)
{
    static const char doc[] = "{\"k\\u00e9\":[1,-2.5e3,\"\\ud83d\\ude00\xe2\x82\xac\",true,null,{\"x\":false}]}";
    struct tt_rng r;

    (void)state;
    tt_rng_seed(&r, 9);
    for (int i = 0; i < 20000; i++) {
        char copy[sizeof doc];
        struct tt_str out = {0};
        struct tutti_error err;
        memcpy(copy, doc, sizeof doc);
        for (uint64_t edits = 1 + tt_rng_below(&r, 3); edits--;)
            copy[tt_rng_below(&r, sizeof doc - 1)] =
                (char)(i % 2 ? tt_rng_below(&r, 256) : (uint64_t)doc[tt_rng_below(&r, sizeof doc - 1)]);
        dump_text(copy, sizeof doc - 1, &out, &err);
        tt_str_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),     cmocka_unit_test(refused),  cmocka_unit_test(limits),       cmocka_unit_test(truncated),
        cmocka_unit_test(windows),      cmocka_unit_test(io_error), cmocka_unit_test(helpers),      cmocka_unit_test(integers_only),
        cmocka_unit_test(writer_bytes), cmocka_unit_test(reals),    cmocka_unit_test(other_locale), cmocka_unit_test(full_disk),
        cmocka_unit_test(noise),
    };
    return cmocka_run_group_tests_name("base json", tests, NULL, NULL);
}
