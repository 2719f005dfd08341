/* run_int.h - between the files that read traces. */
#ifndef TT_EXPORT_RUN_INT_H
#define TT_EXPORT_RUN_INT_H

#include "export/run.h"

struct tt_run_reader {
    struct tt_json_reader *json;
    struct tt_run *run;
    struct tutti_error *err;
};
/* An integer from 0 to max. */
tutti_status tt_export_run_number(struct tt_run_reader *x, const char *what, uint64_t max,
                                  uint64_t *ret);
/* The next key of an object (*ret_end: its end). */
tutti_status tt_export_run_key(struct tt_run_reader *x, char *key, size_t cap, bool *ret_end);
/* A name that `find` knows. */
tutti_status tt_export_run_word(struct tt_run_reader *x, int (*find)(const char *), uint8_t *ret);
/* A text of fewer than cap bytes. */
tutti_status tt_export_run_text(struct tt_run_reader *x, char *ret, size_t cap);
/* An array of objects; `one` reads an object's members and its end. */
tutti_status tt_export_run_list(struct tt_run_reader *x,
                                tutti_status (*one)(struct tt_run_reader *x));

/* run_trainer.c: one object of "trainers"; one trainer for a page. */
tutti_status tt_export_run_trainer(struct tt_run_reader *x);
void tt_export_run_trainer_write(const struct tt_record_trainer *t, struct tt_json_writer *w);
#endif
