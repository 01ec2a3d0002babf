/* program.h - a program saved by torch.export, in memory.
 *
 *   exg_program -> exg_graph -> exg_node -> exg_argument
 *               -> exg_signature          -> exg_value (by id)
 *               -> exg_weights -> exg_weight -> exg_storage
 *
 * One model holds the first schema (early JSON) and the current one (8.x). Names are
 * the schema's. Everything is plain structs in one arena and goes when the program is
 * destroyed; nothing is freed alone, no pointer leads into the file. Tensor bytes belong
 * to exg_weights (weights.h), which programs share by reference count.
 *
 * Decoding promises only that every pointer, id and count may be followed. What
 * they mean is promised by exg_verify() (verify.h).
 *
 * Threads: a program that is not being built may be read from any thread.
 * File forms: schema/export.fbs; torch/_export/serde/schema.py.
 */
#ifndef EXG_PROGRAM_H
#define EXG_PROGRAM_H

#include <exg/memory.h>
#include <exg/status.h>
#include <exg/text.h>
#include <exg/types.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_weights exg_weights;
typedef struct exg_graph exg_graph;
typedef struct exg_argument exg_argument;

typedef uint32_t exg_value_id; /* index into exg_graph.values */
#define EXG_NO_VALUE UINT32_MAX

/* ---- values ---------------------------------------------------------------- */

/* A name used in a graph, with what the file's value tables say of it. A well
 * formed value is in exactly one table; verification says so (VAL-002, VAL-003). */
typedef struct exg_value {
    const char *name;
    exg_tensor_meta *tensor; /* tensor_values entry, or NULL */
    exg_sym_int *sym_int;    /* sym_int_values entry, or NULL */
    exg_sym_float *sym_float;
    exg_sym_bool *sym_bool;
    const char *custom_class; /* custom_obj_values: class_fqn, or NULL */
} exg_value;

/* ---- arguments ------------------------------------------------------------- */

typedef enum exg_argument_kind {
#define EXG_ARGUMENT(id, tag, early, number, type, form) EXG_ARGUMENT_##id,
#include <exg/argument.def>
#undef EXG_ARGUMENT
    EXG_ARGUMENT_KIND_COUNT
} exg_argument_kind;

const char *exg_argument_tag(exg_argument_kind kind); /* "as_tensor" */

/* SymIntArgument and its kin: a value by id, or a constant. */
typedef struct exg_sym_argument {
    exg_value_id value; /* EXG_NO_VALUE: the constant below */
    union {
        int64_t as_int;
        double as_float;
        bool as_bool;
    };
} exg_sym_argument;

typedef struct exg_complex_number {
    double real, imag;
} exg_complex_number;

typedef struct exg_int_list {
    int64_t *items;
    uint32_t count;
} exg_int_list;

typedef struct exg_float_list {
    double *items;
    uint32_t count;
} exg_float_list;

typedef struct exg_value_list {
    exg_value_id *items;
    uint32_t count;
} exg_value_list;

typedef struct exg_custom_obj {
    const char *name;
    const char *class_fqn;
} exg_custom_obj;

typedef struct exg_string_pair {
    const char *key;
    const char *value;
} exg_string_pair;

typedef struct exg_string_map {
    exg_string_pair *items; /* in file order */
    uint32_t count;
} exg_string_map;

typedef struct exg_graph_argument {
    const char *name;
    exg_graph *graph; /* with a name scope of its own */
    /* Of an early file, where a branch is a GraphModule: its metadata, and how many of its last
     * inputs stand for tensors that were in the module, lifted to the program. */
    exg_string_map metadata;
    uint32_t lifted_count;
} exg_graph_argument;

typedef struct exg_string_argument exg_string_argument; /* {key, argument} */

