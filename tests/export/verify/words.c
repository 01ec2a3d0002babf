/* words.c - rules that know words: every word is known, and none more. The lists are PyTorch's:
 * c10/core/DeviceType.cpp, and what sympy and Python call what is not finite. */
#include "tests/export/verify/findings.h"

#include <exg/formats.h>
#include <exg/verify.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_operators *operators;

static exg_program *open_program(const char *path)
{
    exg_program *program;
    exg_error err;

    if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    return program;
}

static void devices_are_pytorchs(void **state)
{
    static const char *const types[] = {
        "cpu",  "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",          "fpga",
        "maia", "xla",  "lazy",   "vulkan", "metal",  "xpu",   "mps",          "meta",
        "hpu",  "ve",   "ipu",    "mtia",   "ort",    "npu",   "privateuseone"};
    static const char *const others[] = {"tpu", "cud", "cuda2", "CPU", "", "metal "};
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_graph *graph = program->graph;

    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]) + sizeof(others) / sizeof(others[0]);
         t++) {
        const size_t known = sizeof(types) / sizeof(types[0]);

        for (uint32_t i = 0; i < graph->value_count; i++) {
            graph->values[i].tensor->device.type = t < known ? types[t] : others[t - known];
        }
        if (count_findings(program, operators, "VAL-013") != (t >= known)) { /* told once, of all */
            fail_msg("device type '%s'", t < known ? types[t] : others[t - known]);
        }
    }
    exg_program_destroy(program);
}

static void no_size_is_infinite(void **state)
{
    static const char *const infinite[] = {
        "oo",         "int_oo",   "zoo",      "nan", "inf",     "Infinity",
        "S.Infinity", "math.inf", "math.nan", "-oo", "s0 + oo", "Float('inf', precision=53)"};
    static const char *const finite[] = {"s0",      "o",   "ooo",    "info",
                                         "nano",    "1.5", "s0 + 2", "Float('1.5', precision=53)",
                                         "math.pi", "7"};
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_sym_int *size = &program->graph->values[0].tensor->sizes[0];

    (void)state;
    for (size_t t = 0; t < sizeof(infinite) / sizeof(infinite[0]); t++) {
        size->expr = infinite[t];
        if (count_findings(program, operators, "SYM-012") == 0) {
            fail_msg("a size of %s", infinite[t]);
        }
    }
    for (size_t t = 0; t < sizeof(finite) / sizeof(finite[0]); t++) {
        size->expr = finite[t];
        if (count_findings(program, operators, "SYM-012") != 0) {
            fail_msg("a size of %s is told to be infinite", finite[t]);
        }
    }
    size->expr = NULL;
    exg_program_destroy(program);
}

