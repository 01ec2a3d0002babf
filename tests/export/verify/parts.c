/* parts.c - a program of PyTorch's with one thing changed in memory, and what the gate says of it:
 * which rule, at which place. What no file can say, wrongly, is found too. */
#include "libexport/verify/verifier.h"

#include <exg/formats.h>
#include <exg/verify.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LINES_MAX 1000

#define ENTER        "torch.amp.autocast_mode._enter_autocast"
#define EXIT         "torch.amp.autocast_mode._exit_autocast"
#define IN(i)        p->signature.inputs[i]
#define OUT(i)       p->signature.outputs[i]
#define CALL(i)      p->module_calls[i]
#define NODE_AT(i)   p->graph->nodes[i]
#define ID(name)     exg_graph_find_value(p->graph, name)
#define VALUE(name)  (&p->graph->values[ID(name)])
#define ARG(n, i)    NODE_AT(n).inputs[i].arg
#define META(name)   VALUE(name)->tensor
#define WEIGHT(i)    p->weights->items[i]
#define STORAGE(i)   p->weights->storages[WEIGHT(i).storage]
#define RANGE(i)     p->range_constraints[i]
#define BRANCH(n, i) ARG(n, i).as_graph->graph
#define NODE(type, context, children)                                                              \
    "{\"type\": \"" type "\", \"context\": \"" context "\", \"children_spec\": [" children "]}"
#define LEAF                 "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define DICT(keys, children) NODE("builtins.dict", keys, children)
#define CALL_OF(args)                                                                              \
    "[1, " NODE("builtins.tuple", "null",                                                          \
                NODE("builtins.tuple", "null", args) ", " DICT("[]", "")) "]"

static exg_sym_int number = {"s0", 3, true};
static exg_value_id listed[1];
static const char *fields[] = {"first"};
static exg_named_tuple pairs[] = {{"one.Pair", fields, 1}, {"two.Pair", fields, 1}};
static exg_argument two_outputs[2] = {
    {.kind = EXG_ARGUMENT_NONE},
    {.kind = EXG_ARGUMENT_SYM_BOOL, .as_sym = {.value = EXG_NO_VALUE}}};
static exg_string_pair stack = {"nn_module_stack", "layer"};

static exg_custom_obj object = {"nobody", "mine.Class"};
static exg_input_metadata described[2];
static exg_argument call_outputs[2];
static exg_string_pair pair;
static exg_extra_file extra;
static exg_string_pair pairs_of[3];
static exg_extra_file extras[2];
static const char *guard;
static const char *twice[] = {"x", "x"};
static int64_t numbers[3];
static bool bools[2];
static exg_named_argument two_inputs[2];
static exg_sym_bool truth = {.expr = "s77 > 2"};
static exg_sym_int two_long[] = {{.value = 2}}, one_apart[] = {{.value = 1}};
static exg_sym_float ratio = {.expr = "s77/2"};

/* An argument of a list's kind with one or two items; values by id, EXG_NO_VALUE: none. */
static exg_argument tensors(exg_argument_kind kind, exg_value_id a, exg_value_id b)
{
    static exg_value_id items[2];

    items[0] = a;
    items[1] = b;
    return (exg_argument){.kind = kind, .count = b == EXG_NO_VALUE ? 1 : 2, .as_tensors = items};
}

static exg_argument nested(exg_value_id a, exg_value_id b)
{
    static exg_value_id items[3];
    static exg_value_list lists[2];

    items[0] = items[1] = a;
    items[2] = b;
    lists[0] = (exg_value_list){&items[0], 1};
    lists[1] = (exg_value_list){&items[1], 2};
    return (exg_argument){
        .kind = EXG_ARGUMENT_NESTED_TENSORS, .count = 2, .as_nested_tensors = lists};
}

static exg_argument syms(exg_argument_kind kind, exg_value_id a, exg_value_id b)
{
    static exg_sym_argument items[2];

    items[0] = (exg_sym_argument){.value = a};
    items[1] = (exg_sym_argument){.value = b};
    return (exg_argument){.kind = kind, .count = 2, .as_syms = items};
}

static exg_argument sym(exg_argument_kind kind, exg_value_id value)
{
    return (exg_argument){.kind = kind, .as_sym = {.value = value}};
}

