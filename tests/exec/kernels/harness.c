/* harness.c - tensors, calls, comparison. */
#include "tests/exec/kernels/harness.h"
#include "tests/exec/kernels/on_device.h"
#include "tests/standin/amx.h"

#include "libexec/kernels/compute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const exg_dtype float_dtypes[4] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16, EXG_DTYPE_F16};
const exg_dtype real_dtypes[11] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16, EXG_DTYPE_F16,
                                   EXG_DTYPE_B8,  EXG_DTYPE_U8,  EXG_DTYPE_I8,   EXG_DTYPE_I16,
                                   EXG_DTYPE_I32, EXG_DTYPE_I64, EXG_DTYPE_U64};
const exg_dtype all_dtypes[13] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16, EXG_DTYPE_F16,
                                  EXG_DTYPE_B8,  EXG_DTYPE_U8,  EXG_DTYPE_I8,   EXG_DTYPE_I16,
                                  EXG_DTYPE_I32, EXG_DTYPE_I64, EXG_DTYPE_U64,  EXG_DTYPE_C64,
                                  EXG_DTYPE_C128};

/* ---- tensors --------------------------------------------------------------------- */

static void *blocks[4096];
static size_t block_bytes[4096];
static uint32_t block_count;
static uint64_t random_state = 88172645463325252u;

static double next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

exg_tensor make_tensor(exg_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    exg_tensor t = {.dtype = dtype, .rank = rank};
    size_t bytes;

    for (uint32_t d = 0; d < rank; d++) {
        t.sizes[d] = sizes[d];
    }
    exg_tensor_set_contiguous(&t);
    bytes = (size_t)exg_tensor_numel(&t) * exg_dtype_bytes(dtype);
    assert_true(block_count < COUNT(blocks));
    t.data = calloc(bytes > 0 ? bytes : 1, 1);
    assert_non_null(t.data);
    block_bytes[block_count] = bytes;
    blocks[block_count++] = t.data;
    return t;
}

bool find_block(const void *at, char **first, size_t *bytes)
{
    for (uint32_t k = 0; k < block_count; k++) {
        const char *block = blocks[k];

        if ((const char *)at >= block && (const char *)at <= block + block_bytes[k]) {
            *first = blocks[k];
            *bytes = block_bytes[k];
            return true;
        }
    }
    return false;
}

void free_tensors(void)
{
    while (block_count > 0) {
        free(blocks[--block_count]);
    }
}

static char *element_at(const exg_tensor *t, int64_t position)
{
    int64_t offset = position;

    if (!exg_tensor_is_contiguous(t)) { /* else without divisions */
        offset = 0;
        for (uint32_t d = t->rank; d-- > 0; position /= t->sizes[d]) {
            offset += position % t->sizes[d] * t->strides[d];
        }
    }
    return (char *)t->data + offset * exg_dtype_bytes(t->dtype);
}

#define CHUNK 256

/* Elements as kernels compute with them. */
typedef union chunk {
    float f32[CHUNK];
    double f64[CHUNK];
    int32_t i32[CHUNK];
    int64_t i64[CHUNK];
} chunk;

/* Up to CHUNK elements side by side; of complex ones the real part. */
static void load_some(exg_dtype dtype, uint32_t count, const char *at, double *v)
{
    chunk some;
    exg_compute compute = EXG_COMPUTE_F32;

    if (dtype == EXG_DTYPE_C64 || dtype == EXG_DTYPE_C128) {
        for (uint32_t i = 0; i < count; i++) {
            exg_dtype part = dtype == EXG_DTYPE_C64 ? EXG_DTYPE_F32 : EXG_DTYPE_F64;

            load_some(part, 1, at + (size_t)i * exg_dtype_bytes(dtype), &v[i]);
        }
        return;
    }
    assert_true(exg_compute_of(dtype, &compute));
    exg_loops_convert_generic.load[dtype](count, &some, at, 1);
    for (uint32_t i = 0; i < count; i++) {
        v[i] = compute == EXG_COMPUTE_F32   ? (double)some.f32[i]
               : compute == EXG_COMPUTE_F64 ? some.f64[i]
               : compute == EXG_COMPUTE_I32 ? (double)some.i32[i]
                                            : (double)some.i64[i];
    }
}

