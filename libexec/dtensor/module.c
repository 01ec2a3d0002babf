/* module.c - a program's parameters and buffers as DTensors, module by module. */
#include "libexec/dtensor/spec.h"

#include <exg/weights.h>
#include <stdlib.h>
#include <string.h>

typedef struct tensor_entry {
    const exg_weight *weight;
    uint32_t holder; /* the first it is tied to, or itself */
    exg_dtensor *t;  /* of a holder, once it is distributed */
} tensor_entry;

typedef struct module_entry {
    const char *fqn; /* `length` bytes of it */
    size_t length;
    exg_device_mesh *mesh; /* NULL: exg_distribute_module was not called for it */
    exg_module_functions functions;
} module_entry;

struct exg_module {
    const exg_program *program;
    tensor_entry *tensors;
    module_entry *modules; /* parents first */
    uint32_t tensor_count, module_count, module_capacity;
    exg_device_mesh *assigning; /* while a partition function runs */
};

/* ---- which there are ------------------------------------------------------------------------- */

static module_entry *find_module(const exg_module *m, const char *fqn, size_t length)
{
    for (uint32_t i = 0; i < m->module_count; i++) {
        if (m->modules[i].length == length && memcmp(m->modules[i].fqn, fqn, length) == 0) {
            return &m->modules[i];
        }
    }
    return NULL;
}

/* The module and those it is in, the outermost first. */
static exg_status add_module(exg_module *m, const char *fqn, size_t length, exg_error *err)
{
    for (size_t end = 0; end <= length; end++) {
        if (end != 0 && end != length && fqn[end] != '.') {
            continue;
        }
        if (find_module(m, fqn, end) != NULL) {
            continue;
        }
        if (m->module_count == m->module_capacity) {
            uint32_t capacity = m->module_capacity * 2 + 8;
            module_entry *more = realloc(m->modules, capacity * sizeof(*more));

            if (more == NULL) {
                return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
            }
            m->modules = more;
            m->module_capacity = capacity;
        }
        m->modules[m->module_count++] = (module_entry){.fqn = fqn, .length = end};
    }
    return EXG_OK;
}

/* Of "a.b.weight": "a.b". */
static size_t owner_length(const char *fqn)
{
    const char *dot = strrchr(fqn, '.');

    return dot == NULL ? 0 : (size_t)(dot - fqn);
}

/* The state dict, and buffers that it leaves out. */
static bool is_state(const exg_program *program, const exg_weight *weight)
{
    if (weight->meta == NULL || weight->use_pickle) {
        return false;
    }
    for (uint32_t i = 0; weight->table != EXG_TABLE_STATE && i < program->signature.input_count;
         i++) {
        const exg_input_spec *spec = &program->signature.inputs[i];

        if (spec->kind == EXG_INPUT_BUFFER && spec->target != NULL &&
            strcmp(spec->target, weight->fqn) == 0) {
            return true;
        }
    }
    return weight->table == EXG_TABLE_STATE;
}

static uint32_t holder_of(const exg_module *m, const exg_weight *weight)
{
    uint32_t i = 0;

    while (i < m->tensor_count &&
           (m->tensors[i].weight->storage != weight->storage ||
            !exg_tensor_meta_equal(m->tensors[i].weight->meta, weight->meta))) {
        i++;
    }
    return i;
}

exg_status exg_module_create(const exg_program *program, exg_module **m, exg_error *err)
{
    exg_module *made = calloc(1, sizeof(*made));
    const exg_weights *weights = program->weights;
    exg_status status;

    *m = NULL;
    if (made != NULL) {
        made->program = program;
        made->tensors = calloc((size_t)weights->count + 1, sizeof(*made->tensors));
    }
    if (made == NULL || made->tensors == NULL) {
        free(made);
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    status = add_module(made, "", 0, err);
    for (uint32_t i = 0; status == EXG_OK && i < program->module_call_count; i++) {
        const char *fqn = program->module_calls[i].fqn;

        status = add_module(made, fqn, strlen(fqn), err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];

        if (is_state(program, weight)) {
            made->tensors[made->tensor_count].holder = holder_of(made, weight);
            made->tensors[made->tensor_count++].weight = weight;
            status = add_module(made, weight->fqn, owner_length(weight->fqn), err);
        }
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
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    status = exg_weight_read(m->program->weights, weight, whole->data, bytes, err);
    if (status != EXG_OK) {
        free(whole->data);
    }
    return status;
}

static exg_status distribute(exg_module *m, tensor_entry *holder, exg_device_mesh *mesh,
                             const exg_placement *placements, uint32_t count, exg_error *err)
{
    exg_tensor whole;
    exg_status status;

    EXG_TRY(read_whole(m, holder->weight, exg_device_mesh_is_member(mesh), &whole, err));
    status = exg_distribute_tensor(mesh, &whole, placements, count, EXG_NO_RANK, &holder->t, err);
    free(whole.data);
    if (status == EXG_OK) {
        status = exg_dtensor_set_requires_grad(holder->t, holder->weight->meta->requires_grad,
                                               err);
    }
    return status;
}

static tensor_entry *find_holder(const exg_module *m, const char *fqn)
{
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        if (strcmp(m->tensors[i].weight->fqn, fqn) == 0) {
            return &m->tensors[m->tensors[i].holder];
        }
    }
    return NULL;
}

exg_status exg_module_assign(exg_module *m, const char *fqn, const exg_placement *placements,
                             uint32_t count, exg_error *err)
{
    exg_placement to[EXG_MESH_DIMS_MAX];
    tensor_entry *holder = find_holder(m, fqn);

    if (m->assigning == NULL || holder == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017", holder == NULL
                            ? "the program has no parameter or buffer '%s'"
                            : "'%s' is assigned outside a partition function", fqn);
    }
    if (holder->t == NULL) {
        return distribute(m, holder, m->assigning, placements, count, err);
    }
    EXG_TRY(exg_spec_placements(m->assigning, placements, count, holder->t->rank, to, err));
    for (uint32_t d = 0; d < m->assigning->ndim; d++) {
        if (!exg_device_mesh_equal(m->assigning, holder->t->mesh) ||
            !exg_placement_equal(to[d], holder->t->placements[d])) {
            return EXG_FAIL(err, USAGE, "DTN-017", "'%s' lies otherwise already: redistribute it",
                            fqn);
        }
    }
    return EXG_OK;
}

