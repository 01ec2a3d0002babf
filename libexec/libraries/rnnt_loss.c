/* rnnt_loss.c - the loss of a transducer, and its gradient by the logits.
 *
 * A path goes from (0, 0) to the last step and target, by a blank to the next step or by an
 * emitted target to the next target, and ends with a blank. before: the sum of all paths to a
 * place, after: of all from it. Sums are of logarithms, in double. */
#include "libexec/libraries/torchaudio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

exg_status exg_rnnt_loss_shape(exg_operator_call *call, exg_error *err)
{
    const exg_tensor *logits = &call->inputs[0];

    if (logits->rank != 4 || call->inputs[1].rank != 2 || call->inputs[2].rank != 1 ||
        call->inputs[3].rank != 1) {
        return EXG_OPERATOR_FAIL(err, MALFORMED,
                                 "logits are (B, T, U, C), targets (B, U - 1), lengths (B)");
    }
    call->outputs[0] = (exg_tensor){.dtype = logits->dtype, .rank = 1, .sizes = {logits->sizes[0]}};
    call->outputs[1] = *logits;
    return EXG_OK;
}

/* One sequence. */
typedef struct sequence {
    const float *logits;
    const int32_t *targets;
    float *gradients;
    double *norms, *before, *after;               /* by step and target, as all below */
    int64_t steps, places, width, classes, blank; /* places: targets and one; width: of a row */
    double clamp;
    bool fused;
} sequence;

static const float *logits_at(const sequence *s, int64_t t, int64_t u)
{
    return s->logits + (t * s->width + u) * s->classes;
}

static double log_probability(const sequence *s, int64_t t, int64_t u, int64_t label)
{
    return (double)logits_at(s, t, u)[label] - s->norms[t * s->width + u];
}

static double add_logs(double a, double b)
{
    double most = a > b ? a : b;

    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

static void normalize(const sequence *s)
{
    for (int64_t t = 0; t < s->steps; t++) {
        for (int64_t u = 0; u < s->places; u++) {
            const float *x = logits_at(s, t, u);
            double most = -INFINITY, sum = 0;

            for (int64_t c = 0; c < s->classes; c++) {
                most = x[c] > most ? x[c] : most;
            }
            for (int64_t c = 0; c < s->classes; c++) {
                sum += exp(x[c] - most);
            }
            s->norms[t * s->width + u] = s->fused ? most + log(sum) : 0;
        }
    }
}

static void sum_paths(const sequence *s)
{
    for (int64_t t = 0; t < s->steps; t++) {
        for (int64_t u = 0; u < s->places; u++) {
            double by_blank =
                t == 0 ? -INFINITY
                       : s->before[(t - 1) * s->width + u] + log_probability(s, t - 1, u, s->blank);
            double by_target = u == 0 ? -INFINITY
                                      : s->before[t * s->width + u - 1] +
                                            log_probability(s, t, u - 1, s->targets[u - 1]);

            s->before[t * s->width + u] = t + u == 0 ? 0 : add_logs(by_blank, by_target);
        }
    }
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        for (int64_t u = s->places - 1; u >= 0; u--) {
            bool is_last = t == s->steps - 1 && u == s->places - 1;
            double rest = is_last             ? 0
                          : t == s->steps - 1 ? -INFINITY
                                              : s->after[(t + 1) * s->width + u];
            double by_blank = log_probability(s, t, u, s->blank) + rest;
            double by_target = u == s->places - 1 ? -INFINITY
                                                  : s->after[t * s->width + u + 1] +
                                                        log_probability(s, t, u, s->targets[u]);

            s->after[t * s->width + u] = add_logs(by_blank, by_target);
        }
    }
}

/* What is taken from a place by `label`: the sum of the paths after it, or of none. */
static double rest_by(const sequence *s, int64_t t, int64_t u, int64_t label)
{
    if (label == s->blank && t == s->steps - 1 && u == s->places - 1) {
        return 0;
    }
    if (label == s->blank && t < s->steps - 1) {
        return s->after[(t + 1) * s->width + u];
    }
    return u < s->places - 1 && label == s->targets[u] ? s->after[t * s->width + u + 1] : -INFINITY;
}

