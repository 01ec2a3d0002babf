/* stream.c - standard output in the place of OUT: "-.safetensors". Formats are not written from
 * their beginning to their end, so there is a file first, in the folder for temporary files. And
 * where "-" stands for nothing. */
#include "cli/cli.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_is_stream(const char *path)
{
    return strncmp(path, "-.", 2) == 0;
}

static bool is_dash(const char *path)
{
    return path != NULL && (strcmp(path, "-") == 0 || cli_is_stream(path));
}

exg_status cli_check_dash(const char *option, const char *path, exg_error *err)
{
    return is_dash(path)
               ? exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "CLI-004", "%s '%s' is no file, and no stream",
                                        option, path),
                               "name a file; - is for FILE, and for OUT of convert and "
                               "repack")
               : EXG_OK;
}

exg_status cli_check_apart(const cli_call *call, exg_error *err)
{
    return is_dash(call->paths[0])
               ? exg_error_fix(err,
                               EXG_FAIL(err, USAGE, "CLI-013",
                                        "B is run in a process of its own, and standard input is "
                                        "read once"),
                               "name a file")
               : EXG_OK;
}

/* Of a file that is open, which may have lost its name. */
static exg_status copy(FILE *file, exg_error *err)
{
    char block[1u << 16];
    size_t count;
    bool right = file != NULL;

    while (right && (count = fread(block, 1, sizeof(block), file)) > 0) {
        right = fwrite(block, 1, count, stdout) == count;
    }
    right = right && ferror(file) == 0 && fflush(stdout) == 0;
    return right ? EXG_OK : EXG_FAIL(err, IO, "CLI-003", "cannot write to standard output");
}

/* Removes all files of the folder, and it; how many there were. */
static uint32_t clear(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    uint32_t count = 0;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            count += unlinkat(dirfd(list), entry->d_name, 0) == 0;
        }
    }
    if (list != NULL) {
        (void)closedir(list);
    }
    (void)rmdir(folder);
    return count;
}

static exg_status check(const cli_call *call, exg_error *err)
{
    if (call->json || call->resume || call->shard != NULL) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "CLI-009", "%s does not go with OUT %s",
                                      call->json     ? "--json"
                                      : call->resume ? "--resume"
                                                     : "--shard",
                                      call->paths[1]),
                             "name a file");
    }
    if (isatty(STDOUT_FILENO) != 0) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-015", "standard output is a terminal"),
                             "lead it into a file or another command: exg %s FILE %s | ...",
                             call->command, call->paths[1]);
    }
    return EXG_OK;
}

exg_status cli_write_stream(const cli_call *call,
                            exg_status (*write)(const cli_call *call, exg_error *err),
                            exg_error *err)
{
    const char *parent = getenv("TMPDIR");
    char folder[512];
    char path[600];
    cli_call own = *call;
    FILE *file;
    uint32_t count;
    exg_status status;

    EXG_TRY(check(call, err));
    snprintf(folder, sizeof(folder), "%.480s/exg-stream-XXXXXX",
             parent == NULL || parent[0] == '\0' ? "/tmp" : parent);
    if (mkdtemp(folder) == NULL) {
        return exg_error_fix(err, EXG_FAIL(err, IO, "CLI-003", "no folder can be made: %s", folder),
                             "set TMPDIR to a folder with room");
    }
    snprintf(path, sizeof(path), "%s/model%.64s", folder, call->paths[1] + 1);
    own.paths[1] = path;
    status = write(&own, err);
    file = status == EXG_OK ? fopen(path, "rb") : NULL;
    count = clear(folder);
    if (status == EXG_OK && count != 1) {
        status = exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-016", "OUT would be %u files", count),
                               "name a file, or leave out --split and --weights external");
    }
    status = status == EXG_OK ? copy(file, err) : status;
    if (file != NULL) {
        (void)fclose(file);
    }
    return status;
}
