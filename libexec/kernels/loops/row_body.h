/* row_body.h - row.c's functions for one REAL. */

/* By vectors: compilers take an instruction for long stretches. */
static inline void ROW(clear)(VECTOR *lanes)
{
    for (int k = 0; k < VECTORS; k++) {
        lanes[k] = (VECTOR){0};
    }
}

/* Adds what is left of a row, less than all lanes take. */
static inline __attribute__((always_inline)) void ROW(add_rest)(VECTOR *lanes, const REAL *x,
                                                                int64_t count)
{
#ifdef __AVX512F__ /* an element at a time would wait for the store of all lanes */
    for (int k = 0; k < VECTORS; k++, count -= LANES / VECTORS) {
        lanes[k] += ROW(first_of)(x + k * (LANES / VECTORS), count);
    }
#else
    for (int k = 0; k < count; k++) {
        ((REAL *)lanes)[k] += x[k];
    }
#endif
}

static double ROW(sum)(int64_t count, const REAL *x)
{
    double total = 0;

    for (int64_t first = 0; first < count; first += EXG_STRETCH) {
        int64_t end = first + EXG_STRETCH < count ? first + EXG_STRETCH : count;
        int64_t i = first;
        VECTOR lanes[VECTORS];

        ROW(clear)(lanes);
        for (; i + LANES <= end; i += LANES) {
            for (int k = 0; k < VECTORS; k++) {
                lanes[k] += *(const VECTOR *)(x + i + k * (LANES / VECTORS));
            }
        }
        if (i < end) {
            ROW(add_rest)(lanes, x + i, end - i);
        }
        total += ROW(lane_total)(lanes);
    }
    return total;
}

/* In double, by lanes none of which waits for another. */
static double ROW(product)(int64_t count, const REAL *x)
{
    double lanes[LANES];
    int64_t i = 0;

    for (int k = 0; k < LANES; k++) {
        lanes[k] = 1;
    }
    for (; i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lanes[k] *= (double)x[i + k];
        }
    }
    for (int k = 0; i < count; i++, k++) {
        lanes[k] *= (double)x[i];
    }
    EXG_UNROLL for (int half = LANES / 2; half > 0; half /= 2)
    {
        for (int k = 0; k < half; k++) {
            lanes[k] *= lanes[k + half];
        }
    }
    return lanes[0];
}

static inline __attribute__((always_inline)) double ROW(sum_squares_asking)(int64_t count,
                                                                            const REAL *x,
                                                                            REAL mean,
                                                                            const exg_ahead *ahead)
{
    double total = 0;

    for (int64_t first = 0; first < count; first += EXG_STRETCH) {
        int64_t end = first + EXG_STRETCH < count ? first + EXG_STRETCH : count;
        int64_t i = first;
        VECTOR lanes[VECTORS];

        ROW(clear)(lanes);
        for (; i + LANES <= end; i += LANES) {
            if (ahead != NULL) {
                exg_row_ask(ahead, i * (int64_t)sizeof(REAL));
            }
            for (int k = 0; k < VECTORS; k++) {
                VECTOR d = *(const VECTOR *)(x + i + k * (LANES / VECTORS)) - mean;

                lanes[k] += d * d;
            }
        }
        for (int k = 0; i < end; i++, k++) {
            ((REAL *)lanes)[k] += (x[i] - mean) * (x[i] - mean);
        }
        total += ROW(lane_total)(lanes);
    }
    return total;
}

/* Apart: one that asks takes registers that the other wants. */
static double ROW(sum_squares)(int64_t count, const REAL *x, REAL mean, const exg_ahead *ahead)
{
    return ahead == NULL ? ROW(sum_squares_asking)(count, x, mean, NULL)
                         : ROW(sum_squares_asking)(count, x, mean, ahead);
}

