/* dispatch.h - one operator on DTensors, now.
 *
 *   call -> normalize -> lowering? -> handler? -> propagate -> move inputs -> local plan -> wrap
 *
 * An operator is named by its key, "aten.add.Tensor". The sharding rules say how it runs on
 * every rank by itself; inputs that are placed otherwise are redistributed; a plan of one node
 * computes the local part. Operators that are made of others are dispatched part by part.
 * All this is decided once for equal calls and then found again in the dispatcher's cache.
 *
 * In-place operators and out= variants return the very objects they wrote, which keep
 * their placements. Views share memory with what they are views of.
 *
 * On a mesh of devices (device_mesh.h) a call is asked for when it returns, not done, and what it
 * gives is in the device's memory. It is done where the call can find a fault of the data (an
 * index outside, integers divided by zero, a singular matrix), where the device leaves it to the
 * host, where something moves to other ranks, where a plain tensor comes from the host, and where
 * a part that is not row-major is written in place; calls that draw random numbers wait for
 * what was asked before. Plain tensors may be in the host's memory or in the device's; local
 * tensors that rules and handlers are handed are on the device.
 *
 * Collective: every rank of the mesh makes the same calls in the same order. A rank that is
 * no member of the mesh computes nothing, sends nothing and gets empty parts.
 * Threads: a dispatcher is used by its rank's thread alone. Nothing is global.
 * Meaning: torch/distributed/_tensor/dispatch.py and op_schema.py.
 */
#ifndef EXG_DISPATCH_H
#define EXG_DISPATCH_H

#include <exg/dtensor.h>
#include <exg/memory.h>
#include <exg/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a DTensor is, without its data --------------------------------- */

typedef struct exg_dtensor_spec {
    exg_device_mesh *mesh;
    exg_dtype dtype;
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];   /* global */
    int64_t strides[EXG_RANK_MAX]; /* global */
    exg_placement placements[EXG_MESH_DIMS_MAX];
} exg_dtensor_spec;

void exg_dtensor_get_spec(const exg_dtensor *t, exg_dtensor_spec *spec);
/* Mesh, placements, sizes, strides and dtype. */
bool exg_dtensor_spec_equal(const exg_dtensor_spec *a, const exg_dtensor_spec *b);

/* ---- objects: arguments and results --------------------------------- */

typedef enum exg_object_kind {
    EXG_OBJECT_NONE,
    EXG_OBJECT_VALUE, /* a number, a string, a list of numbers, a dtype, ... */
    EXG_OBJECT_UINT,  /* an integer above INT64_MAX: what item gives, and full takes */
    EXG_OBJECT_DTENSOR,
    EXG_OBJECT_TENSOR, /* a plain tensor; borrowed */
    EXG_OBJECT_SPEC,   /* stands for a DTensor; borrowed */
    EXG_OBJECT_LIST,
    EXG_OBJECT_TUPLE
} exg_object_kind;

typedef struct exg_object exg_object;

struct exg_object {
    exg_object_kind kind;
    uint32_t count; /* of a LIST or TUPLE */
    union {
        exg_argument value; /* no reference to a graph */
        uint64_t as_uint;
        exg_dtensor *dtensor;
        const exg_tensor *tensor;
        const exg_dtensor_spec *spec;
        exg_object *items;
    };
};

typedef struct exg_named_object {
    const char *name;
    exg_object object;
} exg_named_object;

exg_object exg_object_none(void);
exg_object exg_object_value(exg_argument value);
exg_object exg_object_scalar(exg_scalar number); /* a VALUE, where one holds it, else UINT; NONE */
exg_object exg_object_dtensor(exg_dtensor *t);
exg_object exg_object_tensor(const exg_tensor *t);
exg_object exg_object_spec(const exg_dtensor_spec *spec);
exg_object exg_object_list(exg_object *items, uint32_t count);

/* Frees the lists of a result, and with `dtensors` the DTensors in it too. NULL is allowed. */
void exg_object_clear(exg_object *object, bool dtensors);

/* ---- what propagation sees and says --------------------------------- */

/* One call, DTensors by their specs. A plain struct: what it points to belongs to whoever
 * made it. Rules may change values among the arguments (to fit the local part) and no spec. */
