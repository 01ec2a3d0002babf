/* npy_save.c - tensors as arrays of NumPy: one as .npy, several in an .npz, stored.
 *
 * NumPy has no bfloat16, no float8 and no complex numbers of halves. Those are written as
 * complex64, which has every value of them; the others are refused.
 */
#include "libexport/base/arena.h"
#include "libexport/base/element.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/pt2/zip_writer.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/storage.h"

#include <exg/text.h>
#include <inttypes.h>
#include <string.h>

#define ALIGNMENT 64  /* of what follows the header, as numpy.save has it */
#define WIDENED   512 /* halves at a time */

/* What goes into one array. */
typedef struct array {
    const exg_named_tensor *tensor;
    const char *descr;
    uint64_t bytes;
    exg_text header;
    exg_error *err;
} array;

static exg_status find_descr(array *a)
{
    exg_dtype dtype = a->tensor->dtype;

    a->descr = exg_dtype_numpy(dtype == EXG_DTYPE_C32 ? EXG_DTYPE_C64 : dtype);
    return a->descr[0] != '\0' ? EXG_OK
                               : exg_error_fix(a->err,
                                               EXG_FAIL(a->err, UNSUPPORTED, "NPY-DTYPE",
                                                        "NumPy has no %s", exg_dtype_name(dtype)),
                                               "name the file .safetensors");
}

/* Magic, version 1, and the dict, padded so that the data lie at a multiple of 64. */
static exg_status describe(array *a)
{
    const exg_named_tensor *t = a->tensor;
    char order = exg_host_byte_order() == EXG_LITTLE_ENDIAN ? '<' : '>';
    exg_dtype written = t->dtype == EXG_DTYPE_C32 ? EXG_DTYPE_C64 : t->dtype;
    uint64_t bytes = 0;
    size_t length;

    EXG_TRY(find_descr(a));
    if (!exg_shape_bytes(t->shape, t->rank, t->dtype, &bytes) || bytes != t->bytes ||
        !exg_shape_bytes(t->shape, t->rank, written, &a->bytes)) {
        return EXG_FAIL(a->err, USAGE, "NPY-SIZE",
                        "the shape takes %" PRIu64 " bytes, %" PRIu64 " are given", bytes,
                        t->bytes);
    }
    exg_text_add(&a->header, "\x93NUMPY\1\0", 8);
    exg_text_add(&a->header, "\0\0", 2);
    exg_text_printf(&a->header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                    a->descr[0] == '|' ? '|' : order, a->descr + 1);
    for (uint32_t d = 0; d < t->rank; d++) {
        exg_text_printf(&a->header, "%" PRId64 "%s", t->shape[d],
                        t->rank == 1 || d + 1 < t->rank ? ", " : "");
    }
    exg_text_puts(&a->header, "), }");
    while ((a->header.length + 1) % ALIGNMENT != 0 && !a->header.failed) {
        exg_text_putc(&a->header, ' ');
    }
    exg_text_putc(&a->header, '\n');
    if (exg_text_string(&a->header) == NULL) {
        return EXG_OUT_OF_MEMORY(a->err);
    }
    length = a->header.length - 10; /* of at most 64 sizes: it fits */
    a->header.data[8] = (char)(length & 0xff);
    a->header.data[9] = (char)(length >> 8);
    return EXG_OK;
}

typedef exg_status write_fn(void *to, const void *data, uint64_t length, exg_error *err);

static exg_status write_halves(const array *a, write_fn *write, void *to)
{
    uint64_t count = a->tensor->bytes / sizeof(uint16_t);
    const uint8_t *from = a->tensor->data;
    float wide[WIDENED];

    for (uint64_t at = 0; at < count; at += WIDENED) {
        uint64_t part = count - at < WIDENED ? count - at : WIDENED;

        for (uint64_t i = 0; i < part; i++) {
            uint16_t half;

            memcpy(&half, from + (at + i) * sizeof(half), sizeof(half));
            wide[i] = exg_f16_to_f32(half);
        }
        EXG_TRY(write(to, wide, part * sizeof(wide[0]), a->err));
    }
    return EXG_OK;
}

