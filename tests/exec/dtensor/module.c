/* module.c - programs distributed module by module: seeds.md S003-106 to 117. */
#include "tests/exec/dispatch/eager.h"

#include <exg/export.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- a program of five modules: "", a, b, b.0, b.1 ------------------------------------------- */

static exg_program *small_program(void)
{
    static float numbers[15];
    static int64_t count = 7;
    static bool mask[2] = {true, false};
    static exg_sym_int sizes[2] = {{NULL, 5, false}, {NULL, 3, false}};
    static exg_sym_int strides[2] = {{NULL, 3, false}, {NULL, 1, false}};
    static exg_sym_int two = {NULL, 2, false}, one = {NULL, 1, false};
    static exg_input_spec specs[] = {
        {.kind = EXG_INPUT_BUFFER, .target = "b.1.mask", .persistent = EXG_FALSE},
        {.kind = EXG_INPUT_CONSTANT_TENSOR, .target = "lifted"},
        {.kind = EXG_INPUT_USER, .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = "x"}},
        {.kind = EXG_INPUT_USER, .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = "scale"}}};
    /* what the file leaves out follows from names */
    static exg_module_call calls[] = {{.fqn = ""}, {.fqn = "a"}, {.fqn = "b.0"}};
    exg_tensor_meta matrix = {.dtype = EXG_DTYPE_F32, .layout = EXG_LAYOUT_STRIDED, .rank = 2,
                              .sizes = sizes, .strides = strides,
                              .device = {.type = "cpu", .index = -1}};
    exg_tensor_meta number = {.dtype = EXG_DTYPE_I64, .layout = EXG_LAYOUT_STRIDED,
                              .device = {.type = "cpu", .index = -1}};
    exg_tensor_meta bits = {.dtype = EXG_DTYPE_B8, .layout = EXG_LAYOUT_STRIDED, .rank = 1,
                            .sizes = &two, .strides = &one,
                            .device = {.type = "cpu", .index = -1}};
    exg_tensor_meta trained = matrix;
    const exg_weight weights[] = {
        {.fqn = "a.weight", .is_param = true, .meta = &trained, .storage = 0},
        {.fqn = "b.0.weight", .is_param = true, .meta = &matrix, .storage = 1},
        {.fqn = "b.1.count", .meta = &number, .storage = 2},
        {.fqn = "b.1.mask", .table = EXG_TABLE_CONSTANTS, .meta = &bits, .storage = 3},
        {.fqn = "lifted", .table = EXG_TABLE_CONSTANTS, .meta = &bits, .storage = 4},
    };
    const void *data[] = {numbers, numbers, &count, mask, mask};
    const uint64_t lengths[] = {60, 60, 8, 2, 2};
    exg_program *program;

    trained.requires_grad = true;
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    if (program->weights == NULL) {
        assert_int_equal(exg_weights_create(NULL, &program->weights, NULL), EXG_OK);
    }
    for (int i = 0; i < 5; i++) {
        exg_storage storage = {.data = data[i], .length = lengths[i]};
        uint32_t index;

        assert_int_equal(exg_weights_add_storage(program->weights, &storage, &index, NULL),
                         EXG_OK);
        assert_int_equal(exg_weights_add(program->weights, &weights[i], NULL), EXG_OK);
    }
    for (int i = 0; i < 15; i++) {
        numbers[i] = (float)i;
    }
    program->module_calls = calls;
    program->module_call_count = 3;
    program->signature.inputs = specs;
    program->signature.input_count = 4;
    return program;
}

typedef struct asked {
    rank_context *c;
    char order[100];
} asked;

static exg_status note(void *user, exg_module *m, const char *fqn, exg_device_mesh *mesh,
                       exg_error *err)
{
    asked *a = user;
    exg_placement rows = exg_shard(0), columns = exg_shard(1);
    size_t used = strlen(a->order);

    snprintf(a->order + used, sizeof(a->order) - used, "[%s]", fqn);
    EXPECT(a->c, mesh == a->c->mesh, "another mesh");
    if (strcmp(fqn, "a") == 0) {
        EXPECT(a->c, exg_module_find(m, "b.0.weight") == NULL, "replicated too early");
        EXPECT(a->c, exg_module_assign(m, "nothing", &rows, 1, err) == EXG_USAGE, "no such tensor");
        EXPECT(a->c, exg_module_assign(m, "a.weight", &rows, 1, err) == EXG_OK &&
                         exg_module_assign(m, "a.weight", &rows, 1, err) == EXG_OK, "the same");
        EXPECT(a->c, exg_module_assign(m, "a.weight", &columns, 1, err) == EXG_USAGE &&
                         strcmp(err->code, "DTN-017") == 0, "another");
    }
    EXPECT(a->c, exg_distribute_module(m, "b", mesh, NULL, err) == EXG_USAGE, "one in another");
    return EXG_OK;
}

