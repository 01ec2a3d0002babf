/* driver.c - see driver.h. */
#include "libexec/device/cuda/driver.h"
#include "libexec/device/cuda/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_ROW(name, symbol, params) {symbol, offsetof(exg_cuda_driver, name)},
#define NVRTC_ROW(name, symbol, params)  {symbol, offsetof(exg_nvrtc, name)},

static const exg_cuda_symbol driver_rows[] = {EXG_CUDA_CALLS(DRIVER_ROW)};
static const exg_cuda_symbol nvrtc_rows[] = {EXG_NVRTC_CALLS(NVRTC_ROW)};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *exg_cuda_find_symbols(void *library, const exg_cuda_symbol *rows, size_t count,
                                  void *calls)
{
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, rows[i].name);

        if (function == NULL) {
            return rows[i].name;
        }
        memcpy((char *)calls + rows[i].offset, &function, sizeof(function));
    }
    return NULL;
}

static exg_status too_old(const char *what, exg_error *err)
{
    exg_status status = EXG_FAIL(err, DEVICE, "DEV-006", "the driver of CUDA is too old: %s", what);

    return exg_error_fix(err, status, "install a driver for CUDA 12 or later (525 or newer)");
}

exg_status exg_cuda_driver_open(exg_cuda_driver *driver, exg_error *err)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays */
    const char *missing;
    char text[96];

    if (library == NULL) {
        exg_status status =
            EXG_FAIL(err, DEVICE, "DEV-003", "the driver of CUDA cannot be loaded: %s", dlerror());

        return exg_error_fix(err, status, "install NVIDIA's driver, or run on another device");
    }
    missing = exg_cuda_find_symbols(library, driver_rows, COUNT(driver_rows), driver);
    if (missing != NULL) {
        (void)snprintf(text, sizeof(text), "it lacks %s", missing);
        return too_old(text, err);
    }
    EXG_TRY(exg_cuda_check(driver, driver->driver_version(&driver->version), "asking its version",
                           err));
    if (driver->version < CUDA_DRIVER_OLDEST) {
        (void)snprintf(text, sizeof(text), "it is for CUDA %d.%d", driver->version / 1000,
                       driver->version % 1000 / 10);
        return too_old(text, err);
    }
    return exg_cuda_check(driver, driver->init(0), "starting the driver", err);
}

bool exg_cuda_library_open(const char *stem, int newest, int oldest, const exg_cuda_symbol *symbols,
                           size_t count, void *calls)
{
    for (int major = newest; major >= oldest; major--) {
        char name[48];
        void *library;

        (void)snprintf(name, sizeof(name), "lib%s.so.%d", stem, major);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays */
        if (library != NULL && exg_cuda_find_symbols(library, symbols, count, calls) == NULL) {
            return true;
        }
    }
    return false;
}

/* Of the driver's CUDA, or the newest that is looked for. */
int exg_cuda_major(const exg_cuda_driver *driver)
{
    int major = driver->version / 1000;

    return major < CUDA_NEWEST ? major : CUDA_NEWEST;
}

exg_status exg_nvrtc_open(const exg_cuda_driver *driver, exg_nvrtc *nvrtc, exg_error *err)
{
    exg_status status;

    if (exg_cuda_library_open("nvrtc", exg_cuda_major(driver), CUDA_OLDEST, nvrtc_rows,
                              COUNT(nvrtc_rows), nvrtc) &&
        nvrtc->version(&nvrtc->major, &nvrtc->minor) == 0) {
        return EXG_OK;
    }
    status = EXG_FAIL(err, DEVICE, "DEV-004",
                      "the compiler of CUDA, NVRTC, is not there for a driver of CUDA %d",
                      driver->version / 1000);
    return exg_error_fix(err, status, "install libnvrtc.so.12 or .13 where the loader finds it");
}

exg_status exg_cuda_check(const exg_cuda_driver *driver, cuda_result result, const char *what,
                          exg_error *err)
{
    const char *name = "an unknown error";
    const char *text = "";

    if (result == CUDA_SUCCESS) {
        return EXG_OK;
    }
    (void)driver->error_name(result, &name);
    (void)driver->error_text(result, &text);
    return EXG_FAIL(err, DEVICE, "DEV-008", "%s failed: %s (%d) %s", what,
                    name == NULL ? "?" : name, result, text == NULL ? "" : text);
}

exg_status exg_cuda_enter(const exg_cuda_device *device, exg_error *err)
{
    return exg_cuda_check(&device->driver, device->driver.context_set(device->context),
                          "entering a device", err);
}
