/* forward.c - distributed programs that are called: by a dispatcher, with gradients, and by a
 * session. Answers and gradients are PyTorch's, of the program that is not distributed.
 */
#include "tests/exec/dispatch/fixture.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What regression.joint answers: the loss, what was foreseen, and gradients in this order. */
static const char *const answers[] = {"0", "1", "2", "3", "4", "5"};
static const char *const has_gradient[] = {"up.weight", "up.bias", "down.weight", "down.bias"};

static void expect_gradients(rank_context *c, const fixture *f, const exg_module *m)
{
    for (uint32_t i = 0; i < 4; i++) {
        exg_dtensor *t = exg_module_find(m, has_gradient[i]);

        expect_whole(c, f, answers[2 + i], t == NULL ? NULL : exg_dtensor_grad(t));
    }
}

/* ---- a regression, in parallel by batch and by tensor ---------------------------------------- */

/* Over the second mesh dim, as Megatron does: rows of the first matrix, columns of the second. */
static exg_status split_matrices(void *user, exg_module *m, const char *fqn, exg_device_mesh *mesh,
                                 exg_error *err)
{
    const exg_placement rows[] = {exg_replicate(), exg_shard(0)};
    const exg_placement columns[] = {exg_replicate(), exg_shard(1)};

    (void)user, (void)mesh;
    if (strcmp(fqn, "up") == 0) {
        EXG_TRY(exg_module_assign(m, "up.weight", rows, 2, err));
        return exg_module_assign(m, "up.bias", rows, 2, err);
    }
    return strcmp(fqn, "down") == 0 ? exg_module_assign(m, "down.weight", columns, 2, err) : EXG_OK;
}

/* The batch is cut over the first mesh dim. */
static exg_status cut_batch(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                            uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    const exg_placement batch[] = {exg_shard(0), exg_replicate()};

    (void)user, (void)m;
    if (fqn[0] != '\0' || count != 2 || strcmp(values[0].name, "x") != 0 ||
        strcmp(values[1].name, "target") != 0) {
        return exg_error_set(err, __FILE__, __LINE__, EXG_USAGE, "TST-001", "other inputs");
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(exg_distribute_tensor(mesh, values[i].tensor, batch, 2, EXG_NO_RANK,
                                      &values[i].dtensor, err));
        values[i].tensor = NULL;
    }
    return EXG_OK;
}

typedef struct run {
    fixture *f;
    eager *e;
    uint32_t calls; /* of functions */
} run;

/* Outputs whole, as plain tensors. */
static exg_status make_whole(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                             uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    (void)m, (void)fqn, (void)mesh;
    r->calls++;
    for (uint32_t i = 0; i < count; i++) {
        exg_dtensor *whole;

        EXPECT(r->e->c, values[i].tensor == NULL, "a plain output");
        EXG_TRY(exg_full_tensor(r->e->d, values[i].dtensor, NULL, &whole, err));
        values[i].dtensor = whole;
        values[i].tensor = exg_dtensor_to_local(whole);
    }
    return EXG_OK;
}

