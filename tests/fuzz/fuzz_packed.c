/* fuzz_packed.c - any bytes as a file in which a model may lie packed: by gzip, zstd, in tar or
 * zip.
 */
#include "tests/fuzz/fuzz_tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_by_ranges(data, size);
    return read_tensor_file(data, size);
}
