/* fuzz_dcp.c - any bytes as .metadata beside the files of fixtures/weights/saved/dcp. */
#include "libexport/formats/weights_file.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void read_weight(exg_weights *weights, const exg_weight *weight)
{
    uint64_t bytes = 0;
    uint8_t *out;
    exg_error err;

    exg_error_clear(&err);
    if (exg_tensor_meta_bytes(weight->meta, &bytes, &err) != EXG_OK || bytes > 1u << 20) {
        return;
    }
    out = malloc(bytes + 1);
    if (out != NULL && exg_weight_read(weights, weight, out, bytes, &err) != EXG_OK &&
        err.code[0] == '\0') {
        abort();
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exg_source source = {data, size, "fixtures/weights/saved/dcp/.metadata",
                         exg_default_budget(size), NULL};
    exg_weights *weights = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_create(NULL, &weights, &err) != EXG_OK) {
        return 0;
    }
    if (exg_dcp_read(&source, weights, &err) != EXG_OK) {
        if (err.code[0] == '\0') {
            abort();
        }
    } else {
        for (uint32_t i = 0; i < weights->count; i++) {
            read_weight(weights, &weights->items[i]);
        }
    }
    exg_weights_release(weights);
    return 0;
}
