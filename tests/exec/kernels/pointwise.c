/* Pointwise programs: operands of every kind, rounding, fusion, sharing of memory.
 * Formulas are checked against C's math.h; PyTorch's answers are in the operator
 * corpus (tests/interop). */
#include "tests/exec/kernels/harness.h"
#include "tests/exec/kernels/on_device.h"

#include "libexec/kernels/compute.h"
#include "libexec/kernels/pointwise.h"

#include <exg/operators.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- running one program ------------------------------------------------------------ */

typedef struct program {
    exg_arena *arena, *scratch;
    exg_pointwise *p;
    exg_kernel_call call;
    exg_tensor inputs[OPERANDS_MAX];
    exg_tensor outputs[OPERANDS_MAX];
    exg_fault_note fault;
    exg_error err;
} program;

static void begin(program *g, uint32_t rank, const int64_t *sizes)
{
    memset(g, 0, sizeof(*g));
    g->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    g->scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    g->p = exg_pointwise_begin(g->arena, g->scratch, rank, sizes);
    g->call.inputs = g->inputs;
    g->call.outputs = g->outputs;
    g->call.fault = &g->fault;
    assert_non_null(g->p);
}

static uint32_t load(program *g, exg_tensor t)
{
    uint32_t reg;

    g->inputs[g->call.input_count] = t;
    assert_int_equal(exg_pointwise_load(g->p, g->call.input_count++, t.dtype, false, &reg, &g->err),
                     EXG_OK);
    return reg;
}

static uint32_t apply(program *g, exg_operator_id op, exg_dtype compute, exg_dtype result,
                      uint32_t count, const uint32_t *sources, uint32_t scalar_count,
                      const exg_argument *scalars)
{
    uint32_t reg;

    if (exg_pointwise_apply(g->p, op, compute, result, sources, count, scalars, scalar_count, &reg,
                            &g->err) != EXG_OK) {
        fail_msg("%s", g->err.message);
    }
    return reg;
}

static void store(program *g, exg_tensor t, uint32_t reg)
{
    g->outputs[g->call.output_count] = t;
    assert_int_equal(exg_pointwise_store(g->p, g->call.output_count++, t.dtype, reg, &g->err),
                     EXG_OK);
}

static void finish_and_run(program *g, uint32_t threads)
{
    exg_pool *pool = NULL;

    assert_int_equal(exg_pointwise_finish(g->p, &g->call, &g->err), EXG_OK);
    exg_arena_destroy(g->scratch);
    if (g->call.input_count + g->call.output_count <= 3) { /* room for more is not kept */
        assert_true(exg_arena_used(g->arena) < 4096);
    }
    if (threads > 0) {
        assert_int_equal(exg_pool_create(threads, &pool, NULL), EXG_OK);
    }
    g->call.pool = pool;
    if (!on_device() || !run_on_device(&exg_kernel_pointwise, &g->call, false, g->call.fault)) {
        exg_kernel_pointwise.run(&g->call);
    }
    exg_pool_destroy(pool);
    exg_arena_destroy(g->arena);
}

/* out = op(a, b, scalars), a and b broadcast to out. */
static int run_binary(exg_operator_id op, exg_dtype compute, exg_tensor out, exg_tensor a,
                      exg_tensor b, uint32_t scalar_count, const exg_argument *scalars,
                      uint32_t threads)
{
    program g;
    uint32_t regs[2];

    begin(&g, out.rank, out.sizes);
    regs[0] = load(&g, expanded(a, out.rank, out.sizes));
    regs[1] = load(&g, expanded(b, out.rank, out.sizes));
    store(&g, out, apply(&g, op, compute, out.dtype, 2, regs, scalar_count, scalars));
    finish_and_run(&g, threads);
    return g.fault.fault;
}

static int run_unary(exg_operator_id op, exg_dtype compute, exg_tensor out, exg_tensor a,
                     uint32_t scalar_count, const exg_argument *scalars)
{
    program g;
    uint32_t reg;

    begin(&g, out.rank, out.sizes);
    reg = load(&g, expanded(a, out.rank, out.sizes));
    store(&g, out, apply(&g, op, compute, out.dtype, 1, &reg, scalar_count, scalars));
    finish_and_run(&g, 1);
    return g.fault.fault;
}

