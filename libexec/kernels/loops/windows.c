/* windows.c - windows of a row under filters, f32 and f64. */
#include "libexec/kernels/loops/windows.h"
#include "libexec/kernels/loops/row.h"

#define REAL       float
#define VECTOR     exg_vf32
#define NAME(name) f32_##name
#include "libexec/kernels/loops/windows_body.h"
#undef REAL
#undef VECTOR
#undef NAME

#define REAL       double
#define VECTOR     exg_vf64
#define NAME(name) f64_##name
#include "libexec/kernels/loops/windows_body.h"

const exg_windows_loops EXG_ISA_NAME(exg_loops_windows) = {
    .f32 = {f32_one, f32_four},
    .f64 = {f64_one, f64_four},
};