/* Forward and backward, twice: gradients add up, buffers are the module's. */
static void train(rank_context *c)
{
    const exg_dispatch_options options = {.size = sizeof(options)};
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions functions = {.size = sizeof(functions),
                                      .partition = split_matrices,
                                      .input = cut_batch,
                                      .output = make_whole,
                                      .user = &r};
    exg_module_value in[INPUTS_MAX], out[2];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, &options);
    r.e = &e;
    EXPECT(c,
           exg_module_create(&r.f->verified, &m, &err) == EXG_OK &&
               exg_module_output_count(m) == 2 &&
               exg_distribute_module(e.d, m, "", NULL, &functions, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           exg_module_forward(e.d, m, in, 1, out, 2, &err) == EXG_USAGE &&
               strstr(err.message, "target") != NULL,
           "one is missing");
    EXPECT(c,
           exg_module_forward(e.d, m, in, count, out, 1, &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-017") == 0 &&
               strstr(err.message, "room for 1 outputs of 2") != NULL,
           "too little room");
    for (uint32_t i = 0; i < count; i++) {
        const char *name = in[i].name;

        in[i].name = NULL;
        EXPECT(c, exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_USAGE, "no name");
        in[i].name = name;
    }
    EXPECT(c, exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_OK, "%s", err.message);
    if (c->faults == 0) {
        EXPECT(c, r.calls == 1 && in[0].tensor == &tensors[0] && in[0].dtensor == NULL,
               "what is the caller's stays");
        EXPECT(c, out[0].tensor != NULL && strcmp(out[0].name, "mse_loss") == 0, "names");
        expect_whole(c, r.f, "0", out[0].dtensor);
        expect_whole(c, r.f, "1", out[1].dtensor);
        expect_whole(c, r.f, "buffer:calls", exg_module_find(m, "calls"));
        EXPECT(c, exg_backward(e.d, &out[0].dtensor, NULL, 1, NULL, &err) == EXG_OK, "%s",
               err.message);
        expect_gradients(c, r.f, m);
        EXPECT(c,
               exg_placement_equal(
                   exg_dtensor_placements(exg_dtensor_grad(exg_module_find(m, "up.weight")))[1],
                   exg_shard(0)),
               "gradients lie as their parameters");
        destroy_outputs(out, 2);
        exg_dtensor_destroy(exg_dtensor_take_grad(exg_module_find(m, "up.bias")));
        EXPECT(c,
               exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_OK &&
                   exg_backward(e.d, &out[0].dtensor, NULL, 1, NULL, &err) == EXG_OK,
               "%s", err.message);
        expect_whole(c, r.f, "3", exg_dtensor_grad(exg_module_find(m, "up.bias")));
        EXPECT(c, *(const int64_t *)on_host(exg_module_find(m, "calls"))->data == 2, "two calls");
        destroy_outputs(out, 2);
    }
    exg_module_destroy(m);
    eager_end(&e);
}

/* A dispatcher without a mesh: the module's is there for the time of the call. */
static void call_on_its_mesh(rank_context *c)
{
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions functions = {.size = sizeof(functions),
                                      .partition = split_matrices,
                                      .input = cut_batch,
                                      .output = make_whole,
                                      .user = &r};
    exg_module_value in[INPUTS_MAX], out[2];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_module *m = NULL;
    eager e = {.c = c, .mesh = c->mesh};

    r.e = &e;
    EXPECT(c,
           exg_dispatcher_create(all_operators(), NULL, &e.d, &e.err) == EXG_OK &&
               exg_module_create(&r.f->verified, &m, &e.err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", c->mesh, &functions, &e.err) == EXG_OK &&
               exg_module_forward(e.d, m, in, count, out, 2, &e.err) == EXG_OK,
           "%s", e.err.message);
    if (c->faults == 0) {
        expect_whole(c, r.f, "0", out[0].dtensor);
        destroy_outputs(out, 2);
        EXPECT(c, exg_dispatcher_pop_mesh(e.d) == NULL, "no mesh is left");
    }
    exg_module_destroy(m);
    exg_dispatcher_destroy(e.d);
}

/* S003-01, S003-106, S003-113, S003-115, S003-145 */
static void a_distributed_program_is_trained_by_the_dispatcher(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, "regression", "regression.joint");
    on_mesh("2x2", train, &f);
    on_mesh("1x3", train, &f);
    on_mesh("4x1", train, &f);
    on_mesh("1x1", train, &f);
    on_mesh("2x2", call_on_its_mesh, &f);
    close_fixture(&f);
}

/* ---- functions that change nothing, or one input --------------------------------------------- */

static exg_status leave_alone(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                              uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    (void)m, (void)fqn, (void)values, (void)count, (void)mesh, (void)err;
    r->calls++;
    return EXG_OK;
}

/* Of the two inputs the one called "target", wherever it stands. */
static exg_status place_target(void *user, exg_module_value *values, uint32_t count,
                               exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    r->calls++;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(values[i].name, "target") == 0) {
            EXG_TRY(exg_distribute_tensor(mesh, values[i].tensor, NULL, 0, EXG_NO_RANK,
                                          &values[i].dtensor, err));
            values[i].tensor = NULL;
        }
    }
    return EXG_OK;
}

