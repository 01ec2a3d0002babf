/* schema.c - calls by spec, and what rules say of them: tests/seeds-000.md. */
#include "libexec/dispatch/propagate.h"
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct fixed {
    exg_device_mesh *meshes[4];
    exg_arena *arena;
} fixed;

static void begin(fixed *f, uint32_t n)
{
    exg_mesh_shape shape = {1, {n}, {"a"}};

    assert_int_equal(exg_local_mesh_create(&shape, f->meshes, NULL), EXG_OK);
    f->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
}

static void end(fixed *f, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        exg_device_mesh_destroy(f->meshes[r]);
    }
    exg_arena_destroy(f->arena);
}

/* A spec of a matrix on rank 0's mesh. */
static exg_dtensor_spec matrix(const fixed *f, const char *placements, int64_t rows,
                               int64_t columns)
{
    exg_dtensor_spec spec = {.mesh = f->meshes[0],
                             .dtype = EXG_DTYPE_F32,
                             .rank = 2,
                             .sizes = {rows, columns},
                             .strides = {columns, 1}};

    placements_of(placements, spec.placements);
    return spec;
}

static const exg_function_schema *schema_called(const char *target)
{
    const exg_operator *op = exg_operators_find(all_operators(), target);

    assert_non_null(op);
    return op->schema;
}

static exg_op_schema call_of(const char *target, exg_object *args, uint32_t arg_count,
                             exg_named_object *kwargs, uint32_t kwarg_count)
{
    exg_op_schema s;

    exg_op_schema_init(&s, schema_called(target), args, arg_count, kwargs, kwarg_count);
    return s;
}

#define ADD "torch.ops.aten.add.Tensor"

/* S000-01, S000-06, S000-07, S000-14: arguments keep their order, tensors are specs. */
static void arguments_keep_their_order(void **state)
{
    exg_dtensor_spec x, y;
    exg_named_object kwargs[1] = {{"alpha", {0}}};
    exg_object args[3];
    exg_op_schema s;
    fixed f;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 4, 4);
    y = matrix(&f, "R", 4, 4);
    args[0] = exg_object_spec(&x);
    args[1] = of_int(2);
    s = call_of(ADD, args, 2, NULL, 0);
    assert_int_equal(s.args[0].kind, EXG_OBJECT_SPEC);
    assert_int_equal(s.args[1].kind, EXG_OBJECT_VALUE);
    assert_int_equal(exg_op_schema_args_spec_count(&s), 1);
    assert_ptr_equal(exg_op_schema_args_spec(&s, 0), &x);
    assert_null(exg_op_schema_args_spec(&s, 1));
    args[1] = exg_object_spec(&y);
    kwargs[0].object = of_int(2);
    s = call_of(ADD, args, 2, kwargs, 1);
    assert_int_equal(exg_op_schema_args_spec_count(&s), 2);
    assert_ptr_equal(exg_op_schema_args_spec(&s, 1), &y);
    assert_int_equal(s.kwargs[0].object.value.as_int, 2);
    args[0] = exg_object_none(); /* edits are followed */
    assert_ptr_equal(exg_op_schema_args_spec(&s, 0), &y);
    end(&f, 2);
}

