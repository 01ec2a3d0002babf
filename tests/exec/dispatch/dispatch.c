/* dispatch.c - one operator on DTensors: tests/seeds-001.md. */
#include "tests/exec/dispatch/eager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

static uint64_t exchanges(const eager *e)
{
    return exg_device_mesh_exchanges(e->mesh);
}

static uint32_t rank_of(const eager *e)
{
    return exg_device_mesh_rank(e->mesh);
}

/* ---- one operator --------------------------------- */

static void add_and_multiply(rank_context *c)
{
    static const double sum[] = {0, 2, 4, 6, 8, 10, 12, 14};
    eager e;
    exg_dtensor *x, *y, *z, *a, *b;
    uint64_t before;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    y = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    before = exchanges(&e);
    z = CALL(&e, "aten.add.Tensor", T(x), T(y));
    EXPECT(c, exchanges(&e) == before, "adding equal placements sends something");
    expect_values(&e, z, "S(0)", sum, 8, "add");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(y);

    y = counted(&e, EXG_DTYPE_F32, "4x2", "S(1)");
    before = exchanges(&e);
    z = CALL(&e, "aten.add.Tensor", T(x), T(y));
    EXPECT(c, exchanges(&e) == before + (exg_device_mesh_size(e.mesh) > 1),
           "one exchange to add S(0) and S(1)");
    expect_values(&e, z, "", sum, 8, "add of two placements");
    exg_dtensor_destroy(z);

    a = counted(&e, EXG_DTYPE_F32, "2x2", "R");
    b = counted(&e, EXG_DTYPE_F32, "2x3", "S(1)");
    z = CALL(&e, "aten.mm.default", T(a), T(b));
    expect_values(&e, z, "S(1)", (const double[]){3, 4, 5, 9, 14, 19}, 6, "mm");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);
    a = counted(&e, EXG_DTYPE_F32, "2x3", "S(1)");
    b = counted(&e, EXG_DTYPE_F32, "3x2", "S(0)");
    before = exchanges(&e);
    z = CALL(&e, "aten.mm.default", T(a), T(b));
    EXPECT(c, exchanges(&e) == before, "mm over the contracted dim sends nothing");
    expect_values(&e, z, "P(sum)", (const double[]){10, 13, 28, 40}, 4, "mm of parts");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    eager_end(&e);
}

/* S001-01, S001-38 */
static void an_operator_runs_on_parts(void **state)
{
    (void)state;
    on_mesh("1", add_and_multiply, NULL);
    on_mesh("2", add_and_multiply, NULL);
    on_mesh("3", add_and_multiply, NULL);
    on_mesh("4", add_and_multiply, NULL);
}

/* ---- in place --------------------------------- */

static void write_in_place(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y, *z;
    const float *part;
    const void *data;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "R");
    z = CALL(&e, "aten.mul.Tensor", T(x), of_int(0));
    y = NULL;
    EXPECT(c, exg_dtensor_redistribute(z, (exg_placement[]){exg_shard(0)}, 1, &y, &e.err) == EXG_OK,
           "%s", e.err.message);
    exg_dtensor_destroy(z);
    data = exg_dtensor_to_local(y)->data;
    z = CALL(&e, "aten.add_.Tensor", T(y), T(x));
    EXPECT(c, z == y && exg_dtensor_to_local(y)->data == data, "another object or memory");
    part = on_host(y)->data;
    EXPECT(c, part[0] == (float)(2 * rank_of(&e)) && part[1] == (float)(2 * rank_of(&e) + 1),
           "the local part");
    expect_values(&e, y, "S(0)", (const double[]){0, 1, 2, 3}, 4, "add_");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    eager_end(&e);
}

/* S001-39 */
static void in_place_returns_the_argument(void **state)
{
    (void)state;
    on_mesh("2", write_in_place, NULL);
}

