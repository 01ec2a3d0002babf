/* module.c - a program's parameters and buffers as DTensors, module by module. */
#include "libexec/dispatch/module.h"
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dtensor/spec.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <exg/text.h>
#include <exg/weights.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64 /* of modules in one another */
#define NO_TENSOR UINT32_MAX

/* ---- which there are ------------------------------------------------------------------------- */

static exg_status no_memory(exg_error *err)
{
    return EXG_OUT_OF_MEMORY(err);
}

exg_module_entry *exg_module_called(const exg_module *m, const char *fqn, size_t length)
{
    for (uint32_t i = 0; i < m->module_count; i++) {
        if (strncmp(m->modules[i].fqn, fqn, length) == 0 && m->modules[i].fqn[length] == '\0') {
            return &m->modules[i];
        }
    }
    return NULL;
}

static exg_module_entry *find_module(const exg_module *m, const char *fqn)
{
    uint32_t at = exg_map_find(&m->module_of, fqn);

    return at == EXG_MAP_NONE ? NULL : &m->modules[at];
}

/* `fqn` is the arena's. */
static exg_status add_module(exg_module *m, const char *fqn, exg_error *err)
{
    if (find_module(m, fqn) != NULL) {
        return EXG_OK;
    }
    if (m->module_count == m->module_capacity) {
        uint32_t capacity = m->module_capacity * 2 + 8;
        exg_module_entry *more = realloc(m->modules, capacity * sizeof(*more));

        if (more == NULL) {
            return no_memory(err);
        }
        m->modules = more;
        m->module_capacity = capacity;
    }
    m->modules[m->module_count] = (exg_module_entry){.fqn = fqn, .first = NO_TENSOR};
    return exg_map_put(&m->module_of, fqn, m->module_count++) ? EXG_OK : no_memory(err);
}

/* The module `length` bytes name and those it is in, the outermost first. */
static exg_status add_modules(exg_module *m, const char *fqn, size_t length, exg_error *err)
{
    uint32_t depth = 0;

    for (size_t end = 0; end <= length; end++) {
        const char *name;

        if (end != 0 && end != length && fqn[end] != '.') {
            continue;
        }
        if (depth++ > DEPTH_MAX) {
            return EXG_FAIL(err, LIMIT, "DTN-017", "a module in more than %d others", DEPTH_MAX);
        }
        name = exg_arena_strndup(m->arena, fqn, end);
        if (name == NULL) {
            return no_memory(err);
        }
        EXG_TRY(add_module(m, name, err));
    }
    return EXG_OK;
}

/* Tensors of one key are one: the same view on the same storage. */
static bool key_of(const exg_weight *weight, exg_text *key)
{
    const exg_tensor_meta *meta = weight->meta;

    if (!exg_tensor_meta_is_static(meta)) {
        exg_text_puts(key, weight->fqn);
    } else {
        exg_text_printf(key, "%u %d %d %" PRId64, weight->storage, (int)meta->dtype,
                        meta->requires_grad, meta->storage_offset.value);
        for (uint32_t d = 0; d < meta->rank; d++) {
            exg_text_printf(key, " %" PRId64 "/%" PRId64, meta->sizes[d].value,
                            meta->strides[d].value);
        }
    }
    return !key->failed;
}

