/* widened.c - tensors of 16 bits are computed with as float32: what autocast makes of torchvision's
 * operators. */
#include "libexec/libraries/torchvision.h"

#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX 8 /* of an operator of torchvision: inputs, or outputs */

static bool is_short(const exg_tensor *t)
{
    return t->dtype == EXG_DTYPE_F16 || t->dtype == EXG_DTYPE_BF16;
}

static float of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = half & 0x7fff;

    if (rest >= 0x7c00) { /* infinity, NaN */
        return of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    }
    /* the exponent is 112 less; that scales denormal numbers, too */
    return of_bits(sign | rest << 13) * 0x1p112f;
}

static uint16_t to_bfloat(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* To the nearest, ties to even: by adding what leaves as many digits as there are. */
static uint16_t to_half(float value)
{
    uint32_t bits;
    uint32_t sign;
    float rounded;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits >= 0x47800000) { /* 65536 and more, NaN */
        return (uint16_t)(sign | (bits > 0x7f800000 ? 0x7e00 : 0x7c00));
    }
    if (bits < 0x38800000) { /* less than 2^-14: multiples of 2^-24 */
        rounded = of_bits(bits) + 0.5f;
        memcpy(&bits, &rounded, sizeof(bits));
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1); /* may become infinity, as it should */
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static void widen(const exg_tensor *from, float *to, int64_t count)
{
    const uint16_t *items = from->data;

    for (int64_t i = 0; i < count; i++) {
        to[i] =
            from->dtype == EXG_DTYPE_F16 ? of_half(items[i]) : of_bits((uint32_t)items[i] << 16);
    }
}

static void narrow(const float *from, const exg_tensor *to, int64_t count)
{
    uint16_t *items = to->data;

    for (int64_t i = 0; i < count; i++) {
        items[i] = to->dtype == EXG_DTYPE_F16 ? to_half(from[i]) : to_bfloat(from[i]);
    }
}

static int64_t count_of(const exg_tensor *t)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        count *= t->sizes[d];
    }
    return count;
}

/* `wide`: the tensors, those of 16 bits with memory of their own. false: out of memory. */
static bool take_wide(const exg_tensor *tensors, uint32_t count, exg_tensor *wide)
{
    bool took = true;

    memcpy(wide, tensors, count * sizeof(*wide));
    for (uint32_t i = 0; i < count; i++) {
        if (is_short(&tensors[i])) {
            wide[i].dtype = EXG_DTYPE_F32;
            wide[i].data = malloc((size_t)(count_of(&wide[i]) + 1) * sizeof(float));
            took = took && wide[i].data != NULL;
        }
    }
    return took;
}

static void free_wide(const exg_tensor *tensors, uint32_t count, exg_tensor *wide)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_short(&tensors[i])) {
            free(wide[i].data);
        }
    }
}

exg_status exg_vision_widened(exg_operator_call *call, exg_operator_function *function,
                              exg_error *err)
{
    exg_operator_call wide = *call;
    exg_tensor inputs[TENSORS_MAX], outputs[TENSORS_MAX];
    exg_status status;
    bool took;

    if (call->input_count > TENSORS_MAX || call->output_count > TENSORS_MAX) {
        return EXG_OPERATOR_FAIL(err, LIMIT, "more than %d tensors", TENSORS_MAX);
    }
    took = take_wide(call->inputs, call->input_count, inputs);
    took = take_wide(call->outputs, call->output_count, outputs) && took;
    for (uint32_t i = 0; took && i < call->input_count; i++) {
        if (is_short(&call->inputs[i])) {
            widen(&call->inputs[i], inputs[i].data, count_of(&inputs[i]));
        }
    }
    wide.inputs = inputs;
    wide.outputs = outputs;
    status = took ? function(&wide, err) : EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    call->length = wide.length;
    for (uint32_t o = 0; status == EXG_OK && o < call->output_count; o++) {
        if (is_short(&call->outputs[o])) {
            narrow(outputs[o].data, &call->outputs[o], count_of(&outputs[o]));
        }
    }
    free_wide(call->inputs, call->input_count, inputs);
    free_wide(call->outputs, call->output_count, outputs);
    return status;
}
