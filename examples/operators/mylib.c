/* mylib.c - operators that are not PyTorch's, for exg.
 *
 *   cmake -S examples/operators -B build/mylib && cmake --build build/mylib
 *   exg run model.pt2 --ops build/mylib/libmylib.so
 *
 * In Python they are torch.library's (fixtures/operator_library/make.py); here they are in C.
 */
#include <exg/emit.h>
#include <exg/operator_library.h>

#include <math.h>
#include <string.h>

/* The result is like the first tensor. */
static exg_status shape_as_input(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0] = call->inputs[0];
    return EXG_OK;
}

static exg_status need_floats(const exg_operator_call *call, exg_error *err)
{
    for (uint32_t i = 0; i < call->input_count; i++) {
        const exg_tensor *t = &call->inputs[i];

        if (!exg_tensor_is_absent(t) && t->dtype != EXG_DTYPE_F32) {
            return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "tensor %u is not float32", i);
        }
    }
    return EXG_OK;
}

static int64_t count_of(const exg_tensor *t)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        count *= t->sizes[d];
    }
    return count;
}

/* ---- mylib::soft_threshold: element by element ---------------------------------------------- */

static exg_status soft_threshold(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;
    float *y = call->outputs[0].data;
    float limit = (float)exg_operator_float(call, 1);

    if (limit < 0) {
        return EXG_OPERATOR_FAIL(err, USAGE, "the limit is %g, less than 0", (double)limit);
    }
    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        y[i] = copysignf(fmaxf(fabsf(x[i]) - limit, 0), x[i]);
    }
    return need_floats(call, err);
}

/* On a GPU: the addresses of x and y, then what launch_soft_threshold() says. */
static const char soft_threshold_text[] =
    "typedef struct parameters {\n"
    "    const float *x;\n"
    "    float *y;\n"
    "    long long count;\n"
    "    float limit;\n"
    "} parameters;\n"
    "\n"
    "extern \"C\" __global__ void soft_threshold(parameters p)\n"
    "{\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "\n"
    "    if (i < p.count) {\n"
    "        p.y[i] = copysignf(fmaxf(fabsf(p.x[i]) - p.limit, 0), p.x[i]);\n"
    "    }\n"
    "}\n";

static exg_status launch_soft_threshold(const exg_operator_call *call, exg_operator_launch *launch,
                                        exg_error *err)
{
    struct {
        int64_t count;
        float limit;
    } numbers = {count_of(&call->inputs[0]), (float)exg_operator_float(call, 1)};

    if (call->inputs[0].dtype != EXG_DTYPE_F32 || numbers.limit < 0) {
        return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "the host says what is wrong");
    }
    memcpy(launch->parameters, &numbers, sizeof(numbers));
    launch->parameter_bytes = sizeof(numbers);
    launch->blocks[0] = (uint32_t)((numbers.count + launch->threads - 1) / launch->threads);
    return EXG_OK;
}

/* ---- mylib::project: it splits over ranks, and its rows over threads ------------------------- */

static exg_status project_shape(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0], *weight = &call->inputs[1];

    if (x->rank != 2 || weight->rank != 2 || x->sizes[1] != weight->sizes[1]) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "x and weight do not fit");
    }
    call->outputs[0].dtype = x->dtype;
    call->outputs[0].rank = 2;
    call->outputs[0].sizes[0] = x->sizes[0];
    call->outputs[0].sizes[1] = weight->sizes[0];
    return EXG_OK;
}

static void project_row(void *context, uint32_t row)
{
    const exg_operator_call *call = context;
    int64_t in = call->inputs[1].sizes[1], out = call->inputs[1].sizes[0];
    const float *x = (const float *)call->inputs[0].data + row * in;
    const float *weight = call->inputs[1].data;
    float *y = (float *)call->outputs[0].data + row * out;

    for (int64_t o = 0; o < out; o++) {
        y[o] = 0;
        for (int64_t i = 0; i < in; i++) {
            y[o] += x[i] * weight[o * in + i];
        }
    }
}

static exg_status project(exg_operator_call *call, exg_error *err)
{
    exg_status status = need_floats(call, err);

    if (status == EXG_OK) {
        call->parallel(call, project_row, call, (uint32_t)call->inputs[0].sizes[0]);
    }
    return status;
}

/* What goes back: by x gradient @ weight, by weight gradient^T @ x. */
static exg_ref project_derivative(exg_builder *b, const exg_argument *args, const exg_ref *results,
                                  const exg_ref *gradients, uint32_t position)
{
    (void)results;
    if (position == 0) {
        return EMIT(b, mm_default, gradients[0], args[1]);
    }
    return EMIT(b, mm_default, EMIT(b, t_default, gradients[0]), args[0]);
}

/* ---- mylib::halves: a list of results -------------------------------------------------------- */

static exg_status halves_shape(exg_operator_call *call, exg_error *err)
{
    const exg_argument *sizes = &call->args[1];

    if (call->inputs[0].rank == 0 || !exg_operator_lengthen(call, sizes->count)) {
        return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "%u parts of x", sizes->count);
    }
    for (uint32_t i = 0; i < sizes->count; i++) {
        call->outputs[i] = call->inputs[0];
        call->outputs[i].sizes[0] = sizes->as_ints[i];
    }
    return EXG_OK;
}

