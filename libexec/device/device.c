/* device.c - finds a device's table by its name. */
#include "libexec/device/device.h"

#include <dlfcn.h>
#include <string.h>

#define CUDA_FILE   "libexg_cuda.so"
#define CUDA_SYMBOL "exg_device_cuda"

static exg_status load(const char *name, const char *file, const char *symbol,
                       const exg_device_table **table, exg_error *err)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL); /* stays: its kernels are used */
    const char *why = library == NULL ? dlerror() : NULL;

    *table = library == NULL ? NULL : dlsym(library, symbol);
    if (*table == NULL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, DEVICE, "DEV-002", "device %s: %s", name,
                                      why == NULL ? "the library has no such table" : why),
                             "build and install %s beside the other libraries", file);
    }
    if ((*table)->version != EXG_DEVICE_TABLE_VERSION) {
        return EXG_FAIL(err, DEVICE, "DEV-002", "%s is of version %u, not %d", file,
                        (*table)->version, EXG_DEVICE_TABLE_VERSION);
    }
    return EXG_OK;
}

exg_status exg_device_table_find(const char *name, const exg_device_table **table, exg_error *err)
{
    static const exg_device_table *const here[] = {&exg_device_strict, &exg_device_strict_host};

    *table = NULL;
    for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++) {
        if (strcmp(name, here[i]->name) == 0) {
            *table = here[i];
            return EXG_OK;
        }
    }
    if (strcmp(name, "cuda") == 0) {
        return load(name, CUDA_FILE, CUDA_SYMBOL, table, err);
    }
    return exg_error_fix(err, EXG_FAIL(err, USAGE, "DEV-001", "no device '%s'", name),
                         "cpu, strict or cuda; cuda:1 is the second of them");
}