/* What is computed apart, in another dtype, is cast to that of the tensor written. */
static void write_cast(rank_context *c)
{
    static const struct {
        const char *key, *sizes; /* of the other one, of ones */
        double made[2];
    } rows[] = {{"aten.floor_divide_.Tensor", "2", {2, 4}},
                {"aten.xlogy_.Tensor", "2", {0, 0}},
                {"aten.fill_.Tensor", "", {1, 1}},
                {"aten.ldexp_.default", "2", {4, 8}},
                {"aten.copy_.default", "2", {1, 1}}};
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        exg_dtensor *x = parts(&e, EXG_DTYPE_F32, "2", "R", (const double[]){2, 4});
        exg_dtensor *y = parts(&e, EXG_DTYPE_F64, rows[k].sizes, "R", (const double[]){1, 1});
        exg_dtensor *made = CALL(&e, rows[k].key, T(x), T(y));

        EXPECT(c, made == x && exg_dtensor_dtype(x) == EXG_DTYPE_F32, "%s", rows[k].key);
        expect_values(&e, x, "R", rows[k].made, 2, rows[k].key);
        exg_dtensor_destroy(y);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

static void what_is_written_keeps_its_dtype(void **state)
{
    (void)state;
    on_mesh("2", write_cast, NULL);
}

static void may_not_move(rank_context *c)
{
    static const double halves[] = {1, -2, 3, -4};
    eager e;
    exg_dtensor *p, *q;
    exg_dispatch_stats before, after;

    eager_begin(&e, c, NULL);
    p = parts(&e, EXG_DTYPE_F32, "4", "P(sum)", halves);
    EXPECT(c,
           refusal(&e, "aten.relu_.default", (exg_object[]){T(p)}, 1) == EXG_UNSUPPORTED &&
               strcmp(e.err.code, "DSP-006") == 0 &&
               strstr(e.err.message, "inplace_moves_self") != NULL,
           "%s", e.err.message);
    EXPECT(c,
           refusal(&e, "aten.add_.Tensor", (exg_object[]){T(p), of_int(1)}, 2) == EXG_UNSUPPORTED,
           "%s", e.err.message);
    expect_values(&e, p, "P(sum)", (const double[]){2, -4, 6, -8}, 4, "what was refused");
    q = CALL(&e, "aten.mul_.Tensor", T(p), of_int(2));
    EXPECT(c, q == p, "mul_ gives another object");
    expect_values(&e, p, "P(sum)", (const double[]){4, -8, 12, -16}, 4, "mul_");
    q = counted(&e, EXG_DTYPE_F32, "4", "R"); /* what is added may move: one rank adds it */
    (void)CALL(&e, "aten.add_.Tensor", T(p), T(q));
    expect_values(&e, p, "P(sum)", (const double[]){4, -7, 14, -13}, 4, "add_ of a whole");
    (void)CALL(&e, "aten.sub_.Tensor", T(p), T(q));
    exg_dtensor_destroy(q);
    before = *exg_dispatcher_statistics(e.d);
    (void)CALL(&e, "aten.mul_.Tensor", T(p), of_int(2));
    after = *exg_dispatcher_statistics(e.d);
    EXPECT(c, after.hits == before.hits + 1, "mul_ again was found");
    exg_dtensor_destroy(p);
    eager_end(&e);
}

/* S001-40 */
static void what_is_written_may_not_move(void **state)
{
    (void)state;
    on_mesh("2", may_not_move, NULL);
}

/* The view of a tensor that had to be moved is not the tensor. */
static void write_moved_view(rank_context *c)
{
    eager e;
    exg_dtensor *x, *v;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    v = CALL(&e, "aten.select.int", T(x), of_int(1), of_int(0)); /* along the other dim */
    (void)CALL(&e, "aten.fill_.Scalar", T(v), of_int(9));
    expect_values(&e, x, "S(0)", (const double[]){9, 1, 9, 3, 9, 5, 9, 7}, 8, "a view written");
    exg_dtensor_destroy(v);
    v = CALL(&e, "aten.select.int", T(x), of_int(0), of_int(0));
    EXPECT(c,
           refusal(&e, "aten.fill_.Scalar", (exg_object[]){T(v), of_int(7)}, 2) == EXG_UNSUPPORTED,
           "%s", e.err.message);
    exg_dtensor_destroy(v);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-40 */
static void views_share_memory_or_say_so(void **state)
{
    (void)state;
    on_mesh("2", write_moved_view, NULL);
}

/* Parts that do not lie row by row on one rank, or share bytes with the other operand. */
static void write_strided(rank_context *c)
{
    float data[4] = {0, 10, 20, 30};
    exg_tensor part = {
        .data = data, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {2, 2}, .strides = {2, 1}};
    exg_placement rows = exg_shard(0);
    int64_t dims[] = {1, 0};
    eager e;
    exg_dtensor *x, *y, *t;

    eager_begin(&e, c, NULL);
    if (rank_of(&e) == 0) { /* the same matrix, column by column */
        part.strides[0] = 1;
        part.strides[1] = 2;
        data[1] = 20;
        data[2] = 10;
    }
    EXPECT(c, exg_dtensor_from_local(c->mesh, &part, &rows, 1, NULL, &x, &e.err) == EXG_OK, "%s",
           e.err.message);
    y = counted(&e, EXG_DTYPE_F32, "4x2", "S(1)"); /* has to move: on both ranks alike */
    EXPECT(c, CALL(&e, "aten.add_.Tensor", T(x), T(y)) == x && borrows(x, data),
           "another object or memory");
    expect_values(&e, x, "S(0)", (const double[]){0, 11, 22, 33, 4, 15, 26, 37}, 8, "add_");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    x = counted(&e, EXG_DTYPE_F32, "2x2", "R");
    t = CALL(&e, "aten.permute.default", T(x), of_ints(dims, 2));
    (void)CALL(&e, "aten.add_.Tensor", T(x), T(t)); /* reads what it writes */
    expect_values(&e, x, "R", (const double[]){0, 3, 3, 6}, 4, "x += x.T");
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-39 */
static void strided_parts_are_written_too(void **state)
{
    (void)state;
    on_mesh("2", write_strided, NULL);
}

static void renumber(rank_context *c)
{
    eager e;
    exg_dtensor *x, *same;
    const void *data;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "1x4", "S(1)");
    data = exg_dtensor_to_local(x)->data;
    same = CALL(&e, "aten.squeeze_.dim", T(x), of_int(0));
    EXPECT(c, same == x && exg_dtensor_to_local(x)->data == data, "another object or memory");
    EXPECT(c, exg_dtensor_rank_count(x) == 1 && exg_dtensor_sizes(x)[0] == 4, "the sizes");
    expect_values(&e, x, "S(0)", (const double[]){0, 1, 2, 3}, 4, "squeeze_");
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* Each as its name says: (1, 4) becomes what is told. */
static void renumber_by_name(rank_context *c)
{
    int64_t first[1] = {0};
    const struct {
        const char *key;
        exg_object more[2];
        uint32_t count, rank;
        int64_t sizes[3];
    } rows[] = {
        {"aten.squeeze_.default", {{0}}, 0, 1, {4}},
        {"aten.squeeze_.dim", {of_int(0)}, 1, 1, {4}},
        {"aten.squeeze_.dim", {of_int(1)}, 1, 2, {1, 4}},
        {"aten.squeeze_.dims", {of_ints(first, 1)}, 1, 1, {4}},
        {"aten.unsqueeze_.default", {of_int(1)}, 1, 3, {1, 1, 4}},
        {"aten.transpose_.default", {of_int(0), of_int(1)}, 2, 2, {4, 1}},
        {"aten.t_.default", {{0}}, 0, 2, {4, 1}},
    };
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, "1x4", "R");
        exg_object args[3] = {T(x), rows[i].more[0], rows[i].more[1]};

        EXPECT(c, call(&e, rows[i].key, args, 1 + rows[i].count).dtensor == x, "%s", rows[i].key);
        EXPECT(c, exg_dtensor_rank_count(x) == rows[i].rank, "%s: dims", rows[i].key);
        EXPECT(c, memcmp(exg_dtensor_sizes(x), rows[i].sizes, rows[i].rank * sizeof(int64_t)) == 0,
               "%s: sizes", rows[i].key);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

/* S001-41 */
static void in_place_views_renumber_dims(void **state)
{
    (void)state;
    on_mesh("2", renumber, NULL);
    on_mesh("2", renumber_by_name, NULL);
}

static void over_lists(rank_context *c)
{
    eager e;
    exg_object items[2], args[2], result;
    const void *data[2];

    eager_begin(&e, c, NULL);
    items[0] = T(counted(&e, EXG_DTYPE_F32, "4", "S(0)"));
    items[1] = T(counted(&e, EXG_DTYPE_F32, "3", "S(0)"));
    data[0] = exg_dtensor_to_local(items[0].dtensor)->data;
    data[1] = exg_dtensor_to_local(items[1].dtensor)->data;
    args[0] = exg_object_list(items, 2);
    args[1] = of_int(1);
    result = call(&e, "aten._foreach_add_.Scalar", args, 2);
    EXPECT(c, result.kind == EXG_OBJECT_NONE, "_foreach_add_ returns nothing");
    EXPECT(c,
           exg_dtensor_to_local(items[0].dtensor)->data == data[0] &&
               exg_dtensor_to_local(items[1].dtensor)->data == data[1],
           "other memory");
    expect_values(&e, items[0].dtensor, "S(0)", (const double[]){1, 2, 3, 4}, 4, "item 0");
    expect_values(&e, items[1].dtensor, "S(0)", (const double[]){1, 2, 3}, 3, "item 1");
    result = call(&e, "aten._foreach_mul.Scalar", args, 2);
    EXPECT(c,
           result.kind == EXG_OBJECT_LIST && result.count == 2 &&
               result.items[0].dtensor != items[0].dtensor,
           "_foreach_mul gives a list");
    exg_object_clear(&result, true);
    exg_dtensor_destroy(items[0].dtensor);
    exg_dtensor_destroy(items[1].dtensor);
    eager_end(&e);
}

/* S001-42, S001-33 */
static void in_place_over_lists_writes_each(void **state)
{
    (void)state;
    on_mesh("2", over_lists, NULL);
}

/* (0, 1, 2, 3) and (4, 3, 2, 1), whole: each with 2, with (1, 2, 4, 8) or alone. */
static void over_lists_by_name(rank_context *c)
{
    static const struct {
        const char *name;
        char with; /* a number, a list, nothing */
        double made[2][4];
    } rows[] = {
        {"add%s.Scalar", 'n', {{2, 3, 4, 5}, {6, 5, 4, 3}}},
        {"sub%s.Scalar", 'n', {{-2, -1, 0, 1}, {2, 1, 0, -1}}},
        {"mul%s.Scalar", 'n', {{0, 2, 4, 6}, {8, 6, 4, 2}}},
        {"div%s.Scalar", 'n', {{0, 0.5, 1, 1.5}, {2, 1.5, 1, 0.5}}},
        {"add%s.List", 'l', {{1, 3, 6, 11}, {5, 5, 6, 9}}},
        {"sub%s.List", 'l', {{-1, -1, -2, -5}, {3, 1, -2, -7}}},
        {"mul%s.List", 'l', {{0, 2, 8, 24}, {4, 6, 8, 8}}},
        {"div%s.List", 'l', {{0, 0.5, 0.5, 0.375}, {4, 1.5, 0.5, 0.125}}},
        {"sqrt.default",
         '-',
         {{0, 1, 1.4142135381698608, 1.7320507764816284},
          {2, 1.7320507764816284, 1.4142135381698608, 1}}},
        {"neg.default", '-', {{0, -1, -2, -3}, {-4, -3, -2, -1}}},
        {"zero_.default", '-', {{0, 0, 0, 0}, {0, 0, 0, 0}}},
    };
    eager e;

    eager_begin(&e, c, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int in_place = 0; in_place < (strchr(rows[i].name, '%') == NULL ? 1 : 2); in_place++) {
            bool keeps = in_place == 0 && strchr(rows[i].name, '_') == NULL;
            exg_object items[2], with[2], args[2], result;
            char name[40], key[64];

            snprintf(name, sizeof(name), "%s", rows[i].name);
            if (strchr(name, '%') != NULL) {
                size_t at = (size_t)(strchr(name, '%') - name);

                snprintf(name + at, sizeof(name) - at, "%s%s", in_place ? "_" : "",
                         rows[i].name + at + 2);
            }
            snprintf(key, sizeof(key), "aten._foreach_%s", name);
            items[0] = T(parts(&e, EXG_DTYPE_F32, "4", "R", (const double[]){0, 1, 2, 3}));
            items[1] = T(parts(&e, EXG_DTYPE_F32, "4", "R", (const double[]){4, 3, 2, 1}));
            with[0] = T(parts(&e, EXG_DTYPE_F32, "4", "R", (const double[]){1, 2, 4, 8}));
            with[1] = with[0];
            args[0] = exg_object_list(items, 2);
            args[1] = rows[i].with == 'n' ? of_int(2) : exg_object_list(with, 2);
            result = call(&e, key, args, rows[i].with == '-' ? 1 : 2);
            EXPECT(c, result.kind == (keeps ? EXG_OBJECT_LIST : EXG_OBJECT_NONE), "%s", key);
            for (int k = 0; k < 2; k++) {
                expect_values(&e, keeps ? result.items[k].dtensor : items[k].dtensor, "R",
                              rows[i].made[k], 4, key);
                EXPECT(c, !keeps || result.items[k].dtensor != items[k].dtensor, "%s", key);
            }
            exg_object_clear(&result, true);
            exg_dtensor_destroy(items[0].dtensor);
            exg_dtensor_destroy(items[1].dtensor);
            exg_dtensor_destroy(with[0].dtensor);
        }
    }
    eager_end(&e);
}

static void each_operator_over_lists_is_the_one_it_names(void **state)
{
    (void)state;
    on_mesh("2", over_lists_by_name, NULL);
}

#define MANY 300 /* more than a call has operands */

/* The k-th tensor is k, its number k + 1: whole, and as one part each. */
static void over_many(rank_context *c)
{
    exg_object items[MANY], numbers[MANY], more[MANY];
    int64_t ints[MANY];
    exg_object args[4];
    exg_object result;
    eager e;

    eager_begin(&e, c, NULL);
    for (int k = 0; k < MANY; k++) {
        items[k] = T(parts(&e, EXG_DTYPE_F32, "2", "S(0)", (const double[]){k, k}));
        more[k] = T(parts(&e, EXG_DTYPE_F32, "2", "R", (const double[]){2, 4}));
        numbers[k] = of_float(k + 1);
        ints[k] = k + 1;
    }
    args[0] = exg_object_list(items, MANY);
    result = call(&e, "aten._foreach_neg.default", args, 1);
    EXPECT(c, result.kind == EXG_OBJECT_LIST && result.count == MANY, "a list as long");
    expect_values(&e, result.items[MANY - 1].dtensor, "S(0)", (const double[]){-299, -299}, 2,
                  "neg");
    exg_object_clear(&result, true);

    for (int as_one = 0; as_one < 2; as_one++) { /* numbers as objects, and as one value */
        args[1] = as_one ? of_ints(ints, MANY) : exg_object_list(numbers, MANY);
        result = call(&e, "aten._foreach_mul.ScalarList", args, 2);
        expect_values(&e, result.items[7].dtensor, "S(0)", (const double[]){56, 56}, 2, "times 8");
        exg_object_clear(&result, true);
    }
    args[1] = exg_object_list(more, MANY); /* k + 5 * 2 / 2, k + 5 * 4 / 4, in place */
    args[2] = exg_object_list(more, MANY);
    args[3] = of_int(5);
    result = call(&e, "aten._foreach_addcdiv_.Scalar", args, 4);
    EXPECT(c, result.kind == EXG_OBJECT_NONE, "in place");
    expect_values(&e, items[9].dtensor, "S(0)", (const double[]){14, 14}, 2, "addcdiv_");
    {
        exg_named_object alpha = {"alpha", of_int(3)}; /* a keyword goes by its position too */

        EXPECT(c,
               exg_dispatch(e.d, "aten._foreach_sub.List", args, 2, &alpha, 1, &result, &e.err) ==
                   EXG_OK,
               "%s", e.err.message);
        expect_values(&e, result.items[0].dtensor, "S(0)", (const double[]){-1, -7}, 2, "sub");
        exg_object_clear(&result, true);
    }
    args[1] = exg_object_list(more, MANY - 1);
    EXPECT(c,
           refusal(&e, "aten._foreach_add.List", args, 2) == EXG_USAGE &&
               strcmp(e.err.code, "DSP-001") == 0,
           "lists of two lengths");
    args[1] = of_ints(ints, MANY - 1);
    EXPECT(c, refusal(&e, "aten._foreach_mul_.ScalarList", args, 2) == EXG_USAGE, "or of numbers");
    args[0] = items[0];
    EXPECT(c, refusal(&e, "aten._foreach_neg.default", args, 1) == EXG_USAGE, "one tensor");
    for (int k = 0; k < MANY; k++) {
        exg_dtensor_destroy(items[k].dtensor);
        exg_dtensor_destroy(more[k].dtensor);
    }
    eager_end(&e);
}

static void lists_of_any_length_are_gone_through(void **state)
{
    (void)state;
    on_mesh("2", over_many, NULL);
}

/* ---- results of other kinds --------------------------------- */

static void numbers_and_lists(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y, *sum;
    exg_object result, args[2];
    int64_t sizes[] = {2, 2}, strides[] = {2, 1};

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    args[0] = T(x);
    args[1] = of_int(3);
    result = call(&e, "aten.split.Tensor", args, 2);
    EXPECT(c, result.kind == EXG_OBJECT_LIST && result.count == 2, "split gives a list");
    expect_values(&e, result.items[0].dtensor, "R", (const double[]){0, 1, 2}, 3, "part 0");
    expect_values(&e, result.items[1].dtensor, "R", (const double[]){3}, 1, "part 1");
    exg_object_clear(&result, true);
    args[1] = of_int(0);
    result = call(&e, "aten.max.dim", args, 2);
    EXPECT(c, result.kind == EXG_OBJECT_TUPLE && result.count == 2, "max.dim gives a pair");
    expect_values(&e, result.items[0].dtensor, "", (const double[]){3}, 1, "the largest");
    expect_values(&e, result.items[1].dtensor, "", (const double[]){3}, 1, "its place");
    exg_object_clear(&result, true);

    sum = CALL(&e, "aten.sum.default", T(x));
    EXPECT(c, lies(sum, "P(sum)"), "the sum of a shard is Partial");
    args[0] = T(sum);
    result = call(&e, "aten.item.default", args, 1);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && result.value.as_float == 6.0, "the item");
    exg_dtensor_destroy(sum);

    y = counted(&e, EXG_DTYPE_F32, "4", "R");
    result = call(&e, "aten.equal.default", (exg_object[]){T(x), T(y)}, 2);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && result.value.as_bool, "equal");
    if (exg_device_mesh_rank(c->mesh) == 0) {
        const exg_tensor *part = on_host(x);

        ((float *)part->data)[0] = 7; /* one rank finds a difference */
        to_device(x, part);
    }
    result = call(&e, "aten.equal.default", (exg_object[]){T(x), T(y)}, 2);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && !result.value.as_bool, "no more");
    exg_dtensor_destroy(x);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    exg_dtensor_destroy(y);

    y = CALL(&e, "aten._reshape_alias.default", T(x), of_ints(sizes, 2), of_ints(strides, 2));
    expect_values(&e, y, "", (const double[]){0, 1, 2, 3}, 4, "_reshape_alias");
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S000-03, S000-25, S001-15, S001-33, S001-49, S001-52 */
static void results_may_be_numbers_or_lists(void **state)
{
    (void)state;
    on_mesh("2", numbers_and_lists, NULL);
}

