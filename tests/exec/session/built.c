/* built.c - programs built node by node, and run: the one of ExportGraphSignature's docstring (seed
 * 004), and numbers where a schema says Tensor.
 *
 *   test_exec_built OUT.pt2     writes the docstring's program; tests/interop gives it to PyTorch
 *
 * What they give was computed by PyTorch. */
#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
} made;

static void begin(made *m)
{
    assert_int_equal(exg_operators_create(&m->operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &m->b, NULL), EXG_OK);
}

static void end(made *m)
{
    exg_program_destroy(m->program);
    exg_operators_destroy(m->operators);
}

/* ---- the docstring --------------------------------------------------------------------------- */

static exg_ref named(made *m, const char *name, exg_operator_id op, exg_argument a, exg_argument b)
{
    exg_builder_next_names(m->b, &name, 1);
    return exg_emit(m->b, op, (const exg_argument[]){a, b}, 2);
}

/* Its graph, under the names of its "graph():". */
static void make_docstring_graph(made *m)
{
    static const char *const names[] = {"p_my_parameter", "b_my_buffer1", "b_my_buffer2"};
    static const char *const weights[] = {"my_parameter", "my_buffer1", "my_buffer2"};
    static const char *const args[] = {"arg0_1", "arg1_1", "arg2_1", "arg3_1", "arg4_1"};
    exg_argument in[5];
    exg_argument add, mul, mul_1, add_1, add_2;
    exg_error err;

    begin(m);
    for (int i = 0; i < 5; i++) {
        exg_tensor_meta meta = exg_builder_meta(m->b, EXG_DTYPE_F32, NULL, 0);
        const float value = 2.0f + (float)i;
        exg_ref ref;

        meta.requires_grad = i == 0;
        ref = i < 3 ? exg_builder_weight(m->b, weights[i], &meta,
                                         i == 0 ? EXG_INPUT_PARAMETER : EXG_INPUT_BUFFER, &value)
                    : exg_builder_input(m->b, args[i], &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        in[i] = exg_arg_ref(ref);
    }
    add = exg_arg_ref(named(m, "add_tensor", EXG_OP_add_Tensor, in[3], in[0]));
    mul = exg_arg_ref(named(m, "mul_tensor", EXG_OP_mul_Tensor, add, in[1]));
    mul_1 = exg_arg_ref(named(m, "mul_tensor_1", EXG_OP_mul_Tensor, in[4], in[2]));
    add_1 = exg_arg_ref(named(m, "add_tensor_1", EXG_OP_add_Tensor, mul, mul_1));
    add_2 = exg_arg_ref(named(m, "add_tensor_2", EXG_OP_add_Tensor, in[2], exg_arg_float(1.0)));
    exg_builder_output(m->b, &add_2, EXG_OUTPUT_BUFFER_MUTATION, "my_buffer2");
    exg_builder_output(m->b, &add_1, EXG_OUTPUT_USER, NULL);
    exg_builder_call(m->b);
    if (exg_builder_finish(m->b, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(exg_program_rename_value(m->program, names[i], args[i], NULL), EXG_OK);
    }
}

/* The same where outputs are called as the docstring's signature calls them. */
static void make_docstring(made *m)
{
    make_docstring_graph(m);
    assert_int_equal(exg_program_rename_value(m->program, "add_tensor_1", "add_1", NULL), EXG_OK);
    assert_int_equal(exg_program_rename_value(m->program, "add_tensor_2", "add_2", NULL), EXG_OK);
}

/* S004-49, S004-85: the docstring's text, as torch.fx writes it now. */
static void it_prints_the_docstring_s_graph(void **state)
{
    char *text = NULL;
    made m;

    (void)state;
    make_docstring_graph(&m);
    assert_int_equal(exg_program_print_graph(m.program, &text, NULL), EXG_OK);
    assert_string_equal(
        text, "graph():\n"
              "    %arg0_1 : [num_users=1] = placeholder[target=arg0_1]\n"
              "    %arg1_1 : [num_users=1] = placeholder[target=arg1_1]\n"
              "    %arg2_1 : [num_users=2] = placeholder[target=arg2_1]\n"
              "    %arg3_1 : [num_users=1] = placeholder[target=arg3_1]\n"
              "    %arg4_1 : [num_users=1] = placeholder[target=arg4_1]\n"
              "    %add_tensor : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
              "(args = (%arg3_1, %arg0_1), kwargs = {})\n"
              "    %mul_tensor : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor]"
              "(args = (%add_tensor, %arg1_1), kwargs = {})\n"
              "    %mul_tensor_1 : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor]"
              "(args = (%arg4_1, %arg2_1), kwargs = {})\n"
              "    %add_tensor_1 : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
              "(args = (%mul_tensor, %mul_tensor_1), kwargs = {})\n"
              "    %add_tensor_2 : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
              "(args = (%arg2_1, 1.0), kwargs = {})\n"
              "    return (add_tensor_2, add_tensor_1)");
    free(text);
    end(&m);
}

/* S004-49: the docstring's specs, with the flag that its first slip leaves out. */
static void it_makes_the_docstring_s_signature(void **state)
{
    char *text = NULL;
    made m;

    (void)state;
    make_docstring(&m);
    assert_int_equal(exg_signature_repr(&m.program->signature, &text, NULL), EXG_OK);
    assert_string_equal(
        text, "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, "
              "arg=TensorArgument(name='arg0_1'), target='my_parameter', persistent=None), "
              "InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='arg1_1'), "
              "target='my_buffer1', persistent=True), InputSpec(kind=<InputKind.BUFFER: 3>, "
              "arg=TensorArgument(name='arg2_1'), target='my_buffer2', persistent=True), "
              "InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=TensorArgument(name='arg3_1'), "
              "target=None, persistent=None), InputSpec(kind=<InputKind.USER_INPUT: 1>, "
              "arg=TensorArgument(name='arg4_1'), target=None, persistent=None)], "
              "output_specs=[OutputSpec(kind=<OutputKind.BUFFER_MUTATION: 3>, "
              "arg=TensorArgument(name='add_2'), target='my_buffer2'), "
              "OutputSpec(kind=<OutputKind.USER_OUTPUT: 1>, arg=TensorArgument(name='add_1'), "
              "target=None)])");
    free(text);
    end(&m);
}

/* S004-21, S004-45, S004-49: x1 = 1, x2 = 2 give 17, 19, 21; my_buffer2 goes from 4 to 5, 6, 7. */
static void it_runs_the_docstring_s_program(void **state)
{
    float x1 = 1, x2 = 2;
    exg_session_input inputs[] = {
        {.name = "arg3_1", .tensor = {&x1, EXG_DTYPE_F32, 0, {0}, {0}}},
        {.name = "arg4_1", .tensor = {&x2, EXG_DTYPE_F32, 0, {0}, {0}}},
    };
    exg_session *session = NULL;
    exg_verified verified;
    exg_error err;
    made m;

    (void)state;
    make_docstring(&m);
    if (exg_verify(m.program, m.operators, &verified, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    assert_int_equal(exg_session_create(&verified, NULL, &session, &err), EXG_OK);
    for (int run = 0; run < 3; run++) {
        exg_tensor buffer;

        assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_OK);
        assert_int_equal(exg_session_output_count(session), 1);
        assert_float_equal(*(float *)exg_session_output_at(session, 0)->tensor.data,
                           17 + 2 * (float)run, 0);
        assert_int_equal(exg_session_state_count(session), 1);
        assert_string_equal(exg_session_state_at(session, 0, &buffer), "my_buffer2");
        assert_float_equal(*(float *)buffer.data, 5 + (float)run, 0);
    }
    exg_session_destroy(session);
    end(&m);
}

/* ---- numbers for tensors --------------------------------------------------------------------- */

/* A call of x, whose elements are 5 and -3, and a number; `last` gives the number first. */
typedef struct number_row {
    const char *name;
    exg_operator_id op;
    exg_dtype dtype;
    exg_argument number;
    bool last;        /* x is the last of the two */
    const char *mode; /* rounding_mode, or NULL */
    exg_dtype result;
    double expected[2];
} number_row;

#define INT(n)                                                                                     \
    {                                                                                              \
        .kind = EXG_ARGUMENT_INT, .as_int = (n)                                                    \
    }
#define FLOAT(n)                                                                                   \
    {                                                                                              \
        .kind = EXG_ARGUMENT_FLOAT, .as_float = (n)                                                \
    }
#define BOOL(n)                                                                                    \
    {                                                                                              \
        .kind = EXG_ARGUMENT_BOOL, .as_bool = (n)                                                  \
    }

#define ROW(name, op, dtype, number, last, mode, result, ...)                                      \
    {                                                                                              \
        name, EXG_OP_##op, EXG_DTYPE_##dtype, number, last, mode, EXG_DTYPE_##result,              \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const number_row numbers[] = {
    ROW("x + 1.5", add_Tensor, F32, FLOAT(1.5), false, NULL, F32, 6.5, -1.5),
    ROW("1 + x", add_Tensor, I64, INT(1), true, NULL, I64, 6, -2),
    ROW("2.5 - x", sub_Tensor, I64, FLOAT(2.5), true, NULL, F32, -2.5, 5.5),
    ROW("x * True", mul_Tensor, F64, BOOL(true), false, NULL, F64, 5, -3),
    ROW("x / 2", div_Tensor, I32, INT(2), false, NULL, F32, 2.5, -1.5),
    ROW("x += 2", add__Tensor, F32, INT(2), false, NULL, F32, 7, -1),
    ROW("x -= 2", sub__Tensor, I8, INT(2), false, NULL, I8, 3, -5),
    ROW("x //= 2", floor_divide__Tensor, F64, INT(2), false, NULL, F64, 2, -2),
    ROW("x // 2", floor_divide_default, I64, INT(2), false, NULL, I64, 2, -2),
    ROW("true_divide", true_divide_Tensor, F32, INT(15), true, NULL, F32, 3, -5),
    ROW("subtract", subtract_Tensor, I8, INT(300), false, NULL, I8, -39, -47),
    ROW("multiply", multiply_Tensor, F64, INT(3), true, NULL, F64, 15, -9),
    ROW("divide", divide_Tensor, F32, FLOAT(0.5), false, NULL, F32, 10, -6),
    ROW("floor", div_Tensor_mode, I64, INT(2), false, "floor", I64, 2, -2),
    ROW("trunc", divide_Tensor_mode, F32, INT(2), false, "trunc", F32, 2, -1),
    ROW("copy", copy_default, I32, FLOAT(2.5), false, NULL, I32, 2, 2),
    ROW("copy_", copy__default, F64, INT(3), false, NULL, F64, 3, 3),
};

static void put(exg_dtype dtype, void *to, const double from[2])
{
    for (int i = 0; i < 2; i++) {
        switch (dtype) {
        case EXG_DTYPE_I8:
            ((int8_t *)to)[i] = (int8_t)from[i];
            break;
        case EXG_DTYPE_I32:
            ((int32_t *)to)[i] = (int32_t)from[i];
            break;
        case EXG_DTYPE_I64:
            ((int64_t *)to)[i] = (int64_t)from[i];
            break;
        case EXG_DTYPE_F32:
            ((float *)to)[i] = (float)from[i];
            break;
        default:
            ((double *)to)[i] = from[i];
            break;
        }
    }
}

static exg_argument call(made *m, const number_row *row)
{
    exg_tensor_meta meta = exg_builder_meta(m->b, row->dtype, (const int64_t[]){2}, 1);
    exg_argument args[3];
    exg_argument result;

    args[row->last] =
        exg_arg_ref(exg_builder_input(m->b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
    args[!row->last] = row->number;
    args[2] = exg_arg_string(row->mode);
    exg_emit_all(m->b, row->op, args, row->mode == NULL ? 2 : 3, &result);
    return result;
}

static void run(const made *m, const number_row *row)
{
    const double given[2] = {5, -3};
    double x[2], expected[2];
    exg_session_input input = {.name = "x", .tensor = {x, row->dtype, 1, {2}, {1}}};
    exg_session *session = NULL;
    const exg_tensor *y;
    exg_verified verified;
    exg_error err;

    put(row->dtype, x, given);
    put(row->result, expected, row->expected);
    if (exg_verify(m->program, m->operators, &verified, NULL, &err) != EXG_OK ||
        exg_session_create(&verified, NULL, &session, &err) != EXG_OK ||
        exg_session_run(session, &input, 1, &err) != EXG_OK) {
        fail_msg("%s: %s %s", row->name, err.code, err.message);
    }
    y = &exg_session_output_at(session, 0)->tensor;
    if (y->dtype != row->result ||
        memcmp(y->data, expected, 2 * exg_dtype_bytes(row->result)) != 0) {
        fail_msg("%s: another result, %s", row->name, exg_dtype_name(y->dtype));
    }
    exg_session_destroy(session);
}

/* S004-49: wherever PyTorch's graphs hold a number for a tensor, written out or not. */
static void it_takes_numbers_for_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        for (int lowers = 0; lowers < 2; lowers++) {
            exg_argument y;
            exg_error err;
            made m;

            begin(&m);
            m.program->verifiers = (const char *[]){"TRAINING"}; /* which may write */
            m.program->verifier_count = 1;
            exg_builder_set_lowering(m.b, lowers != 0);
            y = call(&m, &numbers[i]);
            exg_builder_output(m.b, &y, EXG_OUTPUT_USER, NULL);
            if (exg_builder_finish(m.b, &err) != EXG_OK) {
                fail_msg("%s: %s %s", numbers[i].name, err.code, err.message);
            }
            run(&m, &numbers[i]);
            end(&m);
        }
    }
}

/* The node holds the number as PyTorch's does, at its place; a complex one makes the result so. */
static void it_records_the_number_itself(void **state)
{
    exg_argument two_j = {.kind = EXG_ARGUMENT_COMPLEX, .as_complex = {0, 2}};
    exg_tensor_meta meta;
    const exg_node *nodes;
    exg_ref x, y;
    made m;

    (void)state;
    begin(&m);
    meta = exg_builder_meta(m.b, EXG_DTYPE_F64, (const int64_t[]){2}, 1);
    x = exg_builder_input(m.b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    EMIT(m.b, sub_Tensor, 2, x);
    y = EMIT(m.b, mul_Tensor, x, two_j);
    EMIT(m.b, add__Tensor, x, 0.5, 2);
    nodes = exg_builder_graph(m.b)->nodes;
    assert_int_equal(exg_builder_graph(m.b)->node_count, 3);
    assert_int_equal(exg_ref_meta(m.b, y)->dtype, EXG_DTYPE_C128);
    assert_int_equal(nodes[0].inputs[0].arg.kind, EXG_ARGUMENT_INT);
    assert_int_equal(nodes[0].inputs[0].arg.as_int, 2);
    assert_int_equal(nodes[0].inputs[1].arg.as_tensor, x.id);
    assert_int_equal(nodes[1].inputs[1].arg.kind, EXG_ARGUMENT_COMPLEX);
    assert_int_equal(nodes[2].inputs[1].arg.kind, EXG_ARGUMENT_FLOAT);
    assert_int_equal(exg_builder_finish(m.b, NULL), EXG_OK);
    end(&m);
}

/* Where PyTorch takes none: it would have to be written to, or has no dtype of its own, or the
 * operator is another. */
static void it_refuses_numbers_elsewhere(void **state)
{
    static const struct {
        exg_operator_id op;
        bool tensor[2];
    } rows[] = {
        {EXG_OP_mm_default, {true, false}},         {EXG_OP_maximum_default, {true, false}},
        {EXG_OP_bitwise_and_Tensor, {true, false}}, {EXG_OP_add__Tensor, {false, true}},
        {EXG_OP_copy__default, {false, true}},      {EXG_OP_add_Tensor, {false, false}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_argument args[2];
        exg_tensor_meta meta;
        exg_error err;
        made m;

        begin(&m);
        meta = exg_builder_meta(m.b, EXG_DTYPE_I64, (const int64_t[]){2, 2}, 2);
        for (int k = 0; k < 2; k++) {
            args[k] = rows[i].tensor[k] ? exg_arg_ref(exg_builder_value(m.b, "x", &meta))
                                        : exg_arg_int(1);
        }
        exg_emit(m.b, rows[i].op, args, 2);
        assert_int_equal(exg_builder_finish(m.b, &err), EXG_USAGE);
        assert_string_equal(err.code, "BLD-001");
        end(&m);
    }
}

static void write_docstring(void **state)
{
    exg_error err;
    made m;

    make_docstring(&m);
    if (exg_save(m.program, *state, EXG_FORMAT_PT2, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    end(&m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_prints_the_docstring_s_graph),
        cmocka_unit_test(it_makes_the_docstring_s_signature),
        cmocka_unit_test(it_runs_the_docstring_s_program),
        cmocka_unit_test(it_takes_numbers_for_tensors),
        cmocka_unit_test(it_records_the_number_itself),
        cmocka_unit_test(it_refuses_numbers_elsewhere),
    };
    const struct CMUnitTest writes[] = {
        cmocka_unit_test_prestate(write_docstring, argc > 1 ? argv[1] : NULL),
    };

    return argc > 1 ? cmocka_run_group_tests(writes, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
