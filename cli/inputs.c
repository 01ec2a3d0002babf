/* inputs.c - user inputs: from safetensors or npy files, or the archive's own. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more input, one more file and one more block. */
static exg_status reserve(cli_inputs *inputs, exg_error *err)
{
    bool room = exg_arena_reserve(inputs->arena, &inputs->items, inputs->count, &inputs->capacity,
                                  sizeof(*inputs->items)) &&
                exg_arena_reserve(inputs->arena, &inputs->files, inputs->file_count,
                                  &inputs->file_capacity, sizeof(exg_tensor_file *)) &&
                exg_arena_reserve(inputs->arena, &inputs->blocks, inputs->block_count,
                                  &inputs->block_capacity, sizeof(void *));

    return room ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

static exg_status add_input(cli_inputs *inputs, const char *name, const exg_named_tensor *tensor,
                            exg_error *err)
{
    exg_session_input *input;
    void *copy;

    EXG_TRY(reserve(inputs, err));
    if (tensor->rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "input '%s' of rank %u", name, tensor->rank);
    }
    copy = malloc(tensor->bytes + 1);
    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    inputs->blocks[inputs->block_count++] = copy;
    if (tensor->bytes > 0) {
        memcpy(copy, tensor->data, tensor->bytes);
    }
    input = &inputs->items[inputs->count];
    memset(input, 0, sizeof(*input));
    input->name = name;
    input->tensor.data = copy;
    input->tensor.dtype = tensor->dtype;
    input->tensor.rank = tensor->rank;
    if (tensor->rank > 0) {
        memcpy(input->tensor.sizes, tensor->shape, tensor->rank * sizeof(int64_t));
    }
    exg_tensor_set_contiguous(&input->tensor);
    inputs->count++;
    return EXG_OK;
}

/* The user input of a program that has one; NULL: it has several, or none. */
static const char *only_input(const exg_program *program)
{
    const char *name = NULL;

    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        if (program->signature.inputs[i].kind == EXG_INPUT_USER) {
            if (name != NULL) {
                return NULL;
            }
            name = program->signature.inputs[i].arg.name;
        }
    }
    return name;
}

/* NAME=FILE.npy, or FILE.safetensors with one tensor an input; FILE.npy alone is the only input. */
static exg_status read_file(const exg_program *program, cli_inputs *inputs, char *word,
                            exg_error *err)
{
    char *equals = strchr(word, '=');
    const char *path = equals == NULL ? word : equals + 1;
    exg_tensor_file *file;

    EXG_TRY(reserve(inputs, err));
    EXG_TRY_IN(err, cli_open_tensors(path, &file, err), "%s:", path);
    inputs->files[inputs->file_count++] = file;
    if (equals != NULL) {
        *equals = '\0';
        if (file->count != 1) {
            return EXG_FAIL(err, USAGE, "CLI-004", "'%s' holds %u tensors, one is wanted", path,
                            file->count);
        }
        return add_input(inputs, word, &file->items[0], err);
    }
    for (uint32_t i = 0; i < file->count; i++) {
        const char *name =
            file->items[i].name[0] == '\0' ? only_input(program) : file->items[i].name;

        if (name == NULL) {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-004", "'%s' names no input", path),
                                 "write --input NAME=%s", path);
        }
        EXG_TRY(add_input(inputs, name, &file->items[i], err));
    }
    return EXG_OK;
}

static const char *user_input_name(const exg_program *program, uint32_t leaf,
                                   exg_argument_kind *kind)
{
    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        if (program->signature.inputs[i].kind == EXG_INPUT_USER && leaf-- == 0) {
            *kind = program->graph->inputs[i].kind;
            return program->signature.inputs[i].arg.name;
        }
    }
    return NULL;
}

/* The bytes of a sample tensor, row-major. */
static exg_status read_sample(exg_weights *weights, const exg_sample_input *sample, int64_t *sizes,
                              exg_named_tensor *tensor, void **block, exg_error *err)
{
    exg_weight as_weight = {.fqn = "sample", .meta = sample->meta, .storage = sample->storage};
    uint64_t bytes;

    if (sample->meta->rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a sample input of rank %u", sample->meta->rank);
    }
    EXG_TRY(exg_tensor_meta_bytes(sample->meta, &bytes, err));
    *block = malloc(bytes + 1);
    if (*block == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t d = 0; d < sample->meta->rank; d++) {
        sizes[d] = sample->meta->sizes[d].value;
    }
    *tensor = (exg_named_tensor){.dtype = sample->meta->dtype,
                                 .rank = sample->meta->rank,
                                 .shape = sizes,
                                 .data = *block,
                                 .bytes = bytes};
    return exg_weight_read(weights, &as_weight, *block, bytes, err);
}

