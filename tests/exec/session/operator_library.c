/* operator_library.c - operators of libraries: what is refused, and that what is taken runs as
 * PyTorch's does, in sessions, on meshes and as eager calls. mylib is
 * examples/operators/mylib.c. */
#include "tests/exec/dispatch/eager.h"
#include "tests/exec/session/fixture.h"

#include <dlfcn.h>
#include <exg/autograd.h>
#include <exg/operator_library.h>
#include <exg/signature.h>
#include <exg/transform.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const exg_operator_library *exg_operator_library_get(void);

static exg_status alike(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0] = call->inputs[0];
    return EXG_OK;
}

static exg_status nothing(exg_operator_call *call, exg_error *err)
{
    (void)call;
    (void)err;
    return EXG_OK;
}

static exg_status never_launched(const exg_operator_call *call, exg_operator_launch *launch,
                                 exg_error *err)
{
    (void)call;
    (void)launch;
    (void)err;
    return EXG_UNSUPPORTED;
}

static exg_status failing(exg_operator_call *call, exg_error *err)
{
    return EXG_OPERATOR_FAIL(err, USAGE, "%u inputs are too many", call->input_count);
}

static exg_status silent(exg_operator_call *call, exg_error *err)
{
    (void)call;
    (void)err;
    return EXG_IO;
}

static exg_status minus_one(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->length = -1;
    return EXG_OK;
}

static void decomposed(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)b;
    results[0] = args[0];
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define ITEM(text, ...)                                                                            \
    {                                                                                              \
        .size = sizeof(exg_operator_definition), .schema = (text), __VA_ARGS__                     \
    }
#define KERNEL    .shape = alike, .kernel = nothing
#define ON_DEVICE .device_text = "", .device_entry = "f", .device_launch = never_launched

#define FOUR      "Tensor, Tensor, Tensor, Tensor"
#define SEVENTEEN FOUR ", " FOUR ", " FOUR ", " FOUR ", Tensor"

