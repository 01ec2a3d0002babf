/* metadata_rules.c - what travels along with a program: metadata of nodes (MET), extra
 * files and sample inputs (ARC). Nothing here closes the gate.
 */
#include "libexport/base/prefix.h"
#include "libexport/formats/json.h"
#include "libexport/formats/pt2/samples.h"
#include "libexport/formats/weights_file.h"
#include "libexport/program/python.h"
#include "libexport/verify/tree.h"
#include "libexport/verify/verifier.h"

#include <exg/symint.h>
#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

/* ---- nodes ---------------------------------------------------------------------------- */

static void check_stack(exg_verifier *v, const char *text, const exg_model_path *path)
{
    while (text[0] != '\0') {
        size_t length = strcspn(text, ";");

        if (!exg_is_stack_item(text, length)) {
            exg_found(v, "MET-001", path, "the item '%.*s' has no three parts",
                      (int)(length < 80 ? length : 80), text);
            return;
        }
        text += length + (text[length] == ';');
    }
}

static void check_json(exg_verifier *v, const char *text, const exg_model_path *path)
{
    exg_json_doc *doc;
    exg_error err;

    if (exg_json_parse(text, strlen(text), EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &err) ==
        EXG_OK) {
        exg_json_free(doc);
    } else if (err.status == EXG_NO_MEMORY) {
        v->failed = true;
    } else {
        exg_found(v, "MET-002", path, "%s", err.message);
    }
}

/* An early file may have any text; made current, what PyTorch could not read is set apart. */
void exg_verify_metadata(exg_verifier *v, const exg_graph *graph, const exg_model_path *path)
{
    if (v->program->origin == EXG_ORIGIN_EARLY) {
        return;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_model_path here = {.within = path, .part = "nodes", .index = n, .node = node};

        for (uint32_t i = 0; i < node->metadata.count; i++) {
            const exg_string_pair *pair = &node->metadata.items[i];
            const exg_model_path *entry = EXG_AT_KEY(&here, "metadata", pair->key);

            if (strcmp(pair->key, "nn_module_stack") == 0) {
                check_stack(v, pair->value, entry);
            } else if (strcmp(pair->key, "custom") == 0 || strcmp(pair->key, "from_node") == 0) {
                check_json(v, pair->value, entry);
            }
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            const exg_argument *arg = &node->inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH) {
                exg_verify_metadata(v, arg->as_graph->graph,
                                    EXG_AT(EXG_AT_INDEX(&here, "inputs", i), "arg.as_graph.graph"));
            }
        }
    }
}

/* ---- extra files ------------------------------------------------------------------------ */

static void check_extra_file(exg_verifier *v, const exg_extra_file *extra)
{
    exg_weights *weights = v->program->weights;
    const exg_model_path *path = EXG_AT_KEY(NULL, "extra_files", extra->name);
    const uint8_t *data = NULL;

    if (exg_behind(extra->name, "data/aotinductor/") != NULL) {
        exg_found(v, "ARC-018", path, "the record %s belongs to compiled code", extra->name);
    }
    if (exg_behind(extra->name, "extra/") != NULL && extra->storage < weights->storage_count &&
        exg_storage_map(weights, extra->storage, &data, NULL) == EXG_OK && data != NULL &&
        !exg_text_is_utf8((const char *)data, weights->storages[extra->storage].length)) {
        exg_found(v, "ARC-019", path, "the extra file %s is no text in UTF-8", extra->name);
    }
}

/* ---- sample inputs ------------------------------------------------------------------------ */

/* What sample inputs give. */
typedef struct sampled {
    exg_verifier *v;
    exg_symbols symbols;
    uint32_t count; /* of the inputs of the user */
} sampled;

/* Is the number outside the range of the symbol? */
static bool is_outside(const exg_verifier *v, const char *symbol, size_t length, int64_t value)
{
    bool outside = false;

    for (uint32_t i = 0; v->graphs_sound && i < v->program->range_constraint_count; i++) {
        const exg_range_constraint *range = &v->program->range_constraints[i];

        outside = outside ||
                  (strlen(range->symbol) == length && memcmp(range->symbol, symbol, length) == 0 &&
                   ((range->has_min && value < range->min_val) ||
                    (range->has_max && value > range->max_val)));
    }
    return outside;
}

/* Is the size of a dim another than the program has there? A symbol by itself gets its number from
 * the first dim that is it. */
static bool is_other_size(sampled *s, const exg_sym_int *size, int64_t value)
{
    int64_t wanted = size->value;
    const char *name;
    size_t length;

    if (size->expr == NULL ||
        exg_symint_evaluate(size->expr, &s->symbols, &wanted, NULL) == EXG_OK) {
        return wanted != value;
    }
    if (!exg_symint_lone_symbol(size->expr, &name, &length)) {
        return false;
    }
    s->v->failed |= exg_symbols_add(&s->symbols, s->v->arena, name, length, value, NULL) != EXG_OK;
    return is_outside(s->v, name, length, value);
}

static void check_tensor(sampled *s, const exg_tensor_meta *meta, const exg_sample_input *sample,
                         const exg_model_path *path, const char *input)
{
    for (uint32_t d = 0; d < meta->rank; d++) {
        const exg_sym_int *size = &meta->sizes[d];

        if (sample->meta->sizes[d].expr == NULL &&
            is_other_size(s, size, sample->meta->sizes[d].value)) {
            exg_found(s->v, "ARC-020", path,
                      "it does not fit the input '%s': size %" PRId64 " in dim %u", input,
                      sample->meta->sizes[d].value, d);
            return;
        }
    }
}

