/* torchaudio.c - the library: libexg_torchaudio.so. */
#include "libexec/libraries/torchaudio.h"

#define OPERATOR(text, ...)                                                                        \
    {                                                                                              \
        .size = sizeof(exg_operator_definition), .schema = "torchaudio::" text, __VA_ARGS__        \
    }

static const exg_operator_definition operators[] = {
    OPERATOR("_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) "
             "padded_output_waveform) -> Tensor(a!)",
             .kernel = exg_lfilter_core_loop),
    OPERATOR("_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) "
             "last_out, Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
             .kernel = exg_overdrive_core_loop),
    OPERATOR("forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor "
             "target_lengths, int blank) -> (Tensor, Tensor)",
             .shape = exg_forced_align_shape, .kernel = exg_forced_align),
    OPERATOR("rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor "
             "target_lengths, int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor)",
             .shape = exg_rnnt_loss_shape, .kernel = exg_rnnt_loss),
};

EXG_OPERATOR_LIBRARY(operators, "torchaudio")
