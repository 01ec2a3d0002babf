/* copy.c - a program again, in an arena of its own; weights are shared. */
#include "libexport/base/given.h"
#include <exg/program.h>

#include "libexport/base/arena.h"
#include "libexport/base/map.h"

#include <exg/weights.h>
#include <string.h>

/* Strings repeat (targets, names, devices): each is copied once. Memory faults
 * stick; whoever copies a pointer gets NULL and goes on. */
typedef struct copier {
    exg_arena *arena;
    exg_arena *scratch;
    exg_map strings; /* text -> index into kept */
    const char **kept;
    uint32_t count, capacity;
    bool failed;
} copier;

static void *alloc(copier *c, uint32_t count, size_t size)
{
    void *block = exg_arena_alloc(c->arena, count, size);

    c->failed = c->failed || block == NULL;
    return c->failed ? NULL : block;
}

/* The bytes of an array; pointers inside still lead to the original. */
static void *again(copier *c, const void *items, uint32_t count, size_t size)
{
    void *block;

    if (items == NULL) {
        return NULL;
    }
    block = alloc(c, count, size);
    if (block != NULL && count > 0) {
        memcpy(block, items, count * size);
    }
    return block;
}

static const char *text(copier *c, const char *string)
{
    uint32_t index = exg_map_find(&c->strings, string);

    if (string == NULL) {
        return NULL;
    }
    if (index != EXG_MAP_NONE) {
        return c->kept[index];
    }
    if (c->count == c->capacity) {
        uint32_t capacity = c->capacity == 0 ? 256 : c->capacity * 2;
        const char **kept = EXG_NEW_ARRAY(c->scratch, const char *, capacity);

        if (kept == NULL) {
            c->failed = true;
            return NULL;
        }
        if (c->count > 0) {
            memcpy(kept, c->kept, c->count * sizeof(const char *));
        }
        c->kept = kept;
        c->capacity = capacity;
    }
    c->kept[c->count] = exg_arena_strdup(c->arena, string);
    if (c->kept[c->count] == NULL || !exg_map_put(&c->strings, string, c->count)) {
        c->failed = true;
        return NULL;
    }
    return c->kept[c->count++];
}

static const char **texts(copier *c, const char *const *strings, uint32_t count)
{
    const char **copy = strings == NULL ? NULL : alloc(c, count, sizeof(const char *));

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = text(c, strings[i]);
    }
    return copy;
}

static exg_string_map string_map(copier *c, const exg_string_map *map)
{
    exg_string_map copy = {again(c, map->items, map->count, sizeof(exg_string_pair)), map->count};

    for (uint32_t i = 0; copy.items != NULL && i < copy.count; i++) {
        copy.items[i].key = text(c, map->items[i].key);
        copy.items[i].value = text(c, map->items[i].value);
    }
    return copy;
}

/* ---- tensors and symbols -------------------------------------------------------------- */

static exg_sym_int *sym_ints(copier *c, const exg_sym_int *syms, uint32_t count)
{
    exg_sym_int *copy = again(c, syms, count, sizeof(exg_sym_int));

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        copy[i].expr = text(c, syms[i].expr);
    }
    return copy;
}

static exg_tensor_meta *tensor_meta(copier *c, const exg_tensor_meta *meta)
{
    exg_tensor_meta *copy = again(c, meta, 1, sizeof(*meta));

    if (copy != NULL) {
        copy->sizes = sym_ints(c, meta->sizes, meta->rank);
        copy->strides = sym_ints(c, meta->strides, meta->rank);
        copy->storage_offset.expr = text(c, meta->storage_offset.expr);
        copy->device.type = text(c, meta->device.type);
    }
    return copy;
}

static exg_value *values(copier *c, const exg_value *from, uint32_t count)
{
    exg_value *copy = again(c, from, count, sizeof(exg_value));

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        exg_value *v = &copy[i];

        v->name = text(c, from[i].name);
        v->custom_class = text(c, from[i].custom_class);
        v->tensor = tensor_meta(c, from[i].tensor);
        v->sym_int = sym_ints(c, from[i].sym_int, 1);
        v->sym_float = again(c, from[i].sym_float, 1, sizeof(exg_sym_float));
        if (v->sym_float != NULL) {
            v->sym_float->expr = text(c, v->sym_float->expr);
        }
        v->sym_bool = again(c, from[i].sym_bool, 1, sizeof(exg_sym_bool));
        if (v->sym_bool != NULL) {
            v->sym_bool->expr = text(c, v->sym_bool->expr);
        }
    }
    return copy;
}

