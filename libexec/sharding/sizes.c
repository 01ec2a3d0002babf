/* sizes.c - whether a node moves any bytes at all, and how many a tensor has. */
#include "libexec/sharding/partitioner.h"

double exg_meta_bytes(const exg_tensor_meta *meta)
{
    double bytes = exg_dtype_bytes(meta->dtype);

    for (uint32_t d = 0; d < meta->rank; d++) {
        bytes *= (double)meta->sizes[d].value;
    }
    return bytes;
}

bool exg_is_view_node(const exg_operator *op, const exg_node *node)
{
    return op != NULL && op->view != NULL && node->input_count > 0 &&
           node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR && node->output_count == 1 &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR;
}