static const struct {
    const char *code, *says;
    exg_operator_definition item;
} refused[] = {
    {"LIB-003", "expected '::'", ITEM("scale(Tensor x) -> Tensor", KERNEL)},
    {"LIB-003", "a known type", ITEM("t::f(Tensr x) -> Tensor", KERNEL)},
    {"LIB-003", "without a schema", ITEM(NULL, KERNEL)},
    {"LIB-003", "two parameters are called 'x'", ITEM("t::f(Tensor x, int x) -> Tensor", KERNEL)},
    {"LIB-003", "the default does not fit 'n'",
     ITEM("t::f(Tensor x, int n=\"q\") -> Tensor", KERNEL)},
    {"LIB-003", "the default does not fit 'b'",
     ITEM("t::f(Tensor x, bool b=[True]) -> Tensor", KERNEL)},
    {"LIB-004", "torch.ops.aten.add.Tensor",
     ITEM("aten::add.Tensor(Tensor self, Tensor other) -> Tensor", KERNEL)},
    {"LIB-005", "no kernel and no decomposition", ITEM("t::f(Tensor x) -> Tensor", .shape = alike)},
    {"LIB-005", "no shape function", ITEM("t::f(Tensor x) -> Tensor", .kernel = nothing)},
    {"LIB-005", "a kernel and a decomposition",
     ITEM("t::f(Tensor x) -> Tensor", KERNEL, .decomposition = decomposed)},
    {"LIB-005", "which says shape",
     ITEM("t::f(Tensor x) -> Tensor", .decomposition = decomposed, .shape = alike)},
    {"LIB-005", "what is no tensor", ITEM("t::f(Tensor x) -> int", KERNEL)},
    {"LIB-005", "16 results",
     ITEM("t::f(Tensor x) -> (" SEVENTEEN ")", .decomposition = decomposed)},
    {"LIB-005", "31 arguments",
     ITEM(
         "t::f(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, "
         "int m, int n, int o, int p, int q, int r, int s, int t, int u, int v, int w, int x, "
         "int y, int z, int aa, int bb, int cc, int dd, int ee, int ff, int gg) -> Tensor",
         .decomposition = decomposed)},
    {"LIB-005", "a view of an argument", ITEM("t::f(Tensor(a) x) -> Tensor(a)", KERNEL)},
    {"LIB-005", "beside other results", ITEM("t::f(Tensor x) -> (Tensor, Tensor[])", KERNEL)},
    {"LIB-005", "beside other results", ITEM("t::f(Tensor(a!)[] x) -> Tensor", KERNEL)},
    {"LIB-005", "returns nothing and writes nothing", ITEM("t::f(Tensor x) -> ()", KERNEL)},
    {"LIB-005", "lies in the data",
     ITEM("t::f(Tensor(a!) x) -> Tensor", KERNEL, .length = minus_one)},
    {"LIB-005", "effect, device text too",
     ITEM("t::f(Tensor x) -> Tensor", .decomposition = decomposed, .effect = true)},
    {"LIB-005", "lies in the data",
     ITEM("t::f(Tensor x) -> Tensor", KERNEL, .length = minus_one, .effect = true)},
    {"LIB-005", "device_text, device_entry and device_launch",
     ITEM("t::f(Tensor x) -> Tensor", KERNEL, .device_text = "")},
    {"LIB-005", "has a device text, and writes",
     ITEM("t::f(Tensor(a!) x) -> ()", .kernel = nothing, ON_DEVICE)},
    {"LIB-005", "has a device text, and writes",
     ITEM("t::f(Tensor x) -> Tensor", KERNEL, ON_DEVICE, .effect = true)},
    {"LIB-005", "has a device text, and writes",
     ITEM("t::f(Tensor x) -> Tensor", KERNEL, ON_DEVICE, .length = minus_one)},
    {"LIB-005", "effect, device text too",
     ITEM("t::f(Tensor x) -> Tensor", .decomposition = decomposed, ON_DEVICE)},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor x) -> Tensor", KERNEL, .sharding = "a")},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor x) -> Tensor", KERNEL, .sharding = "a,b->ab")},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor x) -> Tensor", KERNEL, .sharding = "A->A")},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor[] x) -> Tensor", KERNEL, .sharding = "a->a")},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor x) -> Tensor", KERNEL, .sharding = "a->a,a")},
    {"LIB-006", "is no sharding",
     ITEM("t::f(Tensor x) -> (Tensor, Tensor)", KERNEL, .sharding = "ab->ab")},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor x) -> Tensor[]", KERNEL, .sharding = "a->a")},
    {"LIB-006", "is no sharding", ITEM("t::f(Tensor(a!) x) -> ()", KERNEL, .sharding = "a->a")},
};

static exg_operator_library library_of(const exg_operator_definition *items, uint32_t count)
{
    return (exg_operator_library){.size = sizeof(exg_operator_library),
                                  .version = EXG_OPERATOR_LIBRARY_VERSION,
                                  .count = count,
                                  .items = items,
                                  .name = "test"};
}

static void expect_refused(const exg_operator_library *library, const char *code, const char *says)
{
    exg_operators *operators;
    exg_error err;

    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    assert_int_not_equal(exg_operators_register(operators, library, &err), EXG_OK);
    assert_string_equal(err.code, code);
    if (strstr(err.message, says) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", code, err.message, says);
    }
    assert_null(exg_operators_find(operators, "torch.ops.t.good.default"));
    exg_operators_destroy(operators);
}

/* All or none: what stands before the fault is not there either. */
static void a_bad_operator_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const exg_operator_definition items[] = {ITEM("t::good(Tensor x) -> Tensor", KERNEL),
                                                 refused[i].item};
        exg_operator_library library = library_of(items, 2);

        expect_refused(&library, refused[i].code, refused[i].says);
    }
}

