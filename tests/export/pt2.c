/* pt2.c - opening archives: what they say is in the program, and each broken rule of
 * the format (docs/pt2.md section 4) is refused under its own name.
 */
#include "libexport/formats/pt2/samples.h"
#include "tests/export/maker.h"

#include <exg/weights.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_program *open_file(const char *path, exg_file_info **info)
{
    exg_program *program = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_open(path, NULL, &program, info, &err) != EXG_OK) {
        fail_msg("%s: %s %s (%s)", path, err.code, err.message, err.where);
    }
    return program;
}

/* ---- what files of PyTorch hold ------------------------------------------------------- */

static void it_reads_files_of_every_generation_alike(void **state)
{
    static const struct {
        const char *path;
        const char *generation;
    } rows[] = {{"fixtures/mlp.pt2", "D"},
                {"fixtures/mlp.layout-2.8.pt2", "C"},
                {"fixtures/mlp.layout-2.2.pt2", "B"}};
    exg_program *first = NULL;

    (void)state;
    for (int r = 0; r < 3; r++) {
        exg_file_info *info = NULL;
        exg_program *program = open_file(rows[r].path, &info);
        char difference[256];

        assert_string_equal(info->generation, rows[r].generation);
        assert_int_equal(info->format, EXG_FORMAT_PT2);
        assert_int_equal(info->program_count, 1);
        assert_string_equal(info->program_names[0], "model");
        exg_file_info_free(info);
        assert_int_equal(program->graph->node_count, 3);
        assert_string_equal(program->graph->nodes[1].target, "torch.ops.aten.relu.default");
        assert_int_equal(program->weights->count, 4);
        assert_int_equal(program->sample_input_count, 1);
        assert_int_equal(program->sample_inputs[0].kind, EXG_ARGUMENT_TENSOR);
        if (first == NULL) {
            first = program;
        } else {
            if (!exg_program_equal(first, program, true, difference)) {
                fail_msg("%s: %s", rows[r].path, difference);
            }
            exg_program_destroy(program);
        }
    }
    exg_program_destroy(first);
}

static void it_keeps_meta_signature_and_calls(void **state)
{
    exg_program *p = open_file("fixtures/constants.pt2", NULL);
    const exg_value *x = &p->graph->values[exg_graph_find_value(p->graph, "x")];

    (void)state;
    assert_int_equal(p->schema_major, 8);
    assert_int_equal(p->schema_minor, 20);
    assert_string_equal(p->torch_version, "2.13.0+cpu");
    assert_string_equal(p->verifiers[0], "TRAINING");
    assert_string_equal(p->opsets[0].name_space, "aten");
    assert_int_equal(p->opsets[0].version, 10);
    assert_int_equal(x->tensor->dtype, EXG_DTYPE_F32);
    assert_int_equal(x->tensor->rank, 2);
    assert_int_equal(x->tensor->sizes[1].value, 3);
    assert_int_equal(x->tensor->strides[0].value, 3);
    assert_int_equal(x->tensor->layout, EXG_LAYOUT_STRIDED);
    assert_int_equal(x->tensor->device.index, -1);
    assert_int_equal(p->signature.inputs[0].kind, EXG_INPUT_PARAMETER);
    assert_string_equal(p->signature.inputs[0].target, "offset");
    assert_int_equal(p->signature.inputs[1].kind, EXG_INPUT_BUFFER);
    assert_int_equal(p->signature.inputs[1].persistent, EXG_FALSE);
    assert_int_equal(p->signature.inputs[2].kind, EXG_INPUT_CONSTANT_TENSOR);
    assert_int_equal(p->signature.inputs[6].arg.kind, EXG_ARGUMENT_INT);
    assert_string_equal(p->signature.inputs[6].arg.name, "repeat");
    assert_int_equal(p->signature.inputs[6].arg.as_int, 2);
    assert_int_equal(p->signature.inputs[9].arg.kind, EXG_ARGUMENT_STRING);
    assert_int_equal(p->signature.outputs[4].arg.kind, EXG_ARGUMENT_INT);
    assert_string_equal(p->signature.outputs[4].arg.name, "");
    assert_string_equal(p->module_calls[0].fqn, "");
    assert_true(p->module_calls[0].has_signature);
    assert_true(strncmp(p->module_calls[0].in_spec, "[1, {\"type\"", 11) == 0);
    assert_int_equal(p->sample_input_count, 5);
    assert_null(p->sample_inputs[0].keyword);
    exg_program_destroy(p);
}

