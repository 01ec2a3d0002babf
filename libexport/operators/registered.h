/* registered.h - operators of libraries as rows of the table (operator_library.h).
 *
 * An operator of a library is a row, or several: one that writes is lowered to one that gives the
 * new values, and to copies of them; one with an effect to one with a result more, which is kept;
 * one whose result's size lies in the data to one that gives
 * the size, and one that takes it (sized.def has those of PyTorch).
 */
#ifndef EXG_LIBEXPORT_OPERATORS_REGISTERED_H
#define EXG_LIBEXPORT_OPERATORS_REGISTERED_H

#include <exg/operator_library.h>

typedef enum exg_registered_form {
    EXG_REGISTERED_WHOLE,      /* as the library says */
    EXG_REGISTERED_FUNCTIONAL, /* what it returns, what it would write, with an effect a bool: true
                                */
    EXG_REGISTERED_LENGTH,     /* one integer: `length` */
    EXG_REGISTERED_SIZED       /* takes that integer as its last argument */
} exg_registered_form;

typedef struct exg_registered {
    exg_operator_definition definition;
    exg_registered_form form;
    const char *target;                /* "torch.ops.mylib.scale.default" */
    const exg_function_schema *schema; /* the library's */
    exg_operator_id functional;        /* of a WHOLE that is lowered to it */
} exg_registered;

/* Is result `r` no tensor of its own, but an argument that is written? */
bool exg_registered_returns_argument(const exg_function_schema *schema, uint32_t r);

/* The call of a library's function but for its tensors: arguments are copied to `arena`, sizes as
 * plain integers. NO_MEMORY. */
exg_status exg_registered_call(const exg_registered *registered, const exg_argument *args,
                               exg_arena *arena, exg_operator_call *call, exg_error *err);

/* How many of the outputs are the function's: those that a FUNCTIONAL writes come after. */
uint32_t exg_registered_outputs(const exg_registered *registered, uint32_t output_count,
                                uint32_t written);

/* Columns of the rows. */
exg_shape_function exg_shape_registered;
exg_lowering exg_lower_written;

#endif
