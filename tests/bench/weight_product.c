/* Products by weights of fewer bits: one row and few by a weight that no cache keeps, many rows by
 * one of a layer, in turn with products by bf16, as it is in memory and packed, and with reading
 * memory. Medians, printed, not asserted.
 *
 *   bench_weight_product [threads]
 *
 * With one thread times are the process's own, so that other work on the machine counts less.
 */
#include "libexec/kernels/kernels.h"
#include "tests/bench/memory.h"

#include <stdio.h>
#include <time.h>

#define ROUNDS    9
#define BYTES     ((int64_t)192 << 20) /* of a weight that is far */
#define DEPTH     1536
#define NEAR_ROWS 4096 /* of one that is near */
#define GROUP     32

typedef enum form { BF16, BF16_PACKED, I8, I8_GROUPS, F8, HALVES, FORMS } form;

static const char *const names[FORMS] = {
    "bf16, where it is",    "bf16, packed if it gains", "int8",
    "int8 in groups of 32", "float8 by rows",           "4 bits in groups of 32"};

static uint32_t threads = 1;
static exg_pool *pool;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof(*v), compare);
    return v[ROUNDS / 2];
}

/* Zeros and ones in some order, which every dtype takes for small numbers. */
static exg_tensor tensor(exg_dtype dtype, int64_t rows, int64_t columns)
{
    exg_tensor t = {.dtype = dtype, .rank = 2, .sizes = {rows, columns}, .strides = {columns, 1}};
    size_t bytes = (size_t)(rows * columns) * exg_dtype_bytes(dtype);

    t.data = exg_allocate(NULL, bytes + 64);
    if (t.data == NULL) {
        abort();
    }
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)t.data)[i] = dtype == EXG_DTYPE_BF16 && i % 2 == 1 ? 0x3f : i * 7919 % 101 % 16;
    }
    return t;
}

typedef struct product {
    const exg_kernel *kernel;
    exg_tensor inputs[6], output, packed;
    exg_argument args[11];
    exg_kernel_call call;
    double bytes; /* of the weight, as it is read */
} product;

static void prepare(const exg_kernel *kernel, exg_kernel_call *call)
{
    exg_error err = {0};

    call->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (kernel->prepare(call, &err) != EXG_OK) {
        fprintf(stderr, "bench: %s\n", err.message);
        exit(1);
    }
    if (call->workspace_bytes > 0) {
        call->workspace = exg_allocate(NULL, call->workspace_bytes);
    }
}

static void pack(product *p)
{
    exg_kernel_call call = p->call;

    p->packed = (exg_tensor){.dtype = EXG_DTYPE_U8};
    call.outputs = &p->packed;
    prepare(p->kernel->packer, &call);
    if (exg_tensor_numel(&p->packed) == 0) { /* not worth it for so many rows */
        exg_arena_destroy(call.arena);
        return;
    }
    exg_tensor_set_contiguous(&p->packed);
    p->packed.data = exg_allocate(NULL, (uint64_t)exg_tensor_numel(&p->packed) + 64);
    p->kernel->packer->run(&call);
    p->bytes = (double)exg_tensor_numel(&p->packed);
    exg_arena_destroy(call.arena);
    free(p->inputs[1].data);
    p->inputs[1].data = NULL;
    p->call.packed = &p->packed;
}