struct exg_argument {
    exg_argument_kind kind;
    uint32_t count; /* of the list kinds; an empty list keeps its kind */
    union {
        int64_t as_int;
        double as_float;
        bool as_bool;
        const char *as_string;   /* also OPERATOR: a target */
        exg_value_id as_tensor;  /* also OPTIONAL_TENSOR, EXG_NO_VALUE = none */
        exg_sym_argument as_sym; /* SYM_INT, SYM_FLOAT, SYM_BOOL */
        exg_dtype as_scalar_type;
        exg_memory_format as_memory_format;
        exg_layout as_layout;
        exg_device as_device;
        exg_complex_number as_complex;
        int64_t *as_ints;
        double *as_floats;
        bool *as_bools;
        const char **as_strings;
        exg_value_id *as_tensors;  /* also OPTIONAL_TENSORS, EXG_NO_VALUE = none */
        exg_sym_argument *as_syms; /* SYM_INTS, SYM_FLOATS, SYM_BOOLS */
        exg_value_list *as_nested_tensors;
        exg_int_list *as_int_lists;
        exg_float_list *as_float_lists;
        exg_graph_argument *as_graph;
        exg_custom_obj *as_custom_obj;
        exg_string_argument *as_string_to_argument;
    };
};

struct exg_string_argument {
    const char *key;
    exg_argument argument;
};

/* How an argument was passed. */
typedef enum exg_kind {
    EXG_KIND_UNKNOWN = 0, /* the file does not say */
    EXG_KIND_POSITIONAL = 1,
    EXG_KIND_KEYWORD = 2
} exg_kind;

typedef struct exg_named_argument {
    const char *name; /* the schema's parameter, "" for positional of higher-order ops */
    exg_argument arg;
    exg_kind kind;
} exg_named_argument;

/* Replaces what `arg` points to by copies in `arena`. NO_MEMORY. */
EXG_NODISCARD exg_status exg_argument_copy(exg_arena *arena, exg_argument *arg, exg_error *err);

/* ---- graph ------------------------------------------------------------------ */

typedef enum exg_tristate { EXG_UNSET = -1, EXG_FALSE = 0, EXG_TRUE = 1 } exg_tristate;

typedef struct exg_node {
    const char *target; /* canonical: "torch.ops.aten.add.Tensor" */
    const char *name;   /* FX node name, or NULL */
    exg_named_argument *inputs;
    exg_argument *outputs; /* TENSOR, TENSORS, SYM_*, NONE: what the node defines */
    uint32_t input_count;
    uint32_t output_count;
    exg_string_map metadata; /* stack_trace, nn_module_stack, ... */
    exg_tristate is_hop_single_tensor_return;
} exg_node;

struct exg_graph {
    exg_argument *inputs;
    exg_argument *outputs;
    exg_node *nodes; /* a node reads only what is above it */
    exg_value *values;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t node_count;
    uint32_t value_count;
    bool is_single_tensor_return;
};

/* The value called `name`, or EXG_NO_VALUE. Linear in value_count. */
exg_value_id exg_graph_find_value(const exg_graph *graph, const char *name);

/* Calls `visit` for every value id inside `arg`, subgraphs excluded. `visit` may
 * write through the pointer (renaming passes do). */
void exg_argument_visit_values(exg_argument *arg, void (*visit)(void *user, exg_value_id *id),
                               void *user);

/* ---- signature; its views are in signature.h ------------------------------------ */

typedef enum exg_input_kind {
#define EXG_INPUT_KIND(id, name, number) EXG_INPUT_##id,
#define EXG_OUTPUT_KIND(id, name, number)
#include <exg/signature_kind.def>
#undef EXG_INPUT_KIND
#undef EXG_OUTPUT_KIND
} exg_input_kind;

typedef enum exg_output_kind {
#define EXG_INPUT_KIND(id, name, number)
#define EXG_OUTPUT_KIND(id, name, number) EXG_OUTPUT_##id,
#include <exg/signature_kind.def>
#undef EXG_INPUT_KIND
#undef EXG_OUTPUT_KIND
} exg_output_kind;

