/* fft_body.h - fft.c's loops over lines side by side: LANE is one REAL of each of WIDTH lines.
 *
 * A value is a pair of LANE, the real parts and the imaginary ones.
 */
typedef struct PASS(value) {
    LANE re, im;
} PASS(value);

#define VALUE  PASS(value)
#define INLINE static inline __attribute__((always_inline))

INLINE VALUE PASS(product)(VALUE a, const REAL *w)
{
    return (VALUE){a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0]};
}

INLINE VALUE PASS(sum)(VALUE a, VALUE b)
{
    return (VALUE){a.re + b.re, a.im + b.im};
}

INLINE VALUE PASS(gap)(VALUE a, VALUE b)
{
    return (VALUE){a.re - b.re, a.im - b.im};
}

/* a + i b */
INLINE VALUE PASS(turned_sum)(VALUE a, VALUE b)
{
    return (VALUE){a.re - b.im, a.im + b.re};
}

/* a - i b */
INLINE VALUE PASS(turned_gap)(VALUE a, VALUE b)
{
    return (VALUE){a.re + b.im, a.im - b.re};
}

/* ---- butterflies: out[r] is the sum over q of x[q] W(p)^(q r) ------------------------------ */

INLINE void PASS(butterfly_2)(const VALUE *x, int64_t apart, VALUE *out)
{
    const VALUE a = x[0];
    const VALUE b = x[apart];

    out[0] = PASS(sum)(a, b);
    out[1] = PASS(gap)(a, b);
}

INLINE void PASS(butterfly_4)(const VALUE *x, int64_t apart, VALUE *out)
{
    VALUE even[2];
    VALUE odd[2];

    PASS(butterfly_2)(x, 2 * apart, even);
    PASS(butterfly_2)(x + apart, 2 * apart, odd);
    out[0] = PASS(sum)(even[0], odd[0]);
    out[1] = PASS(turned_gap)(even[1], odd[1]);
    out[2] = PASS(gap)(even[0], odd[0]);
    out[3] = PASS(turned_sum)(even[1], odd[1]);
}

INLINE void PASS(butterfly_8)(const VALUE *x, int64_t apart, VALUE *out)
{
    const REAL half_root = (REAL)0.70710678118654752440;
    VALUE even[4];
    VALUE odd[4];
    VALUE t;

    PASS(butterfly_4)(x, 2 * apart, even);
    PASS(butterfly_4)(x + apart, 2 * apart, odd);
    out[0] = PASS(sum)(even[0], odd[0]);
    out[4] = PASS(gap)(even[0], odd[0]);
    out[2] = PASS(turned_gap)(even[2], odd[2]);
    out[6] = PASS(turned_sum)(even[2], odd[2]);
    t = (VALUE){(odd[1].re + odd[1].im) * half_root, (odd[1].im - odd[1].re) * half_root};
    out[1] = PASS(sum)(even[1], t);
    out[5] = PASS(gap)(even[1], t);
    t = (VALUE){(odd[3].im - odd[3].re) * half_root, (odd[3].re + odd[3].im) * -half_root};
    out[3] = PASS(sum)(even[3], t);
    out[7] = PASS(gap)(even[3], t);
}

/* Of an odd p, by the sums and gaps of x[q] and x[p - q]. */
INLINE void PASS(butterfly_odd)(const exg_fft_passes *f, const VALUE *x, int64_t apart, int64_t p,
                                VALUE *out)
{
    const REAL *w = f->w;
    const int64_t step = f->n / p;
    VALUE sums[EXG_FFT_RADIX / 2];
    VALUE gaps[EXG_FFT_RADIX / 2];

    out[0] = x[0];
    for (int64_t q = 1; q <= p / 2; q++) {
        sums[q - 1] = PASS(sum)(x[q * apart], x[(p - q) * apart]);
        gaps[q - 1] = PASS(gap)(x[q * apart], x[(p - q) * apart]);
        out[0] = PASS(sum)(out[0], sums[q - 1]);
    }
    for (int64_t r = 1; r <= p / 2; r++) {
        VALUE even = x[0];
        VALUE odd = {0};

        for (int64_t q = 1, turn = r; q <= p / 2; q++) {
            const REAL c = w[2 * step * turn];
            const REAL s = w[2 * step * turn + 1];

            even.re += sums[q - 1].re * c;
            even.im += sums[q - 1].im * c;
            odd.re += gaps[q - 1].re * s;
            odd.im += gaps[q - 1].im * s;
            turn = turn + r < p ? turn + r : turn + r - p;
        }
        out[r] = PASS(turned_sum)(even, odd);
        out[p - r] = PASS(turned_gap)(even, odd);
    }
}

