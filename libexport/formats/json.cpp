/* json.cpp - the door to simdjson, and the only C++ of the JSON reader: text in,
 * tape out. No exception, no C++ type and no static constructor gets past here: what throws is
 * caught at the door (std::bad_alloc alone does, out of simdjson), and nothing is asked of simdjson
 * that could throw where it may not.
 *
 * simdjson is lent its buffers: one mapping on large pages holds text, tape,
 * strings and scratch, since fresh small pages cost more than parsing does.
 */
#include "libexport/formats/json.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <simdjson.h>
#include <sys/mman.h>

namespace
{

constexpr size_t large_page = size_t{2} << 20;
constexpr size_t length_min = simdjson::dom::MINIMAL_DOCUMENT_CAPACITY; /* it rounds up to that */

/* What simdjson asks for a text of `length` bytes (its own allocate() functions):
 * words of tape, bytes of strings, structural indexes. */
struct layout {
    size_t text, tape, strings, indexes, total;

    static size_t round(size_t bytes)
    {
        return (bytes + 4095) & ~size_t{4095};
    }

    explicit layout(size_t length)
    {
        length = length < length_min ? length_min : length;
        text = 0;
        tape = text + round(length + simdjson::SIMDJSON_PADDING);
        strings = tape + round((length + 64 + 3) * sizeof(uint64_t));
        indexes = strings + round(5 * length / 3 + 64 + simdjson::SIMDJSON_PADDING);
        total = indexes + round((length + 64 + 2 + 7) * sizeof(uint32_t));
    }
};

/* Owns the parser and takes the lent buffers away before it goes; until they are lent it has its
 * own, and frees them. */
struct lender {
    simdjson::dom::parser parser;
    bool lent = false;

    void take_back()
    {
        if (lent) {
            (void)parser.doc.tape.release();
            (void)parser.doc.string_buf.release();
            (void)parser.implementation->structural_indexes.release();
        }
        lent = false;
    }

    ~lender()
    {
        take_back();
    }
};

/* Gives `doc` buffers for a text of `length` bytes; its text is to be copied there. */
bool map_buffers(exg_json_doc *doc, size_t length)
{
    size_t bytes = layout(length).total;
    size_t slack = bytes > large_page ? large_page : 0;
    void *base = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        return false;
    }
    doc->buffers = base;
    doc->buffer_bytes = bytes + slack;
    doc->text = static_cast<char *>(base);
    if (slack > 0) {
        (void)madvise(base, bytes + slack, MADV_HUGEPAGE);
        doc->text += (large_page - reinterpret_cast<uintptr_t>(base) % large_page) % large_page;
    }
    return true;
}

void copy_text(exg_json_doc *doc, const void *text)
{
    if (doc->length > 0) {
        std::memcpy(const_cast<char *>(doc->text), text, doc->length);
    }
}

template <typename implementation>
bool create(size_t capacity, lender *lent, simdjson::error_code *code)
{
    const implementation made; /* its constructor may throw */

    if (!made.supported_by_runtime_system()) {
        return false;
    }
    *code = made.create_dom_parser_implementation(capacity, EXG_JSON_DEPTH_MAX,
                                                  lent->parser.implementation);
    return true;
}

/* The best that the processor runs. simdjson would seek it when it is first asked for any, in
 * functions that may not throw, and allocates there: without memory that ends the process. */
simdjson::error_code create_implementation(size_t capacity, lender *lent)
{
    simdjson::error_code code = simdjson::UNSUPPORTED_ARCHITECTURE;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef" /* its macros name some that it does not define */
#if defined(SIMDJSON_ICELAKE_H) && SIMDJSON_IMPLEMENTATION_ICELAKE
    if (create<simdjson::icelake::implementation>(capacity, lent, &code)) {
        return code;
    }
#endif
#if defined(SIMDJSON_HASWELL_H) && SIMDJSON_IMPLEMENTATION_HASWELL
    if (create<simdjson::haswell::implementation>(capacity, lent, &code)) {
        return code;
    }
#endif
#if defined(SIMDJSON_WESTMERE_H) && SIMDJSON_IMPLEMENTATION_WESTMERE
    if (create<simdjson::westmere::implementation>(capacity, lent, &code)) {
        return code;
    }
#endif
#if defined(SIMDJSON_ARM64_H) && SIMDJSON_IMPLEMENTATION_ARM64
    if (create<simdjson::arm64::implementation>(capacity, lent, &code)) {
        return code;
    }
#endif
#if defined(SIMDJSON_FALLBACK_H) && SIMDJSON_IMPLEMENTATION_FALLBACK
    (void)create<simdjson::fallback::implementation>(capacity, lent, &code);
    return code;
#else /* of a simdjson that does not show them */
    return lent->parser.allocate(capacity, EXG_JSON_DEPTH_MAX);
#endif
#pragma GCC diagnostic pop
}