static exg_status note_outputs(void *user, exg_module_value *values, uint32_t count,
                               exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    (void)values, (void)mesh, (void)err;
    r->calls += count;
    return EXG_OK;
}

static void count_notes(void *user, exg_dispatch_event event, const char *text)
{
    uint32_t *notes = user;

    *notes += event == EXG_EVENT_NOTE && strstr(text, "deprecated") != NULL;
}

/* The first output whole, the second not. */
static exg_status fail_at_the_second(void *user, exg_module *m, const char *fqn,
                                     exg_module_value *values, uint32_t count,
                                     exg_device_mesh *mesh, exg_error *err)
{
    exg_dtensor *whole;
    run *r = user;

    (void)m, (void)fqn, (void)count, (void)mesh;
    EXG_TRY(exg_full_tensor(r->e->d, values[0].dtensor, NULL, &whole, err));
    values[0].dtensor = whole;
    values[0].tensor = exg_dtensor_to_local(whole);
    return exg_error_set(err, __FILE__, __LINE__, EXG_USAGE, "TST-001", "not the second");
}

/* What functions leave alone stays: plain inputs beside DTensors, taken as whole. */
static void run_left_alone(rank_context *c)
{
    uint32_t notes = 0;
    const exg_dispatch_options options = {.size = sizeof(options),
                                          .implicit_replication = true,
                                          .log = count_notes,
                                          .log_user = &notes};
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions functions = {
        .size = sizeof(functions), .input = leave_alone, .output = leave_alone, .user = &r};
    exg_module_functions of_two = {.size = sizeof(of_two),
                                   .input_of_two = place_target,
                                   .output_of_two = note_outputs,
                                   .user = &r};
    exg_module_value in[INPUTS_MAX], out[2];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_error err;
    eager e;

    eager_begin(&e, c, &options);
    r.e = &e;
    for (int k = 0; k < 2 && c->faults == 0; k++) { /* with the module, and without */
        exg_module *m = NULL;

        r.calls = 0;
        EXPECT(c, exg_module_create(&r.f->verified, &m, &err) == EXG_OK, "%s", err.message);
        of_two.input = leave_alone;
        EXPECT(c,
               exg_distribute_module(e.d, m, "", c->mesh, &of_two, &err) == EXG_USAGE &&
                   strcmp(err.code, "DTN-017") == 0,
               "two input functions");
        of_two.input = NULL;
        EXPECT(c,
               exg_distribute_module(e.d, m, "", c->mesh, k == 0 ? &functions : &of_two, &err) ==
                   EXG_OK,
               "%s", err.message);
        EXPECT(c, notes == (k == 0 ? 0 : 2), "%u notes", notes);
        EXPECT(c, exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_OK, "%s", err.message);
        if (c->faults == 0) {
            EXPECT(c, r.calls == (k == 0 ? 2 : 3), "%u calls", r.calls);
            EXPECT(c, out[0].tensor == NULL && lies(out[0].dtensor, "R R"), "a DTensor comes out");
            expect_whole(c, r.f, "0", out[0].dtensor);
            expect_whole(c, r.f, "1", out[1].dtensor);
            destroy_outputs(out, 2);
        }
        exg_module_destroy(m);
    }
    eager_end(&e);
}

