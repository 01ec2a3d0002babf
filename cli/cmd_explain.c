/* cmd_explain.c - exg explain FILE --stage S: the program after a step of its road;
 * exg explain CODE: what a fault code means. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* Of a file, so as it may go to a terminal, or as a member of JSON. */
static exg_status print_program(const cli_call *call, const exg_program *program, exg_error *err)
{
    exg_text plain = EXG_TEXT_EMPTY;
    exg_status status;
    char *text;

    EXG_TRY(exg_program_print(program, &text, err));
    if (call->json) {
        status = cli_json_value(call->out, "program", text, err);
    } else {
        exg_text_plain(&plain, text, true);
        status = cli_put(call->out, &plain, err);
        exg_text_free(&plain);
    }
    free(text);
    return status;
}

exg_status cli_bind(const cli_call *call, const cli_program *p, const cli_inputs *inputs,
                    exg_arena *arena, exg_symbols *symbols, exg_error *err)
{
    const exg_bind_options options = {.size = sizeof(options),
                                      .ignore_guards = call->ignore_guards};
    exg_input_binding *bindings = EXG_NEW_ARRAY(arena, exg_input_binding, inputs->count);

    if (bindings == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < inputs->count; i++) {
        const exg_session_input *input = &inputs->items[i];
        const exg_tensor *tensor = &input->tensor;

        bindings[i] =
            (exg_input_binding){.name = input->name,
                                .kind = input->is_number ? EXG_ARGUMENT_INT : EXG_ARGUMENT_TENSOR,
                                .as_int = input->number,
                                .dtype = tensor->dtype,
                                .rank = tensor->rank,
                                .sizes = tensor->sizes};
        if (!input->is_number && tensor->rank == 0 && tensor->dtype == EXG_DTYPE_I64) {
            memcpy(&bindings[i].as_int, tensor->data, sizeof(int64_t));
        }
    }
    return exg_bind_inputs(&p->verified, bindings, inputs->count, &options, arena, symbols, err);
}

static exg_status bind(const cli_call *call, cli_program *p, exg_arena *arena, exg_symbols *symbols,
                       exg_error *err)
{
    cli_inputs inputs;
    exg_status status;

    if (call->inputs.count == 0) {
        return exg_bind_hints(p->program, arena, symbols, err);
    }
    status = cli_inputs_read(call, p, &inputs, err);
    status = status == EXG_OK ? cli_bind(call, p, &inputs, arena, symbols, err) : status;
    cli_inputs_free(&inputs);
    return status;
}

static exg_status print_placed(const cli_call *call, const cli_program *p,
                               const exg_program *functional, exg_error *err)
{
    exg_session_options options;
    cli_placement placement;
    exg_program *local = NULL;
    exg_status status = cli_session_options(call, &options, &placement, err);

    status = status == EXG_OK
                 ? exg_partition(functional, p->operators, options.partition, options.goal,
                                 &options.mesh, 0, &local, NULL, NULL, err)
                 : status;
    status = status == EXG_OK ? print_program(call, local, err) : status;
    exg_program_destroy(local);
    cli_placement_free(&placement);
    return status;
}

static exg_status print_stage(const cli_call *call, const cli_program *p, const char *stage,
                              const exg_symbols *symbols, exg_error *err)
{
    static const char *const names[] = {"specialize", "decompose", "functionalize", "simplify"};
    exg_program *stages[4] = {NULL};
    char *break_reason = NULL;
    exg_status status = EXG_OK;
    uint32_t last = 0;
    bool place = strcmp(stage, "place") == 0;

    while (last < 3 && strcmp(names[last], stage) != 0) {
        last++;
    }
    if (last == 0) {
        status = exg_specialize(&p->verified, symbols, &stages[0], err);
    } else { /* as a session makes it: as far as can be known before the run */
        status = exg_first_segment(&p->verified, symbols, &stages[1], &break_reason, err);
    }
    if (status == EXG_OK && last >= 2) {
        status = exg_functionalize(stages[1], p->operators, &stages[2], err);
    }
    if (status == EXG_OK && last >= 3) {
        status = exg_simplify(stages[2], p->operators, &stages[3], err);
    }
    if (status == EXG_OK) {
        status =
            place ? print_placed(call, p, stages[3], err) : print_program(call, stages[last], err);
    }
    if (status == EXG_OK && break_reason != NULL && !call->json) {
        fprintf(call->out, "%s\n", break_reason);
    }
    for (uint32_t i = 0; i < 4; i++) {
        exg_program_destroy(stages[i]);
    }
    free(break_reason);
    return status;
}

exg_status cmd_explain(const cli_call *call, exg_error *err)
{
    static const char *const stages[] = {"specialize", "decompose", "functionalize", "simplify",
                                         "place"};
    const char *stage = call->stage == NULL ? "simplify" : call->stage;
    cli_program p;
    exg_program *holder;
    exg_symbols symbols;
    bool known = false;
    exg_status status;

    if (call->list) {
        return cli_list_codes(call, err);
    }
    if (cli_is_code(call->paths[0])) {
        return cli_explain_code(call, call->paths[0], err);
    }
    if (strcmp(stage, "plan") == 0) {
        return cmd_plan(call, err);
    }
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        known = known || strcmp(stages[i], stage) == 0;
    }
    if (!known) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "no stage '%s'", stage),
                             "--stage takes specialize, decompose, functionalize, simplify, place "
                             "or plan");
    }
    EXG_TRY(cli_open_verified(call, &p, err));
    status = cli_unwrap(call, &p, err);
    if (status == EXG_OK) { /* its arena holds the symbols */
        status = exg_program_create(NULL, UINT64_MAX, &holder, err);
    }
    if (status == EXG_OK) {
        status = bind(call, &p, holder->arena, &symbols, err);
        status = status == EXG_OK ? print_stage(call, &p, stage, &symbols, err) : status;
        exg_program_destroy(holder);
    }
    cli_close(&p);
    return status;
}
