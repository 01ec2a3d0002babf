/* shape_rules.c - recorded dtypes and sizes are those that operators produce
 * (NOD-017, NOD-018), computed at every binding of the symbols. Strides are hints
 * and bind nobody. Nodes of unknown operators, and sizes without a number, are
 * passed over.
 */
#include "libexport/base/checked.h"
#include "libexport/operators/dtype_lowering.h"
#include "libexport/operators/lower.h"
#include "libexport/program/uses.h"
#include "libexport/verify/verifier.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- values with numbers ------------------------------------------------------------------ */

/* Others are passed over: other rules speak of them. */
static bool has_elements(const exg_tensor_meta *meta)
{
    return meta->rank <= EXG_SHAPE_RANK_MAX && exg_meta_is_countable(meta);
}

static bool number_of(const exg_verifier *v, const exg_binding *binding, const exg_sym_int *size,
                      exg_sym_int *out)
{
    uint32_t index;

    if (size->expr == NULL) {
        *out = *size;
        return true;
    }
    index = exg_expression_find(v, size->expr);
    if (index == EXG_MAP_NONE || !binding->known[index]) {
        return false;
    }
    *out = exg_sym_int_of(binding->numbers[index]);
    return true;
}

/* The meta with numbers, or NULL when some have none. */
static exg_tensor_meta *numbered(exg_verifier *v, const exg_binding *binding,
                                 const exg_tensor_meta *meta)
{
    exg_tensor_meta *copy = exg_arena_memdup(v->arena, meta, 1, sizeof(*meta));
    bool known = true;

    if (copy != NULL) {
        copy->sizes = EXG_NEW_ARRAY(v->arena, exg_sym_int, meta->rank);
        copy->strides = EXG_NEW_ARRAY(v->arena, exg_sym_int, meta->rank);
    }
    if (copy == NULL || copy->sizes == NULL || copy->strides == NULL) {
        v->failed = true;
        return NULL;
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        known = known && number_of(v, binding, &meta->sizes[d], &copy->sizes[d]) &&
                number_of(v, binding, &meta->strides[d], &copy->strides[d]);
    }
    known = known && number_of(v, binding, &meta->storage_offset, &copy->storage_offset);
    return known && has_elements(copy) ? copy : NULL;
}

static exg_sym_int *numbered_size(exg_verifier *v, const exg_binding *binding,
                                  const exg_sym_int *size)
{
    exg_sym_int number;

    return number_of(v, binding, size, &number)
               ? exg_arena_memdup(v->arena, &number, 1, sizeof(number))
               : NULL;
}

static bool number_values(exg_verifier *v, const exg_graph *graph, const exg_binding *binding,
                          exg_graph *out)
{
    out->value_count = graph->value_count;
    out->values = exg_arena_memdup(v->arena, graph->values, graph->value_count, sizeof(exg_value));
    for (uint32_t id = 0; out->values != NULL && id < graph->value_count; id++) {
        exg_value *value = &out->values[id];

        if (value->tensor != NULL &&
            !(exg_tensor_meta_is_static(value->tensor) && has_elements(value->tensor))) {
            value->tensor = numbered(v, binding, value->tensor);
        }
        if (value->sym_int != NULL) {
            value->sym_int = numbered_size(v, binding, value->sym_int);
        }
        if (value->sym_bool != NULL && value->sym_bool->expr != NULL) {
            const exg_sym_int truth = {.expr = value->sym_bool->expr};

            value->sym_int = numbered_size(v, binding, &truth);
        }
    }
    return out->values != NULL && !v->failed;
}

