/* digest.c - digests of programs and proofs of parts: what is refused, and without memory. That
 * they are right is compared with another implementation: tests/cli/digest.py. */
#include "libexport/artifact/manifest.h"
#include "libexport/weights/merkle.h"
#include "tests/export/exg_folder.h"
#include "tests/export/refusal.h"

#include <exg/bom.h>
#include <exg/digest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_program_digests digests_of(const exg_program *program, exg_checksum_kind kind)
{
    exg_program_digests digests = {.size = sizeof(digests)};
    exg_error err;

    exg_error_clear(&err);
    if (exg_program_digest(program, kind, 0, &digests, &err) != EXG_OK) {
        fail_msg("%s %s", err.code, err.message);
    }
    return digests;
}

/* The tree by its definition, from above. */
static exg_merkle_hash from_above(exg_checksum_kind kind, const exg_merkle_hash *leaves,
                                  uint64_t count)
{
    uint64_t left = 1;
    exg_merkle_hash a;
    exg_merkle_hash b;

    if (count == 1) {
        return leaves[0];
    }
    while (left * 2 < count) {
        left *= 2;
    }
    assert_int_equal(left, exg_merkle_left(count));
    a = from_above(kind, leaves, left);
    b = from_above(kind, leaves + left, count - left);
    return exg_merkle_join(kind, &a, &b);
}

static void test_tree(void **state)
{
    static const exg_checksum_kind kinds[] = {EXG_CHECKSUM_SHA256, EXG_CHECKSUM_XXH3_128};
    exg_merkle_hash leaves[40];

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (uint64_t count = 1; count <= 40; count++) {
            exg_merkle_hash wanted;
            exg_merkle_hash got;

            memset(leaves, 0, sizeof(leaves));
            for (uint64_t i = 0; i < count; i++) {
                leaves[i].bytes[0] = (uint8_t)i;
            }
            wanted = from_above(kinds[k], leaves, count);
            got = exg_merkle_root(kinds[k], leaves, count);
            assert_true(exg_merkle_equal(&wanted, &got));
        }
    }
}

/* XXH3 is of no use against people, but its numbers are those of the public tool: of a block the
 * seed is 0, so it is what `xxh128sum` prints. */
static void test_xxh3_of_a_block(void **state)
{
    const exg_merkle_piece whole[] = {{"abcdefgh", 8}};
    const exg_merkle_piece cut[] = {{"abc", 3}, {"", 0}, {"defgh", 5}};
    char text[EXG_DIGEST_TEXT_MAX];
    exg_merkle_hash a = exg_merkle_hash_of(EXG_CHECKSUM_XXH3_128, EXG_MERKLE_BLOCK, whole, 1);
    exg_merkle_hash b = exg_merkle_hash_of(EXG_CHECKSUM_XXH3_128, EXG_MERKLE_BLOCK, cut, 3);

    (void)state;
    exg_merkle_put(EXG_CHECKSUM_XXH3_128, &a, text);
    assert_string_equal(text, "dac23237af37353342b702b313880f12");
    assert_true(exg_merkle_equal(&a, &b));
    b = exg_merkle_hash_of(EXG_CHECKSUM_XXH3_128, EXG_MERKLE_INNER, whole, 1);
    assert_false(exg_merkle_equal(&a, &b));
}

/* A change of a part changes the digest of that part, and the root. */
static void test_parts(void **state)
{
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_program *tied = open_program("fixtures/tied.pt2");
    const exg_program_digests a = digests_of(program, EXG_CHECKSUM_SHA256);
    const exg_program_digests b = digests_of(tied, EXG_CHECKSUM_SHA256);
    exg_weights *zeros = NULL;
    exg_weights *own = program->weights;
    exg_program_digests stripped;

    (void)state;
    assert_string_not_equal(a.graph, b.graph);
    assert_string_not_equal(a.signature, b.signature);
    assert_string_not_equal(a.root, b.root);
    assert_int_equal(exg_weights_strip(own, &zeros, NULL), EXG_OK);
    program->weights = zeros;
    stripped = digests_of(program, EXG_CHECKSUM_SHA256);
    program->weights = own;
    assert_string_equal(a.graph, stripped.graph);
    assert_string_equal(a.signature, stripped.signature);
    assert_string_equal(a.rest, stripped.rest);
    assert_string_not_equal(a.weights, stripped.weights);
    assert_string_not_equal(a.root, stripped.root);
    exg_weights_release(zeros);
    exg_program_destroy(program);
    exg_program_destroy(tied);
}

