/* quantized.c - products and convolutions of bytes found in those of dequantized ones, and products
 * by weights of fewer bits; what looks like it and is not stays as it is. Their results are the
 * corpus's to compare (quantized.safetensors). */
#include "libexport/transform/weight_product.h"

#include <exg/emit.h>

#include <exg/transform.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ROWS    6
#define DEPTH   8
#define COLUMNS 5

typedef enum form { LINEAR, MM, ADDMM, ADDMM_TWICE, OF_DEEP } form;

typedef struct variant {
    form form;
    exg_dtype a, b; /* of what is dequantized */
    bool by_depth;  /* a scale an element of the weight */
    bool has_zeros;
    bool found;
} variant;

static exg_ref input(exg_builder *b, const char *name, exg_dtype dtype, int64_t m, int64_t n)
{
    exg_tensor_meta meta = exg_builder_meta(b, dtype, (int64_t[]){m, n}, n > 0 ? 2 : 1);

    return exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

/* As quantized_decomposed's dequantize operators are lowered. */
static exg_ref dequantized(exg_builder *b, exg_ref bytes, exg_ref scale, bool has_zeros)
{
    exg_ref x = EMIT(b, _to_copy_default, bytes, DTYPE(EXG_DTYPE_F32));

    x = has_zeros ? EMIT(b, sub_Scalar, x, 3) : x;
    return EMIT(b, mul_Tensor, x, scale);
}

static exg_ref product(exg_builder *b, const variant *t)
{
    const int64_t depth = t->form == OF_DEEP ? 40000 : DEPTH;
    exg_ref bias = input(b, "bias", EXG_DTYPE_F32, COLUMNS, 0);
    exg_ref a = input(b, "a", t->a, ROWS, depth);
    exg_ref w = input(b, "w", t->b, COLUMNS, depth);
    exg_ref step = EMIT(b, full_default, INTS(b, 1), 0.25);
    exg_ref steps = t->by_depth ? input(b, "s", EXG_DTYPE_F32, COLUMNS, depth)
                                : input(b, "s", EXG_DTYPE_F32, COLUMNS, 1);

    a = dequantized(b, a, step, t->has_zeros);
    w = dequantized(b, w, steps, t->has_zeros);
    if (t->form == LINEAR || t->form == OF_DEEP) {
        return EMIT(b, linear_default, a, w, bias);
    }
    w = EMIT(b, permute_default, w, INTS(b, 1, 0));
    return t->form == MM      ? EMIT(b, mm_default, a, w)
           : t->form == ADDMM ? EMIT(b, addmm_default, bias, a, w)
                              : EMIT(b, addmm_default, bias, a, w, 1, 2);
}

/* ---- convolutions ---------------------------------------------------------------------- */

typedef enum image_form {
    BY_FILTER, /* scales of the weight: one a filter */
    BY_ONE,
    BY_INPUT,       /* one a channel of the image */
    OF_CHANNELS,    /* scales of the image: one a channel */
    OF_A_TENSOR,    /* its zero point */
    WITH_ZEROS,     /* of the weight */
    WITH_FRACTIONS, /* such zeros */
    TRANSPOSED,
    OF_MANY /* channels */
} image_form;

typedef struct image_variant {
    image_form form;
    exg_dtype a, b;
    double zero; /* of the image; 0: none */
    bool found;
} image_variant;

static exg_ref tensor4(exg_builder *b, const char *name, exg_dtype dtype, const int64_t *sizes)
{
    exg_tensor_meta meta = exg_builder_meta(b, dtype, sizes, 4);

    return exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

static exg_ref convolution(exg_builder *b, const image_variant *t)
{
    const int64_t n = t->form == OF_MANY ? 4096 : 4;
    const bool fractions = t->form == WITH_FRACTIONS;
    const bool by_filter = t->form == BY_FILTER || t->form == WITH_ZEROS;
    exg_ref x = tensor4(b, "x", t->a, (int64_t[]){2, n, 5, 6});
    exg_ref w = tensor4(b, "w", t->b, (int64_t[]){n, n, 3, 3});
    exg_ref steps = tensor4(b, "s", EXG_DTYPE_F32,
                            (int64_t[]){by_filter ? n : 1, t->form == BY_INPUT ? n : 1, 1, 1});
    exg_ref zeros =
        tensor4(b, "z", fractions ? EXG_DTYPE_F32 : EXG_DTYPE_I64, (int64_t[]){n, 1, 1, 1});
    exg_ref own =
        tensor4(b, "t", EXG_DTYPE_F32, (int64_t[]){1, t->form == OF_CHANNELS ? n : 1, 1, 1});
    exg_ref point = tensor4(b, "p", EXG_DTYPE_I64, (int64_t[]){1, 1, 1, 1});

    x = EMIT(b, _to_copy_default, x, DTYPE(EXG_DTYPE_F32));
    x = t->zero != 0 ? EMIT(b, sub_Scalar, x, t->zero) : x;
    x = t->form == OF_A_TENSOR ? EMIT(b, sub_Tensor, x, point) : x;
    x = EMIT(b, mul_Tensor, x, own);
    w = EMIT(b, _to_copy_default, w, DTYPE(EXG_DTYPE_F32));
    w = t->form == WITH_ZEROS || fractions ? EMIT(b, sub_Tensor, w, zeros) : w;
    w = EMIT(b, mul_Tensor, w, steps);
    return EMIT(b, convolution_default, x, w, exg_arg_none(), INTS(b, 1, 1), INTS(b, 1, 1),
                INTS(b, 1, 1), exg_arg_bool(t->form == TRANSPOSED), INTS(b, 0, 0), 1);
}

/* ---- both ---------------------------------------------------------------------------------- */

static uint32_t calls_of(const exg_program *program, const char *target)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        count += strstr(program->graph->nodes[n].target, target) != NULL;
    }
    return count;
}

