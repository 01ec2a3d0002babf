/* interface.c - the small public functions: names, errors, promotion, elements, what is
 * known of a tensor's description. Golden values are PyTorch's or worked out by hand.
 */
#include <exg/export.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The library that runs is the one of these headers. */
static void the_version_is_told(void **state)
{
    int part[3] = {-1, -1, -1};

    (void)state;
    assert_int_equal(sscanf(exg_version(), "%d.%d.%d", &part[0], &part[1], &part[2]), 3);
    assert_int_equal(part[0], EXG_VERSION_MAJOR);
    assert_int_equal(part[1], EXG_VERSION_MINOR);
    assert_int_equal(part[2], EXG_VERSION_PATCH);
    assert_int_equal(exg_version_number(), part[0] * 1000000 + part[1] * 1000 + part[2]);
}

/* torch.promote_types(row, column) of these dtypes. */
static const char *const promoted[12][12] = {
    {"uint8", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128", "uint8"},
    {"int16", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128", "int8"},
    {"int16", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128", "int16"},
    {"int32", "int32", "int32", "int32", "int64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128", "int32"},
    {"int64", "int64", "int64", "int64", "int64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128", "int64"},
    {"float16", "float16", "float16", "float16", "float16", "float16", "float32", "float32",
     "float64", "complex64", "complex128", "float16"},
    {"bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16", "float32",
     "float64", "complex64", "complex128", "bfloat16"},
    {"float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32",
     "float64", "complex64", "complex128", "float32"},
    {"float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64",
     "float64", "complex128", "complex128", "float64"},
    {"complex64", "complex64", "complex64", "complex64", "complex64", "complex64", "complex64",
     "complex64", "complex128", "complex64", "complex128", "complex64"},
    {"complex128", "complex128", "complex128", "complex128", "complex128", "complex128",
     "complex128", "complex128", "complex128", "complex128", "complex128", "complex128"},
    {"uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
     "complex64", "complex128", "bool"},
};

static void it_promotes_as_pytorch(void **state)
{
    (void)state;
    for (int a = 0; a < 12; a++) {
        for (int b = 0; b < 12; b++) { /* the diagonal names the dtypes */
            assert_string_equal(
                exg_dtype_name(exg_promote_types(exg_dtype_from_name(promoted[a][a]),
                                                 exg_dtype_from_name(promoted[b][b]))),
                promoted[a][b]);
        }
    }
}

static void it_names_everything(void **state)
{
    (void)state;
    assert_string_equal(exg_status_name(EXG_MALFORMED), "MALFORMED");
    assert_string_equal(exg_status_meaning(EXG_PEER), "another rank failed or went silent");
    assert_int_equal(exg_status_exit_code(EXG_OK), 0);
    assert_int_equal(exg_status_exit_code(EXG_LIMIT), 6);
    assert_string_equal(exg_format_name(EXG_FORMAT_EARLY_JSON), "early-json");
    assert_string_equal(exg_weights_format_name(EXG_WEIGHTS_FORMAT_NPZ), "npz");
    assert_string_equal(exg_weights_format_name(EXG_WEIGHTS_FORMAT_COUNT), "program");
    assert_string_equal(exg_layout_name(EXG_LAYOUT_SPARSE_CSR), "sparse_csr");
    assert_string_equal(exg_layout_name(EXG_LAYOUT_MKLDNN), "_mkldnn");
    assert_string_equal(exg_memory_format_name(EXG_MEMORY_FORMAT_PRESERVE), "preserve_format");
    assert_string_equal(exg_severity_name(EXG_SEVERITY_WARNING), "warning");
    assert_string_equal(exg_keeper_name(EXG_KEEPER_DATA), "data");
    assert_string_equal(exg_mismatch_text(EXG_MISMATCH_SHAPE), "has another shape");
    assert_true(exg_mismatch_is_fault(EXG_MISMATCH_MISSING));
    assert_false(exg_mismatch_is_fault(EXG_MISMATCH_UNKNOWN));
}

static void it_tells_faults(void **state)
{
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(err.status, EXG_OK);
    assert_string_equal(err.code, "");
    assert_true(err.offset == EXG_NO_OFFSET);
    assert_int_equal(exg_error_set(&err, "f.c", 7, EXG_IO, "SYS-READ", "cannot read %d", 3),
                     EXG_IO);
    assert_string_equal(err.message, "cannot read 3");
    assert_string_equal(err.source_file, "f.c");
    assert_int_equal(err.source_line, 7);
    assert_int_equal(exg_error_at(&err, EXG_IO, 4096), EXG_IO);
    assert_true(err.offset == 4096);
    assert_int_equal(exg_error_fix(&err, EXG_IO, "give %s", "another"), EXG_IO);
    assert_string_equal(err.fix, "give another");
    assert_int_equal(exg_error_source(&err, EXG_IO, "net.py:%d: x = f(\ny)", 5), EXG_IO);
    assert_string_equal(err.source, "net.py:5: x = f( y)");
    assert_int_equal(exg_error_within(&err, EXG_IO, "inputs[%d]", 1), EXG_IO);
    assert_int_equal(exg_error_within(&err, EXG_IO, "nodes[%d]", 2), EXG_IO);
    assert_string_equal(err.where, "nodes[2].inputs[1]");
    assert_int_equal(exg_error_set(NULL, "f.c", 8, EXG_LIMIT, "X", "no one listens"), EXG_LIMIT);
}

/* A fault without a way out of its own has that of its code, which a rule is too. */
static void it_tells_what_is_true_of_a_code(void **state)
{
    const exg_code *code = exg_code_find("IO-OPEN");
    uint32_t count = 0;
    exg_error err;

    (void)state;
    assert_non_null(code);
    assert_string_equal(code->code, "IO-OPEN");
    assert_true(code->meaning[0] != '\0' && code->fix[0] != '\0');
    exg_ignore(exg_error_set(&err, "f.c", 1, EXG_IO, "IO-OPEN", "cannot open it"));
    assert_string_equal(err.fix, code->fix);
    exg_ignore(exg_error_set(&err, "f.c", 2, EXG_MALFORMED, "ARC-012", "damaged"));
    assert_string_equal(err.fix, exg_rule_find("ARC-012")->fix);
    exg_ignore(exg_error_set(&err, "f.c", 3, EXG_MALFORMED, "NO-CODE", "of no table"));
    assert_string_equal(err.fix, "");
    assert_null(exg_code_find("NO-CODE"));
    assert_null(exg_code_find("ARC-012"));
    while ((code = exg_code_at(count)) != NULL) {
        assert_ptr_equal(exg_code_find(code->code), code);
        assert_true(strlen(code->fix) < sizeof(err.fix));
        count++;
    }
    assert_true(count > 100);
    for (uint32_t i = 0; i < exg_rule_count(); i++) {
        assert_true(strlen(exg_rule_at(i)->fix) < sizeof(err.fix));
    }
}

static void it_reads_elements(void **state)
{
    const int8_t minus = -5;
    const uint16_t half = 0xc500;  /* -5.0 */
    const uint16_t brain = 0x3fc0; /* 1.5 */
    const float complex_number[2] = {2.5f, 9.0f};
    const uint64_t large = UINT64_MAX;

    (void)state;
    assert_true(exg_element_value(EXG_DTYPE_I8, &minus) == -5.0);
    assert_true(exg_element_value(EXG_DTYPE_U8, &minus) == 251.0);
    assert_true(exg_element_value(EXG_DTYPE_F16, &half) == -5.0);
    assert_true(exg_element_value(EXG_DTYPE_BF16, &brain) == 1.5);
    assert_true(exg_element_value(EXG_DTYPE_C64, complex_number) == 2.5);
    assert_true(exg_element_value(EXG_DTYPE_U64, &large) == 0x1p64);
    assert_true(exg_element_value(EXG_DTYPE_B8, "\1") == 1.0);
}

static void it_knows_descriptions(void **state)
{
    exg_sym_int n[4] = {exg_sym_int_of(3), exg_sym_int_of(4), exg_sym_int_of(4), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F64,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = n,
                            .strides = n + 2,
                            .device = {"cpu", -1}};
    int64_t numel;

    (void)state;
    assert_true(exg_tensor_meta_is_static(&meta));
    assert_true(exg_tensor_meta_is_packed(&meta));
    assert_true(exg_tensor_meta_numel(&meta, &numel) && numel == 12);
    assert_int_equal(exg_tensor_meta_check_view(&meta, 96, NULL), EXG_OK);
    assert_int_equal(exg_tensor_meta_check_view(&meta, 95, NULL), EXG_MALFORMED);
    meta.storage_offset = exg_sym_int_of(1);
    assert_int_equal(exg_tensor_meta_check_view(&meta, 96, NULL), EXG_MALFORMED);
    n[2].value = 5; /* a gap between rows */
    assert_false(exg_tensor_meta_is_packed(&meta));
    n[0].value = n[1].value = INT64_MAX / 2;
    assert_false(exg_tensor_meta_numel(&meta, &numel));
    n[0].expr = "s77";
    assert_false(exg_tensor_meta_is_static(&meta));
}

static void it_binds_names_to_numbers(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_symbols symbols = {0};
    char name[16];
    int64_t value;

    (void)state;
    for (int i = 0; i < 500; i++) { /* past where a map takes over */
        int length = snprintf(name, sizeof(name), "s%d", i);

        assert_int_equal(exg_symbols_add(&symbols, arena, name, (size_t)length, 7 * i, NULL),
                         EXG_OK);
    }
    assert_int_equal(symbols.count, 500);
    assert_int_equal(exg_symbols_find(&symbols, "s499", 4)->value, 7 * 499);
    assert_int_equal(exg_symbols_find(&symbols, "s10x", 3)->value, 70);
    assert_null(exg_symbols_find(&symbols, "s500", 4));
    assert_int_equal(exg_symint_evaluate("2*s3 + Mod(s10, 4)", &symbols, &value, NULL), EXG_OK);
    assert_int_equal(value, 2 * 21 + 70 % 4);
    exg_arena_destroy(arena);
}

static void it_keeps_what_is_added(void **state)
{
    exg_weights *weights;
    uint32_t storage;
    char *bytes = malloc(4);

    (void)state;
    memcpy(bytes, "abcd", 4);
    assert_int_equal(exg_weights_create(NULL, &weights, NULL), EXG_OK);
    assert_int_equal(exg_weights_add_bytes(weights, bytes, 4, EXG_LITTLE_ENDIAN, &storage, NULL),
                     EXG_OK);
    assert_int_equal(weights->storages[storage].kind, EXG_STORAGE_MEMORY);
    assert_memory_equal(weights->storages[storage].data, "abcd", 4);
    for (int i = 0; i < 40; i++) {
        char key[8];

        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(exg_weights_add_metadata(weights, key, i == 17 ? "" : key, NULL), EXG_OK);
    }
    assert_int_equal(weights->metadata.count, 40);
    assert_string_equal(weights->metadata.items[17].key, "k17");
    assert_string_equal(weights->metadata.items[17].value, "");
    assert_string_equal(weights->metadata.items[39].value, "k39");
    exg_weights_release(weights);
}

static void it_reads_where_nodes_come_from(void **state)
{
    exg_string_pair pairs[] = {
        {"stack_trace", "x"},
        {"nn_module_stack", "L__self__,,M;L__self___up,up,torch.nn.modules.linear.Linear"},
    };
    exg_node node = {.metadata = {pairs, 2}};
    const char *stack = pairs[1].value;
    exg_module_frame frame;

    (void)state;
    assert_string_equal(exg_node_metadata(&node, "stack_trace"), "x");
    assert_null(exg_node_metadata(&node, "source"));
    assert_true(exg_module_stack_next(&stack, &frame));
    assert_int_equal(frame.path_length, 0);
    assert_true(frame.type_length == 1 && frame.type[0] == 'M');
    assert_true(exg_module_stack_next(&stack, &frame));
    assert_true(frame.path_length == 2 && memcmp(frame.path, "up", 2) == 0);
    assert_true(frame.type_length == 30 &&
                memcmp(frame.type, "torch.nn.modules.linear.Linear", 30) == 0);
    assert_false(exg_module_stack_next(&stack, &frame));
}

static void refused_for_its_size(exg_status status, const exg_error *err, const char *type)
{
    assert_int_equal(status, EXG_USAGE);
    assert_string_equal(err->code, "OPT-001");
    assert_non_null(strstr(err->message, type));
}

/* Options whose size is not set would all be ignored. */
static void options_without_a_size_are_refused(void **state)
{
    const exg_open_options open = {.check_crc = true};
    const exg_save_options save = {.compression = EXG_COMPRESSION_ZSTD};
    const exg_weights_save_options save_weights = {.split = 1};
    const exg_check_options check = {.threads = 1};
    const exg_diff_options compare = {.skip_tensors = true};
    exg_operators *operators;
    exg_program *program;
    exg_weights *weights;
    exg_verified verified;
    exg_file_info *info = NULL;
    exg_error err;
    exg_diff diff;

    (void)state;
    memset(&info, 0xee, sizeof(info));
    refused_for_its_size(exg_open("fixtures/mlp.pt2", &open, &program, &info, &err), &err,
                         "exg_open_options.size");
    assert_null(program);
    assert_null(info);
    refused_for_its_size(exg_open_memory("x", 1, &open, &program, NULL, &err), &err,
                         "exg_open_options.size");
    refused_for_its_size(
        exg_weights_open("fixtures/mlp.inputs.safetensors", &open, &weights, NULL, &err), &err,
        "exg_open_options.size");
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, &err), EXG_OK);
    refused_for_its_size(exg_save(program, "/nowhere/x.exg", EXG_FORMAT_EXG, &save, &err), &err,
                         "exg_save_options.size");
    refused_for_its_size(
        exg_weights_save(program->weights, "/nowhere/x.safetensors", &save_weights, &err), &err,
        "exg_weights_save_options.size");
    refused_for_its_size(exg_weights_check(program->weights, &check, &err), &err,
                         "exg_check_options.size");
    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_OK);
    refused_for_its_size(exg_diff_programs(&verified, &verified, &compare, &diff, &err), &err,
                         "exg_diff_options.size");
    exg_diff_free(&diff);
    exg_operators_destroy(operators);
    exg_program_destroy(program);
}