const char *exg_input_kind_name(exg_input_kind kind);   /* "USER_INPUT" */
const char *exg_output_kind_name(exg_output_kind kind); /* "BUFFER_MUTATION" */
int exg_input_kind_number(exg_input_kind kind);         /* PyTorch's, stored nowhere */
int exg_output_kind_number(exg_output_kind kind);

/* What a spec stands for: a graph value by name, or a constant (its kind one of
 * NONE, INT, FLOAT, STRING, BOOL) with a name that may be "". */
typedef struct exg_signature_argument {
    exg_argument_kind kind; /* TENSOR, SYM_INT, SYM_FLOAT, SYM_BOOL, CUSTOM_OBJ, or a constant's */
    bool is_token;          /* TENSOR that is an effect token */
    const char *name;
    union {
        int64_t as_int;
        double as_float;
        bool as_bool;
        const char *as_string; /* also CUSTOM_OBJ: class_fqn */
    };
} exg_signature_argument;

typedef struct exg_input_spec {
    exg_input_kind kind;
    exg_signature_argument arg;
    const char *target;      /* FQN, or NULL */
    exg_tristate persistent; /* of a BUFFER */
    bool implicit;           /* bound by name in an early file, no graph input there */
} exg_input_spec;

typedef struct exg_output_spec {
    exg_output_kind kind;
    exg_signature_argument arg;
    const char *target; /* FQN, or a graph input's name (…_USER_INPUT…), or NULL */
} exg_output_spec;

typedef struct exg_signature {
    exg_input_spec *inputs;
    exg_output_spec *outputs;
    uint32_t input_count;
    uint32_t output_count;
    /* The token that PyTorch foresees for assertions: an output's index and name, or NULL.
     * It has never written one; .exg and early files keep it, .pt2 has no place. */
    const char *assertion_dep_token;
    uint32_t assertion_dep_index;
} exg_signature;

/* ---- program ------------------------------------------------------------------ */

typedef struct exg_module_call {
    const char *fqn;
    bool has_signature;
    exg_argument *inputs;
    exg_argument *outputs;
    uint32_t input_count;
    uint32_t output_count;
    const char *in_spec; /* treespec text, verbatim: docs/pt2.md 1.8 */
    const char *out_spec;
    const char **forward_arg_names; /* NULL when absent */
    uint32_t forward_arg_name_count;
} exg_module_call;

typedef struct exg_range_constraint {
    const char *symbol; /* "s77", or infix text for derived dims */
    int64_t min_val, max_val;
    bool has_min, has_max;
} exg_range_constraint;

typedef struct exg_named_tuple {
    const char *type;
    const char **field_names;
    uint32_t field_count;
} exg_named_tuple;

typedef struct exg_opset {
    const char *name_space;
    int64_t version;
} exg_opset;

/* One leaf of the archive's example inputs, in call order. */
typedef struct exg_sample_input {
    const char *keyword;    /* NULL: positional */
    exg_argument_kind kind; /* TENSOR, INT, FLOAT, BOOL, STRING, NONE */
    exg_tensor_meta *meta;  /* TENSOR */
    uint32_t storage;       /* TENSOR: index into exg_weights.storages */
    union {
        int64_t as_int;
        double as_float;
        bool as_bool;
        const char *as_string;
    };
} exg_sample_input;

/* What is said of a placeholder, or of the output, as a node's metadata is of a node. PyTorch's
 * files have no place for it: .exg and early files keep it. */
typedef struct exg_input_metadata {
    const char *input; /* name of an input of the program's graph; NULL: the output */
    exg_string_map metadata;
} exg_input_metadata;

/* A record of the container that is no part of the program, kept as it is. */
typedef struct exg_extra_file {
    const char *name;
    uint32_t storage; /* index into exg_weights.storages */
} exg_extra_file;

typedef enum exg_origin { EXG_ORIGIN_CURRENT, EXG_ORIGIN_EARLY } exg_origin;