/* mask TTF of layer-norm backward: S(0), P(sum), None */
static void some_results_are_none(rank_context *c)
{
    static const double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool mask[3] = {true, true, false};
    int64_t shape[] = {4};
    eager e;
    exg_dtensor *x, *g, *w, *mean, *rstd;
    exg_object args[8], result;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "2x4", "S(0)");
    g = parts(&e, EXG_DTYPE_F32, "2x4", "S(0)", ones);
    w = counted(&e, EXG_DTYPE_F32, "4", "R");
    mean = parts(&e, EXG_DTYPE_F32, "2x1", "S(0)", (const double[]){1.5, 5.5});
    rstd = parts(&e, EXG_DTYPE_F32, "2x1", "S(0)", ones);
    args[0] = T(g);
    args[1] = T(x);
    args[2] = of_ints(shape, 1);
    args[3] = T(mean);
    args[4] = T(rstd);
    args[5] = T(w);
    args[6] = exg_object_none();
    args[7] =
        exg_object_value((exg_argument){.kind = EXG_ARGUMENT_BOOLS, .count = 3, .as_bools = mask});
    result = call(&e, "aten.native_layer_norm_backward.default", args, 8);
    EXPECT(c,
           result.kind == EXG_OBJECT_TUPLE && result.count == 3 &&
               result.items[2].kind == EXG_OBJECT_NONE,
           "three results, the last none");
    if (c->faults == 0) {
        EXPECT(c, lies(result.items[0].dtensor, "S(0)"), "the input's gradient");
        EXPECT(c, lies(result.items[1].dtensor, "P(sum)"), "the weight's gradient");
    }
    exg_object_clear(&result, true);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(g);
    exg_dtensor_destroy(w);
    exg_dtensor_destroy(mean);
    exg_dtensor_destroy(rstd);
    eager_end(&e);
}

