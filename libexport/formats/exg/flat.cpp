/* flat.cpp - the only C++ of the .exg format, in three parts: the model to FlatBuffers
 * (encode.hpp), back (decode.hpp), and here the door. */
#include "libexport/formats/exg/flat.h"

extern "C" {
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/formats/lost.h"
#include "libexport/program/model.h"
#include "libexport/weights/frames.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exg/text.h>
#include <export_generated.h>
#include <sys/mman.h>
#include <type_traits>
#include <xxhash.h>

namespace flat = exg::flat;

#include "libexport/formats/exg/decode.hpp"
#include "libexport/formats/exg/encode.hpp"

namespace
{

constexpr size_t facts_hash_at = 2 * sizeof(uint64_t); /* checksum and digest in Facts */
constexpr size_t facts_hash_bytes = 3 * sizeof(uint64_t);
constexpr unsigned depth_max = 64; /* tables inside tables */

uint8_t *bytes_of(const void *inside)
{
    return const_cast<uint8_t *>(static_cast<const uint8_t *>(inside));
}

struct hashes {
    uint64_t checksum, low, high;
};

/* Of metadata whose own hashes count as zeros. The bytes are as before afterwards. */
hashes hash_metadata(uint8_t *data, size_t length, uint8_t *facts)
{
    uint8_t held[facts_hash_bytes];
    hashes made;

    std::memcpy(held, facts + facts_hash_at, facts_hash_bytes);
    std::memset(facts + facts_hash_at, 0, facts_hash_bytes);
    XXH128_hash_t wide = XXH3_128bits(data, length);
    made = {XXH3_64bits(data, length), wide.low64, wide.high64};
    std::memcpy(facts + facts_hash_at, held, facts_hash_bytes);
    return made;
}

void put(uint8_t *at, unsigned index, uint64_t number)
{
    flatbuffers::WriteScalar(at + index * sizeof(uint64_t), number);
}

template <typename T> T read(const uint8_t *at)
{
    T number;

    std::memcpy(&number, at, sizeof(number));
    return flatbuffers::EndianScalar(number);
}

exg_status damaged(const char *what, exg_error *err)
{
    return EXG_FAIL(err, MALFORMED, "EXG-001", "%s", what);
}

exg_status encode_or_throw(const exg_program *program, bool alone, const uint32_t *storage_map,
                           const exg_stored *stored, uint32_t stored_count, exg_arena *scratch,
                           exg_flat *made, exg_error *err)
{
    encoder e(made->base, scratch);

    e.builder().Finish(e.program(program, storage_map, stored, stored_count),
                       alone ? EXG_WEIGHTS_IDENTIFIER : flat::ProgramIdentifier());
    made->data = e.builder().GetBufferPointer();
    made->length = e.builder().GetSize();
    return !e.failed()     ? EXG_OK
           : e.too_large() ? EXG_FAIL(err, LIMIT, "EXG-050", "the metadata passes 2 GiB")
           : e.no_text()   ? EXG_FAIL(err, UNSUPPORTED, "FMT-TEXT",
                                      "the program holds a text that is not UTF-8")
                           : EXG_OUT_OF_MEMORY(err);
}

} // namespace

extern "C" exg_status exg_flat_encode(const exg_program *program, bool alone,
                                      const uint32_t *storage_map, const exg_stored *stored,
                                      uint32_t stored_count, exg_flat *made, exg_error *err)
{
    void *base = mmap(nullptr, reserve_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    exg_arena *scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_status status = EXG_OK;

    *made = {nullptr, 0, base, reserve_bytes};
    if (base == MAP_FAILED || scratch == nullptr) {
        made->base = base == MAP_FAILED ? nullptr : base;
        status = EXG_OUT_OF_MEMORY(err);
    } else {
        try { /* std::bad_alloc alone is thrown */
            status = encode_or_throw(program, alone, storage_map, stored, stored_count, scratch,
                                     made, err);
        } catch (...) {
            status = EXG_OUT_OF_MEMORY(err);
        }
    }
    exg_arena_destroy(scratch);
    if (status != EXG_OK) {
        exg_flat_free(made);
    }
    return status;
}

extern "C" void exg_flat_finish(exg_flat *made, const exg_stored *stored, uint64_t total_length)
{
    const flat::Program *program = flat::GetProgram(made->data);
    uint8_t *facts = bytes_of(program->facts());

    for (uint32_t i = 0; program->storages() != nullptr && i < program->storages()->size(); i++) {
        const flat::Storage *storage = program->storages()->Get(i);
        uint8_t *place = bytes_of(storage->place());

        put(place, 0, stored[i].offset);
        put(place, 1, stored[i].stored_length);
        put(place, 2, stored[i].hash_low);
        put(place, 3, stored[i].hash_high);
        if (storage->location() != nullptr) { /* the same length: a hash took its room */
            std::memcpy(bytes_of(storage->location()->c_str()), stored[i].location,
                        storage->location()->size());
        }
        for (uint32_t k = 0; storage->frames() != nullptr && k < storage->frames()->size(); k++) {
            const exg_frame *from = &stored[i].frames->items[k];
            uint8_t *frame = bytes_of(storage->frames()->Get(k));

            put(frame, 0, from->offset);
            put(frame, 1, from->checksum);
            for (unsigned p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
                flatbuffers::WriteScalar(frame + 16 + p * sizeof(uint32_t), from->planes[p]);
            }
        }
    }
    put(facts, 0, total_length);
    put(facts, 1, made->length);
    hashes found = hash_metadata(made->data, made->length, facts);
    put(facts, 2, found.checksum);
    put(facts, 3, found.low);
    put(facts, 4, found.high);
}

extern "C" void exg_flat_free(exg_flat *made)
{
    if (made->base != nullptr) {
        munmap(made->base, made->base_length);
    }
    *made = {nullptr, 0, nullptr, 0};
}

/* A file shorter than it was written: with the metadata there, names what is lost. */
static exg_status tell_cut(const uint8_t *data, uint64_t length, uint64_t total, uint64_t metadata,
                           exg_error *err)
{
    exg_lost lost = {length, total, 0, 0, ""};
    auto *copy = metadata > length ? nullptr : static_cast<uint8_t *>(std::malloc(metadata));
    flatbuffers::Verifier::Options options;

    if (copy == nullptr) {
        return exg_error_fix(
            err,
            EXG_FAIL(err, MALFORMED, "EXG-002",
                     "the file is cut short inside its metadata: %llu of its %llu bytes are there",
                     static_cast<unsigned long long>(length),
                     static_cast<unsigned long long>(total)),
            "copy the file again and compare its size");
    }
    std::memcpy(copy, data, metadata);
    options.max_depth = depth_max;
    options.max_tables = static_cast<flatbuffers::uoffset_t>(metadata / 4);
    flatbuffers::Verifier verifier(copy, metadata, options);
    const flat::Program *root =
        verifier.VerifyBuffer<flat::Program>() ? flat::GetProgram(copy) : nullptr;
    if (root != nullptr && root->weights() != nullptr && root->storages() != nullptr) {
        for (const flat::Weight *w : *root->weights()) {
            const flat::Storage *s = w->storage() < root->storages()->size()
                                         ? root->storages()->Get(w->storage())
                                         : nullptr;
            uint64_t end = 0;

            if (s != nullptr && s->location() == nullptr &&
                !exg_add_u64(s->place()->offset(), s->place()->length(), &end)) {
                end = UINT64_MAX;
            }
            exg_lost_tensor(&lost, w->fqn()->c_str(), end);
        }
    }
    std::free(copy);
    return exg_lost_tell(&lost, "EXG-002", err);
}

/* The root's Facts are looked up by hand, since what the verifier may look at is told by
 * them. */
extern "C" exg_status exg_flat_length(const uint8_t *data, uint64_t length,
                                      uint64_t *metadata_length, exg_error *err)
{
    constexpr uint64_t field = flat::Program::VT_FACTS;
    uint64_t limit = length < FLATBUFFERS_MAX_BUFFER_SIZE ? length : FLATBUFFERS_MAX_BUFFER_SIZE;

    if (limit < 64) {
        return damaged("the file is cut", err);
    }
    uint64_t root = read<uint32_t>(data);
    if (!exg_range_inside(root, 4, limit)) {
        return damaged("the root is outside the file", err);
    }
    int64_t table = static_cast<int64_t>(root) - read<int32_t>(data + root);
    if (table < 8 || !exg_range_inside(static_cast<uint64_t>(table), field + 2, limit)) {
        return damaged("the root's fields lie outside the file", err);
    }
    uint64_t facts = root + read<uint16_t>(data + table + field);
    if (read<uint16_t>(data + table) < field + 2 || facts == root ||
        !exg_range_inside(facts, sizeof(flat::Facts), limit)) {
        return damaged("the root has no facts", err);
    }
    uint64_t total = read<uint64_t>(data + facts);
    uint64_t metadata = read<uint64_t>(data + facts + 8);
    if (total > length) {
        return tell_cut(data, length, total, metadata, err);
    }
    if (total != length) {
        return EXG_FAIL(
            err, MALFORMED, "EXG-002", "the file has %llu bytes, it was written with %llu",
            static_cast<unsigned long long>(length), static_cast<unsigned long long>(total));
    }
    if (metadata > limit || !exg_range_inside(facts, sizeof(flat::Facts), metadata)) {
        return damaged("the metadata's length is none", err);
    }
    *metadata_length = metadata;
    return EXG_OK;
}

extern "C" exg_status exg_flat_decode(const uint8_t *file, uint64_t file_length, size_t length,
                                      exg_program *program, exg_error *err)
{
    flatbuffers::Verifier::Options options;
    auto *metadata = static_cast<uint8_t *>(exg_arena_alloc(program->arena, length, 1));

    if (metadata == nullptr) {
        return EXG_OUT_OF_MEMORY(err);
    }
    (void)madvise(const_cast<uint8_t *>(file), length, MADV_POPULATE_READ); /* if mapped: at once */
    std::memcpy(metadata, file, length); /* aligned, and nobody changes it meanwhile */

    options.max_depth = depth_max;
    options.max_tables = static_cast<flatbuffers::uoffset_t>(length / 4);
    flatbuffers::Verifier verifier(metadata, length, options);
    if (!verifier.VerifyBuffer<flat::Program>()) { /* who called knows by the identifier */
        return EXG_FAIL(err, MALFORMED, "EXG-003", "the metadata is not a FlatBuffer of a program");
    }
    const flat::Program *root = flat::GetProgram(metadata);
    const flat::Facts *facts = root->facts();
    hashes found = hash_metadata(bytes_of(metadata), length, bytes_of(facts));
    if (found.checksum != facts->checksum() || found.low != facts->digest_low() ||
        found.high != facts->digest_high()) {
        return EXG_FAIL(err, MALFORMED, "EXG-004",
                        "the checksum of the metadata does not match: damaged bytes");
    }
    if (root->format_major() != EXG_FORMAT_MAJOR) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "EXG-005",
                                      "the file is of format %u, this build reads %d",
                                      root->format_major(), EXG_FORMAT_MAJOR),
                             "use a version of exg of the same format");
    }
    auto *checked = static_cast<uint32_t *>(std::calloc(length / 128 + 1, sizeof(uint32_t)));
    if (checked == nullptr) {
        return EXG_OUT_OF_MEMORY(err);
    }
    decoder d(metadata, length, checked, program, err);
    exg_status status = d.storages(root, file, file_length);
    if (status == EXG_OK) {
        status = d.program(root);
    }
    std::free(checked);
    return status;
}