static exg_argument tensor(exg_value_id value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = value};
}

static exg_argument *one(exg_argument_kind kind)
{
    static exg_argument arg;

    arg = (exg_argument){.kind = kind};
    return &arg;
}

/* Makes the change of line `n` of part.def; gives what must be found. */
static const char *change(exg_program *p, int n)
{
    switch (n) {
#define EXG_PART(of, found, ...)                                                                   \
    case __LINE__:                                                                                 \
        __VA_ARGS__;                                                                               \
        return found;
#include "tests/export/verify/part.def"
#undef EXG_PART
    default:
        return NULL;
    }
}

static bool is_of(const char *file, int n)
{
    switch (n) {
#define EXG_PART(of, found, ...)                                                                   \
    case __LINE__:                                                                                 \
        return strcmp(of, file) == 0;
#include "tests/export/verify/part.def"
#undef EXG_PART
    default:
        return false;
    }
}

static const int row_count = 0
#define EXG_PART(of, found, ...) +1
#include "tests/export/verify/part.def"
#undef EXG_PART
    ;

#define SAYS "says: "

/* "CODE at PLACE", joined; or what is said of the first. */
static void say(const exg_diagnostics *found, bool message, char *text, size_t room)
{
    text[0] = '\0';
    if (message && found->count > 0) {
        snprintf(text, room, SAYS "%s", found->items[0].message);
    }
    for (uint32_t i = 0; !message && i < found->count; i++) {
        size_t used = strlen(text);

        snprintf(text + used, room - used, "%s%s at %s", i > 0 ? ", " : "", found->items[i].code,
                 found->items[i].where);
    }
}

static void changes_are_found_where_they_are(void **state)
{
    static const struct {
        const char *name, *path;
    } files[] = {
        {"mlp", "fixtures/mlp.pt2"},
        {"mutate", "fixtures/mutate.core.pt2"},
        {"constants", "fixtures/constants.core.pt2"},
        {"symbols", "tests/export/data/symbols.pt2"},
        {"control", "tests/export/data/control.pt2"},
        {"views", "fixtures/views.pt2"},
        {"tied", "fixtures/tied.pt2"},
        {"convbn", "fixtures/convbn.pt2"},
        {"integer", "fixtures/integer.core.pt2"},
        {"loops", "fixtures/loops.core.pt2"},
        {"autocast", "fixtures/autocast.pt2"},
        {"many", "fixtures/many.pt2"},
    };
    exg_operators *operators;
    int faults = 0, count = 0;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        for (int n = 1; n < LINES_MAX; n++) {
            char said[2000];
            exg_program *p;
            exg_verified verified;
            exg_diagnostics found;
            const char *expected;

            if (!is_of(files[f].name, n)) {
                continue;
            }
            assert_int_equal(exg_open(files[f].path, NULL, &p, NULL, NULL), EXG_OK);
            expected = change(p, n);
            exg_ignore(exg_verify(p, operators, &verified, &found, NULL));
            for (uint32_t i = 0; i < found.count; i++) { /* words, not a name alone */
                faults += strchr(found.items[i].message, ' ') == NULL;
            }
            say(&found, strncmp(expected, SAYS, strlen(SAYS)) == 0, said, sizeof(said));
            exg_diagnostics_free(&found);
            exg_program_destroy(p);
            count++;
            if (strcmp(said, expected) != 0) {
                print_message("line %d:\n  %s\n  not %s\n", n, said, expected);
                faults++;
            }
        }
    }
    exg_operators_destroy(operators);
    assert_int_equal(count, row_count); /* a row of no file here is none */
    assert_int_equal(faults, 0);
}

/* What PyTorch writes without an operator of its own (torch/_export/serde/serialize.py, _SYM_OPS;
 * what autocast and gradients are wrapped in) is known by its name; nothing else is. */
