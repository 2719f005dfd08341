/* mpi_load.c - finds and loads the shared object with the MPI transport.
 *
 *     which MPI:     TUTTI_MPI, else the one that the process has loaded, else the launcher's
 *     which file:    libtutti-transport-<name>.so beside libtutti, else where the loader looks
 *
 * It is loaded with RTLD_GLOBAL: Open MPI loads its own plug-ins at run time, and those look for
 * the symbols of libmpi. In an MPI program libmpi is loaded already and the same one is used; two
 * MPIs are never mixed in one process. The object is never unloaded, and ABI number and version
 * must be libtutti's own. */
#include "transport/mpi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct flavour {
    const char *name, *symbol; /* symbol: only this library has it */
    const char *launched;      /* a variable that only its launcher sets */
};
static const struct flavour flavours[] = {
    {"openmpi", "ompi_mpi_comm_world", "OMPI_COMM_WORLD_RANK"},
    {"mpich", "MPIR_Err_create_code", "PMI_RANK"},
};

static const struct flavour *by_name(const char *name)
{
    for (size_t i = 0; i < countof(flavours); i++)
        if (tt_streq(flavours[i].name, name))
            return &flavours[i];
    return NULL;
}

/* Which MPI to use, in the order above. */
static tutti_status mpi_load_choose(const struct flavour **ret, struct tutti_error *err)
{
    const char *named = getenv("TUTTI_MPI");
    const struct flavour *found = NULL;
    if (named && *named) {
        found = by_name(named);
        if (!found)
            return tt_fail(err, TUTTI_ERR_ARG, "TUTTI_MPI is '%.40s': openmpi or mpich is expected",
                           named);
    }
    for (size_t i = 0; !found && i < countof(flavours); i++)
        found = dlsym(RTLD_DEFAULT, flavours[i].symbol) ? &flavours[i] : NULL;
    for (size_t i = 0; !found && i < countof(flavours); i++)
        found = getenv(flavours[i].launched) ? &flavours[i] : NULL;
    if (!found)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "transport mpi: not started by mpirun of Open MPI or MPICH "
                       "(TUTTI_MPI=openmpi|mpich says which one otherwise)");
    *ret = found;
    return TUTTI_OK;
}

/* Tries the directory of libtutti itself first (dladdr of an object in it gives its path), then the
 * loader's own search. A file in that directory that does not load is an error. */
static void *mpi_load_load(const char *file)
{
    Dl_info self;
    char path[4096];
    const char *slash =
        dladdr(flavours, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;
    if (slash &&
        (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(slash - self.dli_fname),
                         self.dli_fname, file) < sizeof path &&
        access(path, R_OK) == 0)
        return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    return dlopen(file, RTLD_NOW | RTLD_GLOBAL);
}

tutti_status tt_mpi_join(struct tt_mpi **ret, struct tutti_error *err)
{
    const struct flavour *f = NULL;
    char file[64];
    tutti_status st = mpi_load_choose(&f, err);
    if (st)
        return st;
    snprintf(file, sizeof file, "libtutti-transport-%s.so", f->name);
    void *lib = mpi_load_load(file);
    const char *why = lib ? NULL : dlerror();
    if (!lib)
        return tt_fail(err, TUTTI_ERR_CONNECT, "transport mpi: %s cannot be loaded: %.300s", file,
                       why ? why : "it is not there");
    const struct tt_mpi_ops *ops = dlsym(lib, TT_MPI_SYMBOL);
    if (!ops || ops->abi != TT_MPI_ABI || !tt_streq(ops->version, TUTTI_VERSION))
        return tt_fail(err, TUTTI_ERR_VERSION,
                       "transport mpi: %s belongs to another version of tutti", file);
    return ops->join(ret, err);
}
