/* code.c - what is true of all faults of one code. */
#include <exg/status.h>

#include <string.h>

static const exg_code faults[] = {
#define EXG_FAULT(code, meaning, fix) {code, meaning, fix},
#include "libexport/base/fault.def"
#undef EXG_FAULT
};

#define FAULT_COUNT ((uint32_t)(sizeof(faults) / sizeof(faults[0])))

const exg_code *exg_code_at(uint32_t index)
{
    return index < FAULT_COUNT ? &faults[index] : NULL;
}

const exg_code *exg_code_find(const char *code)
{
    for (uint32_t i = 0; i < FAULT_COUNT; i++) {
        if (strcmp(faults[i].code, code) == 0) {
            return &faults[i];
        }
    }
    return NULL;
}
