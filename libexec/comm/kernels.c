/* kernels.c - collectives as steps of a plan (rows of collective.def). A fault of
 * the exchange stays in the communicator, where the rank finds it. */
#include "libexec/comm/collectives.h"
#include "libexec/comm/grid.h"
#include "libexec/kernels/kernel.h"

#include <string.h>

extern const exg_kernel exg_kernel_all_reduce;
extern const exg_kernel exg_kernel_all_gather;
extern const exg_kernel exg_kernel_reduce_scatter;
extern const exg_kernel exg_kernel_all_to_all;

static uint32_t dim_at(const exg_kernel_call *call, uint32_t position)
{
    int64_t dim = exg_call_int(call, position);

    return (uint32_t)(dim < 0 ? dim + call->inputs[0].rank : dim);
}

static exg_reduce_op op_at(const exg_kernel_call *call, uint32_t position)
{
    exg_reduce_op op = EXG_REDUCE_SUM;

    while (op + 1 < EXG_REDUCE_OP_COUNT &&
           strcmp(exg_reduce_op_name(op), call->args[position].as_string) != 0) {
        op++;
    }
    return op;
}

/* Those met along the mesh dim that the last argument says; NULL: none. */
static exg_communicator *along(const exg_kernel_call *call)
{
    int64_t dim = exg_call_int(call, call->arg_count - 1);

    return call->grid == NULL || dim < 0 || dim >= (int64_t)call->grid->ndim
               ? NULL
               : call->grid->dims[dim];
}

static exg_status check(const exg_kernel_call *call, exg_error *err)
{
    if (along(call) == NULL) {
        return EXG_FAIL(err, USAGE, "COM-005", "a collective outside a mesh");
    }
    return EXG_OK;
}

static exg_status check_reduce(const exg_kernel_call *call, exg_reduce_op op, exg_error *err)
{
    EXG_TRY(check(call, err));
    if (!exg_can_reduce(call->inputs[0].dtype, op)) {
        return EXG_FAIL(err, UNSUPPORTED, "COM-006", "a reduction '%s' of %s",
                        exg_reduce_op_name(op), exg_dtype_name(call->inputs[0].dtype));
    }
    return EXG_OK;
}

static exg_status prepare_all_reduce(exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(check_reduce(call, op_at(call, 1), err));
    call->workspace_bytes = exg_all_reduce_workspace(along(call), &call->inputs[0]);
    return EXG_OK;
}

static void run_all_reduce(const exg_kernel_call *call)
{
    (void)exg_all_reduce(along(call), &call->inputs[0], &call->outputs[0], op_at(call, 1),
                         call->workspace, NULL);
}

static exg_status prepare_all_gather(exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(check(call, err));
    call->workspace_bytes = exg_all_gather_workspace(along(call), &call->outputs[0]);
    return EXG_OK;
}

static void run_all_gather(const exg_kernel_call *call)
{
    (void)exg_all_gather(along(call), &call->inputs[0], &call->outputs[0], dim_at(call, 1),
                         call->workspace, NULL);
}

static exg_status prepare_reduce_scatter(exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(check_reduce(call, op_at(call, 3), err));
    call->workspace_bytes =
        exg_reduce_scatter_workspace(along(call), &call->inputs[0], dim_at(call, 1));
    return EXG_OK;
}

static void run_reduce_scatter(const exg_kernel_call *call)
{
    (void)exg_reduce_scatter(along(call), &call->inputs[0], &call->outputs[0],
                             dim_at(call, 1), op_at(call, 3), call->workspace, NULL);
}

static exg_status prepare_all_to_all(exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(check(call, err));
    call->workspace_bytes =
        exg_all_to_all_workspace(along(call), &call->inputs[0], &call->outputs[0]);
    return EXG_OK;
}

static void run_all_to_all(const exg_kernel_call *call)
{
    (void)exg_all_to_all(along(call), &call->inputs[0], &call->outputs[0], dim_at(call, 1),
                         dim_at(call, 3), call->workspace, NULL);
}

#define COLLECTIVE(kernel)                       \
    const exg_kernel exg_kernel_##kernel = {     \
        .name = #kernel,                         \
        .prepare = prepare_##kernel,             \
        .run = run_##kernel,                     \
        .flags = EXG_KERNEL_EACH_RUN | EXG_KERNEL_EXCHANGES, \
    }

COLLECTIVE(all_reduce);
COLLECTIVE(all_gather);
COLLECTIVE(reduce_scatter);
COLLECTIVE(all_to_all);

bool exg_collective_of(const exg_kernel *kernel, const exg_kernel_call *call, exg_collective *what,
                       uint32_t *mesh_dim, const char **op)
{
    static const struct {
        const exg_kernel *kernel;
        exg_collective_kind kind;
        uint32_t dim, other_dim, op; /* positions of arguments; 0: none */
    } rows[] = {
        {&exg_kernel_all_reduce,     EXG_ALL_REDUCE,     0, 0, 1},
        {&exg_kernel_all_gather,     EXG_ALL_GATHER,     1, 0, 0},
        {&exg_kernel_reduce_scatter, EXG_REDUCE_SCATTER, 1, 0, 3},
        {&exg_kernel_all_to_all,     EXG_ALL_TO_ALL,     1, 3, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].kernel == kernel) {
            *what = (exg_collective){
                .kind = rows[i].kind,
                .in = &call->inputs[0],
                .out = &call->outputs[0],
                .dim = rows[i].dim == 0 ? 0 : dim_at(call, rows[i].dim),
                .other_dim = rows[i].other_dim == 0 ? 0 : dim_at(call, rows[i].other_dim)};
            *mesh_dim = (uint32_t)exg_call_int(call, call->arg_count - 1);
            *op = rows[i].op == 0 ? "" : call->args[rows[i].op].as_string;
            return true;
        }
    }
    return false;
}