/* S000-15: what lies in lists and kwargs is in no args_spec. */
static void lists_are_walked_by_all_specs(void **state)
{
    exg_dtensor_spec x, y, z;
    const exg_dtensor_spec *specs[4];
    exg_object items[2], args[1];
    exg_named_object kwargs[2];
    exg_op_schema s;
    fixed f;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 4, 4);
    y = matrix(&f, "R", 4, 4);
    z = matrix(&f, "R", 8, 4);
    items[0] = exg_object_spec(&x);
    items[1] = exg_object_spec(&y);
    args[0] = exg_object_list(items, 2);
    s = call_of("torch.ops.aten.cat.default", args, 1, NULL, 0);
    assert_int_equal(exg_op_schema_args_spec_count(&s), 0);
    assert_int_equal(exg_op_schema_all_specs(&s, specs, 4), 2);
    assert_ptr_equal(specs[0], &x);
    assert_ptr_equal(specs[1], &y);
    kwargs[0] = (exg_named_object){"out", exg_object_spec(&z)};
    s = call_of("torch.ops.aten.cat.out", args, 1, kwargs, 1);
    assert_int_equal(exg_op_schema_args_spec_count(&s), 0);
    assert_int_equal(exg_op_schema_all_specs(&s, specs, 4), 3);
    assert_ptr_equal(specs[2], &z);
    kwargs[1] = (exg_named_object){"other", exg_object_list(items, 2)};
    s = call_of("torch.ops.aten.cat.out", args, 1, kwargs, 2);
    assert_int_equal(exg_op_schema_all_specs(&s, specs, 4), 5); /* of which there is room for 4 */
    assert_ptr_equal(specs[3], &x);
    end(&f, 2);
}

/* Flags are the schema's, by what it writes; the counts are PyTorch's. S000-05, S000-08,
 * S000-09, S000-10, S001-04 */
static void flags_follow_what_is_written(void **state)
{
    static const struct {
        const char *kind;
        bool inplace, out, written;
        uint32_t count;
    } kinds[] = {{"functional", false, false, false, 2013},
                 {"inplace", true, false, true, 342},
                 {"out", false, true, true, 1089},
                 {"mutable", false, false, true, 10}};
    uint32_t counts[4] = {0};
    FILE *file = fopen("fixtures/schemas/aten.txt", "r");
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    char line[4000];
    exg_error err;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char *text = strchr(line, ' ');
        exg_function_schema schema;
        exg_op_schema s;
        int k = 0;

        *text++ = '\0';
        text[strcspn(text, "\n")] = '\0';
        while (strcmp(kinds[k].kind, line) != 0) {
            k++;
        }
        if (exg_function_schema_parse(arena, text, &schema, &err) != EXG_OK) {
            fail_msg("%s: %s", text, err.message);
        }
        exg_op_schema_init(&s, &schema, NULL, 0, NULL, 0);
        if (s.is_inplace != kinds[k].inplace || s.is_out_variant != kinds[k].out ||
            (kinds[k].written && !schema.is_mutable)) {
            fail_msg("%s is %s", text, line);
        }
        counts[k]++;
    }
    fclose(file);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(counts[k], kinds[k].count);
    }
    exg_arena_destroy(arena);
}

/* S000-04, S000-16: the text is Python's. */
static void a_schema_prints_itself(void **state)
{
    exg_dtensor_spec x, p;
    exg_object args[2];
    exg_named_object kwargs[1];
    exg_op_schema s;
    char *text;
    fixed f;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 4, 8);
    p = matrix(&f, "P(sum)", 4, 8);
    args[0] = exg_object_spec(&x);
    args[1] = exg_object_spec(&p);
    kwargs[0] = (exg_named_object){"alpha", of_float(2)};
    s = call_of(ADD, args, 2, kwargs, 1);
    assert_int_equal(exg_op_schema_print(&s, &text, NULL), EXG_OK);
    assert_string_equal(text, "OpSchema(func_schema=aten::add.Tensor(Tensor self, Tensor other, *, "
                              "Scalar alpha=1) -> Tensor, args_schema=(Spec(f32[4, 8](S(0))), "
                              "Spec(f32[4, 8](P(sum)))), kwargs_schema={'alpha': 2.0})");
    free(text);
    s = call_of("torch.ops.aten.relu.default", args, 1, NULL, 0);
    assert_int_equal(exg_op_schema_print(&s, &text, NULL), EXG_OK);
    assert_string_equal(text, "OpSchema(func_schema=aten::relu(Tensor self) -> Tensor, "
                              "args_schema=(Spec(f32[4, 8](S(0))),), kwargs_schema={})");
    free(text);
    end(&f, 2);
}

/* One field changed at a time; kwargs are a set; flags are not compared. S000-02, S000-04,
 * S000-17, S000-18, S000-19, S001-06 */
