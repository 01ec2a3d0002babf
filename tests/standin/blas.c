/* blas.c - a stand-in for libcublasLt: the entry points that the plugin uses. It is as particular
 * as the library says it is: sizes that do not fit, an algorithm chosen for another product or
 * for addresses that are better aligned, and memory that is not there are refused.
 *
 * EXG_STANDIN_BLAS_NO=EPILOGUES: no algorithm has one of these, as numbers that are added up.
 */
#include "tests/standin/cuda.h"
#include "tests/standin/log.h"
#include "tests/standin/memory.h"
#include "tests/standin/numbers.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define INVALID_VALUE 7
#define NOT_SUPPORTED 15
#define EXECUTION     13

#define TYPE_F32  0
#define TYPE_F64  1
#define TYPE_F16  2
#define TYPE_BF16 14

#define EPILOGUE_NONE 1u
#define EPILOGUE_RELU 2u
#define EPILOGUE_BIAS 4u
#define EPILOGUE_GELU 32u

#define WORKSPACE 64 /* bytes that aligned algorithms ask for */

typedef struct product {
    int compute, scale, transposes[2];
    uint32_t epilogue;
    const void *bias;
} product;

typedef struct layout {
    int type;
    uint64_t rows, columns;
    int64_t lead, stride;
    int32_t batches;
} layout;

typedef struct preference {
    uint64_t workspace;
    uint32_t alignments[4];
} preference;

typedef struct algorithm {
    uint64_t alignment, workspace, key, rest[5];
} algorithm;

typedef struct choice {
    algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} choice;

typedef struct work {
    product product;
    layout a, b, c, d;
    const void *at_a, *at_b, *at_c;
    void *at_d;
    double alpha, beta;
} work;

#define CALLS(X)                                                                                   \
    X(cublasLtCreate, (void **handle))                                                             \
    X(cublasLtDestroy, (void *handle))                                                             \
    X(cublasLtMatmulDescCreate, (product * *made, int compute, int scale))                         \
    X(cublasLtMatmulDescDestroy, (product * p))                                                    \
    X(cublasLtMatmulDescSetAttribute,                                                              \
      (product * p, int attribute, const void *value, size_t bytes))                               \
    X(cublasLtMatrixLayoutCreate,                                                                  \
      (layout * *made, int type, uint64_t rows, uint64_t columns, int64_t lead))                   \
    X(cublasLtMatrixLayoutDestroy, (layout * l))                                                   \
    X(cublasLtMatrixLayoutSetAttribute,                                                            \
      (layout * l, int attribute, const void *value, size_t bytes))                                \
    X(cublasLtMatmulPreferenceCreate, (preference * *made))                                        \
    X(cublasLtMatmulPreferenceDestroy, (preference * p))                                           \
    X(cublasLtMatmulPreferenceSetAttribute,                                                        \
      (preference * p, int attribute, const void *value, size_t bytes))                            \
    X(cublasLtMatmulAlgoGetHeuristic,                                                              \
      (void *handle, const product *p, const layout *a, const layout *b, const layout *c,          \
       const layout *d, const preference *wish, int most, choice *choices, int *found))            \
    X(cublasLtMatmul,                                                                              \
      (void *handle, const product *p, const void *alpha, const void *at_a, const layout *a,       \
       const void *at_b, const layout *b, const void *beta, const void *at_c, const layout *c,     \
       void *at_d, const layout *d, const algorithm *how, void *workspace, size_t workspace_bytes, \
       void *stream))
#define DECLARE(name, parameters) int name parameters;
CALLS(DECLARE)

/* ---- descriptors ------------------------------------------------------------------------- */

int cublasLtCreate(void **handle)
{
    standin_log("cublasLtCreate");
    *handle = malloc(1);
    return *handle == NULL ? 3 : 0;
}

int cublasLtDestroy(void *handle)
{
    standin_log("cublasLtDestroy");
    free(handle);
    return 0;
}

int cublasLtMatmulDescCreate(product **made, int compute, int scale)
{
    *made = calloc(1, sizeof(**made));
    if (*made == NULL) {
        return 3;
    }
    (*made)->compute = compute;
    (*made)->scale = scale;
    (*made)->epilogue = 1;
    return 0;
}

int cublasLtMatmulDescDestroy(product *p)
{
    free(p);
    return 0;
}

int cublasLtMatmulDescSetAttribute(product *p, int attribute, const void *value, size_t bytes)
{
    void *to = attribute == 3   ? (void *)&p->transposes[0]
               : attribute == 4 ? (void *)&p->transposes[1]
               : attribute == 7 ? (void *)&p->epilogue
               : attribute == 8 ? (void *)&p->bias
                                : NULL;

    if (to == NULL || bytes != (attribute == 8 ? sizeof(void *) : sizeof(int))) {
        return INVALID_VALUE;
    }
    memcpy(to, value, bytes);
    return 0;
}

