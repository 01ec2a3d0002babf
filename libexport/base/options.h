/* options.h - structs of options as callers give them: their first word is their size, so that a
 * caller built with an older, shorter one is understood. */
#ifndef EXG_LIBEXPORT_BASE_OPTIONS_H
#define EXG_LIBEXPORT_BASE_OPTIONS_H

#include <exg/status.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
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

#define EXG_READ_OPTIONS(type, own, given, err)                                                    \
    exg_options_read((own), sizeof(type), (given), #type, (err))

/* The way back: as much of `own` as `given`, which was read by exg_options_read(), has room for by
 * its size; that is then how much was filled. */
static inline void exg_options_write(void *given, const void *own, size_t room)
{
    size_t size;

    memcpy(&size, given, sizeof(size));
    size = size < room ? size : room;
    memcpy(given, own, size);
    memcpy(given, &size, sizeof(size));
}

#define EXG_WRITE_OPTIONS(type, given, own) exg_options_write((given), (own), sizeof(type))

/* One of the values 0 to `last`? USAGE OPT-002. */
static inline exg_status exg_option_choice(uint32_t value, uint32_t last, const char *name,
                                           exg_error *err)
{
    if (value > last) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "OPT-002",
                                      "%s is %" PRIu32 ", which stands "
                                      "for nothing",
                                      name, value),
                             "take one of the names the header gives its type");
    }
    return EXG_OK;
}

/* Of an enum, whose numbers may be signed. */
#define EXG_CHECK_CHOICE(value, last, name, err)                                                   \
    exg_option_choice((uint32_t)(value), (uint32_t)(last), (name), (err))

#endif