static product *make(form f, int64_t m, int64_t n)
{
    product *p = calloc(1, sizeof(*p));
    const exg_dtype stored = f == I8 || f == I8_GROUPS || f == HALVES ? EXG_DTYPE_I8
                             : f == F8                                ? EXG_DTYPE_F8E4M3FN
                                                                      : EXG_DTYPE_BF16;
    const exg_argument none = {.kind = EXG_ARGUMENT_NONE};
    const exg_argument bf16 = {.kind = EXG_ARGUMENT_SCALAR_TYPE, .as_scalar_type = EXG_DTYPE_BF16};

    p->kernel = f <= BF16_PACKED ? &exg_kernel_linear : &exg_kernel_weight_product;
    p->inputs[0] = tensor(EXG_DTYPE_BF16, m, DEPTH);
    p->inputs[1] = tensor(stored, n, DEPTH);
    p->bytes = (double)(n * DEPTH) * exg_dtype_bytes(stored);
    for (uint32_t i = 2; i < 6; i++) {
        p->inputs[i].dtype = EXG_DTYPE_COUNT;
    }
    if (f > I8) {
        p->inputs[2] = tensor(EXG_DTYPE_BF16, n, f == F8 ? 1 : DEPTH / GROUP);
    }
    p->output = tensor(EXG_DTYPE_BF16, m, n);
    p->args[6] = (exg_argument){.kind = EXG_ARGUMENT_FLOAT, .as_float = 1};
    p->args[7] = (exg_argument){.kind = EXG_ARGUMENT_FLOAT, .as_float = 0};
    p->args[8] = f == HALVES ? (exg_argument){.kind = EXG_ARGUMENT_INT} : none;
    p->args[9] = p->args[10] = bf16;
    p->call = (exg_kernel_call){.args = p->args,
                                .arg_count = 11,
                                .inputs = p->inputs,
                                .outputs = &p->output,
                                .input_count = f <= BF16_PACKED ? 3 : 6,
                                .output_count = 1,
                                .pool = pool};
    if (f == BF16_PACKED || f == HALVES) {
        pack(p);
    }
    prepare(p->kernel, &p->call);
    return p;
}

static void release(product *p)
{
    for (uint32_t i = 0; i < 6; i++) {
        free(p->inputs[i].data);
    }
    free(p->output.data);
    free(p->packed.data);
    free(p->call.workspace);
    exg_arena_destroy(p->call.arena);
    free(p);
}

/* All forms in turn, ROUNDS times. */
static void compare_forms(int64_t m, bool is_far)
{
    double ns[FORMS + 1][ROUNDS];
    double reading = 0;
    product *products[FORMS];

    for (uint32_t f = 0; f < FORMS; f++) {
        int64_t bytes = f <= BF16_PACKED ? 2 * DEPTH : f == HALVES ? DEPTH / 2 : DEPTH;

        products[f] = make((form)f, m, is_far ? BYTES / bytes : NEAR_ROWS);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t f = 0; f < FORMS; f++) {
            double start = now_ns();

            products[f]->kernel->run(&products[f]->call);
            ns[f][round] = now_ns() - start;
        }
        ns[FORMS][round] = now_ns();
        reading = memory_pass(pool, threads, 0);
        ns[FORMS][round] = now_ns() - ns[FORMS][round];
    }
    reading /= median(ns[FORMS]);
    printf("%lld rows by (%s, %d), %u threads; reading memory %.1f GB/s\n", (long long)m,
           is_far ? "192 MB of rows" : "4096", DEPTH, threads, reading);
    for (uint32_t f = 0; f < FORMS; f++) {
        double rate = products[f]->bytes / median(ns[f]);
        double elements = (double)products[f]->output.sizes[1] * DEPTH;
        double of_bf16 = (double)products[BF16]->output.sizes[1] * DEPTH / median(ns[BF16]);

        printf("  %-26s %8.2f GB/s  x%.2f of reading  %7.0f Gflop/s  x%.2f as fast as bf16\n",
               names[f], rate, rate / reading, 2 * (double)m * elements / median(ns[f]),
               elements / median(ns[f]) / of_bf16);
        release(products[f]);
    }
}

int main(int argc, char **argv)
{
    static const int64_t rows[] = {1, 4, 8};

    threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    if (threads < 1 || threads > 256 || exg_pool_create(threads, &pool, NULL) != EXG_OK) {
        return 2;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        compare_forms(rows[i], true);
    }
    compare_forms(64, false);
    compare_forms(512, false);
    exg_pool_destroy(pool);
    return 0;
}
