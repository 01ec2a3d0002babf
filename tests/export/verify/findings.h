/* findings.h - what verification finds in a program. */
#ifndef EXG_TESTS_EXPORT_VERIFY_FINDINGS_H
#define EXG_TESTS_EXPORT_VERIFY_FINDINGS_H

#include <exg/verify.h>
#include <string.h>

/* How often it finds the rule `code`. */
static inline uint32_t count_findings(const exg_program *program, const exg_operators *operators,
                                      const char *code)
{
    exg_verified verified;
    exg_diagnostics found;
    uint32_t count = 0;

    exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
    for (uint32_t i = 0; i < found.count; i++) {
        count += strcmp(found.items[i].code, code) == 0;
    }
    exg_diagnostics_free(&found);
    return count;
}

#endif
