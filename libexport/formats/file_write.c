/* file_write.c - bytes into a file, all or none. */
#include "libexport/base/files.h"
#include "libexport/base/require.h"
#include "libexport/formats/format.h"

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

static exg_status tell_nobody(void *user, const char *path, uint64_t bytes, exg_error *err)
{
    (void)user;
    (void)path;
    (void)bytes;
    (void)err;
    return EXG_OK;
}

exg_status exg_save_open(const exg_save_options *options, const char *path, exg_writer **writer,
                         exg_error *err)
{
    return options->dry_run
               ? exg_writer_open_dry(path, options->file == NULL ? tell_nobody : options->file,
                                     options->user, writer, err)
               : exg_writer_open(path, writer, err);
}