/* An output function that fails leaves no output behind: the sanitizers' build counts them. */
static void run_failing(rank_context *c)
{
    const exg_dispatch_options options = {.size = sizeof(options), .implicit_replication = true};
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions functions = {
        .size = sizeof(functions), .input = cut_batch, .output = fail_at_the_second, .user = &r};
    exg_module_value in[INPUTS_MAX], out[2] = {{.name = "untouched"}};
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, &options);
    r.e = &e;
    EXPECT(c,
           exg_module_create(&r.f->verified, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "", c->mesh, &functions, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_USAGE &&
               strcmp(err.message, "not the second") == 0 && strcmp(out[0].name, "untouched") == 0,
           "%s", err.message);
    exg_module_destroy(m);
    eager_end(&e);
}

static void a_function_that_fails_ends_the_run(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, "regression", "regression.joint");
    on_mesh("2x1", run_failing, &f);
    close_fixture(&f);
}

/* S003-113 to S003-116: none keeps what is there; the deprecated forms are taken, with a note;
 * S003-113, S003-114, S003-115, S003-116 */
static void functions_may_leave_values_alone(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, "regression", "regression.joint");
    on_mesh("2x1", run_left_alone, &f);
    on_mesh("2x2", run_left_alone, &f);
    close_fixture(&f);
}

/* ---- modules of their own, between plain ones ------------------------------------------------ */

/* As PyTorch's ColwiseParallel and RowwiseParallel: whole, or in columns, over the borders. */
static exg_status over_the_border(run *r, exg_module_value *value, exg_device_mesh *mesh,
                                  exg_placement placement, exg_error *err)
{
    exg_dtensor *made;

    if (value->dtensor == NULL) { /* an input of the program has no gradient */
        EXG_TRY(
            exg_dtensor_from_local(mesh, value->tensor, &placement, 1, NULL, &value->dtensor, err));
        value->tensor = NULL;
        return EXG_OK;
    }
    EXG_TRY(exg_from_local(r->e->d, value->dtensor, mesh, &placement, 1, NULL, NULL, &made, err));
    value->dtensor = made;
    value->tensor = NULL;
    return EXG_OK;
}

static exg_status come_in(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                          uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    (void)m;
    r->calls++;
    EXPECT(r->e->c, count == 1 && values[0].tensor != NULL, "%s: one plain input", fqn);
    return over_the_border(r, &values[0], mesh,
                           strcmp(fqn, "up") == 0 ? exg_replicate() : exg_shard(-1), err);
}

static exg_status go_out(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                         uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;
    exg_placement lies_as = strcmp(fqn, "up") == 0 ? exg_shard(-1) : exg_replicate();
    exg_dtensor *moved, *local;
    exg_status status;

    (void)m, (void)mesh;
    r->calls++;
    EXPECT(r->e->c, count == 1 && values[0].tensor == NULL, "%s: one DTensor", fqn);
    EXG_TRY(exg_redistribute(r->e->d, values[0].dtensor, &lies_as, 1, NULL, &moved, err));
    status = exg_to_local(r->e->d, moved, NULL, &local, err);
    exg_dtensor_destroy(moved);
    EXG_TRY(status);
    values[0].dtensor = local;
    values[0].tensor = exg_dtensor_to_local(local);
    return EXG_OK;
}

static exg_status stay(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                       uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    (void)user, (void)m, (void)fqn, (void)values, (void)count, (void)mesh, (void)err;
    return EXG_OK;
}

static exg_status split_one(void *user, exg_module *m, const char *fqn, exg_device_mesh *mesh,
                            exg_error *err)
{
    exg_placement rows = exg_shard(0), columns = exg_shard(1);

    (void)user, (void)mesh;
    if (strcmp(fqn, "up") == 0) {
        EXG_TRY(exg_module_assign(m, "up.weight", &rows, 1, err));
        return exg_module_assign(m, "up.bias", &rows, 1, err);
    }
    return exg_module_assign(m, "down.weight", &columns, 1, err);
}

