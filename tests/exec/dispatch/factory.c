/* factory.c - DTensors made from nothing: what they are filled with, and what is left out. What
 * PyTorch fills with stands in fixtures/operators/fills.txt (see fills.py).
 */
#include "tests/exec/dispatch/eager.h"

#include <exg/autograd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ELEMENT_MAX 16
#define FILLS_MAX   2000

/* ---- what PyTorch fills with ----------------------------------------------------------------- */

typedef struct fill {
    char asked[20], number[40]; /* a dtype or "-" */
    exg_scalar value;
    exg_dtype dtype; /* UNKNOWN: refused */
    uint8_t element[ELEMENT_MAX];
} fill;

static fill fills[FILLS_MAX];
static uint32_t fill_count;

/* Of "1+2j" where the imaginary part begins. */
static char *imaginary_part(char *text)
{
    char *at = text;

    for (char *c = text + 1; *c != '\0'; c++) {
        at = (*c == '+' || *c == '-') && c[-1] != 'e' ? c : at;
    }
    return at;
}

static exg_scalar number_of(char *text)
{
    char *imaginary = imaginary_part(text);

    if (text[strlen(text) - 1] == 'j') {
        return exg_scalar_complex(imaginary == text ? 0 : strtod(text, NULL),
                                  strtod(imaginary, NULL));
    }
    if (strcmp(text, "True") == 0) {
        return exg_scalar_bool(true);
    }
    return strpbrk(text, ".einfa") != NULL ? exg_scalar_float(strtod(text, NULL))
           : text[0] == '-'                ? exg_scalar_int(strtoll(text, NULL, 10))
                                           : exg_scalar_uint(strtoull(text, NULL, 10));
}

static int read_fills(void **state)
{
    FILE *file = fopen("fixtures/operators/fills.txt", "r");
    char line[200], dtype[20], bytes[2 * ELEMENT_MAX + 1];

    (void)state;
    if (file == NULL) {
        return -1;
    }
    while (fill_count < FILLS_MAX && fgets(line, sizeof(line), file) != NULL) {
        fill *f = &fills[fill_count++];
        int read = sscanf(line, "%19s %39s %19s %32s", f->asked, f->number, dtype, bytes);

        f->value = number_of(f->number);
        f->dtype = read == 4 ? exg_dtype_from_name(dtype) : EXG_DTYPE_UNKNOWN;
        for (size_t i = 0; read == 4 && i < strlen(bytes) / 2; i++) {
            sscanf(bytes + 2 * i, "%2hhx", &f->element[i]);
        }
    }
    fclose(file);
    return fill_count > 1000 && fill_count < FILLS_MAX ? 0 : -1;
}

/* Is every element of this rank's part that one? */
static bool is_filled(const exg_dtensor *t, const uint8_t *element)
{
    const exg_tensor *part = on_host(t);
    uint32_t bytes = exg_dtype_bytes(part->dtype);
    bool all = true;

    for (int64_t i = 0; i < exg_tensor_numel(part); i++) {
        all = all && memcmp((const uint8_t *)part->data + i * (int64_t)bytes, element, bytes) == 0;
    }
    return all;
}

static void expect_fill(rank_context *c, const fill *f, const char *how, exg_status status,
                        exg_dtensor *t, const exg_error *err)
{
    bool refused = f->dtype == EXG_DTYPE_UNKNOWN;

    EXPECT(c,
           status == (refused ? EXG_USAGE : EXG_OK) &&
               (!refused || strcmp(err->code, "DTN-022") == 0),
           "%s of %s, %s: %s", how, f->asked, f->number, err->message);
    EXPECT(c, t == NULL || (exg_dtensor_dtype(t) == f->dtype && is_filled(t, f->element)),
           "%s of %s, %s: another dtype or other elements", how, f->asked, f->number);
    exg_dtensor_destroy(t);
}

static void nothing_is_stored_of_no_number(void **state)
{
    uint8_t element[8] = {7};
    exg_scalar one = {.kind = EXG_SCALAR_INT, .as_int = 1};
    exg_error err;

    (void)state;
    assert_int_equal(exg_scalar_store(EXG_DTYPE_F32, element, (exg_scalar){0}, &err), EXG_USAGE);
    assert_string_equal(err.code, "DTN-022");
    assert_string_equal(err.message, "no number, or of no dtype");
    assert_int_equal(exg_scalar_store(EXG_DTYPE_UNKNOWN, element, one, &err), EXG_USAGE);
    assert_string_equal(err.message, "no number, or of no dtype");
    assert_int_equal(element[0], 7);
}

