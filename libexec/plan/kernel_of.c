/* kernel_of.c - the kernel column of the operator rows. */
#include "libexec/kernels/kernels.h"
#include "libexec/plan/plan_internal.h"
#include "libexport/operators/registered.h"

#include <exg/operator_id_new.h>
#include <stddef.h>

#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)
#define EXG_VIEW(id, schema, view, lowering, sharding)
#define EXG_SYMBOLIC(id, target, schema, evaluate)
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)                                \
    extern const exg_kernel exg_kernel_##kernel;
#include "libexport/operators/operators.def"
#undef EXG_OPERATOR

const exg_kernel exg_kernel_NONE = {.name = "none"};

/* The row's kernel; NONE stands for NULL. */
static const exg_kernel *const kernels[EXG_OPERATOR_COUNT] = {
#define EXG_OPERATOR(id, schema, shape, lowering, kernel, sharding)                                \
    [EXG_OP_##id] = &exg_kernel_##kernel,
#include "libexport/operators/operators.def"
#undef EXG_OPERATOR
#undef EXG_POINTWISE
#undef EXG_VIEW
#undef EXG_SYMBOLIC
};

const exg_kernel *exg_kernel_of(const exg_operator *op)
{
    if (op->registered != NULL) {
        return op->shape == NULL                   ? NULL
               : op->registered->definition.effect ? &exg_kernel_effect
                                                   : &exg_kernel_registered;
    }
    return kernels[op->id] == &exg_kernel_NONE ? NULL : kernels[op->id];
}

bool exg_operator_runs(const exg_operator *op)
{
    return op->pointwise != EXG_POINTWISE_NOT || op->view != NULL || exg_kernel_of(op) != NULL;
}
