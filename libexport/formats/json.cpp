/* json.cpp - the door to simdjson, and the only C++ of the JSON reader: text in,
 * tape out. No exception, no C++ type and no static constructor gets past here.
 */
#include "libexport/formats/json.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <simdjson.h>
#include <sys/mman.h>

namespace {

/* Fresh buffers of many megabytes are filled from front to back: with large pages
 * that costs a fifth of the page faults' time. Only advice, so failure is nothing. */
void advise_large_pages(void *buffer, size_t bytes)
{
    const uintptr_t page = uintptr_t{2} << 20;
    uintptr_t from = (reinterpret_cast<uintptr_t>(buffer) + page - 1) & ~(page - 1);
    uintptr_t to = (reinterpret_cast<uintptr_t>(buffer) + bytes) & ~(page - 1);

    if (to > from) {
        (void)madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE);
    }
}

simdjson::error_code parse(simdjson::dom::parser *parser, const char *text, size_t length)
{
    simdjson::error_code code = parser->allocate(length, EXG_JSON_DEPTH_MAX);

    if (code == simdjson::SUCCESS) {
        code = parser->doc.allocate(length);
    }
    if (code == simdjson::SUCCESS && length > (size_t{1} << 20)) {
        advise_large_pages(parser->doc.tape.get(), length * sizeof(uint64_t));
        advise_large_pages(parser->doc.string_buf.get(), length);
        advise_large_pages(parser->implementation->structural_indexes.get(),
                           length * sizeof(uint32_t));
    }
    if (code == simdjson::SUCCESS) {
        code = parser->parse(text, length, false).error();
    }
    return code;
}

/* `text` with the padding simdjson reads over. */
char *padded_copy(const void *text, size_t length)
{
    char *copy = static_cast<char *>(std::malloc(length + simdjson::SIMDJSON_PADDING));

    if (copy != nullptr) {
        advise_large_pages(copy, length);
        if (length > 0) {
            std::memcpy(copy, text, length);
        }
        std::memset(copy + length, 0, simdjson::SIMDJSON_PADDING);
    }
    return copy;
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

exg_status parse_into(exg_json_doc *doc, simdjson::dom::parser *parser, exg_error *err)
{
    simdjson::error_code code = parse(parser, doc->text, doc->length);

    if (code != simdjson::SUCCESS && code != simdjson::MEMALLOC && code != simdjson::CAPACITY) {
        bool failed = false;
        size_t length = 0;

        doc->rewritten = exg_json_without_bare_nan(doc->text, doc->length,
                                                   simdjson::SIMDJSON_PADDING, &length, &failed);
        if (failed) {
            return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
        }
        if (doc->rewritten != nullptr) {
            code = parse(parser, doc->rewritten, length);
        }
    }
    if (code != simdjson::SUCCESS) {
        return fault(doc, code, err);
    }
    doc->tape = parser->doc.tape.get();
    doc->strings = parser->doc.string_buf.get();
    return exg_json_check_keys(doc, err);
}

} // namespace

extern "C" exg_status exg_json_parse(const void *text, size_t length, uint64_t file_offset,
                                     exg_json_doc **doc, exg_error *err)
{
    simdjson::dom::parser *parser;
    exg_json_doc *made;
    exg_status status;

    *doc = nullptr;
    if (length > UINT32_MAX - 4096) {
        return EXG_FAIL(err, LIMIT, "JSN-008", "%zu bytes of JSON are too many", length);
    }
    made = static_cast<exg_json_doc *>(std::calloc(1, sizeof(*made)));
    parser = new (std::nothrow) simdjson::dom::parser();
    if (made == nullptr || parser == nullptr) {
        std::free(made);
        delete parser;
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    made->parser = parser;
    made->text = padded_copy(text, length);
    made->length = length;
    made->file_offset = file_offset;
    status = made->text == nullptr ? EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory")
                                   : parse_into(made, parser, err);
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
        delete static_cast<simdjson::dom::parser *>(doc->parser);
        std::free(doc->rewritten);
        std::free(const_cast<char *>(doc->text));
        std::free(doc);
    }
}
