/* product.c - see product.h. */
#include "libexec/device/cuda/product.h"
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#define TILE        64 /* of gemm.cu */
#define ROWS        64 /* of gemm_tiles.cu */
#define COLUMNS     128
#define MATRIX_UNIT 80 /* the compute capability from which on matrix.h is right */
#define BATCHES_MAX 65535

/* The product with the epilogue in it; false: it is not of that form. */
static bool with_epilogue(const exg_kernel_call *call, const exg_cuda_product *product,
                          exg_cuda_product *whole)
{
    const cuda_gemm_params *g = &product->of;
    exg_cuda_epilogue e;

    if (!exg_cuda_read_epilogue(call, g->n, &e)) {
        return false;
    }
    *whole = *product;
    whole->activation = e.activation;
    if (e.adds) {
        exg_cuda_addend *added = &whole->addends[whole->addend_count++];

        *added = (exg_cuda_addend){.at = e.added, .dtype = product->c_dtype, .factor = 1};
        added->matrix = (cuda_matrix){e.adds_row ? 0 : g->m * g->n, e.adds_row ? 0 : g->n, 1};
    }
    return true;
}

/* The addend where the result will be, which the library then adds the product to: it takes that
 * with any algorithm, and of any strides. */
static exg_status over_addend(exg_kernel_call *call, const exg_cuda_product *product, bool *taken,
                              exg_error *err)
{
    const cuda_gemm_params *g = &product->of;
    const exg_cuda_addend *addend = &product->addends[0];
    const cuda_matrix *from = &addend->matrix;
    const exg_piece piece = {.input = addend->at.index,
                             .rank = 3,
                             .sizes = {g->batch, g->m, g->n},
                             .from_strides = {from->batch, from->row, from->column},
                             .to_strides = {g->m * g->n, g->n, 1}};
    exg_cuda_step *step = (exg_cuda_step *)(uintptr_t)call->params;
    exg_cuda_launch **end = step->last;
    exg_cuda_product rest = *product;

    if (product->addend_count != 1 || addend->at.kind != EXG_CUDA_INPUT ||
        addend->dtype != product->c_dtype) {
        return EXG_OK;
    }
    rest.addends[0].at = product->c;
    rest.addends[0].matrix = (cuda_matrix){g->m * g->n, g->n, 1};
    EXG_TRY(exg_cuda_add_piece(call, &piece, product->c, err));
    EXG_TRY(exg_cuda_blas_add(call, &rest, taken, err));
    if (!*taken) {
        *end = NULL;
        step->last = end;
    }
    return EXG_OK;
}

/* All in one call; else without the epilogue; else without an addend of its own kind, too. */
static exg_status by_library(exg_kernel_call *call, const exg_cuda_product *product, bool *taken,
                             exg_error *err)
{
    exg_cuda_product whole;

    *taken = false;
    if (with_epilogue(call, product, &whole)) {
        EXG_TRY(exg_cuda_blas_add(call, &whole, taken, err));
    }
    if (*taken) {
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_blas_add(call, product, taken, err));
    if (!*taken) {
        EXG_TRY(over_addend(call, product, taken, err));
    }
    return *taken ? exg_cuda_add_epilogue(call, err) : EXG_OK;
}

/* Does a matrix unit take the operands? */
static bool is_of_halves(const exg_kernel_call *call, const exg_cuda_product *product)
{
    const exg_cuda_device *device = (const exg_cuda_device *)call->device;

    return device->capability >= MATRIX_UNIT && product->a_dtype == product->b_dtype &&
           (product->a_dtype == EXG_DTYPE_BF16 || product->a_dtype == EXG_DTYPE_F16) &&
           exg_dtype_is_float(product->c_dtype) && product->c_dtype != EXG_DTYPE_F64;
}

static exg_status add_gemm(exg_kernel_call *call, const exg_cuda_product *product,
                           const cuda_gemm_params *params, exg_cuda_launch **launch, exg_error *err)
{
    const exg_cuda_addend *self = product->addend_count > 0 ? &product->addends[0] : NULL;
    const char *has_self = self != NULL ? "-DHAS_SELF -DSELF=" : "";
    const char *of_self = self != NULL ? exg_cuda_dtype(self->dtype) : "";
    const char *is_gathered = product->index != NULL ? "-DGATHERED=" : "";
    const char *of_index = product->index != NULL ? exg_cuda_dtype(product->index->dtype) : "";

    if (is_of_halves(call, product)) {
        return EXG_CUDA_ADD(call, "gemm_tiles", "gemm_tiles", "iz iz iz iz o0 f e", *params, launch,
                            err, "-DX=%s -DRESULT=%s %s%s %s%s %s %s %s",
                            exg_cuda_dtype(product->a_dtype), exg_cuda_dtype(product->c_dtype),
                            has_self, of_self, is_gathered, of_index,
                            product->a_dtype == EXG_DTYPE_F16 ? "-DHALF_IS_F16" : "",
                            params->of_a.row == 1 ? "" : "-DA_BY_DEPTH",
                            params->of_b.column == 1 ? "" : "-DB_BY_DEPTH");
    }
    return EXG_CUDA_ADD(call, "gemm", "gemm", "iz iz iz iz o0 f e", *params, launch, err,
                        "-DA=%s -DB=%s -DRESULT=%s %s%s %s%s %s", exg_cuda_dtype(product->a_dtype),
                        exg_cuda_dtype(product->b_dtype), exg_cuda_dtype(product->c_dtype),
                        has_self, of_self, is_gathered, of_index,
                        !exg_dtype_is_float(product->c_dtype) ? "-DIS_INTEGER"
                        : product->c_dtype == EXG_DTYPE_F64   ? "-DIS_DOUBLE"
                                                              : "");
}

static exg_status by_kernel(exg_kernel_call *call, const exg_cuda_product *product, exg_error *err)
{
    const exg_cuda_addend *self = product->addend_count > 0 ? &product->addends[0] : NULL;
    cuda_gemm_params params = product->of;
    bool halves = is_of_halves(call, product);
    int64_t tiles = exg_ceil_div(params.m, halves ? ROWS : TILE) *
                    exg_ceil_div(params.n, halves ? COLUMNS : TILE);
    exg_cuda_launch *launch = NULL;

    if (tiles > INT32_MAX) {
        return exg_cuda_refuse("a product of so many tiles", err);
    }
    if (self != NULL) {
        params.of_self = self->matrix;
        params.beta = self->factor;
    }
    EXG_TRY(add_gemm(call, product, &params, &launch, err));
    launch->slots[0] = product->a;
    launch->slots[1] = product->b;
    if (self != NULL) {
        launch->slots[2] = self->at;
    }
    if (product->index != NULL) {
        launch->slots[3] = (exg_cuda_slot){EXG_CUDA_INPUT, 2, 0};
    }
    launch->slots[4] = product->c;
    launch->blocks[0] = (uint32_t)tiles;
    launch->blocks[1] = (uint32_t)EXG_MIN(params.batch, BATCHES_MAX);
    return EXG_OK;
}

exg_status exg_cuda_add_product(exg_kernel_call *call, const exg_cuda_product *product,
                                exg_error *err)
{
    bool taken = false;

    if (product->of.batch * product->of.m * product->of.n == 0) {
        return EXG_OK;
    }
    if (product->index == NULL) {
        EXG_TRY(by_library(call, product, &taken, err));
    }
    call->finishes_apart = taken;
    return taken ? EXG_OK : by_kernel(call, product, err);
}
