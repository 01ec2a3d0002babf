/* operators.h - what operators mean: function schemas, shapes, lowerings.
 *
 * An operator is one row of a table in libexport/operators/ (*.def): its schema,
 * how its result's shape follows, how it is lowered to simpler operators; libexec
 * reads the same rows for kernels and sharding rules. exg_operators is the table
 * in use: the built-in rows, and rows that libraries add (operator_library.h). Nothing is global.
 *
 * Threads: a table is read-only once made; any thread may read it.
 * Meaning: the operator's documentation and behaviour in PyTorch 2.13.
 */
#ifndef EXG_OPERATORS_H
#define EXG_OPERATORS_H

#include <exg/operator_id.h>
#include <exg/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- function schemas ------------------------------------------------------- */

typedef enum exg_type_base {
    EXG_TYPE_TENSOR,
    EXG_TYPE_SCALAR, /* a number of any kind */
    EXG_TYPE_INT,
    EXG_TYPE_SYM_INT,
    EXG_TYPE_FLOAT,
    EXG_TYPE_BOOL,
    EXG_TYPE_STRING,
    EXG_TYPE_SCALAR_TYPE,
    EXG_TYPE_LAYOUT,
    EXG_TYPE_DEVICE,
    EXG_TYPE_MEMORY_FORMAT,
    EXG_TYPE_GENERATOR,
    EXG_TYPE_SYM_BOOL,
    EXG_TYPE_OBJECT /* anything else, which no argument of a program fits */
} exg_type_base;

typedef struct exg_schema_type {
    exg_type_base base;
    bool is_list;
    bool is_optional;         /* T? or T[]? */
    bool is_element_optional; /* T?[] */
    uint32_t list_length;     /* int[2]: 2, and one int may stand for all; 0: any */
} exg_schema_type;

typedef struct exg_schema_argument {
    const char *name; /* "" for unnamed returns */
    exg_schema_type type;
    char alias;    /* 'a' of Tensor(a), or 0 */
    bool is_write; /* Tensor(a!) */
    bool keyword_only;
    bool is_out; /* keyword-only and written: an out= argument */
    bool has_default;
    exg_argument default_value;
} exg_schema_argument;

typedef struct exg_function_schema {
    const char *name_space; /* "aten" */
    const char *name;       /* "add_" */
    const char *overload;   /* "Tensor"; "" when unnamed */
    exg_schema_argument *arguments;
    exg_schema_argument *returns;
    uint32_t argument_count;
    uint32_t return_count;
    bool is_inplace;     /* name ends in _ and argument 0 is written */
    bool is_out_variant; /* some argument is declared out */
    bool is_mutable;     /* some argument is written */
    const char *text;    /* as it was written */
} exg_function_schema;

/* Parses "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
 * Everything lives in `arena`. MALFORMED with the position. */
EXG_NODISCARD exg_status exg_function_schema_parse(exg_arena *arena, const char *text,
                                                   exg_function_schema *schema, exg_error *err);

/* ---- rows ------------------------------------------------------------------- */

typedef struct exg_builder exg_builder;
typedef struct exg_shape_call exg_shape_call;
typedef struct exg_strided exg_strided;

/* How the result dtype of a pointwise operator follows from its operands. */
typedef enum exg_pointwise_result {
    EXG_POINTWISE_NOT, /* the row is not a pointwise operator */
    EXG_POINTWISE_PROMOTE,
    EXG_POINTWISE_NUMBER,
    EXG_POINTWISE_FLOAT,
    EXG_POINTWISE_BOOL,
    EXG_POINTWISE_FIRST,
    EXG_POINTWISE_WHERE,
    EXG_POINTWISE_CAST
} exg_pointwise_result;

typedef exg_status exg_shape_function(exg_shape_call *call, exg_error *err);
/* Emits what the operator is made of and fills `results`, one a schema return;
 * errors stick in the builder. `args` are normalized. */
typedef void exg_lowering(exg_builder *b, const exg_argument *args, exg_argument *results);
typedef exg_status exg_view_function(const exg_argument *args, const exg_strided *in,
                                     exg_strided *out, exg_error *err);
typedef exg_status exg_symbolic_function(const exg_argument *args, uint32_t count,
                                         exg_argument *result, exg_error *err);

#define EXG_NOT_DRAWN UINT32_MAX

