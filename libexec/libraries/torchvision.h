/* torchvision.h - operators of torchvision: one function each for shape and kernel.
 *
 * Meaning: torchvision/csrc/ops/cpu of torchvision 0.29, and autocast of tensors of 16 bits. */
#ifndef EXG_LIBEXEC_LIBRARIES_TORCHVISION_H
#define EXG_LIBEXEC_LIBRARIES_TORCHVISION_H

#include <exg/operator_library.h>

exg_operator_function exg_nms_length;
exg_operator_function exg_nms_shape;
exg_operator_function exg_nms;
exg_operator_function exg_roi_align_shape;
exg_operator_function exg_roi_align;
exg_operator_function exg_roi_pool_shape;
exg_operator_function exg_roi_pool;
exg_operator_function exg_ps_roi_shape;
exg_operator_function exg_ps_roi_align;
exg_operator_function exg_ps_roi_pool;
exg_operator_function exg_deform_conv2d_shape;
exg_operator_function exg_deform_conv2d;

/* The kernel on tensors of 16 bits as on float32, its results rounded. */
exg_status exg_vision_widened(exg_operator_call *call, exg_operator_function *function,
                              exg_error *err);

/* What can be computed with: float32 and float64, each with its own kind; and what is widened to
 * float32. UNSUPPORTED. */
static inline exg_status exg_vision_check_dtypes(const exg_operator_call *call, exg_error *err)
{
    for (uint32_t i = 0; i < call->input_count; i++) {
        exg_dtype dtype = call->inputs[i].dtype;
        bool is_narrow = dtype == EXG_DTYPE_F16 || dtype == EXG_DTYPE_BF16;

        if (!is_narrow && dtype != EXG_DTYPE_F32 && dtype != EXG_DTYPE_F64) {
            return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "floating-point numbers alone are computed");
        }
        if ((dtype == EXG_DTYPE_F64) != (call->inputs[0].dtype == EXG_DTYPE_F64)) {
            return EXG_OPERATOR_FAIL(err, MALFORMED, "float64 beside another dtype");
        }
    }
    return EXG_OK;
}

#endif
