/* file.h - what the reader and the writer of topology files share. */
#ifndef TT_TOPO_FILE_H
#define TT_TOPO_FILE_H

#include "base/json.h"
#include "topo/topo.h"

#define TT_TOPO_FORMAT "tutti-topology"
enum { TT_TOPO_VERSION = 1, TT_TOPO_MAX_NAME = 4000, TT_ROUTINGS = 5 };

extern const char *const tt_topo_routing_names[TT_ROUTINGS]; /* by enum tt_routing */

/* A file being read. t is not finished; names, tree and ends are applied when all keys are read. */
struct tt_file {
    struct tt_json_reader *json;
    struct tt_topo *t;
    uint32_t seen;      /* bit per entry of keys[] */
    struct tt_vec tree; /* uint32_t[3] per node but the root */
    struct tt_vec names;
    struct tt_vec ends; /* of links, given by name; file_names.c */
    bool routing_given, wrap_given, ranks_given, switches_given;
};

/* file_keys.c: the value of a key, once; whether there was one. */
tutti_status tt_topo_file_key(struct tt_file *rd, const struct tt_json_token *tok,
                              struct tutti_error *err);
bool tt_topo_file_was_read(const struct tt_file *rd, const char *key);
tutti_status tt_topo_file_set_text(char **slot, const char *text, struct tutti_error *err);
/* The next value: an integer in [min, max]. */
tutti_status tt_topo_file_u32(struct tt_file *rd, uint32_t min, uint32_t max, uint32_t *ret,
                              struct tutti_error *err);
tutti_status tt_topo_file_tree(struct tt_file *rd, struct tutti_error *err);
tutti_status tt_topo_file_links(struct tt_file *rd, struct tutti_error *err);
/* file_names.c: the named end of the link that is added next; names are looked up when all keys
 * were read. */
tutti_status tt_topo_file_named_end(struct tt_file *rd, bool second, const char *name,
                                    struct tutti_error *err);
tutti_status tt_topo_file_set_ends(struct tt_file *rd, struct tutti_error *err);
void tt_topo_file_free_ends(struct tt_file *rd);

/* Fails with "name:line: why": every message about a file of lines names both. */
__attribute__((format(printf, 5, 6))) tutti_status
tt_topo_fail_at(const char *name, unsigned long line, struct tutti_error *err, tutti_status st,
                const char *fmt, ...);
/* Formats of other simulators, read from memory. */
tutti_status tt_topo_file_ns3(const char *data, size_t len, const char *name, struct tt_topo **ret,
                              struct tutti_error *err);
tutti_status tt_topo_file_astra(const char *data, size_t len, const char *name,
                                struct tt_topo **ret, struct tutti_error *err);
/* A file in one of the formats from a path "FILE,hosts=N". False: it is no such path. */
bool tt_topo_file_hosts(const char *path, struct tt_topo **ret, tutti_status *ret_status,
                        struct tutti_error *err);
#endif
