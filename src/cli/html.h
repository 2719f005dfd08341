/* html.h - report pages: one HTML file without a script, made of a headline, sentences, tables and
 * pictures (plot.h). All texts may hold markup: it stays text. Write errors show in the stream.
 *
 *     begin  verdict*  note*  (section  note* table* picture* section_end)*  end */
#ifndef CLI_HTML_H
#define CLI_HTML_H

#include <stdbool.h>
#include <stdio.h>

void cli_html_begin(FILE *out, const char *title);
void cli_html_end(FILE *out);
/* A sentence in large letters, or an ordinary one. */
void cli_html_verdict(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_html_note(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_html_section(FILE *out, const char *heading);
void cli_html_section_end(FILE *out);
/* A table: its columns "a|b|c", then rows of as many cells each. */
void cli_html_table(FILE *out, const char *columns);
void cli_html_row(FILE *out, bool strong); /* strong: the row that matters */
void cli_html_cell(FILE *out, bool number, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void cli_html_table_end(FILE *out);
#endif
