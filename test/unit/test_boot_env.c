/* Identity from the launchers' variables, and the key file. Goldens: the variables as torchrun, mpirun, mpiexec.hydra and srun set them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/boot_int.h"

/* "A=1 B=2" */
static void set_vars(const char *vars)
{
    char copy[512], *save = NULL;

    clearenv();
    snprintf(copy, sizeof(copy), "%s", vars);
    for (char *v = strtok_r(copy, " ", &save); v; v = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(v, '=');
        *eq = 0;
        setenv(v, eq + 1, 1);
    }
}

struct good {
    const char *vars, *origin;
    uint32_t rank, size;
    int local_rank;
    const char *rendezvous;
};

static void launchers_are_recognised(void **state)
{
    (void)state;
    static const struct good table[] = {
        {"", "none", 0, 1, -1, ""},
        {"TUTTI_RANK=2 TUTTI_SIZE=4 TUTTI_LOCAL_RANK=1 TUTTI_RENDEZVOUS=10.0.0.1:5000", "tutti", 2, 4, 1, "10.0.0.1:5000"},
        {"TUTTI_RANK=0 TUTTI_SIZE=1", "tutti", 0, 1, -1, ""},
        {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 MASTER_ADDR=node0 MASTER_PORT=29500", "torchrun", 3, 8, 3, "node0:29501"},
        {"RANK=3 WORLD_SIZE=8 MASTER_ADDR=node0 MASTER_PORT=32766", "torchrun", 3, 8, -1, "node0:32767"},
        /* not a port that a kernel gives to outgoing connections */
        {"RANK=3 WORLD_SIZE=8 MASTER_ADDR=node0 MASTER_PORT=32767", "torchrun", 3, 8, -1, "node0:22767"},
        {"RANK=3 WORLD_SIZE=8 MASTER_ADDR=node0 MASTER_PORT=65535", "torchrun", 3, 8, -1, "node0:25535"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 TUTTI_RENDEZVOUS=b:7", "torchrun", 0, 2, -1, "b:7"},
        {"RANK=0 WORLD_SIZE=2 TUTTI_RANK=1 TUTTI_SIZE=3 TUTTI_RENDEZVOUS=b:7", "tutti", 1, 3, -1, "b:7"},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 TUTTI_RENDEZVOUS=h:9", "Open MPI", 1, 2, 0, "h:9"},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=80 SLURM_PROCID=9 SLURM_NTASKS=10", "Open MPI", 1, 2, -1,
         "m:81"},
        {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 TUTTI_RENDEZVOUS=h:9", "MPICH", 1, 2, 1, "h:9"},
        {"PMI_RANK=0 PMI_SIZE=1", "MPICH", 0, 1, -1, ""},
        {"SLURM_PROCID=5 SLURM_NTASKS=6 SLURM_LOCALID=2 TUTTI_RENDEZVOUS=h:9", "Slurm", 5, 6, 2, "h:9"},
        {"WORLD_SIZE=6 SLURM_PROCID=5 SLURM_NTASKS=6 MASTER_ADDR=m MASTER_PORT=80", "Slurm", 5, 6, -1, "m:81"},
        {"RANK= WORLD_SIZE=", "none", 0, 1, -1, ""},
    };

    for (size_t i = 0; i < countof(table); i++) {
        const struct good *g = &table[i];
        struct tt_boot_config c;
        struct tutti_error err = {0};
        const char *origin = NULL;
        set_vars(g->vars);
        if (tt_boot_from_env(&c, &origin, &err) != TUTTI_OK)
            fail_msg("%s: %s", g->vars, err.text);
        assert_string_equal(origin, g->origin);
        assert_int_equal(c.rank, g->rank);
        assert_int_equal(c.size, g->size);
        assert_int_equal(c.local_rank, g->local_rank);
        assert_string_equal(c.rendezvous, g->rendezvous);
        assert_false(c.has_key);
        assert_false(c.insecure);
    }
}

/* An MPI of one rank under another one's mpirun: told once, by the first process. */
static void strayed_ranks_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *vars, *told;
    } table[] = {
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4", "mpirun of Open MPI started 4"},
        {"PMI_RANK=0 PMI_SIZE=2", "mpirun of MPICH started 2"},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", NULL}, /* the first one tells */
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", NULL}, /* it really is alone */
        {"OMPI_COMM_WORLD_RANK=0", NULL},
        {"RANK=0 WORLD_SIZE=4 SLURM_PROCID=0 SLURM_NTASKS=4", NULL}, /* they start programs that are not MPI's */
        {"", NULL},
    };

    for (size_t i = 0; i < countof(table); i++) {
        struct tutti_error err = {0};
        set_vars(table[i].vars);
        assert_int_equal(tt_boot_strayed(&err), table[i].told != NULL);
        if (table[i].told)
            assert_non_null(strstr(err.text, table[i].told));
    }
}