/* The file's sample inputs are a call of the program: as many as it takes, and each keyword that of
 * its argument, with which a path begins. */
static exg_status check_samples(const exg_program *program, cli_inputs *inputs, exg_error *err)
{
    const char **paths;
    uint32_t leaf = 0;

    EXG_TRY(exg_input_paths(program, inputs->arena, &paths, err));
    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        const char *keyword = NULL;
        size_t length = 0;

        if (program->signature.inputs[i].kind != EXG_INPUT_USER) {
            continue;
        }
        if (leaf < program->sample_input_count) {
            keyword = program->sample_inputs[leaf].keyword;
            length = keyword == NULL ? 0 : strlen(keyword);
        }
        if (keyword != NULL && paths[i] != NULL &&
            (strncmp(paths[i], keyword, length) != 0 || strchr(".", paths[i][length]) == NULL)) {
            return EXG_FAIL(err, USAGE, "INP-001",
                            "the file's sample inputs give '%s' where the program takes '%s'",
                            keyword, paths[i]);
        }
        leaf++;
    }
    return leaf == program->sample_input_count
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "INP-001", "%u sample inputs in the file for %u inputs",
                          program->sample_input_count, leaf);
}

static exg_status read_samples(const cli_program *p, cli_inputs *inputs, exg_error *err)
{
    const exg_program *program = p->program;
    exg_weights *weights = p->samples != NULL ? p->samples : program->weights;

    if (check_samples(program, inputs, err) != EXG_OK) {
        return exg_error_fix(err, err->status,
                             "give inputs of your own: --input, or --fill random");
    }
    for (uint32_t leaf = 0; leaf < program->sample_input_count; leaf++) {
        const exg_sample_input *sample = &program->sample_inputs[leaf];
        exg_argument_kind kind;
        const char *name = user_input_name(program, leaf, &kind);
        int64_t sizes[EXG_RANK_MAX];
        exg_named_tensor tensor;
        void *block = NULL;
        exg_status status;

        if (name == NULL || (kind != EXG_ARGUMENT_TENSOR && kind != EXG_ARGUMENT_SYM_INT)) {
            continue;
        }
        if (sample->kind == EXG_ARGUMENT_INT) {
            EXG_TRY(reserve(inputs, err));
            inputs->items[inputs->count++] =
                (exg_session_input){.name = name, .is_number = true, .number = sample->as_int};
            continue;
        }
        if (sample->kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        status = read_sample(weights, sample, sizes, &tensor, &block, err);
        status = status == EXG_OK ? add_input(inputs, name, &tensor, err) : status;
        free(block);
        if (status != EXG_OK) {
            return exg_error_within(err, status, "sample_inputs[%u]", leaf);
        }
    }
    return EXG_OK;
}

/* What an input is called, and the placeholder's name. */
typedef struct called {
    const char *name, *placeholder;
} called;

static int compare_called(const void *a, const void *b)
{
    return strcmp(((const called *)a)->name, ((const called *)b)->name);
}

/* What is given by its path ("cache.layers.0.keys") gets the placeholder's name; a placeholder's
 * own name comes before a path. */
static exg_status resolve_paths(const exg_program *program, cli_inputs *inputs, exg_error *err)
{
    uint32_t count = program->graph->input_count;
    called *by_name = calloc(2 * (size_t)count + 1, sizeof(*by_name));
    called *by_path;
    uint32_t names = 0;
    uint32_t known = 0;
    const char **paths;
    exg_status status;

    if (by_name == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    by_path = by_name + count;
    status = exg_input_paths(program, inputs->arena, &paths, err);
    for (uint32_t i = 0; status == EXG_OK && i < count && i < program->signature.input_count; i++) {
        const exg_input_spec *spec = &program->signature.inputs[i];

        if (spec->kind == EXG_INPUT_USER && spec->arg.name != NULL) {
            by_name[names++] = (called){spec->arg.name, spec->arg.name};
        }
        if (paths[i] != NULL) {
            by_path[known++] = (called){paths[i], spec->arg.name};
        }
    }
    qsort(by_name, names, sizeof(*by_name), compare_called);
    qsort(by_path, known, sizeof(*by_path), compare_called);
    for (uint32_t k = 0; status == EXG_OK && k < inputs->count; k++) {
        called given = {inputs->items[k].name, NULL};
        const called *found = NULL;

        if (bsearch(&given, by_name, names, sizeof(given), compare_called) == NULL) {
            found = bsearch(&given, by_path, known, sizeof(given), compare_called);
        }
        inputs->items[k].name = found == NULL ? given.name : found->placeholder;
    }
    free(by_name);
    return status;
}

/* Does the program take anything that a caller gives? */
static bool has_user_inputs(const exg_program *program)
{
    bool has = false;

    for (uint32_t i = 0; i < program->graph->input_count; i++) {
        exg_argument_kind kind = program->graph->inputs[i].kind;

        has = has || (program->signature.inputs[i].kind == EXG_INPUT_USER &&
                      (kind == EXG_ARGUMENT_TENSOR || kind == EXG_ARGUMENT_SYM_INT));
    }
    return has;
}

/* What the call names: files and sizes. */
static exg_status read_given(const cli_call *call, const cli_program *p, cli_inputs *inputs,
                             exg_error *err)
{
    for (uint32_t i = 0; i < call->inputs.count; i++) {
        char *word;

        EXG_TRY(reserve(inputs, err));
        word = strdup(call->inputs.items[i]);
        if (word == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        inputs->blocks[inputs->block_count++] = word;
        EXG_TRY(read_file(p->program, inputs, word, err));
    }
    EXG_TRY(cli_take_shapes(call, inputs, err));
    return resolve_paths(p->program, inputs, err);
}

static exg_status read_inputs(const cli_call *call, cli_program *p, cli_inputs *inputs,
                              exg_error *err)
{
    const bool has_samples = call->inputs.count == 0 && p->program->sample_input_count > 0;
    const bool plans = strcmp(call->command, "plan") == 0;         /* which needs no data */
    const bool any = plans || strcmp(call->command, "bench") == 0; /* where any data will do */

    memset(inputs, 0, sizeof(*inputs));
    inputs->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    EXG_TRY(inputs->arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK);
    EXG_TRY(cli_unwrap(call, p, err));
    EXG_TRY(read_given(call, p, inputs, err));
    if (cli_makes_inputs(call) || (any && !has_samples && has_user_inputs(p->program))) {
        return cli_make_inputs(call, p, !plans, inputs, err);
    }
    if (call->inputs.count > 0 || !has_user_inputs(p->program)) {
        return EXG_OK;
    }
    if (p->program->sample_input_count == 0) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "INP-002",
                                      "no inputs: the file has no sample inputs that can be read"),
                             "give --input FILE.safetensors, or --fill random");
    }
    inputs->are_samples = true;
    return read_samples(p, inputs, err);
}