/* Lanes hold the greatest value so far; a NaN shows in the sum of x - x. */
#define EXTREME(name, better, worst)                                                               \
    static REAL ROW(name)(int64_t count, const REAL *x)                                            \
    {                                                                                              \
        REAL lanes[LANES];                                                                         \
        REAL odd[LANES];                                                                           \
        int64_t i = 0;                                                                             \
                                                                                                   \
        for (int k = 0; k < LANES; k++) {                                                          \
            lanes[k] = worst;                                                                      \
            odd[k] = 0;                                                                            \
        }                                                                                          \
        for (; i + LANES <= count; i += LANES) {                                                   \
            for (int k = 0; k < LANES; k++) {                                                      \
                lanes[k] = x[i + k] better lanes[k] ? x[i + k] : lanes[k];                         \
                odd[k] = x[i + k] != x[i + k] ? x[i + k] : odd[k];                                 \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; i < count; i++, k++) {                                                     \
            lanes[k] = x[i] better lanes[k] ? x[i] : lanes[k];                                     \
            odd[k] = x[i] != x[i] ? x[i] : odd[k];                                                 \
        }                                                                                          \
        EXG_UNROLL for (int half = LANES / 2; half > 0; half /= 2)                                 \
        {                                                                                          \
            for (int k = 0; k < half; k++) {                                                       \
                lanes[k] = lanes[k + half] better lanes[k] ? lanes[k + half] : lanes[k];           \
                odd[k] = odd[k + half] != odd[k + half] ? odd[k + half] : odd[k];                  \
            }                                                                                      \
        }                                                                                          \
        return odd[0] != odd[0] ? odd[0] : lanes[0];                                               \
    }

EXTREME(max, >, (REAL)-INFINITY)
EXTREME(min, <, (REAL)INFINITY)
#undef EXTREME

/* The greatest that is no NaN; -inf of none. */
static REAL ROW(peak)(int64_t count, const REAL *x)
{
    REAL lanes[LANES];
    int64_t i = 0;

    for (int k = 0; k < LANES; k++) {
        lanes[k] = (REAL)-INFINITY;
    }
    for (; i + LANES <= count; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
        }
    }
    for (int k = 0; i < count; i++, k++) {
        lanes[k] = x[i] > lanes[k] ? x[i] : lanes[k];
    }
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int k = 0; k < half; k++) {
            lanes[k] = lanes[k + half] > lanes[k] ? lanes[k + half] : lanes[k];
        }
    }
    return lanes[0];
}

/* e^(x - shift) of each into y, where there is one; gives the sum. */
static inline __attribute__((always_inline)) double ROW(exp_into)(int64_t count, REAL *y,
                                                                  const REAL *x, REAL shift,
                                                                  const exg_ahead *ahead)
{
    double total = 0;

    for (int64_t first = 0; first < count; first += EXG_STRETCH) {
        int64_t end = first + EXG_STRETCH < count ? first + EXG_STRETCH : count;
        int64_t i = first;
        VECTOR lanes[VECTORS];

        ROW(clear)(lanes);
        for (; i + LANES <= end; i += LANES) {
            REAL e[LANES];

            if (ahead != NULL) {
                exg_row_ask(ahead, i * (int64_t)sizeof(REAL));
            }
            ROW(exp_lanes)(LANES, e, x + i, shift);
            for (int k = 0; k < VECTORS; k++) {
                VECTOR part = ((const VECTOR *)e)[k];

                lanes[k] += part;
                if (y != NULL) {
                    *(VECTOR *)(y + i + k * (LANES / VECTORS)) = part;
                }
            }
        }
        if (i < end) {
            REAL e[LANES] = {0};

            memcpy(e, x + i, (size_t)(end - i) * sizeof(REAL));
            ROW(exp_lanes)((int)(end - i), e, e, shift);
            for (int k = 0; i < end; i++, k++) {
                ((REAL *)lanes)[k] += e[k];
                if (y != NULL) {
                    y[i] = e[k];
                }
            }
        }
        total += ROW(lane_total)(lanes);
    }
    return total;
}

static double ROW(exp)(int64_t count, REAL *y, const REAL *x, REAL shift, const exg_ahead *ahead)
{
    return ROW(exp_into)(count, y, x, shift, ahead);
}

static double ROW(exp_sum)(int64_t count, const REAL *x, REAL shift, const exg_ahead *ahead)
{
    return ROW(exp_into)(count, NULL, x, shift, ahead);
}

/* e^(x - shift) of a line each into y, where there is one, and added to the lines' sums. */
static inline __attribute__((always_inline)) void ROW(exp_across_into)(int64_t count, REAL *y,
                                                                       const REAL *x,
                                                                       const REAL *shift,
                                                                       REAL *sums)
{
    int64_t i = 0;

    for (; i < count; i += LANES) {
        const int part = count - i < LANES ? (int)(count - i) : LANES;
        REAL e[LANES] = {0};

        for (int k = 0; k < part; k++) {
            e[k] = x[i + k] - shift[i + k];
        }
        ROW(exp_lanes)(LANES, e, e, 0);
        for (int k = 0; k < part; k++) {
            sums[i + k] += e[k];
            if (y != NULL) {
                y[i + k] = e[k];
            }
        }
    }
}

static void ROW(exp_across)(int64_t count, REAL *y, const REAL *x, const REAL *shift, REAL *sums)
{
    if (y != NULL) {
        ROW(exp_across_into)(count, y, x, shift, sums);
    } else {
        ROW(exp_across_into)(count, NULL, x, shift, sums);
    }
}

static void ROW(scale_across)(int64_t count, REAL *y, const REAL *x, const REAL *factor)
{
    EXG_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] * factor[i];
    }
}

static void ROW(shift_across)(int64_t count, REAL *y, const REAL *x, const REAL *first,
                              const REAL *second)
{
    EXG_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        y[i] = (x[i] - first[i]) - second[i];
    }
}

