/* multitree.h - what the parts of the MultiTree experiment share, and what they find out for the
 * table of claims. */
#ifndef CLI_REPRO_MULTITREE_H
#define CLI_REPRO_MULTITREE_H

#include "repro/repro.h"

/* The published simulator's links: 16 bytes per cycle of 1 ns, 150 cycles. */
#define MT_LINK "@16GB/s,150ns"

struct mt_findings {
    /* 8x8 torus, all sizes: ring's time over MultiTree's */
    double ring_least;
    /* the same with the best baseline in place of the ring */
    double ring_least_best;
    const char *ring_least_rival; /* who that was */
    /* 8x8 torus, 64 MiB: 2D-ring, best baseline over MultiTree */
    double ring2d_large, best_large;
    const char *best_large_rival; /* who that was */
    /* the most that the training time falls, in percent: against ring, 2D-ring, best baseline */
    double train_ring, train_2d, train_best;
};

/* multitree_packets.c */
void repro_multitree_packets(struct repro_report *r);
void repro_multitree_mesh(struct repro_report *r); /* multitree_mesh.c */
/* multitree_train.c */
void repro_multitree_scaling(struct repro_report *r);
void repro_multitree_training(struct repro_report *r, struct mt_findings *f); /* the same */
/* Time of an algorithm with whole chunks, as issued best; "ring" and "bi-ring" on grids: on a
 * Hamiltonian cycle of them. */
double repro_multitree_us(struct repro_report *r, const char *kind, const char *algo,
                          const char *options, uint64_t bytes);
#endif