/* False: what would run is a set before it, once more. A device is asked as often as ever. */
static bool limit_isa(int isa)
{
    exg_isa_limit((exg_isa)isa);
    return on_device() || exg_isa_current() == (exg_isa)isa;
}

/* ---- operands --------------------------------------------------------------------------- */

static void expect_sum(exg_tensor out, exg_tensor a, exg_tensor b)
{
    exg_tensor ea = expanded(a, out.rank, out.sizes);
    exg_tensor eb = expanded(b, out.rank, out.sizes);
    exg_tensor sum = make_tensor(out.dtype, out.rank, out.sizes);
    const exg_argument alpha = arg_int(2);
    int64_t n = exg_tensor_numel(&out);
    double *want;

    for (int64_t i = 0; i < n; i++) {
        set(&sum, i, get(&ea, i) + 2 * get(&eb, i));
    }
    want = values_of(&sum); /* as the dtype holds them */
    for (int isa = EXG_ISA_GENERIC; isa < EXG_ISA_COUNT; isa++) {
        if (!limit_isa(isa)) {
            continue;
        }
        for (uint32_t threads = 0; threads <= 3; threads++) {
            run_binary(EXG_OP_add_Tensor, out.dtype, out, a, b, 1, &alpha, threads);
            for (int64_t i = 0; i < n; i++) {
                assert_true(get(&out, i) == want[i]);
            }
        }
    }
    exg_isa_limit(EXG_ISA_COUNT - 1);
    free(want);
}

static void operands_of_any_strides_and_broadcasts_are_read_right(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16, EXG_DTYPE_I64,
                                       EXG_DTYPE_U8};
    static const int64_t shapes[][3] = {{3, 5, 7},    {1, 1, 1}, {2, 3, 700},
                                        {130, 1, 33}, {0, 4, 2}, {64, 40, 16}};

    (void)state;
    for (uint32_t k = 0; k < COUNT(dtypes); k++) {
        for (uint32_t s = 0; s < COUNT(shapes); s++) {
            const int64_t *n = shapes[s];
            exg_dtype d = dtypes[k];
            exg_tensor out = make_tensor(d, 3, n);
            exg_tensor plain = make_random(d, 3, n, -9, 9);
            exg_tensor turned = transposed(make_random(d, 3, SIZES(n[2], n[1], n[0]), -9, 9), 0, 2);
            exg_tensor strided = sliced(make_random(d, 3, SIZES(n[0], n[1], 2 * n[2]), -9, 9), 2,
                                        n[2] > 0 ? 1 : 0, n[2], 2);
            exg_tensor row = make_random(d, 1, SIZES(n[2]), -9, 9);
            exg_tensor column = make_random(d, 3, SIZES(n[0], n[1], 1), -9, 9);
            exg_tensor middle = make_random(d, 3, SIZES(n[0], 1, n[2]), -9, 9);
            exg_tensor scalar = make_random(d, 0, NULL, -9, 9);

            expect_sum(out, plain, plain);
            expect_sum(out, plain, turned);
            expect_sum(out, strided, row);
            expect_sum(out, column, middle);
            expect_sum(out, scalar, plain);
            expect_sum(out, row, scalar);
            free_tensors();
        }
    }
}

static void an_output_may_lie_on_an_input(void **state)
{
    exg_tensor a = make_random(EXG_DTYPE_F32, 2, SIZES(70, 900), -9, 9);
    exg_tensor b = make_random(EXG_DTYPE_F32, 2, SIZES(70, 900), -9, 9);
    exg_tensor other = make_tensor(EXG_DTYPE_F32, 2, SIZES(70, 900));
    double *before = malloc(63000 * sizeof(double));
    const exg_argument one = arg_int(1);
    program g;
    uint32_t regs[2];
    uint32_t product;

    (void)state;
    for (int64_t i = 0; i < 63000; i++) {
        before[i] = get(&a, i);
    }
    begin(&g, 2, a.sizes);
    regs[0] = load(&g, a);
    regs[1] = load(&g, b);
    product = apply(&g, EXG_OP_mul_Tensor, EXG_DTYPE_F32, EXG_DTYPE_F32, 2, regs, 0, NULL);
    store(&g, a, product); /* over a, which is read once more below */
    regs[1] = regs[0];
    store(&g, other, apply(&g, EXG_OP_add_Tensor, EXG_DTYPE_F32, EXG_DTYPE_F32, 2, regs, 1, &one));
    finish_and_run(&g, 2);
    for (int64_t i = 0; i < 63000; i++) {
        assert_true(get(&a, i) == (double)((float)before[i] * (float)get(&b, i)));
        assert_true(get(&other, i) == 2 * before[i]);
    }
    free(before);
    free_tensors();
}

