/* types.h - the words a program is written in: dtypes, layouts, devices, sizes,
 * tensor descriptions.
 *
 * Plain structs. Strings are NUL-terminated UTF-8 and NULL means absent, which
 * is not the same as "". Whoever holds a struct says in its own header whose
 * memory its pointers lead to.
 * Meaning: torch/_export/serde/schema.py 8.20, and its first form (early JSON).
 */
#ifndef EXG_TYPES_H
#define EXG_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_dtype {
    EXG_DTYPE_UNKNOWN, /* none: of what is left out */
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind) EXG_DTYPE_##id,
#include <exg/dtype.def>
#undef EXG_DTYPE
    EXG_DTYPE_COUNT
} exg_dtype;

typedef enum exg_layout {
#define EXG_LAYOUT(id, number, early, name) EXG_LAYOUT_##id = number,
#include <exg/layout.def>
#undef EXG_LAYOUT
} exg_layout;

typedef enum exg_memory_format {
#define EXG_MEMORY_FORMAT(id, number, name) EXG_MEMORY_FORMAT_##id = number,
#include <exg/memory_format.def>
#undef EXG_MEMORY_FORMAT
} exg_memory_format;

/* Rows of dtype.def. Lookups give EXG_DTYPE_COUNT when there is no such row. */
const char *exg_dtype_name(exg_dtype dtype);        /* "float32" */
const char *exg_dtype_short_name(exg_dtype dtype);  /* "f32", as in print(ep) */
const char *exg_dtype_safetensors(exg_dtype dtype); /* "F32", "" when it has none */
const char *exg_dtype_numpy(exg_dtype dtype);       /* "<f4", "" when it has none */
uint32_t exg_dtype_bytes(exg_dtype dtype);
char exg_dtype_class(exg_dtype dtype); /* 'B','U','I','F','C' */
int32_t exg_dtype_export_number(exg_dtype dtype);
exg_dtype exg_dtype_from_export_number(int64_t number);
exg_dtype exg_dtype_from_name(const char *torch_name);
exg_dtype exg_dtype_from_safetensors(const char *name);
exg_dtype exg_dtype_from_numpy(const char *descr);

static inline bool exg_dtype_is_float(exg_dtype dtype)
{
    return exg_dtype_class(dtype) == 'F';
}

static inline bool exg_dtype_is_complex(exg_dtype dtype)
{
    return exg_dtype_class(dtype) == 'C';
}

/* Integers and bool. */
static inline bool exg_dtype_is_integral(exg_dtype dtype)
{
    return !exg_dtype_is_float(dtype) && !exg_dtype_is_complex(dtype);
}

/* The element of `dtype` at `at` (any alignment, host byte order) as a double: 64-bit
 * integers rounded, the real part of a complex one. */
double exg_element_value(exg_dtype dtype, const void *at);

/* The reverse: the element nearest to `value`, of an integral dtype what is left without its
 * fraction, where the dtype reaches that far; of a complex one `value` + 0i. */
void exg_element_store(exg_dtype dtype, void *at, double value);

const char *exg_layout_name(exg_layout layout);
const char *exg_memory_format_name(exg_memory_format format);

typedef struct exg_device {
    const char *type; /* "cpu", "cuda", "meta", ...: an open set */
    int64_t index;    /* -1 when absent */
} exg_device;

/* SymInt: a number, or an expression over symbols. */
typedef struct exg_sym_int {
    const char *expr; /* NULL: a number. Else the file's text, verbatim (symint.h parses it) */
    int64_t value;    /* the number, or the hint */
    bool has_hint;    /* of an expression */
} exg_sym_int;

typedef struct exg_sym_float {
    const char *expr;
    double value;
    bool has_hint;
} exg_sym_float;

typedef struct exg_sym_bool {
    const char *expr;
    bool value;
    bool has_hint;
} exg_sym_bool;

static inline exg_sym_int exg_sym_int_of(int64_t value)
{
    exg_sym_int s = {0, value, false};

    return s;
}

/* TensorMeta. Strides and offset count elements. */
typedef struct exg_tensor_meta {
    exg_dtype dtype;
    exg_layout layout;
    bool requires_grad;
    uint32_t rank;
    exg_sym_int *sizes;   /* rank of them */
    exg_sym_int *strides; /* rank of them */
    exg_sym_int storage_offset;
    exg_device device;
} exg_tensor_meta;

/* No size, stride or offset is an expression. */
bool exg_tensor_meta_is_static(const exg_tensor_meta *meta);

/* Product of the sizes of a static meta; false when it does not fit int64. */
bool exg_tensor_meta_numel(const exg_tensor_meta *meta, int64_t *numel);

/* Same dtype, layout, rank, sizes, strides, offset, device, requires_grad;
 * expressions compare as text. */
bool exg_tensor_meta_equal(const exg_tensor_meta *a, const exg_tensor_meta *b);

#ifdef __cplusplus
}
#endif

#endif
