/* top.c - the counters of running jobs (base/board.h) as the tool reads them. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/board.h"

struct api_top {
    size_t n;
    struct tt_board **board;
};

static void top_free(struct api_top *top)
{
    if (!top)
        return;
    for (size_t i = 0; i < top->n; i++)
        free(top->board[i]);
    free(top->board);
    free(top);
}

tutti_status tutti_top_read(struct tutti_top **ret, struct tutti_error *err)
{
    tutti_status st = api_given(err, "ret", ret);
    struct api_top *top = st ? NULL : tt_zalloc(1, sizeof *top);
    if (!st && !top)
        st = tt_fail_memory(err, "counters");
    if (!st)
        st = tt_board_list(&top->board, &top->n, err);
    void *handle = st ? NULL : tt_api_make(API_TOP, top, NULL, err);
    if (!handle) {
        top_free(top);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_top_free(struct tutti_top *top)
{
    top_free(api_end(TOP, top));
}

bool tutti_top_rank(const struct tutti_top *top, size_t i, struct tutti_top_rank *ret)
{
    const struct api_top *x = api_need(TOP, top);
    api_must("ret", ret);
    if (i >= x->n)
        return false;
    const struct tt_board *b = x->board[i];
    *ret = (struct tutti_top_rank){.rank = b->rank,
                                   .ranks = b->ranks,
                                   .pid = b->pid,
                                   .host = b->host,
                                   .job = b->job,
                                   .opened_ns = b->opened_ns,
                                   .calls = b->calls,
                                   .call_bytes = b->call_bytes,
                                   .call_ns = b->call_ns,
                                   .waits = b->waits,
                                   .wait_ns = b->wait_ns,
                                   .sent_bytes = b->sent_bytes,
                                   .received_bytes = b->received_bytes,
                                   .idle_ns = b->idle_ns};
    return true;
}

uint64_t tutti_top_idle_for(const struct tutti_top *top, size_t i, uint32_t peer)
{
    const struct api_top *x = api_need(TOP, top);
    return i < x->n && peer < x->board[i]->ranks ? x->board[i]->idle_for[peer] : 0;
}
