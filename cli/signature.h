/* signature.h - the graph signature, printed. */
#ifndef EXG_CLI_SIGNATURE_H
#define EXG_CLI_SIGNATURE_H

#include <exg/export.h>
#include <exg/text.h>

#include <stdio.h>

/* As PyTorch's str(graph_signature), or with `json` every view of it and its repr() in
 * one object. MALFORMED where a view has no answer. */
exg_status cli_print_signature(FILE *out, const exg_signature *signature, bool json,
                               exg_error *err);

/* "assertion_dep_token": null, or {"INDEX": NAME} of the output. */
void cli_put_assertion_token(exg_text *text, const exg_signature *signature);

#endif
