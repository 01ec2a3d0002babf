/* Kernel benchmarks: each row against a ceiling (copying the same bytes; from 4 MB up also
 * what the memory gives) or a peer (oneDNN, one thread), taken in turn in one process;
 * medians, printed, not asserted.
 *
 *   bench_kernels [threads] [pattern] [instruction set]: none better than that (isa.h)
 *
 * With one thread the times are the process's own, so that other work on the machine
 * counts less.
 */
#include "libexec/kernels/kernels.h"
#include "libexec/kernels/isa.h"
#include "libexec/kernels/pointwise.h"
#include "libexport/base/arena.h"
#include "tests/bench/memory.h"
#include "tests/bench/onednn.h"

#include <exg/operators.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define SIZES(...)   ((const int64_t[]){__VA_ARGS__})
#define ROUNDS       9
#define ROUND_NS     20000000.0 /* what a round takes at least */
#define OPERANDS_MAX 8

#define FAR_BYTES (4 << 20) /* operands from here on are held against the memory */

static exg_pool *pool;
static uint32_t threads = 1;
static const char *pattern = "";
static bool measures_cpu;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(measures_cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

/* ---- tensors, calls -------------------------------------------------------------- */

static exg_tensor tensor(exg_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    exg_tensor t = {.dtype = dtype, .rank = rank};
    size_t bytes;

    for (uint32_t d = 0; d < rank; d++) {
        t.sizes[d] = sizes[d];
    }
    exg_tensor_set_contiguous(&t);
    bytes = (size_t)exg_tensor_numel(&t) * exg_dtype_bytes(dtype);
    t.data = exg_allocate(NULL, bytes + 64);
    if (t.data == NULL) {
        die("out of memory");
    }
    memset(t.data, 0, bytes);
    for (int64_t i = 0; i < exg_tensor_numel(&t); i++) {
        float x = (float)((i * 7919 % 2003) - 1001) / 1001.0f;

        if (dtype == EXG_DTYPE_F32) {
            ((float *)t.data)[i] = x;
        } else if (dtype == EXG_DTYPE_BF16) {
            ((uint16_t *)t.data)[i] = (uint16_t)(0x3f00 + (i * 7919 & 0x80ff));
        } else if (dtype == EXG_DTYPE_I8) {
            ((int8_t *)t.data)[i] = (int8_t)(i * 7919 % 256 - 128);
        } else if (dtype == EXG_DTYPE_I64) {
            ((int64_t *)t.data)[i] = i * 7919 % 1000;
        }
    }
    return t;
}

static exg_argument int_arg(int64_t v)
{
    return (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = v};
}

static exg_argument float_arg(double v)
{
    return (exg_argument){.kind = EXG_ARGUMENT_FLOAT, .as_float = v};
}

static exg_argument bool_arg(bool v)
{
    return (exg_argument){.kind = EXG_ARGUMENT_BOOL, .as_bool = v};
}

static exg_argument ints_arg(uint32_t n, const int64_t *v)
{
    return (exg_argument){
        .kind = EXG_ARGUMENT_INTS, .count = n, .as_ints = (int64_t *)(uintptr_t)v};
}

static exg_argument none_arg(void)
{
    return (exg_argument){.kind = EXG_ARGUMENT_NONE};
}

typedef struct bench_call {
    const exg_kernel *kernel;
    exg_kernel_call call;
    exg_tensor inputs[OPERANDS_MAX], outputs[OPERANDS_MAX];
    exg_fault_note fault;
} bench_call;

static void prepare(bench_call *b, const exg_kernel *kernel, const exg_argument *args,
                    uint32_t arg_count, uint32_t inputs, uint32_t outputs)
{
    void *data[2][OPERANDS_MAX];
    exg_error err;

    exg_error_clear(&err);
    b->kernel = kernel;
    b->call.args = args;
    b->call.arg_count = arg_count;
    b->call.inputs = b->inputs;
    b->call.outputs = b->outputs;
    b->call.input_count = inputs;
    b->call.output_count = outputs;
    b->call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        data[0][i] = b->inputs[i].data;
        data[1][i] = b->outputs[i].data;
        b->inputs[i].data = b->outputs[i].data = NULL;
    }
    if (kernel->prepare != NULL && kernel->prepare(&b->call, &err) != EXG_OK) {
        die(err.message);
    }
    if (b->call.workspace_bytes > 0) {
        b->call.workspace = exg_allocate(NULL, b->call.workspace_bytes);
        memset(b->call.workspace, 0, b->call.workspace_bytes);
    }
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        b->inputs[i].data = data[0][i];
        b->outputs[i].data = data[1][i];
    }
    b->call.pool = pool;
    b->call.fault = &b->fault;
}

