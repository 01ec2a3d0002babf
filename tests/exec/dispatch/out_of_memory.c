/* out_of_memory.c - operators, gradients and modules where a request for memory gets nothing: all
 * say NO_MEMORY, or go on without, and leave nothing behind.
 */
#include "tests/exec/dispatch/fixture.h"
#include "tests/export/refusal.h"

#include <exg/autograd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef REFUSES_MEMORY

enum { KEPT_MAX = 16 };

typedef struct attempt {
    uint64_t refused;  /* this request gets nothing; 0: each gets what it asks for */
    uint64_t requests; /* how many there were */
    exg_status (*go)(struct attempt *a, exg_dispatcher *d, exg_device_mesh *mesh, exg_error *err);
    exg_object kept[KEPT_MAX]; /* what was made */
    uint32_t kept_count;
} attempt;

static exg_status call_one(attempt *a, exg_dispatcher *d, const char *key, const exg_object *args,
                           uint32_t count, exg_dtensor **made, exg_error *err)
{
    exg_object *result = &a->kept[a->kept_count];

    *made = NULL;
    EXG_TRY(exg_dispatch(d, key, args, count, NULL, 0, result, err));
    a->kept_count++;
    *made = result->kind == EXG_OBJECT_DTENSOR ? result->dtensor : NULL;
    return EXG_OK;
}

static exg_status make(attempt *a, exg_device_mesh *mesh, bool wanted, exg_dtensor **t,
                       exg_error *err)
{
    static int64_t sizes[] = {2, 4};
    exg_dtensor_like like = {sizeof(like), EXG_DTYPE_F32, 2, sizes, NULL, 0, wanted};

    EXG_TRY(exg_dtensor_ones(mesh, &like, t, err));
    a->kept[a->kept_count++] = exg_object_dtensor(*t);
    return EXG_OK;
}

/* A function of a weight and its gradient: products, views, a sum. */
static exg_status go_back(attempt *a, exg_dispatcher *d, exg_device_mesh *mesh, exg_error *err)
{
    exg_dtensor *w, *x, *t, *y, *z, *sum;
    exg_object args[3];

    EXG_TRY(make(a, mesh, true, &w, err));
    EXG_TRY(make(a, mesh, false, &x, err));
    args[0] = exg_object_dtensor(w);
    EXG_TRY(call_one(a, d, "aten.t.default", args, 1, &t, err));
    args[0] = exg_object_dtensor(x);
    args[1] = exg_object_dtensor(t);
    EXG_TRY(call_one(a, d, "aten.mm.default", args, 2, &y, err));
    args[0] = exg_object_dtensor(y);
    EXG_TRY(call_one(a, d, "aten.tanh.default", args, 1, &z, err));
    args[0] = exg_object_dtensor(z);
    EXG_TRY(call_one(a, d, "aten.sum.default", args, 1, &sum, err));
    return exg_backward(d, &sum, NULL, 1, NULL, err);
}

/* Lists in and out, a result of several tensors, a row that goes elsewhere first. */
static exg_status go_over_lists(attempt *a, exg_dispatcher *d, exg_device_mesh *mesh,
                                exg_error *err)
{
    exg_dtensor *x, *y, *unused;
    exg_object items[2], args[2];

    EXG_TRY(make(a, mesh, false, &x, err));
    EXG_TRY(make(a, mesh, false, &y, err));
    items[0] = exg_object_dtensor(x);
    items[1] = exg_object_dtensor(y);
    args[0] = exg_object_list(items, 2);
    args[1] = exg_object_value(exg_arg_int(2));
    EXG_TRY(call_one(a, d, "aten._foreach_add.Scalar", args, 2, &unused, err));
    EXG_TRY(call_one(a, d, "aten._foreach_mul_.Scalar", args, 2, &unused, err));
    args[1] = exg_object_value(exg_arg_int(1));
    EXG_TRY(call_one(a, d, "aten.cat.default", args, 2, &unused, err));
    args[0] = exg_object_dtensor(x);
    EXG_TRY(call_one(a, d, "aten.split.Tensor", args, 2, &unused, err));
    EXG_TRY(call_one(a, d, "aten.max.dim", args, 2, &unused, err));
    return call_one(a, d, "aten.ones_like.default", args, 1, &unused, err);
}

