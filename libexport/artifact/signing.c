/* signing.c - a manifest as an in-toto statement in a DSSE envelope in a Sigstore bundle, and back.
 */
#include "libexport/artifact/crypto.h"
#include "libexport/artifact/manifest.h"
#include "libexport/base/base64.h"
#include "libexport/base/hex.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"
#include "libexport/formats/name_list.h"
#include "libexport/weights/message_digest.h"

#include <exg/formats.h>
#include <exg/json_writer.h>
#include <exg/signing.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUNDLE_TYPE    "application/vnd.dev.sigstore.bundle.v0.3+json"
#define PAYLOAD_TYPE   "application/vnd.in-toto+json"
#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define PREDICATE_TYPE "https://model_signing/signature/v1.0"
#define KEY_BYTES_MAX  (64u << 10)
#define LISTED_BYTES   120

static const char *const git_names[] = {".git", ".gitattributes", ".github", ".gitignore"};

#define GIT_COUNT ((uint32_t)(sizeof(git_names) / sizeof(git_names[0])))

/* ---- names --------------------------------------------------------------------------------------
 */

/* The signature's name below the model, if it lies there; NULL: it does not. */
static const char *name_below(const char *model, const char *path, exg_arena *arena)
{
    char folder[PATH_MAX];
    char root[PATH_MAX];
    char *directory = exg_path_directory(path);
    const char *name = NULL;
    size_t length;

    if (directory != NULL && realpath(model, root) != NULL &&
        realpath(directory[0] == '\0' ? "." : directory, folder) != NULL) {
        length = strlen(root);
        if (strncmp(folder, root, length) == 0 &&
            (folder[length] == '/' || folder[length] == '\0')) {
            name = exg_arena_printf(arena, "%s%s%s", folder + length + (folder[length] == '/'),
                                    folder[length] == '/' ? "/" : "", exg_path_name(path));
        }
    }
    free(directory);
    return name;
}

typedef struct name_set {
    const char **items;
    uint32_t count;
} name_set;

/* What is never signed. */
static exg_status list_ignored(const char *model, const char *path, exg_arena *arena,
                               name_set *names, exg_error *err)
{
    const char *own = name_below(model, path, arena);

    names->items = EXG_NEW_ARRAY(arena, const char *, GIT_COUNT + 1);
    names->count = 0;
    if (names->items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (own != NULL) {
        names->items[names->count++] = own;
    }
    for (uint32_t i = 0; i < GIT_COUNT; i++) {
        names->items[names->count++] = git_names[i];
    }
    return EXG_OK;
}

static exg_status read_key(const char *path, exg_mapping *mapping, exg_crypto_bytes *bytes,
                           exg_error *err)
{
    EXG_TRY(exg_file_map(path, true, mapping, err));
    *bytes = (exg_crypto_bytes){mapping->data, (size_t)mapping->length};
    return mapping->length <= KEY_BYTES_MAX
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "SGN-KEY", "%s is too long for a key", path);
}

static exg_status tell_outcome(exg_crypto_outcome outcome, const char *key, exg_error *err)
{
    switch (outcome) {
    case EXG_CRYPTO_DONE:
        return EXG_OK;
    case EXG_CRYPTO_NO_KEY:
        return EXG_FAIL(err, USAGE, "SGN-KEY",
                        "%s holds no such key in PEM, or one with a password", key);
    case EXG_CRYPTO_OTHER_KEY:
        return EXG_FAIL(err, USAGE, "SGN-KEY", "the key in %s is not of P-256, P-384 or P-521",
                        key);
    case EXG_CRYPTO_MISMATCH:
        return EXG_FAIL(err, MISMATCH, "SGN-BAD", "this was not signed by the key in %s", key);
    case EXG_CRYPTO_FAILED:
        break;
    }
    return EXG_OUT_OF_MEMORY(err);
}

/* What is signed of a payload (DSSE's pre-authentication encoding). */
static void put_encoding(exg_text *out, const char *payload, size_t length)
{
    exg_text_printf(out, "DSSEv1 %zu " PAYLOAD_TYPE " %zu ", strlen(PAYLOAD_TYPE), length);
    exg_text_add(out, payload, length);
}

