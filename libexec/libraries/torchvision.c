/* torchvision.c - the library: libexg_torchvision.so. */
#include "libexec/libraries/torchvision.h"

#define OPERATOR(text, ...)                                                                        \
    {                                                                                              \
        .size = sizeof(exg_operator_definition), .schema = "torchvision::" text, __VA_ARGS__       \
    }

static const exg_operator_definition operators[] = {
    OPERATOR("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
             .shape = exg_nms_shape, .kernel = exg_nms, .length = exg_nms_length),
    OPERATOR("roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
             "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
             .shape = exg_roi_align_shape, .kernel = exg_roi_align, .sharding = ".c..,k.->kc.."),
    OPERATOR("roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
             "SymInt pooled_width) -> (Tensor, Tensor)",
             .shape = exg_roi_pool_shape, .kernel = exg_roi_pool),
    OPERATOR("ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
             "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
             .shape = exg_ps_roi_shape, .kernel = exg_ps_roi_align),
    OPERATOR("ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
             "SymInt pooled_width) -> (Tensor, Tensor)",
             .shape = exg_ps_roi_shape, .kernel = exg_ps_roi_pool),
    OPERATOR("deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
             "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
             "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
             .shape = exg_deform_conv2d_shape, .kernel = exg_deform_conv2d,
             .sharding = "n...,....,n...,n...,.->n..."),
};

EXG_OPERATOR_LIBRARY(operators, "torchvision")
