/* proof.c - the hashes beside the way from some rows of a tensor to the root, and back up it. */
#include "libexport/artifact/program_digest.h"
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"
#include "libexport/weights/storage.h"
#include "libexport/weights/weights_tree.h"

#include <exg/json_writer.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT      1
#define BLOCK_BYTES EXG_MERKLE_BLOCK_BYTES

/* Leaves of a tree: [first, end) of `count`. */
typedef struct leaves {
    uint64_t first, end, count;
} leaves;

/* Which blocks hold the rows [first, end) of a tensor; end 0: all. false: there are no such rows.
 */
static bool blocks_of(const exg_tensor_meta *meta, uint64_t bytes, uint64_t first, uint64_t end,
                      leaves *blocks)
{
    const uint64_t rows = meta->rank == 0 ? 1 : (uint64_t)meta->sizes[0].value;
    const uint64_t row = rows == 0 ? 0 : bytes / rows;
    const uint64_t last = end == 0 ? rows : end;

    if ((end != 0 || first != 0) && (first >= last || last > rows)) {
        return false;
    }
    blocks->count = bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0);
    blocks->first = first * row / BLOCK_BYTES;
    blocks->end = (last * row + BLOCK_BYTES - 1) / BLOCK_BYTES;
    return true;
}

/* ---- making one ----------------------------------------------------------------------------- */

static void put_hash(exg_text *text, exg_checksum_kind kind, const exg_merkle_hash *hash)
{
    char digits[EXG_DIGEST_TEXT_MAX];

    exg_merkle_put(kind, hash, digits);
    exg_json_put_text(text, digits);
}

/* Of the tree over the `count` leaves from `at` on: the roots of what holds none of those that are
 * proved, from the left. */
static void put_beside(exg_text *text, exg_checksum_kind kind, const exg_merkle_hash *hashes,
                       uint64_t at, uint64_t count, const leaves *proved)
{
    if (at + count <= proved->first || at >= proved->end) {
        const exg_merkle_hash root = exg_merkle_root(kind, hashes + at, count);

        put_hash(text, kind, &root);
    } else if (count > 1) {
        const uint64_t left = exg_merkle_left(count);

        put_beside(text, kind, hashes, at, left, proved);
        put_beside(text, kind, hashes, at + left, count - left, proved);
    }
}

static void put_tree(exg_text *text, const char *key, exg_checksum_kind kind,
                     const exg_merkle_hash *hashes, const leaves *proved)
{
    exg_json_member_open(text, key, '[');
    if (proved->count > 0) {
        put_beside(text, kind, hashes, 0, proved->count, proved);
    }
    exg_json_put_close(text, ']');
}

static exg_status put_parts(exg_text *text, const exg_program *program, exg_checksum_kind kind,
                            exg_error *err)
{
    exg_merkle_hash parts[EXG_PROGRAM_PARTS];

    if (program == NULL) {
        exg_json_member_null(text, "program");
        return EXG_OK;
    }
    EXG_TRY(exg_program_parts_hash(program, kind, parts, err));
    exg_json_member_open(text, "program", '{');
    for (uint32_t i = 0; i < EXG_PROGRAM_PARTS; i++) {
        exg_json_put_key(text, exg_program_part_names[i]);
        put_hash(text, kind, &parts[i]);
    }
    exg_json_put_close(text, '}');
    return EXG_OK;
}

static exg_status put_proof(exg_text *text, const exg_weights_tree *tree,
                            const exg_program *program, uint32_t index, uint64_t first,
                            uint64_t end, exg_error *err)
{
    const exg_tree_tensor *tensor = &tree->tensors[index];
    const leaves tensors = {index, (uint64_t)index + 1, tree->count};
    leaves blocks;

    if (!blocks_of(tensor->weight->meta, tensor->bytes, first, end, &blocks)) {
        return EXG_FAIL(err, USAGE, "PRF-ROWS", "['%s'] has no rows %" PRIu64 " to %" PRIu64,
                        tensor->weight->fqn, first, end);
    }
    exg_json_put_open(text, '{');
    exg_json_member_int(text, "format", FORMAT);
    exg_json_member_text(text, "kind", exg_merkle_kind_name(tree->kind));
    exg_json_member_text(text, "tensor", tensor->weight->fqn);
    exg_json_member_open(text, "rows", '[');
    exg_json_put_uint(text, first);
    exg_json_put_uint(text, end);
    exg_json_put_close(text, ']');
    put_tree(text, "blocks", tree->kind, tree->blocks + tensor->first_block, &blocks);
    exg_json_member_uint(text, "index", index);
    exg_json_member_uint(text, "count", tree->count);
    put_tree(text, "tensors", tree->kind, tree->hashes, &tensors);
    EXG_TRY(put_parts(text, program, tree->kind, err));
    exg_json_put_close(text, '}');
    return exg_json_written(text, err);
}

