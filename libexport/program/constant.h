/* constant.h - what a signature may fix instead of naming a value. */
#ifndef EXG_LIBEXPORT_PROGRAM_CONSTANT_H
#define EXG_LIBEXPORT_PROGRAM_CONSTANT_H

#include <exg/program.h>

static inline bool exg_is_constant(exg_argument_kind kind)
{
    return kind == EXG_ARGUMENT_NONE || kind == EXG_ARGUMENT_INT || kind == EXG_ARGUMENT_FLOAT ||
           kind == EXG_ARGUMENT_BOOL || kind == EXG_ARGUMENT_STRING;
}

#endif
