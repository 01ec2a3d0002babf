/* crypto_plugin.c - the one file that knows OpenSSL: a library of its own, loaded when something is
 * signed, or a signature is looked at.
 */
#include "libexport/artifact/crypto.h"

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <string.h>

/* Nobody is asked for a password. */
static int no_password(char *text, int room, int is_written, void *user)
{
    (void)text;
    (void)room;
    (void)is_written;
    (void)user;
    return -1;
}

static EVP_PKEY *read_key(exg_crypto_bytes pem, bool is_private)
{
    BIO *bio = pem.length > INT_MAX ? NULL : BIO_new_mem_buf(pem.data, (int)pem.length);
    EVP_PKEY *key = NULL;

    if (bio != NULL) {
        key = (is_private ? PEM_read_bio_PrivateKey : PEM_read_bio_PUBKEY)(bio, NULL, no_password,
                                                                           NULL);
    }
    BIO_free(bio);
    return key;
}

/* Of a key that was not read: was it for want of memory? */
static exg_crypto_outcome no_key(void)
{
    return ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE ? EXG_CRYPTO_FAILED
                                                                         : EXG_CRYPTO_NO_KEY;
}

/* The hash that goes with the curve; NULL: another key. */
static const EVP_MD *hash_of(const EVP_PKEY *key)
{
    static const struct {
        const char *curve;
        const EVP_MD *(*hash)(void);
    } curves[] = {{"prime256v1", EVP_sha256}, {"secp384r1", EVP_sha384}, {"secp521r1", EVP_sha512}};
    char name[32];
    size_t length = 0;

    if (EVP_PKEY_get_group_name(key, name, sizeof(name), &length) != 1) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
        if (strcmp(name, curves[i].curve) == 0) {
            return curves[i].hash();
        }
    }
    return NULL;
}

static bool write_public(EVP_PKEY *key, char text[EXG_CRYPTO_PEM_MAX])
{
    BIO *bio = BIO_new(BIO_s_mem());
    bool written = false;
    char *data;
    long length;

    if (bio != NULL && PEM_write_bio_PUBKEY(bio, key) == 1) {
        length = BIO_get_mem_data(bio, &data);
        written = length > 0 && length < EXG_CRYPTO_PEM_MAX;
        if (written) {
            memcpy(text, data, (size_t)length);
            text[length] = '\0';
        }
    }
    BIO_free(bio);
    return written;
}

static exg_crypto_outcome sign_by(EVP_PKEY *key, exg_crypto_bytes message, uint8_t *signature,
                                  size_t *length, char *public_pem)
{
    const EVP_MD *hash = hash_of(key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    exg_crypto_outcome outcome = hash == NULL ? EXG_CRYPTO_OTHER_KEY : EXG_CRYPTO_FAILED;

    *length = EXG_CRYPTO_SIGNATURE_MAX;
    if (context != NULL && hash != NULL && write_public(key, public_pem) &&
        EVP_DigestSignInit(context, NULL, hash, NULL, key) == 1 &&
        EVP_DigestSign(context, signature, length, message.data, message.length) == 1) {
        outcome = EXG_CRYPTO_DONE;
    }
    EVP_MD_CTX_free(context);
    return outcome;
}

static exg_crypto_outcome sign(exg_crypto_bytes private_pem, exg_crypto_bytes message,
                               uint8_t signature[EXG_CRYPTO_SIGNATURE_MAX], size_t *length,
                               char public_pem[EXG_CRYPTO_PEM_MAX])
{
    ERR_clear_error();
    EVP_PKEY *key = read_key(private_pem, true);
    exg_crypto_outcome outcome =
        key == NULL ? no_key() : sign_by(key, message, signature, length, public_pem);

    EVP_PKEY_free(key);
    ERR_clear_error();
    return outcome;
}

static exg_crypto_outcome verify_by(EVP_PKEY *key, exg_crypto_bytes message,
                                    exg_crypto_bytes signature)
{
    const EVP_MD *hash = hash_of(key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    exg_crypto_outcome outcome = hash == NULL ? EXG_CRYPTO_OTHER_KEY : EXG_CRYPTO_FAILED;

    if (context != NULL && hash != NULL &&
        EVP_DigestVerifyInit(context, NULL, hash, NULL, key) == 1) {
        outcome = EVP_DigestVerify(context, signature.data, signature.length, message.data,
                                   message.length) == 1
                      ? EXG_CRYPTO_DONE
                      : EXG_CRYPTO_MISMATCH;
    }
    EVP_MD_CTX_free(context);
    return outcome;
}

static exg_crypto_outcome verify(exg_crypto_bytes public_pem, exg_crypto_bytes message,
                                 exg_crypto_bytes signature)
{
    ERR_clear_error();
    EVP_PKEY *key = read_key(public_pem, false);
    exg_crypto_outcome outcome = key == NULL ? no_key() : verify_by(key, message, signature);

    EVP_PKEY_free(key);
    ERR_clear_error();
    return outcome;
}

extern const exg_crypto exg_crypto_table;

__attribute__((visibility("default")))
const exg_crypto exg_crypto_table = {EXG_CRYPTO_VERSION, sign, verify};