/* S000-03 */
static void masked_results_are_none(void **state)
{
    (void)state;
    on_mesh("2", some_results_are_none, NULL);
}

static void keep_statistics(rank_context *c)
{
    eager e;
    exg_dtensor *x, *mean, *var;
    exg_object args[8], result;
    const void *data;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x2", "S(0)");
    mean = parts(&e, EXG_DTYPE_F32, "2", "R", (const double[]){0, 0});
    var = parts(&e, EXG_DTYPE_F32, "2", "R", (const double[]){1, 1});
    data = exg_dtensor_to_local(mean)->data;
    args[0] = T(x);
    args[1] = args[2] = exg_object_none();
    args[3] = T(mean);
    args[4] = T(var);
    args[5] = of_bool(true);
    args[6] = of_float(0.5);
    args[7] = of_float(1e-5);
    result = call(&e, "aten._native_batch_norm_legit.default", args, 8);
    EXPECT(c, result.kind == EXG_OBJECT_TUPLE && result.count == 3, "three results");
    EXPECT(c, exg_dtensor_to_local(mean)->data == data, "other memory");
    expect_values(&e, mean, "R", (const double[]){1.5, 2}, 2, "the running mean");
    exg_object_clear(&result, true);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(mean);
    exg_dtensor_destroy(var);
    eager_end(&e);
}

