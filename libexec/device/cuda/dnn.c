/* dnn.c - see dnn.h. Of the algorithms that the library proposes the first that always gives the
 * same bits and is content with the workspace is taken, when the plan is made; descriptors live as
 * long as the asking. f32 is multiplied as f32, not as TF32.
 *
 * activation(convolution + z + bias) is one call, which rounds once, with the one algorithm that it
 * allows where there is no activation. What the library then says it cannot do so is done part by
 * part, the sum in the result: bias and z first, so that it is rounded as rarely as can be. So is a
 * transposed convolution, which is the way back of one: from what that gives to what it was given.
 */
#include "libexec/device/cuda/dnn.h"
#include "libexec/device/cuda/epilogue.h"
#include "libexec/device/cuda/library.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#define NEWEST 9
#define OLDEST 8

#define CHOICES           8
#define WORKSPACE_MOST    (256u << 20) /* bytes */
#define CROSS_CORRELATION 1
#define DETERMINISTIC     1
#define FORMAT_NCHW       0
#define MATH_DEFAULT      0
#define MATH_TENSOR       1 /* matrix units, of narrow numbers */
#define MATH_FMA          3

#define ALGORITHM_PRECOMPUTED 1 /* implicit, precomputed GEMM */
#define ACTIVATION_RELU       1
#define ACTIVATION_IDENTITY   5
#define PROPAGATE_NAN         1

typedef struct dnn_choice { /* cudnnConvolutionFwdAlgoPerf_t */
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
} dnn_choice;

typedef struct dnn_params {
    const void *x, *w, *bias, *z;
    void *y, *workspace;
    bool is_transposed;
    int type, compute, rank; /* rank: of the tensors, 4 or 5 */
    int of_x[5], of_w[5], of_y[5];
    int padding[3], stride[3], dilation[3], groups;
    int activation;
    dnn_choice choice;
} dnn_params;

/* What a call is described by. */
typedef struct description {
    dnn_tensor x, y, bias;
    dnn_filter w;
    dnn_convolution convolution;
    dnn_activation activation;
} description;

EXG_CUDA_LIBRARY(dnn, EXG_DNN_CALLS, "cudnn", NEWEST, OLDEST)

/* ---- describing ------------------------------------------------------------------------ */

static void forget(const exg_cuda_dnn *dnn, const description *d)
{
    const dnn_tensor tensors[] = {d->x, d->y, d->bias};

    for (int i = 0; i < 3; i++) {
        if (tensors[i] != NULL) {
            (void)dnn->tensor_destroy(tensors[i]);
        }
    }
    if (d->w != NULL) {
        (void)dnn->filter_destroy(d->w);
    }
    if (d->convolution != NULL) {
        (void)dnn->convolution_destroy(d->convolution);
    }
    if (d->activation != NULL) {
        (void)dnn->activation_destroy(d->activation);
    }
}

/* Contiguous. */
static int describe_tensor(const exg_cuda_dnn *dnn, const dnn_params *p, const int *sizes,
                           dnn_tensor *tensor)
{
    int strides[5];
    int status = dnn->tensor_create(tensor);

    strides[p->rank - 1] = 1;
    for (int d = p->rank - 1; d-- > 0;) {
        strides[d] = strides[d + 1] * sizes[d + 1];
    }
    return status != 0 ? status : dnn->tensor_set(*tensor, p->type, p->rank, sizes, strides);
}

static int describe_convolution(const exg_cuda_dnn *dnn, const dnn_params *p, int math,
                                dnn_convolution *made)
{
    int status = dnn->convolution_create(made);

    if (status == 0) {
        status = dnn->convolution_set(*made, p->rank - 2, p->padding, p->stride, p->dilation,
                                      CROSS_CORRELATION, p->compute);
    }
    if (status == 0) {
        status = dnn->set_groups(*made, p->groups);
    }
    return status != 0 ? status : dnn->set_math(*made, math);
}

static int describe(const exg_cuda_dnn *dnn, const dnn_params *p, int math, description *d)
{
    int of_bias[5] = {1, p->of_y[1], 1, 1, 1};
    int status = describe_tensor(dnn, p, p->of_x, &d->x);

    status = status != 0 ? status : describe_tensor(dnn, p, p->of_y, &d->y);
    status = status != 0 ? status : describe_tensor(dnn, p, of_bias, &d->bias);
    status = status != 0 ? status : dnn->filter_create(&d->w);
    status = status != 0 ? status : dnn->filter_set(d->w, p->type, FORMAT_NCHW, p->rank, p->of_w);
    status = status != 0 ? status : describe_convolution(dnn, p, math, &d->convolution);
    status = status != 0 ? status : dnn->activation_create(&d->activation);
    return status != 0 ? status
                       : dnn->activation_set(d->activation, p->activation, PROPAGATE_NAN, 0);
}