static exg_status write_array(const array *a, write_fn *write, void *to)
{
    EXG_TRY(write(to, a->header.data, a->header.length, a->err));
    return a->tensor->dtype == EXG_DTYPE_C32 ? write_halves(a, write, to)
                                             : write(to, a->tensor->data, a->tensor->bytes, a->err);
}

static exg_status to_file(void *to, const void *data, uint64_t length, exg_error *err)
{
    return exg_writer_write(to, data, length, err);
}

static exg_status to_member(void *to, const void *data, uint64_t length, exg_error *err)
{
    return exg_zip_write(to, data, length, err);
}

/* Whole or not at all. */
static exg_status settle(exg_writer *writer, exg_status status, exg_error *err)
{
    if (status == EXG_OK) {
        return exg_writer_commit(writer, err);
    }
    exg_writer_abort(writer);
    return status;
}

static exg_status no_metadata(const exg_string_map *metadata, exg_error *err)
{
    return metadata == NULL || metadata->count == 0
               ? EXG_OK
               : EXG_FAIL(err, UNSUPPORTED, "NPY-HEADER", "arrays of NumPy have no metadata");
}

exg_status exg_npy_save(const char *path, const exg_named_tensor *items, uint32_t count,
                        const exg_string_map *metadata, exg_error *err)
{
    array a = {.tensor = items, .header = EXG_TEXT_EMPTY, .err = err};
    exg_writer *writer = NULL;
    exg_status status;

    EXG_TRY(no_metadata(metadata, err));
    if (count != 1) {
        return exg_error_fix(
            err,
            EXG_FAIL(err, USAGE, "NPY-COUNT", "an .npy holds one array, and here are %u", count),
            "name the file .npz");
    }
    status = describe(&a);
    status = status == EXG_OK ? exg_writer_open(path, &writer, err) : status;
    if (status == EXG_OK) {
        status = settle(writer, write_array(&a, to_file, writer), err);
    }
    exg_text_free(&a.header);
    return status;
}

static exg_status put_member(exg_zip_writer *zip, const exg_named_tensor *tensor, exg_error *err)
{
    array a = {.tensor = tensor, .header = EXG_TEXT_EMPTY, .err = err};
    const char *name = NULL;
    exg_status status;

    if (tensor->name == NULL) {
        return EXG_FAIL(err, USAGE, "STF-NAME", "a tensor has no name");
    }
    name = exg_arena_printf(zip->arena, "%s.npy", tensor->name);
    status = name == NULL ? EXG_OUT_OF_MEMORY(err) : describe(&a);
    status = status == EXG_OK ? exg_zip_begin(zip, name, a.header.length + a.bytes, err) : status;
    status = status == EXG_OK ? write_array(&a, to_member, zip) : status;
    status = status == EXG_OK ? exg_zip_end(zip, name, err) : status;
    exg_text_free(&a.header);
    return status == EXG_OK ? status : exg_error_within(err, status, "['%s']", tensor->name);
}

exg_status exg_npz_save(const char *path, const exg_named_tensor *items, uint32_t count,
                        const exg_string_map *metadata, exg_error *err)
{
    exg_zip_writer zip = {.root = "", .arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)};
    exg_status status = zip.arena == NULL ? EXG_OUT_OF_MEMORY(err) : no_metadata(metadata, err);

    status = status == EXG_OK ? exg_writer_open(path, &zip.file, err) : status;
    if (status == EXG_OK) {
        for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
            status = put_member(&zip, &items[i], err);
        }
        status = status == EXG_OK ? exg_zip_finish(&zip, err) : status;
        status = settle(zip.file, status, err);
    }
    exg_zip_writer_free(&zip);
    exg_arena_destroy(zip.arena);
    return status;
}
