/* npy.c - one array of NumPy: magic, version, a Python dict as header, data.
 *
 *   93 'NUMPY' | major minor | u16 or u32 N | {'descr': '<f4', 'fortran_order':
 *   False, 'shape': (3, 4), } | data
 *
 * C-order arrays in host order are used where they lie; the others are copied.
 */
#include "libexport/formats/tensor_file.h"

#include <exg/weights.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES_MAX (1u << 20)
#define RANK_MAX         64

typedef struct header {
    const char *at; /* what is left of the text, which ends in NUL */
    exg_error *err;
    char descr[16];
    bool fortran_order;
    int64_t shape[RANK_MAX];
    uint32_t rank;
    unsigned seen;
} header;

bool exg_npy_sniff(const uint8_t *data, uint64_t length)
{
    return length >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
}

static exg_status bad_header(header *h, const char *what)
{
    return EXG_FAIL(h->err, MALFORMED, "NPY-HEADER", "the header %s at: %.20s", what, h->at);
}

static void skip_spaces(header *h)
{
    h->at += strspn(h->at, " \t\n\r");
}

static bool take(header *h, const char *token)
{
    size_t length = strlen(token);

    skip_spaces(h);
    if (strncmp(h->at, token, length) != 0) {
        return false;
    }
    h->at += length;
    return true;
}

static exg_status take_string(header *h, char *text, size_t capacity)
{
    char quote;
    size_t length;

    skip_spaces(h);
    quote = *h->at;
    if (quote != '\'' && quote != '"') {
        return bad_header(h, "has no string");
    }
    h->at++;
    length = strcspn(h->at, quote == '"' ? "\"\\" : "'\\");
    if (h->at[length] != quote || length >= capacity) {
        return bad_header(h, "has a string that does not end");
    }
    memcpy(text, h->at, length);
    text[length] = '\0';
    h->at += length + 1;
    return EXG_OK;
}

static exg_status take_shape(header *h)
{
    if (!take(h, "(")) {
        return bad_header(h, "has no shape");
    }
    while (!take(h, ")")) {
        int64_t value = 0;
        const char *digits;

        skip_spaces(h);
        digits = h->at;
        for (; *h->at >= '0' && *h->at <= '9'; h->at++) {
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, *h->at - '0', &value)) {
                return bad_header(h, "has a size that passes 63 bits");
            }
        }
        if (h->at == digits || h->rank == RANK_MAX) {
            return bad_header(h, "has a bad shape");
        }
        h->shape[h->rank++] = value;
        if (!take(h, ",")) {
            if (h->rank == 1 || !take(h, ")")) {
                return bad_header(h, "has a bad shape");
            }
            break;
        }
    }
    return EXG_OK;
}

static exg_status take_member(header *h)
{
    char key[32];
    unsigned bit;

    EXG_TRY(take_string(h, key, sizeof(key)));
    if (!take(h, ":")) {
        return bad_header(h, "has a key without value");
    }
    if (strcmp(key, "descr") == 0) {
        bit = 1;
        skip_spaces(h);
        if (*h->at == '[') {
            return EXG_FAIL(h->err, UNSUPPORTED, "NPY-DTYPE", "structured arrays are not read");
        }
        EXG_TRY(take_string(h, h->descr, sizeof(h->descr)));
    } else if (strcmp(key, "fortran_order") == 0) {
        bit = 2;
        h->fortran_order = take(h, "True");
        if (!h->fortran_order && !take(h, "False")) {
            return bad_header(h, "has no fortran_order");
        }
    } else if (strcmp(key, "shape") == 0) {
        bit = 4;
        EXG_TRY(take_shape(h));
    } else {
        return bad_header(h, "has an unknown key");
    }
    if ((h->seen & bit) != 0) {
        return bad_header(h, "has a key twice");
    }
    h->seen |= bit;
    return EXG_OK;
}

static exg_status parse_header(header *h)
{
    if (!take(h, "{")) {
        return bad_header(h, "is no dict");
    }
    while (!take(h, "}")) {
        EXG_TRY(take_member(h));
        if (!take(h, ",")) {
            if (!take(h, "}")) {
                return bad_header(h, "does not end");
            }
            break;
        }
    }
    skip_spaces(h);
    if (*h->at != '\0' || h->seen != 7) {
        return bad_header(h, "is incomplete or goes on");
    }
    return EXG_OK;
}