/* Parses `length` padded bytes at `text` with the buffers of `doc`. */
simdjson::error_code parse(exg_json_doc *doc, lender *lent, const char *text, size_t length)
{
    simdjson::dom::parser &parser = lent->parser;
    const layout places(length);
    char *base = const_cast<char *>(doc->text);
    const size_t capacity = length < length_min ? length_min : length;
    simdjson::error_code code = create_implementation(capacity, lent);

    if (code == simdjson::SUCCESS) {
        code = parser.doc.allocate(capacity);
    }
    if (code != simdjson::SUCCESS) {
        return code;
    }
    parser.doc.tape.reset(reinterpret_cast<uint64_t *>(base + places.tape));
    parser.doc.string_buf.reset(reinterpret_cast<uint8_t *>(base + places.strings));
    parser.implementation->structural_indexes.reset(
        reinterpret_cast<uint32_t *>(base + places.indexes));
    lent->lent = true;
    return parser.parse(text, length, false).error();
}

exg_status fault(const exg_json_doc *doc, simdjson::error_code code, exg_error *err)
{
    exg_status status;
    size_t at;

    if (code == simdjson::MEMALLOC) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    if (code == simdjson::CAPACITY) {
        return EXG_FAIL(err, LIMIT, "JSN-008", "%zu bytes of JSON are too many", doc->length);
    }
    if (code == simdjson::DEPTH_ERROR) {
        return EXG_FAIL(err, LIMIT, "JSN-007", "JSON is nested deeper than %d levels",
                        EXG_JSON_DEPTH_MAX);
    }
    if (code == simdjson::UTF8_ERROR) {
        return EXG_FAIL(err, MALFORMED, "JSN-001", "the text is not valid UTF-8");
    }
    at = exg_json_locate(doc->text, doc->length, SIZE_MAX);
    status = EXG_FAIL(err, MALFORMED, "JSN-001", "this is no JSON: %s (byte %zu of %zu)",
                      simdjson::error_message(code), at, doc->length);
    return exg_error_at(err, status,
                        doc->file_offset == EXG_NO_OFFSET ? at : doc->file_offset + at);
}

/* The second try, without bare NaN: longer, so with buffers of its own. */
simdjson::error_code parse_rewritten(exg_json_doc *doc, lender *lent, size_t length)
{
    const exg_json_doc before = *doc;

    if (!map_buffers(doc, length)) {
        return simdjson::MEMALLOC;
    }
    copy_text(doc, before.text); /* positions are of the text as given */
    munmap(before.buffers, before.buffer_bytes);
    return parse(doc, lent, doc->rewritten, length);
}

exg_status parse_or_throw(exg_json_doc *doc, exg_error *err)
{
    lender lent;
    simdjson::error_code code = parse(doc, &lent, doc->text, doc->length);

    if (code != simdjson::SUCCESS && code != simdjson::MEMALLOC && code != simdjson::CAPACITY) {
        bool failed = false;
        size_t length = 0;

        doc->rewritten = exg_json_without_bare_nan(doc->text, doc->length,
                                                   simdjson::SIMDJSON_PADDING, &length, &failed);
        if (failed) {
            return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
        }
        if (doc->rewritten != nullptr) {
            lent.take_back();
            code = parse_rewritten(doc, &lent, length);
        }
    }
    if (code != simdjson::SUCCESS) {
        return fault(doc, code, err);
    }
    doc->tape = lent.parser.doc.tape.get();
    doc->strings = lent.parser.doc.string_buf.get();
    return EXG_OK;
}

exg_status parse_into(exg_json_doc *doc, exg_error *err)
{
    try {
        return parse_or_throw(doc, err);
    } catch (...) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
}

} // namespace

extern "C" exg_status exg_json_parse(const void *text, size_t length, uint64_t file_offset,
                                     exg_json_keys keys, exg_json_doc **doc, exg_error *err)
{
    exg_json_doc *made;
    exg_status status;

    *doc = nullptr;
    if (length > UINT32_MAX - 4096) {
        return EXG_FAIL(err, LIMIT, "JSN-008", "%zu bytes of JSON are too many", length);
    }
    made = static_cast<exg_json_doc *>(std::calloc(1, sizeof(*made)));
    if (made == nullptr) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    if (!map_buffers(made, length)) {
        std::free(made);
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    made->length = length;
    made->file_offset = file_offset;
    copy_text(made, text);
    status = parse_into(made, err);
    if (status == EXG_OK && keys == EXG_JSON_KEYS_NOW) {
        status = exg_json_check_keys(exg_json_root(made), err);
    }
    if (status != EXG_OK) {
        exg_json_free(made);
        return status;
    }
    *doc = made;
    return EXG_OK;
}

extern "C" void exg_json_free(exg_json_doc *doc)
{
    if (doc != nullptr) {
        munmap(doc->buffers, doc->buffer_bytes);
        std::free(doc->rewritten);
        std::free(doc);
    }
}