bool exg_shapes_begin(exg_shapes *shapes, exg_verifier *v, const exg_graph *graph)
{
    bool numbers = true;

    *shapes = (exg_shapes){.v = v, .graph = graph, .is_main = graph == v->program->graph};
    for (uint32_t id = 0; numbers && id < graph->value_count; id++) {
        const exg_value *value = &graph->values[id];

        numbers =
            value->tensor != NULL
                ? exg_tensor_meta_is_static(value->tensor) && has_elements(value->tensor)
                : value->sym_int == NULL && value->sym_float == NULL && value->sym_bool == NULL;
    }
    if (numbers) { /* the same at every binding: once is enough */
        shapes->at[0] = (exg_graph){.values = graph->values, .value_count = graph->value_count};
        shapes->count = 1;
        return true;
    }
    for (uint32_t b = 0; b < v->binding_count; b++) {
        if (!number_values(v, graph, &v->bindings[b], &shapes->at[b])) {
            return false;
        }
    }
    shapes->count = v->binding_count;
    return true;
}

/* ---- arguments with numbers ------------------------------------------------------------------ */

static bool resolve_one(const exg_graph *at, const exg_sym_argument *sym, exg_argument_kind kind,
                        exg_argument *out)
{
    const exg_value *value;

    if (sym->value == EXG_NO_VALUE) {
        *out = kind == EXG_ARGUMENT_SYM_INT     ? exg_arg_int(sym->as_int)
               : kind == EXG_ARGUMENT_SYM_FLOAT ? exg_arg_float(sym->as_float)
                                                : exg_arg_bool(sym->as_bool);
        return true;
    }
    value = &at->values[sym->value];
    if (value->sym_int != NULL) {
        *out = kind == EXG_ARGUMENT_SYM_BOOL ? exg_arg_bool(value->sym_int->value != 0)
                                             : exg_arg_int(value->sym_int->value);
        return true;
    }
    return false;
}

static bool resolve_sizes(exg_arena *scratch, const exg_graph *at, exg_argument *arg)
{
    int64_t *items = EXG_NEW_ARRAY(scratch, int64_t, arg->count);

    for (uint32_t i = 0; items != NULL && i < arg->count; i++) {
        exg_argument number;

        if (!resolve_one(at, &arg->as_syms[i], EXG_ARGUMENT_SYM_INT, &number)) {
            return false;
        }
        items[i] = number.as_int;
    }
    arg->kind = EXG_ARGUMENT_INTS;
    arg->as_ints = items;
    return items != NULL;
}

/* Makes sizes numbers and looks whether all tensors have metas. */
static bool resolve(exg_arena *scratch, const exg_graph *at, exg_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        return arg->as_tensor == EXG_NO_VALUE || at->values[arg->as_tensor].tensor != NULL;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        for (uint32_t i = 0; i < arg->count; i++) {
            if (arg->as_tensors[i] != EXG_NO_VALUE &&
                at->values[arg->as_tensors[i]].tensor == NULL) {
                return false;
            }
        }
        return true;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return resolve_one(at, &arg->as_sym, arg->kind, arg);
    case EXG_ARGUMENT_SYM_INTS:
        return resolve_sizes(scratch, at, arg);
    default:
        return true;
    }
}

/* ---- comparing --------------------------------------------------------------------------------
 */

static bool same_sizes(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    bool same = a->rank == b->rank;

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

/* One node at one binding. */
typedef struct call {
    exg_shapes *shapes;
    const exg_graph *at;   /* the values of what is recorded, */
    const exg_graph *from; /* and of what the arguments name */
    const exg_node *node;
    const exg_operator *op;
    const exg_model_path *path;
    uint32_t binding;
    bool differs; /* something was found */
    bool inner;   /* of a node that an operator was written out to */
} call;

/* " where s77 is 9, ...": the sizes at hand, when they are not those of the export. */
static void describe_binding(const call *c, char *text, size_t length)
{
    const exg_symbols *symbols = &c->shapes->v->bindings[c->binding].symbols;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; c->binding > 0 && i < symbols->count && i < 3 && used < length; i++) {
        used += (size_t)snprintf(text + used, length - used, "%s%.20s is %" PRId64,
                                 i == 0 ? " where " : ", ", symbols->items[i].name,
                                 symbols->items[i].value);
    }
}

