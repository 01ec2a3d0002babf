/* blas.c - see product.h. The algorithm is chosen when the plan is made, once for addresses that
 * are multiples of 16 bytes and once for any; descriptors live as long as the asking. Sums are
 * in f32 (f64 for f64), never in TF32, as PyTorch's own default is.
 */
#include "libexec/device/cuda/library.h"
#include "libexec/device/cuda/product.h"
#include "libexec/kernels/cpu/common.h"

#define OPERATION_T 1

/* the attributes of what a product is, of a matrix, of a choice */
#define PRODUCT_TRANSPOSES_X 3
#define PRODUCT_TRANSPOSES_Y 4
#define PRODUCT_EPILOGUE     7
#define PRODUCT_BIAS         8
#define MATRIX_BATCHES       5
#define MATRIX_BATCH_STRIDE  6
#define CHOICE_WORKSPACE     1
#define CHOICE_ALIGNMENT     5 /* of X; Y's, C's and D's follow */

/* which are added up */
#define EPILOGUE_NONE 1u
#define EPILOGUE_RELU 2u
#define EPILOGUE_BIAS 4u
#define EPILOGUE_GELU 32u /* with tanh */

#define ALIGNED        16          /* bytes: as far as its kernels read at once */
#define WORKSPACE_MOST (32u << 20) /* bytes; what PyTorch grants on sm_90 */

/* A matrix as it is laid out by columns. */
typedef struct side {
    int64_t rows, columns, lead, batch; /* lead: from a column to the next */
    int32_t is_transposed;
} side;

typedef struct blas_algorithm {
    uint64_t data[8];
} blas_algorithm;

typedef struct blas_choice { /* cublasLtMatmulHeuristicResult_t */
    blas_algorithm algorithm;
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
} blas_choice;

typedef struct blas_product {
    const void *x, *y, *self, *bias; /* x is b, y is a: the result's transpose is b' a' */
    void *c, *workspace;
    side of_x, of_y, of_self, of_c;
    int32_t batch;
    int type, c_type, compute, scale;
    uint32_t epilogue;
    double alpha, beta;     /* beta 0: no self */
    blas_choice choices[2]; /* for aligned addresses; for any */
} blas_product;

/* What a call is described by. */
typedef struct description {
    blas_descriptor product;
    blas_layout matrices[4]; /* x, y, self, c */
} description;

/* ---- the library ----------------------------------------------------------------------- */

EXG_CUDA_LIBRARY(blas, EXG_BLAS_CALLS, "cublasLt", exg_cuda_major(driver), CUDA_OLDEST)

static exg_status check(int status, const char *what, exg_error *err)
{
    return status == 0
               ? EXG_OK
               : EXG_FAIL(err, DEVICE, "DEV-008", "%s failed: status %d of cuBLASLt", what, status);
}

/* ---- describing ------------------------------------------------------------------------ */

static void forget(const exg_cuda_blas *blas, const description *d)
{
    for (int i = 0; i < 4; i++) {
        if (d->matrices[i] != NULL) {
            (void)blas->layout_destroy(d->matrices[i]);
        }
    }
    if (d->product != NULL) {
        (void)blas->product_destroy(d->product);
    }
}

static int describe_matrix(const exg_cuda_blas *blas, const blas_product *p, const side *s,
                           int type, blas_layout *layout)
{
    int status =
        blas->layout_create(layout, type, (uint64_t)s->rows, (uint64_t)s->columns, s->lead);

    if (status == 0 && p->batch > 1) {
        status = blas->layout_set(*layout, MATRIX_BATCHES, &p->batch, sizeof(p->batch));
    }
    if (status == 0 && p->batch > 1) {
        status = blas->layout_set(*layout, MATRIX_BATCH_STRIDE, &s->batch, sizeof(s->batch));
    }
    return status;
}

static int describe_product(const exg_cuda_blas *blas, const blas_product *p, const void *bias,
                            blas_descriptor *made)
{
    const int transposed = OPERATION_T;
    int status = blas->product_create(made, p->compute, p->scale);

    if (status == 0 && p->of_x.is_transposed) {
        status = blas->product_set(*made, PRODUCT_TRANSPOSES_X, &transposed, sizeof(transposed));
    }
    if (status == 0 && p->of_y.is_transposed) {
        status = blas->product_set(*made, PRODUCT_TRANSPOSES_Y, &transposed, sizeof(transposed));
    }
    if (status == 0 && p->epilogue != EPILOGUE_NONE) {
        status = blas->product_set(*made, PRODUCT_EPILOGUE, &p->epilogue, sizeof(p->epilogue));
    }
    if (status == 0 && (p->epilogue & EPILOGUE_BIAS) != 0) {
        status = blas->product_set(*made, PRODUCT_BIAS, &bias, sizeof(bias));
    }
    return status;
}

