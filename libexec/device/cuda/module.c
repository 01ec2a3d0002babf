/* module.c - texts become code: looked for among the device's modules, then on disk, then
 * compiled. The key says all that the code depends on: every text that may be included, the
 * program, the options, the compiler's version and the architecture.
 */
#include "libexec/device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define OPTIONS_MAX   32
#define OPTIONS_BYTES 600

const char *exg_cuda_text_find(const char *name)
{
    for (uint32_t i = 0; i < exg_cuda_text_count; i++) {
        if (strcmp(exg_cuda_texts[i].name, name) == 0) {
            return exg_cuda_texts[i].text;
        }
    }
    return NULL;
}

static void add_to_key(XXH3_state_t *state, const char *text)
{
    (void)XXH3_128bits_update(state, text, strlen(text) + 1);
}

static void end_key(XXH3_state_t *state, uint64_t key[2])
{
    XXH128_hash_t hash = XXH3_128bits_digest(state);

    key[0] = hash.low64;
    key[1] = hash.high64;
}

/* Of all texts, once a device. */
static void add_texts(exg_cuda_device *d, XXH3_state_t *state)
{
    if (!d->has_texts_key) {
        (void)XXH3_128bits_reset(state);
        for (uint32_t i = 0; i < exg_cuda_text_count; i++) {
            add_to_key(state, exg_cuda_texts[i].name);
            add_to_key(state, exg_cuda_texts[i].text);
        }
        end_key(state, d->texts_key);
        d->has_texts_key = true;
    }
    (void)XXH3_128bits_reset(state);
    (void)XXH3_128bits_update(state, d->texts_key, sizeof(d->texts_key));
}

static bool key_of(exg_cuda_device *d, const char *text, const char *options, uint64_t key[2])
{
    XXH3_state_t *state = XXH3_createState();
    int version[] = {d->nvrtc.major, d->nvrtc.minor};

    if (state == NULL) {
        return false;
    }
    add_texts(d, state);
    add_to_key(state, text);
    add_to_key(state, options);
    add_to_key(state, d->architecture);
    (void)XXH3_128bits_update(state, version, sizeof(version));
    end_key(state, key);
    (void)XXH3_freeState(state);
    return true;
}

/* What of the compiler's log a person needs first. */
static exg_status tell_log(const exg_nvrtc *nvrtc, nvrtc_program program, const char *entry,
                           exg_error *err)
{
    size_t bytes = 0;
    char *log = NULL;
    const char *first = "it left no log";
    exg_status status;

    if (nvrtc->log_bytes(program, &bytes) == 0 && bytes > 1) {
        log = calloc(bytes + 1, 1);
        if (log != NULL && nvrtc->log(program, log) == 0) {
            first = strstr(log, "error");
            first = first == NULL ? log : first;
        }
    }
    status = EXG_FAIL(err, DEVICE, "DEV-007", "NVRTC %d.%d does not compile the kernel %s: %.240s",
                      nvrtc->major, nvrtc->minor, entry, first);
    free(log);
    return exg_error_fix(err, status, "this is a fault of exg, or the compiler is too old");
}

/* Splits at blanks, in place. */
static int split(char *options, const char **list, int count)
{
    char *rest = NULL;

    for (char *o = strtok_r(options, " ", &rest); o != NULL && count < OPTIONS_MAX;
         o = strtok_r(NULL, " ", &rest)) {
        list[count++] = o;
    }
    return count;
}

