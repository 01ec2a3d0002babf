/* size_checks.c - the integers of a call are of a tensor's size, before any are counted with: they
 * come from files. And numbers that become elements are such as the dtype holds. */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* More elements than any tensor that is run has; sums of a few and small multiples fit. */
#define REACH ((int64_t)1 << 47)

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Ends that mean all there is, shifts that count around, bounds and numbers of draws, and what is
 * only compared with. */
static bool may_be_any(const char *name)
{
    static const char *const names[] = {"start", "end", "shifts", "low",         "high",
                                        "from",  "to",  "stream", "ignore_index"};

    return is_among(name, names, sizeof(names) / sizeof(names[0]));
}

/* Lists with an element a part, not a dim. */
static bool may_be_long(const char *name)
{
    static const char *const names[] = {
        "split_sizes", "split_size", "output_split_sizes", "input_split_sizes", "ranks",
        "indices",     "path"};

    return is_among(name, names, sizeof(names) / sizeof(names[0]));
}

static exg_status check_one(const exg_schema_argument *parameter, int64_t n, exg_error *err)
{
    int64_t most = parameter->type.list_length > 0 ? INT32_MAX : REACH;

    if ((n < -most || n > most) && !may_be_any(parameter->name)) {
        return EXG_SHAPE_FAIL(err, "%s: %" PRId64 " is more than any tensor has", parameter->name,
                              n);
    }
    return EXG_OK;
}

static exg_status check_list(const exg_schema_argument *parameter, const exg_argument *arg,
                             exg_error *err)
{
    uint32_t length = parameter->type.list_length;

    if (length > 1 && arg->count > 1 && arg->count != length) {
        return EXG_SHAPE_FAIL(err, "%s: %u numbers for %u", parameter->name, arg->count, length);
    }
    if (arg->count > EXG_SHAPE_RANK_MAX && !may_be_long(parameter->name)) {
        return EXG_SHAPE_FAIL(err, "%s: %u numbers, more than a tensor has dims", parameter->name,
                              arg->count);
    }
    for (uint32_t i = 0; i < arg->count; i++) {
        bool is_sym = arg->kind == EXG_ARGUMENT_SYM_INTS;

        EXG_TRY(check_one(parameter, is_sym ? arg->as_syms[i].as_int : arg->as_ints[i], err));
    }
    return EXG_OK;
}

exg_status exg_check_numbers(const exg_operator *op, const exg_argument *args, exg_error *err)
{
    if (op->registered != NULL) { /* a library's may mean anything */
        return EXG_OK;
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const exg_schema_argument *parameter = &op->schema->arguments[i];
        exg_type_base base = parameter->type.base;

        if (base != EXG_TYPE_INT && base != EXG_TYPE_SYM_INT) {
            continue;
        }
        if (args[i].kind == EXG_ARGUMENT_INTS || args[i].kind == EXG_ARGUMENT_SYM_INTS) {
            EXG_TRY(check_list(parameter, &args[i], err));
        } else {
            EXG_TRY(check_one(parameter, exg_get_int(&args[i]), err));
        }
    }
    return EXG_OK;
}

/* ---- elements ------------------------------------------------------------------------------ */

static const struct {
    exg_operator_id id;
    const char *parameter;
    enum { NARROW, WIDE, ANY } floats; /* how those of 16 bits are taken */
} held[] = {
#define EXG_HELD(id, parameter, floats) {EXG_OP_##id, #parameter, floats},
#include "libexport/operators/held.def"
#undef EXG_HELD
};

static const struct {
    exg_operator_id id;
    enum { ANY_OF_THEM, ALL_OF_THEM } operands;
} unmasked[] = {
#define EXG_UNMASKED(id, operands) {EXG_OP_##id, operands##_OF_THEM},
#include "libexport/operators/unmasked.def"
#undef EXG_UNMASKED
};

/* The largest finite element, of a complex dtype of each part (complex32 is filled by way of
 * complex64). The least is its negative, or of unsigned integers 0, or one less. */
