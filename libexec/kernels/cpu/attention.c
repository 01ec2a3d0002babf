/* attention.c - scaled_dot_product_attention without a matrix of scores.
 *
 *   query (batch, heads, rows, depth)    key (batch, kv_heads, keys, depth)
 *   value (batch, kv_heads, keys, width) result (batch, heads, rows, width), dense
 *   mask  bool or floating, broadcast to (batch, heads, rows, keys)
 *
 * A task is a block of query rows; keys come in blocks, with the running maximum and
 * sum of each row (Milakov and Gimelshein 2018, "Online normalizer calculation for
 * softmax"; Dao et al. 2022, FlashAttention). Where heads share keys and rows are
 * few, the rows of all of them are one block. A row whose keys are all masked is 0, or
 * NaN where the program has a softmax.
 * Keys and values that several blocks would pack again are packed before, blocks of
 * KEYS in the order they are read.
 */
#include "libexec/kernels/loops/attention.h"
#include "libexec/kernels/cpu/gemm.h"

#include <math.h>

#define ROWS_MAX    64    /* query rows of a block */
#define BLOCK_BYTES 65536 /* of a block of query rows, and of results */
#define KEYS        128   /* keys of a block */
#define DEPTH       128   /* of packed keys at a time */
#define COLUMNS     96    /* of packed values at a time, a multiple of every panel */
#define FEW_ROWS    12    /* up to here keys are not packed */
#define PACK_BLOCKS 3     /* blocks of rows from which keys and values are packed before */

typedef struct attention_params {
    int64_t batch, heads, rows, keys, depth, width;
    int64_t groups; /* of heads that share a task's keys */
    int64_t heads_of_group;
    int64_t heads_of_kv;
    int64_t block_rows;
    int64_t blocks_of_group;
    uint32_t batch_rank; /* dimensions in front of the heads */
    int64_t batch_sizes[EXG_RANK_MAX];
    bool has_mask, is_causal;
    bool packs_first;
    int64_t packed_keys, packed_head; /* elements of one head: its keys, and all */
    int64_t kv_heads;
    double scale;
    double masked;                  /* a row whose keys are all masked */
    const exg_gemm_loops *gemm;     /* of panels */
    const exg_gemm_loops *few_gemm; /* of few rows, which are not packed */
    const exg_attention_loops *few; /* the same; NULL: of f64 */
    const exg_row_f32_loops *f32;
    const exg_row_f64_loops *f64;
    const exg_convert_loops *convert;
} attention_params;

typedef struct attention_run_context {
    const attention_params *p;
    const exg_tensor *query, *key, *value, *mask, *out;
    char *packed; /* the workspace, when keys are packed first */
} attention_run_context;

/* Where one task finds its operands. */
typedef struct attention_task {
    const attention_params *p;
    const attention_run_context *r;
    int64_t batch, group, first, count; /* rows of the group */
    const char *key, *value;
    const char *packed; /* this head's, or NULL */
} attention_task;

/* `count` up to whole panels of b. */
static int64_t panel_up(const attention_params *p, int64_t count)
{
    return exg_ceil_div(count, p->gemm->columns) * p->gemm->columns;
}

/* `depth` up to whole groups. */
static int64_t depth_up(const attention_params *p, int64_t depth)
{
    return exg_round_up(depth, p->gemm->group);
}

/* Where, in elements, the panels of keys from `key` (COLUMNS after COLUMNS of a block of
 * KEYS) over depth [d, d + depth) begin. */
static int64_t packed_key(const attention_params *p, int64_t key, int64_t d, int64_t depth)
{
    int64_t block = panel_up(p, COLUMNS) + panel_up(p, KEYS - COLUMNS);
    int64_t at = key % KEYS >= COLUMNS ? panel_up(p, COLUMNS) : 0;

    return key / KEYS * block * depth_up(p, p->depth) + d * block + at * depth_up(p, depth);
}

/* The same of values: columns from j of the block of `keys` keys from `first`. */
static int64_t packed_value(const attention_params *p, int64_t first, int64_t keys, int64_t j)
{
    return p->packed_keys + first * panel_up(p, p->width) + j * depth_up(p, keys);
}

static int64_t row_head(const attention_task *t, int64_t row)
{
    return t->group * t->p->heads_of_group + (t->first + row) / t->p->rows;
}

static int64_t row_position(const attention_task *t, int64_t row)
{
    return (t->first + row) % t->p->rows;
}