static void fill_all(rank_context *c)
{
    int64_t three = 3;
    const exg_dispatch_options options = {.size = sizeof(options), .mesh = c->mesh};
    eager e;

    eager_begin(&e, c, &options);
    for (uint32_t i = 0; i < fill_count && c->faults == 0; i++) {
        const fill *f = &fills[i];
        bool given = f->asked[0] != '-';
        exg_dtype dtype = given ? exg_dtype_from_name(f->asked) : EXG_DTYPE_UNKNOWN;
        exg_dtensor_like like = {.size = sizeof(like), .dtype = dtype, .rank = 1, .sizes = &three};
        exg_object args[] = {of_ints(&three, 1), exg_object_scalar(f->value)};
        exg_named_object kwargs = {"dtype", exg_object_value(exg_arg_dtype(dtype))};
        exg_object result = exg_object_none();
        exg_dtensor *t;
        exg_status status = exg_dtensor_full(c->mesh, &like, f->value, &t, &e.err);

        expect_fill(c, f, "exg_dtensor_full", status, t, &e.err);
        status = exg_dispatch(e.d, "aten.full.default", args, 2, &kwargs, given, &result, &e.err);
        expect_fill(c, f, "aten.full", status,
                    result.kind == EXG_OBJECT_DTENSOR ? result.dtensor : NULL, &e.err);
    }
    eager_end(&e);
}

/* Five sevens over two ranks. */
static void fill_sevens(rank_context *c)
{
    static const int64_t seven = 7;
    int64_t five = 5;
    exg_placement rows = exg_shard(0);
    exg_dtensor_like like = {
        .size = sizeof(like), .rank = 1, .sizes = &five, .placements = &rows, .placement_count = 1};
    exg_dtensor *t;
    exg_error err;

    EXPECT(c,
           exg_dtensor_full(c->mesh, &like, exg_scalar_int(7), &t, &err) == EXG_OK &&
               exg_dtensor_dtype(t) == EXG_DTYPE_I64 &&
               exg_dtensor_to_local(t)->sizes[0] == 3 - exg_device_mesh_rank(c->mesh) &&
               is_filled(t, (const uint8_t *)&seven),
           "%s", err.message);
    exg_dtensor_destroy(t);
}

/* S003-132, S003-142: the dtype follows from the number where none is given; what a dtype does not
 * hold is refused. */
static void numbers_become_the_elements_of_pytorch(void **state)
{
    (void)state;
    on_mesh("1", fill_all, NULL);
    on_mesh("2", fill_all, NULL);
    on_mesh("2", fill_sevens, NULL);
}

/* ---- zeros and ones -------------------------------------------------------------------------- */

typedef struct layout {
    const char *mesh, *placements;
    int64_t rows[8], columns[8]; /* of a part of (5, 3), by rank */
} layout;

static const layout layouts[] = {
    {"2", "S(0)", {3, 2}, {3, 3}},
    {"2", "R", {5, 5}, {3, 3}},
    {"4", "S(0)", {2, 2, 1, 0}, {3, 3, 3, 3}},
    {"4", "S(1)", {5, 5, 5, 5}, {1, 1, 1, 0}},
    {"2x2", "S(0) S(1)", {3, 3, 2, 2}, {2, 1, 2, 1}},
    {"2x2", "S(0) S(0)", {2, 1, 1, 1}, {3, 3, 3, 3}},
    {"2x2x2", "S(1) R S(0)", {3, 2, 3, 2, 3, 2, 3, 2}, {2, 2, 2, 2, 1, 1, 1, 1}},
};

/* What PyTorch has for a 1 of the dtype. */
static const uint8_t *one_of(exg_dtype dtype)
{
    for (uint32_t i = 0; i < fill_count; i++) {
        if (strcmp(fills[i].asked, exg_dtype_name(dtype)) == 0 &&
            strcmp(fills[i].number, "1") == 0) {
            return fills[i].element;
        }
    }
    return NULL;
}

