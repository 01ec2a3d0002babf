/* fft.c - Stockham's passes, of one line and of as many side by side as a vector has doubles. */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"

#define LANE       double
#define PASS(name) one_##name
#include "libexec/kernels/loops/fft_body.h"
#undef LANE
#undef PASS

#define LANE       exg_vf64
#define PASS(name) lines_##name
#include "libexec/kernels/loops/fft_body.h"
#undef LANE
#undef PASS

const exg_fft_loops EXG_ISA_NAME(exg_loops_fft) = {.lines = EXG_VF64,
                                                   .transform = {one_transform, lines_transform}};
