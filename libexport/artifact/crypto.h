/* crypto.h - the door to OpenSSL: ECDSA over P-256, P-384 and P-521 with SHA-256, SHA-384 and
 * SHA-512, keys as PEM. It is in a library of its own (libexg_crypto.so), which is loaded when
 * asked for.
 */
#ifndef EXG_LIBEXPORT_ARTIFACT_CRYPTO_H
#define EXG_LIBEXPORT_ARTIFACT_CRYPTO_H

#include <exg/status.h>
#include <stddef.h>
#include <stdint.h>

#define EXG_CRYPTO_VERSION       1
#define EXG_CRYPTO_FILE          "libexg_crypto.so"
#define EXG_CRYPTO_SYMBOL        "exg_crypto_table"
#define EXG_CRYPTO_SIGNATURE_MAX 256
#define EXG_CRYPTO_PEM_MAX       1024

typedef enum exg_crypto_outcome {
    EXG_CRYPTO_DONE,
    EXG_CRYPTO_NO_KEY,    /* no such key in PEM, or one with a password */
    EXG_CRYPTO_OTHER_KEY, /* a key of another kind or curve */
    EXG_CRYPTO_MISMATCH,  /* the signature is not of this key and message */
    EXG_CRYPTO_FAILED
} exg_crypto_outcome;

typedef struct exg_crypto_bytes {
    const void *data;
    size_t length;
} exg_crypto_bytes;

typedef struct exg_crypto {
    uint32_t version;
    /* `signature` is DER; `public_pem` is the public half as SubjectPublicKeyInfo, with a NUL. */
    exg_crypto_outcome (*sign)(exg_crypto_bytes private_pem, exg_crypto_bytes message,
                               uint8_t signature[EXG_CRYPTO_SIGNATURE_MAX], size_t *length,
                               char public_pem[EXG_CRYPTO_PEM_MAX]);
    exg_crypto_outcome (*verify)(exg_crypto_bytes public_pem, exg_crypto_bytes message,
                                 exg_crypto_bytes signature);
} exg_crypto;

/* UNSUPPORTED (SGN-LIBRARY) when the library is not there, or of another version. */
exg_status exg_crypto_load(const exg_crypto **crypto, exg_error *err);

#endif
