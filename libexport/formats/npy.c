/* npy.c - one array of NumPy: magic, version, a Python dict as header, data.
 *
 *   93 'NUMPY' | major minor | u16 or u32 N | {'descr': '<f4', 'fortran_order':
 *   False, 'shape': (3, 4), } | data
 *
 * Arrays in either order are used where they lie.
 */
#include "libexport/base/arena.h"
#include "libexport/base/scan.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/checksum.h"

#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

#define HEADER_BYTES_MAX (1u << 20)
#define RANK_MAX         64

typedef struct header {
    exg_scan scan;
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
    return EXG_FAIL(h->err, MALFORMED, "NPY-HEADER", "the header %s at: %.20s", what, h->scan.at);
}

static exg_status take_string(header *h, char *text, size_t capacity)
{
    const char *quoted;
    size_t length;
    char quote = exg_scan_next(&h->scan);

    if (quote != '\'' && quote != '"') {
        return bad_header(h, "has no string");
    }
    if (!exg_scan_quoted(&h->scan, &quoted, &length) || length >= capacity) {
        return bad_header(h, "has a string that does not end");
    }
    memcpy(text, quoted, length);
    text[length] = '\0';
    return EXG_OK;
}

static exg_status take_shape(header *h)
{
    if (!exg_scan_take(&h->scan, "(")) {
        return bad_header(h, "has no shape");
    }
    while (!exg_scan_take(&h->scan, ")")) {
        int64_t value = 0;
        const char *digits;

        (void)exg_scan_next(&h->scan);
        digits = h->scan.at;
        for (; *h->scan.at >= '0' && *h->scan.at <= '9'; h->scan.at++) {
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, *h->scan.at - '0', &value)) {
                return bad_header(h, "has a size that passes 63 bits");
            }
        }
        if (h->scan.at == digits || h->rank == RANK_MAX) {
            return bad_header(h, "has a bad shape");
        }
        h->shape[h->rank++] = value;
        if (!exg_scan_take(&h->scan, ",")) {
            if (h->rank == 1 || !exg_scan_take(&h->scan, ")")) {
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
    if (!exg_scan_take(&h->scan, ":")) {
        return bad_header(h, "has a key without value");
    }
    if (strcmp(key, "descr") == 0) {
        bit = 1;
        if (exg_scan_next(&h->scan) == '[') {
            return EXG_FAIL(h->err, UNSUPPORTED, "NPY-DTYPE", "structured arrays are not read");
        }
        EXG_TRY(take_string(h, h->descr, sizeof(h->descr)));
    } else if (strcmp(key, "fortran_order") == 0) {
        bit = 2;
        h->fortran_order = exg_scan_take(&h->scan, "True");
        if (!h->fortran_order && !exg_scan_take(&h->scan, "False")) {
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
    if (!exg_scan_take(&h->scan, "{")) {
        return bad_header(h, "is no dict");
    }
    while (!exg_scan_take(&h->scan, "}")) {
        EXG_TRY(take_member(h));
        if (!exg_scan_take(&h->scan, ",")) {
            if (!exg_scan_take(&h->scan, "}")) {
                return bad_header(h, "does not end");
            }
            break;
        }
    }
    if (exg_scan_next(&h->scan) != '\0' || h->seen != 7) {
        return bad_header(h, "is incomplete or goes on");
    }
    return EXG_OK;
}

/* "<f4", ">f4", "=f4", "|u1": the dtype, and whether the most significant byte comes first. */
static exg_status find_dtype(const header *h, exg_dtype *dtype, bool *big)
{
    char descr[sizeof(h->descr)];

    memcpy(descr, h->descr, sizeof(descr));
    *big = descr[0] == '>';
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

static exg_status parse_array(const uint8_t *data, uint64_t length, exg_arena *arena, header *h,
                              uint64_t *start)
{
    uint64_t text;
    char *copy;

    if (length < 12 || !exg_npy_sniff(data, length)) {
        return EXG_FAIL(h->err, MALFORMED, "NPY-HEADER", "this is not an .npy file");
    }
    if (data[6] < 1 || data[6] > 3 || data[7] != 0) {
        return EXG_FAIL(h->err, UNSUPPORTED, "NPY-HEADER",
                        "this is not an .npy file of version 1, 2 or 3");
    }
    *start = data[6] == 1 ? 10 : 12;
    text = (uint64_t)data[8] | (uint64_t)data[9] << 8;
    if (data[6] > 1) {
        text |= (uint64_t)data[10] << 16 | (uint64_t)data[11] << 24;
    }
    if (text > HEADER_BYTES_MAX || text > length - *start ||
        memchr(data + *start, '\0', (size_t)text) != NULL) {
        return EXG_FAIL(h->err, MALFORMED, "NPY-HEADER", "a header of %llu bytes is not there",
                        (unsigned long long)text);
    }
    copy = exg_arena_strndup(arena, (const char *)data + *start, (size_t)text);
    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(h->err);
    }
    *start += text;
    h->scan = (exg_scan){copy, EXG_SCAN_SPACES};
    return parse_header(h);
}

exg_status exg_npy_read_as(const uint8_t *data, uint64_t length, const char *name,
                           const uint32_t *crc, exg_weights *weights, exg_error *err)
{
    header h = {.err = err};
    char text[9];
    exg_dense array = {.name = name, .shape = h.shape};
    uint64_t start = 0;
    bool big = false;

    EXG_TRY(parse_array(data, length, weights->arena, &h, &start));
    EXG_TRY(find_dtype(&h, &array.dtype, &big));
    if (!exg_shape_bytes(h.shape, h.rank, array.dtype, &array.bytes) ||
        array.bytes != length - start) {
        return EXG_FAIL(err, MALFORMED, "NPY-SIZE", "the shape takes %llu bytes, the file has %llu",
                        (unsigned long long)array.bytes, (unsigned long long)(length - start));
    }
    array.rank = h.rank;
    array.column_major = h.fortran_order;
    array.byte_order = big ? EXG_BIG_ENDIAN : EXG_LITTLE_ENDIAN;
    array.data = data + start;
    if (crc != NULL) {
        snprintf(text, sizeof(text), "%08x",
                 (unsigned)exg_crc32_of_rest(*crc, libdeflate_crc32(0, data, (size_t)start),
                                             array.bytes));
        array.checksum = (exg_checksum){EXG_CHECKSUM_CRC32, text};
    }
    return exg_weights_add_dense(weights, &array, err);
}

exg_status exg_npy_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    return exg_npy_read_as(source->data, source->length, "", NULL, weights, err);
}
