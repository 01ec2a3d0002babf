/* epilogue.c - see epilogue.h. */
#include "libexec/device/cuda/epilogue.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/device/cuda/pointwise.h"

#include <exg/operators.h>
#include <string.h>

/* ---- as libraries have it ----------------------------------------------------------------- */

#define NO_VALUE UINT8_MAX

/* Where going through the program has come to. */
typedef struct reading {
    uint8_t result; /* the value that is the kernel's result so far */
    uint8_t other;  /* the value of what is to be added */
    exg_cuda_epilogue e;
} reading;

static bool is_one(const exg_instruction *i, exg_compute compute)
{
    float narrow;
    double wide;

    memcpy(&narrow, i->scalars, sizeof(narrow));
    memcpy(&wide, i->scalars, sizeof(wide));
    return compute == EXG_COMPUTE_F64 ? wide == 1 : narrow == 1;
}

/* result + 1 * other, either way round. */
static bool read_sum(const exg_pointwise *p, const exg_instruction *i, reading *r)
{
    bool both = (i->sources[0] == r->result && i->sources[1] == r->other) ||
                (i->sources[0] == r->other && i->sources[1] == r->result);

    if (!both || r->other == NO_VALUE || r->e.activation != EXG_CUDA_IDENTITY ||
        !is_one(i, p->values[i->target].compute)) {
        return false;
    }
    r->other = NO_VALUE;
    r->result = i->target;
    return true;
}

static bool read_activation(const exg_instruction *i, exg_cuda_activation activation, reading *r)
{
    if (i->sources[0] != r->result || r->e.activation != EXG_CUDA_IDENTITY) {
        return false;
    }
    r->e.activation = activation;
    r->result = i->target;
    return true;
}

/* The kernel's result, or the one operand that is added to it. */
static bool read_load(const exg_kernel_call *call, const exg_instruction *i, int64_t width,
                      reading *r)
{
    const exg_pointwise *p = call->epilogue;
    const exg_pointwise_operand *o = &p->operands[i->operand];
    uint32_t last = p->rank - 1;

    if (i->dtype != call->outputs[0].dtype) {
        return false;
    }
    if (o->index == call->epilogue_self) {
        r->result = i->target;
        return true;
    }
    if (r->e.adds) {
        return false;
    }
    r->e.adds = true;
    r->e.adds_row =
        p->rank == 2 && o->strides[0] == 0 && o->strides[1] == 1 && p->sizes[last] == width;
    r->e.added = (exg_cuda_slot){EXG_CUDA_EPILOGUE, (uint8_t)o->index, 0};
    r->other = i->target;
    return r->e.adds_row || o->is_dense;
}

static bool read_one(const exg_kernel_call *call, const exg_instruction *i, int64_t width,
                     reading *r)
{
    switch (i->kind) {
    case EXG_INSTRUCTION_LOAD:
        return read_load(call, i, width, r);
    case EXG_INSTRUCTION_ROUND: /* libraries round once, at the end */
        return i->target == r->result;
    case EXG_INSTRUCTION_STORE:
        return i->target == r->result && i->dtype == call->outputs[0].dtype;
    case EXG_INSTRUCTION_FORMULA:
        switch ((int)i->formula_id) {
        case EXG_OP_add_Tensor:
            return read_sum(call->epilogue, i, r);
        case EXG_OP_relu_default:
            return read_activation(i, EXG_CUDA_RELU, r);
        case EXG_OP_gelu_tanh:
            return read_activation(i, EXG_CUDA_GELU_TANH, r);
        default:
            return false;
        }
    default:
        return false;
    }
}

bool exg_cuda_read_epilogue(const exg_kernel_call *call, int64_t width, exg_cuda_epilogue *e)
{
    const exg_pointwise *p = call->epilogue;
    reading r = {.result = NO_VALUE, .other = NO_VALUE};
    bool is_read = p != NULL;

    for (uint8_t k = 0; is_read && k < p->instruction_count; k++) {
        is_read = read_one(call, &p->instructions[k], width, &r);
    }
    *e = r.e;
    return is_read;
}

/* ---- by kernels of ours ------------------------------------------------------------------- */

exg_status exg_cuda_add_epilogue(exg_kernel_call *call, exg_error *err)
{
    return call->epilogue == NULL
               ? EXG_OK
               : exg_cuda_add_program(call, call->epilogue, EXG_CUDA_EPILOGUE, err);
}

exg_status exg_cuda_add_finishing(exg_kernel_call *call, const char *file, const char *options,
                                  const char *entry, const void *params, size_t own_bytes,
                                  exg_cuda_launch **launch, exg_error *err)
{
    uint64_t words[WORDS_MAX] = {0};
    uint32_t own = (uint32_t)(own_bytes / sizeof(words[0]));
    uint32_t count = exg_cuda_program_words(call->epilogue, words + own, WORDS_MAX - own);
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (count == 0) {
        return exg_cuda_refuse("an epilogue of so many parameters", err);
    }
    memcpy(words, params, own_bytes);
    exg_cuda_write_program(&text, call->epilogue);
    exg_text_printf(&text, "#define HAS_EPILOGUE\n#include \"%s\"\n", file);
    status = exg_text_string(&text) == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_cuda_step_add_kernel(call, exg_text_string(&text), options, entry, words,
                                            own_bytes + count * sizeof(words[0]), launch, err);
    exg_text_free(&text);
    return status;
}

void exg_cuda_add_epilogue_slots(const exg_kernel_call *call, uint32_t own_bytes,
                                 exg_cuda_launch *launch)
{
    uint32_t own = launch->slot_count;

    exg_cuda_program_slots(call->epilogue, EXG_CUDA_EPILOGUE, launch);
    launch->apart_count = launch->slot_count - own;
    launch->apart_at = own_bytes;
}