/* The other way; the imaginary part of complex ones is the real one's negative. */
static void store_some(exg_dtype dtype, uint32_t count, char *at, const double *v)
{
    chunk some;
    exg_compute compute = EXG_COMPUTE_F32;

    if (dtype == EXG_DTYPE_C64 || dtype == EXG_DTYPE_C128) {
        for (uint32_t i = 0; i < count; i++) {
            exg_dtype part = dtype == EXG_DTYPE_C64 ? EXG_DTYPE_F32 : EXG_DTYPE_F64;
            const double parts[2] = {v[i], -v[i]};

            store_some(part, 2, at + (size_t)i * exg_dtype_bytes(dtype), parts);
        }
        return;
    }
    assert_true(exg_compute_of(dtype, &compute));
    for (uint32_t i = 0; i < count; i++) {
        switch (compute) {
        case EXG_COMPUTE_F32:
            some.f32[i] = (float)v[i];
            break;
        case EXG_COMPUTE_F64:
            some.f64[i] = v[i];
            break;
        case EXG_COMPUTE_I32:
            some.i32[i] = (int32_t)v[i];
            break;
        default:
            some.i64[i] = (int64_t)v[i];
        }
    }
    exg_loops_convert_generic.store[dtype](count, at, 1, &some);
}

exg_tensor make_random(exg_dtype dtype, uint32_t rank, const int64_t *sizes, double low,
                       double high)
{
    exg_tensor t = make_tensor(dtype, rank, sizes);
    bool is_unsigned = exg_dtype_class(dtype) == 'U';
    int64_t n = exg_tensor_numel(&t);
    double some[CHUNK];

    for (int64_t i = 0; i < n; i++) {
        double x = low + (high - low) * next_random();

        some[i % CHUNK] = dtype == EXG_DTYPE_B8 ? next_random() < 0.5 : is_unsigned ? fabs(x) : x;
        if (i % CHUNK == CHUNK - 1 || i == n - 1) {
            store_some(dtype, (uint32_t)(i % CHUNK) + 1, element_at(&t, i / CHUNK * CHUNK), some);
        }
    }
    return t;
}

exg_tensor make_indices(uint32_t rank, const int64_t *sizes, int64_t low, int64_t high)
{
    exg_tensor t = make_tensor(EXG_DTYPE_I64, rank, sizes);

    for (int64_t i = 0; i < exg_tensor_numel(&t); i++) {
        ((int64_t *)t.data)[i] = low + (int64_t)(next_random() * (double)(high - low));
    }
    return t;
}

exg_tensor absent_tensor(void)
{
    return (exg_tensor){.dtype = EXG_DTYPE_COUNT};
}

exg_tensor transposed(exg_tensor t, uint32_t a, uint32_t b)
{
    int64_t size = t.sizes[a];
    int64_t stride = t.strides[a];

    t.sizes[a] = t.sizes[b];
    t.strides[a] = t.strides[b];
    t.sizes[b] = size;
    t.strides[b] = stride;
    return t;
}

exg_tensor expanded(exg_tensor t, uint32_t rank, const int64_t *sizes)
{
    exg_tensor e = {.data = t.data, .dtype = t.dtype, .rank = rank};

    for (uint32_t d = 0; d < rank; d++) {
        uint32_t missing = rank - t.rank;

        e.sizes[d] = sizes[d];
        if (d >= missing && t.sizes[d - missing] == sizes[d]) {
            e.strides[d] = t.strides[d - missing];
        }
    }
    return e;
}

exg_tensor sliced(exg_tensor t, uint32_t dim, int64_t first, int64_t count, int64_t step)
{
    t.data = (char *)t.data + first * t.strides[dim] * exg_dtype_bytes(t.dtype);
    t.sizes[dim] = count;
    t.strides[dim] *= step;
    return t;
}

double get(const exg_tensor *t, int64_t position)
{
    double v;

    load_some(t->dtype, 1, element_at(t, position), &v);
    return v;
}

