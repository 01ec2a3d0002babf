/* module.c - programs distributed module by module, and run so. */
#include "tests/exec/dispatch/eager.h"

#include <exg/distribute.h>
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
    exg_tensor_meta matrix = {.dtype = EXG_DTYPE_F32,
                              .layout = EXG_LAYOUT_STRIDED,
                              .rank = 2,
                              .sizes = sizes,
                              .strides = strides,
                              .device = {.type = "cpu", .index = -1}};
    exg_tensor_meta number = {.dtype = EXG_DTYPE_I64,
                              .layout = EXG_LAYOUT_STRIDED,
                              .device = {.type = "cpu", .index = -1}};
    exg_tensor_meta bits = {.dtype = EXG_DTYPE_B8,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 1,
                            .sizes = &two,
                            .strides = &one,
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

        assert_int_equal(exg_weights_add_storage(program->weights, &storage, &index, NULL), EXG_OK);
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

/* A module of a program that no test of this part runs: it need not be sound. */
static exg_status create_module(const exg_program *program, exg_module **m, exg_error *err)
{
    const exg_verified believed = {program, all_operators()};

    return exg_module_create(&believed, m, err);
}

typedef struct asked {
    eager *e;
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
        EXPECT(a->c,
               exg_module_assign(m, "nothing", &rows, 1, err) == EXG_USAGE &&
                   strcmp(err->code, "DTN-017") == 0,
               "no such tensor");
        EXPECT(a->c,
               exg_module_assign(m, "a.weight", &rows, 1, err) == EXG_OK &&
                   exg_module_assign(m, "a.weight", &rows, 1, err) == EXG_OK,
               "the same");
        EXPECT(a->c,
               exg_module_assign(m, "a.weight", &columns, 1, err) == EXG_USAGE &&
                   strcmp(err->code, "DTN-017") == 0,
               "another");
    }
    EXPECT(a->c, exg_distribute_module(a->e->d, m, "b", mesh, NULL, err) == EXG_USAGE,
           "one in another");
    return EXG_OK;
}

static void distribute_small(rank_context *c)
{
    const int64_t rows = exg_device_mesh_rank(c->mesh) == 0 ? 3 : 2;
    const exg_dispatch_options no_mesh = {.size = sizeof(no_mesh)};
    eager e;
    asked a = {.c = c, .e = &e};
    exg_module_functions functions = {.size = sizeof(functions), .partition = note, .user = &a};
    exg_placement whole = exg_replicate();
    exg_module *m = NULL;
    exg_dtensor *t, *moved;
    exg_error err;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_dispatcher_configure(e.d, &no_mesh, &err) == EXG_OK &&
               create_module(c->user, &m, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           exg_distribute_module(e.d, m, "", NULL, &functions, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-018") == 0,
           "no mesh");
    t = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    EXPECT(c,
           exg_distribute(e.d, t, NULL, &whole, 1, EXG_NO_RANK, &moved, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-018") == 0,
           "no mesh: %s", err.message);
    exg_dtensor_destroy(t);
    EXPECT(c, exg_distribute_module(e.d, m, "z", c->mesh, &functions, &err) == EXG_USAGE,
           "no module");
    functions.size = 0;
    EXPECT(c,
           exg_distribute_module(e.d, m, "", c->mesh, &functions, &err) == EXG_USAGE &&
               strcmp(err.code, "OPT-001") == 0,
           "functions without a size");
    functions.size = sizeof(functions);
    EXPECT(c,
           exg_dispatcher_push_mesh(e.d, c->mesh, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", NULL, &functions, &err) == EXG_OK,
           "%s", err.message); /* over the current mesh */
    EXPECT(c, strcmp(a.order, "[][a][b][b.0][b.1]") == 0, "in the order %s", a.order);
    EXPECT(c, exg_module_tensor_count(m) == 4, "%u tensors", exg_module_tensor_count(m));
    for (uint32_t i = 0; c->faults == 0 && i < 4; i++) {
        const char *fqn = exg_module_tensor_at(m, i, &t);

        EXPECT(c,
               t != NULL && exg_placement_equal(exg_dtensor_placements(t)[0],
                                                i == 0 ? exg_shard(0) : exg_replicate()),
               "%s lies otherwise", fqn);
        EXPECT(c, t == exg_module_find(m, fqn), "found by name");
        EXPECT(c, exg_dtensor_requires_grad(t) == (i == 0), "%s: requires_grad", fqn);
    }
    if (c->faults == 0) {
        t = exg_module_find(m, "a.weight");
        EXPECT(c,
               exg_dtensor_to_local(t)->sizes[0] == rows &&
                   ((const float *)on_host(t)->data)[0] == (rows == 3 ? 0 : 9),
               "the rows of a.weight");
        t = exg_module_find(m, "b.1.count");
        EXPECT(c, exg_dtensor_rank_count(t) == 0 && *(const int64_t *)on_host(t)->data == 7,
               "the counter");
    }
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == 0, "messages");
    EXPECT(c,
           exg_distribute_module(e.d, m, "", c->mesh, &functions, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-017") == 0,
           "twice");
    EXPECT(c, exg_module_assign(m, "a.weight", &whole, 1, &err) == EXG_USAGE, "outside");
    exg_module_destroy(m);
    eager_end(&e);
}

/* S003-102, S003-107, S003-108, S003-109, S003-111, S003-112, S003-117, S003-147 */
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
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           create_module(c->user, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "b", c->mesh, NULL, &err) == EXG_OK,
           "%s", err.message);
    before = exg_module_find(m, "b.0.weight");
    EXPECT(c,
           before != NULL && exg_module_find(m, "b.1.mask") != NULL &&
               exg_module_find(m, "a.weight") == NULL,
           "b and what is in it");
    EXPECT(c,
           exg_distribute_module(e.d, m, "", c->mesh, NULL, &err) == EXG_OK &&
               exg_module_find(m, "a.weight") != NULL && exg_module_find(m, "b.0.weight") == before,
           "the rest");
    exg_module_destroy(m);
    eager_end(&e);
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
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &pair, &two, &err) == EXG_OK &&
               create_module(c->user, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", two, NULL, &err) == EXG_OK,
           "%s", err.message);
    t = exg_module_find(m, "a.weight");
    EXPECT(c,
           t != NULL && exg_dtensor_sizes(t)[0] == 5 && exg_dtensor_requires_grad(t) &&
               exg_tensor_numel(exg_dtensor_to_local(t)) == (inside ? 15 : 0),
           "a.weight");
    exg_module_destroy(m);
    exg_device_mesh_destroy(two);
    eager_end(&e);
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
    assert_int_equal(create_module(program, &m, &err), EXG_LIMIT);
    assert_string_equal(err.code, "DTN-017");
    assert_null(m);
    deep[2 * 64 - 1] = '\0';
    assert_int_equal(create_module(program, &m, &err), EXG_OK);
    exg_module_destroy(m);
    program->module_calls[2].fqn = "b.0";
    exg_program_destroy(program);
}

