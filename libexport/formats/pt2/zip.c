/* zip.c - end records, central directory, local headers. */
#include "libexport/formats/pt2/zip.h"
#include "libexport/base/files.h"

#include "libexport/base/checked.h"

#include <exg/text.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_BYTES     30u
#define CUT_SEARCH_MAX  (64u << 20) /* of a cut file, for the last member's header */
#define CENTRAL_BYTES   46u
#define END_BYTES       22u
#define END64_BYTES     56u
#define LOCATOR_BYTES   20u
#define COMMENT_MAX     65535u
#define NAME_MAX_BYTES  512u
#define FLAG_ENCRYPTED  0x0001u
#define FLAG_DESCRIPTOR 0x0008u
#define FLAG_PATCHED    0x0020u
#define FLAG_STRONG     0x0040u
#define FLAG_MASKED     0x2000u
#define METHOD_STORED   0
#define METHOD_DEFLATED 8

static uint16_t u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const uint8_t *p)
{
    return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32;
}

#define SIGNATURE(a, b) (0x4b50u | (uint32_t)(a) << 16 | (uint32_t)(b) << 24)

#define ZIP_FAIL(zip, offset, err, code, ...)                                                      \
    exg_error_at((err), EXG_FAIL((err), MALFORMED, (code), __VA_ARGS__), (zip)->base + (offset))

/* ---- end records ----------------------------------------------------------------- */

typedef struct directory {
    uint64_t offset;
    uint64_t bytes;
    uint64_t count;
    uint64_t end; /* where the end records begin */
} directory;

/* The offset of the end record whose comment reaches the end of the file. */
static bool find_end(const uint8_t *data, uint64_t length, uint64_t *offset)
{
    uint64_t lowest;

    if (length < END_BYTES) {
        return false;
    }
    lowest = length - END_BYTES > COMMENT_MAX ? length - END_BYTES - COMMENT_MAX : 0;
    for (uint64_t at = length - END_BYTES + 1; at-- > lowest;) {
        if (u32(data + at) == SIGNATURE(5, 6) && u16(data + at + 20) == length - END_BYTES - at) {
            *offset = at;
            return true;
        }
    }
    return false;
}

bool exg_zip_sniff(const uint8_t *data, uint64_t length)
{
    uint64_t end;

    return length >= 4 && (u32(data) == SIGNATURE(3, 4) || u32(data) == SIGNATURE(5, 6) ||
                           find_end(data, length, &end));
}

/* The zip64 record takes the place of fields that are full; the others must agree. */
static exg_status read_end64(const exg_zip *zip, uint64_t end, directory *dir, exg_error *err)
{
    const uint8_t *locator = zip->data + end - LOCATOR_BYTES;
    uint64_t at = u64(locator + 8);
    const uint8_t *record;
    directory wide;

    if (u32(locator + 4) != 0 || u32(locator + 16) > 1) {
        return EXG_FAIL(err, UNSUPPORTED, "ZIP-DISKS", "the archive spans several disks");
    }
    record = exg_range_inside(at, END64_BYTES, end - LOCATOR_BYTES) ? zip->data + at : NULL;
    if (record == NULL || u32(record) != SIGNATURE(6, 6) ||
        u64(record + 4) != end - LOCATOR_BYTES - at - 12) {
        return ZIP_FAIL(zip, end - LOCATOR_BYTES, err, "ZIP-END",
                        "the zip64 locator points at offset %llu, where no zip64 end record is",
                        (unsigned long long)at);
    }
    if (u32(record + 16) != 0 || u32(record + 20) != 0) {
        return EXG_FAIL(err, UNSUPPORTED, "ZIP-DISKS", "the archive spans several disks");
    }
    if (u64(record + 24) != u64(record + 32)) {
        return ZIP_FAIL(zip, at, err, "ZIP-END",
                        "the zip64 end record counts %llu entries on this disk and %llu in all",
                        (unsigned long long)u64(record + 24), (unsigned long long)u64(record + 32));
    }
    wide = (directory){u64(record + 48), u64(record + 40), u64(record + 32), at};
    if ((dir->count != UINT16_MAX && dir->count != wide.count) ||
        (dir->bytes != UINT32_MAX && dir->bytes != wide.bytes) ||
        (dir->offset != UINT32_MAX && dir->offset != wide.offset)) {
        return ZIP_FAIL(zip, at, err, "ZIP-END", "the two end records do not agree");
    }
    *dir = wide;
    return EXG_OK;
}

