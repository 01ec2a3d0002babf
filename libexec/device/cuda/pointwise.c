/* pointwise.c - a pointwise program as text: the formulas of pointwise.def, one function each,
 * called in turn for every element.
 *
 * On the way in call->params is the finished program (exg_pointwise_finish). What differs
 * between programs of one shape (sizes, strides, scalars) is a parameter, not text.
 */
#include "libexec/device/cuda/pointwise.h"
#include "libexec/device/cuda/kernel_args.h"
#include "libexec/device/cuda/operand.h"
#include "libexec/kernels/cpu/common.h"

#include <exg/text.h>
#include <stdio.h>
#include <string.h>

typedef enum result_kind { PROMOTE, NUMBER, FLOAT, BOOL, FIRST, WHERE, CAST } result_kind;

static const struct {
    result_kind result;
    const char *float_formula;
    const char *int_formula;
} formulas[EXG_FORMULA_COUNT] = {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding)                    \
    {result, #float_formula, #int_formula},
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
};

static const struct {
    const char *type;
    const char *capital; /* of EXG_FORMULA_... */
} computes[EXG_COMPUTE_COUNT] = {
    [EXG_COMPUTE_F32] = {"float", "F32"},   [EXG_COMPUTE_F64] = {"double", "F64"},
    [EXG_COMPUTE_I32] = {"int32_t", "I32"}, [EXG_COMPUTE_I64] = {"int64_t", "I64"},
    [EXG_COMPUTE_BF16] = {"float", "F32"}, /* rounded */
    [EXG_COMPUTE_U8] = {"uint8_t", "I32"}, /* wraps */
};

/* The compute type a formula is evaluated in: its result's, or of BOOL its operands'. */
static exg_compute compute_of(const exg_pointwise *p, const exg_instruction *i)
{
    exg_compute compute = formulas[i->formula_id].result == BOOL ? p->values[i->sources[0]].compute
                                                                 : p->values[i->target].compute;

    return compute == EXG_COMPUTE_BF16 ? EXG_COMPUTE_F32
           : compute == EXG_COMPUTE_U8 ? EXG_COMPUTE_I32
                                       : compute;
}

/* ---- text ------------------------------------------------------------------------------ */

static void write_formula(exg_text *text, const exg_pointwise *p, uint8_t k)
{
    const exg_instruction *i = &p->instructions[k];
    exg_compute compute = compute_of(p, i);
    bool is_float = compute == EXG_COMPUTE_F32 || compute == EXG_COMPUTE_F64;
    const char *formula =
        is_float ? formulas[i->formula_id].float_formula : formulas[i->formula_id].int_formula;
    const char *out = formulas[i->formula_id].result == BOOL ? "int32_t" : "C";
    const char *first = formulas[i->formula_id].result == WHERE ? "int32_t" : "C";

    exg_text_printf(text,
                    "static inline %s formula_%u(const %s a, const C b, const C c, const C s, "
                    "const C t, const C u, const C v, int *bad_out)\n{\n"
                    "    const int far = %s;\n"
                    "    const int wide = 1;\n"
                    "    int bad = 0;\n"
                    "    %s result;\n\n"
                    "    (void)a, (void)b, (void)c, (void)s, (void)t, (void)u, (void)v;\n"
                    "    (void)far, (void)wide;\n"
                    "    result = (%s)(%s);\n"
                    "    *bad_out |= bad;\n"
                    "    return result;\n}\n",
                    out, k, first,
                    compute == EXG_COMPUTE_F32 ? "!(exg_f32_abs(a) <= EXG_F32_NEAR / 4)" : "0", out,
                    out, formula);
}

