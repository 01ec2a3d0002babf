/* main.c - picks the command, prints faults once, turns a status into an exit code. */
#include "cli/table.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum processes { ALL, FIRST } processes; /* of mpirun, that run a command */

typedef struct command_row {
    const char *name;
    processes processes;
    exg_status (*run)(const cli_call *call, exg_error *err);
} command_row;

static const command_row rows[] = {
#define EXG_COMMAND(name, letter, processes, arguments, summary, examples)                         \
    {#name, processes, cmd_##name},
#include "cli/command.def"
#undef EXG_COMMAND
};

static const command_row *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static exg_status no_command(const char *word, exg_error *err)
{
    const exg_status status = EXG_FAIL(err, USAGE, "CLI-001", "no command '%s'", word);
    cli_nearest nearest;

    cli_nearest_begin(&nearest, word);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cli_nearest_offer(&nearest, rows[i].name);
    }
    return nearest.name != NULL
               ? exg_error_fix(err, status, "did you mean %s? exg --help lists the commands",
                               nearest.name)
               : exg_error_fix(err, status, "exg --help lists the commands");
}

/* exg help, exg help COMMAND; as a page of the manual. */
static exg_status help(const char *word, bool manual, exg_error *err)
{
    if (manual) {
        return cli_put_manual(stdout, word, err);
    }
    if (word == NULL || is_help(word) || strcmp(word, "help") == 0) {
        cli_help(stdout);
        return EXG_OK;
    }
    return cli_command_help(stdout, word) ? EXG_OK : no_command(word, err);
}

/* Words behind the first that are not `option`; the first of them, or NULL. */
static uint32_t words_behind(int argc, char **argv, const char *option, const char **first,
                             const char **last)
{
    uint32_t count = 0;

    *first = *last = NULL;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], option) != 0) {
            *first = count++ == 0 ? argv[i] : *first;
            *last = argv[i];
        }
    }
    return count;
}

static exg_status too_many(const char *word, exg_error *err)
{
    return EXG_FAIL(err, USAGE, "CLI-001", "unexpected argument '%s'", word);
}

/* What needs no command; false: it needs one. */
static bool tell(int argc, char **argv, bool json, exg_status *status, exg_error *err)
{
    const char *first;
    const char *last;
    const bool manual = strcmp(argv[1], "help") == 0 && has_word(argc, argv, "--man");
    uint32_t more = words_behind(argc, argv, manual ? "--man" : "--json", &first, &last);

    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        *status = more > 0 ? too_many(last, err) : EXG_OK;
        if (*status == EXG_OK) {
            *status = cli_version(stdout, json, err);
        }
    } else if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        *status = more > 1 ? too_many(last, err) : help(first, manual, err);
    } else if (find_command(argv[1]) == NULL) {
        *status = no_command(argv[1], err);
    } else if (has_word(argc, argv, "--help") || has_word(argc, argv, "-h")) {
        *status = help(argv[1], false, err);
    } else {
        return false;
    }
    return true;
}

/* ---- files that are cut -------------------------------------------------------------------- */

static char who[24]; /* "rank 1: ", of processes */

static void say(const char *text, size_t length)
{
    if (write(STDERR_FILENO, text, length) < 0) {
        _exit(exg_status_exit_code(EXG_IO)); /* nobody listens */
    }
}

