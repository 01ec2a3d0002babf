/* cmd_store.c - exg store: model files in a folder, what they have in common once. */
#include "cli/cli.h"

#include <exg/store.h>
#include <inttypes.h>
#include <string.h>

/* Words behind the store. */
typedef struct words {
    const char *const *items;
    uint32_t count;
} words;

static const char *name_of(const cli_call *call, const char *path)
{
    const char *slash = strrchr(path, '/');
    const bool is_plain = path[0] != '/' && strstr(path, "./") == NULL;

    return call->as != NULL ? call->as : is_plain || slash == NULL ? path : slash + 1;
}

static exg_status add(const cli_call *call, exg_store *store, words files, exg_text *text,
                      exg_error *err)
{
    if (call->as != NULL && files.count > 1) {
        return EXG_FAIL(err, USAGE, "CLI-004", "--as names one file, and there are %u",
                        files.count);
    }
    if (call->json) {
        exg_json_member_open(text, "added", '[');
    }
    for (uint32_t i = 0; i < files.count; i++) {
        const char *name = name_of(call, files.items[i]);
        exg_store_change change = {.size = sizeof(change)};

        EXG_TRY(exg_store_add(store, name, files.items[i], (uint32_t)call->threads, &change, err));
        if (call->json) {
            exg_json_put_open(text, '{');
            exg_json_member_text(text, "name", name);
            exg_json_member_uint(text, "bytes", change.bytes);
            exg_json_member_uint(text, "new_objects", change.objects);
            exg_json_member_uint(text, "new_bytes", change.object_bytes);
            exg_json_put_close(text, '}');
        } else {
            exg_text_plain(text, name, false);
            exg_text_puts(text, ": ");
            exg_text_bytes(text, change.bytes);
            exg_text_puts(text, ", of which new: ");
            exg_text_bytes(text, change.object_bytes);
            exg_text_putc(text, '\n');
        }
    }
    if (call->json) {
        exg_json_put_close(text, ']');
    }
    return EXG_OK;
}

static void print_list_json(const exg_store_list *list, exg_text *text)
{
    exg_json_member_open(text, "files", '[');
    for (uint32_t i = 0; i < list->count; i++) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", list->items[i].name);
        exg_json_member_uint(text, "bytes", list->items[i].bytes);
        exg_json_member_text(text, "sha256", list->items[i].sha256);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    exg_json_member_uint(text, "objects", list->object_count);
    exg_json_member_uint(text, "object_bytes", list->object_bytes);
}

static exg_status print_list(const cli_call *call, exg_store *store, words files, exg_text *text,
                             exg_error *err)
{
    exg_store_list *list;
    uint64_t bytes = 0;

    (void)files;
    EXG_TRY(exg_store_names(store, &list, err));
    if (call->json) {
        print_list_json(list, text);
    } else {
        for (uint32_t i = 0; i < list->count; i++) {
            exg_text_plain(text, list->items[i].name, false);
            exg_text_puts(text, ": ");
            exg_text_bytes(text, list->items[i].bytes);
            exg_text_printf(text, ", sha256 %s\n", list->items[i].sha256);
            bytes += list->items[i].bytes;
        }
        exg_text_count(text, list->count, "file");
        exg_text_puts(text, ", ");
        exg_text_bytes(text, bytes);
        exg_text_puts(text, ", in ");
        exg_text_count(text, list->object_count, "object");
        exg_text_puts(text, " of ");
        exg_text_bytes(text, list->object_bytes);
        exg_text_putc(text, '\n');
    }
    exg_store_list_free(list);
    return EXG_OK;
}

static exg_status export_file(const cli_call *call, exg_store *store, words files, exg_text *text,
                              exg_error *err)
{
    exg_store_change change = {.size = sizeof(change)};

    EXG_TRY(exg_store_export(store, files.items[0], files.items[1], call->link, &change, err));
    if (call->json) {
        exg_json_member_text(text, "exported", files.items[0]);
        exg_json_member_uint(text, "bytes", change.bytes);
        exg_json_member_bool(text, "linked", change.linked);
        exg_json_member_uint(text, "cloned_bytes", change.cloned_bytes);
    }
    return EXG_OK;
}

