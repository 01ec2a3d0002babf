/* gradients.c - the derivatives of operators, on parts of every kind, against PyTorch's: the cases
 * of gradients.txt.
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

#define NUMEL_MAX   256
#define TENSORS_MAX 8
#define WAYS_MAX    48 /* in which the tensors of a case are placed */

typedef struct item {
    exg_tensor tensor;
    double values[NUMEL_MAX];
    bool wanted;
    float gradient[NUMEL_MAX];
} item;

typedef struct gradient_case {
    char key[80];
    exg_object args[12]; /* tensors: TENSOR objects with `tensor` unset */
    uint32_t arg_count;
    exg_object lists[TENSORS_MAX];
    int64_t ints[12][8];
    item tensors[TENSORS_MAX];
    uint32_t tensor_count;
    item root;
} gradient_case;

static char *text; /* of the file */

/* ---- reading --------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 20);
    size_t length;

    if (file == NULL || bytes == NULL) {
        abort();
    }
    length = fread(bytes, 1, (1 << 20) - 1, file);
    assert_true(length > 0 && length < (1 << 20) - 1);
    fclose(file);
    return bytes;
}

static void read_tensor(item *x, exg_dtype dtype, char *at)
{
    x->tensor = (exg_tensor){.dtype = dtype};
    for (at += *at == '.'; *at != ' ' && *at != '\0' && *at != '\n'; at += *at == 'x') {
        x->tensor.sizes[x->tensor.rank++] = strtol(at, &at, 10);
    }
    exg_tensor_set_contiguous(&x->tensor);
    for (int64_t i = 0; i < exg_tensor_numel(&x->tensor); i++) {
        x->values[i] = strtod(at, &at);
    }
    x->wanted = dtype == EXG_DTYPE_F32;
}

static void read_argument(gradient_case *c, const char *word, char *rest, uint32_t *in_list)
{
    bool tensor = strcmp(word, "tensor") == 0;
    bool index = strcmp(word, "index") == 0;
    exg_object object = exg_object_none();

    if (tensor || index || strcmp(word, "mask") == 0) {
        read_tensor(&c->tensors[c->tensor_count++],
                    tensor  ? EXG_DTYPE_F32
                    : index ? EXG_DTYPE_I64
                            : EXG_DTYPE_B8,
                    rest);
        if (*in_list > 0) {
            --*in_list;
            return;
        }
        object.kind = EXG_OBJECT_TENSOR;
    } else if (strcmp(word, "list") == 0) {
        *in_list = (uint32_t)strtoul(rest, NULL, 10);
        object = exg_object_list(c->lists, *in_list);
    } else if (strcmp(word, "int") == 0) {
        object = of_int(strtol(rest, NULL, 10));
    } else if (strcmp(word, "float") == 0) {
        object = of_float(strtod(rest, NULL));
    } else if (strcmp(word, "bool") == 0) {
        object = of_bool(rest[0] == '1');
    } else if (strcmp(word, "ints") == 0) {
        uint32_t count = 0;
        int64_t *ints = c->ints[c->arg_count];

        for (; *rest != '\n' && *rest != '\0'; rest += *rest == ',') {
            ints[count++] = strtol(rest, &rest, 10);
        }
        object = of_ints(ints, count);
    }
    c->args[c->arg_count++] = object;
}

static void read_gradient(gradient_case *c, uint32_t *next, char *rest)
{
    item *x;

    while (!c->tensors[*next].wanted) {
        ++*next;
    }
    x = &c->tensors[(*next)++];
    for (int64_t i = 0; i < exg_tensor_numel(&x->tensor); i++) {
        x->gradient[i] = (float)strtod(rest, &rest);
    }
}

/* The case at *at, which goes on to the next; false after the last. */
static bool read_case(char **at, gradient_case *c)
{
    uint32_t in_list = 0, next = 0;
    char *line = strstr(*at, "case ");

    memset(c, 0, sizeof(*c));
    if (line == NULL) {
        return false;
    }
    sscanf(line, "case %79s", c->key);
    for (line = strchr(line, '\n') + 1; *line != '\0' && strncmp(line, "case ", 5) != 0;
         line = strchr(line, '\n') + 1) {
        char word[16];
        int used = 0;

        sscanf(line, "%15s%n", word, &used);
        if (strcmp(word, "root") == 0) {
            read_tensor(&c->root, EXG_DTYPE_F32, line + used + 1);
        } else if (strcmp(word, "grad") == 0) {
            read_gradient(c, &next, line + used);
        } else {
            read_argument(c, word, line + used + (line[used] == ' '), &in_list);
        }
    }
    *at = line;
    return true;
}

