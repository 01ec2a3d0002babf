/* options.h - structs of options as callers give them: their first word is their size, so that a
 * caller built with an older, shorter one is understood. */
#ifndef EXG_LIBEXPORT_BASE_OPTIONS_H
#define EXG_LIBEXPORT_BASE_OPTIONS_H

#include <exg/status.h>
#include <string.h>

/* Copies what `given` has of `room` bytes; nothing when it is NULL. USAGE OPT-001 where its size
 * was not set, since nothing of it would count. */
static inline exg_status exg_options_read(void *own, size_t room, const void *given,
                                          const char *type, exg_error *err)
{
    size_t size;

    if (given == NULL) {
        return EXG_OK;
    }
    memcpy(&size, given, sizeof(size));
    if (size < sizeof(size)) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "OPT-001", "%s.size is not set", type),
                             "set it to sizeof(%s)", type);
    }
    memcpy(own, given, size < room ? size : room);
    return EXG_OK;
}

#define EXG_READ_OPTIONS(type, own, given, err) \
    exg_options_read((own), sizeof(type), (given), #type, (err))

#endif