/* The formulas, by compute type: formula.h means one at a time. */
static void write_formulas(exg_text *text, const exg_pointwise *p)
{
    bool has_special = false;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        const exg_instruction *i = &p->instructions[k];

        has_special |= i->kind == EXG_INSTRUCTION_FORMULA &&
                       strstr(formulas[i->formula_id].float_formula, "SPECIAL") != NULL;
    }
    if (has_special) {
        exg_text_puts(text, "#include \"libexec/kernels/special.c\"\n");
    }
    for (int compute = 0; compute < EXG_COMPUTE_COUNT; compute++) {
        bool is_open = false;

        for (uint8_t k = 0; k < p->instruction_count; k++) {
            const exg_instruction *i = &p->instructions[k];

            if (i->kind != EXG_INSTRUCTION_FORMULA || (int)compute_of(p, i) != compute) {
                continue;
            }
            if (!is_open) {
                exg_text_printf(text,
                                "#define EXG_FORMULA_%s\n"
                                "#include \"libexec/kernels/formula.h\"\n",
                                computes[compute].capital);
                if (compute == EXG_COMPUTE_F32) {
                    exg_text_puts(text, "#include \"libexec/kernels/two_over_pi.c\"\n");
                }
                is_open = true;
            }
            write_formula(text, p, k);
        }
    }
}

static uint32_t scalar_words(const exg_pointwise *p)
{
    uint32_t words = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        words += p->instructions[k].kind == EXG_INSTRUCTION_FORMULA
                     ? p->instructions[k].scalar_count
                     : 0;
    }
    return words;
}

static void write_params(exg_text *text, const exg_pointwise *p)
{
    uint32_t scalars = scalar_words(p);

    exg_text_printf(text,
                    "typedef struct pointwise_params {\n"
                    "    void *at[%u];\n"
                    "    void *fault;\n"
                    "    int64_t numel;\n"
                    "    int64_t sizes[%u];\n"
                    "    int64_t strides[%u][%u];\n"
                    "    uint64_t scalars[%u];\n"
                    "} pointwise_params;\n",
                    p->operand_count, p->rank, p->operand_count, p->rank,
                    scalars == 0 ? 1 : scalars);
}

/* ---- vectors ---------------------------------------------------------------------------- */

#define VECTOR_INSTRUCTIONS 32 /* of longer programs a thread takes an element */

typedef enum vector_kind {
    APART, /* elements that do not follow one another */
    RUN,   /* that do, and a vector's are aligned where the operand is */
    SAME   /* one for all of a vector */
} vector_kind;

static vector_kind vector_kind_of(const exg_pointwise *p, uint8_t o, uint32_t length)
{
    const int64_t *strides = p->operands[o].strides;
    bool follows = p->rank > 0 && p->sizes[p->rank - 1] % length == 0;

    if (p->operands[o].is_dense || p->operands[o].is_invariant) {
        return p->operands[o].is_dense ? RUN : SAME;
    }
    for (uint32_t d = 0; follows && d + 1 < p->rank; d++) {
        follows = strides[d] % length == 0 || strides[p->rank - 1] == 0;
    }
    return !follows                    ? APART
           : strides[p->rank - 1] == 0 ? SAME
           : strides[p->rank - 1] == 1 ? RUN
                                       : APART;
}

static exg_dtype dtype_of_operand(const exg_pointwise *p, uint8_t o)
{
    for (uint8_t k = 0; k < p->instruction_count; k++) {
        const exg_instruction *i = &p->instructions[k];

        if (i->operand == o &&
            (i->kind == EXG_INSTRUCTION_LOAD || i->kind == EXG_INSTRUCTION_STORE)) {
            return i->dtype;
        }
    }
    return EXG_DTYPE_U8; /* is not touched */
}

/* Elements that a thread takes at a time, so that the widest are moved as 16 bytes; 1: not so. */
static uint32_t vector_length(const exg_pointwise *p)
{
    uint32_t widest = 1;
    uint32_t length;

    for (uint8_t o = 0; o < p->operand_count; o++) {
        widest = EXG_MAX(widest, exg_dtype_bytes(dtype_of_operand(p, o)));
    }
    length = EXG_CUDA_WORD / widest;
    for (uint8_t k = 0; k < p->instruction_count; k++) {
        const exg_instruction *i = &p->instructions[k];

        if (i->kind == EXG_INSTRUCTION_FORMULA &&
            strstr(formulas[i->formula_id].float_formula, "SPECIAL") != NULL) {
            return 1;
        }
    }
    for (uint8_t o = 0; o < p->operand_count; o++) {
        vector_kind kind = vector_kind_of(p, o, length);

        if (kind == APART || (kind == SAME && p->operands[o].is_output)) {
            return 1;
        }
    }
    return p->instruction_count > VECTOR_INSTRUCTIONS ? 1 : length;
}

