/* kernel_args.c - adds a launch of a kernel text, with its options and its parameters. */
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/epilogue.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 512
#define EACH_MAX    32 /* elements of a row that a thread keeps */

#define BLOCK_OF_ROWS 256 /* threads, of a block whose warps take a row each */

static void add_slots(exg_cuda_launch *launch, const char *slots)
{
    static const char letters[] = "iowfr"; /* as exg_cuda_slot_kind */

    for (const char *s = slots; *s != '\0'; s++) {
        const char *letter = strchr(letters, *s);

        if (*s == ' ' || letter == NULL) {
            continue;
        }
        exg_cuda_slot_add(launch, (exg_cuda_slot_kind)(letter - letters),
                          s[1] == 'z'                  ? EXG_CUDA_NO_OPERAND
                          : s[1] >= '0' && s[1] <= '9' ? (uint32_t)(s[1] - '0')
                                                       : 0);
    }
}

exg_status exg_cuda_add(exg_kernel_call *call, const char *file, const char *entry,
                        const char *slots, const void *params, size_t params_bytes,
                        exg_cuda_launch **launch, exg_error *err, const char *options, ...)
{
    char text[OPTIONS_MAX];
    va_list list;
    bool finishes;
    int length;

    va_start(list, options);
    length = vsnprintf(text, sizeof(text), options, list);
    va_end(list);
    if (length < 0 || length >= OPTIONS_MAX) {
        return exg_cuda_refuse("too many options", err);
    }
    if (call->params == NULL) {
        EXG_TRY(exg_cuda_step_begin(call, err));
    }
    finishes = call->epilogue != NULL && strchr(slots, 'e') != NULL;
    EXG_TRY(finishes
                ? exg_cuda_add_finishing(call, file, text, entry, params, params_bytes, launch, err)
                : exg_cuda_step_add_kernel(call, exg_cuda_text_find(file), text, entry, params,
                                           params_bytes, launch, err));
    add_slots(*launch, slots);
    if (finishes) {
        exg_cuda_add_epilogue_slots(call, (uint32_t)params_bytes, *launch);
    }
    return EXG_OK;
}

uint32_t exg_cuda_threads_of_row(const exg_kernel_call *call, int64_t rows, int64_t size)
{
    const exg_cuda_device *d = (const exg_cuda_device *)call->device;
    int64_t each = rows > 32 * (int64_t)d->processors ? 16 : 4; /* elements of a thread */
    uint32_t threads = EXG_CUDA_WARP;

    while (threads < 1024 && threads * each < size) {
        threads *= 2;
    }
    return threads;
}

const char *exg_cuda_row_options(uint32_t threads, int64_t size, uint32_t bytes, char *text,
                                 size_t text_bytes)
{
    int64_t vector = bytes == 0 ? 1 : EXG_CUDA_WORD / bytes;
    int64_t each = exg_ceil_div(size, vector * threads) * vector;
    bool fits = bytes > 0 && size > 0 && each <= EACH_MAX && each * bytes <= EACH_MAX * 4;
    int length = threads == EXG_CUDA_WARP
                     ? snprintf(text, text_bytes, "-DROW_IS_WARP -DBLOCK_THREADS=%d", BLOCK_OF_ROWS)
                     : snprintf(text, text_bytes, "-DBLOCK_THREADS=%u", threads);

    if (fits) {
        (void)snprintf(text + length, text_bytes - (size_t)length, " -DEACH=%d", (int)each);
    }
    return text;
}

void exg_cuda_row_grid(exg_cuda_launch *launch, uint32_t threads, int64_t rows)
{
    bool by_warp = threads == EXG_CUDA_WARP;
    int64_t blocks = by_warp ? exg_ceil_div(rows, BLOCK_OF_ROWS / EXG_CUDA_WARP) : rows;

    launch->threads = by_warp ? BLOCK_OF_ROWS : threads;
    launch->blocks[0] = (uint32_t)EXG_MIN(blocks, EXG_CUDA_BLOCKS_MAX);
}
