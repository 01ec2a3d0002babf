/* weight_product.c - exg.weight_product: rows by a weight of bytes or half bytes.
 *
 *   few rows    the weight is multiplied where it is stored, some rows of it at a time
 *   many        tiles of it become panels (loops.h) of f32, or of bf16 where it means bf16, and
 *               are multiplied as gemm.c does
 *
 * Half bytes are made once, of bytes that hold 16 values, by the packer.
 */
#include "libexec/kernels/cpu/gemm.h"
#include "libexec/kernels/stream.h"
#include "libexport/base/element.h"
#include "libexport/operators/shape.h"

#define FEW_ROWS      8
#define TASK_BYTES    65536 /* of the weight */
#define FACTORS_NEAR  1024
#define TILE          4
#define FACTORS_MAX   4096 /* groups of some rows at a time */
#define PANEL_COLUMNS 64   /* of any loops */

/* The operands. */
enum { ROWS, WEIGHT, SCALE, ZERO, OFFSET, BIAS };

typedef struct weight_product {
    exg_gemm gemm; /* of many rows; of few what their end needs */
    exg_weight_form form;
    exg_matrix scale, zero, offset; /* (row, group) */
    bool has_scales, has_shifts;
    float factor, point, low;
    int64_t stride, groups;
    int64_t row_stride;                  /* of rows in the workspace */
    const exg_weight_pairs_loops *pairs; /* that take the rows as bf16; NULL: none */
    int64_t rows_of_task;
    uint64_t rows_offset, sums_offset, pairs_offset;
} weight_product;

typedef struct weight_run {
    const weight_product *p;
    const exg_kernel_call *call;
    exg_gemm_work work;
    const char *bytes;
    exg_weight_rows rows;
    exg_weight_pairs row_pairs;
} weight_run;

/* ---- factors -------------------------------------------------------------------------------- */

static exg_matrix matrix_of(const exg_kernel_call *call, uint32_t operand, bool *given)
{
    const exg_tensor *t = &call->inputs[operand];
    exg_matrix m = {.dtype = t->dtype};

    *given = !exg_tensor_is_absent(t);
    if (*given) {
        m.row = t->sizes[0] == 1 ? 0 : t->strides[0];
        m.column = t->sizes[1] == 1 ? 0 : t->strides[1];
    }
    return m;
}

/* Those of `count` rows from `j` on, (count, groups). */
static void load_factor(const weight_run *r, uint32_t operand, const exg_matrix *m, int64_t j,
                        int64_t count, float *to)
{
    exg_load_loop *load = EXG_LOOPS(exg_loops_convert)->load[m->dtype];
    const char *data = r->call->inputs[operand].data;
    const int64_t groups = r->p->groups;

    if (m->column == 1 && m->row == groups) {
        exg_ask(exg_matrix_at(data, m, 0, j + count, 0),
                count * groups * (int64_t)exg_dtype_bytes(m->dtype));
        load((uint32_t)(count * groups), to, exg_matrix_at(data, m, 0, j, 0), 1);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        load((uint32_t)groups, to + i * groups, exg_matrix_at(data, m, 0, j + i, 0), m->column);
    }
}

/* scale, and offset - zero * scale: of (q + low) * scale + shift. */
static void load_factors(const weight_run *r, int64_t j, int64_t count, exg_weight *w,
                         float *scales, float *shifts)
{
    const weight_product *p = r->p;
    const exg_kernel_call *call = r->call;
    const int64_t n = count * p->groups;
    float room[FACTORS_MAX];

    if (!exg_tensor_is_absent(&call->inputs[SCALE])) {
        load_factor(r, SCALE, &p->scale, j, count, scales);
    } else {
        for (int64_t i = 0; i < n; i++) {
            scales[i] = 1;
        }
    }
    for (int64_t i = 0; i < n && p->factor != 1; i++) {
        scales[i] *= p->factor;
    }
    for (int64_t i = 0; i < n && p->has_shifts; i++) {
        shifts[i] = 0;
    }
    if (!exg_tensor_is_absent(&call->inputs[OFFSET])) {
        load_factor(r, OFFSET, &p->offset, j, count, shifts);
    }
    if (!exg_tensor_is_absent(&call->inputs[ZERO])) {
        load_factor(r, ZERO, &p->zero, j, count, room);
        for (int64_t i = 0; i < n; i++) {
            shifts[i] -= room[i] * scales[i];
        }
    }
    w->scales = scales;
    w->shifts = p->has_shifts ? shifts : NULL;
}