/* `is_held`: by the module that its name begins with. */
static exg_status add_tensor(exg_module *m, const exg_weight *weight, exg_map *keys, bool is_held,
                             exg_error *err)
{
    const char *dot = strrchr(weight->fqn, '.');
    size_t length = dot == NULL ? 0 : (size_t)(dot - weight->fqn);
    exg_text key = EXG_TEXT_EMPTY;
    uint32_t at = m->tensor_count++;
    exg_tensor_entry *tensor = &m->tensors[at];
    bool made = key_of(weight, &key);
    char *name = made ? exg_arena_strdup(m->arena, exg_text_string(&key)) : NULL;
    char *owner = exg_arena_strndup(m->arena, weight->fqn, length);
    exg_module_entry *module;

    exg_text_free(&key);
    if (name == NULL || owner == NULL) {
        return no_memory(err);
    }
    *tensor =
        (exg_tensor_entry){.weight = weight, .next = NO_TENSOR, .holder = exg_map_find(keys, name)};
    if (tensor->holder == EXG_MAP_NONE) {
        tensor->holder = at;
    }
    if (is_held) {
        EXG_TRY(add_modules(m, weight->fqn, length, err));
        module = find_module(m, owner);
        if (module->first == NO_TENSOR) {
            module->first = at;
        } else {
            m->tensors[module->last].next = at;
        }
        module->last = at;
    }
    return exg_map_put(keys, name, tensor->holder) && exg_map_put(&m->tensor_of, weight->fqn, at)
               ? EXG_OK
               : no_memory(err);
}

/* Is it of the state dict, or a buffer that this leaves out? */
static bool is_listed(const exg_weight *weight, const exg_map *buffers)
{
    return weight->table == EXG_TABLE_STATE || exg_map_find(buffers, weight->fqn) != EXG_MAP_NONE;
}

/* Those of the modules, then constants that only the graph holds. */
static exg_status add_tensors(exg_module *m, exg_error *err)
{
    const exg_signature *signature = &m->verified.program->signature;
    const exg_weights *weights = m->verified.program->weights;
    exg_map keys, buffers;

    exg_map_init(&keys, m->arena);
    exg_map_init(&buffers, m->arena);
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        if (spec->kind == EXG_INPUT_BUFFER && spec->target != NULL &&
            !exg_map_put(&buffers, spec->target, i)) {
            return no_memory(err);
        }
    }
    for (int constants = 0; constants < 2; constants++) {
        for (uint32_t i = 0; i < weights->count; i++) {
            const exg_weight *weight = &weights->items[i];

            if (weight->meta != NULL && !weight->use_pickle &&
                is_listed(weight, &buffers) == (constants == 0)) {
                EXG_TRY(add_tensor(m, weight, &keys, constants == 0, err));
            }
        }
        m->listed_count = constants == 0 ? m->tensor_count : m->listed_count;
    }
    return EXG_OK;
}

exg_status exg_module_create(const exg_verified *verified, exg_module **m, exg_error *err)
{
    EXG_REQUIRE(err, verified, m);
    EXG_REQUIRE(err, verified->program);
    const exg_program *program = verified->program;
    exg_module *made = calloc(1, sizeof(*made));
    exg_status status;

    *m = NULL;
    if (made == NULL) {
        return no_memory(err);
    }
    made->verified = *verified;
    made->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    made->tensors = calloc((size_t)program->weights->count + 1, sizeof(*made->tensors));
    if (made->arena == NULL || made->tensors == NULL) {
        exg_module_destroy(made);
        return no_memory(err);
    }
    exg_map_init(&made->tensor_of, made->arena);
    exg_map_init(&made->module_of, made->arena);
    status = add_modules(made, "", 0, err);
    for (uint32_t i = 0; status == EXG_OK && i < program->module_call_count; i++) {
        const char *fqn = program->module_calls[i].fqn;

        status = add_modules(made, fqn, strlen(fqn), err);
    }
    if (status == EXG_OK) {
        status = add_tensors(made, err);
    }
    if (status != EXG_OK) {
        exg_module_destroy(made);
        return status;
    }
    *m = made;
    return EXG_OK;
}

void exg_module_destroy(exg_module *m)
{
    if (m != NULL) {
        for (uint32_t i = 0; i < m->tensor_count; i++) {
            exg_dtensor_destroy(m->tensors[i].t);
        }
        exg_program_destroy(m->bound);
        free(m->sizes);
        exg_arena_destroy(m->arena);
        free(m->tensors);
        free(m->modules);
        free(m);
    }
}

/* ---- distributing ---------------------------------------------------------------------------- */

