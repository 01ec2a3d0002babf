/* scatter.c - single elements by index along one dimension: gather, scatter_src,
 * scatter_value, and those that combine: scatter_add, scatter_prod, scatter_amax,
 * scatter_amin.
 *
 * The index's elements are walked in rows along its last dimension; a row that names one
 * place, as an index that was expanded does, is taken whole. Elements that
 * agree in every coordinate but `dim` may meet in one place, so a block of work
 * holds all of them, in order: the last one wins and sums are reproducible.
 */
#include "libexec/kernels/cpu/combine.h"

typedef enum scatter_kind { GATHER, SCATTER_SRC, SCATTER_VALUE, SCATTER_COMBINE } scatter_kind;

typedef struct scatter_params {
    scatter_kind kind;
    exg_dtype dtype, index_dtype;
    uint32_t bytes;
    uint32_t rank;
    int64_t index_sizes[EXG_RANK_MAX];
    int64_t index_strides[EXG_RANK_MAX];
    int64_t self_strides[EXG_RANK_MAX]; /* of what is indexed */
    int64_t src_strides[EXG_RANK_MAX];  /* of src, or of gather's result */
    int64_t dim_stride;
    int64_t dim_size;
    int64_t dim_count; /* index positions along dim, 1 when dim is the last */
    int64_t outer;     /* rows that differ in another coordinate */
    int64_t outer_of_block;
    uint32_t dim;
    bool by_row; /* every row of the index names one place, and rows lie close */
    exg_combiner combiner;
    uint64_t element[2];
} scatter_params;

typedef struct scatter_run {
    const exg_kernel_call *call;
    const scatter_params *p;
    char *self;
    const char *index;
    char *src;
} scatter_run;