typedef struct exg_op_schema {
    const exg_function_schema *func_schema;
    exg_object *args; /* positional: SPEC, VALUE, NONE, and lists of them */
    uint32_t arg_count;
    exg_named_object *kwargs; /* in call order; compared as a set */
    uint32_t kwarg_count;
    bool is_inplace, is_out_variant; /* of func_schema, always */
} exg_op_schema;

void exg_op_schema_init(exg_op_schema *schema, const exg_function_schema *func_schema,
                        exg_object *args, uint32_t arg_count, exg_named_object *kwargs,
                        uint32_t kwarg_count);
/* The same with DTENSOR objects replaced by their specs, everything else copied; in `arena`. */
EXG_NODISCARD exg_status exg_op_schema_from_call(exg_op_schema *schema,
                                                 const exg_function_schema *func_schema,
                                                 const exg_object *args, uint32_t arg_count,
                                                 const exg_named_object *kwargs,
                                                 uint32_t kwarg_count, exg_arena *arena,
                                                 exg_error *err);

/* The i-th spec among the positional arguments themselves (not in lists, not in kwargs), or
 * NULL; and how many there are. */
const exg_dtensor_spec *exg_op_schema_args_spec(const exg_op_schema *schema, uint32_t i);
uint32_t exg_op_schema_args_spec_count(const exg_op_schema *schema);
/* All of them, in lists and kwargs too; gives the count, at most `max` are written. */
uint32_t exg_op_schema_all_specs(const exg_op_schema *schema, const exg_dtensor_spec **specs,
                                 uint32_t max);

/* Changes positional argument `i`, no spec. USAGE DSP-001. */
EXG_NODISCARD exg_status exg_op_schema_set_value(exg_op_schema *schema, uint32_t i,
                                                 const exg_argument *value, exg_error *err);

/* Operator, arguments, kwargs in any order; flags are not compared. 1, 1.0 and true differ,
 * floats are compared by their bits. Equal schemas have equal hashes. */
bool exg_op_schema_equal(const exg_op_schema *a, const exg_op_schema *b);
uint64_t exg_op_schema_hash(const exg_op_schema *schema);

/* "OpSchema(func_schema=..., args_schema=(...), kwargs_schema={...})"; the caller frees it. */
EXG_NODISCARD exg_status exg_op_schema_print(const exg_op_schema *schema, char **text,
                                             exg_error *err);

typedef enum exg_sharding_status {
    EXG_SHARDING_OK,
    EXG_SHARDING_NEEDS_REDISTRIBUTE, /* one of the suggestions has to be taken */
    EXG_SHARDING_FAILED
} exg_sharding_status;

/* What a rule says. A suggestion is the call with other specs. */
typedef struct exg_output_sharding {
    exg_sharding_status status;
    exg_object result; /* OK: NONE, a SPEC, or a LIST or TUPLE of SPEC and NONE */
    exg_op_schema *suggestions;
    uint32_t suggestion_count; /* best first */
    bool rewrites_values;      /* the rule fitted values of the schema to the local part */
    const char *failed_reason; /* FAILED: never empty */
} exg_output_sharding;

/* Fills `out` (all zero before) with memory of `arena`. May write the call as one of another
 * operator on the same tensors: schema->func_schema, args and kwargs. */
typedef exg_status exg_sharding_rule(void *user, exg_op_schema *schema, exg_arena *arena,
                                     exg_output_sharding *out, exg_error *err);

/* ---- the dispatcher --------------------------------- */

typedef struct exg_dispatcher exg_dispatcher;

/* Instead of an operator: `args` and `kwargs` as the caller gave them; the result is handed
 * on as it is. */
typedef exg_status exg_custom_handler(void *user, exg_dispatcher *d, const char *key,
                                      const exg_object *args, uint32_t arg_count,
                                      const exg_named_object *kwargs, uint32_t kwarg_count,
                                      exg_object *result, exg_error *err);

/* What the caller has to say of an operator; NULL: nothing. */
typedef struct exg_op_registration {
    exg_custom_handler *lowering; /* before everything: what the operator is made of */
    exg_custom_handler *handler;  /* then this */
    exg_sharding_rule *rule;      /* in the place of the operator's own */
    void *user;                   /* of all three */
} exg_op_registration;

/* Operators without a sharding rule. */
typedef enum exg_fallback {
    EXG_FALLBACK_NONE,      /* are refused */
    EXG_FALLBACK_REPLICATE, /* run on whole tensors */
    EXG_FALLBACK_LOCAL      /* run on the local parts as they are, the result lying as the first
                               argument does: wrong for most */
} exg_fallback;

