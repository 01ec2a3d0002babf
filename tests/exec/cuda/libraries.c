/* Products by cuBLASLt and convolutions by cuDNN, on stand-ins: what goes there, what does not, and
 * which algorithm. */
#include "libexec/kernels/kernels.h"
#include "tests/exec/cuda/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define M 3
#define K 4
#define N 2

static const exg_device_table *table;
static exg_accelerator *device;
static exg_error err;

static int set_up(void **state)
{
    (void)state;
    keep_calls();
    exg_error_clear(&err);
    table = cuda_table();
    expect_ok(table->open(0, &device, &err), &err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    table->close(device);
    drop_calls();
    return 0;
}

/* linear: (M, K) by (N, K), with a bias of (N); element i of an operand is i + 1. */
typedef struct product {
    exg_tensor operands[3], out;
    exg_kernel_call call;
    const exg_kernel *kernel;
} product;

static const float want[M * N] = {31, 72, 71, 176, 111, 280};

static void place(exg_tensor *t, size_t shift)
{
    float values[M * K];
    void *block;

    for (int i = 0; i < M * K; i++) {
        values[i] = (float)(i + 1);
    }
    expect_ok(table->allocate(device, sizeof(values) + 64, &block, &err), &err);
    t->data = (char *)block + shift;
    expect_ok(table->copy_in(device, t->data, values, sizeof(values), &err), &err);
    expect_ok(table->wait(device, &err), &err);
}

/* `shift`: bytes by which addresses are off. */
static void prepare(product *p, size_t shift)
{
    void *workspace = NULL;

    *p = (product){
        .operands = {{.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {M, K}, .strides = {K, 1}},
                     {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {N, K}, .strides = {K, 1}},
                     {.dtype = EXG_DTYPE_F32, .rank = 1, .sizes = {N}, .strides = {1}}},
        .out = {.dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {M, N}, .strides = {N, 1}}};
    p->call = (exg_kernel_call){.inputs = p->operands,
                                .outputs = &p->out,
                                .input_count = 3,
                                .output_count = 1,
                                .device = device};
    p->call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    p->kernel = table->kernel_of(&exg_kernel_linear);
    assert_non_null(p->kernel);
    expect_ok(p->kernel->prepare(&p->call, &err), &err);
    expect_ok(table->allocate(device, p->call.workspace_bytes, &workspace, &err), &err);
    p->call.workspace = workspace;
    for (int i = 0; i < 3; i++) {
        place(&p->operands[i], shift);
    }
    place(&p->out, shift);
}

static void expect_result(const product *p)
{
    float got[M * N];

    expect_ok(table->copy_out(device, got, p->out.data, sizeof(got), &err), &err);
    expect_ok(table->wait(device, &err), &err);
    assert_memory_equal(got, want, sizeof(want));
}

static void a_product_and_its_bias_are_one_call(void **state)
{
    product p;

    (void)state;
    prepare(&p, 0);
    expect_ok(table->launch(device, p.kernel, &p.call, 3, &err), &err);
    expect_result(&p);
    assert_int_equal(calls_of("cublasLtCreate"), 1);
    assert_int_equal(calls_of("cublasLtMatmulAlgoGetHeuristic 16"), 1);
    assert_int_equal(calls_of("cublasLtMatmulAlgoGetHeuristic 4"), 1);
    assert_int_equal(calls_of("cublasLtMatmul 2,3,4 bias"), 1);
    assert_int_equal(calls_of("cuLaunchKernel"), 0);
    exg_arena_destroy(p.call.arena);
}

/* The stand-in refuses an algorithm for more than the addresses are. */
static void badly_aligned_addresses_have_their_own_algorithm(void **state)
{
    product p;

    (void)state;
    prepare(&p, 4);
    expect_ok(table->launch(device, p.kernel, &p.call, 3, &err), &err);
    expect_result(&p);
    exg_arena_destroy(p.call.arena);
}

static void a_recorded_product_runs_again_on_what_is_there_then(void **state)
{
    product p;
    exg_device_graph *graph;

    (void)state;
    prepare(&p, 0);
    expect_ok(table->record(device, &err), &err);
    expect_ok(table->launch(device, p.kernel, &p.call, 3, &err), &err);
    expect_ok(table->recorded(device, &graph, &err), &err);
    expect_ok(table->replay(device, graph, &err), &err);
    expect_result(&p);
    place(&p.out, 0);
    expect_ok(table->replay(device, graph, &err), &err);
    table->forget(device, graph);
    exg_arena_destroy(p.call.arena);
}

/* No library takes a stride between elements. */
static void what_it_does_not_take_is_a_kernel_of_ours(void **state)
{
    product p;

    (void)state;
    prepare(&p, 0);
    exg_arena_destroy(p.call.arena);
    p.call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    p.call.params = NULL;
    p.operands[0].sizes[1] = p.operands[1].sizes[1] = K / 2;
    p.operands[1].strides[1] = 2;
    p.operands[0].strides[0] = K / 2; /* linear's input is dense */
    expect_ok(p.kernel->prepare(&p.call, &err), &err);
    expect_ok(table->launch(device, p.kernel, &p.call, 3, &err), &err);
    expect_ok(table->wait(device, &err), &err);
    assert_int_equal(calls_of("cublasLtMatmul "), 0);
    assert_int_equal(calls_of("cuLaunchKernel gemm"), 1);
    exg_arena_destroy(p.call.arena);
}

static void a_refused_call_is_a_fault_with_its_status(void **state)
{
    product p;

    (void)state;
    prepare(&p, 0);
    p.out.data = (char *)p.out.data + 4096; /* beside its block */
    assert_int_equal(table->launch(device, p.kernel, &p.call, 3, &err), EXG_DEVICE);
    assert_string_equal(err.code, "DEV-008");
    assert_non_null(strstr(err.message, "cuBLASLt"));
    exg_arena_destroy(p.call.arena);
}

static void a_device_tells_which_libraries_there_are(void **state)
{
    static const char *const files[] = {"libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13",
                                        "libcudnn.so.9", "libnccl.so.2"};
    exg_device_info info = {.name = ""};
    const char *line = info.files;

    (void)state;
    expect_ok(table->describe(0, &info, &err), &err);
    assert_string_equal(info.libraries, "cuBLASLt, cuDNN");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) { /* a line each, in this order */
        const char *end = strchr(line, '\n');
        size_t length = end == NULL ? strlen(line) : (size_t)(end - line);
        size_t name = strlen(files[i]);

        assert_true(length > name && line[0] == '/' && line[length - name - 1] == '/');
        assert_memory_equal(line + length - name, files[i], name);
        line += length + (end != NULL);
    }
    assert_string_equal(line, "");
}