static void it_reads_tied_and_viewed_weights(void **state)
{
    exg_program *p = open_file("fixtures/tied.pt2", NULL);
    const exg_weight *a = exg_weights_find(p->weights, EXG_TABLE_STATE, "encode.weight");
    const exg_weight *b = exg_weights_find(p->weights, EXG_TABLE_STATE, "decode.weight");

    (void)state;
    assert_true(a != NULL && b != NULL && a->storage == b->storage);
    assert_true(a->is_param && a->meta->requires_grad);
    exg_program_destroy(p);
    p = open_file("fixtures/views.pt2", NULL);
    for (uint32_t i = 0; i < p->weights->count; i++) {
        const exg_weight *w = &p->weights->items[i];
        uint64_t bytes;
        void *out;
        exg_error err;

        assert_int_equal(exg_tensor_meta_bytes(w->meta, &bytes, &err), EXG_OK);
        out = malloc(bytes + 1);
        assert_int_equal(exg_weight_read(p->weights, w, out, bytes, &err), EXG_OK);
        free(out);
        assert_int_equal(exg_storage_check(p->weights, w->storage, &err), EXG_OK);
    }
    exg_program_destroy(p);
}

static void it_reads_subgraphs_with_scopes_of_their_own(void **state)
{
    exg_program *p = open_file("tests/export/data/control.pt2", NULL);
    const exg_graph *sub = NULL;

    (void)state;
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        const exg_node *node = &p->graph->nodes[n];

        if (strcmp(node->target, "torch.ops.higher_order.while_loop") == 0) {
            assert_int_equal(node->inputs[0].arg.kind, EXG_ARGUMENT_GRAPH);
            sub = node->inputs[0].arg.as_graph->graph;
            assert_string_equal(node->inputs[0].arg.as_graph->name, "while_loop_cond_graph_0");
            assert_int_equal(node->inputs[3].arg.kind, EXG_ARGUMENT_TENSORS);
            assert_int_equal(node->inputs[3].arg.count, 0);
            assert_int_equal(node->is_hop_single_tensor_return, EXG_FALSE);
        }
    }
    assert_non_null(sub);
    assert_true(sub->is_single_tensor_return);
    assert_int_equal(sub->input_count, 2);
    assert_true(sub->value_count < p->graph->value_count);
    assert_string_equal(sub->values[sub->inputs[0].as_tensor].name, "arg0_1");
    exg_program_destroy(p);
}

static void it_reads_every_kind_of_argument(void **state)
{
    exg_program *p = open_file("tests/export/data/kinds.pt2", NULL);
    const exg_node *node = NULL;
    static const exg_argument_kind kinds[] = {
        EXG_ARGUMENT_TENSORS,       EXG_ARGUMENT_OPTIONAL_TENSORS,
        EXG_ARGUMENT_FLOATS,        EXG_ARGUMENT_STRINGS,
        EXG_ARGUMENT_BOOLS,         EXG_ARGUMENT_COMPLEX,
        EXG_ARGUMENT_DEVICE,        EXG_ARGUMENT_LAYOUT,
        EXG_ARGUMENT_MEMORY_FORMAT, EXG_ARGUMENT_SCALAR_TYPE,
        EXG_ARGUMENT_STRING,        EXG_ARGUMENT_FLOAT,
        EXG_ARGUMENT_INTS};

    (void)state;
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        if (strcmp(p->graph->nodes[n].target, "torch.ops.exgtest.kinds.default") == 0) {
            node = &p->graph->nodes[n];
        }
    }
    assert_non_null(node);
    assert_int_equal(node->input_count, 13);
    for (uint32_t i = 0; i < 13; i++) {
        assert_int_equal(node->inputs[i].arg.kind, kinds[i]);
    }
    assert_int_equal(node->inputs[1].arg.as_tensors[0], EXG_NO_VALUE);
    assert_true(node->inputs[2].arg.as_floats[0] == 0.1);
    assert_true(node->inputs[2].arg.as_floats[1] == __builtin_inf());
    assert_string_equal(node->inputs[3].arg.as_strings[0], "it's");
    assert_true(node->inputs[5].arg.as_complex.imag == -2);
    assert_int_equal(node->inputs[8].arg.as_memory_format, EXG_MEMORY_FORMAT_CHANNELS_LAST);
    assert_int_equal(node->inputs[9].arg.as_scalar_type, EXG_DTYPE_BF16);
    assert_string_equal(node->inputs[10].arg.as_string, "caf\xc3\xa9");
    assert_true(node->inputs[11].arg.as_float != node->inputs[11].arg.as_float);
    assert_true(node->inputs[12].arg.as_ints[1] == INT64_MIN);
    assert_true(node->inputs[12].arg.as_ints[2] == INT64_MAX);
    assert_int_equal(node->output_count, 3);
    assert_int_equal(node->outputs[1].kind, EXG_ARGUMENT_TENSORS);
    assert_int_equal(node->outputs[2].kind, EXG_ARGUMENT_NONE);
    exg_program_destroy(p);
}

