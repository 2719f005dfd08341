/* message.c - the public messages between two ranks, blocking and as requests. Each function only
 * describes its message; comm/ matches and carries it. Data of a send is never written: the cast
 * away from const is for the one struct that serves both directions. */
#include <assert.h>

#include "api/api.h"

#include "comm/comm.h"

static_assert(TUTTI_ANY_SOURCE == TT_ANY && TUTTI_ANY_TAG == TT_ANY, "the engine's word for both");

/* A blocking message. comm/ checks peer, count and type. */
static tutti_status message_pass(const char *function, struct tutti_comm *comm,
                                 const struct tt_message *m, uint32_t *ret_source)
{
    struct tt_comm *c = tt_api_found(API_COMM, comm, function, NULL);
    return c ? tt_comm_pass(c, m, ret_source) : TUTTI_ERR_ARG;
}

tutti_status tutti_send(struct tutti_comm *comm, const void *data, size_t count, tutti_dtype dtype,
                        uint32_t peer)
{
    return message_pass(__func__, comm,
                        &(struct tt_message){.data = (void *)(uintptr_t)data,
                                             .count = count,
                                             .dtype = dtype,
                                             .peer = peer,
                                             .sends = true},
                        NULL);
}

tutti_status tutti_recv(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype,
                        uint32_t peer)
{
    return message_pass(
        __func__, comm,
        &(struct tt_message){.data = data, .count = count, .dtype = dtype, .peer = peer}, NULL);
}

tutti_status tutti_recv_any(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype,
                            uint32_t *ret_source)
{
    tutti_status st = tt_api_comm_given(__func__, comm, "ret_source", ret_source, NULL);
    return st ? st
              : message_pass(__func__, comm,
                             &(struct tt_message){
                                 .data = data, .count = count, .dtype = dtype, .peer = TT_ANY},
                             ret_source);
}

/* A message as a request, with its handle. */
static tutti_status message_make(const char *function, struct tutti_comm *comm,
                                 const struct tt_message *m, struct tutti_request **ret)
{
    struct tt_request *r = NULL;
    tutti_status st = tt_api_comm_given(function, comm, "ret", ret, NULL);
    if (!st)
        st = tt_comm_request_message(tt_api_found(API_COMM, comm, function, NULL), m, &r);
    return st ? st : tt_api_request_wrap(function, r, comm, ret);
}

tutti_status tutti_send_init(struct tutti_comm *comm, const void *data, size_t count,
                             tutti_dtype dtype, uint32_t peer, uint32_t tag,
                             struct tutti_request **ret)
{
    return message_make(__func__, comm,
                        &(struct tt_message){.data = (void *)(uintptr_t)data,
                                             .count = count,
                                             .dtype = dtype,
                                             .peer = peer,
                                             .tag = tag,
                                             .sends = true},
                        ret);
}

tutti_status tutti_recv_init(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype,
                             uint32_t peer, uint32_t tag, struct tutti_request **ret)
{
    return message_make(__func__, comm,
                        &(struct tt_message){
                            .data = data, .count = count, .dtype = dtype, .peer = peer, .tag = tag},
                        ret);
}

tutti_status tutti_request_source(struct tutti_request *request, uint32_t *ret_source,
                                  uint32_t *ret_tag, struct tutti_error *err)
{
    struct tt_request *r = api_find(REQUEST, request, err);
    uint32_t source, tag;
    tutti_status st = r ? api_given(err, "ret_source", ret_source) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_request_source(r, &source, &tag, err);
    if (!st)
        *ret_source = source;
    if (!st && ret_tag)
        *ret_tag = tag;
    return st;
}
