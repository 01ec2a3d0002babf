/* dnn.c - a stand-in for libcudnn: the entry points that the plugin uses. Sizes that do not fit,
 * an algorithm that was not proposed for the convolution, too little workspace and memory that is
 * not there are refused. The first proposal does not always give the same bits, the second fails.
 * Without an activation the call of all in one takes one algorithm alone; EXG_STANDIN_DNN_PARTS:
 * it is not supported.
 */
#include "tests/standin/cuda.h"
#include "tests/standin/log.h"
#include "tests/standin/memory.h"
#include "tests/standin/numbers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BAD_PARAM     2000
#define NOT_SUPPORTED 3000
#define EXECUTION     5000
#define NO_MEMORY     1002

#define RANK_MAX    5
#define WORKSPACE   128 /* bytes that the good proposal asks for */
#define GOOD        6   /* algorithms proposed */
#define UNSTEADY    0
#define FAILING     4
#define PRECOMPUTED 1

#define RELU     1
#define IDENTITY 5

typedef struct tensor {
    int type, rank, sizes[RANK_MAX], strides[RANK_MAX];
} tensor;

typedef struct convolution {
    int rank, padding[3], stride[3], dilation[3], mode, compute, groups, math;
} convolution;

typedef struct choice {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
} choice;

typedef struct activation {
    int mode, nan;
} activation;

typedef struct handle {
    void *stream;
} handle;

/* y = activation(convolution + beta * z + bias), rounded once */
typedef struct work {
    tensor of_x, of_w, of_y;
    convolution c;
    const void *x, *w, *z, *bias;
    void *y;
    double beta;
    int activation;
} work;

#define CALLS(X)                                                                                   \
    X(cudnnCreate, (handle * *made))                                                               \
    X(cudnnDestroy, (handle * h))                                                                  \
    X(cudnnSetStream, (handle * h, void *stream))                                                  \
    X(cudnnCreateTensorDescriptor, (tensor * *made))                                               \
    X(cudnnDestroyTensorDescriptor, (tensor * t))                                                  \
    X(cudnnSetTensorNdDescriptor,                                                                  \
      (tensor * t, int type, int rank, const int *sizes, const int *strides))                      \
    X(cudnnCreateFilterDescriptor, (tensor * *made))                                               \
    X(cudnnDestroyFilterDescriptor, (tensor * t))                                                  \
    X(cudnnSetFilterNdDescriptor, (tensor * t, int type, int format, int rank, const int *sizes))  \
    X(cudnnCreateConvolutionDescriptor, (convolution * *made))                                     \
    X(cudnnDestroyConvolutionDescriptor, (convolution * c))                                        \
    X(cudnnSetConvolutionNdDescriptor,                                                             \
      (convolution * c, int rank, const int *padding, const int *stride, const int *dilation,      \
       int mode, int compute))                                                                     \
    X(cudnnSetConvolutionGroupCount, (convolution * c, int groups))                                \
    X(cudnnSetConvolutionMathType, (convolution * c, int math))                                    \
    X(cudnnGetConvolutionForwardAlgorithm_v7,                                                      \
      (handle * h, const tensor *x, const tensor *w, const convolution *c, const tensor *y,        \
       int most, int *found, choice *choices))                                                     \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                 \
      (handle * h, const tensor *w, const tensor *y, const convolution *c, const tensor *x,        \
       int most, int *found, choice *choices))                                                     \
    X(cudnnConvolutionBackwardData,                                                                \
      (handle * h, const void *alpha, const tensor *of_w, const void *w, const tensor *of_y,       \
       const void *y, const convolution *c, int algorithm, void *workspace,                        \
       size_t workspace_bytes, const void *beta, const tensor *of_x, void *x))                     \
    X(cudnnConvolutionForward,                                                                     \
      (handle * h, const void *alpha, const tensor *of_x, const void *x, const tensor *of_w,       \
       const void *w, const convolution *c, int algorithm, void *workspace,                        \
       size_t workspace_bytes, const void *beta, const tensor *of_y, void *y))                     \
    X(cudnnCreateActivationDescriptor, (activation * *made))                                       \
    X(cudnnDestroyActivationDescriptor, (activation * a))                                          \
    X(cudnnSetActivationDescriptor, (activation * a, int mode, int nan, double limit))             \
    X(cudnnConvolutionBiasActivationForward,                                                       \
      (handle * h, const void *alpha, const tensor *of_x, const void *x, const tensor *of_w,       \
       const void *w, const convolution *c, int algorithm, void *workspace,                        \
       size_t workspace_bytes, const void *alpha_of_z, const tensor *of_z, const void *z,          \
       const tensor *of_bias, const void *bias, const activation *a, const tensor *of_y, void *y)) \
    X(cudnnActivationForward,                                                                      \
      (handle * h, const activation *a, const void *alpha, const tensor *of_x, const void *x,      \
       const void *beta, const tensor *of_y, void *y))                                             \
    X(cudnnAddTensor, (handle * h, const void *alpha, const tensor *of_a, const void *a,           \
                       const void *beta, const tensor *of_c, void *c))
