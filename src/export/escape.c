/* escape.c - text inside XML: names of algorithms come from plan files and may hold anything. */
#include "export/export.h"

void tt_export_xml_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            putc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
        }
    }
}