static exg_weight weight_from(const weight_run *r, int64_t j)
{
    const weight_product *p = r->p;

    return (exg_weight){.bytes = r->bytes + j * p->stride,
                        .stride = p->stride,
                        .depth = p->gemm.k,
                        .groups = p->groups,
                        .low = p->low};
}

/* ---- many rows ------------------------------------------------------------------------------ */

static void pack_columns(const void *context, const void *run, int64_t batch, int64_t k,
                         int64_t depth, int64_t j, int64_t columns, void *panels)
{
    const weight_product *p = context;
    const exg_gemm_loops *loops = p->gemm.loops;
    float scales[FACTORS_MAX];
    float shifts[FACTORS_MAX];
    const bool are_pairs = loops->panel_bytes == sizeof(uint16_t);
    union {
        float f32[PANEL_COLUMNS * EXG_GEMM_K];
        uint16_t bf16[PANEL_COLUMNS * 2 * EXG_GEMM_K];
    } elements;

    (void)batch;
    for (int64_t first = 0; first < columns; first += loops->columns) {
        int64_t count = EXG_MIN(columns - first, loops->columns);

        for (int64_t i = 0; i < count; i++) {
            exg_weight w = weight_from(run, j + first + i);

            load_factors(run, j + first + i, 1, &w, scales, shifts);
            w.scales = p->has_scales ? scales : NULL;
            if (are_pairs) {
                EXG_LOOPS(exg_loops_weight)
                    ->widen_bf16[p->form](&w, 0, k, depth, elements.bf16 + i * depth);
            } else {
                EXG_LOOPS(exg_loops_weight)
                    ->widen[p->form](&w, 0, k, depth, elements.f32 + i * depth);
            }
        }
        loops->pack(loops->columns, count, depth,
                    (char *)panels + first * exg_gemm_panel_bytes(loops, depth), &elements,
                    are_pairs ? EXG_DTYPE_BF16 : EXG_DTYPE_F32, depth, 1);
    }
}

/* ---- few rows ------------------------------------------------------------------------------- */

/* In f32, zeros after them; and the sums of their groups. */
static void bring_rows(const weight_run *r, float *rows, float *sums)
{
    const weight_product *p = r->p;
    const exg_gemm *g = &p->gemm;
    const exg_convert_loops *convert = EXG_LOOPS(exg_loops_convert);
    const int64_t size = g->k / p->groups;

    for (int64_t i = 0; i < g->m; i++) {
        float *row = rows + i * p->row_stride;

        convert->load[g->a.dtype]((uint32_t)g->k, row, exg_matrix_at(r->work.a, &g->a, 0, i, 0), 1);
        memset(row + g->k, 0, (size_t)(p->row_stride - g->k) * sizeof(*row));
        for (int64_t group = 0; group < p->groups && p->has_shifts; group++) {
            float sum = 0;

            for (int64_t k = group * size; k < (group + 1) * size; k++) {
                sum += row[k];
            }
            sums[i * p->groups + group] = sum;
        }
    }
}

/* As they are, in the order of exg_weight_pairs. */
static void bring_pairs(const weight_run *r, uint16_t *pairs)
{
    enum { STEP = 2 * EXG_WEIGHT_LANES };
    const weight_product *p = r->p;
    const exg_gemm *g = &p->gemm;

    memset(pairs, 0, (size_t)(g->m * p->row_stride) * sizeof(*pairs));
    for (int64_t i = 0; i < g->m; i++) {
        const uint16_t *row = (const void *)exg_matrix_at(r->work.a, &g->a, 0, i, 0);
        uint16_t *to = pairs + i * p->row_stride;
        int64_t k = 0;

        for (; k + STEP <= g->k; k += STEP) {
            for (int64_t lane = 0; lane < EXG_WEIGHT_LANES; lane++) {
                to[k + 2 * lane] = row[k + lane];
                to[k + 2 * lane + 1] = row[k + EXG_WEIGHT_LANES + lane];
            }
        }
        for (int64_t at = 0; k + at < g->k; at++) {
            to[k + at % EXG_WEIGHT_LANES * 2 + at / EXG_WEIGHT_LANES] = row[k + at];
        }
    }
}

