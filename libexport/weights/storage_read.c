/* storage_read.c - the bytes of a storage for whoever asks, compared before the first goes out. */
#include "libexport/base/require.h"
#include "libexport/weights/storage.h"

exg_status exg_storage_read(exg_weights *weights, uint32_t storage, uint64_t offset,
                            uint64_t length, void *out, exg_error *err)
{
    EXG_REQUIRE(err, weights, EXG_IF_ANY(length, out));
    EXG_TRY(exg_storage_check_once(weights, storage, NULL, err));
    return exg_storage_read_with(weights, storage, offset, length, out, NULL, err);
}

exg_status exg_storage_map(exg_weights *weights, uint32_t storage, const uint8_t **data,
                           exg_error *err)
{
    EXG_REQUIRE(err, weights, data);
    *data = NULL;
    EXG_TRY(exg_storage_check_once(weights, storage, NULL, err));
    return exg_storage_host_bytes(weights, storage, data, err);
}