int cublasLtMatrixLayoutCreate(layout **made, int type, uint64_t rows, uint64_t columns,
                               int64_t lead)
{
    *made = calloc(1, sizeof(**made));
    if (*made == NULL) {
        return 3;
    }
    **made = (layout){type, rows, columns, lead, 0, 1};
    return 0;
}

int cublasLtMatrixLayoutDestroy(layout *l)
{
    free(l);
    return 0;
}

int cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes)
{
    if (attribute == 5 && bytes == sizeof(l->batches)) {
        memcpy(&l->batches, value, bytes);
    } else if (attribute == 6 && bytes == sizeof(l->stride)) {
        memcpy(&l->stride, value, bytes);
    } else {
        return INVALID_VALUE;
    }
    return 0;
}

int cublasLtMatmulPreferenceCreate(preference **made)
{
    *made = calloc(1, sizeof(**made));
    if (*made == NULL) {
        return 3;
    }
    for (int i = 0; i < 4; i++) {
        (*made)->alignments[i] = 256;
    }
    return 0;
}

int cublasLtMatmulPreferenceDestroy(preference *p)
{
    free(p);
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(preference *p, int attribute, const void *value,
                                         size_t bytes)
{
    if (attribute == 1 && bytes == sizeof(p->workspace)) {
        memcpy(&p->workspace, value, bytes);
    } else if (attribute >= 5 && attribute <= 8 && bytes == sizeof(p->alignments[0])) {
        memcpy(&p->alignments[attribute - 5], value, bytes);
    } else {
        return INVALID_VALUE;
    }
    return 0;
}

/* ---- products ---------------------------------------------------------------------------- */

static bool fits(const layout *l, bool transposed, uint64_t rows, uint64_t columns)
{
    return (transposed ? l->columns : l->rows) == rows &&
           (transposed ? l->rows : l->columns) == columns && l->lead >= (int64_t)l->rows;
}

static bool makes_sense(const product *p, const layout *a, const layout *b, const layout *c,
                        const layout *d)
{
    uint64_t depth = p->transposes[0] ? a->rows : a->columns;
    bool is_double = a->type == TYPE_F64;

    return fits(a, p->transposes[0], d->rows, depth) &&
           fits(b, p->transposes[1], depth, d->columns) && fits(c, false, d->rows, d->columns) &&
           fits(d, false, d->rows, d->columns) && b->type == a->type && c->type == d->type &&
           (d->type == a->type || (d->type == TYPE_F32 && !is_double)) &&
           a->batches == d->batches && b->batches == d->batches && c->batches == d->batches &&
           p->compute == (is_double ? 70 : 68) && p->scale == (is_double ? TYPE_F64 : TYPE_F32) &&
           depth > 0 && d->rows > 0 && d->columns > 0;
}

static bool is_epilogue(uint32_t e)
{
    return e == EPILOGUE_NONE || e == EPILOGUE_BIAS || (e & ~EPILOGUE_BIAS) == EPILOGUE_RELU ||
           (e & ~EPILOGUE_BIAS) == EPILOGUE_GELU;
}

static bool is_refused(uint32_t e)
{
    const char *refused = getenv("EXG_STANDIN_BLAS_NO");

    return refused != NULL && (e & (uint32_t)strtoul(refused, NULL, 10)) != 0;
}

static double epilogue_of(uint32_t e, double x)
{
    return (e & EPILOGUE_RELU) != 0 ? (x < 0 ? 0 : x)
           : (e & EPILOGUE_GELU) != 0
               ? 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
               : x;
}

static uint64_t key_of(const product *p, const layout *a, const layout *b, const layout *c,
                       const layout *d)
{
    const layout *all[] = {a, b, c, d};
    uint64_t key =
        (uint64_t)p->epilogue + 31u * (uint64_t)p->transposes[0] + 57u * (uint64_t)p->transposes[1];

    for (int i = 0; i < 4; i++) {
        key = key * 1099511628211u + all[i]->rows;
        key = key * 1099511628211u + all[i]->columns;
        key = key * 1099511628211u + (uint64_t)all[i]->lead;
        key = key * 1099511628211u + (uint64_t)all[i]->batches;
        key = key * 1099511628211u + (uint64_t)all[i]->type;
    }
    return key;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const product *p, const layout *a, const layout *b,
                                   const layout *c, const layout *d, const preference *wish,
                                   int most, choice *choices, int *found)
{
    uint64_t least = 256;

    (void)handle;
    *found = 0;
    if (most < 1 || !makes_sense(p, a, b, c, d)) {
        return INVALID_VALUE;
    }
    if (!is_epilogue(p->epilogue) || is_refused(p->epilogue) ||
        (p->epilogue != EPILOGUE_NONE && d->type == TYPE_F64) ||
        ((p->epilogue & EPILOGUE_BIAS) != 0 && p->bias == NULL)) {
        return NOT_SUPPORTED;
    }
    for (int i = 0; i < 4; i++) {
        least = wish->alignments[i] < least ? wish->alignments[i] : least;
    }
    memset(choices, 0, sizeof(*choices));
    choices->algorithm.alignment = least;
    choices->algorithm.key = key_of(p, a, b, c, d);
    choices->algorithm.workspace = choices->workspace =
        least >= 16 && wish->workspace >= WORKSPACE ? WORKSPACE : 0;
    *found = 1;
    standin_log("cublasLtMatmulAlgoGetHeuristic %llu", (unsigned long long)least);
    return 0;
}

static number_kind kind_of(int type)
{
    return type == TYPE_F64   ? NUMBER_F64
           : type == TYPE_F32 ? NUMBER_F32
           : type == TYPE_F16 ? NUMBER_F16
                              : NUMBER_BF16;
}

static const char *multiply(const void *params)
{
    const work *w = params;
    const layout *d = &w->d;
    const number_kind of_a = kind_of(w->a.type);
    const number_kind of_d = kind_of(d->type);
    const int64_t depth = (int64_t)(w->product.transposes[0] ? w->a.rows : w->a.columns);
    const int64_t a_row = w->product.transposes[0] ? w->a.lead : 1;
    const int64_t a_step = w->product.transposes[0] ? 1 : w->a.lead;
    const int64_t b_step = w->product.transposes[1] ? w->b.lead : 1;
    const int64_t b_column = w->product.transposes[1] ? 1 : w->b.lead;

    for (int64_t i = 0; i < d->batches * (int64_t)(d->rows * d->columns); i++) {
        int64_t row = i % (int64_t)d->rows;
        int64_t column = i / (int64_t)d->rows % (int64_t)d->columns;
        int64_t batch = i / (int64_t)(d->rows * d->columns);
        double sum = 0;

        for (int64_t k = 0; k < depth; k++) {
            sum += number_load(w->at_a, of_a, batch * w->a.stride + row * a_row + k * a_step) *
                   number_load(w->at_b, of_a, batch * w->b.stride + column * b_column + k * b_step);
        }
        sum *= w->alpha;
        if (w->beta != 0) {
            sum += w->beta *
                   number_load(w->at_c, of_d, batch * w->c.stride + column * w->c.lead + row);
        }
        if ((w->product.epilogue & EPILOGUE_BIAS) != 0) {
            sum += number_load(w->product.bias, of_d, row);
        }
        number_store(w->at_d, of_d, batch * d->stride + column * d->lead + row,
                     epilogue_of(w->product.epilogue, sum));
    }
    return NULL;
}

static bool is_there(const void *at, const layout *l, uint64_t alignment)
{
    uint64_t last = (l->columns - 1) * (uint64_t)l->lead + l->rows +
                    (uint64_t)(l->batches - 1) * (uint64_t)l->stride;

    return (uintptr_t)at % alignment == 0 &&
           memory_holds(at, last * number_bytes(kind_of(l->type)));
}

int cublasLtMatmul(void *handle, const product *p, const void *alpha, const void *at_a,
                   const layout *a, const void *at_b, const layout *b, const void *beta,
                   const void *at_c, const layout *c, void *at_d, const layout *d,
                   const algorithm *how, void *workspace, size_t workspace_bytes, void *stream)
{
    bool is_double = p->scale == TYPE_F64;
    work w = {
        .product = *p,
        .a = *a,
        .b = *b,
        .c = *c,
        .d = *d,
        .at_a = at_a,
        .at_b = at_b,
        .at_c = at_c,
        .at_d = at_d,
        .alpha = is_double ? *(const double *)alpha : (double)*(const float *)alpha,
        .beta = is_double ? *(const double *)beta : (double)*(const float *)beta,
    };

    (void)handle;
    standin_log("cublasLtMatmul %llu,%llu,%llu%s%s%s", (unsigned long long)d->rows,
                (unsigned long long)d->columns,
                (unsigned long long)(p->transposes[0] ? a->rows : a->columns),
                (p->epilogue & EPILOGUE_BIAS) != 0 ? " bias" : "", w.beta != 0 ? " beta" : "",
                (p->epilogue & EPILOGUE_RELU) != 0   ? " relu"
                : (p->epilogue & EPILOGUE_GELU) != 0 ? " gelu"
                                                     : "");
    if (!makes_sense(p, a, b, c, d) || how->key != key_of(p, a, b, c, d) ||
        how->workspace > workspace_bytes ||
        (how->workspace > 0 && !memory_holds(workspace, how->workspace)) ||
        ((p->epilogue & EPILOGUE_BIAS) != 0 &&
         !memory_holds(p->bias, d->rows * number_bytes(kind_of(d->type))))) {
        return INVALID_VALUE;
    }
    if (!is_there(at_a, a, how->alignment) || !is_there(at_b, b, how->alignment) ||
        !is_there(at_d, d, how->alignment) || (w.beta != 0 && !is_there(at_c, c, how->alignment))) {
        return EXECUTION;
    }
    return standin_ask(stream, multiply, &w, sizeof(w)) == 0 ? 0 : EXECUTION;
}