/* "<f4", ">f4", "=f4", "|u1": the dtype, and whether its bytes are turned around. */
static exg_status find_dtype(const header *h, exg_dtype *dtype, bool *swapped)
{
    char descr[sizeof(h->descr)];

    memcpy(descr, h->descr, sizeof(descr));
    *swapped = descr[0] == '>';
    if (descr[0] != '\0') {
        descr[0] = '<';
        *dtype = exg_dtype_from_numpy(descr);
        if (*dtype == EXG_DTYPE_COUNT) {
            descr[0] = '|';
            *dtype = exg_dtype_from_numpy(descr);
        }
    }
    if (descr[0] == '\0' || *dtype == EXG_DTYPE_COUNT || strchr("<>|=", h->descr[0]) == NULL) {
        return EXG_FAIL(h->err, UNSUPPORTED, "NPY-DTYPE", "arrays of '%s' are not read", h->descr);
    }
    return EXG_OK;
}

/* Column-major into row-major. */
static void transpose(const header *h, const uint8_t *from, uint8_t *to, uint64_t bytes,
                      uint32_t width)
{
    uint64_t index[RANK_MAX] = {0};
    uint64_t step[RANK_MAX];
    uint64_t product = width;

    for (uint32_t d = 0; d < h->rank; d++) {
        step[d] = product;
        product *= (uint64_t)h->shape[d];
    }
    for (uint64_t done = 0; done < bytes; done += width) {
        uint64_t at = 0;

        for (uint32_t d = 0; d < h->rank; d++) {
            at += index[d] * step[d];
        }
        memcpy(to + done, from + at, width);
        for (uint32_t d = h->rank; d-- > 0;) {
            if (++index[d] < (uint64_t)h->shape[d]) {
                break;
            }
            index[d] = 0;
        }
    }
}

static exg_status keep_array(const header *h, const uint8_t *data, exg_dtype dtype, bool swapped,
                             uint64_t bytes, exg_tensor_file *file)
{
    exg_arena *arena = file->private_->arena;
    exg_named_tensor *tensor = EXG_NEW(arena, exg_named_tensor);
    uint8_t *copy;

    if (tensor == NULL) {
        return EXG_OUT_OF_MEMORY(h->err);
    }
    tensor->name = "";
    tensor->dtype = dtype;
    tensor->rank = h->rank;
    tensor->shape = exg_arena_memdup(arena, h->shape, h->rank, sizeof(int64_t));
    tensor->data = exg_tensor_aligned(arena, data, bytes, dtype);
    tensor->bytes = bytes;
    if (tensor->shape == NULL || tensor->data == NULL) {
        return EXG_OUT_OF_MEMORY(h->err);
    }
    if (bytes > 0 && (swapped || (h->fortran_order && h->rank > 1))) {
        copy = exg_arena_alloc(arena, 1, (size_t)bytes);
        if (copy == NULL) {
            return EXG_OUT_OF_MEMORY(h->err);
        }
        if (h->fortran_order) {
            transpose(h, data, copy, bytes, exg_dtype_bytes(dtype));
        } else {
            memcpy(copy, data, (size_t)bytes);
        }
        if (swapped) {
            exg_bytes_swap(copy, bytes, dtype);
        }
        tensor->data = copy;
    }
    file->items = tensor;
    file->count = 1;
    return EXG_OK;
}

exg_status exg_npy_read(const uint8_t *data, uint64_t length, exg_tensor_file *file, exg_error *err)
{
    header h = {.err = err};
    uint64_t start;
    uint64_t text;
    uint64_t bytes = 0;
    exg_dtype dtype = EXG_DTYPE_COUNT;
    bool swapped = false;
    char *copy;

    if (length < 12 || data[6] < 1 || data[6] > 3 || data[7] != 0) {
        return exg_error_set(err, __FILE__, __LINE__, length < 12 ? EXG_MALFORMED : EXG_UNSUPPORTED,
                             "NPY-HEADER", "this is no .npy of version 1, 2 or 3");
    }
    start = data[6] == 1 ? 10 : 12;
    text = (uint64_t)data[8] | (uint64_t)data[9] << 8;
    if (data[6] > 1) {
        text |= (uint64_t)data[10] << 16 | (uint64_t)data[11] << 24;
    }
    if (text > HEADER_BYTES_MAX || text > length - start ||
        memchr(data + start, '\0', (size_t)text) != NULL) {
        return EXG_FAIL(err, MALFORMED, "NPY-HEADER", "a header of %llu bytes is not there",
                        (unsigned long long)text);
    }
    copy = exg_arena_strndup(file->private_->arena, (const char *)data + start, (size_t)text);
    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    h.at = copy;
    EXG_TRY(parse_header(&h));
    EXG_TRY(find_dtype(&h, &dtype, &swapped));
    if (!exg_shape_bytes(h.shape, h.rank, dtype, &bytes) || bytes != length - start - text) {
        return EXG_FAIL(err, MALFORMED, "NPY-SIZE", "the shape takes %llu bytes, the file has %llu",
                        (unsigned long long)bytes, (unsigned long long)(length - start - text));
    }
    return keep_array(&h, data + start + text, dtype, swapped, bytes, file);
}