/* The last local header in the last bytes of a file: the names of all members begin as
 * that of the first one does, with the root folder, so that tensor bytes and archives
 * inside are not taken for one. UINT64_MAX: none. */
static uint64_t last_member(const exg_zip *zip, const char **name, uint32_t *length)
{
    const char *first = (const char *)zip->data + LOCAL_BYTES;
    uint64_t least = zip->length > CUT_SEARCH_MAX ? zip->length - CUT_SEARCH_MAX : 0;
    const char *slash;
    uint64_t root;

    if (zip->length < LOCAL_BYTES || u32(zip->data) != SIGNATURE(3, 4) ||
        !exg_range_inside(LOCAL_BYTES, u16(zip->data + 26), zip->length)) {
        return UINT64_MAX;
    }
    slash = memchr(first, '/', u16(zip->data + 26));
    root = slash == NULL ? 0 : (uint64_t)(slash - first) + 1;
    for (uint64_t at = zip->length - LOCAL_BYTES + 1; at-- > least;) {
        const uint8_t *p = zip->data + at;

        if (p[0] == 'P' && u32(p) == SIGNATURE(3, 4) && u16(p + 26) >= root &&
            exg_range_inside(at + LOCAL_BYTES, u16(p + 26), zip->length) &&
            memcmp(p + LOCAL_BYTES, first, root) == 0) {
            *name = (const char *)p + LOCAL_BYTES;
            *length = u16(p + 26);
            return at;
        }
    }
    return UINT64_MAX;
}

/* The end of an archive that is whole (offsets count from its first byte, so that archives
 * inside are not taken for it) and followed by something. UINT64_MAX: there is none. */
static uint64_t whole_before(const exg_zip *zip, uint64_t *rest)
{
    uint64_t least = zip->length > CUT_SEARCH_MAX ? zip->length - CUT_SEARCH_MAX : 0;

    for (uint64_t at = zip->length < END_BYTES ? 0 : zip->length - END_BYTES + 1; at-- > least;) {
        const uint8_t *p = zip->data + at;
        uint64_t end = at + END_BYTES;

        if (p[0] != 'P' || u32(p) != SIGNATURE(5, 6) || u16(p + 20) >= zip->length - end) {
            continue;
        }
        if ((uint64_t)u32(p + 16) + u32(p + 12) == at ||
            (at >= LOCATOR_BYTES && u32(p - LOCATOR_BYTES) == SIGNATURE(6, 7) &&
             u64(p - LOCATOR_BYTES + 8) == at - LOCATOR_BYTES - END64_BYTES)) {
            *rest = zip->length - end - u16(p + 20);
            return end + u16(p + 20);
        }
    }
    return UINT64_MAX;
}

/* No end record: the directory is gone with the end of the file. What a local header
 * still tells is how far the members are there. */
static exg_status tell_cut(const exg_zip *zip, exg_error *err)
{
    const char *name = "";
    uint32_t length = 0;
    uint64_t at = last_member(zip, &name, &length);
    uint64_t header = at == UINT64_MAX ? 0 : LOCAL_BYTES + length + u16(zip->data + at + 28);
    uint64_t left = zip->length - (at == UINT64_MAX ? 0 : at);
    exg_status status;

    if (at == UINT64_MAX) {
        status = ZIP_FAIL(zip, zip->length, err, "ZIP-END",
                          "no end record: the archive is cut short or is no zip");
    } else {
        status = ZIP_FAIL(zip, zip->length, err, "ZIP-END",
                          "the archive is cut short: its directory, at the end, is gone; the last "
                          "member that begins is %.*s, %llu bytes before the end",
                          (int)(length < 200 ? length : 200), name,
                          (unsigned long long)(left < header ? 0 : left - header));
    }
    return exg_error_fix(err, status, "copy the file again and compare its size");
}

