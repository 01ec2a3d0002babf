/* exg_resume.c - a save killed anywhere goes on, and what it makes is what one that was
 * not killed makes; without resume a killed save leaves nothing. */
#include <exg/formats.h>

#include "tests/export/exg_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Kills the process once this much is done; counts what is done in calls. */
typedef struct watch {
    uint64_t kill_at;
    uint64_t first, last; /* bytes done at the first call and the last */
} watch;

static void on_progress(void *user, uint64_t done, uint64_t total)
{
    watch *w = user;

    (void)total;
    if (w->kill_at != 0 && done >= w->kill_at) {
        raise(SIGKILL);
    }
    w->first = w->first == 0 ? done : w->first;
    w->last = done;
}

static exg_save_options options_of(exg_compression compression, exg_placement_of_weights weights,
                                   watch *w)
{
    return (exg_save_options){.size = sizeof(exg_save_options),
                              .compression = compression,
                              .weights = weights,
                              .split = weights == EXG_WEIGHTS_EXTERNAL ? 400000 : 0,
                              .progress = on_progress,
                              .user = w,
                              .threads = 2,
                              .resume = true};
}

/* Saves in a process of its own that is killed on the way. */
static void save_and_die(const exg_save_options *options, const char *name)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        exg_program *p = NULL;

        exg_ignore(exg_open("fixtures/lm.decode.pt2", NULL, &p, NULL, NULL));
        exg_ignore(exg_save(p, in_folder(name), EXG_FORMAT_EXG, options, NULL));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void assert_whole(const char *name)
{
    exg_program *p = open_program("fixtures/lm.decode.pt2");
    exg_program *q = open_program(in_folder(name));
    char difference[256] = "";
    exg_error err;

    exg_error_clear(&err);
    if (exg_weights_check(q->weights, NULL, &err) != EXG_OK) {
        fail_msg("%s %s", err.code, err.message);
    }
    if (!exg_program_equal(p, q, true, difference)) {
        fail_msg("%s: %s", name, difference);
    }
    exg_program_destroy(p);
    exg_program_destroy(q);
}

static const struct {
    exg_compression compression;
    exg_placement_of_weights weights;
} kinds[] = {
    {EXG_COMPRESSION_NONE, EXG_WEIGHTS_INTERNAL},
    {EXG_COMPRESSION_ZSTD, EXG_WEIGHTS_INTERNAL},
    {EXG_COMPRESSION_ZSTD, EXG_WEIGHTS_EXTERNAL},
};

static void it_goes_on_wherever_it_was_killed(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        watch w = {0, 0, 0};
        exg_save_options options = options_of(kinds[k].compression, kinds[k].weights, &w);
        exg_program *p = open_program("fixtures/lm.decode.pt2");
        uint64_t total;

        save_program(p, "whole.exg", &options);
        total = w.last;
        for (uint64_t i = 1; i < 8; i++) {
            watch again = {0, 0, 0};

            w = (watch){i * total / 8, 0, 0};
            save_and_die(&options, "m.exg");
            assert_int_equal(access(in_folder("m.exg"), F_OK), -1);
            options.user = &again;
            save_program(p, "m.exg", &options);
            assert_int_equal(again.last, total);
            assert_true(i < 4 || again.first > total / 8); /* not from the beginning */
            if (kinds[k].weights == EXG_WEIGHTS_INTERNAL) {
                assert_files_equal("whole.exg", "m.exg");
            }
            assert_whole("m.exg");
            assert_int_equal(access(in_folder("m.exg.resume"), F_OK), -1);
            assert_int_equal(access(in_folder("m.exg.part"), F_OK), -1);
            unlink(in_folder("m.exg"));
            options.user = &w;
        }
        exg_program_destroy(p);
        empty_folder();
    }
}

/* What is left may be damaged, of another save, or no such thing at all. */
static void it_believes_only_what_agrees(void **state)
{
    static const char *const names[] = {"m.exg.part", "m.exg.resume"};
    watch w = {0, 0, 0};
    exg_save_options options = options_of(EXG_COMPRESSION_ZSTD, EXG_WEIGHTS_INTERNAL, &w);
    exg_program *p = open_program("fixtures/lm.decode.pt2");

    (void)state;
    save_program(p, "whole.exg", &options);
    for (int damage = 0; damage < 8; damage++) {
        const char *name = names[damage % 2];
        size_t length;
        uint8_t *data;

        w.kill_at = w.last * 3 / 4;
        save_and_die(&options, "m.exg");
        w.kill_at = 0;
        data = read_file(name, &length);
        if (damage < 2) {
            data[length / 2] ^= 1;
        } else if (damage < 4) {
            length /= 2;
        } else if (damage < 6) {
            memset(data, 0xff, length);
        } else {
            length = 0;
        }
        write_file(name, data, length);
        free(data);
        save_program(p, "m.exg", &options);
        assert_files_equal("whole.exg", "m.exg");
        unlink(in_folder("m.exg"));
    }
    w.kill_at = w.last / 2; /* other options: another save */
    save_and_die(&options, "m.exg");
    w.kill_at = 0;
    options.align = 8192;
    save_program(p, "whole.exg", &options);
    save_program(p, "m.exg", &options);
    assert_files_equal("whole.exg", "m.exg");
    exg_program_destroy(p);
    empty_folder();
}

/* Two saves to one path would mix their bytes. */
static void one_save_at_a_time(void **state)
{
    watch w = {0, 0, 0};
    exg_save_options options = options_of(EXG_COMPRESSION_ZSTD, EXG_WEIGHTS_INTERNAL, &w);
    exg_program *p = open_program("fixtures/lm.decode.pt2");
    int other = open(in_folder("m.exg.resume"), O_RDWR | O_CREAT, 0600);
    exg_error err;

    (void)state;
    assert_int_equal(flock(other, LOCK_EX), 0);
    exg_error_clear(&err);
    assert_int_equal(exg_save(p, in_folder("m.exg"), EXG_FORMAT_EXG, &options, &err), EXG_IO);
    assert_string_equal(err.code, "IO-BUSY");
    assert_int_equal(access(in_folder("m.exg.part"), F_OK), -1);
    assert_int_equal(access(in_folder("m.exg.resume"), F_OK), 0);
    close(other);
    save_program(p, "m.exg", &options);
    assert_whole("m.exg");
    assert_int_equal(access(in_folder("m.exg.resume"), F_OK), -1);
    exg_program_destroy(p);
    empty_folder();
}

static void it_leaves_nothing_without_resume(void **state)
{
    watch w = {500000, 0, 0};
    int nameless = open(in_folder(""), O_WRONLY | O_TMPFILE, 0600);

    (void)state;
    if (nameless < 0) {
        skip(); /* this file system gives every file a name */
    }
    close(nameless);
    for (size_t k = 0; k < 2; k++) {
        exg_save_options options = options_of(kinds[k].compression, kinds[k].weights, &w);

        options.resume = false;
        save_and_die(&options, "m.exg");
        assert_int_equal(empty_folder(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_wherever_it_was_killed),
        cmocka_unit_test(it_believes_only_what_agrees),
        cmocka_unit_test(one_save_at_a_time),
        cmocka_unit_test(it_leaves_nothing_without_resume),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
