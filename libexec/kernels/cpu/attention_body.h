/* attention_body.h - one task of attention.c for one REAL. */

typedef struct ATT(buffers) {
    REAL query[BLOCK_REAL];  /* (count, depth) */
    REAL result[BLOCK_REAL]; /* (count, width) */
    REAL scores[ROWS_MAX * KEYS];
    REAL panels[ROWS_MAX * KEYS]; /* scores, packed */
    /* query, packed a DEPTH after the other; the last may be a group that is not full */
    REAL query_panels[BLOCK_REAL + ROWS_MAX * 16];
    REAL packed[KEYS * (DEPTH > COLUMNS ? DEPTH : COLUMNS)]; /* keys or values */
    REAL greatest[ROWS_MAX];
    double sums[ROWS_MAX];
} ATT(buffers);

static void ATT(load_query)(const attention_task *t, ATT(buffers) * b)
{
    const attention_params *p = t->p;
    const exg_tensor *q = t->r->query;

    for (int64_t row = 0; row < t->count; row++) {
        REAL *to = b->query + row * p->depth;

        p->convert->load[q->dtype]((uint32_t)p->depth, to,
                                   at(p, q, t->batch, row_head(t, row), row_position(t, row)),
                                   q->strides[q->rank - 1]);
        if (!scales_scores(t)) {
            p->ROW_LOOPS->scale(p->depth, to, to, (REAL)p->scale, false);
        }
        b->greatest[row] = (REAL)-INFINITY;
        b->sums[row] = 0;
    }
    memset(b->result, 0, (size_t)(t->count * p->width) * sizeof(REAL));
}

/* Packs the query's rows from depth `d` on, DEPTH of them at most. */
static void ATT(pack_query)(const attention_task *t, ATT(buffers) * b, int64_t d, REAL *panels)
{
    const attention_params *p = t->p;
    exg_dtype dtype = t->r->out->dtype == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32;

    p->gemm->pack(p->gemm->rows, t->count, EXG_MIN(p->depth - d, DEPTH), panels, b->query + d,
                  dtype, p->depth, 1);
}

/* Its panels: packed before, or now. */
static const void *ATT(query_panels)(const attention_task *t, ATT(buffers) * b, int64_t d)
{
    if (keeps_query(t)) {
        return b->query_panels + d * padded_rows(t);
    }
    ATT(pack_query)(t, b, d, b->query_panels);
    return b->query_panels;
}

/* Panels of keys [first + j, first + j + columns), depth [d, d + depth). */
static const void *ATT(key_panels)(const attention_task *t, ATT(buffers) * b, int64_t key,
                                   int64_t columns, int64_t d, int64_t depth)
{
    const attention_params *p = t->p;
    const exg_tensor *k = t->r->key;
    int64_t key_stride = k->strides[k->rank - 2];
    int64_t depth_stride = k->strides[k->rank - 1];

    if (t->packed != NULL) {
        return t->packed + packed_key(p, key, d, depth) * p->gemm->panel_bytes;
    }
    p->gemm->pack(p->gemm->columns, columns, depth, b->packed,
                  t->key + (key * key_stride + d * depth_stride) * exg_dtype_bytes(k->dtype),
                  k->dtype, key_stride, depth_stride);
    return b->packed;
}

/* scores (count, keys) = query * key transposed, for `keys` keys from `first`. */
static void ATT(score)(const attention_task *t, ATT(buffers) * b, int64_t first, int64_t keys)
{
    const attention_params *p = t->p;
    const exg_tensor *k = t->r->key;
    int64_t key_stride = k->strides[k->rank - 2];

    if (is_few(t) && p->few != NULL) {
        p->few->score(t->count, keys, p->depth, (const float *)(const void *)b->query,
                      t->key + first * key_stride * exg_dtype_bytes(k->dtype), k->dtype, key_stride,
                      (float *)(void *)b->scores, KEYS);
        return;
    }
    if (is_few(t)) {
        p->few_gemm->dot(t->count, keys, p->depth, b->query, p->depth,
                         t->key + first * key_stride * exg_dtype_bytes(k->dtype), k->dtype,
                         key_stride, b->scores, KEYS);
        return;
    }
    for (int64_t d = 0; d < p->depth; d += DEPTH) {
        int64_t depth = EXG_MIN(p->depth - d, DEPTH);
        const void *query = ATT(query_panels)(t, b, d);

        for (int64_t j = 0; j < keys; j += COLUMNS) {
            int64_t columns = EXG_MIN(keys - j, COLUMNS);
            /* whole vectors: panels end in zeros, rows of scores in room */
            int64_t whole = exg_ceil_div(columns, p->gemm->lanes) * p->gemm->lanes;

            p->gemm->block(t->count, whole, depth, query, 0,
                           ATT(key_panels)(t, b, first + j, columns, d, depth), b->scores + j, KEYS,
                           d > 0, NULL, NULL);
        }
    }
    if (p->depth == 0) {
        memset(b->scores, 0, sizeof(b->scores));
    }
    for (int64_t row = 0; row < t->count && scales_scores(t); row++) {
        REAL *scores = b->scores + row * KEYS;

        p->ROW_LOOPS->scale(keys, scores, scores, (REAL)p->scale, false);
    }
}

