/* shared_writes.c - operators of libraries that write what shares elements with their other
 * tensors: refused, in programs and as eager calls; what lies side by side is written. mylib is
 * examples/operators/mylib.c. */
#include "tests/exec/dispatch/eager.h"
#include "tests/exec/session/fixture.h"

#include <exg/emit.h>
#include <exg/operator_library.h>
#include <exg/session.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const exg_operator_library *exg_operator_library_get(void);

static exg_operators *create_operators(void)
{
    exg_operators *operators;
    exg_error err;

    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    assert_int_equal(exg_operators_register(operators, exg_operator_library_get(), &err), EXG_OK);
    return operators;
}

/* Two windows of x, which begin at `starts` and are `length` long, written by one call. */
static exg_status write_windows(const int64_t *starts, int64_t length, exg_error *err)
{
    static const char *const dialect[] = {"TRAINING"}; /* writes in place */
    const int64_t sizes[] = {6};
    float memory[6] = {0, 1, 2, 3, 4, 5};
    exg_session_input in = {.name = "x", .tensor = {memory, EXG_DTYPE_F32, 1, {6}, {1}}};
    exg_operators *operators = create_operators();
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_argument args[2], x;
    exg_ref windows[2];
    exg_status status;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, err), EXG_OK);
    program->verifiers = (const char **)(uintptr_t)dialect;
    program->verifier_count = 1;
    assert_int_equal(exg_builder_create(operators, program, &b, err), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, 1);
    x = exg_arg_ref(exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET));
    for (uint32_t w = 0; w < 2; w++) {
        windows[w] =
            EMIT(b, slice_Tensor, x, 0, exg_arg_int(starts[w]), exg_arg_int(starts[w] + length), 1);
    }
    args[0] = exg_arg_refs(b, windows, 2);
    args[1] = exg_arg_float(2);
    (void)exg_emit_all(b, exg_operators_find(operators, "torch.ops.mylib.scale_all.default")->id,
                       args, 2, NULL);
    exg_builder_output(b, &x, EXG_OUTPUT_USER, NULL);
    exg_builder_call(b);
    status = exg_builder_finish(b, err);
    status = status == EXG_OK ? run_built(program, operators, &in, err) : status;
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return status;
}

static void a_write_to_what_is_shared_is_refused(void **state)
{
    static const struct {
        int64_t starts[2], length;
        bool is_shared;
    } rows[] = {{{0, 2}, 3, true},  {{2, 0}, 3, true},  {{0, 0}, 1, true},
                {{0, 3}, 3, false}, {{3, 0}, 3, false}, {{0, 0}, 0, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_error err;

        exg_error_clear(&err);
        assert_int_equal(write_windows(rows[i].starts, rows[i].length, &err),
                         rows[i].is_shared ? EXG_UNSUPPORTED : EXG_OK);
        assert_string_equal(err.code, rows[i].is_shared ? "FUN-004" : "");
        assert_true(!rows[i].is_shared ||
                    strstr(err.message, "writes tensor 0 of 'xs', which shares elements with "
                                        "tensor 1 of 'xs'") != NULL);
    }
}

/* ---- eager ----------------------------------------------------------------------------------- */

static exg_operators *registered;

/* What shares elements with what is written is refused, what lies beside it is not. */
static void write_eagerly(eager *e)
{
    exg_dtensor *total = counted(e, EXG_DTYPE_F32, "2x2", "R");
    exg_dtensor *row = CALL(e, "aten.select.int", T(total), of_int(0), of_int(0));
    exg_dtensor *next = CALL(e, "aten.select.int", T(total), of_int(0), of_int(1));
    exg_dtensor *column = CALL(e, "aten.select.int", T(total), of_int(1), of_int(1));
    const struct {
        exg_dtensor *a, *b;
        bool is_shared;
    } rows[] = {{total, total, true}, {row, total, true}, {row, column, true}, {row, next, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_object written[2] = {T(rows[i].a), T(rows[i].b)};
        exg_object args[2] = {exg_object_list(written, 2), of_float(2)};
        exg_object result;

        if (rows[i].is_shared) {
            EXPECT(e->c, refusal(e, "mylib.scale_all.default", args, 2) == EXG_UNSUPPORTED,
                   "shared %zu", i);
        } else {
            result = call(e, "mylib.scale_all.default", args, 2);
            exg_object_clear(&result, false);
        }
    }
    expect_values(e, total, "R", (const double[]){0, 2, 4, 6}, 4, "both rows, once");
    exg_dtensor_destroy(row);
    exg_dtensor_destroy(next);
    exg_dtensor_destroy(column);
    exg_dtensor_destroy(total);
}

static void call_eagerly(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .mesh = c->mesh};
    eager e = {.c = c, .mesh = c->mesh};
    exg_error err;

    EXPECT(c, exg_dispatcher_create(registered, &options, &e.d, &err) == EXG_OK, "%s", err.message);
    write_eagerly(&e);
    eager_end(&e);
}

static void the_dispatcher_refuses_it_too(void **state)
{
    (void)state;
    registered = create_operators();
    on_mesh("1", call_eagerly, NULL);
    on_mesh("2", call_eagerly, NULL);
    exg_operators_destroy(registered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_to_what_is_shared_is_refused),
        cmocka_unit_test(the_dispatcher_refuses_it_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
