/* current.c - an early program as PyTorch takes one today, in a .pt2, and back.
 *
 * What the current schema has no place for (branches' own tensors and metadata, names that Python
 * cannot have, files of weights, how it is all written) goes along as the program's form, in
 * metadata["exg.early"] of the graph module. Read again, the form is decoded and made current; when
 * that is what the file says, the early program is back, with the file's weights. A file that was
 * changed since is what it says, and the note stays what it is.
 */
#include "libexport/formats/early/early.h"
#include "libexport/formats/pt2/encode.h"
#include "libexport/program/equal.h"
#include "libexport/program/expression.h"
#include "libexport/program/python.h"

#include <exg/symint.h>
#include <string.h>

/* ---- texts that PyTorch reads --------------------------------------------------------------- */

/* Is every part of it one that PyTorch can split? */
static bool is_module_stack(const char *text)
{
    for (;; text++) {
        size_t length = strcspn(text, ";");

        if (!exg_is_stack_item(text, length)) {
            return false;
        }
        text += length;
        if (*text == '\0') {
            return true;
        }
    }
}

/* PyTorch reads these, where an early file may have any text. */
static bool is_readable(const exg_string_pair *pair)
{
    return strcmp(pair->key, "source_fn_stack") != 0 && strcmp(pair->key, "custom") != 0 &&
           strcmp(pair->key, "from_node") != 0 &&
           (strcmp(pair->key, "nn_module_stack") != 0 || pair->value[0] == '\0' ||
            is_module_stack(pair->value));
}

/* Keys that PyTorch would read otherwise are set apart. */
static exg_status set_apart(exg_arena *arena, exg_string_map *map, exg_error *err)
{
    for (uint32_t i = 0; i < map->count; i++) {
        if (!is_readable(&map->items[i])) {
            map->items[i].key = exg_arena_printf(arena, EXG_EARLY_EXTRA "%s", map->items[i].key);
            if (map->items[i].key == NULL) {
                return EXG_OUT_OF_MEMORY(err);
            }
        }
    }
    return EXG_OK;
}

/* ---- symbols -------------------------------------------------------------------------------- */

static void put_spelled(void *user, const exg_term *symbol, exg_text *out)
{
    (void)user;
    exg_text_puts(out, "Symbol('");
    exg_text_add(out, symbol->text, symbol->length);
    exg_text_puts(out, "', integer=True)");
}

/* "2*N" as "2*Symbol('N', integer=True)": by itself N is a function of sympy, E a number. */
static exg_status spell(exg_arena *arena, exg_sym_int *sym, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_expression expression;
    exg_arena *scratch;
    exg_status status;

    if (sym->expr == NULL || strstr(sym->expr, "Symbol(") != NULL) {
        return EXG_OK;
    }
    scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = scratch == NULL ? EXG_NO_MEMORY
                             : exg_expression_parse(scratch, sym->expr, &expression, NULL);
    if (status == EXG_OK && exg_expression_check(&expression, NULL) == EXG_OK) {
        exg_expression_rename(&expression, &text, put_spelled, NULL);
        sym->expr = text.failed ? NULL : exg_arena_strdup(arena, exg_text_string(&text));
    }
    exg_text_free(&text);
    exg_arena_destroy(scratch);
    return status == EXG_NO_MEMORY || sym->expr == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status spell_values(exg_arena *arena, exg_graph *graph, exg_error *err)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        exg_tensor_meta *meta = graph->values[i].tensor;

        for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
            EXG_TRY(spell(arena, &meta->sizes[d], err));
            EXG_TRY(spell(arena, &meta->strides[d], err));
        }
        if (meta != NULL) {
            EXG_TRY(spell(arena, &meta->storage_offset, err));
        }
        if (graph->values[i].sym_int != NULL) {
            EXG_TRY(spell(arena, graph->values[i].sym_int, err));
        }
    }
    return EXG_OK;
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Branches are graphs, and nothing else. */
static exg_status make_graph(exg_arena *arena, exg_graph *graph, exg_error *err)
{
    EXG_TRY(spell_values(arena, graph, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];

        EXG_TRY(set_apart(arena, &node->metadata, err));
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                exg_graph_argument *branch = node->inputs[i].arg.as_graph;

                branch->metadata.count = 0;
                branch->lifted_count = 0;
                EXG_TRY(make_graph(arena, branch->graph, err));
            }
        }
    }
    return EXG_OK;
}

static exg_status check_names(const exg_program *program, exg_error *err)
{
    const exg_weights *weights = program->weights;

    for (uint32_t i = 0; i < weights->count; i++) {
        if (!exg_is_module_path(weights->items[i].fqn)) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, UNSUPPORTED, "PT2-004",
                                          "PyTorch has no tensor called '%s'",
                                          weights->items[i].fqn),
                                 "rename it, or write .exg");
        }
    }
    return EXG_OK;
}

