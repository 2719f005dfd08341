/* convert.c - writes networks for other programs: Graphviz and SimGrid (platform XML 4.1, read by
 * SimGrid 3.32).
 *
 * Meanings are preserved: full-duplex cables are SPLITDUPLEX, half-duplex ones SHARED, and a cable
 * with two different bandwidths is two one-way links. Up to 1,024 ranks every route is written out
 * (routing "Full"), so that both programs use the same links; beyond that the file lists cables
 * between hosts and routers and SimGrid searches routes ("Dijkstra", with its own choice of ties;
 * of parallel cables only the first). gamma, overhead and ports have no counterpart there. */
#include "topo/topo_int.h"

#include <stdlib.h>

enum { MAX_FULL_RANKS = 1024 };

/* ---- Graphviz ---- */

/* Escapes for a quoted string. */
static void dot_text(const char *s, FILE *out)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', out);
        fputc(*s == '\n' ? ' ' : *s, out);
    }
}

static void dot_vertex(const struct tt_topo *t, uint32_t v, FILE *out)
{
    char name[200];
    fprintf(out, "  v%u [shape=%s,label=\"", v, v < t->ranks ? "circle" : "box");
    if (t->names && t->names[v])
        dot_text(tt_topo_vertex_name(t, v, name, sizeof name), out);
    else
        fprintf(out, v < t->ranks ? "%u" : "s%u", v < t->ranks ? v : v - t->ranks);
    fputs("\"];\n", out);
}

/* "10 Gbit/s, 1 us", with both rates where they differ. */
static void dot_speed(const struct tt_link *l, FILE *out)
{
    char rate[64], back[64], time[64];
    fputs(tt_format_rate(l->bw[0], rate, sizeof rate), out);
    if (l->bw[0] != l->bw[1])
        fprintf(out, " / %s", tt_format_rate(l->bw[1], back, sizeof back));
    fprintf(out, ", %s", tt_format_time(l->latency_ps, time, sizeof time));
}

/* Equal links share a label at the top: one at every cable would hide the picture. */
static bool one_label(const struct tt_topo *t)
{
    for (uint32_t i = 1; i < t->nlinks; i++)
        if (t->links[i].bw[0] != t->links[0].bw[0] || t->links[i].bw[1] != t->links[0].bw[1] ||
            t->links[i].latency_ps != t->links[0].latency_ps)
            return false;
    return t->nlinks > 0;
}

/* Circles are ranks, boxes switches, dashed lines half-duplex cables. */
void tt_topo_write_dot(const struct tt_topo *t, FILE *out)
{
    fputs("graph \"", out);
    dot_text(t->spec, out);
    fputs("\" {\n  layout=neato;\n  overlap=false;\n  splines=true;\n  sep=\"+12\";\n  edge "
          "[fontsize=9];\n",
          out);
    bool same = one_label(t);
    if (same) {
        fputs("  labelloc=t;\n  label=\"all links ", out);
        dot_speed(&t->links[0], out);
        fputs("\";\n", out);
    }
    for (uint32_t v = 0; v < t->ranks + t->switches; v++)
        dot_vertex(t, v, out);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        fprintf(out, "  v%u -- v%u [label=\"", l->a, l->b);
        if (!same)
            dot_speed(l, out);
        fprintf(out, "\"%s];\n", l->half ? ",style=dashed" : "");
    }
    fputs("}\n", out);
}

/* ---- SimGrid ---- */

/* Given names are not used: SimGrid's ids must be unique. */
static void put_vertex(const struct tt_topo *t, uint32_t v, FILE *out)
{
    fprintf(out, v < t->ranks ? "rank-%u" : "switch-%u", v < t->ranks ? v : v - t->ranks);
}

/* SPLITDUPLEX has one bandwidth for both ways, so unequal ones need two links. */
static bool two_links(const struct tt_link *l)
{
    return !l->half && l->bw[0] != l->bw[1];
}

/* One-way and half-duplex links are SHARED: one bandwidth for all flows on them. */
static void put_link(const char *id, uint32_t i, double bw, const struct tt_link *l, FILE *out)
{
    const char *policy = l->half || two_links(l) ? "SHARED" : "SPLITDUPLEX";
    fprintf(out,
            "    <link id=\"link-%u%s\" bandwidth=\"%.17gBps\" latency=\"%llups\" "
            "sharing_policy=\"%s\"/>\n",
            i, id, bw, (unsigned long long)l->latency_ps, policy);
}