static void train_modules(rank_context *c)
{
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions functions = {.size = sizeof(functions),
                                      .partition = split_one,
                                      .input = come_in,
                                      .output = go_out,
                                      .user = &r};
    exg_module_value in[INPUTS_MAX], out[2];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_module *m = NULL;
    exg_dtensor *scale;
    exg_error err;
    eager e;

    eager_begin(&e, c, NULL);
    r.e = &e;
    EXPECT(c,
           exg_module_create(&r.f->verified, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "up", c->mesh, &functions, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "down", c->mesh, &functions, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c, exg_module_find(m, "scale") == NULL, "what is in no distributed module stays plain");
    EXPECT(c, exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_OK, "%s", err.message);
    if (c->faults == 0) {
        EXPECT(c, r.calls == 4, "%u calls of functions", r.calls);
        EXPECT(c, out[0].tensor != NULL && out[1].tensor != NULL, "plain outputs");
        expect_tensor(c, r.f, "0", on_host(out[0].dtensor));
        expect_tensor(c, r.f, "1", on_host(out[1].dtensor));
        EXPECT(c, exg_backward(e.d, &out[0].dtensor, NULL, 1, NULL, &err) == EXG_OK, "%s",
               err.message);
        expect_gradients(c, r.f, m);
        scale = exg_module_find(m, "scale");
        EXPECT(c, scale != NULL && exg_device_mesh_size(exg_dtensor_device_mesh(scale)) == 1,
               "a plain buffer");
        destroy_outputs(out, 2);
        EXPECT(c,
               exg_distribute_module(e.d, m, "", c->mesh, NULL, &err) == EXG_OK &&
                   exg_dtensor_device_mesh(exg_module_find(m, "scale")) == c->mesh,
               "what was plain is distributed later");
    }
    exg_module_destroy(m);
    eager_end(&e);
}

/* S003-02, S003-113, S003-115, S003-145: a program that is distributed in part. */
static void modules_have_functions_of_their_own(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, "regression", "regression.joint");
    on_mesh("2", train_modules, &f);
    on_mesh("4", train_modules, &f);
    on_mesh("1", train_modules, &f);
    close_fixture(&f);
}

/* A stack that says "up" again and again. */
static void call_within_itself(rank_context *c)
{
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions functions = {
        .size = sizeof(functions), .partition = split_one, .output = stay, .user = &r};
    exg_module_value in[INPUTS_MAX], out[2];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_module_create(&r.f->verified, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "up", c->mesh, &functions, &err) == EXG_OK,
           "%s", err.message);
    EXPECT(c,
           exg_module_forward(e.d, m, in, count, out, 2, &err) == EXG_LIMIT &&
               strcmp(err.code, "LIM-001") == 0,
           "a module within itself");
    exg_module_destroy(m);
    eager_end(&e);
}

static void a_module_within_itself_is_refused(void **state)
{
    static const char frame[] = "k,up,Linear;";
    static char stack[100000 * (sizeof(frame) - 1) + 1];
    const char **held = NULL, *before;
    fixture f;

    (void)state;
    for (size_t i = 0; i + 1 < sizeof(stack); i += sizeof(frame) - 1) {
        memcpy(stack + i, frame, sizeof(frame) - 1);
    }
    open_fixture(&f, "regression", "regression.joint");
    for (uint32_t n = 0; held == NULL && n < f.program->graph->node_count; n++) {
        exg_string_map *map = &f.program->graph->nodes[n].metadata;

        for (uint32_t i = 0; i < map->count; i++) {
            if (strcmp(map->items[i].key, "nn_module_stack") == 0 &&
                strstr(map->items[i].value, ",up,") != NULL) {
                held = &map->items[i].value;
            }
        }
    }
    assert_non_null(held);
    before = *held;
    *held = stack;
    on_mesh("2", call_within_itself, &f);
    *held = before;
    close_fixture(&f);
}

/* ---- blocks of a language model -------------------------------------------------------------- */

