/* file_read.c - reads topology files (file_write.c draws one). Every value is checked.
 *
 * Keys may come in any order and only "ranks" and "links" are needed:
 * {"ranks":2,"switches":1,"links":[[0,2,"10Gbps"],[1,2,"10Gbps"]]}. Without "switches" there are
 * none, without "routing" it is that of the kind, without "kind" it is "custom"; file_links.c says
 * what a link may look like. Memory grows with the bytes of the file, never with a number in it.
 * Two formats of other simulators are recognised by their first character (file_ns3.c,
 * file_astra.c).
 *
 * Reading has two phases: one function per key stores its value in struct tt_file (file_keys.c);
 * when all keys are read, file_read_complete derives what depends on several of them. */
#include "topo/topo_int.h"

#include "topo/file.h"
#include "topo/machine.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

tutti_status tt_topo_fail_at(const char *name, unsigned long line, struct tutti_error *err,
                             tutti_status st, const char *fmt, ...)
{
    char why[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return tt_fail(err, st, "%.200s:%lu: %s", name, line, why);
}

/* One rank alone needs no links. Nothing may follow the closing brace. */
static tutti_status read_document(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_OBJECT, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_OBJECT_END)
        st = tt_topo_file_key(rd, &tok, err);
    if (!st && !rd->ranks_given)
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "\"ranks\" is missing");
    if (!st && rd->t->ranks > 1 && !tt_topo_file_was_read(rd, "links"))
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                          "\"links\" is missing: the cables, as in [[0, 1, \"10Gbps\", \"5us\"]]");
    return st ? st : tt_json_expect(rd->json, TT_JSON_END, &tok, err);
}

/* Kinds with a closed form of routing; all others use shortest routes. */
static enum tt_routing routing_of(const char *kind)
{
    static const struct {
        const char *kind;
        enum tt_routing routing;
    } table[] = {
        {"star", TT_ROUTE_STAR},       {"nics", TT_ROUTE_STAR},      {"ring", TT_ROUTE_CIRCULANT},
        {"full", TT_ROUTE_CIRCULANT},  {"dln", TT_ROUTE_CIRCULANT},  {"torus", TT_ROUTE_GRID},
        {"mesh", TT_ROUTE_GRID},       {"hypercube", TT_ROUTE_GRID}, {"dln2d", TT_ROUTE_GRID},
        {"fattree", TT_ROUTE_FATTREE},
    };
    for (size_t i = 0; i < countof(table); i++)
        if (tt_streq(kind, table[i].kind))
            return table[i].routing;
    return TT_ROUTE_SHORTEST;
}

/* Moves the names into the topology, which owns them from here on. */
static tutti_status set_names(struct tt_file *rd, struct tutti_error *err)
{
    uint64_t n = (uint64_t)rd->t->ranks + rd->t->switches;
    if (!rd->names.len)
        return TUTTI_OK;
    if (rd->names.len != n)
        return tt_fail(err, TUTTI_ERR_RANGE, "%zu names for %llu vertices", rd->names.len,
                       (unsigned long long)n);
    rd->t->names = rd->names.data;
    rd->names = (struct tt_vec){.elem = sizeof(char *)};
    return TUTTI_OK;
}

/* Entry i of the file is node i+1; the root has no entry. */
static tutti_status set_tree(struct tt_file *rd, struct tutti_error *err)
{
    if (!rd->tree.len)
        return TUTTI_OK;
    tutti_status st = tt_topo_tree_new((uint32_t)rd->tree.len + 1, &rd->t->tree, err);
    if (st)
        return st;
    for (uint32_t i = 0; i < rd->tree.len; i++) {
        const uint32_t *node = tt_vec_at(&rd->tree, i);
        rd->t->tree->parent[i + 1] = node[0];
        rd->t->tree->rank[i + 1] = node[1];
        rd->t->tree->uplink[i + 1] = node[2];
    }
    return tt_topo_tree_link(rd->t->tree, err);
}

/* Derives what several keys decide together. */
static tutti_status file_read_complete(struct tt_file *rd, const char *name,
                                       struct tutti_error *err)
{
    struct tt_topo *t = rd->t;
    if (!rd->routing_given)
        t->routing = routing_of(t->kind);
    if (!rd->wrap_given)
        t->wrap = t->ndims > 0 && !tt_streq(t->kind, "mesh");
    if (t->wrap && !t->ndims)
        return tt_fail(err, TUTTI_ERR_RANGE, "\"wrap\" without \"dims\"");
    if (t->ndims && t->routing != TT_ROUTE_GRID)
        return tt_fail(err, TUTTI_ERR_RANGE, "\"dims\" are only for \"routing\": \"grid\"");
    tutti_status st = set_names(rd, err);
    if (!st)
        st = tt_topo_file_set_ends(rd, err);
    if (!st)
        st = set_tree(rd, err);
    if (!st && !t->spec)
        st = tt_topo_file_set_text(&t->spec, strlen(name) <= TT_TOPO_MAX_NAME / 4 ? name : t->kind,
                                   err);
    return st;
}

/* finish takes over rd->t in any case, also when it fails. */
static tutti_status file_read_build(struct tt_file *rd, const char *name, struct tt_topo **ret,
                                    struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    tutti_status st = file_read_complete(rd, name, err);
    if (!st) {
        st = tt_topo_finish(rd->t, &t, err);
        rd->t = NULL;
    }
    if (!st)
        st = tt_topo_kind_check(t, err);
    if (!st)
        *ret = t;
    else {
        tt_topo_free(t);
        tt_fail_prefix(err, "%s", name);
    }
    return st;
}

