/* convolution.h - what the ways to compute aten.convolution share. */
#ifndef EXG_LIBEXEC_KERNELS_CPU_CONVOLUTION_H
#define EXG_LIBEXEC_KERNELS_CPU_CONVOLUTION_H

#include "libexec/kernels/cpu/gemm.h"

typedef struct convolution {
    int64_t batch, groups, in, out; /* in, out: channels of a group */
    int64_t size[3], result[3], kernel[3];
    int64_t stride[3], padding[3], dilation[3];
    int64_t gap[3]; /* 1, or of a transposed one the stride: every gap-th place is real */
    int64_t taps, positions, plane;
    bool transposed, by_windows, is_depthwise; /* the latter: of bytes */
    bool scatters;         /* a transposed one, as convolution_transposed.c does it: */
    int64_t outs, images;  /* channels of a group, and groups, at a time */
    int64_t columns_bytes; /* in the workspace */
    /* Or, of one channel a group, every stride-th result by itself, a convolution without one: */
    struct convolution *phases;
    int64_t phase_count;
    const struct convolution *whole; /* of a phase, and its first result; NULL: it is none */
    int64_t first[3];
    int64_t tile[3]; /* results of a plane at a time, where by_windows */
    bool has_bias;
    exg_dtype dtype;
    uint32_t bytes;
    uint32_t panel; /* columns of a panel of b */
    exg_gemm gemm;
    exg_move weight_move; /* transposed: to (groups * out, in, taps) in the workspace */
    uint64_t weight_bytes;
    const exg_convert_loops *convert;
} convolution;

/* The coordinate along dimension d that result coordinate o and tap k read, or -1. */
int64_t exg_convolution_source(const convolution *c, int d, int64_t o, int64_t k);

/* Shapes and options of the call; the latter alone, over `rank` spatial dimensions. */
void exg_convolution_read(const exg_kernel_call *call, convolution *c);
void exg_convolution_options(const exg_kernel_call *call, uint32_t rank, convolution *c);

/* The columns of an image as packed panels: an exg_pack_b of a convolution. */
exg_pack_b exg_convolution_pack_columns;

/* convolution_last.c: results with the channels of a position side by side. */
bool exg_convolution_last_suits(const exg_kernel_call *call);
exg_status exg_convolution_last_prepare(exg_kernel_call *call, exg_error *err);
void exg_convolution_last_run(const exg_kernel_call *call);
extern const exg_kernel exg_convolution_last_packer;

/* convolution_transposed.c: one with a stride, of floats; options as they are given. */
bool exg_convolution_scatters(const convolution *c);
exg_status exg_convolution_scatter_plan(exg_kernel_call *call, convolution *c, exg_error *err);
void exg_convolution_scatter_run(const exg_kernel_call *call, const convolution *c);

/* convolution_windows.c: few channels a group, floats; weights as below. */
#define EXG_WINDOW_TAPS 256 /* of all channels */

bool exg_convolution_windows_plan(convolution *c); /* whether that is its way */
void exg_convolution_windows_run(const exg_kernel_call *call, const convolution *c,
                                 const void *weight);

/* convolution_integer.c: weights (groups * out, in, taps). */
bool exg_convolution_integer_suits(exg_dtype dtype);
void exg_convolution_integer_run(const exg_kernel_call *call, const convolution *c,
                                 const void *weight);

/* winograd.c: the same for filters of 3 by 3. Packed weights of this rank are its. */
#define EXG_WINOGRAD_RANK 4

bool exg_winograd_suits(const exg_kernel_call *call);
exg_status exg_winograd_packing_plan(exg_kernel_call *call, exg_error *err);
void exg_winograd_packing_run(const exg_kernel_call *call);
exg_status exg_winograd_prepare(exg_kernel_call *call, exg_error *err);
void exg_winograd_run(const exg_kernel_call *call);

#endif