static void expect_shape(rank_context *c, const layout *l, const exg_dtensor *t)
{
    const exg_tensor *part = exg_dtensor_to_local(t);
    uint32_t r = exg_device_mesh_rank(c->mesh);

    EXPECT(c,
           exg_dtensor_rank_count(t) == 2 && exg_dtensor_sizes(t)[0] == 5 &&
               exg_dtensor_sizes(t)[1] == 3 && exg_dtensor_strides(t)[0] == 3 &&
               exg_dtensor_strides(t)[1] == 1,
           "the whole of %s", l->placements);
    EXPECT(c, part->rank == 2 && part->sizes[0] == l->rows[r] && part->sizes[1] == l->columns[r],
           "the part of %s", l->placements);
}

static void make_of_every_dtype(rank_context *c)
{
    const layout *l = c->user;
    static const uint8_t nothing[ELEMENT_MAX];
    exg_placement placements[EXG_MESH_DIMS_MAX];
    int64_t sizes[2] = {5, 3};
    exg_dtensor_like like = {.size = sizeof(like),
                             .rank = 2,
                             .sizes = sizes,
                             .placements = placements,
                             .placement_count = placements_of(l->placements, placements)};

    for (int d = EXG_DTYPE_UNKNOWN + 1; d < EXG_DTYPE_COUNT && c->faults == 0; d++) {
        exg_dtensor *zeros, *ones, *none, *full = NULL;
        exg_error err;

        like.dtype = (exg_dtype)d;
        sizes[0] = 5;
        EXPECT(c,
               exg_dtensor_zeros(c->mesh, &like, &zeros, &err) == EXG_OK &&
                   exg_dtensor_ones(c->mesh, &like, &ones, &err) == EXG_OK,
               "%s", err.message);
        sizes[0] = 0;
        EXPECT(c, exg_dtensor_ones(c->mesh, &like, &none, &err) == EXG_OK, "%s", err.message);
        if (c->faults > 0) {
            return;
        }
        expect_shape(c, l, zeros);
        expect_shape(c, l, ones);
        EXPECT(c, is_filled(zeros, nothing), "zeros of %s", exg_dtype_name(like.dtype));
        EXPECT(c, is_filled(ones, one_of(like.dtype)), "ones of %s", exg_dtype_name(like.dtype));
        EXPECT(c, exg_dtensor_dtype(zeros) == like.dtype && exg_dtensor_dtype(ones) == like.dtype,
               "their dtype");
        EXPECT(c,
               exg_dtensor_full_tensor(ones, &full, &err) == EXG_OK &&
                   exg_tensor_numel(exg_dtensor_to_local(full)) == 15 &&
                   is_filled(full, one_of(like.dtype)),
               "the whole");
        EXPECT(c,
               exg_tensor_numel(exg_dtensor_to_local(none)) == 0 && exg_dtensor_sizes(none)[1] == 3,
               "ones of no row");
        exg_dtensor_destroy(full);
        exg_dtensor_destroy(none);
        exg_dtensor_destroy(ones);
        exg_dtensor_destroy(zeros);
    }
}

