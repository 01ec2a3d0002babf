/* exg_faults.c - a disk that is full, a folder that may not be written, a source that is cut
 * while it is read: the old file stays, nothing else does, and the status says why. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOBODY   65534
#define NO_FAULT 99 /* what a child gives that should have failed and did not */

typedef void child_fn(void);

/* What a child process ends with: its exit code, or 256 and the signal. */
static int in_child(child_fn *run)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        run();
        _exit(NO_FAULT);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Saves, and ends the child with 0 if that failed as a write does. */
static void save_and_tell(exg_save_options *options)
{
    exg_program *p = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_open("fixtures/lm.decode.pt2", NULL, &p, NULL, &err) == EXG_OK &&
        exg_save(p, in_folder("m.exg"), EXG_FORMAT_EXG, options, &err) == EXG_IO &&
        strcmp(err.code, "IO-WRITE") == 0) {
        _exit(0);
    }
    printf("%s %s\n", err.code, err.message);
}

static void save_under_a_limit(void)
{
    struct rlimit limit = {300000, 300000};
    exg_save_options options = {.size = sizeof(options)};

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    save_and_tell(&options);
}

/* The first files are there, then no more may be written. */
static void lower_the_limit(void *user, uint64_t done, uint64_t total)
{
    struct rlimit limit = {1000, 1000};

    (void)user;
    if (done > total / 2) {
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

static void save_beside_under_a_limit(void)
{
    exg_save_options options = {.size = sizeof(options),
                                .weights = EXG_WEIGHTS_EXTERNAL,
                                .split = 250000,
                                .progress = lower_the_limit};

    signal(SIGXFSZ, SIG_IGN);
    save_and_tell(&options);
}

static void save_as_nobody(void)
{
    exg_save_options options = {.size = sizeof(options)};

    if (setuid(NOBODY) != 0 && getuid() == 0) {
        _exit(1);
    }
    save_and_tell(&options);
}

/* Only the old file is there, as it was. */
static void assert_only_the_old(const uint8_t *old, size_t length)
{
    size_t found;
    uint8_t *data = read_file("m.exg", &found);

    assert_int_equal(found, length);
    assert_memory_equal(data, old, length);
    free(data);
    assert_int_equal(empty_folder(), 1);
}

static uint8_t *put_old(size_t *length)
{
    exg_program *p = open_program("fixtures/mlp.pt2");

    save_program(p, "m.exg", NULL);
    exg_program_destroy(p);
    return read_file("m.exg", length);
}

static void it_keeps_the_old_file_when_no_more_may_be_written(void **state)
{
    static child_fn *const runs[] = {save_under_a_limit, save_beside_under_a_limit};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t length;
        uint8_t *old = put_old(&length);

        assert_int_equal(in_child(runs[i]), 0);
        assert_only_the_old(old, length);
        free(old);
    }
}

static void it_keeps_the_old_file_on_a_full_disk(void **state)
{
    size_t length;
    uint8_t *old;
    exg_program *p = open_program("fixtures/lm.decode.pt2");
    exg_error err;

    (void)state;
    if (mount("none", in_folder(""), "tmpfs", 0, "size=1m") != 0) {
        exg_program_destroy(p);
        skip();
    }
    old = put_old(&length);
    exg_error_clear(&err);
    assert_int_equal(exg_save(p, in_folder("m.exg"), EXG_FORMAT_EXG, NULL, &err), EXG_IO);
    assert_string_equal(err.code, "IO-WRITE");
    assert_string_not_equal(err.fix, "");
    assert_int_equal(exg_weights_save(p->weights, in_folder("w.safetensors"), NULL, &err), EXG_IO);
    assert_only_the_old(old, length);
    assert_int_equal(umount(in_folder("")), 0);
    free(old);
    exg_program_destroy(p);
}

static void it_keeps_the_old_file_where_it_may_not_write(void **state)
{
    size_t length;
    uint8_t *old = put_old(&length);

    (void)state;
    chmod(in_folder(""), 0555);
    assert_int_equal(in_child(save_as_nobody), 0);
    chmod(in_folder(""), 0700);
    assert_only_the_old(old, length);
    free(old);
}

static void cut_source(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (done > total / 4 && truncate(in_folder("from.exg"), 100000) != 0) {
        _exit(1);
    }
}

static void save_from_a_source_that_is_cut(void)
{
    exg_save_options options = {
        .size = sizeof(options), .progress = cut_source, .compression = EXG_COMPRESSION_NONE};
    exg_program *p = NULL;
    exg_error err;

    signal(SIGBUS, SIG_DFL); /* sanitizers have a word of their own for it */
    exg_error_clear(&err);
    if (exg_open(in_folder("from.exg"), NULL, &p, NULL, &err) == EXG_OK &&
        exg_save(p, in_folder("m.exg"), EXG_FORMAT_EXG, &options, &err) == EXG_IO) {
        _exit(strcmp(err.code, "IO-CHANGED") == 0 ? 0 : 1);
    }
}

/* The system ends who reads behind the end (the command says why), or refuses to write from
 * there: either way the old file stays. */
static void it_keeps_the_old_file_when_the_source_is_cut(void **state)
{
    exg_program *p = open_program("fixtures/lm.decode.pt2");
    size_t length;
    uint8_t *old;
    int end;

    (void)state;
    save_program(p, "from.exg", NULL);
    exg_program_destroy(p);
    old = put_old(&length);
    end = in_child(save_from_a_source_that_is_cut);
    assert_true(end == 0 || end == 256 + SIGBUS);
    unlink(in_folder("from.exg"));
    assert_only_the_old(old, length);
    free(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_the_old_file_when_no_more_may_be_written),
        cmocka_unit_test(it_keeps_the_old_file_on_a_full_disk),
        cmocka_unit_test(it_keeps_the_old_file_where_it_may_not_write),
        cmocka_unit_test(it_keeps_the_old_file_when_the_source_is_cut),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
