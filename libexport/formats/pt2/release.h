/* release.h - a .pt2 for a release of PyTorch: does it know what the program says? */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_RELEASE_H
#define EXG_LIBEXPORT_FORMATS_PT2_RELEASE_H

#include <exg/program.h>

/* The minor of the schema that `release` ("2.9", "2.9.1") writes. USAGE CLI-001: no such release is
 * known; UNSUPPORTED PT2-005: it reads no such archives. */
exg_status exg_pt2_minor_of(const char *release, int64_t *minor, exg_error *err);

/* UNSUPPORTED PT2-006 for what came into the schema after `minor`, where it stands and which
 * release reads it. */
exg_status exg_pt2_check_minor(const exg_program *program, int64_t minor, exg_error *err);

#endif
