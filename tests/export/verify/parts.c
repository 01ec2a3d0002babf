/* parts.c - a program of PyTorch's with one thing changed in memory, and what the gate says of it:
 * which rule, at which place. What no file can say, wrongly, is found too. */
#include <exg/formats.h>
#include <exg/verify.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define IN(i)          p->signature.inputs[i]
#define OUT(i)         p->signature.outputs[i]
#define CALL(i)        p->module_calls[i]
#define NODE_AT(i)     p->graph->nodes[i]
#define ID(name)       exg_graph_find_value(p->graph, name)
#define VALUE(name)    (&p->graph->values[ID(name)])
#define BRANCH(n, i)   NODE_AT(n).inputs[i].arg.as_graph->graph
#define NODE(type, context, children) \
    "{\"type\": \"" type "\", \"context\": \"" context "\", \"children_spec\": [" children "]}"
#define LEAF           "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define DICT(keys, children) NODE("builtins.dict", keys, children)
#define CALL_OF(args)                                                                              \
    "[1, " NODE("builtins.tuple", "null",                                                          \
                NODE("builtins.tuple", "null", args) ", " DICT("[]", "")) "]"

static exg_sym_int number = {"s0", 3, true};
static exg_value_id listed[1];

static exg_argument *one(exg_argument_kind kind)
{
    static exg_argument arg;

    arg = (exg_argument){.kind = kind};
    return &arg;
}

/* Makes the change of line `n` of part.def, where it is one of `file`'s; gives what must be found,
 * or NULL: there is no such line. */
static const char *change(exg_program *p, const char *file, int n)
{
    switch (n) {
#define EXG_PART(of, found, ...)                                                                   \
    case __LINE__:                                                                                 \
        if (strcmp(of, file) != 0) {                                                               \
            return NULL;                                                                           \
        }                                                                                          \
        __VA_ARGS__;                                                                               \
        return found;
#include "tests/export/verify/part.def"
#undef EXG_PART
    default:
        return NULL;
    }
}

/* "CODE at PLACE", joined. */
static void say(const exg_diagnostics *found, char *text, size_t room)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < found->count; i++) {
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
        {"mlp",       "fixtures/mlp.pt2"             },
        {"mutate",    "fixtures/mutate.core.pt2"     },
        {"constants", "fixtures/constants.core.pt2"  },
        {"symbols",   "tests/export/data/symbols.pt2"},
        {"control",   "tests/export/data/control.pt2"},
    };
    exg_operators *operators;
    int faults = 0, count = 0;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        exg_program *program;

        assert_int_equal(exg_open(files[f].path, NULL, &program, NULL, NULL), EXG_OK);
        for (int n = 1; n < 200; n++) {
            char said[2000];
            exg_program *p;
            exg_verified verified;
            exg_diagnostics found;
            const char *expected;

            assert_int_equal(exg_program_copy(program, &p, NULL), EXG_OK);
            expected = change(p, files[f].name, n);
            if (expected != NULL) {
                (void)exg_verify(p, operators, &verified, &found, NULL);
                say(&found, said, sizeof(said));
                exg_diagnostics_free(&found);
                count++;
                if (strcmp(said, expected) != 0) {
                    print_message("line %d:\n  %s\n  not %s\n", n, said, expected);
                    faults++;
                }
            }
            exg_program_destroy(p);
        }
        exg_program_destroy(program);
    }
    exg_operators_destroy(operators);
    assert_true(count > 90);
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_found_where_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
