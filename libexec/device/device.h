/* device.h - where a rank's steps run and its bytes are.
 *
 *   memory   the device's own: addresses that the host may not follow
 *   stream   one for each open device, in order: copies and kernels are asked for now and
 *            carried out later; after wait() all that was asked for is done
 *
 * A device is a table of functions; NULL stands for the host itself, where memory is memory
 * and a kernel runs as it is called. `strict` is the host with a device's manners
 * (strict.c); CUDA is a library of its own, loaded when asked for (cuda/).
 *
 * A device's kernels are exg_kernel rows, chosen for the host's by kernel_of(): their
 * prepare() runs when a plan is made (call->device is set, operands have sizes and strides but
 * no data), their run() asks for launches on the stream with call->device, and the call's
 * operands hold addresses of the device. What kernel_of() or prepare() (UNSUPPORTED) does not
 * take is computed by the host's kernel, between copies.
 *
 * Threads: one at a time on an open device; devices are independent.
 */
#ifndef EXG_LIBEXEC_DEVICE_DEVICE_H
#define EXG_LIBEXEC_DEVICE_DEVICE_H

#include "libexec/kernels/kernel.h"

#include <exg/device.h>

#define EXG_DEVICE_TABLE_VERSION 6

struct exg_communicator;
struct exg_collective;
struct exg_strip;

typedef struct exg_device_table exg_device_table;
typedef struct exg_device_graph exg_device_graph; /* the table's own */

/* An open device, "accelerator" as PyTorch says (exg_device is a type and a number): the head
 * of the table's own structure. */
typedef struct exg_accelerator {
    const exg_device_table *table;
    uint32_t index;
    exg_pool *pool; /* cores lent for long copies of pageable memory; NULL: the caller's alone */
} exg_accelerator;

/* A rank's end of what joins the devices of the ranks of a communicator: the head of the
 * table's own structure. */
typedef struct exg_device_link {
    char name[48]; /* for people: "NCCL 2.28.3" */
    bool records;  /* collectives along it may stand between record() and recorded() */
} exg_device_link;

struct exg_device_table {
    uint32_t version; /* EXG_DEVICE_TABLE_VERSION */
    const char *name; /* as in --device: "strict", "cuda" */

    /* How many can be opened. DEVICE DEV-... says what is missing and what to do. */
    exg_status (*count)(uint32_t *count, exg_error *err);
    exg_status (*describe)(uint32_t index, exg_device_info *info, exg_error *err);

    exg_status (*open)(uint32_t index, exg_accelerator **device, exg_error *err);
    void (*close)(exg_accelerator *device); /* waits; its memory and graphs are gone */

    /* The device's kernel for the host's; itself for one of its own; NULL: the host's. */
    const exg_kernel *(*kernel_of)(const exg_kernel *kernel);

    /* Aligned to 256 bytes; 0 bytes give an address too. NO_MEMORY MEM-004 says what is free. */
    exg_status (*allocate)(exg_accelerator *device, uint64_t bytes, void **address, exg_error *err);
    void (*release)(exg_accelerator *device, void *address); /* waits; NULL is allowed */
    bool shows_releases; /* it tells who uses what was released: such memory is not kept for
                            the next that asks (shared_device.h) */

    /* Is it an address of the device's memory, whoever took that? */
    bool (*holds)(exg_accelerator *device, const void *address);

    /* Asked for; the host's bytes must stay as they are (copy_in), or not be looked at
     * (copy_out), until wait(). */
    exg_status (*copy_in)(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                          exg_error *err);
    exg_status (*copy_out)(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                           exg_error *err);
    /* Asked for; from one place on the device to another, which do not overlap. */
    exg_status (*copy)(exg_accelerator *device, void *to, const void *from, uint64_t bytes,
                       exg_error *err);

    /* Asks for kernel->run(call). Call and operands are read now; what prepare() made of them
     * stays until wait(), or as long as a graph that it was recorded in. `operands`: how many
     * call->inputs there are, with those that packed and epilogue_inputs point to. */
    exg_status (*launch)(exg_accelerator *device, const exg_kernel *kernel,
                         const exg_kernel_call *call, uint32_t operands, exg_error *err);

