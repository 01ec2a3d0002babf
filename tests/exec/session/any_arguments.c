/* any_arguments.c - every operator there is, on tensors and numbers drawn by chance: what a file
 * may hold. A program that is made of them runs or is refused, and nothing is read or written
 * past its end, which sanitizers watch. One that exg_verify() passed is right: it runs, ends by
 * what its data are, or asks for what is not there (UNSUPPORTED) or too much (LIMIT).
 *
 *   EXG_TEST_SEEDS    programs an operator (default 4)
 *   EXG_TEST_FIRST    the first seed (default 0); EXG_TEST_OPERATOR: only targets that hold this
 */
#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/operator_id_new.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define RANK_MAX     5
#define ITEMS_MAX    6
#define INPUTS_MAX   40
#define ELEMENTS_MAX 4096 /* of a tensor in a program that is run */

static const double floats[] = {NAN,    INFINITY, -INFINITY, 1e308, -0.0, -1,
                                1e-320, 0.5,      1e19,      -3e9,  1e-9, 2};
static const int64_t numbers[] = {INT64_MIN, INT64_MAX,    1LL << 31, -(1LL << 31), 1LL << 32,
                                  1LL << 62, -(1LL << 62), 65536,     1000003,      -1000};
static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F32,  EXG_DTYPE_F32, EXG_DTYPE_I64,
                                   EXG_DTYPE_I64, EXG_DTYPE_B8,   EXG_DTYPE_F64, EXG_DTYPE_I32,
                                   EXG_DTYPE_U8,  EXG_DTYPE_BF16, EXG_DTYPE_C64};
static const char *const strings[] = {"none", "mean",    "sum",  "floor", "trunc", "reflect",
                                      "amax", "reduced", "same", "",      "fro",   "linear"};

#define ONE_OF(list) ((list)[below(sizeof(list) / sizeof((list)[0]))])

static exg_operators *operators;
static uint64_t state;     /* of chance */
static const char *drawn;  /* the operator */
static uint32_t misjudged; /* programs that the gate should have refused */

static uint64_t below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* What the tensors of a program have in common, mostly. */
typedef struct common {
    uint32_t rank;
    int64_t sizes[RANK_MAX];
    exg_dtype dtype;
} common;

static int64_t whole_number(const common *c)
{
    switch (below(14)) {
    case 0:
        return ONE_OF(numbers);
    case 1:
        return -(int64_t)below(4);
    case 2:
        return c->sizes[below(RANK_MAX)];
    default:
        return (int64_t)below(4);
    }
}

static bool names(const char *parameter, const char *a, const char *b)
{
    return strstr(parameter, a) != NULL || strstr(parameter, b) != NULL;
}

static exg_ref tensor(exg_builder *b, const common *c, const char *parameter)
{
    uint32_t rank = below(4) > 0 ? c->rank : (uint32_t)below(RANK_MAX + 1);
    exg_dtype dtype = below(4) > 0 ? c->dtype : ONE_OF(dtypes);
    int64_t sizes[RANK_MAX];
    exg_tensor_meta meta;

    if (below(8) > 0) {
        dtype = names(parameter, "ind", "offset")  ? EXG_DTYPE_I64
                : names(parameter, "mask", "cond") ? EXG_DTYPE_B8
                                                   : dtype;
    }
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = below(3) > 0 ? c->sizes[d] : (int64_t)below(5);
    }
    meta = exg_builder_meta(b, dtype, sizes, rank);
    return exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