/* Two results, of which one is an operand as it is and the other takes its place. */
static void what_is_stored_as_it_was_may_be_written_over(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_F64, EXG_DTYPE_BF16, EXG_DTYPE_F16,
                                       EXG_DTYPE_I64};
    const int64_t sizes[] = {3, 200};

    (void)state;
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        const exg_dtype compute = exg_dtype_bytes(dtypes[d]) == 8 ? dtypes[d] : EXG_DTYPE_F32;
        exg_tensor a = make_tensor(dtypes[d], 2, sizes), b = make_tensor(dtypes[d], 2, sizes);
        exg_tensor out = make_tensor(dtypes[d], 2, sizes);
        uint32_t regs[2];
        program g;

        for (int64_t i = 0; i < 600; i++) {
            set(&a, i, (double)(i % 7));
            set(&b, i, (double)(i % 100));
        }
        begin(&g, 2, sizes);
        regs[0] = load(&g, a);
        regs[1] = load(&g, b);
        store(&g, b, apply(&g, EXG_OP_neg_default, compute, dtypes[d], 1, regs, 0, NULL));
        store(&g, out, regs[1]);
        finish_and_run(&g, 2);
        for (int64_t i = 0; i < 600; i++) {
            assert_true(get(&b, i) == (double)-(i % 7));
            assert_true(get(&out, i) == (double)(i % 100));
        }
    }
    free_tensors();
}

/* ---- dtypes -------------------------------------------------------------------------------- */

static void a_fused_chain_rounds_like_its_nodes_alone(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_BF16, EXG_DTYPE_F16, EXG_DTYPE_I8, EXG_DTYPE_U8};
    const exg_argument one = arg_int(1);

    (void)state;
    for (uint32_t k = 0; k < COUNT(dtypes); k++) {
        exg_tensor a = make_random(dtypes[k], 1, SIZES(1111), -100, 100);
        exg_tensor b = make_random(dtypes[k], 1, SIZES(1111), -100, 100);
        exg_tensor alone = make_tensor(dtypes[k], 1, SIZES(1111));
        exg_tensor sum = make_tensor(dtypes[k], 1, SIZES(1111));
        exg_tensor fused = make_tensor(dtypes[k], 1, SIZES(1111));
        program g;
        uint32_t regs[2];

        run_binary(EXG_OP_mul_Tensor, dtypes[k], alone, a, b, 0, NULL, 1);
        run_binary(EXG_OP_add_Tensor, dtypes[k], sum, alone, a, 1, &one, 1);
        begin(&g, 1, a.sizes);
        regs[1] = load(&g, a);
        regs[0] = load(&g, b);
        regs[0] = apply(&g, EXG_OP_mul_Tensor, dtypes[k], dtypes[k], 2, regs, 0, NULL);
        store(&g, fused, apply(&g, EXG_OP_add_Tensor, dtypes[k], dtypes[k], 2, regs, 1, &one));
        finish_and_run(&g, 1);
        assert_memory_equal(sum.data, fused.data, 1111 * exg_dtype_bytes(dtypes[k]));
        free_tensors();
    }
}

static void every_cast_gives_what_a_c_conversion_gives(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(real_dtypes); i++) {
        for (uint32_t j = 0; j < COUNT(real_dtypes); j++) {
            exg_tensor in = make_random(real_dtypes[i], 1, SIZES(700), 0, 120);
            exg_tensor out = make_tensor(real_dtypes[j], 1, SIZES(700));
            exg_tensor one = make_tensor(real_dtypes[j], 0, NULL);

            run_unary(EXG_OP__to_copy_default, real_dtypes[i], out, in, 0, NULL);
            for (int64_t e = 0; e < 700; e++) {
                /* bool of 0.3 is true, not (int)0.3 */
                double x = get(&in, e);

                set(&one, 0, real_dtypes[j] == EXG_DTYPE_B8 ? x != 0 : x);
                assert_true(get(&out, e) == get(&one, 0));
            }
            free_tensors();
        }
    }
}

