/* rules.c - every row of rule.def has a file that breaks it and no other rule. */
#include "tests/export/verify/findings.h"

#include <exg/emit.h>
#include <exg/formats.h>
#include <exg/verify.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_operators *operators;

static void list(const exg_diagnostics *found)
{
    for (uint32_t i = 0; i < found->count; i++) {
        print_message("    %s %s: %s\n", found->items[i].code, found->items[i].where,
                      found->items[i].message);
    }
}

/* Warnings that an error brings along: a name that is wrong takes a use from another value. */
static bool follows(const exg_rule *r, const char *code)
{
    return r->severity == EXG_SEVERITY_ERROR &&
           (strcmp(code, "VAL-012") == 0 || strcmp(code, "SIG-027") == 0);
}

static bool only(const exg_diagnostics *found, const exg_rule *r)
{
    bool fine = found->count > 0;
    uint32_t own = 0;

    for (uint32_t i = 0; i < found->count; i++) {
        const exg_diagnostic *d = &found->items[i];

        fine = fine && (strcmp(d->code, r->code) == 0 || follows(r, d->code)) &&
               strchr(d->message, ' ') != NULL && d->where[0] != '\0'; /* words, no name alone */
        own += strcmp(d->code, r->code) == 0 && d->severity == r->severity;
    }
    return fine && own > 0;
}

/* Of a file of weights: what the rule asks for is asked for, of a file that has nothing else. */
static bool check_weights_rule(const exg_rule *r)
{
    exg_weights_verify_options options = {.size = sizeof(options), .values = true};
    exg_weights *weights = NULL;
    exg_diagnostics found = {0};
    exg_status status;
    exg_error err;
    char path[64];
    bool fine;

    exg_error_clear(&err);
    snprintf(path, sizeof(path), "fixtures/bad/%s.safetensors", r->code);
    status = exg_weights_open(path, NULL, &weights, NULL, &err);
    if (status == EXG_OK && (strcmp(r->code, "WGT-017") == 0 || strcmp(r->code, "WGT-018") == 0)) {
        status = exg_weights_open("fixtures/mlp.pt2", NULL, &options.needed, NULL, &err);
    }
    options.digest = strcmp(r->code, "WGT-024") == 0
                         ? "sha256:0000000000000000000000000000000000000000000000000000000000000000"
                         : NULL;
    if (status == EXG_OK) {
        status = exg_weights_verify(weights, &options, &found, &err);
    }
    fine = status == (r->severity == EXG_SEVERITY_ERROR ? EXG_MALFORMED : EXG_OK) &&
           only(&found, r) && (status == EXG_OK || strcmp(err.code, r->code) == 0);
    if (!fine) {
        print_message("  %s: status %s %s\n", r->code, exg_status_name(status), err.message);
        list(&found);
    }
    exg_diagnostics_free(&found);
    exg_weights_release(options.needed);
    exg_weights_release(weights);
    return fine;
}

/* Opening refuses the file with the rule's code, or takes it and a later room finds
 * that code and no other. */