static void a_bad_library_is_refused(void **state)
{
    const exg_operator_definition twice[] = {ITEM("t::good(Tensor x) -> Tensor", KERNEL),
                                             ITEM("t::good(Tensor x) -> Tensor", KERNEL)};
    exg_operator_definition unsized = twice[0];
    exg_operator_library library = library_of(twice, 2);

    (void)state;
    expect_refused(&library, "LIB-004", "torch.ops.t.good.default");
    library = library_of(twice, 1);
    library.version = 7;
    expect_refused(&library, "LIB-002", "a library of version 7");
    library = library_of(twice, 1);
    library.size = 0;
    expect_refused(&library, "LIB-002", "sizes are not set");
    unsized.size = 0;
    library = library_of(&unsized, 1);
    expect_refused(&library, "LIB-002", "sizes are not set");
}

/* What a library of an older exg has not is not there. */
static void a_shorter_definition_is_taken(void **state)
{
    exg_operator_definition old = ITEM("t::good(Tensor x) -> Tensor", KERNEL);
    exg_operator_library library = library_of(&old, 1);
    exg_operators *operators;
    exg_error err;

    (void)state;
    old.size = offsetof(exg_operator_definition, length);
    old.length = minus_one; /* of memory that is not its own */
    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    assert_int_equal(exg_operators_register(operators, &library, &err), EXG_OK);
    assert_non_null(exg_operators_find(operators, "torch.ops.t.good.default"));
    assert_null(exg_operators_find(operators, "torch.ops.t.good.default.length"));
    exg_operators_destroy(operators);
}

static void a_file_that_is_no_library_is_refused(void **state)
{
    Dl_info of_libc;
    const char *paths[] = {"fixtures/mlp.pt2", "./none.so", "none.so", NULL};
    exg_operators *operators;
    exg_error err;

    (void)state;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "strlen"), &of_libc), 0);
    paths[3] = of_libc.dli_fname; /* a shared object, without the function */
    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_equal(exg_operators_load(operators, paths[i], &err), EXG_USAGE);
        assert_string_equal(err.code, "LIB-001");
        assert_non_null(strstr(err.message, paths[i]));
    }
    exg_operators_destroy(operators);
}

/* ---- programs ----------------------------------------------------------------------------------
 */

static const fixture programs[] = {
    {"operator_library/plain.pt2", "operator_library/plain.inputs.safetensors",
     "operator_library/plain.expected.safetensors", 1e-5, 1e-6},
    {"operator_library/data.pt2", "operator_library/data.inputs.safetensors",
     "operator_library/data.expected.safetensors", 1e-5, 1e-6},
    {"operator_library/writes.pt2", "operator_library/writes.inputs.safetensors",
     "operator_library/writes.expected.safetensors", 1e-5, 1e-6},
    {"operator_library/writes.core.pt2", "operator_library/writes.core.inputs.safetensors",
     "operator_library/writes.core.expected.safetensors", 1e-5, 1e-6},
    {"operator_library/watched.pt2", "operator_library/watched.inputs.safetensors",
     "operator_library/watched.expected.safetensors", 1e-5, 1e-6},
    {"operator_library/effects.pt2", "operator_library/effects.inputs.safetensors",
     "operator_library/effects.expected.safetensors", 1e-5, 1e-6},
};

static void register_mylib(exg_operators *operators)
{
    exg_error err;

    if (exg_operators_register(operators, exg_operator_library_get(), &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
}

static void open_with_library(const fixture *f, loaded *l)
{
    exg_error err;

    load_fixture(f, l);
    register_mylib(l->operators);
    assert_int_equal(exg_verify(l->program, l->operators, &l->verified, NULL, &err), EXG_OK);
}

static void programs_are_as_pytorchs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        static const uint32_t ranks[] = {1, 2, 3};

        for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
            exg_partition_options placed = {.size = sizeof(placed), .mode = EXG_PARTITION_TENSOR};
            exg_session_options options = {.size = sizeof(options),
                                           .mesh = {.ndim = 1, .sizes = {ranks[r]}},
                                           .partition = &placed};
            exg_session *session;
            loaded l;

            open_with_library(&programs[i], &l);
            session = open_session(&l, ranks[r] == 1 ? NULL : &options);
            run_fixture(&l, session);
            compare_with_expected(&l, session, programs[i].program);
            exg_session_destroy(session);
            unload_fixture(&l);
        }
    }
}