static exg_status scatter_plan(exg_kernel_call *call, scatter_kind kind, exg_error *err)
{
    const exg_tensor *self = kind == GATHER ? &call->inputs[0] : &call->outputs[0];
    const exg_tensor *index = &call->inputs[1];
    const exg_tensor *src = kind == GATHER          ? &call->outputs[0]
                            : kind == SCATTER_VALUE ? index
                                                    : &call->inputs[2];
    scatter_params *p = EXG_NEW(call->arena, scatter_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (exg_tensor_numel(index) > 0) { /* an empty one may have any dtype */
        EXG_TRY(exg_require_index("gather or scatter", index->dtype, err));
    }
    p->kind = kind;
    p->dtype = self->dtype;
    p->index_dtype = index->dtype;
    p->bytes = exg_dtype_bytes(self->dtype);
    p->rank = EXG_MAX(index->rank, 1);
    p->index_sizes[0] = 1;
    for (uint32_t d = 0; d < index->rank; d++) {
        p->index_sizes[d] = index->sizes[d];
        p->index_strides[d] = index->strides[d];
        p->self_strides[d] = d < self->rank ? self->strides[d] : 0;
        p->src_strides[d] = d < src->rank ? src->strides[d] : 0;
    }
    p->dim = exg_tensor_numel(index) > 0 ? exg_call_dim(call, 1, p->rank) : 0;
    p->dim_stride = self->rank > 0 ? self->strides[p->dim] : 0;
    p->dim_size = self->rank > 0 ? self->sizes[p->dim] : 1;
    p->dim_count = p->dim + 1 == p->rank ? 1 : p->index_sizes[p->dim];
    p->by_row = p->dim + 1 < p->rank && p->index_strides[p->rank - 1] == 0 &&
                p->self_strides[p->rank - 1] == 1 && p->src_strides[p->rank - 1] == 1;
    p->outer = 1;
    for (uint32_t d = 0; d + 1 < p->rank; d++) {
        p->outer *= d == p->dim ? 1 : p->index_sizes[d];
    }
    p->outer *= exg_tensor_numel(index) == 0 ? 0 : 1;
    p->outer_of_block =
        exg_items_per_block(4 * p->dim_count * p->index_sizes[p->rank - 1], EXG_GRAIN);
    if (kind == SCATTER_VALUE && !exg_call_element(call, 3, p->dtype, p->element)) {
        return exg_unsupported_dtype("scatter", p->dtype, err);
    }
    call->params = p;
    return EXG_OK;
}

static void copy_element(char *dst, const char *src, uint32_t bytes)
{
    switch (bytes) {
    case 4:
        memcpy(dst, src, 4);
        break;
    case 8:
        memcpy(dst, src, 8);
        break;
    case 2:
        memcpy(dst, src, 2);
        break;
    case 1:
        *dst = *src;
        break;
    default:
        memcpy(dst, src, 16);
    }
}

/* One row along the last dimension: elements of self and src are some bytes apart, those of the
 * index some elements. Loops take a copy: what they write might be this otherwise. */
typedef struct scatter_line {
    char *self, *src;
    const char *index;
    int64_t count, dim_size;
    int64_t self_step, src_step, index_step;
    int64_t dim_step; /* from one index to the next in self, bytes */
    exg_dtype index_dtype;
} scatter_line;

/* Where in self element j belongs; NULL: the index was bad. */
static inline char *place_of(const scatter_run *r, const scatter_line *l, int64_t j)
{
    int64_t i = exg_index_at(l->index, l->index_dtype, j * l->index_step);

    if (i < 0 || i >= l->dim_size) {
        exg_raise_index(r->call, i, l->dim_size);
        return NULL;
    }
    return l->self + j * l->self_step + i * l->dim_step;
}

/* Gathers along the dimension of the index, all dense: most are so. */
#define GATHER_LINE(type)                                                                          \
    for (int64_t j = 0; j < l->count; j++) {                                                       \
        bool is_inside = (uint64_t)index[j] < (uint64_t)p->dim_size;                               \
        type value = ((const type *)from)[is_inside ? index[j] : 0];                               \
                                                                                                   \
        ((type *)to)[j] = is_inside ? value : 0;                                                   \
        if (!is_inside) {                                                                          \
            exg_raise_index(r->call, index[j], p->dim_size);                                       \
        }                                                                                          \
    }                                                                                              \
    return true

static bool gather_line(const scatter_run *r, const scatter_line *l)
{
    const scatter_params *p = r->p;
    const int64_t *index = (const int64_t *)(const void *)l->index;
    const void *from = l->self;
    void *to = l->src;

    if (p->kind != GATHER || p->index_dtype != EXG_DTYPE_I64 || l->index_step != 1 ||
        l->self_step != 0 || p->dim_stride != 1 || l->src_step != p->bytes || p->dim_size == 0) {
        return false;
    }
    switch (p->bytes) {
    case 2:
        GATHER_LINE(uint16_t);
    case 4:
        GATHER_LINE(uint32_t);
    case 8:
        GATHER_LINE(uint64_t);
    default:
        return false;
    }
}

#define SCATTER_LINE(type)                                                                         \
    for (int64_t j = 0; j < l.count; j++) {                                                        \
        char *self = place_of(r, &l, j);                                                           \
                                                                                                   \
        if (self != NULL) {                                                                        \
            *(type *)(void *)self = *(const type *)(const void *)(l.src + j * l.src_step);         \
        }                                                                                          \
    }                                                                                              \
    return true

static bool scatter_line_of(const scatter_run *r, const scatter_line l)
{
    switch (r->p->bytes) {
    case 2:
        SCATTER_LINE(uint16_t);
    case 4:
        SCATTER_LINE(uint32_t);
    case 8:
        SCATTER_LINE(uint64_t);
    default:
        return false;
    }
}

static void move_line(const scatter_run *r, const scatter_line *l)
{
    const scatter_params *p = r->p;

    if (p->kind == GATHER ? gather_line(r, l) : scatter_line_of(r, *l)) {
        return;
    }
    for (int64_t j = 0; j < l->count; j++) {
        char *self = place_of(r, l, j);
        char *src = l->src + j * l->src_step;

        if (p->kind == GATHER && self == NULL) {
            memset(src, 0, p->bytes);
        } else if (p->kind == GATHER) {
            copy_element(src, self, p->bytes);
        } else if (self != NULL) {
            copy_element(self, src, p->bytes);
        }
    }
}

/* Dtype and kind are told outside of the loops. */
#define COMBINE_LINE(type, kind)                                                                   \
    for (int64_t j = 0; j < l.count; j++) {                                                        \
        type *a = (type *)(void *)place_of(r, &l, j);                                              \
        const type *b = (const type *)(const void *)(l.src + j * l.src_step);                      \
                                                                                                   \
        if (a != NULL) {                                                                           \
            *a = EXG_COMBINE_##kind(*a, *b);                                                       \
        }                                                                                          \
    }                                                                                              \
    break

#define COMBINE_LINE_OF(type)                                                                      \
    switch (r->p->combiner.kind) {                                                                 \
    case EXG_COMBINE_BY_ADD:                                                                       \
        COMBINE_LINE(type, ADD);                                                                   \
    case EXG_COMBINE_BY_PROD:                                                                      \
        COMBINE_LINE(type, PROD);                                                                  \
    case EXG_COMBINE_BY_AMAX:                                                                      \
        COMBINE_LINE(type, AMAX);                                                                  \
    default:                                                                                       \
        COMBINE_LINE(type, AMIN);                                                                  \
    }                                                                                              \
    break

static void combine_line(const scatter_run *r, const scatter_line l)
{
    switch ((int)r->p->dtype) {
    case EXG_DTYPE_F32:
        COMBINE_LINE_OF(float);
    case EXG_DTYPE_F64:
        COMBINE_LINE_OF(double);
    case EXG_DTYPE_I32:
        COMBINE_LINE_OF(int32_t);
    case EXG_DTYPE_I64:
        COMBINE_LINE_OF(int64_t);
    default:
        for (int64_t j = 0; j < l.count; j++) {
            char *self = place_of(r, &l, j);

            if (self != NULL) {
                exg_combine(&r->p->combiner, self, l.src + j * l.src_step, 1);
            }
        }
    }
}

/* Offsets in elements. */
static void scatter_row(const scatter_run *r, int64_t index_offset, int64_t self_offset,
                        int64_t src_offset)
{
    const scatter_params *p = r->p;
    uint32_t last = p->rank - 1;
    scatter_line l = {
        .self = r->self + self_offset * p->bytes,
        /* the value, which is not written */
        .src = r->src == NULL ? (char *)(uintptr_t)p->element : r->src + src_offset * p->bytes,
        .index = r->index + index_offset * exg_dtype_bytes(p->index_dtype),
        .count = p->index_sizes[last],
        .dim_size = p->dim_size,
        .self_step = p->dim == last ? 0 : p->self_strides[last] * p->bytes,
        .src_step = r->src == NULL ? 0 : p->src_strides[last] * p->bytes,
        .index_step = p->index_strides[last],
        .dim_step = p->dim_stride * p->bytes,
        .index_dtype = p->index_dtype,
    };

    if (p->kind == SCATTER_COMBINE) {
        combine_line(r, l);
    } else {
        move_line(r, &l);
    }
}

/* The same where all of the row's elements name one place. */
static void scatter_whole_row(const scatter_run *r, int64_t index_offset, int64_t self_offset,
                              int64_t src_offset)
{
    const scatter_params *p = r->p;
    int64_t count = p->index_sizes[p->rank - 1];
    int64_t i = exg_index_at(r->index, p->index_dtype, index_offset);
    char *self = r->self + (self_offset + i * p->dim_stride) * p->bytes;
    char *src = r->src == NULL ? NULL : r->src + src_offset * p->bytes;

    if (i < 0 || i >= p->dim_size) {
        exg_raise_index(r->call, i, p->dim_size);
        if (p->kind == GATHER) {
            memset(src, 0, (size_t)count * p->bytes);
        }
    } else if (p->kind == GATHER) {
        memcpy(src, self, (size_t)count * p->bytes);
    } else if (p->kind == SCATTER_SRC) {
        memcpy(self, src, (size_t)count * p->bytes);
    } else if (p->kind == SCATTER_VALUE) {
        exg_fill(self, p->element, count, p->bytes);
    } else {
        exg_combine(&p->combiner, self, src, count);
    }
}

static void scatter_block(void *context, uint32_t block)
{
    const scatter_run *r = context;
    const scatter_params *p = r->p;
    void (*visit)(const scatter_run *, int64_t, int64_t, int64_t) =
        p->by_row ? scatter_whole_row : scatter_row;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->outer_of_block, p->outer);

    for (int64_t row = (int64_t)block * p->outer_of_block; row < end; row++) {
        int64_t rest = row;
        int64_t at[3] = {0, 0, 0};

        for (uint32_t d = p->rank - 1; d-- > 0;) {
            int64_t i = 0;

            if (d != p->dim) {
                i = rest % p->index_sizes[d];
                rest /= p->index_sizes[d];
            }
            at[0] += i * p->index_strides[d];
            at[1] += i * p->self_strides[d];
            at[2] += i * p->src_strides[d];
        }
        for (int64_t k = 0; k < p->dim_count; k++) {
            visit(r, at[0] + k * p->index_strides[p->dim] * (p->dim_count > 1), at[1],
                  at[2] + k * p->src_strides[p->dim] * (p->dim_count > 1));
        }
    }
}