/* ---- convolutions -------------------------------------------------------------------------- */

/* (1, in, size...) by (out, in / groups, kernel...), or transposed (in, out / groups, kernel...),
 * with a bias. */
typedef struct geometry {
    bool is_transposed;
    uint32_t rank;
    int64_t in, out, groups, size[2], kernel[2], result[2], stride[2], padding[2], dilation[2];
} geometry;

static geometry geometries[] = {
    {false, 1, 2, 3, 1, {9}, {3}, {5}, {2}, {1}, {1}},
    {false, 1, 4, 4, 2, {9}, {2}, {9}, {1}, {2}, {4}},
    {false, 2, 2, 2, 1, {6, 7}, {3, 2}, {6, 3}, {1, 2}, {1, 0}, {1, 2}},
    {false, 2, 3, 6, 3, {5, 5}, {1, 3}, {5, 5}, {1, 1}, {0, 1}, {1, 1}},
    {true, 2, 4, 6, 2, {3, 5}, {3, 2}, {7, 6}, {2, 1}, {0, 0}, {1, 1}},
    {true, 1, 2, 3, 1, {4}, {3}, {9}, {2}, {1}, {2}},
};

static void contiguous(exg_tensor *t, uint32_t spatial, int64_t first, int64_t second,
                       const int64_t *sizes)
{
    *t = (exg_tensor){.dtype = EXG_DTYPE_F32, .rank = 2 + spatial};
    t->sizes[0] = first;
    t->sizes[1] = second;
    for (uint32_t d = 0; d < spatial; d++) {
        t->sizes[2 + d] = sizes[d];
    }
    for (uint32_t d = t->rank; d-- > 0;) {
        t->strides[d] = d + 1 == t->rank ? 1 : t->strides[d + 1] * t->sizes[d + 1];
    }
}