static void f16_rounds_to_nearest_even_over_all_halves(void **state)
{
    exg_tensor half = make_tensor(EXG_DTYPE_F16, 1, SIZES(65536));
    exg_tensor wide = make_tensor(EXG_DTYPE_F32, 1, SIZES(65536));
    exg_tensor back = make_tensor(EXG_DTYPE_F16, 1, SIZES(65536));

    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        ((uint16_t *)half.data)[i] = (uint16_t)i;
    }
    run_unary(EXG_OP__to_copy_default, EXG_DTYPE_F16, wide, half, 0, NULL);
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t exponent = i >> 10 & 31;
        double m = (double)(i & 1023);
        double want = exponent == 31  ? (m == 0 ? INFINITY : NAN)
                      : exponent == 0 ? ldexp(m, -24)
                                      : ldexp(1024 + m, (int)exponent - 25);
        double got = (double)((float *)wide.data)[i];

        want = i >> 15 != 0 ? -want : want;
        assert_true(got == want || (isnan(got) && isnan(want)));
    }
    /* halfway between each two neighbours: to the even one */
    run_unary(EXG_OP__to_copy_default, EXG_DTYPE_F32, back, wide, 0, NULL);
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = ((uint16_t *)back.data)[i];

        assert_true(h == i || (isnan((double)((float *)wide.data)[i]) && (h & 0x7c00) == 0x7c00));
    }
    for (uint32_t i = 0; i + 1 < 0x7c00; i++) {
        ((float *)wide.data)[i] = (((float *)wide.data)[i] + ((float *)wide.data)[i + 1]) / 2;
    }
    run_unary(EXG_OP__to_copy_default, EXG_DTYPE_F32, back, wide, 0, NULL);
    for (uint32_t i = 0; i + 1 < 0x7bff; i++) {
        assert_int_equal(((uint16_t *)back.data)[i], i + (i & 1));
    }
    free_tensors();
}

/* Every bf16, and what lies between it and the next. */
static void bf16_rounds_to_nearest_even_with_every_instruction_set(void **state)
{
    static const uint16_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    exg_tensor wide = make_tensor(EXG_DTYPE_F32, 1, SIZES(65536 + 7));
    exg_tensor narrow = make_tensor(EXG_DTYPE_BF16, 1, SIZES(65536 + 7));

    (void)state;
    for (int isa = 0; isa < EXG_ISA_COUNT; isa++) {
        for (uint32_t k = 0; k < COUNT(lower) && limit_isa(isa); k++) {
            for (uint32_t i = 0; i < 65536 + 7; i++) {
                ((uint32_t *)wide.data)[i] = i << 16 | lower[k];
            }
            run_unary(EXG_OP__to_copy_default, EXG_DTYPE_F32, narrow, wide, 0, NULL);
            for (uint32_t i = 0; i < 65536 + 7; i++) {
                uint32_t upper = i & 0xffff;
                bool goes_up = lower[k] > 0x8000 || (lower[k] == 0x8000 && (upper & 1) != 0);
                uint16_t got = ((uint16_t *)narrow.data)[i];

                if (isnan(((float *)wide.data)[i])) {
                    assert_true((got & 0x7fff) > 0x7f80);
                } else {
                    assert_int_equal(got, upper + goes_up);
                }
            }
        }
    }
    exg_isa_limit(EXG_ISA_COUNT - 1);
    free_tensors();
}

/* Those of 32 MiB and more go past the caches, from formulas themselves where they lie on whole
 * lines; what lies before and behind stays. */
