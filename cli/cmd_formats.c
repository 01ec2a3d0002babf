/* cmd_formats.c - exg formats: what is read and written. */
#include "cli/cli.h"

#include <exg/export.h>
#include <string.h>

static const struct {
    const char *name, *files, *summary, *carries;
    bool is_program;
} formats[] = {
#define EXG_FORMAT(id, name, extension, summary) {name, extension, summary, "", true},
#include <exg/format.def>
#undef EXG_FORMAT
#define EXG_WEIGHTS_FORMAT(id, name, files, summary, carries)                                      \
    {name, files, summary, carries, false},
#include <exg/weights_format.def>
#undef EXG_WEIGHTS_FORMAT
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Programs all; of weights those that a name of an output can say. */
static bool is_written(size_t i)
{
    static const char *const names[] = {
        "safetensors",           "npy", "npz", "GGUF", "PyTorch checkpoint", ".exg of weights",
        "distributed checkpoint"};
    bool written = formats[i].is_program;

    for (size_t n = 0; n < COUNT(names); n++) {
        written = written || strcmp(formats[i].name, names[n]) == 0;
    }
    return written;
}

static void put_json(exg_text *text)
{
    cli_json_begin(text);
    exg_json_member_open(text, "formats", '[');
    for (size_t i = 0; i < COUNT(formats); i++) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", formats[i].name);
        exg_json_member_text(text, "holds", formats[i].is_program ? "program" : "weights");
        exg_json_member_text(text, "files", formats[i].files);
        exg_json_member_text(text, "summary", formats[i].summary);
        exg_json_member_text(text, "carries", formats[i].carries);
        exg_json_member_bool(text, "written", is_written(i));
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    cli_json_end(text);
}

static void put_text(exg_text *text)
{
    for (size_t i = 0; i < COUNT(formats); i++) {
        if (i == 0 || formats[i].is_program != formats[i - 1].is_program) {
            exg_text_puts(text, formats[i].is_program ? "programs\n" : "weights\n");
        }
        exg_text_printf(text, "  %-22s %-5s %s\n  %-28s %s\n", formats[i].name,
                        is_written(i) ? "rw" : "r", formats[i].files, "", formats[i].summary);
        if (formats[i].carries[0] != '\0') {
            exg_text_printf(text, "  %-28s carries %s\n", "", formats[i].carries);
        }
    }
    exg_text_puts(text, "r: read, found by content; w: written, by the name of the output\n");
}

exg_status cmd_formats(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    (call->json ? put_json : put_text)(&text);
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    return status;
}
