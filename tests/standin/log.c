/* log.c - see log.h. */
#include "tests/standin/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern int standin_device(void) __attribute__((weak)); /* of libcuda's, where that is loaded */

void standin_log(const char *format, ...)
{
    const char *name = getenv("EXG_STANDIN_LOG");
    char path[512];
    FILE *file;
    va_list list;

    if (name == NULL) {
        return;
    }
    (void)snprintf(path, sizeof(path), getenv("EXG_STANDIN_LOG_BY") == NULL ? "%s" : "%s.%d", name,
                   &standin_device == NULL ? -1 : standin_device());
    file = fopen(path, "a");
    if (file != NULL) {
        va_start(list, format);
        (void)vfprintf(file, format, list);
        va_end(list);
        (void)fputc('\n', file);
        (void)fclose(file);
    }
}
