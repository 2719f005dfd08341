/* multitree.h - what the parts of the MultiTree experiment share, and what they find out for the table of claims. */
#ifndef CLI_REPRO_MULTITREE_H
#define CLI_REPRO_MULTITREE_H

#include "repro/repro.h"

/* The published simulator's links: 16 bytes per cycle of 1 ns, 150 cycles. */
#define MT_LINK "@16GB/s,150ns"

struct mt_findings {
    double ring_least;                       /* 8x8 torus, all sizes: ring's time over MultiTree's */
    double ring_least_best;                  /* the same with the best baseline in place of the ring */
    const char *ring_least_rival;            /* who that was */
    double ring2d_large, best_large;         /* 8x8 torus, 64 MiB: 2D-ring, best baseline over MultiTree */
    const char *best_large_rival;            /* who that was */
    double train_ring, train_2d, train_best; /* the most that the training time falls, in percent: against ring, 2D-ring, best baseline */
};

void mt_packets(struct repro_report *r);                         /* multitree_packets.c */
void mt_mesh(struct repro_report *r);                            /* multitree_mesh.c */
void mt_scaling(struct repro_report *r);                         /* multitree_train.c */
void mt_training(struct repro_report *r, struct mt_findings *f); /* the same */
/* Time of an algorithm with whole chunks, as issued best; "ring" and "bi-ring" on grids: on a Hamiltonian cycle of them. */
double mt_us(struct repro_report *r, const char *kind, const char *algo, const char *options, uint64_t bytes);
#endif
