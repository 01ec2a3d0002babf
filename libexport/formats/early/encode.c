/* encode.c - a program as a GraphModule: the lifting undone (S002-106), tensors put in. */
#include "libexport/formats/early/early.h"

#include "libexport/base/base64.h"
#include "libexport/base/map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is the input one that an early file binds by name? A constant and a buffer that is not
 * persistent are buffers there; the carry knows better. */
static bool is_lifted(const exg_input_spec *spec)
{
    return (spec->kind == EXG_INPUT_PARAMETER || spec->kind == EXG_INPUT_BUFFER ||
            spec->kind == EXG_INPUT_CONSTANT_TENSOR) &&
           spec->arg.kind == EXG_ARGUMENT_TENSOR && spec->target != NULL;
}

bool exg_early_holds(const exg_weight *weight)
{
    return weight->meta != NULL && !weight->use_pickle && exg_early_says_meta(weight->meta) &&
           weight->meta->layout == EXG_LAYOUT_STRIDED && exg_tensor_meta_is_static(weight->meta);
}

/* ---- names, S002-106 ------------------------------------------------------------------------ */

/* Fills e->holders and e->lifters: which weight stands at a value, which input lifts a weight. */
static exg_status find_lifters(exg_early_encoder *e)
{
    const exg_graph *graph = e->program->graph;
    const exg_signature *s = &e->program->signature;
    const exg_weights *weights = e->program->weights;
    exg_map known;

    exg_map_init(&known, e->arena);
    e->holders = EXG_NEW_ARRAY(e->arena, uint32_t, graph->value_count);
    e->lifters = EXG_NEW_ARRAY(e->arena, uint32_t, weights->count);
    if (e->holders == NULL || e->lifters == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        if (!exg_map_put(&known, weights->items[i].fqn, i)) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
    }
    for (uint32_t i = 0; i < s->input_count && i < graph->input_count; i++) {
        uint32_t w = is_lifted(&s->inputs[i]) && graph->inputs[i].kind == EXG_ARGUMENT_TENSOR
                         ? exg_map_find(&known, s->inputs[i].target)
                         : EXG_MAP_NONE;

        if (w != EXG_MAP_NONE) {
            e->holders[graph->inputs[i].as_tensor] = w + 1;
            e->lifters[w] = e->lifters[w] == 0 ? i + 1 : e->lifters[w];
        }
    }
    return EXG_OK;
}

