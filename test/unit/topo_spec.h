/* topo_spec.h - the network of a spec; a spec that is refused fails the running test. */
#ifndef TEST_TOPO_SPEC_H
#define TEST_TOPO_SPEC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topo/topo.h"

static inline struct tt_topo *topo_of(const char *spec)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    if (tt_topo_parse(spec, &t, &err))
        fail_msg("%s: %s", spec, err.text);
    return t;
}

#endif