/* ---- an element --------------------------------------------------------------------------- */

/* Where element i of each operand lies. */
static void write_offsets(exg_text *text, const exg_pointwise *p)
{
    const char *type = p->numel <= UINT32_MAX ? "uint32_t" : "int64_t"; /* to divide with */
    bool walks = false;

    for (uint8_t o = 0; o < p->operand_count; o++) {
        walks |= !p->operands[o].is_dense && !p->operands[o].is_invariant;
    }
    if (walks) {
        exg_text_printf(text, "    %s rest = (%s)i;\n\n", type, type);
        for (uint32_t d = p->rank; d-- > 0;) {
            if (d == 0) {
                exg_text_puts(text, "    const int64_t i0 = rest;\n");
            } else {
                exg_text_printf(text,
                                "    const int64_t i%u = rest %% (%s)p->sizes[%u];\n"
                                "    rest /= (%s)p->sizes[%u];\n",
                                d, type, d, type, d);
            }
        }
    }
    for (uint8_t o = 0; o < p->operand_count; o++) {
        exg_text_printf(text, "    const int64_t o%u = ", o);
        if (p->operands[o].is_dense || p->operands[o].is_invariant) {
            exg_text_puts(text, p->operands[o].is_dense ? "i;\n" : "0;\n");
            continue;
        }
        for (uint32_t d = 0; d < p->rank; d++) {
            exg_text_printf(text, "%si%u * p->strides[%u][%u]", d == 0 ? "" : " + ", d, o, d);
        }
        exg_text_puts(text, ";\n");
    }
}

static void write_call(exg_text *text, const exg_pointwise *p, uint8_t k, uint32_t scalar)
{
    const exg_instruction *i = &p->instructions[k];
    exg_compute compute = compute_of(p, i);

    exg_text_printf(text, "    %s v%u = formula_%u(v%u, v%u, v%u",
                    computes[p->values[i->target].compute].type, i->target, k, i->sources[0],
                    i->sources[1], i->sources[2]);
    for (uint32_t s = 0; s < EXG_POINTWISE_SCALARS; s++) {
        if (s < i->scalar_count) {
            exg_text_printf(text, ", *(const %s *)&p->scalars[%u]", computes[compute].type,
                            scalar + s);
        } else {
            exg_text_puts(text, ", 0");
        }
    }
    exg_text_puts(text, ", bad);\n");
}

/* In a vector of `length` elements: element e. */
static void write_step(exg_text *text, const exg_pointwise *p, uint8_t k, uint32_t scalar,
                       uint32_t length)
{
    const exg_instruction *i = &p->instructions[k];
    const char *type = computes[p->values[i->target].compute].type;
    bool is_of_vector =
        length > 1 &&
        (i->kind == EXG_INSTRUCTION_STORE ||
         (i->kind == EXG_INSTRUCTION_LOAD && vector_kind_of(p, i->operand, length) == RUN));

    switch (i->kind) {
    case EXG_INSTRUCTION_LOAD:
        exg_text_printf(text,
                        is_of_vector ? "    %s v%u = load_%s(x%u, e);\n"
                                     : "    %s v%u = load_%s(p->at[%u], o%u);\n",
                        type, i->target, exg_cuda_dtype(i->dtype), i->operand, i->operand);
        break;
    case EXG_INSTRUCTION_STORE:
        if (is_of_vector) {
            exg_text_printf(text, "    store_%s(x%u, e, v%u);\n", exg_cuda_dtype(i->dtype),
                            i->operand, i->target);
        } else {
            exg_text_printf(text, "    store_%s(p->at[%u], o%u, v%u);\n", exg_cuda_dtype(i->dtype),
                            i->operand, i->operand, i->target);
        }
        break;
    case EXG_INSTRUCTION_CONVERT:
        exg_text_printf(text, "    %s v%u = (%s)(v%u%s);\n", type, i->target, type, i->sources[0],
                        i->is_truth ? " != 0" : "");
        break;
    case EXG_INSTRUCTION_ROUND:
        exg_text_printf(text, "    v%u = round_%s(v%u);\n", i->target, exg_cuda_dtype(i->dtype),
                        i->target);
        break;
    case EXG_INSTRUCTION_FORMULA:
        write_call(text, p, k, scalar);
        break;
    }
    if (p->values[i->target].compute == EXG_COMPUTE_BF16 &&
        (i->kind == EXG_INSTRUCTION_CONVERT || i->kind == EXG_INSTRUCTION_FORMULA)) {
        exg_text_printf(text, "    v%u = round_%s(v%u);\n", i->target,
                        exg_cuda_dtype(EXG_DTYPE_BF16), i->target);
    }
}

