/* kernel.h - what computes one step of a plan on the CPU.
 *
 * A kernel is a row {prepare, run}. The planner fills a call: operands with
 * sizes and strides, the operator's arguments, no data pointers. prepare()
 * checks and precomputes once (chooses a variant, packs, asks for workspace);
 * run() is called many times with data pointers in place and may neither fail
 * nor allocate. Faults of the data (an index out of range, an integer division
 * by zero) raise the call's fault flag and leave a defined value.
 *
 * Operands are the tensors among the arguments in schema order, lists laid out
 * flat, an absent optional tensor as an absent operand. Results are row-major
 * and contiguous unless the row says otherwise. Meaning is PyTorch's.
 */
#ifndef EXG_LIBEXEC_KERNELS_KERNEL_H
#define EXG_LIBEXEC_KERNELS_KERNEL_H

#include "libexport/base/arena.h"
#include "libexport/base/pool.h"

#include <exg/program.h>
#include <exg/tensor.h>
#include <stdatomic.h>

typedef enum exg_fault {
    EXG_FAULT_NONE,
    EXG_FAULT_INDEX,          /* an index outside its dimension */
    EXG_FAULT_DIVIDE_BY_ZERO, /* of integers */
    EXG_FAULT_SINGULAR,       /* a matrix that cannot be factored as asked */
    EXG_FAULT_PARAMETER,      /* what a distribution, or the operator, does not take */
    EXG_FAULT_REGISTERED      /* the kernel of a library said what: exg_registered_error() */
} exg_fault;

/* The first fault of a run, and the index and the dimension's size where it is one. */
typedef struct exg_fault_note {
    _Atomic int fault;
    int64_t index, size; /* size -1: not told */
} exg_fault_note;

typedef struct exg_kernel_call {
    const exg_argument *args; /* by schema position, defaults filled in */
    exg_tensor *inputs;
    exg_tensor *outputs;
    uint32_t arg_count;
    uint32_t input_count;
    uint32_t output_count;

    exg_arena *arena;         /* prepare only: params and packed data live there */
    const void *params;       /* made by prepare */
    uint64_t workspace_bytes; /* asked for by prepare; 64-byte aligned at run */

    void *workspace;
    exg_pool *pool;        /* may be NULL: run in the caller */
    exg_fault_note *fault; /* run raises an exg_fault here */

    const struct exg_random_source *random; /* of draws; set before each run */
    const struct exg_grid *grid;            /* of collectives; known in prepare too */

    /* What follows the kernel, done on parts of its result while they are near: a pointwise
     * program over the result's elements, which takes operand and result from there too. */
    bool takes_epilogue; /* said by prepare */
    bool finishes_apart; /* likewise: but for sums, ReLU and GELU an epilogue is work of its own */
    const struct exg_pointwise *epilogue;
    const exg_tensor *epilogue_inputs;
    uint32_t epilogue_self; /* which of them is what the kernel itself gives */

    bool channels_last;       /* outputs[0] is to be so (suits_channels_last) */
    const exg_tensor *packed; /* what the kernel's packer made; NULL: nothing */
    const void *packing;      /* of_packed: the params of the packer that made it */

    /* Whose kernel this is, in prepare too: data, workspace, fault and random are addresses of
     * its memory then. NULL: the host's. */
    struct exg_accelerator *device;
    const struct exg_operator *op; /* that is computed; NULL: a step of the planner's own */
} exg_kernel_call;

/* Flags. Without ANY_STRIDES every operand is handed over contiguous (the planner
 * copies first). IN_PLACE: output 0 may be operand 0's own memory, same layout. */
#define EXG_KERNEL_ANY_STRIDES   1u
#define EXG_KERNEL_IN_PLACE      2u
#define EXG_KERNEL_ANY_STRIDES_1 4u  /* operand 1 alone: a weight, or a chunk of one */
#define EXG_KERNEL_EACH_RUN      8u  /* its results are not those of its operands alone */
#define EXG_KERNEL_EXCHANGES     16u /* with other ranks */
#define EXG_KERNEL_SEES_EPILOGUE 32u /* prepare is called again once there is one */
#define EXG_KERNEL_RAISES                                                                          \
    64u /* run() may raise a fault of the data; of the pointwise                                   \
           kernel when integers are among its operands */
#define EXG_KERNEL_ROWS_APART                                                                      \
    256u /* what operand 0 has at each index of dim 0 is contiguous; these may lie apart */
#define EXG_KERNEL_LEAVES_UNUSED                                                                   \
    128u                      /* results but the first are absent where nobody reads them          \
                               */
#define EXG_KERNEL_DRAWS 512u /* reads call->random */

typedef struct exg_kernel {
    const char *name;
    /* NULL: nothing to prepare. UNSUPPORTED (dtype, option) with the reason. */
    exg_status (*prepare)(exg_kernel_call *call, exg_error *err);
    void (*run)(const exg_kernel_call *call);
    uint32_t flags;
    /* Brings operand `packs`, when it is the same in every run, into the order that run()
     * reads. Its prepare sees the operands and arguments of the kernel's call (data of
     * operand `packs` alone) and sets the sizes of outputs[0], bytes: what they are says
     * all of the order but the operand's own layout. No element: no use for it. */
    const struct exg_kernel *packer;
    uint32_t packs;
    /* The same where operand 0 is left to what another kernel's packer made of it. Its prepare is
     * UNSUPPORTED where that is of no use. NULL: it takes the operand as it is alone. */
    const struct exg_kernel *of_packed;
    /* Could the result of this call, (n, c, h, w), lie as (n, h, w, c)? Then operand 0 may
     * have any strides, and further results are absent. With a packer only where that has
     * packed. */
    bool (*suits_channels_last)(const exg_kernel_call *call);
} exg_kernel;

/* Bytes from a tensor's data on, the lowest element to the highest; none where low is high. */
typedef struct exg_span {
    int64_t low, high;
} exg_span;

exg_span exg_tensor_span(const exg_tensor *t);

/* Bytes from the first element of what a view with such an offset is on to the view's end; none
 * where it has no elements. False: it begins before that, goes backwards, or 64 bits do not count
 * them. */
bool exg_tensor_end(const exg_tensor *view, int64_t offset, uint64_t *bytes);

/* As many dims, and the same ones. */
bool exg_dims_equal(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank);

/* Of one dtype and the same sizes. */
bool exg_tensor_is_alike(const exg_tensor *a, const exg_tensor *b);

/* The elements of a view whose first one is at `from`, row-major. */
void exg_tensor_gather(const exg_tensor *view, const uint8_t *from, uint8_t *to);

static inline void exg_raise_at(exg_fault_note *note, exg_fault fault, int64_t index, int64_t size)
{
    int none = EXG_FAULT_NONE;

    if (atomic_compare_exchange_strong_explicit(&note->fault, &none, (int)fault,
                                                memory_order_relaxed, memory_order_relaxed)) {
        note->index = index;
        note->size = size;
    }
}

static inline void exg_raise(const exg_kernel_call *call, exg_fault fault)
{
    exg_raise_at(call->fault, fault, 0, -1);
}

/* An index that is outside a dimension of `size`. */
static inline void exg_raise_index(const exg_kernel_call *call, int64_t index, int64_t size)
{
    exg_raise_at(call->fault, EXG_FAULT_INDEX, index, size);
}

/* Scalar arguments by schema position; ints and bools convert. */
double exg_call_float(const exg_kernel_call *call, uint32_t position);
int64_t exg_call_int(const exg_kernel_call *call, uint32_t position);
bool exg_call_bool(const exg_kernel_call *call, uint32_t position);

#endif
