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

#define TARGETS_MAX 64

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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

/* Of the driver's CUDA, or the newest that is looked for. */
int exg_cuda_major(const exg_cuda_driver *driver)
{
    int major = driver->version / 1000;

    return major < CUDA_NEWEST ? major : CUDA_NEWEST;
}

/* What it compiles for that the device runs: its own code, or that of the newest one before it,
 * which the driver compiles further. 0: none. */
static int target_of(const exg_nvrtc *nvrtc, int capability)
{
    int known[TARGETS_MAX];
    int count = 0;
    int target = 0;

    if (nvrtc->count_architectures(&count) != 0 || count > TARGETS_MAX ||
        nvrtc->architectures(known) != 0) {
        return capability;
    }
    for (int i = 0; i < count; i++) {
        target = known[i] <= capability && known[i] > target ? known[i] : target;
    }
    return target;
}

static bool open_version(int major, int capability, exg_nvrtc *nvrtc)
{
    char builtins[64];

    if (!exg_cuda_library_open("nvrtc", major, major, nvrtc_rows, COUNT(nvrtc_rows), nvrtc) ||
        nvrtc->version(&nvrtc->major, &nvrtc->minor) != 0) {
        return false;
    }
    (void)snprintf(builtins, sizeof(builtins), "libnvrtc-builtins.so.%d.%d", nvrtc->major,
                   nvrtc->minor);
    exg_cuda_library_open_beside(nvrtc, builtins);
    nvrtc->target = target_of(nvrtc, capability);
    return nvrtc->target > 0;
}

exg_status exg_nvrtc_open(const exg_cuda_driver *driver, int capability, exg_nvrtc *nvrtc,
                          exg_error *err)
{
    exg_status status;

    for (int major = exg_cuda_major(driver); major >= CUDA_OLDEST; major--) {
        if (open_version(major, capability, nvrtc)) {
            return EXG_OK;
        }
    }
    status = EXG_FAIL(err, DEVICE, "DEV-004",
                      "the compiler of CUDA, NVRTC, is not there for sm_%d and a driver of CUDA %d",
                      capability, driver->version / 1000);
    return exg_error_fix(err, status, "install CUDA's toolkit %d, or name its folder in CUDA_HOME",
                         exg_cuda_major(driver));
}

/* Faults after which the driver answers every call of the process with the same. */
static bool sticks(cuda_result result)
{
    static const cuda_result codes[] = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721};

    for (size_t i = 0; i < COUNT(codes); i++) {
        if (codes[i] == result) {
            return true;
        }
    }
    return false;
}

static exg_status told(exg_status status, cuda_result result, exg_error *err)
{
    return sticks(result)
               ? exg_error_fix(err, status,
                               "the device is of no more use to this process: start it again; "
                               "compute-sanitizer says which kernel it was")
               : status;
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
    return told(EXG_FAIL(err, DEVICE, "DEV-008", "%s failed: %s (%d) %s", what,
                         name == NULL ? "?" : name, result, text == NULL ? "" : text),
                result, err);
}

exg_status exg_cuda_enter(const exg_cuda_device *device, exg_error *err)
{
    return exg_cuda_check(&device->driver, device->driver.context_set(device->context),
                          "entering a device", err);
}
