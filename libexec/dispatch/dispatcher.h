/* dispatcher.h - what the files of the room share: rows, calls, cache entries. */
#ifndef EXG_LIBEXEC_DISPATCH_DISPATCHER_H
#define EXG_LIBEXEC_DISPATCH_DISPATCHER_H

#include "libexec/dispatch/cache_key.h"
#include "libexec/dispatch/local.h"
#include "libexec/dispatch/operator_table.h"
#include "libexport/base/map.h"

/* A call on its way. */
typedef struct exg_call {
    exg_dispatcher *d;
    const exg_op_entry *op_entry;
    const exg_operator *op;
    exg_object *at[EXG_ARGUMENTS_MAX];                /* by position; NULL: the default */
    exg_operand_slot operands[EXG_CALL_OPERANDS_MAX]; /* DTENSOR, number VALUE, NONE */
    uint32_t operand_count;
    exg_device_mesh *mesh;
    exg_object *plain;    /* in the place of plain tensors; NULL: none */
    exg_dtensor *wrapped; /* these */
    bool is_inner;        /* of an operator that is made of others */
    exg_error *err;
} exg_call;

/* ---- call.c --------------------------------- */

/* The call by spec: positional arguments up to the last given, then keywords. */
exg_status exg_call_schema(const exg_call *call, exg_op_schema *schema, exg_arena *arena);

/* Does the operator, on these operands, consist of others? */
bool exg_call_is_composite(const exg_operator *op, const exg_call *call);

/* Has the call to do with gradients: one of its operands has, and they are enabled? */
bool exg_call_wants_gradient(const exg_call *call);

/* ---- entries: entry.c, graph.c --------------------------------- */

typedef enum exg_entry_kind {
    EXG_ENTRY_LOCAL, /* a plan of one node */
    EXG_ENTRY_VIEW,  /* a view of operand 0 */
    EXG_ENTRY_GRAPH  /* operators that are dispatched in turn */
} exg_entry_kind;

typedef struct exg_entry_operand {
    bool is_tensor, moves;
    uint32_t input; /* of the plan */
    exg_placement from[EXG_MESH_DIMS_MAX];
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_tensor local; /* sizes and strides when it has come */
    double bytes;     /* that a rank receives, as predicted */
} exg_entry_operand;

typedef struct exg_graph_node exg_graph_node;

/* What equal calls do. */
typedef struct exg_entry {
    struct exg_entry *chain;         /* of the same slot */
    struct exg_entry *newer, *older; /* by use */
    uint32_t runs;                   /* going on: it is not dropped meanwhile */
    uint64_t hash;
    uint64_t *key;
    uint32_t key_length;
    exg_arena *arena;
    exg_entry_kind kind;
    bool in_place;
    bool any_moves;
    exg_entry_operand *operands;
    exg_local_result *results;
    uint32_t operand_count, result_count;
    exg_object_kind form;             /* of the results: DTENSOR (one), LIST or TUPLE */
    exg_plan_executor *rank;          /* LOCAL */
    exg_shared_device *shared_device; /* that it is for; NULL: the host */
    bool draws;
    bool copies;          /* VIEW: of a row-major copy */
    exg_program *program; /* GRAPH */
    exg_graph_node *nodes;
    exg_argument *outputs; /* by return */
    uint32_t output_count;
    uint32_t *last_use; /* by value: 1 + the node that reads it last; 0: never */
    bool returns_out;   /* results are the out= arguments themselves */
} exg_entry;

/* Decides. The entry is not in the cache yet. */
exg_status exg_entry_create(const exg_call *call, const void *unused, exg_entry **entry);
/* Emits what a graph entry is made of over `refs`, one an operand, and fills its outputs, as
 * many as it was said. */
typedef void exg_graph_emitter(const exg_call *call, exg_builder *b, const exg_ref *refs,
                               const void *user, exg_argument *outputs);
exg_status exg_graph_entry_emit(const exg_call *call, exg_entry *entry, exg_graph_emitter *emit,
                                const void *user, uint32_t outputs);

/* *itself: the operator is made of nothing but itself, and the entry is to be filled as such. */
exg_status exg_graph_entry_fill(const exg_call *call, exg_entry *entry, bool *itself);

/* Gives each result of a call to `put` under the value that the node names for it. What it does not
 * name is destroyed, and so is the list of several. */
typedef void exg_put_result(void *user, exg_value_id id, const exg_object *object);
void exg_put_results(const exg_node *node, exg_object *result, exg_put_result *put, void *user);