INLINE void PASS(butterfly)(const exg_fft_passes *f, const VALUE *x, int64_t apart, int64_t p,
                            VALUE *out)
{
    if (p == 2) {
        PASS(butterfly_2)(x, apart, out);
    } else if (p == 4) {
        PASS(butterfly_4)(x, apart, out);
    } else if (p == 8) {
        PASS(butterfly_8)(x, apart, out);
    } else {
        PASS(butterfly_odd)(f, x, apart, p, out);
    }
}

/* ---- passes --------------------------------------------------------------------------------- */

/* y[k + s (p j + r)] = W(n/s)^(j r) times the butterfly of x[k + s (j + m q)], m = n / (s p) */
INLINE void PASS(pass)(const exg_fft_passes *f, const VALUE *x, VALUE *y, int64_t s, int64_t p)
{
    const REAL *w = f->w;
    const int64_t m = f->n / (s * p);

    for (int64_t k = 0; k < s; k++) {
        VALUE out[EXG_FFT_RADIX];

        PASS(butterfly)(f, x + k, s * m, p, out);
        for (int64_t r = 0; r < p; r++) {
            y[k + s * r] = out[r];
        }
    }
    for (int64_t j = 1; j < m; j++) {
        REAL turns[2 * EXG_FFT_RADIX];

        for (int64_t r = 1; r < p; r++) {
            turns[2 * r] = w[2 * s * j * r];
            turns[2 * r + 1] = w[2 * s * j * r + 1];
        }
        for (int64_t k = 0; k < s; k++) {
            VALUE *to = y + k + s * p * j;
            VALUE out[EXG_FFT_RADIX];

            PASS(butterfly)(f, x + k + s * j, s * m, p, out);
            to[0] = out[0];
            for (int64_t r = 1; r < p; r++) {
                to[s * r] = PASS(product)(out[r], turns + 2 * r);
            }
        }
    }
}

static void *PASS(transform)(const exg_fft_passes *f, void *x_, void *y_)
{
    VALUE *x = x_;
    VALUE *y = y_;

    for (int64_t i = 0, s = 1; i < f->count; s *= f->factors[i++]) {
        VALUE *done = y;

        switch (f->factors[i]) {
        case 2:
            PASS(pass)(f, x, y, s, 2);
            break;
        case 3:
            PASS(pass)(f, x, y, s, 3);
            break;
        case 4:
            PASS(pass)(f, x, y, s, 4);
            break;
        case 5:
            PASS(pass)(f, x, y, s, 5);
            break;
        case 7:
            PASS(pass)(f, x, y, s, 7);
            break;
        case 8:
            PASS(pass)(f, x, y, s, 8);
            break;
        default:
            PASS(pass)(f, x, y, s, f->factors[i]);
        }
        y = x;
        x = done;
    }
    return x;
}

/* ---- real numbers as half as many complex ones ----------------------------------------------- */

/* Of z, the transform of x[2 j] + i x[2 j + 1], to that of x. */
static void PASS(from_half)(int64_t half, const void *turns, const void *z_, void *y_)
{
    const REAL *w = turns;
    const VALUE *z = z_;
    VALUE *y = y_;

    for (int64_t k = 0; k <= half / 2; k++) {
        const VALUE a = z[k];
        const VALUE b = z[k == 0 ? 0 : half - k];
        const VALUE even = {(a.re + b.re) * (REAL)0.5, (a.im - b.im) * (REAL)0.5};
        const VALUE odd = {(a.im + b.im) * (REAL)0.5, (b.re - a.re) * (REAL)0.5};
        const VALUE t = PASS(product)(odd, w + 2 * k);
        const VALUE far = PASS(gap)(even, t);

        y[k] = PASS(sum)(even, t);
        y[half - k] = (VALUE){far.re, -far.im};
    }
}

/* From y, half + 1 values of what is the transform of real numbers, to the conjugates of what goes
 * back to x[2 j] + i x[2 j + 1]. The first and the last of y are real. */