/* Over the hashes one after the other. */
static void hash_all(const exg_manifest *manifest, exg_signed *of)
{
    exg_message_digest digest;

    exg_message_digest_begin(&digest, EXG_CHECKSUM_SHA256);
    for (uint32_t i = 0; i < manifest->count; i++) {
        exg_message_digest_add(&digest, manifest->items[i].sha256, EXG_SHA256_BYTES);
    }
    exg_message_digest_finish(&digest, of->sha256);
    of->file_count = manifest->count;
}

static void hash_text(const char *text, char digits[65])
{
    exg_message_digest digest;

    exg_message_digest_begin(&digest, EXG_CHECKSUM_SHA256);
    exg_message_digest_add(&digest, (const unsigned char *)text, strlen(text));
    exg_message_digest_finish(&digest, digits);
}

/* ---- signing ------------------------------------------------------------------------------------
 */

static void put_statement(exg_text *out, const char *model, const exg_manifest *manifest,
                          const exg_manifest_options *options, const exg_signed *of)
{
    char real[PATH_MAX];
    char digits[2 * EXG_SHA256_BYTES + 1];

    exg_json_put_open(out, '{');
    exg_json_member_text(out, "_type", STATEMENT_TYPE);
    exg_json_member_open(out, "subject", '[');
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", exg_path_name(realpath(model, real) == NULL ? model : real));
    exg_json_member_open(out, "digest", '{');
    exg_json_member_text(out, "sha256", of->sha256);
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
    exg_json_put_close(out, ']');
    exg_json_member_text(out, "predicateType", PREDICATE_TYPE);
    exg_json_member_open(out, "predicate", '{');
    exg_json_member_open(out, "serialization", '{');
    exg_json_member_text(out, "method", "files");
    exg_json_member_text(out, "hash_type", "sha256");
    exg_json_member_bool(out, "allow_symlinks", options->follow_links);
    exg_json_member_open(out, "ignore_paths", '[');
    for (uint32_t i = 0; i < options->left_out_count; i++) {
        exg_json_put_text(out, options->left_out[i]);
    }
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    exg_json_member_open(out, "resources", '[');
    for (uint32_t i = 0; i < manifest->count; i++) {
        exg_hex_put(manifest->items[i].sha256, EXG_SHA256_BYTES, digits);
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", manifest->items[i].name);
        exg_json_member_text(out, "algorithm", "sha256");
        exg_json_member_text(out, "digest", digits);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
}

static void put_base64(exg_text *out, const char *key, const void *data, size_t length)
{
    exg_text encoded = EXG_TEXT_EMPTY;

    exg_base64_encode(&encoded, data, length);
    exg_json_member_text(out, key, exg_text_part(out, &encoded));
    exg_text_free(&encoded);
}

static void put_bundle(exg_text *out, const exg_text *payload, exg_crypto_bytes signature,
                       const char *public_pem)
{
    char hint[65];

    hash_text(public_pem, hint);
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "mediaType", BUNDLE_TYPE);
    exg_json_member_open(out, "verificationMaterial", '{');
    exg_json_member_open(out, "publicKey", '{');
    exg_json_member_text(out, "hint", hint);
    exg_json_put_close(out, '}');
    exg_json_member_open(out, "tlogEntries", '[');
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    exg_json_member_open(out, "dsseEnvelope", '{');
    put_base64(out, "payload", payload->data, payload->length);
    exg_json_member_text(out, "payloadType", PAYLOAD_TYPE);
    exg_json_member_open(out, "signatures", '[');
    exg_json_put_open(out, '{');
    put_base64(out, "sig", signature.data, signature.length);
    exg_json_member_text(out, "keyid", "");
    exg_json_put_close(out, '}');
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
    exg_text_putc(out, '\n');
}

