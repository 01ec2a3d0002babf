/* program_digest.c - a program is its weights, its graph, its signature and the rest, as the export
 * schema says them. */
#include "libexport/artifact/program_digest.h"

#include "libexport/artifact/canonical_json.h"
#include "libexport/base/little.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/pt2/encode.h"

#include <string.h>

const char *const exg_program_part_names[EXG_PROGRAM_PARTS] = {"graph", "signature", "rest"};

static exg_merkle_hash hash_part(exg_checksum_kind kind, const char *name, const exg_text *text)
{
    uint8_t numbers[2][8];
    const exg_merkle_piece pieces[] = {
        {numbers[0], 8}, {name, strlen(name)}, {numbers[1], 8}, {text->data, text->length}};

    exg_little_put(numbers[0], strlen(name), 8);
    exg_little_put(numbers[1], text->length, 8);
    return exg_merkle_hash_of(kind, EXG_MERKLE_PART, pieces, 4);
}

/* graph_module.graph, graph_module.signature, and the document without them. */
static exg_status hash_document(const exg_json_doc *doc, exg_arena *arena, exg_checksum_kind kind,
                                exg_merkle_hash *parts, exg_error *err)
{
    const exg_json root = exg_json_root(doc);
    exg_json module = root;
    exg_json places[EXG_PROGRAM_PARTS] = {root, root, root};
    size_t taken[EXG_PROGRAM_PARTS - 1];

    (void)exg_json_find(root, "graph_module", &module);
    for (uint32_t i = 0; i < EXG_PROGRAM_PARTS - 1; i++) {
        (void)exg_json_find(module, exg_program_part_names[i], &places[i]);
        taken[i] = places[i].at;
    }
    for (uint32_t i = 0; i < EXG_PROGRAM_PARTS; i++) {
        exg_text text = EXG_TEXT_EMPTY;
        const exg_canonical canonical = {arena, &text, taken, i + 1 == EXG_PROGRAM_PARTS ? i : 0};
        exg_status status = exg_json_put_canonical(&canonical, places[i], err);

        if (status == EXG_OK && exg_text_string(&text) == NULL) {
            status = EXG_OUT_OF_MEMORY(err);
        }
        if (status == EXG_OK) {
            parts[i] = hash_part(kind, exg_program_part_names[i], &text);
        }
        exg_text_free(&text);
        EXG_TRY(status);
    }
    return EXG_OK;
}

exg_status exg_program_parts_hash(const exg_program *program, exg_checksum_kind kind,
                                  exg_merkle_hash parts[EXG_PROGRAM_PARTS], exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_text text = EXG_TEXT_EMPTY;
    exg_json_doc *doc = NULL;
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    status = status == EXG_OK ? exg_encode_program(program, &text, err) : status;
    status = status == EXG_OK ? exg_json_written(&text, err) : status;
    status = status == EXG_OK ? exg_json_parse(text.data, text.length, EXG_NO_OFFSET,
                                               EXG_JSON_KEYS_NOW, &doc, err)
                              : status;
    status = status == EXG_OK ? hash_document(doc, arena, kind, parts, err) : status;
    exg_json_free(doc);
    exg_text_free(&text);
    exg_arena_destroy(arena);
    return status;
}

exg_merkle_hash exg_program_hash(exg_checksum_kind kind, const exg_merkle_hash *weights,
                                 const exg_merkle_hash parts[EXG_PROGRAM_PARTS])
{
    const uint32_t bytes = exg_merkle_bytes(kind);
    const exg_merkle_piece pieces[] = {{weights->bytes, bytes},
                                       {parts[0].bytes, bytes},
                                       {parts[1].bytes, bytes},
                                       {parts[2].bytes, bytes}};

    return exg_merkle_hash_of(kind, EXG_MERKLE_PROGRAM, pieces, 4);
}

exg_status exg_program_digest(const exg_program *program, exg_checksum_kind kind, uint32_t threads,
                              exg_program_digests *digests, exg_error *err)
{
    EXG_REQUIRE(err, program, digests);
    exg_program_digests own = {0};
    exg_merkle_hash parts[EXG_PROGRAM_PARTS];
    char *const texts[EXG_PROGRAM_PARTS] = {own.graph, own.signature, own.rest};
    exg_merkle_hash hash;

    EXG_TRY(exg_weights_digest(program->weights, kind, threads, own.weights, err));
    EXG_TRY(exg_program_parts_hash(program, kind, parts, err));
    (void)exg_merkle_get(kind, own.weights, &hash);
    hash = exg_program_hash(kind, &hash, parts);
    exg_merkle_put(kind, &hash, own.root);
    for (uint32_t i = 0; i < EXG_PROGRAM_PARTS; i++) {
        exg_merkle_put(kind, &parts[i], texts[i]);
    }
    exg_options_write(digests, &own, sizeof(own));
    return EXG_OK;
}