static void put_links(const struct tt_topo *t, FILE *out)
{
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        put_link(two_links(l) ? "-ab" : "", i, l->bw[0], l, out);
        if (two_links(l))
            put_link("-ba", i, l->bw[1], l, out);
    }
}

/* UP is the direction from a to b, the one that routes of even ids take. */
static void put_hop(const struct tt_topo *t, uint32_t arc, FILE *out)
{
    const struct tt_link *l = &t->links[arc / 2];
    if (two_links(l))
        fprintf(out, "<link_ctn id=\"link-%u-%s\"/>", arc / 2, arc & 1 ? "ba" : "ab");
    else if (l->half)
        fprintf(out, "<link_ctn id=\"link-%u\"/>", arc / 2);
    else
        fprintf(out, "<link_ctn id=\"link-%u\" direction=\"%s\"/>", arc / 2,
                arc & 1 ? "DOWN" : "UP");
}

/* One-way route over the given directed links. */
static void put_route(const struct tt_topo *t, const uint32_t ends[2], const uint32_t *arcs,
                      uint32_t n, FILE *out)
{
    fputs("    <route src=\"", out);
    put_vertex(t, ends[0], out);
    fputs("\" dst=\"", out);
    put_vertex(t, ends[1], out);
    fputs("\" symmetrical=\"NO\">", out);
    for (uint32_t i = 0; i < n; i++)
        put_hop(t, arcs[i], out);
    fputs("</route>\n", out);
}

/* `arcs` has room for the longest route. */
static void put_all_routes(const struct tt_topo *t, uint32_t *arcs, FILE *out)
{
    uint32_t cap = tt_topo_max_route(t), n;
    for (uint32_t a = 0; a < t->ranks; a++)
        for (uint32_t b = 0; b < t->ranks; b++)
            if (a != b && !tt_topo_route(t, a, b, arcs, cap, &n, NULL))
                put_route(t, (uint32_t[2]){a, b}, arcs, n, out);
}

/* One-hop routes between neighbours; arcs are sorted by neighbour, so the first of parallel ones is
 * the one whose predecessor leads elsewhere. */
static void put_cables(const struct tt_topo *t, FILE *out)
{
    for (uint32_t v = 0; v < t->g.n; v++)
        for (uint32_t k = t->g.start[v]; k < t->g.start[v + 1]; k++)
            if (k == t->g.start[v] || t->g.head[k] != t->g.head[k - 1])
                put_route(t, (uint32_t[2]){v, t->g.head[k]}, &t->g.id[k], 1, out);
}

/* ns-3's links are full duplex with one rate: no file can say anything else. */
tutti_status tt_topo_write_ns3(const struct tt_topo *t, FILE *out, struct tutti_error *err)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        if (t->links[i].half || t->links[i].bw[0] != t->links[i].bw[1])
            return tt_fail(err, TUTTI_ERR_REFUSED,
                           "link %u: a link of ns-3 has one rate, and both directions have it", i);
    fprintf(out, "%u %u %u\n", t->g.n, t->switches, t->nlinks);
    for (uint32_t v = 0; v < t->switches; v++)
        fprintf(out, "%u%s", t->ranks + v, v + 1 < t->switches ? " " : "\n");
    for (uint32_t i = 0; i < t->nlinks; i++)
        fprintf(out, "%u %u %.17gbps %llups 0\n", t->links[i].a, t->links[i].b,
                8 * t->links[i].bw[0], (unsigned long long)t->links[i].latency_ps);
    return TUTTI_OK;
}

/* Without memory for a route the file falls back to cables and SimGrid's own search. */
void tt_topo_write_simgrid(const struct tt_topo *t, FILE *out)
{
    uint32_t *arcs =
        t->ranks <= MAX_FULL_RANKS ? tt_alloc(tt_topo_max_route(t) + 1u, sizeof *arcs) : NULL;
    fprintf(out,
            "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM "
            "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
            "  <zone id=\"tutti\" routing=\"%s\">\n",
            arcs ? "Full" : "Dijkstra");
    for (uint32_t v = 0; v < t->ranks; v++)
        fprintf(out, "    <host id=\"rank-%u\" speed=\"1Gf\"/>\n", v);
    for (uint32_t v = 0; v < t->switches; v++)
        fprintf(out, "    <router id=\"switch-%u\"/>\n", v);
    put_links(t, out);
    if (arcs)
        put_all_routes(t, arcs, out);
    else
        put_cables(t, out);
    fputs("  </zone>\n</platform>\n", out);
    free(arcs);
}