static void run_ours(void *context)
{
    bench_call *b = context;

    b->kernel->run(&b->call);
}

static void release(bench_call *b)
{
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        free(b->inputs[i].data);
        free(b->outputs[i].data);
    }
    free(b->call.workspace);
    exg_arena_destroy(b->call.arena);
    memset(b, 0, sizeof(*b));
}

/* What the kernel's packer makes of its operand, if anything, lies in the call from then on. */
static void prepare_packed(bench_call *b, const exg_kernel *kernel, const exg_argument *args,
                           uint32_t arg_count, uint32_t inputs, exg_tensor *packed)
{
    bench_call pack = {0};

    memcpy(pack.inputs, b->inputs, sizeof(pack.inputs));
    packed->data = NULL;
    prepare(&pack, kernel->packer, args, arg_count, inputs, 1);
    if (pack.outputs[0].sizes[0] > 0) {
        *packed = tensor(EXG_DTYPE_U8, pack.outputs[0].rank, pack.outputs[0].sizes);
        pack.outputs[0].data = packed->data;
        run_ours(&pack);
        b->call.packed = packed;
    }
    memset(pack.inputs, 0, sizeof(pack.inputs));
    pack.outputs[0].data = NULL;
    release(&pack);
    prepare(b, kernel, args, arg_count, inputs, 1);
}

/* ---- measuring -------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double one_round(void (*run)(void *), void *context, int repeats)
{
    double start = now_ns();

    for (int i = 0; i < repeats; i++) {
        run(context);
    }
    return (now_ns() - start) / repeats;
}

static int repeats_for(void (*run)(void *), void *context)
{
    double once;

    run(context);
    once = one_round(run, context, 1);
    once = once < 100 ? one_round(run, context, 1000) : once;
    return once > ROUND_NS ? 1 : (int)(ROUND_NS / once) + 1;
}

/* The rates of one round in GB/s are added at `at`. */
static void one_memory_round(double rates[MEMORY_WAYS][ROUNDS], int at)
{
    for (uint32_t way = 0; way < MEMORY_WAYS; way++) {
        double start = now_ns();
        double bytes = memory_pass(pool, threads, way);

        rates[way][at] = bytes / (now_ns() - start);
    }
}

/* The median rate of the fastest way. */
static double memory_rate(double rates[MEMORY_WAYS][ROUNDS])
{
    double best = 0;

    for (int way = 0; way < MEMORY_WAYS; way++) {
        qsort(rates[way], ROUNDS, sizeof(double), compare);
        best = rates[way][ROUNDS / 2] > best ? rates[way][ROUNDS / 2] : best;
    }
    return best;
}

/* Prints a row: ours, the peer's, how many times as fast we are, and the rate; also the share of
 * the memory's own rate, where the work is bytes of far operands. */