/* Its numbers are the kernels' tests'; here, that it goes to the library. */
static void convolutions_of_every_geometry_are_calls_of_cudnn(void **state)
{
    uint32_t back = 0; /* transposed ones */

    (void)state;
    for (uint32_t i = 0; i < sizeof(geometries) / sizeof(geometries[0]); i++) {
        geometry *g = &geometries[i];
        int64_t *lists[] = {g->stride, g->padding, g->dilation};
        exg_tensor operands[3] = {{0}};
        exg_tensor out;
        exg_argument args[9] = {{0}};
        exg_kernel_call call = {.args = args,
                                .arg_count = 9,
                                .inputs = operands,
                                .outputs = &out,
                                .input_count = 3,
                                .output_count = 1,
                                .device = device};
        const exg_kernel *kernel = table->kernel_of(&exg_kernel_convolution);

        for (int k = 0; k < 3; k++) {
            args[k].kind = EXG_ARGUMENT_TENSOR;
            args[3 + k].kind = EXG_ARGUMENT_INTS;
            args[3 + k].count = g->rank;
            args[3 + k].as_ints = lists[k];
        }
        args[6].kind = EXG_ARGUMENT_BOOL;
        args[6].as_bool = g->is_transposed;
        args[7].kind = EXG_ARGUMENT_INTS;
        args[8].kind = EXG_ARGUMENT_INT;
        args[8].as_int = g->groups;
        contiguous(&operands[0], g->rank, 1, g->in, g->size);
        contiguous(&operands[1], g->rank, g->is_transposed ? g->in : g->out,
                   (g->is_transposed ? g->out : g->in) / g->groups, g->kernel);
        operands[2] = operands[0];
        operands[2].rank = 1;
        operands[2].sizes[0] = g->out;
        operands[2].strides[0] = 1;
        contiguous(&out, g->rank, 1, g->out, g->result);
        call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
        expect_ok(kernel->prepare(&call, &err), &err);
        expect_ok(table->allocate(device, call.workspace_bytes, &call.workspace, &err), &err);
        for (int k = 0; k < 3; k++) {
            expect_ok(table->allocate(device, 4096, &operands[k].data, &err), &err);
        }
        expect_ok(table->allocate(device, 4096, &out.data, &err), &err);
        expect_ok(table->launch(device, kernel, &call, 3, &err), &err);
        expect_ok(table->wait(device, &err), &err);
        back += g->is_transposed;
        assert_int_equal(calls_of("cudnnConvolutionBackwardData 6 of"), back);
        assert_int_equal(calls_of("cudnnConvolutionBiasActivationForward 1 of"), i + 1 - back);
        assert_int_equal(calls_of("cudnnConvolutionForward"), 0);
        exg_arena_destroy(call.arena);
    }
    assert_int_equal(calls_of("cuLaunchKernel"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(a_product_and_its_bias_are_one_call),
        CASE(badly_aligned_addresses_have_their_own_algorithm),
        CASE(a_recorded_product_runs_again_on_what_is_there_then),
        CASE(what_it_does_not_take_is_a_kernel_of_ours),
        CASE(a_refused_call_is_a_fault_with_its_status),
        CASE(a_device_tells_which_libraries_there_are),
        CASE(convolutions_of_every_geometry_are_calls_of_cudnn),
    };

    return cmocka_run_group_tests_name("libraries", tests, NULL, NULL);
}
