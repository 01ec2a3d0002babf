/* element.c - single elements as numbers and back, of every dtype; how tensors lie. */
#include "libexport/base/element.h"

#include <exg/tensor.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Bytes, little endian, as NumPy and ml_dtypes write the number. */
static const struct {
    exg_dtype dtype;
    double value;
    uint8_t bytes[16];
} rows[] = {
    {EXG_DTYPE_U8, 200, {200}},
    {EXG_DTYPE_I8, -2, {0xfe}},
    {EXG_DTYPE_I16, -2, {0xfe, 0xff}},
    {EXG_DTYPE_U16, 65534, {0xfe, 0xff}},
    {EXG_DTYPE_I32, -2, {0xfe, 0xff, 0xff, 0xff}},
    {EXG_DTYPE_U32, 4294967294, {0xfe, 0xff, 0xff, 0xff}},
    {EXG_DTYPE_I64, -2, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    {EXG_DTYPE_U64, 0x1p63, {0, 0, 0, 0, 0, 0, 0, 0x80}},
    {EXG_DTYPE_B8, 1, {1}},
    {EXG_DTYPE_B8, 0, {0}},
    {EXG_DTYPE_F16, -1.5, {0, 0xbe}},
    {EXG_DTYPE_BF16, -1.5, {0xc0, 0xbf}},
    {EXG_DTYPE_F32, -1.5, {0, 0, 0xc0, 0xbf}},
    {EXG_DTYPE_F64, -1.5, {0, 0, 0, 0, 0, 0, 0xf8, 0xbf}},
    {EXG_DTYPE_F8E4M3FN, -1.5, {0xbc}},
    {EXG_DTYPE_F8E5M2, -1.5, {0xbe}},
    {EXG_DTYPE_F8E4M3FNUZ, -1.5, {0xc4}},
    {EXG_DTYPE_F8E5M2FNUZ, -1.5, {0xc2}},
    {EXG_DTYPE_F8E8M0FNU, 4, {0x81}},
    {EXG_DTYPE_C32, -1.5, {0, 0xbe, 0, 0}},
    {EXG_DTYPE_C64, -1.5, {0, 0, 0xc0, 0xbf, 0, 0, 0, 0}},
    {EXG_DTYPE_C128, -1.5, {0, 0, 0, 0, 0, 0, 0xf8, 0xbf}},
};

static void an_element_is_its_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t bytes = exg_dtype_bytes(rows[i].dtype);
        uint8_t made[17];

        assert_true(exg_element_value(rows[i].dtype, rows[i].bytes) == rows[i].value);
        memset(made, 0x55, sizeof(made));
        exg_element_store(rows[i].dtype, made, rows[i].value);
        if (memcmp(made, rows[i].bytes, bytes) != 0 || made[bytes] != 0x55) {
            fail_msg("%g as %s", rows[i].value, exg_dtype_name(rows[i].dtype));
        }
    }
    assert_true(isnan(exg_element_value(EXG_DTYPE_UNKNOWN, rows[0].bytes)));
}

/* Any number but zero is true. */
static void truths_are_of_any_number(void **state)
{
    static const double numbers[] = {0.25, -3, 256};
    uint8_t made;

    (void)state;
    for (int i = 0; i < 3; i++) {
        exg_element_store(EXG_DTYPE_B8, &made, numbers[i]);
        assert_int_equal(made, 1);
    }
}

/* Row by row, whatever the strides of dims of size 1; of no elements in any order. */
static void tensors_lie_row_by_row_or_not(void **state)
{
    static const struct {
        exg_tensor tensor;
        bool contiguous;
        int64_t numel;
    } lies[] = {
        {{.rank = 0}, true, 1},
        {{.rank = 1, .sizes = {4}, .strides = {1}}, true, 4},
        {{.rank = 1, .sizes = {4}, .strides = {2}}, false, 4},
        {{.rank = 1, .sizes = {4}, .strides = {0}}, false, 4},
        {{.rank = 1, .sizes = {1}, .strides = {7}}, true, 1},
        {{.rank = 2, .sizes = {2, 3}, .strides = {3, 1}}, true, 6},
        {{.rank = 2, .sizes = {2, 3}, .strides = {1, 2}}, false, 6},
        {{.rank = 2, .sizes = {2, 3}, .strides = {4, 1}}, false, 6},
        {{.rank = 3, .sizes = {2, 1, 3}, .strides = {3, 9, 1}}, true, 6},
        {{.rank = 2, .sizes = {0, 3}, .strides = {5, 7}}, true, 0},
        {{.rank = 2, .sizes = {3, 0}, .strides = {5, 7}}, true, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        exg_tensor made = lies[i].tensor;

        assert_int_equal(exg_tensor_numel(&lies[i].tensor), lies[i].numel);
        assert_int_equal(exg_tensor_is_contiguous(&lies[i].tensor), lies[i].contiguous);
        exg_tensor_set_contiguous(&made);
        assert_true(exg_tensor_is_contiguous(&made));
    }
    {
        exg_tensor t = {.rank = 3, .sizes = {2, 3, 4}}, none = {.rank = 2, .sizes = {2, 0}};

        exg_tensor_set_contiguous(&t);
        assert_int_equal(t.strides[0], 12);
        assert_int_equal(t.strides[1], 4);
        assert_int_equal(t.strides[2], 1);
        exg_tensor_set_contiguous(&none); /* as in PyTorch */
        assert_int_equal(none.strides[0], 1);
        assert_int_equal(none.strides[1], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_is_its_bytes),
        cmocka_unit_test(truths_are_of_any_number),
        cmocka_unit_test(tensors_lie_row_by_row_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
