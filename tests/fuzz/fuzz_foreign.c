/* fuzz_foreign.c - see fuzz_tensor_file.h; the corpus decides which form is tried. */
#include "tests/fuzz/fuzz_tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return read_tensor_file(data, size);
}