static void large_results_are_written_whole(void **state)
{
    static const exg_dtype dtypes[] = {EXG_DTYPE_F32, EXG_DTYPE_BF16};

    (void)state;
    for (uint32_t k = 0; k < 2 * COUNT(dtypes); k++) {
        exg_dtype dtype = dtypes[k / 2];
        int64_t before = k % 2 == 0 ? 3 : 64; /* within a line; whole lines */
        int64_t rows = 8209;                  /* no multiple of anything */
        int64_t size = dtype == EXG_DTYPE_F32 ? 1031 : 2053;
        int64_t room_size = rows * size + 2 * before;
        exg_tensor a = make_random(dtype, 2, SIZES(rows, size), -2, 2);
        exg_tensor b = make_random(dtype, 1, SIZES(size), -2, 2);
        exg_tensor room = make_tensor(dtype, 1, SIZES(room_size));
        exg_tensor out = a;
        double *x = values_of(&a);
        double *y = values_of(&b);
        double *got;

        for (int64_t i = 0; i < before; i++) {
            set(&room, i, 99);
            set(&room, room_size - 1 - i, 99);
        }
        out.data = (char *)room.data + before * exg_dtype_bytes(dtype);
        run_binary(EXG_OP_mul_Tensor, dtype, out, a, b, 0, NULL, 2);
        got = values_of(&out);
        for (int64_t i = 0; i < rows * size; i++) {
            double want = x[i] * y[i % size];

            assert_true(fabs(got[i] - want) <= (k < 2 ? 1e-6 : 8e-3) * fabs(want));
        }
        for (int64_t i = 0; i < before; i++) {
            assert_true(get(&room, i) == 99 && get(&room, room_size - 1 - i) == 99);
        }
        free(x);
        free(y);
        free(got);
        free_tensors();
    }
}

/* One that is an output and read again, one that is neither, five operands asked for, the last
 * result on the first operand. */
static void large_programs_give_what_their_formulas_do(void **state)
{
    int64_t n = (INT64_C(8) << 20) + 77;
    exg_tensor in[5];
    exg_tensor product = make_tensor(EXG_DTYPE_F32, 1, SIZES(n));
    double *x[5];
    double *got[2];
    program g;
    uint32_t regs[5];
    uint32_t pair[2];

    (void)state;
    begin(&g, 1, SIZES(n));
    for (uint32_t k = 0; k < COUNT(in); k++) {
        in[k] = make_random(k == 3 ? EXG_DTYPE_BF16 : EXG_DTYPE_F32, 1, SIZES(n), -2, 2);
        regs[k] = load(&g, in[k]);
        x[k] = values_of(&in[k]);
    }
    pair[0] = apply(&g, EXG_OP_mul_Tensor, EXG_DTYPE_F32, EXG_DTYPE_F32, 2, regs, 0, NULL);
    store(&g, product, pair[0]);
    for (uint32_t k = 2; k < COUNT(in); k++) {
        pair[0] = apply(&g, EXG_OP_tanh_default, EXG_DTYPE_F32, EXG_DTYPE_F32, 1, pair, 0, NULL);
        pair[1] = regs[k];
        pair[0] = apply(&g, EXG_OP_maximum_default, EXG_DTYPE_F32, EXG_DTYPE_F32, 2, pair, 0, NULL);
    }
    store(&g, in[0], pair[0]);
    finish_and_run(&g, 2);
    got[0] = values_of(&product);
    got[1] = values_of(&in[0]);
    for (int64_t i = 0; i < n; i++) {
        double want = x[0][i] * x[1][i];

        assert_true(fabs(got[0][i] - want) <= 1e-6 * fabs(want));
        for (uint32_t k = 2; k < COUNT(in); k++) {
            want = fmax(tanh(want), x[k][i]);
        }
        assert_true(fabs(got[1][i] - want) <= 1e-6);
    }
    for (uint32_t k = 0; k < COUNT(in); k++) {
        free(x[k]);
    }
    free(got[0]);
    free(got[1]);
    free_tensors();
}

/* One bf16 formula has a loop of its own from memory to memory: past the caches, in place, and not
 * where elements lie apart. */
static void narrow_formulas_write_what_they_should(void **state)
{
    static const int64_t counts[] = {(INT64_C(16) << 20) + 13, 1000, 1000};

    (void)state;
    for (uint32_t k = 0; k < COUNT(counts); k++) {
        int64_t n = counts[k];
        exg_tensor a = make_random(EXG_DTYPE_BF16, 1, SIZES(2 * n), -4, 4);
        exg_tensor room = make_tensor(EXG_DTYPE_BF16, 1, SIZES(n + 128));
        exg_tensor out = make_tensor(EXG_DTYPE_BF16, 1, SIZES(n));
        double *x;
        double *got;

        for (int64_t i = 0; i < 128; i++) {
            set(&room, i < 3 ? i : n + i, 99);
        }
        out.data = k == 1 ? a.data : (char *)room.data + 3 * sizeof(uint16_t);
        a.sizes[0] = n;
        a.strides[0] = k == 2 ? 2 : 1;
        x = values_of(&a);
        run_unary(EXG_OP_exp_default, EXG_DTYPE_BF16, out, a, 0, NULL);
        got = values_of(&out);
        for (int64_t i = 0; i < n; i++) {
            double want = exp(x[i]);

            assert_true(fabs(got[i] - want) <= 0x1p-7 * want);
        }
        for (int64_t i = 0; k != 1 && i < 128; i++) {
            assert_true(get(&room, i < 3 ? i : n + i) == 99);
        }
        free(x);
        free(got);
        free_tensors();
    }
}