/* S003-52, S003-125, S003-129, S003-130 */
static void zeros_and_ones_are_there_of_every_dtype(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        on_mesh(layouts[i].mesh, make_of_every_dtype, &layouts[i]);
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void expect_sizes(eager *e, const char *key, exg_object *args, uint32_t count,
                         const int64_t *sizes, uint32_t rank)
{
    exg_dtensor *t = call1(e, key, args, count);

    if (t != NULL) {
        EXPECT(e->c,
               exg_dtensor_rank_count(t) == rank &&
                   memcmp(exg_dtensor_sizes(t), sizes, rank * sizeof(*sizes)) == 0,
               "%s: sizes of %u dims", key, rank);
    }
    exg_dtensor_destroy(t);
}

static void take_sizes(rank_context *c)
{
    static const char *const keys[] = {"aten.zeros.default", "aten.ones.default",
                                       "aten.empty.memory_format", "aten.rand.default",
                                       "aten.randn.default"};
    const exg_dispatch_options options = {.size = sizeof(options), .mesh = c->mesh};
    int64_t sizes[2] = {2, 3};
    exg_object numbers[2] = {of_int(2), of_int(3)}, both = of_ints(sizes, 2);
    exg_object list = exg_object_list(numbers, 2), tuple = list, nested, none, deep;
    exg_object uneven[2], other[4];
    exg_named_object size = {"size", both};
    exg_object result = exg_object_none();
    eager e;

    eager_begin(&e, c, &options);
    tuple.kind = EXG_OBJECT_TUPLE;
    nested = exg_object_list(&tuple, 1);
    none = exg_object_list(NULL, 0);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        expect_sizes(&e, keys[k], NULL, 0, sizes, 0);
        expect_sizes(&e, keys[k], &none, 1, sizes, 0);
        expect_sizes(&e, keys[k], &numbers[1], 1, sizes + 1, 1);
        expect_sizes(&e, keys[k], numbers, 2, sizes, 2);
        expect_sizes(&e, keys[k], &both, 1, sizes, 2);
        expect_sizes(&e, keys[k], &list, 1, sizes, 2);
        expect_sizes(&e, keys[k], &tuple, 1, sizes, 2);
        expect_sizes(&e, keys[k], &nested, 1, sizes, 2);
    }
    expect_sizes(&e, "aten.full.default", (exg_object[]){list, of_int(7)}, 2, sizes, 2);
    expect_sizes(&e, "aten.full.default", (exg_object[]){none, of_int(7)}, 2, sizes, 0);
    EXPECT(c,
           exg_dispatch(e.d, "aten.ones.default", NULL, 0, &size, 1, &result, &e.err) == EXG_OK &&
               exg_dtensor_rank_count(result.dtensor) == 2,
           "by keyword: %s", e.err.message);
    exg_object_clear(&result, true);
    EXPECT(c,
           refusal(&e, keys[0], (exg_object[]){both, numbers[0]}, 2) == EXG_USAGE &&
               refusal(&e, keys[0], (exg_object[]){of_float(2)}, 1) == EXG_USAGE &&
               refusal(&e, keys[0], (exg_object[]){of_int(-1)}, 1) == EXG_USAGE &&
               refusal(&e, "aten.full.default", (exg_object[]){both}, 1) == EXG_USAGE &&
               refusal(&e, "aten.full.default", (exg_object[]){both, both}, 2) == EXG_USAGE,
           "what are no sizes");
    deep = exg_object_list(&nested, 1);
    uneven[0] = list;
    uneven[1] = numbers[0];
    other[0] = exg_object_none();
    other[1] = of_float(2);
    other[2] = deep;
    other[3] = exg_object_list(uneven, 2);
    for (int i = 0; i < 4; i++) {
        EXPECT(c,
               refusal(&e, keys[0], &other[i], 1) == EXG_USAGE &&
                   strcmp(e.err.message, "aten.zeros.default does not take these sizes") == 0,
               "%d: %s", i, e.err.message);
    }
    eager_end(&e);
}

/* S003-118, S003-143: as normalize_to_torch_size reads them. */
static void sizes_are_given_in_many_forms(void **state)
{
    (void)state;
    on_mesh("2", take_sizes, NULL);
}

/* ---- what is left out ------------------------------------------------------------------------ */

typedef exg_status maker(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                         exg_dtensor **t, exg_error *err);

static exg_status sevens(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                         exg_dtensor **t, exg_error *err)
{
    return exg_full(d, mesh, like, exg_scalar_float(7), t, err);
}

