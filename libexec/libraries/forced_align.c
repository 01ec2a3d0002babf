/* forced_align.c - where in time each target lies: the most likely path through the targets with
 * a blank before, between and after them. State 2 i is a blank, 2 i + 1 target i. */
#include "libexec/libraries/torchaudio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

exg_status exg_forced_align_shape(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0], *targets = &call->inputs[1];

    if (x->rank != 3 || targets->rank != 2 || call->inputs[2].rank != 1 ||
        call->inputs[3].rank != 1) {
        return EXG_OPERATOR_FAIL(err, MALFORMED,
                                 "log_probs are (1, T, C), targets (1, L), lengths (1)");
    }
    call->outputs[0] =
        (exg_tensor){.dtype = targets->dtype, .rank = 2, .sizes = {x->sizes[0], x->sizes[1]}};
    call->outputs[1] = *x;
    return EXG_OK;
}

static bool is_integer(const exg_tensor *t)
{
    return t->dtype == EXG_DTYPE_I32 || t->dtype == EXG_DTYPE_I64;
}

static exg_status check(const exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0], *targets = &call->inputs[1];
    int64_t blank = exg_operator_int(call, 4);
    int64_t repeats = 0;

    if ((x->dtype != EXG_DTYPE_F32 && x->dtype != EXG_DTYPE_F64) || !is_integer(targets) ||
        !is_integer(&call->inputs[2]) || !is_integer(&call->inputs[3])) {
        return EXG_OPERATOR_FAIL(err, UNSUPPORTED,
                                 "log_probs of float32 or float64, targets and lengths of int32 or "
                                 "int64 alone are computed");
    }
    if (x->sizes[0] != 1 || targets->sizes[0] != 1) {
        return EXG_OPERATOR_FAIL(err, USAGE, "one sequence alone can be aligned");
    }
    if (blank < 0 || blank >= x->sizes[2]) {
        return EXG_OPERATOR_FAIL(err, USAGE, "blank is %lld of %lld classes", (long long)blank,
                                 (long long)x->sizes[2]);
    }
    if (exg_audio_greatest(&call->inputs[2]) != x->sizes[1] ||
        exg_audio_greatest(&call->inputs[3]) != targets->sizes[1]) {
        return EXG_OPERATOR_FAIL(err, USAGE, "the lengths are not those of the tensors");
    }
    for (int64_t i = 0; i < targets->sizes[1]; i++) {
        if (exg_audio_integer(targets, i) < 0 || exg_audio_integer(targets, i) >= x->sizes[2]) {
            return EXG_OPERATOR_FAIL(err, USAGE, "target %lld is no class", (long long)i);
        }
        repeats += i > 0 && exg_audio_integer(targets, i) == exg_audio_integer(targets, i - 1);
    }
    return x->sizes[1] >= targets->sizes[1] + repeats
               ? EXG_OK
               : EXG_OPERATOR_FAIL(err, USAGE, "%lld targets, %lld of them repeated, in %lld steps",
                                   (long long)targets->sizes[1], (long long)repeats,
                                   (long long)x->sizes[1]);
}

static int64_t label_of(const exg_operator_call *call, int64_t state)
{
    return state % 2 == 0 ? exg_operator_int(call, 4)
                          : exg_audio_integer(&call->inputs[1], state / 2);
}

/* From which of the states before, so many states back, state `s` is reached best. */
#define BEST(name, type)                                                                           \
    static int8_t name(const exg_operator_call *call, const type *before, int64_t s, type *score)  \
    {                                                                                              \
        bool skips = s % 2 == 1 && s > 1 && label_of(call, s) != label_of(call, s - 2);            \
        type stay = before[s];                                                                     \
        type next = s > 0 ? before[s - 1] : -(type)INFINITY;                                       \
        type skip = skips ? before[s - 2] : -(type)INFINITY;                                       \
                                                                                                   \
        if (skip > next && skip > stay) {                                                          \
            *score = skip;                                                                         \
            return 2;                                                                              \
        }                                                                                          \
        *score = next > stay ? next : stay;                                                        \
        return next > stay;                                                                        \
    }

/* `scores`: two rows of states; `back`: by time and state. */
#define ALIGN(name, best, type)                                                                    \
    static int64_t name(const exg_operator_call *call, void *memory, int8_t *back, int64_t states) \
    {                                                                                              \
        const type *x = call->inputs[0].data;                                                      \
        const int64_t steps = call->inputs[0].sizes[1], classes = call->inputs[0].sizes[2];        \
        type *row[2] = {memory, (type *)memory + states};                                          \
        const type *last = row[(steps - 1) % 2];                                                   \
                                                                                                   \
        for (int64_t s = 0; s < states; s++) {                                                     \
            row[0][s] = s < 2 ? x[label_of(call, s)] : -(type)INFINITY;                            \
        }                                                                                          \
        for (int64_t t = 1; t < steps; t++) {                                                      \
            for (int64_t s = 0; s < states; s++) {                                                 \
                type score;                                                                        \
                                                                                                   \
                back[t * states + s] = best(call, row[(t - 1) % 2], s, &score);                    \
                row[t % 2][s] = score + x[t * classes + label_of(call, s)];                        \
            }                                                                                      \
        }                                                                                          \
        return states == 1 || last[states - 1] > last[states - 2] ? states - 1 : states - 2;       \
    }

BEST(best_f32, float)
BEST(best_f64, double)
ALIGN(align_f32, best_f32, float)
ALIGN(align_f64, best_f64, double)

exg_status exg_forced_align(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *x = &call->inputs[0], *paths = &call->outputs[0];
    const int64_t steps = x->sizes[1], states = 2 * call->inputs[1].sizes[1] + 1;
    const size_t bytes = x->dtype == EXG_DTYPE_F64 ? sizeof(double) : sizeof(float);
    void *scores;
    int8_t *back;
    int64_t state;

    if (check(call, err) != EXG_OK) {
        return err->status;
    }
    memcpy(call->outputs[1].data, x->data, (size_t)(steps * x->sizes[2]) * bytes);
    if (steps == 0) {
        return EXG_OK;
    }
    scores = calloc((size_t)states, 2 * bytes);
    back = calloc((size_t)steps, (size_t)states);
    if (scores == NULL || back == NULL) {
        free(scores);
        free(back);
        return EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    }
    state = (x->dtype == EXG_DTYPE_F64 ? align_f64 : align_f32)(call, scores, back, states);
    for (int64_t t = steps - 1; t >= 0; t--) {
        if (paths->dtype == EXG_DTYPE_I64) {
            ((int64_t *)paths->data)[t] = label_of(call, state);
        } else {
            ((int32_t *)paths->data)[t] = (int32_t)label_of(call, state);
        }
        state -= back[t * states + state];
    }
    free(scores);
    free(back);
    return EXG_OK;
}