static exg_status halves(exg_operator_call *call, exg_error *err)
{
    const float *from = call->inputs[0].data;
    int64_t left = count_of(&call->inputs[0]);

    for (uint32_t i = 0; i < call->output_count; i++) {
        int64_t count = count_of(&call->outputs[i]);

        if (count > left) {
            return EXG_OPERATOR_FAIL(err, MALFORMED, "the parts are more than the whole");
        }
        if (count > 0) {
            memcpy(call->outputs[i].data, from, (size_t)count * sizeof(float));
        }
        from += count;
        left -= count;
    }
    return need_floats(call, err);
}

/* ---- mylib::positives: as long as the data say ----------------------------------------------- */

static exg_status positives_length(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;

    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        call->length += x[i] > 0;
    }
    return need_floats(call, err);
}

static exg_status positives_shape(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0].dtype = EXG_DTYPE_F32;
    call->outputs[0].rank = 1;
    call->outputs[0].sizes[0] = call->length;
    return EXG_OK;
}

static exg_status positives(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;
    float *y = call->outputs[0].data;

    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        if (x[i] > 0) {
            *y++ = x[i];
        }
    }
    return need_floats(call, err);
}

/* ---- mylib::count_and_add, mylib::scale_all: they write ------------------------------------- */

static exg_status mean_shape(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0] = call->inputs[1];
    return EXG_OK;
}

/* (Tensor x, Tensor(a!) total, Tensor(b!) seen, int weight): what is written is an input. */
static exg_status count_and_add(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0];
    float *total = call->inputs[1].data, *seen = call->inputs[2].data;
    float *mean = call->outputs[0].data;
    float weight = (float)exg_operator_int(call, 3);

    *seen += (float)x->sizes[0];
    for (int64_t column = 0; column < x->sizes[1]; column++) {
        float sum = 0;

        for (int64_t row = 0; row < x->sizes[0]; row++) {
            sum += ((const float *)x->data)[row * x->sizes[1] + column];
        }
        total[column] += sum * weight;
        mean[column] = total[column] / *seen;
    }
    return need_floats(call, err);
}

static exg_status scale_all(exg_operator_call *call, exg_error *err)
{
    for (uint32_t i = 0; i < call->input_count; i++) {
        float *x = call->inputs[i].data;

        for (int64_t k = 0; k < count_of(&call->inputs[i]); k++) {
            x[k] *= (float)exg_operator_float(call, 1);
        }
    }
    return need_floats(call, err);
}

/* ---- mylib::swish: made of PyTorch's operators ------------------------------------------------
 */

static void swish(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_argument *gate = exg_is_none(&args[1]) ? &args[0] : &args[1];

    results[0] =
        exg_arg_ref(EMIT(b, mul_Tensor, args[0], EMIT(b, sigmoid_default, exg_get_ref(gate))));
}

/* ---- mylib::noted: PyTorch orders it by tokens ------------------------------------------------
 */

static exg_status noted(exg_operator_call *call, exg_error *err)
{
    size_t bytes = (size_t)count_of(&call->inputs[0]) * sizeof(float);

    if (bytes > 0) {
        memcpy(call->outputs[0].data, call->inputs[0].data, bytes);
    }
    return need_floats(call, err);
}

/* As an assertion of the user's own. */
static exg_status watch(exg_operator_call *call, exg_error *err)
{
    const float *x = call->inputs[0].data;

    for (int64_t i = 0; i < count_of(&call->inputs[0]); i++) {
        if (!isfinite(x[i])) {
            return EXG_OPERATOR_FAIL(err, MALFORMED, "%s: element %lld is no number",
                                     call->args[1].as_string, (long long)i);
        }
    }
    return need_floats(call, err);
}

static const exg_operator_definition operators[] = {
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::soft_threshold(Tensor x, float limit=0.5) -> Tensor",
     .shape = shape_as_input,
     .kernel = soft_threshold,
     .device_text = soft_threshold_text,
     .device_entry = "soft_threshold",
     .device_launch = launch_soft_threshold},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::project(Tensor x, Tensor weight) -> Tensor",
     .shape = project_shape,
     .kernel = project,
     .derivative = project_derivative,
     .sharding = "bi,oi->bo"},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::halves(Tensor x, SymInt[] sizes) -> Tensor[]",
     .shape = halves_shape,
     .kernel = halves},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::positives(Tensor x) -> Tensor",
     .shape = positives_shape,
     .kernel = positives,
     .length = positives_length},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::count_and_add(Tensor x, Tensor(a1!) total, Tensor(a2!) seen, SymInt "
               "weight=1) -> Tensor",
     .shape = mean_shape,
     .kernel = count_and_add},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::scale_all(Tensor(a0!)[] xs, float factor) -> ()",
     .kernel = scale_all},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::swish(Tensor x, Tensor? gate=None) -> Tensor",
     .decomposition = swish},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::noted(Tensor x) -> Tensor",
     .shape = shape_as_input,
     .kernel = noted,
     .effect = true},
    {.size = sizeof(exg_operator_definition),
     .schema = "mylib::watch(Tensor x, str what) -> ()",
     .kernel = watch,
     .effect = true},
};

EXG_OPERATOR_LIBRARY(operators, "mylib")