/* The matrices of a block's MLP: rows, rows, columns. */
static exg_status split_block(void *user, exg_module *m, const char *fqn, exg_device_mesh *mesh,
                              exg_error *err)
{
    static const char *const names[] = {"gate", "up", "down"};

    (void)user, (void)mesh;
    for (int k = 0; k < 3 && strcmp(fqn + strlen(fqn) - 3, "mlp") == 0; k++) {
        exg_placement lies_as = exg_shard(k == 2);
        char name[100];

        snprintf(name, sizeof(name), "%s.%s.weight", fqn, names[k]);
        EXG_TRY(exg_module_assign(m, name, &lies_as, 1, err));
    }
    return EXG_OK;
}

/* All that is plain, whole on every rank. */
static exg_status come_in_whole(void *user, exg_module *m, const char *fqn,
                                exg_module_value *values, uint32_t count, exg_device_mesh *mesh,
                                exg_error *err)
{
    run *r = user;

    (void)m, (void)fqn;
    r->calls++;
    for (uint32_t i = 0; i < count; i++) {
        EXPECT(r->e->c, values[i].tensor != NULL, "%s: a plain input", fqn);
        EXG_TRY(over_the_border(r, &values[i], mesh, exg_replicate(), err));
    }
    return EXG_OK;
}

/* Inside a block: what came in is a DTensor there. */
static exg_status look_inside(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                              uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    (void)m, (void)mesh, (void)err;
    r->calls += 100;
    EXPECT(r->e->c, count == 1 && values[0].tensor == NULL && values[0].dtensor != NULL,
           "%s: a DTensor", fqn);
    return EXG_OK;
}

static exg_status go_out_whole(void *user, exg_module *m, const char *fqn, exg_module_value *values,
                               uint32_t count, exg_device_mesh *mesh, exg_error *err)
{
    run *r = user;

    (void)m, (void)fqn, (void)mesh;
    r->calls++;
    for (uint32_t i = 0; i < count; i++) {
        exg_dtensor *whole;

        EXG_TRY(exg_full_tensor(r->e->d, values[i].dtensor, NULL, &whole, err));
        values[i].dtensor = whole;
        values[i].tensor = exg_dtensor_to_local(whole);
    }
    return EXG_OK;
}

/* What a module is given goes on to others, as it was. */
static void run_blocks(rank_context *c)
{
    run r = {.f = (fixture *)(uintptr_t)c->user};
    exg_module_functions block = {.size = sizeof(block),
                                  .partition = split_block,
                                  .input = come_in_whole,
                                  .output = go_out_whole,
                                  .user = &r};
    exg_module_functions inner = {.size = sizeof(inner), .input = look_inside, .user = &r};
    exg_module_value in[INPUTS_MAX], out[1];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(r.f, in, tensors);
    exg_module *m = NULL;
    exg_error err;
    eager e;

    eager_begin(&e, c, NULL);
    r.e = &e;
    EXPECT(c,
           exg_module_create(&r.f->verified, &m, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "blocks.0.mlp_norm", NULL, &block, &err) ==
                   EXG_OK && /* whose input is added to the block's result */
               exg_distribute_module(e.d, m, "blocks.0.mlp", NULL, &block, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "blocks.1", NULL, &block, &err) == EXG_OK &&
               exg_distribute_module(e.d, m, "blocks.1.attention_norm", NULL, &inner, &err) ==
                   EXG_OK,
           "%s", err.message);
    EXPECT(c, exg_module_forward(e.d, m, in, count, out, 1, &err) == EXG_OK, "%s", err.message);
    if (c->faults == 0) {
        EXPECT(c, r.calls == 106, "%u calls", r.calls);
        EXPECT(c, out[0].tensor != NULL && exg_dtensor_requires_grad(out[0].dtensor), "plain");
        expect_tensor(c, r.f, "0", on_host(out[0].dtensor));
        destroy_outputs(out, 1);
    }
    exg_module_destroy(m);
    eager_end(&e);
}

/* S003-106, S003-113, S003-115 */
static void blocks_of_a_model_are_distributed(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, "lm.train-ir.static", "lm");
    on_mesh("2", run_blocks, &f);
    close_fixture(&f);
}

