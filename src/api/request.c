/* request.c - the public functions of requests over comm/, and how calls on a communicator are
 * refused. Requests are handles that need their communicator: closing a communicator ends them, and
 * they can only be freed afterwards.
 *
 *     init --> start --> test, wait or join --> start ... --> free
 *                        communicator closed: free only */
#include "api/api.h"

#include <stdarg.h>

#include "comm/comm.h"

/* tt_comm_refuse answers with the communicator's own failure when it has one already. */
tutti_status tt_api_comm_refused(struct tt_comm *c, tutti_status st)
{
    return st ? tt_comm_refuse(c, tt_api_refusal()) : TUTTI_OK;
}

tutti_status tt_api_comm_given(const char *function, const struct tutti_comm *comm, ...)
{
    struct tt_comm *c = tt_api_found(API_COMM, comm, function, NULL);
    va_list ap;
    if (!c)
        return TUTTI_ERR_ARG;
    va_start(ap, comm);
    tutti_status st = tt_api_given_list(function, NULL, ap);
    va_end(ap);
    return tt_api_comm_refused(c, st);
}

tutti_status tt_api_request_wrap(const char *function, struct tt_request *r,
                                 const struct tutti_comm *comm, struct tutti_request **ret)
{
    struct tutti_error err;
    void *handle = tt_api_make(API_REQUEST, r, comm, &err);
    if (!handle) {
        tt_comm_request_free(r);
        return tt_api_comm_refused(tt_api_peek(API_COMM, comm),
                                   tt_api_bad(function, NULL, TUTTI_ERR_LIMIT, "%s", err.text));
    }
    *ret = handle;
    return TUTTI_OK;
}

tutti_status tutti_request_start(struct tutti_request *request)
{
    struct tt_request *r = api_find(REQUEST, request, NULL);
    return r ? tt_comm_request_start(r) : TUTTI_ERR_ARG;
}

tutti_status tutti_request_test(struct tutti_request *request)
{
    struct tt_request *r = api_find(REQUEST, request, NULL);
    return r ? tt_comm_request_test(r) : TUTTI_ERR_ARG;
}

tutti_status tutti_request_wait(struct tutti_request *request)
{
    struct tt_request *r = api_find(REQUEST, request, NULL);
    return r ? tt_comm_request_wait(r) : TUTTI_ERR_ARG;
}

tutti_status tutti_request_join(struct tutti_request *request)
{
    struct tt_request *r = api_find(REQUEST, request, NULL);
    return r ? tt_comm_request_join(r) : TUTTI_ERR_ARG;
}

const char *tutti_request_algo(const struct tutti_request *request)
{
    return tt_comm_request_algo(api_need(REQUEST, request));
}

void tutti_request_free(struct tutti_request *request)
{
    /* Its communicator was closed, which has ended the request: only its memory is left. */
    bool orphan = tt_api_orphan(request);
    struct tt_request *r = api_end(REQUEST, request);
    if (orphan) {
        tt_comm_request_drop(r);
    } else if (r) {
        tt_comm_request_end(r);
        tt_comm_request_free(r);
    }
}