static void scatter_all(const exg_kernel_call *call, char *self, char *src)
{
    const scatter_params *p = call->params;
    scatter_run r = {call, p, self, call->inputs[1].data, src};

    exg_pool_run(call->pool, scatter_block, &r, exg_block_count(p->outer, p->outer_of_block));
}

static exg_status gather_prepare(exg_kernel_call *call, exg_error *err)
{
    return scatter_plan(call, GATHER, err);
}

static void gather_run(const exg_kernel_call *call)
{
    scatter_all(call, call->inputs[0].data, call->outputs[0].data);
}

const exg_kernel exg_kernel_gather = {
    .name = "gather",
    .prepare = gather_prepare,
    .run = gather_run,
    .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_RAISES,
};

static exg_status scatter_src_prepare(exg_kernel_call *call, exg_error *err)
{
    return scatter_plan(call, SCATTER_SRC, err);
}

static exg_status scatter_value_prepare(exg_kernel_call *call, exg_error *err)
{
    return scatter_plan(call, SCATTER_VALUE, err);
}

static void scatter_run_all(const exg_kernel_call *call)
{
    const exg_tensor *out = &call->outputs[0];

    if (out->data != call->inputs[0].data) {
        memcpy(out->data, call->inputs[0].data,
               (size_t)exg_tensor_numel(out) * exg_dtype_bytes(out->dtype));
    }
    scatter_all(call, out->data, call->input_count > 2 ? call->inputs[2].data : NULL);
}

