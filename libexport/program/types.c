/* types.c - the tables behind types.h. */
#include <exg/types.h>

#include "libexport/base/checked.h"

#include <stddef.h>
#include <string.h>

/* As torch.fx abbreviates them in printed graphs; a dtype without one does not
 * compile. */
#define SHORT_U8         "u8"
#define SHORT_I8         "i8"
#define SHORT_I16        "i16"
#define SHORT_I32        "i32"
#define SHORT_I64        "i64"
#define SHORT_F16        "f16"
#define SHORT_F32        "f32"
#define SHORT_F64        "f64"
#define SHORT_C32        "c32"
#define SHORT_C64        "c64"
#define SHORT_C128       "c128"
#define SHORT_B8         "b8"
#define SHORT_BF16       "bf16"
#define SHORT_U16        "u16"
#define SHORT_F8E4M3FN   "f8e4m3fn"
#define SHORT_F8E5M2     "f8e5m2"
#define SHORT_F8E4M3FNUZ "f8e4m3fnuz"
#define SHORT_F8E5M2FNUZ "f8e5m2fnuz"
#define SHORT_F8E8M0FNU  "f8e8m0fnu"
#define SHORT_U32        "u32"
#define SHORT_U64        "u64"

static const struct dtype_row {
    const char *name;
    const char *short_name;
    const char *safetensors;
    const char *numpy;
    int32_t number;
    uint32_t bytes;
    char kind;
} dtype_rows[] = {
    [EXG_DTYPE_UNKNOWN] = {"?", "?", "", "", 0, 0, '?'},
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind)                       \
    [EXG_DTYPE_##id] = {torch, SHORT_##id, safetensors, numpy, number, bytes, #kind[0]},
#include <exg/dtype.def>
#undef EXG_DTYPE
};
_Static_assert(sizeof(dtype_rows) / sizeof(dtype_rows[0]) == EXG_DTYPE_COUNT, "one row a dtype");

static const struct dtype_row *row_of(exg_dtype dtype)
{
    return &dtype_rows[(unsigned)dtype < EXG_DTYPE_COUNT ? dtype : EXG_DTYPE_UNKNOWN];
}

const char *exg_dtype_name(exg_dtype dtype)
{
    return row_of(dtype)->name;
}

const char *exg_dtype_short_name(exg_dtype dtype)
{
    return row_of(dtype)->short_name;
}

const char *exg_dtype_safetensors(exg_dtype dtype)
{
    return row_of(dtype)->safetensors;
}

const char *exg_dtype_numpy(exg_dtype dtype)
{
    return row_of(dtype)->numpy;
}

uint32_t exg_dtype_bytes(exg_dtype dtype)
{
    return row_of(dtype)->bytes;
}

char exg_dtype_class(exg_dtype dtype)
{
    return row_of(dtype)->kind;
}

int32_t exg_dtype_export_number(exg_dtype dtype)
{
    return row_of(dtype)->number;
}

exg_dtype exg_dtype_from_export_number(int64_t number)
{
    for (int i = EXG_DTYPE_UNKNOWN + 1; i < EXG_DTYPE_COUNT; i++) {
        if (dtype_rows[i].number == number) {
            return (exg_dtype)i;
        }
    }
    return EXG_DTYPE_COUNT;
}

/* The row whose string member at `member` is `text`; "" names none. */
static exg_dtype find_text(const char *text, size_t member)
{
    for (int i = EXG_DTYPE_UNKNOWN + 1; i < EXG_DTYPE_COUNT; i++) {
        const char *const *field =
            (const char *const *)(const void *)((const char *)&dtype_rows[i] + member);

        if (text[0] != '\0' && strcmp(*field, text) == 0) {
            return (exg_dtype)i;
        }
    }
    return EXG_DTYPE_COUNT;
}

exg_dtype exg_dtype_from_name(const char *torch_name)
{
    return find_text(torch_name, offsetof(struct dtype_row, name));
}

exg_dtype exg_dtype_from_safetensors(const char *name)
{
    return find_text(name, offsetof(struct dtype_row, safetensors));
}

exg_dtype exg_dtype_from_numpy(const char *descr)
{
    return find_text(descr, offsetof(struct dtype_row, numpy));
}

const char *exg_layout_name(exg_layout layout)
{
    switch (layout) {
#define EXG_LAYOUT(id, number, early, name)                                                        \
    case EXG_LAYOUT_##id:                                                                          \
        return name;
#include <exg/layout.def>
#undef EXG_LAYOUT
    }
    return "?";
}

const char *exg_memory_format_name(exg_memory_format format)
{
    switch (format) {
#define EXG_MEMORY_FORMAT(id, number, name)                                                        \
    case EXG_MEMORY_FORMAT_##id:                                                                   \
        return name;
#include <exg/memory_format.def>
#undef EXG_MEMORY_FORMAT
    }
    return "?";
}

bool exg_tensor_meta_is_static(const exg_tensor_meta *meta)
{
    for (uint32_t d = 0; d < meta->rank; d++) {
        if (meta->sizes[d].expr != NULL || meta->strides[d].expr != NULL) {
            return false;
        }
    }
    return meta->storage_offset.expr == NULL;
}

bool exg_tensor_meta_numel(const exg_tensor_meta *meta, int64_t *numel)
{
    int64_t product = 1;
    bool empty = false;
    bool fits = true;

    for (uint32_t d = 0; d < meta->rank; d++) {
        int64_t size = meta->sizes[d].value;

        if (meta->sizes[d].expr != NULL || size < 0) {
            return false;
        }
        empty = empty || size == 0;
        fits = fits && exg_mul_i64(product, size, &product);
    }
    if (!empty && !fits) {
        return false;
    }
    *numel = empty ? 0 : product;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_sym_int(const exg_sym_int *a, const exg_sym_int *b)
{
    return a->value == b->value && a->has_hint == b->has_hint && same_text(a->expr, b->expr);
}

bool exg_tensor_meta_equal(const exg_tensor_meta *a, const exg_tensor_meta *b)
{
    if (a->dtype != b->dtype || a->layout != b->layout || a->rank != b->rank ||
        a->requires_grad != b->requires_grad || a->device.index != b->device.index ||
        !same_text(a->device.type, b->device.type) ||
        !same_sym_int(&a->storage_offset, &b->storage_offset)) {
        return false;
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        if (!same_sym_int(&a->sizes[d], &b->sizes[d]) ||
            !same_sym_int(&a->strides[d], &b->strides[d])) {
            return false;
        }
    }
    return true;
}
