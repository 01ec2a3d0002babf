/* module.c - nn_module_stack and stack_trace of a node. */
#include "libexport/program/frame.h"

#include <stddef.h>
#include <string.h>

/* What torch.export writes for nodes that passes made outside of any module. */
static const char no_module[] = "_empty_nn_module_stack_from_metadata_hook";

const char *exg_node_metadata(const exg_node *node, const char *key)
{
    for (uint32_t i = 0; i < node->metadata.count; i++) {
        if (strcmp(node->metadata.items[i].key, key) == 0) {
            return node->metadata.items[i].value;
        }
    }
    return NULL;
}

/* Up to `stop` or ';' outside brackets; NULL when brackets do not pair or the text ends
 * before a `stop`. */
static const char *field_end(const char *text, char stop)
{
    int depth = 0;
    const char *c = text;

    for (; *c != '\0'; c++) {
        if (*c == '(' || *c == '[') {
            depth++;
        } else if (*c == ')' || *c == ']') {
            if (depth-- == 0) {
                return NULL;
            }
        } else if (depth == 0 && (*c == stop || *c == ';')) {
            break;
        }
    }
    return depth == 0 && (*c == stop || stop == ';') ? c : NULL;
}

bool exg_module_stack_next(const char **stack, exg_module_frame *frame)
{
    const char *key_end;
    const char *path_end;
    const char *type_end;

    if (*stack == NULL || **stack == '\0') {
        return false;
    }
    key_end = field_end(*stack, ',');
    path_end = key_end == NULL ? NULL : field_end(key_end + 1, ',');
    type_end = path_end == NULL ? NULL : field_end(path_end + 1, ';');
    if (type_end == NULL) {
        return false;
    }
    *frame = (exg_module_frame){.path = key_end + 1,
                                .type = path_end + 1,
                                .path_length = (uint32_t)(path_end - key_end - 1),
                                .type_length = (uint32_t)(type_end - path_end - 1)};
    *stack = *type_end == ';' ? type_end + 1 : type_end;
    return true;
}

exg_module_frame exg_node_module(const exg_node *node)
{
    const char *stack = exg_node_metadata(node, "nn_module_stack");
    exg_module_frame frame = {"", "", 0, 0};
    exg_module_frame next;

    while (exg_module_stack_next(&stack, &next)) {
        frame = next;
    }
    if (frame.path_length == sizeof(no_module) - 1 &&
        memcmp(frame.path, no_module, frame.path_length) == 0) {
        frame = (exg_module_frame){"", "", 0, 0};
    }
    return frame;
}

/* ---- stack_trace ---------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void exg_strip_blanks(const char **from, const char **to)
{
    while (*from < *to && is_blank(**from)) {
        (*from)++;
    }
    while (*to > *from && is_blank((*to)[-1])) {
        (*to)--;
    }
}

static uint32_t read_line_number(const char *from, const char *to)
{
    uint64_t number = 0;

    for (; from < to && number <= UINT32_MAX; from++) {
        number = number * 10 + (uint64_t)(*from - '0');
    }
    return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

bool exg_frame_match(const char *from, const char *to, exg_source_line *frame)
{
    static const char file_part[] = "File \"";
    static const char line_part[] = "\", line ";
    static const char name_part[] = ", in ";
    const char *file = from + strlen(file_part);

    if (to - from <= (ptrdiff_t)strlen(file_part) ||
        strncmp(from, file_part, strlen(file_part)) != 0) {
        return false;
    }
    for (const char *end = to - strlen(name_part) - 1; end > file; end--) { /* the last that fits */
        const char *digits = end;

        if (strncmp(end, name_part, strlen(name_part)) != 0) {
            continue;
        }
        while (digits > file && digits[-1] >= '0' && digits[-1] <= '9') {
            digits--;
        }
        if (digits == end || digits - file <= (ptrdiff_t)strlen(line_part) ||
            strncmp(digits - strlen(line_part), line_part, strlen(line_part)) != 0) {
            continue;
        }
        *frame = (exg_source_line){.file = file,
                                   .file_length = (uint32_t)(digits - strlen(line_part) - file),
                                   .line = read_line_number(digits, end),
                                   .function = end + strlen(name_part),
                                   .function_length =
                                       (uint32_t)(to - end - (ptrdiff_t)strlen(name_part))};
        return true;
    }
    return false;
}