const exg_kernel exg_kernel_scatter_src = {
    .name = "scatter_src",
    .prepare = scatter_src_prepare,
    .run = scatter_run_all,
    .flags = EXG_KERNEL_IN_PLACE | EXG_KERNEL_ANY_STRIDES_1 | EXG_KERNEL_RAISES,
};

const exg_kernel exg_kernel_scatter_value = {
    .name = "scatter_value",
    .prepare = scatter_value_prepare,
    .run = scatter_run_all,
    .flags = EXG_KERNEL_IN_PLACE | EXG_KERNEL_ANY_STRIDES_1 | EXG_KERNEL_RAISES,
};

#define COMBINING(name_, kind)                                                                     \
    static exg_status name_##_prepare(exg_kernel_call *call, exg_error *err)                       \
    {                                                                                              \
        scatter_params *p;                                                                         \
                                                                                                   \
        EXG_TRY(scatter_plan(call, SCATTER_COMBINE, err));                                         \
        p = (scatter_params *)(uintptr_t)call->params;                                             \
        return exg_combiner_init(&p->combiner, kind, p->dtype, #name_, err);                       \
    }                                                                                              \
    const exg_kernel exg_kernel_##name_ = {                                                        \
        .name = #name_,                                                                            \
        .prepare = name_##_prepare,                                                                \
        .run = scatter_run_all,                                                                    \
        .flags = EXG_KERNEL_IN_PLACE | EXG_KERNEL_ANY_STRIDES_1 | EXG_KERNEL_RAISES,               \
    };

COMBINING(scatter_add, EXG_COMBINE_BY_ADD)
COMBINING(scatter_prod, EXG_COMBINE_BY_PROD)
COMBINING(scatter_amax, EXG_COMBINE_BY_AMAX)
COMBINING(scatter_amin, EXG_COMBINE_BY_AMIN)