/* ---- a session ------------------------------------------------------------------------------- */

/* The module on one rank; a session has threads for all. */
static void expect_session(const char *shape, const char *name, const char *const *names,
                           uint32_t expected)
{
    exg_mesh_shape grid = mesh_shape(shape);
    exg_device_mesh *meshes[8];
    exg_module_functions functions = {
        .size = sizeof(functions), .partition = split_matrices, .input = cut_batch};
    exg_session_options placed = {.size = sizeof(placed), .mesh = grid};
    exg_session_input inputs[INPUTS_MAX];
    exg_module_value in[INPUTS_MAX];
    exg_tensor tensors[INPUTS_MAX];
    const exg_session_stats *stats;
    exg_session *session;
    rank_context c = {0};
    exg_dispatcher *d;
    exg_module *m;
    exg_error err;
    fixture f;
    uint32_t count, ranks;

    open_fixture(&f, name, "regression.joint");
    grid.device_type = NULL;
    assert_int_equal(exg_local_mesh_create(&grid, meshes, NULL), EXG_OK);
    ranks = exg_device_mesh_size(meshes[0]);
    count = take_inputs(&f, in, tensors);
    for (uint32_t i = 0; i < count; i++) {
        inputs[i] = (exg_session_input){.name = in[i].name, .tensor = tensors[i]};
    }
    assert_int_equal(exg_dispatcher_create(all_operators(), NULL, &d, NULL), EXG_OK);
    assert_int_equal(exg_module_create(&f.verified, &m, NULL), EXG_OK);
    assert_int_equal(exg_module_session(m, NULL, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-017");
    assert_int_equal(exg_distribute_module(d, m, "", meshes[0], &functions, NULL), EXG_OK);
    assert_int_equal(exg_module_session(m, &placed, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-017");
    if (exg_module_session(m, NULL, &session, &err) != EXG_OK ||
        exg_session_run(session, inputs, count, &err) != EXG_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(exg_session_output_count(session), expected);
    for (uint32_t o = 0; o < expected; o++) {
        expect_tensor(&c, &f, names[o], &exg_session_output_at(session, o)->tensor);
    }
    if (c.faults > 0) {
        fail_msg("%s over %s: %s", name, shape, c.what);
    }
    stats = exg_session_statistics(session);
    if (ranks == 4) { /* a rank holds half of three tensors of 4, 16 * 8 + 16 and 4 * 16 numbers */
        assert_int_equal(stats->partition->weight_bytes,
                         4 * ((16 * 8 + 16 + 4 * 16) / 2 + 4 + 4) + 8);
        assert_true(exg_partition_moves(stats->partition) > 0);
    }
    if (ranks == 5) { /* by batch alone */
        assert_true(stats->partition->split_count > 0);
    }
    exg_session_destroy(session);
    exg_module_destroy(m);
    exg_dispatcher_destroy(d);
    for (uint32_t r = 0; r < ranks; r++) {
        exg_device_mesh_destroy(meshes[r]);
    }
    close_fixture(&f);
}

/* S003-106, S003-146: forward, and a program that has its gradients among its outputs. */
static void a_session_runs_what_is_distributed(void **state)
{
    (void)state;
    expect_session("2x2", "regression", answers, 2);
    expect_session("2x2", "regression.joint", answers, 6);
    expect_session("1x3", "regression.joint", answers, 6);
    expect_session("5x1", "regression.joint", answers, 6);
    expect_session("1x1", "regression.joint", answers, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_distributed_program_is_trained_by_the_dispatcher),
        cmocka_unit_test(functions_may_leave_values_alone),
        cmocka_unit_test(a_function_that_fails_ends_the_run),
        cmocka_unit_test(modules_have_functions_of_their_own),
        cmocka_unit_test(a_module_within_itself_is_refused),
        cmocka_unit_test(blocks_of_a_model_are_distributed),
        cmocka_unit_test(a_session_runs_what_is_distributed),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
