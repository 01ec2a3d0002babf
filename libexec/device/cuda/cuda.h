/* cuda.h - an open device of CUDA, as the files of the plugin see it.
 *
 * A kernel's prepare() leaves an exg_cuda_step in call->params: launches, each a compiled
 * function, a grid, and a struct of parameters whose addresses run() fills in.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_CUDA_H
#define EXG_LIBEXEC_DEVICE_CUDA_CUDA_H

#include "libexec/device/cuda/driver.h"
#include "libexec/device/device.h"

#define EXG_CUDA_PARAMS_MAX 4000 /* bytes a kernel may be handed */
#define EXG_CUDA_SLOTS_MAX  56
#define EXG_CUDA_STAGE      (8u << 20) /* bytes of each of two pinned buffers */

typedef struct exg_cuda_module {
    uint64_t key[2];
    cuda_module module;
    cuda_function function; /* that was asked for first */
    char *text, *options;   /* what it was compiled of; NULL: it was not kept */
    char entry[32];
} exg_cuda_module;

/* A collective that was asked for: what it works with is there when `ready` is over. */
#define EXG_CUDA_ASKED 16

typedef struct exg_cuda_asked {
    const struct exg_collective *what; /* NULL: recorded, so nobody knows when */
    cuda_event ready, done;
} exg_cuda_asked;

typedef struct exg_cuda_device {
    exg_accelerator head;
    exg_cuda_driver driver;
    exg_nvrtc nvrtc;
    exg_cuda_blas blas;
    exg_cuda_dnn dnn;
    cuda_ordinal ordinal;
    cuda_context context;
    cuda_stream stream;
    cuda_event turn;       /* between it and a stream of the caller's */
    char architecture[16]; /* that code is made for, "sm_90"; "compute_90": as PTX */
    int capability;        /* 90 */
    int processors;        /* streaming multiprocessors */
    void *stages[2];
    cuda_event staged[2]; /* the device has done with the buffer */
    cuda_address *blocks; /* of memory, to be freed with the device */
    uint32_t block_count, block_capacity;
    bool has_texts_key;
    uint64_t texts_key[2]; /* of all kernel texts */
    exg_cuda_module *modules;
    uint32_t module_count, module_capacity;
    exg_status status; /* of the launches of a run() */
    exg_error err;
    struct exg_cuda_link *links;          /* to other ranks' devices */
    cuda_stream beside;                   /* of collectives */
    exg_cuda_asked asked[EXG_CUDA_ASKED]; /* collectives, a ring */
    uint64_t asked_count;
    const struct exg_collective *stuck;
    exg_device_graph *graphs;         /* all that there are */
    exg_device_graph *recording;      /* not among them yet */
    exg_device_graph *abandoned;      /* no longer among them: work may still write their words */
    const exg_device_graph *replayed; /* since the last wait */
    bool aborts_hang;                 /* of NCCL; the next is not waited for */
    bool is_lost; /* work on it does not end: nobody waits for it, or frees what it may use */
} exg_cuda_device;

/* Makes the device the calling thread's (driver.c). */
exg_status exg_cuda_enter(const exg_cuda_device *device, exg_error *err);

/* blas.c, dnn.c (library.h): whether the library is there. What a device opened of it is closed
 * with it. */
bool exg_cuda_blas_find(const exg_cuda_driver *driver, exg_cuda_blas *blas);
bool exg_cuda_dnn_find(const exg_cuda_driver *driver, exg_cuda_dnn *dnn);
void exg_cuda_blas_close(exg_cuda_device *device);
void exg_cuda_dnn_close(exg_cuda_device *device);

/* ---- copies (copy.c) ------------------------------------------------------------- */

exg_status exg_cuda_copy_in(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                            exg_error *err);
exg_status exg_cuda_copy_out(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                             exg_error *err);
exg_status exg_cuda_copy_within(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                                exg_error *err);
void exg_cuda_drop_stages(exg_cuda_device *device);

/* ---- graphs (graph.c) -------------------------------------------------------------- */

exg_status exg_cuda_record(exg_accelerator *device, exg_error *err);
exg_status exg_cuda_recorded(exg_accelerator *device, exg_device_graph **graph, exg_error *err);
exg_status exg_cuda_replay(exg_accelerator *device, const exg_device_graph *graph, exg_error *err);
void exg_cuda_forget(exg_accelerator *device, exg_device_graph *graph);

/* A collective is recorded, on the stream `beside`. */
exg_status exg_cuda_mark(exg_cuda_device *device, const struct exg_collective *what,
                         exg_error *err);
/* The first of the graph that was last replayed that had not ended; NULL: not known. */
const struct exg_collective *exg_cuda_first_open(const exg_cuda_device *device);

/* All graphs, and what is being recorded, are of no more use: NCCL's abort waits for those that
 * hold its work. What is asked of them fails (PEER COM-003), until they are forgotten. */
void exg_cuda_drop_graphs(exg_cuda_device *device);
/* Once nothing is under way. */
void exg_cuda_close_graphs(exg_cuda_device *device);

/* ---- compiled code (module.c, cache.c) ---------------------------------------------- */

