/* log.c - see log.h. */
#include "tests/standin/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void standin_log(const char *format, ...)
{
    const char *path = getenv("EXG_STANDIN_LOG");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    va_list list;

    if (file != NULL) {
        va_start(list, format);
        (void)vfprintf(file, format, list);
        va_end(list);
        (void)fputc('\n', file);
        (void)fclose(file);
    }
}
