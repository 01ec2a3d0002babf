/* prefix.h - how a text begins. */
#ifndef EXG_LIBEXPORT_BASE_PREFIX_H
#define EXG_LIBEXPORT_BASE_PREFIX_H

#include <string.h>

/* What stands behind `prefix`; NULL: the text does not begin with it. */
static inline const char *exg_behind(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

#endif
