/* fft.c - lowerings of fft.def. */
#include "libexport/decompositions/complex.h"
#include "libexport/operators/shape.h"

#include <exg/operator_id_new.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/fft.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* The transform of `n` numbers along argument 1, of which results or operands are the half. */
static exg_status halved(exg_shape_call *call, int64_t from, int64_t to, exg_dtype dtype,
                         exg_error *err)
{
    exg_dims out;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), out.rank, &dim, err));
    from = from < 0 ? EXG_END(out, out.rank - dim) : from;
    if (out.rank == 0 || from < 1 || out.n[dim] != from) {
        return EXG_SHAPE_FAIL(
            err, "a Fourier transform of %" PRId64 " elements along a dim of others", from);
    }
    out.n[dim] = to < 0 ? from / 2 + 1 : to;
    return exg_shape_result(call, 0, dtype, &out, err);
}

/* (self, dim, scale) */
exg_status exg_shape_fft_from_real(exg_shape_call *call, exg_error *err)
{
    return halved(call, -1, -1, exg_complex_of(exg_shape_input(call, 0)->dtype), err);
}

/* (self, dim, size, scale) */
exg_status exg_shape_fft_to_real(exg_shape_call *call, exg_error *err)
{
    int64_t n = exg_get_int(&call->args[2]);

    return halved(call, n / 2 + 1, n, exg_real_of(exg_shape_input(call, 0)->dtype), err);
}

/* Dims to transform, the last one special to transforms from and to real numbers. */
typedef struct signal {
    uint32_t rank; /* dims transformed */
    uint32_t dims[EXG_SHAPE_RANK_MAX];
    int64_t sizes[EXG_SHAPE_RANK_MAX]; /* of the transform */
} signal;

static exg_ref as_complex(exg_builder *b, exg_ref x)
{
    exg_dtype dtype = exg_lower_dtype(b, x);

    return exg_dtype_is_complex(dtype) ? x : exg_lower_cast(b, x, exg_complex_of(dtype));
}

static exg_ref conjugate(exg_builder *b, exg_ref x)
{
    return EMIT(b, _conj_physical_default, x);
}

static exg_ref along(exg_builder *b, exg_ref x, uint32_t dim, bool inverse, double scale)
{
    return EMIT(b, fft, x, (int)dim, exg_arg_bool(inverse), scale);
}

/* The first `count` of the dims; the whole is scaled in the last of them. */
static exg_ref over(exg_builder *b, exg_ref x, const signal *s, uint32_t count, bool inverse,
                    double scale)
{
    for (uint32_t i = 0; i < count; i++) {
        x = along(b, x, s->dims[i], inverse, i + 1 == count ? scale : 1);
    }
    return x;
}

static double count_of(const signal *s)
{
    double count = 1;

    for (uint32_t i = 0; i < s->rank; i++) {
        count *= (double)s->sizes[i];
    }
    return count;
}

static double scale_of(int64_t norm, const signal *s)
{
    return norm == 0 ? 1 : norm == 1 ? 1 / sqrt(count_of(s)) : 1 / count_of(s);
}

/* Half of what is there after a transform of real numbers: 0 .. n / 2. */
static exg_ref half_of(exg_builder *b, exg_ref x, const signal *s)
{
    return exg_lower_slice(b, x, s->dims[s->rank - 1], 0, s->sizes[s->rank - 1] / 2 + 1);
}

/* The first half along the last of the dims. */
static exg_ref half_from_real(exg_builder *b, exg_ref x, const signal *s, bool inverse,
                              double scale)
{
    int dim = (int)s->dims[s->rank - 1];
    exg_dtype dtype = exg_lower_dtype(b, x);
    exg_dtype real = exg_dtype_is_complex(dtype) ? dtype : exg_real_of(exg_complex_of(dtype));

    if (real != EXG_DTYPE_F32 && real != EXG_DTYPE_F64) {
        return half_of(b, along(b, as_complex(b, x), (uint32_t)dim, inverse, scale), s);
    }
    x = EMIT(b, fft_from_real, exg_lower_cast(b, x, real), dim, scale);
    return inverse ? conjugate(b, x) : x;
}

