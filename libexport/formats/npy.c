/* npy.c - one array of NumPy: magic, version, a Python dict as header, data.
 *
 *   93 'NUMPY' | major minor | u16 or u32 N | {'descr': '<f4', 'fortran_order':
 *   False, 'shape': (3, 4), } | data
 *
 * Arrays in either order are used where they lie. Those of text, dates, records, objects and the
 * like are listed, with their descr. Of the types of ml_dtypes NumPy writes the size alone, but
 * with a byte order, which its own void has not: "<V2" is bfloat16, the only one of two bytes,
 * "<f1" float8_e5m2, and "<V1" one of fourteen.
 */
#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/scan.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/checksum.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

#define HEADER_BYTES_MAX (1u << 20)
#define RANK_MAX         64

typedef struct header {
    exg_scan scan;
    exg_error *err;
    char descr[64]; /* cut, when it is longer: then it is none that is read */
    bool is_record;
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

/* 'text', "text", and u'text' of Python 2. What does not fit is cut. */
static exg_status take_string(header *h, char *text, size_t capacity)
{
    const char *quoted;
    size_t length;

    if (exg_scan_next(&h->scan) == 'u') {
        h->scan.at++;
    }
    if (*h->scan.at != '\'' && *h->scan.at != '"') {
        return bad_header(h, "has no string");
    }
    if (!exg_scan_quoted(&h->scan, &quoted, &length)) {
        return bad_header(h, "has a string that does not end");
    }
    length = length < capacity ? length : capacity - 1;
    memcpy(text, quoted, length);
    text[length] = '\0';
    return EXG_OK;
}

/* The list of fields of a record, or of one in an array: "[('a', '<f4'), ('b', 'O')]". */
static exg_status take_record(header *h)
{
    const char *begin = h->scan.at;
    uint32_t open = 0;
    size_t length;

    do {
        char c = exg_scan_next(&h->scan);

        if (c == '\0') {
            return bad_header(h, "has a list that does not end");
        }
        if (c == '\'' || c == '"') {
            const char *quoted;

            if (!exg_scan_quoted(&h->scan, &quoted, &length)) {
                return bad_header(h, "has a string that does not end");
            }
            continue;
        }
        open += c == '[' || c == '(';
        open -= c == ']' || c == ')';
        h->scan.at++;
    } while (open > 0);
    h->is_record = true;
    length = (size_t)(h->scan.at - begin);
    snprintf(h->descr, sizeof(h->descr), "%.*s%s", length < 60 ? (int)length : 57, begin,
             length < 60 ? "" : "...");
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
        h->scan.at += *h->scan.at == 'L'; /* a long of Python 2 */
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
        EXG_TRY(exg_scan_next(&h->scan) == '[' || *h->scan.at == '('
                    ? take_record(h)
                    : take_string(h, h->descr, sizeof(h->descr)));
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

/* Of an array that is no tensor what it is, by the first letter of its code; NULL: unknown. */
static const char *kind_of(const char *code, char order)
{
    switch (code[0]) {
    case 'U':
    case 'S':
    case 'a':
        return "text";
    case 'M':
        return "dates";
    case 'm':
        return "times";
    case 'O':
        return "objects in a pickle";
    case 'V':
        return order == '<' && strcmp(code, "V1") == 0
                   ? "an 8-bit type of ml_dtypes, which NumPy does not name"
                   : "void";
    case 'f':
    case 'c':
        return strcmp(code, "f16") == 0 || strcmp(code, "c32") == 0 ? "long doubles" : NULL;
    default:
        return NULL;
    }
}

/* "float32" and "f" as "f4". */
static const char *code_of(const char *name)
{
    static const struct {
        const char *name, *code;
    } rows[] = {
#define EXG_NPY_NAME(name, code) {name, code},
#include "libexport/formats/npy_name.def"
#undef EXG_NPY_NAME
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].code;
        }
    }
    return name;
}

/* The dtype of a code, which stands for itself in little endian order. COUNT: none. */
static exg_dtype dtype_of(const char *code, char order)
{
    char descr[8];
    exg_dtype dtype;

    if (order == '<' && strcmp(code, "V2") == 0) {
        return EXG_DTYPE_BF16;
    }
    if (order != '>' && strcmp(code, "f1") == 0) {
        return EXG_DTYPE_F8E5M2;
    }
    snprintf(descr, sizeof(descr), "<%s", code);
    dtype = exg_dtype_from_numpy(descr);
    descr[0] = '|';
    return dtype == EXG_DTYPE_COUNT ? exg_dtype_from_numpy(descr) : dtype;
}

/* "<f4", ">f4", "f4", "|u1", "float32", and of ml_dtypes "bfloat16": the dtype, and whether the
 * most significant byte comes first. COUNT: *kind says what it is. */
static exg_status find_dtype(const header *h, exg_dtype *dtype, bool *big, const char **kind)
{
    char order = h->descr[0] != '\0' && strchr("<>|=", h->descr[0]) != NULL ? h->descr[0] : '\0';
    const char *code = order == '\0' ? code_of(h->descr) : h->descr + 1;

    *big = order == '>';
    *kind = h->is_record ? "records" : strchr(code, ',') != NULL ? "records" : NULL;
    *dtype = EXG_DTYPE_COUNT;
    if (*kind == NULL) {
        *dtype = strlen(code) > 4 ? exg_dtype_from_name(code) : dtype_of(code, order);
    }
    if (*kind == NULL && *dtype == EXG_DTYPE_COUNT) {
        *kind = kind_of(code, order);
    }
    return *kind == NULL && *dtype == EXG_DTYPE_COUNT
               ? EXG_FAIL(h->err, UNSUPPORTED, "NPY-DTYPE", "'%s' is no dtype of NumPy", h->descr)
               : EXG_OK;
}

static exg_status skip(const header *h, const char *name, const char *kind, exg_weights *weights)
{
    const char *text = exg_arena_printf(weights->arena, "%s (%s)", kind, h->descr);

    return text == NULL ? EXG_OUT_OF_MEMORY(h->err) : exg_weights_skip(weights, name, text, h->err);
}

/* numpy.load() reads no more than the array, whatever follows it. */
static exg_status skip_behind(const char *name, uint64_t bytes, exg_weights *weights,
                              exg_error *err)
{
    char kind[80];

    snprintf(kind, sizeof(kind), "%" PRIu64 " bytes behind the array, which NumPy does not read",
             bytes);
    return exg_weights_skip(weights, name[0] == '\0' ? "(file)" : name, kind, err);
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
    const char *kind = NULL;
    bool big = false;

    EXG_TRY(parse_array(data, length, weights->arena, &h, &start));
    EXG_TRY(find_dtype(&h, &array.dtype, &big, &kind));
    if (kind != NULL) {
        return skip(&h, name, kind, weights);
    }
    if (!exg_shape_bytes(h.shape, h.rank, array.dtype, &array.bytes) ||
        array.bytes > length - start) {
        return EXG_FAIL(err, MALFORMED, "NPY-SIZE", "the shape takes %llu bytes, the file has %llu",
                        (unsigned long long)array.bytes, (unsigned long long)(length - start));
    }
    if (array.bytes < length - start) {
        EXG_TRY(skip_behind(name, length - start - array.bytes, weights, err));
        crc = NULL; /* of other bytes too */
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
    char name[EXG_STEM_MAX + 1] = "";

    if (source->path != NULL) {
        exg_path_stem(source->path, name);
    }
    return exg_npy_read_as(source->data, source->length, name, NULL, weights, err);
}