static void make_in_context(rank_context *c)
{
    static maker *const makers[] = {exg_empty, exg_zeros, exg_ones, exg_rand, exg_randn, sevens};
    exg_dispatch_options options = {.size = sizeof(options), .default_dtype = EXG_DTYPE_F64};
    exg_mesh_shape shape = mesh_shape("2");
    exg_placement rows = exg_shard(0);
    int64_t sizes[2] = {5, 3};
    exg_dtensor_like like = {.size = sizeof(like), .rank = 2, .sizes = sizes};
    uint32_t r = exg_device_mesh_rank(c->mesh);
    exg_device_mesh *pair = NULL;
    exg_dtensor *t;
    eager e;

    eager_begin(&e, c, &options);
    EXPECT(c, exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &shape, &pair, &e.err) == EXG_OK,
           "%s", e.err.message);
    for (size_t k = 0; k < sizeof(makers) / sizeof(makers[0]) && c->faults == 0; k++) {
        EXPECT(c,
               exg_dispatcher_configure(e.d, &options, &e.err) == EXG_OK &&
                   makers[k](e.d, NULL, &like, &t, &e.err) == EXG_USAGE && t == NULL &&
                   strcmp(e.err.code, "DSP-008") == 0,
               "%d: no mesh", (int)k);
        EXPECT(c, exg_dispatcher_push_mesh(e.d, pair, &e.err) == EXG_OK, "%s", e.err.message);
        like.placements = &rows;
        like.placement_count = 1;
        EXPECT(c, makers[k](e.d, NULL, &like, &t, &e.err) == EXG_OK, "%s", e.err.message);
        EXPECT(c,
               t != NULL && exg_dtensor_device_mesh(t) == pair &&
                   exg_dtensor_dtype(t) == EXG_DTYPE_F64 && lies(t, "S(0)") &&
                   exg_dtensor_to_local(t)->sizes[0] == (r == 0   ? 3
                                                         : r == 1 ? 2
                                                                  : 0),
               "%d: on the pushed mesh, of the default dtype", (int)k);
        exg_dtensor_destroy(t);
        like.placement_count = 0;
        EXPECT(c,
               makers[k](e.d, c->mesh, &like, &t, &e.err) == EXG_OK &&
                   exg_dtensor_device_mesh(t) == c->mesh && lies(t, "R"),
               "%d: on another", (int)k);
        exg_dtensor_destroy(t);
        EXPECT(c, exg_dispatcher_pop_mesh(e.d) == pair && exg_dispatcher_pop_mesh(e.d) == NULL,
               "popped");
        like.dtype = EXG_DTYPE_F32;
        EXPECT(c,
               makers[k](e.d, c->mesh, &like, &t, &e.err) == EXG_OK &&
                   exg_dtensor_dtype(t) == EXG_DTYPE_F32,
               "%d: a dtype of its own", (int)k);
        exg_dtensor_destroy(t);
        like.dtype = EXG_DTYPE_UNKNOWN;
        like.requires_grad = true;
        EXPECT(c,
               exg_dispatcher_configure(e.d, NULL, &e.err) == EXG_OK &&
                   makers[k](e.d, c->mesh, &like, &t, &e.err) == EXG_OK &&
                   exg_dtensor_dtype(t) == EXG_DTYPE_F32 && exg_dtensor_requires_grad(t),
               "%d: float32 without a default", (int)k);
        exg_dtensor_destroy(t);
        like.requires_grad = false;
    }
    exg_device_mesh_destroy(pair);
    eager_end(&e);
}

/* Nothing is uint8 that was not asked to be, and what is asked to be stays so. */
static void make_without_context(rank_context *c)
{
    int64_t size = 3;
    exg_dtensor_like like = {.size = sizeof(like), .rank = 1, .sizes = &size};
    exg_rng rng = {.seed = 1};
    exg_dtensor *t[7] = {NULL};
    exg_error err;

    EXPECT(c,
           exg_dtensor_empty(c->mesh, &like, &t[0], &err) == EXG_OK &&
               exg_dtensor_zeros(c->mesh, &like, &t[1], &err) == EXG_OK &&
               exg_dtensor_ones(c->mesh, &like, &t[2], &err) == EXG_OK &&
               exg_dtensor_arange(c->mesh, &like, 0, 1, &t[3], &err) == EXG_OK &&
               exg_dtensor_rand(c->mesh, &like, &rng, &t[4], &err) == EXG_OK &&
               exg_dtensor_randn(c->mesh, &like, &rng, &t[5], &err) == EXG_OK,
           "%s", err.message);
    like.dtype = EXG_DTYPE_U8;
    EXPECT(c, exg_dtensor_ones(c->mesh, &like, &t[6], &err) == EXG_OK, "%s", err.message);
    for (int i = 0; i < 7 && c->faults == 0; i++) {
        EXPECT(c, exg_dtensor_dtype(t[i]) == (i == 6 ? EXG_DTYPE_U8 : EXG_DTYPE_F32), "%d is %s", i,
               exg_dtype_name(exg_dtensor_dtype(t[i])));
    }
    for (int i = 0; i < 7; i++) {
        exg_dtensor_destroy(t[i]);
    }
    like.dtype = EXG_DTYPE_COUNT;
    EXPECT(c,
           exg_dtensor_zeros(c->mesh, &like, &t[0], &err) == EXG_USAGE &&
               strcmp(err.code, "DTN-009") == 0,
           "unknown dtype");
}