/* Real to complex over all dims, half of the last one. */
static exg_ref from_real(exg_builder *b, exg_ref x, const signal *s, bool inverse, bool onesided,
                         double scale)
{
    double first = s->rank == 1 ? scale : 1;

    x = onesided ? half_from_real(b, x, s, inverse, first)
                 : along(b, as_complex(b, x), s->dims[s->rank - 1], inverse, first);
    return over(b, x, s, s->rank - 1, inverse, scale);
}

/* Complex to real: what is missing of the last dim are conjugates of what is there. */
static exg_ref to_real(exg_builder *b, exg_ref x, const signal *s, bool inverse, double scale)
{
    int last = (int)s->dims[s->rank - 1];

    x = half_of(b, over(b, x, s, s->rank - 1, inverse, 1), s);
    x = inverse ? x : conjugate(b, x);
    return EMIT(b, fft_to_real, x, last, exg_arg_int(s->sizes[s->rank - 1]), scale);
}

/* ---- _fft_* ------------------------------------------------------------------------------- */

static signal signal_of(exg_builder *b, exg_ref x, const exg_argument *dims)
{
    exg_dims sizes = exg_lower_dims(b, x);
    int64_t given[EXG_SHAPE_RANK_MAX];
    signal s = {.rank = exg_get_ints(dims, given, EXG_SHAPE_RANK_MAX)};

    for (uint32_t i = 0; i < s.rank && i < EXG_SHAPE_RANK_MAX; i++) {
        s.dims[i] = exg_lower_dim(b, given[i], sizes.rank);
        s.sizes[i] = sizes.rank == 0 ? 1 : sizes.n[s.dims[i]];
    }
    if (s.rank == 0 || s.rank > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "a Fourier transform over no dim");
        s = (signal){.rank = 1, .sizes = {1}};
    }
    return s;
}

void exg_lower__fft_c2c(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    signal s;

    if (args[1].count == 0) {
        results[0] = exg_arg_ref(EMIT(b, clone_default, SELF));
        return;
    }
    s = signal_of(b, SELF, &args[1]);
    results[0] = exg_arg_ref(
        over(b, SELF, &s, s.rank, !exg_get_bool(&args[3]), scale_of(exg_get_int(&args[2]), &s)));
}

void exg_lower__fft_r2c(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    signal s = signal_of(b, SELF, &args[1]);

    results[0] = exg_arg_ref(
        from_real(b, SELF, &s, false, exg_get_bool(&args[3]), scale_of(exg_get_int(&args[2]), &s)));
}

void exg_lower__fft_c2r(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    signal s = signal_of(b, SELF, &args[1]);

    s.sizes[s.rank - 1] = exg_get_int(&args[3]);
    results[0] = exg_arg_ref(to_real(b, SELF, &s, true, scale_of(exg_get_int(&args[2]), &s)));
}

/* ---- torch.fft ------------------------------------------------------------------------------ */

/* x with so many elements along a dim: cut, or zeros added. */
static exg_ref fitted(exg_builder *b, exg_ref x, uint32_t dim, int64_t size)
{
    exg_dims dims = exg_lower_dims(b, x);
    exg_ref parts[2] = {x, EXG_NO_REF};

    if (dims.rank <= dim || dims.n[dim] == size) {
        return x;
    }
    if (dims.n[dim] > size) {
        return exg_lower_slice(b, x, dim, 0, size);
    }
    dims.n[dim] = size - dims.n[dim];
    parts[1] =
        EMIT(b, full_default, INTS_OF(b, dims.n, dims.rank), 0, DTYPE(exg_lower_dtype(b, x)));
    return EMIT(b, cat_default, exg_arg_refs(b, parts, 2), (int)dim);
}

