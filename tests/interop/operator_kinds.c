/* operator_kinds.c - operators with arguments of every kind, for run_operator_library.py. */
#include <exg/emit.h>
#include <exg/operator_library.h>

#include <string.h>

static int64_t count_of(const exg_tensor *t)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        count *= t->sizes[d];
    }
    return count;
}

static exg_status shape_as_input(exg_operator_call *call, exg_error *err)
{
    (void)err;
    for (uint32_t o = 0; o < call->output_count; o++) {
        call->outputs[o] = call->inputs[0];
    }
    return EXG_OK;
}

static double sum_of(const exg_argument *list)
{
    double sum = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        sum += list->kind == EXG_ARGUMENT_INTS ? (double)list->as_ints[i] : list->as_floats[i];
    }
    return sum;
}

/* x * s + the numbers; x + the first of `more` + what the others say. */
static exg_status kinds(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;
    const float *more = call->input_count > 1 ? call->inputs[1].data : NULL;
    float *first = call->outputs[0].data, *second = call->outputs[1].data;
    double sum = sum_of(&call->args[5]) + sum_of(&call->args[6]) + exg_operator_bool(call, 7);
    float others = strcmp(call->args[2].as_string, "mean") == 0;

    (void)err;
    others +=
        exg_operator_is_none(call, 3) ? 0 : (float)(call->args[3].as_scalar_type == EXG_DTYPE_F64);
    others += exg_operator_is_none(call, 4) ? 0 : 10;
    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        first[i] = (float)((double)x[i] * exg_operator_float(call, 1) + sum);
        second[i] = x[i] + (more == NULL ? 0 : more[i]) + others;
    }
    return EXG_OK;
}

static exg_status twice_out(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;
    float *out = call->inputs[1].data;

    (void)err;
    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        out[i] = 2 * x[i];
    }
    return EXG_OK;
}

static exg_status count_maybe(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;
    float *more = exg_tensor_is_absent(&call->inputs[1]) ? NULL : call->inputs[1].data;
    float *out = call->outputs[0].data;

    (void)err;
    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        out[i] = x[i] + 1;
        if (more != NULL) {
            more[i] += x[i];
        }
    }
    return EXG_OK;
}

static exg_status swap(exg_operator_call *call, exg_error *err)
{
    float *a = call->inputs[0].data, *b = call->inputs[1].data;
    float *sum = call->outputs[0].data, *gap = call->outputs[1].data;

    (void)err;
    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        float kept = a[i];

        sum[i] = a[i] + b[i];
        gap[i] = a[i] - b[i];
        a[i] = b[i];
        b[i] = kept;
    }
    return EXG_OK;
}

/* Numbers where PyTorch's operators have tensors. */
static void quick(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref gate = EMIT(b, sigmoid_default, EMIT(b, mul_Tensor, args[0], 1.702));

    results[0] = exg_arg_ref(EMIT(b, add_Tensor, EMIT(b, mul_Tensor, args[0], gate), 1));
}

static exg_status stats_shape(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0];

    if (x->rank != 2) {
        return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "x has %u dims, not 2", x->rank);
    }
    call->outputs[0] = *x;
    for (uint32_t o = 1; o < 3; o++) {
        call->outputs[o].dtype = x->dtype;
        call->outputs[o].rank = 1;
        call->outputs[o].sizes[0] = x->sizes[o - 1];
    }
    return EXG_OK;
}

/* x * scale, and the sums of its rows and of its columns. */
static exg_status stats(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0], *scale = &call->inputs[1];
    float *y = call->outputs[0].data, *rows = call->outputs[1].data,
          *columns = call->outputs[2].data;
    int64_t width = x->sizes[1], count = count_of(x);

    (void)err;
    memset(rows, 0, (size_t)x->sizes[0] * sizeof(float));
    memset(columns, 0, (size_t)width * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        int64_t column = i % width;

        y[i] = ((const float *)x->data)[i];
        if (!exg_tensor_is_absent(scale)) {
            y[i] *= ((const float *)scale->data)[scale->sizes[0] == 1 ? 0 : column];
        }
        rows[i / width] += y[i];
        columns[column] += y[i];
    }
    return EXG_OK;
}

static const exg_operator_definition operators[] = {
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::all(Tensor x, Scalar s=2, str mode=\"sum\", *, ScalarType? dtype=None, "
               "Device? device=None, SymInt[] a=[1, 2], float[] f=[], bool flag=False, Tensor[]? "
               "more=None) -> (Tensor, Tensor)",
     .shape = shape_as_input,
     .kernel = kinds},
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
     .kernel = twice_out},
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::count_(Tensor x, Tensor(a!)? more=None) -> Tensor",
     .shape = shape_as_input,
     .kernel = count_maybe},
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::swap(Tensor(a!) a, Tensor(b!) b) -> (Tensor, Tensor)",
     .shape = shape_as_input,
     .kernel = swap},
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::double.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
     .kernel = twice_out},
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::quick(Tensor x) -> Tensor",
     .decomposition = quick},
    {.size = sizeof(exg_operator_definition),
     .schema = "kinds::stats(Tensor x, Tensor? scale=None) -> (Tensor, Tensor, Tensor)",
     .shape = stats_shape,
     .kernel = stats,
     .sharding = "bd,d->bd,b,d"},
};

EXG_OPERATOR_LIBRARY(operators, "kinds")
