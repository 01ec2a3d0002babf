/* file_write.c - bytes into a file, all or none. */
#include "libexport/base/files.h"
#include "libexport/base/require.h"

#include <exg/formats.h>

exg_status exg_file_write(const char *path, const void *data, size_t length, exg_error *err)
{
    EXG_REQUIRE(err, path, EXG_IF_ANY(length, data));
    exg_writer *writer;
    exg_status status;

    EXG_TRY(exg_writer_open(path, &writer, err));
    status = exg_writer_write(writer, data, length, err);
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    return exg_writer_commit(writer, err);
}
