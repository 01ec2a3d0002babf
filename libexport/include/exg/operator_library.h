/* operator_library.h - operators that are not PyTorch's, given in C.
 *
 * A library describes operators: schema, shape, kernel, and what else is to be said. It is either
 * handed to exg_operators_register() by the program that has it, or it is a shared object with one
 * function, exg_operator_library_get(), which exg_operators_load() (exg run --ops FILE.so) calls.
 * Either way the operators are rows of that exg_operators and of no other: programs that are
 * verified against it run them, on ranks of a mesh too, and a dispatcher over it dispatches them.
 *
 * No file names a library: what is loaded is what the user names, and libexg_torchvision.so and
 * libexg_torchaudio.so, which are beside the other plugins, for programs with operators of
 * torchvision and torchaudio.
 *
 * A shared object of kernels needs no symbol of exg: what they use is in the call, or inline here.
 * One with decompositions or derivatives calls exg_emit() and its kin (operators.h) of whoever
 * loads it: the command exg has them, another program links with the shared libexg_export.
 *
 * Threads: functions of a library may be called from several threads at once, each with a call of
 * its own.
 */
#ifndef EXG_OPERATOR_LIBRARY_H
#define EXG_OPERATOR_LIBRARY_H

#include <exg/operators.h>
#include <exg/tensor.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up when a struct below, exg_argument, exg_tensor or exg_error changes otherwise than by
 * growing at its end. */
#define EXG_OPERATOR_LIBRARY_VERSION 1

/* One call of an operator. Tensors are row-major without gaps. */
typedef struct exg_operator_call {
    size_t size;              /* that the caller filled */
    const exg_argument *args; /* by schema position, defaults filled in: numbers, lists of numbers,
                                 strings, dtypes; of a tensor only that it is one */
    /* The tensors among the arguments, in schema order, lists laid out flat, an absent one as
     * exg_tensor_is_absent(). Only those that the schema writes, Tensor(a!), may be written. */
    const exg_tensor *inputs;
    /* The results in schema order, without those that are arguments, Tensor(a!). */
    exg_tensor *outputs;
    uint32_t arg_count, input_count, output_count;
    int64_t length; /* what `length` gave, where there is one */
    void *user;     /* the operator's */
    /* Calls work(context, block) for all blocks below `count`, on the threads of the session. */
    void (*parallel)(const struct exg_operator_call *call,
                     void (*work)(void *context, uint32_t block), void *context, uint32_t count);
    void *pool; /* of `parallel` */
    /* In `shape`, of an operator that gives a list: exg_operator_lengthen(). */
    bool (*lengthen)(struct exg_operator_call *call, uint32_t count);
    void *arena; /* of `lengthen` */
} exg_operator_call;

/* EXG_OK, or a status other than that, with what is wrong in `err`: EXG_OPERATOR_FAIL. */
typedef exg_status exg_operator_function(exg_operator_call *call, exg_error *err);

/* How a kernel for a GPU is launched: what the function below fills in. */
typedef struct exg_operator_launch {
    size_t size;        /* that the caller has */
    uint32_t blocks[3]; /* of the grid, 1 each at first; 0: nothing is launched */
    uint32_t threads;   /* of a block, of one dimension; 256 at first */
    /* What comes behind the addresses in the kernel's parameter, laid out as a struct that begins
     * at a multiple of 8 bytes: sizes and numbers of the call. */
    uint32_t parameter_bytes;
    uint64_t parameters[64];
} exg_operator_launch;

/* Of a call with sizes and dtypes, without data, once for a plan. EXG_OK, or UNSUPPORTED: then the
 * host computes this call. */
typedef exg_status exg_operator_launch_function(const exg_operator_call *call,
                                                exg_operator_launch *launch, exg_error *err);

/* What goes back by the tensor argument at `position` (schema order), given what goes back by the
 * results; EXG_NO_REF: nothing. Emits operators. */