/* S001-05 */
static void operators_that_write_statistics_keep_them_in_place(void **state)
{
    (void)state;
    on_mesh("2", keep_statistics, NULL);
}

/* ---- the cache --------------------------------- */

static void cached(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y, *t, *z;
    exg_dispatch_stats stats, more;
    int64_t dims[] = {1, 0};

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4x4", "S(0)");
    for (int i = 0; i < 1000; i++) {
        z = CALL(&e, "aten.mul.Tensor", T(x), T(x));
        exg_dtensor_destroy(z);
    }
    stats = *exg_dispatcher_statistics(e.d);
    EXPECT(c, stats.rules == 1 && stats.hits == 999 && stats.misses == 1, "%d rules, %d hits",
           (int)stats.rules, (int)stats.hits);
    y = counted(&e, EXG_DTYPE_F32, "4x6", "S(0)"); /* other sizes, dtype, placements, strides */
    exg_dtensor_destroy(CALL(&e, "aten.mul.Tensor", T(y), T(y)));
    exg_dtensor_destroy(y);
    y = counted(&e, EXG_DTYPE_F64, "4x4", "S(0)");
    exg_dtensor_destroy(CALL(&e, "aten.mul.Tensor", T(y), T(y)));
    exg_dtensor_destroy(y);
    y = counted(&e, EXG_DTYPE_F32, "4x4", "R");
    exg_dtensor_destroy(CALL(&e, "aten.mul.Tensor", T(y), T(y)));
    more = *exg_dispatcher_statistics(e.d);
    EXPECT(c, more.misses == 4, "%d misses", (int)more.misses);
    t = CALL(&e, "aten.permute.default", T(y), of_ints(dims, 2));
    z = CALL(&e, "aten.mul.Tensor", T(t), T(t));
    more = *exg_dispatcher_statistics(e.d);
    EXPECT(c, more.misses == 6, "%d misses", (int)more.misses);
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S000-22, S000-21 */
static void equal_calls_are_decided_once(void **state)
{
    (void)state;
    on_mesh("2", cached, NULL);
}

static void evicting(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .cache_capacity = 2};
    static const char *const sizes[] = {"4", "5", "6", "4"};
    eager e;
    exg_dispatch_stats stats;

    eager_begin(&e, c, &options);
    for (int i = 0; i < 4; i++) {
        exg_dtensor *x = counted(&e, EXG_DTYPE_F32, sizes[i], "S(0)");

        exg_dtensor_destroy(CALL(&e, "aten.neg.default", T(x)));
        exg_dtensor_destroy(CALL(&e, "aten.nansum.default", T(x))); /* made of several */
        exg_dtensor_destroy(x);
    }
    stats = *exg_dispatcher_statistics(e.d);
    EXPECT(c, stats.entries <= 3, "%u entries", stats.entries);
    eager_end(&e);
}

