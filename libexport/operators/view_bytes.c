/* view_bytes.c - views that read the bytes of a tensor as another dtype. */
#include "libexport/operators/lower.h"

#define EXG_ROWS "libexport/operators/view.def"
#include "libexport/operators/rows.h"

/* Elements `ratio` times as wide: the last dim, dense, holds so many fewer of them. */
static exg_status widen(const exg_strided *in, int64_t ratio, exg_strided *out, exg_error *err)
{
    if (in->rank == 0 || in->sizes[in->rank - 1] % ratio != 0 ||
        (in->strides[in->rank - 1] != 1 && in->sizes[in->rank - 1] > 1) ||
        in->offset % ratio != 0) {
        return EXG_SHAPE_FAIL(err, "a last dim that wider elements do not divide");
    }
    for (uint32_t d = 0; d + 1 < in->rank; d++) {
        if (in->strides[d] % ratio != 0 && in->sizes[d] > 1) {
            return EXG_SHAPE_FAIL(err, "strides that wider elements do not divide");
        }
        out->strides[d] = in->strides[d] / ratio;
    }
    out->sizes[in->rank - 1] = in->sizes[in->rank - 1] / ratio;
    out->strides[in->rank - 1] = 1;
    out->offset = in->offset / ratio;
    return EXG_OK;
}

static void narrow(const exg_strided *in, int64_t ratio, exg_strided *out)
{
    for (uint32_t d = 0; d < in->rank; d++) {
        out->strides[d] = in->strides[d] * ratio;
    }
    out->offset = in->offset * ratio;
}

exg_status exg_view_as_real(const exg_argument *args, const exg_strided *in, exg_strided *out,
                            exg_error *err)
{
    (void)args;
    if (!exg_dtype_is_complex(in->dtype) || in->rank == EXG_SHAPE_RANK_MAX) {
        return EXG_SHAPE_FAIL(err, "view_as_real of %s", exg_dtype_name(in->dtype));
    }
    *out = *in;
    out->dtype = exg_real_of(in->dtype);
    narrow(in, 2, out);
    out->sizes[in->rank] = 2;
    out->strides[in->rank] = 1;
    out->rank++;
    return EXG_OK;
}

exg_status exg_view_as_complex(const exg_argument *args, const exg_strided *in, exg_strided *out,
                               exg_error *err)
{
    (void)args;
    if (in->rank == 0 || in->sizes[in->rank - 1] != 2 || !exg_dtype_is_float(in->dtype) ||
        exg_real_of(exg_complex_of(in->dtype)) != in->dtype) {
        return EXG_SHAPE_FAIL(err, "view_as_complex wants floats in pairs along the last dim");
    }
    *out = *in;
    out->dtype = exg_complex_of(in->dtype);
    EXG_TRY(widen(in, 2, out, err));
    out->rank--;
    return EXG_OK;
}

exg_status exg_view_dtype(const exg_argument *args, const exg_strided *in, exg_strided *out,
                          exg_error *err)
{
    exg_dtype dtype = exg_dtype_argument(&args[1], in->dtype);
    int64_t from = exg_dtype_bytes(in->dtype);
    int64_t to = exg_dtype_bytes(dtype);

    *out = *in;
    out->dtype = dtype;
    if (to > from) {
        return widen(in, to / from, out, err);
    }
    if (to < from) {
        if (in->rank == 0 || (in->strides[in->rank - 1] != 1 && in->sizes[in->rank - 1] > 1)) {
            return EXG_SHAPE_FAIL(err, "a last dim whose elements do not lie side by side");
        }
        narrow(in, from / to, out);
        out->sizes[in->rank - 1] *= from / to;
        out->strides[in->rank - 1] = 1;
    }
    return EXG_OK;
}