/* Rows whose factors are near, whole tiles of them (loops.h) where that may be. */
static int64_t rows_at_once(int64_t groups)
{
    int64_t tiles = FACTORS_NEAR / groups / TILE;

    return tiles > 0 ? tiles * TILE : EXG_MIN(EXG_MAX(FACTORS_MAX / groups, 1), TILE);
}

static void multiply_rows(void *context, uint32_t block)
{
    const weight_run *r = context;
    const weight_product *p = r->p;
    const exg_gemm *g = &p->gemm;
    const int64_t first = block * p->rows_of_task;
    const int64_t end = EXG_MIN(g->n, first + p->rows_of_task);
    const int64_t step = rows_at_once(p->groups);
    float *c = (float *)(void *)r->work.result;
    float scales[FACTORS_MAX];
    float shifts[FACTORS_MAX];

    for (int64_t j = first; j < end; j += step) {
        int64_t count = EXG_MIN(end - j, step);
        exg_weight w = weight_from(r, j);

        load_factors(r, j, count, &w, scales, shifts);
        if (p->pairs != NULL) {
            p->pairs->dot_halves(&w, g->m, count, &r->row_pairs, c + j, g->n);
        } else {
            EXG_LOOPS(exg_loops_weight)->dot[p->form](&w, g->m, count, &r->rows, c + j, g->n);
        }
    }
    exg_gemm_finish(&r->work, 0, 0, g->m, first, end - first, c + first, g->n);
}

static void run_few(weight_run *r)
{
    const weight_product *p = r->p;
    float *rows = (float *)(void *)((char *)r->call->workspace + p->rows_offset);
    float *sums = (float *)(void *)((char *)r->call->workspace + p->sums_offset);

    if (p->pairs == NULL || p->has_shifts) {
        bring_rows(r, rows, sums);
    }
    if (p->pairs != NULL) {
        uint16_t *pairs = (uint16_t *)(void *)((char *)r->call->workspace + p->pairs_offset);

        bring_pairs(r, pairs);
        r->row_pairs = (exg_weight_pairs){pairs, p->row_stride, p->has_shifts ? sums : NULL};
    }
    r->rows = (exg_weight_rows){rows, p->row_stride, p->has_shifts ? sums : NULL};
    exg_pool_run(r->call->pool, multiply_rows, r, exg_block_count(p->gemm.n, p->rows_of_task));
}

/* ---- both ----------------------------------------------------------------------------------- */

/* Does bf16 hold what each half byte means? */
static bool means_bf16(float low)
{
    bool is_held = true;

    for (int i = 0; i < 16; i++) {
        float value = low + (float)i;

        is_held = is_held && exg_bf16_to_f32(exg_f32_to_bf16(value)) == value;
    }
    return is_held;
}

static const exg_weight_pairs_loops *pairs_of(const weight_product *p)
{
    const exg_gemm *g = &p->gemm;
    const int64_t step = 2 * EXG_WEIGHT_LANES;
    bool suits = p->form == EXG_WEIGHT_HALVES && g->a.dtype == EXG_DTYPE_BF16 &&
                 (p->groups == 1 || g->k / p->groups % step == 0) && means_bf16(p->low);

    return suits ? EXG_LOOPS_BF16(exg_loops_weight_pairs) : NULL;
}

/* What gemm.c plans of many rows. */
static exg_status plan_few(weight_product *p, exg_kernel_call *call)
{
    exg_gemm *g = &p->gemm;

    call->takes_epilogue = true;
    g->loops = EXG_LOOPS(exg_loops_gemm_f32);
    g->compute = EXG_COMPUTE_F32;
    g->has_result = g->c_dtype != EXG_DTYPE_F32;
    p->row_stride = exg_round_up(g->k, EXG_WEIGHT_BLOCK);
    p->rows_of_task = exg_round_up(EXG_MAX(TASK_BYTES / EXG_MAX(p->stride, 1), 4), 4);
    p->sums_offset = (uint64_t)(g->m * p->row_stride) * sizeof(float);
    p->pairs = pairs_of(p);
    p->pairs_offset = p->sums_offset + (uint64_t)(g->m * p->groups) * sizeof(float);
    p->pairs_offset = (p->pairs_offset + 63) & ~UINT64_C(63);
    g->result_offset = p->pairs_offset;
    if (p->pairs != NULL) {
        g->result_offset += (uint64_t)(g->m * p->row_stride) * sizeof(uint16_t);
    }
    g->result_offset = (g->result_offset + 63) & ~UINT64_C(63);
    call->workspace_bytes = g->result_offset;
    if (g->has_result) {
        call->workspace_bytes += (uint64_t)(g->m * g->n) * sizeof(float);
    }
    return EXG_OK;
}