exg_status cli_inputs_read(const cli_call *call, cli_program *p, cli_inputs *inputs, exg_error *err)
{
    EXG_TRY(read_inputs(call, p, inputs, err));
    return call->precision == NULL ? EXG_OK : cli_inputs_cast(p, inputs, err);
}

exg_status cli_inputs_told(const cli_inputs *inputs, exg_status status, exg_error *err)
{
    char fix[sizeof(err->fix)];

    if (status == EXG_OK || !inputs->are_samples || strncmp(err->code, "INP-", 4) != 0 ||
        strcmp(err->code, "INP-011") == 0) { /* a guard that cannot be read is no fault of theirs */
        return status;
    }
    memcpy(fix, err->fix, sizeof(fix));
    status = exg_error_within(err, status, "sample_inputs");
    return exg_error_fix(err, status,
                         "%s; these are the file's own sample inputs: --input gives others, or "
                         "--fill random",
                         fix);
}

exg_status cli_inputs_copy(const cli_inputs *inputs, cli_inputs *copy, exg_error *err)
{
    memset(copy, 0, sizeof(*copy));
    copy->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    EXG_TRY(copy->arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK);
    for (uint32_t i = 0; i < inputs->count; i++) {
        const exg_session_input *from = &inputs->items[i];
        const exg_tensor *tensor = &from->tensor;
        const char *name = exg_arena_strdup(copy->arena, from->name);
        const uint64_t bytes =
            from->is_number ? 0
                            : (uint64_t)exg_tensor_numel(tensor) * exg_dtype_bytes(tensor->dtype);
        const exg_named_tensor as_named = {.dtype = tensor->dtype,
                                           .rank = tensor->rank,
                                           .shape = tensor->sizes,
                                           .data = tensor->data,
                                           .bytes = bytes};

        EXG_TRY(name == NULL ? EXG_OUT_OF_MEMORY(err) : add_input(copy, name, &as_named, err));
        copy->items[i].is_number = from->is_number;
        copy->items[i].number = from->number;
    }
    return EXG_OK;
}

void cli_inputs_free(cli_inputs *inputs)
{
    for (uint32_t i = 0; i < inputs->file_count; i++) {
        exg_tensor_file_close(inputs->files[i]);
    }
    for (uint32_t i = 0; i < inputs->block_count; i++) {
        free(inputs->blocks[i]);
    }
    exg_arena_destroy(inputs->arena);
}