/* (self, n or s, dim or dims, norm): which dims, and how long. -1 in s keeps a size. */
static signal asked(exg_builder *b, const exg_argument *args, bool gives_real, exg_ref *x)
{
    exg_dims sizes = exg_lower_dims(b, SELF);
    int64_t wanted[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_is_none(&args[1]) ? 0 : exg_get_ints(&args[1], wanted, EXG_SHAPE_RANK_MAX);
    int64_t all[EXG_SHAPE_RANK_MAX];
    signal s;
    uint32_t last;

    if (exg_is_none(&args[2])) { /* the last dims, as many as sizes are given */
        uint32_t rank = count == 0 ? sizes.rank : EXG_SHAPE_RANK_MAX < count ? 0 : count;
        exg_argument dims;

        for (uint32_t i = 0; i < rank; i++) {
            all[i] = (int64_t)i - (int64_t)rank;
        }
        dims = exg_arg_ints(b, all, rank);
        s = signal_of(b, SELF, &dims);
    } else {
        s = signal_of(b, SELF, &args[2]);
    }
    last = s.rank - 1;
    s.sizes[last] = gives_real ? 2 * (s.sizes[last] - 1) : s.sizes[last];
    for (uint32_t i = 0; i < s.rank && i < count; i++) {
        s.sizes[i] = wanted[i] == -1 ? s.sizes[i] : wanted[i];
    }
    *x = SELF;
    for (uint32_t i = 0; i < s.rank; i++) {
        if (s.sizes[i] < 1) {
            exg_lower_refuse(b, "a Fourier transform of no element");
            return s;
        }
        *x = fitted(b, *x, s.dims[i], gives_real && i == last ? s.sizes[i] / 2 + 1 : s.sizes[i]);
    }
    return s;
}

/* norm: backward (None) divides the inverse by n, forward the other, ortho both by its root */
static double norm_of(const exg_argument *norm, const signal *s, bool inverse)
{
    const char *word = norm->kind == EXG_ARGUMENT_STRING ? norm->as_string : "backward";

    return word[0] == 'o'                ? 1 / sqrt(count_of(s))
           : (word[0] == 'f') == inverse ? 1
                                         : 1 / count_of(s);
}

static void complex_transform(exg_builder *b, const exg_argument *args, bool inverse,
                              exg_argument *results)
{
    exg_ref x;
    signal s = asked(b, args, false, &x);

    results[0] =
        exg_arg_ref(over(b, as_complex(b, x), &s, s.rank, inverse, norm_of(&args[3], &s, inverse)));
}

void exg_lower_fft_fft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    complex_transform(b, args, false, results);
}

void exg_lower_fft_ifft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    complex_transform(b, args, true, results);
}

void exg_lower_fft_rfft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x;
    signal s = asked(b, args, false, &x);

    results[0] = exg_arg_ref(from_real(b, x, &s, false, true, norm_of(&args[3], &s, false)));
}

void exg_lower_fft_irfft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x;
    signal s = asked(b, args, true, &x);

    results[0] = exg_arg_ref(to_real(b, as_complex(b, x), &s, true, norm_of(&args[3], &s, true)));
}

/* Of a signal whose spectrum is real: forward, where irfft goes back. */
void exg_lower_fft_hfft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x;
    signal s = asked(b, args, true, &x);

    results[0] = exg_arg_ref(to_real(b, as_complex(b, x), &s, false, norm_of(&args[3], &s, false)));
}

void exg_lower_fft_ihfft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x;
    signal s = asked(b, args, false, &x);

    results[0] = exg_arg_ref(from_real(b, x, &s, true, true, norm_of(&args[3], &s, true)));
}

/* ---- short times ------------------------------------------------------------------------------
 */

/* n_fft, and what of hop, win_length, window was left out. */
typedef struct frames {
    int64_t n, hop, width;
    exg_ref window; /* n long, zeros around; EXG_NO_REF: ones */
} frames;

/* (self, n_fft, hop_length, win_length, window, ...) */
static frames frames_of(exg_builder *b, const exg_argument *args)
{
    frames f = {.n = exg_get_int(&args[1]), .window = EXG_NO_REF};

    f.hop = exg_is_none(&args[2]) ? f.n / 4 : exg_get_int(&args[2]);
    f.width = exg_is_none(&args[3]) ? f.n : exg_get_int(&args[3]);
    if (f.n < 1 || f.hop < 1 || f.width < 1 || f.width > f.n) {
        exg_lower_refuse(b, "stft: frames, hops or windows of no size");
        return (frames){1, 1, 1, EXG_NO_REF};
    }
    if (exg_lower_given(&args[4])) {
        f.window = exg_get_ref(&args[4]);
    } else if (f.width < f.n) {
        f.window =
            EMIT(b, ones_default, INTS(b, f.width), DTYPE(exg_real_of(exg_lower_dtype(b, SELF))));
    }
    if (f.window.id != EXG_NO_VALUE && f.width < f.n) {
        int64_t left = (f.n - f.width) / 2;

        f.window =
            EMIT(b, constant_pad_nd_default, f.window, INTS(b, left, f.n - f.width - left), 0);
    }
    return f;
}

