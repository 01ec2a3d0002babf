/* symbolic.c - operators on sizes, evaluated when sizes are numbers. Meaning:
 * Python's operators; floordiv and mod round towards minus infinity. */
#include "libexport/base/checked.h"
#include "libexport/base/require.h"

#include <exg/operator_id_new.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/symbolic.def"
#include "libexport/operators/rows.h"
#include "libexport/operators/symbolic.h"

static bool is_float(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_FLOAT;
}

static exg_status overflow(exg_error *err)
{
    return EXG_FAIL(err, LIMIT, "SYM-010", "arithmetic on sizes leaves 64 bits");
}

#define CHECKED_BINARY(name, builtin, operation)                                                   \
    exg_status exg_symbolic_##name(const exg_argument *args, uint32_t count, exg_argument *result, \
                                   exg_error *err)                                                 \
    {                                                                                              \
        int64_t value;                                                                             \
                                                                                                   \
        (void)count;                                                                               \
        if (is_float(&args[0]) || is_float(&args[1])) {                                            \
            *result = exg_arg_float(exg_get_float(&args[0]) operation exg_get_float(&args[1]));    \
            return EXG_OK;                                                                         \
        }                                                                                          \
        if (builtin(exg_get_int(&args[0]), exg_get_int(&args[1]), &value)) {                       \
            return overflow(err);                                                                  \
        }                                                                                          \
        *result = exg_arg_int(value);                                                              \
        return EXG_OK;                                                                             \
    }

CHECKED_BINARY(add, __builtin_add_overflow, +)
CHECKED_BINARY(sub, __builtin_sub_overflow, -)
CHECKED_BINARY(mul, __builtin_mul_overflow, *)

#define COMPARISON(name, operation)                                                                \
    exg_status exg_symbolic_##name(const exg_argument *args, uint32_t count, exg_argument *result, \
                                   exg_error *err)                                                 \
    {                                                                                              \
        (void)count;                                                                               \
        (void)err;                                                                                 \
        if (is_float(&args[0]) || is_float(&args[1])) {                                            \
            *result = exg_arg_bool(exg_get_float(&args[0]) operation exg_get_float(&args[1]));     \
        } else {                                                                                   \
            *result = exg_arg_bool(exg_get_int(&args[0]) operation exg_get_int(&args[1]));         \
        }                                                                                          \
        return EXG_OK;                                                                             \
    }

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

static exg_status divide(const exg_argument *args, bool remainder, exg_argument *result,
                         exg_error *err)
{
    int64_t a;
    int64_t b;
    int64_t quotient;

    if (is_float(&args[0]) || is_float(&args[1])) {
        double x = exg_get_float(&args[0]);
        double y = exg_get_float(&args[1]);
        double floored = floor(x / y);

        *result = exg_arg_float(remainder ? x - floored * y : floored);
        return EXG_OK;
    }
    a = exg_get_int(&args[0]);
    b = exg_get_int(&args[1]);
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return EXG_FAIL(err, MALFORMED, "SYM-011", "division of sizes by zero");
    }
    quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
    *result = exg_arg_int(remainder ? a - quotient * b : quotient);
    return EXG_OK;
}

exg_status exg_symbolic_floordiv(const exg_argument *args, uint32_t count, exg_argument *result,
                                 exg_error *err)
{
    (void)count;
    return divide(args, false, result, err);
}

exg_status exg_symbolic_mod(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    return divide(args, true, result, err);
}

exg_status exg_symbolic_truediv(const exg_argument *args, uint32_t count, exg_argument *result,
                                exg_error *err)
{
    (void)count;
    (void)err;
    *result = exg_arg_float(exg_get_float(&args[0]) / exg_get_float(&args[1]));
    return EXG_OK;
}