static void distribute_small(rank_context *c)
{
    const int64_t rows = exg_device_mesh_rank(c->mesh) == 0 ? 3 : 2;
    asked a = {.c = c};
    exg_module_functions functions = {.size = sizeof(functions), .partition = note, .user = &a};
    exg_placement whole = exg_replicate();
    exg_module *m = NULL;
    exg_dtensor *t;
    exg_error err;

    EXPECT(c, exg_module_create(c->user, &m, &err) == EXG_OK, "%s", err.message);
    EXPECT(c, exg_distribute_module(m, "", NULL, &functions, &err) == EXG_USAGE &&
                  strcmp(err.code, "DTN-018") == 0, "no mesh");
    EXPECT(c, exg_distribute_module(m, "z", c->mesh, &functions, &err) == EXG_USAGE, "no module");
    functions.size = 0;
    EXPECT(c, exg_distribute_module(m, "", c->mesh, &functions, &err) == EXG_USAGE &&
                  strcmp(err.code, "OPT-001") == 0, "functions without a size");
    functions.size = sizeof(functions);
    EXPECT(c, exg_distribute_module(m, "", c->mesh, &functions, &err) == EXG_OK, "%s", err.message);
    EXPECT(c, strcmp(a.order, "[][a][b][b.0][b.1]") == 0, "in the order %s", a.order);
    EXPECT(c, exg_module_tensor_count(m) == 4, "%u tensors", exg_module_tensor_count(m));
    for (uint32_t i = 0; c->faults == 0 && i < 4; i++) {
        const char *fqn = exg_module_tensor_at(m, i, &t);

        EXPECT(c, t != NULL && exg_placement_equal(exg_dtensor_placements(t)[0],
                                                   i == 0 ? exg_shard(0) : exg_replicate()),
               "%s lies otherwise", fqn);
        EXPECT(c, t == exg_module_find(m, fqn), "found by name");
        EXPECT(c, exg_dtensor_requires_grad(t) == (i == 0), "%s: requires_grad", fqn);
    }
    if (c->faults == 0) {
        t = exg_module_find(m, "a.weight");
        EXPECT(c, exg_dtensor_to_local(t)->sizes[0] == rows &&
                      ((const float *)on_host(t)->data)[0] == (rows == 3 ? 0 : 9),
               "the rows of a.weight");
        t = exg_module_find(m, "b.1.count");
        EXPECT(c, exg_dtensor_rank_count(t) == 0 &&
                      *(const int64_t *)on_host(t)->data == 7, "the counter");
    }
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == 0, "messages");
    EXPECT(c, exg_distribute_module(m, "", c->mesh, &functions, &err) == EXG_USAGE &&
                  strcmp(err.code, "DTN-017") == 0, "twice");
    EXPECT(c, exg_module_assign(m, "a.weight", &whole, 1, &err) == EXG_USAGE, "outside");
    exg_module_destroy(m);
}

/* S003-107 to 109, 111, 112, 117 */
static void modules_are_asked_parents_first(void **state)
{
    exg_program *program = small_program();

    (void)state;
    on_mesh("2", distribute_small, program);
    exg_program_destroy(program);
}

/* A module alone, then the rest; without a function. */
static void distribute_a_part(rank_context *c)
{
    exg_module *m = NULL;
    exg_dtensor *before;
    exg_error err;

    EXPECT(c, exg_module_create(c->user, &m, &err) == EXG_OK &&
                  exg_distribute_module(m, "b", c->mesh, NULL, &err) == EXG_OK, "%s", err.message);
    before = exg_module_find(m, "b.0.weight");
    EXPECT(c, before != NULL && exg_module_find(m, "b.1.mask") != NULL &&
                  exg_module_find(m, "a.weight") == NULL, "b and what is in it");
    EXPECT(c, exg_distribute_module(m, "", c->mesh, NULL, &err) == EXG_OK &&
                  exg_module_find(m, "a.weight") != NULL &&
                  exg_module_find(m, "b.0.weight") == before, "the rest");
    exg_module_destroy(m);
}