/* The element a dimension `from_end` away and the batch select; 0 strides broadcast. */
static const char *at(const attention_params *p, const exg_tensor *t, int64_t batch, int64_t head,
                      int64_t row)
{
    int64_t offset = 0;

    if (t->rank >= 2) {
        offset += row * (t->sizes[t->rank - 2] == 1 ? 0 : t->strides[t->rank - 2]);
    }
    if (t->rank >= 3) {
        offset += head * (t->sizes[t->rank - 3] == 1 ? 0 : t->strides[t->rank - 3]);
    }
    for (uint32_t d = p->batch_rank; d-- > 0; batch /= p->batch_sizes[d]) {
        /* batch dimensions are aligned at the heads */
        int64_t own = (int64_t)t->rank - 3 - (p->batch_rank - d);

        if (own >= 0 && t->sizes[own] != 1) {
            offset += batch % p->batch_sizes[d] * t->strides[own];
        }
    }
    return (const char *)t->data + offset * exg_dtype_bytes(t->dtype);
}

/* Keys row sees: all, or up to its own position. */
static int64_t keys_of_row(const attention_task *t, int64_t row)
{
    int64_t seen = row_position(t, row) + 1;

    return t->p->is_causal && seen < t->p->keys ? seen : t->p->keys;
}

/* Few rows read keys where they are, if those lie dense. */
static bool is_few(const attention_task *t)
{
    return t->count <= FEW_ROWS && t->r->key->strides[t->r->key->rank - 1] == 1;
}

/* Panels of bf16 hold the query as it is: the scores are scaled. */
static bool scales_scores(const attention_task *t)
{
    return t->p->gemm->panel_bytes < t->p->gemm->real_bytes && !is_few(t);
}

/* The query's rows up to whole panels. */
static int64_t padded_rows(const attention_task *t)
{
    return exg_round_up(t->count, t->p->gemm->rows);
}

/* Whether panels of a whole query have room: else a DEPTH of it is packed when it is read. */
static bool keeps_query(const attention_task *t)
{
    return padded_rows(t) * t->p->depth <= BLOCK_BYTES / t->p->gemm->real_bytes;
}

/* Whether the mask hides a block of keys from all rows, or from none. */
typedef enum sight { SEES_NONE, SEES_SOME, SEES_ALL } sight;

static sight sight_of(const attention_task *t, int64_t first, int64_t keys)
{
    const exg_tensor *m = t->r->mask;
    bool sees_all = true;
    bool sees_some = false;

    if (m == NULL) {
        return SEES_ALL;
    }
    if (m->dtype != EXG_DTYPE_B8 || m->rank == 0 || m->sizes[m->rank - 1] == 1 ||
        m->strides[m->rank - 1] != 1) {
        return SEES_SOME;
    }
    for (int64_t row = 0; row < t->count && (sees_all || !sees_some); row++) {
        const char *flags = at(t->p, m, t->batch, row_head(t, row), row_position(t, row)) + first;
        char any = 0;

        for (int64_t k = 0; k < keys; k++) {
            any |= flags[k];
        }
        sees_some = sees_some || any != 0;
        sees_all = sees_all && memchr(flags, 0, (size_t)keys) == NULL;
    }
    return !sees_some ? SEES_NONE : sees_all ? SEES_ALL : SEES_SOME;
}

#define REAL       float
#define ATT(name)  attention_f32_##name
#define ROW_LOOPS  f32
#define BLOCK_REAL (BLOCK_BYTES / 4)
#define EXP        expf
#include "libexec/kernels/cpu/attention_body.h"
#undef REAL
#undef ATT
#undef ROW_LOOPS
#undef BLOCK_REAL
#undef EXP

#define REAL       double
#define ATT(name)  attention_f64_##name
#define ROW_LOOPS  f64
#define BLOCK_REAL (BLOCK_BYTES / 8)
#define EXP        exp
#include "libexec/kernels/cpu/attention_body.h"

