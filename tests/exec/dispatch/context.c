/* context.c - what a call goes by beside its arguments, and tensors without data: rows of
 * tests/seeds-003.md and tests/seeds-001.md.
 */
#include "libexport/base/arena.h"
#include "tests/exec/dispatch/eager.h"

#include <dirent.h>
#include <exg/autograd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- windows ---- */

/* A window may lie anywhere in the memory of what it is of, and nowhere else. */
static void look_outside(rank_context *c)
{
    static int64_t sizes[2] = {2, 3}, strides[2] = {3, 1}, far[2] = {1LL << 40, 1};
    exg_dispatch_options options = {
        .size = sizeof(options), .mesh = c->mesh, .fallback = EXG_FALLBACK_REPLICATE};
    eager e;
    exg_dtensor *x, *row, *y;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4x3", "R");
    row = CALL(&e, "aten.select.int", T(x), of_int(0), of_int(2));
    y = CALL(&e, "aten.as_strided.default", T(row), of_ints(sizes, 2), of_ints(strides, 2));
    expect_values(&e, y, "", (double[]){6, 7, 8, 9, 10, 11}, 6, "the rest of the memory");
    exg_dtensor_destroy(y);
    for (int i = 0; i < 3; i++) {
        exg_object args[] = {T(i == 0 ? row : x), of_ints(sizes, 2),
                             of_ints(i == 1 ? far : strides, 2),
                             of_int(i == 0   ? 1000
                                    : i == 1 ? 0
                                             : INT64_MAX / 2)};

        EXPECT(c, refusal(&e, "aten.as_strided.default", args, 4) != EXG_OK, "window %d", i);
    }
    exg_dtensor_destroy(row);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void windows_lie_in_their_memory(void **state)
{
    (void)state;
    on_mesh("1", look_outside, NULL);
}

/* ---- tensors without data -------------------------------------------------------------------- */

static void distribute_nothing(rank_context *c)
{
    bool first = exg_device_mesh_rank(c->mesh) == 0;
    exg_tensor meta = {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {5, 3}, .strides = {3, 1}};
    exg_tensor part = {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {2, 3}, .strides = {3, 1}};
    exg_from_local_options bare = {.size = sizeof(bare), .meta = true};
    exg_placement rows = exg_shard(0), columns = exg_shard(1);
    exg_dtensor *t = NULL, *moved = NULL, *local = NULL;
    exg_write_item item;
    exg_scalar number;
    char *text = NULL;
    uint64_t before;
    uint32_t count;
    eager e;

    eager_begin(&e, c, NULL);
    before = exg_device_mesh_exchanges(c->mesh);
    EXPECT(c, exg_distribute_tensor(c->mesh, &meta, &rows, 1, 0, &t, &e.err) == EXG_OK, "%s",
           e.err.message);
    if (t == NULL) {
        return;
    }
    EXPECT(c,
           exg_dtensor_is_meta(t) && exg_dtensor_to_local(t)->data == NULL &&
               exg_dtensor_to_local(t)->sizes[0] == (first ? 3 : 2) &&
               exg_dtensor_to_local(t)->sizes[1] == 3 && exg_dtensor_sizes(t)[0] == 5,
           "rows");
    EXPECT(c,
           exg_dtensor_redistribute(t, &columns, 1, &moved, &e.err) == EXG_OK &&
               exg_dtensor_is_meta(moved) &&
               exg_dtensor_to_local(moved)->sizes[1] == (first ? 2 : 1),
           "columns");
    EXPECT(c,
           exg_dtensor_print(t, &text, &e.err) == EXG_OK &&
               strncmp(text, "DTensor(local_tensor=meta,", 26) == 0,
           "%s", text);
    EXPECT(c,
           exg_dtensor_write_items(t, "x", &item, 1, &count, &e.err) == EXG_OK && count == 1 &&
               exg_dtensor_shard_at(t, item.offsets, &part, &e.err) == EXG_OK && part.data == NULL,
           "chunks of nothing");
    EXPECT(c, exg_to_local(e.d, t, NULL, &local, &e.err) == EXG_OK && exg_dtensor_is_meta(local),
           "its local tensor");
    EXPECT(c,
           refusal(&e, "aten.neg.default", (exg_object[]){T(t)}, 1) == EXG_USAGE &&
               strcmp(e.err.code, "DSP-010") == 0,
           "%s", e.err.message);
    EXPECT(c, exg_dtensor_item(t, &number, &e.err) == EXG_USAGE, "no number");
    exg_dtensor_destroy(local);
    exg_dtensor_destroy(moved);
    exg_dtensor_destroy(t);
    free(text);
    part = (exg_tensor){.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {2, 3}, .strides = {3, 1}};
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &part, &rows, 1, &bare, &t, &e.err) == EXG_OK &&
               exg_dtensor_is_meta(t) && exg_dtensor_sizes(t)[0] == 4,
           "%s", e.err.message);
    exg_dtensor_destroy(t);
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before, "nothing is sent of nothing");
    EXPECT(c,
           exg_dtensor_from_local(c->mesh, &part, &rows, 1, NULL, &t, &e.err) == EXG_USAGE &&
               strcmp(e.err.code, "DTN-003") == 0,
           "data that is missing");
    eager_end(&e);
}

