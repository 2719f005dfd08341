/* xml.h - a reader of the little XML that tools write about machines: elements and attributes, one
 * token at a time, from memory.
 *
 * Texts between elements, comments and the declaration are skipped. Document types are refused
 * (they can make a few bytes expand to any length), entities are the five of XML and numbers below
 * 128. Elements must be closed in order; errors read "name:line:column: reason". */
#ifndef TT_TOPO_XML_H
#define TT_TOPO_XML_H

#include "base/base.h"

enum { TT_XML_DEPTH = 64, TT_XML_NAME = 48, TT_XML_VALUE = 256, TT_XML_ATTRIBUTES = 48 };

struct tt_xml {
    const char *name, *data, *at, *end;
    const char *token; /* where the last token began */
    uint32_t depth;
    char open[TT_XML_DEPTH][TT_XML_NAME]; /* elements that are open */
    bool pending;                         /* <a/>: its end is the next token */
    /* of the last start: */
    struct {
        char key[TT_XML_NAME], value[TT_XML_VALUE];
    } attribute[TT_XML_ATTRIBUTES];
    uint32_t nattributes;
};
enum tt_xml_kind { TT_XML_END_OF_FILE, TT_XML_START, TT_XML_END };

void tt_topo_xml_open(struct tt_xml *x, const char *data, size_t len, const char *name);
/* The next start (*ret_name, attributes) or end of an element. */
tutti_status tt_topo_xml_next(struct tt_xml *x, enum tt_xml_kind *ret, const char **ret_name,
                              struct tutti_error *err);
/* An attribute of the last start, or NULL. */
const char *tt_topo_xml_value(const struct tt_xml *x, const char *key);
/* An error at the last token. */
tutti_status tt_topo_xml_fail(const struct tt_xml *x, struct tutti_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#endif
