/* turns.c - the end of the pipes that tells a process of exg bench when to run. */
#include "cli/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ROWS_MAX 100000

struct cli_turns {
    const char *path;
    pid_t process;
    FILE *to, *from;
};

static exg_status no_turns(const cli_turns *t, exg_error *err)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, PEER, "CLI-017", "%s takes no turns, or ended", t->path),
                         "it must be exg, of a build that has bench --turns; what it said is "
                         "above");
}

/* Both ends of two pipes, closed in the other process. */
static exg_status spawn(cli_turns *t, const char **words, exg_error *err)
{
    posix_spawn_file_actions_t actions;
    int to[2] = {-1, -1};
    int from[2] = {-1, -1};
    int fault = pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 ? errno : 0;

    if (fault == 0 && posix_spawn_file_actions_init(&actions) != 0) {
        fault = ENOMEM;
    } else if (fault == 0) {
        (void)posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
        (void)posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
        fault = posix_spawnp(&t->process, t->path, &actions, NULL, (char *const *)(uintptr_t)words,
                             environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    if (fault != 0) {
        t->process = 0;
        (void)close(to[1]);
        (void)close(from[0]);
        return EXG_FAIL(err, USAGE, "CLI-017", "%s cannot be run: %s", t->path, strerror(fault));
    }
    t->to = fdopen(to[1], "w");
    t->from = fdopen(from[0], "r");
    return t->to == NULL || t->from == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status cli_turns_start(const cli_call *call, cli_turns **turns, exg_error *err)
{
    cli_call own = *call;
    char greeting[sizeof(CLI_TURNS_GREETING)];
    const char **words;
    cli_turns *t = calloc(1, sizeof(*t));
    exg_status status;

    own.turns = true;
    own.with.count = 0;
    own.exg = NULL;
    own.json = own.csv = own.markdown = false;
    own.has_duration = own.has_warm_up = false;
    words = cli_words_of(&own, "bench", 'b', 1);
    *turns = t;
    if (t == NULL || words == NULL) {
        free(words);
        return EXG_OUT_OF_MEMORY(err);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a process that is gone is told by what it does not say */
    t->path = call->exg;
    status = spawn(t, words, err);
    free(words);
    if (status == EXG_OK && (fgets(greeting, sizeof(greeting), t->from) == NULL ||
                             strcmp(greeting, CLI_TURNS_GREETING) != 0)) {
        status = no_turns(t, err);
    }
    return status;
}

static bool ask(cli_turns *t, const char *line, char *answer, size_t room)
{
    return fputs(line, t->to) >= 0 && fflush(t->to) == 0 &&
           fgets(answer, (int)room, t->from) != NULL;
}

exg_status cli_turns_run(cli_turns *turns, double seconds, double **times, uint32_t *count,
                         double *took, exg_error *err)
{
    char line[64];
    char answer[96];

    *times = NULL;
    snprintf(line, sizeof(line), "run %.9f\n", seconds);
    if (!ask(turns, line, answer, sizeof(answer)) ||
        sscanf(answer, "times %" SCNu32 " %lf", count, took) != 2) {
        return no_turns(turns, err);
    }
    *times = malloc(((size_t)*count + 1) * sizeof(double));
    if (*times == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return fread(*times, sizeof(double), *count, turns->from) == *count ? EXG_OK
                                                                        : no_turns(turns, err);
}

exg_status cli_turns_operators(cli_turns *turns, exg_arena *arena, cli_profile_row **rows,
                               uint32_t *count, exg_error *err)
{
    char line[512];

    *rows = NULL;
    if (!ask(turns, "operators\n", line, sizeof(line)) ||
        sscanf(line, "operators %" SCNu32, count) != 1 || *count > ROWS_MAX) {
        return no_turns(turns, err);
    }
    *rows = calloc((size_t)*count + 1, sizeof(**rows));
    if (*rows == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < *count; i++) {
        cli_profile_row *row = &(*rows)[i];
        int at = 0;

        if (fgets(line, sizeof(line), turns->from) == NULL ||
            sscanf(line, "%" SCNu32 " %" SCNu64 " %lf %lf %n", &row->steps, &row->total_ns,
                   &row->flops, &row->bytes, &at) != 4 ||
            at == 0) {
            return no_turns(turns, err);
        }
        line[strcspn(line, "\n")] = '\0';
        row->key = exg_arena_strdup(arena, line + at);
        if (row->key == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

void cli_turns_end(cli_turns *turns)
{
    if (turns == NULL) {
        return;
    }
    if (turns->to != NULL) {
        (void)fclose(turns->to);
    }
    if (turns->from != NULL) {
        (void)fclose(turns->from);
    }
    if (turns->process > 0) {
        (void)waitpid(turns->process, NULL, 0);
    }
    free(turns);
}