static void keep(attempt *a, exg_dtensor *made)
{
    a->kept[a->kept_count++] = exg_object_dtensor(made);
}

/* A plain weight becomes a DTensor, is moved, becomes plain again; and back. */
static exg_status go_over_borders(attempt *a, exg_dispatcher *d, exg_device_mesh *mesh,
                                  exg_error *err)
{
    const exg_placement rows = exg_shard(0), whole = exg_replicate();
    exg_from_local_options how = {.size = sizeof(how)};
    exg_dtensor *w, *t = NULL, *leaf = NULL, *moved = NULL, *part = NULL, *sum, *square,
                    *all = NULL;
    exg_device_mesh *self;
    exg_object args[2];

    EXG_TRY(exg_dispatcher_self(d, &self, err));
    EXG_TRY(make(a, self, true, &w, err));
    EXG_TRY(exg_distribute(d, w, mesh, &rows, 1, 0, &leaf, err));
    keep(a, leaf);
    args[0] = exg_object_dtensor(w);
    EXG_TRY(call_one(a, d, "aten.square.default", args, 1, &square, err));
    EXG_TRY(exg_from_local(d, square, mesh, &rows, 1, &how, NULL, &t, err));
    keep(a, t);
    args[0] = exg_object_dtensor(t);
    args[1] = exg_object_dtensor(leaf);
    EXG_TRY(call_one(a, d, "aten.mul.Tensor", args, 2, &square, err));
    EXG_TRY(exg_redistribute(d, square, &whole, 1, NULL, &moved, err));
    keep(a, moved);
    EXG_TRY(exg_to_local(d, moved, NULL, &part, err));
    keep(a, part);
    EXG_TRY(exg_full_tensor(d, square, NULL, &all, err));
    keep(a, all);
    args[0] = exg_object_dtensor(part);
    args[1] = exg_object_dtensor(all);
    EXG_TRY(call_one(a, d, "aten.add.Tensor", args, 2, &square, err));
    args[0] = exg_object_dtensor(square);
    EXG_TRY(call_one(a, d, "aten.sum.default", args, 1, &sum, err));
    return exg_backward(d, &sum, NULL, 1, NULL, err);
}

/* Tensors that are made, moved, printed and gone back with, without a dispatcher. */
static exg_status go_over_dtensors(attempt *a, exg_dispatcher *d, exg_device_mesh *mesh,
                                   exg_error *err)
{
    static float data[8];
    const exg_tensor global = {data, EXG_DTYPE_F32, 2, {2, 4}, {4, 1}};
    const exg_placement rows = exg_shard(0), whole = exg_replicate();
    int64_t sizes[] = {8};
    exg_dtensor_like like = {.size = sizeof(like), .dtype = EXG_DTYPE_F32, .rank = 1};
    exg_rng rng = {0};
    exg_dtensor *t, *moved, *made;
    char *text;

    (void)d;
    like.sizes = sizes;
    EXG_TRY(exg_distribute_tensor(mesh, &global, &rows, 1, 0, &t, err));
    keep(a, t);
    EXG_TRY(exg_dtensor_redistribute(t, &whole, 1, &moved, err));
    keep(a, moved);
    EXG_TRY(exg_dtensor_full_tensor(t, &made, err));
    keep(a, made);
    EXG_TRY(exg_to_local_backward(t, exg_dtensor_to_local(t), &rows, 1, &made, err));
    keep(a, made);
    EXG_TRY(exg_from_local_backward(t, moved, &rows, 1, &made, err));
    keep(a, made);
    EXG_TRY(exg_redistribute_backward(t, moved, &made, err));
    keep(a, made);
    EXG_TRY(exg_dtensor_coerce_like(moved, t, &made, err));
    keep(a, made);
    EXG_TRY(exg_dtensor_arange(mesh, &like, 0, 1, &made, err));
    keep(a, made);
    EXG_TRY(exg_dtensor_randn(mesh, &like, &rng, &made, err));
    keep(a, made);
    EXG_TRY(exg_dtensor_print(t, &text, err));
    free(text);
    EXG_TRY(exg_dtensor_print_whole(t, &text, err));
    free(text);
    return EXG_OK;
}

