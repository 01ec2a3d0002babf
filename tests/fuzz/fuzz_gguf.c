/* fuzz_gguf.c - see fuzz_tensor_file.h; the corpus decides which form is tried. Blocks are decoded,
 * and what comes of that, which may be NaN or infinite, is made blocks again. */
#include "tests/fuzz/fuzz_tensor_file.h"

#include <exg/weights_edit.h>

#define BYTES_MAX 16384

static void cast_all(const uint8_t *data, size_t size, const char *dtype)
{
    exg_string_pair pair = {NULL, dtype};
    const exg_weights_edit_options options = {
        .size = sizeof(options), .dtypes = {&pair, 1}, .lenient = true};
    exg_weights *weights = NULL;
    exg_weights *made = NULL;

    if (exg_weights_open_memory(data, size, NULL, &weights, NULL, NULL) == EXG_OK &&
        exg_weights_edit(weights, &options, &made, NULL) == EXG_OK) {
        for (uint32_t i = 0; i < made->count; i++) {
            uint8_t bytes[BYTES_MAX];
            uint64_t length = 0;

            if (exg_tensor_meta_bytes(made->items[i].meta, &length, NULL) == EXG_OK &&
                length <= sizeof(bytes)) {
                exg_ignore(exg_weight_read(made, &made->items[i], bytes, length, NULL));
            }
        }
    }
    exg_weights_release(made);
    exg_weights_release(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const made[] = {"q4_0", "q4_1", "q5_0", "q5_1",
                                       "q8_0", "q4_k", "q5_k", "q6_k"};

    cast_all(data, size, "f32");
    cast_all(data, size, made[size % (sizeof(made) / sizeof(made[0]))]);
    return read_tensor_file(data, size);
}
