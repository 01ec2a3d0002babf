/* kernel.c - scalar arguments of a call. */
#include "libexec/kernels/kernel.h"

#include <assert.h>

double exg_call_float(const exg_kernel_call *call, uint32_t position)
{
    const exg_argument *arg = &call->args[position];

    assert(position < call->arg_count);
    switch ((int)arg->kind) {
    case EXG_ARGUMENT_FLOAT:
        return arg->as_float;
    case EXG_ARGUMENT_SYM_FLOAT:
        return arg->as_sym.as_float;
    case EXG_ARGUMENT_COMPLEX:
        return arg->as_complex.real;
    default:
        return (double)exg_call_int(call, position);
    }
}

int64_t exg_call_int(const exg_kernel_call *call, uint32_t position)
{
    const exg_argument *arg = &call->args[position];

    assert(position < call->arg_count);
    switch ((int)arg->kind) {
    case EXG_ARGUMENT_INT:
        return arg->as_int;
    case EXG_ARGUMENT_SYM_INT:
        return arg->as_sym.as_int;
    case EXG_ARGUMENT_BOOL:
        return arg->as_bool;
    case EXG_ARGUMENT_SYM_BOOL:
        return arg->as_sym.as_bool;
    case EXG_ARGUMENT_FLOAT:
        return (int64_t)arg->as_float;
    case EXG_ARGUMENT_SYM_FLOAT:
        return (int64_t)arg->as_sym.as_float;
    default:
        return 0;
    }
}

bool exg_call_bool(const exg_kernel_call *call, uint32_t position)
{
    return exg_call_float(call, position) != 0;
}