static bool check_rule(const exg_rule *r)
{
    exg_status expected = r->severity == EXG_SEVERITY_ERROR ? EXG_MALFORMED : EXG_OK;
    exg_program *program = NULL;
    exg_verified verified;
    exg_diagnostics found;
    exg_status status;
    exg_file_info *info = NULL;
    exg_error err;
    char path[64];
    bool fine;

    snprintf(path, sizeof(path), "fixtures/bad/%s.pt2", r->code);
    if (access(path, F_OK) != 0) { /* what .pt2 cannot say, wrongly carried */
        snprintf(path, sizeof(path), "fixtures/bad/%s.json", r->code);
    }
    status = exg_open(path, NULL, &program, &info, &err);
    if (r->keeper == EXG_KEEPER_OPENING || status != EXG_OK) {
        fine = status != EXG_OK && status != EXG_IO && strcmp(err.code, r->code) == 0 &&
               err.message[0] != '\0' && r->keeper == EXG_KEEPER_OPENING;
        if (!fine) {
            print_message("  %s: %s: %s %s\n", path, exg_status_name(status), err.code,
                          err.message);
        }
        exg_program_destroy(status == EXG_OK ? program : NULL);
        exg_file_info_free(info);
        return fine;
    }
    status = exg_verify(program, operators, &verified, &found, &err);
    if (r->keeper == EXG_KEEPER_DATA) {
        status = exg_verify_data(program, &found, NULL, &err);
    }
    if (r->keeper == EXG_KEEPER_FILE) { /* of the name nothing is broken in a file */
        status = exg_verify_file(program, strcmp(r->code, "ARC-013") == 0 ? "model.zip" : path,
                                 info, &found, &err);
    }
    fine =
        status == expected && only(&found, r) &&
        (verified.program == NULL) == (expected != EXG_OK && r->keeper == EXG_KEEPER_VERIFYING) &&
        (found.error_count == 0) == (expected == EXG_OK) &&
        (status == EXG_OK || (strcmp(err.code, r->code) == 0 && err.where[0] != '\0'));
    if (!fine) {
        print_message("  %s: status %s\n", r->code, exg_status_name(status));
        list(&found);
    }
    exg_diagnostics_free(&found);
    exg_file_info_free(info);
    exg_program_destroy(program);
    return fine;
}

/* S004-40, S004-43, S004-44, S004-46, S004-47, S004-48, S004-67: NOD-013, SIG-005 to SIG-009, -012,
 * -013, -001 to -003, -021, -030. */
static void every_rule_finds_its_file_and_that_alone(void **state)
{
    int faults = 0;

    (void)state;
    for (uint32_t i = 0; i < exg_rule_count(); i++) {
        const exg_rule *rule = exg_rule_at(i);

        faults += rule->keeper == EXG_KEEPER_NOTHING   ? 0
                  : rule->keeper == EXG_KEEPER_WEIGHTS ? !check_weights_rule(rule)
                                                       : !check_rule(rule);
    }
    assert_int_equal(faults, 0);
}

static void files_of_pytorch_break_no_rule(void **state)
{
    DIR *folder = opendir("fixtures");
    struct dirent *entry;
    int files = 0;
    int faults = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);
        exg_program *program;
        exg_verified verified;
        exg_diagnostics found;
        char path[300];
        exg_error err;

        if (length < 4 || strcmp(entry->d_name + length - 4, ".pt2") != 0) {
            continue;
        }
        snprintf(path, sizeof(path), "fixtures/%s", entry->d_name);
        files++;
        if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
            print_message("  %s: %s %s\n", path, err.code, err.message);
            faults++;
            continue;
        }
        if (exg_verify(program, operators, &verified, &found, &err) != EXG_OK) {
            print_message("  %s\n", path);
            list(&found);
            faults++;
        }
        exg_diagnostics_free(&found);
        exg_program_destroy(program);
    }
    closedir(folder);
    assert_true(files >= 15);
    assert_int_equal(faults, 0);
}

static void codes_of_rules_are_unique_and_found(void **state)
{
    (void)state;
    assert_true(exg_rule_count() >= 121);
    assert_null(exg_rule_at(exg_rule_count()));
    assert_null(exg_rule_find("VAL-999"));
    for (uint32_t i = 0; i < exg_rule_count(); i++) {
        const exg_rule *rule = exg_rule_at(i);

        assert_ptr_equal(exg_rule_find(rule->code), rule);
        assert_string_not_equal(rule->claim, "");
        assert_true(rule->keeper != EXG_KEEPER_NOTHING || rule->fix[0] != '\0');
    }
}

static void severities_and_keepers_have_names(void **state)
{
    static const char *const severities[] = {"error", "warning", "note", "?"};
    static const char *const keepers[] = {"opening", "verifying", "data", "file",
                                          "weights", "nothing",   "?"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_string_equal(exg_severity_name((exg_severity)i), severities[i]);
    }
    for (int i = 0; i < 6; i++) {
        assert_string_equal(exg_keeper_name((exg_keeper)i), keepers[i]);
    }
}

