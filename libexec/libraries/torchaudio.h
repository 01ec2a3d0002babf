/* torchaudio.h - operators of torchaudio: one function each for shape and kernel.
 *
 * Meaning: src/libtorchaudio of torchaudio 2.11, and the papers that it names: connectionist
 * temporal classification (Graves 2006), and transducers (Graves 2012). */
#ifndef EXG_LIBEXEC_LIBRARIES_TORCHAUDIO_H
#define EXG_LIBEXEC_LIBRARIES_TORCHAUDIO_H

#include <exg/operator_library.h>

exg_operator_function exg_lfilter_core_loop;
exg_operator_function exg_overdrive_core_loop;
exg_operator_function exg_forced_align_shape;
exg_operator_function exg_forced_align;
exg_operator_function exg_rnnt_loss_shape;
exg_operator_function exg_rnnt_loss;

/* Element `i` of a tensor of int32 or int64. */
static inline int64_t exg_audio_integer(const exg_tensor *t, int64_t i)
{
    return t->dtype == EXG_DTYPE_I64 ? ((const int64_t *)t->data)[i]
                                     : ((const int32_t *)t->data)[i];
}

/* The greatest of a tensor of int32 or int64, of one dim; -1 of none. */
static inline int64_t exg_audio_greatest(const exg_tensor *lengths)
{
    int64_t greatest = -1;

    for (int64_t i = 0; i < lengths->sizes[0]; i++) {
        int64_t length = exg_audio_integer(lengths, i);

        greatest = length > greatest ? length : greatest;
    }
    return greatest;
}

#endif