/* Carries out. */
exg_status exg_entry_run(const exg_call *call, exg_entry *entry, exg_object *result);
exg_status exg_graph_run(const exg_call *call, exg_entry *entry, exg_object *result);

/* ---- cache.c --------------------------------- */

void exg_entry_destroy(exg_entry *entry); /* NULL is allowed */

typedef struct exg_cache {
    exg_entry **slots; /* a power of two of them */
    uint32_t slot_count, entry_count, capacity;
    exg_entry *newest, *oldest;
} exg_cache;

exg_status exg_cache_init(exg_cache *cache, uint32_t capacity, exg_error *err);
void exg_cache_empty(exg_cache *cache);
void exg_cache_free(exg_cache *cache);
exg_entry *exg_cache_find(exg_cache *cache, const exg_cache_key *key, uint64_t hash);
/* Takes the entry over; the one used longest ago makes room. */
exg_status exg_cache_put(exg_cache *cache, exg_entry *entry, const exg_cache_key *key,
                         uint64_t hash, exg_error *err);

/* Everything that a decision depends on. */
void exg_call_cache_key(const exg_call *call, exg_cache_key *w);

/* The entry of the key in d->key, made where there is none. */
typedef exg_status exg_entry_maker(const exg_call *call, const void *user, exg_entry **entry);
exg_status exg_entry_find(exg_call *call, exg_entry_maker *make, const void *user,
                          exg_entry **entry);

/* ---- the dispatcher --------------------------------- */

#define EXG_MESHES_MAX 16

struct exg_dispatcher {
    const exg_operators *operators;
    exg_dispatch_options options;
    exg_costs costs;    /* of moves */
    exg_arena *arena;   /* rows and their keys */
    exg_arena *scratch; /* of the decision being taken */
    exg_map by_key;
    exg_op_entry **op_entries;
    uint32_t op_entry_count, op_entry_capacity;
    exg_cache cache;
    exg_cache_key key;
    exg_program *empty; /* whose weights, none, the memory is of */
    exg_weight_store *memory;
    uint64_t draws; /* of random operators so far */
    uint64_t drawn; /* by factories: the offset of the next */
    bool grad_disabled;
    uint32_t muted;                          /* inside operators that are recorded whole */
    uint64_t steps;                          /* recorded so far */
    exg_device_mesh *self;                   /* of this rank alone; NULL: not asked for yet */
    exg_device_mesh *meshes[EXG_MESHES_MAX]; /* that were pushed */
    uint32_t mesh_count;
    exg_dispatch_stats stats;
};

/* ---- builtin_ops.c, factory.c --------------------------------- */

/* Registers the operators that no local plan computes, and those that make something of nothing. */
exg_status exg_register_builtin_ops(exg_dispatcher *d, exg_error *err);
exg_status exg_register_factories(exg_dispatcher *d, exg_error *err);
exg_status exg_register_drawn(exg_dispatcher *d, exg_error *err);

/* ---- dispatch.c, propagate.c, write.c --------------------------------- */

/* The call with its arguments in place (op_entry, at, is_inner, d, err); `mesh` where no DTensor
 * says.
 */
exg_status exg_dispatch_call(exg_call *call, exg_device_mesh *mesh, exg_object *result);

/* exg_propagate_input_sharding of an entry, on a mesh. */
exg_status exg_propagate_on(exg_dispatcher *d, const exg_op_entry *op_entry, exg_device_mesh *mesh,
                            exg_op_schema *schema, exg_arena *arena, exg_op_schema **target,
                            bool *moves, exg_output_sharding **sharding, exg_error *err);

/* Writes the value of `from` to `self`, whose placements stay. USAGE DSP-007, UNSUPPORTED
 * DSP-006. */
exg_status exg_dtensor_write(exg_dispatcher *d, exg_dtensor *self, const exg_dtensor *from,
                             exg_error *err);

/* exg_dispatch past lowerings and handlers. */
exg_status exg_dispatch_by_table(exg_dispatcher *d, const char *key, const exg_object *args,
                                 uint32_t arg_count, const exg_named_object *kwargs,
                                 uint32_t kwarg_count, exg_object *result, exg_error *err);

/* ---- log.c: nothing without a log --------------------------------- */

void exg_log_call(const exg_call *call);
void exg_log_decision(const exg_call *call, const exg_entry *entry, bool found);
void exg_log_note(exg_dispatcher *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