static void equality_sees_every_field(void **state)
{
    exg_dtensor_spec x, other;
    exg_named_object kwargs[2], turned[2];
    exg_object args[2], changed[2];
    int64_t dims[2] = {0, 1}, more[2] = {0, 2};
    exg_op_schema a, b;
    fixed f;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 4, 4);
    args[0] = exg_object_spec(&x);
    args[1] = of_int(3);
    kwargs[0] = (exg_named_object){"alpha", of_int(2)};
    kwargs[1] = (exg_named_object){"dim", of_ints(dims, 2)};
    turned[0] = kwargs[1];
    turned[1] = kwargs[0];
    a = call_of(ADD, args, 2, kwargs, 2);
    b = call_of(ADD, args, 2, turned, 2);
    assert_true(exg_op_schema_equal(&a, &b));
    assert_int_equal(exg_op_schema_hash(&a), exg_op_schema_hash(&b));
    b.is_inplace = b.is_out_variant = true;
    assert_true(exg_op_schema_equal(&a, &b));

    turned[0].object = of_ints(more, 2);
    assert_false(exg_op_schema_equal(&a, &b));
    turned[0].object = of_ints(dims, 2);
    b = call_of("torch.ops.aten.sub.Tensor", args, 2, turned, 2);
    assert_false(exg_op_schema_equal(&a, &b));
    b = call_of(ADD, args, 1, turned, 2);
    assert_false(exg_op_schema_equal(&a, &b));
    memcpy(changed, args, sizeof(args));
    changed[1] = exg_object_none();
    b = call_of(ADD, changed, 2, turned, 2);
    assert_false(exg_op_schema_equal(&a, &b));
    for (int what = 0; what < 5; what++) { /* of a spec */
        other = x;
        other.placements[0] = what == 0 ? exg_shard(1) : other.placements[0];
        other.dtype = what == 1 ? EXG_DTYPE_F64 : other.dtype;
        other.sizes[1] = what == 2 ? 5 : other.sizes[1];
        other.strides[0] = what == 3 ? 8 : other.strides[0];
        other.mesh = what == 4 ? f.meshes[1] : other.mesh; /* another rank's, the same mesh */
        memcpy(changed, args, sizeof(args));
        changed[0] = exg_object_spec(&other);
        b = call_of(ADD, changed, 2, turned, 2);
        assert_int_equal(exg_op_schema_equal(&a, &b), what == 4);
        assert_int_equal(exg_dtensor_spec_equal(&x, &other), what == 4);
    }
    end(&f, 2);
}

/* ---- objects of every kind ----------------------------------------------------------------- */

static int64_t ints[] = {3, -1};
static double floats[] = {0.5, 1e20};
static bool bools[] = {true, false};
static const char *strings[] = {"mean", "sum"};
static exg_tensor tensor = {.dtype = EXG_DTYPE_BF16, .rank = 1, .sizes = {7}};
static exg_dtensor_spec spec = {.dtype = EXG_DTYPE_F32,
                                .rank = 2,
                                .sizes = {4, 8},
                                .strides = {8, 1},
                                .placements = {{.kind = EXG_SHARD, .dim = 1}}};
static exg_object specs[] = {{.kind = EXG_OBJECT_SPEC, .spec = &spec},
                             {.kind = EXG_OBJECT_SPEC, .spec = &spec}};
static exg_object mixed[] = {{.kind = EXG_OBJECT_NONE},
                             {.kind = EXG_OBJECT_LIST, .count = 1, .items = specs}};