/* S003-14, S003-88 */
static void meta_tensors_stay_meta(void **state)
{
    (void)state;
    on_mesh("2", distribute_nothing, NULL);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void print_and_coerce(rank_context *c)
{
    exg_dtensor *x, *y, *as_y = NULL;
    char *text = NULL;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "3", "S(0)");
    y = counted(&e, EXG_DTYPE_F32, "3", "R");
    EXPECT(c,
           exg_dtensor_print_whole(x, &text, &e.err) == EXG_OK &&
               strcmp(text, "DTensor(full_tensor=[0.0, 1.0, 2.0], device_mesh=DeviceMesh(a=2), "
                            "placements=(S(0)))") == 0,
           "%s", text);
    free(text);
    EXPECT(c, exg_dtensor_coerce_like(x, y, &as_y, &e.err) == EXG_OK, "%s", e.err.message);
    expect_values(&e, as_y, "R", (const double[]){0, 1, 2}, 3, "coerced");
    exg_dtensor_destroy(as_y);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-44, S003-48 */
static void the_whole_is_printed_and_tangents_coerced(void **state)
{
    (void)state;
    on_mesh("2", print_and_coerce, NULL);
}

static void wrap_badly(rank_context *c)
{
    float data[7];
    exg_tensor part = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {7}, .strides = {1}};
    exg_dtensor_spec spec = {.mesh = c->mesh,
                             .dtype = EXG_DTYPE_F32,
                             .rank = 1,
                             .sizes = {4},
                             .strides = {1},
                             .placements = {exg_replicate()}};
    exg_object local = exg_object_tensor(&part), given = exg_object_spec(&spec);
    exg_object result = exg_object_none();
    exg_error err;

    EXPECT(c,
           exg_wrap(&local, &given, &result, &err) == EXG_MALFORMED &&
               strcmp(err.code, "DSP-009") == 0 && strstr(err.message, "sizes") != NULL,
           "%s", err.message);
    part.sizes[0] = 4;
    EXPECT(c, exg_wrap(&local, &given, &result, &err) == EXG_OK, "%s", err.message);
    exg_object_clear(&result, true);
    spec.mesh = NULL;
    EXPECT(c,
           exg_wrap(&local, &given, &result, &err) == EXG_MALFORMED &&
               strstr(err.message, "mesh") != NULL,
           "%s", err.message);
}

/* S003-42, S003-43 */
static void parts_that_do_not_fit_their_spec_are_refused(void **state)
{
    (void)state;
    on_mesh("2", wrap_badly, NULL);
}

/* ---- factories ------------------------------------------------------------------------------- */

static exg_dtype dtype_of(eager *e, const char *key, exg_object *args, uint32_t count)
{
    exg_dtensor *t = call1(e, key, args, count);
    exg_dtype dtype = t == NULL ? EXG_DTYPE_COUNT : exg_dtensor_dtype(t);

    exg_dtensor_destroy(t);
    return dtype;
}