#define DECLARE(name, parameters) int name parameters;
CALLS(DECLARE)

/* ---- descriptors ------------------------------------------------------------------------- */

static int make(void **made, size_t bytes)
{
    *made = calloc(1, bytes);
    return *made == NULL ? NO_MEMORY : 0;
}

int cudnnCreate(handle **made)
{
    standin_log("cudnnCreate");
    return make((void **)made, sizeof(**made));
}

int cudnnDestroy(handle *h)
{
    standin_log("cudnnDestroy");
    free(h);
    return 0;
}

int cudnnSetStream(handle *h, void *stream)
{
    h->stream = stream;
    return 0;
}

int cudnnCreateTensorDescriptor(tensor **made)
{
    return make((void **)made, sizeof(**made));
}

int cudnnDestroyTensorDescriptor(tensor *t)
{
    free(t);
    return 0;
}

static int set(tensor *t, int type, int rank, const int *sizes)
{
    if (rank < 4 || rank > RANK_MAX || (type != 0 && type != 1 && type != 2 && type != 9)) {
        return BAD_PARAM;
    }
    t->type = type;
    t->rank = rank;
    for (int d = rank; d-- > 0;) {
        t->sizes[d] = sizes[d];
        t->strides[d] = d == rank - 1 ? 1 : t->strides[d + 1] * sizes[d + 1];
        if (sizes[d] < 1) {
            return BAD_PARAM;
        }
    }
    return 0;
}

/* Contiguous ones alone. */
int cudnnSetTensorNdDescriptor(tensor *t, int type, int rank, const int *sizes, const int *strides)
{
    int status = set(t, type, rank, sizes);

    for (int d = 0; d < rank && status == 0; d++) {
        status = strides[d] == t->strides[d] ? 0 : NOT_SUPPORTED;
    }
    return status;
}

int cudnnCreateFilterDescriptor(tensor **made)
{
    return make((void **)made, sizeof(**made));
}

int cudnnDestroyFilterDescriptor(tensor *t)
{
    free(t);
    return 0;
}

int cudnnSetFilterNdDescriptor(tensor *t, int type, int format, int rank, const int *sizes)
{
    return format != 0 ? NOT_SUPPORTED : set(t, type, rank, sizes);
}

int cudnnCreateConvolutionDescriptor(convolution **made)
{
    int status = make((void **)made, sizeof(**made));

    if (status == 0) {
        (*made)->groups = 1;
    }
    return status;
}

int cudnnDestroyConvolutionDescriptor(convolution *c)
{
    free(c);
    return 0;
}

int cudnnSetConvolutionNdDescriptor(convolution *c, int rank, const int *padding, const int *stride,
                                    const int *dilation, int mode, int compute)
{
    c->rank = rank;
    c->mode = mode;
    c->compute = compute;
    for (int d = 0; d < rank; d++) {
        c->padding[d] = padding[d];
        c->stride[d] = stride[d];
        c->dilation[d] = dilation[d];
        if (padding[d] < 0 || stride[d] < 1 || dilation[d] < 1) {
            return BAD_PARAM;
        }
    }
    return rank < 2 || rank > 3 || mode != 1 ? BAD_PARAM : 0;
}

int cudnnSetConvolutionGroupCount(convolution *c, int groups)
{
    c->groups = groups;
    return groups < 1 ? BAD_PARAM : 0;
}

int cudnnSetConvolutionMathType(convolution *c, int math)
{
    c->math = math;
    return 0;
}

/* ---- convolutions ------------------------------------------------------------------------ */

