/* Formulas that run one after the other in registers give, bit by bit, what each gives by itself:
 * of every pair, and in programs of every form, of f32 and of bf16.
 */
#include "tests/exec/kernels/harness.h"

#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/pointwise.h"
#include "libexport/base/element.h"

#include <exg/operators.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    exg_formula formula;
    exg_operator_id op;
} rows[] = {
#define EXG_NARROW(id, function) {EXG_FORMULA_##id, EXG_OP_##id},
#define EXG_NARROW_FORMULA(id)   {EXG_FORMULA_##id, EXG_OP_##id},
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW
};

static float float_at(exg_dtype dtype, const void *x, size_t k)
{
    return dtype == EXG_DTYPE_F32 ? ((const float *)x)[k]
                                  : exg_bf16_to_f32(((const uint16_t *)x)[k]);
}

static bool same(exg_dtype dtype, const void *x, const void *y, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const float a = float_at(dtype, x, k);
        const float b = float_at(dtype, y, k);

        if (memcmp(&a, &b, sizeof(a)) != 0 && !(isnan(a) && isnan(b))) {
            return false;
        }
    }
    return true;
}

/* ---- loops -------------------------------------------------------------------------------- */

typedef struct loop_set {
    exg_isa isa;
    exg_dtype dtype;
    const exg_chain_loops *chain;
    exg_formula_loop *const *alone;
} loop_set;

