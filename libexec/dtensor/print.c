/* print.c - a DTensor as text. */
#include "libexec/dtensor/spec.h"
#include "libexport/base/require.h"

#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

#define ALL_MAX 1000 /* elements that are printed one and all */
#define EDGE    3    /* at both ends of a dim, where they are more */

static void print_real(exg_text *text, exg_dtype dtype, const void *at)
{
    uint64_t bits;

    if (dtype == EXG_DTYPE_B8) {
        exg_text_puts(text, exg_element_value(dtype, at) != 0 ? "True" : "False");
    } else if (!exg_dtype_is_integral(dtype)) {
        exg_text_double(text, exg_element_value(dtype, at));
    } else if (exg_dtype_bytes(dtype) < sizeof(bits)) {
        exg_text_printf(text, "%" PRId64, (int64_t)exg_element_value(dtype, at));
    } else {
        memcpy(&bits, at, sizeof(bits));
        if (dtype == EXG_DTYPE_U64) {
            exg_text_printf(text, "%" PRIu64, bits);
        } else {
            exg_text_printf(text, "%" PRId64, (int64_t)bits);
        }
    }
}

static void print_element(exg_text *text, exg_dtype dtype, const uint8_t *at)
{
    uint32_t half = exg_dtype_bytes(dtype) / 2;
    exg_dtype real = half == 2 ? EXG_DTYPE_F16 : half == 4 ? EXG_DTYPE_F32 : EXG_DTYPE_F64;

    if (!exg_dtype_is_complex(dtype)) {
        print_real(text, dtype, at);
        return;
    }
    exg_text_putc(text, '(');
    print_real(text, real, at);
    exg_text_puts(text, ", ");
    print_real(text, real, at + half);
    exg_text_putc(text, ')');
}

static void print_dim(exg_text *text, const exg_tensor *t, const uint8_t *at, uint32_t dim,
                      bool cut)
{
    int64_t step;

    if (dim == t->rank) {
        print_element(text, t->dtype, at);
        return;
    }
    step = t->strides[dim] * (int64_t)exg_dtype_bytes(t->dtype);
    exg_text_putc(text, '[');
    for (int64_t i = 0; i < t->sizes[dim]; i++) {
        exg_text_puts(text, i > 0 ? ", " : "");
        if (cut && i == EDGE && t->sizes[dim] > 2 * EDGE) {
            exg_text_puts(text, "..., ");
            i = t->sizes[dim] - EDGE;
        }
        print_dim(text, t, at + i * step, dim + 1, cut);
    }
    exg_text_putc(text, ']');
}

/* `values`, called `name`, with the placements of `t`. */
static exg_status print_values(const exg_dtensor *t, const char *name, const exg_tensor *values,
                               char **text, exg_error *err)
{
    const exg_device_mesh *mesh = t->mesh;
    exg_text out = EXG_TEXT_EMPTY;
    char one[EXG_PLACEMENT_TEXT];

    exg_text_printf(&out, "DTensor(%s=", name);
    if (t->meta) {
        exg_text_puts(&out, "meta");
    } else {
        print_dim(&out, values, values->data, 0, exg_tensor_numel(values) > ALL_MAX);
    }
    exg_text_puts(&out, ", device_mesh=DeviceMesh(");
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        exg_text_printf(&out, "%s%s%s%u", m > 0 ? ", " : "", mesh->names[m],
                        mesh->names[m][0] != '\0' ? "=" : "", mesh->sizes[m]);
    }
    exg_text_puts(&out, "), placements=(");
    for (uint32_t m = 0; m < mesh->ndim; m++) {
        exg_text_printf(&out, "%s%s", m > 0 ? ", " : "",
                        exg_placement_print(t->placements[m], one));
    }
    exg_text_puts(&out, "))");
    if (out.failed) {
        exg_text_free(&out);
        *text = NULL;
        return EXG_OUT_OF_MEMORY(err);
    }
    *text = out.data;
    return EXG_OK;
}

/* The part of `values`, which is placed as `t` is or whole. */
static exg_status print(const exg_dtensor *t, const char *name, const exg_dtensor *values,
                        char **text, exg_error *err)
{
    exg_host_copy m;
    exg_status status;

    *text = NULL;
    EXG_TRY(exg_dtensor_wait(values, err));
    EXG_TRY(exg_dtensor_host_copy(values, true, &m, err));
    status = print_values(t, name, &m.here, text, err);
    exg_host_copy_close(&m);
    return status;
}

exg_status exg_dtensor_print(const exg_dtensor *t, char **text, exg_error *err)
{
    EXG_REQUIRE(err, t, text);
    return print(t, "local_tensor", t, text, err);
}

exg_status exg_dtensor_print_whole(const exg_dtensor *t, char **text, exg_error *err)
{
    EXG_REQUIRE(err, t, text);
    exg_dtensor *whole;
    exg_status status;

    *text = NULL;
    EXG_TRY(exg_dtensor_full_tensor(t, &whole, err));
    status = print(t, "full_tensor", whole, text, err);
    exg_dtensor_destroy(whole);
    return status;
}
