/* binding.c - memory of the caller's that a session's inputs and outputs are bound to, on its
 * device.
 */
#include "libexec/device/device.h"
#include "libexec/session/session.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <string.h>

/* The one device; NULL: the host. */
static exg_status device_of(const exg_session *s, exg_accelerator **device, exg_error *err)
{
    const exg_session_context *e = &s->context;

    *device = e->devices == NULL ? NULL : e->devices[0];
    return e->grids == NULL || e->is_spmd
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "INP-015",
                                        "the session is on a mesh: its ranks have a memory each"),
                               "say whose: exg_session_bind_rank_input(), "
                               "exg_session_bind_rank_output()");
}

/* ---- inputs ------------------------------------------------------------------------------- */

exg_status exg_session_bind_input(exg_session *session, const exg_session_input *input,
                                  exg_error *err)
{
    EXG_REQUIRE(err, session, input);
    uint32_t at = 0;
    const char *name;

    EXG_TRY(exg_session_find_input(session, input->name, &name, err));
    while (at < session->bound_count && strcmp(session->bound[at].name, name) != 0) {
        at++;
    }
    session->bound_count += at == session->bound_count;
    session->bound[at] = *input;
    session->bound[at].name = name;
    return EXG_OK;
}

static bool is_given(const exg_session_input *inputs, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (inputs[i].name != NULL && strcmp(inputs[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Is it memory of the device, of a tensor that nobody has to read as a number? */
static exg_status check_there(const exg_session *s, const exg_session_input *input, exg_error *err)
{
    exg_accelerator *device;
    uint32_t at;

    if (!input->on_device || input->name == NULL) {
        return EXG_OK;
    }
    EXG_TRY(device_of(s, &device, err));
    at = exg_map_find(&s->inputs, input->name);
    if (device == NULL || input->is_number || input->tensor.data == NULL) {
        return EXG_OK;
    }
    if (at == EXG_MAP_NONE ||
        s->verified.program->signature.inputs[at].arg.kind != EXG_ARGUMENT_TENSOR) {
        return EXG_FAIL(err, USAGE, "INP-015", "input '%s' is a number, which the host has to read",
                        input->name);
    }
    return device->table->holds(device, input->tensor.data)
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "INP-015", "input '%s' is not in the memory of the device",
                          input->name);
}

exg_status exg_session_all_inputs(exg_session *s, const exg_session_input **inputs, uint32_t *count,
                                  exg_error *err)
{
    uint32_t given = *count;

    exg_session_name_inputs(s, inputs, given);
    if (s->bound_count > 0 && given <= s->verified.program->graph->input_count) {
        if (given > 0 && *inputs != s->all) {
            memcpy(s->all, *inputs, given * sizeof(*s->all));
        }
        for (uint32_t b = 0; b < s->bound_count; b++) {
            if (!is_given(s->all, given, s->bound[b].name)) {
                s->all[(*count)++] = s->bound[b];
            }
        }
        *inputs = s->all;
    }
    for (uint32_t i = 0; i < *count; i++) {
        EXG_TRY(check_there(s, &(*inputs)[i], err));
    }
    return EXG_OK;
}

exg_status exg_session_set_aside_there(exg_session *s, uint32_t index,
                                       const exg_session_input *input, exg_error *err)
{
    exg_scratch *scratch = exg_weight_store_scratch(s->context.store);
    exg_accelerator *device = s->context.devices[0];
    void *aside;

    if (!exg_scratch_holds(scratch, device, input->tensor.data, s->given_bytes[index])) {
        return EXG_OK;
    }
    EXG_TRY(exg_scratch_block(scratch, (exg_scratch_key){EXG_SCRATCH_GIVEN_THERE, 0, 0, index},
                              device, s->given_bytes[index], &aside, err));
    s->given[index] = aside;
    return device->table->copy(device, aside, input->tensor.data, s->given_bytes[index], err);
}

/* ---- outputs ------------------------------------------------------------------------------- */

exg_status exg_session_bind_output(exg_session *session, uint32_t index,
                                   const exg_output_binding *binding, exg_error *err)
{
    EXG_REQUIRE(err, session);
    const exg_signature *signature = &session->verified.program->signature;
    exg_output_binding own = {0};
    exg_accelerator *device;
    uint32_t count = 0;

    EXG_TRY(EXG_READ_OPTIONS(exg_output_binding, &own, binding, err));
    for (uint32_t o = 0; o < signature->output_count; o++) {
        count += exg_is_user_output(signature->outputs[o].kind);
    }
    if (index >= count) {
        return EXG_FAIL(err, USAGE, "RUN-014", "no output %u: the program has %u", index, count);
    }
    if (own.on_device || own.data != NULL) {
        EXG_TRY(device_of(session, &device, err));
        if (own.on_device && own.data != NULL && device != NULL &&
            !device->table->holds(device, own.data)) {
            return EXG_FAIL(err, USAGE, "INP-015",
                            "what output %u is bound to is not in the memory of the device", index);
        }
    }
    session->places[index] = own;
    return EXG_OK;
}

/* ---- outputs in the memory of inputs --------------------------------------------------------- */

#define ALIGNMENT 256 /* of what a device uses where it lies */

/* What is given of an input, and a rank's place of an output: is it the same memory, that nothing
 * else of the run is in? */
static bool is_same_memory(const exg_session *s, uint32_t rank, const exg_session_input *input,
                           const exg_output_binding *place)
{
    exg_accelerator *device = s->context.devices == NULL ? NULL : s->context.devices[rank];
    const void *data = input->tensor.data;
    uint64_t bytes =
        (uint64_t)exg_tensor_numel(&input->tensor) * exg_dtype_bytes(input->tensor.dtype);

    return place->data != NULL && place->data == data && !input->is_number &&
           place->bytes >= bytes &&
           (device == NULL ||
            (input->on_device && place->on_device && (uintptr_t)data % ALIGNMENT == 0)) &&
           !exg_scratch_holds(exg_weight_store_scratch(s->context.store), device, data, bytes);
}

static bool overlap(const exg_tensor *a, const exg_tensor *b)
{
    uintptr_t first = (uintptr_t)a->data;
    uintptr_t second = (uintptr_t)b->data;

    return first < second + (uint64_t)exg_tensor_numel(b) * exg_dtype_bytes(b->dtype) &&
           second < first + (uint64_t)exg_tensor_numel(a) * exg_dtype_bytes(a->dtype);
}

/* The one of `inputs` whose memory the place is, if no other one is in it. */
static uint32_t input_at(const exg_session *s, uint32_t rank, const exg_output_binding *place,
                         const exg_session_input *const *inputs, uint32_t count)
{
    uint32_t found = EXG_NO_INPUT;

    for (uint32_t i = 0; place->data != NULL && i < count && found == EXG_NO_INPUT; i++) {
        found = inputs[i] != NULL && is_same_memory(s, rank, inputs[i], place) ? i : found;
    }
    for (uint32_t i = 0; found != EXG_NO_INPUT && i < count; i++) {
        if (i != found && inputs[i] != NULL && !inputs[i]->is_number &&
            overlap(&inputs[i]->tensor, &inputs[found]->tensor)) {
            return EXG_NO_INPUT;
        }
    }
    return found;
}

/* By input of the program, what a rank has of it. */
static void inputs_of(const exg_session *s, uint32_t rank, const exg_session_input *given,
                      uint32_t count, const exg_session_input **inputs)
{
    const exg_session_context *e = &s->context;
    uint32_t all = s->verified.program->graph->input_count;

    memset(inputs, 0, all * sizeof(*inputs));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = exg_map_find(&s->inputs, given[i].name);

        if (at != EXG_MAP_NONE && given[i].tensor.data != NULL) {
            inputs[at] = &given[i];
        }
    }
    for (uint32_t i = 0; e->rank_inputs != NULL && i < all; i++) {
        if (e->rank_inputs[rank * all + i].input.name != NULL) {
            inputs[i] = &e->rank_inputs[rank * all + i].input;
        }
    }
}

static void find_of_rank(exg_session *s, uint32_t rank, const exg_session_input *given,
                         uint32_t count)
{
    const exg_session_context *e = &s->context;
    uint32_t outputs = s->verified.program->graph->output_count;
    const exg_output_binding *places =
        e->rank_places != NULL ? &e->rank_places[rank * outputs] : s->places;

    inputs_of(s, rank, given, count, s->of_rank);
    for (uint32_t o = 0; o < outputs; o++) {
        uint32_t at =
            input_at(s, rank, &places[o], s->of_rank, s->verified.program->graph->input_count);

        s->in_place[o] = rank == 0 || s->in_place[o] == at ? at : EXG_NO_INPUT;
    }
}

/* Is any output in memory of the caller's? */
static bool has_places(const exg_session *s)
{
    bool any = s->context.rank_places != NULL;

    for (uint32_t o = 0; !any && o < s->verified.program->graph->output_count; o++) {
        any = s->places[o].data != NULL;
    }
    return any;
}

bool exg_session_find_in_place(exg_session *s, const exg_session_input *inputs, uint32_t count)
{
    uint32_t outputs = s->verified.program->graph->output_count;
    uint32_t words = 0;

    if (s->in_place_count == 0 && !has_places(s)) { /* mostly, and before every run */
        return false;
    }
    memcpy(s->were_in_place, s->in_place, outputs * sizeof(*s->in_place));
    for (uint32_t r = 0; r < s->context.rank_count; r++) {
        find_of_rank(s, r, inputs, count);
    }
    for (uint32_t o = 0; o < outputs; o++) {
        words = s->in_place[o] != EXG_NO_INPUT ? outputs : words;
    }
    s->in_place_count = words;
    return memcmp(s->were_in_place, s->in_place, outputs * sizeof(*s->in_place)) != 0;
}

/* ---- the caller's stream -------------------------------------------------------------------- */

exg_status exg_session_follow(const exg_session *s, bool after, exg_error *err)
{
    const exg_session_context *e = &s->context;
    void *const *streams = e->options.rank_streams != NULL ? e->options.rank_streams
                           : e->options.stream == NULL     ? NULL
                                                           : &e->options.stream;

    if (streams == NULL) {
        return EXG_OK;
    }
    if (e->devices == NULL || e->devices[0]->table->follow == NULL ||
        (e->rank_count > 1 && e->options.rank_streams == NULL)) {
        return EXG_FAIL(err, USAGE, "DEV-015", "the session's device takes no stream%s",
                        e->rank_count > 1 ? " for all ranks" : "");
    }
    for (uint32_t r = 0; r < e->rank_count; r++) {
        if (streams[r] != NULL) {
            EXG_TRY(e->devices[r]->table->follow(e->devices[r], streams[r], after, err));
        }
    }
    return EXG_OK;
}

const char *exg_session_libraries(exg_session *s)
{
    exg_accelerator *device = s->context.devices == NULL ? NULL : s->context.devices[0];

    if (device != NULL && s->device.size == 0) {
        s->device.size = sizeof(s->device);
        exg_ignore(
            device->table->describe(device->index, &s->device, NULL)); /* says nothing then */
    }
    return s->device.libraries;
}