exg_status exg_digest_prove(exg_weights *weights, const exg_program *program,
                            exg_checksum_kind kind, const char *name, uint64_t first, uint64_t end,
                            uint32_t threads, char **json, exg_error *err)
{
    EXG_REQUIRE(err, weights, name, json);
    exg_weights_tree tree = {0};
    exg_text text = EXG_TEXT_EMPTY;
    uint32_t index = 0;
    exg_status status;

    *json = NULL;
    status = exg_weights_tree_make(weights, kind, threads, &tree, err);
    while (index < tree.count && strcmp(tree.tensors[index].weight->fqn, name) != 0) {
        index++;
    }
    if (status == EXG_OK) {
        status = index < tree.count
                     ? put_proof(&text, &tree, program, index, first, end, err)
                     : EXG_FAIL(err, USAGE, "PRF-NAME", "no tensor is called '%s'", name);
    }
    exg_weights_tree_free(&tree);
    if (status == EXG_OK) {
        *json = text.data;
    } else {
        exg_text_free(&text);
    }
    return status;
}

/* ---- checking one --------------------------------------------------------------------------- */

typedef struct checker {
    exg_checksum_kind kind;
    exg_json_walk beside;
    const exg_merkle_hash *proved; /* leaves, from the first that is proved on */
    leaves range;
    exg_error *err;
} checker;

static exg_status no_proof(exg_error *err)
{
    return EXG_FAIL(err, MALFORMED, "PRF-FORM", "this is no proof of exg digest --proof");
}

static exg_status get_hash(exg_json value, exg_checksum_kind kind, exg_merkle_hash *hash,
                           exg_error *err)
{
    const char *text;

    return exg_json_string(value, &text, NULL, NULL) == EXG_OK && exg_merkle_get(kind, text, hash)
               ? EXG_OK
               : no_proof(err);
}

/* The other way of put_beside(). */
static exg_status climb(checker *c, uint64_t at, uint64_t count, exg_merkle_hash *root)
{
    exg_merkle_hash right;
    uint64_t left;
    exg_json value;

    if (at + count <= c->range.first || at >= c->range.end) {
        return exg_json_next(&c->beside, &value) ? get_hash(value, c->kind, root, c->err)
                                                 : no_proof(c->err);
    }
    if (count == 1) {
        *root = c->proved[at - c->range.first];
        return EXG_OK;
    }
    left = exg_merkle_left(count);
    EXG_TRY(climb(c, at, left, root));
    EXG_TRY(climb(c, at + left, count - left, &right));
    *root = exg_merkle_join(c->kind, root, &right);
    return EXG_OK;
}

/* The root of the tree that the member `key` completes. */
static exg_status climb_tree(exg_json proof, const char *key, exg_checksum_kind kind,
                             const exg_merkle_hash *proved, const leaves *range,
                             exg_merkle_hash *root, exg_error *err)
{
    checker c = {.kind = kind, .proved = proved, .range = *range, .err = err};
    exg_json value;

    if (!exg_json_find(proof, key, &value) || exg_json_array(value, &c.beside, NULL) != EXG_OK) {
        return no_proof(err);
    }
    if (range->count == 0) {
        *root = exg_merkle_root(kind, NULL, 0);
    } else {
        EXG_TRY(climb(&c, 0, range->count, root));
    }
    return exg_json_next(&c.beside, &value) ? no_proof(err) : EXG_OK;
}

static bool get_number(exg_json value, uint64_t *number)
{
    int64_t got = 0;

    if (exg_json_int(value, &got, NULL) != EXG_OK || got < 0) {
        return false;
    }
    *number = (uint64_t)got;
    return true;
}

static bool find_number(exg_json proof, const char *key, uint64_t *number)
{
    exg_json value;

    return exg_json_find(proof, key, &value) && get_number(value, number);
}

static bool find_text(exg_json proof, const char *key, const char **text)
{
    exg_json value;

    return exg_json_find(proof, key, &value) && exg_json_string(value, text, NULL, NULL) == EXG_OK;
}

static bool find_rows(exg_json proof, uint64_t *first, uint64_t *end)
{
    exg_json_walk walk;
    exg_json value;

    return exg_json_find(proof, "rows", &value) && exg_json_array(value, &walk, NULL) == EXG_OK &&
           exg_json_next(&walk, &value) && get_number(value, first) &&
           exg_json_next(&walk, &value) && get_number(value, end) && !exg_json_next(&walk, &value);
}