static void make_without_dtype(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .default_dtype = EXG_DTYPE_F64};
    int64_t sizes[2] = {5, 2};
    exg_object size = of_ints(sizes, 2);
    exg_argument complex_number = {.kind = EXG_ARGUMENT_COMPLEX};
    exg_named_object f32 = {"dtype", exg_object_value(exg_arg_dtype(EXG_DTYPE_F32))};
    exg_object result = exg_object_none();
    exg_dtensor *t;
    eager e;

    for (int wide = 0; wide < 2; wide++) {
        exg_dtype real = wide ? EXG_DTYPE_F64 : EXG_DTYPE_F32;

        eager_begin(&e, c, wide ? &options : NULL);
        EXPECT(c,
               dtype_of(&e, "aten.zeros.default", &size, 1) == real &&
                   dtype_of(&e, "aten.ones.default", &size, 1) == real &&
                   dtype_of(&e, "aten.empty.memory_format", &size, 1) == real &&
                   dtype_of(&e, "aten.rand.default", &size, 1) == real &&
                   dtype_of(&e, "aten.randn.default", &size, 1) == real,
               "default %d", wide);
        EXPECT(c, dtype_of(&e, "aten.full.default", (exg_object[]){size, of_float(7)}, 2) == real,
               "a float");
        EXPECT(c,
               dtype_of(&e, "aten.full.default", (exg_object[]){size, of_int(7)}, 2) ==
                   EXG_DTYPE_I64,
               "an int");
        EXPECT(c,
               dtype_of(&e, "aten.full.default", (exg_object[]){size, of_bool(true)}, 2) ==
                   EXG_DTYPE_B8,
               "a bool");
        EXPECT(c,
               dtype_of(&e, "aten.full.default",
                        (exg_object[]){size, exg_object_value(complex_number)},
                        2) == (wide ? EXG_DTYPE_C128 : EXG_DTYPE_C64),
               "a complex number");
        EXPECT(c,
               exg_dispatch(e.d, "aten.zeros.default", &size, 1, &f32, 1, &result, &e.err) ==
                       EXG_OK &&
                   exg_dtensor_dtype(result.dtensor) == EXG_DTYPE_F32,
               "given");
        exg_object_clear(&result, true);
        t = CALL(&e, "aten.full.default", size, of_int(7));
        expect_values(&e, t, "R", (const double[]){7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, 10, "sevens");
        exg_dtensor_destroy(t);
        eager_end(&e);
    }
}

/* S003-120, S003-132 */
static void dtypes_follow_the_value_or_the_default(void **state)
{
    (void)state;
    on_mesh("2", make_without_dtype, NULL);
}

static void make_sparse(rank_context *c)
{
    exg_named_object sparse = {
        "layout", exg_object_value((exg_argument){.kind = EXG_ARGUMENT_LAYOUT,
                                                  .as_layout = EXG_LAYOUT_SPARSE_COO})};
    int64_t size = 4;
    exg_object sizes = of_ints(&size, 1), result = exg_object_none();
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 1,
                             .sizes = &size,
                             .layout = EXG_LAYOUT_SPARSE_COO};
    exg_dtensor *t = NULL;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_dispatch(e.d, "aten.zeros.default", &sizes, 1, &sparse, 1, &result, &e.err) ==
                   EXG_UNSUPPORTED &&
               strcmp(e.err.code, "DTN-020") == 0,
           "%s", e.err.message);
    EXPECT(c,
           exg_dtensor_ones(c->mesh, &like, &t, &e.err) == EXG_UNSUPPORTED &&
               strcmp(e.err.code, "DTN-020") == 0,
           "%s", e.err.message);
    like.layout = EXG_LAYOUT_STRIDED;
    EXPECT(c, exg_dtensor_ones(c->mesh, &like, &t, &e.err) == EXG_OK, "%s", e.err.message);
    exg_dtensor_destroy(t);
    eager_end(&e);
}

/* S003-121 */
static void layouts_are_strided(void **state)
{
    (void)state;
    on_mesh("2", make_sparse, NULL);
}

