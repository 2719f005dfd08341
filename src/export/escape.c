/* escape.c - what all pictures share: their colours, and text inside XML (names of algorithms come
 * from plan files and may hold anything).
 *
 * The colours are those of Okabe and Ito, which people with colour blindness can tell apart, but
 * for black and yellow: each must be seen on a light and on a dark page. */
#include "export/export.h"

const char *tt_export_colour(size_t i)
{
    static const char *const colours[TT_EXPORT_COLOURS] = {
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c6d1f"};
    return colours[i % TT_EXPORT_COLOURS];
}

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