static void compare_with(const char *name, void (*ours)(void *), void *our_context,
                         void (*peer)(void *), void *peer_context, double work, const char *unit)
{
    const bool is_far = strcmp(unit, "GB/s") == 0 && work >= FAR_BYTES * 2.0;
    double a[ROUNDS];
    double b[ROUNDS];
    double memory[MEMORY_WAYS][ROUNDS];
    int our_repeats = repeats_for(ours, our_context);
    int peer_repeats = peer != NULL ? repeats_for(peer, peer_context) : 0;

    for (int r = 0; r < ROUNDS; r++) {
        a[r] = one_round(ours, our_context, our_repeats);
        b[r] = peer != NULL ? one_round(peer, peer_context, peer_repeats) : 0;
        if (is_far) {
            one_memory_round(memory, r);
        }
    }
    qsort(a, ROUNDS, sizeof(double), compare);
    qsort(b, ROUNDS, sizeof(double), compare);
    printf("%-44s %11.0f ns %9.2f %s", name, a[ROUNDS / 2], work / a[ROUNDS / 2], unit);
    if (peer != NULL) {
        printf("   peer %9.2f   x%.2f, best x%.2f", work / b[ROUNDS / 2],
               b[ROUNDS / 2] / a[ROUNDS / 2], b[0] / a[0]);
    }
    if (is_far) {
        double rate = memory_rate(memory);

        printf("   memory %5.2f   x%.2f", rate, work / a[ROUNDS / 2] / rate);
    }
    printf("\n");
    fflush(stdout);
}

static bool wanted(const char *name)
{
    return strstr(name, pattern) != NULL;
}

typedef struct copy_context {
    void *dst, *src;
    size_t bytes; /* read; as many are written */
} copy_context;

static void run_memcpy(void *context)
{
    copy_context *c = context;

    memcpy(c->dst, c->src, c->bytes);
}

static copy_context make_copy(size_t bytes)
{
    copy_context c = {.bytes = bytes};

    c.dst = exg_allocate(NULL, bytes);
    c.src = exg_allocate(NULL, bytes);
    memset(c.dst, 1, bytes);
    memset(c.src, 1, bytes);
    return c;
}

/* Against a copy that moves the same bytes in all. */
static void against_copy(const char *name, bench_call *b, double bytes)
{
    copy_context c = make_copy((size_t)(bytes / 2));

    compare_with(name, run_ours, b, run_memcpy, &c, bytes, "GB/s");
    free(c.dst);
    free(c.src);
}

/* ---- rows ------------------------------------------------------------------------------ */

static void bench_products(void)
{
    static const struct {
        const char *name;
        const exg_kernel *kernel;
        exg_dtype dtype, result;
        dnnl_data_type_t type, sums;
        bool is_packed;
    } kinds[] = {
        {"linear f32", &exg_kernel_linear, EXG_DTYPE_F32, EXG_DTYPE_F32, dnnl_f32, dnnl_f32, 0},
        {"packed f32", &exg_kernel_linear, EXG_DTYPE_F32, EXG_DTYPE_F32, dnnl_f32, dnnl_f32, 1},
        {"mm f32", &exg_kernel_mm, EXG_DTYPE_F32, EXG_DTYPE_F32, dnnl_f32, dnnl_f32, 0},
        {"linear bf16", &exg_kernel_linear, EXG_DTYPE_BF16, EXG_DTYPE_BF16, dnnl_bf16, dnnl_bf16,
         0},
        {"packed bf16", &exg_kernel_linear, EXG_DTYPE_BF16, EXG_DTYPE_BF16, dnnl_bf16, dnnl_bf16,
         1},
        {"mm i8", &exg_kernel_mm, EXG_DTYPE_I8, EXG_DTYPE_I32, dnnl_s8, dnnl_s32, 0},
    };
    static const int64_t shapes[][3] = {
        /* m, k, n */
        {1, 4096, 4096},    {4, 768, 3072},    {12, 768, 768},    {24, 768, 768},
        {36, 768, 3072},    {64, 64, 64},      {64, 1000, 1000},  {128, 768, 768},
        {128, 768, 3072},   {512, 768, 3072},  {512, 3072, 768},  {1020, 1024, 1024},
        {2040, 2048, 2048}, {4096, 64, 64},    {512, 1536, 4096}, {512, 4096, 1536},
        {1024, 768, 3072},  {1024, 3072, 768}, {1024, 768, 768},
    };

    for (uint32_t s = 0; s < COUNT(shapes); s++) {
        int64_t m = shapes[s][0];
        int64_t k = shapes[s][1];
        int64_t n = shapes[s][2];

        for (uint32_t kind = 0; kind < COUNT(kinds); kind++) {
            const bool is_mm = kinds[kind].kernel == &exg_kernel_mm;
            const exg_argument args[3] = {none_arg(), none_arg(), none_arg()};
            char name[80];
            bench_call b = {0};
            exg_tensor packed;
            dnnl_call peer;

            snprintf(name, sizeof(name), "%s %lld,%lld,%lld", kinds[kind].name, (long long)m,
                     (long long)k, (long long)n);
            if (!wanted(name)) {
                continue;
            }
            b.inputs[0] = tensor(kinds[kind].dtype, 2, SIZES(m, k));
            b.inputs[1] = tensor(kinds[kind].dtype, 2, is_mm ? SIZES(k, n) : SIZES(n, k));
            b.inputs[2].dtype = EXG_DTYPE_COUNT;
            b.outputs[0] = tensor(kinds[kind].result, 2, SIZES(m, n));
            if (kinds[kind].is_packed) {
                prepare_packed(&b, kinds[kind].kernel, args, 3, 3, &packed);
            } else {
                prepare(&b, kinds[kind].kernel, args, 3, is_mm ? 2 : 3, 1);
            }
            peer = peer_product(m, n, k, kinds[kind].type, kinds[kind].sums, b.inputs[0].data,
                                b.inputs[1].data, is_mm, kinds[kind].is_packed, b.outputs[0].data);
            compare_with(name, run_ours, &b, run_dnnl, &peer,
                         2.0 * (double)m * (double)n * (double)k, "GFLOP/s");
            release(&b);
        }
    }
}