static bool fits(const tensor *x, const tensor *w, const convolution *c, const tensor *y)
{
    bool is_right = x->rank == c->rank + 2 && w->rank == x->rank && y->rank == x->rank &&
                    x->type == w->type && x->type == y->type &&
                    c->compute == (x->type == 1 ? 1 : 0) && x->sizes[0] == y->sizes[0] &&
                    x->sizes[1] == w->sizes[1] * c->groups && y->sizes[1] == w->sizes[0] &&
                    w->sizes[0] % c->groups == 0;

    for (int d = 0; d < c->rank && is_right; d++) {
        int span = (w->sizes[2 + d] - 1) * c->dilation[d] + 1;

        is_right =
            y->sizes[2 + d] == (x->sizes[2 + d] + 2 * c->padding[d] - span) / c->stride[d] + 1;
    }
    return is_right;
}

int cudnnGetConvolutionForwardAlgorithm_v7(handle *h, const tensor *x, const tensor *w,
                                           const convolution *c, const tensor *y, int most,
                                           int *found, choice *choices)
{
    (void)h;
    *found = 0;
    if (!fits(x, w, c, y) || most < 4) {
        return BAD_PARAM;
    }
    choices[0] = (choice){.algorithm = UNSTEADY, .determinism = 0, .math = c->math};
    choices[1] = (choice){.algorithm = FAILING, .status = NOT_SUPPORTED, .determinism = 1};
    choices[2] = (choice){.algorithm = GOOD, .determinism = 1, .math = c->math};
    choices[3] = (choice){.algorithm = PRECOMPUTED, .determinism = 1, .math = c->math};
    choices[2].memory = choices[3].memory = WORKSPACE;
    *found = 4;
    return 0;
}

static number_kind kind_of(int type)
{
    return type == 0 ? NUMBER_F32 : type == 1 ? NUMBER_F64 : type == 2 ? NUMBER_F16 : NUMBER_BF16;
}

/* One element of the result, at `at`. */
static double element(const work *k, const int *at)
{
    const int *w = k->of_w.sizes;
    const int taps = k->c.rank == 3 ? w[2] * w[3] * w[4] : w[2] * w[3];
    const int group = at[1] / (w[0] / k->c.groups);
    double sum = 0;

    for (int i = 0; i < w[1] * taps; i++) {
        int64_t from = at[0] * (int64_t)k->of_x.strides[0] +
                       (group * w[1] + i / taps) * (int64_t)k->of_x.strides[1];
        int rest = i % taps;
        bool is_inside = true;

        for (int d = k->c.rank - 1; d >= 0; d--) {
            int p =
                at[2 + d] * k->c.stride[d] - k->c.padding[d] + rest % w[2 + d] * k->c.dilation[d];

            is_inside = is_inside && p >= 0 && p < k->of_x.sizes[2 + d];
            from += (int64_t)p * k->of_x.strides[2 + d];
            rest /= w[2 + d];
        }
        if (is_inside) {
            sum += number_load(k->x, kind_of(k->of_x.type), from) *
                   number_load(k->w, kind_of(k->of_x.type), (int64_t)at[1] * w[1] * taps + i);
        }
    }
    return sum;
}

static int64_t numel(const tensor *t)
{
    return (int64_t)t->sizes[0] * t->strides[0];
}

static double activated(int mode, double x)
{
    return mode == RELU && x < 0 ? 0 : x; /* NaN stays */
}

static const char *convolve(const void *params)
{
    const work *k = params;
    const number_kind kind = kind_of(k->of_y.type);

    for (int64_t i = 0; i < numel(&k->of_y); i++) {
        int at[RANK_MAX];
        double x;

        for (int d = 0; d < k->of_y.rank; d++) {
            at[d] = (int)(i / k->of_y.strides[d] % k->of_y.sizes[d]);
        }
        x = element(k, at);
        x += k->beta == 0 ? 0 : k->beta * number_load(k->z, kind, i);
        x += k->bias == NULL ? 0 : number_load(k->bias, kind, at[1]);
        number_store(k->y, kind, i, activated(k->activation, x));
    }
    return NULL;
}

static bool is_there(const tensor *t, const void *at)
{
    return memory_holds(at, (size_t)numel(t) * number_bytes(kind_of(t->type)));
}

static double factor(int type, const void *at)
{
    return type == 1 ? *(const double *)at : (double)*(const float *)at;
}

/* What both ways of asking for a convolution have in common. */
static bool is_right(const work *k, const void *alpha, int algorithm, const void *workspace,
                     size_t workspace_bytes)
{
    return fits(&k->of_x, &k->of_w, &k->c, &k->of_y) &&
           (algorithm == GOOD || algorithm == PRECOMPUTED) && workspace_bytes >= WORKSPACE &&
           memory_holds(workspace, WORKSPACE) && is_there(&k->of_x, k->x) &&
           is_there(&k->of_w, k->w) && is_there(&k->of_y, k->y) && factor(k->of_x.type, alpha) == 1;
}

