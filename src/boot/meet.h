/* meet.h - rank 0's table while ranks arrive: what meet.c and meet_guests.c share. */
#ifndef TT_BOOT_MEET_H
#define TT_BOOT_MEET_H

#include "boot/boot_int.h"

enum { GUESTS_MAX = 256 };             /* proved but not joined, at a time */
#define GUEST_NS UINT64_C(10000000000) /* from proof to join */

/* What is known about a rank that has not joined; for the message about missing ranks. */
enum note { NOTE_NONE, NOTE_KEY, NOTE_SIZE, NOTE_LEFT };

struct guest {
    struct tt_boot_line line;
    uint32_t rank, from_be;
    uint64_t since_ns;
    struct tt_frame_in in;
    uint8_t body[TT_JOIN_MAX];
};

struct meeting {
    struct tt_boot *b;
    const struct tt_place *at;
    uint64_t deadline_ns;
    struct tt_vec guests; /* struct guest * */
    struct tt_gate gate;
    int local;          /* hands the key to processes of this user; -1: none */
    struct pollfd *fds; /* gate, local, guests, seats by rank */
    char **settings;    /* by rank; NULL: has not joined */
    uint64_t *net_ids;
    uint8_t *notes;
    uint32_t joined;
};

/* meet_guests.c, meet.c */
void tt_boot_meet_guest_free(struct guest *g);
/* Seats a rank: records its settings, with its version as the first line, and its table entry. */
tutti_status tt_boot_meet_seat(struct meeting *m, uint32_t rank, const struct tt_boot_join *j,
                               struct tutti_error *err);
/* From last to first: a gap is filled by the last guest, which has been served already. */
tutti_status tt_boot_meet_serve_guests(struct meeting *m, const struct pollfd *fds,
                                       struct tutti_error *err);
tutti_status tt_boot_meet_serve_gate(struct meeting *m, struct tutti_error *err);

#endif
