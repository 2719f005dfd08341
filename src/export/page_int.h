/* page_int.h - between the files that write the data of pages. */
#ifndef TT_EXPORT_PAGE_INT_H
#define TT_EXPORT_PAGE_INT_H

#include "export/page.h"

/* Writes the routes of all (src, dst, channel) that the schedule uses: lists "p_*". */
tutti_status tt_export_page_routes(const struct tt_page_schedule *p, struct tt_json_writer *w,
                                   struct tutti_error *err);
/* Writes the use of each drawn link in TT_PAGE_PARTS parts of the time, in thousandths: "use". */
tutti_status tt_export_page_use(const struct tt_page_schedule *p, struct tt_json_writer *w,
                                struct tutti_error *err);
#endif