/* ---- arguments -------------------------------------------------------------------------- */

static exg_graph *graph(copier *c, const exg_graph *from);
static void argument(copier *c, exg_argument *arg);

static void graph_argument(copier *c, exg_argument *arg)
{
    arg->as_graph = again(c, arg->as_graph, 1, sizeof(exg_graph_argument));
    if (arg->as_graph != NULL) {
        arg->as_graph->name = text(c, arg->as_graph->name);
        arg->as_graph->graph = graph(c, arg->as_graph->graph);
        arg->as_graph->metadata = string_map(c, &arg->as_graph->metadata);
    }
}

static void custom_argument(copier *c, exg_argument *arg)
{
    arg->as_custom_obj = again(c, arg->as_custom_obj, 1, sizeof(exg_custom_obj));
    if (arg->as_custom_obj != NULL) {
        arg->as_custom_obj->name = text(c, arg->as_custom_obj->name);
        arg->as_custom_obj->class_fqn = text(c, arg->as_custom_obj->class_fqn);
    }
}

static void nested_argument(copier *c, exg_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_NESTED_TENSORS:
        arg->as_nested_tensors =
            again(c, arg->as_nested_tensors, arg->count, sizeof(exg_value_list));
        for (uint32_t i = 0; arg->as_nested_tensors != NULL && i < arg->count; i++) {
            exg_value_list *list = &arg->as_nested_tensors[i];

            list->items = again(c, list->items, list->count, sizeof(exg_value_id));
        }
        break;
    case EXG_ARGUMENT_INT_LISTS:
        arg->as_int_lists = again(c, arg->as_int_lists, arg->count, sizeof(exg_int_list));
        for (uint32_t i = 0; arg->as_int_lists != NULL && i < arg->count; i++) {
            exg_int_list *list = &arg->as_int_lists[i];

            list->items = again(c, list->items, list->count, sizeof(int64_t));
        }
        break;
    case EXG_ARGUMENT_FLOAT_LISTS:
        arg->as_float_lists = again(c, arg->as_float_lists, arg->count, sizeof(exg_float_list));
        for (uint32_t i = 0; arg->as_float_lists != NULL && i < arg->count; i++) {
            exg_float_list *list = &arg->as_float_lists[i];

            list->items = again(c, list->items, list->count, sizeof(double));
        }
        break;
    default: /* STRING_TO_ARGUMENT */
        arg->as_string_to_argument =
            again(c, arg->as_string_to_argument, arg->count, sizeof(exg_string_argument));
        for (uint32_t i = 0; arg->as_string_to_argument != NULL && i < arg->count; i++) {
            arg->as_string_to_argument[i].key = text(c, arg->as_string_to_argument[i].key);
            argument(c, &arg->as_string_to_argument[i].argument);
        }
        break;
    }
}

/* `arg` holds the original's bytes; what it points to is replaced by copies. */
static void argument(copier *c, exg_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_NONE:
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
    case EXG_ARGUMENT_SCALAR_TYPE:
    case EXG_ARGUMENT_MEMORY_FORMAT:
    case EXG_ARGUMENT_LAYOUT:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
    case EXG_ARGUMENT_COMPLEX:
    case EXG_ARGUMENT_KIND_COUNT:
        break;
    case EXG_ARGUMENT_STRING:
    case EXG_ARGUMENT_OPERATOR:
        arg->as_string = text(c, arg->as_string);
        break;
    case EXG_ARGUMENT_DEVICE:
        arg->as_device.type = text(c, arg->as_device.type);
        break;
    case EXG_ARGUMENT_INTS:
        arg->as_ints = again(c, arg->as_ints, arg->count, sizeof(int64_t));
        break;
    case EXG_ARGUMENT_FLOATS:
        arg->as_floats = again(c, arg->as_floats, arg->count, sizeof(double));
        break;
    case EXG_ARGUMENT_BOOLS:
        arg->as_bools = again(c, arg->as_bools, arg->count, sizeof(bool));
        break;
    case EXG_ARGUMENT_STRINGS:
        arg->as_strings = texts(c, arg->as_strings, arg->count);
        break;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        arg->as_tensors = again(c, arg->as_tensors, arg->count, sizeof(exg_value_id));
        break;
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
        arg->as_syms = again(c, arg->as_syms, arg->count, sizeof(exg_sym_argument));
        break;
    case EXG_ARGUMENT_GRAPH:
        graph_argument(c, arg);
        break;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        custom_argument(c, arg);
        break;
    case EXG_ARGUMENT_NESTED_TENSORS:
    case EXG_ARGUMENT_INT_LISTS:
    case EXG_ARGUMENT_FLOAT_LISTS:
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
        nested_argument(c, arg);
        break;
    }
}