static void faults_are_found_without_a_list_to_put_them_in(void **state)
{
    exg_program *program;
    exg_verified verified;
    exg_error err;

    (void)state;
    assert_int_equal(exg_open("fixtures/bad/VAL-004.pt2", NULL, &program, NULL, &err), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "VAL-004");
    assert_string_equal(err.where, "graph.nodes[1].inputs[0].arg");
    assert_int_equal(exg_verify(program, operators, &verified, NULL, NULL), EXG_MALFORMED);
    assert_null(verified.program);
    exg_program_destroy(program);
}

/* What opening refuses in a .pt2 may come from elsewhere. */
static void programs_changed_in_memory_are_found_out(void **state)
{
    exg_program *program;
    exg_tensor_meta *meta;
    const char *name;

    (void)state;
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
    meta = program->weights->items[0].meta;
    assert_int_equal(count_findings(program, operators, "WGT-011"), 0);
    meta->dtype = EXG_DTYPE_I32; /* of four bytes too, and it requires a gradient */
    assert_int_equal(count_findings(program, operators, "WGT-011"), 1);
    meta->dtype = EXG_DTYPE_F32;
    program->graph->values[program->graph->inputs[0].as_tensor].tensor->sizes[0].value = -16;
    assert_int_equal(count_findings(program, operators, "WGT-011"), 1);
    exg_program_destroy(program);

    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
    assert_int_equal(count_findings(program, operators, "VAL-001"), 0);
    name = program->graph->values[0].name;
    program->graph->values[1].name = name; /* .exg keeps values by number */
    assert_int_equal(count_findings(program, operators, "VAL-001"), 1);
    exg_program_destroy(program);
}

/* S004-40, S004-43, S004-44, S004-46, S004-47, S004-48, S004-67: rules have the
 * severity that seed 004 asks for; a file breaks each (above). */
static void rules_of_the_signature_weigh_what_the_seed_says(void **state)
{
    static const struct {
        const char *code;
        exg_severity severity;
    } rows[] = {
        {"NOD-013", EXG_SEVERITY_ERROR}, /* a functional graph */
        {"SIG-005", EXG_SEVERITY_ERROR}, /* states are lifted */
        {"SIG-006", EXG_SEVERITY_ERROR},
        {"SIG-007", EXG_SEVERITY_ERROR},
        {"SIG-008", EXG_SEVERITY_ERROR},
        {"SIG-009", EXG_SEVERITY_ERROR},
        {"SIG-012", EXG_SEVERITY_WARNING}, /* order of inputs */
        {"SIG-013", EXG_SEVERITY_ERROR},   /* of outputs */
        {"SIG-001", EXG_SEVERITY_ERROR},   /* count, names */
        {"SIG-002", EXG_SEVERITY_ERROR},
        {"SIG-003", EXG_SEVERITY_ERROR},
        {"SIG-018", EXG_SEVERITY_ERROR},
        {"SIG-021", EXG_SEVERITY_ERROR}, /* two mutations of one name */
        {"SIG-030", EXG_SEVERITY_WARNING},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const exg_rule *rule = exg_rule_find(rows[i].code);

        assert_non_null(rule);
        assert_int_equal(rule->severity, rows[i].severity);
        assert_int_equal(rule->keeper, EXG_KEEPER_VERIFYING);
    }
}

/* S004-43: what a dialect of core operators may not, TRAINING may. */
static void training_may_write_to_arguments(void **state)
{
    exg_program *program;

    (void)state;
    assert_int_equal(exg_open("fixtures/bad/NOD-013.pt2", NULL, &program, NULL, NULL), EXG_OK);
    assert_true(count_findings(program, operators, "NOD-013") > 0);
    program->verifiers[0] = "TRAINING";
    assert_int_equal(count_findings(program, operators, "NOD-013"), 0);
    exg_program_destroy(program);
}

/* S004-67: a map from outputs has one target for each, and so has each target one output; PyTorch
 * refuses the others. Between two maps an output may be shared. */