static double largest_of(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_U8:
        return UINT8_MAX;
    case EXG_DTYPE_I8:
        return INT8_MAX;
    case EXG_DTYPE_I16:
        return INT16_MAX;
    case EXG_DTYPE_I32:
        return INT32_MAX;
    case EXG_DTYPE_I64:
        return 0x1.fffffffffffffp62; /* the last double before it */
    case EXG_DTYPE_U16:
        return UINT16_MAX;
    case EXG_DTYPE_U32:
        return UINT32_MAX;
    case EXG_DTYPE_U64:
        return 0x1.fffffffffffffp63;
    case EXG_DTYPE_F16:
        return 65504;
    case EXG_DTYPE_BF16:
        return 0x1.fep127;
    case EXG_DTYPE_F32:
    case EXG_DTYPE_C32:
    case EXG_DTYPE_C64:
        return (double)FLT_MAX;
    case EXG_DTYPE_F64:
    case EXG_DTYPE_C128:
        return DBL_MAX;
    default:
        return exg_float8_most(dtype);
    }
}

static bool is_unsigned(exg_dtype dtype)
{
    return exg_dtype_class(dtype) == 'U';
}

static bool has_infinity(exg_dtype dtype)
{
    return !exg_dtype_is_integral(dtype) &&
           (!exg_dtype_is_float8(dtype) || dtype == EXG_DTYPE_F8E5M2);
}

/* Negative integers may stand for unsigned elements, of as many bits. */
static bool holds_whole(exg_dtype dtype, int64_t n)
{
    const double largest = largest_of(dtype);
    const double x = (double)n;

    return dtype == EXG_DTYPE_I64 || dtype == EXG_DTYPE_U64 ||
           (x <= largest && x >= -largest - (exg_dtype_class(dtype) == 'I'));
}

static bool holds_float(exg_dtype dtype, double x)
{
    const double largest = largest_of(dtype);
    const double least = is_unsigned(dtype)              ? 0
                         : dtype == EXG_DTYPE_F8E8M0FNU  ? 0x1p-127
                         : dtype == EXG_DTYPE_I64        ? -0x1p63
                         : exg_dtype_class(dtype) == 'I' ? -largest - 1
                                                         : -largest;

    if (isnan(x)) {
        return !exg_dtype_is_integral(dtype);
    }
    return (isinf(x) && has_infinity(dtype)) || (x >= least && x <= largest);
}

bool exg_dtype_holds(exg_dtype dtype, const exg_argument *number)
{
    if (dtype == EXG_DTYPE_B8 || number->kind == EXG_ARGUMENT_BOOL) {
        return true;
    }
    if (number->kind == EXG_ARGUMENT_COMPLEX) {
        const exg_complex_number z = number->as_complex;

        return holds_float(dtype, z.real) &&
               (exg_dtype_is_complex(dtype) ? holds_float(dtype, z.imag) : z.imag == 0);
    }
    return number->kind == EXG_ARGUMENT_FLOAT ? holds_float(dtype, number->as_float)
                                              : holds_whole(dtype, exg_get_int(number));
}

bool exg_keeps_value(exg_dtype dtype, const exg_argument *number)
{
    const double x = exg_get_float(number);
    const double least = dtype == EXG_DTYPE_F16   ? 0x1p-14
                         : dtype == EXG_DTYPE_F64 ? 0
                                                  : (double)FLT_MIN;

    return exg_dtype_holds(dtype, number) && (x >= 0 || !is_unsigned(dtype)) &&
           !(exg_dtype_is_float(dtype) && x != 0 && fabs(x) < least);
}

/* Where what is added is multiplied first, by an integer where it is one. */
static bool may_be_factor(exg_dtype dtype, const exg_argument *alpha)
{
    return (alpha->kind != EXG_ARGUMENT_FLOAT || !exg_dtype_is_integral(dtype)) &&
           (alpha->kind != EXG_ARGUMENT_BOOL || dtype == EXG_DTYPE_B8);
}

