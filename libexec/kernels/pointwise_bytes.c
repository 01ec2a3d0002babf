/* pointwise_bytes.c - programs of uint8 and bool that are run on bytes. */
#include "libexec/kernels/pointwise_program.h"

typedef enum bytes_kind { NOT_BYTES, OF_UINT8, OF_TRUTH } bytes_kind;

static const uint8_t bytes_kinds[EXG_FORMULA_COUNT] = {
#define EXG_BYTES(id)       [EXG_FORMULA_##id] = OF_UINT8,
#define EXG_BYTES_TRUTH(id) [EXG_FORMULA_##id] = OF_TRUTH,
#include "libexec/kernels/bytes.def"
};

static bool is_byte(const exg_pointwise *p, uint8_t value)
{
    return p->values[value].dtype == EXG_DTYPE_U8 || p->values[value].dtype == EXG_DTYPE_B8;
}

/* Does the instruction give on bytes what it gives on int32? */
static bool takes_bytes(const exg_pointwise *p, const exg_instruction *i)
{
    bool does = is_byte(p, i->target);

    for (uint32_t k = 0; k < i->source_count; k++) {
        does = does && is_byte(p, i->sources[k]);
    }
    switch (i->kind) {
    case EXG_INSTRUCTION_FORMULA:
        return does && bytes_kinds[i->formula_id] >=
                           (p->values[i->target].dtype == EXG_DTYPE_U8 ? OF_UINT8 : OF_TRUTH);
    case EXG_INSTRUCTION_STORE:
        return does && i->dtype == p->values[i->target].dtype;
    case EXG_INSTRUCTION_LOAD:
    case EXG_INSTRUCTION_ROUND:
        return does;
    case EXG_INSTRUCTION_CONVERT:
        break;
    }
    return false;
}

void exg_pointwise_make_bytes(exg_pointwise *p)
{
    const exg_convert_loops *loops = EXG_LOOPS(exg_loops_convert);
    uint8_t kept = 0;

    for (uint8_t k = 0; k < p->instruction_count; k++) {
        if (!takes_bytes(p, &p->instructions[k])) {
            return;
        }
    }
    for (uint8_t k = 0; k < p->instruction_count; k++) {
        exg_instruction *i = &p->instructions[k];

        p->values[i->target].compute = EXG_COMPUTE_U8;
        if (i->kind == EXG_INSTRUCTION_LOAD) {
            i->load = i->dtype == EXG_DTYPE_B8 ? loops->load_truths : loops->load_bytes;
            i->is_direct = i->dtype == EXG_DTYPE_U8;
        } else if (i->kind == EXG_INSTRUCTION_STORE) {
            i->store = loops->store_bytes;
        } else if (i->kind == EXG_INSTRUCTION_FORMULA) {
            i->formula = EXG_LOOPS(exg_loops_bytes)->of[i->formula_id];
            i->takes_flow = false;
        }
        if (i->kind != EXG_INSTRUCTION_ROUND) { /* bytes are round */
            p->instructions[kept++] = *i;
        }
    }
    p->instruction_count = kept;
}