/* S000-22: bounded, the entry in use staying. */
static void the_cache_is_bounded(void **state)
{
    (void)state;
    on_mesh("2", evicting, NULL);
}

static void three_ones(rank_context *c)
{
    eager e;
    exg_dtensor *x, *y;
    exg_dispatch_stats stats;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_I64, "4", "S(0)");
    y = CALL(&e, "aten.add.Tensor", T(x), of_int(1));
    EXPECT(c, exg_dtensor_dtype(y) == EXG_DTYPE_I64, "i64 + 1");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.add.Tensor", T(x), of_float(1));
    EXPECT(c, exg_dtensor_dtype(y) == EXG_DTYPE_F32, "i64 + 1.0");
    expect_values(&e, y, "S(0)", (const double[]){1, 2, 3, 4}, 4, "i64 + 1.0");
    exg_dtensor_destroy(y);
    y = CALL(&e, "aten.add.Tensor", T(x), of_bool(true));
    EXPECT(c, exg_dtensor_dtype(y) == EXG_DTYPE_I64, "i64 + true");
    exg_dtensor_destroy(y);
    stats = *exg_dispatcher_statistics(e.d);
    EXPECT(c, stats.entries == 3, "%u entries", stats.entries);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S000-20 */
static void kinds_of_numbers_are_kept_apart(void **state)
{
    (void)state;
    on_mesh("2", three_ones, NULL);
}

