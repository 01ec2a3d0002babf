/* windows_body.h - the body of windows.c: of floats of one kind, REAL, VECTOR of them and NAME().
 */
/* Of `vectors` vectors and `filters` sums, in registers. */
static inline __attribute__((always_inline)) void NAME(of)(int filters, int vectors, REAL *y,
                                                           int64_t pitch, const REAL *x,
                                                           int64_t taps, const int64_t *offsets,
                                                           const REAL *weights,
                                                           const double *starts)
{
    VECTOR sums[EXG_WINDOWS_FILTERS][4];

    EXG_UNROLL for (int f = 0; f < filters; f++)
    {
        EXG_UNROLL for (int k = 0; k < vectors; k++)
        {
            sums[f][k] = (REAL)starts[f] + (VECTOR){0};
        }
    }
    for (int64_t t = 0; t < taps; t++) {
        const VECTOR *from = (const VECTOR *)(x + offsets[t]);

        EXG_UNROLL for (int k = 0; k < vectors; k++)
        {
            EXG_UNROLL for (int f = 0; f < filters; f++)
            {
                sums[f][k] += weights[t * filters + f] * from[k];
            }
        }
    }
    EXG_UNROLL for (int f = 0; f < filters; f++)
    {
        EXG_UNROLL for (int k = 0; k < vectors; k++)
        {
            ((VECTOR *)(y + f * pitch))[k] = sums[f][k];
        }
    }
}

static void NAME(one)(int64_t count, REAL *y, int64_t pitch, const REAL *x, int64_t taps,
                      const int64_t *offsets, const REAL *weights, const double *starts)
{
    const int64_t width = EXG_VECTOR_BYTES / (int)sizeof(REAL);
    int64_t i = 0;

    for (; i + 3 * width < count; i += 4 * width) {
        NAME(of)(1, 4, y + i, pitch, x + i, taps, offsets, weights, starts);
    }
    for (; i < count; i += 2 * width) {
        NAME(of)(1, 2, y + i, pitch, x + i, taps, offsets, weights, starts);
    }
}

/* As many vectors as there are registers for. */
static void NAME(four)(int64_t count, REAL *y, int64_t pitch, const REAL *x, int64_t taps,
                       const int64_t *offsets, const REAL *weights, const double *starts)
{
    const int64_t width = EXG_VECTOR_BYTES / (int)sizeof(REAL);
    int64_t i = 0;

    for (; EXG_VECTOR_BYTES == 64 && i + 3 * width < count; i += 4 * width) {
        NAME(of)(EXG_WINDOWS_FILTERS, 4, y + i, pitch, x + i, taps, offsets, weights, starts);
    }
    for (; i < count; i += 2 * width) {
        NAME(of)(EXG_WINDOWS_FILTERS, 2, y + i, pitch, x + i, taps, offsets, weights, starts);
    }
}
