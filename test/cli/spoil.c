/* spoil.c - linked into a copy of the tool for bench.sh (--wrap): all-reduces of floats go wrong in one element at rank 1,
 * so that bench has something to find. */
#include <tutti/tutti.h>

tutti_status __real_tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op);
tutti_status __wrap_tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op);

tutti_status __wrap_tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op)
{
    tutti_status st = __real_tutti_allreduce(comm, in, out, count, dtype, op);
    if (!st && dtype == TUTTI_F32 && count > 7 && tutti_comm_rank(comm) == 1)
        ((float *)out)[7] += 1;
    return st;
}