#define VALUE(of, member, ...)                                                                     \
    {                                                                                              \
        .kind = EXG_OBJECT_VALUE, .value = {.kind = EXG_ARGUMENT_##of, .member = __VA_ARGS__ }     \
    }
#define ITEMS(of, length, of_items)                                                                \
    {                                                                                              \
        .kind = EXG_OBJECT_##of, .count = (length), .items = (of_items)                            \
    }

/* No two alike, and what Python would print of each. */
static const struct {
    exg_object object;
    const char *text; /* NULL: not asked */
} objects[] = {
    {{.kind = EXG_OBJECT_NONE}, "None"},
    {VALUE(INT, as_int, -7), "-7"},
    {VALUE(FLOAT, as_float, 2), "2.0"},
    {VALUE(BOOL, as_bool, true), "True"},
    {VALUE(BOOL, as_bool, false), "False"},
    {VALUE(STRING, as_string, "mean"), "'mean'"},
    {VALUE(STRING, as_string, "means"), "'means'"},
    {VALUE(SCALAR_TYPE, as_scalar_type, EXG_DTYPE_F16), "torch.float16"},
    {VALUE(SCALAR_TYPE, as_scalar_type, EXG_DTYPE_BF16), "torch.bfloat16"},
    {VALUE(MEMORY_FORMAT, as_memory_format, EXG_MEMORY_FORMAT_CHANNELS_LAST),
     "torch.channels_last"},
    {VALUE(MEMORY_FORMAT, as_memory_format, EXG_MEMORY_FORMAT_CONTIGUOUS),
     "torch.contiguous_format"},
    {VALUE(LAYOUT, as_layout, EXG_LAYOUT_STRIDED), "torch.strided"},
    {VALUE(LAYOUT, as_layout, EXG_LAYOUT_SPARSE_COO), "torch.sparse_coo"},
    {VALUE(DEVICE, as_device, {"cuda", 1}), NULL},
    {VALUE(DEVICE, as_device, {"cuda", 0}), NULL},
    {VALUE(DEVICE, as_device, {"cpu", 0}), NULL},
    {VALUE(COMPLEX, as_complex, {1, 2}), "as_complex"},
    {VALUE(COMPLEX, as_complex, {1, 3}), NULL},
    {VALUE(INTS, count, 2, .as_ints = ints), "[3, -1]"},
    {VALUE(INTS, count, 1, .as_ints = ints), "[3]"},
    {VALUE(INTS, count, 0, .as_ints = ints), "[]"},
    {VALUE(FLOATS, count, 2, .as_floats = floats), "[0.5, 1e+20]"},
    {VALUE(FLOATS, count, 1, .as_floats = floats), "[0.5]"},
    {VALUE(FLOATS, count, 1, .as_floats = floats + 1), "[1e+20]"},
    {VALUE(BOOLS, count, 2, .as_bools = bools), "[True, False]"},
    {VALUE(BOOLS, count, 1, .as_bools = bools), "[True]"},
    {VALUE(BOOLS, count, 1, .as_bools = bools + 1), "[False]"},
    {VALUE(STRINGS, count, 2, .as_strings = strings), "['mean', 'sum']"},
    {VALUE(STRINGS, count, 1, .as_strings = strings), "['mean']"},
    {VALUE(STRINGS, count, 1, .as_strings = strings + 1), "['sum']"},
    {{.kind = EXG_OBJECT_UINT, .as_uint = UINT64_MAX}, "18446744073709551615"},
    {{.kind = EXG_OBJECT_UINT, .as_uint = UINT64_MAX - 1}, "18446744073709551614"},
    {{.kind = EXG_OBJECT_SPEC, .spec = &spec}, "Spec(f32[4, 8](S(1)))"},
    {ITEMS(LIST, 0, specs), "[]"},
    {ITEMS(LIST, 1, specs), "[Spec(f32[4, 8](S(1)))]"},
    {ITEMS(LIST, 2, specs), "[Spec(f32[4, 8](S(1))), Spec(f32[4, 8](S(1)))]"},
    {ITEMS(TUPLE, 1, specs), "(Spec(f32[4, 8](S(1))),)"},
    {ITEMS(TUPLE, 2, mixed), "(None, [Spec(f32[4, 8](S(1)))])"},
    {{.kind = EXG_OBJECT_TENSOR, .tensor = &tensor}, "Tensor(bf16[7])"},
};
#define OBJECTS (sizeof(objects) / sizeof(objects[0]))

static void assert_printed(const exg_op_schema *s, const char *object)
{
    char expected[200];
    char *text;

    snprintf(expected, sizeof(expected), "args_schema=(%s,), kwargs_schema={})", object);
    assert_int_equal(exg_op_schema_print(s, &text, NULL), EXG_OK);
    assert_string_equal(strstr(text, "args_schema"), expected);
    free(text);
}

/* S000-16, S000-19 */
static void objects_print_as_in_python_and_differ(void **state)
{
    fixed f;

    (void)state;
    begin(&f, 2);
    spec.mesh = f.meshes[0];
    for (size_t i = 0; i < OBJECTS; i++) {
        exg_object one = objects[i].object;
        exg_op_schema s = call_of("torch.ops.aten.relu.default", &one, 1, NULL, 0);

        if (objects[i].text != NULL) {
            assert_printed(&s, objects[i].text);
        }
        for (size_t k = 0; k <= i; k++) {
            exg_object other = objects[k].object;
            exg_op_schema o = call_of("torch.ops.aten.relu.default", &other, 1, NULL, 0);

            if (exg_op_schema_equal(&s, &o) != (k == i) ||
                (exg_op_schema_hash(&s) == exg_op_schema_hash(&o)) != (k == i)) {
                fail_msg("objects %zu and %zu", i, k);
            }
        }
    }
    end(&f, 2);
}

/* Two meshes of one shape are two where their ranks are others. */
static void specs_on_other_ranks(rank_context *c)
{
    const uint32_t first[] = {0, 1}, second[] = {2, 3};
    exg_mesh_shape pair = {1, {2}, {"a"}};
    exg_dtensor_spec x = {.dtype = EXG_DTYPE_F32,
                          .rank = 1,
                          .sizes = {4},
                          .strides = {1},
                          .placements = {exg_shard(0)}};
    exg_dtensor_spec y = x;
    exg_object a = exg_object_spec(&x), b = exg_object_spec(&y);
    exg_op_schema s = call_of("torch.ops.aten.relu.default", &a, 1, NULL, 0);
    exg_op_schema o = call_of("torch.ops.aten.relu.default", &b, 1, NULL, 0);
    exg_device_mesh *meshes[2];
    exg_error err;

    EXPECT(c,
           exg_device_mesh_select(c->mesh, first, &pair, &meshes[0], &err) == EXG_OK &&
               exg_device_mesh_select(c->mesh, second, &pair, &meshes[1], &err) == EXG_OK,
           "%s", err.message);
    x.mesh = meshes[0];
    y.mesh = meshes[0];
    EXPECT(c, exg_op_schema_equal(&s, &o) && exg_dtensor_spec_equal(&x, &y), "the same ranks");
    y.mesh = meshes[1];
    EXPECT(c, !exg_op_schema_equal(&s, &o) && !exg_dtensor_spec_equal(&x, &y), "other ranks");
    exg_device_mesh_destroy(meshes[0]);
    exg_device_mesh_destroy(meshes[1]);
}

static void meshes_are_told_apart_by_their_ranks(void **state)
{
    (void)state;
    on_mesh("4", specs_on_other_ranks, NULL);
}

/* S000-20: 1, 1.0 and true are three calls. */
static void numbers_differ_by_kind_and_bits(void **state)
{
    exg_object numbers[] = {of_int(1), of_float(1), of_bool(true), of_float(0.0), of_float(-0.0)};
    exg_op_schema schemas[5];

    (void)state;
    for (int i = 0; i < 5; i++) {
        schemas[i] = call_of(ADD, &numbers[i], 1, NULL, 0);
        for (int k = 0; k < i; k++) {
            assert_false(exg_op_schema_equal(&schemas[i], &schemas[k]));
        }
        assert_true(exg_op_schema_equal(&schemas[i], &schemas[i]));
    }
}

/* S000-02: the order of keywords is that of the call, and says nothing. S001-07: DTensors in
 * lists too become specs, all else stays. */
static void a_call_is_unwrapped(rank_context *c)
{
    eager e;
    exg_dtensor *x;
    exg_object inner[2], args[3];
    exg_named_object kwargs[1];
    exg_op_schema s;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    int64_t dims[] = {1, 2};

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x4", "S(1)");
    inner[0] = exg_object_dtensor(x);
    inner[1] = of_int(2);
    args[0] = exg_object_list(inner, 2);
    args[1] = exg_object_none();
    args[2] = of_ints(dims, 2);
    kwargs[0] = (exg_named_object){"out", exg_object_dtensor(x)};
    EXPECT(c,
           exg_op_schema_from_call(&s, schema_called(ADD), args, 3, kwargs, 1, arena, &e.err) ==
               EXG_OK,
           "%s", e.err.message);
    EXPECT(c,
           s.args[0].kind == EXG_OBJECT_LIST && s.args[0].items[0].kind == EXG_OBJECT_SPEC &&
               s.args[0].items[0].spec->sizes[1] == 4 &&
               exg_placement_equal(s.args[0].items[0].spec->placements[0], exg_shard(1)) &&
               s.args[0].items[1].value.as_int == 2,
           "the list");
    EXPECT(c,
           s.args[1].kind == EXG_OBJECT_NONE && s.args[2].value.as_ints[1] == 2 &&
               s.args[2].value.as_ints != dims,
           "values are copied");
    EXPECT(c, s.kwargs[0].object.kind == EXG_OBJECT_SPEC, "a keyword DTensor is a spec");
    exg_dtensor_destroy(x);
    exg_arena_destroy(arena);
    eager_end(&e);
}

/* S000-07, S001-07 */
static void calls_are_unwrapped(void **state)
{
    (void)state;
    on_mesh("2", a_call_is_unwrapped, NULL);
}

/* ---- rules ----------------------------------------------------------------------------- */

typedef struct asked {
    exg_dispatcher *d;
    exg_op_schema *target;
    exg_output_sharding *sharding;
    bool moves;
    exg_status status;
    exg_error err;
} asked;

static asked ask(const fixed *f, const char *key, exg_op_schema *s)
{
    exg_dispatch_options options = {.size = sizeof(options)};
    asked a = {0};

    assert_int_equal(exg_dispatcher_create(all_operators(), &options, &a.d, NULL), EXG_OK);
    a.status = exg_propagate_input_sharding(a.d, key, s, f->arena, &a.target, &a.moves, &a.sharding,
                                            &a.err);
    exg_dispatcher_destroy(a.d);
    return a;
}

static void assert_lies(const exg_object *object, const char *placements)
{
    exg_placement to[EXG_MESH_DIMS_MAX];

    placements_of(placements, to);
    assert_int_equal(object->kind, EXG_OBJECT_SPEC);
    assert_true(exg_placement_equal(object->spec->placements[0], to[0]));
}

/* What fits is run as it is; what does not, on the cheapest suggestion. S000-24, S000-26,
 * S001-17, S001-26, S001-32 */
static void propagation_gives_what_to_run(void **state)
{
    exg_dtensor_spec x, y;
    exg_object args[2];
    exg_op_schema s;
    fixed f;
    asked a;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 64, 64);
    y = matrix(&f, "R", 64, 64);
    args[0] = exg_object_spec(&x);
    args[1] = exg_object_spec(&y);
    s = call_of("torch.ops.aten.mm.default", args, 2, NULL, 0);
    a = ask(&f, "aten.mm.default", &s);
    assert_int_equal(a.status, EXG_OK);
    assert_ptr_equal(a.target, &s);
    assert_false(a.moves);
    assert_lies(&a.sharding->result, "S(0)");
    assert_int_equal(a.sharding->status, EXG_SHARDING_OK);

    y = matrix(&f, "S(0)", 64, 64);
    a = ask(&f, "aten.mm.default", &s);
    assert_int_equal(a.status, EXG_OK);
    assert_ptr_not_equal(a.target, &s);
    assert_true(a.moves);
    assert_lies(&a.sharding->result, "S(0)");
    assert_lies(&a.target->args[0], "S(0)");
    assert_lies(&a.target->args[1], "R");
    assert_lies(&s.args[1], "S(0)"); /* the call's own is as it was */
    end(&f, 2);
}