static void assert_not_proved(exg_weights *weights, const char *json, const char *root,
                              exg_status status, const char *code)
{
    exg_error err;

    exg_error_clear(&err);
    assert_int_equal(exg_digest_check_proof(json, strlen(json), root, weights, NULL, &err), status);
    assert_string_equal(err.code, code);
}

static void test_proofs(void **state)
{
    exg_program *program = open_program("fixtures/mlp.pt2");
    exg_program *tied = open_program("fixtures/tied.pt2");
    const exg_program_digests digests = digests_of(program, EXG_CHECKSUM_XXH3_128);
    exg_weights *w = program->weights;
    exg_proved proved = {.size = sizeof(proved)};
    char root[EXG_DIGEST_TEXT_MAX + 16];
    char *json = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    snprintf(root, sizeof(root), "xxh3-128:%s", digests.root);
    assert_int_equal(
        exg_digest_prove(w, program, EXG_CHECKSUM_XXH3_128, "up.weight", 2, 4, 1, &json, &err),
        EXG_OK);
    assert_int_equal(exg_digest_check_proof(json, strlen(json), root, w, &proved, &err), EXG_OK);
    assert_string_equal(proved.tensor->fqn, "up.weight");
    assert_int_equal(proved.first, 2);
    assert_int_equal(proved.end, 4);
    assert_not_proved(w, json, "sha256:00", EXG_USAGE, "PRF-KIND");
    assert_not_proved(w, json, "xxh3-128:00000000000000000000000000000000", EXG_MISMATCH,
                      "PRF-ROOT");
    assert_not_proved(tied->weights, json, root, EXG_MISMATCH, "PRF-NAME");
    assert_not_proved(w, "{}", root, EXG_MALFORMED, "PRF-FORM");
    assert_not_proved(w, "[]", root, EXG_MALFORMED, "PRF-FORM");
    for (size_t length = strlen(json) - 1; length > 0; length--) {
        json[length] = '\0';
        assert_int_equal(exg_digest_check_proof(json, length, root, w, NULL, &err), EXG_MALFORMED);
    }
    free(json);
    assert_int_equal(exg_digest_prove(w, NULL, EXG_CHECKSUM_SHA256, "none", 0, 0, 1, &json, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "PRF-NAME");
    assert_int_equal(
        exg_digest_prove(w, NULL, EXG_CHECKSUM_SHA256, "up.weight", 3, 17, 1, &json, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "PRF-ROWS");
    assert_int_equal(exg_digest_prove(w, NULL, EXG_CHECKSUM_MD5, "up.weight", 0, 0, 1, &json, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "WGT-DIGEST");
    exg_program_destroy(program);
    exg_program_destroy(tied);
}

#ifdef REFUSES_MEMORY
static exg_status prove(const char *name, void *user, exg_error *err)
{
    const exg_program *program = user;
    char *json = NULL;
    exg_status status;

    (void)name;
    status = exg_digest_prove(program->weights, program, EXG_CHECKSUM_SHA256, "up.weight", 0, 0, 1,
                              &json, err);
    free(json);
    return status;
}

static exg_status list_files(const char *name, void *user, exg_error *err)
{
    exg_manifest manifest;
    exg_status status =
        exg_manifest_make("fixtures/signed/model",
                          &(exg_manifest_options){.threads = 1, .shard = 20}, &manifest, err);

    (void)name;
    (void)user;
    exg_manifest_free(&manifest);
    return status;
}

static exg_status bill(const char *name, void *user, exg_error *err)
{
    char *json = NULL;
    exg_status status = exg_model_bom("fixtures/mlp.pt2", NULL, 1, &json, err);

    (void)name;
    (void)user;
    free(json);
    return status;
}

static void test_without_memory(void **state)
{
    exg_program *program = open_program("fixtures/mlp.pt2");

    (void)state;
    refuse_each(prove, "prove", program, 1);
    refuse_each(list_files, "files", NULL, 1);
    refuse_each(bill, "bill", NULL, 1);
    exg_program_destroy(program);
}
#else
static void test_without_memory(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),           cmocka_unit_test(test_xxh3_of_a_block),
        cmocka_unit_test(test_parts),          cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_without_memory),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