static exg_status tell_no_end(const exg_zip *zip, exg_error *err)
{
    uint64_t rest = 0;
    uint64_t end = whole_before(zip, &rest);

    if (end == UINT64_MAX) {
        return tell_cut(zip, err);
    }
    return exg_error_fix(err,
                         ZIP_FAIL(zip, end, err, "ZIP-END",
                                  "the archive ends here, %llu bytes follow that are not its own",
                                  (unsigned long long)rest),
                         "cut the file to %llu bytes", (unsigned long long)(zip->base + end));
}

static exg_status read_end(const exg_zip *zip, directory *dir, exg_error *err)
{
    uint64_t end;
    const uint8_t *record;

    if (!find_end(zip->data, zip->length, &end)) {
        return tell_no_end(zip, err);
    }
    record = zip->data + end;
    if (u16(record + 4) != 0 || u16(record + 6) != 0) {
        return EXG_FAIL(err, UNSUPPORTED, "ZIP-DISKS", "the archive spans several disks");
    }
    if (u16(record + 8) != u16(record + 10)) {
        return ZIP_FAIL(zip, end, err, "ZIP-END",
                        "the end record counts %u entries on this disk and %u in all",
                        u16(record + 8), u16(record + 10));
    }
    *dir = (directory){u32(record + 16), u32(record + 12), u16(record + 10), end};
    if (end >= LOCATOR_BYTES && u32(record - LOCATOR_BYTES) == SIGNATURE(6, 7)) {
        EXG_TRY(read_end64(zip, end, dir, err));
    }
    if (!exg_range_inside(dir->offset, dir->bytes, dir->end) ||
        dir->offset + dir->bytes != dir->end) {
        return ZIP_FAIL(zip, end, err, "ZIP-END",
                        "the central directory (offset %llu, %llu bytes) does not end where the "
                        "end records begin (%llu)",
                        (unsigned long long)dir->offset, (unsigned long long)dir->bytes,
                        (unsigned long long)dir->end);
    }
    if (dir->count > dir->bytes / CENTRAL_BYTES) {
        return ZIP_FAIL(zip, end, err, "ZIP-END", "%llu entries do not fit %llu bytes",
                        (unsigned long long)dir->count, (unsigned long long)dir->bytes);
    }
    return EXG_OK;
}

/* ---- names ------------------------------------------------------------------------ */

/* What is wrong with a member's name, or NULL. */
static const char *name_fault(const char *name, size_t length)
{
    if (length == 0 || length >= NAME_MAX_BYTES) {
        return length == 0 ? "is empty" : "is too long";
    }
    if (memchr(name, '\0', length) != NULL || memchr(name, '\\', length) != NULL) {
        return "holds a NUL or a backslash";
    }
    if (!exg_text_is_utf8(name, length)) {
        return "is not UTF-8";
    }
    for (size_t i = 0; i <= length;) {
        const char *slash = i < length ? memchr(name + i, '/', length - i) : NULL;
        size_t part = slash == NULL ? length - i : (size_t)(slash - (name + i));
        bool folder_end = i == length && i > 0; /* after the slash of a folder's name */

        if ((part == 0 && !folder_end) || (part == 1 && name[i] == '.') ||
            (part == 2 && name[i] == '.' && name[i + 1] == '.')) {
            return "has an empty, . or .. component";
        }
        i += part + 1;
    }
    return NULL;
}

/* ---- central directory -------------------------------------------------------------- */

/* Reads the zip64 field, whose numbers stand in for those that are full, in order. */
static bool read_extra64(const uint8_t *extra, size_t length, exg_zip_entry *entry)
{
    uint64_t *wanted[3];
    size_t want = 0;

    if (entry->bytes == UINT32_MAX) {
        wanted[want++] = &entry->bytes;
    }
    if (entry->stored_bytes == UINT32_MAX) {
        wanted[want++] = &entry->stored_bytes;
    }
    if (entry->header_offset == UINT32_MAX) {
        wanted[want++] = &entry->header_offset;
    }
    for (size_t at = 0; at + 4 <= length;) {
        size_t field = u16(extra + at + 2);

        if (field > length - at - 4) {
            return false;
        }
        if (u16(extra + at) == 1 && want > 0) {
            if (field < want * 8) {
                return false;
            }
            for (size_t i = 0; i < want; i++) {
                *wanted[i] = u64(extra + at + 4 + 8 * i);
            }
            return true;
        }
        at += 4 + field;
    }
    return want == 0;
}

