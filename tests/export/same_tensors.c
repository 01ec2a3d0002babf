/* same_tensors.c - two files of tensors beside each other. */
#include "tests/export/same_tensors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void assert_same_tensors(const char *got, const char *want)
{
    exg_tensor_file *a = NULL;
    exg_tensor_file *b = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_tensor_file_open(got, &a, &err) != EXG_OK) {
        fail_msg("%s: %s %s %s", got, err.code, err.where, err.message);
    }
    assert_int_equal(exg_tensor_file_open(want, &b, &err), EXG_OK);
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < b->count; i++) {
        const exg_named_tensor *y = &b->items[i];
        const exg_named_tensor *x = exg_tensor_file_find(a, y->name);

        assert_non_null(x);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->shape, y->shape, x->rank * sizeof(int64_t));
        assert_memory_equal(x->data, y->data, x->bytes);
        assert_int_equal((uintptr_t)x->data % exg_dtype_bytes(x->dtype), 0);
    }
    exg_tensor_file_close(a);
    exg_tensor_file_close(b);
}