/* Without with_effects PyTorch finds no tokens to take out, no flag of one, and no argument without
 * a name. */
static void a_stage_has_no_tokens(void **state)
{
    const fixture *f = fixture_among(programs, sizeof(programs) / sizeof(programs[0]),
                                     "operator_library/effects.pt2");
    exg_program *source, *staged;
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    for (int stage = 0; stage < EXG_STAGE_COUNT; stage++) {
        uint32_t tokens;

        open_with_library(f, &l);
        assert_int_equal(exg_signature_input_tokens(&l.program->signature, NULL, 0, &tokens, &err),
                         EXG_OK);
        assert_int_equal(tokens, 1);
        assert_int_equal(exg_program_at_stage(&l.verified, NULL, (exg_stage)stage, &staged, &err),
                         EXG_OK);
        source = l.program; /* stays as long */
        l.program = staged;
        assert_int_equal(exg_signature_input_tokens(&staged->signature, NULL, 0, &tokens, &err),
                         EXG_OK);
        assert_int_equal(tokens, 0);
        assert_int_equal(exg_signature_output_tokens(&staged->signature, NULL, 0, &tokens, &err),
                         EXG_OK);
        assert_int_equal(tokens, 0);
        for (uint32_t n = 0; n < staged->graph->node_count; n++) {
            const exg_node *node = &staged->graph->nodes[n];

            for (uint32_t i = 0; i < node->input_count; i++) {
                assert_string_not_equal(node->inputs[i].name, "");
            }
        }
        if (exg_verify(staged, l.operators, &l.verified, NULL, &err) != EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
        session = open_session(&l, NULL);
        run_fixture(&l, session);
        compare_with_expected(&l, session, f->program);
        exg_session_destroy(session);
        unload_fixture(&l);
        exg_program_destroy(source);
    }
}

/* Its operators are looked for where a program calls them, and nowhere else. */
static void torchvision_comes_by_itself(void **state)
{
    static const fixture rows[] = {
        {"torchvision/roi.pt2", "torchvision/roi.inputs.safetensors",
         "torchvision/roi.expected.safetensors", 1e-5, 1e-6},
        {"torchvision/nms.pt2", "torchvision/nms.inputs.safetensors",
         "torchvision/nms.expected.safetensors", 1e-5, 1e-6},
        {"mlp.pt2", "mlp.inputs.safetensors", "mlp.expected.safetensors", 1e-5, 1e-6},
    };
    static const char target[] = "torch.ops.torchvision.nms.default";

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_of_it = strncmp(rows[i].program, "torchvision", 11) == 0;
        exg_session *session;
        exg_error err;
        loaded l;

        load_fixture(&rows[i], &l);
        assert_null(exg_operators_find(l.operators, target));
        for (int again = 0; again < 2; again++) {
            assert_int_equal(exg_operators_load_for(l.operators, l.program, &err), EXG_OK);
        }
        assert_int_equal(exg_operators_find(l.operators, target) != NULL, is_of_it);
        assert_int_equal(exg_verify(l.program, l.operators, &l.verified, NULL, &err), EXG_OK);
        session = open_session(&l, NULL);
        run_fixture(&l, session);
        compare_with_expected(&l, session, rows[i].program);
        exg_session_destroy(session);
        unload_fixture(&l);
    }
}

