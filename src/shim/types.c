/* types.c - MPI's predefined types and operations in Tutti's terms. A sum of complex numbers is a
 * sum of twice as many real ones. What is not in the table stays with MPI. */
#include "shim/shim.h"

/* Sets of operations: bit `op` is set if the type has it. */
enum {
    SUM = 1 << TUTTI_SUM,
    PROD = 1 << TUTTI_PROD,
    MIN = 1 << TUTTI_MIN,
    MAX = 1 << TUTTI_MAX,
    REAL = SUM | PROD | MIN | MAX,
    BITS = 1 << TUTTI_BAND | 1 << TUTTI_BOR | 1 << TUTTI_BXOR,
    TRUTH = 1 << TUTTI_LAND | 1 << TUTTI_LOR | 1 << TUTTI_LXOR,
    WHOLE = REAL | BITS | TRUTH
};

enum { MOST = 48 }; /* upper limit of entries */
struct entry {
    MPI_Datatype mpi;
    tutti_dtype dtype;
    uint8_t each;
    uint16_t ops;
};

/* Handles are not constants in every MPI, so the table is filled on first use. The order is that of
 * likely use, since it is searched from the front. Types that this MPI lacks, or with another size,
 * are left out. */
static size_t types_fill(struct entry *e)
{
    size_t n = 0;
    const bool long64 = sizeof(long) == 8;
    const struct entry all[MOST] = {
        {MPI_DOUBLE, TUTTI_F64, 1, REAL},
        {MPI_FLOAT, TUTTI_F32, 1, REAL},
        {MPI_INT, TUTTI_I32, 1, WHOLE},
        {MPI_LONG, long64 ? TUTTI_I64 : TUTTI_I32, 1, WHOLE},
        {MPI_DOUBLE_PRECISION, TUTTI_F64, 1, REAL},
        {MPI_INTEGER, TUTTI_I32, 1, WHOLE},
        {MPI_REAL, TUTTI_F32, 1, REAL},
        {MPI_LONG_LONG, TUTTI_I64, 1, WHOLE},
        {MPI_INT64_T, TUTTI_I64, 1, WHOLE},
        {MPI_INT32_T, TUTTI_I32, 1, WHOLE},
        {MPI_INT16_T, TUTTI_I16, 1, WHOLE},
        {MPI_INT8_T, TUTTI_I8, 1, WHOLE},
        {MPI_SHORT, TUTTI_I16, 1, WHOLE},
        {MPI_SIGNED_CHAR, TUTTI_I8, 1, WHOLE},
        {MPI_UINT64_T, TUTTI_U64, 1, WHOLE},
        {MPI_UINT32_T, TUTTI_U32, 1, WHOLE},
        {MPI_UINT16_T, TUTTI_U16, 1, WHOLE},
        {MPI_UINT8_T, TUTTI_U8, 1, WHOLE},
        {MPI_UNSIGNED_LONG_LONG, TUTTI_U64, 1, WHOLE},
        {MPI_UNSIGNED_LONG, long64 ? TUTTI_U64 : TUTTI_U32, 1, WHOLE},
        {MPI_UNSIGNED, TUTTI_U32, 1, WHOLE},
        {MPI_UNSIGNED_SHORT, TUTTI_U16, 1, WHOLE},
        {MPI_UNSIGNED_CHAR, TUTTI_U8, 1, WHOLE},
        {MPI_BYTE, TUTTI_U8, 1, BITS},
        {MPI_C_BOOL, TUTTI_U8, 1, TRUTH},
        {MPI_REAL4, TUTTI_F32, 1, REAL},
        {MPI_REAL8, TUTTI_F64, 1, REAL},
        {MPI_INTEGER4, TUTTI_I32, 1, WHOLE},
        {MPI_INTEGER8, TUTTI_I64, 1, WHOLE},
        {MPI_C_FLOAT_COMPLEX, TUTTI_F32, 2, SUM},
        {MPI_C_DOUBLE_COMPLEX, TUTTI_F64, 2, SUM},
        {MPI_COMPLEX, TUTTI_F32, 2, SUM},
        {MPI_DOUBLE_COMPLEX, TUTTI_F64, 2, SUM},
    };
    for (size_t i = 0; i < MOST && all[i].each; i++) {
        int size = 0;
        bool there =
            all[i].mpi != MPI_DATATYPE_NULL && PMPI_Type_size(all[i].mpi, &size) == MPI_SUCCESS;
        if (there && (size_t)size == all[i].each * tutti_dtype_bytes(all[i].dtype))
            e[n++] = all[i];
    }
    return n;
}

static bool find_type(MPI_Datatype type, struct entry *ret)
{
    static struct entry table[MOST];
    static _Atomic size_t filled;
    size_t n = atomic_load_explicit(&filled, memory_order_acquire);
    if (n == 0) { /* two threads may fill it at the same time, with the same values */
        n = types_fill(table);
        atomic_store_explicit(&filled, n, memory_order_release);
    }
    for (size_t i = 0; i < n; i++)
        if (table[i].mpi == type) {
            *ret = table[i];
            return true;
        }
    return false;
}

/* The operation's number; -1: not one of Tutti's. */
static int find_op(MPI_Op op)
{
    const struct {
        MPI_Op mpi;
        tutti_redop ours;
    } all[] = {{MPI_SUM, TUTTI_SUM},   {MPI_MAX, TUTTI_MAX},   {MPI_MIN, TUTTI_MIN},
               {MPI_PROD, TUTTI_PROD}, {MPI_LAND, TUTTI_LAND}, {MPI_LOR, TUTTI_LOR},
               {MPI_LXOR, TUTTI_LXOR}, {MPI_BAND, TUTTI_BAND}, {MPI_BOR, TUTTI_BOR},
               {MPI_BXOR, TUTTI_BXOR}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].mpi == op)
            return (int)all[i].ours;
    return -1;
}

bool shim_reduction(MPI_Datatype type, MPI_Op op, struct shim_type *ret_type, tutti_redop *ret_op)
{
    struct entry e;
    int o = find_op(op);
    if (o < 0 || !find_type(type, &e) || !(e.ops & 1 << o))
        return false;
    *ret_type = (struct shim_type){e.dtype, e.each, e.each * tutti_dtype_bytes(e.dtype)};
    *ret_op = (tutti_redop)o;
    return true;
}

bool shim_bytes(int count, MPI_Datatype type, size_t *ret)
{
    MPI_Count each = 0;
    if (count < 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &each) != MPI_SUCCESS ||
        each < 0)
        return false;
    return !__builtin_mul_overflow((size_t)count, (size_t)each, ret);
}

/* Named types without gaps are plain; derived types are packed, even if they happen to be
 * contiguous. */
bool shim_is_plain(MPI_Datatype type)
{
    struct entry e;
    int integers, addresses, types, combiner, size;
    MPI_Aint lb, extent;
    if (type == MPI_BYTE || type == MPI_CHAR || find_type(type, &e))
        return true;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS ||
        combiner != MPI_COMBINER_NAMED)
        return false;
    return PMPI_Type_size(type, &size) == MPI_SUCCESS &&
           PMPI_Type_get_extent(type, &lb, &extent) == MPI_SUCCESS && lb == 0 && extent == size;
}

bool shim_is_root(int root, MPI_Comm comm)
{
    int size = 0;
    return comm != MPI_COMM_NULL && PMPI_Comm_size(comm, &size) == MPI_SUCCESS && root >= 0 &&
           root < size;
}