/* A rank outside the mesh knows the whole and holds nothing. */
static void distribute_on_two(rank_context *c)
{
    exg_mesh_shape pair = mesh_shape("2");
    bool inside = exg_device_mesh_rank(c->mesh) < 2;
    exg_device_mesh *two = NULL;
    exg_module *m = NULL;
    exg_dtensor *t;
    exg_error err;

    EXPECT(c, exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &pair, &two, &err) == EXG_OK &&
                  exg_module_create(c->user, &m, &err) == EXG_OK &&
                  exg_distribute_module(m, "", two, NULL, &err) == EXG_OK, "%s", err.message);
    t = exg_module_find(m, "a.weight");
    EXPECT(c, t != NULL && exg_dtensor_sizes(t)[0] == 5 && exg_dtensor_requires_grad(t) &&
                  exg_tensor_numel(exg_dtensor_to_local(t)) == (inside ? 15 : 0), "a.weight");
    exg_module_destroy(m);
    exg_device_mesh_destroy(two);
}

/* S003-108 */
static void what_is_distributed_stays(void **state)
{
    exg_program *program = small_program();

    (void)state;
    on_mesh("3", distribute_a_part, program);
    on_mesh("3", distribute_on_two, program);
    exg_program_destroy(program);
}

/* The one called "scale", wherever it stands. */
static exg_status place_scale(void *user, const char *fqn, exg_module_value *values,
                              uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    exg_placement rows = exg_shard(0);

    (void)user, (void)fqn;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(values[i].name, "scale") == 0) {
            EXG_TRY(exg_distribute_tensor(mesh, values[i].tensor, &rows, 1, 0, &values[i].dtensor,
                                          err));
            values[i].tensor = NULL;
        }
    }
    return EXG_OK;
}

static exg_status copy_inputs(void *user, exg_module *m, const exg_module_value *inputs,
                              uint32_t input_count, exg_module_value *outputs,
                              uint32_t output_count, exg_error *err)
{
    (void)user, (void)m, (void)err, (void)output_count;
    memcpy(outputs, inputs, input_count * sizeof(*outputs));
    return EXG_OK;
}

static void place_by_name(rank_context *c)
{
    float data[4] = {1, 2, 3, 4};
    exg_tensor four = {.data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {4},
                       .strides = {1}};
    exg_module_functions functions = {.size = sizeof(functions), .input = place_scale};
    exg_module_value in[] = {{"x", &four, NULL}, {"scale", &four, NULL}}, out[2];
    exg_module *m = NULL;
    exg_error err;

    EXPECT(c, exg_module_create(c->user, &m, &err) == EXG_OK &&
                  exg_distribute_module(m, "", c->mesh, &functions, &err) == EXG_OK, "%s",
           err.message);
    EXPECT(c, exg_module_forward(m, "", copy_inputs, NULL, in, 1, out, 1, &err) == EXG_USAGE &&
                  strstr(err.message, "scale") != NULL, "one is missing");
    EXPECT(c, exg_module_forward(m, "", copy_inputs, NULL, in, 2, out, 2, &err) == EXG_OK, "%s",
           err.message);
    EXPECT(c, c->faults > 0 || (out[0].tensor == &four && out[0].dtensor == NULL &&
                                out[1].tensor == NULL && out[1].dtensor != NULL &&
                                exg_dtensor_to_local(out[1].dtensor)->sizes[0] == 2),
           "the one by its name");
    exg_dtensor_destroy(in[1].dtensor);
    exg_module_destroy(m);
}

/* S003-116 */
static void inputs_have_names(void **state)
{
    exg_program *program = small_program();

    (void)state;
    on_mesh("2", place_by_name, program);
    exg_program_destroy(program);
}

static void modules_go_only_so_deep(void **state)
{
    static char deep[200]; /* a.a.a. ... */
    exg_program *program = small_program();
    exg_module *m;
    exg_error err;

    (void)state;
    for (int i = 0; i < 199; i++) {
        deep[i] = i % 2 == 0 ? 'a' : '.';
    }
    program->module_calls[2].fqn = deep;
    assert_int_equal(exg_module_create(program, &m, &err), EXG_LIMIT);
    assert_string_equal(err.code, "DTN-017");
    assert_null(m);
    deep[2 * 64 - 1] = '\0';
    assert_int_equal(exg_module_create(program, &m, &err), EXG_OK);
    exg_module_destroy(m);
    program->module_calls[2].fqn = "b.0";
    exg_program_destroy(program);
}