static int describe(const exg_cuda_blas *blas, const blas_product *p, const void *bias,
                    description *d)
{
    const side *sides[] = {&p->of_x, &p->of_y, &p->of_self, &p->of_c};
    int status = describe_product(blas, p, bias, &d->product);

    for (int i = 0; i < 4 && status == 0; i++) {
        status = describe_matrix(blas, p, sides[i], i < 2 ? p->type : p->c_type, &d->matrices[i]);
    }
    return status;
}

/* ---- choosing -------------------------------------------------------------------------- */

/* One choice for addresses that are multiples of `alignment`; false: there is none. */
static bool choose_for(const exg_cuda_blas *blas, const description *d, uint32_t alignment,
                       blas_choice *choice)
{
    const uint64_t most = WORKSPACE_MOST;
    blas_preference preference = NULL;
    int found = 0;
    int status = blas->preference_create(&preference);

    if (status == 0) {
        status = blas->preference_set(preference, CHOICE_WORKSPACE, &most, sizeof(most));
    }
    for (int i = 0; i < 4 && status == 0; i++) {
        status =
            blas->preference_set(preference, CHOICE_ALIGNMENT + i, &alignment, sizeof(alignment));
    }
    if (status == 0) {
        status = blas->choose(blas->handle, d->product, d->matrices[0], d->matrices[1],
                              d->matrices[2], d->matrices[3], preference, 1, choice, &found);
    }
    if (preference != NULL) {
        (void)blas->preference_destroy(preference);
    }
    return status == 0 && found > 0 && choice->status == 0;
}

static bool choose(const exg_cuda_blas *blas, exg_dtype dtype, blas_product *p)
{
    const void *some_bias = (const void *)(uintptr_t)ALIGNED; /* is asked whether it is there */
    description d = {0};
    bool chosen = describe(blas, p, some_bias, &d) == 0 &&
                  choose_for(blas, &d, exg_dtype_bytes(dtype), &p->choices[1]);

    if (chosen && !choose_for(blas, &d, ALIGNED, &p->choices[0])) {
        p->choices[0] = p->choices[1]; /* which takes any address */
    }

    forget(blas, &d);
    return chosen;
}

/* ---- what it takes --------------------------------------------------------------------- */

/* A matrix of (rows, columns), by columns: as its transpose where rows are dense, as it is
 * where columns are. False: neither. */
static bool side_of(const cuda_matrix *m, int64_t rows, int64_t columns, side *s)
{
    s->batch = m->batch;
    if ((m->column == 1 || columns == 1) && (m->row >= columns || rows == 1)) {
        s->rows = columns;
        s->columns = rows;
        s->lead = EXG_MAX(rows == 1 ? columns : m->row, 1);
        return true;
    }
    s->is_transposed = 1;
    s->rows = rows;
    s->columns = columns;
    s->lead = EXG_MAX(columns == 1 ? rows : m->column, 1);
    return (m->row == 1 || rows == 1) && (m->column >= rows || columns == 1);
}

/* cudaDataType_t, cublasComputeType_t. */
static bool types_of(exg_dtype dtype, exg_dtype c_dtype, blas_product *p)
{
    static const struct {
        exg_dtype dtype;
        int type, compute, scale;
    } rows[] = {
        {EXG_DTYPE_F32, 0, 68, 0},
        {EXG_DTYPE_F64, 1, 70, 1},
        {EXG_DTYPE_F16, 2, 68, 0},
        {EXG_DTYPE_BF16, 14, 68, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].dtype == dtype) {
            p->type = rows[i].type;
            p->c_type = c_dtype == EXG_DTYPE_F32 ? rows[0].type : p->type;
            p->compute = rows[i].compute;
            p->scale = rows[i].scale;
            return c_dtype == dtype || (c_dtype == EXG_DTYPE_F32 && dtype != EXG_DTYPE_F64);
        }
    }
    return false;
}

/* Where the addresses go. */
enum { AT_X, AT_Y, AT_SELF, AT_BIAS, AT_C, AT_WORKSPACE, ADDRESSES };

/* One addend may be a vector along the result's rows, its bias, and one a matrix. */
static bool takes_addend(const cuda_gemm_params *g, const exg_cuda_addend *addend, blas_product *p,
                         exg_cuda_slot *slots)
{
    const cuda_matrix *m = &addend->matrix;

    if (m->batch == 0 && m->row == 0 && (m->column == 1 || g->n == 1) && addend->factor == 1 &&
        (p->epilogue & EPILOGUE_BIAS) == 0) {
        p->epilogue |= EPILOGUE_BIAS;
        slots[AT_BIAS] = addend->at;
        return true;
    }
    if (p->beta != 0) {
        return false;
    }
    p->beta = addend->factor;
    slots[AT_SELF] = addend->at;
    return (m->column == 1 || g->n == 1) && side_of(m, g->m, g->n, &p->of_self) &&
           !p->of_self.is_transposed;
}

