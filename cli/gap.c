/* gap.c - how far two tensors are apart. */
#include "cli/gap.h"

#include "cli/cli.h"
#include "cli/outputs.h"

#include <inttypes.h>
#include <math.h>

/* Bits of the fraction of a floating-point dtype. */
static int fraction_bits(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_F64:
        return 52;
    case EXG_DTYPE_F32:
        return 23;
    case EXG_DTYPE_F16:
        return 10;
    case EXG_DTYPE_BF16:
        return 7;
    case EXG_DTYPE_F8E5M2:
    case EXG_DTYPE_F8E5M2FNUZ:
        return 2;
    default:
        return 3; /* the other float8 */
    }
}

/* The unit of the last place of the larger one. */
static double unit_of(exg_dtype dtype, double a, double b)
{
    int exponent;

    (void)frexp(fmax(fabs(a), fabs(b)), &exponent);
    return ldexp(1, exponent - 1 - fraction_bits(dtype));
}

static bool is_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Of two dtypes: what the coarser rounds of the largest value, which sums of it may lose. */
static double atol_of_two(const exg_tensor *b, double rtol)
{
    double largest = 0;

    for (int64_t i = 0; i < exg_tensor_numel(b); i++) {
        double value = fabs(cli_number_at(b, i));

        largest = isfinite(value) && value > largest ? value : largest;
    }
    return fmax(1e-5, rtol * largest / 2);
}

/* The rest, of tensors of one shape. */
static void measure(cli_gap *gap, const exg_tensor *a, const exg_tensor *b, double rtol,
                    double atol)
{
    double largest = -1;
    double squares = 0;
    double apart = 0;

    for (int64_t i = 0; i < gap->count; i++) {
        double x = cli_number_at(a, i);
        double y = cli_number_at(b, i);
        double difference = fabs(x - y);

        if (isfinite(x) && isfinite(y)) {
            squares += y * y;
            apart += difference * difference;
        }
        if (is_equal(x, y)) {
            continue;
        }
        gap->different++;
        gap->wrong += !(difference <= atol + rtol * fabs(y));
        if (!(difference <= largest)) {
            largest = difference;
            gap->worst = i;
            gap->a = x;
            gap->b = y;
        }
    }
    gap->norm = apart == 0 ? 0 : sqrt(apart / squares);
}

cli_gap cli_find_gap(const exg_tensor *a, const exg_named_tensor *b, double rtol, double atol)
{
    cli_gap gap = {.other_shape = a->rank != b->rank};
    exg_tensor other = {.data = (void *)(uintptr_t)b->data, .dtype = b->dtype, .rank = a->rank};
    exg_tensor x = cli_parts_of(a);
    exg_tensor y;
    exg_dtype coarser;

    for (uint32_t d = 0; !gap.other_shape && d < a->rank; d++) {
        gap.other_shape = a->sizes[d] != b->shape[d];
        other.sizes[d] = b->shape[d];
    }
    if (gap.other_shape || exg_dtype_is_complex(a->dtype) != exg_dtype_is_complex(b->dtype)) {
        gap.other_shape = true;
        return gap;
    }
    exg_tensor_set_contiguous(&other);
    y = cli_parts_of(&other);
    coarser = cli_rtol_of(y.dtype) > cli_rtol_of(x.dtype) ? y.dtype : x.dtype;
    rtol = rtol == CLI_RTOL_OF_DTYPE ? cli_rtol_of(coarser) : rtol;
    if (exg_dtype_is_integral(x.dtype) && exg_dtype_is_integral(y.dtype)) {
        rtol = atol = 0;
    }
    if (atol == CLI_ATOL_OF_VALUES) {
        atol = x.dtype == y.dtype ? cli_atol_of(&y) : atol_of_two(&y, rtol);
    }
    gap.count = exg_tensor_numel(&x);
    measure(&gap, &x, &y, rtol, atol);
    if (exg_dtype_is_float(coarser) && isfinite(gap.a) && isfinite(gap.b) && gap.a != gap.b) {
        gap.ulp = fabs(gap.a - gap.b) / unit_of(coarser, gap.a, gap.b);
    }
    return gap;
}

void cli_put_gap(exg_text *text, const cli_gap *gap)
{
    if (gap->other_shape) {
        exg_text_puts(text, "another shape");
        return;
    }
    if (gap->different == 0) {
        exg_text_puts(text, "equal");
        return;
    }
    exg_text_printf(text,
                    "%" PRId64 " of %" PRId64 " elements, %" PRId64
                    " beyond the tolerance; worst [%" PRId64 "] is %.9g, expected %.9g; %.6g ULP, "
                    "relative norm %.3g",
                    gap->different, gap->count, gap->wrong, gap->worst, gap->a, gap->b, gap->ulp,
                    gap->norm);
}

void cli_put_gap_json(exg_text *text, const cli_gap *gap)
{
    exg_json_member_bool(text, "same_shape", !gap->other_shape);
    exg_json_member_int(text, "elements", gap->count);
    exg_json_member_int(text, "different", gap->different);
    exg_json_member_int(text, "beyond_tolerance", gap->wrong);
    exg_json_member_int(text, "worst", gap->worst);
    exg_json_put_key(text, "a");
    cli_json_number(text, gap->a, 17);
    exg_json_put_key(text, "b");
    cli_json_number(text, gap->b, 17);
    exg_json_put_key(text, "ulp");
    cli_json_number(text, gap->ulp, 6);
    exg_json_put_key(text, "norm");
    cli_json_number(text, gap->norm, 6);
}