/* Sizes at export are NOD-017; those that hold there and not elsewhere are SYM-006. */
static const char *rule_of(const call *c)
{
    return c->binding == 0 ? "NOD-017" : "SYM-006";
}

/* What PyTorch computes has the dtype of what is computed with, whatever is recorded: later nodes
 * take that one. The recorded meta is the program's, so the value gets another. */
static void take_dtype(call *c, exg_value_id id, exg_dtype dtype)
{
    exg_shapes *shapes = c->shapes;
    exg_graph *at = &shapes->at[c->binding];
    exg_tensor_meta *meta;

    if (at->values == shapes->graph->values) {
        at->values =
            exg_arena_memdup(shapes->v->arena, at->values, at->value_count, sizeof(*at->values));
    }
    meta = at->values == NULL
               ? NULL
               : exg_arena_memdup(shapes->v->arena, at->values[id].tensor, 1, sizeof(*meta));
    if (meta == NULL) {
        at->values = shapes->graph->values;
        shapes->v->failed = true;
        return;
    }
    meta->dtype = dtype;
    at->values[id].tensor = meta;
}

static void compare(call *c, exg_value_id recorded, const exg_tensor_meta *made)
{
    const exg_tensor_meta *said = c->at->values[recorded].tensor;
    char said_text[120];
    char made_text[120];
    char sizes[120];

    if (said == NULL || made == NULL || (same_sizes(said, made) && said->dtype == made->dtype)) {
        return;
    }
    if (same_sizes(said, made) && c->shapes->is_main) {
        if (c->binding == 0) {
            exg_found(c->shapes->v, "NOD-022", c->path, "'%s' is recorded as %s; %s gives %s",
                      c->at->values[recorded].name, exg_dtype_name(said->dtype), c->node->target,
                      exg_dtype_name(made->dtype));
        }
        take_dtype(c, recorded, made->dtype);
        return;
    }
    describe(said, said_text, sizeof(said_text));
    describe(made, made_text, sizeof(made_text));
    describe_binding(c, sizes, sizeof(sizes));
    exg_found(c->shapes->v, rule_of(c), c->path, "'%s' is recorded as %s; %s gives %s%s",
              c->at->values[recorded].name, said_text, c->node->target, made_text, sizes);
    c->differs = true;
}

/* Result `at`, or as statistics may be recorded besides: in the dtype of result 0, which is
 * what PyTorch traces where the dtypes of tensor and weight differ. */
static const exg_tensor_meta *alternative(const call *c, uint32_t at, const exg_tensor_meta *first,
                                          const exg_tensor_meta *made, exg_tensor_meta *other)
{
    const exg_tensor_meta *said = c->at->values[c->node->outputs[at].as_tensor].tensor;

    if (said == NULL || first == NULL || made == NULL || said->dtype != first->dtype ||
        !exg_operator_result_is_statistic(c->op, at)) {
        return made;
    }
    *other = *made;
    other->dtype = said->dtype;
    return other;
}

/* Tensors that the node's outputs from `o` on are recorded to be. */
static uint32_t count_recorded(const call *c, uint32_t o)
{
    uint32_t count = 0;

    for (; o < c->node->output_count; o++) {
        const exg_argument *out = &c->node->outputs[o];

        count += out->kind == EXG_ARGUMENT_TENSORS ? out->count : 1;
    }
    return count;
}

/* `made`: the metas of all results, lists laid out flat. */
static void compare_results(call *c, exg_tensor_meta *const *made, uint32_t count)
{
    uint32_t next = 0;

    for (uint32_t o = 0; o < c->node->output_count; o++) {
        const exg_argument *out = &c->node->outputs[o];
        exg_tensor_meta other;

        if (!c->op->schema->returns[o].type.is_list) {
            if (out->kind == EXG_ARGUMENT_TENSOR && next < count) {
                compare(c, out->as_tensor, alternative(c, o, made[0], made[next], &other));
            }
            next++;
            continue;
        }
        if (out->kind == EXG_ARGUMENT_TENSORS && count_recorded(c, o) != count - next) {
            exg_found(c->shapes->v, "NOD-018", c->path, "%s gives %u tensors, %u are recorded",
                      c->node->target, count - next, count_recorded(c, o));
            c->differs = true;
            return;
        }
        for (uint32_t i = 0; out->kind == EXG_ARGUMENT_TENSORS && i < out->count; i++) {
            compare(c, out->as_tensors[i], made[next++]);
        }
    }
}