typedef struct exg_program {
    exg_arena *arena; /* owns all of this */
    const char *name; /* of the model in its archive, "model" by default */
    exg_origin origin;
    exg_graph *graph;
    exg_signature signature;
    exg_weights *weights; /* shared: weights.h. Never NULL */
    exg_module_call *module_calls;
    exg_string_map metadata; /* of the graph module */
    exg_named_tuple *named_tuples;
    exg_opset *opsets;
    exg_range_constraint *range_constraints;
    const char **verifiers; /* dialects: "TRAINING", "ATEN" */
    const char **guards_code;
    exg_sample_input *sample_inputs;
    exg_extra_file *extra_files;
    exg_input_metadata *input_metadata; /* of those that have any */
    uint32_t module_call_count;
    uint32_t named_tuple_count;
    uint32_t opset_count;
    uint32_t range_constraint_count;
    uint32_t verifier_count;
    uint32_t guard_count;
    uint32_t sample_input_count;
    uint32_t extra_file_count;
    uint32_t input_metadata_count;
    int64_t schema_major, schema_minor;
    const char *torch_version; /* NULL when absent */
    /* Of an early file, how it says all this: its text without the bytes in it, to be written
     * again so (formats/early/form.c); NULL where we write it so anyway. No part of what the
     * program says. */
    const char *early_form;
} exg_program;

/* An empty program with an arena of `budget` bytes (EXG_ARENA_UNBOUNDED) and no
 * weights. `allocator` NULL: the system's (memory.h). NO_MEMORY. The caller destroys it. */
EXG_NODISCARD exg_status exg_program_create(const exg_allocator *allocator, uint64_t budget,
                                            exg_program **program, exg_error *err);
void exg_program_destroy(exg_program *program); /* NULL is allowed */

/* A deep copy with an arena of its own; weights are shared, not copied. */
/* Is `dialect` ("TRAINING", "ATEN", "EDGE") one of program->verifiers? In TRAINING, which
 * torch.export.export() gives, operators may write what they take; in the others, which
 * run_decompositions() and backends give, none does. */
bool exg_program_has_dialect(const exg_program *program, const char *dialect);

EXG_NODISCARD exg_status exg_program_copy(const exg_program *program, exg_program **copy,
                                          exg_error *err);

/* The same in everything a file says: names, order, metadata, signature, weight tables
 * (dtype, sizes, strides, offset, sharing), sample inputs, extra files, versions; the bytes
 * of tensors and files too with `compare_bytes`. Not how bytes are stored: frames, place.
 * When not equal, `difference` (may be NULL, 256 bytes) tells the first place. */
bool exg_program_equal(const exg_program *a, const exg_program *b, bool compare_bytes,
                       char *difference);

/* The same nodes, values and names, metadata too. */
bool exg_graph_equal(const exg_graph *a, const exg_graph *b);

/* The program as PyTorch's print(exported_program) writes it: the forward
 * function with a line a node and comments of dtype and shape, the graph
 * signature, the range constraints. The text is malloc'ed; the caller frees it.
 * NO_MEMORY. */
EXG_NODISCARD exg_status exg_program_print(const exg_program *program, char **text, exg_error *err);
EXG_NODISCARD exg_status exg_graph_print(const exg_graph *graph, char **text, exg_error *err);

/* The expression of a symbolic size, sympy's srepr or Python's infix, as str(sympy.sympify(text))
 * shows it; a text that is neither, as it is. */
void exg_print_expression(exg_text *out, const char *expression);

/* An argument of a node of `graph` as the generated Python code shows it. */
void exg_print_argument(exg_text *out, const exg_graph *graph, const exg_argument *argument);

/* The program's graph as PyTorch's print(exported_program.graph) writes it: "graph():" and a line
 * a node of torch.fx, without a newline at the end. malloc'ed as above. NO_MEMORY. */
EXG_NODISCARD exg_status exg_program_print_graph(const exg_program *program, char **text,
                                                 exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