#define SET(isa, name)                                                                             \
    {isa, EXG_DTYPE_F32, &exg_loops_chain_##name, exg_loops_pointwise_##name.of[EXG_COMPUTE_F32]}, \
    {                                                                                              \
        isa, EXG_DTYPE_BF16, &exg_loops_chain_bf16_##name, exg_loops_narrow_##name.of              \
    }

static const loop_set sets[] = {
    SET(EXG_ISA_GENERIC, generic),
#ifdef EXG_HAVE_X86_64_LOOPS
    SET(EXG_ISA_V3, v3),
#endif
#ifdef EXG_HAVE_V4_LOOPS
    SET(EXG_ISA_V4, v4),
#endif
};

#define ELEMENTS 205 /* whole parts of every instruction set, and a rest */

/* Of f32, of bf16 the upper halves. */
static void operands_of(const loop_set *s, float from[5][ELEMENTS], char to[5][ELEMENTS * 4])
{
    for (uint32_t o = 0; o < 5; o++) {
        for (uint32_t k = 0; k < ELEMENTS; k++) {
            const uint16_t narrow = exg_f32_to_bf16(from[o][k]);

            memcpy(to[o] + k * exg_dtype_bytes(s->dtype),
                   s->dtype == EXG_DTYPE_F32 ? (const void *)&from[o][k] : &narrow,
                   exg_dtype_bytes(s->dtype));
        }
    }
}

static void try_pair(const loop_set *s, exg_formula first, exg_formula second, uint32_t count,
                     char operands[5][ELEMENTS * 4])
{
    static const float numbers[EXG_POINTWISE_SCALARS] = {0.75f, 2, -0.5f, 3};
    const exg_chain_step steps[] = {{first, operands[1], operands[2], numbers},
                                    {second, operands[3], operands[4], numbers}};
    const size_t bytes = exg_dtype_bytes(s->dtype);
    _Alignas(64) char got[(ELEMENTS + 1) * 4];
    _Alignas(64) char want[ELEMENTS * 4];
    int bad = 0;

    memcpy(got, operands[0], sizeof(want));
    memset(got + count * bytes, 99, bytes);
    s->chain->run(count, got, got, steps, 2, NULL);
    s->alone[first](count, want, operands[0], operands[1], operands[2], numbers, NULL, &bad);
    s->alone[second](count, want, want, operands[3], operands[4], numbers, NULL, &bad);
    if (!same(s->dtype, got, want, count) || got[count * bytes] != 99) {
        fail_msg("formulas %d and %d of %s, instruction set %d", (int)first, (int)second,
                 exg_dtype_name(s->dtype), (int)s->isa);
    }
}

static void every_pair_gives_what_its_formulas_do(void **state)
{
    static const float edges[] = {0.0f, -0.0f, 1e-45f, -1e-40f,  3e38f,     -3e38f, 1,
                                  -1,   20,    -90,    INFINITY, -INFINITY, NAN};
    float operands[5][ELEMENTS];

    (void)state;
    srand(5);
    for (uint32_t k = 0; k < 5 * ELEMENTS; k++) {
        operands[k / ELEMENTS][k % ELEMENTS] = rand() % 8 == 0
                                                   ? edges[(uint32_t)rand() % COUNT(edges)]
                                                   : (float)(rand() % 20000 - 10000) / 1500;
    }
    for (const loop_set *s = sets; s < sets + COUNT(sets); s++) {
        char stored[5][ELEMENTS * 4];

        operands_of(s, operands, stored);
        for (uint32_t at = 0; at < COUNT(rows) * COUNT(rows) && s->isa <= exg_isa_current(); at++) {
            try_pair(s, rows[at / COUNT(rows)].formula, rows[at % COUNT(rows)].formula,
                     at % 7 == 0 ? at % ELEMENTS : ELEMENTS, stored);
        }
    }
}

/* ---- programs ------------------------------------------------------------------------------ */

#define STEPS_MAX  20
#define INPUTS     4
#define VALUES_MAX (INPUTS + STEPS_MAX)

typedef struct program {
    exg_arena *arena;
    exg_pointwise *p;
    exg_kernel_call call;
    exg_tensor inputs[VALUES_MAX];
    exg_tensor outputs[VALUES_MAX];
    exg_fault_note fault;
    exg_error err;
} program;

static void begin(program *g, exg_tensor like)
{
    memset(g, 0, sizeof(*g));
    g->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    g->p = exg_pointwise_begin(g->arena, g->arena, like.rank, like.sizes);
    g->call.inputs = g->inputs;
    g->call.outputs = g->outputs;
    g->call.fault = &g->fault;
}

static uint32_t load(program *g, exg_tensor t)
{
    uint32_t reg;

    g->inputs[g->call.input_count] = t;
    assert_int_equal(exg_pointwise_load(g->p, g->call.input_count++, t.dtype, false, &reg, &g->err),
                     EXG_OK);
    return reg;
}

static void store(program *g, exg_tensor t, uint32_t reg)
{
    g->outputs[g->call.output_count] = t;
    assert_int_equal(exg_pointwise_store(g->p, g->call.output_count++, t.dtype, reg, &g->err),
                     EXG_OK);
}

static void finish_and_run(program *g)
{
    assert_int_equal(exg_pointwise_finish(g->p, &g->call, &g->err), EXG_OK);
    exg_kernel_pointwise.run(&g->call);
    exg_arena_destroy(g->arena);
}

typedef struct step {
    exg_operator_id op;
    uint32_t operands;
    uint32_t sources[3]; /* inputs, then earlier steps */
    exg_argument scalars[EXG_POINTWISE_SCALARS];
} step;

static uint32_t apply(program *g, exg_dtype dtype, const step *s, const uint32_t *registers)
{
    uint32_t sources[3];
    uint32_t reg;

    for (uint32_t k = 0; k < s->operands; k++) {
        sources[k] = registers[k];
    }
    if (exg_pointwise_apply(g->p, s->op, dtype, dtype, sources, s->operands, s->scalars,
                            EXG_POINTWISE_SCALARS, &reg, &g->err) != EXG_OK) {
        fail_msg("%s", g->err.message);
    }
    return reg;
}

/* Mostly of what the step before it gives, in any place; a straight program is of such steps alone,
 * one chain or several. */
static step any_step(uint32_t values, bool is_straight)
{
    static const struct {
        exg_operator_id op;
        uint32_t operands;
    } choices[] = {
        {EXG_OP_add_Tensor, 2},    {EXG_OP_sub_Tensor, 2},      {EXG_OP_mul_Tensor, 2},
        {EXG_OP_div_Tensor, 2},    {EXG_OP_maximum_default, 2}, {EXG_OP_addcmul_default, 3},
        {EXG_OP_gelu_none, 1},     {EXG_OP_silu_default, 1},    {EXG_OP_neg_default, 1},
        {EXG_OP_mul_Scalar, 1},    {EXG_OP_clamp_both, 1},      {EXG_OP_relu_default, 1},
        {EXG_OP_log1p_default, 1}, {EXG_OP_atan2_default, 2}, /* never in a chain */
    };
    const size_t choice = (size_t)rand() % (COUNT(choices) - (is_straight ? 2 : 0));
    step s = {.op = choices[choice].op, .operands = choices[choice].operands};

    for (uint32_t k = 0; k < 3; k++) {
        s.sources[k] = rand() % 2 == 0 ? values - 1 : (uint32_t)rand() % values;
        s.sources[k] = is_straight ? (uint32_t)rand() % INPUTS : s.sources[k];
    }
    s.sources[0] = is_straight ? values - 1 : s.sources[0];
    s.scalars[0] = rand() % 3 != 0 ? arg_int(1) : arg_float(-0.5);
    s.scalars[1] = arg_float(1.5);
    s.scalars[2] = s.scalars[3] = arg_int(0);
    return s;
}

/* The last value and any others are outputs; the last may lie on a dense input. */
static void try_program(exg_tensor like, const exg_tensor *inputs)
{
    const uint32_t step_count = 2 + (uint32_t)rand() % (STEPS_MAX - 1);
    const size_t count = (size_t)exg_tensor_numel(&like);
    const bool is_straight = rand() % 4 == 0;
    exg_tensor values[VALUES_MAX];
    exg_tensor stored[VALUES_MAX];
    uint32_t registers[VALUES_MAX];
    step steps[STEPS_MAX];
    program g;

    memcpy(values, inputs, INPUTS * sizeof(*inputs));
    begin(&g, like);
    for (uint32_t v = 0; v < INPUTS; v++) {
        registers[v] = load(&g, inputs[v]);
    }
    for (uint32_t k = 0; k < step_count; k++) {
        const uint32_t v = INPUTS + k;
        uint32_t sources[3];
        program alone;

        steps[k] = any_step(v, is_straight);
        values[v] = make_tensor(like.dtype, like.rank, like.sizes);
        stored[v].data = NULL;
        begin(&alone, like);
        for (uint32_t o = 0; o < steps[k].operands; o++) {
            sources[o] = load(&alone, values[steps[k].sources[o]]);
        }
        store(&alone, values[v], apply(&alone, like.dtype, &steps[k], sources));
        finish_and_run(&alone);
        for (uint32_t o = 0; o < steps[k].operands; o++) {
            sources[o] = registers[steps[k].sources[o]];
        }
        registers[v] = apply(&g, like.dtype, &steps[k], sources);
        if (k + 1 == step_count || (!is_straight && rand() % 6 == 0)) {
            stored[v] = k + 1 == step_count && rand() % 2 == 0
                            ? inputs[0]
                            : make_tensor(like.dtype, like.rank, like.sizes);
            store(&g, stored[v], registers[v]);
        }
    }
    finish_and_run(&g);
    for (uint32_t v = INPUTS; v < INPUTS + step_count; v++) {
        if (stored[v].data != NULL && !same(like.dtype, stored[v].data, values[v].data, count)) {
            fail_msg("step %u of %u, %zu elements", v - INPUTS, step_count, count);
        }
    }
}

static void programs_give_what_their_nodes_do(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {1, 3}, {7, 9}, {5, 64}, {3, 700}, {41, 333}};

    (void)state;
    srand(23);
    for (uint32_t round = 0; round < 1200; round++) {
        const int64_t *sizes = shapes[round % COUNT(shapes)];
        const exg_dtype dtype = round % 3 == 0 ? EXG_DTYPE_BF16 : EXG_DTYPE_F32;
        exg_tensor dense = make_random(dtype, 2, sizes, -3, 3);
        exg_tensor row = make_random(dtype, 1, &sizes[1], -3, 3);
        exg_tensor one = make_random(dtype, 0, NULL, -3, 3);
        exg_tensor turned = make_random(round % 2 == 0 ? EXG_DTYPE_F32 : EXG_DTYPE_BF16, 2,
                                        SIZES(sizes[1], sizes[0]), -3, 3);
        const exg_tensor inputs[INPUTS] = {dense, expanded(row, 2, sizes), expanded(one, 2, sizes),
                                           transposed(turned, 0, 1)};

        exg_isa_limit((exg_isa)(round / COUNT(shapes) % EXG_ISA_COUNT));
        try_program(dense, inputs);
        free_tensors();
    }
    exg_isa_limit(EXG_ISA_COUNT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_gives_what_its_formulas_do),
        cmocka_unit_test(programs_give_what_their_nodes_do),
    };

    return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
