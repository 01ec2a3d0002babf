/* builder.c - graphs made by hand: what the builder hands out, what it says of mistakes,
 * arguments there and back.
 */
#include <exg/emit.h>
#include <exg/export.h>
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

/* x + w for a weight of the program's own; called by position. */
static void it_makes_a_whole_program(void **state)
{
    const float values[2] = {1.5f, -2.0f};
    exg_input_binding binding = {.name = "x",
                                 .kind = EXG_ARGUMENT_TENSOR,
                                 .dtype = EXG_DTYPE_F32,
                                 .rank = 1,
                                 .sizes = (int64_t[]){2}};
    exg_verified verified;
    exg_symbols symbols;
    exg_tensor_meta meta;
    exg_argument sum;
    exg_arena *arena = exg_arena_create(NULL, 1u << 20);
    exg_error err;
    float read[2];
    made m;

    (void)state;
    begin(&m);
    meta = exg_builder_meta(m.b, EXG_DTYPE_F32, (int64_t[]){2}, 1);
    exg_ref w = exg_builder_weight(m.b, "up.bias", &meta, EXG_INPUT_BUFFER, values);
    exg_ref x = exg_builder_input(m.b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    const exg_argument args[] = {exg_arg_ref(x), exg_arg_ref(w)};

    assert_int_equal(exg_emit_all(m.b, EXG_OP_add_Tensor, args, 2, &sum), EXG_OK);
    exg_builder_output(m.b, &sum, EXG_OUTPUT_USER, NULL);
    exg_builder_call(m.b);
    assert_int_equal(exg_builder_finish(m.b, NULL), EXG_OK);
    assert_int_equal(m.program->module_call_count, 1);
    assert_int_equal(exg_weight_read(m.program->weights, &m.program->weights->items[0], read,
                                     sizeof(read), NULL),
                     EXG_OK);
    assert_memory_equal(read, values, sizeof(values));
    assert_int_equal(exg_verify(m.program, m.operators, &verified, NULL, NULL), EXG_OK);
    assert_int_equal(exg_bind_inputs(&verified, &binding, 1, NULL, arena, &symbols, NULL), EXG_OK);
    assert_int_equal(symbols.count, 0);
    binding.sizes = (int64_t[]){3};
    assert_int_equal(exg_bind_inputs(&verified, &binding, 1, NULL, arena, &symbols, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "INP-004");
    assert_null(exg_arena_alloc(arena, 1u << 20, 2)); /* past the budget */
    assert_true(exg_arena_used(arena) <= 1u << 20);
    exg_arena_destroy(arena);
    end(&m);
}

/* torch.export writes Dim("half") * 2 + 1 as a size that no input has by itself. */
static void it_finds_the_symbol_of_a_derived_size(void **state)
{
    static const struct {
        const char *expr;
        int64_t given, number;
        const char *code;
    } cases[] = {
        {"2*s95 + 1", 9, 4, ""},
        {"2*s95 + 1", 1, 0, ""},
        {"Add(Mul(Integer(2), Symbol('s95')), Integer(1))", 2001, 1000, ""},
        {"2*s95 + 1", 8, 0, "INP-004"},
        {"Mod(s95, 2)", 1, 0, "SYM-002"},
        {"16 - s95", 9, 0, "SYM-002"},
        {"9223372036854775807*s95", 9, 0, "SYM-002"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exg_sym_int size = {cases[i].expr, 5, true};
        exg_sym_int stride = exg_sym_int_of(1);
        exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                                .layout = EXG_LAYOUT_STRIDED,
                                .rank = 1,
                                .sizes = &size,
                                .strides = &stride,
                                .device = {"cpu", -1}};
        exg_input_binding binding = {.name = "x",
                                     .kind = EXG_ARGUMENT_TENSOR,
                                     .dtype = EXG_DTYPE_F32,
                                     .rank = 1,
                                     .sizes = &cases[i].given};
        exg_error err = {0};
        exg_verified verified;
        exg_symbols symbols;
        exg_argument x;
        made m;

        begin(&m);
        x = exg_arg_ref(exg_builder_input(m.b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
        exg_builder_output(m.b, &x, EXG_OUTPUT_USER, NULL);
        assert_int_equal(exg_builder_finish(m.b, NULL), EXG_OK);
        verified = (exg_verified){m.program, m.operators};
        if (exg_bind_inputs(&verified, &binding, 1, NULL, m.program->arena, &symbols, &err) ==
            EXG_OK) {
            assert_int_equal(exg_symbols_find(&symbols, "s95", 3)->value, cases[i].number);
        }
        assert_string_equal(err.code, cases[i].code);
        end(&m);
    }
}

static exg_ref input(exg_builder *b, const char *name, int64_t rows, int64_t columns)
{
    exg_tensor_meta meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){rows, columns}, 2);

    return exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

static void it_gives_what_it_was_given(void **state)
{
    exg_argument pair[2];
    int64_t items[4] = {9, 9, 9, 9};
    exg_argument arg;
    exg_ref refs[2];
    made m;

    (void)state;
    begin(&m);
    assert_ptr_equal(exg_builder_operators(m.b), m.operators);
    assert_ptr_equal(exg_builder_program(m.b), m.program);
    assert_ptr_equal(exg_builder_arena(m.b), m.program->arena);
    refs[0] = input(m.b, "x", 2, 3);
    refs[1] = exg_builder_value(m.b, "x", exg_ref_meta(m.b, refs[0])); /* the name is taken */
    assert_string_not_equal(exg_builder_graph(m.b)->values[refs[0].id].name,
                            exg_builder_graph(m.b)->values[refs[1].id].name);
    assert_int_equal(exg_ref_meta(m.b, refs[0])->sizes[1].value, 3);
    assert_null(exg_ref_meta(m.b, EXG_NO_REF));

    arg = exg_arg_int(-7);
    assert_true(exg_get_int(&arg) == -7 && exg_get_float(&arg) == -7.0);
    assert_true(exg_get_ints(&arg, items, 4) == 1 && items[0] == -7);
    arg = exg_arg_float(0.5);
    assert_true(exg_get_float(&arg) == 0.5 && exg_get_int(&arg) == 0);
    arg = exg_arg_bool(true);
    assert_true(exg_get_bool(&arg) && exg_get_int(&arg) == 1);
    arg = exg_arg_none();
    assert_true(exg_is_none(&arg) && exg_get_ref(&arg).id == EXG_NO_VALUE);
    arg = exg_arg_string("sum");
    assert_true(arg.kind == EXG_ARGUMENT_STRING && strcmp(arg.as_string, "sum") == 0);
    arg = exg_arg_dtype(EXG_DTYPE_BF16);
    assert_true(arg.kind == EXG_ARGUMENT_SCALAR_TYPE && arg.as_scalar_type == EXG_DTYPE_BF16);
    arg = exg_arg_ref(refs[1]);
    assert_int_equal(exg_get_ref(&arg).id, refs[1].id);
    arg = exg_arg_ints(m.b, (int64_t[]){4, 5, 6}, 3);
    assert_true(exg_get_ints(&arg, items, 2) == 3 && items[1] == 5 && items[2] == 9);
    arg = exg_arg_refs(m.b, refs, 2);
    assert_true(arg.kind == EXG_ARGUMENT_TENSORS && arg.count == 2 &&
                arg.as_tensors[1] == refs[1].id);

    exg_builder_next_names(m.b, (const char *[]){"low", "high"}, 2);
    assert_int_equal(EMIT_ALL(m.b, split_Tensor, pair, refs[0], 2, 1), EXG_OK);
    assert_true(pair[0].kind == EXG_ARGUMENT_TENSORS && pair[0].count == 2);
    assert_string_equal(exg_builder_graph(m.b)->values[pair[0].as_tensors[1]].name, "high");
    assert_int_equal(exg_ref_meta(m.b, (exg_ref){pair[0].as_tensors[1]})->sizes[1].value, 1);
    exg_builder_destroy(m.b); /* half way: the program still goes alone */
    end(&m);
}

static void it_lets_mistakes_stick(void **state)
{
    exg_error err;
    exg_ref r;
    made m;

    (void)state;
    begin(&m);
    r = EMIT(m.b, mm_default, input(m.b, "x", 2, 3), input(m.b, "y", 2, 3));
    assert_int_equal(r.id, EXG_NO_VALUE);
    assert_int_equal(exg_builder_status(m.b), EXG_MALFORMED);
    assert_int_equal(EMIT(m.b, relu_default, r).id, EXG_NO_VALUE);
    assert_int_equal(exg_builder_finish(m.b, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "NOD-017");
    end(&m);

    begin(&m);
    assert_int_equal(exg_error_set(&err, __FILE__, __LINE__, EXG_USAGE, "MY-001", "mine"),
                     EXG_USAGE);
    exg_builder_fail(m.b, &err);
    exg_error_clear(&err);
    assert_int_equal(exg_builder_finish(m.b, &err), EXG_USAGE);
    assert_string_equal(err.code, "MY-001");
    end(&m);
}

/* What a kernel would read past its tensor for is refused where shapes are told: numbers come
 * from files. */
static void it_refuses_numbers_that_leave_the_tensor(void **state)
{
    static const struct {
        exg_operator_id op;
        const char *name;
        int64_t numbers[3][2];
        uint32_t count; /* of the lists of numbers */
        bool by_source, fits;
    } rows[] = {
        {EXG_OP_flip_default, "flip", {{0, 1}}, 1, false, true},
        {EXG_OP_flip_default, "flip twice", {{1, 1}}, 1, false, false},
        {EXG_OP_flip_default, "flip twice", {{1, -1}}, 1, false, false},
        {EXG_OP_flip_default, "flip past", {{0, 2}}, 1, false, false},
        {EXG_OP_flip_default, "flip far", {{0, INT64_MAX}}, 1, false, false},
        {EXG_OP_roll_default, "roll", {{1, INT64_MAX}, {0, -1}}, 2, false, true},
        {EXG_OP_roll_default, "roll past", {{1, 1}, {0, 2}}, 2, false, false},
        {EXG_OP_roll_default, "roll far", {{1, 1}, {INT64_MIN, 0}}, 2, false, false},
        {EXG_OP_roll_default, "roll without dims", {{1, 1}}, 1, false, false},
        {EXG_OP_as_strided_scatter_default, "window", {{2, 4}, {4, 1}}, 2, true, true},
        {EXG_OP_as_strided_scatter_default, "past", {{2, 4}, {5, 1}}, 2, true, false},
        {EXG_OP_as_strided_scatter_default, "far", {{2, 4}, {INT64_MAX, 2}}, 2, true, false},
        {EXG_OP_split_with_sizes_default, "split", {{0, 2}}, 1, false, true},
        {EXG_OP_split_with_sizes_default, "split short", {{1, 0}}, 1, false, false},
        {EXG_OP_split_with_sizes_default, "split past", {{1, INT64_MAX}}, 1, false, false},
        {EXG_OP_split_with_sizes_default, "split back", {{3, -1}}, 1, false, false},
        {EXG_OP_unflatten_int, "far", {{INT64_MAX, INT64_MAX}}, 0, false, false},
        {EXG_OP_tile_default, "tile", {{2, 1}}, 1, false, true},
        {EXG_OP_tile_default, "tile far", {{INT64_MIN, 1}}, 1, false, false},
        {EXG_OP_resize_default, "resize", {{3, 5}}, 1, false, true},
        {EXG_OP_resize_default, "resize far", {{1LL << 40, 1LL << 40}}, 1, false, false},
        {EXG_OP_resize_default, "resize below", {{-3, -5}}, 1, false, false},
        {EXG_OP_tensordot_default, "product", {{0, 1}, {0, 1}}, 2, true, true},
        {EXG_OP_tensordot_default, "product twice", {{0, 0}, {0, 0}}, 2, true, false},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_argument args[4];
        uint32_t count = 0;
        exg_error err;
        exg_ref x;
        made m;

        begin(&m);
        x = input(m.b, "x", 2, 4);
        args[count++] = exg_arg_ref(x);
        if (rows[r].by_source) {
            args[count++] = exg_arg_ref(input(m.b, "source", 2, 4));
        }
        if (rows[r].count == 0) {
            args[count++] = exg_arg_int(1);
        }
        for (uint32_t i = 0; i < rows[r].count + (rows[r].count == 0); i++) {
            args[count++] = exg_arg_ints(m.b, rows[r].numbers[i], 2);
        }
        exg_emit(m.b, rows[r].op, args, count);
        exg_error_clear(&err);
        if ((exg_builder_finish(m.b, &err) == EXG_OK) != rows[r].fits ||
            strcmp(err.code, rows[r].fits ? "" : "NOD-017") != 0) {
            fail_msg("row %zu (%s): '%s' %s", r, rows[r].name, err.code, err.message);
        }
        end(&m);
    }
}

/* What is chosen by is a bool; where takes bytes too. A lowering of complex numbers that got one
 * would choose by it again and again. */
static void it_refuses_to_choose_by_numbers(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_B8, EXG_DTYPE_U8, EXG_DTYPE_I64, EXG_DTYPE_F32,
                                       EXG_DTYPE_C64};

    (void)state;
    for (int fills = 0; fills < 2; fills++) {
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
            for (int lowers = 0; lowers < 2; lowers++) {
                bool fits = dtypes[d] == EXG_DTYPE_B8 || (dtypes[d] == EXG_DTYPE_U8 && !fills);
                exg_tensor_meta meta;
                exg_error err;
                exg_ref x, by;
                made m;

                begin(&m);
                exg_builder_set_lowering(m.b, lowers != 0);
                x = input(m.b, "x", 2, 3);
                meta = exg_builder_meta(m.b, dtypes[d], (int64_t[]){2, 3}, 2);
                by = exg_builder_input(m.b, "by", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
                if (fills) {
                    EMIT(m.b, masked_fill_Scalar, x, by, 1);
                } else {
                    EMIT(m.b, where_self, by, x, x);
                }
                exg_error_clear(&err);
                if ((exg_builder_finish(m.b, &err) == EXG_OK) != fits ||
                    (!fits && strcmp(err.code, "NOD-017") != 0 &&
                     !(lowers && strcmp(err.code, "OPR-009") == 0))) {
                    fail_msg("%s by %s: '%s' %s", fills ? "fill" : "where",
                             exg_dtype_short_name(dtypes[d]), err.code, err.message);
                }
                end(&m);
            }
        }
    }
}

/* Positions in a tensor have as many dims as it has; one alone may have none. */
static void it_refuses_positions_of_another_rank(void **state)
{
    static const struct {
        int64_t self[2], index[2], src[2];
        uint32_t ranks[3]; /* of those */
        bool fits;
    } rows[] = {
        {{5}, {3}, {4}, {1, 1, 1}, true},
        {{5}, {0}, {0}, {1, 0, 0}, true},
        {{0}, {1}, {1}, {0, 1, 1}, true},
        {{5}, {3}, {0}, {1, 1, 0}, false},
        {{5, 3}, {0}, {0}, {2, 0, 0}, false},
        {{5, 3}, {2}, {2}, {2, 1, 1}, false},
        {{5, 3}, {2, 3}, {0}, {2, 2, 0}, false},
        {{5, 3}, {6, 3}, {6, 3}, {2, 2, 2}, true}, /* along dim 0 more may be added */
        {{5, 3}, {2, 4}, {2, 4}, {2, 2, 2}, false},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_tensor_meta metas[3];
        exg_ref x[3];
        exg_error err;
        made m;

        begin(&m);
        for (uint32_t i = 0; i < 3; i++) {
            const int64_t *sizes = i == 0 ? rows[r].self : i == 1 ? rows[r].index : rows[r].src;

            metas[i] = exg_builder_meta(m.b, i == 1 ? EXG_DTYPE_I64 : EXG_DTYPE_F32, sizes,
                                        rows[r].ranks[i]);
            x[i] = exg_builder_input(m.b, "x", &metas[i], EXG_INPUT_USER, NULL, EXG_UNSET);
        }
        EMIT(m.b, scatter_add_default, x[0], 0, x[1], x[2]);
        exg_error_clear(&err);
        if ((exg_builder_finish(m.b, &err) == EXG_OK) != rows[r].fits ||
            strcmp(err.code, rows[r].fits ? "" : "NOD-017") != 0) {
            fail_msg("row %zu: '%s' %s", r, err.code, err.message);
        }
        end(&m);
    }
}

/* A list that a file left empty is read by no lowering. */
static void it_refuses_what_is_made_of_no_tensors(void **state)
{
    static const exg_operator_id ids[] = {EXG_OP_chain_matmul_default,
                                          EXG_OP_linalg_multi_dot_default};

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        exg_argument none;
        exg_error err;
        made m;

        begin(&m);
        none = exg_arg_refs(m.b, NULL, 0);
        exg_emit(m.b, ids[i], &none, 1);
        assert_int_equal(exg_builder_finish(m.b, &err), EXG_MALFORMED);
        assert_string_equal(err.code, "NOD-017");
        end(&m);
    }
}

/* No format has other texts than UTF-8: such a program is not saved under other names. */
static void it_saves_no_name_that_no_format_can_say(void **state)
{
    static const exg_format formats[] = {EXG_FORMAT_EXG, EXG_FORMAT_EARLY_JSON};
    const float one = 1;
    exg_tensor_meta meta;
    exg_error err;
    made m;

    (void)state;
    begin(&m);
    EMIT(m.b, relu_default, input(m.b, "x\xff", 2, 3));
    assert_int_equal(exg_builder_finish(m.b, &err), EXG_OK);
    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++) {
        assert_int_equal(exg_save(m.program, "/tmp/exg-builder-name", formats[f], NULL, &err),
                         EXG_UNSUPPORTED);
        assert_string_equal(err.code, "FMT-TEXT");
    }
    end(&m);

    begin(&m);
    meta = exg_builder_meta(m.b, EXG_DTYPE_F32, NULL, 0);
    exg_builder_weight(m.b, "w\xff", &meta, EXG_INPUT_PARAMETER, &one);
    assert_int_equal(exg_builder_finish(m.b, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "WGT-NAME");
    end(&m);
}

/* A write by a mask is emitted as it is, or as what it is made of. */
static void it_lowers_when_asked(void **state)
{
    exg_string_pair where = {"where", "here"};
    exg_string_map origin = {&where, 1};

    (void)state;
    for (int lowers = 0; lowers < 2; lowers++) {
        exg_argument scale = exg_arg_float(2.0);
        exg_tensor_meta rows;
        exg_argument y;
        exg_ref index;
        made m;

        begin(&m);
        rows = exg_builder_meta(m.b, EXG_DTYPE_B8, (int64_t[]){4}, 1);
        index = exg_builder_input(m.b, "rows", &rows, EXG_INPUT_USER, NULL, EXG_UNSET);
        exg_builder_set_lowering(m.b, lowers != 0);
        exg_builder_set_origin(m.b, &origin);
        exg_builder_constant_input(m.b, "scale", &scale);
        y = exg_arg_ref(EMIT(m.b, index_put_default, input(m.b, "x", 4, 3),
                             exg_arg_refs(m.b, &index, 1), input(m.b, "y", 1, 1)));
        exg_builder_output(m.b, &y, EXG_OUTPUT_USER, NULL);
        assert_int_equal(exg_builder_finish(m.b, NULL), EXG_OK);
        assert_int_equal(m.program->graph->input_count, 4);
        if (lowers ? m.program->graph->node_count < 2 : m.program->graph->node_count != 1) {
            fail_msg("%u nodes", m.program->graph->node_count);
        }
        for (uint32_t n = 0; n < m.program->graph->node_count; n++) {
            assert_string_equal(exg_node_metadata(&m.program->graph->nodes[n], "where"), "here");
        }
        assert_int_equal(m.program->signature.inputs[1].arg.kind, EXG_ARGUMENT_FLOAT);
        assert_true(m.program->signature.inputs[1].arg.as_float == 2.0);
        end(&m);
    }
}

static void it_normalizes_and_infers(void **state)
{
    const exg_operator *op;
    exg_tensor_meta **results;
    exg_argument args[8];
    exg_named_argument given[2];
    exg_argument number;
    uint32_t count;
    exg_node node = {.inputs = given, .input_count = 2};
    exg_error err;
    made m;

    (void)state;
    begin(&m);
    op = exg_operators_get(m.operators, EXG_OP_add_Tensor);
    assert_ptr_equal(op, exg_operators_find(m.operators, "torch.ops.aten.add.Tensor"));
    given[0] =
        (exg_named_argument){"self", exg_arg_ref(input(m.b, "x", 2, 3)), EXG_KIND_POSITIONAL};
    given[1] =
        (exg_named_argument){"other", exg_arg_ref(input(m.b, "y", 1, 3)), EXG_KIND_POSITIONAL};
    assert_int_equal(exg_operator_normalize(op, &node, args, NULL), EXG_OK);
    assert_int_equal(exg_get_int(&args[2]), 1); /* alpha's default */
    assert_true(exg_argument_fits(&args[0], &op->schema->arguments[0].type));
    args[3] = exg_arg_string("x");
    assert_false(exg_argument_fits(&args[3], &op->schema->arguments[0].type));
    assert_int_equal(exg_operator_infer(op, args, exg_builder_graph(m.b), m.program->arena,
                                        &results, &count, NULL),
                     EXG_OK);
    assert_true(count == 1 && results[0]->rank == 2 && results[0]->sizes[0].value == 2);
    given[1].name = "others";
    given[1].kind = EXG_KIND_KEYWORD;
    assert_int_equal(exg_operator_normalize(op, &node, args, &err), EXG_MALFORMED);

    op = exg_operators_find(m.operators, "_operator.floordiv");
    assert_non_null(op);
    args[0] = exg_arg_int(-7);
    args[1] = exg_arg_int(2);
    assert_int_equal(exg_operator_evaluate(op, args, 2, exg_builder_graph(m.b), &number, NULL),
                     EXG_OK);
    assert_int_equal(exg_get_int(&number), -4); /* Python rounds down */
    args[1] = exg_arg_int(0);
    assert_int_equal(exg_operator_evaluate(op, args, 2, exg_builder_graph(m.b), &number, &err),
                     EXG_MALFORMED);
    exg_builder_destroy(m.b);
    end(&m);
}

static void it_copies_and_compares(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    int64_t items[] = {1, 2};
    exg_argument arg = {.kind = EXG_ARGUMENT_INTS, .count = 2, .as_ints = items};
    exg_program *a;
    exg_program *b;
    char *missing;
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_argument_copy(arena, &arg, NULL), EXG_OK);
    items[1] = 9;
    assert_int_equal(arg.as_ints[1], 2);
    exg_arena_destroy(arena);

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &a, NULL, NULL), EXG_OK);
    assert_int_equal(exg_program_copy(a, &b, NULL), EXG_OK);
    assert_true(exg_graph_equal(a->graph, b->graph));
    assert_int_equal(exg_missing_operators(b, operators, NULL, &missing, NULL), EXG_OK);
    assert_null(missing);
    b->graph->nodes[0].target = "torch.ops.mine.shout.default";
    assert_false(exg_graph_equal(a->graph, b->graph));
    assert_int_equal(exg_missing_operators(b, operators, NULL, &missing, NULL), EXG_OK);
    assert_non_null(strstr(missing, "mine.shout"));
    free(missing);
    /* the last node: whose result is what the program gives, and then nobody's */
    b->graph->nodes[0].target = a->graph->nodes[0].target;
    b->graph->nodes[2].target = "torch.ops.mine.shout.default";
    assert_int_equal(exg_missing_operators(b, operators, NULL, &missing, NULL), EXG_OK);
    assert_non_null(strstr(missing, "torch.ops.mine.shout.default, not a PyTorch operator"));
    free(missing);
    b->graph->outputs[0] = b->graph->nodes[1].outputs[0];
    assert_int_equal(exg_missing_operators(b, operators, NULL, &missing, NULL), EXG_OK);
    assert_null(missing);
    b->graph->nodes[2].target = "torch.ops.mine.shout_.default"; /* may have written what it took */
    assert_true(exg_program_has_dialect(b, "TRAINING"));
    assert_int_equal(exg_missing_operators(b, operators, NULL, &missing, NULL), EXG_OK);
    assert_non_null(missing);
    free(missing);
    b->verifiers[0] = "ATEN";
    assert_false(exg_program_has_dialect(b, "TRAINING"));
    assert_int_equal(exg_missing_operators(b, operators, NULL, &missing, NULL), EXG_OK);
    assert_null(missing);
    exg_program_destroy(a);
    exg_program_destroy(b);
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_what_it_was_given),
        cmocka_unit_test(it_makes_a_whole_program),
        cmocka_unit_test(it_finds_the_symbol_of_a_derived_size),
        cmocka_unit_test(it_lets_mistakes_stick),
        cmocka_unit_test(it_refuses_numbers_that_leave_the_tensor),
        cmocka_unit_test(it_refuses_to_choose_by_numbers),
        cmocka_unit_test(it_refuses_positions_of_another_rank),
        cmocka_unit_test(it_refuses_what_is_made_of_no_tensors),
        cmocka_unit_test(it_saves_no_name_that_no_format_can_say),
        cmocka_unit_test(it_lowers_when_asked),
        cmocka_unit_test(it_normalizes_and_infers),
        cmocka_unit_test(it_copies_and_compares),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