/* No tensor comes of it, and it does not fail. */
static exg_status rule_of_nothing(void *user, exg_op_schema *schema, exg_arena *arena,
                                  exg_output_sharding *out, exg_error *err)
{
    (void)user, (void)schema, (void)arena, (void)err;
    out->status = EXG_SHARDING_OK;
    out->result = exg_object_none();
    return EXG_OK;
}

/* S000-25: whether it failed is the status, not a result that is not there. */
static void no_result_is_no_failure(void **state)
{
    const exg_op_registration row = {.rule = rule_of_nothing};
    exg_output_sharding *sharding;
    exg_dtensor_spec x;
    exg_op_schema s, *target;
    exg_object args[2];
    exg_dispatcher *d;
    exg_error err;
    bool moves;
    fixed f;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 4, 4);
    args[0] = args[1] = exg_object_spec(&x);
    s = call_of("torch.ops.aten.mm.default", args, 2, NULL, 0);
    assert_int_equal(exg_dispatcher_create(all_operators(), NULL, &d, NULL), EXG_OK);
    assert_int_equal(exg_dispatcher_register(d, "aten.mm.default", &row, NULL), EXG_OK);
    assert_int_equal(exg_propagate_input_sharding(d, "aten.mm.default", &s, f.arena, &target,
                                                  &moves, &sharding, &err),
                     EXG_OK);
    assert_int_equal(sharding->status, EXG_SHARDING_OK);
    assert_int_equal(sharding->result.kind, EXG_OBJECT_NONE);
    assert_ptr_equal(target, &s);
    assert_false(moves);
    exg_dispatcher_destroy(d);
    end(&f, 2);
}

