/* item.c - tensors of one element as numbers, and plain ones beside DTensors. */
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- numbers --------------------------------------------------------------------------------- */

static void look_at_sum(rank_context *c)
{
    eager e;
    exg_dtensor *x, *many;
    exg_scalar number;

    eager_begin(&e, c, NULL);
    x = parts(&e, EXG_DTYPE_F32, "", "P(sum)",
              (const double[]){exg_device_mesh_rank(c->mesh) == 0 ? 1.0 : 5.0});
    EXPECT(c,
           exg_dtensor_item(x, &number, &e.err) == EXG_OK && number.kind == EXG_SCALAR_FLOAT &&
               number.as_float == 6.0,
           "%g", number.as_float);
    for (int k = 0; k < 5; k++) { /* two elements along any dim, or none */
        static const char *const sizes[] = {"2", "1x2", "2x1", "1x1x2", "1x0"};

        many = counted(&e, EXG_DTYPE_F32, sizes[k], "R");
        EXPECT(c,
               exg_dtensor_item(many, &number, &e.err) == EXG_USAGE &&
                   strcmp(e.err.code, "DSP-001") == 0,
               "%s", sizes[k]);
        exg_dtensor_destroy(many);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* What is said to be replicated and is not: as coordinate 0 has it, on every rank. */
static void look_at_first(rank_context *c)
{
    eager e;
    exg_dtensor *x;
    exg_scalar number;

    eager_begin(&e, c, NULL);
    x = parts(&e, EXG_DTYPE_F32, "1x1", exg_device_mesh_ndim(c->mesh) == 1 ? "R" : "R R",
              (const double[]){3.0 + exg_device_mesh_rank(c->mesh)});
    EXPECT(c, exg_dtensor_item(x, &number, &e.err) == EXG_OK && number.as_float == 3.0, "%g",
           number.as_float);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-53 */
static void an_item_is_reduced_first(void **state)
{
    (void)state;
    on_mesh("2", look_at_sum, NULL);
    on_mesh("4", look_at_first, NULL);
    on_mesh("2x2", look_at_first, NULL);
}

/* An element's bytes, and the number they are. */
typedef struct element {
    exg_dtype dtype;
    uint8_t bytes[16];
    exg_scalar number;
} element;

static bool is_number(const exg_object *object, exg_scalar number)
{
    const exg_argument *value = &object->value;

    switch (number.kind) {
    case EXG_SCALAR_UINT:
        return object->kind == EXG_OBJECT_UINT && object->as_uint == number.as_uint;
    case EXG_SCALAR_INT:
        return object->kind == EXG_OBJECT_VALUE && value->kind == EXG_ARGUMENT_INT &&
               value->as_int == number.as_int;
    case EXG_SCALAR_BOOL:
        return object->kind == EXG_OBJECT_VALUE && value->kind == EXG_ARGUMENT_BOOL &&
               value->as_bool == number.as_bool;
    case EXG_SCALAR_FLOAT:
        return object->kind == EXG_OBJECT_VALUE && value->kind == EXG_ARGUMENT_FLOAT &&
               value->as_float == number.as_float;
    default:
        return object->kind == EXG_OBJECT_VALUE && value->kind == EXG_ARGUMENT_COMPLEX &&
               value->as_complex.real == number.as_complex.real &&
               value->as_complex.imag == number.as_complex.imag;
    }
}

static void look_at_all(rank_context *c)
{
    static const char *const keys[] = {"aten.item.default", "aten._local_scalar_dense.default"};
    const element elements[] = {
        {EXG_DTYPE_C64, {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}, exg_scalar_complex(1, 2)},
        {EXG_DTYPE_C32, {0, 0x3c, 0, 0xc0}, exg_scalar_complex(1, -2)},
        {EXG_DTYPE_C128,
         {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40},
         exg_scalar_complex(1, 2)},
        {EXG_DTYPE_U64, {255, 255, 255, 255, 255, 255, 255, 255}, exg_scalar_uint(UINT64_MAX)},
        {EXG_DTYPE_U64, {0, 0, 0, 0, 0, 0, 0, 0x80}, exg_scalar_uint((uint64_t)1 << 63)},
        {EXG_DTYPE_U64, {255, 255, 255, 255, 255, 255, 255, 0x7f}, exg_scalar_int(INT64_MAX)},
        {EXG_DTYPE_I64, {255, 255, 255, 255, 255, 255, 255, 255}, exg_scalar_int(-1)},
        {EXG_DTYPE_I64, {1, 0, 0, 0, 0, 0, 0x20}, exg_scalar_int(9007199254740993)},
        {EXG_DTYPE_U32, {255, 255, 255, 255}, exg_scalar_int(UINT32_MAX)},
        {EXG_DTYPE_I8, {0x80}, exg_scalar_int(-128)},
        {EXG_DTYPE_B8, {1}, exg_scalar_bool(true)},
        {EXG_DTYPE_BF16, {0x80, 0xbf}, exg_scalar_float(-1)},
        {EXG_DTYPE_F8E4M3FNUZ, {0xc0}, exg_scalar_float(-1)},
        {EXG_DTYPE_F8E8M0FNU, {0x81}, exg_scalar_float(4)},
    };
    exg_placement shard = exg_shard(0);
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]) && c->faults == 0; i++) {
        const element *is = &elements[i];
        uint8_t bytes[16];
        exg_tensor one = {
            .data = bytes, .dtype = is->dtype, .rank = 1, .sizes = {1}, .strides = {1}};
        exg_dtensor *t;

        memcpy(bytes, is->bytes, sizeof(bytes));
        EXPECT(c, exg_scalar_read(is->dtype, bytes).kind == is->number.kind, "its kind");
        EXPECT(c, exg_distribute_tensor(c->mesh, &one, &shard, 1, 0, &t, &e.err) == EXG_OK, "%s",
               e.err.message);
        for (int k = 0; k < 2 && t != NULL; k++) {
            exg_object result = call(&e, keys[k], (exg_object[]){T(t)}, 1);

            EXPECT(c, is_number(&result, is->number), "%s %d of %s", keys[k], (int)i,
                   exg_dtype_name(is->dtype));
        }
        exg_dtensor_destroy(t);
    }
    eager_end(&e);
}

