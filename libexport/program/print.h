/* print.h - what the printing files share. */
#ifndef EXG_LIBEXPORT_PROGRAM_PRINT_H
#define EXG_LIBEXPORT_PROGRAM_PRINT_H

#include "libexport/program/expression.h"

#include <exg/program.h>
#include <exg/text.h>

/* The same where `put` writes each symbol; NULL: by its name. */
void exg_print_renamed(exg_text *out, const char *expr, exg_put_symbol *put, void *user);

/* Python's repr of a string: quotes chosen as Python does, controls escaped. */
void exg_print_python_string(exg_text *out, const char *string);

/* "Annotation: {...} " of a node's "custom" metadata; nothing when that is no dict. */
void exg_print_custom(exg_text *out, const char *json);

/* The same as an argument of a node in the text of a torch.fx.Graph: "%x", cpu, a string bare. */
void exg_print_fx_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg);

/* ': "f32[2, s0]"', ': "Sym(s0 + 1)"', or nothing; symbols as in exg_print_renamed(). */
void exg_print_annotation(exg_text *out, const exg_value *value, exg_put_symbol *put, void *user);

/* "class NAME(torch.nn.Module):" with its forward function and those of its
 * subgraphs, each line behind `indent` spaces. `signature` may be NULL: it names
 * constant inputs. */
void exg_print_module(exg_text *out, const exg_graph *graph, const exg_signature *signature,
                      const char *name, int indent);

/* The signature as PyTorch's str() gives it (S004-79): signature.c. */
void exg_print_signature(exg_text *out, const exg_signature *signature);

/* Hands the text over, or says NO_MEMORY. */
exg_status exg_print_take(exg_text *out, char **text, exg_error *err);

#endif