/* Packs one block of KEYS keys and values of one head. */
static void pack_block(void *context, uint32_t block)
{
    const attention_run_context *r = context;
    const attention_params *p = r->p;
    int64_t blocks = exg_ceil_div(p->keys, KEYS);
    int64_t head = block / blocks;
    int64_t first = block % blocks * KEYS;
    int64_t keys = EXG_MIN(p->keys - first, KEYS);
    char *packed = r->packed + head * p->packed_head * p->gemm->panel_bytes;
    const exg_tensor *k = r->key;
    const exg_tensor *v = r->value;
    int64_t strides[4] = {k->strides[k->rank - 2], k->strides[k->rank - 1], v->strides[v->rank - 2],
                          v->strides[v->rank - 1]};
    const char *key = at(p, k, head / p->kv_heads, head % p->kv_heads, 0);
    const char *value = at(p, v, head / p->kv_heads, head % p->kv_heads, 0);

    for (int64_t d = 0; d < p->depth; d += DEPTH) {
        int64_t depth = EXG_MIN(p->depth - d, DEPTH);

        for (int64_t j = 0; j < keys; j += COLUMNS) {
            p->gemm->pack(p->gemm->columns, EXG_MIN(keys - j, COLUMNS), depth,
                          packed + packed_key(p, first + j, d, depth) * p->gemm->panel_bytes,
                          key + ((first + j) * strides[0] + d * strides[1]) *
                                    exg_dtype_bytes(k->dtype),
                          k->dtype, strides[0], strides[1]);
        }
    }
    p->gemm->pack(p->gemm->columns, p->width, keys,
                  packed + packed_value(p, first, keys, 0) * p->gemm->panel_bytes,
                  value + first * strides[2] * exg_dtype_bytes(v->dtype), v->dtype, strides[3],
                  strides[2]);
}

static void attention_block(void *context, uint32_t block)
{
    const attention_run_context *r = context;
    const attention_params *p = r->p;
    attention_task t = {.p = p, .r = r};
    int64_t kv;

    t.batch = block / (p->groups * p->blocks_of_group);
    t.group = block / p->blocks_of_group % p->groups;
    t.first = block % p->blocks_of_group * p->block_rows;
    t.count = EXG_MIN(p->heads_of_group * p->rows - t.first, p->block_rows);
    kv = t.group * p->heads_of_group / p->heads_of_kv;
    t.key = at(p, r->key, t.batch, kv, 0);
    t.value = at(p, r->value, t.batch, kv, 0);
    t.packed = p->packs_first ? r->packed + (t.batch * p->kv_heads + kv) * p->packed_head *
                                                p->gemm->panel_bytes
                              : NULL;
    if (r->out->dtype == EXG_DTYPE_F64) {
        attention_f64_task(&t);
    } else {
        attention_f32_task(&t);
    }
}

/* Batch dimensions, broadcast over query, key and value. */
static void plan_batch(attention_params *p, const exg_tensor *out)
{
    p->batch = 1;
    p->batch_rank = out->rank > 3 ? out->rank - 3 : 0;
    for (uint32_t d = 0; d < p->batch_rank; d++) {
        p->batch_sizes[d] = out->sizes[d];
        p->batch *= out->sizes[d];
    }
}

static void plan_blocks(attention_params *p, uint32_t real_bytes)
{
    int64_t wide = EXG_MAX(p->depth, p->width);
    int64_t most = BLOCK_BYTES / real_bytes / EXG_MAX(wide, 1);

    p->heads_of_group = p->rows < 16 ? p->heads_of_kv : 1;
    p->groups = p->heads / p->heads_of_group;
    most -= most > p->gemm->rows ? most % p->gemm->rows : 0;
    p->block_rows = EXG_MIN(EXG_MIN(p->heads_of_group * p->rows, ROWS_MAX), most);
    p->block_rows = EXG_MAX(p->block_rows, 1);
    p->blocks_of_group = exg_ceil_div(p->heads_of_group * p->rows, p->block_rows);
    p->packs_first = p->blocks_of_group * p->heads_of_kv / p->heads_of_group >= PACK_BLOCKS &&
                     p->block_rows > FEW_ROWS;
    p->packed_keys = exg_ceil_div(p->keys, KEYS) *
                     (panel_up(p, COLUMNS) + panel_up(p, KEYS - COLUMNS)) * depth_up(p, p->depth);
    p->packed_head = p->packed_keys + depth_up(p, p->keys) * panel_up(p, p->width);
    p->packed_head = exg_round_up(p->packed_head, 32);
}

