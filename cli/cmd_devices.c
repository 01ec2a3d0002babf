/* cmd_devices.c - exg devices: what programs can run on, kind by kind. */
#include "cli/cli.h"
#include "libexport/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024.0 * 1024 * 1024)

/* The levels of instructions that the host has. */
static void put_levels(exg_text *text, bool json)
{
    const char *level;

    for (uint32_t i = 0; (level = exg_isa_level(i)) != NULL; i++) {
        exg_text_printf(text, json ? "%s\"%s\"" : "%s%s", i > 0 ? ", " : "", level);
    }
}

static void put_device(exg_text *text, bool json, const char *kind, uint32_t index,
                       const exg_device_info *info)
{
    if (json) {
        exg_text_puts(text, "{\"kind\": ");
        exg_text_json_string(text, kind);
        exg_text_printf(text, ", \"index\": %u, \"name\": ", index);
        exg_text_json_string(text, info->name);
        exg_text_puts(text, ", \"architecture\": ");
        exg_text_json_string(text, info->architecture);
        exg_text_printf(
            text, ", \"memory_bytes\": %" PRIu64 ", \"free_bytes\": %" PRIu64 ", \"libraries\": ",
            info->memory_bytes, info->free_bytes);
        exg_text_json_string(text, info->libraries);
        exg_text_puts(text, ", \"collectives\": ");
        exg_text_json_string(text, info->collectives);
        if (strcmp(kind, exg_device_kind(0)) == 0) {
            exg_text_puts(text, ", \"levels\": [");
            put_levels(text, json);
            exg_text_putc(text, ']');
        }
        exg_text_putc(text, '}');
        return;
    }
    exg_text_printf(text, "%-11s %2u  %s", kind, index, info->name);
    if (info->architecture[0] != '\0') {
        exg_text_printf(text, ", %s", info->architecture);
    }
    if (strcmp(kind, exg_device_kind(0)) == 0) {
        exg_text_puts(text, " (of ");
        put_levels(text, json);
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
}

/* A kind that cannot be had is no fault of the command's. */
static void put_missing(exg_text *text, bool json, const char *kind, const exg_error *err)
{
    if (json) {
        exg_text_puts(text, "{\"kind\": ");
        exg_text_json_string(text, kind);
        exg_text_puts(text, ", \"code\": ");
        exg_text_json_string(text, err->code);
        exg_text_puts(text, ", \"missing\": ");
        exg_text_json_string(text, err->message);
        exg_text_puts(text, ", \"fix\": ");
        exg_text_json_string(text, err->fix);
        exg_text_puts(text, "}");
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
            exg_text_puts(text, json && i > 0 ? ", " : "");
            put_missing(text, json, kind, &err);
            return;
        }
        if (!is_stand_in) {
            exg_text_puts(text, json && i > 0 ? ", " : "");
            put_device(text, json, kind, i, info);
        }
        is_stand_in = info->memory_bytes == 0;
        free(info);
    }
}

exg_status cmd_devices(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    exg_text_puts(&text, call->json ? "{\"devices\": [" : "");
    for (uint32_t k = 0; exg_device_kind(k) != NULL; k++) {
        exg_text_puts(&text, call->json && k > 0 ? ", " : "");
        put_kind(&text, call->json, exg_device_kind(k));
    }
    exg_text_puts(&text, call->json ? "]}\n" : "");
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    return status;
}