static void ATT(mask)(const attention_task *t, ATT(buffers) * b, bool is_masked, int64_t row,
                      int64_t first, int64_t keys)
{
    const attention_params *p = t->p;
    const exg_tensor *m = t->r->mask;
    REAL *scores = b->scores + row * KEYS;
    int64_t seen = keys_of_row(t, row) - first;

    if (is_masked) {
        bool alike = m->rank == 0 || m->sizes[m->rank - 1] == 1; /* for all keys */
        int64_t stride = alike ? 0 : m->strides[m->rank - 1];
        const char *from = at(p, m, t->batch, row_head(t, row), row_position(t, row)) +
                           first * stride * exg_dtype_bytes(m->dtype);
        union {
            int32_t flags[KEYS];
            REAL values[KEYS];
        } mask;

        p->convert->load[m->dtype]((uint32_t)keys, &mask, from, stride);
        if (m->dtype == EXG_DTYPE_B8) {
            for (int64_t k = 0; k < keys; k++) {
                scores[k] = mask.flags[k] != 0 ? scores[k] : (REAL)-INFINITY;
            }
        } else {
            p->ROW_LOOPS->add(keys, scores, mask.values);
        }
    }
    for (int64_t k = EXG_MAX(seen, 0); k < keys; k++) {
        scores[k] = (REAL)-INFINITY;
    }
}

/* Scores become weights; what is summed so far is brought to the new maximum. */
static void ATT(normalize)(const attention_task *t, ATT(buffers) * b, int64_t row, int64_t keys)
{
    const attention_params *p = t->p;
    REAL *scores = b->scores + row * KEYS;
    REAL *result = b->result + row * p->width;
    REAL old = b->greatest[row];
    REAL greatest = p->ROW_LOOPS->peak(keys, scores);

    greatest = greatest > old ? greatest : old;
    if (greatest == (REAL)-INFINITY) { /* all masked, or NaN */
        double total = p->ROW_LOOPS->sum(keys, scores);

        b->sums[row] = total != total ? total : b->sums[row];
        memset(scores, 0, (size_t)keys * sizeof(REAL));
        return;
    }
    if (greatest != old && old != (REAL)-INFINITY) {
        REAL factor = EXP(old - greatest);

        b->sums[row] *= (double)factor;
        p->ROW_LOOPS->scale(p->width, result, result, factor, false);
    }
    b->greatest[row] = greatest;
    b->sums[row] += p->ROW_LOOPS->exp(keys, scores, scores, greatest, NULL);
}

/* result += scores * value. */
static void ATT(weigh)(const attention_task *t, ATT(buffers) * b, int64_t first, int64_t keys)
{
    const attention_params *p = t->p;
    const exg_tensor *v = t->r->value;
    int64_t key_stride = v->strides[v->rank - 2];
    int64_t width_stride = v->strides[v->rank - 1];
    const char *value = t->value + first * key_stride * exg_dtype_bytes(v->dtype);

    if (t->count <= FEW_ROWS && width_stride == 1 && p->few != NULL) {
        p->few->weigh(t->count, keys, p->width, (const float *)(const void *)b->scores, KEYS, value,
                      v->dtype, key_stride, (float *)(void *)b->result);
        return;
    }
    if (t->count == 1 && width_stride == 1) {
        p->few_gemm->axpy(p->width, keys, b->scores, value, v->dtype, key_stride, b->panels);
        p->ROW_LOOPS->add(p->width, b->result, b->panels);
        return;
    }
    p->gemm->pack(p->gemm->rows, t->count, keys, b->panels, b->scores,
                  t->r->out->dtype == EXG_DTYPE_F64 ? EXG_DTYPE_F64 : EXG_DTYPE_F32, KEYS, 1);
    for (int64_t j = 0; j < p->width; j += COLUMNS) {
        int64_t columns = EXG_MIN(p->width - j, COLUMNS);
        const void *panels = b->packed;

        if (t->packed != NULL) {
            panels = t->packed + packed_value(p, first, keys, j) * p->gemm->panel_bytes;
        } else {
            p->gemm->pack(p->gemm->columns, columns, keys, b->packed,
                          value + j * width_stride * exg_dtype_bytes(v->dtype), v->dtype,
                          width_stride, key_stride);
        }
        p->gemm->block(t->count, columns, keys, b->panels, 0, panels, b->result + j, p->width, true,
                       NULL, NULL);
    }
}

static void ATT(task)(const attention_task *t)
{
    const attention_params *p = t->p;
    const exg_tensor *out = t->r->out;
    int64_t seen = 0;
    _Alignas(64) ATT(buffers) b;

    ATT(load_query)(t, &b);
    for (int64_t d = 0; d < p->depth && !is_few(t) && keeps_query(t); d += DEPTH) {
        ATT(pack_query)(t, &b, d, b.query_panels + d * padded_rows(t));
    }
    for (int64_t row = 0; row < t->count; row++) {
        seen = EXG_MAX(seen, keys_of_row(t, row));
    }
    for (int64_t first = 0; first < seen; first += KEYS) {
        /* packed values come in whole blocks: what is not seen weighs nothing */
        int64_t keys = EXG_MIN((t->packed != NULL ? p->keys : seen) - first, KEYS);

        sight sees = sight_of(t, first, keys);

        if (sees == SEES_NONE) {
            continue;
        }
        ATT(score)(t, &b, first, keys);
        for (int64_t row = 0; row < t->count; row++) {
            ATT(mask)(t, &b, sees == SEES_SOME, row, first, keys);
            ATT(normalize)(t, &b, row, keys);
        }
        ATT(weigh)(t, &b, first, keys);
    }
    for (int64_t row = 0; row < t->count; row++) {
        REAL *result = b.result + row * p->width;
        char *to = (char *)(uintptr_t)at(p, out, t->batch, row_head(t, row), row_position(t, row));

        p->ROW_LOOPS->scale(p->width, result, result,
                            (REAL)(b.sums[row] != 0 ? 1.0 / b.sums[row] : p->masked), false);
        p->convert->store[out->dtype]((uint32_t)p->width, to, 1, result);
    }
}
