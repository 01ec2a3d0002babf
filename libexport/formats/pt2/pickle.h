/* pickle.h - what a pickle says, without doing what it says.
 *
 * An abstract machine over the opcodes PyTorch writes for state dicts and example
 * inputs. Names of classes and functions become tags of a closed list; nothing is
 * looked up, nothing is called. What is not on the list ends the reading:
 * UNSUPPORTED (PKL-OPCODE, PKL-GLOBAL, PKL-CALL), MALFORMED (PKL-001 damaged),
 * LIMIT (PKL-LIMIT).
 *
 * Memory: values live in the arena; lists and dicts may contain each other and
 * themselves, so whoever walks them counts depth.
 * Form: docs/pt2.md section 2.6.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_PICKLE_H
#define EXG_LIBEXPORT_FORMATS_PT2_PICKLE_H

#include "libexport/base/arena.h"

#include <exg/status.h>
#include <exg/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum exg_pickle_kind {
    EXG_PICKLE_NONE,
    EXG_PICKLE_BOOL,
    EXG_PICKLE_INT,
    EXG_PICKLE_FLOAT,
    EXG_PICKLE_COMPLEX,
    EXG_PICKLE_STRING,
    EXG_PICKLE_BYTES,
    EXG_PICKLE_TUPLE,
    EXG_PICKLE_LIST,
    EXG_PICKLE_SET,
    EXG_PICKLE_DICT,
    EXG_PICKLE_GLOBAL,  /* a tag */
    EXG_PICKLE_STORAGE, /* a persistent id */
    EXG_PICKLE_TENSOR,
    EXG_PICKLE_DEVICE
} exg_pickle_kind;

typedef struct exg_pickle_value exg_pickle_value;

/* A tuple, list or set; of a dict keys and values in turn. */
typedef struct exg_pickle_items {
    exg_pickle_value **items;
    uint32_t count;
    uint32_t capacity;
    bool ordered; /* OrderedDict */
} exg_pickle_items;

typedef struct exg_pickle_text {
    const char *data; /* ends in NUL, may hold NUL */
    size_t length;
} exg_pickle_text;

typedef struct exg_pickle_storage {
    const char *key;      /* data/<key> */
    const char *location; /* "cpu", "cuda:0" */
    exg_dtype dtype;      /* EXG_DTYPE_COUNT: untyped */
    uint64_t count;       /* elements; bytes when untyped */
} exg_pickle_storage;

typedef struct exg_pickle_tensor {
    const exg_pickle_storage *storage;
    exg_dtype dtype;
    int64_t offset;
    const exg_pickle_items *sizes; /* INT each, as many as strides */
    const exg_pickle_items *strides;
    bool requires_grad;
    bool is_param;
} exg_pickle_tensor;

struct exg_pickle_value {
    exg_pickle_kind kind;
    union {
        bool as_bool;
        int64_t as_int;
        double as_float;
        struct {
            double real, imag;
        } as_complex;
        exg_pickle_text as_text;
        exg_pickle_items as_items;
        const struct exg_pickle_global *as_global;
        exg_pickle_storage as_storage;
        exg_pickle_tensor as_tensor;
    };
};

/* Runs the pickle; *root is the object it builds. */
exg_status exg_pickle_read(const uint8_t *data, size_t length, exg_arena *arena,
                           exg_pickle_value **root, exg_error *err);

/* ---- pickle_global.c: the closed list ------------------------------------------------ */

typedef enum exg_pickle_tag {
    EXG_TAG_ORDERED_DICT,
    EXG_TAG_REBUILD_TENSOR,
    EXG_TAG_REBUILD_TENSOR_V2,
    EXG_TAG_REBUILD_TENSOR_V3,
    EXG_TAG_REBUILD_PARAMETER,
    EXG_TAG_REBUILD_FROM_TYPE,
    EXG_TAG_TYPE, /* of a tensor */
    EXG_TAG_STORAGE,
    EXG_TAG_SIZE,
    EXG_TAG_DTYPE,
    EXG_TAG_DEVICE,
    EXG_TAG_COMPLEX,
    EXG_TAG_KNOWN_UNSUPPORTED
} exg_pickle_tag;

typedef struct exg_pickle_global {
    const char *module;
    const char *name;
    exg_pickle_tag tag;
    exg_dtype dtype; /* STORAGE, DTYPE; EXG_DTYPE_COUNT: untyped */
} exg_pickle_global;

/* The row of a name, or UNSUPPORTED. */
exg_status exg_pickle_find_global(const char *module, const char *name,
                                  const exg_pickle_global **global, exg_error *err);

/* The class of the storages of a dtype; of those that have none torch.storage.UntypedStorage,
 * whose dtype is another. */
const exg_pickle_global *exg_pickle_storage_class(exg_dtype dtype);

/* What calling the tag on `arguments` stands for. */
exg_status exg_pickle_call(const exg_pickle_global *global, exg_pickle_value *arguments,
                           exg_arena *arena, exg_pickle_value *result, exg_error *err);

/* The persistent id ('storage', class, key, location, count). */
exg_status exg_pickle_persistent(const exg_pickle_value *id, exg_pickle_value *result,
                                 exg_error *err);

#endif