static void write_steps(exg_text *text, const exg_pointwise *p, uint32_t length)
{
    uint32_t scalar = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        write_step(text, p, k, scalar, length);
        scalar += p->instructions[k].kind == EXG_INSTRUCTION_FORMULA
                      ? p->instructions[k].scalar_count
                      : 0;
    }
}

static void write_head(exg_text *text, const exg_pointwise *p)
{
    exg_text_puts(text, "#include \"libexec/kernels/cuda/common.h\"\n");
    write_formulas(text, p);
    write_params(text, p);
}

void exg_cuda_write_program(exg_text *text, const exg_pointwise *p)
{
    write_head(text, p);
    exg_text_puts(text, "static inline void element(const pointwise_params *p, int64_t i, "
                        "int *bad)\n{\n");
    write_offsets(text, p);
    write_steps(text, p, 1);
    exg_text_puts(text, "    (void)bad;\n}\n");
}

/* ---- a vector ------------------------------------------------------------------------------ */

static void write_moves(exg_text *text, const exg_pointwise *p, uint32_t length, bool out)
{
    for (uint8_t o = 0; o < p->operand_count; o++) {
        const char *dtype = exg_cuda_dtype(dtype_of_operand(p, o));
        char at[96];
        char x[16];

        if (p->operands[o].is_output != out || vector_kind_of(p, o, length) != RUN) {
            continue;
        }
        (void)snprintf(at, sizeof(at), "(storage_%s *)p->at[%u] + o%u", dtype, o, o);
        (void)snprintf(x, sizeof(x), "x%u", o);
        exg_text_printf(text, "    move_vector(%s, %s, sizeof(*x%u), %u, count, is_whole);\n",
                        out ? at : x, out ? x : at, o, length);
    }
}

/* Defines elements(), which computes `count` elements from element i; is_whole: a vector of them,
 * and memory is aligned. And is_aligned(). */
static void write_vectors(exg_text *text, const exg_pointwise *p, uint32_t length)
{
    write_head(text, p);
    exg_text_puts(text, "static inline void elements(const pointwise_params *p, int64_t i, "
                        "int count, int is_whole, int *bad)\n{\n");
    write_offsets(text, p);
    for (uint8_t o = 0; o < p->operand_count; o++) {
        if (vector_kind_of(p, o, length) == RUN) {
            exg_text_printf(text, "    ALIGNED_16 storage_%s x%u[%u];\n",
                            exg_cuda_dtype(dtype_of_operand(p, o)), o, length);
        }
    }
    write_moves(text, p, length, false);
    exg_text_printf(text, "    UNROLL\n    for (int e = 0; e < %u; e++) {\n    if (e < count) {\n",
                    length);
    write_steps(text, p, length);
    exg_text_puts(text, "    }\n    }\n");
    write_moves(text, p, length, true);
    exg_text_puts(text, "    (void)bad;\n}\n"
                        "static inline int is_aligned(const pointwise_params *p)\n{\n"
                        "    return (0");
    for (uint8_t o = 0; o < p->operand_count; o++) {
        if (vector_kind_of(p, o, length) == RUN) {
            exg_text_printf(text, " | (uint64_t)p->at[%u] %% %u", o,
                            length * exg_dtype_bytes(dtype_of_operand(p, o)));
        }
    }
    exg_text_puts(text, ") == 0;\n}\n");
}

/* ---- parameters --------------------------------------------------------------------------- */