/* Is the module `inner` the module `outer`, or in it? */
static bool is_within(const module_entry *inner, const module_entry *outer)
{
    return outer->length == 0 ||
           (inner->length >= outer->length &&
            memcmp(inner->fqn, outer->fqn, outer->length) == 0 &&
            (inner->length == outer->length || inner->fqn[outer->length] == '.'));
}

static exg_status partition(exg_module *m, const module_entry *module,
                            const exg_module_functions *functions, exg_device_mesh *mesh,
                            exg_error *err)
{
    char *fqn = malloc(module->length + 1);
    exg_status status;

    if (fqn == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    memcpy(fqn, module->fqn, module->length);
    fqn[module->length] = '\0';
    m->assigning = mesh;
    status = functions->partition(functions->user, m, fqn, mesh, err);
    m->assigning = NULL;
    free(fqn);
    return status;
}

static exg_status replicate_rest(exg_module *m, const module_entry *module, exg_device_mesh *mesh,
                                 exg_error *err)
{
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const char *fqn = m->tensors[i].weight->fqn;
        tensor_entry *holder = &m->tensors[m->tensors[i].holder];

        if (holder->t == NULL && owner_length(fqn) == module->length &&
            memcmp(fqn, module->fqn, module->length) == 0) {
            EXG_TRY(distribute(m, holder, mesh, NULL, 0, err));
        }
    }
    return EXG_OK;
}

exg_status exg_distribute_module(exg_module *m, const char *fqn, exg_device_mesh *mesh,
                                 const exg_module_functions *functions, exg_error *err)
{
    module_entry *root = find_module(m, fqn, strlen(fqn));

    if (mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-018", "no mesh is given");
    }
    if (root == NULL || root->mesh != NULL || m->assigning != NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017", root == NULL
                            ? "the program has no module '%s'"
                            : "the module '%s' is distributed a second time", fqn);
    }
    if (functions != NULL) {
        memcpy(&root->functions, functions,
               functions->size < sizeof(*functions) ? functions->size : sizeof(*functions));
    }
    root->mesh = mesh;
    for (uint32_t i = 0; i < m->module_count; i++) {
        if (is_within(&m->modules[i], root)) {
            if (root->functions.partition != NULL) {
                EXG_TRY(partition(m, &m->modules[i], &root->functions, mesh, err));
            }
            EXG_TRY(replicate_rest(m, &m->modules[i], mesh, err));
        }
    }
    return EXG_OK;
}

/* ---- asking, running ------------------------------------------------------------------------- */

uint32_t exg_module_tensor_count(const exg_module *m)
{
    return m->tensor_count;
}

const char *exg_module_tensor_at(const exg_module *m, uint32_t i, exg_dtensor **t)
{
    *t = m->tensors[m->tensors[i].holder].t;
    return m->tensors[i].weight->fqn;
}

exg_dtensor *exg_module_find(const exg_module *m, const char *fqn)
{
    const tensor_entry *holder = find_holder(m, fqn);

    return holder == NULL ? NULL : holder->t;
}

/* Every tensor that the program takes is among them, however it was passed. */
static exg_status check_inputs(const exg_program *program, const exg_module_value *inputs,
                               uint32_t count, exg_error *err)
{
    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        const exg_input_spec *spec = &program->signature.inputs[i];
        bool given = spec->kind != EXG_INPUT_USER || spec->arg.kind != EXG_ARGUMENT_TENSOR;

        for (uint32_t k = 0; k < count && !given; k++) {
            given = strcmp(inputs[k].name, spec->arg.name) == 0;
        }
        if (!given) {
            return EXG_FAIL(err, USAGE, "DTN-017", "the input '%s' is not given", spec->arg.name);
        }
    }
    return EXG_OK;
}

exg_status exg_module_forward(exg_module *m, const char *fqn, exg_forward_fn *forward, void *user,
                              exg_module_value *inputs, uint32_t input_count,
                              exg_module_value *outputs, uint32_t output_count, exg_error *err)
{
    const module_entry *module = find_module(m, fqn, strlen(fqn));
    const exg_module_functions *f;

    if (module == NULL || module->mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017", "no module '%s' was distributed", fqn);
    }
    if (module->length == 0) {
        EXG_TRY(check_inputs(m->program, inputs, input_count, err));
    }
    f = &module->functions;
    if (f->input != NULL) {
        EXG_TRY(f->input(f->user, fqn, inputs, input_count, module->mesh, err));
    }
    EXG_TRY(forward(user, m, inputs, input_count, outputs, output_count, err));
    return f->output == NULL
               ? EXG_OK
               : f->output(f->user, fqn, outputs, output_count, module->mesh, err);
}