typedef enum exg_dispatch_event {
    EXG_EVENT_CALL,         /* operator and OpSchema */
    EXG_EVENT_LOCAL_SHAPES, /* of the arguments */
    EXG_EVENT_DECISION, /* how operands and results are placed, and whether it was found again */
    EXG_EVENT_MOVE,     /* one operand: from, to, bytes received */
    EXG_EVENT_NOTE      /* what may not be meant */
} exg_dispatch_event;

typedef void exg_dispatch_log(void *user, exg_dispatch_event event, const char *text);

typedef struct exg_dispatch_options {
    size_t size;           /* sizeof(exg_dispatch_options) */
    exg_device_mesh *mesh; /* of calls without any DTensor; NULL: they are refused */
    exg_fallback fallback;
    bool implicit_replication; /* plain tensors beside DTensors are whole on every rank */
    exg_dtype default_dtype; /* of factories without a dtype; what is not floating, as 0: float32 */
    bool first_suggestion;   /* instead of the one of least moves */
    uint32_t cache_capacity; /* calls that are remembered; 0: 1024 */
    uint64_t seed;           /* of random operators */
    exg_dispatch_log *log;   /* NULL: silence */
    void *log_user;
} exg_dispatch_options;

/* `operators` and the meshes used must stay. */
EXG_NODISCARD exg_status exg_dispatcher_create(const exg_operators *operators,
                                               const exg_dispatch_options *options,
                                               exg_dispatcher **d, exg_error *err);
void exg_dispatcher_destroy(exg_dispatcher *d); /* NULL is allowed */

/* From now on; the cache's capacity stays. USAGE. */
EXG_NODISCARD exg_status exg_dispatcher_configure(exg_dispatcher *d,
                                                  const exg_dispatch_options *options,
                                                  exg_error *err);

/* What `registration` says of operator `key` counts from now on, in this dispatcher. Without a
 * schema (an operator that `operators` does not have) only the lowering or the handler are used:
 * exg_operators_register() adds operators with schema and kernel, to programs too
 * (operator_library.h). */
EXG_NODISCARD exg_status exg_dispatcher_register(exg_dispatcher *d, const char *key,
                                                 const exg_op_registration *registration,
                                                 exg_error *err);

typedef struct exg_dispatch_stats {
    size_t size;           /* that this library filled */
    uint64_t hits, misses; /* of the cache */
    uint64_t rules;        /* run */
    uint32_t entries;      /* in the cache */
} exg_dispatch_stats;

/* Lent until it is asked for again. */
const exg_dispatch_stats *exg_dispatcher_statistics(exg_dispatcher *d);

#define EXG_OPERATOR_KEY_MAX 256

/* "aten.add.Tensor", "aten.relu.default"; at most `room` bytes with the NUL. */
void exg_operator_key(const exg_operator *op, char *text, size_t room);

/* Runs operator `key`. New DTensors in the result are the caller's, as are its lists
 * (exg_object_clear); in-place and out= results are the arguments themselves.
 * USAGE: DSP-001 arguments that the operator does not take, DSP-002 a plain tensor of several
 * elements beside DTensors, DSP-003 two meshes, DSP-007 an out= or in-place target of other
 * sizes, DSP-008 no mesh, DSP-010 a DTensor without data. UNSUPPORTED: OPR-003 no such
 * operator, DSP-004 no sharding rule, DSP-005 a rule that fails, DSP-006 an in-place target
 * that would have to move. MALFORMED RUN-001, PEER as exg_session_run: a fault of data that are
 * whole on every rank all ranks are told, and go on; one that a rank finds in its own part ends the
 * mesh for all, the others with PEER as they next wait. */
EXG_NODISCARD exg_status exg_dispatch(exg_dispatcher *d, const char *key, const exg_object *args,
                                      uint32_t arg_count, const exg_named_object *kwargs,
                                      uint32_t kwarg_count, exg_object *result, exg_error *err);

/* ---- factories --------------------------------- */

/* What exg_dtensor_empty and its kin (dtensor.h) make, where the dispatcher says what is left out:
 * the current mesh of a mesh that is NULL (USAGE DSP-008 when there is none), its default dtype of
 * none, of what a float or a complex number fills too, and where random numbers come from. Without
 * placements "aten.zeros.default" and its kin give the same; they take sizes as a list, a tuple,
 * one list in another, or one by one. */
