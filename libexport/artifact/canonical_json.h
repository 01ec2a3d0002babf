/* canonical_json.h - JSON in the one form that Python's
 * json.dumps(value, sort_keys=True, separators=(",", ":")) gives. */
#ifndef EXG_LIBEXPORT_ARTIFACT_CANONICAL_JSON_H
#define EXG_LIBEXPORT_ARTIFACT_CANONICAL_JSON_H

#include "libexport/base/arena.h"
#include "libexport/formats/json.h"

#include <exg/text.h>

typedef struct exg_canonical {
    exg_arena *arena; /* what sorting takes */
    exg_text *out;
    const size_t *left_out; /* places (exg_json.at) of members that are left out */
    uint32_t left_out_count;
} exg_canonical;

/* NO_MEMORY; faults of the text stick in it. */
exg_status exg_json_put_canonical(const exg_canonical *canonical, exg_json value, exg_error *err);

#endif