static exg_argument *arguments(copier *c, const exg_argument *from, uint32_t count)
{
    exg_argument *copy = again(c, from, count, sizeof(exg_argument));

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        argument(c, &copy[i]);
    }
    return copy;
}

/* ---- graph -------------------------------------------------------------------------------- */

static void node(copier *c, exg_node *n)
{
    n->target = text(c, n->target);
    n->name = text(c, n->name);
    n->inputs = again(c, n->inputs, n->input_count, sizeof(exg_named_argument));
    for (uint32_t i = 0; n->inputs != NULL && i < n->input_count; i++) {
        n->inputs[i].name = text(c, n->inputs[i].name);
        argument(c, &n->inputs[i].arg);
    }
    n->outputs = arguments(c, n->outputs, n->output_count);
    n->metadata = string_map(c, &n->metadata);
}

static exg_graph *graph(copier *c, const exg_graph *from)
{
    exg_graph *copy = again(c, from, 1, sizeof(exg_graph));

    if (copy == NULL) {
        return NULL;
    }
    copy->inputs = arguments(c, from->inputs, from->input_count);
    copy->outputs = arguments(c, from->outputs, from->output_count);
    copy->values = values(c, from->values, from->value_count);
    copy->nodes = again(c, from->nodes, from->node_count, sizeof(exg_node));
    for (uint32_t i = 0; copy->nodes != NULL && i < copy->node_count; i++) {
        node(c, &copy->nodes[i]);
    }
    return copy;
}

/* ---- signature and the rest ------------------------------------------------------------------ */

static void signature_argument(copier *c, exg_signature_argument *arg)
{
    arg->name = text(c, arg->name);
    if (arg->kind == EXG_ARGUMENT_STRING || arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        arg->as_string = text(c, arg->as_string);
    }
}

static void signature(copier *c, exg_signature *s)
{
    s->inputs = again(c, s->inputs, s->input_count, sizeof(exg_input_spec));
    for (uint32_t i = 0; s->inputs != NULL && i < s->input_count; i++) {
        signature_argument(c, &s->inputs[i].arg);
        s->inputs[i].target = text(c, s->inputs[i].target);
    }
    s->outputs = again(c, s->outputs, s->output_count, sizeof(exg_output_spec));
    for (uint32_t i = 0; s->outputs != NULL && i < s->output_count; i++) {
        signature_argument(c, &s->outputs[i].arg);
        s->outputs[i].target = text(c, s->outputs[i].target);
    }
    s->assertion_dep_token = text(c, s->assertion_dep_token);
}

static exg_module_call *module_calls(copier *c, const exg_module_call *from, uint32_t count)
{
    exg_module_call *copy = again(c, from, count, sizeof(exg_module_call));

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        exg_module_call *call = &copy[i];

        call->fqn = text(c, call->fqn);
        call->inputs = arguments(c, call->inputs, call->input_count);
        call->outputs = arguments(c, call->outputs, call->output_count);
        call->in_spec = text(c, call->in_spec);
        call->out_spec = text(c, call->out_spec);
        call->forward_arg_names = texts(c, call->forward_arg_names, call->forward_arg_name_count);
    }
    return copy;
}