static bool is_alike(const exg_argument *input, const exg_sample_input *sample)
{
    return input->kind == EXG_ARGUMENT_TENSOR
               ? sample->kind == EXG_ARGUMENT_TENSOR && sample->meta != NULL
               : input->kind == sample->kind ||
                     (input->kind == EXG_ARGUMENT_SYM_INT && sample->kind == EXG_ARGUMENT_INT);
}

static void check_sample(sampled *s, uint32_t i, uint32_t leaf)
{
    const exg_program *p = s->v->program;
    const exg_model_path *path = EXG_AT_INDEX(NULL, "sample_inputs", leaf);
    const exg_argument *input = &p->graph->inputs[i];
    const exg_sample_input *sample = &p->sample_inputs[leaf];
    const char *name = p->signature.inputs[i].arg.name;
    const exg_tensor_meta *meta =
        input->kind == EXG_ARGUMENT_TENSOR ? p->graph->values[input->as_tensor].tensor : NULL;

    if (!is_alike(input, sample) || (meta == NULL && input->kind == EXG_ARGUMENT_TENSOR)) {
        exg_found(s->v, "ARC-020", path, "it does not fit the input '%s'", name);
    } else if (meta != NULL &&
               (meta->dtype != sample->meta->dtype || meta->rank != sample->meta->rank)) {
        exg_found(s->v, "ARC-020", path,
                  "it does not fit the input '%s': %s of %u dims, not %s of %u", name,
                  exg_dtype_name(sample->meta->dtype), sample->meta->rank,
                  exg_dtype_name(meta->dtype), meta->rank);
    } else if (meta != NULL) {
        check_tensor(s, meta, sample, path, name);
    }
}

/* A keyword is that of the argument whose leaf it is. */
static void check_keyword(void *user, const exg_tree_step *step, uint32_t leaf)
{
    sampled *s = user;
    const exg_program *p = s->v->program;
    const char *keyword = leaf < p->sample_input_count ? p->sample_inputs[leaf].keyword : NULL;

    while (step != NULL && step->outer != NULL) {
        step = step->outer;
    }
    if (keyword != NULL && step != NULL && step->key != NULL &&
        strcmp(step->key, EXG_TREE_UNKNOWN) != 0 && strcmp(step->key, keyword) != 0) {
        exg_found(s->v, "ARC-020", EXG_AT_INDEX(NULL, "sample_inputs", leaf),
                  "it is given by the keyword '%s', where the call has '%s'", keyword, step->key);
    }
}

static void check_samples(sampled *s)
{
    const exg_program *p = s->v->program;
    const exg_module_call *root = p->module_call_count > 0 ? &p->module_calls[0] : NULL;

    for (uint32_t i = 0; i < p->signature.input_count; i++) {
        if (p->signature.inputs[i].kind != EXG_INPUT_USER) {
            continue;
        }
        if (s->count < p->sample_input_count) {
            check_sample(s, i, s->count);
        }
        s->count++;
    }
    if (p->sample_input_count > 0 && s->count != p->sample_input_count) {
        exg_found(s->v, "ARC-020", EXG_AT(NULL, "sample_inputs"), "%u sample inputs for %u inputs",
                  p->sample_input_count, s->count);
    } else if (p->sample_input_count > 0 && root != NULL && root->in_spec != NULL) {
        s->v->failed |=
            exg_tree_leaves(p, root->in_spec, root->forward_arg_names,
                            root->forward_arg_names == NULL ? 0 : root->forward_arg_name_count,
                            check_keyword, s) == EXG_NO_MEMORY;
    }
}

/* The record that sample inputs are from, where none were read. */
static void check_record(const sampled *s, const exg_extra_file *extra)
{
    exg_verifier *v = s->v;
    exg_weights *weights = v->program->weights;
    const exg_model_path *path = EXG_AT_KEY(NULL, "extra_files", extra->name);
    const uint8_t *data = NULL;
    uint64_t length;

    if (exg_behind(extra->name, "data/sample_inputs/") == NULL ||
        extra->storage >= weights->storage_count || weights->storages[extra->storage].length == 0 ||
        exg_storage_map(weights, extra->storage, &data, NULL) != EXG_OK || data == NULL) {
        return;
    }
    length = weights->storages[extra->storage].length;
    if (!exg_checkpoint_sniff(data, length)) {
        exg_found(v, "ARC-020", path,
                  "the record %s is no file of torch.save, so PyTorch does not "
                  "load the program",
                  extra->name);
    } else if (v->program->sample_input_count == 0 && s->count > 0) {
        exg_samples_form form = exg_samples_form_of(data, length);

        if (form == EXG_SAMPLES_OTHER) {
            exg_found(v, "ARC-020", path,
                      "the record %s holds no call: (arguments, {keyword: argument})", extra->name);
        } else if (form == EXG_SAMPLES_UNREAD) {
            exg_found(v, "ARC-020", path,
                      "the record %s holds objects that only PyTorch reads: there are no sample "
                      "inputs to run",
                      extra->name);
        } else if (form == EXG_SAMPLES_NONE) {
            exg_found(v, "ARC-020", path, "0 sample inputs for %u inputs", s->count);
        }
    }
}

void exg_verify_archive(exg_verifier *v)
{
    sampled s = {.v = v};

    for (uint32_t i = 0; i < v->program->extra_file_count; i++) {
        check_extra_file(v, &v->program->extra_files[i]);
    }
    if (v->inputs_paired) {
        check_samples(&s);
    }
    for (uint32_t i = 0; i < v->program->extra_file_count; i++) {
        check_record(&s, &v->program->extra_files[i]);
    }
}
