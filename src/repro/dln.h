/* dln.h - the parts of tutti repro dln. */
#ifndef CLI_REPRO_DLN_H
#define CLI_REPRO_DLN_H

#include "repro/repro.h"

void repro_dln_cables(struct repro_report *r);
void repro_dln_flow(struct repro_report *r);
void repro_dln_four(struct repro_report *r); /* not in --quick */
void repro_dln_leaders(struct repro_report *r);

/* Takes its time to price; --quick leaves it out. */
bool repro_dln_is_slow(const char *kind, const char *algo);
#endif
