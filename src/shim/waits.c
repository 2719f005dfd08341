/* waits.c - every function that completes requests. While none of ours is active they are MPI's
 * own. Otherwise waiting is polling: between two tests, MPI's side of what Tutti has finished is
 * completed (requests.c). The requests in the call may be ours, MPI's or both; that makes no
 * difference.
 *
 * For MPI, a failed request of ours has completed successfully; the error is added here, the way
 * MPI would return it. Its error handler was called before. */
#include "shim/shim.h"

/* Completes what is done, and what has failed among these requests, so that MPI's test will find
 * it. */
static void waits_look(int count, const MPI_Request *requests)
{
    shim_requests_drive();
    shim_failed_find(count, requests);
}

/* MPI has completed the request that was at this place; rc, or the error of ours. */
static int with_error(int rc, const MPI_Request *at)
{
    return shim_failed_take(at) ? MPI_ERR_OTHER : rc;
}

/* MPI sets MPI_ERROR in statuses only when it returns MPI_ERR_IN_STATUS. Before we return that, the
 * others must say success. */
static void all_good(int n, MPI_Status *statuses)
{
    for (int i = 0; statuses != MPI_STATUSES_IGNORE && i < n; i++)
        statuses[i].MPI_ERROR = MPI_SUCCESS;
}

/* MPI has completed n requests; which: their indices, or NULL for the first n. */
static int with_errors(int rc, int n, const int *which, const MPI_Request *requests,
                       MPI_Status *statuses)
{
    for (int i = 0; i < n; i++) {
        if (!shim_failed_take(&requests[which ? which[i] : i]))
            continue;
        if (rc == MPI_SUCCESS)
            all_good(n, statuses);
        rc = MPI_ERR_IN_STATUS;
        if (statuses != MPI_STATUSES_IGNORE)
            statuses[i].MPI_ERROR = MPI_ERR_OTHER;
    }
    return rc;
}

/* Did MPI test every request, so that some may have completed? True for success and for
 * MPI_ERR_IN_STATUS. */
static bool was_each(int rc)
{
    int class = rc;
    return rc == MPI_SUCCESS ||
           (PMPI_Error_class(rc, &class) == MPI_SUCCESS && class == MPI_ERR_IN_STATUS);
}

/* ---- tests ---- */

static int test(MPI_Request *request, int *flag, MPI_Status *status)
{
    waits_look(1, request);
    int rc = PMPI_Test(request, flag, status);
    return rc == MPI_SUCCESS && *flag ? with_error(rc, request) : rc;
}

static int test_all(int count, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
    waits_look(count, requests);
    int rc = PMPI_Testall(count, requests, flag, statuses);
    return was_each(rc) && *flag ? with_errors(rc, count, NULL, requests, statuses) : rc;
}

static int test_any(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status)
{
    waits_look(count, requests);
    int rc = PMPI_Testany(count, requests, index, flag, status);
    return rc == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED ? with_error(rc, &requests[*index])
                                                                 : rc;
}

static int test_some(int count, MPI_Request *requests, int *outcount, int *indices,
                     MPI_Status *statuses)
{
    waits_look(count, requests);
    int rc = PMPI_Testsome(count, requests, outcount, indices, statuses);
    return was_each(rc) && *outcount != MPI_UNDEFINED
               ? with_errors(rc, *outcount, indices, requests, statuses)
               : rc;
}

SHIM_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    return test(request, flag, status);
}

SHIM_API int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    return test_all(count, requests, flag, statuses);
}

SHIM_API int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag,
                         MPI_Status *status)
{
    return test_any(count, requests, index, flag, status);
}

SHIM_API int MPI_Testsome(int count, MPI_Request requests[], int *outcount, int indices[],
                          MPI_Status statuses[])
{
    return test_some(count, requests, outcount, indices, statuses);
}

/* It completes nothing; the call that does so returns the error. */
SHIM_API int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    waits_look(1, &request);
    return PMPI_Request_get_status(request, flag, status);
}

/* ---- waits ---- */

SHIM_API int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    /* Returns to MPI's own wait as soon as none of ours is active: MPI then makes progress without
     * polling here. */
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int flag = 0, rc = test(request, &flag, status);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Wait(request, status);
}

SHIM_API int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int flag = 0, rc = test_all(count, requests, &flag, statuses);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Waitall(count, requests, statuses);
}

SHIM_API int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int flag = 0, rc = test_any(count, requests, index, &flag, status);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Waitany(count, requests, index, status);
}

SHIM_API int MPI_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[],
                          MPI_Status statuses[])
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int rc = test_some(count, requests, outcount, indices, statuses);
        if (rc != MPI_SUCCESS || *outcount != 0)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Waitsome(count, requests, outcount, indices, statuses);
}