/* All of a weight, row-major, in memory that the caller frees; without `data` only its form. */
static exg_status read_whole(const exg_module *m, const exg_weight *weight, bool data,
                             exg_tensor *whole, exg_error *err)
{
    const exg_tensor_meta *meta = weight->meta;
    uint64_t bytes;
    exg_status status;

    if (weight->encoding != NULL || meta->rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, UNSUPPORTED, "DTN-017", "'%s' is encoded, or of too many dims",
                        weight->fqn);
    }
    EXG_TRY(exg_tensor_meta_bytes(meta, &bytes, err));
    *whole = (exg_tensor){.dtype = meta->dtype, .rank = meta->rank};
    for (uint32_t d = 0; d < meta->rank; d++) {
        whole->sizes[d] = meta->sizes[d].value;
    }
    exg_tensor_set_contiguous(whole);
    if (!data) {
        return EXG_OK;
    }
    whole->data = malloc((size_t)bytes + 1);
    if (whole->data == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_weight_read(m->verified.program->weights, weight, whole->data, bytes, err);
    if (status != EXG_OK) {
        free(whole->data);
    }
    return status;
}

static exg_status distribute(exg_module *m, exg_tensor_entry *holder, exg_device_mesh *mesh,
                             const exg_placement *placements, uint32_t count, exg_error *err)
{
    exg_dtensor *made = NULL;
    exg_tensor whole;
    exg_status status;

    EXG_TRY(read_whole(m, holder->weight, exg_device_mesh_is_member(mesh), &whole, err));
    status = exg_distribute_tensor(mesh, &whole, placements, count, EXG_NO_RANK, &made, err);
    free(whole.data);
    if (status == EXG_OK) {
        status = exg_dtensor_set_requires_grad(made, holder->weight->meta->requires_grad, err);
    }
    if (status != EXG_OK) {
        exg_dtensor_destroy(made);
        return status;
    }
    exg_dtensor_destroy(holder->t);
    holder->t = made;
    holder->is_plain = false;
    return EXG_OK;
}

static exg_tensor_entry *find_holder(const exg_module *m, const char *fqn)
{
    uint32_t at = exg_map_find(&m->tensor_of, fqn);

    return at == EXG_MAP_NONE ? NULL : &m->tensors[m->tensors[at].holder];
}

exg_status exg_module_assign(exg_module *m, const char *fqn, const exg_placement *placements,
                             uint32_t count, exg_error *err)
{
    EXG_REQUIRE(err, m, fqn);
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_tensor_entry *holder = find_holder(m, fqn);

    if (m->assigning == NULL || holder == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017",
                        holder == NULL ? "the program has no parameter or buffer '%s'"
                                       : "'%s' is assigned outside a partition function",
                        fqn);
    }
    if (holder->t == NULL || holder->is_plain) {
        return distribute(m, holder, m->assigning, placements, count, err);
    }
    EXG_TRY(exg_spec_placements(m->assigning, placements, count, holder->t->rank, to, err));
    for (uint32_t d = 0; d < m->assigning->ndim; d++) {
        if (!exg_device_mesh_equal(m->assigning, holder->t->mesh) ||
            !exg_placement_equal(to[d], holder->t->placements[d])) {
            return EXG_FAIL(err, USAGE, "DTN-017",
                            "'%s' is already distributed otherwise: redistribute it", fqn);
        }
    }
    return EXG_OK;
}

/* Is the module `inner` the module `outer`, or in it? */
static bool is_within(const exg_module_entry *inner, const exg_module_entry *outer)
{
    size_t length = strlen(outer->fqn);

    return length == 0 || (strncmp(inner->fqn, outer->fqn, length) == 0 &&
                           (inner->fqn[length] == '\0' || inner->fqn[length] == '.'));
}

