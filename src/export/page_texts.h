/* page_texts.h - the style, the script and the body of pages, from the files of page/ (made by
 * cmake/embed.cmake). Each is a text that ends with 0. */
#ifndef TT_EXPORT_PAGE_TEXTS_H
#define TT_EXPORT_PAGE_TEXTS_H

extern const unsigned char tt_export_page_script[], tt_export_page_style[], tt_export_page_body[];
/* "sha256-...": the script in a Content-Security-Policy. */
extern const char tt_export_page_policy[];
#endif