static exg_status plan_many(weight_product *p, exg_kernel_call *call, exg_error *err)
{
    exg_gemm *g = &p->gemm;

    g->pack_b = pack_columns;
    g->pack_context = p;
    g->packs_loops = true;
    return exg_gemm_plan(g, call, err);
}

static void set_factors(weight_product *p, const exg_kernel_call *call)
{
    bool has_zeros;
    bool has_offsets;

    p->scale = matrix_of(call, SCALE, &p->has_scales);
    p->zero = matrix_of(call, ZERO, &has_zeros);
    p->offset = matrix_of(call, OFFSET, &has_offsets);
    p->factor = (float)exg_call_float(call, 6);
    p->has_scales = p->has_scales || p->factor != 1;
    p->has_shifts = has_zeros || has_offsets;
    p->groups = 1;
    for (uint32_t i = SCALE; i <= OFFSET; i++) {
        if (!exg_tensor_is_absent(&call->inputs[i])) {
            p->groups = EXG_MAX(p->groups, call->inputs[i].sizes[1]);
        }
    }
    p->low = -(float)exg_call_float(call, 7);
}

static exg_status check(const exg_kernel_call *call, const weight_product *p, exg_error *err)
{
    for (uint32_t i = 0; i < call->input_count; i++) {
        exg_dtype dtype = call->inputs[i].dtype;

        if (i != WEIGHT && !exg_tensor_is_absent(&call->inputs[i]) &&
            (dtype == EXG_DTYPE_F64 || exg_require_float("weight_product", dtype, err) != EXG_OK)) {
            return exg_unsupported_dtype("weight_product", dtype, err);
        }
    }
    if (call->packed == NULL && !exg_dtype_is_byte(call->inputs[WEIGHT].dtype) &&
        call->inputs[WEIGHT].dtype != EXG_DTYPE_F8E4M3FN) {
        return exg_unsupported_dtype("weight_product by", call->inputs[WEIGHT].dtype, err);
    }
    return p->groups <= FACTORS_MAX
               ? EXG_OK
               : EXG_FAIL(err, UNSUPPORTED, "KRN-007", "a weight of %lld groups a row",
                          (long long)p->groups);
}

static exg_status prepare(exg_kernel_call *call, exg_error *err)
{
    weight_product *p = EXG_NEW(call->arena, weight_product);
    const exg_tensor *rows = &call->inputs[ROWS];
    const exg_tensor *weight = &call->inputs[WEIGHT];
    const exg_tensor *bias = &call->inputs[BIAS];
    exg_gemm *g;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    g = &p->gemm;
    set_factors(p, call);
    EXG_TRY(check(call, p, err));
    g->batch = 1;
    g->k = weight->sizes[1];
    g->n = weight->sizes[0];
    g->m = exg_tensor_numel(rows) / EXG_MAX(g->k, 1);
    g->a = (exg_matrix){rows->dtype, 0, g->k, 1, 0};
    g->b = (exg_matrix){.dtype = exg_dtype_argument(&call->args[9], EXG_DTYPE_F32)};
    g->c_dtype = call->outputs[0].dtype;
    g->alpha = 1;
    if (!exg_tensor_is_absent(bias)) {
        g->has_self = true;
        g->beta = 1;
        g->self = (exg_matrix){bias->dtype, 0, 0, 1, 0};
    }
    p->form = weight->dtype == EXG_DTYPE_I8   ? EXG_WEIGHT_I8
              : weight->dtype == EXG_DTYPE_U8 ? EXG_WEIGHT_U8
                                              : EXG_WEIGHT_F8;
    p->stride = g->k;
    if (call->packed != NULL) {
        p->form = EXG_WEIGHT_HALVES;
        p->low += (float)exg_call_int(call, 8);
        p->stride = exg_round_up(g->k, EXG_WEIGHT_BLOCK) / 2;
    }
    call->params = p;
    return g->m <= FEW_ROWS ? plan_few(p, call) : plan_many(p, call, err);
}