static exg_sample_input *sample_inputs(copier *c, const exg_sample_input *from, uint32_t count)
{
    exg_sample_input *copy = again(c, from, count, sizeof(exg_sample_input));

    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        copy[i].keyword = text(c, copy[i].keyword);
        copy[i].meta = tensor_meta(c, copy[i].meta);
        if (copy[i].kind == EXG_ARGUMENT_STRING) {
            copy[i].as_string = text(c, copy[i].as_string);
        }
    }
    return copy;
}

static void tables(copier *c, exg_program *p)
{
    p->named_tuples = again(c, p->named_tuples, p->named_tuple_count, sizeof(exg_named_tuple));
    for (uint32_t i = 0; p->named_tuples != NULL && i < p->named_tuple_count; i++) {
        exg_named_tuple *tuple = &p->named_tuples[i];

        tuple->type = text(c, tuple->type);
        tuple->field_names = texts(c, tuple->field_names, tuple->field_count);
    }
    p->opsets = again(c, p->opsets, p->opset_count, sizeof(exg_opset));
    for (uint32_t i = 0; p->opsets != NULL && i < p->opset_count; i++) {
        p->opsets[i].name_space = text(c, p->opsets[i].name_space);
    }
    p->range_constraints =
        again(c, p->range_constraints, p->range_constraint_count, sizeof(exg_range_constraint));
    for (uint32_t i = 0; p->range_constraints != NULL && i < p->range_constraint_count; i++) {
        p->range_constraints[i].symbol = text(c, p->range_constraints[i].symbol);
    }
    p->extra_files = again(c, p->extra_files, p->extra_file_count, sizeof(exg_extra_file));
    for (uint32_t i = 0; p->extra_files != NULL && i < p->extra_file_count; i++) {
        p->extra_files[i].name = text(c, p->extra_files[i].name);
    }
    p->input_metadata =
        again(c, p->input_metadata, p->input_metadata_count, sizeof(exg_input_metadata));
    for (uint32_t i = 0; p->input_metadata != NULL && i < p->input_metadata_count; i++) {
        p->input_metadata[i].input = text(c, p->input_metadata[i].input);
        p->input_metadata[i].metadata = string_map(c, &p->input_metadata[i].metadata);
    }
}

static void copy_into(copier *c, exg_program *to, const exg_program *from)
{
    exg_program shell = *to; /* what creation made: arena, weights */

    *to = *from;
    to->arena = shell.arena;
    to->weights = shell.weights;
    to->name = text(c, from->name);
    to->graph = graph(c, from->graph);
    signature(c, &to->signature);
    to->module_calls = module_calls(c, from->module_calls, from->module_call_count);
    to->metadata = string_map(c, &from->metadata);
    tables(c, to);
    to->verifiers = texts(c, from->verifiers, from->verifier_count);
    to->guards_code = texts(c, from->guards_code, from->guard_count);
    to->sample_inputs = sample_inputs(c, from->sample_inputs, from->sample_input_count);
    to->torch_version = text(c, from->torch_version);
    to->early_form = text(c, from->early_form);
}

exg_status exg_program_copy(const exg_program *program, exg_program **copy, exg_error *err)
{
    EXG_GIVEN(err, program, copy);
    copier c = {.scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)};
    exg_program *made = NULL;
    exg_status status;

    *copy = NULL;
    if (c.scratch == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status =
        exg_program_create(exg_arena_allocator(program->arena), EXG_ARENA_UNBOUNDED, &made, err);
    if (status == EXG_OK) {
        exg_weights_release(made->weights);
        made->weights = exg_weights_retain(program->weights);
        c.arena = made->arena;
        exg_map_init(&c.strings, c.scratch);
        copy_into(&c, made, program);
        if (c.failed) {
            status = EXG_OUT_OF_MEMORY(err);
        }
    }
    exg_arena_destroy(c.scratch);
    if (status != EXG_OK) {
        exg_program_destroy(made);
        return status;
    }
    *copy = made;
    return EXG_OK;
}

exg_status exg_argument_copy(exg_arena *arena, exg_argument *arg, exg_error *err)
{
    EXG_GIVEN(err, arena, arg);
    copier c = {.arena = arena, .scratch = arena};

    exg_map_init(&c.strings, arena);
    argument(&c, arg);
    return c.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