/* What would be written of it, without bytes. */
static exg_status make_form(exg_program *program, exg_error *err)
{
    exg_early_encoder e = {.program = program,
                           .arena = program->arena,
                           .to_branches = true,
                           .bytes = EXG_EARLY_WITHOUT_BYTES,
                           .err = err};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = exg_early_encode(&e, NULL, &text);

    exg_text_puts(&text, program->early_form == NULL ? "\n" : "");
    if (status == EXG_OK) {
        program->early_form =
            text.failed ? NULL : exg_arena_strndup(program->arena, text.data, text.length);
        status = program->early_form == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    exg_text_free(&text);
    return status;
}

static exg_status add_note(exg_program *program, exg_error *err)
{
    exg_string_map *map = &program->metadata;
    exg_string_pair *items = EXG_NEW_ARRAY(program->arena, exg_string_pair, map->count + 1u);

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (map->count > 0) {
        memcpy(items, map->items, map->count * sizeof(*items));
    }
    items[map->count] = (exg_string_pair){EXG_EARLY_NOTE, program->early_form};
    map->items = items;
    map->count++;
    return EXG_OK;
}

exg_status exg_early_make_current(exg_program *program, exg_error *err)
{
    EXG_TRY(check_names(program, err));
    EXG_TRY(make_form(program, err));
    EXG_TRY(set_apart(program->arena, &program->metadata, err));
    EXG_TRY(add_note(program, err));
    EXG_TRY(make_graph(program->arena, program->graph, err));
    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        program->signature.inputs[i].implicit = false;
    }
    program->early_form = NULL;
    program->origin = EXG_ORIGIN_CURRENT;
    return EXG_OK;
}

/* ---- and back ------------------------------------------------------------------------------- */

/* What the file alone has, or names, is its own. */
static void take_files(exg_program *to, const exg_program *from)
{
    to->weights = from->weights;
    to->sample_inputs = from->sample_inputs;
    to->sample_input_count = from->sample_input_count;
    to->extra_files = from->extra_files;
    to->extra_file_count = from->extra_file_count;
}

/* MISMATCH: the file does not say what the early program would be written as. */
static exg_status says_the_same(const exg_program *given, const exg_program *early, exg_error *err)
{
    exg_program *current = NULL;
    exg_status status = exg_program_copy(early, &current, err);

    if (status == EXG_OK) {
        status = exg_early_make_current(current, err);
    }
    if (status == EXG_OK) {
        status = exg_program_suit_python(current, err);
    }
    if (status == EXG_OK) {
        exg_program beside = *current;

        beside.name = given->name;
        take_files(&beside, given);
        status = exg_program_compare(given, &beside, false, err);
    }
    exg_program_destroy(current);
    return status;
}

/* The weights of the form, without bytes, and those of the file. */
static exg_status have_the_same(const exg_weights *given, const exg_weights *early, bool *same,
                                exg_error *err)
{
    exg_status status = EXG_OK;

    *same = given->count == early->count;
    for (uint32_t i = 0; *same && status == EXG_OK && i < early->count; i++) {
        const exg_weight *weight = exg_weights_find(given, EXG_TABLE_STATE, early->items[i].fqn);
        exg_text texts[2] = {EXG_TEXT_EMPTY, EXG_TEXT_EMPTY};

        *same = weight != NULL && weight->meta != NULL && !weight->use_pickle &&
                weight->is_param == early->items[i].is_param;
        if (*same) {
            exg_encode_plain(&texts[0], EXG_MODEL_TENSOR_META, weight->meta);
            exg_encode_plain(&texts[1], EXG_MODEL_TENSOR_META, early->items[i].meta);
            status = texts[0].failed || texts[1].failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
            *same = status == EXG_OK && strcmp(texts[0].data, texts[1].data) == 0;
        }
        exg_text_free(&texts[0]);
        exg_text_free(&texts[1]);
    }
    return status;
}

/* What the form says takes the place of what the file says, beside its weights and files. */
static void become(exg_program *program, exg_program *early)
{
    exg_weights *without_bytes = early->weights;

    take_files(early, program);
    *program = *early;
    early->weights = without_bytes;
}

static exg_status recall_form(exg_json root, exg_program *program, exg_program *early,
                              exg_error *err)
{
    exg_operators *operators = NULL;
    exg_status status;
    bool same = false;

    EXG_TRY(exg_operators_create(&operators, err));
    status = exg_early_decode(root, EXG_EARLY_WITHOUT_BYTES, operators, early, err);
    exg_operators_destroy(operators);
    if (status == EXG_OK) {
        early->early_form = root.doc->text;
        status = have_the_same(program->weights, early->weights, &same, err);
    }
    if (status == EXG_OK && same) {
        status = says_the_same(program, early, err);
    }
    early->early_form = NULL;
    if (status == EXG_OK && same) {
        become(program, early);
        status = exg_early_keep_form(root, true, program, err);
    }
    return status;
}

static const char *find_note(const exg_program *program)
{
    for (uint32_t i = 0; i < program->metadata.count; i++) {
        if (strcmp(program->metadata.items[i].key, EXG_EARLY_NOTE) == 0) {
            return program->metadata.items[i].value;
        }
    }
    return NULL;
}

exg_status exg_early_recall(exg_program *program, exg_error *err)
{
    const char *note = find_note(program);
    exg_program early = {.arena = program->arena, .schema_major = 0};
    exg_json_doc *doc = NULL;
    exg_error unread;
    exg_status status;

    if (note == NULL) {
        return EXG_OK;
    }
    early.graph = EXG_NEW(program->arena, exg_graph);
    if (early.graph == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_weights_create(exg_arena_allocator(program->arena), &early.weights, err));
    status = exg_json_parse(note, strlen(note), EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &unread);
    if (status == EXG_OK) {
        status = recall_form(exg_json_root(doc), program, &early, &unread);
    }
    exg_json_free(doc);
    exg_weights_release(early.weights);
    /* A note that is none is a text like any other. */
    return status == EXG_NO_MEMORY || status == EXG_LIMIT ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