/* Lists that no builder copies are the program's. */
static exg_argument list(exg_builder *b, const common *c, const exg_schema_argument *parameter)
{
    const exg_schema_type *type = &parameter->type;
    bool fixed = type->list_length > 0 && type->list_length <= ITEMS_MAX && below(5) > 0;
    uint32_t count = fixed ? type->list_length : (uint32_t)below(ITEMS_MAX);
    exg_argument made = {.kind = EXG_ARGUMENT_FLOATS, .count = count};
    exg_ref refs[ITEMS_MAX];
    int64_t ints[ITEMS_MAX];

    if (type->base == EXG_TYPE_TENSOR) {
        for (uint32_t i = 0; i < count; i++) {
            bool absent = type->is_element_optional && below(3) == 0;

            refs[i] = absent ? EXG_NO_REF : tensor(b, c, parameter->name);
        }
        return exg_arg_refs(b, refs, count);
    }
    if (type->base == EXG_TYPE_FLOAT) {
        made.as_floats = exg_arena_alloc(exg_builder_arena(b), ITEMS_MAX, sizeof(double));
        for (uint32_t i = 0; i < count; i++) {
            made.as_floats[i] = below(3) > 0 ? 1 + (double)below(3) : ONE_OF(floats);
        }
        return made;
    }
    if (type->base == EXG_TYPE_BOOL) {
        made.kind = EXG_ARGUMENT_BOOLS;
        made.as_bools = exg_arena_alloc(exg_builder_arena(b), ITEMS_MAX, sizeof(bool));
        for (uint32_t i = 0; i < count; i++) {
            made.as_bools[i] = below(2) > 0;
        }
        return made;
    }
    for (uint32_t i = 0; i < count; i++) {
        ints[i] = below(3) == 0 ? c->sizes[i % RANK_MAX] : whole_number(c);
    }
    return exg_arg_ints(b, ints, count);
}

static exg_argument argument(exg_builder *b, const common *c, const exg_schema_argument *parameter)
{
    if (parameter->has_default && below(3) > 0) {
        return parameter->default_value;
    }
    if (parameter->type.is_optional && below(2) > 0) {
        return exg_arg_none();
    }
    if (parameter->type.is_list) {
        return list(b, c, parameter);
    }
    switch (parameter->type.base) {
    case EXG_TYPE_TENSOR:
        return exg_arg_ref(tensor(b, c, parameter->name));
    case EXG_TYPE_INT:
    case EXG_TYPE_SYM_INT:
        return exg_arg_int(whole_number(c));
    case EXG_TYPE_SCALAR:
        return below(2) > 0 ? exg_arg_int(whole_number(c)) : exg_arg_float(ONE_OF(floats));
    case EXG_TYPE_FLOAT:
        return exg_arg_float(below(2) > 0 ? 0.5 : ONE_OF(floats));
    case EXG_TYPE_BOOL:
    case EXG_TYPE_SYM_BOOL:
        return exg_arg_bool(below(2) > 0);
    case EXG_TYPE_SCALAR_TYPE:
        return exg_arg_dtype(ONE_OF(dtypes));
    case EXG_TYPE_STRING:
        return exg_arg_string(ONE_OF(strings));
    default:
        return exg_arg_none();
    }
}

/* The tensor that an argument `alias` names, which the node gives back; NULL: there is none. */
static const exg_tensor_meta *written(const exg_operator *op, const exg_argument *args,
                                      const exg_graph *graph, char alias)
{
    for (uint32_t i = 0; alias != 0 && i < op->schema->argument_count; i++) {
        if (op->schema->arguments[i].alias == alias && args[i].kind == EXG_ARGUMENT_TENSOR &&
            args[i].as_tensor != EXG_NO_VALUE) {
            return graph->values[args[i].as_tensor].tensor;
        }
    }
    return NULL;
}

/* A node that a builder would write out, as a file holds it: its results are what it writes. */
static bool make_node(exg_builder *b, exg_program *program, const exg_operator *op,
                      const exg_argument *args, exg_argument *results)
{
    exg_node *node = exg_arena_alloc(program->arena, 1, sizeof(*node));

    memset(node, 0, sizeof(*node));
    *node = (exg_node){.target = op->target,
                       .name = "node",
                       .is_hop_single_tensor_return = EXG_UNSET,
                       .inputs = exg_arena_alloc(program->arena, INPUTS_MAX, sizeof(*node->inputs)),
                       .outputs = exg_arena_alloc(program->arena, ITEMS_MAX, sizeof(*results)),
                       .output_count = op->schema->return_count};
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        node->inputs[node->input_count++] = (exg_named_argument){
            op->schema->arguments[i].name, args[i],
            op->schema->arguments[i].keyword_only ? EXG_KIND_KEYWORD : EXG_KIND_POSITIONAL};
    }
    for (uint32_t r = 0; r < node->output_count; r++) {
        const exg_tensor_meta *meta =
            written(op, args, program->graph, op->schema->returns[r].alias);

        if (meta == NULL || r == ITEMS_MAX) {
            return false;
        }
        results[r] = exg_arg_ref(exg_builder_value(b, "out", meta));
        node->outputs[r] = results[r];
    }
    program->graph->nodes = node;
    program->graph->node_count = 1;
    return true;
}