/* Of a product, or of a convolution. */
static void check(const variant *t, const image_variant *image)
{
    const bool found = t != NULL ? t->found : image->found;
    exg_operators *operators = NULL;
    exg_program *program = NULL;
    exg_program *pure = NULL;
    exg_program *simple = NULL;
    exg_builder *b = NULL;
    exg_argument out;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    out = exg_arg_ref(t != NULL ? product(b, t) : convolution(b, image));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    assert_int_equal(exg_functionalize(program, operators, &pure, NULL), EXG_OK);
    assert_int_equal(exg_simplify(pure, operators, &simple, NULL), EXG_OK);
    assert_int_equal(calls_of(simple, t != NULL ? "product_of_bytes" : "convolution_of_bytes"),
                     found);
    assert_int_equal(calls_of(simple, "aten.linear") + calls_of(simple, "aten.mm") +
                         calls_of(simple, "aten.addmm") + calls_of(simple, "aten.convolution"),
                     !found);
    exg_program_destroy(simple);
    exg_program_destroy(pure);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

static void products_of_bytes_are_found(void **state)
{
    static const variant variants[] = {
        {LINEAR, EXG_DTYPE_I8, EXG_DTYPE_I8, false, false, true},
        {LINEAR, EXG_DTYPE_U8, EXG_DTYPE_I8, false, true, true},
        {MM, EXG_DTYPE_I8, EXG_DTYPE_I8, false, true, true},
        {ADDMM, EXG_DTYPE_I8, EXG_DTYPE_U8, false, false, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        check(&variants[i], NULL);
    }
}

static void what_is_none_stays(void **state)
{
    static const variant variants[] = {
        {LINEAR, EXG_DTYPE_I8, EXG_DTYPE_I8, true, false, false},
        {LINEAR, EXG_DTYPE_I16, EXG_DTYPE_I8, false, false, false},
        {LINEAR, EXG_DTYPE_I8, EXG_DTYPE_B8, false, false, false},
        {ADDMM_TWICE, EXG_DTYPE_I8, EXG_DTYPE_I8, false, false, false},
        {OF_DEEP, EXG_DTYPE_I8, EXG_DTYPE_I8, false, false, false}, /* past int32 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        check(&variants[i], NULL);
    }
}

static void convolutions_of_bytes_are_found(void **state)
{
    static const image_variant variants[] = {
        {BY_FILTER, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, true},
        {BY_ONE, EXG_DTYPE_I8, EXG_DTYPE_I8, -128, true},
        {WITH_ZEROS, EXG_DTYPE_U8, EXG_DTYPE_I8, 255, true},
        {BY_FILTER, EXG_DTYPE_U8, EXG_DTYPE_U8, 3, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        check(NULL, &variants[i]);
    }
}

static void what_is_no_convolution_of_bytes_stays(void **state)
{
    static const image_variant variants[] = {
        {BY_ONE, EXG_DTYPE_I16, EXG_DTYPE_I8, 0, false},
        {BY_ONE, EXG_DTYPE_I8, EXG_DTYPE_B8, 0, false},
        {BY_ONE, EXG_DTYPE_I8, EXG_DTYPE_I8, 128, false}, /* no int8 */
        {BY_ONE, EXG_DTYPE_U8, EXG_DTYPE_I8, -1, false},  /* no uint8 */
        {BY_ONE, EXG_DTYPE_I8, EXG_DTYPE_I8, 0.5, false},
        {BY_INPUT, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false},
        {OF_CHANNELS, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false},
        {OF_A_TENSOR, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false},
        {WITH_FRACTIONS, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false},
        {TRANSPOSED, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false},
        {OF_MANY, EXG_DTYPE_I8, EXG_DTYPE_I8, 0, false}, /* past int32 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        check(NULL, &variants[i]);
    }
}

/* ---- weights of fewer bits ------------------------------------------------------------------- */

typedef enum weight_form {
    CAST,             /* of bytes alone */
    BY_ROWS,          /* times one a row */
    BY_GROUPS,        /* in a view of groups */
    OF_COLUMNS,       /* mm by a weight that lies as it is multiplied, in groups of those */
    TURNED,           /* bytes are, as torchao's Int8Tensor does it, before they are numbers */
    NIBBLES,          /* two a byte, their zero point 8 */
    NIBBLES_BY_GROUP, /* zero points and shifts too */
    NIBBLES_SIGNED,   /* by shifts of int8 */
    FLOAT8,
    BY_ELEMENT, /* a scale an element */
    TWICE,      /* scaled, then again */
    WIDE,       /* of int16 */
    UNEVEN,     /* a scale of every second column */
    WEIGHT_FORMS
} weight_form;

#define GROUP 32

static exg_ref numbers(exg_builder *b, const char *name, const int64_t *sizes, uint32_t rank)
{
    exg_tensor_meta meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, rank);

    return exg_builder_input(b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

/* (rows, 2 GROUP) of half bytes. */
static exg_ref nibbles(exg_builder *b, exg_dtype dtype)
{
    exg_ref bytes = input(b, "w", dtype, COLUMNS, GROUP);
    exg_ref high = EMIT(b, bitwise_right_shift_Tensor_Scalar, bytes, 4);
    exg_ref low = dtype == EXG_DTYPE_U8 ? EMIT(b, bitwise_and_Scalar, bytes, 15)
                                        : EMIT(b, bitwise_left_shift_Tensor_Scalar, bytes, 4);
    exg_ref both[2];

    low = dtype == EXG_DTYPE_U8 ? low : EMIT(b, bitwise_right_shift_Tensor_Scalar, low, 4);
    both[0] = EMIT(b, unsqueeze_default, low, -1);
    both[1] = EMIT(b, unsqueeze_default, high, -1);
    return EMIT(b, cat_default, exg_arg_refs(b, both, 2), 2);
}

static exg_ref to_real(exg_builder *b, exg_ref q)
{
    return EMIT(b, _to_copy_default, q, DTYPE(EXG_DTYPE_F32));
}

static exg_ref dequantized_weight(exg_builder *b, weight_form kind)
{
    const exg_dtype dtype = kind == WIDE     ? EXG_DTYPE_I16
                            : kind == FLOAT8 ? EXG_DTYPE_F8E4M3FN
                                             : EXG_DTYPE_I8;
    const bool is_turned = kind == OF_COLUMNS;
    const int64_t depth = 2 * GROUP;
    exg_ref w;

    if (kind == NIBBLES || kind == NIBBLES_BY_GROUP || kind == NIBBLES_SIGNED) {
        w = to_real(b, nibbles(b, kind == NIBBLES_SIGNED ? EXG_DTYPE_I8 : EXG_DTYPE_U8));
        w = EMIT(b, view_default, w, INTS(b, COLUMNS, 2, GROUP));
        w = kind == NIBBLES ? EMIT(b, sub_Scalar, w, 8) : w;
        if (kind == NIBBLES_BY_GROUP) {
            w = EMIT(b, sub_Tensor, w, numbers(b, "z", (int64_t[]){COLUMNS, 2, 1}, 3));
        }
        w = EMIT(b, mul_Tensor, w, numbers(b, "s", (int64_t[]){COLUMNS, 2, 1}, 3));
        if (kind == NIBBLES_BY_GROUP) {
            w = EMIT(b, add_Tensor, w, numbers(b, "t", (int64_t[]){1, 2, 1}, 3));
        }
        return EMIT(b, view_default, w, INTS(b, COLUMNS, depth));
    }
    if (kind == TURNED) {
        w = EMIT(b, permute_default, input(b, "w", dtype, COLUMNS, depth), INTS(b, 1, 0));
        return to_real(b, w);
    }
    w = to_real(b, is_turned ? input(b, "w", dtype, depth, COLUMNS)
                             : input(b, "w", dtype, COLUMNS, depth));
    switch (kind) {
    case CAST:
        return w;
    case BY_GROUPS:
        w = EMIT(b, view_default, w, INTS(b, COLUMNS, 2, GROUP));
        w = EMIT(b, mul_Tensor, w, numbers(b, "s", (int64_t[]){COLUMNS, 2, 1}, 3));
        return EMIT(b, view_default, w, INTS(b, COLUMNS, depth));
    case UNEVEN:
        w = EMIT(b, view_default, w, INTS(b, COLUMNS, GROUP, 2));
        w = EMIT(b, mul_Tensor, w, numbers(b, "s", (int64_t[]){COLUMNS, 1, 2}, 3));
        return EMIT(b, view_default, w, INTS(b, COLUMNS, depth));
    case OF_COLUMNS:
        w = EMIT(b, view_default, w, INTS(b, 2, GROUP, COLUMNS));
        w = EMIT(b, mul_Tensor, w, numbers(b, "s", (int64_t[]){2, 1, COLUMNS}, 3));
        return EMIT(b, view_default, w, INTS(b, depth, COLUMNS));
    default:
        w = EMIT(b, mul_Tensor, w,
                 numbers(b, "s", (int64_t[]){COLUMNS, kind == BY_ELEMENT ? depth : 1}, 2));
        return kind == TWICE ? EMIT(b, mul_Scalar, w, 3.) : w;
    }
}

/* The one product by a weight, or NULL. */
static const exg_node *weight_product_of(const exg_program *program)
{
    for (uint32_t n = 0; program != NULL && n < program->graph->node_count; n++) {
        if (strstr(program->graph->nodes[n].target, "weight_product") != NULL) {
            return &program->graph->nodes[n];
        }
    }
    return NULL;
}

static void check_weight(weight_form kind, bool found, bool is_half, int64_t least)
{
    exg_operators *operators = NULL;
    exg_program *program = NULL;
    exg_program *pure = NULL;
    exg_program *simple = NULL;
    exg_builder *b = NULL;
    const exg_node *node;
    exg_argument out;
    exg_ref x;
    exg_ref w;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    x = input(b, "x", EXG_DTYPE_F32, ROWS, 2 * GROUP);
    w = dequantized_weight(b, kind);
    out = exg_arg_ref(kind == OF_COLUMNS || kind == TURNED ? EMIT(b, mm_default, x, w)
                                                           : EMIT(b, linear_default, x, w));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    assert_int_equal(exg_functionalize(program, operators, &pure, NULL), EXG_OK);
    assert_int_equal(exg_find_weight_products(pure, operators, &simple, NULL), EXG_OK);
    node = weight_product_of(simple);
    assert_int_equal(node != NULL, found);
    if (found) {
        assert_int_equal(calls_of(simple, "aten.linear") + calls_of(simple, "aten.mm"), 0);
        assert_int_equal(calls_of(simple, "_to_copy"), 0); /* nothing of the weight's size is */
        assert_int_equal(calls_of(simple, "aten.clone"), kind == OF_COLUMNS ? 2 : 0);
        assert_int_equal(node->inputs[8].arg.kind, is_half ? EXG_ARGUMENT_INT : EXG_ARGUMENT_NONE);
        assert_true(!is_half || node->inputs[8].arg.as_int == least);
    }
    exg_program_destroy(simple);
    exg_program_destroy(pure);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

static void weights_are_multiplied_as_they_are_stored(void **state)
{
    (void)state;
    check_weight(CAST, true, false, 0);
    check_weight(BY_ROWS, true, false, 0);
    check_weight(BY_GROUPS, true, false, 0);
    check_weight(OF_COLUMNS, true, false, 0);
    check_weight(TURNED, true, false, 0);
    check_weight(NIBBLES, true, true, 0);
    check_weight(NIBBLES_BY_GROUP, true, true, 0);
    check_weight(NIBBLES_SIGNED, true, true, -8);
    check_weight(FLOAT8, true, false, 0);
}

static void weights_of_other_forms_stay(void **state)
{
    (void)state;
    check_weight(BY_ELEMENT, false, false, 0);
    check_weight(TWICE, false, false, 0);
    check_weight(WIDE, false, false, 0);
    check_weight(UNEVEN, false, false, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_bytes_are_found),
        cmocka_unit_test(what_is_none_stays),
        cmocka_unit_test(convolutions_of_bytes_are_found),
        cmocka_unit_test(what_is_no_convolution_of_bytes_stays),
        cmocka_unit_test(weights_are_multiplied_as_they_are_stored),
        cmocka_unit_test(weights_of_other_forms_stay),
    };

    return cmocka_run_group_tests_name("quantized", tests, NULL, NULL);
}