/* ---- plain tensors, meshes, ranks outside --------------------------------- */

static void beside_plain(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .implicit_replication = true};
    float values[] = {10, 20, 30, 40};
    exg_tensor four = {
        .data = values, .dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {4}, .strides = {1}};
    exg_tensor one = {.data = values, .dtype = EXG_DTYPE_F32, .rank = 0};
    eager e;
    exg_dtensor *x, *y;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    EXPECT(c,
           refusal(&e, "aten.add.Tensor", (exg_object[]){T(x), exg_object_tensor(&four)}, 2) ==
                   EXG_USAGE &&
               strcmp(e.err.code, "DSP-002") == 0,
           "%s", e.err.message);
    y = CALL(&e, "aten.add.Tensor", T(x), exg_object_tensor(&one));
    expect_values(&e, y, "S(0)", (const double[]){10, 11, 12, 13}, 4, "with a 0-d tensor");
    exg_dtensor_destroy(y);
    EXPECT(c, exg_dispatcher_configure(e.d, &options, &e.err) == EXG_OK, "%s", e.err.message);
    y = CALL(&e, "aten.add.Tensor", T(x), exg_object_tensor(&four));
    expect_values(&e, y, "S(0)", (const double[]){10, 21, 32, 43}, 4, "made whole");
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S001-54, S003-39 */
static void plain_tensors_are_refused_unless_allowed(void **state)
{
    (void)state;
    on_mesh("2", beside_plain, NULL);
}

static void two_meshes(rank_context *c)
{
    const uint32_t there[] = {0, 1}, back[] = {0, 2};
    exg_mesh_shape pair = {1, {2}, {"a"}};
    exg_device_mesh *first = NULL;
    exg_device_mesh *second = NULL;
    exg_dtensor *x, *y;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_device_mesh_select(c->mesh, there, &pair, &first, &e.err) == EXG_OK &&
               exg_device_mesh_select(c->mesh, back, &pair, &second, &e.err) == EXG_OK,
           "%s", e.err.message);
    e.mesh = first;
    x = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    e.mesh = second;
    y = counted(&e, EXG_DTYPE_F32, "4", "S(0)");
    EXPECT(c,
           refusal(&e, "aten.add.Tensor", (exg_object[]){T(x), T(y)}, 2) == EXG_USAGE &&
               strcmp(e.err.code, "DSP-003") == 0 && strstr(e.err.message, "{0, 1}") != NULL &&
               strstr(e.err.message, "{0, 2}") != NULL,
           "%s", e.err.message);
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    exg_device_mesh_destroy(first);
    exg_device_mesh_destroy(second);
    eager_end(&e);
}

