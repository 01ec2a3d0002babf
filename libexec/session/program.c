/* program.c - the program as a session runs it, and whether it can. */
#include "libexec/session/program.h"
#include "libexport/transform/ways_out.h"

#include <exg/transform.h>
#include <stdlib.h>
#include <string.h>

static exg_status check_operators(const exg_verified *verified, exg_error *err)
{
    char *missing;
    exg_status status = EXG_OK;

    EXG_TRY(exg_missing_operators(verified->program, verified->operators, exg_operator_runs,
                                  &missing, err));
    if (missing != NULL) {
        for (char *c = missing; *c != '\0'; c++) {
            *c = *c == '\n' ? ';' : *c;
        }
        status = exg_fail_missing(err, "operators without a kernel: ", missing);
        free(missing);
    }
    return status;
}

/* One that is none is strided, as for PyTorch (VAL-014). */
static bool runs(exg_layout layout)
{
    return layout == EXG_LAYOUT_STRIDED || layout == EXG_LAYOUT_SPARSE_COO ||
           layout == EXG_LAYOUT_UNKNOWN;
}

/* Kernels know strided tensors alone; COO ones are the dense ones they stand for (sparse.def). */
static exg_status check_layouts(const exg_graph *graph, exg_error *err)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const exg_tensor_meta *meta = graph->values[i].tensor;

        if (meta != NULL && !runs(meta->layout)) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, UNSUPPORTED, "OPR-006", "'%s' is a %s tensor",
                                          graph->values[i].name, exg_layout_name(meta->layout)),
                                 "export the program with strided tensors");
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_argument *arg = &graph->nodes[n].inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH) {
                EXG_TRY_IN(err, check_layouts(arg->as_graph->graph, err), "%s",
                           arg->as_graph->name);
            }
        }
    }
    return EXG_OK;
}

/* `made` runs in the place of what there was. */
static exg_status take_made(exg_program *made, exg_verified *taken, exg_program **owned,
                            exg_error *err)
{
    exg_program_destroy(*owned);
    *owned = made;
    return exg_verify(made, taken->operators, taken, NULL, err);
}

exg_status exg_session_take_program(exg_session_context *context, const exg_verified *verified,
                                    exg_verified *taken, exg_program **made, exg_error *err)
{
    exg_program *next = NULL;

    *taken = *verified;
    if (exg_program_has_subclasses(verified->program)) {
        EXG_TRY(exg_program_unwrap(verified->program, &next, err));
        EXG_TRY(take_made(next, taken, made, err));
    }
    if (context->is_spmd) {
        EXG_TRY(exg_process_groups_bind(&context->groups, taken->program, verified->operators,
                                        &next, err));
        EXG_TRY(next == NULL ? EXG_OK : take_made(next, taken, made, err));
    }
    EXG_TRY(check_operators(taken, err));
    return check_layouts(taken->program->graph, err);
}
