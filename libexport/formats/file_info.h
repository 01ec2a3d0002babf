/* file_info.h - the names of the programs in a file. */
#ifndef EXG_LIBEXPORT_FORMATS_FILE_INFO_H
#define EXG_LIBEXPORT_FORMATS_FILE_INFO_H

#include <exg/formats.h>

/* Makes room for the names in `info` and copies one; for the formats. */
exg_status exg_file_info_add_program(exg_file_info *info, const char *name, exg_error *err);

#endif