static void it_reads_symbols_and_ranges(void **state)
{
    exg_program *p = open_file("tests/export/data/symbols.pt2", NULL);
    const exg_value *x = &p->graph->values[exg_graph_find_value(p->graph, "x")];

    (void)state;
    assert_string_equal(x->tensor->sizes[0].expr, "Symbol('s77', positive=True, integer=True)");
    assert_true(x->tensor->sizes[0].has_hint);
    assert_int_equal(x->tensor->sizes[0].value, 3);
    assert_null(x->tensor->sizes[1].expr);
    assert_true(p->range_constraint_count >= 2);
    for (uint32_t i = 0; i < p->range_constraint_count; i++) {
        if (strcmp(p->range_constraints[i].symbol, "s77") == 0) {
            assert_int_equal(p->range_constraints[i].min_val, 2);
            assert_int_equal(p->range_constraints[i].max_val, 64);
        }
    }
    assert_int_equal(p->sample_input_count, 7);
    assert_int_equal(p->sample_inputs[3].kind, EXG_ARGUMENT_BOOL);
    assert_true(p->sample_inputs[4].as_float == 1.5);
    assert_string_equal(p->sample_inputs[5].as_string, "a");
    assert_int_equal(p->sample_inputs[6].kind, EXG_ARGUMENT_NONE);
    exg_program_destroy(p);
}

static void it_reads_example_inputs_of_protocol_4(void **state)
{
    exg_program *p = open_file("tests/export/data/protocol4.pt2", NULL);
    const exg_tensor_meta *meta;
    float values[6];

    (void)state;
    assert_int_equal(p->sample_input_count, 1);
    meta = p->sample_inputs[0].meta;
    assert_int_equal(meta->sizes[0].value, 3);
    assert_int_equal(meta->strides[0].value, 1);
    assert_int_equal(meta->strides[1].value, 3);
    assert_string_equal(meta->device.type, "cpu");
    assert_int_equal(exg_storage_read(p->weights, p->sample_inputs[0].storage, 0, 24, values, NULL),
                     EXG_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(values[i] == (float)i);
    }
    exg_program_destroy(p);
}

static exg_samples_form form_of_record(const char *program)
{
    exg_program *p = open_file(program, NULL);
    exg_samples_form form = EXG_SAMPLES_UNREAD;
    const uint8_t *data;

    for (uint32_t i = 0; i < p->extra_file_count; i++) {
        uint32_t storage = p->extra_files[i].storage;

        if (strncmp(p->extra_files[i].name, "data/sample_inputs/", 19) == 0) {
            assert_int_equal(exg_storage_map(p->weights, storage, &data, NULL), EXG_OK);
            form = exg_samples_form_of(data, p->weights->storages[storage].length);
        }
    }
    exg_program_destroy(p);
    return form;
}

static void it_tells_calls_from_other_records(void **state)
{
    static const uint8_t no_pickle[] = "nothing";
    static uint8_t state_dict[65536];
    FILE *file = fopen("fixtures/weights/no_crc.pt", "rb");
    size_t length;

    assert_non_null(file);
    length = fread(state_dict, 1, sizeof(state_dict), file);
    assert_int_equal(fclose(file), 0);
    (void)state;
    assert_int_equal(form_of_record("tests/export/data/protocol4.pt2"), EXG_SAMPLES_CALL);
    assert_int_equal(exg_samples_form_of(state_dict, length), EXG_SAMPLES_OTHER);
    assert_int_equal(exg_samples_form_of(no_pickle, sizeof(no_pickle)), EXG_SAMPLES_UNREAD);
}

static void it_checks_all_bytes_when_asked(void **state)
{
    exg_open_options options = {.size = sizeof(options), .check_crc = true};
    zip_maker zip = {0};
    exg_program *program = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_open("fixtures/views.pt2", &options, &program, NULL, &err), EXG_OK);
    exg_program_destroy(program);
    make_program(&zip, NULL, 0);
    zip.out.data[30 + strlen("m/data/weights/weight_0")] ^= 1;
    assert_int_equal(exg_open_memory(zip.out.data, zip.out.length, &options, &program, NULL, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "ARC-012");
    assert_int_equal(exg_open_memory(zip.out.data, zip.out.length, NULL, &program, NULL, &err),
                     EXG_OK);
    assert_int_equal(exg_storage_check(program->weights, 0, &err), EXG_MALFORMED);
    exg_program_destroy(program);
    zip_free(&zip);
}

