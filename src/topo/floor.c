/* floor.c - how much cable a network needs on a floor of racks.
 *
 * The model: racks are in a grid, 0.6 m apart in a row, rows 2.1 m apart (a rack and its aisle). A
 * rack holds `per_rack` positions: ranks, or the switches of a loop network with their hosts. A
 * cable inside a rack is 2 m; one between racks runs along the rows and across them and takes 2 m
 * more at each end: 4 m + 0.6 m * columns apart + 2.1 m * rows apart. Lengths are whole
 * millimetres.
 *
 * Grids of two dimensions lie on the floor as they are: a rack holds a tile of positions, as square
 * as possible, and a row or column of the grid runs straight over racks. Everything else fills the
 * racks in the order of the numbering, row by row in alternating direction:
 *
 *     rack 0  1  2         so that neighbours in the numbering are near; long jumps are not placed.
 *          5  4  3
 *
 * The measures are assumptions (common rack sizes), not a paper's. */
#include "topo/topo_int.h"

enum { COLUMN_MM = 600, ROW_MM = 2100, INSIDE_MM = 2000, END_MM = 2000 };

struct place {
    uint32_t row, column;
};

struct plan {
    const struct tt_topo *t;
    struct tt_topo_floor *f;
    uint32_t tile_rows, tile_columns; /* of a two-dimensional grid; 0: in numbering order */
};

/* n / by, rounded up. */
static uint32_t up(uint32_t n, uint32_t by)
{
    return n / by + (n % by != 0);
}

/* The largest r with r*r <= n. */
static uint32_t root(uint32_t n)
{
    uint32_t r = 1;
    while ((uint64_t)(r + 1) * (r + 1) <= n)
        r++;
    return r;
}

static uint32_t floor_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Hosts are where their switch is. */
static uint32_t floor_position(const struct tt_topo *t, uint32_t vertex)
{
    if (!t->switches)
        return vertex;
    return vertex < t->ranks ? vertex / (t->ranks / t->switches) : vertex - t->ranks;
}

/* The rack of a vertex: by tile on a grid, else in numbering order, odd rows reversed. */
static struct place place_of(const struct plan *p, uint32_t vertex)
{
    uint32_t at = floor_position(p->t, vertex);
    if (p->tile_rows) {
        uint32_t width = p->t->dims[1];
        return (struct place){at / width / p->tile_rows, at % width / p->tile_columns};
    }
    uint32_t rack = at / p->f->per_rack, row = rack / p->f->columns, along = rack % p->f->columns;
    return (struct place){row, row % 2 ? p->f->columns - 1 - along : along};
}

static uint32_t apart(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* Tiles of a grid, or a floor of racks that is as square as possible. */
static void lay_out(struct plan *p, uint32_t positions)
{
    struct tt_topo_floor *f = p->f;
    const struct tt_topo *t = p->t;
    if (t->ndims == 2) {
        p->tile_rows = floor_least(t->dims[0], root(f->per_rack));
        p->tile_columns = floor_least(t->dims[1], f->per_rack / p->tile_rows);
        p->tile_rows = floor_least(t->dims[0], f->per_rack / p->tile_columns);
        f->rows = up(t->dims[0], p->tile_rows);
        f->columns = up(t->dims[1], p->tile_columns);
        f->racks = f->rows * f->columns;
        return;
    }
    f->racks = up(positions, f->per_rack);
    f->columns = root(f->racks);
    f->columns += f->columns * f->columns < f->racks;
    f->rows = up(f->racks, f->columns);
}

/* Sums over all cables; cables between a switch and its own hosts stay inside a rack. */
bool tt_topo_floor(const struct tt_topo *t, uint32_t per_rack, struct tt_topo_floor *ret)
{
    bool loops = t->routing == TT_ROUTE_CIRCULANT;
    if (per_rack == 0 || (t->switches && !loops))
        return false;
    struct tt_topo_floor f = {.per_rack = per_rack};
    struct plan p = {.t = t, .f = &f};
    lay_out(&p, t->switches ? t->switches : t->ranks);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        struct place a = place_of(&p, t->links[i].a), b = place_of(&p, t->links[i].b);
        uint64_t rows = apart(a.row, b.row), columns = apart(a.column, b.column);
        uint64_t mm = rows + columns ? 2 * END_MM + columns * COLUMN_MM + rows * ROW_MM : INSIDE_MM;
        f.between += rows + columns > 0;
        f.total_mm += mm;
        f.longest_mm = mm > f.longest_mm ? mm : f.longest_mm;
    }
    *ret = f;
    return true;
}