static void PASS(to_half)(int64_t half, const void *turns, const void *y_, void *z_)
{
    const REAL *w = turns;
    const VALUE *y = y_;
    VALUE *z = z_;

    z[0] = (VALUE){y[0].re + y[half].re, y[half].re - y[0].re};
    for (int64_t k = 1; k <= half / 2; k++) {
        const VALUE a = y[k];
        const VALUE b = {y[half - k].re, -y[half - k].im};
        const REAL back[2] = {w[2 * k], -w[2 * k + 1]};
        const VALUE even = PASS(sum)(a, b);
        const VALUE odd = PASS(product)(PASS(gap)(a, b), back);
        const VALUE near = PASS(turned_sum)(even, odd);

        z[k] = (VALUE){near.re, -near.im};
        z[half - k] = PASS(turned_gap)(even, odd);
    }
}

/* ---- memory -------------------------------------------------------------------------------------
 */

/* One by one. */
INLINE void PASS(load_each)(int64_t count, const exg_fft_memory *m, REAL sign, VALUE *x)
{
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < WIDTH; i++) {
            const REAL *at = (const REAL *)m->lines[i] + k * m->step;

            ((REAL *)&x[k].re)[i] = at[0];
            ((REAL *)&x[k].im)[i] = m->im == 0 ? 0 : at[m->im] * sign;
        }
    }
}

INLINE void PASS(store_each)(int64_t count, const exg_fft_memory *m, REAL scale, REAL sign,
                             const VALUE *x)
{
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < WIDTH; i++) {
            REAL *at = (REAL *)m->lines[i] + k * m->step;

            at[0] = ((const REAL *)&x[k].re)[i] * scale;
            if (m->im != 0) {
                at[m->im] = ((const REAL *)&x[k].im)[i] * (scale * sign);
            }
        }
    }
}

#ifdef LOW
/* Rows become columns: as often as a width has bits, vectors are interleaved with those half of
 * them further on. */
INLINE void PASS(turn)(LANE *v)
{
    for (int bit = 1; bit < WIDTH; bit *= 2) {
        LANE from[WIDTH];

        for (int i = 0; i < WIDTH; i++) {
            from[i] = v[i];
        }
        for (int i = 0; i < WIDTH / 2; i++) {
            v[2 * i] = LOW(from[i], from[i + WIDTH / 2]);
            v[2 * i + 1] = HIGH(from[i], from[i + WIDTH / 2]);
        }
    }
}

/* Pairs are dense along each line. */
static bool PASS(is_dense)(const exg_fft_memory *m)
{
    return m->step == 2 && m->im == 1;
}

/* Stretches of lines whose pairs are beside each other: where each begins, and the end. */
static int PASS(find_runs)(const exg_fft_memory *m, int *starts)
{
    int runs = 0;

    for (int i = 0; i < WIDTH; i++) {
        if (i == 0 || (const REAL *)m->lines[i] != (const REAL *)m->lines[i - 1] + 2) {
            starts[runs++] = i;
        }
    }
    starts[runs] = WIDTH;
    return runs;
}

static void PASS(load_runs)(int64_t count, const exg_fft_memory *m, REAL sign, VALUE *x)
{
    int starts[WIDTH + 1];
    const int runs = PASS(find_runs)(m, starts);

    for (int64_t k = 0; k < count; k++) {
        LANE pairs[2];

        for (int r = 0; r < runs; r++) {
            memcpy((REAL *)pairs + 2 * starts[r], (const REAL *)m->lines[starts[r]] + k * m->step,
                   (size_t)(starts[r + 1] - starts[r]) * 2 * sizeof(REAL));
        }
        x[k] = (VALUE){EVEN(pairs[0], pairs[1]), ODD(pairs[0], pairs[1]) * sign};
    }
}

static void PASS(store_runs)(int64_t count, const exg_fft_memory *m, REAL scale, REAL sign,
                             const VALUE *x)
{
    int starts[WIDTH + 1];
    const int runs = PASS(find_runs)(m, starts);

    for (int64_t k = 0; k < count; k++) {
        const LANE re = x[k].re * scale;
        const LANE im = x[k].im * (scale * sign);
        const LANE pairs[2] = {LOW(re, im), HIGH(re, im)};

        for (int r = 0; r < runs; r++) {
            memcpy((REAL *)m->lines[starts[r]] + k * m->step, (const REAL *)pairs + 2 * starts[r],
                   (size_t)(starts[r + 1] - starts[r]) * 2 * sizeof(REAL));
        }
    }
}