/* ---- one node -----------------------------------------------------------------------------------
 */

/* The tensors of an argument, to be read or changed; NULL: it has none. */
static exg_value_id *tensors_of(exg_argument *arg, uint32_t *count)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        *count = 1;
        return &arg->as_tensor;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        *count = arg->count;
        return arg->as_tensors;
    default:
        *count = 0;
        return NULL;
    }
}

static bool is_number(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_INT || arg->kind == EXG_ARGUMENT_FLOAT ||
           arg->kind == EXG_ARGUMENT_BOOL || arg->kind == EXG_ARGUMENT_COMPLEX;
}

static bool stands_for_tensor(const call *c, const exg_argument *args, uint32_t i)
{
    return c->op->schema->arguments[i].type.base == EXG_TYPE_TENSOR &&
           !c->op->schema->arguments[i].type.is_list && args[i].kind != EXG_ARGUMENT_TENSOR &&
           !exg_is_none(&args[i]);
}

/* The dtype of the first tensor beside numbers, which they take; where all are numbers, each has
 * the dtype that it has beside bool: its own. */
static exg_dtype dtype_beside(const call *c, const exg_argument *args)
{
    for (uint32_t i = 0; i < c->op->schema->argument_count; i++) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR) {
            return c->at->values[args[i].as_tensor].tensor->dtype;
        }
    }
    return EXG_DTYPE_B8;
}

/* A number where a tensor is due is a 0-d tensor of `values`, as it is when the program is
 * decomposed; the tensors of the other arguments are there too. */
static bool wrap_numbers(call *c, exg_argument *args, exg_graph *values)
{
    exg_arena *scratch = c->shapes->v->scratch;
    uint32_t count = c->op->schema->argument_count;
    exg_dtype beside = dtype_beside(c, args);
    uint32_t room = count;
    exg_error err;

    for (uint32_t i = 0; i < count; i++) {
        room += args[i].count; /* of lists */
    }
    values->values = EXG_NEW_ARRAY(scratch, exg_value, room);
    for (uint32_t i = 0; values->values != NULL && i < count; i++) {
        uint32_t more;
        exg_value_id *ids;

        if (stands_for_tensor(c, args, i)) {
            exg_tensor_meta *meta = EXG_NEW(scratch, exg_tensor_meta);

            if (meta == NULL) {
                return false;
            }
            *meta = (exg_tensor_meta){.dtype = exg_number_dtype(args[i].kind, beside),
                                      .layout = EXG_LAYOUT_STRIDED,
                                      .sizes = EXG_NEW_ARRAY(scratch, exg_sym_int, 1),
                                      .strides = EXG_NEW_ARRAY(scratch, exg_sym_int, 1),
                                      .device = {"cpu", -1}};
            args[i] = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = values->value_count};
            values->values[values->value_count++].tensor = meta;
            continue;
        }
        if (exg_argument_copy(scratch, &args[i], &err) != EXG_OK) {
            return false;
        }
        ids = tensors_of(&args[i], &more);
        for (uint32_t k = 0; k < more; k++) {
            if (ids[k] != EXG_NO_VALUE) {
                values->values[values->value_count] = c->at->values[ids[k]];
                ids[k] = values->value_count++;
            }
        }
    }
    c->from = values;
    return values->values != NULL;
}