/* As the tensor lies where the sizes are its own; whole where they are not. */
static void make_new(eager *e, const exg_dtensor *x)
{
    static const char *const keys[] = {"aten.new_zeros.default", "aten.new_ones.default",
                                       "aten.new_empty.default", "aten.new_full.default"};
    int64_t same[] = {5, 3}, other[] = {3, 5};

    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 2; i++) {
            exg_object args[] = {T((exg_dtensor *)(uintptr_t)x), of_ints(i == 0 ? same : other, 2),
                                 of_int(7)};
            exg_object made = call(e, keys[k], args, k == 3 ? 3 : 2);

            EXPECT(e->c,
                   made.kind == EXG_OBJECT_DTENSOR &&
                       exg_dtensor_dtype(made.dtensor) == EXG_DTYPE_I16 &&
                       lies(made.dtensor, i == 0 ? "S(0)" : "R"),
                   "%s, %d", keys[k], i);
            exg_dtensor_destroy(made.dtensor);
        }
    }
}

/* What draws by a distribution for each element runs, and lies as those do. */
static void draw_with_chances(eager *e)
{
    static const char *const keys[] = {"aten.bernoulli.default", "aten.poisson.default"};
    exg_dtensor *p = counted(e, EXG_DTYPE_F32, "5x2", "S(0)");
    exg_dtensor *chances = CALL(e, "aten.sigmoid.default", T(p));

    for (int k = 0; k < 2; k++) {
        exg_dtensor *t = CALL(e, keys[k], T(chances));

        EXPECT(e->c, t == NULL || lies(t, "S(0)"), "%s", keys[k]);
        exg_dtensor_destroy(t);
    }
    exg_dtensor_destroy(chances);
    exg_dtensor_destroy(p);
}

static void make_alike(rank_context *c)
{
    static const char *const keys[] = {"aten.zeros_like.default", "aten.ones_like.default",
                                       "aten.empty_like.default"};
    int64_t sizes[2] = {5, 3};
    exg_placement rows = exg_shard(0);
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_I16,
                             .rank = 2,
                             .sizes = sizes,
                             .placements = &rows,
                             .placement_count = 1};
    exg_dtensor *x = NULL, *t;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c, exg_dtensor_ones(c->mesh, &like, &x, &e.err) == EXG_OK, "%s", e.err.message);
    for (int k = 0; k < 3; k++) {
        t = CALL(&e, keys[k], T(x));
        EXPECT(c, t == NULL || (exg_dtensor_dtype(t) == EXG_DTYPE_I16 && lies(t, "S(0)")), "%s",
               keys[k]);
        exg_dtensor_destroy(t);
    }
    make_new(&e, x);
    draw_with_chances(&e);
    t = CALL(&e, "aten.full_like.default", T(x), of_int(7));
    EXPECT(c, t == NULL || exg_dtensor_dtype(t) == EXG_DTYPE_I16, "full_like");
    exg_dtensor_destroy(t);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* A number like another, on ranks outside too: zero there. */
static void make_number_outside(rank_context *c)
{
    exg_mesh_shape shape = mesh_shape("2");
    bool inside = exg_device_mesh_rank(c->mesh) < 2;
    exg_dtensor_like like = {.size = sizeof(like)};
    exg_device_mesh *pair = NULL;
    exg_dtensor *x = NULL, *y;
    eager e;

    eager_begin(&e, c, NULL);
    EXPECT(c,
           exg_device_mesh_select(c->mesh, (uint32_t[]){0, 1}, &shape, &pair, &e.err) == EXG_OK &&
               exg_dtensor_zeros(pair, &like, &x, &e.err) == EXG_OK,
           "%s", e.err.message);
    y = CALL(&e, "aten.ones_like.default", T(x));
    EXPECT(c,
           y == NULL || (exg_dtensor_to_local(y)->rank == 0 &&
                         *(const float *)on_host(y)->data == (inside ? 1.0f : 0.0f)),
           "a number");
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    exg_device_mesh_destroy(pair);
    eager_end(&e);
}