/* ---- programs of PyTorch --------------------------------------------------------------------- */

static exg_program *open_program(const char *path)
{
    exg_program *program;
    exg_error err;

    if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    return program;
}

static exg_status columns_of_decode(void *user, exg_module *m, const char *fqn,
                                    exg_device_mesh *mesh, exg_error *err)
{
    exg_placement columns = exg_shard(1);

    (void)user, (void)mesh;
    return strcmp(fqn, "decode") == 0 || fqn[0] == '\0'
               ? exg_module_assign(m, "decode.weight", &columns, 1, err)
               : EXG_OK;
}

static void distribute_tied(rank_context *c)
{
    exg_module_functions functions = {.size = sizeof(functions), .partition = columns_of_decode};
    exg_module *m = NULL;
    exg_dtensor *t;
    exg_error err;

    EXPECT(c, exg_module_create(c->user, &m, &err) == EXG_OK &&
                  exg_distribute_module(m, "", c->mesh, &functions, &err) == EXG_OK, "%s",
           err.message);
    t = exg_module_find(m, "encode.weight");
    EXPECT(c, t != NULL && t == exg_module_find(m, "decode.weight"), "one is two");
    EXPECT(c, t != NULL && exg_dtensor_placements(t)[0].kind == EXG_SHARD &&
                  exg_dtensor_requires_grad(t), "lies as one of its names was told");
    exg_module_destroy(m);
}

/* S003-110 */
static void tied_tensors_stay_one(void **state)
{
    exg_program *program = open_program("fixtures/tied.pt2");

    (void)state;
    on_mesh("2", distribute_tied, program);
    exg_program_destroy(program);
}

typedef struct mlp {
    const exg_program *program;
    const exg_tensor_file *inputs, *expected;
    bool plain; /* the input and output functions change nothing */
    eager *e;
} mlp;

/* Over the second mesh dim, as Megatron does: rows of the first matrix, columns of the second. */
static exg_status split_matrices(void *user, exg_module *m, const char *fqn, exg_device_mesh *mesh,
                                 exg_error *err)
{
    const exg_placement rows[] = {exg_replicate(), exg_shard(0)};
    const exg_placement columns[] = {exg_replicate(), exg_shard(1)};

    (void)user, (void)mesh;
    if (strcmp(fqn, "up") == 0) {
        EXG_TRY(exg_module_assign(m, "up.weight", rows, 2, err));
        return exg_module_assign(m, "up.bias", rows, 2, err);
    }
    return strcmp(fqn, "down") == 0 ? exg_module_assign(m, "down.weight", columns, 2, err) : EXG_OK;
}

/* The batch is cut over the first mesh dim. */
static exg_status cut_batch(void *user, const char *fqn, exg_module_value *values, uint32_t count,
                            exg_device_mesh *mesh, exg_error *err)
{
    const mlp *p = user;
    const exg_placement batch[] = {exg_shard(0), exg_replicate()};

    EXPECT(p->e->c, fqn[0] == '\0' && count == 1 && strcmp(values[0].name, "x") == 0 &&
                        values[0].dtensor == NULL, "the inputs by name");
    if (p->plain) {
        return EXG_OK;
    }
    EXG_TRY(exg_distribute_tensor(mesh, values[0].tensor, batch, 2, 0, &values[0].dtensor, err));
    values[0].tensor = NULL;
    return EXG_OK;
}

static exg_status make_whole(void *user, const char *fqn, exg_module_value *values, uint32_t count,
                             exg_device_mesh *mesh, exg_error *err)
{
    const mlp *p = user;
    exg_dtensor *full;

    (void)mesh;
    EXPECT(p->e->c, fqn[0] == '\0' && count == 1 && values[0].dtensor != NULL, "the outputs");
    if (!p->plain) {
        EXG_TRY(exg_dtensor_full_tensor(values[0].dtensor, &full, err));
        exg_dtensor_destroy(values[0].dtensor);
        values[0].dtensor = full;
        values[0].tensor = on_host(full);
    }
    return EXG_OK;
}

