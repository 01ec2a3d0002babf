/* require.h - what a public call cannot do without: a handle that an ignored fault left NULL is
 * told, with its name, where it comes in. */
#ifndef EXG_LIBEXPORT_BASE_REQUIRE_H
#define EXG_LIBEXPORT_BASE_REQUIRE_H

#include <exg/status.h>
#include <stddef.h>

/* USAGE ARG-001 unless all `count` of them are there. `names` is how they were written, commas
 * between them; the last word of each is its name. */
exg_status exg_require(const char *file, int line, const char *function, const char *names,
                       const void *const *pointers, size_t count, exg_error *err);

/* Returns from the caller unless every one of these pointers is there. */
#define EXG_REQUIRE(err, ...)                                                                      \
    EXG_TRY(exg_require(__FILE__, __LINE__, __func__, #__VA_ARGS__,                                \
                        (const void *const[]){__VA_ARGS__},                                        \
                        sizeof((const void *const[]){__VA_ARGS__}) / sizeof(const void *), (err)))

/* A list, which may be NULL when it has no items. */
#define EXG_IF_ANY(count, items) ((count) == 0 ? "" : (const void *)(items))

#endif
