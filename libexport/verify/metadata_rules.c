/* metadata_rules.c - what travels along with a program: metadata of nodes (MET), extra
 * files and sample inputs (ARC). Nothing here closes the gate.
 */
#include "libexport/base/prefix.h"
#include "libexport/formats/json.h"
#include "libexport/formats/weights_file.h"
#include "libexport/program/python.h"
#include "libexport/verify/verifier.h"

#include <exg/text.h>
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
    if (exg_behind(extra->name, "data/sample_inputs/") != NULL &&
        extra->storage < weights->storage_count && weights->storages[extra->storage].length > 0 &&
        exg_storage_map(weights, extra->storage, &data, NULL) == EXG_OK && data != NULL &&
        !exg_checkpoint_sniff(data, weights->storages[extra->storage].length)) {
        exg_found(v, "ARC-020", path,
                  "the record %s is no file of torch.save, so PyTorch does not "
                  "load the program",
                  extra->name);
    }
}

/* ---- sample inputs ------------------------------------------------------------------------ */

static bool fits(const exg_graph *graph, const exg_argument *input, const exg_sample_input *sample)
{
    const exg_tensor_meta *meta;

    if (input->kind != EXG_ARGUMENT_TENSOR) {
        return input->kind == sample->kind ||
               (input->kind == EXG_ARGUMENT_SYM_INT && sample->kind == EXG_ARGUMENT_INT);
    }
    meta = graph->values[input->as_tensor].tensor;
    if (meta == NULL || sample->kind != EXG_ARGUMENT_TENSOR || sample->meta == NULL ||
        meta->dtype != sample->meta->dtype || meta->rank != sample->meta->rank) {
        return false;
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        if (meta->sizes[d].expr == NULL && sample->meta->sizes[d].expr == NULL &&
            meta->sizes[d].value != sample->meta->sizes[d].value) {
            return false;
        }
    }
    return true;
}

static void check_samples(exg_verifier *v)
{
    const exg_program *p = v->program;
    uint32_t next = 0;

    for (uint32_t i = 0; i < p->signature.input_count && p->sample_input_count > 0; i++) {
        if (p->signature.inputs[i].kind != EXG_INPUT_USER) {
            continue;
        }
        if (next < p->sample_input_count &&
            !fits(p->graph, &p->graph->inputs[i], &p->sample_inputs[next])) {
            exg_found(v, "ARC-020", EXG_AT_INDEX(NULL, "sample_inputs", next),
                      "it does not fit the input '%s'", p->signature.inputs[i].arg.name);
        }
        next++;
    }
    if (p->sample_input_count > 0 && next != p->sample_input_count) {
        exg_found(v, "ARC-020", EXG_AT(NULL, "sample_inputs"), "%u sample inputs for %u inputs",
                  p->sample_input_count, next);
    }
}

void exg_verify_archive(exg_verifier *v)
{
    for (uint32_t i = 0; i < v->program->extra_file_count; i++) {
        check_extra_file(v, &v->program->extra_files[i]);
    }
    if (v->inputs_paired) {
        check_samples(v);
    }
}
