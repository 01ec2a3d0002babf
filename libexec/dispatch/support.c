/* support.c - what exg has for an operator, for people: of all tables what they say of it. */
#include "libexec/device/device.h"
#include "libexec/dispatch/tape.h"
#include "libexec/kernels/kernels.h"
#include "libexec/kernels/pointwise.h"
#include "libexec/plan/plan_internal.h"
#include "libexec/sharding/rules.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/operators/dtype_lowering.h"

#include <exg/dispatch.h>
#include <exg/operator_id_new.h>
#include <string.h>

/* What a session does itself, between steps. */
static const char *by_session(const exg_operator *op)
{
    static const char old[] = "torch.ops.c10d_functional.";

    if (op->size != EXG_OP_NONE) {
        return "by simpler operators, once the size is read of the data";
    }
    if (strncmp(op->target, old, sizeof(old) - 1) == 0) {
        return "as that of _c10d_functional";
    }
    switch (op->id) {
    case EXG_OP_item_default:
    case EXG_OP__local_scalar_dense_default:
        return "read of the data";
    case EXG_OP__assert_async_default:
    case EXG_OP__assert_async_msg:
    case EXG_OP__linalg_check_errors_default:
        return "looked at when the rest has run";
    default:
        return NULL;
    }
}

static const char *kernel_of(const exg_operator *op)
{
    const exg_kernel *kernel = exg_kernel_of(op);

    return by_session(op) != NULL               ? by_session(op)
           : kernel != NULL                     ? kernel->name
           : op->pointwise != EXG_POINTWISE_NOT ? "pointwise"
           : op->view != NULL                   ? "view"
           : op->symbolic != NULL               ? "on sizes"
           : op->lowering != NULL               ? "by simpler operators"
           : op->functional != EXG_OP_NONE      ? "as the operator that writes nothing"
                                                : "";
}

static const char *sharding_of(const exg_operator *op)
{
    return op->symbolic != NULL || op->schema->return_count == 0 ? "the same on each rank"
           : exg_kernel_of(op) == NULL && op->pointwise == EXG_POINTWISE_NOT && op->view == NULL
               ? "as what it is computed by"
               : exg_rule_text(op);
}

static const char *derivative_of(const exg_operator *op)
{
    switch (exg_differentiation_of(op)) {
    case EXG_BY_ROWS:
        return "of its own";
    case EXG_BY_PARTS:
        return op->symbolic != NULL || by_session(op) != NULL ? "none" : "by simpler operators";
    default:
        return "none";
    }
}

/* What a formula computes in where all operands are of this dtype. */
static exg_dtype computed_in(const exg_operator *op, exg_dtype dtype)
{
    return op->pointwise == EXG_POINTWISE_FLOAT && exg_dtype_is_integral(dtype) ? EXG_DTYPE_F32
           : op->pointwise == EXG_POINTWISE_NUMBER && dtype == EXG_DTYPE_B8     ? EXG_DTYPE_I64
                                                                                : dtype;
}

static uint64_t kernel_dtypes(const exg_operator *op)
{
    const exg_kernel *kernel = exg_kernel_of(op);
    uint64_t dtypes = 0;

    if (kernel != NULL) {
        return exg_kernel_dtypes(kernel);
    }
    for (int d = EXG_DTYPE_UNKNOWN + 1; d < EXG_DTYPE_COUNT; d++) {
        if (op->view != NULL || (op->pointwise != EXG_POINTWISE_NOT &&
                                 exg_pointwise_takes(op->id, computed_in(op, (exg_dtype)d)))) {
            dtypes |= UINT64_C(1) << d;
        }
    }
    return dtypes;
}

/* Of complex numbers too, where these are computed by their parts. */
static uint64_t dtypes_of(const exg_operator *op)
{
    static const exg_dtype complexes[] = {EXG_DTYPE_C32, EXG_DTYPE_C64, EXG_DTYPE_C128};
    uint64_t dtypes = kernel_dtypes(op);

    for (int k = 0; k < 3 && dtypes != 0 && exg_complex_lowering_of(op->id) != NULL; k++) {
        dtypes |= UINT64_C(1) << complexes[k];
    }
    return dtypes;
}

static uint32_t devices_of(const exg_operator *op)
{
    const exg_kernel *kernel =
        op->pointwise != EXG_POINTWISE_NOT ? &exg_kernel_pointwise : exg_kernel_of(op);
    const exg_device_table *table;
    uint32_t devices = 0;

    for (uint32_t i = 0; exg_device_kind(i) != NULL; i++) {
        bool has = i == 0 || exg_device_table_find(exg_device_kind(i), &table, NULL) == EXG_OK;

        if (has && (op->view != NULL ||
                    (kernel != NULL && (i == 0 || table->kernel_of(kernel) != NULL)))) {
            devices |= 1u << i;
        }
    }
    return devices;
}

exg_status exg_operator_describe(const exg_operator *op, exg_operator_support *support,
                                 exg_error *err)
{
    EXG_REQUIRE(err, op, support);
    exg_operator_support own = {.size = sizeof(own)};

    EXG_TRY(EXG_READ_OPTIONS(exg_operator_support, &own, support, err));
    own = (exg_operator_support){.size = sizeof(own),
                                 .kernel = kernel_of(op),
                                 .sharding = sharding_of(op),
                                 .derivative = derivative_of(op),
                                 .dtypes = dtypes_of(op),
                                 .devices = devices_of(op)};
    EXG_WRITE_OPTIONS(exg_operator_support, support, &own);
    return EXG_OK;
}