static void bench_convolutions(void)
{
    static const int64_t rows[][7] = {
        /* in, out, size, kernel, stride, padding, groups */
        {3, 64, 224, 7, 2, 3, 1},   {64, 64, 56, 3, 1, 1, 1},    {64, 256, 56, 1, 1, 0, 1},
        {128, 128, 28, 3, 1, 1, 1}, {256, 256, 14, 3, 1, 1, 1},  {512, 512, 7, 3, 1, 1, 1},
        {64, 128, 56, 3, 2, 1, 1},  {3, 768, 224, 16, 16, 0, 1}, {96, 96, 56, 3, 1, 1, 96},
    };

    for (uint32_t r = 0; r < COUNT(rows); r++) {
        const int64_t *c = rows[r];
        int64_t out = (c[2] + 2 * c[5] - c[3]) / c[4] + 1;
        const exg_argument args[] = {none_arg(),         none_arg(),
                                     none_arg(),         ints_arg(1, &c[4]),
                                     ints_arg(1, &c[5]), ints_arg(1, SIZES(1)),
                                     bool_arg(false),    ints_arg(1, SIZES(0)),
                                     int_arg(c[6])};
        char name[80];
        bench_call b = {0};
        dnnl_call peer = {0};

        snprintf(name, sizeof(name), "convolution f32 %lld->%lld %lldx%lld k%lld s%lld g%lld",
                 (long long)c[0], (long long)c[1], (long long)c[2], (long long)c[2],
                 (long long)c[3], (long long)c[4], (long long)c[6]);
        if (!wanted(name)) {
            continue;
        }
        b.inputs[0] = tensor(EXG_DTYPE_F32, 4, SIZES(1, c[0], c[2], c[2]));
        b.inputs[1] = tensor(EXG_DTYPE_F32, 4, SIZES(c[1], c[0] / c[6], c[3], c[3]));
        b.inputs[2].dtype = EXG_DTYPE_COUNT;
        b.outputs[0] = tensor(EXG_DTYPE_F32, 4, SIZES(1, c[1], out, out));
        prepare(&b, &exg_kernel_convolution, args, 9, 3, 1);
        if (c[6] == 1) {
            peer = peer_convolution(b.inputs[0].sizes, b.inputs[1].sizes, b.outputs[0].sizes, c[4],
                                    c[5]);
        }
        compare_with(name, run_ours, &b, c[6] == 1 ? run_dnnl : NULL, &peer,
                     2.0 * (double)(c[1] * out * out * c[0] / c[6] * c[3] * c[3]), "GFLOP/s");
        release(&b);
    }
}