/* S003-01, S003-120, S003-123, S003-144 */
static void what_is_left_out_the_dispatcher_knows(void **state)
{
    (void)state;
    on_mesh("4", make_in_context, NULL);
    on_mesh("2", make_without_context, NULL);
    on_mesh("2", make_alike, NULL);
    on_mesh("4", make_number_outside, NULL);
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Do the low bits of the numbers between 0 and 1 say more than their high ones? */
static bool has_bits_of_its_own(const exg_tensor *t)
{
    bool own = false;

    for (int64_t i = 0; i < exg_tensor_numel(t); i++) {
        uint64_t bits = (uint64_t)ldexp(((const double *)t->data)[i], 53);

        own = own || (bits & 0x1fffff) != bits >> 32;
    }
    return own;
}

static void draw_of_a_cube(rank_context *c)
{
    exg_placement placements[3] = {exg_shard(1), exg_replicate(), exg_shard(0)};
    int64_t sizes[2] = {8, 16};
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_F32,
                             .rank = 2,
                             .sizes = sizes,
                             .placements = placements,
                             .placement_count = 3};
    exg_rng rng = {.seed = 3, .offset = 8};
    exg_dtensor *t = NULL;
    exg_error err;

    EXPECT(c,
           exg_dtensor_rand(c->mesh, &like, &rng, &t, &err) == EXG_OK && rng.offset == 8 + 128 &&
               rng.seed == 3,
           "the offset is %u", (unsigned)rng.offset);
    exg_dtensor_destroy(t);
    sizes[0] = 3; /* 48 and then 3 * 5 = 15, rounded up */
    EXPECT(c, exg_dtensor_randn(c->mesh, &like, &rng, &t, &err) == EXG_OK && rng.offset == 136 + 48,
           "the offset is %u", (unsigned)rng.offset);
    exg_dtensor_destroy(t);
    sizes[1] = 5;
    EXPECT(c, exg_dtensor_rand(c->mesh, &like, &rng, &t, &err) == EXG_OK && rng.offset == 184 + 16,
           "the offset is %u", (unsigned)rng.offset);
    exg_dtensor_destroy(t);
    placements[0] = placements[2] = exg_replicate();
    like.dtype = EXG_DTYPE_F64;
    EXPECT(c,
           exg_dtensor_rand(c->mesh, &like, &rng, &t, &err) == EXG_OK &&
               has_bits_of_its_own(on_host(t)),
           "53 bits: %s", err.message);
    exg_dtensor_destroy(t);
}

/* S003-137: alike on every rank, by the elements of the whole, rounded up to four. */
static void draws_move_on_by_the_whole(void **state)
{
    (void)state;
    on_mesh("2x2x2", draw_of_a_cube, NULL);
}

#define DRAWN 40000

static double mean_of(const float *x, double power)
{
    double sum = 0;

    for (int i = 0; i < DRAWN; i++) {
        sum += pow((double)x[i], power);
    }
    return sum / DRAWN;
}

/* Of a dispatcher's own sequence: other numbers in each draw, the same on every rank. */
static void draw_twice(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .mesh = c->mesh, .seed = 5};
    int64_t size = DRAWN / 2;
    exg_placement shard = exg_shard(0);
    exg_dtensor_like like = {.size = sizeof(like),
                             .dtype = EXG_DTYPE_C64,
                             .rank = 1,
                             .sizes = &size,
                             .placements = &shard,
                             .placement_count = 1};
    exg_dtensor *t[2] = {NULL}, *full[2] = {NULL};
    const float *x[2];
    eager e;

    eager_begin(&e, c, &options);
    for (int i = 0; i < 2; i++) {
        EXPECT(c, (i == 0 ? exg_rand : exg_randn)(e.d, NULL, &like, &t[i], &e.err) == EXG_OK,
               "draw");
        EXPECT(c, exg_dtensor_full_tensor(t[i], &full[i], &e.err) == EXG_OK, "%s", e.err.message);
    }
    if (c->faults == 0) {
        x[0] = on_host(full[0])->data;
        x[1] = on_host(full[1])->data;
        EXPECT(c, fabs(mean_of(x[0], 1) - 0.5) < 0.01 && fabs(mean_of(x[0], 2) - 1.0 / 3) < 0.01,
               "parts are uniform");
        EXPECT(c, fabs(mean_of(x[1], 1)) < 0.02 && fabs(mean_of(x[1], 2) - 0.5) < 0.02,
               "parts of a normal number have a square of a half");
        for (uint32_t k = 1; k < 4096; k++) { /* parts of one and of others */
            EXPECT(c, k / 64 <= k % 64 || x[0][k / 64] != x[0][k % 64], "twice: %u", k);
        }
    }
    for (int i = 0; i < 2; i++) {
        exg_dtensor_destroy(t[i]);
        exg_dtensor_destroy(full[i]);
    }
    like.dtype = EXG_DTYPE_F8E5M2;
    EXPECT(c, exg_rand(e.d, NULL, &like, &t[0], &e.err) == EXG_USAGE, "of float8");
    EXPECT(c, strcmp(e.err.code, "DTN-009") == 0, "%s", e.err.code);
    eager_end(&e);
}