static void an_output_mutates_one_of_a_kind(void **state)
{
    static const struct {
        exg_output_kind kinds[2];
        const char *targets[2];
        uint32_t found;
    } rows[] = {
        {{EXG_OUTPUT_BUFFER_MUTATION, EXG_OUTPUT_BUFFER_MUTATION}, {"a", "b"}, 1},
        {{EXG_OUTPUT_BUFFER_MUTATION, EXG_OUTPUT_BUFFER_MUTATION}, {"a", "a"}, 1},
        {{EXG_OUTPUT_USER_INPUT_MUTATION, EXG_OUTPUT_USER_INPUT_MUTATION}, {"x", "y"}, 1},
        {{EXG_OUTPUT_BUFFER_MUTATION, EXG_OUTPUT_USER_INPUT_MUTATION}, {"a", "x"}, 0},
        {{EXG_OUTPUT_BUFFER_MUTATION, EXG_OUTPUT_USER}, {"a", NULL}, 0},
    };
    const float values[2] = {1, 2};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_program *program;
        exg_tensor_meta meta;
        exg_argument out;
        exg_builder *b;
        exg_ref x;

        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
        meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){2}, 1);
        exg_builder_weight(b, "a", &meta, EXG_INPUT_BUFFER, values);
        exg_builder_weight(b, "b", &meta, EXG_INPUT_BUFFER, values);
        x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        exg_builder_input(b, "y", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        out = exg_arg_ref(EMIT(b, add_Tensor, x, x));
        exg_builder_output(b, &out, rows[r].kinds[0], rows[r].targets[0]);
        exg_builder_output(b, &out, rows[r].kinds[1], rows[r].targets[1]);
        exg_builder_call(b);
        assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
        assert_int_equal(count_findings(program, operators, "SIG-021"), rows[r].found);
        if (rows[r].found > 0) {
            exg_verified verified;
            exg_error err;

            assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_MALFORMED);
            assert_string_equal(err.where, "signature.output_specs[1]");
        }
        exg_program_destroy(program);
    }
}

/* The first node with `target` in the graph that autocast runs. */
static exg_node *node_in_autocast(const exg_program *program, const char *target, exg_graph **graph)
{
    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        const exg_node *call = &program->graph->nodes[n];

        for (uint32_t i = 0; i < call->input_count; i++) {
            if (call->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                *graph = call->inputs[i].arg.as_graph->graph;
                for (uint32_t k = 0; k < (*graph)->node_count; k++) {
                    if (strcmp((*graph)->nodes[k].target, target) == 0) {
                        return &(*graph)->nodes[k];
                    }
                }
            }
        }
    }
    fail_msg("no %s", target);
    return NULL;
}

