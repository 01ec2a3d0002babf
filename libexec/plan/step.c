/* step.c - which kernel carries a step out: the device's, or the host's where it has none. */
#include "libexec/comm/grid.h"
#include "libexec/device/device.h"
#include "libexec/kernels/pointwise.h"
#include "libexec/plan/planner.h"

const exg_kernel *exg_planner_kernel(const exg_planner *p, const exg_kernel *kernel)
{
    const exg_kernel *own =
        p->device == NULL || kernel == NULL ? NULL : p->device->table->kernel_of(kernel);

    return own == NULL ? kernel : own;
}

bool exg_kernel_takes_strides(const exg_kernel *kernel, uint32_t i, bool channels_last)
{
    return (kernel->flags & EXG_KERNEL_ANY_STRIDES) != 0 || (i == 0 && channels_last) ||
           (i == 1 && (kernel->flags & EXG_KERNEL_ANY_STRIDES_1) != 0);
}

/* The step is the host's. Its operands come as copies, row-major where it wants them so. */
static void give_to_host(exg_step *step)
{
    step->kernel = step->host;
    step->on_host = true;
    step->call.device = NULL;
    for (uint32_t i = 0; i < step->call.input_count; i++) {
        if (step->inputs[i].buffer != EXG_NO_BUFFER &&
            !exg_kernel_takes_strides(step->host, i, false)) {
            exg_tensor_set_contiguous(&step->call.inputs[i]);
        }
    }
}

exg_status exg_planner_prepare(exg_planner *p, exg_step *step)
{
    exg_kernel_call asked = step->call;
    exg_status status =
        step->kernel->prepare == NULL ? EXG_OK : step->kernel->prepare(&step->call, p->err);

    if (status == EXG_UNSUPPORTED && step->call.device != NULL && !step->has_packed &&
        !step->call.channels_last) {
        exg_error_clear(p->err);
        step->call = asked;
        give_to_host(step);
        status =
            step->kernel->prepare == NULL ? EXG_OK : step->kernel->prepare(&step->call, p->err);
    }
    EXG_TRY_IN(p->err, status, "step %s", step->name);
    if (step->call.workspace_bytes > p->plan->summary.workspace_bytes) {
        p->plan->summary.workspace_bytes = step->call.workspace_bytes;
    }
    return EXG_OK;
}

bool exg_plan_overlaps(const exg_plan_options *options, const exg_grid *grid,
                       const exg_accelerator *device)
{
    extern const exg_kernel exg_kernel_all_reduce;
    exg_overlap asked = options == NULL ? EXG_OVERLAP_AUTO : options->overlap;

    if (grid == NULL || grid->ndim == 0 || asked == EXG_OVERLAP_OFF ||
        (device != NULL &&
         device->table->kernel_of(&exg_kernel_all_reduce) != &exg_kernel_all_reduce)) {
        return false; /* what a device leaves to the host goes whole */
    }
    if (device != NULL && device->table->begin_collective != NULL) {
        return true; /* on a stream of its own */
    }
    return asked == EXG_OVERLAP_ON || !grid->dims[0]->ops->lends;
}

/* Pointwise steps, and what follows others as one, divide only integers by zero. */
bool exg_step_raises(const exg_step *step)
{
    bool pointwise = step->host == &exg_kernel_pointwise;

    if (!pointwise && (step->host->flags & EXG_KERNEL_RAISES) != 0) {
        return true;
    }
    for (uint32_t i = 0; (pointwise || step->epilogue_count > 0) && i < exg_step_operands(step);
         i++) {
        if (exg_dtype_is_integral(step->call.inputs[i].dtype)) {
            return true;
        }
    }
    return false;
}

exg_span exg_location_span(const exg_location *location)
{
    int64_t first = location->offset * (int64_t)exg_dtype_bytes(location->view.dtype);
    exg_span s = exg_tensor_span(&location->view);

    return s.low == s.high ? s : (exg_span){first + s.low, first + s.high};
}
