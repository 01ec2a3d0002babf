/* verifier.h - what the rules of verify/ share. */
#ifndef EXG_LIBEXPORT_VERIFY_VERIFIER_H
#define EXG_LIBEXPORT_VERIFY_VERIFIER_H

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/program/expression.h"
#include "libexport/transform/idle.h"
#include "libexport/verify/report.h"

#include <exg/symint.h>
#include <exg/verify.h>
#include <exg/weights.h>

/* Every distinct expression of the program, with the number it had at export. */
typedef struct exg_noted_expression {
    exg_expression read;
    const char *value; /* the name of the first value that has it */
    int64_t hint;
    bool has_hint;
    bool sound; /* its text is in the grammar */
} exg_noted_expression;

/* Numbers for the expressions, by index, when the symbols are `symbols`. */
typedef struct exg_binding {
    exg_symbols symbols;
    int64_t *numbers;
    bool *known; /* false: a symbol of it has no number */
} exg_binding;

#define EXG_BINDINGS_MAX 3

/* What is asked of every node with one target, answered once. */
typedef struct exg_target {
    const char *text;
    const exg_operator *op; /* NULL: not known */
    bool is_call;           /* of a function */
    bool is_allowed;        /* of one that programs may call */
    bool is_higher_order;
    bool is_core; /* for the dialect EDGE */
    bool is_size_operator;
} exg_target;

#define EXG_TARGETS_CACHED 64

struct exg_verifier {
    const exg_program *program;
    const exg_operators *operators;
    exg_diagnostics *found;
    uint32_t capacity; /* of its items */
    exg_arena *arena;  /* of the rules' own tables */
    bool failed;       /* memory ran out */
    bool functional_dialect;
    bool edge_dialect;   /* core operators alone */
    bool tells_all;      /* the caller takes a list: warnings that cost time are looked for */
    const bool *defined; /* by value of the top graph */
    bool comes_apart;    /* the program runs with what is inside of its tensor subclasses */
    exg_error whole;     /* else why not, or nothing */
    bool graphs_sound;   /* nothing is wrong with symbols, values and how graphs name them */
    bool inputs_paired;  /* as many input specs as graph inputs, */
    bool outputs_paired; /* as many output specs as graph outputs: they can be compared */
    int32_t autocasts;   /* open at the node in hand: dtypes there are the run's */
    exg_noted_expression *expressions;
    exg_map expressions_by_text;
    uint32_t expression_count, expression_capacity;
    exg_binding bindings[EXG_BINDINGS_MAX]; /* the first is that of the hints */
    uint32_t binding_count;
    exg_expression *conditions; /* expressions that a run's sizes make true */
    uint32_t condition_count, condition_capacity;
    exg_map weights[2]; /* by name, one map a table */
    exg_map targets_by_text;
    exg_target *targets;
    uint32_t target_count, target_capacity;
    struct {
        const char *text;
        uint32_t target;
    } targets_cached[EXG_TARGETS_CACHED]; /* by the text's address */
    exg_arena *scratch;                   /* of one node */
};

/* The index of an expression, EXG_MAP_NONE of one that is not in the table. */
uint32_t exg_expression_find(const exg_verifier *v, const char *text);

/* Numbers for all expressions, as far as their symbols have some; what cannot be
 * computed is told when `tells`. false: out of memory. */
bool exg_binding_evaluate(exg_verifier *v, exg_binding *binding, bool tells);

/* One room of rules each, in the order they run in. None may count on what an earlier one
 * promises: its rules may be broken. Ids and counts can be followed (program.h). */
void exg_verify_graph(exg_verifier *v, const exg_graph *graph, const exg_graph *outer,
                      const exg_model_path *path); /* outer: NULL at the top */
void exg_verify_nodes(exg_verifier *v, const exg_graph *graph, const exg_model_path *path);
void exg_verify_signature(exg_verifier *v);
void exg_verify_weights(exg_verifier *v);
void exg_verify_symbols(exg_verifier *v);
void exg_verify_bindings(exg_verifier *v);
void exg_verify_uses(exg_verifier *v, const exg_graph *graph, const exg_model_path *path);
void exg_verify_calls(exg_verifier *v);
void exg_verify_archive(exg_verifier *v);

/* Are the files there that weights lie in? MALFORMED says the first that is not; none is read. */
exg_status exg_verify_besides(exg_verifier *v, const exg_weights *weights, exg_error *err);

void exg_verify_metadata(exg_verifier *v, const exg_graph *graph, const exg_model_path *path);

/* Flags of a call of a higher-order operator. */
void exg_verify_flags(exg_verifier *v, const exg_node *node, const exg_model_path *path);

/* What v->conditions and the ranges leave of sizes. */
void exg_verify_contradictions(exg_verifier *v);

/* The subgraphs of a call of a higher-order operator against its operands and results. */
void exg_verify_subgraphs(exg_verifier *v, const exg_graph *graph, const exg_node *node,
                          const exg_model_path *path);

/* Arguments of one operator; none of PyTorch's has as many. */

/* ---- shapes of one graph (shape_rules.c) -------------------------------------------------- */

typedef struct exg_shapes {
    exg_verifier *v;
    const exg_graph *graph;
    exg_graph at[EXG_BINDINGS_MAX]; /* its values with numbers only, by binding */
    uint32_t count;                 /* of bindings that differ */
    bool is_main;                   /* the program's own graph, not that of a loop or a branch */
    exg_idle_search reads;          /* from the first unknown operator on, of what is sound */
} exg_shapes;

/* false: out of memory. */
bool exg_shapes_begin(exg_shapes *shapes, exg_verifier *v, const exg_graph *graph);

/* Node `node` with its normalized arguments: NOD-017, NOD-018, SYM-006. */
void exg_shapes_check(exg_shapes *shapes, const exg_node *node, const exg_operator *op,
                      const exg_argument *args, const exg_model_path *path);

/* ---- writes in one graph (write_rules.c) --------------------------------------------------- */

typedef struct exg_writes {
    exg_verifier *v;
    const exg_graph *graph;
    exg_value_id *base; /* by value: what it is a view of; NULL: the dialect has no writes */
    bool *constant;     /* by value: a lifted constant */
} exg_writes;

bool exg_writes_begin(exg_writes *writes, exg_verifier *v, const exg_graph *graph);
void exg_writes_check(exg_writes *writes, const exg_node *node, const exg_operator *op,
                      const exg_argument *args, const exg_model_path *path);

#endif