/* What the file says of a result is compared with what the library says. */
static void a_wrong_record_is_found(void **state)
{
    static const exg_operator_definition wrong[] = {
        ITEM("mylib::project(Tensor x, Tensor weight) -> Tensor", KERNEL)};
    exg_operator_library library = library_of(wrong, 1);
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(&programs[0], &l);
    assert_int_equal(exg_operators_register(l.operators, &library, &err), EXG_OK);
    assert_int_equal(exg_verify(l.program, l.operators, &l.verified, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "NOD-017");
    unload_fixture(&l);
}

/* ---- kernels that fail
 * ----------------------------------------------------------------------------- */

/* A program of one call, run; the error it ends with. */
static exg_status run_one(const exg_operator_definition *item, const char *target, exg_error *err)
{
    exg_operator_library library = library_of(item, 1);
    const int64_t sizes[] = {2};
    float x[2] = {1, 2};
    exg_session_input in = {.name = "x", .tensor = {x, EXG_DTYPE_F32, 1, {2}, {1}}};
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_argument argument, y;
    exg_status status;

    assert_int_equal(exg_operators_create(&operators, err), EXG_OK);
    assert_int_equal(exg_operators_register(operators, &library, err), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, err), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, err), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 1);
    argument = exg_arg_ref(exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
    (void)exg_emit_all(b, exg_operators_find(operators, target)->id, &argument, 1, &y);
    for (uint32_t i = 0; i < (y.kind == EXG_ARGUMENT_TENSORS ? y.count : 1); i++) {
        exg_argument one =
            y.kind == EXG_ARGUMENT_TENSORS ? exg_arg_ref((exg_ref){y.as_tensors[i]}) : y;

        exg_builder_output(b, &one, EXG_OUTPUT_USER, NULL);
    }
    exg_builder_call(b);
    status = exg_builder_finish(b, err);
    status = status == EXG_OK ? run_built(program, operators, &in, err) : status;
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return status;
}

static exg_status no_dtype(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0].rank = 1;
    return EXG_OK;
}

static exg_status negative(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0] = call->inputs[0];
    call->outputs[0].sizes[0] = -4;
    return EXG_OK;
}

static exg_status deep(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->outputs[0] = call->inputs[0];
    call->outputs[0].rank = 17;
    return EXG_OK;
}

static exg_status fill(exg_operator_call *call, uint32_t count)
{
    for (uint32_t o = 0; o < count; o++) {
        call->outputs[o] = call->inputs[0];
    }
    return EXG_OK;
}

static exg_status one_more(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->output_count++;
    return fill(call, 1);
}

static exg_status unasked(exg_operator_call *call, exg_error *err)
{
    (void)err;
    call->output_count = 20;
    return fill(call, 20);
}

static exg_status less_than_asked(exg_operator_call *call, exg_error *err)
{
    if (!exg_operator_lengthen(call, 300) || !exg_operator_lengthen(call, 20)) {
        return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "no room");
    }
    return fill(call, 20);
}

static exg_status only_if_listed(exg_operator_call *call, exg_error *err)
{
    return exg_operator_lengthen(call, 1) ? EXG_OK
                                          : EXG_OPERATOR_FAIL(err, UNSUPPORTED, "not a list");
}

/* The outputs are those that the shape function gave, and no others. */
static exg_status twenty(exg_operator_call *call, exg_error *err)
{
    if (call->output_count != 20) {
        return EXG_OPERATOR_FAIL(err, USAGE, "%u outputs", call->output_count);
    }
    for (uint32_t o = 0; o < call->output_count; o++) {
        memcpy(call->outputs[o].data, call->inputs[0].data, 2 * sizeof(float));
    }
    return EXG_OK;
}

static void a_list_is_as_long_as_it_is_said(void **state)
{
    static const struct {
        const char *schema;
        exg_operator_function *shape;
        exg_status status;
        const char *code, *says;
    } rows[] = {
        {"t::f(Tensor x) -> Tensor[]", less_than_asked, EXG_OK, "", ""},
        {"t::f(Tensor x) -> Tensor[]", unasked, EXG_UNSUPPORTED, "LIB-007", "asked room for"},
        {"t::f(Tensor x) -> Tensor", one_more, EXG_UNSUPPORTED, "LIB-007", "than its schema"},
        {"t::f(Tensor x) -> Tensor", only_if_listed, EXG_MALFORMED, "NOD-017", "not a list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const exg_operator_definition item =
            ITEM(rows[i].schema, .shape = rows[i].shape, .kernel = twenty);
        exg_error err;

        exg_error_clear(&err);
        assert_int_equal(run_one(&item, "torch.ops.t.f.default", &err), rows[i].status);
        assert_string_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.message, rows[i].says));
    }
}

