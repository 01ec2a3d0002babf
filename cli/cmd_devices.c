/* cmd_devices.c - exg devices: what programs can run on, kind by kind. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)

/* The levels of instructions that the host has. */
static void put_levels(exg_text *text)
{
    const char *level;

    for (uint32_t i = 0; (level = exg_isa_level(i)) != NULL; i++) {
        exg_text_printf(text, "%s%s", i > 0 ? ", " : "", level);
    }
}

static bool is_host(const char *kind)
{
    return strcmp(kind, exg_device_kind(0)) == 0;
}

/* Behind a line of them. */
static const char *next_file(const char *file)
{
    file += strcspn(file, "\n");
    return file + (*file == '\n');
}

static void put_device_json(exg_text *text, const char *kind, uint32_t index,
                            const exg_device_info *info)
{
    const char *level;

    exg_json_put_open(text, '{');
    exg_json_member_text(text, "kind", kind);
    exg_json_member_uint(text, "index", index);
    exg_json_member_text(text, "name", info->name);
    exg_json_member_text(text, "architecture", info->architecture);
    exg_json_member_uint(text, "memory_bytes", info->memory_bytes);
    exg_json_member_uint(text, "free_bytes", info->free_bytes);
    exg_json_member_text(text, "libraries", info->libraries);
    exg_json_member_text(text, "collectives", info->collectives);
    exg_json_member_open(text, "files", '[');
    for (const char *file = info->files; *file != '\0'; file = next_file(file)) {
        char path[sizeof(info->files)];

        snprintf(path, sizeof(path), "%.*s", (int)strcspn(file, "\n"), file);
        exg_json_put_text(text, path);
    }
    exg_json_put_close(text, ']');
    if (is_host(kind)) {
        exg_json_member_open(text, "levels", '[');
        for (uint32_t i = 0; (level = exg_isa_level(i)) != NULL; i++) {
            exg_json_put_text(text, level);
        }
        exg_json_put_close(text, ']');
    }
    exg_json_put_close(text, '}');
}

static void put_device(exg_text *text, const char *kind, uint32_t index,
                       const exg_device_info *info)
{
    exg_text_printf(text, "%-11s %2u  %s", kind, index, info->name);
    if (info->architecture[0] != '\0') {
        exg_text_printf(text, ", %s", info->architecture);
    }
    if (is_host(kind)) {
        exg_text_puts(text, " (of ");
        put_levels(text);
        exg_text_putc(text, ')');
    }
    if (info->memory_bytes > 0) {
        exg_text_printf(text, ", %.1f GiB, %.1f free", (double)info->memory_bytes / GIB,
                        (double)info->free_bytes / GIB);
    }
    if (info->libraries[0] != '\0') {
        exg_text_printf(text, ", %s", info->libraries);
    }
    if (info->collectives[0] != '\0') {
        exg_text_printf(text, ", %s", info->collectives);
    }
    exg_text_putc(text, '\n');
    for (const char *file = info->files; *file != '\0'; file = next_file(file)) {
        exg_text_printf(text, "                 %.*s\n", (int)strcspn(file, "\n"), file);
    }
}

/* A kind that cannot be had is no fault of the command's. */
static void put_missing(exg_text *text, bool json, const char *kind, const exg_error *err)
{
    if (json) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "kind", kind);
        exg_json_member_text(text, "code", err->code);
        exg_json_member_text(text, "missing", err->message);
        exg_json_member_text(text, "fix", err->fix);
        exg_json_put_close(text, '}');
        return;
    }
    exg_text_printf(text, "%-11s  -  %s: ", kind, err->code);
    exg_text_plain(text, err->message, false);
    if (err->fix[0] != '\0') {
        exg_text_puts(text, "\n                 fix: ");
        exg_text_plain(text, err->fix, false);
    }
    exg_text_putc(text, '\n');
}

/* Of stand-ins, which are all alike, the first. */
static void put_kind(exg_text *text, bool json, const char *kind)
{
    uint32_t count = 0;
    exg_device_info *info = NULL;
    bool is_stand_in = false;
    exg_error err;

    exg_error_clear(&err);
    if (exg_device_count(kind, &count, &err) != EXG_OK) {
        put_missing(text, json, kind, &err);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (exg_device_describe(kind, i, &info, &err) != EXG_OK) {
            put_missing(text, json, kind, &err);
            return;
        }
        if (!is_stand_in) {
            (json ? put_device_json : put_device)(text, kind, i, info);
        }
        is_stand_in = info->memory_bytes == 0;
        free(info);
    }
}

exg_status cmd_devices(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (call->json) {
        cli_json_begin(&text);
        exg_json_member_open(&text, "devices", '[');
    }
    for (uint32_t k = 0; exg_device_kind(k) != NULL; k++) {
        put_kind(&text, call->json, exg_device_kind(k));
    }
    if (call->json) {
        exg_json_put_close(&text, ']');
        cli_json_end(&text);
    }
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    return status;
}
