/* multitree.h - what the parts of the MultiTree experiment share, and what they contribute to
 * the table of claims. */
#ifndef REPRO_MULTITREE_H
#define REPRO_MULTITREE_H

#include "repro/repro.h"

/* The published simulator's links: 16 bytes per cycle of 1 ns, 150 cycles. */
#define MT_LINK "@16GB/s,150ns"

struct mt_findings {
    /* 8x8 torus, the least over all sizes: the ring's time / MultiTree's */
    double ring_least;
    /* the same with the best baseline of each size in place of the ring */
    double ring_least_best;
    const char *ring_least_rival; /* the name of that baseline */
    /* 8x8 torus, 64 MiB: times of the 2D-ring and of the best baseline / MultiTree's */
    double ring2d_large, best_large;
    const char *best_large_rival; /* the name of that baseline */
    /* the largest reduction of training time in percent: against ring, 2D-ring, best baseline */
    double train_ring, train_2d, train_best;
};

/* multitree_packets.c */
void repro_multitree_packets(struct repro_report *r);
void repro_multitree_mesh(struct repro_report *r); /* multitree_mesh.c */
/* multitree_train.c */
void repro_multitree_scaling(struct repro_report *r);
/* multitree_train.c, too */
void repro_multitree_training(struct repro_report *r, struct mt_findings *f);
/* Microseconds of an algorithm with whole chunks, in its better way of issuing. "ring" and
 * "bi-ring" on grids run on a Hamiltonian cycle. */
double repro_multitree_us(struct repro_report *r, const char *kind, const char *algo,
                          const char *options, uint64_t bytes);
#endif