/* The kernel `entry` of a text compiled with options ("-DA=B -DC", split at blanks), from
 * this device's modules, the cache on disk, or NVRTC. DEVICE DEV-007. */
exg_status exg_cuda_compile(exg_cuda_device *device, const char *text, const char *options,
                            const char *entry, cuda_function *function, exg_error *err);

/* The kernel that does what two launches of `function` do (PAIRED of common.h); false: there is
 * none. */
bool exg_cuda_compile_paired(exg_cuda_device *device, cuda_function function,
                             cuda_function *paired);

/* Compiled code by content key. Found: malloc'ed. A directory that cannot be used, or a file
 * that is not whole, is as if there were none. */
bool exg_cuda_cache_find(const uint64_t key[2], void **code, size_t *bytes);
void exg_cuda_cache_keep(const uint64_t key[2], const void *code, size_t bytes);

/* ---- launches (launch.c) --------------------------------------------------------------- */

typedef enum exg_cuda_slot_kind {
    EXG_CUDA_INPUT,
    EXG_CUDA_OUTPUT,
    EXG_CUDA_WORKSPACE,
    EXG_CUDA_FAULT,
    EXG_CUDA_RANDOM,
    EXG_CUDA_PACKED,  /* what the kernel's packer made */
    EXG_CUDA_EPILOGUE /* an operand of what follows the kernel */
} exg_cuda_slot_kind;

#define EXG_CUDA_NO_OPERAND UINT8_MAX

typedef struct exg_cuda_slot {
    uint8_t kind;
    uint8_t index;   /* of the operand; an absent one, and NO_OPERAND, give NULL */
    uint64_t offset; /* bytes further on */
} exg_cuda_slot;

typedef struct exg_cuda_launch exg_cuda_launch;

/* Asks for the launch on the device's stream; `params` are its own, with the addresses. */
typedef exg_status exg_cuda_ask(exg_cuda_device *device, const exg_cuda_launch *launch,
                                void *params, exg_error *err);

struct exg_cuda_launch {
    exg_cuda_ask *ask;
    cuda_function function; /* of a kernel, with its grid */
    uint32_t blocks[3];
    uint32_t threads;
    bool is_each;         /* threads go round over items: more blocks do no harm */
    cuda_function paired; /* with the call after it; NULL: they are asked for one by one */
    bool is_copy_of_self; /* not asked for where the result is in operand 0's memory */
    uint32_t params_bytes;
    uint32_t slot_count;
    void *params; /* begins with slot_count addresses, but for the last ones, which are */
    uint32_t apart_count, apart_at; /* so many, and are so many bytes further on */
    exg_cuda_slot slots[EXG_CUDA_SLOTS_MAX];
    exg_cuda_launch *next;
};

typedef struct exg_cuda_step {
    exg_cuda_launch *first;
    exg_cuda_launch **last;
} exg_cuda_step;

/* Makes call->params an empty step. */
exg_status exg_cuda_step_begin(exg_kernel_call *call, exg_error *err);

/* Adds a launch to the step. `params` is copied. Set the slots of what it gives. */
exg_status exg_cuda_step_add(exg_kernel_call *call, exg_cuda_ask *ask, const void *params,
                             size_t params_bytes, exg_cuda_launch **launch, exg_error *err);

/* The same of kernel `entry` of the text. Set the grid too. */
exg_status exg_cuda_step_add_kernel(exg_kernel_call *call, const char *text, const char *options,
                                    const char *entry, const void *params, size_t params_bytes,
                                    exg_cuda_launch **launch, exg_error *err);

/* device.h's pairs() and launch_pair(). */
bool exg_cuda_pairs(exg_accelerator *device, const exg_kernel_call *a, const exg_kernel_call *b);
exg_status exg_cuda_launch_pair(exg_accelerator *device, const exg_kernel_call *a,
                                const exg_kernel_call *b, exg_error *err);

/* The run() of every kernel of this device. */
void exg_cuda_step_run(const exg_kernel_call *call);

/* Asks for the launch's function, on its grid, with parameters that are whole. */
exg_status exg_cuda_ask_kernel(const exg_cuda_device *device, const exg_cuda_launch *launch,
                               void *params, cuda_stream stream, exg_error *err);

/* Slots in the order of the addresses. */
void exg_cuda_slot_add(exg_cuda_launch *launch, exg_cuda_slot_kind kind, uint32_t index);

/* A grid for `count` items, one a thread, in blocks of 256; more items than 2^30 threads go
 * round. */
void exg_cuda_grid(exg_cuda_launch *launch, int64_t count);

/* ---- the rows (rows.c) --------------------------------------------------------------------- */

const exg_kernel *exg_cuda_kernel_of(const exg_kernel *kernel);

/* ---- texts (embedded) ------------------------------------------------------------------------ */

typedef struct exg_cuda_text {
    const char *name; /* as it is included */
    const char *text;
} exg_cuda_text;

extern const exg_cuda_text exg_cuda_texts[];
extern const uint32_t exg_cuda_text_count;

/* NULL: no such text. */
const char *exg_cuda_text_find(const char *name);

#endif
