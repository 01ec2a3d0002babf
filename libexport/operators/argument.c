/* argument.c - arguments from values, and values from arguments. */

#include <exg/operators.h>

exg_argument exg_arg_ref(exg_ref ref)
{
    if (ref.id == EXG_NO_VALUE) {
        return exg_arg_none();
    }
    return (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = ref.id};
}

exg_argument exg_arg_int(int64_t value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = value};
}

exg_argument exg_arg_float(double value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_FLOAT, .as_float = value};
}

exg_argument exg_arg_bool(bool value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_BOOL, .as_bool = value};
}

exg_argument exg_arg_none(void)
{
    return (exg_argument){.kind = EXG_ARGUMENT_NONE};
}

exg_argument exg_arg_dtype(exg_dtype dtype)
{
    return (exg_argument){.kind = EXG_ARGUMENT_SCALAR_TYPE, .as_scalar_type = dtype};
}

exg_argument exg_arg_string(const char *string)
{
    return (exg_argument){.kind = EXG_ARGUMENT_STRING, .as_string = string};
}

bool exg_is_none(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_NONE ||
           (arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR && arg->as_tensor == EXG_NO_VALUE);
}

int64_t exg_get_int(const exg_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_BOOL:
        return arg->as_bool;
    case EXG_ARGUMENT_FLOAT:
        return arg->as_float >= -0x1p63 && arg->as_float < 0x1p63 ? (int64_t)arg->as_float : 0;
    case EXG_ARGUMENT_COMPLEX: /* a Scalar may be one; no operator here takes it */
        return 0;
    case EXG_ARGUMENT_SYM_INT:
        return arg->as_sym.as_int;
    default:
        return arg->kind == EXG_ARGUMENT_INT ? arg->as_int : 0;
    }
}

double exg_get_float(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_FLOAT ? arg->as_float : (double)exg_get_int(arg);
}

bool exg_get_bool(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_BOOL ? arg->as_bool : exg_get_int(arg) != 0;
}

exg_ref exg_get_ref(const exg_argument *arg)
{
    if (arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        return (exg_ref){arg->as_tensor};
    }
    return EXG_NO_REF;
}

uint32_t exg_get_ints(const exg_argument *arg, int64_t *items, uint32_t max)
{
    if (arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_BOOL) {
        if (max > 0) {
            items[0] = exg_get_int(arg);
        }
        return 1;
    }
    for (uint32_t i = 0; i < arg->count && i < max; i++) {
        items[i] = arg->kind == EXG_ARGUMENT_SYM_INTS ? arg->as_syms[i].as_int
                   : arg->kind == EXG_ARGUMENT_INTS   ? arg->as_ints[i]
                                                      : 0;
    }
    return arg->count;
}
