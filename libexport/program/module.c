/* module.c - nn_module_stack and stack_trace of a node. */
#include <exg/module.h>

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

/* A line of torch's own files; they are recorded without the folder of the machine. */
static bool is_torch_frame(const char *line, size_t length)
{
    static const char *const parts[] = {"\"torch/", "/torch/", "/site-packages/"};
    size_t shown = 0;

    while (shown < length && line[shown] != '\n') {
        shown++;
    }
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        if (memmem(line, shown, parts[p], strlen(parts[p])) != NULL) {
            return true;
        }
    }
    return false;
}

const char *exg_node_source_line(const exg_node *node, uint32_t *length)
{
    const char *trace = exg_node_metadata(node, "stack_trace");
    const char *found = NULL;
    const char *line = trace == NULL ? NULL : strstr(trace, "File \"");

    while (line != NULL) {
        const char *next = strstr(line + 1, "File \"");
        size_t bytes = next == NULL ? strlen(line) : (size_t)(next - line);

        while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\n')) {
            bytes--;
        }
        if (!is_torch_frame(line, bytes)) {
            found = line;
            *length = (uint32_t)bytes;
        }
        line = next;
    }
    return found;
}