/* S000-26: S(0) and S(1) may both become either. */
static void pointwise_rows_offer_both_ways(void **state)
{
    exg_dtensor_spec x, y;
    exg_costs costs;
    exg_table_question question = {all_operators(), exg_operators_find(all_operators(), ADD), NULL,
                                   &costs};
    exg_output_sharding out = {0};
    exg_object args[2];
    exg_op_schema s;
    bool rows = false, columns = false;
    fixed f;

    (void)state;
    begin(&f, 2);
    exg_costs_init(&costs, sizeof(costs));
    question.mesh = f.meshes[0];
    x = matrix(&f, "S(0)", 4, 4);
    y = matrix(&f, "S(1)", 4, 4);
    args[0] = exg_object_spec(&x);
    args[1] = exg_object_spec(&y);
    s = call_of(ADD, args, 2, NULL, 0);
    assert_int_equal(exg_table_rule(&question, &s, f.arena, &out, NULL), EXG_OK);
    assert_int_equal(out.status, EXG_SHARDING_NEEDS_REDISTRIBUTE);
    for (uint32_t i = 0; i < out.suggestion_count; i++) {
        exg_placement a = out.suggestions[i].args[0].spec->placements[0];
        exg_placement b = out.suggestions[i].args[1].spec->placements[0];

        rows = rows || (exg_placement_equal(a, exg_shard(0)) && exg_placement_equal(a, b));
        columns = columns || (exg_placement_equal(a, exg_shard(1)) && exg_placement_equal(a, b));
    }
    assert_true(rows && columns);
    end(&f, 2);
}

