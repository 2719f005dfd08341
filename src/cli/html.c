/* html.c - the elements of report pages. Nothing is kept between calls: the stream is the state, so
 * that end tags of rows and cells are left to the reader, as HTML allows. */
#include "cli/html.h"

#include <stdarg.h>

#include "cli/cli.h"

void cli_html_begin(FILE *out, const char *title)
{
    tutti_page_plain(out, title);
    fputs("<header>\n<h1>", out);
    tutti_xml_text(title, out);
    fputs("</h1>\n</header>\n<main class=\"report\">\n", out);
}

void cli_html_end(FILE *out)
{
    fputs("</main>\n<p class=\"note\">Made by tutti ", out);
    tutti_xml_text(tutti_version(), out);
    fputs(".</p>\n</body>\n</html>\n", out);
}

/* `before` is markup, the text is not. */
static void put(FILE *out, const char *before, const char *after, const char *fmt, va_list ap)
{
    char text[2000];
    vsnprintf(text, sizeof text, fmt, ap);
    fputs(before, out);
    tutti_xml_text(text, out);
    fputs(after, out);
}

void cli_html_verdict(FILE *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(out, "<p class=\"verdict\">", "</p>\n", fmt, ap);
    va_end(ap);
}

void cli_html_note(FILE *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(out, "<p>", "</p>\n", fmt, ap);
    va_end(ap);
}

void cli_html_section(FILE *out, const char *heading)
{
    fputs("<section class=\"panel\">\n<h2>", out);
    tutti_xml_text(heading, out);
    fputs("</h2>\n", out);
}

void cli_html_section_end(FILE *out)
{
    fputs("</section>\n", out);
}

void cli_html_table(FILE *out, const char *columns)
{
    char name[2] = "";
    fputs("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th>", out);
    for (; *columns; columns++) {
        name[0] = *columns;
        if (*columns == '|')
            fputs("<th>", out);
        else
            tutti_xml_text(name, out);
    }
    fputs("</thead>\n<tbody>", out);
}

void cli_html_row(FILE *out, bool strong)
{
    fputs(strong ? "\n<tr class=\"now\">" : "\n<tr>", out);
}

void cli_html_cell(FILE *out, bool number, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(out, number ? "<td class=\"n\">" : "<td>", "", fmt, ap);
    va_end(ap);
}

void cli_html_table_end(FILE *out)
{
    fputs("\n</tbody></table></div>\n", out);
}
