/* verifier.h - what the rules of verify/ share. */
#ifndef EXG_LIBEXPORT_VERIFY_VERIFIER_H
#define EXG_LIBEXPORT_VERIFY_VERIFIER_H

#include "libexport/base/arena.h"

#include <exg/verify.h>
#include <exg/weights.h>

typedef struct exg_verifier {
    const exg_program *program;
    const exg_operators *operators;
    exg_diagnostics *found;
    uint32_t capacity;
    bool failed; /* memory ran out */
} exg_verifier;

/* A finding of rule `code`; `where` and the message are formatted. */
void exg_found(exg_verifier *v, const char *code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A place in the model, in the verifier's memory. */
const char *exg_where(exg_verifier *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One room of rules each. Later rooms run only when the earlier found no error,
 * since they follow what those promise. */
void exg_verify_graph(exg_verifier *v, const exg_graph *graph, const char *path);
void exg_verify_nodes(exg_verifier *v, const exg_graph *graph, const char *path);
void exg_verify_signature(exg_verifier *v);
void exg_verify_weights(exg_verifier *v);
void exg_verify_symbols(exg_verifier *v);
void exg_verify_shapes(exg_verifier *v);

#endif