static exg_status check_method(const exg_zip *zip, uint64_t at, const exg_zip_entry *entry,
                               uint16_t method, exg_error *err)
{
    if ((entry->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED)) != 0) {
        return EXG_FAIL(err, UNSUPPORTED, "ZIP-CRYPT", "%s is encrypted", entry->name);
    }
    if ((method != METHOD_STORED && method != METHOD_DEFLATED) ||
        (entry->flags & FLAG_PATCHED) != 0) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "ZIP-METHOD",
                                      "%s is compressed by method %u", entry->name, method),
                             "pack the archive again with stored or deflated members");
    }
    if (method == METHOD_STORED && entry->stored_bytes != entry->bytes) {
        return ZIP_FAIL(zip, at, err, "ARC-016",
                        "%s is stored, but its two sizes are %llu and %llu", entry->name,
                        (unsigned long long)entry->stored_bytes, (unsigned long long)entry->bytes);
    }
    return EXG_OK;
}

/* The bytes of the central header at `p`, of which `left` may be there; 0: it is none. */
static uint64_t central_bytes(const uint8_t *p, uint64_t left)
{
    return left < CENTRAL_BYTES || u32(p) != SIGNATURE(1, 2)
               ? 0
               : (uint64_t)CENTRAL_BYTES + u16(p + 28) + u16(p + 30) + u16(p + 32);
}