int cudnnConvolutionForward(handle *h, const void *alpha, const tensor *of_x, const void *x,
                            const tensor *of_w, const void *w, const convolution *c, int algorithm,
                            void *workspace, size_t workspace_bytes, const void *beta,
                            const tensor *of_y, void *y)
{
    const work k = {*of_x, *of_w, *of_y, *c, x, w, y, NULL, y, factor(of_x->type, beta), IDENTITY};

    standin_log("cudnnConvolutionForward %d of %d groups%s", algorithm, c->groups,
                k.beta != 0 ? " beta" : "");
    if (!is_right(&k, alpha, algorithm, workspace, workspace_bytes)) {
        return BAD_PARAM;
    }
    return standin_ask(h->stream, convolve, &k, sizeof(k)) == 0 ? 0 : EXECUTION;
}

/* ---- and back ------------------------------------------------------------------------------ */

int cudnnGetConvolutionBackwardDataAlgorithm_v7(handle *h, const tensor *w, const tensor *y,
                                                const convolution *c, const tensor *x, int most,
                                                int *found, choice *choices)
{
    int status = cudnnGetConvolutionForwardAlgorithm_v7(h, x, w, c, y, most, found, choices);

    *found = status == 0 ? 3 : 0; /* the fourth is the way forward's */
    return status;
}

/* One element of what the convolution was given, at `at`, from what it gave. */
static double element_back(const work *k, const int *at)
{
    const int *w = k->of_w.sizes;
    const int taps = k->c.rank == 3 ? w[2] * w[3] * w[4] : w[2] * w[3];
    const int outs = w[0] / k->c.groups; /* of a group */
    const int group = at[1] / w[1];
    double sum = 0;

    for (int i = 0; i < outs * taps; i++) {
        const int channel = group * outs + i / taps;
        int64_t from = at[0] * (int64_t)k->of_y.strides[0] + channel * (int64_t)k->of_y.strides[1];
        int rest = i % taps;
        bool is_inside = true;

        for (int d = k->c.rank - 1; d >= 0; d--) {
            int p = at[2 + d] + k->c.padding[d] - rest % w[2 + d] * k->c.dilation[d];

            is_inside = is_inside && p >= 0 && p % k->c.stride[d] == 0 &&
                        p / k->c.stride[d] < k->of_y.sizes[2 + d];
            from += (int64_t)(p / k->c.stride[d]) * k->of_y.strides[2 + d];
            rest /= w[2 + d];
        }
        if (is_inside) {
            sum += number_load(k->y, kind_of(k->of_y.type), from) *
                   number_load(k->w, kind_of(k->of_y.type),
                               ((int64_t)channel * w[1] + at[1] % w[1]) * taps + i % taps);
        }
    }
    return sum;
}

static const char *convolve_back(const void *params)
{
    const work *k = params;
    const number_kind kind = kind_of(k->of_x.type);
    char *x = (char *)(uintptr_t)k->x;

    for (int64_t i = 0; i < numel(&k->of_x); i++) {
        int at[RANK_MAX];
        double sum;

        for (int d = 0; d < k->of_x.rank; d++) {
            at[d] = (int)(i / k->of_x.strides[d] % k->of_x.sizes[d]);
        }
        sum = element_back(k, at);
        sum += k->beta == 0 ? 0 : k->beta * number_load(x, kind, i);
        number_store(x, kind, i, sum);
    }
    return NULL;
}

int cudnnConvolutionBackwardData(handle *h, const void *alpha, const tensor *of_w, const void *w,
                                 const tensor *of_y, const void *y, const convolution *c,
                                 int algorithm, void *workspace, size_t workspace_bytes,
                                 const void *beta, const tensor *of_x, void *x)
{
    const work k = {
        *of_x,   *of_w, *of_y, *c, x, w, NULL, NULL, (void *)(uintptr_t)y, factor(of_x->type, beta),
        IDENTITY};

    standin_log("cudnnConvolutionBackwardData %d of %d groups%s", algorithm, c->groups,
                k.beta != 0 ? " beta" : "");
    if (algorithm != GOOD || !is_right(&k, alpha, algorithm, workspace, workspace_bytes)) {
        return BAD_PARAM;
    }
    return standin_ask(h->stream, convolve_back, &k, sizeof(k)) == 0 ? 0 : EXECUTION;
}