/* S001-55 */
static void two_meshes_are_refused(void **state)
{
    (void)state;
    on_mesh("3", two_meshes, NULL);
}

static void outside(rank_context *c)
{
    const uint32_t ranks[] = {0, 1};
    exg_mesh_shape pair = {1, {2}, {"a"}};
    exg_device_mesh *mesh;
    exg_dtensor *x, *y, *sum;
    exg_object result;
    uint64_t before;
    bool member;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c, exg_device_mesh_select(c->mesh, ranks, &pair, &mesh, &e.err) == EXG_OK, "%s",
           e.err.message);
    e.mesh = mesh;
    member = exg_device_mesh_is_member(mesh);
    x = counted(&e, EXG_DTYPE_I64, "4", "S(0)");
    before = exg_device_mesh_exchanges(c->mesh);
    y = CALL(&e, "aten.add.Tensor", T(x), T(x));
    EXPECT(c, lies(y, "S(0)") && exg_dtensor_sizes(y)[0] == 4, "the spec is everyone's");
    EXPECT(c,
           exg_dtensor_to_local(y)->rank == 1 &&
               exg_dtensor_to_local(y)->sizes[0] == (member ? 2 : 0) &&
               exg_dtensor_dtype(y) == EXG_DTYPE_I64,
           "the part");
    sum = CALL(&e, "aten.sum.default", T(x));
    EXPECT(c, exg_dtensor_to_local(sum)->rank == 0, "a 0-d part");
    if (!member) {
        EXPECT(c, *(const int64_t *)on_host(sum)->data == 0, "is zero outside");
    }
    result = call(&e, "aten.item.default", (exg_object[]){T(sum)}, 1);
    EXPECT(c, result.kind == (member ? EXG_OBJECT_VALUE : EXG_OBJECT_NONE), "a number outside");
    EXPECT(c, exg_device_mesh_exchanges(c->mesh) == before, "sends on the mesh of all");
    exg_dtensor_destroy(sum);
    result = call(&e, "aten.equal.default", (exg_object[]){T(x), T(x)}, 2);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && result.value.as_bool, "equal, everywhere");
    if (exg_device_mesh_rank(c->mesh) == 1) { /* one rank finds a difference */
        int64_t other[2] = {2, 7};

        EXPECT(c, exg_dtensor_copy_from_host(y, NULL, other, &e.err) == EXG_OK, "%s",
               e.err.message);
    }
    sum = CALL(&e, "aten.add.Tensor", T(x), T(x));
    result = call(&e, "aten.equal.default", (exg_object[]){T(y), T(sum)}, 2);
    EXPECT(c, result.kind == EXG_OBJECT_VALUE && !result.value.as_bool, "no more, everywhere");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(sum);
    exg_device_mesh_destroy(mesh);
    eager_end(&e);
}

/* S001-52, S001-56 */
static void ranks_outside_compute_nothing(void **state)
{
    (void)state;
    on_mesh("4", outside, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_runs_on_parts),
        cmocka_unit_test(in_place_returns_the_argument),
        cmocka_unit_test(what_is_written_keeps_its_dtype),
        cmocka_unit_test(what_is_written_may_not_move),
        cmocka_unit_test(views_share_memory_or_say_so),
        cmocka_unit_test(strided_parts_are_written_too),
        cmocka_unit_test(in_place_views_renumber_dims),
        cmocka_unit_test(in_place_over_lists_writes_each),
        cmocka_unit_test(each_operator_over_lists_is_the_one_it_names),
        cmocka_unit_test(lists_of_any_length_are_gone_through),
        cmocka_unit_test(results_may_be_numbers_or_lists),
        cmocka_unit_test(masked_results_are_none),
        cmocka_unit_test(operators_that_write_statistics_keep_them_in_place),
        cmocka_unit_test(equal_calls_are_decided_once),
        cmocka_unit_test(the_cache_is_bounded),
        cmocka_unit_test(kinds_of_numbers_are_kept_apart),
        cmocka_unit_test(plain_tensors_are_refused_unless_allowed),
        cmocka_unit_test(two_meshes_are_refused),
        cmocka_unit_test(ranks_outside_compute_nothing),
    };
    int failed;

    (void)all_operators();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return failed;
}
