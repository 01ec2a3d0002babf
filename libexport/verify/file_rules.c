/* file_rules.c - how the file is made, beside what it says (ARC-010, ARC-013). */
#include "libexport/base/require.h"
#include "libexport/verify/verifier.h"

#include <string.h>

static void check_archive(exg_verifier *v, const char *path, const exg_file_info *info)
{
    const exg_model_path *archive = EXG_AT(NULL, "archive");

    if (info->loose_count > 0) {
        exg_found(v, "ARC-010", archive, "'%s'%s stored at a multiple of 64 bytes",
                  info->loose_member, info->loose_count > 1 ? " and others are not" : " is not");
    }
    if (strcmp(path, "-") != 0 && exg_format_from_path(path) != EXG_FORMAT_PT2) {
        exg_found(v, "ARC-013", archive, "the name is '%s'", path);
    }
}

exg_status exg_verify_file(const exg_program *program, const char *path, const exg_file_info *info,
                           exg_diagnostics *diagnostics, exg_error *err)
{
    EXG_REQUIRE(err, program, path, info, diagnostics);
    exg_verifier v = {.program = program,
                      .found = diagnostics,
                      .capacity = diagnostics->count,
                      .tells_all = true};
    exg_status status = exg_verify_besides(&v, program->weights, err);

    if (info->format == EXG_FORMAT_PT2) {
        check_archive(&v, path, info);
    }
    return v.failed ? EXG_OUT_OF_MEMORY(err) : status;
}