/* The dtype that the number has to fit: of what is subtracted its negative. */
static bool fits(size_t row, exg_dtype dtype, const exg_argument *number)
{
    const bool is_half = exg_dtype_is_float(dtype) && exg_dtype_bytes(dtype) == 2;
    const exg_operator_id id = held[row].id;
    const bool is_negated = id == EXG_OP_sub_Tensor || id == EXG_OP_sub_Scalar ||
                            id == EXG_OP_rsub_Tensor || id == EXG_OP_rsub_Scalar;
    exg_argument negative = exg_arg_int(0);

    if (is_half && held[row].floats == ANY) {
        return true;
    }
    if (is_negated && number->kind == EXG_ARGUMENT_INT && number->as_int != INT64_MIN) {
        negative.as_int = -number->as_int;
        number = &negative;
    }
    return exg_dtype_holds(is_half && held[row].floats == WIDE ? EXG_DTYPE_F32 : dtype, number);
}

static bool is_plain(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_FLOAT ||
           arg->kind == EXG_ARGUMENT_BOOL || arg->kind == EXG_ARGUMENT_COMPLEX;
}

exg_status exg_check_held(const exg_operator *op, const exg_argument *args, exg_dtype dtype,
                          exg_error *err)
{
    for (size_t h = 0; h < sizeof(held) / sizeof(held[0]); h++) {
        for (uint32_t i = 0; held[h].id == op->id && i < op->schema->argument_count; i++) {
            const char *name = op->schema->arguments[i].name;

            if (strcmp(name, held[h].parameter) != 0 || !is_plain(&args[i])) {
                continue;
            }
            if (!fits(h, dtype, &args[i])) {
                return args[i].kind == EXG_ARGUMENT_COMPLEX
                           ? EXG_SHAPE_FAIL(err, "%s: a complex number is no %s", name,
                                            exg_dtype_name(dtype))
                           : EXG_SHAPE_FAIL(err, "%s: %g is no %s", name, exg_get_float(&args[i]),
                                            exg_dtype_name(dtype));
            }
            if (op->id == EXG_OP_pow_Tensor_Scalar && exg_dtype_is_integral(dtype) &&
                exg_get_float(&args[i]) < 0) {
                return EXG_SHAPE_FAIL(err, "integers to negative powers");
            }
            if (strcmp(name, "alpha") == 0 && op->pointwise != EXG_POINTWISE_NOT &&
                !may_be_factor(dtype, &args[i])) {
                return EXG_SHAPE_FAIL(err, "alpha: a number of another kind than %s",
                                      exg_dtype_name(dtype));
            }
        }
    }
    return EXG_OK;
}

static bool is_bool(const exg_argument *arg, const exg_graph *graph)
{
    return arg->kind == EXG_ARGUMENT_BOOL || arg->kind == EXG_ARGUMENT_SYM_BOOL ||
           (arg->kind == EXG_ARGUMENT_TENSOR &&
            graph->values[arg->as_tensor].tensor->dtype == EXG_DTYPE_B8);
}

/* An operand, not an option such as keepdim. */
static bool has_bools(const exg_operator *op, const exg_argument *args, const exg_graph *graph)
{
    bool any = false;

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const exg_type_base base = op->schema->arguments[i].type.base;

        any = any ||
              ((base == EXG_TYPE_TENSOR || base == EXG_TYPE_SCALAR) && is_bool(&args[i], graph));
    }
    return any;
}

exg_status exg_check_bools(const exg_operator *op, const exg_argument *args, const exg_graph *graph,
                           exg_error *err)
{
    const exg_operator_id id = op->functional == EXG_OP_NONE ? op->id : op->functional;
    exg_dtype compute;
    exg_dtype result;

    for (size_t k = 0; k < sizeof(unmasked) / sizeof(unmasked[0]); k++) {
        if (unmasked[k].id != id || !has_bools(op, args, graph)) {
            continue;
        }
        exg_pointwise_dtypes(op, args, graph, &compute, &result);
        if (unmasked[k].operands == ANY_OF_THEM || compute == EXG_DTYPE_B8) {
            return EXG_SHAPE_FAIL(err, "PyTorch has no %s of bools", op->schema->name);
        }
    }
    return EXG_OK;
}