/* A size among the values becomes this rank's own; specs stay. S000-12, S000-13, S000-21 */
static void rules_fit_values_and_leave_specs(void **state)
{
    exg_dtensor_spec x, before;
    int64_t sizes[] = {4, 6};
    exg_object args[2];
    exg_op_schema s;
    fixed f;
    asked a;

    (void)state;
    begin(&f, 2);
    x = (exg_dtensor_spec){.mesh = f.meshes[0],
                           .dtype = EXG_DTYPE_F32,
                           .rank = 1,
                           .sizes = {24},
                           .strides = {1},
                           .placements = {exg_shard(0)}};
    before = x;
    args[0] = exg_object_spec(&x);
    args[1] = of_ints(sizes, 2);
    s = call_of("torch.ops.aten.view.default", args, 2, NULL, 0);
    a = ask(&f, "aten.view.default", &s);
    assert_int_equal(a.status, EXG_OK);
    assert_true(a.sharding->rewrites_values);
    assert_int_equal(a.target->args[1].value.as_ints[0], 2);
    assert_int_equal(a.target->args[1].value.as_ints[1], 6);
    assert_int_equal(sizes[0], 4); /* the caller's list is not written */
    assert_memory_equal(&x, &before, sizeof(x));
    assert_int_equal(a.sharding->result.spec->sizes[0], 4);
    assert_lies(&a.sharding->result, "S(0)");
    args[1] = of_int(1);
    assert_int_equal(exg_op_schema_set_value(&s, 0, &args[1].value, NULL), EXG_USAGE);
    assert_int_equal(exg_op_schema_set_value(&s, 1, &args[1].value, NULL), EXG_OK);
    end(&f, 2);
}