exg_status exg_symbolic_pow(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    int64_t power = 1;

    (void)count;
    if (is_float(&args[0]) || is_float(&args[1]) || exg_get_int(&args[1]) < 0) {
        *result = exg_arg_float(pow(exg_get_float(&args[0]), exg_get_float(&args[1])));
        return EXG_OK;
    }
    if (exg_get_int(&args[0]) >= -1 && exg_get_int(&args[0]) <= 1) {
        int64_t base = exg_get_int(&args[0]);

        *result = exg_arg_int(exg_get_int(&args[1]) == 0                   ? 1
                              : base < 0 && exg_get_int(&args[1]) % 2 == 0 ? 1
                                                                           : base);
        return EXG_OK;
    }
    for (int64_t i = exg_get_int(&args[1]); i > 0; i--) {
        if (!exg_mul_i64(power, exg_get_int(&args[0]), &power)) {
            return overflow(err);
        }
    }
    *result = exg_arg_int(power);
    return EXG_OK;
}

exg_status exg_symbolic_neg(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    const exg_argument zero_minus[] = {is_float(&args[0]) ? exg_arg_float(0) : exg_arg_int(0),
                                       args[0]};

    return exg_symbolic_sub(zero_minus, count, result, err);
}

exg_status exg_symbolic_pos(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    (void)err;
    *result = is_float(&args[0]) ? args[0] : exg_arg_int(exg_get_int(&args[0]));
    return EXG_OK;
}

static exg_status check_shift(const exg_argument *by, exg_error *err)
{
    return exg_get_int(by) < 0 ? EXG_FAIL(err, MALFORMED, "SYM-011",
                                          "a size is shifted by %" PRId64, exg_get_int(by))
                               : EXG_OK;
}

exg_status exg_symbolic_lshift(const exg_argument *args, uint32_t count, exg_argument *result,
                               exg_error *err)
{
    int64_t a = exg_get_int(&args[0]);
    int64_t by = exg_get_int(&args[1]);
    int64_t value = 0;

    (void)count;
    EXG_TRY(check_shift(&args[1], err));
    if (a != 0 && (by > 62 || !exg_mul_i64(a, INT64_C(1) << by, &value))) {
        return overflow(err);
    }
    *result = exg_arg_int(value);
    return EXG_OK;
}

exg_status exg_symbolic_rshift(const exg_argument *args, uint32_t count, exg_argument *result,
                               exg_error *err)
{
    int64_t by = exg_get_int(&args[1]);

    (void)count;
    EXG_TRY(check_shift(&args[1], err));
    *result = exg_arg_int(exg_get_int(&args[0]) >> (by > 63 ? 63 : by));
    return EXG_OK;
}

exg_status exg_symbolic_and(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    (void)err;
    *result = args[0].kind == EXG_ARGUMENT_BOOL
                  ? exg_arg_bool(exg_get_bool(&args[0]) && exg_get_bool(&args[1]))
                  : exg_arg_int(exg_get_int(&args[0]) & exg_get_int(&args[1]));
    return EXG_OK;
}

exg_status exg_symbolic_or(const exg_argument *args, uint32_t count, exg_argument *result,
                           exg_error *err)
{
    (void)count;
    (void)err;
    *result = args[0].kind == EXG_ARGUMENT_BOOL
                  ? exg_arg_bool(exg_get_bool(&args[0]) || exg_get_bool(&args[1]))
                  : exg_arg_int(exg_get_int(&args[0]) | exg_get_int(&args[1]));
    return EXG_OK;
}

exg_status exg_symbolic_not(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    (void)err;
    *result = exg_arg_bool(!exg_get_bool(&args[0]));
    return EXG_OK;
}

exg_status exg_symbolic_max(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    (void)err;
    *result = exg_get_float(&args[0]) >= exg_get_float(&args[1]) ? args[0] : args[1];
    return EXG_OK;
}

exg_status exg_symbolic_min(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    (void)err;
    *result = exg_get_float(&args[0]) <= exg_get_float(&args[1]) ? args[0] : args[1];
    return EXG_OK;
}

exg_status exg_symbolic_float(const exg_argument *args, uint32_t count, exg_argument *result,
                              exg_error *err)
{
    (void)count;
    (void)err;
    *result = exg_arg_float(exg_get_float(&args[0]));
    return EXG_OK;
}