static exg_status remove_files(const cli_call *call, exg_store *store, words files, exg_text *text,
                               exg_error *err)
{
    exg_store_change change = {.size = sizeof(change)};

    for (uint32_t i = 0; i < files.count; i++) {
        EXG_TRY(exg_store_remove(store, files.items[i], err));
    }
    EXG_TRY(exg_store_collect(store, &change, err));
    if (call->json) {
        exg_json_member_uint(text, "removed_objects", change.objects);
        exg_json_member_uint(text, "removed_bytes", change.object_bytes);
    } else {
        exg_text_puts(text, "removed: ");
        exg_text_count(text, change.objects, "object");
        exg_text_puts(text, " of ");
        exg_text_bytes(text, change.object_bytes);
        exg_text_putc(text, '\n');
    }
    return EXG_OK;
}

typedef struct report {
    const cli_call *call;
    exg_text *text;
    uint32_t count;
} report;

static void note_fault(void *user, const exg_error *fault)
{
    report *r = user;

    r->count++;
    if (r->call->json) {
        exg_json_put_open(r->text, '{');
        exg_json_member_text(r->text, "status", exg_status_name(fault->status));
        exg_json_member_text(r->text, "code", fault->code);
        exg_json_member_text(r->text, "message", fault->message);
        exg_json_member_text(r->text, "where", fault->where);
        exg_json_member_text(r->text, "fix", fault->fix);
        exg_json_put_close(r->text, '}');
    } else {
        exg_text_printf(r->text, "%s ", fault->code);
        exg_text_plain(r->text, fault->where, false);
        exg_text_puts(r->text, " ");
        exg_text_plain(r->text, fault->message, false);
        exg_text_putc(r->text, '\n');
    }
}

static exg_status verify(const cli_call *call, exg_store *store, words files, exg_text *text,
                         exg_error *err)
{
    report r = {call, text, 0};
    exg_status status;

    (void)files;
    if (call->json) {
        exg_json_member_open(text, "faults", '[');
    }
    status = exg_store_verify(store, (uint32_t)call->threads, note_fault, &r, err);
    if (call->json) {
        exg_json_put_close(text, ']');
    } else if (status == EXG_OK) {
        exg_text_puts(text, "sound\n");
    }
    return status;
}

static const struct {
    const char *name;
    exg_status (*run)(const cli_call *call, exg_store *store, words files, exg_text *text,
                      exg_error *err);
    uint32_t least, most; /* words behind the store */
} actions[] = {
    {"add", add, 1, UINT32_MAX},     {"list", print_list, 0, 0},
    {"export", export_file, 2, 2},   {"remove", remove_files, 1, UINT32_MAX},
    {"collect", remove_files, 0, 0}, {"verify", verify, 0, 0},
};

#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

exg_status cmd_store(const cli_call *call, exg_error *err)
{
    const words files = {call->files.items + 2, call->files.count - 2};
    exg_text text = EXG_TEXT_EMPTY;
    exg_store *store = NULL;
    size_t a = 0;
    exg_status status;

    while (a < ACTIONS && strcmp(call->paths[0], actions[a].name) != 0) {
        a++;
    }
    if (a == ACTIONS || files.count < actions[a].least || files.count > actions[a].most) {
        return exg_error_fix(err,
                             a == ACTIONS
                                 ? EXG_FAIL(err, USAGE, "CLI-001", "no action '%s'", call->paths[0])
                                 : EXG_FAIL(err, USAGE, "CLI-001", "%s takes other words behind it",
                                            actions[a].name),
                             "see: exg store --help");
    }
    EXG_TRY(exg_store_open(call->paths[1], a == 0, &store, err));
    if (call->json) {
        cli_json_begin(&text);
    }
    status = actions[a].run(call, store, files, &text, err);
    exg_store_close(store);
    if (call->json) {
        cli_json_end(&text);
    }
    if (status == EXG_OK || actions[a].run == verify) {
        exg_status put = cli_put(call->out, &text, status == EXG_OK ? err : NULL);

        status = status == EXG_OK ? put : status;
    }
    exg_text_free(&text);
    return status;
}