/* Reads the central header at `at`; *bytes is its length. */
static exg_status read_central(const exg_zip *zip, const directory *dir, uint64_t at,
                               exg_arena *arena, bool keys, exg_zip_entry *entry, uint64_t *bytes,
                               exg_error *err)
{
    const uint8_t *p = zip->data + at;
    uint64_t left = dir->offset + dir->bytes - at;
    size_t name_length;
    size_t extra_length;
    const char *fault;

    *bytes = central_bytes(p, left);
    if (*bytes == 0) {
        return ZIP_FAIL(zip, at, err, "ZIP-DIR",
                        "here should be an entry of the central directory");
    }
    name_length = u16(p + 28);
    extra_length = u16(p + 30);
    if (*bytes > left) {
        return ZIP_FAIL(zip, at, err, "ZIP-DIR", "the entry passes the end of its directory");
    }
    if (u16(p + 34) != 0) {
        return EXG_FAIL(err, UNSUPPORTED, "ZIP-DISKS", "the archive spans several disks");
    }
    entry->name = exg_arena_strndup(arena, (const char *)p + CENTRAL_BYTES, name_length);
    if (entry->name == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    fault = !keys                                ? name_fault(entry->name, name_length)
            : strlen(entry->name) != name_length ? "holds a NUL"
                                                 : NULL;
    if (fault != NULL) {
        return ZIP_FAIL(zip, at, err, "ARC-014", "member name \"%s\" %s", entry->name, fault);
    }
    entry->flags = u16(p + 8);
    entry->deflated = u16(p + 10) == METHOD_DEFLATED;
    entry->crc = u32(p + 16);
    entry->stored_bytes = u32(p + 20);
    entry->bytes = u32(p + 24);
    entry->header_offset = u32(p + 42);
    if (!read_extra64(p + CENTRAL_BYTES + name_length, extra_length, entry)) {
        return ZIP_FAIL(zip, at, err, "ZIP-DIR", "%s: bad zip64 field", entry->name);
    }
    return check_method(zip, at, entry, u16(p + 10), err);
}

/* ---- local headers -------------------------------------------------------------------- */

/* The local header must tell what the central directory tells; a number may be
 * absent (0) when a descriptor follows the data. */
static exg_status read_local(const exg_zip *zip, const directory *dir, exg_zip_entry *entry,
                             exg_error *err)
{
    const uint8_t *p;
    bool later = (entry->flags & FLAG_DESCRIPTOR) != 0;
    exg_zip_entry local = *entry;
    size_t name_length = strlen(entry->name);
    uint64_t header;

    p = exg_range_inside(entry->header_offset, LOCAL_BYTES, dir->offset)
            ? zip->data + entry->header_offset
            : NULL;
    if (p == NULL || u32(p) != SIGNATURE(3, 4)) {
        return ZIP_FAIL(zip, entry->header_offset, err, "ARC-016", "%s has no local header here",
                        entry->name);
    }
    header = (uint64_t)LOCAL_BYTES + u16(p + 26) + u16(p + 28);
    if (!exg_range_inside(entry->header_offset, header, dir->offset) ||
        !exg_range_inside(entry->header_offset + header, entry->stored_bytes, dir->offset)) {
        return ZIP_FAIL(zip, entry->header_offset, err, "ARC-016",
                        "%s (%llu bytes) passes the end of the members", entry->name,
                        (unsigned long long)entry->stored_bytes);
    }
    local.bytes = u32(p + 22);
    local.stored_bytes = u32(p + 18);
    local.header_offset = 0;
    if (u16(p + 26) != name_length || memcmp(p + LOCAL_BYTES, entry->name, name_length) != 0 ||
        ((u16(p + 6) ^ entry->flags) & (FLAG_ENCRYPTED | FLAG_DESCRIPTOR)) != 0 ||
        (u16(p + 8) == METHOD_DEFLATED) != entry->deflated ||
        !read_extra64(p + LOCAL_BYTES + name_length, u16(p + 28), &local) ||
        !((later && u32(p + 14) == 0) || u32(p + 14) == entry->crc) ||
        !((later && local.bytes == 0) || local.bytes == entry->bytes) ||
        !((later && local.stored_bytes == 0) || local.stored_bytes == entry->stored_bytes)) {
        return ZIP_FAIL(zip, entry->header_offset, err, "ARC-016",
                        "the local header of %s does not agree with the central directory",
                        entry->name);
    }
    entry->data_offset = entry->header_offset + header;
    return EXG_OK;
}

/* Is [at, at + length) a data descriptor of this entry, with or without its
 * signature, with 32- or 64-bit sizes? */
static bool is_descriptor(const exg_zip *zip, const exg_zip_entry *entry, uint64_t at,
                          uint64_t length)
{
    const uint8_t *p = zip->data + at;

    if ((entry->flags & FLAG_DESCRIPTOR) == 0) {
        return false;
    }
    if ((length == 16 || length == 24) && u32(p) == SIGNATURE(7, 8)) {
        p += 4;
        length -= 4;
    }
    if ((length != 12 && length != 20) || u32(p) != entry->crc) {
        return false;
    }
    return length == 12
               ? u32(p + 4) == (uint32_t)entry->stored_bytes && u32(p + 8) == (uint32_t)entry->bytes
               : u64(p + 4) == entry->stored_bytes && u64(p + 12) == entry->bytes;
}

static int by_offset(const void *a, const void *b)
{
    const exg_zip_entry *const *x = a;
    const exg_zip_entry *const *y = b;

    return ((*x)->header_offset > (*y)->header_offset) -
           ((*x)->header_offset < (*y)->header_offset);
}

/* Member after member without gap or overlap, from the first byte to the directory. */
static exg_status check_layout(const exg_zip *zip, const directory *dir, exg_zip_entry *entries,
                               uint64_t count, exg_error *err)
{
    const exg_zip_entry **order = malloc((count + 1) * sizeof(const exg_zip_entry *));
    bool sorted = true;
    exg_status status = EXG_OK;
    uint64_t at = 0;

    if (order == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint64_t i = 0; i < count; i++) {
        order[i] = &entries[i];
        sorted = sorted && (i == 0 || by_offset(&order[i - 1], &order[i]) < 0);
    }
    if (!sorted) {
        qsort(order, count, sizeof(const exg_zip_entry *), by_offset);
    }
    for (uint64_t i = 0; i <= count && status == EXG_OK; i++) {
        uint64_t next = i < count ? order[i]->header_offset : dir->offset;

        if (next < at) {
            status = ZIP_FAIL(zip, next, err, "ARC-016", "%s overlaps the member before it",
                              order[i]->name);
        } else if (next > at && (i == 0 || !is_descriptor(zip, order[i - 1], at, next - at))) {
            status = ZIP_FAIL(zip, at, err, "ARC-016", "%llu bytes here belong to no member",
                              (unsigned long long)(next - at));
        } else if (i < count) {
            at = order[i]->data_offset + order[i]->stored_bytes;
        }
    }
    free(order);
    return status;
}

/* ---- opening ---------------------------------------------------------------------------- */

exg_status exg_zip_take_name(exg_map *folded, const char *name, exg_error *err)
{
    const char *fault = name_fault(name, strlen(name));
    char *copy;

    if (fault != NULL) {
        return EXG_FAIL(err, MALFORMED, "ARC-014", "member name \"%s\" %s", name, fault);
    }
    copy = exg_arena_strdup(folded->arena, name);
    if (copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (char *c = copy; *c != '\0'; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    if (exg_map_find(folded, copy) != EXG_MAP_NONE) {
        return EXG_FAIL(err, MALFORMED, "ARC-009",
                        "two members are called %s (without regard to case)", copy);
    }
    return exg_map_put(folded, copy, 0) ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

/* Names that differ by case alone are one name to many readers: ARC-009. */
static exg_status check_unique(const exg_zip *zip, exg_arena *arena, exg_error *err)
{
    exg_map folded;

    exg_map_init(&folded, arena);
    for (uint32_t i = 0; i < zip->count; i++) {
        exg_status status = exg_zip_take_name(&folded, zip->entries[i].name, err);

        if (status != EXG_OK) {
            return exg_error_at(err, status, zip->base + zip->entries[i].header_offset);
        }
    }
    return EXG_OK;
}

/* Leaves out folders ("models/", of 0 bytes) and fills the map: of keys, the last of a name. */
static exg_status index_entries(exg_zip *zip, uint64_t count, exg_arena *arena, bool keys,
                                exg_error *err)
{
    exg_map_init(&zip->by_name, arena);
    for (uint64_t i = 0; i < count; i++) {
        const exg_zip_entry *entry = &zip->entries[i];
        size_t length = strlen(entry->name);

        if (length > 0 && entry->name[length - 1] == '/' && !(keys && entry->bytes != 0)) {
            if (entry->bytes != 0) {
                return ZIP_FAIL(zip, entry->header_offset, err, "ARC-014",
                                "the folder %s has content", entry->name);
            }
            continue;
        }
        zip->entries[zip->count] = *entry;
        if (!exg_map_put(&zip->by_name, entry->name, zip->count++)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return keys ? EXG_OK : check_unique(zip, arena, err);
}

/* The entries of the central directory; `whole`: what their local headers say too. */
static exg_status read_entries(exg_zip *zip, const directory *dir, exg_arena *arena, bool keys,
                               bool whole, uint64_t *end, exg_error *err)
{
    uint64_t at = dir->offset;

    if (dir->count > UINT32_MAX - 1) {
        return EXG_FAIL(err, LIMIT, "ZIP-LIMIT", "%llu members are too many",
                        (unsigned long long)dir->count);
    }
    zip->entries = EXG_NEW_ARRAY(arena, exg_zip_entry, (size_t)dir->count);
    if (zip->entries == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint64_t i = 0; i < dir->count; i++) {
        uint64_t bytes = 0;

        EXG_TRY(read_central(zip, dir, at, arena, keys, &zip->entries[i], &bytes, err));
        EXG_TRY(whole ? read_local(zip, dir, &zip->entries[i], err) : EXG_OK);
        at += bytes;
    }
    *end = at;
    return EXG_OK;
}

static exg_status read_directory(exg_zip *zip, exg_arena *arena, bool keys, exg_error *err)
{
    directory dir = {0};
    uint64_t at;

    EXG_TRY(read_end(zip, &dir, err));
    EXG_TRY(read_entries(zip, &dir, arena, keys, true, &at, err));
    if (at != dir.offset + dir.bytes) {
        return ZIP_FAIL(zip, at, err, "ZIP-DIR",
                        "the central directory holds more than the %llu "
                        "entries the end record counts",
                        (unsigned long long)dir.count);
    }
    EXG_TRY(check_layout(zip, &dir, zip->entries, dir.count, err));
    return index_entries(zip, dir.count, arena, keys, err);
}

/* Each entry's own header lies before its bytes, which are not read yet. */
static exg_status open_zip(const uint8_t *data, uint64_t length, uint64_t base, exg_arena *arena,
                           bool keys, exg_zip *zip, exg_error *err)
{
    exg_status status;

    *zip = (exg_zip){.data = data, .length = length, .base = base};
    exg_pages_read_apart(data, length, true);
    status = read_directory(zip, arena, keys, err);
    exg_pages_read_apart(data, length, false);
    return status;
}

exg_status exg_zip_open(const uint8_t *data, uint64_t length, uint64_t base, exg_arena *arena,
                        exg_zip *zip, exg_error *err)
{
    return open_zip(data, length, base, arena, false, zip, err);
}

exg_status exg_zip_open_keys(const uint8_t *data, uint64_t length, exg_arena *arena, exg_zip *zip,
                             exg_error *err)
{
    return open_zip(data, length, 0, arena, true, zip, err);
}

bool exg_zip_directory(const uint8_t *data, uint64_t length, uint64_t *offset, uint64_t *bytes)
{
    exg_zip zip = {.data = data, .length = length};
    directory dir = {0};
    uint64_t end;

    if (!find_end(data, length, &end) || read_end(&zip, &dir, NULL) != EXG_OK) {
        return false;
    }
    *offset = dir.offset;
    *bytes = dir.bytes;
    return true;
}

exg_status exg_zip_list(const uint8_t *data, uint64_t length, exg_arena *arena, exg_zip *zip,
                        exg_error *err)
{
    directory dir = {0};
    uint64_t end;

    *zip = (exg_zip){.data = data, .length = length};
    EXG_TRY(read_end(zip, &dir, err));
    EXG_TRY(read_entries(zip, &dir, arena, true, false, &end, err));
    zip->count = (uint32_t)dir.count;
    return EXG_OK;
}

uint64_t exg_zip_local_bytes(const exg_zip *zip, const exg_zip_entry *entry)
{
    const uint8_t *p = zip->data + entry->header_offset;

    return u32(p) == SIGNATURE(3, 4) ? (uint64_t)LOCAL_BYTES + u16(p + 26) + u16(p + 28) : 0;
}

const exg_zip_entry *exg_zip_find(const exg_zip *zip, const char *name)
{
    uint32_t index = exg_map_find(&zip->by_name, name);

    return index == EXG_MAP_NONE ? NULL : &zip->entries[index];
}

bool exg_zip_names(const uint8_t *data, uint64_t length,
                   bool (*visit)(void *user, const char *name, size_t length), void *user)
{
    exg_zip zip = {.data = data, .length = length};
    directory dir = {0};
    uint64_t at;

    if (!exg_zip_sniff(data, length) || read_end(&zip, &dir, NULL) != EXG_OK) {
        return false;
    }
    at = dir.offset;
    for (uint64_t i = 0; i < dir.count; i++) {
        const uint8_t *p = data + at;
        uint64_t left = dir.end - at;
        uint64_t bytes = central_bytes(p, left);
        size_t name;

        if (bytes == 0 || bytes > left) {
            return false;
        }
        name = u16(p + 28);
        if (name > 0 && p[CENTRAL_BYTES + name - 1] != '/' &&
            !visit(user, (const char *)p + CENTRAL_BYTES, name)) {
            return false;
        }
        at += bytes;
    }
    return true;
}

static void put32(uint8_t *p, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        p[i] = (uint8_t)(value >> 8 * i);
    }
}

void exg_zip_seal(uint8_t *data, uint64_t length, exg_zip_entry *entry, uint32_t crc)
{
    exg_zip zip = {.data = data, .length = length};
    directory dir = {0};
    uint64_t end = entry->data_offset + entry->stored_bytes;
    uint64_t bytes;

    for (uint64_t tail = 12; tail <= 24 && tail <= length - end; tail += 4) {
        if (is_descriptor(&zip, entry, end, tail)) {
            put32(data + end + (tail % 8 == 0 ? 4 : 0), crc);
            break;
        }
    }
    if (u32(data + entry->header_offset + 14) == entry->crc) {
        put32(data + entry->header_offset + 14, crc);
    }
    if (read_end(&zip, &dir, NULL) != EXG_OK) {
        return;
    }
    for (uint64_t at = dir.offset; at < dir.end; at += bytes) {
        uint8_t *p = data + at;

        bytes = central_bytes(p, dir.end - at);
        if (bytes == 0 || bytes > dir.end - at) {
            return;
        }
        if (u16(p + 28) == strlen(entry->name) &&
            memcmp(p + CENTRAL_BYTES, entry->name, u16(p + 28)) == 0) {
            put32(p + 16, crc);
        }
    }
    entry->crc = crc;
}
