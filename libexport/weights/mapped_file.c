/* mapped_file.c - a file that another one names, mapped for as long as the weights of both. */
#include "libexport/base/files.h"
#include "libexport/weights/storage.h"

exg_status exg_weights_map_below(exg_weights *weights, const char *folder, const char *name,
                                 const uint8_t **data, uint64_t *length, exg_error *err)
{
    exg_mapping mapping;
    exg_status status;

    EXG_TRY(exg_file_map_below(folder, name, exg_weights_reading(weights), &mapping, err));
    *data = mapping.data;
    *length = mapping.length;
    status = exg_weights_own_mapping(weights, &mapping, err);
    exg_mapping_release(&mapping); /* when it was not given away */
    return status;
}