/* ---- computing ------------------------------------------------------------------------------- */

/* Strides that grow from the first dim on. */
static void turn(exg_tensor *t)
{
    int64_t stride = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        t->strides[d] = stride;
        stride *= t->sizes[d] > 0 ? t->sizes[d] : 1;
    }
}

/* Where row-major element `i` lies. */
static int64_t place_of(const exg_tensor *t, int64_t i)
{
    int64_t at = 0;

    for (uint32_t d = t->rank; d-- > 0; i /= t->sizes[d]) {
        at += i % t->sizes[d] * t->strides[d];
    }
    return at;
}

static exg_dtensor *place(eager *e, const item *x, const exg_placement *to, bool turned)
{
    exg_tensor whole = x->tensor;
    exg_dtensor *t = NULL;
    double aligned[NUMEL_MAX];

    whole.data = aligned;
    if (turned) {
        turn(&whole);
    }
    for (int64_t i = 0; i < exg_tensor_numel(&whole); i++) {
        int64_t at = place_of(&whole, i);

        if (whole.dtype == EXG_DTYPE_F32) {
            ((float *)whole.data)[at] = (float)x->values[i];
        } else if (whole.dtype == EXG_DTYPE_I64) {
            ((int64_t *)whole.data)[at] = (int64_t)x->values[i];
        } else {
            ((bool *)whole.data)[at] = x->values[i] != 0;
        }
    }
    EXPECT(e->c,
           exg_distribute_tensor(e->mesh, &whole, to, exg_device_mesh_ndim(e->mesh), EXG_NO_RANK,
                                 &t, &e->err) == EXG_OK &&
               exg_dtensor_set_requires_grad(t, x->wanted, &e->err) == EXG_OK,
           "%s", e->err.message);
    return t;
}

/* The next of the ways to place it: R, P (of floats), every shard. */
static exg_placement choose(const item *x, uint64_t *way)
{
    uint64_t kinds = x->tensor.rank + (x->wanted ? 2u : 1u);
    uint32_t kind = (uint32_t)(*way % kinds);

    *way /= kinds;
    return kind == 0                ? exg_replicate()
           : kind <= x->tensor.rank ? exg_shard((int32_t)kind - 1)
                                    : exg_partial(EXG_REDUCE_SUM);
}

static uint64_t ways_of(const gradient_case *c, uint32_t ndim)
{
    uint64_t ways = 1;

    for (uint32_t i = 0; i < c->tensor_count * ndim; i++) {
        const item *x = &c->tensors[i / ndim];

        ways *= x->tensor.rank + (x->wanted ? 2u : 1u);
    }
    return ways;
}

static void check_gradient(eager *e, const gradient_case *c, const item *x, const exg_dtensor *t,
                           uint64_t way)
{
    const exg_dtensor *gradient = exg_dtensor_grad(t);
    exg_dtensor *full = NULL;

    EXPECT(e->c, gradient != NULL, "%s, %d: no gradient", c->key, (int)way);
    if (gradient == NULL) {
        return;
    }
    for (uint32_t m = 0; m < exg_device_mesh_ndim(e->mesh); m++) {
        exg_placement lies_as = exg_dtensor_placements(t)[m];

        lies_as = lies_as.kind == EXG_PARTIAL ? exg_replicate() : lies_as;
        EXPECT(e->c, exg_placement_equal(exg_dtensor_placements(gradient)[m], lies_as),
               "%s, %d: the gradient lies otherwise", c->key, (int)way);
    }
    EXPECT(e->c, exg_dtensor_full_tensor(gradient, &full, &e->err) == EXG_OK, "%s", e->err.message);
    for (int64_t i = 0; full != NULL && i < exg_tensor_numel(&x->tensor); i++) {
        double got = (double)((const float *)on_host(full)->data)[i];
        double expected = (double)x->gradient[i];

        EXPECT(e->c, fabs(got - expected) <= 2e-5 * (1 + fabs(expected)),
               "%s, way %d, tensor %d, element %d: %g, not %g", c->key, (int)way,
               (int)(x - c->tensors), (int)i, got, expected);
    }
    exg_dtensor_destroy(full);
}

