/* device.c - what a device costs beside its kernels, printed:
 *
 *   copies in and out, GB/s, of memory that is not pinned
 *   asking for work: a kernel, a graph of 100 of them, without waiting for it
 *
 *   bench_device [cuda|strict] [MiB]
 */
#include "libexec/device/device.h"
#include "libexec/kernels/kernels.h"
#include "tests/bench/timing.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS   7
#define LAUNCHES 100

static exg_error err;

static void check(exg_status status)
{
    if (status != EXG_OK) {
        fprintf(stderr, "%s: %s\n%s\n", err.code, err.message, err.fix);
        exit(1);
    }
}

static void copies(const exg_device_table *table, exg_accelerator *device, size_t bytes)
{
    char *here = malloc(bytes);
    double in[ROUNDS];
    double out[ROUNDS];
    void *there;

    if (here == NULL) {
        exit(1);
    }
    memset(here, 1, bytes);
    check(table->allocate(device, bytes, &there, &err));
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ns();

        check(table->copy_in(device, there, here, bytes, &err));
        check(table->wait(device, &err));
        in[i] = now_ns() - begin;
        begin = now_ns();
        check(table->copy_out(device, here, there, bytes, &err));
        check(table->wait(device, &err));
        out[i] = now_ns() - begin;
    }
    printf("copies of %zu MiB: in %.2f GB/s, out %.2f GB/s\n", bytes >> 20,
           (double)bytes / median(in, ROUNDS), (double)bytes / median(out, ROUNDS));
    table->release(device, there);
    free(here);
}

static void asking(const exg_device_table *table, exg_accelerator *device)
{
    exg_tensor in = {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {256}, .strides = {1}};
    exg_tensor out = in;
    exg_kernel_call call = {
        .inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1, .device = device};
    const exg_kernel *kernel = table->kernel_of(&exg_kernel_copy);
    double single[ROUNDS];
    double replay[ROUNDS];
    exg_device_graph *graph;

    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    check(kernel->prepare(&call, &err));
    check(table->allocate(device, 1024, &in.data, &err));
    check(table->allocate(device, 1024, &out.data, &err));
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ns();

        for (int k = 0; k < LAUNCHES; k++) {
            check(table->launch(device, kernel, &call, 1, &err));
        }
        single[i] = (now_ns() - begin) / LAUNCHES;
        check(table->wait(device, &err));
    }
    printf("asking for a kernel: %.0f ns\n", median(single, ROUNDS));
    if (table->record != NULL) {
        check(table->record(device, &err));
        for (int k = 0; k < LAUNCHES; k++) {
            check(table->launch(device, kernel, &call, 1, &err));
        }
        check(table->recorded(device, &graph, &err));
        for (int i = 0; i < ROUNDS; i++) {
            double begin = now_ns();

            check(table->replay(device, graph, &err));
            replay[i] = now_ns() - begin;
            check(table->wait(device, &err));
        }
        printf("asking for a graph of %d kernels: %.0f ns\n", LAUNCHES, median(replay, ROUNDS));
        table->forget(device, graph);
    }
    exg_arena_destroy(call.arena);
}

int main(int count, char **words)
{
    const exg_device_table *table;
    exg_accelerator *device;

    exg_error_clear(&err);
    check(exg_device_table_find(count > 1 ? words[1] : "cuda", &table, &err));
    check(table->open(0, &device, &err));
    copies(table, device, (size_t)(count > 2 ? strtol(words[2], NULL, 10) : 1024) << 20);
    asking(table, device);
    table->close(device);
    return 0;
}