/* Where the launcher does not say, all ranks must derive the same place. */
static void places_are_derived(void **state)
{
    (void)state;
    static const char *const vars[][3] = {
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=prterun-h-77@1",
         "127.0.0.1:", "OMPI_COMM_WORLD_RANK"},
        {"PMI_RANK=0 PMI_SIZE=3 MPI_LOCALNRANKS=3", "127.0.0.1:", "PMI_RANK"},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NODELIST=gpu[03-05,9],x SLURM_JOB_ID=1234", "gpu03:", "SLURM_PROCID"},
        {"PMI_RANK=0 PMI_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NODELIST=n[1-2] SLURM_JOB_ID=7", "n1:", "PMI_RANK"},
    };

    for (size_t i = 0; i < countof(vars); i++) {
        struct tt_boot_config a, b;
        struct tutti_error err = {0};
        uint16_t port = 0;
        char host[TT_BOOT_HOST * 2];
        set_vars(vars[i][0]);
        if (tt_boot_from_env(&a, NULL, &err) != TUTTI_OK)
            fail_msg("%s: %s", vars[i][0], err.text);
        assert_memory_equal(a.rendezvous, vars[i][1], strlen(vars[i][1]));
        assert_int_equal(tt_boot_rendezvous_parse(a.rendezvous, host, &port, &err), TUTTI_OK);
        assert_in_range(port, 20000, 29999);
        setenv(vars[i][2], "1", 1);
        assert_int_equal(tt_boot_from_env(&b, NULL, &err), TUTTI_OK);
        assert_int_equal(b.rank, 1);
        assert_string_equal(a.rendezvous, b.rendezvous);
    }
}