uint32_t exg_cuda_program_words(const exg_pointwise *p, uint64_t *words, uint32_t most)
{
    uint32_t scalars = scalar_words(p);
    uint32_t at = p->operand_count + 1u;

    if (at + 1 + p->rank * (1u + p->operand_count) + scalars + 1 > most) {
        return 0;
    }
    words[at++] = (uint64_t)p->numel;
    for (uint32_t d = 0; d < p->rank; d++) {
        words[at++] = (uint64_t)p->sizes[d];
    }
    for (uint8_t o = 0; o < p->operand_count; o++) {
        for (uint32_t d = 0; d < p->rank; d++) {
            words[at++] = (uint64_t)p->operands[o].strides[d];
        }
    }
    for (uint8_t k = 0; k < p->instruction_count; k++) {
        const exg_instruction *i = &p->instructions[k];
        uint32_t bytes =
            i->kind == EXG_INSTRUCTION_FORMULA ? exg_compute_bytes(compute_of(p, i)) : 0;

        for (uint32_t s = 0; bytes > 0 && s < i->scalar_count; s++) {
            memcpy(&words[at++], (const char *)i->scalars + s * bytes, bytes);
        }
    }
    return scalars == 0 ? at + 1 : at;
}

void exg_cuda_program_slots(const exg_pointwise *p, exg_cuda_slot_kind inputs,
                            exg_cuda_launch *launch)
{
    for (uint8_t o = 0; o < p->operand_count; o++) {
        exg_cuda_slot_add(launch, p->operands[o].is_output ? EXG_CUDA_OUTPUT : inputs,
                          p->operands[o].index);
    }
    exg_cuda_slot_add(launch, EXG_CUDA_FAULT, 0);
}

static void write_kernel(exg_text *text, const exg_pointwise *p, uint32_t length)
{
    if (length == 1) {
        exg_cuda_write_program(text, p);
    } else {
        write_vectors(text, p, length);
    }
    exg_text_puts(text, "KERNEL(pointwise, pointwise_params)\n{\n"
                        "    int bad = 0;\n\n");
    if (length == 1) {
        exg_text_puts(text, "    FOR_EACH(i, p.numel) {\n"
                            "        element(&p, i, &bad);\n"
                            "    }\n");
    } else {
        exg_text_printf(text,
                        "    const int aligned = is_aligned(&p);\n\n"
                        "    FOR_EACH(v, (p.numel + %u) / %u) {\n"
                        "        const int64_t left = p.numel - v * %u;\n"
                        "        const int count = left < %u ? (int)left : %u;\n\n"
                        "        elements(&p, v * %u, count, aligned && count == %u, &bad);\n"
                        "    }\n",
                        length - 1, length, length, length, length, length, length);
    }
    exg_text_puts(text, "    if (bad != 0) {\n"
                        "        raise_fault(p.fault, FAULT_DIVIDE_BY_ZERO, 0, -1);\n"
                        "    }\n}\n");
}

exg_status exg_cuda_add_program(exg_kernel_call *call, const exg_pointwise *p,
                                exg_cuda_slot_kind inputs, exg_error *err)
{
    uint64_t words[WORDS_MAX] = {0};
    uint32_t count = exg_cuda_program_words(p, words, WORDS_MAX);
    uint32_t length = vector_length(p);
    exg_cuda_launch *launch = NULL;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (count == 0) {
        return exg_cuda_refuse("an elementwise program of so many parameters", err);
    }
    if (p->numel == 0) {
        return EXG_OK;
    }
    write_kernel(&text, p, length);
    status = exg_text_string(&text) == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_cuda_step_add_kernel(call, exg_text_string(&text), "", "pointwise", words,
                                            count * 8, &launch, err);
    exg_text_free(&text);
    EXG_TRY(status);
    exg_cuda_program_slots(p, inputs, launch);
    exg_cuda_grid(launch, exg_ceil_div(p->numel, length));
    return EXG_OK;
}

static exg_status prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_pointwise *p = call->params;

    EXG_TRY(exg_cuda_step_begin(call, err));
    return exg_cuda_add_program(call, p, EXG_CUDA_INPUT, err);
}

const exg_kernel exg_cuda_pointwise = {
    .name = "pointwise",
    .prepare = prepare,
    .run = exg_cuda_step_run,
    .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE,
};
