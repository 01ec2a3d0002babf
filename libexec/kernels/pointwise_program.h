/* pointwise_program.h - a pointwise program as pointwise.c builds it and
 * pointwise_run.c runs it.
 */
#ifndef EXG_LIBEXEC_KERNELS_POINTWISE_PROGRAM_H
#define EXG_LIBEXEC_KERNELS_POINTWISE_PROGRAM_H

#include "libexec/kernels/compute.h"
#include "libexec/kernels/pointwise.h"

#define EXG_TILE            512   /* elements that go through all instructions at once, at least */
#define EXG_TILE_MOST       8192  /* where few values are alive, of bytes */
#define EXG_TILE_BYTES_NEAR 28672 /* of all tile buffers that leave the first cache some room */
#define EXG_TILE_ASKED      2048  /* bytes of the widest operand, when they come from memory */
#define EXG_INSTRUCTION_MAX 96
#define EXG_VALUE_MAX       72 /* tiles computed, conversions among them */
#define EXG_NO_TILE         UINT8_MAX

/* Bytes of the tile buffers of a worker: one of 8 bytes an element and a cache
 * line more for each register, the line so that equal offsets in neighbouring
 * buffers do not fall into the same cache set. */
#define EXG_TILE_BYTES_MAX (EXG_POINTWISE_REGISTERS * (EXG_TILE * 8 + 64))

typedef enum exg_instruction_kind {
    EXG_INSTRUCTION_LOAD,
    EXG_INSTRUCTION_STORE,
    EXG_INSTRUCTION_CONVERT,
    EXG_INSTRUCTION_ROUND,
    EXG_INSTRUCTION_FORMULA
} exg_instruction_kind;

typedef struct exg_instruction {
    exg_instruction_kind kind;
    uint8_t target;     /* value written; of a STORE the value read */
    uint8_t sources[3]; /* values; those a formula has not are its first again */
    uint8_t source_count;
    uint8_t operand;   /* LOAD, STORE: index into operands */
    bool is_invariant; /* the same for every tile: done once a block */
    bool is_direct;    /* the value is in the operand's memory when the tile is dense there */
    bool is_truth;     /* CONVERT: to 0 or 1 */
    bool is_chained;   /* FORMULA: runs with the next, whose first operand it makes */
    uint8_t chained;   /* FORMULA: how many before it run with it */
    const exg_chain_loops *chain; /* FORMULA: what it runs in then; NULL: in none */
    bool takes_flow;              /* FORMULA: its loop does */
    bool is_heavy;                /* FORMULA: takes as long as many additions */
    uint8_t asked_count;
    uint8_t asked[EXG_FLOW_ASKED_MAX]; /* operands whose lines the formula asks for */
    uint8_t scalar_count;
    uint16_t formula_id; /* FORMULA: exg_formula */
    exg_dtype dtype;     /* LOAD, STORE, ROUND */
    union {
        exg_load_loop *load;
        exg_store_loop *store;
        exg_convert_loop *convert;
        exg_round_loop *round;
        exg_formula_loop *formula;
    };
    uint64_t scalars[EXG_POINTWISE_SCALARS]; /* in the compute type, packed from the front */
} exg_instruction;

/* A tile being computed. */
typedef struct exg_tile_value {
    exg_compute compute;
    exg_dtype dtype;   /* what it means */
    bool is_unrounded; /* dtype is narrower than compute and this is not yet rounded */
    bool is_invariant;
    bool is_one;                          /* one element, broadcast */
    bool is_filled;                       /* one element a row: filled when that is another */
    uint8_t made_by;                      /* instruction */
    uint8_t last_use;                     /* instruction */
    uint8_t converted[EXG_COMPUTE_COUNT]; /* the same in another compute type, or EXG_NO_TILE */
    uint32_t offset;                      /* of its tile buffer */
} exg_tile_value;

typedef struct exg_pointwise_operand {
    uint32_t index; /* into the call's inputs, or outputs */
    bool is_output;
    bool is_dense; /* row-major over the whole iteration space */
    bool is_invariant;
    bool is_past_caches; /* written, and more than they hold */
    bool is_in_flow;     /* a formula asks for what comes next */
    uint32_t element_bytes;
    int64_t strides[EXG_RANK_MAX]; /* after coalescing, elements */
} exg_pointwise_operand;

struct exg_pointwise {
    exg_arena *arena;
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];
    int64_t numel;
    int64_t block_elements;
    uint32_t block_count;
    uint32_t tile_most, tile; /* elements */
    exg_copy_loop *copy;      /* past the caches */
    bool by_rows;             /* tiles do not cross rows */
    bool asks;                /* operands come from memory: */
    bool asks_far;            /* as far as the second cache, since tile buffers fill the first */
    bool has_heavy;
    uint8_t instruction_count;
    uint8_t invariant_count; /* the first so many instructions are invariant */
    uint8_t value_count;
    uint8_t register_count;
    uint8_t operand_count;
    uint8_t registers[EXG_POINTWISE_REGISTERS]; /* value behind a register handed out */
    exg_instruction *instructions;              /* as many as there may be, until it is finished: */
    exg_tile_value *values;                     /* then as many as there are */
    exg_pointwise_operand *operands;
};

/* The value is what is in memory of the operand. */
static inline bool exg_value_is_storage(const exg_pointwise *p, const exg_instruction *i)
{
    return exg_compute_bytes(p->values[i->target].compute) == p->operands[i->operand].element_bytes;
}

/* Its lines are asked for before the tile, not by a formula. */
static inline bool exg_is_asked_for(const exg_pointwise_operand *o)
{
    return o->is_dense && !o->is_past_caches && !o->is_in_flow;
}

/* The status of a program that takes no more. */
exg_status exg_pointwise_full(exg_error *err);

/* Makes a program of uint8 and bool alone one of bytes, where all of its formulas have loops of
 * such (bytes.def): a fourth of what I32 moves. */
void exg_pointwise_make_bytes(exg_pointwise *p);

void exg_pointwise_run(const exg_kernel_call *call);

#endif
