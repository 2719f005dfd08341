/* spoil.c - preloaded by bench.sh: all-reduces of floats go wrong in one element at rank 1, so that bench has something to find. */
#include <dlfcn.h>
#include <tutti/tutti.h>

typedef tutti_status allreduce_fn(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op);

__attribute__((visibility("default"))) tutti_status tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                                                    tutti_dtype dtype, tutti_redop op)
{
    allreduce_fn *real = (allreduce_fn *)dlsym(RTLD_NEXT, "tutti_allreduce");
    tutti_status st = real(comm, in, out, count, dtype, op);
    if (!st && dtype == TUTTI_F32 && count > 7 && tutti_comm_rank(comm) == 1)
        ((float *)out)[7] += 1;
    return st;
}
