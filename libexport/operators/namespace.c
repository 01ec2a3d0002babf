/* namespace.c - whose an operator is. */
#include "libexport/operators/namespace.h"

#include <stddef.h>
#include <string.h>

/* torch._C._jit_get_all_schemas() of PyTorch 2.13, and higher_order, which has no schemas. */
static const char *const namespaces[] = {
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "_native",
    "_quantized",
    "aten",
    "c10d",
    "c10d_functional",
    "debugprims",
    "export",
    "fsdp",
    "higher_order",
    "inductor",
    "inductor_prims",
    "mkl",
    "mkldnn",
    "mkldnn_prepacked",
    "onednn",
    "onnx",
    "prim",
    "prims",
    "profiler",
    "quantization",
    "quantized",
    "quantized_decomposed",
    "rngprims",
    "sparse",
    "static_runtime",
    "streams",
    "symm_mem",
};

bool exg_is_pytorch_operator(const char *target)
{
    static const char prefix[] = "torch.ops.";
    size_t length;

    if (strncmp(target, prefix, sizeof(prefix) - 1) != 0) {
        return true;
    }
    target += sizeof(prefix) - 1;
    length = strcspn(target, ".");
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
        if (strlen(namespaces[i]) == length && memcmp(namespaces[i], target, length) == 0) {
            return true;
        }
    }
    return false;
}
