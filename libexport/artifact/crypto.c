/* crypto.c - finds the library that knows OpenSSL. */
#include "libexport/artifact/crypto.h"

#include <dlfcn.h>

exg_status exg_crypto_load(const exg_crypto **crypto, exg_error *err)
{
    void *library = dlopen(EXG_CRYPTO_FILE, RTLD_NOW | RTLD_LOCAL); /* stays: OpenSSL does */

    *crypto = library == NULL ? NULL : dlsym(library, EXG_CRYPTO_SYMBOL);
    if (*crypto == NULL || (*crypto)->version != EXG_CRYPTO_VERSION) {
        exg_status status =
            EXG_FAIL(err, UNSUPPORTED, "SGN-LIBRARY",
                     "signatures need libcrypto of OpenSSL 3, which cannot be loaded");

        return exg_error_fix(
            err, status, "install exg-plugin-crypto, or build exg where libssl-dev is installed");
    }
    return EXG_OK;
}