/* S001-53, S003-141: complex numbers whole, unsigned ones above the signed; on every rank, which
 * holds the element or not. */
static void items_are_of_every_dtype(void **state)
{
    (void)state;
    on_mesh("1", look_at_all, NULL);
    on_mesh("2", look_at_all, NULL);
}

/* Only full takes an integer that no argument holds. */
static void pass_unsigned(rank_context *c)
{
    int64_t size = 2;
    exg_object big = exg_object_scalar(exg_scalar_uint(UINT64_MAX));
    exg_dtensor *x;
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_I64, "4", "S(0)");
    EXPECT(c,
           refusal(&e, "aten.add.Scalar", (exg_object[]){T(x), big}, 2) == EXG_USAGE &&
               strcmp(e.err.code, "DSP-001") == 0,
           "%s", e.err.message);
    EXPECT(c,
           refusal(&e, "aten.full.default", (exg_object[]){of_ints(&size, 1), big}, 2) ==
                   EXG_USAGE &&
               strcmp(e.err.code, "DTN-022") == 0 &&
               strstr(e.err.message, "18446744073709551615") != NULL,
           "%s", e.err.message);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-141 */
static void integers_beyond_the_signed_are_told_apart(void **state)
{
    (void)state;
    on_mesh("2", pass_unsigned, NULL);
}

/* ---- plain tensors --------------------------------------------------------------------------- */