static exg_status fetch_code(const exg_cuda_device *d, nvrtc_program program, void **code,
                             size_t *bytes, exg_error *err)
{
    const exg_nvrtc *nvrtc = &d->nvrtc;
    bool is_ptx = nvrtc->target != d->capability; /* a text, with its end */

    if ((is_ptx ? nvrtc->ptx_bytes : nvrtc->cubin_bytes)(program, bytes) != 0 || *bytes == 0) {
        return EXG_FAIL(err, DEVICE, "DEV-007", "NVRTC gives no code");
    }
    *code = malloc(*bytes);
    if (*code == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return (is_ptx ? nvrtc->ptx : nvrtc->cubin)(program, *code) == 0
               ? EXG_OK
               : EXG_FAIL(err, DEVICE, "DEV-007", "NVRTC gives no code");
}

static exg_status compile(const exg_cuda_device *d, const char *text, const char *options,
                          const char *entry, void **code, size_t *bytes, exg_error *err)
{
    const exg_nvrtc *nvrtc = &d->nvrtc;
    const char **names = calloc(exg_cuda_text_count, 2 * sizeof(*names));
    char *own = strdup(options);
    const char *list[OPTIONS_MAX] = {"--device-as-default-execution-space", "--fmad=false",
                                     "-D__FMA__"};
    char architecture[48];
    nvrtc_program program = NULL;
    exg_status status = EXG_OK;
    int count;

    (void)snprintf(architecture, sizeof(architecture), "--gpu-architecture=%s", d->architecture);
    list[3] = architecture;
    if (names == NULL || own == NULL) {
        free(names);
        free(own);
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < exg_cuda_text_count; i++) {
        names[i] = exg_cuda_texts[i].text;
        names[exg_cuda_text_count + i] = exg_cuda_texts[i].name;
    }
    count = split(own, list, 4);
    if (nvrtc->create(&program, text, entry, (int)exg_cuda_text_count, names,
                      names + exg_cuda_text_count) != 0) {
        status = EXG_FAIL(err, DEVICE, "DEV-007", "NVRTC does not take the kernel %s", entry);
    } else if (nvrtc->compile(program, count, list) != 0) {
        status = tell_log(nvrtc, program, entry, err);
    } else {
        status = fetch_code(d, program, code, bytes, err);
    }
    if (program != NULL) {
        (void)nvrtc->destroy(&program);
    }
    free(names);
    free(own);
    return status;
}

static exg_status load(exg_cuda_device *d, const uint64_t key[2], const void *code,
                       exg_cuda_module **module, exg_error *err)
{
    if (d->module_count == d->module_capacity) {
        uint32_t capacity = d->module_capacity == 0 ? 32 : 2 * d->module_capacity;
        exg_cuda_module *grown = realloc(d->modules, capacity * sizeof(*grown));

        if (grown == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        d->modules = grown;
        d->module_capacity = capacity;
    }
    *module = &d->modules[d->module_count];
    **module = (exg_cuda_module){.text = NULL};
    (*module)->key[0] = key[0];
    (*module)->key[1] = key[1];
    EXG_TRY(exg_cuda_check(&d->driver, d->driver.module_load(&(*module)->module, code),
                           "loading a kernel", err));
    d->module_count++;
    return EXG_OK;
}

/* A module that was not loaded before. */
static exg_status make(exg_cuda_device *d, const uint64_t key[2], const char *text,
                       const char *options, const char *entry, exg_cuda_module **module,
                       exg_error *err)
{
    void *code = NULL;
    size_t bytes = 0;
    exg_status status = EXG_OK;

    if (!exg_cuda_cache_find(key, &code, &bytes)) {
        status = compile(d, text, options, entry, &code, &bytes, err);
        if (status == EXG_OK) {
            exg_cuda_cache_keep(key, code, bytes);
        }
    }
    if (status == EXG_OK) {
        status = load(d, key, code, module, err);
    }
    free(code);
    return status;
}

/* To compile it otherwise: of the first kernel that was asked for, mostly the only one. */
static void keep_source(exg_cuda_module *module, cuda_function function, const char *text,
                        const char *options, const char *entry)
{
    if (module->function == NULL) {
        module->function = function;
        module->text = strdup(text);
        module->options = strdup(options);
        (void)snprintf(module->entry, sizeof(module->entry), "%s", entry);
    }
}

exg_status exg_cuda_compile(exg_cuda_device *device, const char *text, const char *options,
                            const char *entry, cuda_function *function, exg_error *err)
{
    exg_cuda_module *module = NULL;
    uint64_t key[2];

    if (!key_of(device, text, options, key)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_cuda_enter(device, err));
    for (uint32_t i = 0; i < device->module_count && module == NULL; i++) {
        if (device->modules[i].key[0] == key[0] && device->modules[i].key[1] == key[1]) {
            module = &device->modules[i];
        }
    }
    if (module == NULL) {
        EXG_TRY(make(device, key, text, options, entry, &module, err));
    }
    if (module->function != NULL && strcmp(module->entry, entry) == 0) {
        *function = module->function;
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_check(&device->driver,
                           device->driver.module_function(function, module->module, entry),
                           "finding a kernel", err));
    keep_source(module, *function, text, options, entry);
    return EXG_OK;
}

bool exg_cuda_compile_paired(exg_cuda_device *device, cuda_function function, cuda_function *paired)
{
    const exg_cuda_module *module = NULL;
    char options[OPTIONS_BYTES];
    int length;

    for (uint32_t i = 0; i < device->module_count && module == NULL; i++) {
        module = device->modules[i].function == function ? &device->modules[i] : NULL;
    }
    if (module == NULL || module->text == NULL || module->options == NULL) {
        return false;
    }
    length = snprintf(options, sizeof(options), "%s -DPAIRED", module->options);
    return length > 0 && length < OPTIONS_BYTES &&
           exg_cuda_compile(device, module->text, options, module->entry, paired, NULL) == EXG_OK;
}