static fixture mlp;

/* A program that is distributed, run by the dispatcher, and gone back with. */
static exg_status run_module(attempt *a, exg_module *m, exg_dispatcher *d, exg_device_mesh *mesh,
                             exg_error *err)
{
    exg_module_functions functions = {.size = sizeof(functions)};
    exg_module_value in[INPUTS_MAX], out[1];
    exg_tensor tensors[INPUTS_MAX];
    uint32_t count = take_inputs(&mlp, in, tensors);

    EXG_TRY(exg_distribute_module(d, m, "", mesh, &functions, err));
    EXG_TRY(exg_module_forward(d, m, in, count, out, 1, err));
    keep(a, out[0].dtensor);
    return EXG_OK;
}

static exg_status go_over_modules(attempt *a, exg_dispatcher *d, exg_device_mesh *mesh,
                                  exg_error *err)
{
    exg_module *m;
    exg_status status;

    EXG_TRY(exg_module_create(&mlp.verified, &m, err));
    status = run_module(a, m, d, mesh, err);
    exg_module_destroy(m);
    return status;
}

static void try_once(rank_context *c)
{
    attempt *a = (attempt *)(uintptr_t)c->user;
    exg_dispatch_options own = {.size = sizeof(own), .mesh = c->mesh, .implicit_replication = true};
    exg_dispatcher *d = NULL;
    exg_status status;
    exg_error err;

    exg_error_clear(&err);
    a->kept_count = 0;
    refuse_memory(a->refused == 0 ? UINT64_MAX : a->refused, a->refused);
    status = exg_dispatcher_create(all_operators(), &own, &d, &err);
    if (status == EXG_OK) {
        status = a->go(a, d, c->mesh, &err);
    }
    a->requests = memory_requests();
    grant_memory();
    for (uint32_t i = a->kept_count; i-- > 0;) {
        exg_object_clear(&a->kept[i], true);
    }
    exg_dispatcher_destroy(d);
    EXPECT(c, status == EXG_OK || (status == EXG_NO_MEMORY && a->refused > 0),
           "request %u refused: %d %s %s", (unsigned)a->refused, (int)status, err.code,
           err.message);
}

static void refuse(exg_status (*go)(attempt *, exg_dispatcher *, exg_device_mesh *, exg_error *))
{
    attempt a = {.go = go};

    on_mesh("1", try_once, &a);
    assert_true(a.requests > 50);
    for (a.refused = 1; a.requests >= a.refused - 1; a.refused++) {
        on_mesh("1", try_once, &a);
        assert_true(a.refused < 5000);
    }
}

static void gradients_say_so(void **state)
{
    (void)state;
    refuse(go_back);
}

static void lists_say_so(void **state)
{
    (void)state;
    refuse(go_over_lists);
}

static void borders_say_so(void **state)
{
    (void)state;
    refuse(go_over_borders);
}

static void tensors_say_so(void **state)
{
    (void)state;
    refuse(go_over_dtensors);
}

static void modules_say_so(void **state)
{
    (void)state;
    open_fixture(&mlp, "mlp", "mlp");
    refuse(go_over_modules);
    close_fixture(&mlp);
}

static int begin(void **state)
{
    (void)state;
    return all_operators() == NULL;
}

static int end(void **state)
{
    (void)state;
    free_operators();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_say_so), cmocka_unit_test(lists_say_so),
        cmocka_unit_test(borders_say_so),   cmocka_unit_test(tensors_say_so),
        cmocka_unit_test(modules_say_so),
    };

    return cmocka_run_group_tests(tests, begin, end);
}

#else

int main(void)
{
    return 0;
}
#endif