/* The hash of the tensor: of the blocks that are proved by reading them. */
static exg_status hash_tensor(exg_json proof, exg_weights *weights, exg_checksum_kind kind,
                              exg_proved *of, exg_merkle_hash *hash, exg_error *err)
{
    const exg_weight *weight = of->tensor;
    exg_tree_tensor tensor = {.weight = weight};
    exg_merkle_hash *proved = NULL;
    uint8_t *room = NULL;
    leaves blocks;
    exg_status status = EXG_OK;

    if (!find_rows(proof, &of->first, &of->end)) {
        return no_proof(err);
    }
    EXG_TRY(exg_tensor_meta_bytes(weight->meta, &tensor.bytes, err));
    if (!blocks_of(weight->meta, tensor.bytes, of->first, of->end, &blocks)) {
        return EXG_FAIL(err, MISMATCH, "PRF-ROWS",
                        "the proof is for rows %" PRIu64 " to %" PRIu64
                        " of ['%s'], which has not as many",
                        of->first, of->end, weight->fqn);
    }
    of->end = of->end == 0 ? (weight->meta->rank == 0 ? 1 : (uint64_t)weight->meta->sizes[0].value)
                           : of->end;
    proved = calloc(blocks.end - blocks.first + 1, sizeof(*proved));
    room = malloc(BLOCK_BYTES);
    if (proved == NULL || room == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint64_t b = blocks.first; b < blocks.end && status == EXG_OK; b++) {
        status =
            exg_tree_block_hash(weights, kind, &tensor, b, room, &proved[b - blocks.first], err);
    }
    status =
        status == EXG_OK ? climb_tree(proof, "blocks", kind, proved, &blocks, hash, err) : status;
    free(proved);
    free(room);
    if (status == EXG_OK) {
        *hash = exg_tree_tensor_hash(kind, weight, hash);
    }
    return status;
}

/* From the hash of the weights to that of the program, where the proof is of one. */
static exg_status join_program(exg_json proof, exg_checksum_kind kind, exg_merkle_hash *hash,
                               exg_error *err)
{
    exg_merkle_hash parts[EXG_PROGRAM_PARTS];
    exg_json program;
    exg_json value;

    if (!exg_json_find(proof, "program", &program)) {
        return no_proof(err);
    }
    if (exg_json_is_null(program)) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < EXG_PROGRAM_PARTS; i++) {
        if (!exg_json_find(program, exg_program_part_names[i], &value)) {
            return no_proof(err);
        }
        EXG_TRY(get_hash(value, kind, &parts[i], err));
    }
    *hash = exg_program_hash(kind, hash, parts);
    return EXG_OK;
}

static const exg_weight *find_tensor(const exg_weights *weights, const char *name)
{
    const exg_weight *found = NULL;

    for (uint32_t i = 0; i < weights->count && found == NULL; i++) {
        const exg_weight *weight = &weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle && weight->meta->rank <= 64 &&
            strcmp(weight->fqn, name) == 0) {
            found = weight;
        }
    }
    return found;
}

static exg_status check(exg_json proof, exg_checksum_kind kind, const exg_merkle_hash *root,
                        exg_weights *weights, exg_proved *of, exg_error *err)
{
    const char *of_kind;
    const char *name;
    exg_merkle_hash of_tensor;
    exg_merkle_hash hash;
    leaves tensors;
    uint64_t format;

    if (!find_number(proof, "format", &format) || format != FORMAT ||
        !find_text(proof, "kind", &of_kind) || !find_text(proof, "tensor", &name) ||
        !find_number(proof, "index", &tensors.first) ||
        !find_number(proof, "count", &tensors.count) || tensors.first >= tensors.count) {
        return no_proof(err);
    }
    if (strcmp(of_kind, exg_merkle_kind_name(kind)) != 0) {
        return EXG_FAIL(err, USAGE, "PRF-KIND", "the proof is of %.20s, the digest of %s", of_kind,
                        exg_merkle_kind_name(kind));
    }
    of->tensor = find_tensor(weights, name);
    if (of->tensor == NULL) {
        return EXG_FAIL(err, MISMATCH, "PRF-NAME", "no tensor is called '%s'", name);
    }
    tensors.end = tensors.first + 1;
    EXG_TRY(hash_tensor(proof, weights, kind, of, &of_tensor, err));
    EXG_TRY(climb_tree(proof, "tensors", kind, &of_tensor, &tensors, &hash, err));
    hash = exg_tree_weights_hash(kind, tensors.count, &hash);
    EXG_TRY(join_program(proof, kind, &hash, err));
    return exg_merkle_equal(&hash, root)
               ? EXG_OK
               : EXG_FAIL(err, MISMATCH, "PRF-ROOT",
                          "['%s'] is not what the digest covers, or the proof is of another digest",
                          name);
}

exg_status exg_digest_check_proof(const char *json, size_t length, const char *root,
                                  exg_weights *weights, exg_proved *proved, exg_error *err)
{
    EXG_REQUIRE(err, json, root, weights);
    exg_proved own = {0};
    exg_checksum_kind kind;
    exg_merkle_hash wanted;
    exg_json_doc *doc = NULL;
    exg_status status;

    if (!exg_merkle_parse(root, &kind, &wanted)) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "PRF-KIND", "'%s' is no digest", root),
                             "exg digest FILE prints one");
    }
    status = exg_json_parse(json, length, 0, EXG_JSON_KEYS_NOW, &doc, err);
    if (status == EXG_MALFORMED) {
        return no_proof(err);
    }
    status =
        status == EXG_OK ? check(exg_json_root(doc), kind, &wanted, weights, &own, err) : status;
    if (status == EXG_OK && proved != NULL) {
        exg_options_write(proved, &own, sizeof(own));
    }
    exg_json_free(doc);
    return status;
}