static void draw_apart(rank_context *c)
{
    uint32_t rank = exg_device_mesh_rank(c->mesh);
    int64_t sizes[2] = {4, 3}, other[2] = {4 + rank, 3};
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = sizes, .run_check = true};
    exg_rng apart = {.seed = 5 + rank}, late = {.seed = 5, .offset = 4 * rank}, same = {.seed = 5};
    exg_dtensor *t = NULL;
    exg_error err;

    EXPECT(c,
           exg_dtensor_rand(c->mesh, &like, &apart, &t, &err) == EXG_USAGE && t == NULL &&
               strcmp(err.code, "DTN-013") == 0,
           "other seeds");
    EXPECT(c, exg_dtensor_randn(c->mesh, &like, &late, &t, &err) == EXG_USAGE && t == NULL,
           "other offsets");
    EXPECT(c, exg_dtensor_rand(c->mesh, &like, &same, &t, &err) == EXG_OK && same.offset == 12,
           "%s", err.message);
    exg_dtensor_destroy(t);
    like.sizes = other;
    EXPECT(c, exg_dtensor_zeros(c->mesh, &like, &t, &err) == EXG_USAGE, "other sizes");
    like.run_check = false;
    EXPECT(c, exg_dtensor_rand(c->mesh, &like, &apart, &t, &err) == EXG_OK, "unchecked");
    exg_dtensor_destroy(t);
}

/* S003-139 */
static void random_states_are_compared(void **state)
{
    (void)state;
    on_mesh("3", draw_apart, NULL);
}

static void draw_like(rank_context *c)
{
    float data[12] = {0};
    exg_tensor row_major = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {4, 3}, .strides = {3, 1}};
    exg_tensor column_major = row_major;
    exg_placement rows = exg_shard(0);
    exg_dtensor *x = NULL, *y = NULL, *drawn[2], *full[2] = {NULL, NULL};

    column_major.strides[0] = 1;
    column_major.strides[1] = 4;
    for (int k = 0; k < 2; k++) { /* each with a dispatcher of the same seed */
        eager e;

        eager_begin(&e, c, NULL);
        EXPECT(c,
               exg_distribute_tensor(c->mesh, k == 0 ? &row_major : &column_major, &rows, 1, 0,
                                     k == 0 ? &x : &y, &e.err) == EXG_OK,
               "%s", e.err.message);
        drawn[k] = CALL(&e, "aten.rand_like.default", T(k == 0 ? x : y));
        EXPECT(c, drawn[k] != NULL && exg_dtensor_full_tensor(drawn[k], &full[k], &e.err) == EXG_OK,
               "drawn");
        eager_end(&e);
    }
    for (int i = 0; c->faults == 0 && i < 4; i++) {
        for (int k = 0; k < 3; k++) {
            const exg_tensor *a = on_host(full[0]), *b = on_host(full[1]);

            EXPECT(c,
                   ((const float *)a->data)[i * a->strides[0] + k * a->strides[1]] ==
                       ((const float *)b->data)[i * b->strides[0] + k * b->strides[1]],
                   "element %d, %d", i, k);
        }
    }
    EXPECT(c,
           c->faults > 0 || ((const float *)on_host(full[0])->data)[0] !=
                                ((const float *)on_host(full[0])->data)[1],
           "not random");
    for (int k = 0; k < 2; k++) {
        exg_dtensor_destroy(drawn[k]);
        exg_dtensor_destroy(full[k]);
    }
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
}

/* S003-140 */
static void strides_do_not_change_what_is_drawn(void **state)
{
    (void)state;
    on_mesh("2", draw_like, NULL);
}

/* ---- devices and side effects ---------------------------------------------------------------- */

/* A mesh says which backend it is of. S003-84, S003-107, S003-148 */
static void other_backends_are_named(void **state)
{
    exg_mesh_shape shape = {.ndim = 1, .sizes = {2}, .device_type = "xla"};
    exg_device_mesh *meshes[2];
    exg_error err;

    (void)state;
    assert_int_equal(exg_local_mesh_create(&shape, meshes, &err), EXG_USAGE);
    assert_string_equal(err.code, "DEV-001");
    assert_non_null(strstr(err.message, "'xla'"));
    assert_non_null(strstr(err.fix, "cuda"));
    shape.device_type = "cpu";
    assert_int_equal(exg_local_mesh_create(&shape, meshes, &err), EXG_OK);
    exg_device_mesh_destroy(meshes[0]);
    exg_device_mesh_destroy(meshes[1]);
}

