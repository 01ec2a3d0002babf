/* pickle.h - what a pickle says, without doing what it says.
 *
 * An abstract machine over the opcodes of all protocols. Names of classes and functions become
 * tags of a list; nothing is looked up, nothing is called. What calls of PyTorch's and NumPy's
 * rebuilders stand for is known; any other call is an object: its name, its arguments, its
 * state. A strict reading knows no such objects, and takes the names alone that torch.export
 * writes: UNSUPPORTED (PKL-GLOBAL, PKL-CALL). UNSUPPORTED (PKL-OPCODE), MALFORMED (PKL-001
 * damaged), LIMIT (PKL-LIMIT).
 *
 * Memory: values, stack and memo live in the arena; bytes may lie in the pickle itself, which
 * must stay. Lists, dicts and objects may contain each other and themselves.
 * Form: docs/pt2.md section 2.6.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_PICKLE_H
#define EXG_LIBEXPORT_FORMATS_PT2_PICKLE_H

#include "libexport/base/arena.h"

#include <exg/status.h>
#include <exg/text.h>
#include <exg/types.h>
#include <exg/weights.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum exg_pickle_kind {
    EXG_PICKLE_NONE,
    EXG_PICKLE_BOOL,
    EXG_PICKLE_INT,
    EXG_PICKLE_LONG, /* an integer of more than 64 bits */
    EXG_PICKLE_FLOAT,
    EXG_PICKLE_COMPLEX,
    EXG_PICKLE_STRING,
    EXG_PICKLE_BYTES,
    EXG_PICKLE_TUPLE,
    EXG_PICKLE_LIST,
    EXG_PICKLE_SET,
    EXG_PICKLE_DICT,
    EXG_PICKLE_GLOBAL,  /* a name */
    EXG_PICKLE_STORAGE, /* a persistent id */
    EXG_PICKLE_TENSOR,
    EXG_PICKLE_DEVICE, /* as_text: "cuda:0" */
    EXG_PICKLE_OBJECT
} exg_pickle_kind;

typedef struct exg_pickle_value exg_pickle_value;

/* A tuple, list or set; of a dict keys and values in turn. */
typedef struct exg_pickle_items {
    exg_pickle_value **items;
    uint32_t count;
    uint32_t capacity;
    exg_pickle_value *state; /* attributes of an OrderedDict, or NULL */
} exg_pickle_items;

typedef struct exg_pickle_text {
    const char *data; /* ends in NUL, may hold NUL; bytes and long integers end nowhere */
    size_t length;
} exg_pickle_text;

typedef struct exg_pickle_storage {
    const char *key;      /* data/<key> */
    const char *location; /* "cpu", "cuda:0" */
    const char *encoding; /* "qint8": what the elements are beyond the dtype; NULL: just that */
    exg_dtype dtype;      /* EXG_DTYPE_COUNT: untyped */
    uint64_t count;       /* elements; bytes when untyped */
    uint64_t first;       /* element of the storage `key` where it begins: of files before 1.6 */
} exg_pickle_storage;

typedef struct exg_pickle_tensor {
    const exg_pickle_storage *storage;
    exg_dtype dtype;
    const char *encoding;
    int64_t offset;
    const exg_pickle_items *sizes; /* INT each, as many as strides */
    const exg_pickle_items *strides;
    bool requires_grad;
    bool is_param;
    bool given;                        /* the walk added it */
    bool is_conj, is_neg;              /* elements are to be conjugated, negated */
    const exg_pickle_value *quantizer; /* TUPLE: scheme and what it needs; or NULL */
    exg_pickle_value *attributes;      /* as pickled state; or NULL */
    struct exg_pickle_global *type;    /* a class of its own, or NULL */
} exg_pickle_tensor;

/* What a call makes that is none of the other kinds. */
typedef struct exg_pickle_object {
    exg_pickle_value *callee;    /* GLOBAL, or what else was called */
    exg_pickle_value *arguments; /* TUPLE */
    exg_pickle_value *state;     /* set later; or NULL */
    exg_pickle_items list;       /* appended */
    exg_pickle_items entries;    /* set by key: keys and values in turn */
    const char *path;            /* where the walk met it first; NULL: not yet */
} exg_pickle_object;

struct exg_pickle_value {
    exg_pickle_kind kind;
    bool open; /* the walk is inside of it */
    union {
        bool as_bool;
        int64_t as_int;
        double as_float;
        struct {
            double real, imag;
        } as_complex;
        exg_pickle_text as_text;
        exg_pickle_items as_items;
        struct exg_pickle_global *as_global;
        exg_pickle_storage *as_storage;
        exg_pickle_tensor *as_tensor;
        exg_pickle_object *as_object;
    };
};