static void it_keeps_records_it_does_not_know(void **state)
{
    const record extra = {"extra/note.txt", "hello", 5};
    zip_maker zip = {0};
    exg_program *p;
    char text[5];

    (void)state;
    make_program(&zip, &extra, 1);
    p = open_copy(zip.out.data, zip.out.length, NULL);
    assert_non_null(p);
    assert_int_equal(p->extra_file_count, 1);
    assert_string_equal(p->extra_files[0].name, "extra/note.txt");
    assert_int_equal(exg_storage_read(p->weights, p->extra_files[0].storage, 0, 5, text, NULL),
                     EXG_OK);
    assert_memory_equal(text, "hello", 5);
    exg_program_destroy(p);
    zip_free(&zip);
}

static void it_chooses_a_program_by_name(void **state)
{
    const record second[] = {
        {"models/b.json", program_json(NULL, NULL), SIZE_MAX},
        {"data/weights/b_weights_config.json", "{\"config\": {}}", SIZE_MAX},
        {"data/constants/b_constants_config.json", "{\"config\": {}}", SIZE_MAX},
        {"data/sample_inputs/b.pt", "", 0},
    };
    exg_open_options options = {.size = sizeof(options)};
    zip_maker zip = {0};
    exg_program *p = NULL;
    exg_file_info *info = NULL;
    exg_error err;

    (void)state;
    make_program(&zip, second, 4);
    assert_int_equal(exg_open_memory(zip.out.data, zip.out.length, NULL, &p, &info, &err), EXG_OK);
    assert_string_equal(p->name, "model");
    assert_int_equal(info->program_count, 2);
    exg_file_info_free(info);
    exg_program_destroy(p);
    options.program = "b";
    assert_int_equal(exg_open_memory(zip.out.data, zip.out.length, &options, &p, NULL, &err),
                     EXG_OK);
    assert_string_equal(p->name, "b");
    assert_int_equal(p->weights->count, 0);
    exg_program_destroy(p);
    options.program = "c";
    assert_int_equal(exg_open_memory(zip.out.data, zip.out.length, &options, &p, NULL, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "ARC-008");
    assert_null(p);
    zip_free(&zip);
}

/* ---- rules -------------------------------------------------------------------------------- */

static void broken(const char *record_name, const char *data, exg_status status, const char *code)
{
    const record change = {record_name, data, data == NULL ? 0 : SIZE_MAX};
    zip_maker zip = {0};

    make_program(&zip, &change, 1);
    expect_refused(&zip, status, code);
}

static void it_refuses_archives_that_break_a_rule(void **state)
{
    static const struct {
        const char *name;
        const char *data;
        const char *code;
    } rows[] = {
        {".data/version", "0", "ARC-002"},
        {".data/version", "11", "ARC-002"},
        {".data/version", "x", "ARC-002"},
        {".data/version", NULL, "ARC-002"},
        {"archive_format", "pt3", "ARC-003"},
        {"archive_format", "pt2\n", "ARC-003"},
        {"archive_format", NULL, "ARC-003"},
        {"archive_version", "1", "ARC-004"},
        {"archive_version", NULL, "ARC-004"},
        {"models/readme.txt", "x", "ARC-005"},
        {"data/weights/model_weights_config.json", NULL, "ARC-006"},
        {"data/constants/model_constants_config.json", NULL, "ARC-006"},
        {"data/sample_inputs/model.pt", NULL, "ARC-007"},
        {"byteorder", "middle", "ARC-011"},
        {"data/weights/model.pt", "x", "ARC-015"},
        {"data/weights/weight_0", NULL, "WGT-001"},
        {"data/weights/weight_0", "123456789", "WGT-003"},
        {"data/weights/weight_0", "1234", "WGT-005"},
        {"data/sample_inputs/model.pt", "PK\003\004", "ZIP-END"},
        {"models/model.json", "{", "JSN-001"},
        {"models/model.json", "[]", "JSN-002"},
        {"models/model.json", "{}", "JSN-002"},
    };
    zip_maker zip = {0};
    const record only = {"data/aotinductor/model/x.so", "x", 1};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        broken(rows[r].name, rows[r].data, EXG_MALFORMED, rows[r].code);
    }
    zip_add(&zip, "m/a", "", 0);
    zip_add(&zip, "n/b", "", 0);
    zip_finish(&zip);
    expect_refused(&zip, EXG_MALFORMED, "ARC-001");
    zip_add(&zip, "a", "", 0);
    zip_finish(&zip);
    expect_refused(&zip, EXG_MALFORMED, "ARC-001");
    zip_finish(&zip);
    expect_refused(&zip, EXG_MALFORMED, "ARC-001");
    zip_add(&zip, "m/data/aotinductor/model/x.so", only.data, 1);
    zip_finish(&zip);
    expect_refused(&zip, EXG_UNSUPPORTED, "ARC-005");
    zip_add(&zip, "m/data.pkl", "", 0);
    zip_finish(&zip);
    expect_refused(&zip, EXG_UNSUPPORTED, "ARC-005");
}