static void targets_of_pytorch_are_known(void **state)
{
    static const char *const known[] = {
        "_operator.add",
        "_operator.and_",
        "_operator.eq",
        "_operator.floordiv",
        "_operator.ge",
        "_operator.gt",
        "_operator.le",
        "_operator.lshift",
        "_operator.lt",
        "_operator.mod",
        "_operator.mul",
        "_operator.ne",
        "_operator.neg",
        "_operator.or_",
        "_operator.pos",
        "_operator.pow",
        "_operator.rshift",
        "_operator.sub",
        "_operator.truediv",
        "builtins.round",
        "math.ceil",
        "math.floor",
        "math.trunc",
        "torch._sym_sqrt",
        "torch.sym_float",
        "torch.sym_int",
        "torch.sym_ite",
        "torch.sym_max",
        "torch.sym_min",
        "torch.sym_not",
        "torch.sym_sqrt",
        "torch.sym_sum",
        "torch._C._set_grad_enabled",
        "torch.autograd.grad_mode.set_grad_enabled",
        "torch.amp.autocast_mode._enter_autocast",
        "torch.amp.autocast_mode._exit_autocast",
        "torch.ops.mine.op.default",
        "torch.ops.higher_order.mine",
        "torch._functorch.predispatch.mine",
        "#mine",
    };
    static const char *const unknown[] = {"_operator.setitem", "math.comb",
                                          "builtins.eval",     "torch.sym_more",
                                          "os.system",         "torch.ops.mine.op",
                                          "torch.ops.mine",    "torch.ops_.mine.op.x",
                                          "torch.add",         "xtorch.ops.mine.op.default"};
    const size_t knowns = sizeof(known) / sizeof(known[0]);
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t i = 0; i < knowns + sizeof(unknown) / sizeof(unknown[0]); i++) {
        const char *target = i < knowns ? known[i] : unknown[i - knowns];
        exg_program *program;
        exg_verified verified;
        exg_diagnostics found;
        bool refused = false;

        assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
        program->graph->nodes[1].target = target;
        exg_ignore(exg_verify(program, operators, &verified, &found, NULL));
        for (uint32_t f = 0; f < found.count; f++) {
            refused = refused || strcmp(found.items[f].code, "NOD-002") == 0;
        }
        if (refused != (i >= knowns)) {
            fail_msg("%s", target);
        }
        exg_diagnostics_free(&found);
        exg_program_destroy(program);
    }
    exg_operators_destroy(operators);
}

/* A finding has the line of the source that its node came from. */
static void findings_know_their_source(void **state)
{
    exg_operators *operators;
    exg_program *program;
    exg_verified verified;
    exg_diagnostics found;
    exg_string_pair trace = {"stack_trace",
                             "  File \"net.py\", line 42, in forward\n    return relu(x)\n"};

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_open("fixtures/mlp.pt2", NULL, &program, NULL, NULL), EXG_OK);
    program->graph->nodes[1].target = "os.system";
    program->graph->nodes[1].metadata = (exg_string_map){&trace, 1};
    assert_int_equal(exg_verify(program, operators, &verified, &found, NULL), EXG_MALFORMED);
    assert_string_equal(found.items[0].source_file, "net.py");
    assert_int_equal(found.items[0].source_line, 42);
    assert_string_equal(found.items[0].source_text, "return relu(x)");
    exg_diagnostics_free(&found);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* A place that is longer than its room is cut, and nothing behind the room is written to. */
static void places_are_cut(void **state)
{
    static const struct {
        size_t length;
        const char *text;
    } rows[] = {
        {60, "graph.nodes[12].metadata[\"a.long.name\"].x"},
        {41, "graph.nodes[12].metadata[\"a.long.name\"]."},
        {30, "graph.nodes[12].metadata[\"a.l"},
        {17, "graph.nodes[12]."},
        {12, "graph.nodes"},
        {1, ""},
    };
    const exg_model_path *path = EXG_AT(
        EXG_AT_KEY(EXG_AT_INDEX(EXG_AT(NULL, "graph"), "nodes", 12), "metadata", "a.long.name"),
        "x");
    char text[80];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(text, '#', sizeof(text));
        exg_model_path_text(path, text, rows[i].length);
        assert_string_equal(text, rows[i].text);
        for (size_t behind = rows[i].length; behind < sizeof(text); behind++) {
            assert_int_equal(text[behind], '#');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_found_where_they_are),
        cmocka_unit_test(targets_of_pytorch_are_known),
        cmocka_unit_test(findings_know_their_source),
        cmocka_unit_test(places_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