exg_status exg_symbolic_sqrt(const exg_argument *args, uint32_t count, exg_argument *result,
                             exg_error *err)
{
    double value = exg_get_float(&args[0]);

    (void)count;
    if (value < 0) { /* as math.sqrt() raises */
        return EXG_FAIL(err, MALFORMED, "SYM-011", "the square root of %g", value);
    }
    *result = exg_arg_float(sqrt(value));
    return EXG_OK;
}

/* An integer is one already. */
#define TO_INTEGER(name, function)                                                                 \
    exg_status exg_symbolic_##name(const exg_argument *args, uint32_t count, exg_argument *result, \
                                   exg_error *err)                                                 \
    {                                                                                              \
        double value = function(exg_get_float(&args[0]));                                          \
                                                                                                   \
        (void)count;                                                                               \
        if (!is_float(&args[0])) {                                                                 \
            *result = exg_arg_int(exg_get_int(&args[0]));                                          \
            return EXG_OK;                                                                         \
        }                                                                                          \
        if (!(value >= -0x1p63 && value < 0x1p63)) {                                               \
            return overflow(err);                                                                  \
        }                                                                                          \
        *result = exg_arg_int((int64_t)value);                                                     \
        return EXG_OK;                                                                             \
    }

TO_INTEGER(trunc, trunc)
TO_INTEGER(floor, floor)
TO_INTEGER(ceil, ceil)
TO_INTEGER(round, nearbyint) /* halves to the even one, as Python's round() */

exg_status exg_symbolic_promote(const exg_argument *args, uint32_t count, exg_argument *result,
                                exg_error *err)
{
    (void)count;
    (void)err;
    *result = (exg_argument){.kind = EXG_ARGUMENT_SCALAR_TYPE,
                             .as_scalar_type =
                                 exg_promote_types(args[0].as_scalar_type, args[1].as_scalar_type)};
    return EXG_OK;
}

exg_status exg_symbolic_ite(const exg_argument *args, uint32_t count, exg_argument *result,
                            exg_error *err)
{
    (void)count;
    (void)err;
    *result = exg_get_bool(&args[0]) ? args[1] : args[2];
    return EXG_OK;
}

/* One element of a tensor: the run reads it. */
exg_status exg_symbolic_item(const exg_argument *args, uint32_t count, exg_argument *result,
                             exg_error *err)
{
    (void)args;
    (void)count;
    (void)result;
    return EXG_FAIL(err, UNSUPPORTED, "SYM-020", "an element is known only when the program runs");
}

/* (size, min?, max?) */
exg_status exg_symbolic_range(const exg_argument *args, uint32_t count, exg_argument *result,
                              exg_error *err)
{
    int64_t value = exg_get_int(&args[0]);

    (void)result;
    for (uint32_t i = 1; i < count && i < 3; i++) {
        if (args[i].kind == EXG_ARGUMENT_INT &&
            (i == 1 ? value < args[i].as_int : value > args[i].as_int)) {
            return EXG_FAIL(err, USAGE, "INP-007",
                            "the program asserts: a number %s %" PRId64 ", given is %" PRId64,
                            i == 1 ? "of at least" : "of at most", args[i].as_int, value);
        }
    }
    return EXG_OK;
}

/* ---- entry ----------------------------------------------------------------------- */

/* One of the sizes, or of the strides the program was traced with. */
static exg_status one_of(const exg_tensor_meta *meta, const exg_sym_int *of,
                         const exg_argument *args, uint32_t count, exg_argument *result,
                         exg_error *err)
{
    int64_t dim = count > 1 ? exg_get_int(&args[1]) : 0;

    dim += dim < 0 ? meta->rank : 0;
    if (dim < 0 || dim >= meta->rank) {
        return EXG_FAIL(err, MALFORMED, "NOD-017", "a size or stride of dim %" PRId64, dim);
    }
    *result = exg_arg_int(of[dim].value);
    return EXG_OK;
}

