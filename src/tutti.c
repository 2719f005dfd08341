/* Anchor of the shared library: its code lives in the modules, this file only gives the linker a
 * source. */
#include <tutti/tutti.h>

typedef int tutti_shared_library_anchor;