    /* Two calls, prepared, whose results are where operand 0 is if their kernels take that, and of
     * which neither reads or writes what the other one writes: could they
     * be asked for as one? And asks for them so. NULL, both: never. */
    bool (*pairs)(exg_accelerator *device, const exg_kernel_call *a, const exg_kernel_call *b);
    exg_status (*launch_pair)(exg_accelerator *device, const exg_kernel_call *a,
                              const exg_kernel_call *b, exg_error *err);

    /* Until all is done. DEVICE DEV-... a fault of what ran: the device is then of no use. */
    exg_status (*wait)(exg_accelerator *device, exg_error *err);

    /* Orders the device's work and a stream's of the caller's: what is asked for from here on comes
     * after all that the stream was asked for (`after`), or the other way round. NULL: the device
     * has no streams that others know. */
    exg_status (*follow)(exg_accelerator *device, void *stream, bool after, exg_error *err);

    /* A mark comes after all that the device was asked for so far, as an event that others know
     * (CUevent). after(): what is asked for from here on comes after the mark, which may be another
     * device's of this table; await(): the host waits for it, whatever else is asked for meanwhile.
     * NULL, all four: the device has none. */
    exg_status (*mark)(exg_accelerator *device, void **mark, exg_error *err);
    exg_status (*after)(exg_accelerator *device, void *mark, exg_error *err);
    exg_status (*await)(exg_accelerator *device, void *mark, exg_error *err);
    void (*unmark)(exg_accelerator *device, void *mark);

    /* What is asked for between record() and recorded() is kept instead of carried out, to be
     * asked for as one by replay(). NULL, all four: cannot. UNSUPPORTED: not this. */
    exg_status (*record)(exg_accelerator *device, exg_error *err);
    exg_status (*recorded)(exg_accelerator *device, exg_device_graph **graph, exg_error *err);
    exg_status (*replay)(exg_accelerator *device, const exg_device_graph *graph, exg_error *err);
    void (*forget)(exg_accelerator *device, exg_device_graph *graph);

    /* Collectives from device to device. NULL, all: they go through the host.
     *
     * join() and leave() are called by every rank of the communicator, at once. The outcome of
     * join() is alike: UNSUPPORTED DEV-011 where these devices cannot be joined; PEER. The
     * communicator stays as long as the link; between ranks that share their memory its turns
     * are taken by collectives, so other exchanges on it are whole.
     *
     * prepare_collective() makes, in the arena, what begin and finish work with (UNSUPPORTED:
     * this one goes through the host) and says what workspace it takes. By rank: what of the
     * operand is `sent` to it, and where in the result what is `received` from it belongs; of an
     * all-to-all these say all, whatever its dims. Begin and finish are called in a kernel's run(),
     * so by launch(), which gives their fault (PEER).
     * In between other steps may be asked for. All ranks begin collectives in one order and
     * finish them in it. Once `finish` is asked for, results are as any step's are, and operands
     * may be written.
     *
     * wait() ends with PEER, on all ranks, when a collective does not, because of a fault or
     * past the communicator's deadline, and links are then of no use; stuck_at() is the first
     * collective that had not ended, if known. Of a graph that is asked for again none is, and
     * the time runs from when it is waited for. */
    exg_status (*join)(exg_accelerator *device, struct exg_communicator *communicator,
                       exg_device_link **link, exg_error *err);
    void (*leave)(exg_accelerator *device, exg_device_link *link);
    exg_status (*prepare_collective)(exg_accelerator *device, exg_device_link *link,
                                     const struct exg_collective *what,
                                     const struct exg_strip *sent, const struct exg_strip *received,
                                     exg_arena *arena, void **made, uint64_t *workspace_bytes,
                                     exg_error *err);
    void (*begin_collective)(exg_accelerator *device, void *made, void *workspace);
    void (*finish_collective)(exg_accelerator *device, void *made);
    const struct exg_collective *(*stuck_at)(exg_accelerator *device);
};

/* device.c: the table of that name. USAGE DEV-001 for one that there is not; DEVICE DEV-002
 * where its library cannot be loaded. */
exg_status exg_device_table_find(const char *name, const exg_device_table **table, exg_error *err);

extern const exg_device_table exg_device_strict, exg_device_strict_host;

#endif