/* Do the strides follow the order of dims that a memory format names? Dims of size 1 have none. */
static bool is_contiguous(const exg_tensor_meta *meta, exg_memory_format format)
{
    uint32_t spatial = format == EXG_MEMORY_FORMAT_CHANNELS_LAST      ? 2
                       : format == EXG_MEMORY_FORMAT_CHANNELS_LAST_3D ? 3
                                                                      : 0;
    int64_t expected = 1;
    int64_t numel = 0;

    if (spatial > 0 && meta->rank != spatial + 2) {
        return false;
    }
    if (exg_tensor_meta_numel(meta, &numel) && numel == 0) {
        return true;
    }
    for (uint32_t k = 0; k < meta->rank; k++) {
        /* from the innermost: channels, then the spatial dims from the last, then the batch */
        uint32_t d = spatial == 0          ? meta->rank - 1 - k
                     : k == 0              ? 1
                     : k == meta->rank - 1 ? 0
                                           : meta->rank - k;

        if (meta->sizes[d].value != 1 && meta->strides[d].value != expected) {
            return false;
        }
        expected *= meta->sizes[d].value;
    }
    return true;
}

exg_status exg_operator_operands(const exg_operator *op, const exg_node *node, exg_argument *args,
                                 uint32_t *count, exg_error *err)
{
    const bool is_of_python = strncmp(op->target, "torch.ops.", 10) != 0;

    *count = is_of_python ? node->input_count : op->schema->argument_count;
    if (*count > EXG_SYMBOLIC_ARGUMENTS_MAX) {
        return EXG_FAIL(err, MALFORMED, "NOD-015", "%s with %u operands", op->target, *count);
    }
    if (!is_of_python) {
        return exg_operator_normalize(op, node, args, err);
    }
    for (uint32_t i = 0; i < *count; i++) {
        args[i] = node->inputs[i].arg;
    }
    return EXG_OK;
}

exg_status exg_operator_evaluate(const exg_operator *op, const exg_argument *args, uint32_t count,
                                 const exg_graph *graph, exg_argument *result, exg_error *err)
{
    EXG_REQUIRE(err, op, EXG_IF_ANY(count, args), result);
    const exg_tensor_meta *meta;
    int64_t numel;

    *result = exg_arg_none();
    if (op->id == EXG_OP_dim_default) {
        *result = exg_arg_int(graph->values[args[0].as_tensor].tensor->rank);
        return EXG_OK;
    }
    if (op->id == EXG_OP__nnz_default || op->id == EXG_OP_sparse_dim_default ||
        op->id == EXG_OP_dense_dim_default || op->id == EXG_OP_is_coalesced_default) {
        return EXG_OK;
    }
    switch (op->id) {
    case EXG_OP_sym_size_int:
        meta = graph->values[args[0].as_tensor].tensor;
        return one_of(meta, meta->sizes, args, count, result, err);
    case EXG_OP_sym_stride_int:
        meta = graph->values[args[0].as_tensor].tensor;
        return one_of(meta, meta->strides, args, count, result, err);
    case EXG_OP_sym_storage_offset_default:
        *result = exg_arg_int(graph->values[args[0].as_tensor].tensor->storage_offset.value);
        return EXG_OK;
    case EXG_OP_sym_numel_default:
        if (!exg_tensor_meta_numel(graph->values[args[0].as_tensor].tensor, &numel)) {
            return overflow(err);
        }
        *result = exg_arg_int(numel);
        return EXG_OK;
    case EXG_OP_sym_is_contiguous_default:
        *result = exg_arg_bool(
            is_contiguous(graph->values[args[0].as_tensor].tensor,
                          count > 1 ? args[1].as_memory_format : EXG_MEMORY_FORMAT_CONTIGUOUS));
        return EXG_OK;
    case EXG_OP__assert_scalar_default:
        if (!exg_get_bool(&args[0])) {
            return EXG_FAIL(err, USAGE, "INP-007", "the program asserts: %s",
                            count > 1 && args[1].kind == EXG_ARGUMENT_STRING ? args[1].as_string
                                                                             : "a condition");
        }
        return EXG_OK;
    default:
        return op->symbolic(args, count, result, err);
    }
}