static void comparisons_give_bool_and_conditions_choose(void **state)
{
    exg_tensor a = make_random(EXG_DTYPE_F64, 2, SIZES(9, 100), -1, 1);
    exg_tensor b = make_random(EXG_DTYPE_F64, 2, SIZES(9, 100), -1, 1);
    exg_tensor less = make_tensor(EXG_DTYPE_B8, 2, SIZES(9, 100));
    exg_tensor least = make_tensor(EXG_DTYPE_F64, 2, SIZES(9, 100));
    program g;
    uint32_t regs[3];

    (void)state;
    begin(&g, 2, a.sizes);
    regs[1] = load(&g, a);
    regs[2] = load(&g, b);
    regs[0] = apply(&g, EXG_OP_lt_Tensor, EXG_DTYPE_F64, EXG_DTYPE_B8, 2, regs + 1, 0, NULL);
    store(&g, less, regs[0]);
    store(&g, least, apply(&g, EXG_OP_where_self, EXG_DTYPE_F64, EXG_DTYPE_F64, 3, regs, 0, NULL));
    finish_and_run(&g, 1);
    for (int64_t i = 0; i < 900; i++) {
        assert_true(get(&less, i) == (get(&a, i) < get(&b, i)));
        assert_true(get(&least, i) == fmin(get(&a, i), get(&b, i)));
    }
    free_tensors();
}

static void bools_compute_as_truth_values(void **state)
{
    exg_tensor a = make_random(EXG_DTYPE_B8, 1, SIZES(99), 0, 1);
    exg_tensor b = make_random(EXG_DTYPE_B8, 1, SIZES(99), 0, 1);
    exg_tensor sum = make_tensor(EXG_DTYPE_B8, 1, SIZES(99));
    exg_tensor inverse = make_tensor(EXG_DTYPE_B8, 1, SIZES(99));
    const exg_argument one = arg_int(1);

    (void)state;
    run_binary(EXG_OP_add_Tensor, EXG_DTYPE_B8, sum, a, b, 1, &one, 1);
    run_unary(EXG_OP_bitwise_not_default, EXG_DTYPE_B8, inverse, a, 0, NULL);
    for (int64_t i = 0; i < 99; i++) {
        assert_int_equal(((uint8_t *)sum.data)[i], get(&a, i) != 0 || get(&b, i) != 0);
        assert_int_equal(((uint8_t *)inverse.data)[i], get(&a, i) == 0);
    }
    free_tensors();
}