static exg_status forward(void *user, exg_module *m, const exg_module_value *inputs,
                          uint32_t input_count, exg_module_value *outputs, uint32_t output_count,
                          exg_error *err)
{
    eager *e = user;
    exg_object x = inputs[0].tensor != NULL ? exg_object_tensor(inputs[0].tensor)
                                            : exg_object_dtensor(inputs[0].dtensor);
    exg_dtensor *up, *act = NULL;

    (void)err;
    EXPECT(e->c, input_count == 1 && output_count == 1, "counts");
    up = CALL(e, "aten.linear.default", x, T(exg_module_find(m, "up.weight")),
              T(exg_module_find(m, "up.bias")));
    if (up != NULL) {
        act = CALL(e, "aten.relu.default", T(up));
    }
    if (act != NULL) {
        outputs[0].dtensor = CALL(e, "aten.linear.default", T(act),
                                  T(exg_module_find(m, "down.weight")),
                                  T(exg_module_find(m, "down.bias")));
    }
    exg_dtensor_destroy(up);
    exg_dtensor_destroy(act);
    return outputs[0].dtensor == NULL ? EXG_USAGE : EXG_OK;
}

static exg_tensor plain_tensor(const exg_named_tensor *from)
{
    exg_tensor t = {.data = (void *)(uintptr_t)from->data, .dtype = from->dtype,
                    .rank = from->rank};

    memcpy(t.sizes, from->shape, from->rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&t);
    return t;
}

static void run_mlp(rank_context *c)
{
    const exg_dispatch_options options = {.size = sizeof(options), .implicit_replication = true};
    mlp p = *(const mlp *)c->user;
    exg_module_functions functions = {sizeof(functions), split_matrices, cut_batch, make_whole,
                                      &p};
    exg_tensor x = plain_tensor(exg_tensor_file_find(p.inputs, "x"));
    exg_tensor want = plain_tensor(exg_tensor_file_find(p.expected, "0"));
    exg_module_value in = {"x", &x, NULL}, out = {"0", NULL, NULL};
    exg_dtensor *full = NULL;
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, &options);
    p.e = &e;
    EXPECT(c, exg_module_create(p.program, &m, &err) == EXG_OK, "%s", err.message);
    EXPECT(c, exg_module_forward(m, "", forward, &e, &in, 1, &out, 1, &err) == EXG_USAGE &&
                  strcmp(err.code, "DTN-017") == 0, "not yet distributed");
    EXPECT(c, exg_distribute_module(m, "", c->mesh, &functions, &err) == EXG_OK &&
                  exg_module_forward(m, "", forward, &e, &in, 1, &out, 1, &err) == EXG_OK, "%s",
           err.message);
    EXPECT(c, p.plain == (in.tensor == &x) && p.plain == (out.tensor == NULL),
           "what the functions leave");
    if (c->faults == 0 && out.tensor == NULL) {
        EXPECT(c, exg_dtensor_full_tensor(out.dtensor, &full, &err) == EXG_OK, "%s", err.message);
        out.tensor = full == NULL ? NULL : on_host(full);
    }
    for (int64_t i = 0; c->faults == 0 && i < exg_tensor_numel(&want); i++) {
        float got = ((const float *)out.tensor->data)[i], is = ((const float *)want.data)[i];

        EXPECT(c, fabsf(got - is) <= 1e-5f + 1e-4f * fabsf(is), "element %d is %g, not %g", (int)i,
               (double)got, (double)is);
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(in.dtensor);
    exg_dtensor_destroy(out.dtensor);
    exg_module_destroy(m);
    eager_end(&e);
}

/* S003-106, S003-113 to 116 */
static void a_distributed_mlp_answers_as_pytorch(void **state)
{
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_tensor_file *inputs, *expected;
    mlp p = {.program = program};

    (void)state;
    (void)all_operators();
    assert_int_equal(exg_tensor_file_open("fixtures/mlp.inputs.safetensors", &inputs, NULL),
                     EXG_OK);
    assert_int_equal(exg_tensor_file_open("fixtures/mlp.expected.safetensors", &expected, NULL),
                     EXG_OK);
    p.inputs = inputs;
    p.expected = expected;
    on_mesh("2x2", run_mlp, &p);
    on_mesh("1x3", run_mlp, &p);
    p.plain = true;
    on_mesh("2x2", run_mlp, &p);
    exg_tensor_file_close(inputs);
    exg_tensor_file_close(expected);
    exg_program_destroy(program);
    free_operators();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_asked_parents_first),
        cmocka_unit_test(what_is_distributed_stays),
        cmocka_unit_test(inputs_have_names),
        cmocka_unit_test(modules_go_only_so_deep),
        cmocka_unit_test(tied_tensors_stay_one),
        cmocka_unit_test(a_distributed_mlp_answers_as_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