/* Under autocast operators choose their dtypes; a record of another is found. */
static void dtypes_that_autocast_does_not_give_are_found(void **state)
{
    static const struct {
        const char *target;
        exg_dtype dtype;
        uint32_t found;
    } rows[] = {
        {"torch.ops.aten.linear.default", EXG_DTYPE_BF16, 0},
        {"torch.ops.aten.linear.default", EXG_DTYPE_F32, 1},
        {"torch.ops.aten.linear.default", EXG_DTYPE_F16, 1},
        {"torch.ops.aten.prod.default", EXG_DTYPE_F32, 0},
        {"torch.ops.aten.prod.default", EXG_DTYPE_BF16, 1},
        {"torch.ops.aten.stack.default", EXG_DTYPE_BF16, 0},
        {"torch.ops.aten.stack.default", EXG_DTYPE_F32, 1},
        {"torch.ops.aten.einsum.default", EXG_DTYPE_I64, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_program *program;
        exg_graph *graph = NULL;
        exg_node *node;
        uint32_t count;

        assert_int_equal(exg_open("fixtures/autocast.pt2", NULL, &program, NULL, NULL), EXG_OK);
        node = node_in_autocast(program, rows[i].target, &graph);
        graph->values[node->outputs[0].as_tensor].tensor->dtype = rows[i].dtype;
        count = count_findings(program, operators, "NOD-022");
        if (count != rows[i].found) {
            fail_msg("%s as %s: %u findings", rows[i].target, exg_dtype_short_name(rows[i].dtype),
                     count);
        }
        exg_program_destroy(program);
    }
}

/* x + 1: the number takes the dtype beside it, and what is recorded is compared all the same. */
static void results_of_numbers_are_compared(void **state)
{
    static const struct {
        exg_argument number;
        exg_dtype x, recorded;
        int64_t rows;
        uint32_t found;
    } rows[] = {
        {{.kind = EXG_ARGUMENT_INT, .as_int = 1}, EXG_DTYPE_F32, EXG_DTYPE_F32, 4, 0},
        {{.kind = EXG_ARGUMENT_INT, .as_int = 1}, EXG_DTYPE_F32, EXG_DTYPE_F32, 2, 1},
        {{.kind = EXG_ARGUMENT_INT, .as_int = 1}, EXG_DTYPE_F32, EXG_DTYPE_I64, 4, 1},
        {{.kind = EXG_ARGUMENT_INT, .as_int = 1}, EXG_DTYPE_B8, EXG_DTYPE_I64, 4, 0},
        {{.kind = EXG_ARGUMENT_FLOAT, .as_float = .5}, EXG_DTYPE_I64, EXG_DTYPE_F32, 4, 0},
        {{.kind = EXG_ARGUMENT_FLOAT, .as_float = .5}, EXG_DTYPE_I64, EXG_DTYPE_I64, 4, 1},
        {{.kind = EXG_ARGUMENT_FLOAT, .as_float = .5}, EXG_DTYPE_F16, EXG_DTYPE_F16, 4, 0},
        {{.kind = EXG_ARGUMENT_BOOL, .as_bool = true}, EXG_DTYPE_I32, EXG_DTYPE_I32, 4, 0},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_program *program;
        exg_tensor_meta meta;
        exg_tensor_meta *said;
        exg_argument out;
        exg_builder *b;
        exg_ref x;
        uint32_t count;

        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
        meta = exg_builder_meta(b, rows[r].x, (int64_t[]){4, 3}, 2);
        x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        out = exg_arg_ref(EMIT(b, add_Tensor, x, x));
        exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
        exg_builder_call(b);
        assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
        program->graph->nodes[0].inputs[1].arg = rows[r].number;
        said = program->graph->values[out.as_tensor].tensor;
        said->dtype = rows[r].recorded;
        said->sizes[0].value = rows[r].rows;
        count = count_findings(program, operators, rows[r].rows == 4 ? "NOD-022" : "NOD-017");
        if (count != rows[r].found) {
            fail_msg("row %zu: %u findings", r, count);
        }
        exg_program_destroy(program);
    }
}

/* How often `code` is found when the program of `path` has the one guard `guard`. */
static uint32_t found_with_guard(const char *path, const char *guard, const char *code)
{
    exg_program *program;
    uint32_t count;

    assert_int_equal(exg_open(path, NULL, &program, NULL, NULL), EXG_OK);
    program->guards_code = &guard;
    program->guard_count = 1;
    count = count_findings(program, operators, code);
    exg_program_destroy(program);
    return count;
}

/* x is (s77, 8), s77 is 3 at export. PyTorch runs such a text as Python. */
static void guards_are_read_and_never_run(void **state)
{
    static const struct {
        const char *guard;
        uint32_t found;
    } rows[] = {
        {"L['x'].size()[0] == 3", 0},
        {"L[\"x\"].size()[1] == 8", 0},
        {"L['x'].size()[0] > 1 and not L['x'].size()[0] > 5", 0},
        {"max(2, L['x'].size()[0]) // 2 == 1 or L['x'].size()[0] < 0", 0},
        {"math.trunc(0.5*torch.sym_float(L['x'].size()[1])) == 4", 0},
        {"L['x'].storage_offset() == 0", 0},
        {"L['x'].stride()[1] == 1", 0},
        {"L['x'].size()[0] > 4", 1},
        {"not L['x'].size()[0] == 3", 1},
        {"L['y'].size()[0] > 4", 1},
        {"L['x'].size()[9] > 0", 1},
        {"L['x'].size()[", 1},
        {"L['x", 1},
        {"L[", 1},
        {"__import__('os').system('true')", 1},
        {"L['x'].numpy()", 1},
        {"", 1},
        {"L['flat_args'][0].size()[0] == 3", 0},
        {"L['flat_args'][0].size()[0] | 4 == 7", 0},
        {"(L['x'].size()[1] if L['x'].size()[0] > 1 else 1//0) == 8", 0},
        {"L['x'].size()[0] != 0 and L['x'].size()[1] % L['x'].size()[0] == 2", 0},
        {"L['flat_args'][1].size()[0] == 3", 1},
        {"L['flat_args'].size()[0] == 3", 1},
        {"L['flat_args'][-1].size()[0] == 3", 1},
        {"L['flat_args']['0'].size()[0] == 3", 1},
        {"L['x'].field.size()[0] == 3", 1},
        {"L['x'][0].size()[0] == 3", 1},
        {"L['x'].size()[0] == unknown", 1},
        {"unknown(L['x'].size()[0]) == 3", 1},
        {"G['x'].size()[0] == 3", 1},
        {"L['x'].size()[0] == s77", 1},
        {"L['x'].size()[0] == 3 ==", 1},
    };
    int faults = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t count = found_with_guard("fixtures/bad/SYM-007.pt2", rows[i].guard, "SYM-007");

        if (count != rows[i].found) {
            print_message("  %s: %u findings\n", rows[i].guard, count);
            faults++;
        }
    }
    assert_int_equal(faults, 0);
}