static void bench_rows(void)
{
    static const int64_t shapes[][2] = {/* bytes, columns */
                                        {192 << 10, 768},
                                        {1 << 20, 1024},
                                        {4 << 20, 1024},
                                        {40 << 20, 1024},
                                        {160 << 20, 1024}};

    for (uint32_t s = 0; s < COUNT(shapes); s++) {
        for (int at = 0; at < 8; at++) {
            static const exg_kernel *const kernels[] = {
                &exg_kernel_softmax, &exg_kernel_log_softmax, &exg_kernel_native_layer_norm,
                &exg_kernel_rms_norm};
            int kind = at % 4;
            int64_t n = shapes[s][1];
            exg_dtype dtype = at >= 4 ? EXG_DTYPE_BF16 : EXG_DTYPE_F32;
            int64_t rows = shapes[s][0] / exg_dtype_bytes(dtype) / n;
            exg_argument softmax[] = {none_arg(), int_arg(1), bool_arg(false)};
            exg_argument layer[] = {none_arg(), ints_arg(1, &n), none_arg(), none_arg(),
                                    float_arg(1e-5)};
            exg_argument rms[] = {none_arg(), int_arg(1), none_arg(), float_arg(1e-5)};
            bool is_norm = kind >= 2;
            char name[80];
            bench_call b = {0};
            double bytes = 2.0 * (double)(rows * n * exg_dtype_bytes(dtype));

            snprintf(name, sizeof(name), "%s %s %lldx%lld", kernels[kind]->name,
                     exg_dtype_name(dtype), (long long)rows, (long long)n);
            if (!wanted(name)) {
                continue;
            }
            b.inputs[0] = tensor(dtype, 2, SIZES(rows, n));
            b.inputs[1] = tensor(dtype, 1, &n);
            b.inputs[2] = tensor(dtype, 1, &n);
            b.outputs[0] = tensor(dtype, 2, SIZES(rows, n));
            b.outputs[1] = tensor(dtype, 1, &rows);
            b.outputs[2] = tensor(dtype, 1, &rows);
            prepare(&b, kernels[kind],
                    kind == 3 ? rms
                    : is_norm ? layer
                              : softmax,
                    kind == 3 ? 4
                    : is_norm ? 5
                              : 3,
                    is_norm ? (kind == 3 ? 2 : 3) : 1, is_norm && kind != 3 ? 3 : 1);
            if (at == 0) {
                dnnl_call peer = peer_softmax(rows, n, b.inputs[0].data, b.outputs[0].data);

                compare_with("oneDNN on the same", run_ours, &b, run_dnnl, &peer, bytes, "GB/s");
            }
            against_copy(name, &b, bytes);
            release(&b);
        }
    }
}

typedef struct steps {
    bench_call scores, softmax, product;
} steps;

static void run_steps(void *context)
{
    steps *s = context;

    run_ours(&s->scores);
    run_ours(&s->softmax);
    run_ours(&s->product);
}

