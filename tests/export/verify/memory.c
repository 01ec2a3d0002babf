/* memory.c - verification without memory: it says so, or tells all of it. */
#include "tests/export/refusal.h"

#include <exg/formats.h>
#include <exg/verify.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef REFUSES_MEMORY

static exg_operators *operators;

static size_t length_of(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

/* Verified, with the findings of a program that breaks rules: all that there are with all memory,
 * and all that they say. */
static exg_status verify(const char *name, void *user, exg_error *err)
{
    static uint32_t count;
    static size_t length;
    size_t said = 0;
    exg_verified verified;
    exg_diagnostics found = {0};
    exg_status status = exg_verify(user, operators, &verified, &found, err);

    status = status == EXG_MALFORMED ? EXG_OK : status;
    for (uint32_t i = 0; i < found.count; i++) {
        const exg_diagnostic *d = &found.items[i];

        said += length_of(d->message) + length_of(d->where) + length_of(d->source_file) +
                length_of(d->source_text);
    }
    if (status == EXG_OK && !memory_is_refused()) {
        count = found.count;
        length = said;
    } else if (status == EXG_OK && (found.count != count || said != length)) {
        status =
            exg_error_set(err, __FILE__, __LINE__, EXG_MISMATCH, "VER",
                          "%u of %u findings, %zu of %zu bytes", found.count, count, said, length);
    }
    (void)name;
    exg_diagnostics_free(&found);
    return status;
}

/* Rules take their memory in blocks, of which one is asked for only where the one before ends. With
 * a value more in the graph it ends earlier, so in time each request is the one that gets none. */
static void rules_say_so_wherever_it_ends(void **state)
{
    enum { STEP = 4, VALUES_MAX = 160 };
    static const char *const files[] = {"tests/export/data/control.pt2",
                                        "tests/export/data/symbols.pt2"};
    static char names[VALUES_MAX][16], texts[VALUES_MAX][16];
    static exg_sym_int sizes[VALUES_MAX];

    (void)state;
    for (uint32_t i = 0; i < VALUES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "more_%u", i);
        snprintf(texts[i], sizeof(texts[i]), "s77 + %u", i);
        sizes[i].expr = texts[i];
    }
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        static exg_value values[2 * VALUES_MAX];
        exg_program *program = NULL;
        exg_graph *graph;
        uint32_t count;

        assert_int_equal(exg_open(files[f], NULL, &program, NULL, NULL), EXG_OK);
        graph = program->graph;
        count = graph->value_count;
        assert_true(count <= VALUES_MAX);
        memcpy(values, graph->values, count * sizeof(*values));
        graph->values = values;
        for (uint32_t more = 0; more < VALUES_MAX; more += STEP) {
            for (uint32_t i = 0; i < more; i++) {
                values[count + i] =
                    (exg_value){.name = names[i], .sym_int = f == 0 ? NULL : &sizes[i]};
            }
            graph->value_count = count + more;
            refuse_each(verify, files[f], program, 1);
        }
        exg_program_destroy(program);
    }
}

#define LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define NODE(type, context, children)                                                              \
    "{\"type\": \"" type "\", \"context\": \"" context "\", \"children_spec\": [" children "]}"
#define CALL(args)                                                                                 \
    "[1, " NODE("builtins.tuple", "null",                                                          \
                NODE("builtins.tuple", "null", args) ", " NODE("builtins.dict", "[]", "")) "]"

/* What the tree of a call and its guards are read into, of each kind, also of what cannot be read.
 * A guard more with each try, so that blocks end at other places. */
static void guards_and_trees_are_read_or_not(void **state)
{
    enum { GUARDS_MAX = 40, STEP = 5 };
    static const char *const trees[] = {
        CALL(LEAF),
        CALL(NODE("builtins.dict", "[\\\"k\\\"]", LEAF)),
        CALL(NODE("builtins.dict", "no JSON", LEAF)),
        CALL(NODE("collections.defaultdict",
                  "{\\\"default_factory_module\\\": \\\"pathlib\\\", \\\"dict_context\\\": [1]}",
                  LEAF)),
        CALL(NODE("collections.namedtuple", "Pair", LEAF)),
        CALL("{\"type\": null}"),
        "[1, " LEAF "]",
        "[1]",
        "[1",
    };
    static const char *const texts[] = {"L['x'].size()[1] == 8",
                                        "L['x']['k'].size()[1] == 8",
                                        "L['x'][1].size()[0] == 3",
                                        "L['flat_args'][0].size()[",
                                        "L['x'] ==",
                                        "unknown(3)"};
    static const char *names[] = {"x"};
    const char *guards[GUARDS_MAX];

    (void)state;
    for (size_t i = 0; i < GUARDS_MAX; i++) {
        guards[i] = texts[i % (sizeof(texts) / sizeof(texts[0]))];
    }
    for (size_t t = 0; t < sizeof(trees) / sizeof(trees[0]); t++) {
        exg_program *program = NULL;

        assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
        program->module_calls[0].in_spec = trees[t];
        program->module_calls[0].forward_arg_names = names;
        program->module_calls[0].forward_arg_name_count = 1;
        program->guards_code = guards;
        for (program->guard_count = t < 2; program->guard_count < GUARDS_MAX;
             program->guard_count += t < 2 ? STEP : GUARDS_MAX / 2) {
            refuse_each(verify, trees[t], program, 1);
        }
        exg_program_destroy(program);
    }
}

/* Each of many findings has its line of the source. */
static void sources_are_told_or_not(void **state)
{
    enum { STEP = 9, COUNT_MAX = 100 };
    static exg_node nodes[COUNT_MAX];
    static exg_string_pair trace = {"stack_trace",
                                    "  File \"net.py\", line 42, in forward\n    return relu(x)\n"};
    exg_program *program = NULL;
    exg_graph *graph;

    (void)state;
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
    graph = program->graph;
    for (uint32_t i = 0; i < COUNT_MAX; i++) {
        nodes[i] = graph->nodes[i % graph->node_count];
        nodes[i].target = "os.system";
        nodes[i].metadata = (exg_string_map){&trace, 1};
    }
    graph->nodes = nodes;
    for (graph->node_count = 3; graph->node_count < COUNT_MAX; graph->node_count += STEP) {
        refuse_each(verify, "sources", program, 1);
    }
    exg_program_destroy(program);
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
        cmocka_unit_test(rules_say_so_wherever_it_ends),
        cmocka_unit_test(guards_and_trees_are_read_or_not),
        cmocka_unit_test(sources_are_told_or_not),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    return 0;
}
#endif