static void it_refuses_programs_that_break_a_rule(void **state)
{
    static const struct {
        const char *from;
        const char *to;
        const char *code;
        const char *where; /* NULL: not compared */
    } rows[] = {
        {"\"inputs\": [{\"as_tensor\"", "\"inputs\": [{\"as_tenzor\"", "JSN-003",
         "model.graph_module.graph.inputs[0]"},
        {"{\"as_tensor\": {\"name\": \"p_w\"}}", "{}", "JSN-003",
         "model.graph_module.graph.inputs[0]"},
        {"{\"as_tensor\": {\"name\": \"p_w\"}}", "{\"as_none\": true, \"as_int\": 1}", "JSN-003",
         NULL},
        {"{\"as_tensor\": {\"name\": \"p_w\"}}", "{\"as_tensor\": {}}", "JSN-002",
         "model.graph_module.graph.inputs[0].as_tensor"},
        {"{\"as_tensor\": {\"name\": \"p_w\"}}", "{\"as_tensor\": {\"name\": 1}}", "JSN-002",
         "model.graph_module.graph.inputs[0].as_tensor.name"},
        {"{\"as_tensor\": {\"name\": \"p_w\"}}", "{\"as_tensor\": {\"name\": \"a\\u0000\"}}",
         "JSN-001", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_int\": 1.0}, \"kind\": 2", "JSN-002",
         "model.graph_module.graph.nodes[0].inputs[2].arg.as_int"},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_int\": 9223372036854775808}, \"kind\": 2",
         "JSN-006", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_float\": 1}, \"kind\": 2", "JSN-002", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_float\": \"x\"}, \"kind\": 2", "JSN-002", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_scalar_type\": 0}, \"kind\": 2", "JSN-004", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_scalar_type\": 14}, \"kind\": 2", "JSN-004", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_memory_format\": 0}, \"kind\": 2", "JSN-004", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_layout\": 8}, \"kind\": 2", "JSN-004", NULL},
        {"\"dtype\": 7", "\"dtype\": 99", "JSN-004",
         "model.graph_module.graph.tensor_values['p_w'].dtype"},
        {"\"sizes\": [{\"as_int\": 2}]", "\"sizes\": []", "WGT-011", NULL},
        {"\"sizes\": [{\"as_int\": 2}]", "\"sizes\": [2.0]", "JSN-002", NULL},
        {"\"sizes\": [{\"as_int\": 2}]",
         "\"sizes\": [{\"as_expr\": {\"expr_str\": \"s0\", \"hint\": {\"as_float\": 1.0}}}]",
         "SYM-002", NULL},
        {"\"sizes\": [{\"as_int\": 2}]",
         "\"sizes\": [{\"as_expr\": {\"expr_str\": \"s0\", \"hint\": 1}}]", "JSN-002", NULL},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_none\": {}}, \"kind\": 2", "JSN-002",
         "model.graph_module.graph.nodes[0].inputs[2].arg.as_none"},
        {"\"metadata\": {}", "\"metadata\": {\"a\": \"1\", \"a\": \"2\"}", "JSN-001", NULL},
        {"\"metadata\": {}", "\"metadata\": []", "JSN-002", NULL},
        {"\"name\": \"add\"}]", "\"name\": \"add\", \"name\": \"add\"}]", "JSN-001", NULL},
        {"\"name\": \"add\"}]", "\"name\": \"add\", \"new\": {\"a\": 1, \"a\": 2}}]", "JSN-001",
         NULL},
        {"\"x\": {", "\"p_w\": {", "JSN-001", NULL},
        {"\"target\": \"torch", "\"tarjet\": \"torch", "JSN-002",
         "model.graph_module.graph.nodes[0]"},
        {"{\"user_input\"", "{\"user_imput\"", "JSN-003",
         "model.graph_module.signature.input_specs[1]"},
        {"\"parameter_name\": \"w\"", "\"p\": \"w\"", "JSN-002", NULL},
        {"\"major\": 8", "\"major\": 8.0", "JSN-002", NULL},
        {"\"min_val\": 0, ", "", "JSN-002", NULL},
        {"\"min_val\": 0", "\"min_val\": \"0\"", "JSN-002", NULL},
        {"\"opset_version\"", "\"opset\"", "JSN-002", NULL},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const record change = {"models/model.json", program_json(rows[r].from, rows[r].to),
                               SIZE_MAX};
        zip_maker zip = {0};
        exg_error err;

        make_program(&zip, &change, 1);
        assert_null(open_copy(zip.out.data, zip.out.length, &err));
        if (err.status != EXG_MALFORMED || strcmp(err.code, rows[r].code) != 0 ||
            (rows[r].where != NULL && strcmp(err.where, rows[r].where) != 0)) {
            fail_msg("row %zu (%s): %s %s at %s", r, rows[r].to, err.code, err.message, err.where);
        }
        assert_true(err.offset != EXG_NO_OFFSET);
        zip_free(&zip);
    }
}