void set(const exg_tensor *t, int64_t position, double value)
{
    store_some(t->dtype, 1, element_at(t, position), &value);
}

double *values_of(const exg_tensor *t)
{
    int64_t n = exg_tensor_numel(t);
    double *v = malloc((size_t)(n > 0 ? n : 1) * sizeof(double));

    int64_t step = exg_tensor_is_contiguous(t) ? CHUNK : 1;

    assert_non_null(v);
    for (int64_t i = 0; i < n; i += step) {
        load_some(t->dtype, (uint32_t)(n - i < step ? n - i : step), element_at(t, i), v + i);
    }
    return v;
}

double get_at(const exg_tensor *t, const int64_t *index)
{
    int64_t position = 0;

    for (uint32_t d = 0; d < t->rank; d++) {
        position = position * t->sizes[d] + index[d];
    }
    return get(t, position);
}

/* ---- arguments ---------------------------------------------------------------------- */

exg_argument arg_none(void)
{
    return (exg_argument){.kind = EXG_ARGUMENT_NONE};
}

exg_argument arg_tensor(void)
{
    return (exg_argument){.kind = EXG_ARGUMENT_TENSOR};
}

exg_argument arg_int(int64_t value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = value};
}

exg_argument arg_float(double value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_FLOAT, .as_float = value};
}

exg_argument arg_bool(bool value)
{
    return (exg_argument){.kind = EXG_ARGUMENT_BOOL, .as_bool = value};
}

exg_argument arg_dtype(exg_dtype dtype)
{
    return (exg_argument){.kind = EXG_ARGUMENT_SCALAR_TYPE, .as_scalar_type = dtype};
}

exg_argument arg_ints(uint32_t count, const int64_t *items)
{
    return (exg_argument){
        .kind = EXG_ARGUMENT_INTS, .count = count, .as_ints = (int64_t *)(uintptr_t)items};
}

/* ---- running --------------------------------------------------------------------------- */

static exg_kernel_call call_of(const kernel_case *c, exg_tensor *inputs, exg_tensor *outputs)
{
    exg_kernel_call call = {.args = c->args,
                            .arg_count = c->arg_count,
                            .inputs = inputs,
                            .input_count = c->input_count,
                            .outputs = outputs,
                            .output_count = c->output_count};

    memcpy(inputs, c->inputs, sizeof(c->inputs));
    memcpy(outputs, c->outputs, sizeof(c->outputs));
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        inputs[i].data = outputs[i].data = NULL;
    }
    return call;
}

exg_status prepare_only(kernel_case *c, exg_error *err)
{
    exg_tensor inputs[OPERANDS_MAX];
    exg_tensor outputs[OPERANDS_MAX];
    exg_kernel_call call = call_of(c, inputs, outputs);
    exg_status status;

    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = c->kernel->prepare(&call, err);
    exg_arena_destroy(call.arena);
    return status;
}

