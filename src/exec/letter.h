/* letter.h - what the files of letters share: letter.c (the drawing, states, starting, asking),
 * letter_send.c and letter_receive.c. */
#ifndef TT_EXEC_LETTER_H
#define TT_EXEC_LETTER_H

#include "exec/exec_int.h"

/* LETTERS: blocks that one peer's short letters may use here; credit is returned by the quarter. */
enum { LETTERS = 64, CREDIT = LETTERS / 4, FIRST_IDS = 16, PIECE = TT_XPIECE };
/* ASKED: its envelope has been sent or is queued. MOVING: its bytes travel in pieces. */
enum letter_state { NEW, POSTED, ASKED, MOVING, DONE, FAILED };
enum letter_next { NOTHING, ENVELOPE, GO, BODY }; /* what it has to send */

/* Fields of tag.segment in an envelope: the kind, and whether the bytes follow in pieces. */
enum { LONG = 1 << 16, KIND = LONG - 1 };

/* letter_send.c, letter.c */
/* Ends a letter in any state. It belongs to the caller again. */
void tt_exec_letter_finish(struct tt_engine *e, struct tt_letter *l, enum letter_state how);
/* Gives the letter the id by which the peer names it. The search goes on where the last one ended:
 * ids before that are mostly in use. */
bool tt_exec_letter_give_id(struct tt_engine *e, struct tt_letter *l);
void tt_exec_letter_protocol(struct tt_xpeer *pe);
/* Appends the letter to its peer's mail. A peer that is listed has mail that could not go;
 * tt_exec_letter_deliver tries it at the next progress. */
void tt_exec_letter_queue(struct tt_letter *l, enum letter_next what);

/* letter_receive.c */
/* Does the receive ask for the letter with this envelope? */
bool tt_exec_letter_fits(const struct tt_letter *l, const struct tt_xpeer *pe,
                         const struct tt_tag *tag);
/* The receive gets this letter: notes what came and checks kind and length. False: they do not fit,
 * and the engine has failed. */
bool tt_exec_letter_match(struct tt_letter *l, struct tt_xpeer *pe, const struct tt_tag *tag);
/* The bytes of a short letter are in their place. */
void tt_exec_letter_take_short(struct tt_letter *l);
/* Asks for a long letter. `l` has its id; `other` is the sender's. */
void tt_exec_letter_ask_long(struct tt_letter *l, uint32_t other);
void tt_exec_letter_unpost(struct tt_letter *l, struct tt_letter *before);

#endif
