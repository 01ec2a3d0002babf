/* rows.c - the device's kernels by the names of the host's. */
#include "libexec/device/cuda/epilogue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 512

static const exg_kernel *const rows[] = {
#define EXG_CUDA_ROW(name) &exg_cuda_##name,
    EXG_CUDA_KERNELS(EXG_CUDA_ROW)
#undef EXG_CUDA_ROW
};

/* By name: the plugin is a library of its own, where the host's kernels have no address. */
const exg_kernel *exg_cuda_kernel_of(const exg_kernel *kernel)
{
    if ((kernel->flags & EXG_KERNEL_EXCHANGES) != 0) { /* they ask the device's lines */
        return kernel;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i]->name, kernel->name) == 0) {
            return rows[i];
        }
    }
    return NULL;
}

const char *exg_cuda_dtype(exg_dtype dtype)
{
    static const char *const names[EXG_DTYPE_COUNT] = {
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind) [EXG_DTYPE_##id] = #id,
#include <exg/dtype.def>
#undef EXG_DTYPE
    };

    return names[dtype == EXG_DTYPE_U64 ? EXG_DTYPE_I64 : dtype]; /* as the host has it */
}

const char *exg_cuda_dtype_or(const exg_kernel_call *call, uint32_t input, exg_dtype otherwise)
{
    return exg_cuda_dtype(exg_cuda_has(call, input) ? call->inputs[input].dtype : otherwise);
}

bool exg_cuda_has(const exg_kernel_call *call, uint32_t input)
{
    return input < call->input_count && !exg_tensor_is_absent(&call->inputs[input]);
}

exg_status exg_cuda_refuse(const char *what, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "DEV-010", "CUDA leaves this to the host: %s", what);
}

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

void exg_cuda_windows(const exg_tensor *a, const exg_tensor *b, cuda_window *of_a,
                      cuda_window *of_b)
{
    int32_t rank = 0;

    memset(of_a, 0, sizeof(*of_a));
    memset(of_b, 0, sizeof(*of_b));
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t size = a->sizes[d];

        if (size == 1) {
            continue;
        }
        if (rank > 0 && of_a->strides[rank - 1] == a->strides[d] * size &&
            of_b->strides[rank - 1] == b->strides[d] * size) {
            of_a->sizes[rank - 1] *= size;
        } else {
            of_a->sizes[rank++] = size;
        }
        of_b->sizes[rank - 1] = of_a->sizes[rank - 1];
        of_a->strides[rank - 1] = a->strides[d];
        of_b->strides[rank - 1] = b->strides[d];
    }
    of_a->rank = of_b->rank = rank;
}

cuda_window exg_cuda_window(const exg_tensor *tensor)
{
    cuda_window window;
    cuda_window same;

    exg_cuda_windows(tensor, tensor, &window, &same);
    return window;
}
