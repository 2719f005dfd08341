/* file_read.c - reads topology files (file_write.c draws one). Every value is checked.
 *
 * Keys may come in any order and only "ranks" and "links" are needed:
 * {"ranks":2,"switches":1,"links":[[0,2,"10Gbps"],[1,2,"10Gbps"]]}. Without "switches" there are
 * none, without "routing" it is that of the kind, without "kind" it is "custom"; file_links.c says
 * what a link may look like. Memory grows with the bytes of the file, never with a number in it.
 * Two formats of other simulators are recognised by their first character (file_ns3.c,
 * file_astra.c).
 *
 * Reading has two phases: one function per key stores its value in struct tt_file; when all keys
 * are read, file_read_complete derives what depends on several of them. */
#include "topo/topo_int.h"

#include "topo/file.h"
#include "topo/machine.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next value: an integer in [min, max]; the message shows the range. */
static tutti_status read_count(struct tt_file *rd, uint64_t min, uint64_t max, uint64_t *ret,
                               struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_INT, &tok, err);
    if (st)
        return st;
    if (tok.i < 0 || (uint64_t)tok.i < min || (uint64_t)tok.i > max)
        return tt_json_fail(rd->json, err, TUTTI_ERR_RANGE,
                            "%lld is not in the allowed range %llu to %llu", (long long)tok.i,
                            (unsigned long long)min, (unsigned long long)max);
    *ret = (uint64_t)tok.i;
    return TUTTI_OK;
}

tutti_status tt_topo_file_u32(struct tt_file *rd, uint32_t min, uint32_t max, uint32_t *ret,
                              struct tutti_error *err)
{
    uint64_t v = 0;
    tutti_status st = read_count(rd, min, max, &v, err);
    if (!st)
        *ret = (uint32_t)v;
    return st;
}

static tutti_status read_bool(struct tt_file *rd, bool *ret, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_next(rd->json, &tok, err);
    if (st)
        return st;
    if (tok.kind != TT_JSON_TRUE && tok.kind != TT_JSON_FALSE)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "true or false expected");
    *ret = tok.kind == TT_JSON_TRUE;
    return TUTTI_OK;
}

/* Replaces *slot by a copy; the old text stays if there is no memory. */
static tutti_status set_text(char **slot, const char *text, struct tutti_error *err)
{
    char *copy = tt_strdup(text);
    if (!copy)
        return tt_fail_memory(err, "topology file");
    free(*slot);
    *slot = copy;
    return TUTTI_OK;
}

/* ---- the keys ---- */

/* Each function below reads the value of its key; the key itself has been read. */
static tutti_status read_format(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (!st && !tt_streq(tok.text, TT_TOPO_FORMAT))
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                          "the format is \"%.60s\"; \"%s\" expected", tok.text, TT_TOPO_FORMAT);
    return st;
}

static tutti_status read_version(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_INT, &tok, err);
    if (!st && tok.i != TT_TOPO_VERSION)
        st = tt_json_fail(rd->json, err, TUTTI_ERR_VERSION,
                          "version %lld; this program reads version %d", (long long)tok.i,
                          TT_TOPO_VERSION);
    return st;
}

/* Becomes the topology's spec, which reports show. */
static tutti_status read_name(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (st)
        return st;
    if (tok.len > TT_TOPO_MAX_NAME)
        return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT,
                            "a name of %zu bytes; at most %d are accepted", tok.len,
                            TT_TOPO_MAX_NAME);
    return set_text(&rd->t->spec, tok.text, err);
}

/* The name only: the links are compared with the kind when the topology is finished. */
static tutti_status read_kind(struct tt_file *rd, struct tutti_error *err)
{
    char near[200];
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (st)
        return st;
    if (tt_topo_kind_find(tok.text) < 0 && !tt_streq(tok.text, "custom"))
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                            "unknown network kind \"%.40s\" (\"custom\" is allowed) %s", tok.text,
                            tt_topo_kind_near(tok.text, near, sizeof near));
    return set_text(&rd->t->kind, tok.text, err);
}

/* At least one size; the product is compared with the ranks by routing. */
static tutti_status read_dims(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    bool end = false;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !end) {
        int64_t v = 0;
        st = tt_json_int_or_end(rd->json, 1, TT_TOPO_MAX_RANKS, &v, &end, err);
        if (st || end)
            break;
        if (rd->t->ndims == TT_TOPO_MAX_DIMS)
            return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT, "more than %d dimensions",
                                TT_TOPO_MAX_DIMS);
        rd->t->dims[rd->t->ndims++] = (uint32_t)v;
    }
    if (!st && rd->t->ndims == 0)
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "no dimensions");
    return st;
}