/* What frees takes what was never made. */
static void nothing_is_freed(void **state)
{
    exg_diagnostics diagnostics = {0};
    exg_mismatches mismatches = {0};
    exg_diff diff = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        exg_diagnostics_free(i == 0 ? NULL : &diagnostics);
        exg_mismatches_free(i == 0 ? NULL : &mismatches);
        exg_diff_free(i == 0 ? NULL : &diff);
    }
    exg_file_info_free(NULL);
    exg_tensor_file_close(NULL);
    exg_weights_release(NULL);
    exg_program_destroy(NULL);
    exg_builder_destroy(NULL);
    exg_operators_destroy(NULL);
    exg_arena_destroy(NULL);
}

static void refused_as_no_choice(exg_status status, const exg_error *err, const char *what)
{
    assert_int_equal(status, EXG_USAGE);
    assert_string_equal(err->code, "OPT-002");
    assert_non_null(strstr(err->message, what));
    assert_string_not_equal(err->fix, "");
}

/* Numbers that stand for nothing are not taken for the nearest thing. */
static void numbers_of_no_choice_are_refused(void **state)
{
    exg_save_options save = {.size = sizeof(save), .compression = (exg_compression)3};
    char text[EXG_DIGEST_TEXT_MAX];
    exg_program *program;
    exg_weights *made;
    exg_error err;

    (void)state;
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, &err), EXG_OK);
    refused_as_no_choice(exg_save(program, "/nowhere/x.exg", EXG_FORMAT_EXG, &save, &err), &err,
                         "exg_save_options.compression is 3");
    save.compression = EXG_COMPRESSION_KEEP;
    save.weights = (exg_placement_of_weights)99;
    refused_as_no_choice(exg_save(program, "/nowhere/x.exg", EXG_FORMAT_EXG, &save, &err), &err,
                         "exg_save_options.weights is 99");
    refused_as_no_choice(exg_weights_in_order(program->weights, (exg_byte_order)2, &made, &err),
                         &err, "the byte order is 2");
    assert_null(made);
    refused_as_no_choice(exg_weights_digest(program->weights, (exg_checksum_kind)99, 1, text, &err),
                         &err, "the kind of checksum is 99");
    exg_program_destroy(program);
}