/* Signs the statement, and puts both into the bundle. */
static exg_status sign_statement(const exg_text *payload, const char *key, exg_text *bundle,
                                 exg_error *err)
{
    uint8_t signature[EXG_CRYPTO_SIGNATURE_MAX];
    char public_pem[EXG_CRYPTO_PEM_MAX];
    const exg_crypto *crypto;
    exg_text message = EXG_TEXT_EMPTY;
    exg_mapping mapping = {0};
    exg_crypto_bytes pem;
    size_t length = 0;
    exg_status status;

    EXG_TRY(exg_crypto_load(&crypto, err));
    put_encoding(&message, payload->data, payload->length);
    status = exg_text_string(&message) == NULL ? EXG_OUT_OF_MEMORY(err)
                                               : read_key(key, &mapping, &pem, err);
    if (status == EXG_OK) {
        status = tell_outcome(crypto->sign(pem, (exg_crypto_bytes){message.data, message.length},
                                           signature, &length, public_pem),
                              key, err);
    }
    exg_mapping_release(&mapping);
    exg_text_free(&message);
    EXG_TRY(status);
    put_bundle(bundle, payload, (exg_crypto_bytes){signature, length}, public_pem);
    return exg_text_string(bundle) == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status sign_model(const char *model, const char *key, const char *path,
                             const exg_signing_options *options, exg_arena *arena, exg_signed *of,
                             exg_error *err)
{
    exg_manifest_options walk = {.follow_links = options->follow_links,
                                 .threads = options->threads};
    exg_text payload = EXG_TEXT_EMPTY;
    exg_text bundle = EXG_TEXT_EMPTY;
    exg_manifest manifest;
    name_set ignored;
    exg_status status;

    EXG_TRY(list_ignored(model, path, arena, &ignored, err));
    walk.left_out = ignored.items;
    walk.left_out_count = ignored.count;
    status = exg_manifest_make(model, &walk, &manifest, err);
    if (status == EXG_OK) {
        hash_all(&manifest, of);
        put_statement(&payload, model, &manifest, &walk, of);
        status = payload.replaced
                     ? EXG_FAIL(err, UNSUPPORTED, "SGN-NAME", "a name below %s is not UTF-8", model)
                 : exg_text_string(&payload) == NULL ? EXG_OUT_OF_MEMORY(err)
                                                     : sign_statement(&payload, key, &bundle, err);
    }
    exg_manifest_free(&manifest);
    status = status == EXG_OK ? exg_file_write(path, bundle.data, bundle.length, err) : status;
    exg_text_free(&payload);
    exg_text_free(&bundle);
    return status;
}

/* What signing and checking have in common: options, memory of the call, what is told. */
typedef exg_status signing_call(const char *model, const char *key, const char *path,
                                const exg_signing_options *options, exg_arena *arena,
                                exg_signed *own, exg_error *err);

static exg_status call_with_memory(signing_call *call, const char *model, const char *key,
                                   const char *path, const exg_signing_options *given,
                                   exg_signed *signed_, exg_error *err)
{
    exg_signing_options options = {0};
    exg_signed own = {0};
    exg_arena *arena;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_signing_options, &options, given, err));
    arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status =
        arena == NULL ? EXG_OUT_OF_MEMORY(err) : call(model, key, path, &options, arena, &own, err);
    exg_arena_destroy(arena);
    if (status == EXG_OK && signed_ != NULL) {
        exg_options_write(signed_, &own, sizeof(own));
    }
    return status;
}

exg_status exg_model_sign(const char *model, const char *key, const char *path,
                          const exg_signing_options *given, exg_signed *signed_, exg_error *err)
{
    EXG_REQUIRE(err, model, key, path);
    return call_with_memory(sign_model, model, key, path, given, signed_, err);
}

/* ---- checking -----------------------------------------------------------------------------------
 */

static exg_status no_bundle(exg_error *err)
{
    return EXG_FAIL(err, MALFORMED, "SGN-FORM",
                    "this is no signature of OpenSSF Model Signing by a key");
}

static exg_status other_kind(const char *what, const char *found, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "SGN-KIND", "the model is signed with %s '%.60s'", what,
                    found);
}

static const char *find_text(exg_json object, const char *key)
{
    const char *text = NULL;
    exg_json value;

    return exg_json_find(object, key, &value) && exg_json_string(value, &text, NULL, NULL) == EXG_OK
               ? text
               : NULL;
}