static void a_fault_of_a_library_is_a_status(void **state)
{
    static const struct {
        exg_operator_function *shape, *kernel;
        exg_status status;
        const char *code, *says;
    } rows[] = {
        {alike, failing, EXG_USAGE, "LIB-008", "1 inputs are too many"},
        {alike, silent, EXG_IO, "LIB-008", "fails with status 3, and does not say why"},
        {failing, nothing, EXG_MALFORMED, "NOD-017", "1 inputs are too many"},
        {silent, nothing, EXG_MALFORMED, "NOD-017", "does not say why"},
        {no_dtype, nothing, EXG_UNSUPPORTED, "LIB-007", "gives no dtype"},
        {negative, nothing, EXG_UNSUPPORTED, "LIB-007", "gives a negative size"},
        {deep, nothing, EXG_UNSUPPORTED, "LIB-007", "gives a rank above 16"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const exg_operator_definition item =
            ITEM("t::f(Tensor x) -> Tensor", .shape = rows[i].shape, .kernel = rows[i].kernel);
        exg_error err;

        assert_int_equal(run_one(&item, "torch.ops.t.f.default", &err), rows[i].status);
        assert_string_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.message, rows[i].says));
    }
}

/* Of a size that lies in the data. */
static void a_negative_length_is_a_status(void **state)
{
    exg_operator_definition item = ITEM("mylib::positives(Tensor x) -> Tensor", KERNEL);
    exg_operator_library library = library_of(&item, 1);
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    item.length = minus_one;
    load_fixture(&programs[1], &l);
    assert_int_equal(exg_operators_register(l.operators, &library, &err), EXG_OK);
    assert_int_equal(exg_verify(l.program, l.operators, &l.verified, NULL, &err), EXG_OK);
    session = open_session(&l, NULL);
    assert_int_equal(try_fixture(&l, session, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "LIB-008");
    assert_non_null(strstr(err.message, "its length is -1"));
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* Nobody reads what it gives, and it is called once a run, on what is the same in every run too. */
static uint32_t effects;
static exg_session *watched;    /* the session that runs */
static exg_run_progress far[2]; /* as it says while the operator is called, the last times */

static exg_status count_effect(exg_operator_call *call, exg_error *err)
{
    (void)call;
    (void)err;
    far[effects % 2] = (exg_run_progress){.size = sizeof(far[0])};
    exg_session_progress(watched, &far[effects % 2]);
    effects++;
    return EXG_OK;
}

/* Within a run, after it, and of nothing. */
static void expect_progress(void)
{
    exg_run_progress progress = {.size = offsetof(exg_run_progress, segments), .segments = 77};

    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(far[i].segments, 1);
        assert_int_equal(far[i].iterations, 0);
        assert_true(far[i].step < far[i].step_count);
    }
    assert_true(far[0].step != far[1].step);
    assert_int_equal(far[0].step_count, far[1].step_count);
    exg_session_progress(watched, &progress); /* no more than its size has */
    assert_int_equal(progress.step_count, far[0].step_count);
    assert_int_equal(progress.segments, 77);
    exg_session_progress(NULL, &progress);
    assert_int_equal(progress.step_count, 0);
    exg_session_progress(watched, NULL);
}

/* `stage` EXG_STAGE_COUNT: as it is saved. */
static void expect_effects(const exg_operator_library *library, exg_stage stage)
{
    exg_program *source = NULL, *staged;
    exg_session *session;
    exg_error err;
    loaded l;

    load_fixture(fixture_among(programs, sizeof(programs) / sizeof(programs[0]),
                               "operator_library/watched.pt2"),
                 &l);
    assert_int_equal(exg_operators_register(l.operators, library, &err), EXG_OK);
    assert_int_equal(exg_verify(l.program, l.operators, &l.verified, NULL, &err), EXG_OK);
    if (stage != EXG_STAGE_COUNT) {
        if (exg_program_at_stage(&l.verified, NULL, stage, &staged, &err) != EXG_OK) {
            fail_msg("%s: %s", err.code, err.message);
        }
        source = l.program; /* stays as long */
        l.program = staged;
        assert_int_equal(exg_verify(staged, l.operators, &l.verified, NULL, &err), EXG_OK);
    }
    effects = 0;
    watched = session = open_session(&l, NULL);
    for (uint32_t runs = 1; runs <= 3; runs++) {
        run_fixture(&l, session);
        assert_int_equal(effects, 2 * runs);
        expect_progress();
    }
    exg_session_destroy(session);
    unload_fixture(&l);
    exg_program_destroy(source);
}

static void an_effect_is_had_in_every_run(void **state)
{
    const exg_operator_definition items[] = {
        ITEM("mylib::watch(Tensor x, str what) -> ()", .kernel = count_effect, .effect = true)};
    exg_operator_library library = library_of(items, 1);

    (void)state;
    for (int stage = 0; stage <= EXG_STAGE_COUNT; stage++) {
        expect_effects(&library, (exg_stage)stage);
    }
}

/* ---- eager ----------------------------------------------------------------------------------- */

static exg_operators *registered;

/* A list longer than a call has results otherwise. */
static void call_for_many(eager *e, exg_dtensor *z)
{
    int64_t sizes[40] = {1, [38] = 1};
    exg_object args[2] = {T(z), of_ints(sizes, 40)};
    exg_object parts = call(e, "mylib.halves.default", args, 2);

    EXPECT(e->c, parts.kind == EXG_OBJECT_LIST && parts.count == 40, "a list of 40");
    if (parts.kind == EXG_OBJECT_LIST && parts.count == 40) {
        expect_values(e, parts.items[0].dtensor, "R", (const double[]){0, 1}, 2, "the first part");
        expect_values(e, parts.items[38].dtensor, "R", (const double[]){2, 3}, 2, "the 39th part");
        expect_values(e, parts.items[39].dtensor, "R", (const double[]){0}, 0, "the last part");
    }
    exg_object_clear(&parts, true);
}

/* Lists, writes to what is whole and to what is split; what is as long as the data say is refused.
 */
static void call_more(eager *e, exg_dtensor *z)
{
    int64_t sizes[2] = {1, 1};
    exg_object args[2] = {T(z), of_ints(sizes, 2)};
    exg_object parts = call(e, "mylib.halves.default", args, 2);
    exg_dtensor *total = counted(e, EXG_DTYPE_F32, "2", "R");
    exg_dtensor *split = counted(e, EXG_DTYPE_F32, "2", "S(0)");
    exg_dtensor *seen = counted(e, EXG_DTYPE_F32, "", "R");
    exg_object written[2] = {T(total), T(split)};
    exg_dtensor *mean;

    EXPECT(e->c, parts.kind == EXG_OBJECT_LIST && parts.count == 2, "halves are no list of two");
    if (parts.kind == EXG_OBJECT_LIST && parts.count == 2) {
        expect_values(e, parts.items[1].dtensor, "R", (const double[]){2, 3}, 2, "the second half");
    }
    exg_object_clear(&parts, true);
    mean = CALL(e, "mylib.count_and_add.default", T(z), T(total), T(seen));
    expect_values(e, mean, "", (const double[]){1, 2.5}, 2, "count_and_add");
    expect_values(e, total, "R", (const double[]){2, 5}, 2, "what it wrote");
    exg_dtensor_destroy(mean);
    mean = CALL(e, "mylib.count_and_add.default", T(z), T(split), T(seen));
    expect_values(e, split, "S(0)", (const double[]){2, 5}, 2, "what it wrote in parts");
    exg_dtensor_destroy(mean);
    args[0] = exg_object_list(written, 2);
    args[1] = of_float(2);
    parts = call(e, "mylib.scale_all.default", args, 2);
    exg_object_clear(&parts, false);
    expect_values(e, total, "R", (const double[]){4, 10}, 2, "scaled");
    expect_values(e, split, "S(0)", (const double[]){4, 10}, 2, "scaled in parts");
    args[0] = T(z);
    EXPECT(e->c, refusal(e, "mylib.positives.default", args, 1) == EXG_UNSUPPORTED, "positives");
    exg_dtensor_destroy(total);
    exg_dtensor_destroy(split);
    exg_dtensor_destroy(seen);
}

/* One registration is for programs and for the dispatcher. */
static void call_eagerly(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .mesh = c->mesh};
    exg_error err;
    exg_dtensor *x, *w, *y, *z;
    eager e = {.c = c, .mesh = c->mesh};

    EXPECT(c, exg_dispatcher_create(registered, &options, &e.d, &err) == EXG_OK, "%s", err.message);
    x = counted(&e, EXG_DTYPE_F32, "2x2", "R");
    w = counted(&e, EXG_DTYPE_F32, "3x2", "S(0)");
    z = counted(&e, EXG_DTYPE_F32, "2x2", "S(0)");
    EXPECT(c, exg_dtensor_set_requires_grad(w, true, &err) == EXG_OK, "%s", err.message);
    y = CALL(&e, "mylib.project.default", T(x), T(w));
    expect_values(&e, y, "S(1)", (const double[]){1, 3, 5, 3, 13, 23}, 6, "project");
    EXPECT(c, exg_backward(e.d, &y, (const exg_dtensor *[]){y}, 1, NULL, &err) == EXG_OK, "%s",
           err.message);
    expect_values(&e, exg_dtensor_grad(w), "", (const double[]){6, 10, 26, 42, 46, 74}, 6,
                  "what goes back");
    exg_dtensor_destroy(y);
    y = CALL(&e, "mylib.soft_threshold.default", T(z), of_float(1.5)); /* gathered: no rule */
    expect_values(&e, y, "R", (const double[]){0, 0, 0.5, 1.5}, 4, "soft_threshold");
    exg_dtensor_destroy(y);
    EXPECT(c, refusal(&e, "mylib.noted.default", (exg_object[]){T(z)}, 1) == EXG_UNSUPPORTED,
           "an effect, eagerly");
    y = CALL(&e, "mylib.swish.default", T(z)); /* made of others */
    expect_values(&e, y, "S(0)", (const double[]){0, 0.7310586, 1.7615942, 2.8577224}, 4, "swish");
    exg_dtensor_destroy(y);
    call_more(&e, z);
    call_for_many(&e, z);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(w);
    exg_dtensor_destroy(z);
    eager_end(&e);
}

static void the_dispatcher_has_them_too(void **state)
{
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&registered, &err), EXG_OK);
    register_mylib(registered);
    on_mesh("1", call_eagerly, NULL);
    on_mesh("2", call_eagerly, NULL);
    on_mesh("3", call_eagerly, NULL);
    exg_operators_destroy(registered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_operator_is_refused),
        cmocka_unit_test(a_bad_library_is_refused),
        cmocka_unit_test(a_shorter_definition_is_taken),
        cmocka_unit_test(a_file_that_is_no_library_is_refused),
        cmocka_unit_test(programs_are_as_pytorchs),
        cmocka_unit_test(a_stage_has_no_tokens),
        cmocka_unit_test(torchvision_comes_by_itself),
        cmocka_unit_test(a_wrong_record_is_found),
        cmocka_unit_test(a_list_is_as_long_as_it_is_said),
        cmocka_unit_test(a_fault_of_a_library_is_a_status),
        cmocka_unit_test(a_negative_length_is_a_status),
        cmocka_unit_test(an_effect_is_had_in_every_run),
        cmocka_unit_test(the_dispatcher_has_them_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