/* x [batch, time] -> [batch, frequencies, frames], complex, or pairs of reals at the end */
static exg_ref short_time(exg_builder *b, exg_ref x, const frames *f, bool normalized,
                          bool onesided, bool pairs)
{
    exg_dims in = exg_lower_dims(b, x);
    signal s = {.rank = 1, .dims = {in.rank}, .sizes = {f->n}};
    double scale = normalized ? 1 / sqrt((double)f->n) : 1;

    if (EXG_END(in, 1) < f->n) {
        exg_lower_refuse(b, "stft: fewer elements than a frame");
        return EXG_NO_REF;
    }
    x = EMIT(b, unfold_default, x, -1, exg_arg_int(f->n), exg_arg_int(f->hop));
    x = f->window.id == EXG_NO_VALUE ? x : EMIT(b, mul_Tensor, x, f->window);
    x = exg_dtype_is_complex(exg_lower_dtype(b, x)) ? along(b, x, in.rank, false, scale)
                                                    : from_real(b, x, &s, false, onesided, scale);
    x = EMIT(b, transpose_int, x, -2, -1);
    return pairs ? EMIT(b, view_as_real_default, x) : x;
}

static bool is_true(const exg_argument *arg, bool otherwise)
{
    return exg_is_none(arg) ? otherwise : exg_get_bool(arg);
}

/* (.., normalized, onesided, return_complex, align_to_window) from position `at`: where windows are
 * aligned they begin where the signal does, not their frames. */
static void stft(exg_builder *b, const exg_argument *args, exg_ref x, uint32_t at,
                 exg_argument *results)
{
    frames f = frames_of(b, args);
    int64_t left = (f.n - f.width) / 2;
    bool is_complex =
        exg_dtype_is_complex(exg_lower_dtype(b, SELF)) ||
        (f.window.id != EXG_NO_VALUE && exg_dtype_is_complex(exg_lower_dtype(b, f.window)));

    if (is_true(&args[at + 3], false)) {
        x = EMIT(b, constant_pad_nd_default, x, INTS(b, left, f.n - f.width - left), 0);
    }
    results[0] = exg_arg_ref(short_time(b, x, &f, exg_get_bool(&args[at]),
                                        is_true(&args[at + 1], !is_complex),
                                        !is_true(&args[at + 2], is_complex)));
}

void exg_lower_stft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    stft(b, args, SELF, 5, results);
}

/* The signal goes on by half a frame on both sides, as the word says. */
void exg_lower_stft_center(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = SELF;
    bool one = exg_lower_dims(b, x).rank == 1;
    int64_t half = exg_get_int(&args[1]) / 2;

    if (exg_get_bool(&args[5]) && is_true(&args[10], false)) {
        exg_lower_refuse(b, "stft: windows aligned and frames centered");
        return;
    }
    if (exg_get_bool(&args[5])) {
        x = one ? EMIT(b, unsqueeze_default, x, 0) : x;
        x = EMIT(b, unsqueeze_default, x, 0);
        x = EMIT(b, pad_default, x, INTS(b, half, half), args[6]);
        x = EMIT(b, squeeze_dim, x, 0);
        x = one ? EMIT(b, squeeze_dim, x, 0) : x;
    }
    stft(b, args, x, 7, results);
}

