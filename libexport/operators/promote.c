/* promote.c - dtype promotion, as torch.promote_types and torch.result_type.
 * Order of categories: bool < integer < float < complex; u8 with a signed type
 * goes to the next wider signed one.
 */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"

#include <string.h>

static int category(exg_dtype dtype)
{
    switch (exg_dtype_class(dtype)) {
    case 'B':
        return 0;
    case 'U':
    case 'I':
        return 1;
    case 'F':
        return 2;
    default:
        return 3;
    }
}

static exg_dtype promote_integers(exg_dtype a, exg_dtype b)
{
    static const exg_dtype signed_of[] = {
        [1] = EXG_DTYPE_I8, [2] = EXG_DTYPE_I16, [4] = EXG_DTYPE_I32, [8] = EXG_DTYPE_I64};
    uint32_t bytes_a = exg_dtype_bytes(a);
    uint32_t bytes_b = exg_dtype_bytes(b);
    uint32_t bytes;

    if (exg_dtype_class(a) == exg_dtype_class(b)) {
        return bytes_a >= bytes_b ? a : b;
    }
    if (exg_dtype_class(a) == 'I') { /* make a the unsigned one */
        uint32_t swap = bytes_a;

        bytes_a = bytes_b;
        bytes_b = swap;
    }
    bytes = bytes_b > bytes_a ? bytes_b : bytes_a * 2;
    return signed_of[bytes > 8 ? 8 : bytes];
}

exg_dtype exg_promote_types(exg_dtype a, exg_dtype b)
{
    int category_a = category(a);
    int category_b = category(b);

    if (a == b) {
        return a;
    }
    if (category_a != category_b) {
        exg_dtype higher = category_a > category_b ? a : b;
        exg_dtype lower = category_a > category_b ? b : a;

        if (category(higher) == 3 && category(lower) == 2) {
            if (lower == EXG_DTYPE_F64) {
                return EXG_DTYPE_C128;
            }
            return lower == EXG_DTYPE_F32 && higher == EXG_DTYPE_C32 ? EXG_DTYPE_C64 : higher;
        }
        return higher;
    }
    if (category_a == 1) {
        return promote_integers(a, b);
    }
    if (category_a == 2 && exg_dtype_bytes(a) == exg_dtype_bytes(b)) {
        return EXG_DTYPE_F32; /* f16 with bf16 */
    }
    return exg_dtype_bytes(a) >= exg_dtype_bytes(b) ? a : b;
}

exg_dtype exg_number_dtype(exg_argument_kind kind, exg_dtype beside)
{
    if (kind == EXG_ARGUMENT_FLOAT && exg_dtype_is_integral(beside)) {
        return EXG_DTYPE_F32;
    }
    if (kind == EXG_ARGUMENT_COMPLEX) {
        return exg_promote_types(beside, EXG_DTYPE_C64);
    }
    return kind == EXG_ARGUMENT_INT && beside == EXG_DTYPE_B8 ? EXG_DTYPE_I64 : beside;
}

exg_dtype exg_real_of(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_C128  ? EXG_DTYPE_F64
           : dtype == EXG_DTYPE_C64 ? EXG_DTYPE_F32
           : dtype == EXG_DTYPE_C32 ? EXG_DTYPE_F16
                                    : dtype;
}

exg_dtype exg_complex_of(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F64        ? EXG_DTYPE_C128
           : dtype == EXG_DTYPE_F16      ? EXG_DTYPE_C32
           : exg_dtype_is_complex(dtype) ? dtype
                                         : EXG_DTYPE_C64;
}

/* Scalars that take part in promotion; the others (alpha, negative_slope, ...)
 * are converted to the result's type. */
static bool scalar_promotes(const char *name)
{
    static const char *const names[] = {"self", "other", "exponent", "min", "max", "end"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

#define NO_DTYPE EXG_DTYPE_COUNT

static void merge(exg_dtype *into, exg_dtype dtype)
{
    *into = *into == NO_DTYPE ? dtype : exg_promote_types(*into, dtype);
}

/* torch's combine_categories: a lower category only adds its kind, not its width. */
static exg_dtype combine(exg_dtype higher, exg_dtype lower)
{
    if (higher == NO_DTYPE || lower == NO_DTYPE) {
        return higher == NO_DTYPE ? lower : higher;
    }
    if (exg_dtype_is_complex(higher) ||
        (exg_dtype_is_float(higher) && !exg_dtype_is_complex(lower))) {
        return higher;
    }
    if (higher == EXG_DTYPE_B8 || !exg_dtype_is_integral(lower)) {
        return exg_promote_types(higher, lower);
    }
    return higher;
}

void exg_pointwise_dtypes(const exg_operator *op, const exg_argument *args, const exg_graph *graph,
                          exg_dtype *compute, exg_dtype *result)
{
    exg_dtype with_dims = NO_DTYPE;
    exg_dtype zero_dim = NO_DTYPE;
    exg_dtype scalar = NO_DTYPE;
    exg_dtype first = NO_DTYPE;
    exg_dtype asked = NO_DTYPE;
    exg_dtype promoted;

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const exg_argument *arg = &args[i];
        bool counts = op->pointwise != EXG_POINTWISE_WHERE || i > 0;

        if (arg->kind == EXG_ARGUMENT_TENSOR) {
            const exg_tensor_meta *meta = graph->values[arg->as_tensor].tensor;

            first = first == NO_DTYPE ? meta->dtype : first;
            if (counts) {
                merge(meta->rank > 0 ? &with_dims : &zero_dim, meta->dtype);
            }
        } else if (arg->kind == EXG_ARGUMENT_SCALAR_TYPE) {
            asked = arg->as_scalar_type;
        } else if (scalar_promotes(op->schema->arguments[i].name)) {
            if (arg->kind == EXG_ARGUMENT_FLOAT) {
                merge(&scalar, EXG_DTYPE_F32);
            } else if (arg->kind == EXG_ARGUMENT_INT) {
                merge(&scalar, EXG_DTYPE_I64);
            } else if (arg->kind == EXG_ARGUMENT_BOOL) {
                merge(&scalar, EXG_DTYPE_B8);
            } else if (arg->kind == EXG_ARGUMENT_COMPLEX) {
                merge(&scalar, EXG_DTYPE_C64);
            }
        }
    }
    promoted = combine(with_dims, combine(zero_dim, scalar));
    if (op->pointwise == EXG_POINTWISE_FLOAT && exg_dtype_is_integral(promoted)) {
        promoted = EXG_DTYPE_F32;
    }
    if (op->pointwise == EXG_POINTWISE_NUMBER && promoted == EXG_DTYPE_B8) {
        promoted = EXG_DTYPE_I64;
    }
    *compute = promoted;
    *result = promoted;
    if (op->pointwise == EXG_POINTWISE_BOOL) {
        *result = EXG_DTYPE_B8;
    } else if (op->pointwise == EXG_POINTWISE_FIRST) {
        *compute = *result = first;
    } else if (op->pointwise == EXG_POINTWISE_CAST) {
        *compute = *result = asked == NO_DTYPE ? first : asked;
    } else if (op->id == EXG_OP_abs_default) {
        *result = exg_real_of(promoted);
    }
}