typedef struct exg_operator {
    exg_operator_id id;
    const char *target; /* "torch.ops.aten.add.Tensor" */
    const exg_function_schema *schema;
    exg_pointwise_result pointwise;
    exg_shape_function *shape;       /* NULL for views, in-place and symbolic rows */
    exg_lowering *lowering;          /* NULL: none */
    exg_view_function *view;         /* the result is a view of argument 0 */
    exg_symbolic_function *symbolic; /* works on sizes, not tensors */
    exg_operator_id functional;      /* of an in-place row, else EXG_OP_NONE */
    /* The parameter that numbers a draw of random numbers, else EXG_NOT_DRAWN: such an
     * operator may be dropped, but two of them are never one, and none is a constant. */
    uint32_t stream;
    /* Of an operator whose result's size is in the data (sized.def), else
     * EXG_OP_NONE: `size` gives it as one integer, or none where this call's size is
     * known; `sized` takes the leading arguments and then the number. */
    exg_operator_id size, sized;
    const struct exg_registered *registered; /* of a library's operator, else NULL */
} exg_operator;

/* No operator of the table takes more parameters, or returns more results. */
#define EXG_ARGUMENTS_MAX 32
#define EXG_RESULTS_MAX   16

typedef struct exg_operators exg_operators;

/* The built-in table; the caller destroys it. NO_MEMORY. */
EXG_NODISCARD exg_status exg_operators_create(exg_operators **operators, exg_error *err);
void exg_operators_destroy(exg_operators *operators); /* NULL is allowed */

const exg_operator *exg_operators_get(const exg_operators *operators, exg_operator_id id);
/* By target ("torch.ops.aten.add.Tensor"), or NULL. */
const exg_operator *exg_operators_find(const exg_operators *operators, const char *target);

/* The arguments of a node by schema position, defaults filled in, into `args`
 * (schema->argument_count of them). Checks names, order, presence and types.
 * MALFORMED with codes NOD-003, NOD-004, NOD-006. */
EXG_NODISCARD exg_status exg_operator_normalize(const exg_operator *op, const exg_node *node,
                                                exg_argument *args, exg_error *err);

/* May `arg` stand for a parameter of `type`? */
bool exg_argument_fits(const exg_argument *arg, const exg_schema_type *type);

/* ---- shapes ----------------------------------------------------------------- */

#define EXG_SHAPE_RANK_MAX 16

/* Sizes and strides of a view of a storage, in elements of its dtype. A view function
 * finds the dtype of its argument in both, and changes that of `out` when it is one of those
 * that read bytes as something else. */
struct exg_strided {
    exg_dtype dtype;
    uint32_t rank;
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    int64_t strides[EXG_SHAPE_RANK_MAX];
    int64_t offset;
};

/* One call to be given its result metas. Arguments are normalized; their value
 * ids name values of `graph` whose metas are static. */
struct exg_shape_call {
    const exg_operator *op;
    const exg_argument *args;
    const exg_graph *graph;
    exg_arena *arena;
    exg_tensor_meta **results; /* one a result tensor, lists laid out flat; NULL = None */
    uint32_t result_count;
    bool results_fixed; /* set when result_count was decided by the shape function */
};

/* Result metas of `op` on normalized `args`. MALFORMED (NOD-017) says which sizes
 * do not go together. */
EXG_NODISCARD exg_status exg_operator_infer(const exg_operator *op, const exg_argument *args,
                                            const exg_graph *graph, exg_arena *arena,
                                            exg_tensor_meta ***results, uint32_t *result_count,
                                            exg_error *err);

#define EXG_SYMBOLIC_ARGUMENTS_MAX 8

/* What an operator on sizes gives for `count` arguments that are numbers (or, for
 * sym_size, a value of `graph` whose meta is static); NONE for those that return
 * nothing. USAGE INP-007 when the program's own assertion does not hold, MALFORMED
 * NOD-017, LIMIT SYM-010, MALFORMED SYM-011. */
EXG_NODISCARD exg_status exg_operator_evaluate(const exg_operator *op, const exg_argument *args,
                                               uint32_t count, const exg_graph *graph,
                                               exg_argument *result, exg_error *err);

/* PyTorch's promotion: the dtype of a result of operands of these dtypes, where
 * categories (tensor, 0-d tensor, scalar) rank as in torch.result_type. */
exg_dtype exg_promote_types(exg_dtype a, exg_dtype b);

/* ---- building graphs --------------------------------------------------------- */

typedef struct exg_ref {
    exg_value_id id;
} exg_ref;

#define EXG_NO_REF ((exg_ref){EXG_NO_VALUE})

/* Builds the graph of `program` (which must be empty or under construction).
 * Errors stick: after the first, emitting gives EXG_NO_REF and does nothing;
 * exg_builder_finish() tells. The builder frees only itself. */
EXG_NODISCARD exg_status exg_builder_create(const exg_operators *operators, exg_program *program,
                                            exg_builder **builder, exg_error *err);
EXG_NODISCARD exg_status exg_builder_finish(exg_builder *builder,
                                            exg_error *err); /* and destroys it */
void exg_builder_destroy(exg_builder *builder);              /* NULL is allowed */

