/* outputs.c - outputs of a run: compared with what is expected, and summed up. */
#include "cli/outputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

double cli_plain(double x)
{
    return isnan(x) ? fabs(x) : x;
}

double cli_number_at(const exg_tensor *t, int64_t i)
{
    return cli_plain(
        exg_element_value(t->dtype, (const char *)t->data + i * exg_dtype_bytes(t->dtype)));
}

static void put_form(exg_text *text, exg_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    exg_text_printf(text, "%s[", exg_dtype_short_name(dtype));
    for (uint32_t d = 0; d < rank; d++) {
        exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", sizes[d]);
    }
    exg_text_putc(text, ']');
}

static exg_status other_form(const char *name, const exg_tensor *got, const exg_named_tensor *want,
                             exg_error *err)
{
    exg_text forms = EXG_TEXT_EMPTY;
    exg_status status;

    put_form(&forms, got->dtype, got->rank, got->sizes);
    exg_text_puts(&forms, ", expected ");
    put_form(&forms, want->dtype, want->rank, want->shape);
    status =
        EXG_FAIL(err, MISMATCH, "RUN-003", "output \"%s\" is %s", name, exg_text_string(&forms));
    exg_text_free(&forms);
    return exg_error_fix(err, status, "is the file of this program, and of these inputs?");
}

static exg_status compare_shapes(const char *name, const exg_tensor *got,
                                 const exg_named_tensor *want, exg_error *err)
{
    bool same = got->rank == want->rank &&
                (got->dtype == want->dtype || /* NumPy's files have no complex32 */
                 (got->dtype == EXG_DTYPE_C32 && want->dtype == EXG_DTYPE_C64));

    for (uint32_t d = 0; same && d < got->rank; d++) {
        same = got->sizes[d] == want->shape[d];
    }
    return same ? EXG_OK : other_form(name, got, want, err);
}

double cli_rtol_of(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_BF16                            ? 1.6e-2
           : dtype == EXG_DTYPE_F16 || dtype == EXG_DTYPE_C32 ? 1e-3
                                                              : 1e-4;
}

double cli_atol_of(const exg_tensor *tensor)
{
    double largest = 0;

    if (tensor->dtype != EXG_DTYPE_F32 && tensor->dtype != EXG_DTYPE_F64) {
        return 1e-5;
    }
    for (int64_t i = 0; i < exg_tensor_numel(tensor); i++) {
        double value = fabs(cli_number_at(tensor, i));

        largest = isfinite(value) && value > largest ? value : largest;
    }
    return fmax(1e-5, 1e-6 * largest);
}

bool cli_output_tensor(const exg_session_output *output, exg_tensor *tensor)
{
    const exg_argument *constant = &output->constant;

    *tensor = (exg_tensor){0};
    switch (constant->kind) {
    case EXG_ARGUMENT_TENSOR:
        *tensor = output->tensor;
        return true;
    case EXG_ARGUMENT_INT:
        tensor->dtype = EXG_DTYPE_I64;
        tensor->data = (void *)(uintptr_t)&constant->as_int;
        return true;
    case EXG_ARGUMENT_FLOAT:
        tensor->dtype = EXG_DTYPE_F64;
        tensor->data = (void *)(uintptr_t)&constant->as_float;
        return true;
    case EXG_ARGUMENT_BOOL:
        tensor->dtype = EXG_DTYPE_B8;
        tensor->data = (void *)(uintptr_t)&constant->as_bool;
        return true;
    default:
        return false;
    }
}

exg_tensor cli_parts_of(const exg_tensor *tensor)
{
    exg_tensor parts = *tensor;

    if (exg_dtype_is_complex(tensor->dtype)) {
        parts.dtype = tensor->dtype == EXG_DTYPE_C32   ? EXG_DTYPE_F16
                      : tensor->dtype == EXG_DTYPE_C64 ? EXG_DTYPE_F32
                                                       : EXG_DTYPE_F64;
        parts.rank = 1;
        parts.sizes[0] = 2 * exg_tensor_numel(tensor);
        parts.strides[0] = 1;
    }
    return parts;
}

exg_status cli_compare(const char *name, const exg_tensor *got, const exg_named_tensor *want,
                       double rtol, double atol, exg_error *err)
{
    exg_tensor parts = cli_parts_of(got);
    exg_tensor expected = *got;
    int64_t numel = exg_tensor_numel(&parts);
    int64_t wrong = 0;
    int64_t worst = 0;
    double largest = -1;

    EXG_TRY(compare_shapes(name, got, want, err));
    rtol = rtol == CLI_RTOL_OF_DTYPE ? cli_rtol_of(got->dtype) : rtol;
    if (exg_dtype_is_integral(got->dtype)) {
        rtol = atol = 0;
        if (numel > 0 && memcmp(got->data, want->data, want->bytes) == 0) {
            return EXG_OK;
        }
    }
    expected.dtype = want->dtype;
    expected.data = (void *)(uintptr_t)want->data;
    expected = cli_parts_of(&expected);
    atol = atol == CLI_ATOL_OF_VALUES ? cli_atol_of(&expected) : atol;
    for (int64_t i = 0; i < numel; i++) {
        double a = cli_number_at(&parts, i);
        double b = cli_number_at(&expected, i);
        double difference = fabs(a - b);

        if ((isnan(a) && isnan(b)) || a == b || difference <= atol + rtol * fabs(b)) {
            continue;
        }
        wrong++;
        if (!(difference <= largest)) {
            largest = difference;
            worst = i;
        }
    }
    if (wrong == 0) {
        return EXG_OK;
    }
    return EXG_FAIL(err, MISMATCH, "RUN-003",
                    "output \"%s\": %" PRId64 " of %" PRId64 " elements differ; worst [%" PRId64
                    "] is %.9g, expected %.9g",
                    name, wrong, numel, worst, cli_number_at(&parts, worst),
                    cli_number_at(&expected, worst));
}
