/* early_maker.c - see early_maker.h. */
#include "tests/export/early_maker.h"

#include "tests/export/exg_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const char early_add[] =
    "{\"name\": \"m\", \"graph\": {\"inputs\": [{\"name\": \"x\"}], \"outputs\": [{\"name\": "
    "\"y\"}], \"nodes\": [{\"target\": \"aten.add.Tensor\", \"args\": [{\"as_tensor\": {\"name\": "
    "\"x\"}}, {\"as_tensor\": {\"name\": \"w\"}}], \"kwargs\": {}, \"outputs\": [{\"as_tensor\": "
    "{\"name\": \"y\"}}], \"metadata\": {\"stack_trace\": \"\", \"nn_module_stack\": \"\", "
    "\"extra\": {}}}], \"tensor_values\": [{\"name\": \"x\", \"meta\": " EARLY_META
    "}, {\"name\": \"y\", \"meta\": " EARLY_META "}, {\"name\": \"w\", \"meta\": " EARLY_META
    "}], \"symint_values\": []}, \"metadata\": {}, \"parameters\": {\"w\": {\"storage\": "
    "{\"data_location\": \"Internal\", \"data\": {\"buffer\": \"P4AAAMAAAAA=\"}}, "
    "\"meta\": " EARLY_META "}}, \"buffers\": {}}";

const char *early_with(const char *text, const char *from, const char *to)
{
    static char buffers[4][65536];
    static unsigned next;
    char *buffer = buffers[next++ % 4];
    const char *at = strstr(text, from);

    if (at == NULL) {
        fail_msg("'%s' is not there", from);
        return NULL;
    }
    assert_true(strlen(text) + strlen(to) < sizeof(buffers[0]));
    sprintf(buffer, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return buffer;
}

const char *early_json(const char *from, const char *to)
{
    return early_with(early_add, from, to);
}

const char *early_node(const char *target, const char *args, const char *kwargs,
                       const char *outputs)
{
    const char *text = early_with(early_add, "aten.add.Tensor", target);

    text = early_with(
        text, "[{\"as_tensor\": {\"name\": \"x\"}}, {\"as_tensor\": {\"name\": \"w\"}}]", args);
    text = early_with(text, "\"kwargs\": {}", kwargs);
    return early_with(text, "\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}]", outputs);
}

exg_status try_text(const char *text, const exg_open_options *options, exg_error *err)
{
    exg_program *program = NULL;
    char *copy = malloc(strlen(text)); /* exactly: an overread is seen */
    exg_status status;

    assert_non_null(copy);
    memcpy(copy, text, strlen(text));
    exg_error_clear(err);
    status = exg_open_memory(copy, strlen(text), options, &program, NULL, err);
    exg_program_destroy(program);
    free(copy);
    return status;
}

exg_program *open_text(const char *text)
{
    exg_program *program = NULL;
    exg_error err;

    if (exg_open_memory(text, strlen(text), NULL, &program, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s (%s)", err.code, err.message, err.where);
    }
    return program;
}

char *saved_text(const exg_program *program)
{
    char *text;
    size_t length;
    exg_error err;

    if (exg_save(program, in_folder("s.json"), EXG_FORMAT_EARLY_JSON, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    text = (char *)read_file("s.json", &length);
    text = realloc(text, length + 1);
    assert_non_null(text);
    text[length] = '\0';
    return text;
}

static void expect_saved(const exg_program *program, const char *text, const char *way)
{
    char *again = saved_text(program);

    if (strcmp(again, text) != 0) {
        fail_msg("%s: %s became %s", way, text, again);
    }
    free(again);
}

void expect_itself(const char *given)
{
    static const char *const names[] = {"w.exg", "w.pt2"};
    char *text = strdup(given); /* it may be of early_json() */
    exg_program *program = open_text(given);

    assert_non_null(text);
    expect_saved(program, text, ".json");
    for (size_t i = 0; i < 2; i++) {
        exg_program *other;
        exg_error err;

        if (exg_save(program, in_folder(names[i]), exg_format_from_path(names[i]), NULL, &err) !=
            EXG_OK) {
            fail_msg("%s: %s: %s", names[i], err.code, err.message);
        }
        other = open_program(in_folder(names[i]));
        expect_saved(other, text, names[i]);
        exg_program_destroy(other);
    }
    exg_program_destroy(program);
    free(text);
}

void expect_ours(const char *given)
{
    char *text = strdup(given);
    exg_program *program;
    char *ours;

    assert_non_null(text);
    program = open_text(text);
    expect_saved(program, text, ".json");
    program->early_form = NULL;
    ours = saved_text(program);
    if (strncmp(ours, text, strlen(text)) != 0 || strcmp(ours + strlen(text), "\n") != 0) {
        fail_msg("we write %s as %s", text, ours);
    }
    free(ours);
    exg_program_destroy(program);
    free(text);
}