/* ---- formulas -------------------------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static double softplus(double x)
{
    return log1p(exp(x));
}

static void unary_formulas_agree_with_the_math_library(void **state)
{
    static const struct {
        exg_operator_id op;
        double (*truth)(double);
        double low, high;
    } rows[] = {
        {EXG_OP_exp_default, exp, -9, 9},         {EXG_OP_expm1_default, expm1, -3, 3},
        {EXG_OP_log_default, log, 0.001, 1000},   {EXG_OP_log1p_default, log1p, -0.9, 9},
        {EXG_OP_log2_default, log2, 0.001, 1000}, {EXG_OP_log10_default, log10, 0.001, 1000},
        {EXG_OP_sqrt_default, sqrt, 0, 100},      {EXG_OP_rsqrt_default, reciprocal_root, 0.1, 9},
        {EXG_OP_sin_default, sin, -50, 50},       {EXG_OP_cos_default, cos, -50, 50},
        {EXG_OP_tan_default, tan, -1.4, 1.4},     {EXG_OP_tanh_default, tanh, -4, 4},
        {EXG_OP_sinh_default, sinh, -4, 4},       {EXG_OP_cosh_default, cosh, -4, 4},
        {EXG_OP_asin_default, asin, -1, 1},       {EXG_OP_acos_default, acos, -1, 1},
        {EXG_OP_atan_default, atan, -9, 9},       {EXG_OP_erf_default, erf, -4, 4},
        {EXG_OP_erfc_default, erfc, -4, 4},       {EXG_OP_floor_default, floor, -9, 9},
        {EXG_OP_ceil_default, ceil, -9, 9},       {EXG_OP_trunc_default, trunc, -9, 9},
        {EXG_OP_round_default, rint, -9, 9},      {EXG_OP_abs_default, fabs, -9, 9},
        {EXG_OP_sigmoid_default, sigmoid, -9, 9}, {EXG_OP_silu_default, silu, -9, 9},
        {EXG_OP_gelu_none, gelu, -4, 4},          {EXG_OP_gelu_tanh, gelu_tanh, -4, 4},
        {EXG_OP_relu_default, relu, -9, 9},       {EXG_OP_log_sigmoid_default, NULL, -9, 9},
    };

    (void)state;
    for (uint32_t r = 0; r < COUNT(rows); r++) {
        for (uint32_t k = 0; k < COUNT(float_dtypes); k++) {
            exg_dtype d = float_dtypes[k];
            exg_tensor a = make_random(d, 1, SIZES(777), rows[r].low, rows[r].high);
            exg_tensor out = make_tensor(d, 1, SIZES(777));

            run_unary(rows[r].op, d, out, a, 0, NULL);
            for (int64_t i = 0; i < 777; i++) {
                double want =
                    rows[r].truth == NULL ? -softplus(-get(&a, i)) : rows[r].truth(get(&a, i));

                if (fabs(get(&out, i) - want) > tolerance_of(d, 4) * (1 + fabs(want))) {
                    fail_msg("row %u of %s: f(%.9g) = %.9g, not %.9g", r, exg_dtype_name(d),
                             get(&a, i), get(&out, i), want);
                }
            }
            free_tensors();
        }
    }
}

static void integer_division_follows_python_and_by_zero_raises(void **state)
{
    static const struct {
        int64_t a, b, floored, truncated, remainder, c_remainder;
    } rows[] = {
        {7, 2, 3, 3, 1, 1},     {-7, 2, -4, -3, 1, -1}, {7, -2, -4, -3, -1, 1},
        {-7, -2, 3, 3, -1, -1}, {6, 3, 2, 2, 0, 0},     {INT64_MIN, -1, INT64_MIN, INT64_MIN, 0, 0},
        {5, 0, 0, 0, 0, 0},
    };
    exg_tensor a = make_tensor(EXG_DTYPE_I64, 1, SIZES(1));
    exg_tensor b = make_tensor(EXG_DTYPE_I64, 1, SIZES(1));
    exg_tensor out = make_tensor(EXG_DTYPE_I64, 1, SIZES(1));
    int64_t *result = out.data;

    (void)state;
    for (uint32_t r = 0; r < COUNT(rows); r++) {
        exg_fault fault = rows[r].b == 0 ? EXG_FAULT_DIVIDE_BY_ZERO : EXG_FAULT_NONE;

        *(int64_t *)a.data = rows[r].a;
        *(int64_t *)b.data = rows[r].b;
        assert_int_equal(run_binary(EXG_OP_div_floor, EXG_DTYPE_I64, out, a, b, 0, NULL, 1), fault);
        assert_int_equal(*result, rows[r].floored);
        assert_int_equal(run_binary(EXG_OP_div_trunc, EXG_DTYPE_I64, out, a, b, 0, NULL, 1), fault);
        assert_int_equal(*result, rows[r].truncated);
        assert_int_equal(run_binary(EXG_OP_remainder_Tensor, EXG_DTYPE_I64, out, a, b, 0, NULL, 1),
                         fault);
        assert_int_equal(*result, rows[r].remainder);
        assert_int_equal(run_binary(EXG_OP_fmod_Tensor, EXG_DTYPE_I64, out, a, b, 0, NULL, 1),
                         fault);
        assert_int_equal(*result, rows[r].c_remainder);
    }
    free_tensors();
}

static void maximum_and_minimum_hand_on_nan(void **state)
{
    exg_tensor a = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
    exg_tensor b = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));
    exg_tensor out = make_tensor(EXG_DTYPE_F32, 1, SIZES(3));

    (void)state;
    set(&a, 0, NAN);
    set(&b, 1, NAN);
    set(&b, 2, 5);
    run_binary(EXG_OP_maximum_default, EXG_DTYPE_F32, out, a, b, 0, NULL, 1);
    assert_true(isnan(get(&out, 0)) && isnan(get(&out, 1)) && get(&out, 2) == 5);
    run_binary(EXG_OP_minimum_default, EXG_DTYPE_F32, out, a, b, 0, NULL, 1);
    assert_true(isnan(get(&out, 0)) && isnan(get(&out, 1)) && get(&out, 2) == 0);
    free_tensors();
}

/* ---- limits -------------------- */