const exg_operators *exg_builder_operators(const exg_builder *b);
exg_arena *exg_builder_arena(const exg_builder *b);
const exg_graph *exg_builder_graph(const exg_builder *b);
exg_program *exg_builder_program(const exg_builder *b);
EXG_NODISCARD exg_status exg_builder_status(const exg_builder *b);

/* Records an error of the caller's own, which sticks. */
void exg_builder_fail(exg_builder *b, const exg_error *err);

/* A new tensor value with this meta (copied); the name is made unique. */
exg_ref exg_builder_value(exg_builder *b, const char *name, const exg_tensor_meta *meta);
/* A graph input with its spec (kind, target, persistent; arg is filled in). */
exg_ref exg_builder_input(exg_builder *b, const char *name, const exg_tensor_meta *meta,
                          exg_input_kind kind, const char *target, exg_tristate persistent);
/* A parameter or buffer (PARAMETER; BUFFER, persistent) called `fqn`: a graph input named
 * as PyTorch would, its spec, and a weight whose packed row-major bytes in host byte order
 * are copied from `data`. Sticks USAGE BLD-004 when the program has that weight. */
exg_ref exg_builder_weight(exg_builder *b, const char *fqn, const exg_tensor_meta *meta,
                           exg_input_kind kind, const void *data);
/* Row-major on the cpu; gradients of parameters are up to the caller. Lives as long as
 * the builder's arena; a memory fault sticks and gives rank 0. */
exg_tensor_meta exg_builder_meta(exg_builder *b, exg_dtype dtype, const int64_t *sizes,
                                 uint32_t rank);
/* Says how the program is called: user inputs by position, a lone user output as it is,
 * several as a tuple. PyTorch loads a program without this, but cannot call it. */
void exg_builder_call(exg_builder *b);
/* A graph input that is a constant (NONE, INT, FLOAT, BOOL, STRING). */
void exg_builder_constant_input(exg_builder *b, const char *name, const exg_argument *value);
void exg_builder_output(exg_builder *b, const exg_argument *arg, exg_output_kind kind,
                        const char *target);

/* Names of the next emitted node's results; used once. */
void exg_builder_next_names(exg_builder *b, const char *const *names, uint32_t count);

/* The nodes emitted from now on come from one with this metadata, which is borrowed. */
void exg_builder_set_origin(exg_builder *b, const exg_string_map *metadata);

/* Whether emitting an operator that has a lowering writes out what it is made of
 * (off at first). Operators known only by their lowering always are. */
void exg_builder_set_lowering(exg_builder *b, bool lowers);

/* Adds a node. `args` by schema position; trailing arguments with defaults may be
 * left out. Result metas are inferred. Gives the first result. A number may stand for a tensor
 * where PyTorch wraps one, beside a tensor: add.Tensor(x, 1.0) is recorded so, as it writes it. */
exg_ref exg_emit(exg_builder *b, exg_operator_id op, const exg_argument *args, uint32_t count);
/* The same for operators with several results; `results` receives the node's
 * output arguments (schema->return_count of them). */
exg_status exg_emit_all(exg_builder *b, exg_operator_id op, const exg_argument *args,
                        uint32_t count, exg_argument *results);

/* The meta of a value under construction, NULL for EXG_NO_REF. */
const exg_tensor_meta *exg_ref_meta(const exg_builder *b, exg_ref ref);

/* ---- arguments by value -------------------------------------------------------- */

exg_argument exg_arg_ref(exg_ref ref);
exg_argument exg_arg_int(int64_t value);
exg_argument exg_arg_float(double value);
exg_argument exg_arg_bool(bool value);
exg_argument exg_arg_none(void);
exg_argument exg_arg_dtype(exg_dtype dtype);
exg_argument exg_arg_string(const char *string);
/* Lists are copied into the builder's arena; a ref of a list may be EXG_NO_REF: absent. */
exg_argument exg_arg_ints(exg_builder *b, const int64_t *items, uint32_t count);
exg_argument exg_arg_refs(exg_builder *b, const exg_ref *items, uint32_t count);

/* What a normalized argument says; of another kind: 0, false, EXG_NO_REF. */
int64_t exg_get_int(const exg_argument *arg);  /* INT, BOOL, constant SYM_INT */
double exg_get_float(const exg_argument *arg); /* FLOAT, INT, BOOL */
bool exg_get_bool(const exg_argument *arg);
exg_ref exg_get_ref(const exg_argument *arg); /* TENSOR; EXG_NO_REF of NONE */
bool exg_is_none(const exg_argument *arg);
/* INTS, constant SYM_INTS, or one INT; gives the count, at most `max` are written. */
uint32_t exg_get_ints(const exg_argument *arg, int64_t *items, uint32_t max);

#ifdef __cplusplus
}
#endif

#endif