static exg_status check(const exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *query = &call->inputs[0];
    const exg_tensor *mask = &call->inputs[3];

    EXG_TRY(exg_require_float("attention", query->dtype, err));
    if (call->inputs[1].dtype != query->dtype || call->inputs[2].dtype != query->dtype ||
        call->outputs[0].dtype != query->dtype) {
        return exg_unsupported_dtype("attention with a key or value", call->inputs[1].dtype, err);
    }
    if (call->input_count > 3 && !exg_tensor_is_absent(mask) && mask->dtype != EXG_DTYPE_B8) {
        EXG_TRY(exg_require_float("attention with a mask", mask->dtype, err));
        if ((mask->dtype == EXG_DTYPE_F64) != (query->dtype == EXG_DTYPE_F64)) {
            return exg_unsupported_dtype("attention with a mask", mask->dtype, err);
        }
    }
    return EXG_OK;
}

/* `masked` is what a row gives whose keys are all masked. */
static exg_status prepare(exg_kernel_call *call, double masked, exg_error *err)
{
    const exg_tensor *query = &call->inputs[0];
    const exg_tensor *key = &call->inputs[1];
    const exg_tensor *value = &call->inputs[2];
    attention_params *p = EXG_NEW(call->arena, attention_params);
    bool is_double = query->dtype == EXG_DTYPE_F64;
    int64_t kv_heads = key->rank >= 3 ? key->sizes[key->rank - 3] : 1;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(check(call, err));
    plan_batch(p, &call->outputs[0]);
    p->heads = query->rank >= 3 ? call->outputs[0].sizes[query->rank - 3] : 1;
    p->rows = query->sizes[query->rank - 2];
    p->depth = query->sizes[query->rank - 1];
    p->keys = key->sizes[key->rank - 2];
    p->width = value->sizes[value->rank - 1];
    p->kv_heads = EXG_MAX(kv_heads, 1);
    p->heads_of_kv = p->heads % p->kv_heads == 0 ? EXG_MAX(p->heads / p->kv_heads, 1) : 1;
    p->has_mask = call->input_count > 3 && !exg_tensor_is_absent(&call->inputs[3]);
    p->is_causal = exg_call_bool(call, 4);
    p->scale = exg_call_is_none(call, 5) ? 1.0 / sqrt((double)p->depth) : exg_call_float(call, 5);
    p->masked = p->keys > 0 ? masked : 0;
    p->few_gemm = is_double ? EXG_LOOPS(exg_loops_gemm_f64) : EXG_LOOPS(exg_loops_gemm_f32);
    p->few = is_double ? NULL : EXG_LOOPS(exg_loops_attention);
    p->gemm = p->few_gemm;
    if (query->dtype == EXG_DTYPE_BF16 && EXG_GEMM_PAIRS() != NULL) {
        p->gemm = EXG_GEMM_PAIRS();
    }
    p->f32 = EXG_LOOPS(exg_loops_row_f32);
    p->f64 = EXG_LOOPS(exg_loops_row_f64);
    p->convert = EXG_LOOPS(exg_loops_convert);
    plan_blocks(p, p->gemm->real_bytes);
    if (EXG_MAX(p->depth, p->width) * p->gemm->real_bytes > BLOCK_BYTES) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-009", "attention over heads of %lld elements",
                        (long long)EXG_MAX(p->depth, p->width));
    }
    if (p->packs_first) {
        call->workspace_bytes =
            (uint64_t)(p->batch * p->kv_heads * p->packed_head) * p->gemm->panel_bytes;
    }
    call->params = p;
    return EXG_OK;
}

static exg_status attention_prepare(exg_kernel_call *call, exg_error *err)
{
    return prepare(call, 0, err);
}

static exg_status attention_of_softmax_prepare(exg_kernel_call *call, exg_error *err)
{
    return prepare(call, NAN, err);
}

static void attention_run(const exg_kernel_call *call)
{
    const attention_params *p = call->params;
    attention_run_context r = {p,
                               &call->inputs[0],
                               &call->inputs[1],
                               &call->inputs[2],
                               p->has_mask ? &call->inputs[3] : NULL,
                               &call->outputs[0],
                               call->workspace};

    if (p->rows * p->width > 0) {
        if (p->packs_first) {
            exg_pool_run(call->pool, pack_block, &r,
                         (uint32_t)(p->batch * p->kv_heads * exg_ceil_div(p->keys, KEYS)));
        }
        exg_pool_run(call->pool, attention_block, &r,
                     (uint32_t)(p->batch * p->groups * p->blocks_of_group));
    }
}

const exg_kernel exg_kernel_attention = {
    .name = "attention",
    .prepare = attention_prepare,
    .run = attention_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};

const exg_kernel exg_kernel_attention_of_softmax = {
    .name = "attention_of_softmax",
    .prepare = attention_of_softmax_prepare,
    .run = attention_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};
