/* column.h - a long list of integers as a short text, for the data of pages.
 *
 * The differences of neighbours are written as numbers of 7 bits each (the lowest first, the eighth
 * bit says that more follow), signs in the lowest bit; a difference of 0 is followed by how often
 * it comes. The bytes are squeezed (squeeze.h) and written in base 64; page/data.js reads them.
 *
 *     5 5 5 5 7  ->  +5, 0 three times, +2  ->  0a 00 03 04  ->  04 0a 00 03 04  ->  "BAoAAwQ=" */
#ifndef TT_EXPORT_COLUMN_H
#define TT_EXPORT_COLUMN_H

#include "base/base.h"
#include "base/json.h"

/* Zero-initialise it; free it with tt_export_column_free. */
struct tt_column {
    unsigned char *bytes;
    size_t len, cap;
    int64_t last;
    uint64_t zeros; /* differences of 0 that are not written yet */
    bool failed;    /* out of memory */
};
void tt_export_column_add(struct tt_column *c, int64_t v);
/* Writes the list as a value and frees it. The writer stands after a key or inside an array. False
 * when memory ran out on the way. */
bool tt_export_column_write(struct tt_column *c, struct tt_json_writer *w);
void tt_export_column_free(struct tt_column *c);
#endif
