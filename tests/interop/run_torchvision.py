"""Operators of torchvision, and whole detectors of its zoo. See README.md beside this file."""

import sys

import run_interop
from run_interop import Function, fail, run_cases, torch

try:
    import torchvision
    from torchvision import ops
except (ImportError, RuntimeError) as error:  # of another PyTorch
    print(f"torchvision: nothing is compared: {error}")
    sys.exit(0)

run_interop.DEADLINE = 300


def compare(exg, module, args, rtol=1e-4, atol=1e-5, meshes=(), strict=False):
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*args))
    program = torch.export.export(module, args, strict=strict)
    path = exg.path(".pt2")
    torch.export.save(program, path)
    exg.command("verify", path)
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    for options in ({}, *meshes):
        outputs, _ = exg.run(path, dict(zip(names, args)), **options)
        for i, value in enumerate(expected):
            try:
                torch.testing.assert_close(outputs[str(i)], value, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                fail(f"{options} output {i}: {' '.join(str(error).split())[:200]}")
    return outputs


# ---- operators: numbers drawn anew, whatever they come to --------------------------------------


def boxes(count, size, turned=False):
    at = torch.rand(count, 2) * size - size / 8
    length = torch.rand(count, 2) * size * 0.6
    made = torch.cat([at, at + length], 1)
    return made[:, [2, 3, 0, 1]] if turned else made


def rois(images, count, size, turned=False):
    return torch.cat([torch.randint(0, images, (count, 1)).float(), boxes(count, size, turned)], 1)


MESHES = ({"mesh": "2", "place": "data"}, {"mesh": "3", "place": "auto"})


def check_nms(exg, count, dtype, threshold, ties):
    torch.manual_seed(count)
    scores = torch.rand(count, dtype=dtype)
    if ties:
        scores = (scores * 3).round() / 3
    if count > 10:
        scores[3] = float("nan")
    call = Function(lambda b, s: torch.ops.torchvision.nms(b, s, threshold))
    compare(exg, call, (boxes(count, 10).to(dtype), scores), 0, 0, MESHES)


def check_roi(exg, call, count, dtype, turned, channels=6):
    torch.manual_seed(count)
    x = torch.randn(3, channels, 7, 10, dtype=dtype)
    compare(exg, Function(call), (x, rois(3, count, 20, turned).to(dtype)), 1e-4, 1e-5, MESHES)


def check_deform(exg, dtype, stride, padding, dilation, groups, offset_groups, masked):
    torch.manual_seed(stride)
    x = torch.randn(2, 4 * groups, 9, 8, dtype=dtype)
    weight = torch.randn(6, 4, 3, 2, dtype=dtype)
    size = [(n + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for n, k in ((9, 3), (8, 2))]
    offset = torch.randn(2, 2 * offset_groups * 6, *size, dtype=dtype) * 3
    mask = torch.rand(2, offset_groups * 6, *size, dtype=dtype) if masked else None
    bias = torch.randn(6, dtype=dtype) if masked else None
    call = Function(lambda x, weight, offset: ops.deform_conv2d(x, offset, weight, bias, stride, padding, dilation, mask))
    compare(exg, call, (x, weight, offset), 1e-4, 1e-4, MESHES)


NMS = {f"{count} boxes, {dtype}, {threshold}": (count, dtype, threshold, threshold == 0.5)
       for count in (2, 17, 300) for dtype in (torch.float32, torch.float64) for threshold in (0.0, 0.3, 0.5, 1.0)}
ROI_CALLS = {
    "roi_align": lambda x, r: ops.roi_align(x, r, (3, 2), 0.5, -1, False),
    "roi_align aligned": lambda x, r: ops.roi_align(x, r, (2, 4), 0.3, 3, True),
    "roi_pool": lambda x, r: torch.ops.torchvision.roi_pool(x, r, 0.4, 3, 2),
    "ps_roi_align": lambda x, r: torch.ops.torchvision.ps_roi_align(x, r, 0.5, 3, 2, -1),
    "ps_roi_align sampled": lambda x, r: torch.ops.torchvision.ps_roi_align(x, r, 0.3, 1, 2, 2),
    "ps_roi_pool": lambda x, r: torch.ops.torchvision.ps_roi_pool(x, r, 0.4, 2, 3),
}
ROI = {f"{name}, {dtype}{', turned' if turned else ''}": (call, 9, dtype, turned)
       for name, call in ROI_CALLS.items() for dtype in (torch.float32, torch.float64) for turned in (False, True)}
DEFORM = {
    "plain": (torch.float32, 1, 0, 1, 1, 1, False),
    "strides, masked": (torch.float32, 2, 1, 1, 1, 1, True),
    "dilated, groups": (torch.float32, 1, 2, 2, 2, 1, False),
    "offset groups, masked": (torch.float64, 2, 1, 1, 2, 4, True),
}

# ---- autocast, which covers these two on the CPU: computed in float32, and rounded -------------


class Autocast(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, 6, 3)

    def forward(self, x, boxes):
        with torch.autocast("cpu", self.dtype):
            y = self.convolution(x)
            made = [ROI_CALLS[name](y, boxes) for name in ("roi_align", "roi_align aligned")]
            kept = torch.ops.torchvision.nms(boxes[:, 1:], boxes[:, 1] * 0.1, 0.3)
            return made, kept


def check_autocast(exg, dtype):
    module = Autocast(dtype)
    torch.manual_seed(3)
    width = {torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    compare(exg, module, (torch.randn(2, 3, 9, 12), rois(2, 7, 20)), width, width)


AUTOCAST = {str(dtype): (dtype,) for dtype in (torch.bfloat16, torch.float16)}

# ---- detectors ---------------------------------------------------------------------------------


def batched_nms(boxes, scores, idxs, iou_threshold):
    """torchvision's, but that it does not ask whether there is a box: no export gets past that."""
    torch._check(boxes.shape[0] > 0)
    offsets = idxs.to(boxes) * (boxes.max() + 1)
    return ops.nms(boxes + offsets[:, None], scores, iou_threshold)


def detector(make, **options):
    """With statistics and heads that let scores differ by more than rounding."""
    torch.manual_seed(0)
    model = make(weights=None, weights_backbone=None, num_classes=4, **options).eval()
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.train().momentum = 0.5
        for _ in range(4):
            model(list(torch.rand(4, 3, 96, 128)))
        for norm in norms:
            norm.eval()
        for name, parameter in model.named_parameters():
            if ("cls" in name or "class" in name) and parameter.dim() > 1:
                parameter.mul_(HEADS.get(make.__name__, 1))
    return Function(lambda x: model([x])[0]), model


def check_detector(exg, name, strict, options):
    call, model = detector(getattr(torchvision.models.detection, name), **options)
    call.model = model  # so that its weights are the program's
    ops.boxes.batched_nms = batched_nms
    torch.manual_seed(1)
    image = torch.rand(3, 96, 128)
    with torch.no_grad():
        found = call(image)
    if len(found["scores"].unique()) < 3:
        fail("the scores say nothing")
    compare(exg, call, (image,), 1e-3, 1e-3, ({"mesh": "2", "place": "tensor"},), strict)


HEADS = {"ssdlite320_mobilenet_v3_large": 4, "retinanet_resnet50_fpn": 2, "fcos_resnet50_fpn": 10, "fasterrcnn_mobilenet_v3_large_320_fpn": 20}
SMALL = {"min_size": 96, "max_size": 128, "score_thresh": 0.001, "detections_per_img": 20, "topk_candidates": 40}
REGIONS = {"min_size": 96, "max_size": 128, "box_score_thresh": 0.05, "box_detections_per_img": 8, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 30}
# PyTorch does not export Mask R-CNN and Keypoint R-CNN: it asks how many boxes there are.
DETECTORS = {
    "SSDlite, MobileNet": ("ssdlite320_mobilenet_v3_large", False, {"score_thresh": 0.001, "detections_per_img": 20, "topk_candidates": 40}),
    "RetinaNet, ResNet-50": ("retinanet_resnet50_fpn", False, SMALL),
    "FCOS, ResNet-50": ("fcos_resnet50_fpn", False, SMALL),
    "Faster R-CNN, MobileNet": ("fasterrcnn_mobilenet_v3_large_320_fpn", True, {
        "box_score_thresh": 0.05, "box_detections_per_img": 20, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 30}),
    "SSD, VGG": ("ssd300_vgg16", False, {"score_thresh": 0.001, "detections_per_img": 20, "topk_candidates": 40}),
    "Faster R-CNN, ResNet-50": ("fasterrcnn_resnet50_fpn_v2", True, REGIONS),
}

if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("nms: ", check_nms, NMS), ("", check_roi, ROI), ("deform_conv2d: ", check_deform, DEFORM),
                       ("autocast, ", check_autocast, AUTOCAST),
                       ("", check_detector, DETECTORS)))