/* "55e0-55e2 r--p 00000000 08:01 17 /x/model.pt2": does it hold the address? Then its file. */
static const char *file_of(char *line, uintptr_t address)
{
    char *end;
    uintptr_t first = (uintptr_t)strtoull(line, &end, 16);
    uintptr_t last = *end == '-' ? (uintptr_t)strtoull(end + 1, &end, 16) : 0;
    char *path = strchr(end, '/');

    for (char *c = path; c != NULL && *c != '\0'; c++) {
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
    return address >= first && address < last ? path : NULL;
}

/* Among what this process has mapped; in a signal handler, so without memory. NULL: none. */
static const char *find_file(uintptr_t address)
{
    static char text[8192];
    size_t held = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    for (ssize_t got = 1; maps >= 0 && got > 0;) {
        char *line = text;
        char *end;

        got = read(maps, text + held, sizeof(text) - 1 - held);
        held += got < 0 ? 0 : (size_t)got;
        text[held] = '\0';
        while ((end = strchr(line, '\n')) != NULL) {
            const char *path;

            *end = '\0';
            path = file_of(line, address);
            if (path != NULL) {
                (void)close(maps);
                return path;
            }
            line = end + 1;
        }
        held -= (size_t)(line - text);
        memmove(text, line, held);
        got = held == sizeof(text) - 1 ? 0 : got; /* no line is as long */
    }
    return NULL;
}

/* A mapped file that another process cuts short cannot be read on: said, and ended. What
 * was being written has no name yet, so nothing is left behind. */
static void report_cut_file(int signal_number, siginfo_t *info, void *unused)
{
    static const char code[] = "exg: IO-CHANGED: ";
    static const char what[] = " became shorter while it was read, or its device failed\n";
    const char *path = find_file((uintptr_t)info->si_addr);

    (void)signal_number;
    (void)unused;
    path = path == NULL ? "a file" : path;
    say(who, strlen(who));
    say(code, sizeof(code) - 1);
    say(path, strlen(path));
    say(what, sizeof(what) - 1);
    _exit(exg_status_exit_code(EXG_IO));
}

static void watch_files(void)
{
    struct sigaction action = {.sa_sigaction = report_cut_file, .sa_flags = (int)SA_SIGINFO};

    if (cli_process_count() > 1) {
        snprintf(who, sizeof(who), "rank %u: ", cli_process_rank());
    }
    (void)sigaction(SIGBUS, &action, NULL);
}

/* Of the processes that mpirun started only the first speaks and writes files. */
static exg_status keep_quiet(cli_call *call, exg_error *err)
{
    if (cli_process_rank() == 0) {
        return EXG_OK;
    }
    call->out = fopen("/dev/null", "w");
    call->is_quiet = true;
    return call->out != NULL ? EXG_OK
                             : EXG_FAIL(err, IO, "CLI-003", "cannot open /dev/null to write to");
}

/* A buffer that was lost on the way is told by ferror() alone. */
static bool wrote_all(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}

/* --isa, else EXG_ISA: for all that this process does. */
static exg_status choose_isa(const cli_call *call, exg_error *err)
{
    const char *level = call->isa != NULL ? call->isa : getenv("EXG_ISA");

    return level == NULL || level[0] == '\0' ? EXG_OK : exg_isa_choose(level, err);
}

static exg_status run_command(int argc, char **argv, bool json, exg_error *err)
{
    const command_row *command = find_command(argv[1]);
    cli_call call = {.command = argv[1], .json = json, .out = stdout};
    const char **room = calloc((size_t)argc * CLI_LISTS, sizeof(*room));
    exg_status status =
        room == NULL ? EXG_OUT_OF_MEMORY(err) : cli_parse(argc - 2, argv + 2, room, &call, err);

    status = status == EXG_OK ? keep_quiet(&call, err) : status;
    status = status == EXG_OK ? choose_isa(&call, err) : status;
    if (status == EXG_OK && (command->processes == ALL || cli_process_rank() == 0)) {
        status = command->run(&call, err);
    }
    free(room);
    return status;
}

/* mpirun ends all processes when the first one leaves: let that be the one that failed itself, not
 * one that heard of it. */
static void let_the_cause_speak(void)
{
    struct timespec left = {.tv_sec = 1};

    (void)fflush(NULL);
    while (cli_interrupted() == 0 && nanosleep(&left, &left) != 0) {
    }
}

int main(int argc, char **argv)
{
    bool json = has_word(argc, argv, "--json"); /* of faults before it too */
    bool ran = false;
    exg_error err;
    exg_status status;

    exg_error_clear(&err);
    watch_files();
    signal(SIGXFSZ, SIG_IGN); /* then it is an error of write() */
    status = cli_take_globals(&argc, argv, &err);
    if (status == EXG_OK && argc < 2) {
        cli_help(stderr);
        return exg_status_exit_code(EXG_USAGE);
    }
    if (status == EXG_OK && !tell(argc, argv, json, &status, &err)) {
        status = run_command(argc, argv, json, &err);
        ran = true;
    }
    if (!wrote_all() && status == EXG_OK) {
        status = EXG_FAIL(&err, IO, "CLI-003", "cannot write the output");
    }
    if (status != EXG_OK && cli_interrupted() != 0 && cli_process_count() > 1) {
        /* mpirun ends what is left, and one that failed has said why */
    } else if (status != EXG_OK) {
        cli_print_error(&err, json);
    } else if (ran && cli_process_count() > 1) {
        exg_mpi_finish(); /* a process that leaves without takes the others with it */
    }
    if (status != EXG_OK && cli_interrupted() != 0) { /* who sent the signal is to see it */
        (void)fflush(NULL);
        (void)signal(cli_interrupted(), SIG_DFL);
        (void)raise(cli_interrupted());
    }
    cli_close_sources();
    if (status == EXG_PEER && cli_process_count() > 1) {
        let_the_cause_speak();
    }
    return exg_status_exit_code(status);
}
