/* cut.c - a file is cut short by somebody else while it is open: what was copied is all there, of
 * every kind of file; what was mapped ends the process, which a child of ours shows.
 */
#include "tests/export/exg_folder.h"

#include <exg/export.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A line of shell, with the folder for its %s. */
static void in_shell(const char *format)
{
    char line[400];

    snprintf(line, sizeof(line), format, in_folder(""));
    if (system(line) != 0) {
        fail_msg("%s", line);
    }
}

static void renew(void)
{
    exg_save_options apart = {.size = sizeof(apart), .weights = EXG_WEIGHTS_EXTERNAL};
    exg_program *program;

    empty_folder();
    in_shell(
        "cp fixtures/lm.core.dynamic.pt2 fixtures/lm.t17.inputs.safetensors fixtures/weights/*.pt "
        "fixtures/weights/*.gguf fixtures/weights/sharded* fixtures/weights/*.npz %s");
    assert_int_equal(exg_open("fixtures/lm.core.dynamic.pt2", NULL, &program, NULL, NULL), EXG_OK);
    assert_int_equal(exg_save(program, in_folder("lm.exg"), EXG_FORMAT_EXG, NULL, NULL), EXG_OK);
    assert_int_equal(exg_save(program, in_folder("apart.exg"), EXG_FORMAT_EXG, &apart, NULL),
                     EXG_OK);
    exg_program_destroy(program);
}

/* Of what is opened; every file is cut before a tensor is read. */
static exg_status digest(const char *path, bool copies, bool cut, char *text)
{
    exg_open_options options = {.size = sizeof(options), .copies_files = copies};
    exg_weights *weights;
    exg_status status;

    assert_int_equal(exg_weights_open(path, &options, &weights, NULL, NULL), EXG_OK);
    if (cut) {
        in_shell("find %s -type f -exec truncate -s 1 {} +");
    }
    status = exg_weights_digest(weights, EXG_CHECKSUM_SHA256, 1, text, NULL);
    exg_weights_release(weights);
    return status;
}

static void what_was_copied_is_there(void **state)
{
    static const char *const names[] = {
        "lm.core.dynamic.pt2", "lm.exg",   "lm.t17.inputs.safetensors",
        "nested.pt",           "big.gguf", "sharded.safetensors.index.json",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char want[EXG_DIGEST_TEXT_MAX];
        char got[EXG_DIGEST_TEXT_MAX];

        renew();
        assert_int_equal(digest(in_folder(names[i]), false, false, want), EXG_OK);
        assert_int_equal(digest(in_folder(names[i]), true, true, got), EXG_OK);
        assert_string_equal(got, want);
    }
}

/* Files that are opened when a tensor is asked for are found too short then. */
static void what_was_to_be_copied_is_a_fault(void **state)
{
    char text[EXG_DIGEST_TEXT_MAX];

    (void)state;
    renew();
    assert_int_equal(digest(in_folder("apart.exg"), true, true, text), EXG_MALFORMED);
}

static void what_was_mapped_ends_the_process(void **state)
{
    char text[EXG_DIGEST_TEXT_MAX];
    pid_t child;
    int how;

    (void)state;
    renew();
    child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        _exit((int)digest(in_folder("lm.core.dynamic.pt2"), false, true, text));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) ? WTERMSIG(how) == SIGBUS : WEXITSTATUS(how) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_copied_is_there),
        cmocka_unit_test(what_was_to_be_copied_is_a_fault),
        cmocka_unit_test(what_was_mapped_ends_the_process),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
