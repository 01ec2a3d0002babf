/* programs.c - programs of PyTorch that are distributed, and answer as they did. */
#include "tests/exec/dispatch/fixture.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define OUTPUTS_MAX 8

/* Rows of the first input, where they can be cut. */
static exg_status cut_first(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                            uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    exg_placement rows = exg_shard(0);

    (void)user, (void)m, (void)fqn;
    for (uint32_t i = 0; i < count; i++) {
        bool cut = i == 0 && values[i].tensor->rank > 0;

        EXG_TRY(exg_distribute_tensor(mesh, values[i].tensor, cut ? &rows : NULL, cut, EXG_NO_RANK,
                                      &values[i].dtensor, err));
        values[i].tensor = NULL;
    }
    return EXG_OK;
}

static void answer(rank_context *c)
{
    fixture *f = (fixture *)(uintptr_t)c->user;
    exg_module_functions functions = {.size = sizeof(functions), .input = cut_first};
    exg_module_value in[INPUTS_MAX], out[OUTPUTS_MAX];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(f, in, tensors), outputs;
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_module_create(&f->verified, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", c->mesh, &functions, &err) == EXG_OK,
           "%s", err.message);
    outputs = m == NULL ? 0 : exg_module_output_count(m);
    EXPECT(c,
           outputs <= OUTPUTS_MAX &&
               exg_module_forward(e.d, m, in, count, out, outputs, &err) == EXG_OK,
           "%s", err.message);
    for (uint32_t o = 0; c->faults == 0 && o < outputs; o++) {
        char name[12];

        snprintf(name, sizeof(name), "%u", o);
        if (out[o].dtensor != NULL) {
            expect_whole(c, f, name, out[o].dtensor);
        }
        exg_dtensor_destroy(out[o].dtensor);
    }
    for (uint32_t i = 0; m != NULL && i < exg_module_tensor_count(m) && c->faults == 0; i++) {
        exg_dtensor *t;
        char name[100];

        snprintf(name, sizeof(name), "buffer:%s", exg_module_tensor_at(m, i, &t));
        if (exg_tensor_file_find(f->expected, name) != NULL) {
            expect_whole(c, f, name, t);
        }
    }
    exg_module_destroy(m);
    eager_end(&e);
}

/* S003-106: in training, decomposed, tied, integers, constants of the graph, sizes that are bound
 * to the inputs. */
static void programs_answer_as_pytorch(void **state)
{
    static const char *const names[][2] = {
        {"mlp", "mlp"},
        {"tied", "tied"},
        {"convbn", "convbn"},
        {"convbn.eval", "convbn.eval"},
        {"convbn.core", "convbn"},
        {"constants", "constants"},
        {"constants.core", "constants"},
        {"integer", "integer"},
        {"views", "views"},
        {"lm.train-ir.static", "lm"},
        {"lm.core.dynamic", "lm"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        fixture f;

        open_fixture(&f, names[i][0], names[i][1]);
        on_mesh("2", answer, &f);
        close_fixture(&f);
    }
}

/* What only a session runs is refused by name. */
typedef struct left_program {
    const char *name, *code, *says;
    fixture f;
} left_program;

static left_program left[] = {
    {.name = "branch", .code = "OPR-003", .says = "higher_order.cond"},
    {.name = "elements", .code = "OPR-003", .says = "aten.item.default"},
    {.name = "masks", .code = "OPR-002", .says = "index_put"}, /* [None, mask] */
};

static void refuse(rank_context *c)
{
    const left_program *l = c->user;
    exg_module_value in[INPUTS_MAX], out[OUTPUTS_MAX];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(&l->f, in, tensors);
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_module_create(&l->f.verified, &m, &err) == EXG_OK &&
               exg_module_forward(e.d, m, in, count, out, exg_module_output_count(m), &err) ==
                   EXG_UNSUPPORTED &&
               strcmp(err.code, l->code) == 0 && strstr(err.message, l->says) != NULL,
           "%s: %s: %s", l->name, err.code, err.message);
    exg_module_destroy(m);
    eager_end(&e);
}

static void some_are_left_to_sessions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        open_fixture(&left[i].f, left[i].name, left[i].name);
        on_mesh("1", refuse, &left[i]); /* each plain: ranks would read the same pages */
        close_fixture(&left[i].f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_answer_as_pytorch),
        cmocka_unit_test(some_are_left_to_sessions),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