static exg_status partition(exg_module *m, const exg_module_entry *module,
                            const exg_module_functions *functions, exg_device_mesh *mesh,
                            exg_error *err)
{
    exg_status status = EXG_OK;

    if (functions->partition != NULL) {
        m->assigning = mesh;
        status = functions->partition(functions->user, m, module->fqn, mesh, err);
        m->assigning = NULL;
    }
    for (uint32_t i = module->first; status == EXG_OK && i != NO_TENSOR; i = m->tensors[i].next) {
        exg_tensor_entry *holder = &m->tensors[m->tensors[i].holder];

        if (holder->t == NULL || holder->is_plain) {
            status = distribute(m, holder, mesh, NULL, 0, err);
        }
    }
    return status;
}

/* Of either kind there is one. */
static exg_status check_functions(exg_dispatcher *d, const exg_module_functions *f, exg_error *err)
{
    if ((f->input != NULL && f->input_of_two != NULL) ||
        (f->output != NULL && f->output_of_two != NULL)) {
        return EXG_FAIL(err, USAGE, "DTN-017", "two input or two output functions of one module");
    }
    if (f->input_of_two != NULL) {
        exg_log_note(d, "distribute_module: an input function of two arguments (inputs, mesh) is "
                        "deprecated: take one that is given the module too");
    }
    if (f->output_of_two != NULL) {
        exg_log_note(d, "distribute_module: an output function of two arguments (outputs, mesh) is "
                        "deprecated: take one that is given the module too");
    }
    return EXG_OK;
}

exg_status exg_distribute_module(exg_dispatcher *d, exg_module *m, const char *fqn,
                                 exg_device_mesh *mesh, const exg_module_functions *functions,
                                 exg_error *err)
{
    EXG_REQUIRE(err, d, m, fqn);
    exg_module_entry *root = find_module(m, fqn);
    exg_module_functions own = {0};

    mesh = mesh == NULL ? exg_current_mesh(d) : mesh;
    if (mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-018", "no mesh is given");
    }
    if (root == NULL || root->mesh != NULL || m->assigning != NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017",
                        root == NULL ? "the program has no module '%s'"
                                     : "the module '%s' is distributed a second time",
                        fqn);
    }
    EXG_TRY(EXG_READ_OPTIONS(exg_module_functions, &own, functions, err));
    EXG_TRY(check_functions(d, &own, err));
    root->functions = own;
    root->mesh = mesh;
    for (uint32_t i = 0; i < m->module_count; i++) {
        if (is_within(&m->modules[i], root)) {
            EXG_TRY(partition(m, &m->modules[i], &root->functions, mesh, err));
        }
    }
    return EXG_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

uint32_t exg_module_tensor_count(const exg_module *m)
{
    return m->listed_count;
}

const char *exg_module_tensor_at(const exg_module *m, uint32_t i, exg_dtensor **t)
{
    *t = m->tensors[m->tensors[i].holder].t;
    return m->tensors[i].weight->fqn;
}

exg_dtensor *exg_module_find(const exg_module *m, const char *fqn)
{
    const exg_tensor_entry *holder = find_holder(m, fqn);

    return holder == NULL ? NULL : holder->t;
}

exg_status exg_module_tensor(exg_module *m, const char *fqn, exg_device_mesh *plain,
                             exg_dtensor **t, exg_error *err)
{
    exg_tensor_entry *holder = find_holder(m, fqn);

    *t = NULL;
    if (holder == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017", "the program has no tensor '%s'", fqn);
    }
    if (holder->t == NULL || (holder->is_plain && holder->t->mesh != plain)) {
        EXG_TRY(distribute(m, holder, plain, NULL, 0, err));
        holder->is_plain = true;
    }
    *t = holder->t;
    return EXG_OK;
}

exg_status exg_module_call_hook(exg_module *m, const exg_module_entry *module, bool is_output,
                                exg_module_value *values, uint32_t count, exg_error *err)
{
    const exg_module_functions *f = &module->functions;
    exg_module_hook *hook = is_output ? f->output : f->input;
    exg_values_hook *of_two = is_output ? f->output_of_two : f->input_of_two;

    if (hook != NULL) {
        return hook(f->user, m, module->fqn, values, count, module->mesh, err);
    }
    return of_two == NULL ? EXG_OK : of_two(f->user, values, count, module->mesh, err);
}