EXG_NODISCARD exg_status exg_empty(exg_dispatcher *d, exg_device_mesh *mesh,
                                   const exg_dtensor_like *like, exg_dtensor **t, exg_error *err);
EXG_NODISCARD exg_status exg_zeros(exg_dispatcher *d, exg_device_mesh *mesh,
                                   const exg_dtensor_like *like, exg_dtensor **t, exg_error *err);
EXG_NODISCARD exg_status exg_ones(exg_dispatcher *d, exg_device_mesh *mesh,
                                  const exg_dtensor_like *like, exg_dtensor **t, exg_error *err);
EXG_NODISCARD exg_status exg_full(exg_dispatcher *d, exg_device_mesh *mesh,
                                  const exg_dtensor_like *like, exg_scalar value, exg_dtensor **t,
                                  exg_error *err);
EXG_NODISCARD exg_status exg_rand(exg_dispatcher *d, exg_device_mesh *mesh,
                                  const exg_dtensor_like *like, exg_dtensor **t, exg_error *err);
EXG_NODISCARD exg_status exg_randn(exg_dispatcher *d, exg_device_mesh *mesh,
                                   const exg_dtensor_like *like, exg_dtensor **t, exg_error *err);

/* ---- its parts --------------------------------- */

/* Which schema to run with, whether inputs have to move for it, and how the results are placed
 * (sharding->status OK; with EXG_FALLBACK_LOCAL and no rule, *sharding is NULL). Without
 * moves *target is `schema` itself. Memory is of `arena`. */
EXG_NODISCARD exg_status exg_propagate_input_sharding(exg_dispatcher *d, const char *key,
                                                      exg_op_schema *schema, exg_arena *arena,
                                                      exg_op_schema **target, bool *moves,
                                                      exg_output_sharding **sharding,
                                                      exg_error *err);

/* Local arguments: each DTENSOR of `args`, in lists too, becomes its local TENSOR, with `moves`
 * after it was redistributed to the SPEC at the same place of `schema`; everything else is
 * what `schema` has there. What was moved is in `moved`, an empty list at first, for the
 * caller to clear with its DTensors. Lists are of `arena`. */
EXG_NODISCARD exg_status exg_pack_args(const exg_object *args, const exg_object *schema,
                                       uint32_t count, bool moves, exg_arena *arena,
                                       exg_object *local, exg_object *moved, exg_error *err);

/* DTensors over local results, whose memory they borrow: item by item as `specs` says. Numbers
 * and none stay what they are; a 0-d tensor without a spec stays plain. The dtype is the local
 * tensor's. MALFORMED DSP-009 when the two do not go together: another count, no mesh, local sizes
 * that are not this rank's. Lists of `result` are the caller's. */
EXG_NODISCARD exg_status exg_wrap(const exg_object *local, const exg_object *specs,
                                  exg_object *result, exg_error *err);

/* Collective. The one element of `t`: reduced if it is Partial, and as coordinate 0 of the mesh
 * has it, on every rank of the mesh. Of kind NONE on others. USAGE DSP-001. */
EXG_NODISCARD exg_status exg_dtensor_item(const exg_dtensor *t, exg_scalar *number, exg_error *err);

/* ---- what there is for an operator ----------------------------------------------------------- */

/* In words for people, static. Filled as far as its size reaches. */
typedef struct exg_operator_support {
    size_t size;            /* sizeof(exg_operator_support) */
    const char *kernel;     /* of the host: its name, "pointwise", "view", "on sizes", "by simpler
                               operators", "as the operator that writes nothing", "read of the
                               data"; "" none */
    const char *sharding;   /* how ranks share it: letters of dims ("mk,kn->mn"), "by a rule",
                               "element by element", "as what it is computed by", "the same on
                               each rank"; "whole on each rank" */
    const char *derivative; /* "of its own", "by simpler operators", "none" */
    uint64_t dtypes;        /* that the host's kernel takes, a bit each (1 << exg_dtype), of the
                               first tensor, or of the result where there is none; 0: it is
                               computed otherwise, or a library says it */
    uint32_t devices;       /* that have a kernel, a bit each by the number of exg_device_kind();
                               the host computes for the others. One whose library is not there
                               has none */
} exg_operator_support;

EXG_NODISCARD exg_status exg_operator_describe(const exg_operator *op,
                                               exg_operator_support *support, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