/* How many files this process has open; -1: nothing tells. */
static int open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    if (directory == NULL) {
        return -1;
    }
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static void do_nothing_else(rank_context *c)
{
    float data[4] = {0, 1, 2, 3};
    int64_t sizes[1] = {6};
    exg_object size = of_ints(sizes, 1);
    exg_tensor whole = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {4}, .strides = {1}};
    exg_placement rows = exg_shard(0);
    exg_dtensor *t = NULL, *drawn[2];
    uint64_t before;

    for (int k = 0; k < 2; k++) { /* the second with tensors distributed before */
        eager e;

        eager_begin(&e, c, NULL);
        before = exg_device_mesh_exchanges(c->mesh);
        for (int i = 0; i < 3 * k; i++) {
            EXPECT(c,
                   exg_distribute_tensor(c->mesh, &whole, &rows, 1, EXG_NO_RANK, &t, &e.err) ==
                       EXG_OK,
                   "%s", e.err.message);
            exg_dtensor_destroy(t);
        }
        EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before, "something is told to others");
        drawn[k] = CALL(&e, "aten.rand.default", size);
        eager_end(&e);
    }
    EXPECT(c,
           c->faults > 0 ||
               memcmp(on_host(drawn[0])->data, on_host(drawn[1])->data, 6 * sizeof(float)) == 0,
           "the random state was moved");
    exg_dtensor_destroy(drawn[0]);
    exg_dtensor_destroy(drawn[1]);
}

/* S003-85, S003-86: no file, no message, no random number but what was asked for. */
static void nothing_is_done_beside(void **state)
{
    int before = open_files();

    (void)state;
    on_mesh("2", do_nothing_else, NULL);
    assert_int_equal(open_files(), before);
}

/* ---- schemas --------------------------------------------------------------------------------- */

static exg_status note_schema(void *user, exg_op_schema *schema, exg_arena *arena,
                              exg_output_sharding *out, exg_error *err)
{
    const exg_function_schema **seen = user;

    (void)arena;
    if (*seen != NULL && *seen != schema->func_schema) {
        return exg_error_set(err, __FILE__, __LINE__, EXG_LIMIT, "TST-001", "parsed anew");
    }
    *seen = schema->func_schema;
    out->result = exg_object_spec(exg_op_schema_args_spec(schema, 0));
    return EXG_OK;
}

static void call_often(rank_context *c)
{
    const exg_function_schema *seen = NULL;
    exg_op_registration row = {.rule = note_schema, .user = (void *)&seen};
    exg_dispatch_options few = {.size = sizeof(few), .cache_capacity = 1};
    exg_dtensor *x, *y;
    eager e;

    eager_begin(&e, c, &few);
    EXPECT(c, exg_dispatcher_register(e.d, "aten.neg.default", &row, &e.err) == EXG_OK, "%s",
           e.err.message);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    for (int i = 0; i < 1000 && c->faults == 0; i++) {
        exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x)));
        y = CALL(&e, "aten.exp.default", T(x)); /* makes the cache forget */
        exg_dtensor_destroy(y);
    }
    EXPECT(c, seen == exg_operators_find(all_operators(), "torch.ops.aten.neg.default")->schema,
           "the table's own");
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-18 */
static void schemas_are_parsed_once(void **state)
{
    (void)state;
    on_mesh("2", call_often, NULL);
}

