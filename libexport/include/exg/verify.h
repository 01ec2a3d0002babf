/* verify.h - the gate: what passed here is not doubted again.
 *
 * Decoding promises that a program can be walked; verification that it means
 * what the format says: names, order, argument types, tensor metadata, signature
 * against graph, weights against metadata, storage bounds. Every rule is a row of
 * libexport/verify/rule.def. All faults are reported in one run.
 *
 * Only exg_verify() makes an exg_verified, and libexec takes nothing else.
 */
#ifndef EXG_VERIFY_H
#define EXG_VERIFY_H

#include <exg/operators.h>
#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_severity { EXG_SEVERITY_ERROR, EXG_SEVERITY_WARNING } exg_severity;

typedef struct exg_diagnostic {
    exg_severity severity;
    const char *code;    /* "VAL-004" */
    const char *message; /* what */
    const char *where;   /* "graph.nodes[3].inputs[1]" */
    const char *fix;     /* or "" */
} exg_diagnostic;

typedef struct exg_diagnostics {
    exg_diagnostic *items;
    uint32_t count;
    uint32_t error_count;
    exg_arena *arena; /* owns the texts */
} exg_diagnostics;

void exg_diagnostics_free(exg_diagnostics *diagnostics);

/* A program that passed, with the operators it was checked against. Borrows both:
 * they must stay, unchanged, as long as it is used. */
typedef struct exg_verified {
    const exg_program *program;
    const exg_operators *operators;
} exg_verified;

/* Checks every rule. On OK *verified may be used; MALFORMED when any rule of
 * severity error is broken: err holds the first, `diagnostics` (may be NULL) all,
 * warnings too; the caller frees it in either case. NO_MEMORY. */
exg_status exg_verify(const exg_program *program, const exg_operators *operators,
                      exg_verified *verified, exg_diagnostics *diagnostics, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
