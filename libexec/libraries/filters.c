/* filters.c - filters of sound whose every sample follows from those before it. */
#include "libexec/libraries/torchaudio.h"

/* Are all tensors float32, or all float64? */
static exg_status check_dtypes(const exg_operator_call *call, exg_error *err)
{
    exg_dtype dtype = call->inputs[0].dtype;

    for (uint32_t i = 0; i < call->input_count; i++) {
        if (dtype != EXG_DTYPE_F32 && dtype != EXG_DTYPE_F64) {
            return EXG_OPERATOR_FAIL(err, UNSUPPORTED, "float32 and float64 alone are computed");
        }
        if (call->inputs[i].dtype != dtype) {
            return EXG_OPERATOR_FAIL(err, MALFORMED, "tensor %u is of another dtype", i);
        }
    }
    return EXG_OK;
}

/* ---- lfilter: (batch, channels, samples), (channels, order), written (.., samples + order - 1) --
 */

#define LFILTER(name, type)                                                                        \
    static void name(void *context, uint32_t line)                                                 \
    {                                                                                              \
        const exg_operator_call *call = context;                                                   \
        const int64_t samples = call->inputs[0].sizes[2];                                          \
        const int64_t channels = call->inputs[1].sizes[0];                                         \
        const int64_t order = call->inputs[1].sizes[1];                                            \
        const type *in = (const type *)call->inputs[0].data + line * samples;                      \
        const type *a = (const type *)call->inputs[1].data + line % channels * order;              \
        type *out = (type *)call->inputs[2].data + line * (samples + order - 1);                   \
                                                                                                   \
        for (int64_t i = 0; i < samples; i++) {                                                    \
            type value = in[i];                                                                    \
                                                                                                   \
            for (int64_t k = 0; k < order; k++) {                                                  \
                value -= out[i + k] * a[k];                                                        \
            }                                                                                      \
            out[i + order - 1] = value;                                                            \
        }                                                                                          \
    }

LFILTER(lfilter_f32, float)
LFILTER(lfilter_f64, double)

exg_status exg_lfilter_core_loop(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0], *a = &call->inputs[1], *out = &call->inputs[2];

    if (in->rank != 3 || a->rank != 2 || out->rank != 3 || a->sizes[0] != in->sizes[1] ||
        a->sizes[1] < 1 || out->sizes[0] != in->sizes[0] || out->sizes[1] != in->sizes[1] ||
        out->sizes[2] != in->sizes[2] + a->sizes[1] - 1) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "windows, coefficients and waveform do not fit");
    }
    if (check_dtypes(call, err) != EXG_OK) {
        return err->status;
    }
    call->parallel(call, in->dtype == EXG_DTYPE_F64 ? lfilter_f64 : lfilter_f32, call,
                   (uint32_t)(in->sizes[0] * in->sizes[1]));
    return EXG_OK;
}

/* ---- overdrive: (channels, samples) twice, (channels) twice, written (channels, samples) --------
 */

#define OVERDRIVE(name, type)                                                                      \
    static void name(void *context, uint32_t channel)                                              \
    {                                                                                              \
        const exg_operator_call *call = context;                                                   \
        const int64_t samples = call->inputs[0].sizes[1];                                          \
        const type *wave = (const type *)call->inputs[0].data + channel * samples;                 \
        const type *bent = (const type *)call->inputs[1].data + channel * samples;                 \
        type *last_in = (type *)call->inputs[2].data + channel;                                    \
        type *last_out = (type *)call->inputs[3].data + channel;                                   \
        type *out = (type *)call->inputs[4].data + channel * samples;                              \
                                                                                                   \
        for (int64_t i = 0; i < samples; i++) {                                                    \
            *last_out = (type)(bent[i] - *last_in + 0.995 * *last_out);                            \
            *last_in = bent[i];                                                                    \
            out[i] = (type)(wave[i] * 0.5 + *last_out * 0.75);                                     \
        }                                                                                          \
    }

OVERDRIVE(overdrive_f32, float)
OVERDRIVE(overdrive_f64, double)

exg_status exg_overdrive_core_loop(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *t = call->inputs;

    if (t[0].rank != 2 || t[1].rank != 2 || t[2].rank != 1 || t[3].rank != 1 || t[4].rank != 2 ||
        t[1].sizes[0] != t[0].sizes[0] || t[1].sizes[1] != t[0].sizes[1] ||
        t[2].sizes[0] != t[0].sizes[0] || t[3].sizes[0] != t[0].sizes[0] ||
        t[4].sizes[0] != t[0].sizes[0] || t[4].sizes[1] != t[0].sizes[1]) {
        return EXG_OPERATOR_FAIL(err, MALFORMED, "the waveforms, and what was last, do not fit");
    }
    if (check_dtypes(call, err) != EXG_OK) {
        return err->status;
    }
    call->parallel(call, t[0].dtype == EXG_DTYPE_F64 ? overdrive_f64 : overdrive_f32, call,
                   (uint32_t)t[0].sizes[0]);
    return EXG_OK;
}
