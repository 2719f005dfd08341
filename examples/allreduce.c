/* The smallest program that sums a vector over all ranks. Start it with: tutti run -n 4 -- ./allreduce (or torchrun, mpirun, srun). */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
    struct tutti_error err;
    struct tutti_comm *comm;
    if (tutti_comm_open(NULL, &comm, &err)) { /* rank, size and address from the launcher's variables */
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    float x[4] = {1, 2, 3, (float)tutti_comm_rank(comm)};
    if (tutti_allreduce(comm, x, x, 4, TUTTI_F32, TUTTI_SUM)) {
        fprintf(stderr, "%s\n", tutti_comm_last_error(comm)->text); /* names the rank, the operation and why */
        return 1;
    }
    if (tutti_comm_rank(comm) == 0)
        printf("%u ranks: %g %g %g %g\n", tutti_comm_size(comm), x[0], x[1], x[2], x[3]);
    tutti_comm_close(comm);
    return 0;
}
