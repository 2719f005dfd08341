/* run_page.c - the lists of a trace for a page (run.h). */
#include "export/column.h"
#include "export/run_int.h"

enum { PAGE_EVENTS = 90000 };

tutti_status tt_export_run_write(const struct tt_run *r, struct tt_json_writer *w,
                                 struct tutti_error *err)
{
    enum { KIND, RANK, START, LENGTH, BYTES, PEER, COMM, SEQ, MESSAGE, PIECE, PLAN, COLL, COLUMNS };
    static const char *const key[COLUMNS] = {"kind", "rank", "start",   "length", "bytes", "peer",
                                             "comm", "seq",  "message", "piece",  "plan",  "coll"};
    struct tt_column c[COLUMNS] = {0};
    const bool pieces = r->events.len <= PAGE_EVENTS;
    bool ok = true;
    for (size_t i = 0; i < r->events.len; i++) {
        const struct tt_run_event *e = tt_vec_at(&r->events, i);
        if (!pieces && (e->kind == TT_RECORD_SEND || e->kind == TT_RECORD_RECEIVE))
            continue;
        const int64_t value[COLUMNS] = {e->kind,
                                        e->rank,
                                        (int64_t)e->start_ns,
                                        (int64_t)e->length_ns,
                                        (int64_t)e->bytes,
                                        e->peer == UINT32_MAX ? -1 : (int64_t)e->peer,
                                        e->comm,
                                        e->seq,
                                        e->message,
                                        e->piece,
                                        e->plan == TT_RECORD_NO_PLAN ? -1 : e->plan,
                                        e->coll};
        for (int k = 0; k < COLUMNS; k++)
            tt_export_column_add(&c[k], value[k]);
    }
    tt_json_object(w);
    tt_json_key(w, "pieces");
    tt_json_bool(w, pieces);
    for (int k = 0; k < COLUMNS; k++) {
        tt_json_key(w, key[k]);
        ok = tt_export_column_write(&c[k], w) && ok;
    }
    tt_json_key(w, "trainers");
    tt_json_array(w);
    for (size_t i = 0; i < r->trainers.len; i++)
        tt_export_run_trainer_write(tt_vec_at(&r->trainers, i), w);
    tt_json_array_end(w);
    tt_json_object_end(w);
    return ok ? TUTTI_OK : tt_fail_memory(err, "events");
}