/* ---- choosing -------------------------------------------------------------------------- */

/* Can all be one call with this algorithm? */
static bool goes_whole(const dnn_params *p, int algorithm, bool has_bias)
{
    return has_bias && !p->is_transposed &&
           (p->activation == ACTIVATION_RELU || algorithm == ALGORITHM_PRECOMPUTED);
}

static int propose(const exg_cuda_dnn *dnn, const dnn_params *p, const description *d, int *count,
                   dnn_choice choices[CHOICES])
{
    return p->is_transposed ? dnn->choose_backward(dnn->handle, d->w, d->x, d->convolution, d->y,
                                                   CHOICES, count, choices)
                            : dnn->choose(dnn->handle, d->x, d->w, d->convolution, d->y, CHOICES,
                                          count, choices);
}

/* The best that does all in one call, else the best. */
static bool choose(const exg_cuda_dnn *dnn, exg_dtype dtype, bool has_bias, dnn_params *p)
{
    const int math = dtype == EXG_DTYPE_F32   ? MATH_FMA
                     : dtype == EXG_DTYPE_F64 ? MATH_DEFAULT
                                              : MATH_TENSOR;
    dnn_choice choices[CHOICES];
    description d = {0};
    int count = 0;
    bool chosen = false;

    if (describe(dnn, p, math, &d) == 0 && propose(dnn, p, &d, &count, choices) == 0) {
        for (int i = 0; i < count; i++) {
            bool is_good = choices[i].status == 0 && choices[i].memory <= WORKSPACE_MOST &&
                           choices[i].determinism == DETERMINISTIC;

            if (is_good && (!chosen || (goes_whole(p, choices[i].algorithm, has_bias) &&
                                        !goes_whole(p, p->choice.algorithm, has_bias)))) {
                p->choice = choices[i];
                chosen = true;
            }
        }
    }
    forget(dnn, &d);
    return chosen;
}

static bool types_of(exg_dtype dtype, dnn_params *p)
{
    switch (dtype) {
    case EXG_DTYPE_F32:
        p->type = 0;
        break;
    case EXG_DTYPE_F64:
        p->type = 1;
        break;
    case EXG_DTYPE_F16:
        p->type = 2;
        break;
    case EXG_DTYPE_BF16:
        p->type = 9;
        break;
    default:
        return false;
    }
    p->compute = dtype == EXG_DTYPE_F64 ? 1 : 0;
    return true;
}

/* Tensors of four dimensions, where the first spatial one of three is no dimension. */
static bool sizes_of(const cuda_convolution_params *c, dnn_params *p)
{
    bool is_flat = c->size[0] == 1 && c->kernel[0] == 1 && c->result[0] == 1 && c->padding[0] == 0;
    const int64_t ins = c->groups * c->in_channels;
    const int64_t outs = c->groups * c->out_channels;
    const int64_t heads[3][2] = {
        {c->batch, ins},
        {c->is_transposed ? ins : outs, c->is_transposed ? c->out_channels : c->in_channels},
        {c->batch, outs}};
    const int64_t *spatial[3] = {c->size, c->kernel, c->result};
    int *to[3] = {p->of_x, p->of_w, p->of_y};

    p->rank = is_flat ? 4 : 5;
    p->groups = (int)c->groups;
    p->is_transposed = c->is_transposed != 0;
    for (int t = 0; t < 3; t++) {
        int64_t numel = 1;

        for (int d = 0; d < p->rank; d++) {
            int64_t size = d < 2 ? heads[t][d] : spatial[t][d - 2 + 5 - p->rank];

            numel *= size;
            if (size < 1 || numel > INT32_MAX) {
                return false;
            }
            to[t][d] = (int)size;
        }
    }
    for (int d = 0; d < p->rank - 2; d++) {
        int from = d + 5 - p->rank;
        /* as the program has it */
        int64_t stride = c->is_transposed ? c->gap[from] : c->stride[from];
        int64_t padding = c->is_transposed
                              ? c->dilation[from] * (c->kernel[from] - 1) - c->padding[from]
                              : c->padding[from];

        if (padding < 0 || padding > INT32_MAX || stride > INT32_MAX ||
            c->dilation[from] > INT32_MAX) {
            return false;
        }
        p->padding[d] = (int)padding;
        p->stride[d] = (int)stride;
        p->dilation[d] = (int)c->dilation[from];
    }
    return true;
}

/* ---- asking ---------------------------------------------------------------------------- */

/* Of version 8, of 9. */
static bool is_unsupported(int status)
{
    return status == 9 || status / 1000 == 3;
}

/* Factors as the library wants them. */
typedef struct factors {
    const void *zero, *one;
} factors;

static factors factors_of(const dnn_params *p)
{
    static const double wide[] = {0, 1};
    static const float narrow[] = {0, 1};

    return p->compute == 1 ? (factors){&wide[0], &wide[1]} : (factors){&narrow[0], &narrow[1]};
}

