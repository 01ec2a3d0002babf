/* pointwise.c - builds a pointwise program: its instructions.
 *
 * A register handed out is a value with the dtype it means. Rounding to a narrow
 * dtype is put off until somebody computes with the value; a store narrows anyway.
 * bf16 stays as it is between formulas that take it so, and is widened for others.
 */
#include "libexec/kernels/pointwise_program.h"

#include <assert.h>
#include <exg/operator_id_new.h>
#include <exg/operators.h>
#include <math.h>
#include <string.h>

/* Of one apply(): four for each operand (rounded, then from an integer type to f32, to bf16 and
 * widened), the formula, and three for its result. */
#define STEPS_MAX 16

typedef enum result_kind { PROMOTE, NUMBER, FLOAT, BOOL, FIRST, WHERE, CAST } result_kind;

static const struct {
    result_kind result;
    const char *name;
    const char *float_formula;
    const char *int_formula;
} formulas[EXG_FORMULA_COUNT] = {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    {result, #id, #float_formula, #int_formula},
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
};

static bool find_formula(uint32_t operator_id, exg_formula *formula)
{
    static const uint16_t plus_one[EXG_OPERATOR_COUNT] = {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    [EXG_OP_##id] = EXG_FORMULA_##id + 1,
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
    };

    if (operator_id >= EXG_OPERATOR_COUNT || plus_one[operator_id] == 0) {
        return false;
    }
    *formula = (exg_formula)(plus_one[operator_id] - 1);
    return true;
}

exg_pointwise *exg_pointwise_begin(exg_arena *arena, exg_arena *scratch, uint32_t rank,
                                   const int64_t *sizes)
{
    exg_pointwise *p = EXG_NEW(arena, exg_pointwise);

    assert(rank <= EXG_RANK_MAX);
    if (p == NULL) {
        return NULL;
    }
    p->arena = arena;
    p->rank = rank;
    p->numel = 1;
    for (uint32_t d = 0; d < rank; d++) {
        p->sizes[d] = sizes[d];
        p->numel *= sizes[d];
    }
    p->instructions = EXG_NEW_ARRAY(scratch, exg_instruction, EXG_INSTRUCTION_MAX);
    p->values = EXG_NEW_ARRAY(scratch, exg_tile_value, EXG_VALUE_MAX);
    p->operands = EXG_NEW_ARRAY(scratch, exg_pointwise_operand, EXG_POINTWISE_REGISTERS * 2);
    return p->instructions == NULL || p->values == NULL || p->operands == NULL ? NULL : p;
}

exg_status exg_pointwise_full(exg_error *err)
{
    return EXG_FAIL(err, LIMIT, "PW-001", "a pointwise program has no room for another step");
}

/* Room for `count` more instructions that each make a value. */
static bool has_room(const exg_pointwise *p, uint32_t count)
{
    return p->instruction_count + count <= EXG_INSTRUCTION_MAX &&
           p->value_count + count <= EXG_VALUE_MAX;
}

static exg_instruction *add_instruction(exg_pointwise *p, exg_instruction_kind kind)
{
    exg_instruction *i = &p->instructions[p->instruction_count++];

    i->kind = kind;
    i->operand = EXG_NO_TILE;
    return i;
}

/* The value the newest instruction makes. */
static uint8_t add_value(exg_pointwise *p, exg_compute compute, exg_dtype dtype)
{
    exg_tile_value *v = &p->values[p->value_count];

    v->compute = compute;
    v->dtype = dtype;
    v->is_one = p->numel == 1;
    v->made_by = (uint8_t)(p->instruction_count - 1);
    memset(v->converted, EXG_NO_TILE, sizeof(v->converted));
    v->converted[compute] = p->value_count;
    return p->value_count++;
}

static exg_status add_register(exg_pointwise *p, uint8_t value, uint32_t *reg)
{
    *reg = p->register_count;
    p->registers[p->register_count++] = value;
    return EXG_OK;
}

static uint8_t add_operand(exg_pointwise *p, uint32_t index, bool is_output, exg_dtype dtype)
{
    exg_pointwise_operand *o = &p->operands[p->operand_count];

    o->index = index;
    o->is_output = is_output;
    o->element_bytes = exg_dtype_bytes(dtype);
    return p->operand_count++;
}

exg_status exg_pointwise_load(exg_pointwise *p, uint32_t input, exg_dtype dtype, bool is_one,
                              uint32_t *reg, exg_error *err)
{
    exg_compute compute;
    exg_instruction *i;

    if (!exg_compute_of(dtype, &compute)) {
        return EXG_FAIL(err, UNSUPPORTED, "PW-002", "no elementwise arithmetic on %s",
                        exg_dtype_name(dtype));
    }
    if (!has_room(p, 1) || p->register_count == EXG_POINTWISE_REGISTERS) {
        return exg_pointwise_full(err);
    }
    i = add_instruction(p, EXG_INSTRUCTION_LOAD);
    i->operand = add_operand(p, input, false, dtype);
    i->dtype = dtype;
    i->load = dtype == EXG_DTYPE_BF16 ? EXG_LOOPS(exg_loops_convert)->load_as_is
                                      : EXG_LOOPS(exg_loops_convert)->load[dtype];
    i->target = add_value(p, dtype == EXG_DTYPE_BF16 ? EXG_COMPUTE_BF16 : compute, dtype);
    p->values[i->target].is_one |= is_one;
    i->is_direct = exg_value_is_storage(p, i);
    return add_register(p, i->target, reg);
}

/* Makes the value what storing and loading it would give; one that is stored as it is, is. */
static void settle(exg_pointwise *p, uint8_t value)
{
    exg_tile_value *v = &p->values[value];
    exg_round_loop *round = EXG_LOOPS(exg_loops_convert)->round[v->dtype];

    if (v->is_unrounded && round != NULL) {
        exg_instruction *i = add_instruction(p, EXG_INSTRUCTION_ROUND);

        i->target = value;
        i->dtype = v->dtype;
        i->round = round;
    }
    v->is_unrounded = false;
}

/* The dtype that holds everything its compute type does. */
static exg_dtype natural_dtype(exg_compute compute)
{
    return compute == EXG_COMPUTE_F32   ? EXG_DTYPE_F32
           : compute == EXG_COMPUTE_F64 ? EXG_DTYPE_F64
           : compute == EXG_COMPUTE_I32 ? EXG_DTYPE_I32
           : compute == EXG_COMPUTE_I64 ? EXG_DTYPE_I64
                                        : EXG_DTYPE_BF16;
}

/* The value in another compute type, which bf16 shares with f32 alone. */
static uint8_t converted(exg_pointwise *p, uint8_t value, exg_compute compute)
{
    bool is_rounded_so = compute == EXG_COMPUTE_BF16 && p->values[value].dtype == EXG_DTYPE_BF16;

    if (!is_rounded_so) {
        settle(p, value);
    }
    if (p->values[value].converted[compute] == EXG_NO_TILE) {
        exg_instruction *i = add_instruction(p, EXG_INSTRUCTION_CONVERT);

        i->convert = EXG_LOOPS(exg_loops_convert)->convert[compute][p->values[value].compute];
        i->sources[0] = value;
        i->source_count = 1;
        i->target = add_value(p, compute, natural_dtype(compute));
        p->values[value].converted[compute] = i->target;
    }
    return p->values[value].converted[compute];
}

/* The value as bf16 is stored. */
static uint8_t narrowed(exg_pointwise *p, uint8_t value)
{
    if (p->values[value].compute != EXG_COMPUTE_F32 &&
        p->values[value].compute != EXG_COMPUTE_BF16) {
        value = converted(p, value, EXG_COMPUTE_F32);
    }
    return converted(p, value, EXG_COMPUTE_BF16);
}

/* bf16 widened; any other as it is. */
static uint8_t widened(exg_pointwise *p, uint8_t value)
{
    return p->values[value].compute == EXG_COMPUTE_BF16 ? converted(p, value, EXG_COMPUTE_F32)
                                                        : value;
}

/* The value as 0 or 1. */
static uint8_t truth(exg_pointwise *p, uint8_t value)
{
    exg_instruction *i;

    value = widened(p, value);
    settle(p, value);
    if (p->values[value].dtype == EXG_DTYPE_B8 && p->values[value].compute == EXG_COMPUTE_I32) {
        return value;
    }
    i = add_instruction(p, EXG_INSTRUCTION_CONVERT);
    i->convert = EXG_LOOPS(exg_loops_convert)->truth[p->values[value].compute];
    i->is_truth = true;
    i->sources[0] = value;
    i->source_count = 1;
    i->target = add_value(p, EXG_COMPUTE_I32, EXG_DTYPE_B8);
    return i->target;
}

/* The value as one whose elements the dtype can hold. */
static uint8_t cast(exg_pointwise *p, uint8_t value, exg_dtype dtype)
{
    exg_compute compute = EXG_COMPUTE_F32;
    uint8_t value_count = p->value_count;
    uint8_t result;

    exg_compute_of(dtype, &compute);
    if (p->values[value].dtype == dtype) {
        return value;
    }
    if (dtype == EXG_DTYPE_B8) {
        return truth(p, value);
    }
    if (dtype == EXG_DTYPE_BF16) {
        return narrowed(p, value);
    }
    value = widened(p, value);
    result = converted(p, value, compute);
    if (EXG_LOOPS(exg_loops_convert)->round[dtype] == NULL) {
        return result;
    }
    if (p->value_count == value_count) { /* others read it: round a copy */
        exg_instruction *i = add_instruction(p, EXG_INSTRUCTION_CONVERT);

        i->convert = EXG_LOOPS(exg_loops_convert)->convert[compute][compute];
        i->sources[0] = result;
        i->source_count = 1;
        i->target = add_value(p, compute, dtype);
        result = i->target;
    } else { /* just made: take it out of others' reach */
        p->values[value].converted[compute] = EXG_NO_TILE;
    }
    p->values[result].dtype = dtype;
    p->values[result].is_unrounded = true;
    return result;
}

/* The value as an operand of a formula of the compute type. */
static uint8_t operand(exg_pointwise *p, uint8_t value, exg_dtype dtype, exg_compute compute)
{
    value = compute == EXG_COMPUTE_BF16 ? narrowed(p, value) : widened(p, cast(p, value, dtype));
    settle(p, value);
    return value;
}

static double scalar_float(const exg_argument *a)
{
    switch ((int)a->kind) {
    case EXG_ARGUMENT_FLOAT:
        return a->as_float;
    case EXG_ARGUMENT_SYM_FLOAT:
        return a->as_sym.as_float;
    case EXG_ARGUMENT_INT:
        return (double)a->as_int;
    case EXG_ARGUMENT_SYM_INT:
        return (double)a->as_sym.as_int;
    case EXG_ARGUMENT_BOOL:
        return a->as_bool ? 1 : 0;
    case EXG_ARGUMENT_SYM_BOOL:
        return a->as_sym.as_bool ? 1 : 0;
    default:
        return 0;
    }
}

static int64_t scalar_int(const exg_argument *a)
{
    if (a->kind == EXG_ARGUMENT_INT) {
        return a->as_int;
    }
    return a->kind == EXG_ARGUMENT_SYM_INT ? a->as_sym.as_int : (int64_t)scalar_float(a);
}

/* In the compute type, packed from the front; of bool whether it is 0. NaN is the plain one:
 * nothing follows its upper half. */
static void set_scalars(uint64_t *packed, exg_compute compute, exg_dtype round_to,
                        const exg_argument *scalars, uint32_t count)
{
    exg_round_loop *round = EXG_LOOPS(exg_loops_convert)->round[round_to];
    unsigned char *at = (unsigned char *)packed;

    for (uint32_t k = 0; k < count; k++) {
        double f64 = scalar_float(&scalars[k]);
        float f32 = isnan(f64) ? NAN : (float)f64;
        int64_t i64 = round_to == EXG_DTYPE_B8 ? f64 != 0 : scalar_int(&scalars[k]);
        int32_t i32 = (int32_t)i64;
        const void *from = compute == EXG_COMPUTE_F32   ? (const void *)&f32
                           : compute == EXG_COMPUTE_F64 ? (const void *)&f64
                           : compute == EXG_COMPUTE_I32 ? (const void *)&i32
                                                        : (const void *)&i64;

        memcpy(at, from, exg_compute_bytes(compute));
        if (round != NULL) {
            round(1, at);
        }
        at += exg_compute_bytes(compute);
    }
}

/* PyTorch converts Scalars to bf16 or f16 with the operands, but for these, which
 * it computes in f32 throughout. */
static bool keeps_scalars(exg_formula formula)
{
    switch ((int)formula) {
    case EXG_FORMULA_mul_Scalar:
    case EXG_FORMULA_div_Scalar:
    case EXG_FORMULA_div_floor_Scalar:
    case EXG_FORMULA_div_trunc_Scalar:
    case EXG_FORMULA_floor_divide_Scalar:
    case EXG_FORMULA_lerp_Scalar:
    case EXG_FORMULA_addcmul_default:
    case EXG_FORMULA_addcdiv_default:
    case EXG_FORMULA_leaky_relu_default:
    case EXG_FORMULA_leaky_relu_backward_default:
    case EXG_FORMULA_elu_default:
    case EXG_FORMULA_elu_backward_default:
    case EXG_FORMULA_celu_default:
    case EXG_FORMULA_softplus_default:
    case EXG_FORMULA_softplus_backward_default:
    case EXG_FORMULA_softshrink_default:
        return true;
    default:
        return false;
    }
}

/* PyTorch multiplies and divides floats of 16 bits in f32 by a second operand of one element, as it
 * is: by what its own dtype holds. */
static bool keeps_factor(exg_formula formula, exg_dtype compute, const exg_tile_value *factor)
{
    return (formula == EXG_FORMULA_mul_Tensor || formula == EXG_FORMULA_div_Tensor ||
            formula == EXG_FORMULA_div_floor || formula == EXG_FORMULA_div_trunc) &&
           (compute == EXG_DTYPE_BF16 || compute == EXG_DTYPE_F16) && factor->is_one &&
           factor->dtype != compute;
}

/* A formula that gives the same and costs less. */
static exg_formula simplest(exg_formula formula, exg_dtype compute, const exg_argument *scalars)
{
    double s;

    if (formula == EXG_FORMULA_bitwise_not_default && compute == EXG_DTYPE_B8) {
        return EXG_FORMULA_logical_not_default;
    }
    if (formula != EXG_FORMULA_pow_Tensor_Scalar) {
        return formula;
    }
    s = scalar_float(&scalars[0]);
    if (s == 2) {
        return EXG_FORMULA_square_default;
    }
    if (s == 3) {
        return EXG_FORMULA_cube;
    }
    if (exg_dtype_is_float(compute)) {
        return s == 0.5    ? EXG_FORMULA_sqrt_default
               : s == -0.5 ? EXG_FORMULA_rsqrt_default
               : s == -1   ? EXG_FORMULA_reciprocal_default
                           : formula;
    }
    return formula;
}

static const char *text_of(exg_formula formula, exg_compute compute)
{
    return compute == EXG_COMPUTE_I32 || compute == EXG_COMPUTE_I64
               ? formulas[formula].int_formula
               : formulas[formula].float_formula;
}

static bool is_heavy(exg_formula formula, exg_compute compute)
{
    const char *text = text_of(formula, compute);

    /* functions that cost as much as many additions have long names or division */
    return strstr(text, "EXP") != NULL || strstr(text, "LOG") != NULL ||
           strstr(text, "SIN") != NULL || strstr(text, "COS") != NULL ||
           strstr(text, "TAN") != NULL || strstr(text, "ERF") != NULL ||
           strstr(text, "CDF") != NULL || strstr(text, "POW") != NULL ||
           strstr(text, "MOD") != NULL || strstr(text, "DIV") != NULL ||
           strstr(text, "REMAINDER") != NULL || strstr(text, "GAMMA") != NULL ||
           strstr(text, "SPECIAL") != NULL;
}

static exg_formula_loop *loop_of(exg_formula formula, exg_compute type)
{
    return type == EXG_COMPUTE_BF16 ? EXG_LOOPS(exg_loops_narrow)->of[formula]
                                    : EXG_LOOPS(exg_loops_pointwise)->of[type][formula];
}

/* Checks what apply() was asked for. */
static exg_status check_apply(exg_formula formula, exg_dtype compute, exg_dtype result,
                              exg_compute *type, exg_error *err)
{
    exg_compute unused;

    if (!exg_compute_of(compute, type) || !exg_compute_of(result, &unused)) {
        return EXG_FAIL(err, UNSUPPORTED, "PW-002", "no elementwise arithmetic on %s",
                        exg_dtype_name(exg_compute_of(compute, type) ? result : compute));
    }
    if (strcmp(text_of(formula, *type), "NONE") == 0) {
        return EXG_FAIL(err, UNSUPPORTED, "PW-003", "%s is not defined for %s",
                        formulas[formula].name, exg_dtype_name(compute));
    }
    return EXG_OK;
}

bool exg_pointwise_takes(uint32_t operator_id, exg_dtype compute)
{
    exg_formula formula;
    exg_compute type;

    return find_formula(operator_id, &formula) &&
           check_apply(formula, compute, compute, &type, NULL) == EXG_OK;
}

exg_status exg_pointwise_apply(exg_pointwise *p, uint32_t operator_id, exg_dtype compute,
                               exg_dtype result, const uint32_t *sources, uint32_t source_count,
                               const exg_argument *scalars, uint32_t scalar_count, uint32_t *reg,
                               exg_error *err)
{
    exg_formula formula = EXG_FORMULA_COUNT;
    exg_compute type = EXG_COMPUTE_F32;
    exg_instruction *i;
    uint64_t scalar_bits[EXG_POINTWISE_SCALARS] = {0};
    uint8_t values[3];
    bool keeps;
    exg_dtype meaning;

    if (!find_formula(operator_id, &formula) || source_count < 1 || source_count > 3 ||
        scalar_count > EXG_POINTWISE_SCALARS) {
        return EXG_FAIL(err, USAGE, "PW-004",
                        "operator %u is not a pointwise operator of %u operands", operator_id,
                        source_count);
    }
    if (!has_room(p, STEPS_MAX) || p->register_count == EXG_POINTWISE_REGISTERS) {
        return exg_pointwise_full(err);
    }
    if (formulas[formula].result == CAST) {
        exg_compute unused;

        if (!exg_compute_of(result, &unused)) {
            return EXG_FAIL(err, UNSUPPORTED, "PW-002", "no elementwise arithmetic on %s",
                            exg_dtype_name(result));
        }
        return add_register(p, cast(p, p->registers[sources[0]], result), reg);
    }
    EXG_TRY(check_apply(formula, compute, result, &type, err));
    formula = simplest(formula, compute, scalars);
    set_scalars(scalar_bits, type, keeps_scalars(formula) ? EXG_DTYPE_F32 : compute, scalars,
                scalar_count);
    keeps =
        source_count == 2 && keeps_factor(formula, compute, &p->values[p->registers[sources[1]]]);
    if (!keeps && compute == EXG_DTYPE_BF16 && EXG_LOOPS(exg_loops_narrow)->of[formula] != NULL) {
        type = EXG_COMPUTE_BF16;
    }
    for (uint32_t k = 0; k < source_count; k++) {
        values[k] = p->registers[sources[k]];
        values[k] = formulas[formula].result == WHERE && k == 0
                        ? truth(p, values[k])
                        : operand(p, values[k], keeps && k == 1 ? EXG_DTYPE_F32 : compute, type);
    }
    i = add_instruction(p, EXG_INSTRUCTION_FORMULA);
    i->formula = loop_of(formula, type);
    i->takes_flow = type == EXG_COMPUTE_F32 || type == EXG_COMPUTE_BF16 ||
                    strchr(text_of(formula, type), '(') == NULL; /* see loops/pointwise.c */
    memcpy(i->scalars, scalar_bits, sizeof(scalar_bits));
    i->formula_id = (uint16_t)formula;
    i->scalar_count = (uint8_t)scalar_count;
    i->source_count = (uint8_t)source_count;
    for (uint32_t k = 0; k < 3; k++) {
        i->sources[k] = values[k < source_count ? k : 0];
    }
    meaning = formulas[formula].result == BOOL ? EXG_DTYPE_B8 : compute;
    i->target = add_value(p, meaning == EXG_DTYPE_B8 ? EXG_COMPUTE_I32 : type, meaning);
    p->values[i->target].is_unrounded =
        formulas[formula].result != BOOL && type != EXG_COMPUTE_BF16;
    i->is_heavy = is_heavy(formula, type);
    p->has_heavy |= i->is_heavy && type != EXG_COMPUTE_BF16; /* those take few steps */
    return add_register(p, cast(p, i->target, result), reg);
}

exg_status exg_pointwise_store(exg_pointwise *p, uint32_t output, exg_dtype dtype, uint32_t reg,
                               exg_error *err)
{
    exg_compute compute;
    exg_instruction *i;
    uint8_t value;

    if (!exg_compute_of(dtype, &compute)) {
        return EXG_FAIL(err, UNSUPPORTED, "PW-002", "no elementwise arithmetic on %s",
                        exg_dtype_name(dtype));
    }
    if (!has_room(p, 5) || p->operand_count == EXG_POINTWISE_REGISTERS * 2) {
        return exg_pointwise_full(err);
    }
    value = cast(p, p->registers[reg], dtype);
    i = add_instruction(p, EXG_INSTRUCTION_STORE);
    i->operand = add_operand(p, output, true, dtype);
    i->dtype = dtype;
    i->store = p->values[value].compute == EXG_COMPUTE_BF16
                   ? EXG_LOOPS(exg_loops_convert)->store_as_is
                   : EXG_LOOPS(exg_loops_convert)->store[dtype];
    i->target = value;
    return EXG_OK;
}

const exg_kernel exg_kernel_pointwise = {
    .name = "pointwise",
    .run = exg_pointwise_run,
    .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE | EXG_KERNEL_RAISES,
};