/* One node of `op`; false: the builder refused it, or it takes more than is drawn here. */
static bool make(const exg_operator *op, exg_program *program)
{
    exg_argument args[INPUTS_MAX], results[ITEMS_MAX + 2];
    common c = {.rank = (uint32_t)below(RANK_MAX + 1), .dtype = ONE_OF(dtypes)};
    exg_builder *b;

    for (uint32_t d = 0; d < RANK_MAX; d++) {
        c.sizes[d] = below(9) == 0 ? 0 : 1 + (int64_t)below(5);
        c.sizes[d] = d > 0 && below(3) == 0 ? c.sizes[d - 1] : c.sizes[d];
    }
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    exg_builder_set_lowering(b, below(4) == 0);
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        args[i] = argument(b, &c, &op->schema->arguments[i]);
    }
    memset(results, 0, sizeof(results));
    if (op->schema->is_mutable && op->functional == EXG_OP_NONE
            ? make_node(b, program, op, args, results)
            : exg_emit_all(b, op->id, args, op->schema->argument_count, results) == EXG_OK) {
        for (uint32_t r = 0; r < op->schema->return_count; r++) {
            if (results[r].kind == EXG_ARGUMENT_TENSOR) {
                exg_builder_output(b, &results[r], EXG_OUTPUT_USER, NULL);
            }
        }
        exg_builder_call(b);
    }
    return exg_builder_finish(b, NULL) == EXG_OK;
}

/* A file may record its inputs otherwise than the operators were built for. */
static void record_otherwise(exg_graph *graph)
{
    const exg_argument *input = &graph->inputs[below(graph->input_count)];
    exg_tensor_meta *meta = graph->values[input->as_tensor].tensor;
    int64_t stride = 1;

    if (below(3) == 0) {
        meta->dtype = ONE_OF(dtypes);
    } else if (meta->rank > 0) {
        meta->sizes[below(meta->rank)].value = (int64_t)below(5);
    }
    for (uint32_t d = meta->rank; d-- > 0;) {
        meta->strides[d].value = stride;
        stride *= meta->sizes[d].value > 1 ? meta->sizes[d].value : 1;
    }
}

/* ---- running --------------------------------------------------------------------------- */

static void fill(exg_tensor *t)
{
    uint8_t *bytes = t->data;
    int64_t numel = exg_tensor_numel(t);
    size_t each = exg_dtype_bytes(t->dtype);

    for (int64_t i = 0; i < numel; i++) {
        if (t->dtype == EXG_DTYPE_F32) {
            ((float *)t->data)[i] =
                below(12) > 0 ? (float)below(100) / 25 - 2 : (float)ONE_OF(floats);
        } else if (t->dtype == EXG_DTYPE_F64) {
            ((double *)t->data)[i] = below(12) > 0 ? (double)below(100) / 25 - 2 : ONE_OF(floats);
        } else if (t->dtype == EXG_DTYPE_I64) {
            ((int64_t *)t->data)[i] = below(20) > 0 ? (int64_t)below(4) : ONE_OF(numbers);
        } else {
            bytes[(size_t)i * each] = (uint8_t)below(t->dtype == EXG_DTYPE_B8 ? 2 : 4);
        }
    }
}

static bool is_small(const exg_program *program)
{
    for (uint32_t v = 0; v < program->graph->value_count; v++) {
        const exg_tensor_meta *meta = program->graph->values[v].tensor;
        int64_t numel;

        if (meta != NULL && (!exg_tensor_meta_numel(meta, &numel) || numel > ELEMENTS_MAX)) {
            return false;
        }
    }
    return true;
}