static void set_gradients(const sequence *s)
{
    for (int64_t t = 0; t < s->steps; t++) {
        for (int64_t u = 0; u < s->places; u++) {
            const int64_t at = t * s->width + u;

            for (int64_t c = 0; c < s->classes; c++) {
                double shared = s->before[at] - s->after[0] + log_probability(s, t, u, c);
                double gradient = -exp(shared + rest_by(s, t, u, c));

                gradient += s->fused ? exp(shared + s->after[at]) : 0;
                if (s->clamp > 0) {
                    gradient = fmax(fmin(gradient, s->clamp), -s->clamp);
                }
                s->gradients[at * s->classes + c] = (float)gradient;
            }
        }
    }
}

static exg_status check_lengths(const exg_operator_call *call, exg_error *err)
{
    const exg_tensor *logits = &call->inputs[0], *targets = &call->inputs[1];
    const int32_t *steps = call->inputs[2].data, *counts = call->inputs[3].data;
    const int32_t *labels = targets->data;

    if (exg_audio_greatest(&call->inputs[2]) != logits->sizes[1] ||
        exg_audio_greatest(&call->inputs[3]) + 1 != logits->sizes[2]) {
        return EXG_OPERATOR_FAIL(err, USAGE, "the lengths are not those of the logits");
    }
    for (int64_t b = 0; b < logits->sizes[0]; b++) {
        if (steps[b] < 1 || counts[b] < 0) {
            return EXG_OPERATOR_FAIL(err, USAGE, "sequence %lld has a length of none",
                                     (long long)b);
        }
        for (int64_t u = 0; u < counts[b]; u++) {
            int32_t label = labels[b * targets->sizes[1] + u];

            if (label < 0 || label >= logits->sizes[3]) {
                return EXG_OPERATOR_FAIL(err, USAGE, "target %lld of sequence %lld is no class",
                                         (long long)u, (long long)b);
            }
        }
    }
    return EXG_OK;
}

static exg_status check(const exg_operator_call *call, exg_error *err)
{
    const exg_tensor *logits = &call->inputs[0], *targets = &call->inputs[1];
    const int64_t batch = logits->sizes[0], blank = exg_operator_int(call, 4);

    if (logits->dtype != EXG_DTYPE_F32 || targets->dtype != EXG_DTYPE_I32 ||
        call->inputs[2].dtype != EXG_DTYPE_I32 || call->inputs[3].dtype != EXG_DTYPE_I32) {
        return EXG_OPERATOR_FAIL(err, UNSUPPORTED,
                                 "logits of float32, targets and lengths of int32 alone are "
                                 "computed");
    }
    if (targets->sizes[0] != batch || call->inputs[2].sizes[0] != batch ||
        call->inputs[3].sizes[0] != batch || targets->sizes[1] + 1 != logits->sizes[2]) {
        return EXG_OPERATOR_FAIL(err, USAGE, "logits, targets and lengths do not fit");
    }
    if (blank < 0 || blank >= logits->sizes[3]) {
        return EXG_OPERATOR_FAIL(err, USAGE, "blank is %lld of %lld classes", (long long)blank,
                                 (long long)logits->sizes[3]);
    }
    return check_lengths(call, err);
}

exg_status exg_rnnt_loss(exg_operator_call *call, exg_error *err)
{
    const int64_t *sizes = call->inputs[0].sizes;
    double *memory;

    if (check(call, err) != EXG_OK) {
        return err->status;
    }
    memory = calloc((size_t)(sizes[1] * sizes[2]) + 1, 3 * sizeof(double));
    if (memory == NULL) {
        return EXG_OPERATOR_FAIL(err, NO_MEMORY, "out of memory");
    }
    for (int64_t b = 0; b < sizes[0]; b++) {
        const int64_t all = sizes[1] * sizes[2] * sizes[3];
        sequence s = {.logits = (const float *)call->inputs[0].data + b * all,
                      .targets = (const int32_t *)call->inputs[1].data + b * (sizes[2] - 1),
                      .gradients = (float *)call->outputs[1].data + b * all,
                      .norms = memory,
                      .before = memory + sizes[1] * sizes[2],
                      .after = memory + 2 * sizes[1] * sizes[2],
                      .steps = ((const int32_t *)call->inputs[2].data)[b],
                      .places = ((const int32_t *)call->inputs[3].data)[b] + 1,
                      .width = sizes[2],
                      .classes = sizes[3],
                      .blank = exg_operator_int(call, 4),
                      .clamp = exg_operator_float(call, 5),
                      .fused = exg_operator_bool(call, 6)};

        memset(s.gradients, 0, (size_t)all * sizeof(float));
        normalize(&s);
        sum_paths(&s);
        set_gradients(&s);
        ((float *)call->outputs[0].data)[b] = (float)-s.after[0];
    }
    free(memory);
    return EXG_OK;
}