/* Frames [batch, frames, n] added up where they are, `hop` apart: [batch, time]. */
static exg_ref overlapped(exg_builder *b, exg_ref x, const frames *f)
{
    exg_dims in = exg_lower_dims(b, x);
    int64_t count = in.n[1];
    int64_t time = f->n + f->hop * (count - 1);
    exg_ref at = EMIT(
        b, add_Tensor,
        EMIT(b, mul_Scalar, exg_lower_steps(b, count, EXG_DTYPE_I64, 0, 2), exg_arg_int(f->hop)),
        exg_lower_steps(b, f->n, EXG_DTYPE_I64, 1, 2));
    exg_ref zeros = EMIT(b, zeros_default, INTS(b, in.n[0], time), DTYPE(exg_lower_dtype(b, x)));

    return EMIT(b, index_add_default, zeros, 1, exg_lower_flat(b, at),
                EMIT(b, reshape_default, x, INTS(b, in.n[0], -1)));
}

/* (self, n_fft, hop, width, window, center, normalized, onesided, length, return_complex) */
void exg_lower_istft(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    frames f = frames_of(b, args);
    exg_ref x = SELF;
    exg_dims dims = exg_lower_dims(b, x);
    bool one = dims.rank == 2;
    double scale = exg_get_bool(&args[6]) ? 1 / sqrt((double)f.n) : 1 / (double)f.n;
    signal s = {.rank = 1, .dims = {2}, .sizes = {f.n}};
    int64_t start = exg_get_bool(&args[5]) ? f.n / 2 : 0;
    int64_t time;
    exg_ref weight;

    if (dims.rank < 2 || dims.rank > 3 || !exg_dtype_is_complex(exg_lower_dtype(b, x))) {
        exg_lower_refuse(b, "istft wants complex numbers of two dims, or three");
        return;
    }
    x = EMIT(b, transpose_int, one ? EMIT(b, unsqueeze_default, x, 0) : x, 1, 2);
    x = exg_get_bool(&args[9]) ? along(b, x, 2, true, scale) : to_real(b, x, &s, true, scale);
    weight = f.window.id == EXG_NO_VALUE
                 ? EMIT(b, ones_default, INTS(b, f.n), DTYPE(exg_real_of(exg_lower_dtype(b, x))))
                 : f.window;
    x = overlapped(b, EMIT(b, mul_Tensor, x, weight), &f);
    dims = exg_lower_dims(b, one ? EMIT(b, unsqueeze_default, SELF, 0) : SELF);
    weight = EMIT(b, expand_default, EMIT(b, square_default, weight), INTS(b, 1, dims.n[2], f.n));
    weight = overlapped(b, weight, &f);
    time = exg_lower_dims(b, x).n[1] - start;
    time = exg_is_none(&args[8])          ? time - (exg_get_bool(&args[5]) ? f.n / 2 : 0)
           : exg_get_int(&args[8]) < time ? exg_get_int(&args[8])
                                          : time;
    x = EMIT(b, div_Tensor, exg_lower_slice(b, x, 1, start, time),
             exg_lower_slice(b, weight, 1, start, time));
    x = exg_is_none(&args[8]) ? x : fitted(b, x, 1, exg_get_int(&args[8]));
    results[0] = exg_arg_ref(one ? EMIT(b, squeeze_dim, x, 0) : x);
}

/* What the places of a spectrum of `n` stand for: whole numbers over n * d. */
static void frequencies(exg_builder *b, const exg_argument *args, exg_ref steps,
                        exg_argument *results)
{
    double n = (double)exg_get_int(&args[0]);

    results[0] = exg_arg_ref(EMIT(b, mul_Scalar, steps, 1 / (n * exg_get_float(&args[1]))));
}

void exg_lower_fft_fftfreq(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument dtype = DTYPE(exg_dtype_argument(&args[2], EXG_DTYPE_F32));
    int64_t half = exg_get_int(&args[0]) / 2;
    exg_ref parts[] = {
        EMIT(b, arange_start_step, 0, exg_arg_int(exg_get_int(&args[0]) - half), 1, dtype),
        EMIT(b, arange_start_step, exg_arg_int(-half), 0, 1, dtype),
    };

    frequencies(b, args, EMIT(b, cat_default, exg_arg_refs(b, parts, 2), 0), results);
}

void exg_lower_fft_rfftfreq(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[2], EXG_DTYPE_F32);

    frequencies(b, args, exg_lower_steps(b, exg_get_int(&args[0]) / 2 + 1, dtype, 0, 1), results);
}
