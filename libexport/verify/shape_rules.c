/* shape_rules.c - recorded dtypes and sizes are those that operators produce
 * (NOD-017), computed at the sizes the program was exported with. Strides are
 * hints and bind nobody. Nodes of unknown operators, and sizes that only a run can
 * know, are passed over.
 */
#include "libexport/verify/verifier.h"

#include <exg/symint.h>
#include <exg/transform.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ARGS_MAX 32

typedef struct checker {
    exg_verifier *v;
    const exg_graph *graph; /* of the specialized program */
    exg_program *scratch;
    exg_builder *builder;
    exg_ref *refs; /* by value: its recorded meta as a scratch value */
} checker;

static bool begin(checker *c)
{
    exg_error err;

    if (exg_program_create(UINT64_MAX, &c->scratch, &err) != EXG_OK ||
        exg_builder_create(c->v->operators, c->scratch, &c->builder, &err) != EXG_OK) {
        c->v->failed = true;
        return false;
    }
    for (uint32_t i = 0; i < c->graph->value_count; i++) {
        c->refs[i] = EXG_NO_REF;
    }
    return true;
}

static void end(checker *c)
{
    exg_builder_destroy(c->builder);
    exg_program_destroy(c->scratch);
    c->builder = NULL;
    c->scratch = NULL;
}

static bool translate(checker *c, exg_value_id *id)
{
    if (*id == EXG_NO_VALUE) {
        return true;
    }
    if (c->graph->values[*id].tensor == NULL) {
        return false;
    }
    if (c->refs[*id].id == EXG_NO_VALUE) {
        c->refs[*id] = exg_builder_value(c->builder, "v", c->graph->values[*id].tensor);
    }
    *id = c->refs[*id].id;
    return *id != EXG_NO_VALUE;
}

static bool translate_argument(checker *c, exg_argument *arg)
{
    if (arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        return translate(c, &arg->as_tensor);
    }
    if (arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS) {
        if (exg_argument_copy(c->scratch->arena, arg, NULL) != EXG_OK) {
            return false;
        }
        for (uint32_t i = 0; i < arg->count; i++) {
            if (!translate(c, &arg->as_tensors[i])) {
                return false;
            }
        }
    }
    return true;
}

static bool same_sizes(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;

    for (uint32_t d = 0; same && d < a->rank; d++) {
        same = a->sizes[d].value == b->sizes[d].value;
    }
    return same;
}

static void describe(const exg_tensor_meta *meta, char *text, size_t length)
{
    size_t used = (size_t)snprintf(text, length, "%s[", exg_dtype_short_name(meta->dtype));

    for (uint32_t d = 0; d < meta->rank && used < length; d++) {
        used += (size_t)snprintf(text + used, length - used, "%s%" PRId64, d > 0 ? ", " : "",
                                 meta->sizes[d].value);
    }
    if (used < length) {
        snprintf(text + used, length - used, "]");
    }
}

static void compare(checker *c, const exg_node *node, const char *where, exg_value_id recorded,
                    exg_value_id produced)
{
    const exg_tensor_meta *a = c->graph->values[recorded].tensor;
    const exg_tensor_meta *b = exg_ref_meta(c->builder, (exg_ref){produced});
    char said[120];
    char made[120];

    if (a == NULL || b == NULL || same_sizes(a, b)) {
        return;
    }
    describe(a, said, sizeof(said));
    describe(b, made, sizeof(made));
    exg_found(c->v, "NOD-017", where, "'%s' is recorded as %s; %s gives %s",
              c->graph->values[recorded].name, said, node->target, made);
}

static void compare_results(checker *c, const exg_node *node, const exg_argument *results,
                            const char *where)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *out = &node->outputs[o];

        if (out->kind == EXG_ARGUMENT_TENSOR && results[o].kind == EXG_ARGUMENT_TENSOR) {
            compare(c, node, where, out->as_tensor, results[o].as_tensor);
        } else if (out->kind == EXG_ARGUMENT_TENSORS && results[o].kind == EXG_ARGUMENT_TENSORS) {
            /* torch drops nothing here: a list has the length the operator gives */
            if (out->count != results[o].count) {
                exg_found(c->v, "NOD-017", where, "%s gives %u tensors, %u are recorded",
                          node->target, results[o].count, out->count);
            }
            for (uint32_t i = 0; i < out->count && i < results[o].count; i++) {
                compare(c, node, where, out->as_tensors[i], results[o].as_tensors[i]);
            }
        }
    }
}

static bool writes_number(const exg_operator *op, const exg_argument *args)
{
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        if (op->schema->arguments[i].type.base == EXG_TYPE_TENSOR &&
            (args[i].kind == EXG_ARGUMENT_INT || args[i].kind == EXG_ARGUMENT_FLOAT ||
             args[i].kind == EXG_ARGUMENT_BOOL)) {
            return true; /* a number beside tensors is wrapped later */
        }
    }
    return false;
}

static void check_node(checker *c, uint32_t n)
{
    const exg_node *node = &c->graph->nodes[n];
    const exg_operator *op = exg_operators_find(c->v->operators, node->target);
    const char *where = exg_where(c->v, "graph \"%.100s\"", node->name == NULL ? node->target : node->name);
    exg_argument args[ARGS_MAX];
    exg_argument results[16];
    exg_error err;

    if (op == NULL || op->symbolic != NULL || op->schema->argument_count > ARGS_MAX ||
        op->schema->return_count > 16 || exg_operator_normalize(op, node, args, &err) != EXG_OK ||
        writes_number(op, args)) {
        return;
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        if (!translate_argument(c, &args[i])) {
            return;
        }
    }
    memset(results, 0, sizeof(results));
    if (exg_emit_all(c->builder, op->id, args, op->schema->argument_count, results) == EXG_OK) {
        compare_results(c, node, results, where);
        return;
    }
    if (exg_builder_finish(c->builder, &err) == EXG_MALFORMED) {
        exg_found(c->v, "NOD-017", where, "%s: %s", node->target, err.message);
    }
    exg_program_destroy(c->scratch);
    c->builder = NULL;
    c->scratch = NULL;
    (void)begin(c);
}

void exg_verify_shapes(exg_verifier *v)
{
    exg_verified trusted = {v->program, v->operators};
    checker c = {.v = v};
    exg_symbols symbols;
    exg_program *specialized;
    exg_error err;

    if (exg_bind_hints(v->program, v->found->arena, &symbols, &err) != EXG_OK ||
        exg_specialize(&trusted, &symbols, &specialized, &err) != EXG_OK) {
        return; /* sizes known only to the run: nothing to compare with */
    }
    c.graph = specialized->graph;
    c.refs = EXG_NEW_ARRAY(v->found->arena, exg_ref, c.graph->value_count);
    if (c.refs != NULL && begin(&c)) {
        for (uint32_t n = 0; n < c.graph->node_count && !v->failed; n++) {
            check_node(&c, n);
        }
    }
    v->failed = v->failed || c.refs == NULL;
    if (c.scratch != NULL) {
        end(&c);
    }
    exg_program_destroy(specialized);
}