/* Against bmm, softmax, bmm. */
static void bench_attention(void)
{
    static const int64_t shapes[][4] = {
        /* heads, rows, keys, depth */
        {12, 36, 36, 64},      {12, 512, 512, 64}, {8, 2048, 2048, 64},
        {16, 1024, 1024, 128}, {32, 1, 4096, 128},
    };

    for (uint32_t r = 0; r < COUNT(shapes) * 2; r++) {
        const int64_t *h = shapes[r / 2];
        bool is_causal = r % 2 == 1;
        const exg_argument args[] = {none_arg(), none_arg(),     none_arg(),
                                     none_arg(), float_arg(0),   bool_arg(is_causal),
                                     none_arg(), bool_arg(false)};
        const exg_argument pair[] = {none_arg(), none_arg()};
        const exg_argument softmax[] = {none_arg(), int_arg(2), bool_arg(false)};
        char name[80];
        bench_call b = {0};
        steps s;

        memset(&s, 0, sizeof(s));
        snprintf(name, sizeof(name), "attention f32 %lldx%lldx%lldx%lld%s", (long long)h[0],
                 (long long)h[1], (long long)h[2], (long long)h[3], is_causal ? " causal" : "");
        if (!wanted(name) || (is_causal && h[1] == 1)) {
            continue;
        }
        b.inputs[0] = tensor(EXG_DTYPE_F32, 4, SIZES(1, h[0], h[1], h[3]));
        b.inputs[1] = tensor(EXG_DTYPE_F32, 4, SIZES(1, h[0], h[2], h[3]));
        b.inputs[2] = tensor(EXG_DTYPE_F32, 4, SIZES(1, h[0], h[2], h[3]));
        b.inputs[3].dtype = EXG_DTYPE_COUNT;
        b.outputs[0] = tensor(EXG_DTYPE_F32, 4, SIZES(1, h[0], h[1], h[3]));
        prepare(&b, &exg_kernel_attention, args, 8, 4, 1);
        s.scores.inputs[0] = tensor(EXG_DTYPE_F32, 3, SIZES(h[0], h[1], h[3]));
        s.scores.inputs[1] = tensor(EXG_DTYPE_F32, 3, SIZES(h[0], h[2], h[3]));
        s.scores.inputs[1].sizes[1] = h[3];
        s.scores.inputs[1].sizes[2] = h[2];
        s.scores.inputs[1].strides[1] = 1;
        s.scores.inputs[1].strides[2] = h[3];
        s.scores.outputs[0] = tensor(EXG_DTYPE_F32, 3, SIZES(h[0], h[1], h[2]));
        s.softmax.inputs[0] = s.scores.outputs[0];
        s.softmax.outputs[0] = s.scores.outputs[0];
        s.product.inputs[0] = s.scores.outputs[0];
        s.product.inputs[1] = tensor(EXG_DTYPE_F32, 3, SIZES(h[0], h[2], h[3]));
        s.product.outputs[0] = tensor(EXG_DTYPE_F32, 3, SIZES(h[0], h[1], h[3]));
        prepare(&s.scores, &exg_kernel_bmm, pair, 2, 2, 1);
        prepare(&s.softmax, &exg_kernel_softmax, softmax, 3, 1, 1);
        prepare(&s.product, &exg_kernel_bmm, pair, 2, 2, 1);
        compare_with(name, run_ours, &b, run_steps, &s,
                     4.0 * (double)(h[0] * h[1] * h[2]) * (double)h[3] / (is_causal ? 2 : 1),
                     "GFLOP/s");
        s.softmax.inputs[0].data = s.softmax.outputs[0].data = s.product.inputs[0].data = NULL;
        release(&s.scores);
        release(&s.softmax);
        release(&s.product);
        release(&b);
    }
}

static void bench_moves(void)
{
    static const struct {
        const char *name;
        uint32_t rank;
        int64_t sizes[4];
        int permute[4];
    } rows[] = {
        {"copy (0,2,1,3) of 8x128x12x64", 4, {8, 128, 12, 64}, {0, 2, 1, 3}},
        {"copy transposed 2048x2048", 2, {2048, 2048}, {1, 0}},
        {"copy transposed 12 x 512x64", 3, {12, 512, 64}, {0, 2, 1}},
        {"copy NHWC to NCHW 64x64x128", 3, {64, 64, 128}, {2, 0, 1}},
    };

    for (uint32_t r = 0; r < COUNT(rows); r++) {
        const exg_argument args[] = {none_arg(), none_arg()};
        bench_call b = {0};
        exg_tensor t;

        if (!wanted(rows[r].name)) {
            continue;
        }
        t = tensor(EXG_DTYPE_F32, rows[r].rank, rows[r].sizes);
        b.inputs[0] = t;
        for (uint32_t d = 0; d < t.rank; d++) {
            b.inputs[0].sizes[d] = t.sizes[rows[r].permute[d]];
            b.inputs[0].strides[d] = t.strides[rows[r].permute[d]];
        }
        b.outputs[0] = tensor(EXG_DTYPE_F32, t.rank, b.inputs[0].sizes);
        prepare(&b, &exg_kernel_copy, args, 2, 1, 1);
        against_copy(rows[r].name, &b, 8.0 * (double)exg_tensor_numel(&t));
        release(&b);
    }
}

