/* lost.c - counts tensors past the end of a file and says so. */
#include "libexport/formats/lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void exg_lost_tensor(exg_lost *lost, const char *name, uint64_t end)
{
    size_t used = strlen(lost->names);

    lost->total++;
    if (end <= lost->have) {
        return;
    }
    lost->count++;
    if (used >= 3 && strcmp(lost->names + used - 3, "...") == 0) {
        return;
    }
    if (used + strlen(name) + sizeof(", ...") < sizeof(lost->names)) {
        snprintf(lost->names + used, sizeof(lost->names) - used, "%s%s", used > 0 ? ", " : "",
                 name);
    } else {
        snprintf(lost->names + used, sizeof(lost->names) - used, "%s...", used > 0 ? ", " : "");
    }
}

exg_status exg_lost_tell(const exg_lost *lost, const char *code, exg_error *err)
{
    exg_status status =
        EXG_FAIL(err, MALFORMED, code,
                 "the file is cut short: %" PRIu64 " of its %" PRIu64 " bytes are there, %" PRIu64
                 " are missing; %u of %u tensors miss bytes%s%s",
                 lost->have, lost->want, lost->want - lost->have, lost->count, lost->total,
                 lost->count > 0 ? ": " : "", lost->names);

    return exg_error_fix(err, exg_error_at(err, status, lost->have),
                         "copy the file again and compare its size");
}