static void PASS(load)(int64_t count, const exg_fft_memory *m, double sign_, void *x_)
{
    const REAL sign = (REAL)sign_;
    VALUE *x = x_;

    if (PASS(is_dense)(m)) {
        int64_t k = 0;

        for (; k + WIDTH / 2 <= count; k += WIDTH / 2) {
            LANE v[WIDTH];

            for (int i = 0; i < WIDTH; i++) {
                v[i] = *(const LANE *)((const REAL *)m->lines[i] + 2 * k);
            }
            PASS(turn)(v);
            for (int i = 0; i < WIDTH / 2; i++) {
                x[k + i] = (VALUE){v[2 * i], v[2 * i + 1] * sign};
            }
        }
        if (k < count) {
            LANE v[WIDTH];

            for (int i = 0; i < WIDTH; i++) {
                v[i] = (LANE){0};
                memcpy(&v[i], (const REAL *)m->lines[i] + 2 * k,
                       (size_t)(count - k) * 2 * sizeof(REAL));
            }
            PASS(turn)(v);
            for (int64_t i = 0; i < count - k; i++) {
                x[k + i] = (VALUE){v[2 * i], v[2 * i + 1] * sign};
            }
        }
    } else if (m->im == 1) {
        PASS(load_runs)(count, m, sign, x);
    } else if (m->apart == 1 && m->im != 0) {
        for (int64_t k = 0; k < count; k++) {
            const REAL *at = (const REAL *)m->lines[0] + k * m->step;

            x[k] = (VALUE){*(const LANE *)at, *(const LANE *)(at + m->im) * sign};
        }
    } else {
        PASS(load_each)(count, m, sign, x);
    }
}

/* Up to half a width of values as pairs, those of each line side by side. */
INLINE void PASS(turn_back)(int64_t count, REAL scale, REAL sign, const VALUE *x, LANE *v)
{
    for (int i = 0; i < WIDTH; i++) {
        v[i] = (LANE){0};
    }
    for (int i = 0; i < count; i++) {
        v[2 * i] = x[i].re * scale;
        v[2 * i + 1] = x[i].im * (scale * sign);
    }
    PASS(turn)(v);
}

static void PASS(store)(int64_t count, const exg_fft_memory *m, double scale_, double sign_,
                        const void *x_)
{
    const REAL scale = (REAL)scale_;
    const REAL sign = (REAL)sign_;
    const VALUE *x = x_;

    if (PASS(is_dense)(m)) {
        int64_t k = 0;

        for (; k + WIDTH / 2 <= count; k += WIDTH / 2) {
            LANE v[WIDTH];

            PASS(turn_back)(WIDTH / 2, scale, sign, x + k, v);
            for (int i = 0; i < WIDTH; i++) {
                *(LANE *)((REAL *)m->lines[i] + 2 * k) = v[i];
            }
        }
        if (k < count) {
            LANE v[WIDTH];

            PASS(turn_back)(count - k, scale, sign, x + k, v);
            for (int i = 0; i < WIDTH; i++) {
                memcpy((REAL *)m->lines[i] + 2 * k, &v[i], (size_t)(count - k) * 2 * sizeof(REAL));
            }
        }
    } else if (m->im == 1) {
        PASS(store_runs)(count, m, scale, sign, x);
    } else if (m->apart == 1 && m->im != 0) {
        for (int64_t k = 0; k < count; k++) {
            REAL *at = (REAL *)m->lines[0] + k * m->step;

            *(LANE *)at = x[k].re * scale;
            *(LANE *)(at + m->im) = x[k].im * (scale * sign);
        }
    } else {
        PASS(store_each)(count, m, scale, sign, x);
    }
}
#else
static void PASS(load)(int64_t count, const exg_fft_memory *m, double sign, void *x)
{
    PASS(load_each)(count, m, (REAL)sign, x);
}

static void PASS(store)(int64_t count, const exg_fft_memory *m, double scale, double sign,
                        const void *x)
{
    PASS(store_each)(count, m, (REAL)scale, (REAL)sign, x);
}
#endif

static const exg_fft_loops PASS(loops) = {
    .lines = WIDTH,
    .load = PASS(load),
    .store = PASS(store),
    .transform = PASS(transform),
    .from_half = PASS(from_half),
    .to_half = PASS(to_half),
};

#undef VALUE
#undef INLINE
