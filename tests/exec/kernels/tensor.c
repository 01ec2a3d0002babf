/* tensor.c - views, gathered row by row, against a plain loop over all indices. */
#include "libexec/kernels/kernel.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ELEMENTS 4096

static int64_t place(const exg_tensor *view, int64_t number)
{
    int64_t offset = 0;

    for (uint32_t d = view->rank; d-- > 0; number /= view->sizes[d]) {
        offset += number % view->sizes[d] * view->strides[d];
    }
    return offset;
}

typedef struct view {
    uint32_t rank;
    int64_t sizes[5], strides[5];
    int64_t first; /* element */
} view;

static const view views[] = {
    {0, {0}, {0}, 7},                          /* a number */
    {3, {4, 5, 6}, {30, 6, 1}, 3},             /* one piece */
    {3, {4, 5, 6}, {40, 6, 1}, 0},             /* a piece for each of the first dim */
    {3, {4, 5, 6}, {1, 4, 20}, 1},             /* transposed */
    {3, {4, 5, 6}, {0, 6, 1}, 0},              /* expanded */
    {3, {4, 5, 6}, {60, 12, 2}, 0},            /* every other */
    {2, {4, 6}, {-6, 1}, 100},                 /* backwards */
    {2, {4, 6}, {6, -1}, 100},                 /* each row so */
    {4, {1, 3, 1, 5}, {77, 5, 99, 1}, 0},      /* strides of one element */
    {4, {3, 1, 2, 1}, {9, 0, 1, -5}, 40},      /* and in between */
    {3, {4, 0, 6}, {6, 6, 1}, 0},              /* none */
    {3, {4, 5, 0}, {0, 0, 1}, 0},              /* none in the last */
    {5, {2, 2, 2, 2, 2}, {16, 8, 2, 4, 1}, 5}, /* two turned */
};

static void check(exg_dtype dtype, const view *v)
{
    exg_tensor t = {.dtype = dtype, .rank = v->rank};
    uint32_t item = exg_dtype_bytes(dtype);
    uint8_t *from = malloc((size_t)ELEMENTS * item);
    const uint8_t none[16] = {0};
    int64_t count;
    uint8_t *to;

    memcpy(t.sizes, v->sizes, v->rank * sizeof(*v->sizes));
    memcpy(t.strides, v->strides, v->rank * sizeof(*v->strides));
    count = exg_tensor_numel(&t);
    to = calloc((size_t)count + 1, item); /* one that stays as it is */
    assert_non_null(from);
    assert_non_null(to);
    for (uint32_t i = 0; i < ELEMENTS * item; i++) {
        from[i] = (uint8_t)(1 + i % 251);
    }
    exg_tensor_gather(&t, from + v->first * item, to);
    for (int64_t i = 0; i < count; i++) {
        assert_memory_equal(to + i * item, from + (v->first + place(&t, i)) * item, item);
    }
    assert_memory_equal(to + count * item, none, item);
    free(from);
    free(to);
}

static void pieces_of_every_form_are_gathered(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_U8, EXG_DTYPE_BF16, EXG_DTYPE_F32, EXG_DTYPE_C128};

    (void)state;
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        for (size_t k = 0; k < sizeof(dtypes) / sizeof(dtypes[0]); k++) {
            check(dtypes[k], &views[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_every_form_are_gathered),
    };

    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