/* The bytes of a member in base64, in the arena; NULL: none. */
static unsigned char *find_base64(exg_json object, const char *key, exg_arena *arena,
                                  size_t *length)
{
    const char *text = find_text(object, key);
    unsigned char *out =
        text == NULL ? NULL : exg_arena_alloc(arena, exg_base64_bytes_max(strlen(text)) + 1, 1);

    return out != NULL && exg_base64_decode(text, strlen(text), out, length) ? out : NULL;
}

/* The payload of a bundle, which was signed by the key. */
static exg_status open_bundle(exg_json bundle, const char *key, exg_arena *arena,
                              exg_crypto_bytes *payload, exg_error *err)
{
    const char *type = find_text(bundle, "mediaType");
    exg_crypto_bytes signature = {0};
    exg_json envelope;
    exg_json list;
    exg_json first;
    exg_json_walk walk;
    const exg_crypto *crypto;
    exg_text message = EXG_TEXT_EMPTY;
    exg_mapping mapping = {0};
    exg_crypto_bytes pem;
    exg_status status;

    if (type == NULL || strcmp(type, BUNDLE_TYPE) != 0 ||
        !exg_json_find(bundle, "dsseEnvelope", &envelope) ||
        !exg_json_find(envelope, "signatures", &list) ||
        exg_json_array(list, &walk, NULL) != EXG_OK || !exg_json_next(&walk, &first)) {
        return no_bundle(err);
    }
    type = find_text(envelope, "payloadType");
    payload->data = find_base64(envelope, "payload", arena, &payload->length);
    signature.data = find_base64(first, "sig", arena, &signature.length);
    if (type == NULL || strcmp(type, PAYLOAD_TYPE) != 0 || payload->data == NULL ||
        signature.data == NULL) {
        return no_bundle(err);
    }
    EXG_TRY(exg_crypto_load(&crypto, err));
    put_encoding(&message, payload->data, payload->length);
    status = exg_text_string(&message) == NULL ? EXG_OUT_OF_MEMORY(err)
                                               : read_key(key, &mapping, &pem, err);
    if (status == EXG_OK) {
        status = tell_outcome(
            crypto->verify(pem, (exg_crypto_bytes){message.data, message.length}, signature), key,
            err);
    }
    exg_mapping_release(&mapping);
    exg_text_free(&message);
    return status;
}

/* A whole number from 1 on; protobuf writes "20.0". */
static bool get_whole(exg_json value, int64_t *number)
{
    double real;

    if (exg_json_double(value, &real, NULL) == EXG_OK && real >= 1 && real < 0x1p53) {
        *number = (int64_t)real;
        return (double)*number == real;
    }
    return exg_json_int(value, number, NULL) == EXG_OK && *number >= 1;
}