/* Reads the whole document; closes the reader and frees what was not handed over. */
static tutti_status read_json(struct tt_json_reader *json, const char *name, struct tt_topo **ret,
                              struct tutti_error *err)
{
    struct tt_file rd = {
        .json = json, .tree = {.elem = 3 * sizeof(uint32_t)}, .names = {.elem = sizeof(char *)}};
    tutti_status st = tt_topo_new("custom", 1, 0, &rd.t, err);
    if (!st)
        st = read_document(&rd, err);
    if (!st)
        st = file_read_build(&rd, name, ret, err);
    for (size_t i = 0; i < rd.names.len; i++)
        free(*(char **)tt_vec_at(&rd.names, i));
    tt_vec_free(&rd.names);
    tt_topo_file_free_ends(&rd);
    tt_vec_free(&rd.tree);
    tt_topo_free(rd.t);
    tt_json_close(json);
    return st;
}

/* ---- which format ---- */

/* Our format begins with a brace, ns-3's with a number, ASTRA-sim's with a word, a comment or
 * dashes, NCCL's and hwloc's with '<'. */
enum format { FORMAT_JSON, FORMAT_NS3, FORMAT_ASTRA, FORMAT_XML };

static enum format format_of(int first)
{
    if (isdigit(first))
        return FORMAT_NS3;
    if (first == '<')
        return FORMAT_XML;
    return isalpha(first) || first == '#' || first == '-' ? FORMAT_ASTRA : FORMAT_JSON;
}

/* Appends the rest of the file to *ret, which the caller frees in any case. */
static tutti_status read_text(FILE *in, const char *name, struct tt_str *ret,
                              struct tutti_error *err)
{
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, in)) > 0 && !ret->failed)
        tt_str_add(ret, buf, n);
    if (ferror(in))
        return tt_fail(err, TUTTI_ERR_IO, "%s: cannot be read: %s", name, strerror(errno));
    return ret->failed ? tt_fail_memory(err, "topology file") : TUTTI_OK;
}

/* hwloc's files begin with <topology>, NCCL's with <system>: decided by which comes first. */
static tutti_status read_machine(const char *data, size_t len, const char *name, uint32_t hosts,
                                 struct tt_topo **ret, struct tutti_error *err)
{
    const char *hwloc = memmem(data, len, "<topology", 9), *nccl = memmem(data, len, "<system", 7);
    bool is_hwloc = hwloc && (!nccl || hwloc < nccl);
    if (is_hwloc && hosts > 1)
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "%.200s: hwloc's files do not say how fast network cards are: only NCCL's "
                       "can be repeated",
                       name);
    return tt_topo_machine(data, len, name, hosts,
                           is_hwloc ? tt_topo_machine_hwloc : tt_topo_machine_nccl, ret, err);
}

tutti_status tt_topo_read_memory(const char *data, size_t len, const char *name,
                                 struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_json_reader *json;
    size_t blank = 0;
    while (blank < len && isspace((unsigned char)data[blank]))
        blank++;
    enum format format = blank < len ? format_of((unsigned char)data[blank]) : FORMAT_JSON;
    if (format == FORMAT_NS3)
        return tt_topo_file_ns3(data, len, name, ret, err);
    if (format == FORMAT_ASTRA)
        return tt_topo_file_astra(data, len, name, ret, err);
    if (format == FORMAT_XML)
        return read_machine(data, len, name, 1, ret, err);
    tutti_status st = tt_json_open_memory(data, len, name, &json, err);
    return st ? st : read_json(json, name, ret, err);
}

/* Our own format is streamed; the others, and files that begin with blanks, are small and are read
 * into memory. */
tutti_status tt_topo_read(FILE *in, const char *name, struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_json_reader *json;
    struct tt_str text = {0};
    tutti_status st;
    int first = getc(in);
    if (first != EOF)
        ungetc(first, in);
    if (first == EOF || (!isspace(first) && format_of(first) == FORMAT_JSON)) {
        st = tt_json_open_file(in, name, &json, err);
        return st ? st : read_json(json, name, ret, err);
    }
    st = read_text(in, name, &text, err);
    if (!st)
        st = tt_topo_read_memory(text.s, text.len, name, ret, err);
    tt_str_free(&text);
    return st;
}

bool tt_topo_file_hosts(const char *path, struct tt_topo **ret, tutti_status *ret_status,
                        struct tutti_error *err)
{
    enum { MOST = 4096 };
    const char *comma = strstr(path, ",hosts=");
    char *file = comma ? tt_strdup(path) : NULL;
    uint64_t hosts = 0;
    struct tt_str text = {0};
    if (file)
        file[comma - path] = 0;
    FILE *in = file ? fopen(file, "rb") : NULL;
    free(file);
    if (!in)
        return false;
    tutti_status st = tt_parse_u64(comma + strlen(",hosts="), 1, MOST, &hosts, err);
    if (!st)
        st = read_text(in, path, &text, err);
    if (!st && (!text.len || text.s[0] != '<'))
        st = tt_fail(err, TUTTI_ERR_PARSE, "%.200s: only NCCL's files (XML) can be repeated", path);
    if (!st)
        st = read_machine(text.s, text.len, path, (uint32_t)hosts, ret, err);
    fclose(in);
    tt_str_free(&text);
    *ret_status = st;
    return true;
}
