/* waits.c - every way to complete a request. While none of ours is active they are MPI's own; otherwise waiting is testing, and between two
 * looks what Tutti has finished is completed on MPI's side (requests.c). Whose requests are given makes no difference. */
#include "shim/shim.h"

SHIM_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    shim_requests_drive();
    return PMPI_Test(request, flag, status);
}

SHIM_API int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    shim_requests_drive();
    return PMPI_Testall(count, requests, flag, statuses);
}

SHIM_API int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    shim_requests_drive();
    return PMPI_Testany(count, requests, index, flag, status);
}

SHIM_API int MPI_Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    shim_requests_drive();
    return PMPI_Testsome(count, requests, outcount, indices, statuses);
}

SHIM_API int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    shim_requests_drive();
    return PMPI_Request_get_status(request, flag, status);
}

SHIM_API int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int flag = 0, rc;
        shim_requests_drive();
        rc = PMPI_Test(request, &flag, status);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Wait(request, status);
}

SHIM_API int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int flag = 0, rc;
        shim_requests_drive();
        rc = PMPI_Testall(count, requests, &flag, statuses);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Waitall(count, requests, statuses);
}

SHIM_API int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int flag = 0, rc;
        shim_requests_drive();
        rc = PMPI_Testany(count, requests, index, &flag, status);
        if (rc != MPI_SUCCESS || flag)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Waitany(count, requests, index, status);
}

SHIM_API int MPI_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    for (unsigned looks = 0; shim_requests_active(); looks++) {
        int rc;
        shim_requests_drive();
        rc = PMPI_Testsome(count, requests, outcount, indices, statuses);
        if (rc != MPI_SUCCESS || *outcount != 0)
            return rc;
        shim_pause(looks);
    }
    return PMPI_Waitsome(count, requests, outcount, indices, statuses);
}