static void it_names_both_versions_when_the_schema_is_another(void **state)
{
    static const char *const others[] = {"\"schema_version\": {\"major\": 9, \"minor\": 1}",
                                         "\"schema_version\": {\"major\": 7, \"minor\": 4}",
                                         "\"schema_version\": 1",
                                         "\"schema_version\": {\"major\": 8, \"minor\": -3}",
                                         "\"schema_version\": {\"major\": -8, \"minor\": 20}"};
    zip_maker zip = {0};
    exg_program *p;

    (void)state;
    for (int i = 0; i < 5; i++) {
        const record change = {
            "models/model.json",
            program_json("\"schema_version\": {\"major\": 8, \"minor\": 20}", others[i]), SIZE_MAX};
        exg_error err;

        make_program(&zip, &change, 1);
        assert_null(open_copy(zip.out.data, zip.out.length, &err));
        assert_int_equal(err.status, i < 3 ? EXG_UNSUPPORTED : EXG_MALFORMED);
        assert_string_equal(err.code, "JSN-005");
        assert_non_null(strstr(err.message, i == 3 ? "8.-3" : "8.20"));
        assert_true(i >= 3 || err.fix[0] != '\0');
        zip_free(&zip);
    }
    for (int i = 0; i < 2; i++) { /* a newer minor, and the version that skips the check */
        const record change = {
            "models/model.json",
            program_json("\"schema_version\": {\"major\": 8, \"minor\": 20}",
                         i == 0 ? "\"schema_version\": {\"major\": 8, \"minor\": 99}"
                                : "\"schema_version\": {\"major\": 0, \"minor\": 0}"),
            SIZE_MAX};

        make_program(&zip, &change, 1);
        p = open_copy(zip.out.data, zip.out.length, NULL);
        assert_non_null(p);
        exg_program_destroy(p);
        zip_free(&zip);
    }
}

static void it_refuses_weights_that_break_a_rule(void **state)
{
    static const struct {
        const char *from;
        const char *to;
        const char *code;
    } rows[] = {
        {"\"weight_0\"", "\"../weight_0\"", "WGT-001"},
        {"\"weight_0\"", "\"weight_1\"", "WGT-001"},
        {"\"weight_0\"", "\"\"", "WGT-001"},
        {"{\"as_int\": 2}", "{\"as_int\": 3}", "WGT-005"},
        {"{\"as_int\": 2}", "{\"as_int\": -1}", "WGT-011"},
        {"{\"as_int\": 2}", "{\"as_int\": 9223372036854775807}", "WGT-005"},
        {"\"strides\": [{\"as_int\": 1}]", "\"strides\": [{\"as_int\": -1}]", "WGT-011"},
        {"\"strides\": [{\"as_int\": 1}]", "\"strides\": [{\"as_int\": 9223372036854775807}]",
         "WGT-005"},
        {"\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": 1}", "WGT-005"},
        {"\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": -1}", "WGT-011"},
        {"{\"as_int\": 2}", "{\"as_expr\": {\"expr_str\": \"s0\", \"hint\": null}}", "WGT-002"},
        {"\"config\"", "\"konfig\"", "JSN-002"},
        {"\"is_param\": true, ", "", "JSN-002"},
    };
    zip_maker zip = {0};
    char text[2048];

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        broken("data/weights/model_weights_config.json", weights_json(rows[r].from, rows[r].to),
               EXG_MALFORMED, rows[r].code);
    }
    snprintf(text, sizeof(text), "%s",
             weights_json("\"path_name\": \"weight_0\"", "\"path_name\": \"weight_9\""));
    broken("data/constants/model_constants_config.json", text, EXG_MALFORMED, "WGT-006");
    broken("data/weights/model_weights_config.json",
           "{\"config\": {\"w\": {\"path_name\": \"weight_0\", \"is_param\": true, "
           "\"use_pickle\": false, \"tensor_meta\": null}}}",
           EXG_MALFORMED, "WGT-002");
    {
        const char *one = weights_json(NULL, NULL);
        const char *meta = strstr(one, "{\"path_name\"");

        snprintf(text, sizeof(text), "%.*s, \"v\": %.*s}}", (int)(strlen(one) - 2), one,
                 (int)(strlen(meta) - 2), meta);
        memcpy(strstr(strstr(text, "\"v\""), "\"dtype\": 7"), "\"dtype\": 4", 10);
        broken("data/weights/model_weights_config.json", text, EXG_MALFORMED, "WGT-004");
    }
    (void)zip;
}