static void half_a_set_is_refused(void **state)
{
    (void)state;
    static const char *const table[][2] = {
        {"TUTTI_RANK=1", "TUTTI_RANK is set but TUTTI_SIZE is not"},
        {"TUTTI_SIZE=1 RANK=0 WORLD_SIZE=1", "TUTTI_SIZE is set but TUTTI_RANK is not"},
        {"TUTTI_RANK=1 TUTTI_SIZE=2", "TUTTI_RENDEZVOUS is not set"},
        {"TUTTI_RENDEZVOUS=a:1", "TUTTI_RANK and TUTTI_SIZE are not"},
        {"TUTTI_LOCAL_RANK=0", "TUTTI_LOCAL_RANK is set but"},
        {"RANK=1", "RANK is set but WORLD_SIZE is not"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=5", "MASTER_ADDR is not set"},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=a", "MASTER_PORT is not set"},
        {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK is not"},
        {"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=2", "several hosts"},
        {"PMI_SIZE=4 PMI_RANK=2", "MPI_LOCALNRANKS is not set"},
        {"SLURM_PROCID=0", "SLURM_NTASKS is not"},
        {"SLURM_PROCID=0 SLURM_NTASKS=2", "SLURM_NODELIST is not set"},
        {"TUTTI_RANK=4 TUTTI_SIZE=4 TUTTI_RENDEZVOUS=a:1", "TUTTI_RANK"},
        {"TUTTI_RANK=-1 TUTTI_SIZE=4 TUTTI_RENDEZVOUS=a:1", "TUTTI_RANK"},
        {"TUTTI_RANK=0 TUTTI_SIZE=0", "TUTTI_SIZE"},
        {"TUTTI_RANK=0 TUTTI_SIZE=99999999", "TUTTI_SIZE"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000", "MASTER_PORT"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=fd00::1 MASTER_PORT=500", "IPv6"},
        {"TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_RENDEZVOUS=[::1]:5", "IPv6"},
        {"TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_RENDEZVOUS=host", "host:port"},
        {"TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_RENDEZVOUS=:5", "host:port"},
        {"TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_RENDEZVOUS=host:0", "port of the rendezvous"},
        {"TUTTI_INSECURE=yes", "TUTTI_INSECURE"},
        {"TUTTI_PORTS=5", ""},
        {"TUTTI_PORTS=10-5", "TUTTI_PORTS"},
        {"TUTTI_PORTS=0-5", "TUTTI_PORTS"},
        {"TUTTI_PORTS=5-65536", "TUTTI_PORTS"},
        {"TUTTI_PORTS=-", "TUTTI_PORTS"},
        {"TUTTI_PORTS=1-2-3", "TUTTI_PORTS"},
        {"TUTTI_TIMEOUT=fast", "TUTTI_TIMEOUT"},
        {"TUTTI_TIMEOUT=0", "TUTTI_TIMEOUT"},
        {"TUTTI_KEY_FILE=/proc/no-such-key", "No such file"},
    };

    for (size_t i = 0; i < countof(table); i++) {
        struct tt_boot_config c;
        struct tutti_error err = {0};
        set_vars(table[i][0]);
        tutti_status st = tt_boot_from_env(&c, NULL, &err);
        if (!table[i][1][0])
            assert_int_equal(st, TUTTI_OK);
        else if (st >= 0 || !strstr(err.text, table[i][1]))
            fail_msg("%s: status %d, \"%s\" instead of \"%s\"", table[i][0], st, err.text, table[i][1]);
    }
}

static void options_are_read(void **state)
{
    (void)state;
    struct tt_boot_config c;
    struct tutti_error err = {0};

    set_vars("TUTTI_INSECURE=1 TUTTI_PORTS=5000-5010 TUTTI_IFACE=^docker,lo TUTTI_TIMEOUT=1.5s");
    assert_int_equal(tt_boot_from_env(&c, NULL, &err), TUTTI_OK);
    assert_true(c.insecure);
    assert_int_equal(c.port_lo, 5000);
    assert_int_equal(c.port_hi, 5010);
    assert_string_equal(c.iface, "^docker,lo");
    assert_true(c.timeout_ns == 1500000000);
    set_vars("TUTTI_PORTS=65535 TUTTI_INSECURE=0");
    assert_int_equal(tt_boot_from_env(&c, NULL, &err), TUTTI_OK);
    assert_int_equal(c.port_lo, 65535);
    assert_int_equal(c.port_hi, 65535);
    assert_false(c.insecure);
    assert_true(c.timeout_ns == 0);
}

static void first_of_a_node_list(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"node7", "node7"},
        {"a,b", "a"},
        {"gpu[03-05,9]", "gpu03"},
        {"gpu[7]", "gpu7"},
        {"r[1,2]n[5-6],z", "r1n5"},
        {"n-1,x", "n-1"},
        {"a[2,4-5].cluster,b", "a2.cluster"},
    };
    static const char *const bad[] = {"", ",a", "a[1", "a]", "a[[1]]", "[]", "a-name-that-does-not-fit-at-all"};
    char host[24];

    for (size_t i = 0; i < countof(good); i++) {
        assert_true(tt_boot_nodelist_first(good[i][0], host, sizeof(host)));
        assert_string_equal(host, good[i][1]);
    }
    for (size_t i = 0; i < countof(bad); i++)
        assert_false(tt_boot_nodelist_first(bad[i], host, sizeof(host)));
}

static const uint8_t RAW[33] = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
                               "\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\xff";
static const char HEX[] = "0102030405060708090a0B0C0D0E0F10"
                          "1112131415161718191a1b1c1d1e1fff";