typedef exg_ref exg_operator_derivative(exg_builder *b, const exg_argument *args,
                                        const exg_ref *results, const exg_ref *gradients,
                                        uint32_t position);

/* One operator; what it does not have is NULL. It has a kernel with a shape, or a decomposition. */
typedef struct exg_operator_definition {
    size_t size; /* sizeof(exg_operator_definition), the same for all of a library */
    /* PyTorch's text: "mylib::scale(Tensor x, float factor=2.0) -> Tensor". What it writes is
     * marked, "mylib::add_(Tensor(a!) x, Tensor y) -> ()": such an operator becomes one that gives
     * the new values, and they are written where it stood. A call that writes a tensor which shares
     * elements with another one of the call, or with itself, is refused (FUN-004). */
    const char *schema;
    /* Dtype, rank and sizes of each output, of inputs without data. An output list's length is the
     * call's output_count, 1 at first; exg_operator_lengthen() makes it another. There is room for
     * EXG_RESULTS_MAX before, of which output_count may be set as it is. */
    exg_operator_function *shape;
    /* Computes the outputs, which have memory; on a device the host does, between copies, unless
     * there is a text for that (device_text). Results
     * depend on the arguments alone: what is the same in every run is computed once, and calls that
     * nobody reads are left out. */
    exg_operator_function *kernel;
    /* Where a size of the result lies in the data, call->length, for `shape` and `kernel` to use
     * (nms). It has the tensors, and no outputs. */
    exg_operator_function *length;
    exg_lowering *decomposition; /* what it is made of, in the place of a kernel */
    exg_operator_derivative *derivative;
    /* How it splits over ranks, a letter a dim: "bi,io->bo", of several results "bd,d->bd,b,d". A
     * letter of a result stays split, one only of arguments leaves partial sums there, a point
     * stays whole. A call of tensors of other ranks, or of several sizes for one letter, is not
     * split. NULL: every rank computes all of it. */
    const char *sharding;
    void *user; /* in every call */
    /* The kernel does more than give results (it logs): every call is made, in every run, though
     * nobody reads what it gives, on every rank. In programs alone: exg_dispatch() refuses it. */
    bool effect;
    /* Beside `kernel`, one for NVIDIA GPUs, all three: a text of CUDA C++, which NVRTC compiles
     * when a plan for one is made (DEV-007: it does not), the name of its function, which is
     * extern "C" __global__ void, and its launch. The function has one parameter, a struct by
     * value: the addresses of the inputs, as in call->inputs, NULL for one that is absent, those
     * of the outputs, then `parameters` of the launch. Products and sums are not fused unless the
     * text says so (fmaf). Not of an operator that writes, has an effect, or a size that lies in
     * the data: there, and without a text, the host computes, between copies. */
    const char *device_text;
    const char *device_entry;
    exg_operator_launch_function *device_launch;
} exg_operator_definition;

typedef struct exg_operator_library {
    size_t size;      /* sizeof(exg_operator_library) */
    uint32_t version; /* EXG_OPERATOR_LIBRARY_VERSION */
    uint32_t count;
    const exg_operator_definition *items;
    const char *name; /* in messages */
} exg_operator_library;

/* What a shared object has; what it gives is read while the object is loaded, and stays. */
#define EXG_OPERATOR_LIBRARY_FUNCTION "exg_operator_library_get"
typedef const exg_operator_library *exg_operator_library_get_fn(void);

/* Defines that function, of the array `definitions`, which is called `called` in messages. */
#define EXG_OPERATOR_LIBRARY(definitions, called)                                                  \
    __attribute__((visibility("default"))) exg_operator_library_get_fn exg_operator_library_get;   \
    const exg_operator_library *exg_operator_library_get(void)                                     \
    {                                                                                              \
        static const exg_operator_library library = {.size = sizeof(exg_operator_library),         \
                                                     .version = EXG_OPERATOR_LIBRARY_VERSION,      \
                                                     .count = sizeof(definitions) /                \
                                                              sizeof((definitions)[0]),            \
                                                     .items = (definitions),                       \
                                                     .name = (called)};                            \
                                                                                                   \
        return &library;                                                                           \
    }