static void a_full_program_says_limit_and_what_it_cannot_do_unsupported(void **state)
{
    exg_tensor a = make_random(EXG_DTYPE_F32, 1, SIZES(8), 0, 1);
    exg_status status = EXG_OK;
    program g;
    uint32_t regs[3];

    (void)state;
    begin(&g, 1, a.sizes);
    regs[0] = load(&g, a);
    for (uint32_t i = 0; i < 1000 && status == EXG_OK; i++) {
        status = exg_pointwise_apply(g.p, EXG_OP_neg_default, EXG_DTYPE_F32, EXG_DTYPE_F32, regs, 1,
                                     NULL, 0, &regs[1], &g.err);
    }
    assert_int_equal(status, EXG_LIMIT);
    exg_arena_destroy(g.scratch);
    exg_arena_destroy(g.arena);

    /* operands and a result that take all the conversions there are */
    for (uint32_t first = 0; first < 16; first++) {
        begin(&g, 1, a.sizes);
        regs[0] = load(&g, a);
        for (uint32_t i = 0; i < first; i++) {
            regs[0] = apply(&g, EXG_OP_neg_default, EXG_DTYPE_F32, EXG_DTYPE_F32, 1, regs, 0, NULL);
        }
        regs[1] = regs[2] = regs[0];
        status = EXG_OK;
        for (uint32_t i = 0; i < 1000 && status == EXG_OK; i++) {
            status = exg_pointwise_apply(g.p, EXG_OP_lerp_Tensor, EXG_DTYPE_BF16, EXG_DTYPE_I8,
                                         regs, 3, NULL, 0, &regs[i % 3], &g.err);
        }
        assert_int_equal(status, EXG_LIMIT);
        exg_arena_destroy(g.scratch);
        exg_arena_destroy(g.arena);
    }

    begin(&g, 1, a.sizes);
    regs[0] = load(&g, a);
    assert_int_equal(exg_pointwise_apply(g.p, EXG_OP_bitwise_not_default, EXG_DTYPE_F32,
                                         EXG_DTYPE_F32, regs, 1, NULL, 0, &regs[1], &g.err),
                     EXG_UNSUPPORTED);
    assert_int_equal(exg_pointwise_load(g.p, 0, EXG_DTYPE_C64, false, &regs[1], &g.err),
                     EXG_UNSUPPORTED);
    exg_arena_destroy(g.scratch);
    exg_arena_destroy(g.arena);
    free_tensors();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_of_any_strides_and_broadcasts_are_read_right),
        cmocka_unit_test(an_output_may_lie_on_an_input),
        cmocka_unit_test(what_is_stored_as_it_was_may_be_written_over),
        cmocka_unit_test(a_fused_chain_rounds_like_its_nodes_alone),
        cmocka_unit_test(every_cast_gives_what_a_c_conversion_gives),
        cmocka_unit_test(f16_rounds_to_nearest_even_over_all_halves),
        cmocka_unit_test(bf16_rounds_to_nearest_even_with_every_instruction_set),
        cmocka_unit_test(large_results_are_written_whole),
        cmocka_unit_test(large_programs_give_what_their_formulas_do),
        cmocka_unit_test(narrow_formulas_write_what_they_should),
        cmocka_unit_test(comparisons_give_bool_and_conditions_choose),
        cmocka_unit_test(bools_compute_as_truth_values),
        cmocka_unit_test(unary_formulas_agree_with_the_math_library),
        cmocka_unit_test(integer_division_follows_python_and_by_zero_raises),
        cmocka_unit_test(maximum_and_minimum_hand_on_nan),
        cmocka_unit_test(a_full_program_says_limit_and_what_it_cannot_do_unsupported),
    };

    return cmocka_run_group_tests_name("pointwise", tests, NULL, NULL);
}