static void run(const exg_kernel_call *call)
{
    const weight_product *p = call->params;
    const exg_gemm *g = &p->gemm;
    const void *bias = call->inputs[BIAS].data;
    weight_run r = {.p = p, .call = call};

    r.bytes = call->packed != NULL ? call->packed->data : call->inputs[WEIGHT].data;
    if (g->m * g->n == 0) {
        return;
    }
    if (g->m > FEW_ROWS) {
        exg_gemm_run(g, call, call->workspace, call->outputs[0].data, call->inputs[ROWS].data, &r,
                     bias);
        return;
    }
    r.work = (exg_gemm_work){.g = g,
                             .call = call,
                             .a = call->inputs[ROWS].data,
                             .self = bias,
                             .c = call->outputs[0].data};
    r.work.result = g->has_result ? (char *)call->workspace + g->result_offset : r.work.c;
    run_few(&r);
}

/* ---- half bytes ----------------------------------------------------------------------------- */

static exg_status pack_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *weight = &call->inputs[WEIGHT];
    exg_tensor *packed = &call->outputs[0];

    (void)err;
    packed->rank = 4;
    packed->sizes[0] = 0;
    if (exg_call_is_none(call, 8)) {
        return EXG_OK;
    }
    packed->sizes[0] = weight->sizes[0];
    packed->sizes[1] = exg_ceil_div(weight->sizes[1], EXG_WEIGHT_BLOCK);
    packed->sizes[2] = EXG_WEIGHT_BLOCK / 2;
    packed->sizes[3] = 1;
    return EXG_OK;
}

/* One row, zeros behind it. */
static void pack_row(const exg_kernel_call *call, int64_t row)
{
    const exg_tensor *weight = &call->inputs[WEIGHT];
    const int64_t depth = weight->sizes[1];
    const int64_t stride = exg_round_up(depth, EXG_WEIGHT_BLOCK) / 2;
    const uint8_t least = (uint8_t)exg_call_int(call, 8);
    const uint8_t *from = (const uint8_t *)weight->data + row * depth;
    uint8_t *to = (uint8_t *)call->outputs[0].data + row * stride;

    memset(to, 0, (size_t)stride);
    for (int64_t k = 0; k < depth; k++) {
        const int64_t place = EXG_WEIGHT_PLACE(k % EXG_WEIGHT_BLOCK / EXG_WEIGHT_LANES);
        const int64_t at =
            k / EXG_WEIGHT_BLOCK * (EXG_WEIGHT_BLOCK / 2) + k % EXG_WEIGHT_LANES * 4 + place / 2;

        to[at] |= (uint8_t)(((from[k] - least) & 15) << (place % 2 * 4));
    }
}

static void pack_block(void *context, uint32_t block)
{
    const exg_kernel_call *call = context;
    const int64_t rows = call->inputs[WEIGHT].sizes[0];
    const int64_t step = exg_items_per_block(call->inputs[WEIGHT].sizes[1], EXG_GRAIN);

    for (int64_t row = block * step; row < EXG_MIN(rows, (block + 1) * step); row++) {
        pack_row(call, row);
    }
}

static void pack_run(const exg_kernel_call *call)
{
    exg_kernel_call own = *call;

    exg_pool_run(call->pool, pack_block, &own,
                 exg_block_count(call->inputs[WEIGHT].sizes[0],
                                 exg_items_per_block(call->inputs[WEIGHT].sizes[1], EXG_GRAIN)));
}

static const exg_kernel weight_pack = {
    .name = "weight_pack", .prepare = pack_prepare, .run = pack_run};

const exg_kernel exg_kernel_weight_product = {
    .name = "weight_product",
    .prepare = prepare,
    .run = run,
    .packer = &weight_pack,
    .packs = WEIGHT,
};