static void bench_reductions(void)
{
    static const int64_t shapes[][3] = {{8192, 1024, 1}, {1, 8192, 1024}, {64, 512, 128}};

    for (uint32_t s = 0; s < COUNT(shapes); s++) {
        for (int kind = 0; kind < 3; kind++) {
            static const char *const names[] = {"sum", "amax", "max_dim"};
            static const exg_kernel *const kernels[] = {&exg_kernel_sum, &exg_kernel_amax,
                                                        &exg_kernel_max_dim};
            const exg_argument args[] = {none_arg(), kind == 2 ? int_arg(1) : ints_arg(1, SIZES(1)),
                                         bool_arg(false), none_arg()};
            char name[80];
            bench_call b = {0};

            snprintf(name, sizeof(name), "%s f32 over the middle of %lld,%lld,%lld", names[kind],
                     (long long)shapes[s][0], (long long)shapes[s][1], (long long)shapes[s][2]);
            if (!wanted(name)) {
                continue;
            }
            b.inputs[0] = tensor(EXG_DTYPE_F32, 3, shapes[s]);
            b.outputs[0] = tensor(EXG_DTYPE_F32, 2, SIZES(shapes[s][0], shapes[s][2]));
            b.outputs[1] = tensor(EXG_DTYPE_I64, 2, SIZES(shapes[s][0], shapes[s][2]));
            prepare(&b, kernels[kind], args, 4, 1, kind == 2 ? 2 : 1);
            against_copy(name, &b, 4.0 * (double)exg_tensor_numel(&b.inputs[0]));
            release(&b);
        }
    }
}

/* ---- pointwise -------------------------------------------------------------------------- */

typedef struct pointwise_step {
    exg_operator_id op;
    uint32_t operands, scalars; /* the second operand is b */
} pointwise_step;

static void prepare_pointwise(bench_call *b, const pointwise_step *chain, int count,
                              exg_dtype result)
{
    exg_dtype dtype = b->inputs[0].dtype;
    exg_argument one = int_arg(1);
    exg_error err;
    exg_pointwise *p;
    uint32_t regs[2];

    b->kernel = &exg_kernel_pointwise;
    b->call = (exg_kernel_call){.inputs = b->inputs,
                                .outputs = b->outputs,
                                .input_count = 2,
                                .output_count = 1,
                                .pool = pool,
                                .fault = &b->fault};
    b->call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    p = exg_pointwise_begin(b->call.arena, b->call.arena, 1, b->inputs[0].sizes);
    for (uint32_t i = 0; i < chain[0].operands; i++) {
        exg_pointwise_load(p, i, dtype, false, &regs[i], &err);
    }
    for (int k = 0; k < count; k++) {
        if (exg_pointwise_apply(p, chain[k].op, dtype, result, regs, chain[k].operands, &one,
                                chain[k].scalars, &regs[0], &err) != EXG_OK) {
            die(err.message);
        }
    }
    if (exg_pointwise_store(p, 0, result, regs[0], &err) != EXG_OK ||
        exg_pointwise_finish(p, &b->call, &err) != EXG_OK) {
        die(err.message);
    }
}