/* May a program that passed the gate end so? */
static bool may_end(const exg_error *err)
{
    return err->status == EXG_UNSUPPORTED || err->status == EXG_LIMIT ||
           (err->status == EXG_MALFORMED && strncmp(err->code, "RUN-", 4) == 0);
}

static bool run(const exg_verified *verified, exg_session_input *inputs, uint32_t count)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_session *session = NULL;
    exg_error err;
    bool right = exg_session_create(verified, &options, &session, &err) == EXG_OK &&
                 exg_session_run(session, inputs, count, &err) == EXG_OK;

    if (!right && !may_end(&err)) {
        print_message("%s: %s %s: %s\n", drawn, exg_status_name(err.status), err.code, err.message);
        misjudged++;
    }
    for (uint32_t o = 0; right && o < exg_session_output_count(session); o++) {
        const exg_session_output *out = exg_session_output_at(session, o);
        size_t bytes = (size_t)exg_tensor_numel(&out->tensor) * exg_dtype_bytes(out->tensor.dtype);
        void *copy = malloc(bytes + 1);

        if (copy != NULL && out->tensor.data != NULL) {
            memcpy(copy, out->tensor.data, bytes); /* all of it is there */
        }
        free(copy);
    }
    exg_session_destroy(session);
    return right;
}

/* Did it run? */
static bool try_program(const exg_program *program)
{
    exg_session_input inputs[INPUTS_MAX];
    uint32_t count = program->graph->input_count;
    exg_verified verified;
    bool ran;

    if (count > INPUTS_MAX || !is_small(program) ||
        exg_verify(program, operators, &verified, NULL, NULL) != EXG_OK) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        exg_value_id id = program->graph->inputs[i].as_tensor;
        const exg_tensor_meta *meta = program->graph->values[id].tensor;
        exg_session_input *in = &inputs[i];

        *in = (exg_session_input){.name = program->graph->values[id].name,
                                  .tensor = {.dtype = meta->dtype, .rank = meta->rank}};
        for (uint32_t d = 0; d < meta->rank; d++) {
            in->tensor.sizes[d] = meta->sizes[d].value;
        }
        exg_tensor_set_contiguous(&in->tensor);
        in->tensor.data =
            calloc((size_t)exg_tensor_numel(&in->tensor) + 1, exg_dtype_bytes(meta->dtype));
        fill(&in->tensor);
    }
    ran = run(&verified, inputs, count);
    for (uint32_t i = 0; i < count; i++) {
        free(inputs[i].tensor.data);
    }
    return ran;
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void any_arguments_give_a_status(void **unused)
{
    uint64_t seeds = from_environment("EXG_TEST_SEEDS", 4);
    uint64_t first = from_environment("EXG_TEST_FIRST", 0);
    const char *only = getenv("EXG_TEST_OPERATOR");
    const char *dialect[] = {"TRAINING"};
    uint32_t made = 0;
    uint32_t ran = 0;

    (void)unused;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (int id = 0; id < EXG_OPERATOR_COUNT; id++) {
        const exg_operator *op = exg_operators_get(operators, (exg_operator_id)id);

        if (op->symbolic != NULL || op->schema->argument_count > INPUTS_MAX ||
            op->schema->return_count > ITEMS_MAX + 2 ||
            (only != NULL && strstr(op->target, only) == NULL)) {
            continue;
        }
        for (uint64_t seed = first; seed < first + seeds; seed++) {
            exg_program *program;

            state = (uint64_t)id << 32 | seed;
            drawn = op->target;
            assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
            if (make(op, program)) {
                made++;
                program->verifiers = dialect; /* whose programs may write */
                program->verifier_count = 1;
                if (program->graph->input_count > 0 && below(3) == 0) {
                    record_otherwise(program->graph);
                }
                ran += try_program(program);
            }
            exg_program_destroy(program);
        }
    }
    exg_operators_destroy(operators);
    print_message("%u programs, of which %u ran\n", made, ran);
    assert_int_equal(misjudged, 0);
    assert_true(only != NULL || ran > seeds * 200); /* they are no nonsense either */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_arguments_give_a_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