static size_t byte_count(const exg_tensor *t)
{
    return (size_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
}

/* Outputs that are an input's own memory keep their values. */
static bool is_in_place(const kernel_case *c, uint32_t output)
{
    for (uint32_t i = 0; i < c->input_count; i++) {
        if (c->inputs[i].data != NULL && c->inputs[i].data == c->outputs[output].data) {
            return true;
        }
    }
    return false;
}

static void set_up(exg_kernel_call *call, uint32_t threads, exg_fault_note *fault)
{
    if (threads > 0) {
        assert_int_equal(exg_pool_create(threads, &call->pool, NULL), EXG_OK);
    }
    if (call->workspace_bytes > 0) {
        call->workspace = aligned_alloc(64, (call->workspace_bytes + 63) & ~(size_t)63);
        assert_non_null(call->workspace);
        memset(call->workspace, 0xa5, call->workspace_bytes);
    }
    call->fault = fault;
}

static void tear_down(exg_kernel_call *call)
{
    free(call->workspace);
    exg_pool_destroy(call->pool);
    exg_arena_destroy(call->arena);
}

/* What the kernel's packer makes of its operand; the caller frees the data. */
static exg_tensor pack(const kernel_case *c, uint32_t threads)
{
    const exg_kernel *kernel = c->kernel->packer;
    exg_tensor inputs[OPERANDS_MAX];
    exg_tensor outputs[OPERANDS_MAX];
    exg_kernel_call call = call_of(c, inputs, outputs);
    exg_fault_note fault = {0};
    exg_error err;

    outputs[0] = (exg_tensor){.dtype = EXG_DTYPE_U8, .rank = 1};
    call.output_count = 1;
    call.channels_last = c->channels_last;
    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_error_clear(&err);
    if (kernel->prepare(&call, &err) != EXG_OK) {
        fail_msg("%s: %s", kernel->name, err.message);
    }
    assert_true(exg_tensor_numel(&outputs[0]) > 0);
    set_up(&call, threads, &fault);
    inputs[c->kernel->packs].data = c->inputs[c->kernel->packs].data;
    outputs[0].data = aligned_alloc(64, ((size_t)exg_tensor_numel(&outputs[0]) + 63) & ~(size_t)63);
    assert_non_null(outputs[0].data);
    kernel->run(&call);
    tear_down(&call);
    return outputs[0];
}

/* Fills the stack that comes next with NaN, of whatever type: what a kernel reads there without
 * having written it shows. */
static __attribute__((noinline)) void dirty_stack(void)
{
    char room[1 << 20];

    memset(room, 0xff, sizeof(room));
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* Where they are; in results lies anything. A result may be absent. */
static void place_operands(const kernel_case *c, exg_tensor *inputs, exg_tensor *outputs)
{
    for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
        inputs[i].data = c->inputs[i].data;
        outputs[i].data = c->outputs[i].data;
        if (i < c->output_count && outputs[i].data != NULL && !is_in_place(c, i)) {
            memset(outputs[i].data, 0x5a, byte_count(&outputs[i]));
        }
    }
}

static void run_once(kernel_case *c, uint32_t threads)
{
    exg_tensor inputs[OPERANDS_MAX];
    exg_tensor outputs[OPERANDS_MAX];
    exg_kernel_call call = call_of(c, inputs, outputs);
    exg_fault_note fault = {0};
    exg_tensor packed = {0};
    exg_error err;

    if (c->packs) {
        packed = pack(c, threads);
        call.packed = &packed;
    }
    call.channels_last = c->channels_last;
    exg_error_clear(&err);
    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (c->kernel->prepare != NULL && c->kernel->prepare(&call, &err) != EXG_OK) {
        fail_msg("%s: %s", c->kernel->name, err.message);
    }
    set_up(&call, threads, &fault);
    place_operands(c, inputs, outputs);
    dirty_stack();
    c->kernel->run(&call);
    assert_int_equal(fault.fault, c->fault);
    tear_down(&call);
    free(packed.data);
}

#ifdef __SANITIZE_ADDRESS__
#define IS_SLOW true
#else
#define IS_SLOW false
#endif

static void run_with_threads(kernel_case *c)
{
    void *first[OPERANDS_MAX] = {NULL};

    run_once(c, 0);
    for (uint32_t o = 0; o < c->output_count; o++) {
        if (c->outputs[o].data == NULL) {
            continue;
        }
        first[o] = malloc(byte_count(&c->outputs[o]) + 1);
        assert_non_null(first[o]);
        memcpy(first[o], c->outputs[o].data, byte_count(&c->outputs[o]));
    }
    for (uint32_t threads = IS_SLOW || amx_stands_in() ? 3 : 1; threads <= 3; threads++) {
        bool in_place = false;

        for (uint32_t o = 0; o < c->output_count; o++) {
            in_place = in_place || is_in_place(c, o);
        }
        if (in_place) {
            continue; /* a second run would start from other values */
        }
        run_once(c, threads);
        for (uint32_t o = 0; o < c->output_count; o++) {
            assert_memory_equal(first[o], c->outputs[o].data, byte_count(&c->outputs[o]));
        }
    }
    for (uint32_t o = 0; o < c->output_count; o++) {
        free(first[o]);
    }
}

/* On the device in place of instruction sets; false: there is none, or it does not take it. */
static bool run_there(kernel_case *c)
{
    exg_tensor inputs[OPERANDS_MAX];
    exg_tensor outputs[OPERANDS_MAX];
    exg_kernel_call call = call_of(c, inputs, outputs);
    exg_fault_note fault = {0};

    if (!on_device()) {
        return false;
    }
    place_operands(c, inputs, outputs);
    if (c->channels_last || !run_on_device(c->kernel, &call, c->packs, &fault)) {
        run_once(c, 0); /* the host's sets and threads are those of the run without a device */
        return true;
    }
    assert_int_equal(fault.fault, c->fault);
    return true;
}

/* Whether the case's dtypes have loops of this set: past v4 there are those of bytes and bf16. */
static bool has_loops(const kernel_case *c, int isa)
{
    bool has_bytes = false;
    bool has_bf16 = false;

    for (uint32_t i = 0; i < c->input_count; i++) {
        exg_dtype dtype = c->inputs[i].dtype;

        has_bytes = has_bytes || dtype == EXG_DTYPE_I8 || dtype == EXG_DTYPE_U8;
        has_bf16 = has_bf16 || dtype == EXG_DTYPE_BF16;
    }
    return isa <= EXG_ISA_V4 || (isa != EXG_ISA_BF16 && has_bytes) ||
           (isa != EXG_ISA_VNNI && has_bf16);
}

/* Limits calls to the instruction set after `isa` (-1: to the first) that runs here, AMX by its
 * stand-in too; after the last there is no limit. */
static int next_isa(const kernel_case *c, int isa)
{
    if (isa < 0) {
        (void)amx_stand_in();
    }
    for (isa++; isa < EXG_ISA_COUNT; isa++) {
        exg_isa_limit((exg_isa)isa);
        if (exg_isa_current() == (exg_isa)isa && has_loops(c, isa)) {
            return isa;
        }
    }
    amx_stand_down();
    exg_isa_limit(EXG_ISA_COUNT - 1);
    return isa;
}

void run_everywhere(kernel_case *c)
{
    if (run_there(c)) {
        return;
    }
    for (int isa = next_isa(c, -1); isa < EXG_ISA_COUNT; isa = next_isa(c, isa)) {
        run_with_threads(c);
    }
}

/* The step between neighbouring values around 1. */
static double rounding_of(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F32    ? 0x1p-23
           : dtype == EXG_DTYPE_F64  ? 0x1p-52
           : dtype == EXG_DTYPE_BF16 ? 0x1p-7
           : dtype == EXG_DTYPE_F16  ? 0x1p-10
                                     : 0;
}

double tolerance_of(exg_dtype dtype, int64_t terms)
{
    double compute = dtype == EXG_DTYPE_F64 ? 0x1p-52 : 0x1p-23;

    return exg_dtype_is_float(dtype)
               ? rounding_of(dtype) + compute * (double)(terms > 1 ? terms : 1)
               : 0;
}

void expect_values(const kernel_case *c, uint32_t output, const double *expected, double tolerance)
{
    const exg_tensor *t = &c->outputs[output];
    int64_t n = exg_tensor_numel(t);
    double *got = values_of(t);

    for (int64_t i = 0; i < n; i++) {
        double a = got[i];
        double b = expected[i];
        bool close = a == b || (a != a && b != b) ||
                     (isfinite(b) && fabs(a - b) <= tolerance * (1 + fabs(b)));

        if (!close) {
            fail_msg("%s of %s, output %u, element %lld: %.9g, expected %.9g", c->kernel->name,
                     exg_dtype_name(t->dtype), output, (long long)i, a, b);
        }
    }
    free(got);
}

void expect_kernel(kernel_case *c, uint32_t output, const double *expected, double tolerance)
{
    if (run_there(c)) {
        expect_values(c, output, expected, tolerance);
        return;
    }
    for (int isa = next_isa(c, -1); isa < EXG_ISA_COUNT; isa = next_isa(c, isa)) {
        run_with_threads(c);
        expect_values(c, output, expected, tolerance);
    }
}