/* ---- pickle_global.c: names -------------------------------------------------------------- */

typedef enum exg_pickle_tag {
#define EXG_PICKLE_TAG(id) EXG_TAG_##id,
#include "libexport/formats/pt2/pickle_tag.def"
#undef EXG_PICKLE_TAG
} exg_pickle_tag;

typedef struct exg_pickle_global {
    const char *module;
    const char *name;
    exg_pickle_tag tag;
    exg_dtype dtype;             /* STORAGE, DTYPE; EXG_DTYPE_COUNT: untyped */
    const char *encoding;        /* the same */
    exg_skipped_code code;       /* what loading it in Python means */
    bool is_strict;              /* torch.export writes it */
    bool told;                   /* the walk listed it */
    exg_pickle_value *arguments; /* of its first call; NULL: it is not called */
} exg_pickle_global;

/* The row of a name; *global is a copy of its own. UNSUPPORTED (PKL-GLOBAL) when strict. */
exg_status exg_pickle_find_global(const char *module, const char *name, bool strict,
                                  exg_arena *arena, exg_pickle_global **global, exg_error *err);

/* The class of the storages of a dtype; of those that have none torch.storage.UntypedStorage,
 * whose dtype is another. */
const exg_pickle_global *exg_pickle_storage_class(exg_dtype dtype);

/* ---- pickle.c: the machine --------------------------------------------------------------- */

/* What a persistent id stands for. */
typedef exg_status exg_pickle_persistent_fn(void *user, exg_pickle_value *id, exg_arena *arena,
                                            exg_pickle_value *result, exg_error *err);

typedef struct exg_pickle_options {
    bool strict;
    exg_pickle_persistent_fn *persistent; /* NULL: exg_pickle_persistent() */
    void *user;
} exg_pickle_options;

typedef struct exg_pickle {
    exg_pickle_value *root;
    size_t length;               /* up to its last opcode; more may follow */
    exg_pickle_global **globals; /* each name once, in the order they come */
    uint32_t global_count, global_capacity;
} exg_pickle;

/* Runs the pickle; the root is the object it builds. */
exg_status exg_pickle_read(const uint8_t *data, size_t length, const exg_pickle_options *options,
                           exg_arena *arena, exg_pickle *pickle, exg_error *err);

/* ---- pickle_call.c: what is known of calls ----------------------------------------------- */

/* What calling the name on `arguments` stands for; UNSUPPORTED (PKL-CALL) when that is not
 * known. */
exg_status exg_pickle_call(const exg_pickle_global *global, exg_pickle_value *arguments,
                           exg_arena *arena, exg_pickle_value *result, exg_error *err);

/* What setting the state of a value makes of it; UNSUPPORTED (PKL-CALL) when it has none. */
exg_status exg_pickle_build(exg_pickle_value *value, exg_pickle_value *state, bool strict,
                            exg_arena *arena, exg_error *err);

/* The persistent id ('storage', class, key, location, count), and its forms before 1.6. */
exg_pickle_persistent_fn exg_pickle_persistent;

/* ---- pickle_text.c: values as text ------------------------------------------------------- */

/* A text without NUL, in UTF-8. */
bool exg_pickle_is_name(const exg_pickle_value *value);

/* The value as Python's repr() writes it, but for objects, whose modules are left out. What
 * passes so many bytes ends soon after: what holds one thing often would fill the memory. */
#define EXG_PICKLE_TEXT_MAX (1u << 20)
void exg_pickle_put(exg_text *text, const exg_pickle_value *value);

/* The same where it is all there is: texts as they are, "cuda:0", "1.5". */
void exg_pickle_put_plain(exg_text *text, const exg_pickle_value *value);

/* Is it a number, a text, a name, or a sequence of such? *left visits at most. */
bool exg_pickle_is_plain(const exg_pickle_value *value, int depth, uint32_t *left);

/* What it is: "argparse.Namespace", "dict". */
void exg_pickle_put_kind(exg_text *text, const exg_pickle_value *value);

/* The value under a text key of a dict, the last of them, or NULL; `dict` may be NULL or none. */
exg_pickle_value *exg_pickle_get(const exg_pickle_value *dict, const char *key);

/* An attribute of an object or a tensor by name, or NULL. */
exg_pickle_value *exg_pickle_attribute(const exg_pickle_value *state, const char *name);

#endif