static void numbers_of_nothing_have_no_name(void **state)
{
    static const int numbers[] = {-1, 99, INT_MAX, INT_MIN};

    (void)state;
    for (int i = 0; i < 4; i++) {
        int n = numbers[i];

        assert_string_equal(exg_status_name((exg_status)n), "?");
        assert_string_equal(exg_status_meaning((exg_status)n), "?");
        assert_int_equal(exg_status_exit_code((exg_status)n), 70);
        assert_string_equal(exg_format_name((exg_format)n), "?");
        assert_string_equal(exg_weights_format_name((exg_weights_format)n), "program");
        assert_string_equal(exg_layout_name((exg_layout)n), "?");
        assert_string_equal(exg_memory_format_name((exg_memory_format)n), "?");
        assert_string_equal(exg_severity_name((exg_severity)n), "?");
        assert_string_equal(exg_keeper_name((exg_keeper)n), "?");
        assert_string_equal(exg_argument_tag((exg_argument_kind)n), "?");
        assert_string_equal(exg_input_kind_name((exg_input_kind)n), "?");
        assert_string_equal(exg_output_kind_name((exg_output_kind)n), "?");
        assert_int_equal(exg_input_kind_number((exg_input_kind)n), 0);
        assert_int_equal(exg_output_kind_number((exg_output_kind)n), 0);
        assert_string_equal(exg_diff_room_name((exg_diff_room)n), "?");
        assert_string_equal(exg_diff_kind_name((exg_diff_kind)n), "?");
        assert_string_equal(exg_dtype_name((exg_dtype)n), "?");
        assert_string_equal(exg_dtype_numpy((exg_dtype)n), "");
        assert_int_equal(exg_dtype_bytes((exg_dtype)n), 0);
        assert_string_equal(exg_mismatch_text((exg_mismatch_kind)n), "?");
        assert_false(exg_mismatch_is_fault((exg_mismatch_kind)n));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_told),
        cmocka_unit_test(options_without_a_size_are_refused),
        cmocka_unit_test(nothing_is_freed),
        cmocka_unit_test(numbers_of_no_choice_are_refused),
        cmocka_unit_test(numbers_of_nothing_have_no_name),
        cmocka_unit_test(it_promotes_as_pytorch),
        cmocka_unit_test(it_names_everything),
        cmocka_unit_test(it_tells_faults),
        cmocka_unit_test(it_tells_what_is_true_of_a_code),
        cmocka_unit_test(it_reads_elements),
        cmocka_unit_test(it_knows_descriptions),
        cmocka_unit_test(it_binds_names_to_numbers),
        cmocka_unit_test(it_keeps_what_is_added),
        cmocka_unit_test(it_reads_where_nodes_come_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