/* What is said of weights, and that nothing is of those that are as they should be. */
static void weights_are_told_what_they_are(void **state)
{
    static const struct {
        const char *path, *said;
    } rows[] = {{"fixtures/bad/WGT-023.safetensors", "of the tensors 1 is float16, 3 are float32"},
                {"fixtures/bad/WGT-024.safetensors", NULL}};

    (void)state;
    for (int k = 0; k < 3; k++) { /* the second with its own digest, the third with another */
        char digest[EXG_DIGEST_TEXT_MAX + 8] = "sha256:", other[EXG_DIGEST_TEXT_MAX + 8];
        exg_weights_verify_options options = {.size = sizeof(options)};
        exg_weights *weights;
        exg_diagnostics found;
        char said[200];

        assert_int_equal(exg_weights_open(rows[k > 0].path, NULL, &weights, NULL, NULL), EXG_OK);
        assert_int_equal(
            exg_weights_digest(weights, EXG_CHECKSUM_SHA256, 1, digest + strlen(digest), NULL),
            EXG_OK);
        snprintf(said, sizeof(said), "%s%s", k > 0 ? "it is " : rows[0].said, k > 0 ? digest : "");
        snprintf(other, sizeof(other), "%s", digest);
        other[strlen(other) - 1] = other[strlen(other) - 1] == '0' ? '1' : '0';
        options.digest = k == 1 ? digest : k == 2 ? other : NULL;
        assert_int_equal(exg_weights_verify(weights, &options, &found, NULL),
                         k == 2 ? EXG_MALFORMED : EXG_OK);
        assert_int_equal(found.count, k != 1);
        if (k != 1) {
            assert_string_equal(found.items[0].message, said);
        }
        exg_diagnostics_free(&found);
        exg_weights_release(weights);
    }
}

/* No size, a stride of 0 and a number of elements that fits are none of its faults. */
static void views_of_weights_may_be_empty_or_repeat(void **state)
{
    static const struct {
        int64_t size, stride, offset;
        uint32_t found;
    } rows[] = {{0, 1, 0, 0},  {2, 0, 0, 0},  {0, 0, 0, 0},
                {2, 0, -1, 1}, {-1, 1, 0, 1}, {1, -1, 0, 1}};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_program *program;
        exg_tensor_meta *meta;

        assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
        meta = (exg_tensor_meta *)(uintptr_t)program->weights->items[0].meta;
        meta->sizes[0].value = rows[r].size;
        meta->strides[0].value = rows[r].stride;
        meta->storage_offset.value = rows[r].offset;
        assert_int_equal(count_findings(program, operators, "WGT-011"), rows[r].found);
        exg_program_destroy(program);
    }
}

