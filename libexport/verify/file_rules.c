/* file_rules.c - how the file is made, beside what it says (ARC-010, ARC-013). */
#include "libexport/base/given.h"
#include "libexport/verify/verifier.h"

#include <string.h>

exg_status exg_verify_file(const char *path, const exg_file_info *info,
                           exg_diagnostics *diagnostics, exg_error *err)
{
    EXG_GIVEN(err, path, diagnostics);
    exg_verifier v = {
        .found = diagnostics, .capacity = diagnostics->count, .tells_all = true};
    const exg_place *archive = EXG_AT(NULL, "archive");

    if (info->format != EXG_FORMAT_PT2) {
        return EXG_OK;
    }
    if (info->loose_count > 0) {
        exg_found(&v, "ARC-010", archive, "'%s'%s stored at a multiple of 64 bytes",
                  info->loose_member,
                  info->loose_count > 1 ? " and others are not" : " is not");
    }
    if (exg_format_from_path(path) != EXG_FORMAT_PT2) {
        exg_found(&v, "ARC-013", archive, "the name is '%s'", path);
    }
    return v.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
