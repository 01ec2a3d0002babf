/* xxh3.h - XXH3 by the widest instructions of the processor, where the library knows how. */
#ifndef EXG_LIBEXPORT_BASE_XXH3_H
#define EXG_LIBEXPORT_BASE_XXH3_H

#include <xxhash.h>
#ifdef EXG_XXH3_DISPATCH
#include <xxh_x86dispatch.h>
#endif

#endif