static void count_notes(void *user, exg_dispatch_event event, const char *text)
{
    int *notes = user;

    *notes += event == EXG_EVENT_NOTE && strstr(text, "replicated") != NULL;
}

/* Of one element: a vector with a word about it, a number without. */
static void beside_ones(rank_context *c)
{
    int notes = 0;
    exg_dispatch_options options = {
        .size = sizeof(options), .log = count_notes, .log_user = &notes};
    float value = 10;
    exg_tensor one = {.data = &value, .dtype = EXG_DTYPE_F32};
    eager e;
    exg_dtensor *x, *y;

    eager_begin(&e, c, &options);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    for (uint32_t rank = 0; rank < 2; rank++) {
        one.rank = rank;
        one.sizes[0] = one.strides[0] = 1;
        y = CALL(&e, "aten.add.Tensor", T(x), exg_object_tensor(&one));
        expect_values(&e, y, "S(0)", (const double[]){10, 11, 12, 13}, 4, "with one element");
        EXPECT(c, notes == (int)rank, "%d notes of rank %u", notes, rank);
        exg_dtensor_destroy(y);
    }
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-54 */
static void a_vector_of_one_is_replicated_with_a_warning(void **state)
{
    (void)state;
    on_mesh("2", beside_ones, NULL);
}

/* An assertion of a number is of the whole's. */
static void assert_later(rank_context *c)
{
    exg_object args[2] = {[1] = exg_object_value((exg_argument){.kind = EXG_ARGUMENT_STRING,
                                                                .as_string = "x is positive"})};
    eager e;

    eager_begin(&e, c, NULL);
    for (int k = 0; k < 4; k++) { /* a sum over the ranks: 0 or 2 */
        exg_dtensor *x = parts(&e, EXG_DTYPE_F32, "", "P(sum)", (const double[]){k % 2});
        const char *key = k < 2 ? "aten._assert_async.default" : "aten._assert_async.msg";

        args[0] = T(x);
        if (k % 2 == 1) {
            EXPECT(c, call(&e, key, args, k < 2 ? 1 : 2).kind == EXG_OBJECT_NONE, "%s", key);
        } else {
            EXPECT(c,
                   refusal(&e, key, args, k < 2 ? 1 : 2) == EXG_MALFORMED &&
                       strcmp(e.err.code, "RUN-006") == 0 &&
                       (strstr(e.err.message, "x is positive") != NULL) == (k == 2),
                   "%s", key);
        }
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

static void what_does_not_hold_is_told_everywhere(void **state)
{
    (void)state;
    on_mesh("2", assert_later, NULL);
}

/* A real number has no imaginary part, whatever the bytes beside it hold. */
static void real_numbers_are_stored_as_complex_ones(void **state)
{
    float pair[2] = {9, 9};
    exg_scalar number = exg_scalar_complex(0, 7);
    exg_scalar read;

    (void)state;
    assert_int_equal(exg_scalar_store(EXG_DTYPE_C64, pair, number, NULL), EXG_OK);
    assert_true(pair[0] == 0 && pair[1] == 7);
    number.kind = EXG_SCALAR_FLOAT;
    number.as_float = 3;
    assert_int_equal(exg_scalar_store(EXG_DTYPE_C64, pair, number, NULL), EXG_OK);
    assert_true(pair[0] == 3 && pair[1] == 0);
    read = exg_scalar_read(EXG_DTYPE_C64, pair);
    assert_true(read.kind == EXG_SCALAR_COMPLEX && read.as_complex.real == 3 &&
                read.as_complex.imag == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_numbers_are_stored_as_complex_ones),
        cmocka_unit_test(an_item_is_reduced_first),
        cmocka_unit_test(items_are_of_every_dtype),
        cmocka_unit_test(integers_beyond_the_signed_are_told_apart),
        cmocka_unit_test(what_does_not_hold_is_told_everywhere),
        cmocka_unit_test(a_vector_of_one_is_replicated_with_a_warning),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