/* What no DTensor can be: blocks of quantized numbers, more dims than there are. */
static void distribute_others(rank_context *c)
{
    exg_program *program = small_program();
    exg_weight *weight = &program->weights->items[1];
    exg_sym_int ones[EXG_RANK_MAX + 1], *sizes = weight->meta->sizes;
    exg_sym_int *strides = weight->meta->strides;
    exg_module *m = NULL;
    exg_error err;
    eager e;

    for (int d = 0; d <= EXG_RANK_MAX; d++) {
        ones[d] = (exg_sym_int){NULL, 1, false};
    }
    eager_begin(&e, c, NULL);
    for (int k = 0; k < 3; k++) {
        weight->meta->sizes = k == 1 ? ones : sizes;
        weight->encoding = k == 0 ? "Q4_K" : NULL;
        weight->meta->rank = k == 1 ? EXG_RANK_MAX + 1 : 2;
        weight->meta->strides = k == 1 ? ones : strides;
        EXPECT(c, create_module(program, &m, &err) == EXG_OK, "%s", err.message);
        EXPECT(c,
               exg_distribute_module(e.d, m, "", c->mesh, NULL, &err) ==
                   (k < 2 ? EXG_UNSUPPORTED : EXG_OK),
               "%d: %s", k, err.message);
        EXPECT(c,
               k == 2 || (strcmp(err.code, "DTN-017") == 0 &&
                          strstr(err.message, "'b.0.weight'") != NULL),
               "%s", err.message);
        exg_module_destroy(m);
    }
    eager_end(&e);
    exg_program_destroy(program);
}

static void tensors_of_other_kinds_are_refused(void **state)
{
    (void)state;
    on_mesh("1", distribute_others, NULL);
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
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           create_module(c->user, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", c->mesh, &functions, &err) == EXG_OK,
           "%s", err.message);
    t = exg_module_find(m, "encode.weight");
    EXPECT(c, t != NULL && t == exg_module_find(m, "decode.weight"), "one is two");
    EXPECT(c,
           t != NULL && exg_dtensor_placements(t)[0].kind == EXG_SHARD &&
               exg_dtensor_requires_grad(t),
           "lies as one of its names was told");
    exg_module_destroy(m);
    eager_end(&e);
}

/* S003-110 */
static void tied_tensors_stay_one(void **state)
{
    exg_program *program = open_program("fixtures/tied.pt2");

    (void)state;
    on_mesh("2", distribute_tied, program);
    exg_program_destroy(program);
}

/* A weight of the same storage is the same tensor where its sizes are the same, all of them. */
static void distribute_views(rank_context *c)
{
    exg_program *program = small_program();
    exg_module *m = NULL;
    exg_error err;
    eager e;

    for (uint32_t d = 0; d < 3; d++) {
        exg_sym_int sizes[] = {{NULL, d == 0 ? 2 : 5, false}, {NULL, d == 1 ? 2 : 3, false}};
        const exg_weight *whole = exg_weights_find(program->weights, EXG_TABLE_STATE, "b.0.weight");
        exg_tensor_meta meta = *whole->meta;
        exg_weight view = *whole;
        char name[] = "b.0.0";

        name[4] = (char)('0' + d);
        meta.sizes = sizes;
        view.fqn = name;
        view.meta = &meta;
        EXPECT(c, exg_weights_add(program->weights, &view, &err) == EXG_OK, "%s", err.message);
    }
    eager_begin(&e, c, NULL);
    EXPECT(c,
           create_module(program, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", c->mesh, NULL, &err) == EXG_OK,
           "%s", err.message);
    for (uint32_t d = 0; d < 3 && c->faults == 0; d++) {
        char name[] = "b.0.0";

        name[4] = (char)('0' + d);
        EXPECT(c, (exg_module_find(m, name) == exg_module_find(m, "b.0.weight")) == (d == 2), "%s",
               name);
    }
    exg_module_destroy(m);
    eager_end(&e);
    exg_program_destroy(program);
}

static void views_of_one_storage_are_several(void **state)
{
    (void)state;
    on_mesh("1", distribute_views, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_asked_parents_first),
        cmocka_unit_test(what_is_distributed_stays),
        cmocka_unit_test(modules_go_only_so_deep),
        cmocka_unit_test(tensors_of_other_kinds_are_refused),
        cmocka_unit_test(tied_tensors_stay_one),
        cmocka_unit_test(views_of_one_storage_are_several),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);

    free_operators();
    return failed;
}