/* Whether the key was given matters: the default depends on other keys. */
static tutti_status read_wrap(struct tt_file *rd, struct tutti_error *err)
{
    rd->wrap_given = true;
    return read_bool(rd, &rd->t->wrap, err);
}

static tutti_status read_ranks(struct tt_file *rd, struct tutti_error *err)
{
    rd->ranks_given = true;
    return tt_topo_file_u32(rd, 1, TT_TOPO_MAX_RANKS, &rd->t->ranks, err);
}

/* The limit leaves room for the most ranks: together they stay within the vertices. */
static tutti_status read_switches(struct tt_file *rd, struct tutti_error *err)
{
    rd->switches_given = true;
    return tt_topo_file_u32(rd, 0, TT_TOPO_MAX_VERTICES - TT_TOPO_MAX_RANKS, &rd->t->switches, err);
}

static tutti_status read_ports(struct tt_file *rd, struct tutti_error *err)
{
    return tt_topo_file_u32(rd, 0, TT_TOPO_MAX_PORTS, &rd->t->ports, err);
}

static tutti_status read_gamma(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    struct tutti_error why;
    tutti_status st = tt_json_next(rd->json, &tok, err);
    if (st)
        return st;
    if (tok.kind != TT_JSON_INT && tok.kind != TT_JSON_REAL)
        return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "a number expected (seconds per byte)");
    st = tt_topo_gamma_check(tok.d, &why);
    if (st)
        return tt_json_fail(rd->json, err, st, "%s", why.text);
    rd->t->gamma = tok.d > 0 ? tok.d : 0; /* no negative zero: it would have another hash */
    return TUTTI_OK;
}

static tutti_status read_overhead(struct tt_file *rd, struct tutti_error *err)
{
    return read_count(rd, 0, TT_TOPO_MAX_LATENCY_PS, &rd->t->overhead_ps, err);
}

/* [bytes, move_ps, own_ps, box_ps]; the opening bracket has been read. */
static tutti_status read_point(struct tt_file *rd, struct tt_memory *m, struct tutti_error *err)
{
    struct tt_json_token tok;
    uint64_t v[4] = {0};
    if (m->npoints == TT_MEMORY_POINTS)
        return tt_json_fail(rd->json, err, TUTTI_ERR_LIMIT, "more than %d points",
                            (int)TT_MEMORY_POINTS);
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < 4; i++)
        st = read_count(rd, 0, UINT64_C(1) << 60, &v[i], err);
    if (!st)
        st = tt_json_expect(rd->json, TT_JSON_ARRAY_END, &tok, err);
    if (!st)
        m->point[m->npoints++] = (struct tt_memory_point){v[0], v[1], v[2], v[3]};
    return st;
}

static tutti_status read_points(struct tt_file *rd, struct tt_memory *m, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END)
        st = tok.kind == TT_JSON_ARRAY
                 ? read_point(rd, m, err)
                 : tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                                "a point [bytes, move_ps, own_ps, box_ps] expected");
    return st;
}

/* The values are checked here, where the position in the file is known. */
static tutti_status read_memory(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_memory m = {0};
    struct tt_json_token tok;
    struct tutti_error why;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_OBJECT, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_OBJECT_END) {
        if (tt_streq(tok.text, "box_bytes"))
            st = read_count(rd, 0, UINT64_C(1) << 60, &m.box_bytes, err);
        else if (tt_streq(tok.text, "segment_bytes"))
            st = read_count(rd, 0, UINT64_C(1) << 60, &m.segment_bytes, err);
        else if (tt_streq(tok.text, "points"))
            st = read_points(rd, &m, err);
        else
            st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE,
                              "memory has box_bytes, segment_bytes and points, not \"%.40s\"",
                              tok.text);
    }
    if (!st && tt_topo_memory_check(&m, &why))
        st = tt_json_fail(rd->json, err, TUTTI_ERR_RANGE, "%s", why.text);
    rd->t->memory = m;
    return st;
}