static void it_keeps_objects_raw_and_marked(void **state)
{
    const record changes[] = {
        {"data/constants/model_constants_config.json",
         "{\"config\": {\"o\": {\"path_name\": \"custom_obj_0\", \"is_param\": false, "
         "\"use_pickle\": false, \"tensor_meta\": null}}}",
         SIZE_MAX},
        {"data/constants/custom_obj_0", "cos\nsystem\n.", SIZE_MAX},
    };
    zip_maker zip = {0};
    exg_program *p;
    const exg_weight *o;
    char raw[12];

    (void)state;
    make_program(&zip, changes, 2);
    p = open_copy(zip.out.data, zip.out.length, NULL);
    assert_non_null(p);
    o = exg_weights_find(p->weights, EXG_TABLE_CONSTANTS, "o");
    assert_non_null(o);
    assert_true(o->use_pickle && o->meta == NULL);
    assert_int_equal(exg_storage_read(p->weights, o->storage, 0, 12, raw, NULL), EXG_OK);
    assert_memory_equal(raw, "cos\nsystem\n.", 12);
    assert_int_equal(exg_weight_read(p->weights, o, raw, 12, NULL), EXG_USAGE);
    exg_program_destroy(p);
    zip_free(&zip);
}

static void it_accepts_what_pytorch_accepts(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } rows[] = {
        {", \"is_hop_single_tensor_return\": null, \"name\": \"add\"", ""},
        {", \"kind\": 2", ", \"kind\": 7"},
        {", \"kind\": 2", ", \"kind\": null"},
        {", \"index\": null", ""},
        {"\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": 0"},
        {", \"is_single_tensor_return\": false, \"custom_obj_values\": {}, \"sym_float_values\": "
         "{}",
         ""},
        {", \"verifiers\": [\"ATEN\"], \"torch_version\": \"2.13.0\", \"guards_code\": []", ""},
        {"\"name\": \"add\"}]", "\"name\": \"add\", \"unknown\": {\"a\": [1, {}]}}]"},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_none\": []}, \"kind\": 2"},
        {"{\"as_int\": 1}, \"kind\": 2", "{\"as_floats\": [NaN, \"Infinity\"]}, \"kind\": 2"},
        {"{\"as_int\": 1}, \"kind\": 2",
         "{\"as_string_to_argument\": {\"k\": {\"as_int_lists\": [[1], []]}}}, \"kind\": 2"},
        {"{\"as_int\": 1}, \"kind\": 2",
         "{\"as_optional_tensors\": [{\"as_tensor\": \"x\"}, {\"as_none\": true}]}, \"kind\": 2"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const record change = {"models/model.json", program_json(rows[r].from, rows[r].to),
                               SIZE_MAX};
        zip_maker zip = {0};
        exg_error err;
        exg_program *p;

        make_program(&zip, &change, 1);
        p = open_copy(zip.out.data, zip.out.length, &err);
        if (p == NULL) {
            fail_msg("row %zu (%s): %s %s at %s", r, rows[r].to, err.code, err.message, err.where);
        }
        exg_program_destroy(p);
        zip_free(&zip);
    }
}

static void it_reads_big_endian_weights(void **state)
{
    const record changes[] = {{"byteorder", "big", 3},
                              {"data/weights/weight_0", "\x3f\x80\0\0\x40\0\0\0", 8}};
    zip_maker zip = {0};
    exg_program *p;
    float values[2];
    const uint8_t *data;

    (void)state;
    make_program(&zip, changes, 2);
    p = open_copy(zip.out.data, zip.out.length, NULL);
    assert_non_null(p);
    assert_int_equal(p->weights->storages[0].byte_order, EXG_BIG_ENDIAN);
    assert_int_equal(exg_storage_map(p->weights, 0, &data, NULL), EXG_OK);
    assert_null(data);
    assert_int_equal(exg_weight_read(p->weights, &p->weights->items[0], values, 8, NULL), EXG_OK);
    assert_true(values[0] == 1 && values[1] == 2);
    exg_program_destroy(p);
    zip_free(&zip);
}