/* How precise its tanh is nobody says: numbers of 16 bits alone go through it. */
static bool takes_activation(const exg_cuda_product *product, blas_product *p)
{
    switch (product->activation) {
    case EXG_CUDA_IDENTITY:
        break;
    case EXG_CUDA_RELU:
        p->epilogue |= EPILOGUE_RELU;
        break;
    case EXG_CUDA_GELU_TANH:
        p->epilogue |= EPILOGUE_GELU;
        return exg_dtype_bytes(product->c_dtype) == 2;
    }
    p->epilogue = p->epilogue == 0 ? EPILOGUE_NONE : p->epilogue;
    return true;
}

static bool takes(const exg_cuda_product *product, blas_product *p, exg_cuda_slot *slots)
{
    const cuda_gemm_params *g = &product->of;

    p->batch = (int32_t)g->batch;
    p->alpha = g->alpha;
    p->of_c = p->of_self = (side){g->n, g->m, EXG_MAX(g->n, 1), g->m * g->n, 0};
    slots[AT_X] = product->b;
    slots[AT_Y] = product->a;
    slots[AT_SELF] = slots[AT_BIAS] = (exg_cuda_slot){EXG_CUDA_INPUT, EXG_CUDA_NO_OPERAND, 0};
    slots[AT_C] = product->c;
    slots[AT_WORKSPACE] = (exg_cuda_slot){EXG_CUDA_WORKSPACE, 0, product->workspace};
    for (uint32_t i = 0; i < product->addend_count; i++) {
        if (product->addends[i].dtype != product->c_dtype ||
            !takes_addend(g, &product->addends[i], p, slots)) {
            return false;
        }
    }
    return product->a_dtype == product->b_dtype &&
           types_of(product->a_dtype, product->c_dtype, p) && takes_activation(product, p) &&
           g->batch <= INT32_MAX && g->k > 0 && g->alpha != 0 &&
           side_of(&g->of_b, g->k, g->n, &p->of_x) && side_of(&g->of_a, g->m, g->k, &p->of_y);
}

/* ---- asking ---------------------------------------------------------------------------- */

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % ALIGNED == 0;
}

static exg_status ask(exg_cuda_device *device, const exg_cuda_launch *launch, void *params,
                      exg_error *err)
{
    const exg_cuda_blas *blas = &device->blas;
    const blas_product *p = params;
    const void *self = p->self == NULL ? p->c : p->self;
    bool aligned = is_aligned(p->x) && is_aligned(p->y) && is_aligned(self) && is_aligned(p->c);
    const blas_choice *choice = &p->choices[aligned ? 0 : 1];
    const float narrow[] = {(float)p->alpha, (float)p->beta};
    const bool is_double = p->scale == 1;
    description d = {0};
    int status = describe(blas, p, p->bias, &d);

    (void)launch;
    if (status == 0) {
        status = blas->multiply(
            blas->handle, d.product, is_double ? (const void *)&p->alpha : &narrow[0], p->x,
            d.matrices[0], p->y, d.matrices[1], is_double ? (const void *)&p->beta : &narrow[1],
            self, d.matrices[2], p->c, d.matrices[3], &choice->algorithm, p->workspace,
            choice->workspace_bytes, device->stream);
    }
    forget(blas, &d);
    return check(status, "asking for a product", err);
}

static uint64_t workspace_of(const blas_product *p)
{
    return EXG_MAX(p->choices[0].workspace_bytes, p->choices[1].workspace_bytes);
}

exg_status exg_cuda_blas_add(exg_kernel_call *call, const exg_cuda_product *product, bool *taken,
                             exg_error *err)
{
    exg_cuda_device *device = (exg_cuda_device *)call->device;
    blas_product p = {0};
    exg_cuda_slot slots[ADDRESSES];
    exg_cuda_blas *blas;
    exg_cuda_launch *launch;

    *taken = false;
    if (!takes(product, &p, slots)) {
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_enter(device, err));
    blas = open_once(device);
    if (blas == NULL || !choose(blas, product->a_dtype, &p)) {
        return EXG_OK;
    }
    *taken = true;
    call->workspace_bytes = EXG_MAX(call->workspace_bytes, product->workspace + workspace_of(&p));
    EXG_TRY(exg_cuda_step_add(call, ask, &p, sizeof(p), &launch, err));
    memcpy(launch->slots, slots, sizeof(slots));
    launch->slot_count = ADDRESSES;
    return EXG_OK;
}