/* S003-133, S003-134: complex ones too. */
static void complex_numbers_are_drawn(void **state)
{
    (void)state;
    on_mesh("2", draw_twice, NULL);
}

static void draw(rank_context *c)
{
    exg_dispatch_options options = {.size = sizeof(options), .seed = 42};
    int64_t sizes[] = {6};
    eager e;
    exg_dtensor *x, *y, *z, *p;
    exg_object same;

    eager_begin(&e, c, &options);
    x = CALL(&e, "aten.rand.default", of_ints(sizes, 1));
    y = CALL(&e, "aten.rand.default", of_ints(sizes, 1));
    same = call(&e, "aten.equal.default", (exg_object[]){T(x), T(y)}, 2);
    EXPECT(c, !same.value.as_bool, "two draws are equal");
    exg_dtensor_destroy(y);
    p = counted(&e, EXG_DTYPE_F32, "6", "S(0)");
    z = CALL(&e, "aten.rand_like.default", T(p));
    EXPECT(c, exg_dtensor_sizes(z)[0] == 6, "like");
    exg_dtensor_destroy(z);
    exg_dtensor_destroy(p);
    eager_end(&e);

    eager_begin(&e, c, &options);
    y = CALL(&e, "aten.rand.default", of_ints(sizes, 1));
    same = call(&e, "aten.equal.default", (exg_object[]){T(x), T(y)}, 2);
    EXPECT(c, same.value.as_bool, "equal seeds draw other numbers");
    exg_dtensor_destroy(x);
    exg_dtensor_destroy(y);
    eager_end(&e);
}

static void random_operators_draw_anew(void **state)
{
    (void)state;
    on_mesh("2", draw, NULL);
}

/* The operator's draw of five rows over the ranks. */
static void draw_alike(rank_context *c)
{
    static float alone[10]; /* as one rank draws them: the mesh of one comes first */
    exg_dtensor *x, *y, *full = NULL;
    uint32_t size = exg_device_mesh_size(c->mesh);
    eager e;

    eager_begin(&e, c, NULL);
    x = counted(&e, EXG_DTYPE_F32, "5x2", "S(0)");
    y = CALL(&e, c->user, T(x));
    EXPECT(c, y != NULL && exg_dtensor_full_tensor(y, &full, &e.err) == EXG_OK, "%s",
           e.err.message);
    if (full != NULL && size == 1) {
        memcpy(alone, on_host(full)->data, sizeof(alone));
        EXPECT(c, alone[0] != alone[2] && alone[0] != alone[6], "rows differ");
    } else if (full != NULL) {
        EXPECT(c, lies(y, "S(0)"), "it lies otherwise");
        EXPECT(c, memcmp(on_host(full)->data, alone, sizeof(alone)) == 0, "drawn by %u", size);
    }
    exg_dtensor_destroy(full);
    exg_dtensor_destroy(y);
    exg_dtensor_destroy(x);
    eager_end(&e);
}

/* S003-135: shards of it differ, and are those of the tensor that one rank draws. */
static void parts_are_of_one_draw(void **state)
{
    static const char *const keys[] = {"aten.rand_like.default", "aten.randn_like.default",
                                       "aten.exponential.default", "aten.log_normal.default"};

    (void)state;
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        on_mesh("1", draw_alike, keys[k]);
        on_mesh("2", draw_alike, keys[k]);
        on_mesh("4", draw_alike, keys[k]);
    }
}

static int begin(void **state)
{
    (void)all_operators();
    return read_fills(state);
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
        cmocka_unit_test(nothing_is_stored_of_no_number),
        cmocka_unit_test(numbers_become_the_elements_of_pytorch),
        cmocka_unit_test(zeros_and_ones_are_there_of_every_dtype),
        cmocka_unit_test(sizes_are_given_in_many_forms),
        cmocka_unit_test(what_is_left_out_the_dispatcher_knows),
        cmocka_unit_test(draws_move_on_by_the_whole),
        cmocka_unit_test(complex_numbers_are_drawn),
        cmocka_unit_test(random_operators_draw_anew),
        cmocka_unit_test(parts_are_of_one_draw),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
