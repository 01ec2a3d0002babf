/* signing.h - signatures of models, in the form of OpenSSF Model Signing.
 *
 * Every file of a model (a folder, or one file) is hashed; the list of hashes is an in-toto
 * statement (predicate https://model_signing/signature/v1.0) in a DSSE envelope in a Sigstore
 * bundle, as `model_signing sign key` writes it and `model_signing verify key` takes it. Left out
 * are the signature itself, .git, .gitattributes, .github and .gitignore. Keys are elliptic curve
 * keys in PEM files: P-256, P-384 or P-521. Cryptography is OpenSSL's, in a library of its own,
 * which is loaded by these calls alone; a build without it says so (UNSUPPORTED SGN-LIBRARY). A
 * signature is of bytes: a conversion needs another one. exg/digest.h has digests that stay.
 * Threads: calls share nothing.
 */
#ifndef EXG_SIGNING_H
#define EXG_SIGNING_H

#include <exg/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_signing_options {
    size_t size;       /* sizeof(exg_signing_options) */
    uint32_t threads;  /* 0: every core */
    bool follow_links; /* links to files are signed as what they lead to; else a model with links is
                          refused. What is looked at is as its signature says. */
} exg_signing_options;

/* What was signed. The caller sets `size`. */
typedef struct exg_signed {
    size_t size; /* sizeof(exg_signed); then: how much of it was filled */
    uint32_t file_count;
    char sha256[65]; /* over the hashes of all files: the subject's digest */
} exg_signed;

/* Signs `model` with the private key in the file `key`, and writes the bundle to `path`,
 * atomically. `options` and `signed_` may be NULL. USAGE (SGN-KEY: no such key, or one with a
 * password), UNSUPPORTED (SGN-LIBRARY; SGN-LINK: links; SGN-NAME: a name that is not UTF-8), IO. */
EXG_NODISCARD exg_status exg_model_sign(const char *model, const char *key, const char *path,
                                        const exg_signing_options *options, exg_signed *signed_,
                                        exg_error *err);

/* Is the model as it was signed, by the private half of the public key in the file `key`? All files
 * that were changed, are missing or were added are told in the message, as far as there is room.
 * MISMATCH (SGN-BAD: not signed by this key; SGN-FILES: the files differ), MALFORMED (SGN-FORM: no
 * bundle), UNSUPPORTED (SGN-KIND: signed in another way), and as above. */
EXG_NODISCARD exg_status exg_model_check_signature(const char *model, const char *key,
                                                   const char *path,
                                                   const exg_signing_options *options,
                                                   exg_signed *signed_, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