/* out = op(a[, b]) as one node; chain: gelu(a * b + b) fused. */
static void bench_pointwise(void)
{
    static const struct {
        const char *name;
        int count;
        pointwise_step steps[3];
    } rows[] = {
        {"add", 1, {{EXG_OP_add_Tensor, 2, 1}}},
        {"mul", 1, {{EXG_OP_mul_Tensor, 2, 0}}},
        {"relu", 1, {{EXG_OP_relu_default, 1, 0}}},
        {"exp", 1, {{EXG_OP_exp_default, 1, 0}}},
        {"tanh", 1, {{EXG_OP_tanh_default, 1, 0}}},
        {"sigmoid", 1, {{EXG_OP_sigmoid_default, 1, 0}}},
        {"gelu", 1, {{EXG_OP_gelu_none, 1, 0}}},
        {"gelu_tanh", 1, {{EXG_OP_gelu_tanh, 1, 0}}},
        {"silu", 1, {{EXG_OP_silu_default, 1, 0}}},
        {"sin", 1, {{EXG_OP_sin_default, 1, 0}}},
        {"log", 1, {{EXG_OP_log_default, 1, 0}}},
        {"div", 1, {{EXG_OP_div_Tensor, 2, 0}}},
        {"pow", 1, {{EXG_OP_pow_Tensor_Tensor, 2, 0}}},
        {"cast", 1, {{EXG_OP__to_copy_default, 1, 0}}},
        {"chain",
         3,
         {{EXG_OP_mul_Tensor, 2, 0}, {EXG_OP_add_Tensor, 2, 1}, {EXG_OP_gelu_none, 1, 0}}},
    };
    static const int64_t sizes[] = {4, 4000, 400000, 4 << 20, 40 << 20, 160 << 20}; /* bytes */

    for (uint32_t r = 0; r < COUNT(rows); r++) {
        for (uint32_t s = 0; s < COUNT(sizes) * 2; s++) {
            exg_dtype dtype = s % 2 == 0 ? EXG_DTYPE_F32 : EXG_DTYPE_BF16;
            exg_dtype result = rows[r].steps[0].op == EXG_OP__to_copy_default
                                   ? (s % 2 == 0 ? EXG_DTYPE_BF16 : EXG_DTYPE_F32)
                                   : dtype;
            int64_t n = sizes[s / 2] / exg_dtype_bytes(dtype);
            bench_call b = {0};
            char name[80];

            snprintf(name, sizeof(name), "pointwise %s %s %lld", rows[r].name,
                     exg_dtype_name(dtype), (long long)n);
            if (!wanted(name)) {
                continue;
            }
            b.inputs[0] = tensor(dtype, 1, &n);
            b.inputs[1] = tensor(dtype, 1, &n);
            b.outputs[0] = tensor(result, 1, &n);
            prepare_pointwise(&b, rows[r].steps, rows[r].count, result);
            against_copy(name, &b,
                         (double)n * (exg_dtype_bytes(dtype) * rows[r].steps[0].operands +
                                      exg_dtype_bytes(result)));
            release(&b);
        }
    }
}

int main(int argc, char **argv)
{
    if (getenv("OMP_NUM_THREADS") == NULL) {
        setenv("OMP_NUM_THREADS", "1", 1); /* read before main begins */
        execv("/proc/self/exe", argv);
    }
    threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    threads = threads > 0 ? threads : 1;
    pattern = argc > 2 ? argv[2] : "";
    measures_cpu = threads == 1;
    for (int isa = 0; argc > 3 && isa < EXG_ISA_COUNT; isa++) {
        if (strcmp(argv[3], exg_isa_name((exg_isa)isa)) == 0) {
            exg_isa_limit((exg_isa)isa);
        }
    }
    if (exg_pool_create(threads, &pool, NULL) != EXG_OK) {
        die("no pool");
    }
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    printf("instruction set %s, %u threads; peer: oneDNN with one thread, or memcpy\n",
           exg_isa_name(exg_isa_current()), threads);
    bench_pointwise();
    bench_moves();
    bench_rows();
    bench_reductions();
    bench_products();
    bench_convolutions();
    bench_attention();
    exg_pool_destroy(pool);
    return 0;
}