/* ---- everything broken ---------------------------------------------------------------------- */

static void it_refuses_every_prefix(void **state)
{
    zip_maker zip = {0};

    (void)state;
    make_program(&zip, NULL, 0);
    for (size_t n = 0; n < zip.out.length; n++) {
        assert_null(open_copy(zip.out.data, n, NULL));
    }
    zip_free(&zip);
}

static void it_stays_inside_for_every_flipped_byte(void **state)
{
    zip_maker zip = {0};

    (void)state;
    make_program(&zip, NULL, 0);
    for (size_t at = 0; at < zip.out.length; at++) {
        char before = zip.out.data[at];
        exg_program *p;

        zip.out.data[at] = (char)(before ^ (at % 2 == 0 ? 0x01 : 0x80));
        p = open_copy(zip.out.data, zip.out.length, NULL);
        zip.out.data[at] = before;
        exg_program_destroy(p);
    }
    zip_free(&zip);
}

static void it_fails_cleanly_at_every_memory_budget(void **state)
{
    exg_open_options options = {.size = sizeof(options)};
    zip_maker zip = {0};
    exg_program *p = NULL;
    exg_status status = EXG_LIMIT;

    (void)state;
    make_program(&zip, NULL, 0);
    for (uint64_t budget = 64; status != EXG_OK; budget += 61) {
        exg_error err;

        options.memory_budget = budget;
        status = exg_open_memory(zip.out.data, zip.out.length, &options, &p, NULL, &err);
        assert_true(status == EXG_OK || status == EXG_LIMIT);
        if (status == EXG_LIMIT && strcmp(err.code, "ZIP-LIMIT") != 0) {
            unsigned long long given = 0, needed = 0;

            assert_string_equal(err.code, "MEM-002");
            assert_int_equal(sscanf(err.message,
                                    "more than the memory budget of %llu bytes is "
                                    "needed, at least %llu",
                                    &given, &needed),
                             2);
            assert_int_equal(given, budget);
            assert_true(needed > given);
        }
        assert_true(budget < 1 << 20);
    }
    exg_program_destroy(p);
    zip_free(&zip);
}

static void it_says_what_a_file_is_when_it_is_no_program(void **state)
{
    exg_program *p = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_open("no/such/file", NULL, &p, NULL, &err), EXG_IO);
    assert_null(p);
    assert_int_equal(exg_open("fixtures", NULL, &p, NULL, &err), EXG_UNSUPPORTED);
    assert_int_equal(exg_open("fixtures/weights/external.onnx.data", NULL, &p, NULL, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "FMT-UNKNOWN");
    assert_int_equal(exg_open_memory("", 0, NULL, &p, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "FMT-EMPTY");
    assert_int_equal(exg_format_from_path("a.PT2"), EXG_FORMAT_PT2);
    assert_int_equal(exg_format_from_path("a.txt"), EXG_FORMAT_COUNT);
    assert_int_equal(exg_format_from_name("exg"), EXG_FORMAT_EXG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_files_of_every_generation_alike),
        cmocka_unit_test(it_keeps_meta_signature_and_calls),
        cmocka_unit_test(it_reads_tied_and_viewed_weights),
        cmocka_unit_test(it_reads_subgraphs_with_scopes_of_their_own),
        cmocka_unit_test(it_reads_every_kind_of_argument),
        cmocka_unit_test(it_reads_symbols_and_ranges),
        cmocka_unit_test(it_reads_example_inputs_of_protocol_4),
        cmocka_unit_test(it_tells_calls_from_other_records),
        cmocka_unit_test(it_checks_all_bytes_when_asked),
        cmocka_unit_test(it_keeps_records_it_does_not_know),
        cmocka_unit_test(it_chooses_a_program_by_name),
        cmocka_unit_test(it_refuses_archives_that_break_a_rule),
        cmocka_unit_test(it_refuses_programs_that_break_a_rule),
        cmocka_unit_test(it_names_both_versions_when_the_schema_is_another),
        cmocka_unit_test(it_refuses_weights_that_break_a_rule),
        cmocka_unit_test(it_keeps_objects_raw_and_marked),
        cmocka_unit_test(it_accepts_what_pytorch_accepts),
        cmocka_unit_test(it_reads_big_endian_weights),
        cmocka_unit_test(it_refuses_every_prefix),
        cmocka_unit_test(it_stays_inside_for_every_flipped_byte),
        cmocka_unit_test(it_fails_cleanly_at_every_memory_budget),
        cmocka_unit_test(it_says_what_a_file_is_when_it_is_no_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