/* How the files were listed: what their listing needs now. */
static exg_status read_serialization(exg_json predicate, exg_arena *arena, name_set *ignored,
                                     exg_manifest_options *walk, exg_error *err)
{
    exg_json serialization;
    const char *method = NULL;
    const char *hash = NULL;
    const char *name;
    int64_t shard = 0;
    exg_json value;
    exg_json_walk list;

    if (exg_json_find(predicate, "serialization", &serialization)) {
        method = find_text(serialization, "method");
        hash = find_text(serialization, "hash_type");
    }
    if (method == NULL || hash == NULL || !exg_json_find(serialization, "allow_symlinks", &value) ||
        exg_json_bool(value, &walk->follow_links, NULL) != EXG_OK) {
        return no_bundle(err);
    }
    if (strcmp(hash, "sha256") != 0) {
        return other_kind("the hash", hash, err);
    }
    if (strcmp(method, "shards") == 0) {
        if (!exg_json_find(serialization, "shard_size", &value) || !get_whole(value, &shard)) {
            return no_bundle(err);
        }
        walk->shard = (uint64_t)shard;
    } else if (strcmp(method, "files") != 0) {
        return other_kind("the method", method, err);
    }
    if (exg_json_find(serialization, "ignore_paths", &value) &&
        exg_json_array(value, &list, NULL) == EXG_OK) {
        const char **all =
            EXG_NEW_ARRAY(arena, const char *, ignored->count + exg_json_count(value));

        if (all == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        memcpy(all, ignored->items, ignored->count * sizeof(*all));
        ignored->items = all;
        while (exg_json_next(&list, &value)) {
            EXG_TRY(exg_json_string(value, &name, NULL, err));
            ignored->items[ignored->count++] = name;
        }
    }
    walk->left_out = ignored->items;
    walk->left_out_count = ignored->count;
    return EXG_OK;
}

typedef struct comparison {
    exg_name_list changed, missing, added;
    const char *algorithm; /* of every hash */
    const exg_manifest *manifest;
    exg_map names; /* of the manifest */
    bool *seen;
    exg_message_digest digest;
    uint32_t count;
} comparison;

static exg_status compare_resource(comparison *c, exg_json resource, exg_error *err)
{
    const char *name = find_text(resource, "name");
    const char *digits = find_text(resource, "digest");
    const char *algorithm = find_text(resource, "algorithm");
    uint8_t wanted[EXG_SHA256_BYTES];
    uint32_t index;

    if (name == NULL || digits == NULL || algorithm == NULL ||
        strcmp(algorithm, c->algorithm) != 0 || !exg_hex_get(digits, wanted, EXG_SHA256_BYTES)) {
        return no_bundle(err);
    }
    exg_message_digest_add(&c->digest, wanted, EXG_SHA256_BYTES);
    c->count++;
    index = exg_map_find(&c->names, name);
    if (index == EXG_MAP_NONE) {
        exg_name_list_add(&c->missing, name);
    } else if (c->seen[index]) {
        return no_bundle(err);
    } else {
        c->seen[index] = true;
        if (memcmp(wanted, c->manifest->items[index].sha256, sizeof(wanted)) != 0) {
            exg_name_list_add(&c->changed, strcmp(name, ".") == 0 ? "the file" : name);
        }
    }
    return EXG_OK;
}

static exg_status tell_difference(const comparison *c, exg_error *err)
{
    const struct {
        const char *what;
        const exg_name_list *names;
    } lists[] = {{"changed", &c->changed}, {"missing", &c->missing}, {"added", &c->added}};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;

    for (size_t i = 0; i < 3; i++) {
        if (lists[i].names->count > 0) {
            exg_text_printf(&text, "%s%u %s: ", text.length == 0 ? "" : "; ", lists[i].names->count,
                            lists[i].what);
            exg_text_puts(&text, exg_text_part(&text, &lists[i].names->text));
        }
    }
    if (text.length > 0) {
        status = exg_text_string(&text) == NULL
                     ? EXG_OUT_OF_MEMORY(err)
                     : EXG_FAIL(err, MISMATCH, "SGN-FILES", "not as it was signed: %s", text.data);
    }
    exg_text_free(&text);
    return status;
}

static exg_status compare_all(comparison *c, exg_json predicate, const char *root, exg_signed *of,
                              exg_error *err)
{
    exg_json_walk walk;
    exg_json value;

    if (!exg_json_find(predicate, "resources", &value) ||
        exg_json_array(value, &walk, NULL) != EXG_OK) {
        return no_bundle(err);
    }
    exg_message_digest_begin(&c->digest, EXG_CHECKSUM_SHA256);
    while (exg_json_next(&walk, &value)) {
        EXG_TRY(compare_resource(c, value, err));
    }
    exg_message_digest_finish(&c->digest, of->sha256);
    of->file_count = c->count;
    if (root == NULL || strcmp(root, of->sha256) != 0) {
        return no_bundle(err);
    }
    for (uint32_t i = 0; i < c->manifest->count; i++) {
        if (!c->seen[i]) {
            exg_name_list_add(&c->added, c->manifest->items[i].name);
        }
    }
    return tell_difference(c, err);
}

static exg_status compare_manifest(const exg_manifest *manifest, uint64_t shard, exg_json predicate,
                                   const char *root, exg_signed *of, exg_error *err)
{
    comparison c = {.changed = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                    .missing = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                    .added = EXG_NAME_LIST_EMPTY(LISTED_BYTES),
                    .manifest = manifest};
    exg_status status = EXG_OK;

    c.algorithm =
        shard == 0 ? "sha256" : exg_arena_printf(manifest->arena, "sha256-sharded-%" PRIu64, shard);

    exg_map_init(&c.names, manifest->arena);
    c.seen = EXG_NEW_ARRAY(manifest->arena, bool, manifest->count + 1);
    for (uint32_t i = 0; i < manifest->count && c.seen != NULL; i++) {
        c.seen[i] = false;
        status =
            exg_map_put(&c.names, manifest->items[i].name, i) ? status : EXG_OUT_OF_MEMORY(err);
    }
    status = c.seen == NULL || c.algorithm == NULL ? EXG_OUT_OF_MEMORY(err) : status;
    status = status == EXG_OK ? compare_all(&c, predicate, root, of, err) : status;
    exg_text_free(&c.changed.text);
    exg_text_free(&c.missing.text);
    exg_text_free(&c.added.text);
    return status;
}

/* The digest of the one subject; NULL: there is not one. */
static const char *subject_digest(exg_json statement)
{
    exg_json subjects;
    exg_json subject;
    exg_json digest;
    exg_json_walk walk;

    return exg_json_find(statement, "subject", &subjects) && exg_json_count(subjects) == 1 &&
                   exg_json_array(subjects, &walk, NULL) == EXG_OK &&
                   exg_json_next(&walk, &subject) && exg_json_find(subject, "digest", &digest)
               ? find_text(digest, "sha256")
               : NULL;
}

static exg_status check_statement(exg_json statement, const char *model, name_set *ignored,
                                  uint32_t threads, exg_arena *arena, exg_signed *of,
                                  exg_error *err)
{
    exg_manifest_options walk = {.threads = threads};
    const char *type = find_text(statement, "_type");
    const char *predicate_type = find_text(statement, "predicateType");
    exg_json predicate;
    exg_manifest manifest;
    exg_status status;

    if (type == NULL || strcmp(type, STATEMENT_TYPE) != 0 || predicate_type == NULL ||
        !exg_json_find(statement, "predicate", &predicate)) {
        return no_bundle(err);
    }
    if (strcmp(predicate_type, PREDICATE_TYPE) != 0) {
        return other_kind("the predicate", predicate_type, err);
    }
    EXG_TRY(read_serialization(predicate, arena, ignored, &walk, err));
    status = exg_manifest_make(model, &walk, &manifest, err);
    status = status == EXG_OK ? compare_manifest(&manifest, walk.shard, predicate,
                                                 subject_digest(statement), of, err)
                              : status;
    exg_manifest_free(&manifest);
    return status;
}

static exg_status parse(const void *text, size_t length, exg_json_doc **doc, exg_error *err)
{
    exg_status status = exg_json_parse(text, length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, doc, err);

    return status == EXG_MALFORMED ? no_bundle(err) : status;
}

static exg_status check_signature(const char *model, const char *key, const char *path,
                                  const exg_signing_options *options, exg_arena *arena,
                                  exg_signed *of, exg_error *err)
{
    exg_crypto_bytes payload = {0};
    exg_json_doc *statement = NULL;
    exg_json_doc *bundle = NULL;
    exg_mapping mapping = {0};
    name_set ignored;
    exg_status status;

    EXG_TRY(list_ignored(model, path, arena, &ignored, err));
    EXG_TRY(exg_file_map(path, true, &mapping, err));
    status = parse(mapping.data, (size_t)mapping.length, &bundle, err);
    exg_mapping_release(&mapping);
    status =
        status == EXG_OK ? open_bundle(exg_json_root(bundle), key, arena, &payload, err) : status;
    status = status == EXG_OK ? parse(payload.data, payload.length, &statement, err) : status;
    if (status == EXG_MALFORMED || status == EXG_UNSUPPORTED) {
        status = exg_error_within(err, status, "%s:", path);
    }
    status = status == EXG_OK ? check_statement(exg_json_root(statement), model, &ignored,
                                                options->threads, arena, of, err)
                              : status;
    exg_json_free(statement);
    exg_json_free(bundle);
    return status;
}

exg_status exg_model_check_signature(const char *model, const char *key, const char *path,
                                     const exg_signing_options *given, exg_signed *signed_,
                                     exg_error *err)
{
    EXG_REQUIRE(err, model, key, path);
    return call_with_memory(check_signature, model, key, path, given, signed_, err);
}