#define ELEMENT(row)  (row)[i]
#define STREAMED(row) (*(const VECTOR *)((row) + i))

/* y = formula, whose operands are read by the macro it is given. */
#define MAP(name, formula, ...)                                                                    \
    static void ROW(name)(int64_t count, REAL * y, const REAL *x, __VA_ARGS__,                     \
                          bool is_past_caches)                                                     \
    {                                                                                              \
        const int64_t streamed = is_past_caches ? count & -LINE : 0;                               \
        int64_t i = 0;                                                                             \
                                                                                                   \
        for (; i < streamed; i += EXG_VECTOR_BYTES / (int)sizeof(REAL)) {                          \
            EXG_STREAM(y + i, formula(STREAMED));                                                  \
        }                                                                                          \
        EXG_INDEPENDENT                                                                            \
        for (; i < count; i++) {                                                                   \
            y[i] = formula(ELEMENT);                                                               \
        }                                                                                          \
    }

#define SCALED(AT)          (AT(x) * factor)
#define SHIFTED(AT)         ((AT(x) - first) - second)
#define NORMALIZED(AT)      ((AT(x) - mean) * factor)
#define WEIGHTED(AT)        (NORMALIZED(AT) * AT(weight))
#define BIASED(AT)          (NORMALIZED(AT) + AT(bias))
#define WEIGHTED_BIASED(AT) (WEIGHTED(AT) + AT(bias))

MAP(scale, SCALED, REAL factor)
MAP(shift, SHIFTED, REAL first, REAL second)
MAP(normalize_plain, NORMALIZED, REAL mean, REAL factor)
MAP(normalize_weighted, WEIGHTED, REAL mean, REAL factor, const REAL *weight)
MAP(normalize_biased, BIASED, REAL mean, REAL factor, const REAL *bias)
MAP(normalize_both, WEIGHTED_BIASED, REAL mean, REAL factor, const REAL *weight, const REAL *bias)

static void ROW(normalize)(int64_t count, REAL *y, const REAL *x, REAL mean, REAL factor,
                           const REAL *weight, const REAL *bias, bool is_past_caches)
{
    if (weight != NULL && bias != NULL) {
        ROW(normalize_both)(count, y, x, mean, factor, weight, bias, is_past_caches);
    } else if (weight != NULL) {
        ROW(normalize_weighted)(count, y, x, mean, factor, weight, is_past_caches);
    } else if (bias != NULL) {
        ROW(normalize_biased)(count, y, x, mean, factor, bias, is_past_caches);
    } else {
        ROW(normalize_plain)(count, y, x, mean, factor, is_past_caches);
    }
}

#undef ELEMENT
#undef STREAMED
#undef MAP
#undef SCALED
#undef SHIFTED
#undef NORMALIZED
#undef WEIGHTED
#undef BIASED
#undef WEIGHTED_BIASED

static void ROW(add)(int64_t count, REAL *y, const REAL *x)
{
    EXG_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        y[i] += x[i];
    }
}

static void ROW(max_of)(int64_t count, REAL *y, const REAL *x)
{
    EXG_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
    }
}

static void ROW(min_of)(int64_t count, REAL *y, const REAL *x)
{
    EXG_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i];
    }
}

/* The same of `rows` rows in their order, which are `stride` apart: four at a time. */
#define OF_ROWS(name, one, TAKE)                                                                   \
    static void ROW(name)(int64_t count, REAL * y, const REAL *x, int64_t stride, int64_t rows)    \
    {                                                                                              \
        int64_t r = 0;                                                                             \
                                                                                                   \
        for (; r + 4 <= rows; r += 4) {                                                            \
            const REAL *a = x + r * stride;                                                        \
            const REAL *b = a + stride;                                                            \
            const REAL *c = b + stride;                                                            \
            const REAL *d = c + stride;                                                            \
                                                                                                   \
            EXG_INDEPENDENT                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                  \
                REAL v = y[i];                                                                     \
                                                                                                   \
                TAKE(v, a[i]);                                                                     \
                TAKE(v, b[i]);                                                                     \
                TAKE(v, c[i]);                                                                     \
                TAKE(v, d[i]);                                                                     \
                y[i] = v;                                                                          \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++) {                                                                    \
            ROW(one)(count, y, x + r * stride);                                                    \
        }                                                                                          \
    }

#define ADD(v, x)   v += x
#define MOST(v, x)  v = x > v || x != x ? x : v
#define LEAST(v, x) v = x < v || x != x ? x : v

OF_ROWS(add_rows, add, ADD)
OF_ROWS(max_rows, max_of, MOST)
OF_ROWS(min_rows, min_of, LEAST)

#undef OF_ROWS
#undef ADD
#undef MOST
#undef LEAST