/* S000-23: the call with global metas in the place of specs. */
static void meta_arguments_feed_shape_inference(void **state)
{
    exg_dtensor_spec x, y;
    exg_object args[2];
    exg_op_schema s;
    exg_meta_call *call;
    exg_tensor_meta **results;
    uint32_t count;
    fixed f;

    (void)state;
    begin(&f, 2);
    x = matrix(&f, "S(0)", 4, 8);
    y = matrix(&f, "R", 8, 2);
    args[0] = exg_object_spec(&x);
    args[1] = exg_object_spec(&y);
    s = call_of("torch.ops.aten.mm.default", args, 2, NULL, 0);
    call = exg_arena_alloc(f.arena, 1, sizeof(*call));
    assert_int_equal(exg_op_schema_meta_args(&s, f.arena, call, NULL), EXG_OK);
    assert_int_equal(call->operand_count, 2);
    assert_int_equal(call->graph.values[0].tensor->sizes[0].value, 4);
    assert_int_equal(call->graph.values[0].tensor->strides[0].value, 8);
    assert_int_equal(call->graph.values[1].tensor->dtype, EXG_DTYPE_F32);
    assert_int_equal(
        exg_operator_infer(exg_operators_find(all_operators(), "torch.ops.aten.mm.default"),
                           call->args, &call->graph, f.arena, &results, &count, NULL),
        EXG_OK);
    assert_int_equal(count, 1);
    assert_int_equal(results[0]->sizes[0].value, 4);
    assert_int_equal(results[0]->sizes[1].value, 2);
    end(&f, 2);
}

/* S001-21 */
static void keys_are_spelled_as_in_pytorch(void **state)
{
    char key[100];

    (void)state;
    exg_operator_key(exg_operators_find(all_operators(), ADD), key, sizeof(key));
    assert_string_equal(key, "aten.add.Tensor");
    exg_operator_key(exg_operators_find(all_operators(), "torch.ops.aten.relu.default"), key,
                     sizeof(key));
    assert_string_equal(key, "aten.relu.default");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_keep_their_order),
        cmocka_unit_test(lists_are_walked_by_all_specs),
        cmocka_unit_test(flags_follow_what_is_written),
        cmocka_unit_test(a_schema_prints_itself),
        cmocka_unit_test(equality_sees_every_field),
        cmocka_unit_test(objects_print_as_in_python_and_differ),
        cmocka_unit_test(meshes_are_told_apart_by_their_ranks),
        cmocka_unit_test(numbers_differ_by_kind_and_bits),
        cmocka_unit_test(calls_are_unwrapped),
        cmocka_unit_test(propagation_gives_what_to_run),
        cmocka_unit_test(no_result_is_no_failure),
        cmocka_unit_test(pointwise_rows_offer_both_ways),
        cmocka_unit_test(rules_fit_values_and_leave_specs),
        cmocka_unit_test(meta_arguments_feed_shape_inference),
        cmocka_unit_test(keys_are_spelled_as_in_pytorch),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
