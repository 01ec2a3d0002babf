/* local.c - a program of one node over local sizes, planned and bound. */
#include "libexec/dispatch/local.h"
#include "libexport/base/arena.h"
#include "libexport/operators/lower.h"

#include <exg/emit.h>
#include <stdio.h>
#include <string.h>

typedef struct maker {
    const exg_local_call *call;
    exg_arena *arena; /* of the results */
    exg_program *program;
    exg_builder *b;
    exg_ref refs[EXG_CALL_OPERANDS_MAX]; /* by operand */
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_argument made[EXG_RESULTS_MAX]; /* by return */
} maker;

static exg_ref add_tensor(maker *m, const exg_tensor *tensor, uint32_t number)
{
    exg_tensor_meta meta = exg_builder_meta(m->b, tensor->dtype, tensor->sizes, tensor->rank);
    char name[16];

    for (uint32_t d = 0; d < meta.rank; d++) {
        meta.strides[d] = exg_sym_int_of(tensor->strides[d]);
    }
    snprintf(name, sizeof(name), "x%u", number);
    return exg_builder_input(m->b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

static exg_ref add_number(maker *m, const exg_argument *value)
{
    return EMIT(m->b, full_default, exg_arg_ints(m->b, NULL, 0), *value,
                DTYPE(exg_number_dtype(value->kind, m->call->number_dtype)));
}

static void add_operands(maker *m)
{
    for (uint32_t i = 0; i < m->call->operand_count; i++) {
        const exg_object *object = m->call->operands[i].object;

        m->refs[i] = object->kind == EXG_OBJECT_NONE    ? EXG_NO_REF
                     : object->kind == EXG_OBJECT_VALUE ? add_number(m, &object->value)
                                                        : add_tensor(m, &m->call->tensors[i], i);
    }
}

/* The result in place of operand 0. */
static void write_back(maker *m)
{
    exg_dtype dtype = m->call->tensors[0].dtype;
    exg_ref result = exg_get_ref(&m->made[0]);
    exg_argument out;

    if (result.id != EXG_NO_VALUE && exg_ref_meta(m->b, result)->dtype != dtype) {
        result = EMIT(m->b, _to_copy_default, result, DTYPE(dtype));
    }
    out = exg_arg_ref(result);
    exg_builder_output(m->b, &out, EXG_OUTPUT_USER_INPUT_MUTATION, "x0");
}

static void add_result(maker *m, exg_ref ref, exg_local_result *result)
{
    const exg_tensor_meta *meta = exg_ref_meta(m->b, ref);
    exg_argument out = exg_arg_ref(ref);

    result->absent = meta == NULL;
    if (meta == NULL) {
        return;
    }
    result->local = (exg_tensor){.dtype = meta->dtype, .rank = meta->rank};
    for (uint32_t d = 0; d < meta->rank; d++) {
        result->local.sizes[d] = meta->sizes[d].value;
    }
    exg_tensor_set_contiguous(&result->local);
    exg_builder_output(m->b, &out, EXG_OUTPUT_USER, NULL);
}

static exg_status add_results(maker *m, exg_local_result **results, uint32_t *count, exg_error *err)
{
    uint32_t room = 1;

    for (uint32_t r = 0; r < m->call->op->schema->return_count; r++) {
        room += m->made[r].kind == EXG_ARGUMENT_TENSORS ? m->made[r].count : 1;
    }
    *results = EXG_NEW_ARRAY(m->arena, exg_local_result, room);
    if (*results == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < m->call->op->schema->return_count; r++) {
        const exg_argument *made = &m->made[r];

        if (made->kind != EXG_ARGUMENT_TENSORS) {
            add_result(m, exg_get_ref(made), &(*results)[(*count)++]);
            continue;
        }
        for (uint32_t i = 0; i < made->count; i++) {
            add_result(m, (exg_ref){made->as_tensors[i]}, &(*results)[(*count)++]);
        }
    }
    return EXG_OK;
}

static exg_status make_program(maker *m, exg_local_result **results, uint32_t *count,
                               exg_error *err)
{
    const exg_operator *op = m->call->op;
    exg_status status = EXG_OK;

    *count = 0;
    EXG_TRY(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m->program, err));
    status = exg_builder_create(m->call->operators, m->program, &m->b, err);
    if (status != EXG_OK) {
        return status;
    }
    add_operands(m);
    exg_call_arguments(m->b, op->schema, m->call->at, m->call->operands, m->call->operand_count,
                       m->refs, m->args);
    (void)exg_emit_all(m->b, op->id, m->args, op->schema->argument_count, m->made);
    if (m->call->in_place) {
        write_back(m);
    } else if (exg_builder_status(m->b) == EXG_OK) {
        status = add_results(m, results, count, err);
    }
    if (status != EXG_OK) {
        exg_builder_destroy(m->b);
        return status;
    }
    return exg_builder_finish(m->b, err);
}

exg_status exg_local_plan(const exg_local_call *call, exg_arena *arena, exg_plan_executor **rank,
                          exg_local_result **results, uint32_t *count, exg_error *err)
{
    exg_plan_options options = {.size = sizeof(options), .outputs_apart = true};
    maker m = {.call = call, .arena = arena};
    exg_plan *plan = NULL;
    uint32_t output = 0;
    exg_status status = make_program(&m, results, count, err);

    *rank = NULL;
    if (status == EXG_OK) {
        status = exg_plan_rank(m.program, call->operators, &options, NULL, call->device, NULL,
                               &plan, err);
    }
    exg_program_destroy(m.program);
    EXG_TRY(status);
    for (uint32_t i = 0; i < plan->input_count; i++) { /* on a device it is there */
        plan->inputs[i].is_forwarded = plan->inputs[i].kind == EXG_INPUT_USER;
    }
    for (uint32_t o = 0; o < plan->output_count; o++) {
        plan->outputs[o].is_forwarded = true;
    }
    for (uint32_t r = 0; r < *count; r++) {
        exg_local_result *result = &(*results)[r];

        if (!result->absent) {
            const exg_location *at = &plan->outputs[output].location;

            result->bytes = exg_plan_output_bytes(plan, output++);
            result->byte_offset = at->offset * (int64_t)exg_dtype_bytes(at->view.dtype);
        }
    }
    EXG_TRY(
        exg_plan_executor_create(plan, call->memory, NULL, NULL, call->device, 0, 0, rank, err));
    EXG_TRY(exg_plan_executor_settle(*rank, err));
    EXG_TRY(exg_plan_executor_fold(*rank, err));
    return EXG_OK;
}