/* Makes the tensors of `args` values of the builder's graph. */
static exg_status hand_over(call *c, exg_builder *builder, exg_argument *args, exg_error *err)
{
    for (uint32_t i = 0; i < c->op->schema->argument_count; i++) {
        uint32_t count;
        exg_value_id *ids;

        EXG_TRY(exg_argument_copy(c->shapes->v->scratch, &args[i], err));
        ids = tensors_of(&args[i], &count);
        for (uint32_t k = 0; k < count; k++) {
            if (ids[k] != EXG_NO_VALUE) {
                ids[k] = exg_builder_value(builder, "v", c->from->values[ids[k]].tensor).id;
            }
        }
    }
    return exg_builder_status(builder);
}

static exg_status flatten(exg_arena *scratch, const exg_graph *graph, exg_argument *results,
                          uint32_t result_count, exg_tensor_meta ***made, uint32_t *count)
{
    uint32_t total = 0;

    for (uint32_t r = 0; r < result_count; r++) {
        total += results[r].kind == EXG_ARGUMENT_TENSORS ? results[r].count : 1;
    }
    *made = EXG_NEW_ARRAY(scratch, exg_tensor_meta *, total);
    if (*made == NULL) {
        return EXG_NO_MEMORY;
    }
    *count = 0;
    for (uint32_t r = 0; r < result_count; r++) {
        uint32_t more;
        const exg_value_id *ids = tensors_of(&results[r], &more);

        *count += ids == NULL; /* None */
        for (uint32_t i = 0; i < more; i++) {
            (*made)[(*count)++] = graph->values[ids[i]].tensor;
        }
    }
    return EXG_OK;
}

/* Tells the builder what is recorded of the node's results, where they are tensors alone. */
static void tell_recorded(const call *c, exg_builder *builder, const exg_tensor_meta **metas)
{
    for (uint32_t o = 0; o < c->node->output_count; o++) {
        const exg_argument *out = &c->node->outputs[o];

        if (o == EXG_RESULTS_MAX || out->kind != EXG_ARGUMENT_TENSOR) {
            return;
        }
        metas[o] = c->at->values[out->as_tensor].tensor;
    }
    exg_builder_next_recorded(builder, metas, c->node->output_count);
}

static void check_in_place(call *c, const exg_argument *args);

/* What nodes that an operator was written out to write: to the tensors of their first arguments. */
static exg_status check_writes(const call *c, exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count && !c->differs; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(c->shapes->v->operators, node->target);
        exg_argument args[EXG_ARGUMENTS_MAX];
        call inner = *c;

        if (op == NULL || op->functional == EXG_OP_NONE ||
            exg_operator_normalize(op, node, args, NULL) != EXG_OK) {
            continue;
        }
        inner.inner = true;
        inner.at = inner.from = graph;
        inner.node = node;
        inner.op = op;
        check_in_place(&inner, args);
        if (inner.differs) {
            return EXG_USAGE; /* told */
        }
    }
    return EXG_OK;
}

/* The results of an operator that is known by what it is made of: it is written out
 * in a graph that is thrown away, as far as it goes, as for a run. */
static exg_status write_out(call *c, exg_argument *args, exg_tensor_meta ***made, uint32_t *count,
                            exg_error *err)
{
    exg_verifier *v = c->shapes->v;
    exg_program program = {.arena = v->scratch};
    exg_argument results[EXG_RESULTS_MAX];
    const exg_tensor_meta *recorded[EXG_RESULTS_MAX];
    exg_builder *builder;
    exg_status status;

    EXG_TRY(exg_builder_create(v->operators, &program, &builder, err));
    exg_builder_set_lowering(builder, true);
    memset(results, 0, sizeof(results));
    status = hand_over(c, builder, args, err);
    tell_recorded(c, builder, recorded);
    if (status == EXG_OK &&
        exg_emit_all(builder, c->op->id, args, c->op->schema->argument_count, results) == EXG_OK) {
        status =
            flatten(v->scratch, program.graph, results, c->op->schema->return_count, made, count);
    }
    if (status != EXG_OK) {
        exg_builder_destroy(builder);
        return status;
    }
    EXG_TRY(exg_builder_finish(builder, err));
    return c->inner ? EXG_OK : check_writes(c, program.graph);
}