static void check_way(eager *e, const gradient_case *c, uint64_t way)
{
    uint32_t ndim = exg_device_mesh_ndim(e->mesh), next = 0;
    exg_placement to[EXG_MESH_DIMS_MAX] = {{0}};
    exg_dtensor *tensors[TENSORS_MAX] = {NULL}, *root;
    exg_object args[12], items[TENSORS_MAX], result;
    uint64_t rest = way;
    bool is_view = strcmp(c->key, "aten.view.default") == 0; /* which takes not all strides */

    for (uint32_t i = 0; i < c->tensor_count; i++) {
        for (uint32_t m = 0; m < ndim; m++) {
            to[m] = choose(&c->tensors[i], &rest);
        }
        tensors[i] = place(e, &c->tensors[i], to, way % 2 != 0 && !is_view);
    }
    memcpy(args, c->args, sizeof(args));
    for (uint32_t a = 0; a < c->arg_count; a++) {
        if (args[a].kind == EXG_OBJECT_TENSOR) {
            args[a] = T(tensors[next++]);
        } else if (args[a].kind == EXG_OBJECT_LIST) {
            for (uint32_t k = 0; k < args[a].count; k++) {
                items[k] = T(tensors[next++]);
            }
            args[a].items = items;
        }
    }
    result = call(e, c->key, args, c->arg_count);
    for (uint32_t m = 0; m < ndim; m++) {
        to[m] = c->root.tensor.rank > 0 && way % 2 == 1 ? exg_shard(0) : exg_replicate();
    }
    root = place(e, &c->root, to, way % 3 != 0);
    if (e->c->faults == 0) {
        exg_dtensor *y =
            result.kind == EXG_OBJECT_DTENSOR ? result.dtensor : result.items[0].dtensor;
        const exg_dtensor *g = root;

        EXPECT(e->c, exg_backward(e->d, &y, &g, 1, NULL, &e->err) == EXG_OK, "%s, %d: %s", c->key,
               (int)way, e->err.message);
    }
    for (uint32_t i = 0; e->c->faults == 0 && i < c->tensor_count; i++) {
        if (c->tensors[i].wanted) {
            check_gradient(e, c, &c->tensors[i], tensors[i], way);
        }
    }
    exg_object_clear(&result, true);
    exg_dtensor_destroy(root);
    for (uint32_t i = 0; i < c->tensor_count; i++) {
        exg_dtensor_destroy(tensors[i]);
    }
}

static void check_cases(rank_context *c)
{
    gradient_case *g = malloc(sizeof(*g));
    char *at = text;
    eager e;

    eager_begin(&e, c, NULL);
    while (g != NULL && read_case(&at, g)) {
        uint64_t ways = ways_of(g, exg_device_mesh_ndim(e.mesh));
        uint64_t step = ways * one_in() / WAYS_MAX + 1;

        for (uint64_t way = 0; way < ways && c->faults == 0; way += step) {
            check_way(&e, g, way);
        }
    }
    eager_end(&e);
    free(g);
}

/* S003-02: sharded gradients are those of the whole tensors. */
static void derivatives_are_pytorchs(void **state)
{
    (void)state;
    text = read_file("tests/exec/dispatch/gradients.txt");
    on_mesh("1", check_cases, NULL);
    on_mesh("2", check_cases, NULL);
    on_mesh("3", check_cases, NULL);
    on_mesh("2x2", check_cases, NULL);
    free(text);
}

/* Of 0, 1, 2, 3 and of four equal ones, whose root has no slope. */
static void differentiate_spread(rank_context *c)
{
    static const double slopes[][4] = {{-1.5, -.5, .5, 1.5}, {0, 0, 0, 0}};
    const double root = 3 * sqrt(5.0 / 3);
    eager e;

    eager_begin(&e, c, NULL);
    for (int k = 0; k < 2; k++) {
        static const double equal[] = {7, 7, 7, 7};
        exg_dtensor *x = k == 0 ? counted(&e, EXG_DTYPE_F32, "4", "S(0)")
                                : parts(&e, EXG_DTYPE_F32, "4", "S(0)", equal);
        double want[4];
        exg_dtensor *y;

        for (int i = 0; i < 4; i++) {
            want[i] = slopes[k][i] / root;
        }
        EXPECT(c, exg_dtensor_set_requires_grad(x, true, &e.err) == EXG_OK, "%s", e.err.message);
        y = CALL(&e, "aten.std.correction", T(x));
        EXPECT(c, exg_backward(e.d, &y, NULL, 1, NULL, &e.err) == EXG_OK, "%s", e.err.message);
        expect_values(&e, exg_dtensor_grad(x), "", want, 4, "of a spread");
        exg_dtensor_destroy(y);
        exg_dtensor_destroy(x);
    }
    eager_end(&e);
}

static void a_spread_of_equals_has_no_slope(void **state)
{
    (void)state;
    on_mesh("2", differentiate_spread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spread_of_equals_has_no_slope),
        cmocka_unit_test(derivatives_are_pytorchs),
    };
    int status;

    (void)all_operators();
    status = cmocka_run_group_tests(tests, NULL, NULL);
    free_operators();
    return status;
}