static void keys_are_read(void **state)
{
    (void)state;
    uint8_t key[TT_BOOT_KEY], other[TT_BOOT_KEY], zeros[40] = {0};
    struct tutti_error err = {0};
    char text[200];

    assert_int_equal(tt_boot_key_parse(RAW, 32, key, &err), TUTTI_OK);
    assert_memory_equal(key, RAW, 32);
    for (int form = 0; form < 2; form++) {
        snprintf(text, sizeof(text), form ? "%s" : "%s\r\n", HEX);
        memset(key, 0, sizeof(key));
        assert_int_equal(tt_boot_key_parse((uint8_t *)text, strlen(text), key, &err), TUTTI_OK);
        assert_memory_equal(key, RAW, 32);
    }
    /* More than 32 bytes: hashed, and every byte counts; raw and hex agree here too. */
    assert_int_equal(tt_boot_key_parse(RAW, 33, key, &err), TUTTI_OK);
    assert_memory_not_equal(key, RAW, 32);
    snprintf(text, sizeof(text), "%s00", HEX);
    assert_int_equal(tt_boot_key_parse((uint8_t *)text, 66, other, &err), TUTTI_OK);
    assert_memory_equal(key, other, 32);
    assert_int_equal(tt_boot_key_parse((uint8_t *)text, 65, other, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_boot_key_parse(RAW, 31, key, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "/dev/urandom"));
    assert_int_equal(tt_boot_key_parse((const uint8_t *)HEX, 62, key, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "62 hex digits"));
    assert_int_equal(tt_boot_key_parse(zeros, 32, key, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_boot_key_parse(zeros, 0, key, &err), TUTTI_ERR_ARG);
    uint8_t *huge = calloc(5000, 1);
    assert_non_null(huge);
    huge[0] = 1;
    assert_int_equal(tt_boot_key_parse(huge, 5000, key, &err), TUTTI_ERR_LIMIT);
    free(huge);
}

static void key_files_are_private(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-key-XXXXXX", vars[64];
    uint8_t key[TT_BOOT_KEY];
    struct tt_boot_config c;
    struct tutti_error err = {0};
    int fd = mkstemp(path);

    assert_true(fd >= 0 && write(fd, RAW, 32) == 32);
    snprintf(vars, sizeof(vars), "TUTTI_KEY_FILE=%s", path);
    set_vars(vars);
    assert_int_equal(tt_boot_from_env(&c, NULL, &err), TUTTI_OK);
    assert_string_equal(c.key_file, path); /* the key itself is read when the job opens */
    assert_false(c.has_key);
    assert_int_equal(tt_boot_key_load(path, key, &err), TUTTI_OK);
    assert_memory_equal(key, RAW, 32);
    static const mode_t open_modes[] = {0644, 0640, 0604, 0660};
    for (size_t i = 0; i < countof(open_modes); i++) {
        assert_int_equal(fchmod(fd, open_modes[i]), 0);
        assert_int_equal(tt_boot_key_load(path, key, &err), TUTTI_ERR_ARG);
        assert_non_null(strstr(err.text, "readable by others"));
        assert_non_null(strstr(err.text, path));
    }
    assert_int_equal(fchmod(fd, 0400), 0);
    assert_int_equal(tt_boot_key_load(path, key, &err), TUTTI_OK);
    if (geteuid() == 0) {
        assert_int_equal(fchown(fd, 12345, 12345), 0);
        assert_int_equal(tt_boot_key_load(path, key, &err), TUTTI_ERR_ARG);
        assert_non_null(strstr(err.text, "another user"));
    }
    close(fd);
    unlink(path);
    assert_int_equal(tt_boot_key_load("/tmp", key, &err), TUTTI_ERR_ARG);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_int_equal(tt_boot_key_load(path, key, &err), TUTTI_ERR_ARG);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_recognised), cmocka_unit_test(places_are_derived),     cmocka_unit_test(half_a_set_is_refused),
        cmocka_unit_test(options_are_read),         cmocka_unit_test(first_of_a_node_list),   cmocka_unit_test(keys_are_read),
        cmocka_unit_test(key_files_are_private),    cmocka_unit_test(strayed_ranks_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