/* What a name holds is no format. */
static void names_are_told_as_they_are(void **state)
{
    exg_weights_verify_options options = {.size = sizeof(options)};
    exg_weights *weights;
    exg_diagnostics found;
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_open("fixtures/mlp.pt2", NULL, &weights, NULL, NULL), EXG_OK);
    assert_int_equal(exg_weights_open("fixtures/mlp.pt2", NULL, &options.needed, NULL, NULL),
                     EXG_OK);
    options.needed->items[0].fqn = "100%s";
    assert_int_equal(exg_weights_verify(weights, &options, &found, &err), EXG_MALFORMED);
    assert_true(found.count > 0);
    assert_non_null(strstr(err.where, "100%s"));
    exg_diagnostics_free(&found);
    exg_weights_release(options.needed);
    exg_weights_release(weights);
}

/* Whatever a name holds, what is told of it stays on its line. */
static void what_is_told_is_one_line(void **state)
{
    static char name[] = "a\nb\x1f"
                         "c\x7f"
                         "d e~";
    exg_program *program;
    exg_verified verified;
    exg_diagnostics found;
    bool is_told = false;

    (void)state;
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
    program->signature.inputs[0].target = name;
    assert_int_equal(exg_verify(program, operators, &verified, &found, NULL), EXG_MALFORMED);
    for (uint32_t i = 0; i < found.count; i++) {
        is_told = is_told || strstr(found.items[i].message, "a b c d e~") != NULL;
        for (const char *c = found.items[i].message; *c != '\0'; c++) {
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
        }
    }
    assert_true(is_told);
    exg_diagnostics_free(&found);
    exg_program_destroy(program);
}

/* The file's sizes hold at export and nowhere else. */
static void sizes_are_compared_where_guards_admit_them(void **state)
{
    static const char path[] = "fixtures/bad/SYM-006.pt2";

    (void)state;
    assert_int_equal(found_with_guard(path, "L['x'].size()[0] >= 2", "SYM-006"), 1);
    assert_int_equal(found_with_guard(path, "L['x'].size()[0] % 3 == 0", "SYM-006"), 1);
    assert_int_equal(found_with_guard(path, "L['x'].size()[0] == 3", "SYM-006"), 0);
    assert_int_equal(found_with_guard(path, "something.else()", "SYM-006"), 0);
}

static int begin(void **state)
{
    (void)state;
    return exg_operators_create(&operators, NULL) == EXG_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    exg_operators_destroy(operators);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_finds_its_file_and_that_alone),
        cmocka_unit_test(files_of_pytorch_break_no_rule),
        cmocka_unit_test(codes_of_rules_are_unique_and_found),
        cmocka_unit_test(severities_and_keepers_have_names),
        cmocka_unit_test(faults_are_found_without_a_list_to_put_them_in),
        cmocka_unit_test(programs_changed_in_memory_are_found_out),
        cmocka_unit_test(rules_of_the_signature_weigh_what_the_seed_says),
        cmocka_unit_test(training_may_write_to_arguments),
        cmocka_unit_test(an_output_mutates_one_of_a_kind),
        cmocka_unit_test(dtypes_that_autocast_does_not_give_are_found),
        cmocka_unit_test(results_of_numbers_are_compared),
        cmocka_unit_test(guards_are_read_and_never_run),
        cmocka_unit_test(sizes_are_compared_where_guards_admit_them),
        cmocka_unit_test(weights_are_told_what_they_are),
        cmocka_unit_test(views_of_weights_may_be_empty_or_repeat),
        cmocka_unit_test(names_are_told_as_they_are),
        cmocka_unit_test(what_is_told_is_one_line),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
