/* inspection.h - what a program is made of: its operators by use, its modules with their
 * parameters, the memory of its weights and of its values.
 *
 * Threads: none shared; the result is read-only.
 */
#ifndef EXG_INSPECTION_H
#define EXG_INSPECTION_H

#include <exg/operators.h>
#include <exg/program.h>
#include <exg/status.h>
#include <exg/symint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_operator_count {
    const char *target; /* "torch.ops.aten.relu.default" */
    uint32_t count;     /* of the root graph's nodes */
    bool known;         /* by the operator table */
} exg_operator_count;

/* What torch.nn.Module says of a tensor: parameters() has it, buffers() has it, or neither. */
typedef enum exg_weight_kind {
    EXG_WEIGHT_PARAMETER,
    EXG_WEIGHT_BUFFER, /* persistent or not */
    EXG_WEIGHT_CONSTANT
} exg_weight_kind;

#define EXG_MODULE_DEPTH_MAX 64 /* modules further in count as there */

/* A module that holds weights, itself or further in. A tensor of several names counts once in each
 * module, as torch.nn.Module.parameters() gives it once. */
typedef struct exg_module_summary {
    const char *path;             /* "encoder.layer.0"; "" of the whole */
    const char *type;             /* its class, or "" */
    uint32_t parent;              /* UINT32_MAX of the whole */
    uint32_t depth;               /* 0 of the whole */
    uint32_t first, last;         /* of the modules within it, and */
    uint32_t next;                /* the one after it; 0: none */
    uint64_t parameters, buffers; /* numbers in them */
    uint64_t bytes;               /* of both, and of constants */
} exg_module_summary;

/* What the weights of one dtype, or of one encoding of blocks, take together. A tensor of several
 * names counts once. */
typedef struct exg_dtype_summary {
    const char *name; /* "f32", "Q4_K" */
    uint32_t tensors;
    uint64_t elements, bytes;
} exg_dtype_summary;

/* Made by the library; later versions may have more at its end. */
typedef struct exg_inspection {
    size_t size; /* that this library filled */
    exg_arena *arena;
    uint32_t operator_count;
    exg_operator_count *operators; /* most used first */
    uint32_t module_count;
    exg_module_summary *modules; /* parents before children, in file order; [0] is the whole */
    exg_weight_kind *kinds;      /* by weight */
    uint64_t storage_bytes;      /* of the storages of weights, each counted once */
    uint32_t storage_count;
    uint64_t activation_bytes; /* most that results of nodes take at once, at the recorded sizes:
                                  views take none, a result goes after its last use */
    bool activations_known;    /* every size has a number */
    uint32_t dtype_count;
    exg_dtype_summary *dtypes; /* most bytes first */
    uint64_t *alive_bytes;     /* by node: what results take while it runs, of activation_bytes */
} exg_inspection;

/* `program` need not be verified, and must stay as long as *inspection, which the caller frees.
 * NO_MEMORY. */
EXG_NODISCARD exg_status exg_program_inspect(const exg_program *program,
                                             const exg_operators *operators,
                                             exg_inspection **inspection, exg_error *err);

/* The same of weights alone, as far as they tell: modules by the dots in names, parameters being
 * what is floating-point, complex or encoded, buffers the rest; no operators, no activations. Of
 * encoded tensors the elements are counted that their blocks stand for. */
EXG_NODISCARD exg_status exg_weights_inspect(exg_weights *weights, exg_inspection **inspection,
                                             exg_error *err);
void exg_inspection_free(exg_inspection *inspection); /* NULL is allowed */

/* What a run or a plan says of a node. */
typedef struct exg_annotation {
    uint32_t node;   /* its number in the graph; UINT32_MAX: of no node of it, but of what it is
                        made of */
    uint64_t ns;     /* measured or predicted */
    const char *how; /* kernel, placements and moves, in words */
} exg_annotation;

typedef struct exg_annotations {
    size_t size; /* that this library filled */
    exg_arena *arena;
    const char *from; /* "profile" or "plan" */
    exg_annotation *items;
    uint32_t count;
} exg_annotations;

/* Reads what `exg run --profile --json` or `exg plan --mesh N --json` printed, for a program. The
 * caller frees *annotations. IO; MALFORMED (ANN-001, JSN-...): it is something else; MISMATCH
 * (ANN-002): most of its rows are of no node of the program. */
EXG_NODISCARD exg_status exg_annotations_open(const char *path, const exg_program *program,
                                              exg_annotations **annotations, exg_error *err);
void exg_annotations_free(exg_annotations *annotations); /* NULL is allowed */

/* How many things the program looks up by the elements of an integer value of its graph, an input:
 * they must be less than *limit, as rows of an embedding, indices of a gather, classes of a loss
 * (inspection/index_use.def), whatever views and copies are between. The least where there are
 * several; 0: it takes them as indices nowhere, as far as is seen (graphs of branches and loops are
 * not looked into). `symbols` are numbers for the sizes. NO_MEMORY. */
EXG_NODISCARD exg_status exg_index_limit(const exg_program *program, exg_value_id value,
                                         const exg_symbols *symbols, int64_t *limit,
                                         exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