static bool is_complex(const call *c, const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_COMPLEX ||
           (arg->kind == EXG_ARGUMENT_SCALAR_TYPE && exg_dtype_is_complex(arg->as_scalar_type)) ||
           (arg->kind == EXG_ARGUMENT_TENSOR &&
            exg_dtype_is_complex(c->from->values[arg->as_tensor].tensor->dtype));
}

/* Is the operator written out for a run though its results are known by a shape function? That
 * asks more of its arguments. */
static bool is_lowered_later(const call *c, const exg_argument *args)
{
    const exg_dtype_lowerings *of =
        exg_operators_dtype_lowerings(c->shapes->v->operators, c->op->id);
    bool lowered = c->op->lowering != NULL;

    for (uint32_t i = 0; !lowered && i < c->op->schema->argument_count; i++) {
        lowered = is_complex(c, &args[i]) && of->of_complex != NULL;
    }
    return lowered;
}

static exg_status infer(call *c, exg_argument *args, exg_tensor_meta ***made, uint32_t *count,
                        exg_error *err)
{
    const exg_operator *op = c->op;

    if (op->shape != NULL || op->view != NULL || op->pointwise != EXG_POINTWISE_NOT) {
        exg_tensor_meta **unused;
        uint32_t unused_count;

        EXG_TRY(exg_operator_infer(op, args, c->from, c->shapes->v->scratch, made, count, err));
        return is_lowered_later(c, args) &&
                       write_out(c, args, &unused, &unused_count, err) == EXG_MALFORMED
                   ? EXG_MALFORMED
                   : EXG_OK;
    }
    if (op->lowering != NULL) {
        return write_out(c, args, made, count, err);
    }
    return EXG_UNSUPPORTED; /* the other rules said all that is known */
}

/* May a result be written into a tensor of that dtype? (c10::canCast) */
static bool can_cast(exg_dtype from, exg_dtype to)
{
    return !(exg_dtype_is_complex(from) && !exg_dtype_is_complex(to)) &&
           !(exg_dtype_is_float(from) && exg_dtype_is_integral(to)) &&
           !(from != EXG_DTYPE_B8 && to == EXG_DTYPE_B8);
}

/* PyTorch does not cast what float_power_ computes. */
static bool can_write(const call *c, exg_dtype from, exg_dtype to)
{
    return c->op->id == EXG_OP_float_power_Tensor_Scalar ||
                   c->op->id == EXG_OP_float_power_Tensor_Tensor
               ? from == to
               : can_cast(from, to);
}

/* `made` fills `self`. */
static void compare_written(call *c, const exg_tensor_meta *self, const exg_tensor_meta *made)
{
    bool fits =
        made == NULL || (made->rank == self->rank && can_write(c, made->dtype, self->dtype));
    char said_text[120];
    char made_text[120];
    char sizes[120];

    for (uint32_t d = 0; fits && made != NULL && d < self->rank; d++) {
        fits = made->sizes[d].value == self->sizes[d].value;
    }
    if (fits) {
        return;
    }
    describe(self, said_text, sizeof(said_text));
    describe(made, made_text, sizeof(made_text));
    describe_binding(c, sizes, sizeof(sizes));
    exg_found(c->shapes->v, rule_of(c), c->path, "%s writes %s to a tensor of %s%s",
              c->node->target, made_text, said_text, sizes);
    c->differs = true;
}

