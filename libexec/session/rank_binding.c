/* rank_binding.c - what the ranks of a mesh have in memory of their own: inputs and outputs, whole
 * or their parts.
 */
#include "libexec/device/device.h"
#include "libexec/session/session.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <string.h>

/* Which of the ranks here: USAGE INP-016. */
static exg_status find_rank(const exg_session *s, uint32_t rank, uint32_t *at, exg_error *err)
{
    *at = rank - s->context.first_rank;
    return *at < s->context.rank_count
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "INP-016", "rank %u does not run here", rank);
}

static bool is_there(const exg_session *s, uint32_t rank, const void *data)
{
    exg_accelerator *device = s->context.devices == NULL ? NULL : s->context.devices[rank];

    return device == NULL || device->table->holds(device, data);
}

static exg_status create_tables(exg_session *s, exg_error *err)
{
    exg_session_context *e = &s->context;
    const exg_graph *graph = s->verified.program->graph;

    if (e->rank_inputs == NULL) {
        e->rank_inputs =
            EXG_NEW_ARRAY(s->arena, exg_rank_input, (size_t)graph->input_count * e->rank_count);
    }
    if (e->rank_places == NULL) {
        e->rank_places = EXG_NEW_ARRAY(s->arena, exg_output_binding,
                                       (size_t)graph->output_count * e->rank_count);
    }
    return e->rank_inputs == NULL || e->rank_places == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* Is there a mesh that the session places the program on? */
static bool is_placed(const exg_session *s)
{
    return s->context.grids != NULL && !s->context.is_spmd;
}

static exg_status check_input(const exg_session *s, uint32_t at, uint32_t index,
                              const exg_session_input *input, exg_error *err)
{
    const exg_input_spec *spec = &s->verified.program->signature.inputs[index];

    if (input->is_number || spec->arg.kind != EXG_ARGUMENT_TENSOR) {
        return EXG_FAIL(err, USAGE, "INP-016", "input '%s' is a number: all ranks have it alike",
                        input->name);
    }
    if (input->tensor.rank > EXG_RANK_MAX || !exg_tensor_is_contiguous(&input->tensor)) {
        return EXG_FAIL(err, USAGE, "INP-008", "input '%s' is not row-major", input->name);
    }
    return !input->on_device || input->tensor.data == NULL || is_there(s, at, input->tensor.data)
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "INP-015",
                          "input '%s' is not in the memory of the rank's device", input->name);
}

exg_status exg_session_bind_rank_input(exg_session *session, uint32_t rank,
                                       const exg_session_input *input, exg_error *err)
{
    EXG_REQUIRE(err, session, input);
    exg_rank_input *own;
    const char *name;
    uint32_t index;
    uint32_t at;

    EXG_TRY(find_rank(session, rank, &at, err));
    if (!is_placed(session)) {
        return exg_session_bind_input(session, input, err);
    }
    EXG_TRY(exg_session_find_input(session, input->name, &name, err));
    index = exg_map_find(&session->inputs, name);
    if (index == EXG_MAP_NONE) {
        return EXG_FAIL(err, USAGE, "INP-016", "input '%s' is a number: all ranks have it alike",
                        name);
    }
    EXG_TRY_IN(err, check_input(session, at, index, input, err), "rank %u", rank);
    EXG_TRY(create_tables(session, err));
    own = &session->context.rank_inputs[at * session->verified.program->graph->input_count + index];
    if (input->tensor.data == NULL && exg_tensor_numel(&input->tensor) > 0) { /* none any more */
        *own = (exg_rank_input){0};
        return EXG_OK;
    }
    own->input = *input;
    own->input.name = name;
    return EXG_OK;
}