static int ask_whole(const exg_cuda_dnn *dnn, const dnn_params *p, const description *d)
{
    const factors f = factors_of(p);

    return dnn->forward_whole(dnn->handle, f.one, d->x, p->x, d->w, p->w, d->convolution,
                              p->choice.algorithm, p->workspace, p->choice.memory,
                              p->z == NULL ? f.zero : f.one, d->y, p->z == NULL ? p->y : p->z,
                              d->bias, p->bias, d->activation, d->y, p->y);
}

static int ask_parts(const exg_cuda_dnn *dnn, const dnn_params *p, const description *d)
{
    const factors f = factors_of(p);
    const void *beta = f.zero; /* of what the result has so far */
    int status = 0;

    if (p->bias != NULL) {
        status = dnn->add(dnn->handle, f.one, d->bias, p->bias, beta, d->y, p->y);
        beta = f.one;
    }
    if (status == 0 && p->z != NULL) {
        status = dnn->add(dnn->handle, f.one, d->y, p->z, beta, d->y, p->y);
        beta = f.one;
    }
    if (status == 0 && p->is_transposed) {
        status =
            dnn->backward(dnn->handle, f.one, d->w, p->w, d->x, p->x, d->convolution,
                          p->choice.algorithm, p->workspace, p->choice.memory, beta, d->y, p->y);
    } else if (status == 0) {
        status =
            dnn->forward(dnn->handle, f.one, d->x, p->x, d->w, p->w, d->convolution,
                         p->choice.algorithm, p->workspace, p->choice.memory, beta, d->y, p->y);
    }
    if (status == 0 && p->activation != ACTIVATION_IDENTITY) {
        status = dnn->activate(dnn->handle, d->activation, f.one, d->y, p->y, f.zero, d->y, p->y);
    }
    return status;
}

static exg_status ask(exg_cuda_device *device, const exg_cuda_launch *launch, void *params,
                      exg_error *err)
{
    const exg_cuda_dnn *dnn = &device->dnn;
    const dnn_params *p = params;
    bool whole = goes_whole(p, p->choice.algorithm, p->bias != NULL);
    description d = {0};
    int status = dnn->set_stream(dnn->handle, device->stream);

    (void)launch;
    status = status != 0 ? status : describe(dnn, p, p->choice.math, &d);
    if (status == 0 && whole) {
        status = ask_whole(dnn, p, &d);
        whole = !is_unsupported(status);
        status = whole ? status : 0;
    }
    if (status == 0 && !whole) {
        status = ask_parts(dnn, p, &d);
    }
    forget(dnn, &d);
    return status == 0 ? EXG_OK
                       : EXG_FAIL(err, DEVICE, "DEV-008",
                                  "asking for a convolution failed: status %d of cuDNN", status);
}

exg_status exg_cuda_dnn_add(exg_kernel_call *call, const cuda_convolution_params *convolution,
                            bool *taken, exg_error *err)
{
    exg_cuda_device *device = (exg_cuda_device *)call->device;
    exg_dtype dtype = call->inputs[0].dtype;
    bool has_bias = exg_cuda_has(call, 2);
    dnn_params p = {.activation = ACTIVATION_IDENTITY};
    exg_cuda_epilogue e;
    bool is_read =
        has_bias && exg_cuda_read_epilogue(call, 0, &e) && e.activation != EXG_CUDA_GELU_TANH;
    exg_cuda_dnn *dnn;
    exg_cuda_launch *launch;

    *taken = false;
    if (!types_of(dtype, &p) || !sizes_of(convolution, &p)) {
        return EXG_OK;
    }
    if (is_read && e.activation == EXG_CUDA_RELU) {
        p.activation = ACTIVATION_RELU;
    }
    EXG_TRY(exg_cuda_enter(device, err));
    dnn = open_once(device);
    if (dnn == NULL || !choose(dnn, dtype, has_bias, &p)) {
        return EXG_OK;
    }
    *taken = call->finishes_apart = true;
    call->workspace_bytes = EXG_MAX(call->workspace_bytes, (uint64_t)p.choice.memory);
    EXG_TRY(exg_cuda_step_add(call, ask, &p, sizeof(p), &launch, err));
    for (uint32_t i = 0; i < 3; i++) {
        exg_cuda_slot_add(launch, EXG_CUDA_INPUT, i);
    }
    exg_cuda_slot_add(launch, EXG_CUDA_INPUT, EXG_CUDA_NO_OPERAND);
    if (is_read && e.adds) {
        launch->slots[3] = e.added;
    }
    exg_cuda_slot_add(launch, EXG_CUDA_OUTPUT, 0);
    exg_cuda_slot_add(launch, EXG_CUDA_WORKSPACE, 0);
    return is_read ? EXG_OK : exg_cuda_add_epilogue(call, err);
}
