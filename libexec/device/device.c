/* device.c - the kinds of devices, and their tables by name. */
#include "libexec/device/device.h"
#include "libexec/kernels/isa.h"
#include "libexport/base/require.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
                             "install exg-plugin-%s, or build and install %s beside the other "
                             "libraries",
                             name, file);
    }
    if ((*table)->version != EXG_DEVICE_TABLE_VERSION) {
        return EXG_FAIL(err, DEVICE, "DEV-002", "%s is of version %u, not %d", file,
                        (*table)->version, EXG_DEVICE_TABLE_VERSION);
    }
    return EXG_OK;
}

static const struct {
    const char *name;
    const exg_device_table *table; /* NULL: the host, or in a library */
    const char *file, *symbol;     /* of the library */
} kinds[] = {
    {"cpu", NULL, NULL, NULL},
    {"cuda", NULL, "libexg_cuda.so", "exg_device_cuda"},
    {"strict", &exg_device_strict, NULL, NULL},
    {"strict-host", &exg_device_strict_host, NULL, NULL},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *exg_device_kind(uint32_t index)
{
    return index < KINDS ? kinds[index].name : NULL;
}

static exg_status no_such(const char *name, exg_error *err)
{
    return exg_error_fix(err, EXG_FAIL(err, USAGE, "DEV-001", "no device '%s'", name),
                         "cpu, strict or cuda; cuda:1 is the second of them");
}

exg_status exg_device_table_find(const char *name, const exg_device_table **table, exg_error *err)
{
    *table = NULL;
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(name, kinds[i].name) == 0 && kinds[i].file != NULL) {
            return load(name, kinds[i].file, kinds[i].symbol, table, err);
        }
        if (strcmp(name, kinds[i].name) == 0 && kinds[i].table != NULL) {
            *table = kinds[i].table;
            return EXG_OK;
        }
    }
    return no_such(name, err);
}

exg_status exg_device_count(const char *kind, uint32_t *count, exg_error *err)
{
    EXG_REQUIRE(err, kind, count);
    const exg_device_table *table;

    *count = 1;
    if (strcmp(kind, exg_device_kind(0)) == 0) {
        return EXG_OK;
    }
    *count = 0;
    EXG_TRY(exg_device_table_find(kind, &table, err));
    return table->count(count, err);
}

/* Cores, as a device's name says what it is. */
static void describe_host(exg_device_info *info)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES);
    long free_pages = sysconf(_SC_AVPHYS_PAGES);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    snprintf(info->name, sizeof(info->name), "%ld core%s", cores, cores == 1 ? "" : "s");
    snprintf(info->architecture, sizeof(info->architecture), "%s", exg_isa_name(exg_isa_current()));
    info->memory_bytes = pages > 0 ? (uint64_t)pages * page : 0;
    info->free_bytes = free_pages > 0 ? (uint64_t)free_pages * page : 0;
}

exg_status exg_device_describe(const char *kind, uint32_t index, exg_device_info **info,
                               exg_error *err)
{
    EXG_REQUIRE(err, kind, info);
    const exg_device_table *table = NULL;
    exg_status status = EXG_OK;
    uint32_t count;

    *info = NULL;
    EXG_TRY(exg_device_count(kind, &count, err));
    if (index >= count) {
        return EXG_FAIL(err, USAGE, "DEV-001", "no device '%s:%u': there are %u", kind, index,
                        count);
    }
    if (strcmp(kind, exg_device_kind(0)) != 0) {
        EXG_TRY(exg_device_table_find(kind, &table, err));
    }
    *info = calloc(1, sizeof(**info));
    if (*info == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    (*info)->size = sizeof(**info);
    if (table == NULL) {
        describe_host(*info);
    } else {
        status = table->describe(index, *info, err);
    }
    if (status != EXG_OK) {
        free(*info);
        *info = NULL;
    }
    return status;
}

/* ---- what the host's kernels run by ------------------------------------------------------ */

const char *exg_isa_level(uint32_t index)
{
    for (int isa = 0; isa < EXG_ISA_COUNT; isa++) {
        if (exg_isa_has((exg_isa)isa) && index-- == 0) {
            return exg_isa_name((exg_isa)isa);
        }
    }
    return NULL;
}

static exg_status no_such_level(const char *level, exg_error *err)
{
    char levels[64] = "";
    const char *name;

    for (uint32_t i = 0; (name = exg_isa_level(i)) != NULL; i++) {
        snprintf(levels + strlen(levels), sizeof(levels) - strlen(levels), "%s%s",
                 i > 0 ? ", " : "", name);
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, USAGE, "DEV-013",
                                  "this processor and build have no instruction-set level '%s'",
                                  level),
                         "they have %s", levels);
}

exg_status exg_isa_choose(const char *level, exg_error *err)
{
    EXG_REQUIRE(err, level);
    int isa = 0;
    exg_isa in_force;

    while (isa < EXG_ISA_COUNT &&
           (!exg_isa_has((exg_isa)isa) || strcmp(exg_isa_name((exg_isa)isa), level) != 0)) {
        isa++;
    }
    if (isa == EXG_ISA_COUNT) {
        return no_such_level(level, err);
    }
    in_force = exg_isa_decide((exg_isa)isa);
    if (in_force != (exg_isa)isa) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "DEV-014",
                                      "instruction-set level %s is in force, not '%s'",
                                      exg_isa_name(in_force), level),
                             "choose before anything is planned");
    }
    return EXG_OK;
}
