/* fft_body.h - fft.c's passes over lines side by side: LANE is one number of each.
 *
 * A value is a pair of LANE, the real parts and the imaginary ones.
 */
typedef struct PASS(value) {
    LANE re, im;
} PASS(value);

static inline __attribute__((always_inline)) PASS(value)
    PASS(product)(PASS(value) a, exg_complex_double w)
{
    return (PASS(value)){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
}

/* One value of a butterfly: the sum over q of x[q] W(p)^(q r). */
static inline __attribute__((always_inline)) PASS(value)
    PASS(butterfly)(const exg_fft_passes *f, const PASS(value) * x, int64_t apart, int64_t p,
                    int64_t r)
{
    const int64_t step = f->n / p;
    PASS(value) sum = x[0];

    for (int64_t q = 1, turn = r; q < p; q++, turn = turn + r < p ? turn + r : turn + r - p) {
        PASS(value) t = PASS(product)(x[q * apart], f->w[step * turn]);

        sum.re += t.re;
        sum.im += t.im;
    }
    return sum;
}

/* Two, four: without multiplications. */
static inline __attribute__((always_inline)) void PASS(small_butterfly)(const PASS(value) * x,
                                                                        int64_t apart, int64_t p,
                                                                        PASS(value) * out)
{
    const PASS(value) a = x[0];
    const PASS(value) b = x[apart];

    if (p == 2) {
        out[0] = (PASS(value)){a.re + b.re, a.im + b.im};
        out[1] = (PASS(value)){a.re - b.re, a.im - b.im};
    } else {
        const PASS(value) c = x[2 * apart];
        const PASS(value) d = x[3 * apart];
        const PASS(value) even = {a.re + c.re, a.im + c.im};
        const PASS(value) odd = {b.re + d.re, b.im + d.im};
        const PASS(value) even_gap = {a.re - c.re, a.im - c.im};
        const PASS(value) odd_gap = {b.im - d.im, d.re - b.re}; /* times -i */

        out[0] = (PASS(value)){even.re + odd.re, even.im + odd.im};
        out[1] = (PASS(value)){even_gap.re + odd_gap.re, even_gap.im + odd_gap.im};
        out[2] = (PASS(value)){even.re - odd.re, even.im - odd.im};
        out[3] = (PASS(value)){even_gap.re - odd_gap.re, even_gap.im - odd_gap.im};
    }
}

/* y[k + s (p j + r)] = W(n/s)^(j r) times the butterfly of x[k + s (j + m q)], m = n / (s p) */
static inline __attribute__((always_inline)) void PASS(pass)(const exg_fft_passes *f,
                                                             const PASS(value) * x, PASS(value) * y,
                                                             int64_t s, int64_t p)
{
    const int64_t m = f->n / (s * p);

    for (int64_t j = 0; j < m; j++) {
        for (int64_t k = 0; k < s; k++) {
            const PASS(value) *in = x + k + s * j;
            PASS(value) *to = y + k + s * p * j;
            PASS(value) out[4];

            if (p == 2 || p == 4) {
                PASS(small_butterfly)(in, s * m, p, out);
            }
            for (int64_t r = 0; r < p; r++) {
                PASS(value) v = p == 2 || p == 4 ? out[r] : PASS(butterfly)(f, in, s * m, p, r);

                to[s * r] = j == 0 ? v : PASS(product)(v, f->w[s * j * r]);
            }
        }
    }
}

static double *PASS(transform)(const exg_fft_passes *f, double *x_, double *y_)
{
    PASS(value) *x = (PASS(value) *)(void *)x_;
    PASS(value) *y = (PASS(value) *)(void *)y_;

    for (int64_t i = 0, s = 1; i < f->count; s *= f->factors[i++]) {
        PASS(value) *done = y;

        if (f->factors[i] == 4) {
            PASS(pass)(f, x, y, s, 4);
        } else if (f->factors[i] == 2) {
            PASS(pass)(f, x, y, s, 2);
        } else if (f->factors[i] == 3) {
            PASS(pass)(f, x, y, s, 3);
        } else {
            PASS(pass)(f, x, y, s, f->factors[i]);
        }
        y = x;
        x = done;
    }
    return (double *)(void *)x;
}
