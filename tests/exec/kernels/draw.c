/* Random numbers by position: bits against the generator itself; all kinds the same wherever
 * they are drawn. */
#include "tests/exec/kernels/harness.h"
#include "tests/exec/kernels/on_device.h"

#include "libexec/kernels/random.h"

#include <string.h>

#define STREAM 3
#define NUMEL  1001

static const exg_random_source source = {.seed = UINT64_C(0x123456789abcdef), .run = 5};
static exg_argument args[2];

static exg_kernel_call call_of(exg_tensor *out)
{
    args[0] = arg_none();
    args[1] = arg_int(STREAM);
    return (exg_kernel_call){
        .args = args, .arg_count = 2, .outputs = out, .output_count = 1, .random = &source};
}

static void draw_here(const exg_kernel *kernel, exg_tensor *out)
{
    exg_kernel_call call = call_of(out);

    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    assert_int_equal(kernel->prepare(&call, NULL), EXG_OK);
    kernel->run(&call);
    exg_arena_destroy(call.arena);
}

static void bits_are_two_numbers_a_block(void **state)
{
    exg_tensor out = make_tensor(EXG_DTYPE_I64, 1, SIZES(NUMEL));

    (void)state;
    draw_here(&exg_kernel_draw_bits, &out);
    for (int64_t i = 0; i < NUMEL; i++) {
        uint32_t words[4];
        uint64_t number;

        exg_random_block(&source, STREAM, (uint64_t)(i / 2), words);
        number = (uint64_t)words[2 * (i % 2) + 1] << 32 | words[2 * (i % 2)];
        assert_true(((const int64_t *)out.data)[i] == (int64_t)(number >> 1));
    }
    free_tensors();
}

static void a_device_draws_the_hosts_numbers(void **state)
{
    static const exg_kernel *const kernels[] = {&exg_kernel_draw_uniform, &exg_kernel_draw_normal,
                                                &exg_kernel_draw_bits};

    (void)state;
    for (uint32_t k = 0; k < 3 * 5; k++) {
        const exg_kernel *kernel = kernels[k / 5];
        exg_dtype dtype = k % 5 < 4 ? float_dtypes[k % 5] : EXG_DTYPE_I64;
        exg_tensor here = make_tensor(dtype, 1, SIZES(NUMEL));
        exg_tensor there = make_tensor(dtype, 1, SIZES(NUMEL));
        exg_kernel_call call = call_of(&there);
        exg_fault_note fault = {0};

        if ((kernel == &exg_kernel_draw_bits) != (dtype == EXG_DTYPE_I64)) {
            continue;
        }
        draw_here(kernel, &here);
        if (on_device() && run_on_device(kernel, &call, &fault)) {
            assert_memory_equal(here.data, there.data, NUMEL * exg_dtype_bytes(dtype));
        }
    }
    free_tensors();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_two_numbers_a_block),
        cmocka_unit_test(a_device_draws_the_hosts_numbers),
    };

    return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