/* What a tree of inputs has Python import, but for its own. */
static void imports_are_told(void **state)
{
    static const struct {
        const char *type, *context; /* of a dict JSON in a string of JSON */
        bool imports;
        bool counts_otherwise; /* than the one child */
    } rows[] = {
        {"builtins.dict", "['a', 'b']", false, true},
        {"builtins.dict", "['a']", false, false},
        {"collections.OrderedDict", "[7]", false, false},
        {"collections.defaultdict", "{'default_factory_module': 'builtins', 'dict_context': []}",
         false, true},
        {"collections.defaultdict", "{'default_factory_module': 'pathlib', 'dict_context': ['a']}",
         true},
        {"collections.defaultdict", "{'default_factory_module': 'builtins', 'dict_context': ['a']}",
         false},
        {"collections.defaultdict",
         "{'default_factory_module': 'collections', 'dict_context': ['a']}", false},
        {"builtins.dict", "[{'__enum__': true, 'fqn': 'signal:Signals', 'name': 'SIGINT'}]", true},
        {"builtins.dict", "[{'fqn': 'signal:Signals', 'name': 'SIGINT'}]", false},
        {"collections.defaultdict",
         "{'default_factory_module': 'builtins', 'dict_context': [{'__enum__': true, "
         "'fqn': 'signal:Signals', 'name': 'SIGINT'}]}",
         true},
        {"collections.defaultdict",
         "{'default_factory_module': 'builtins', 'keys': [{'__enum__': true, "
         "'fqn': 'signal:Signals', 'name': 'SIGINT'}]}",
         false, true},
    };
    exg_program *program = open_program("fixtures/mlp.pt2");

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        char spec[1024];
        char context[256];
        size_t length = 0;
        uint32_t times, counted;
        const char *own = program->module_calls[0].in_spec;

        bool in_string = strcmp(rows[r].type, "collections.defaultdict") != 0;

        for (const char *c = rows[r].context; *c != '\0'; c++) {
            length += (size_t)snprintf(context + length, sizeof(context) - length,
                                       *c != '\''  ? "%c"
                                       : in_string ? "\\\""
                                                   : "\"",
                                       *c);
        }
        (void)snprintf(
            spec, sizeof(spec),
            "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": "
            "[{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": "
            "[{\"type\": \"%s\", \"context\": %s%s%s, \"children_spec\": "
            "[{\"type\": null, \"context\": null, \"children_spec\": []}]}]}, "
            "{\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]",
            rows[r].type, in_string ? "\"" : "", context, in_string ? "\"" : "");
        program->module_calls[0].in_spec = spec;
        times = count_findings(program, operators, "MCG-007");
        counted = count_findings(program, operators, "MCG-006");
        program->module_calls[0].in_spec = own;
        if ((times > 0) != rows[r].imports) {
            fail_msg("%s: told %u times", rows[r].context, times);
        }
        if ((counted > 0) != rows[r].counts_otherwise) {
            fail_msg("%s: its keys are told %u times", rows[r].context, counted);
        }
    }
    exg_program_destroy(program);
}

/* PyTorch calls what a branch gives, a tuple, and takes it for the tensor that the flag promises.
 */
static void a_bare_value_is_one_in_the_branches_too(void **state)
{
    exg_program *program = open_program("fixtures/branch.pt2");
    exg_node *node = program->graph->nodes;

    (void)state;
    while (strcmp(node->target, "torch.ops.higher_order.cond") != 0) {
        node++;
    }
    assert_int_equal(node->output_count, 1);
    assert_int_equal(count_findings(program, operators, "NOD-012"), 0);
    node->is_hop_single_tensor_return = EXG_TRUE;
    assert_int_equal(count_findings(program, operators, "NOD-012"), 1);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
            node->inputs[i].arg.as_graph->graph->is_single_tensor_return = true;
        }
    }
    assert_int_equal(count_findings(program, operators, "NOD-012"), 0);
    exg_program_destroy(program);
}

static void a_digest_that_is_none_is_named(void **state)
{
    exg_weights *weights;
    exg_diagnostics found;
    exg_error err;
    const exg_weights_verify_options options = {.size = sizeof(options), .digest = "100%s:ab"};

    (void)state;
    assert_int_equal(
        exg_weights_open("fixtures/mlp.inputs.safetensors", NULL, &weights, NULL, &err), EXG_OK);
    assert_int_equal(exg_weights_verify(weights, &options, &found, &err), EXG_USAGE);
    assert_string_equal(err.code, "WGT-DIGEST");
    assert_string_equal(err.message, "'100%s:ab' is no digest");
    exg_diagnostics_free(&found);
    exg_weights_release(weights);
}

/* The error holds the first finding, with the line of Python that its node came from. */
static void the_error_is_the_first_finding(void **state)
{
    exg_program *program = open_program("fixtures/bad/NOD-017.pt2");
    exg_verified verified;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "NOD-017");
    assert_string_equal(err.where, "graph.nodes[0]");
    assert_string_equal(err.source, "model.py:12: y = self.up(x)");
    exg_program_destroy(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_pytorchs),
        cmocka_unit_test(no_size_is_infinite),
        cmocka_unit_test(imports_are_told),
        cmocka_unit_test(a_bare_value_is_one_in_the_branches_too),
        cmocka_unit_test(a_digest_that_is_none_is_named),
        cmocka_unit_test(the_error_is_the_first_finding),
    };
    int failed;

    if (exg_operators_create(&operators, NULL) != EXG_OK) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    exg_operators_destroy(operators);
    return failed;
}
