/* losses.c - what an early file cannot say of a program, in words: for --strict. */
#include "libexport/formats/early/early.h"

#include <string.h>

static void lose(exg_text *out, uint64_t count, const char *what)
{
    if (count > 0) {
        exg_text_puts(out, out->length > 0 ? "; " : "");
        if (count > 1) {
            exg_text_printf(out, "%llu %s", (unsigned long long)count, what);
        } else {
            exg_text_puts(out, what);
        }
    }
}

typedef struct graph_losses {
    uint64_t arguments, results, values, hints, names, flags, inputs, outputs;
} graph_losses;

static void count_graph(const exg_graph *graph, graph_losses *l)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        l->inputs += graph->inputs[i].kind != EXG_ARGUMENT_TENSOR;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        l->outputs += graph->outputs[i].kind != EXG_ARGUMENT_TENSOR;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        l->names += node->name != NULL;
        l->flags += node->is_hop_single_tensor_return != EXG_UNSET;
        for (uint32_t i = 0; i < node->input_count; i++) {
            l->arguments += !exg_early_says_argument(&node->inputs[i].arg);
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                count_graph(node->inputs[i].arg.as_graph->graph, l);
            }
        }
        for (uint32_t i = 0; i < node->output_count; i++) {
            exg_argument_kind kind = node->outputs[i].kind;

            l->results += kind != EXG_ARGUMENT_TENSOR && kind != EXG_ARGUMENT_TENSORS &&
                          kind != EXG_ARGUMENT_SYM_INT;
        }
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const exg_value *value = &graph->values[i];

        l->values += value->sym_float != NULL || value->sym_bool != NULL ||
                     value->custom_class != NULL ||
                     (value->tensor != NULL && !exg_early_says_meta(value->tensor));
        l->hints += value->sym_int != NULL && value->sym_int->has_hint;
        for (uint32_t d = 0; value->tensor != NULL && d < value->tensor->rank; d++) {
            l->hints += value->tensor->sizes[d].has_hint;
        }
    }
}

static void count_signature(const exg_program *program, exg_text *out)
{
    const exg_signature *s = &program->signature;
    uint64_t kinds = 0;
    uint64_t renamed = 0;

    for (uint32_t i = 0; i < s->input_count; i++) {
        const exg_input_spec *spec = &s->inputs[i];
        bool plain = spec->kind == EXG_INPUT_PARAMETER || spec->kind == EXG_INPUT_USER ||
                     (spec->kind == EXG_INPUT_BUFFER && spec->persistent == EXG_TRUE);

        kinds += !plain;
        renamed += spec->target != NULL && spec->arg.name != NULL &&
                   strcmp(spec->target, spec->arg.name) != 0;
    }
    for (uint32_t i = 0; i < s->output_count; i++) {
        kinds += s->outputs[i].kind != EXG_OUTPUT_USER;
    }
    lose(out, kinds, "kinds of the signature beyond parameter, buffer and user tensor");
    lose(out, renamed, "input names that are not their target");
}

static void count_weights(const exg_program *program, exg_text *out)
{
    const exg_weights *weights = program->weights;
    uint64_t unsayable = 0;
    uint64_t shared = 0;

    for (uint32_t i = 0; i < weights->count; i++) {
        unsayable += !exg_early_holds(&weights->items[i]);
        for (uint32_t k = 0; k < i; k++) {
            if (weights->items[k].storage == weights->items[i].storage) {
                shared++;
                break;
            }
        }
    }
    lose(out, unsayable, "weights of a dtype, layout or class that is newer");
    lose(out, shared, "weights that share a storage");
}

exg_status exg_early_list_losses(exg_early_encoder *e, exg_text *out)
{
    const exg_program *program = e->program;
    graph_losses l = {0};

    count_graph(program->graph, &l);
    count_signature(program, out);
    count_weights(program, out);
    lose(out, l.inputs, "inputs that are no tensors");
    lose(out, l.outputs, "outputs that are no tensors");
    lose(out, l.arguments, "arguments of newer kinds");
    lose(out, l.results, "results that are neither tensors nor symbolic integers");
    lose(out, l.values, "values of newer dtypes or kinds");
    lose(out, l.hints, "hints of symbols");
    lose(out, l.names, "node names");
    lose(out, l.flags, "flags of higher-order operators");
    lose(out, program->module_call_count, "module call entries");
    lose(out, program->range_constraint_count, "range constraints");
    lose(out, program->guard_count, "guards");
    lose(out, program->opset_count, "opset versions");
    lose(out, program->verifier_count, "dialects");
    lose(out, program->named_tuple_count, "named tuples");
    lose(out, program->torch_version != NULL, "the version of PyTorch");
    lose(out, program->origin == EXG_ORIGIN_CURRENT, "the schema version");
    lose(out, program->sample_input_count, "sample inputs");
    lose(out, program->extra_file_count, "extra files");
    lose(out, program->input_metadata_count, "inputs with metadata");
    lose(out, program->signature.assertion_dep_token != NULL, "a token of assertions");
    return out->failed ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;
}
