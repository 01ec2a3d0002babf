/* cast.h - elements of one dtype as those of another. */
#ifndef EXG_LIBEXPORT_WEIGHTS_CAST_H
#define EXG_LIBEXPORT_WEIGHTS_CAST_H

#include <exg/types.h>

/* `count` elements in host byte order; `to` is a floating-point dtype, `from` none of complex
 * numbers. Rounds as exg_weights_edit() says. */
void exg_elements_cast(exg_dtype from, const void *in, exg_dtype to, void *out, uint64_t count);

#endif
