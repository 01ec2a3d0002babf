/* npy_save.c - tensors as arrays of NumPy: one as .npy, several in an .npz, stored.
 *
 * NumPy has no bfloat16, no float8 and no complex numbers of halves. Those are written as
 * complex64, which has every value of them; the others are refused.
 */
#include "libexport/base/arena.h"
#include "libexport/base/element.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/encoding.h"
#include "libexport/formats/pt2/zip_writer.h"
#include "libexport/formats/weights_save.h"
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
                                               "cast with --dtype, or name the file .safetensors");
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

/* Where an array goes. */
typedef struct target {
    exg_weights_saver *s;
    const exg_saved_file *file;
    exg_zip_writer *zip; /* NULL: the file itself */
} target;

static exg_status put(const target *t, const void *data, uint64_t length, exg_error *err)
{
    return t->zip == NULL ? exg_writer_write(t->file->writer, data, length, err)
                          : exg_zip_write(t->zip, data, length, err);
}

static exg_status take(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    return put(user, bytes, length, err);
}

static exg_status take_halves(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    uint64_t count = length / sizeof(uint16_t);
    float wide[WIDENED];

    for (uint64_t at = 0; at < count; at += WIDENED) {
        uint64_t part = count - at < WIDENED ? count - at : WIDENED;

        for (uint64_t i = 0; i < part; i++) {
            uint16_t half;

            memcpy(&half, bytes + (at + i) * sizeof(half), sizeof(half));
            wide[i] = exg_f16_to_f32(half);
        }
        EXG_TRY(put(user, wide, part * sizeof(wide[0]), err));
    }
    return EXG_OK;
}

static exg_status write_array(const array *a, const exg_saved_tensor *tensor, target *t)
{
    EXG_TRY(put(t, a->header.data, a->header.length, a->err));
    return exg_saver_put_tensor(t->s, t->file, tensor,
                                a->tensor->dtype == EXG_DTYPE_C32 ? take_halves : take, t);
}

static exg_status prepare(exg_weights_saver *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_saved_tensor *tensor = &s->tensors[i];
        array a = {.tensor = &tensor->item, .err = s->err};

        if (tensor->weight != NULL && tensor->item.dtype == EXG_DTYPE_C32) {
            return exg_error_fix(s->err,
                                 EXG_FAIL(s->err, UNSUPPORTED, "NPY-DTYPE",
                                          "['%s']: NumPy has no complex32", tensor->item.name),
                                 "leave it out with --exclude");
        }
        if (tensor->weight != NULL &&
            exg_encoded_elements(tensor->weight->encoding, tensor->item.bytes) !=
                tensor->item.bytes) {
            return exg_error_fix(s->err,
                                 EXG_FAIL(s->err, UNSUPPORTED, "NPY-DTYPE",
                                          "['%s']: NumPy has no %s", tensor->item.name,
                                          tensor->weight->encoding),
                                 "cast it with --dtype, or name the file .safetensors or .gguf");
        }
        EXG_TRY_IN(s->err, find_descr(&a), "['%s']", tensor->item.name);
    }
    return EXG_OK;
}

static exg_status prepare_one(exg_weights_saver *s)
{
    if (s->count != 1) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, USAGE, "NPY-COUNT",
                                      "an .npy holds one array, and here are %u", s->count),
                             "name the file .npz");
    }
    return prepare(s);
}

static exg_status write_npy(exg_weights_saver *s, const exg_saved_file *file)
{
    array a = {.tensor = &s->tensors[0].item, .header = EXG_TEXT_EMPTY, .err = s->err};
    target t = {s, file, NULL};
    exg_status status = describe(&a);

    if (status == EXG_OK) {
        status = write_array(&a, &s->tensors[0], &t);
    }
    exg_text_free(&a.header);
    return status;
}

static exg_status put_member(target *t, const exg_saved_tensor *tensor)
{
    exg_error *err = t->s->err;
    array a = {.tensor = &tensor->item, .header = EXG_TEXT_EMPTY, .err = err};
    const char *name = exg_arena_printf(t->zip->arena, "%s.npy", tensor->item.name);
    exg_status status = name == NULL ? EXG_OUT_OF_MEMORY(err) : describe(&a);

    if (status == EXG_OK) {
        status = exg_zip_begin(t->zip, name, a.header.length + a.bytes, err);
    }
    if (status == EXG_OK) {
        status = write_array(&a, tensor, t);
    }
    if (status == EXG_OK) {
        status = exg_zip_end(t->zip, name, err);
    }
    exg_text_free(&a.header);
    return status;
}

/* Names are keys of a dict: any text may be one. */
static exg_status write_npz(exg_weights_saver *s, const exg_saved_file *file)
{
    exg_zip_writer zip = {
        .file = file->writer, .root = "", .arena = s->arena, .takes_any_name = true};
    target t = {s, file, &zip};
    exg_status status = EXG_OK;

    for (uint32_t i = file->first; i < file->end && status == EXG_OK; i++) {
        status = put_member(&t, &s->tensors[i]);
        status = status == EXG_OK
                     ? status
                     : exg_error_within(s->err, status, "['%s']", s->tensors[i].item.name);
    }
    if (status == EXG_OK) {
        status = exg_zip_finish(&zip, s->err);
    }
    exg_zip_writer_free(&zip);
    return status;
}

const exg_weights_sink exg_npy_sink = {
    .format = EXG_WEIGHTS_FORMAT_NPY,
    .extension = ".npy",
    .prepare = prepare_one,
    .write = write_npy,
};

const exg_weights_sink exg_npz_sink = {
    .format = EXG_WEIGHTS_FORMAT_NPZ,
    .extension = ".npz",
    .prepare = prepare,
    .write = write_npz,
};
