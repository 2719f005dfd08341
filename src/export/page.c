/* page.c - the file around the data of a page.
 *
 * The policy in its head lets a browser run the embedded script, known by its hash, and load
 * nothing at all: neither text of a plan nor a network can add to what the page does. In the
 * document '<', '>' and '&' become \u003c and so on, which are the same characters to a reader of
 * JSON and none to a reader of HTML. */
#include "export/page.h"

#include "export/export.h"
#include "export/page_texts.h"

static void put_text(const unsigned char *text, FILE *out)
{
    fputs((const char *)text, out);
}

/* The stream of the document: cookie is the page's stream. */
static ssize_t put_escaped(void *cookie, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] == '<' || data[i] == '>' || data[i] == '&')
            fprintf(cookie, "\\u%04x", (unsigned)(unsigned char)data[i]);
        else
            fputc(data[i], cookie);
    return (ssize_t)len;
}

/* `scripts`: the sources of scripts that may run; NULL: none. */
static void put_head(FILE *out, const char *title, const char *scripts)
{
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "style-src 'unsafe-inline'; script-src '%s'; base-uri 'none'; form-action 'none'\">\n",
            scripts ? scripts : "none");
    fprintf(out,
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    tt_export_xml_text(title, out);
    fprintf(out, "</title>\n<style>\n");
    put_text(tt_export_page_style, out);
    fprintf(out, "</style>\n</head>\n<body>\n");
}

void tt_export_page_plain(FILE *out, const char *title)
{
    put_head(out, title, NULL);
}

FILE *tt_export_page_begin(FILE *out, const char *title)
{
    FILE *data = fopencookie(out, "w", (cookie_io_functions_t){.write = put_escaped});
    if (!data)
        return NULL;
    put_head(out, title, tt_export_page_policy);
    put_text(tt_export_page_body, out);
    fprintf(out, "<script type=\"application/json\" id=\"data\">\n");
    return data;
}

void tt_export_page_end(FILE *data, FILE *out)
{
    fclose(data);
    fprintf(out, "</script>\n<script>");
    put_text(tt_export_page_script, out);
    fprintf(out, "</script>\n</body>\n</html>\n");
}