exg_status exg_early_name_values(exg_early_encoder *e)
{
    const exg_graph *graph = e->program->graph;
    const exg_signature *s = &e->program->signature;
    bool *moved = EXG_NEW_ARRAY(e->arena, bool, graph->value_count);
    exg_map taken;

    exg_map_init(&taken, e->arena);
    e->names = EXG_NEW_ARRAY(e->arena, const char *, graph->value_count);
    if (e->names == NULL || moved == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    EXG_TRY(find_lifters(e));
    for (uint32_t i = 0; i < s->input_count && i < graph->input_count; i++) {
        if (is_lifted(&s->inputs[i]) && graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            moved[graph->inputs[i].as_tensor] = true;
        }
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        e->names[i] = graph->values[i].name;
        if (!moved[i] && !exg_map_put(&taken, e->names[i], i)) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
    }
    for (uint32_t i = 0; i < s->input_count && i < graph->input_count; i++) {
        if (is_lifted(&s->inputs[i]) && graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            const char **name = &e->names[graph->inputs[i].as_tensor];

            *name = exg_map_free_name(&taken, e->arena, s->inputs[i].target);
            if (*name == NULL || !exg_map_put(&taken, *name, i)) {
                return EXG_OUT_OF_MEMORY(e->err);
            }
        }
    }
    return EXG_OK;
}

const char *exg_early_name_of(const exg_early_encoder *e, uint32_t weight, bool *is_parameter)
{
    const exg_weight *w = &e->program->weights->items[weight];
    uint32_t input = e->lifters[weight];

    if (input == 0) { /* unused: kept all the same (S002-102) */
        *is_parameter = w->is_param;
        return w->fqn;
    }
    *is_parameter = e->program->signature.inputs[input - 1].kind == EXG_INPUT_PARAMETER;
    return e->names[e->program->graph->inputs[input - 1].as_tensor];
}

/* ---- tensors -------------------------------------------------------------------------------- */

exg_status exg_early_big_endian(exg_early_encoder *e, const exg_weight *weight, void **bytes)
{
    exg_weights *weights = e->program->weights;
    const exg_storage *storage = &weights->storages[weight->storage];
    exg_status status;

    *bytes = malloc(storage->length == 0 ? 1 : (size_t)storage->length);
    if (*bytes == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    status = exg_storage_read(weights, weight->storage, 0, storage->length, *bytes, e->err);
    if (status == EXG_OK && storage->byte_order == EXG_LITTLE_ENDIAN) {
        exg_bytes_swap(*bytes, storage->length, weight->meta->dtype);
    }
    return status;
}

exg_status exg_early_put_buffer(exg_early_encoder *e, exg_text *out, const exg_weight *weight)
{
    void *bytes = NULL;
    exg_status status = EXG_OK;

    exg_text_putc(out, '"');
    if (weight != NULL && e->bytes == EXG_EARLY_WITH_NUMBERS) {
        exg_text_printf(out, "%td", weight - e->program->weights->items);
    } else if (weight != NULL && e->bytes == EXG_EARLY_WITH_BYTES) {
        status = exg_early_big_endian(e, weight, &bytes);
        if (status == EXG_OK) {
            exg_base64_encode(out, bytes,
                              (size_t)e->program->weights->storages[weight->storage].length);
        }
    }
    exg_text_putc(out, '"');
    free(bytes);
    return status;
}

exg_status exg_early_put_storage(exg_early_encoder *e, exg_text *out, const exg_weight *weight)
{
    const exg_early_range *range =
        e->ranges == NULL || weight == NULL || e->bytes != EXG_EARLY_WITH_BYTES
            ? NULL
            : &e->ranges[weight->storage];
    bool external = range != NULL && range->location != NULL;
    char number[24];

    exg_json_put_open(out, '{');
    exg_json_member_text(out, "data_location", external ? "External" : "Internal");
    exg_json_member_open(out, "data", '{');
    if (external) {
        exg_json_member_text(out, "location", range->location);
        snprintf(number, sizeof(number), "%" PRIu64, range->offset);
        exg_json_member_text(out, "offset", number);
        snprintf(number, sizeof(number), "%" PRIu64, range->length);
        exg_json_member_text(out, "length", number);
        exg_json_member_text(out, "checksum", range->checksum);
    } else {
        exg_json_put_key(out, "buffer");
        EXG_TRY(exg_early_put_buffer(e, out, weight));
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
    return EXG_OK;
}

exg_status exg_early_put_tensor(exg_early_encoder *e, exg_text *out, const exg_weight *weight)
{
    exg_json_put_open(out, '{');
    exg_json_put_key(out, "storage");
    EXG_TRY(exg_early_put_storage(e, out, weight));
    exg_json_put_key(out, "meta");
    exg_early_put_meta(out, weight->meta);
    exg_json_put_close(out, '}');
    return EXG_OK;
}

/* The tensors of the program itself; those that went back to a branch are there. */
static exg_status put_table(const exg_early_scope *scope, exg_text *out, bool parameters)
{
    exg_early_encoder *e = scope->e;
    const exg_weights *weights = e->program->weights;

    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < weights->count; i++) {
        uint32_t input = e->lifters[i];
        bool is_elsewhere =
            input != 0 && (scope->flags[e->program->graph->inputs[input - 1].as_tensor] &
                           EXG_EARLY_NO_VALUE) != 0;
        bool is_parameter = false;
        const char *name = exg_early_holds(&weights->items[i]) && !is_elsewhere
                               ? exg_early_name_of(e, i, &is_parameter)
                               : NULL;

        if (name != NULL && is_parameter == parameters) {
            exg_json_put_key(out, name);
            EXG_TRY_IN(e->err, exg_early_put_tensor(e, out, &weights->items[i]), "%s['%s']",
                       parameters ? "parameters" : "buffers", name);
        }
    }
    exg_json_put_close(out, '}');
    return EXG_OK;
}

/* ---- graph module --------------------------------------------------------------------------- */

static exg_status root_scope(exg_early_encoder *e, exg_early_scope *scope)
{
    const exg_program *program = e->program;
    const exg_graph *graph = program->graph;

    EXG_TRY(exg_early_name_values(e));
    *scope = (exg_early_scope){.e = e, .names = e->names, .holders = e->holders};
    scope->flags = EXG_NEW_ARRAY(e->arena, uint8_t, graph->value_count);
    if (scope->flags == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (uint32_t i = 0; i < graph->input_count && i < program->signature.input_count; i++) {
        const exg_input_spec *spec = &program->signature.inputs[i];

        if (is_lifted(spec) && graph->inputs[i].kind == EXG_ARGUMENT_TENSOR &&
            (program->origin != EXG_ORIGIN_EARLY || spec->implicit)) {
            scope->flags[graph->inputs[i].as_tensor] |= EXG_EARLY_NO_INPUT;
        }
    }
    exg_early_put_back(scope, graph);
    return EXG_OK;
}

static exg_status put_module(exg_early_encoder *e, const char *carry, exg_text *out)
{
    const exg_program *program = e->program;
    exg_early_scope scope;

    EXG_TRY(root_scope(e, &scope));
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", program->name);
    exg_json_put_key(out, "graph");
    EXG_TRY(exg_early_put_graph(&scope, out, program->graph));
    exg_json_member_open(out, "metadata", '{');
    for (uint32_t i = 0; i < program->metadata.count; i++) {
        if (strcmp(program->metadata.items[i].key, EXG_EARLY_CARRY) != 0) {
            exg_json_member_text(out, program->metadata.items[i].key,
                                 program->metadata.items[i].value);
        }
    }
    if (carry != NULL) {
        exg_json_member_text(out, EXG_EARLY_CARRY, carry);
    }
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "parameters");
    EXG_TRY(put_table(&scope, out, true));
    exg_json_put_key(out, "buffers");
    EXG_TRY(put_table(&scope, out, false));
    exg_json_put_close(out, '}');
    return EXG_OK;
}

exg_status exg_early_encode(exg_early_encoder *e, const char *carry, exg_text *out)
{
    const exg_early_bytes bytes = e->bytes;
    exg_text own = EXG_TEXT_EMPTY;
    exg_status status;

    if (e->program->early_form == NULL || e->is_plain) {
        return put_module(e, carry, out);
    }
    e->bytes = bytes == EXG_EARLY_WITH_BYTES ? EXG_EARLY_WITH_NUMBERS : bytes;
    status = put_module(e, carry, &own);
    e->bytes = bytes;
    if (status == EXG_OK) {
        status = own.failed ? EXG_OUT_OF_MEMORY(e->err) : exg_early_put_form(e, &own, out);
    }
    exg_text_free(&own);
    return status;
}

exg_status exg_early_encode_parsed(exg_early_encoder *e, exg_json_doc **doc)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = exg_early_encode(e, NULL, &text);

    if (status == EXG_OK) {
        status = text.failed ? EXG_OUT_OF_MEMORY(e->err)
                             : exg_json_parse(text.data, text.length, EXG_NO_OFFSET,
                                              EXG_JSON_KEYS_NOW, doc, e->err);
    }
    exg_text_free(&text);
    return status;
}