static tutti_status read_routing(struct tt_file *rd, struct tutti_error *err)
{
    char near[200];
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_STRING, &tok, err);
    if (st)
        return st;
    for (int i = 0; i < TT_ROUTINGS; i++)
        if (tt_streq(tok.text, tt_topo_routing_names[i])) {
            rd->t->routing = (enum tt_routing)i;
            rd->routing_given = true;
            return TUTTI_OK;
        }
    return tt_json_fail(
        rd->json, err, TUTTI_ERR_PARSE, "unknown routing \"%.40s\" %s", tok.text,
        tt_near_matches(tok.text, tt_topo_routing_names, TT_ROUTINGS, near, sizeof near));
}

/* How many names there must be is known only when "ranks" and "switches" are read: set_names. */
static tutti_status read_names(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_ARRAY, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_ARRAY_END) {
        char *name = NULL;
        if (tok.kind != TT_JSON_STRING && tok.kind != TT_JSON_NULL)
            return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "a name or null expected");
        if (tok.kind == TT_JSON_STRING && !(name = tt_strdup(tok.text)))
            return tt_fail_memory(err, "names");
        if (!tt_vec_push(&rd->names, &name, 1)) {
            free(name);
            return tt_fail_memory(err, "names");
        }
    }
    return st;
}

/* ---- the document ---- */

/* `seen` in struct tt_file has a bit for each key. */
static const struct {
    const char *name;
    tutti_status (*read)(struct tt_file *rd, struct tutti_error *err);
} keys[] = {
    {"format", read_format},
    {"version", read_version},
    {"name", read_name},
    {"kind", read_kind},
    {"dims", read_dims},
    {"wrap", read_wrap},
    {"ranks", read_ranks},
    {"switches", read_switches},
    {"ports", read_ports},
    {"gamma_s_per_byte", read_gamma},
    {"overhead_ps", read_overhead},
    {"memory", read_memory},
    {"routing", read_routing},
    {"names", read_names},
    {"tree", tt_topo_file_tree},
    {"links", tt_topo_file_links},
};

/* Every key may occur once: two values would contradict each other. */
static tutti_status read_key(struct tt_file *rd, const struct tt_json_token *tok,
                             struct tutti_error *err)
{
    const char *names[countof(keys)];
    char near[200];
    for (size_t i = 0; i < countof(keys); i++) {
        names[i] = keys[i].name;
        if (!tt_streq(tok->text, keys[i].name))
            continue;
        if (rd->seen & 1u << i)
            return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "\"%s\" is there twice",
                                keys[i].name);
        rd->seen |= 1u << i;
        return keys[i].read(rd, err);
    }
    return tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "unknown key \"%.40s\" %s", tok->text,
                        tt_near_matches(tok->text, names, countof(keys), near, sizeof near));
}

/* For keys that are needed only in some files. */
static bool was_read(const struct tt_file *rd, const char *key)
{
    for (size_t i = 0; i < countof(keys); i++)
        if (tt_streq(keys[i].name, key))
            return rd->seen >> i & 1;
    return false;
}

/* One rank alone needs no links. Nothing may follow the closing brace. */
static tutti_status read_document(struct tt_file *rd, struct tutti_error *err)
{
    struct tt_json_token tok;
    tutti_status st = tt_json_expect(rd->json, TT_JSON_OBJECT, &tok, err);
    while (!st && !(st = tt_json_next(rd->json, &tok, err)) && tok.kind != TT_JSON_OBJECT_END)
        st = read_key(rd, &tok, err);
    if (!st && !rd->ranks_given)
        st = tt_json_fail(rd->json, err, TUTTI_ERR_PARSE, "\"ranks\" is missing");
    if (!st && rd->t->ranks > 1 && !was_read(rd, "links"))
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
        st = set_text(&t->spec, strlen(name) <= TT_TOPO_MAX_NAME / 4 ? name : t->kind, err);
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
static tutti_status read_all(struct tt_json_reader *json, const char *name, struct tt_topo **ret,
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
static tutti_status slurp(FILE *in, const char *name, struct tt_str *ret, struct tutti_error *err)
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
    return st ? st : read_all(json, name, ret, err);
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
        return st ? st : read_all(json, name, ret, err);
    }
    st = slurp(in, name, &text, err);
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
        st = slurp(in, path, &text, err);
    if (!st && (!text.len || text.s[0] != '<'))
        st = tt_fail(err, TUTTI_ERR_PARSE, "%.200s: only NCCL's files (XML) can be repeated", path);
    if (!st)
        st = read_machine(text.s, text.len, path, (uint32_t)hosts, ret, err);
    fclose(in);
    tt_str_free(&text);
    *ret_status = st;
    return true;
}
