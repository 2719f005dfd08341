/* dln.h - the parts of tutti repro dln; each adds its tables to the report. */
#ifndef REPRO_DLN_H
#define REPRO_DLN_H

#include "repro/repro.h"

void repro_dln_cables(struct repro_report *r);
void repro_dln_flow(struct repro_report *r);
void repro_dln_four(struct repro_report *r); /* does nothing with --quick */
void repro_dln_leaders(struct repro_report *r);

/* Does pricing it take long? --quick leaves it out then. */
bool repro_dln_is_slow(const char *kind, const char *algo);
#endif