/* Adds the operators of `library` to `operators`, all or none; before it is used by others. Texts
 * are copied; functions and `user` must stay as long as `operators`. USAGE LIB-002 (another
 * version, or a size that was not set), LIB-004 (an operator that is there already), LIB-005 (one
 * without a kernel and a shape, or with what does not go together), LIB-006 (a sharding that does
 * not fit), MALFORMED LIB-003 (a schema), NO_MEMORY: `operators` is only to be destroyed then. */
EXG_NODISCARD exg_status exg_operators_register(exg_operators *operators,
                                                const exg_operator_library *library,
                                                exg_error *err);

/* The same for a shared object, which stays loaded as long as the process: it runs its code, so
 * load only what you trust. USAGE LIB-001 (none that can be loaded, or without the function). */
EXG_NODISCARD exg_status exg_operators_load(exg_operators *operators, const char *path,
                                            exg_error *err);

/* Loads what comes with exg for operators of `program`: of torchvision, of torchaudio. Does nothing
 * where there are none, where one of their namespace is there already, or that part is not
 * installed. */
EXG_NODISCARD exg_status exg_operators_load_for(exg_operators *operators,
                                                const exg_program *program, exg_error *err);

/* ---- for kernels: inline, so that a library needs no symbol of exg ------------------------ */

static inline int64_t exg_operator_int(const exg_operator_call *call, uint32_t position)
{
    const exg_argument *arg = &call->args[position];

    return arg->kind == EXG_ARGUMENT_INT     ? arg->as_int
           : arg->kind == EXG_ARGUMENT_BOOL  ? (int64_t)arg->as_bool
           : arg->kind == EXG_ARGUMENT_FLOAT ? (int64_t)arg->as_float
                                             : 0;
}

static inline double exg_operator_float(const exg_operator_call *call, uint32_t position)
{
    const exg_argument *arg = &call->args[position];

    return arg->kind == EXG_ARGUMENT_FLOAT ? arg->as_float
                                           : (double)exg_operator_int(call, position);
}

static inline bool exg_operator_bool(const exg_operator_call *call, uint32_t position)
{
    return exg_operator_int(call, position) != 0;
}

/* Is the argument None? */
static inline bool exg_operator_is_none(const exg_operator_call *call, uint32_t position)
{
    const exg_argument *arg = &call->args[position];

    return arg->kind == EXG_ARGUMENT_NONE ||
           (arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR && arg->as_tensor == EXG_NO_VALUE);
}

/* In `shape`: the list of outputs is `count` long, and call->outputs, which may be elsewhere now,
 * has room for all, unset. False: there is no memory, no list, or an older exg, which has room for
 * EXG_RESULTS_MAX; the function is to fail then, and what it says is not looked at without memory.
 */
static inline bool exg_operator_lengthen(exg_operator_call *call, uint32_t count)
{
    if (call->size > offsetof(exg_operator_call, lengthen)) {
        return call->lengthen != NULL && call->lengthen(call, count);
    }
    call->output_count = count <= EXG_RESULTS_MAX ? count : call->output_count;
    return call->output_count == count;
}

/* Fills `err` (may be NULL) and gives `status`. */
static inline exg_status exg_operator_fail(exg_error *err, exg_status status, const char *format,
                                           ...) __attribute__((format(printf, 3, 4)));
static inline exg_status exg_operator_fail(exg_error *err, exg_status status, const char *format,
                                           ...)
{
    va_list args;

    if (err != NULL) {
        err->status = status;
        va_start(args, format);
        (void)vsnprintf(err->message, sizeof(err->message), format, args);
        va_end(args);
    }
    return status;
}

#define EXG_OPERATOR_FAIL(err, status, ...) exg_operator_fail((err), EXG_##status, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