exg_status exg_session_bind_rank_output(exg_session *session, uint32_t rank, uint32_t index,
                                        const exg_output_binding *binding, exg_error *err)
{
    EXG_REQUIRE(err, session);
    const exg_signature *signature = &session->verified.program->signature;
    exg_output_binding own = {0};
    uint32_t count = 0;
    uint32_t at;

    EXG_TRY(EXG_READ_OPTIONS(exg_output_binding, &own, binding, err));
    EXG_TRY(find_rank(session, rank, &at, err));
    if (!is_placed(session)) {
        return exg_session_bind_output(session, index, binding, err);
    }
    for (uint32_t o = 0; o < signature->output_count; o++) {
        count += exg_is_user_output(signature->outputs[o].kind);
    }
    if (index >= count) {
        return EXG_FAIL(err, USAGE, "RUN-014", "no output %u: the program has %u", index, count);
    }
    if (own.on_device && own.data != NULL && !is_there(session, at, own.data)) {
        return EXG_FAIL(err, USAGE, "INP-015",
                        "what output %u of rank %u is bound to is not in the memory of its device",
                        index, rank);
    }
    EXG_TRY(create_tables(session, err));
    session->context.rank_places[at * session->verified.program->graph->output_count + index] = own;
    return EXG_OK;
}

/* One that is in a result of the last run is copied first. */
static exg_status set_aside(exg_session *s, uint32_t rank, uint32_t index, exg_rank_input *own,
                            exg_error *err)
{
    exg_scratch *scratch = exg_weight_store_scratch(s->context.store);
    bool there = own->input.on_device && s->context.devices != NULL;
    exg_accelerator *device = there ? s->context.devices[rank] : NULL;
    exg_scratch_key key = {there ? EXG_SCRATCH_GIVEN_THERE : EXG_SCRATCH_GIVEN, 0, rank + 1, index};
    uint64_t bytes =
        (uint64_t)exg_tensor_numel(&own->input.tensor) * exg_dtype_bytes(own->input.tensor.dtype);

    own->data = own->input.tensor.data;
    if (!exg_scratch_holds(scratch, device, own->data, bytes)) {
        return EXG_OK;
    }
    EXG_TRY(exg_scratch_block(scratch, key, device, bytes, &own->data, err));
    if (there) {
        return device->table->copy(device, own->data, own->input.tensor.data, bytes, err);
    }
    memcpy(own->data, own->input.tensor.data, (size_t)bytes);
    return EXG_OK;
}

exg_status exg_session_take_rank_inputs(exg_session *session, exg_error *err)
{
    exg_session_context *e = &session->context;
    uint32_t count = session->verified.program->graph->input_count;

    for (uint32_t i = 0; e->rank_inputs != NULL && i < count * e->rank_count; i++) {
        if (e->rank_inputs[i].input.name != NULL) {
            EXG_TRY(set_aside(session, i / count, i % count, &e->rank_inputs[i], err));
        }
    }
    return EXG_OK;
}

/* ---- how parts lie ----------------------------------------------------------------------------
 */

const exg_placement *exg_session_input_placements(const exg_session *session, const char *name)
{
    const exg_executable *first = session->executor.current;
    const char *placeholder;
    uint32_t at = exg_session_find_input(session, name, &placeholder, NULL) == EXG_OK
                      ? exg_map_find(&session->inputs, placeholder)
                      : EXG_MAP_NONE;

    return first == NULL || first->parts.inputs == NULL || at == EXG_MAP_NONE
               ? NULL
               : &first->parts.inputs[at * first->parts.ndim];
}

const exg_placement *exg_session_output_placements(const exg_session *session, uint32_t index)
{
    const exg_executable *last =
        session->executor.last != NULL ? session->executor.last : session->executor.current;
    uint32_t user = 0;

    for (uint32_t o = 0;
         last != NULL && last->parts.outputs != NULL && o < last->segment->output_count; o++) {
        uint32_t at = last->segment->first_output + o;

        if (exg_is_user_output(exg_executable_plan(last)->outputs[at].kind) && user++ == index) {
            return &last->parts.outputs[at * last->parts.ndim];
        }
    }
    return NULL;
}
