/* version.c - see exg/version.h. */
#include <exg/version.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

const char *exg_version(void)
{
    return TEXT(EXG_VERSION_MAJOR) "." TEXT(EXG_VERSION_MINOR) "." TEXT(EXG_VERSION_PATCH);
}

int exg_version_number(void)
{
    return EXG_VERSION_NUMBER;
}