/* `self`: what the results are written to; NULL: they are the node's. */
static void check_tensors(call *c, exg_argument *args, const exg_tensor_meta *self)
{
    exg_tensor_meta **made = NULL;
    uint32_t count = 0;
    exg_graph values = {0};
    bool wraps = false;
    exg_error err;
    exg_status status;

    for (uint32_t i = 0; i < c->op->schema->argument_count; i++) {
        wraps = wraps || stands_for_tensor(c, args, i);
        if (stands_for_tensor(c, args, i) && !is_number(&args[i])) {
            return; /* another rule speaks of it */
        }
    }
    c->from = c->at;
    if (wraps && !wrap_numbers(c, args, &values)) {
        c->shapes->v->failed = true;
        return;
    }
    status = infer(c, args, &made, &count, &err);
    if (status == EXG_OK && self != NULL) {
        compare_written(c, self, made[0]);
    } else if (status == EXG_OK) {
        compare_results(c, made, count);
    } else if (status == EXG_MALFORMED && c->binding == 0) {
        /* elsewhere it says what PyTorch has no guard for, and the run will */
        exg_found(c->shapes->v, "NOD-017", c->path, "%s: %s", c->node->target, err.message);
        c->differs = true;
    }
}

/* What an operator computes and writes to its first argument, which is its result. */
static void check_in_place(call *c, const exg_argument *args)
{
    const exg_operator *op = c->op;
    exg_argument functional_args[EXG_ARGUMENTS_MAX];
    exg_tensor_meta *self;

    if (args[0].kind != EXG_ARGUMENT_TENSOR) {
        return;
    }
    self = c->at->values[args[0].as_tensor].tensor;
    compare_results(c, &self, 1);
    c->op = exg_operators_get(c->shapes->v->operators, op->functional);
    if (!c->differs && c->op->id != EXG_OP_alias_default) {
        exg_operator_functional_args(op, c->op, args, functional_args);
        check_tensors(c, functional_args, self);
    }
    c->op = op;
}

static void check_size(call *c, const exg_argument *args, uint32_t count)
{
    const exg_argument *out = c->node->outputs;
    const exg_sym_int *said;
    exg_argument made;
    exg_error err;
    exg_status status = exg_operator_evaluate(c->op, args, count, c->at, &made, &err);

    if (status == EXG_MALFORMED && c->binding == 0) {
        exg_found(c->shapes->v, "SYM-006", c->path, "%s: %s", c->node->target, err.message);
        c->differs = true;
    }
    if (status != EXG_OK || c->node->output_count != 1 || out->as_sym.value == EXG_NO_VALUE ||
        (made.kind != EXG_ARGUMENT_INT && made.kind != EXG_ARGUMENT_BOOL)) {
        return;
    }
    said = c->at->values[out->as_sym.value].sym_int;
    if (said != NULL && said->value != exg_get_int(&made)) {
        exg_found(c->shapes->v, "SYM-006", c->path,
                  "'%s' is recorded as %" PRId64 "; %s gives %" PRId64,
                  c->at->values[out->as_sym.value].name, said->value, c->node->target,
                  exg_get_int(&made));
        c->differs = true;
    }
}

void exg_shapes_check(exg_shapes *shapes, const exg_node *node, const exg_operator *op,
                      const exg_argument *args, const exg_model_path *path)
{
    uint32_t count = op->schema->argument_count;
    call c = {.shapes = shapes, .node = node, .op = op, .path = path};

    if (op->symbolic != NULL && count > EXG_SYMBOLIC_ARGUMENTS_MAX) {
        return;
    }
    for (uint32_t b = 0; b < shapes->count && !c.differs; b++) {
        exg_argument own[EXG_ARGUMENTS_MAX];
        bool known = true;

        exg_arena_reset(shapes->v->scratch);
        c.at = &shapes->at[b];
        c.binding = b;
        memcpy(own, args, count * sizeof(*args));
        for (uint32_t i = 0; known && i < count; i++) {
            known = resolve(shapes->v->scratch, c.at, &own[i]);
        }
        if (known && op->symbolic != NULL) {
            check_size(&c, own, count);
        } else if (known && op->functional != EXG_OP_NONE) {
            check_in_place(&c, own);
        } else if (known) {
            check_tensors(&c, own, NULL);
        }
    }
}