/* squeeze of what has several dims of size 1 on a rank: only those that all of it has. */
static exg_status squeeze_globally(void *user, exg_op_schema *schema, exg_arena *arena,
                                   exg_output_sharding *out, exg_error *err)
{
    const exg_dtensor_spec *spec = exg_op_schema_args_spec(schema, 0);
    exg_dtensor_spec *made = exg_arena_memdup(arena, spec, 1, sizeof(*spec));
    exg_object *args = exg_arena_alloc(arena, 2, sizeof(*args));
    int64_t *dims = exg_arena_alloc(arena, 1, sizeof(*dims));

    (void)err;
    dims[0] = 1;
    args[0] = schema->args[0];
    args[1] = of_ints(dims, 1);
    schema->func_schema = user;
    schema->args = args;
    schema->arg_count = 2;
    made->rank = 2;
    made->sizes[1] = spec->sizes[2];
    made->strides[1] = spec->strides[2];
    out->result = exg_object_spec(made);
    return EXG_OK;
}

static void rewrite(rank_context *c)
{
    const exg_function_schema *dims =
        exg_operators_find(all_operators(), "torch.ops.aten.squeeze.dims")->schema;
    exg_op_registration row = {.rule = squeeze_globally,
                               .user = (void *)(uintptr_t)(const void *)dims};
    int64_t both[2] = {0, 1};
    exg_dtensor *x, *y;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_dispatcher_register(e.d, "aten.squeeze.default", &row, &e.err) == EXG_OK &&
               exg_dispatcher_register(e.d, "aten.squeeze.dims", &row, &e.err) == EXG_OK,
           "%s", e.err.message);
    x = counted(&e, EXG_DTYPE_F32, "2x1x3", "S(0)"); /* (1, 1, 3) on each rank */
    y = CALL(&e, "aten.squeeze.default", T(x));
    expect_values(&e, y, "S(0)", (const double[]){0, 1, 2, 3, 4, 5}, 6, "another operator");
    EXPECT(c, y != NULL && exg_dtensor_to_local(y)->rank == 2, "(1, 3) is left");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.squeeze.dims", T(x), of_ints(both, 2));
    EXPECT(c, y != NULL && exg_dtensor_to_local(y)->rank == 2, "of a shorter list");
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-13 */
static void rules_may_rewrite_the_operator(void **state)
{
    (void)state;
    on_mesh("2", rewrite, NULL);
}

/* Objects that lead nowhere, beside a sound one. */
static void lead_nowhere(rank_context *c)
{
    exg_argument no_items = {.kind = EXG_ARGUMENT_INTS, .count = 3};
    exg_argument of_graph = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 5};
    exg_argument no_kind = {.kind = (exg_argument_kind)99};
    exg_argument no_text = {.kind = EXG_ARGUMENT_STRING};
    exg_tensor no_dtype = {.dtype = (exg_dtype)99};
    exg_object own = {.kind = EXG_OBJECT_LIST, .count = 1, .items = &own};
    const struct {
        exg_object object;
        const char *code;
    } rows[] = {
        {exg_object_dtensor(NULL), "ARG-001"},
        {exg_object_tensor(NULL), "ARG-001"},
        {exg_object_spec(NULL), "ARG-001"},
        {exg_object_list(NULL, 3), "ARG-001"},
        {exg_object_value(no_items), "ARG-001"},
        {exg_object_value(no_text), "ARG-001"},
        {exg_object_value(of_graph), "DSP-001"},
        {exg_object_value(no_kind), "DSP-001"},
        {{.kind = (exg_object_kind)77}, "OPT-002"},
        {exg_object_tensor(&no_dtype), "DTN-009"},
        {own, "DSP-001"},
    };
    exg_named_object unnamed = {NULL, exg_object_none()};
    exg_object result;
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT(c,
               refusal(&e, "aten.add.Tensor", (exg_object[]){T(x), rows[i].object}, 2) ==
                       EXG_USAGE &&
                   strcmp(e.err.code, rows[i].code) == 0,
               "row %zu: %s %s", i, e.err.code, e.err.message);
        EXPECT(c,
               strcmp(rows[i].code, "OPT-002") != 0 ||
                   strstr(e.err.message, "exg_object.kind ") != NULL,
               "%s", e.err.message);
    }
    EXPECT(c,
           exg_dispatch(e.d, "aten.relu.default", (exg_object[]){T(x)}, 1, &unnamed, 1, &result,
                        &e.err) == EXG_USAGE &&
               strcmp(e.err.code, "ARG-001") == 0,
           "a name");
    exg_dtensor_destroy(CALL(&e, "aten.relu.default", T(x)));
    exg_dtensor_destroy(x);
    eager_end(&e);
}