/* Does [path, end) begin with `name`, whose '/' stands for a '\\' too? */
static bool begins_with(const char *path, const char *end, const char *name)
{
    for (; *name != '\0'; name++, path++) {
        if (path == end || (*name == '/' ? *path != '/' && *path != '\\' : *path != *name)) {
            return false;
        }
    }
    return true;
}

/* Is [path, end), which stands behind a folder "torch/", a file that PyTorch has there? Of
 * those that nobody else's folder of that name is likely to have. */
static bool is_in_torch(const char *path, const char *end)
{
    static const char *const names[] = {"_decomp/",
                                        "_dynamo/",
                                        "_export/",
                                        "_functorch/",
                                        "_higher_order_ops/",
                                        "_library/",
                                        "_ops.py",
                                        "_prims/",
                                        "_refs/",
                                        "_tensor.py",
                                        "fx/",
                                        "utils/_",
                                        "nn/attention/",
                                        "nn/functional.py",
                                        "nn/modules/",
                                        "utils/checkpoint.py"};

    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        if (begins_with(path, end, names[n])) {
            return true;
        }
    }
    return false;
}

/* A file of PyTorch's own, installed or in its sources, on any system; or code that torch.fx
 * wrote, which is in no file. Other packages beside it are a user's. */
static bool is_torch_file(const char *file, uint32_t length)
{
    static const char *const packages[] = {"torch/", "torchgen/", "functorch/"};
    static const char *const homes[] = {"site-packages/", "dist-packages/", "pytorch/"};
    const char *end = file + length;
    bool is_home = false;

    if (begins_with(file, end, "<eval_with_key>") || begins_with(file, end, "<frozen ")) {
        return true;
    }
    for (const char *part = file; part < end;) {
        bool is_next_home = false;

        for (size_t p = 0; is_home && p < sizeof(packages) / sizeof(packages[0]); p++) {
            if (begins_with(part, end, packages[p])) {
                return true;
            }
        }
        if (begins_with(part, end, "torch/") && is_in_torch(part + strlen("torch/"), end)) {
            return true;
        }
        for (size_t h = 0; h < sizeof(homes) / sizeof(homes[0]); h++) {
            is_next_home = is_next_home || begins_with(part, end, homes[h]);
        }
        is_home = is_next_home;
        while (part < end && *part != '/' && *part != '\\') {
            part++;
        }
        part += part < end;
    }
    return false;
}

/* What follows a frame's line up to the next one's: code, in one line or several. */
static void end_frame(exg_source_line *frame, const char *line_end, const char *end)
{
    const char *code = line_end;
    const char *code_end;

    exg_strip_blanks(&code, &end);
    code_end = code < end ? memchr(code, '\n', (size_t)(end - code)) : NULL;
    code_end = code_end == NULL ? end : code_end;
    frame->text_length = (uint32_t)((code < end ? end : line_end) - frame->text);
    exg_strip_blanks(&code, &code_end);
    frame->code = code;
    frame->code_length = (uint32_t)(code_end - code);
}

bool exg_node_source_line(const exg_node *node, exg_source_line *source)
{
    const char *trace = exg_node_metadata(node, "stack_trace");
    const char *line_end = NULL; /* of the frame that is open; NULL: none is */
    exg_source_line open = {.text = ""};

    *source = (exg_source_line){.text = "", .file = "", .function = "", .code = ""};
    while (trace != NULL && *trace != '\0') {
        const char *next = trace + strcspn(trace, "\n");
        const char *from = trace;
        const char *to = next;
        exg_source_line frame;

        exg_strip_blanks(&from, &to);
        if (exg_frame_match(from, to, &frame)) {
            if (line_end != NULL) {
                end_frame(&open, line_end, from);
                *source = open;
            }
            frame.text = from;
            open = frame;
            line_end = is_torch_file(frame.file, frame.file_length) ? NULL : to;
        }
        trace = *next == '\n' ? next + 1 : next;
    }
    if (line_end != NULL) {
        end_frame(&open, line_end, trace);
        *source = open;
    }
    return source->file_length > 0;
}