/* ---- what goes with it --------------------------------------------------------------------- */

/* A number for each channel. */
static bool is_bias(const tensor *bias, const tensor *y)
{
    return bias->type == y->type && bias->rank == y->rank && bias->sizes[1] == y->sizes[1] &&
           numel(bias) == bias->sizes[1];
}

static bool is_same(const tensor *a, const tensor *b)
{
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof(a->sizes[0])) == 0;
}

int cudnnConvolutionBiasActivationForward(handle *h, const void *alpha, const tensor *of_x,
                                          const void *x, const tensor *of_w, const void *w,
                                          const convolution *c, int algorithm, void *workspace,
                                          size_t workspace_bytes, const void *alpha_of_z,
                                          const tensor *of_z, const void *z, const tensor *of_bias,
                                          const void *bias, const activation *a, const tensor *of_y,
                                          void *y)
{
    const work k = {*of_x,  *of_w, *of_y, *c, x, w, z, bias, y, factor(of_x->type, alpha_of_z),
                    a->mode};

    standin_log("cudnnConvolutionBiasActivationForward %d of %d groups%s%s", algorithm, c->groups,
                a->mode == RELU ? " relu" : "", k.beta != 0 ? " z" : "");
    if (!is_right(&k, alpha, algorithm, workspace, workspace_bytes) || !is_same(of_z, of_y) ||
        !is_bias(of_bias, of_y) || !is_there(of_bias, bias) || !is_there(of_z, z) ||
        (a->mode != RELU && a->mode != IDENTITY)) {
        return BAD_PARAM;
    }
    if ((a->mode == IDENTITY && algorithm != PRECOMPUTED) ||
        getenv("EXG_STANDIN_DNN_PARTS") != NULL) {
        return NOT_SUPPORTED;
    }
    return standin_ask(h->stream, convolve, &k, sizeof(k)) == 0 ? 0 : EXECUTION;
}

/* ---- what else is done with a tensor ----------------------------------------------------- */

int cudnnCreateActivationDescriptor(activation **made)
{
    return make((void **)made, sizeof(**made));
}

int cudnnDestroyActivationDescriptor(activation *a)
{
    free(a);
    return 0;
}

int cudnnSetActivationDescriptor(activation *a, int mode, int nan, double limit)
{
    (void)limit;
    *a = (activation){mode, nan};
    return nan == 1 ? 0 : BAD_PARAM; /* else NaN is lost */
}

typedef struct pointwise {
    tensor of_y;
    const void *x;
    void *y;
    double beta;
    int is_bias, activation;
} pointwise;

static const char *go(const void *params)
{
    const pointwise *p = params;
    const number_kind kind = kind_of(p->of_y.type);

    for (int64_t i = 0; i < numel(&p->of_y); i++) {
        int64_t channel = i / p->of_y.strides[1] % p->of_y.sizes[1];
        double x = number_load(p->x, kind, p->is_bias ? channel : i);

        x += p->beta == 0 ? 0 : p->beta * number_load(p->y, kind, i);
        number_store(p->y, kind, i, activated(p->activation, x));
    }
    return NULL;
}

int cudnnActivationForward(handle *h, const activation *a, const void *alpha, const tensor *of_x,
                           const void *x, const void *beta, const tensor *of_y, void *y)
{
    const pointwise p = {*of_y, x, y, factor(of_y->type, beta), 0, a->mode};

    standin_log("cudnnActivationForward");
    if (a->mode != RELU || !is_same(of_x, of_y) || factor(of_y->type, alpha) != 1 || p.beta != 0 ||
        !is_there(of_x, x) || !is_there(of_y, y)) {
        return BAD_PARAM;
    }
    return standin_ask(h->stream, go, &p, sizeof(p)) == 0 ? 0 : EXECUTION;
}

int cudnnAddTensor(handle *h, const void *alpha, const tensor *of_a, const void *a,
                   const void *beta, const tensor *of_c, void *c)
{
    const pointwise p = {*of_c, a, c, factor(of_c->type, beta), is_bias(of_a, of_c), IDENTITY};

    standin_log("cudnnAddTensor%s", p.beta != 0 ? " beta" : "");
    if ((!p.is_bias && !is_same(of_a, of_c)) || factor(of_c->type, alpha) != 1 ||
        !is_there(of_a, a) || !is_there(of_c, c)) {
        return BAD_PARAM;
    }
    return standin_ask(h->stream, go, &p, sizeof(p)) == 0 ? 0 : EXECUTION;
}