static void objects_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    on_mesh("2", lead_nowhere, NULL);
}

/* Tensors that cannot be, and windows beside a part. */
static void cannot_be(rank_context *c)
{
    static const exg_tensor rows[] = {{.dtype = (exg_dtype)99, .rank = 1, .sizes = {2}},
                                      {.dtype = EXG_DTYPE_COUNT, .rank = 1, .sizes = {2}},
                                      {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {-2}},
                                      {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {INT64_MAX}}};
    exg_dtensor_like like = {.size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 1};
    exg_dtensor *t = NULL;
    float to[64];
    exg_tensor window;
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT(c,
               exg_distribute_tensor(c->mesh, &rows[i], NULL, 0, EXG_NO_RANK, &t, &e.err) ==
                       EXG_USAGE &&
                   strcmp(e.err.code, "DTN-009") == 0,
               "distribute %zu", i);
        EXPECT(c,
               exg_dtensor_from_local(c->mesh, &rows[i], NULL, 0, NULL, &t, &e.err) == EXG_USAGE &&
                   strcmp(e.err.code, "DTN-009") == 0,
               "from_local %zu", i);
        like.dtype = rows[i].dtype;
        like.sizes = rows[i].sizes;
        EXPECT(c, exg_dtensor_zeros(c->mesh, &like, &t, &e.err) == EXG_USAGE, "zeros %zu", i);
    }
    like.sizes = NULL;
    EXPECT(c, exg_dtensor_zeros(c->mesh, &like, &t, &e.err) == EXG_USAGE, "sizes of nothing");
    t = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    window = *exg_dtensor_to_local(t);
    EXPECT(c, exg_dtensor_copy_to_host(t, &window, to, &e.err) == EXG_OK, "all of it");
    window.data = (float *)window.data + 1;
    EXPECT(c, exg_dtensor_copy_to_host(t, &window, to, &e.err) == EXG_USAGE, "past its end");
    window.data = (float *)window.data + window.sizes[0] * 2 - 2;
    window.sizes[0] = window.sizes[1] = 1;
    EXPECT(c, exg_dtensor_copy_to_host(t, &window, to, &e.err) == EXG_OK, "the last element");
    window.data = (float *)window.data + 1;
    EXPECT(c, exg_dtensor_copy_to_host(t, &window, to, &e.err) == EXG_USAGE, "an element behind");
    window.sizes[0] = 0;
    EXPECT(c, exg_dtensor_copy_to_host(t, &window, to, &e.err) == EXG_OK, "none, wherever");
    window = *exg_dtensor_to_local(t);
    window.sizes[0] = 64;
    EXPECT(c,
           exg_dtensor_copy_from_host(t, &window, to, &e.err) == EXG_USAGE &&
               strcmp(e.err.code, "DTN-014") == 0,
           "larger than it");
    exg_dtensor_destroy(t);
    eager_end(&e);
}

static void tensors_and_windows_that_cannot_be_are_refused(void **state)
{
    (void)state;
    on_mesh("2", cannot_be, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_that_lead_nowhere_are_refused),
        cmocka_unit_test(tensors_and_windows_that_cannot_be_are_refused),
        cmocka_unit_test(windows_lie_in_their_memory),
        cmocka_unit_test(meta_tensors_stay_meta),
        cmocka_unit_test(the_whole_is_printed_and_tangents_coerced),
        cmocka_unit_test(parts_that_do_not_fit_their_spec_are_refused),
        cmocka_unit_test(dtypes_follow_the_value_or_the_default),
        cmocka_unit_test(layouts_are_strided),
        cmocka_unit_test(random_states_are_compared),
        cmocka_unit_test(strides_do_not_change_what_is_drawn),
        cmocka_unit_test(other_backends_are_named),
        cmocka_unit_test(nothing_is_done_beside),
        cmocka_unit_test(schemas_are_parsed_once),
        cmocka_unit_test(rules_may_rewrite_the_operator),
    };
    int status;

    (void)all_operators();
    status = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return status;
}
