/* nvrtc.c - a stand-in for libnvrtc: the same entry points, over the host's C compiler. What
 * it gives as code is a shared object for the emulator (cuda.c).
 *
 * A text of somebody else's, which does not include common.h, is to be of the common part of C
 * and CUDA C++, but for a few words of CUDA and the heads of its kernels, whose parameter is p.
 *
 * Texts that are included by a name with a folder are written out as they are given; those
 * that stand for C's own headers (math.h) are left to the host's.
 */
#include "tests/standin/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef EXG_STANDIN_CC
#error "EXG_STANDIN_CC: the C compiler"
#endif

extern char **environ;

#define COMPILE_ERROR 6
#define OPTIONS_MAX   64

typedef struct standin_program {
    char folder[64];
    char *log;
    unsigned char *code; /* its length in 8 bytes, then the shared object */
    size_t code_bytes;
} standin_program;

int nvrtcVersion(int *major, int *minor);
int nvrtcCreateProgram(standin_program **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names);
int nvrtcDestroyProgram(standin_program **program);
int nvrtcCompileProgram(standin_program *program, int count, const char *const *options);
int nvrtcGetProgramLogSize(standin_program *program, size_t *bytes);
int nvrtcGetProgramLog(standin_program *program, char *log);
int nvrtcGetCUBINSize(standin_program *program, size_t *bytes);
int nvrtcGetCUBIN(standin_program *program, char *cubin);
int nvrtcGetPTXSize(standin_program *program, size_t *bytes);
int nvrtcGetPTX(standin_program *program, char *ptx);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *capabilities);

/* Of 12, of 13. */
static const int architectures[2][6] = {{70, 75, 80, 86, 89, 90}, {75, 80, 86, 89, 90, 100}};

#define ARCHITECTURES 6

/* A copy of the library called libnvrtc.so.12 is that. */
static int is_newer(void)
{
    Dl_info info;

    return dladdr(architectures, &info) == 0 || strstr(info.dli_fname, ".so.12") == NULL;
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 12 + is_newer();
    *minor = 0;
    return 0;
}

static int write_text(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *file;
    int wrong;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return 1;
        }
        *slash = '/';
    }
    file = fopen(path, "w");
    if (file == NULL) {
        return 1;
    }
    wrong = fputs(text, file) < 0;
    return fclose(file) != 0 || wrong;
}

/* CUDA's words in those of common.h. */
static const char words[] = "#include \"libexec/kernels/cuda/common.h\"\n"
                            "typedef struct standin_place { int x, y, z; } standin_place;\n"
                            "#define threadIdx ((standin_place){exg_emulated->thread, 0, 0})\n"
                            "#define blockDim ((standin_place){exg_emulated->threads, 1, 1})\n"
                            "#define blockIdx (*(const standin_place *)exg_emulated->block)\n"
                            "#define gridDim (*(const standin_place *)exg_emulated->blocks)\n"
                            "#line 1\n";

/* A kernel's head, NAME(TYPE p), becomes KERNEL(NAME, TYPE). */
static int write_source(const char *folder, const char *source)
{
    static const char head[] = "extern \"C\" __global__ void ";
    const char *rest = source;
    const char *kernel;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to;
    int wrong;

    if (strstr(source, "common.h") != NULL) {
        return write_text(folder, "text.c", source);
    }
    to = open_memstream(&text, &bytes);
    if (to == NULL) {
        return 1;
    }
    (void)fputs(words, to);
    while ((kernel = strstr(rest, head)) != NULL) {
        const char *name = kernel + sizeof(head) - 1;
        const char *type = strchr(name, '(');
        const char *end = type == NULL ? NULL : strstr(type, " p)");

        if (end == NULL) {
            break;
        }
        (void)fprintf(to, "%.*sKERNEL(%.*s, %.*s)", (int)(kernel - rest), rest, (int)(type - name),
                      name, (int)(end - type - 1), type + 1);
        rest = end + strlen(" p)");
    }
    (void)fputs(rest, to);
    wrong = fclose(to) != 0 || write_text(folder, "text.c", text);
    free(text);
    return wrong;
}

int nvrtcCreateProgram(standin_program **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names)
{
    standin_program *p = calloc(1, sizeof(*p));
    int wrong = 0;

    standin_log("nvrtcCreateProgram %s", name);
    (void)snprintf(p->folder, sizeof(p->folder), "/tmp/exg-standin-XXXXXX");
    if (mkdtemp(p->folder) == NULL) {
        free(p);
        return COMPILE_ERROR;
    }
    for (int i = 0; i < count; i++) {
        wrong |= strchr(names[i], '/') != NULL && write_text(p->folder, names[i], headers[i]);
    }
    wrong |= write_source(p->folder, source);
    *program = p;
    return wrong ? COMPILE_ERROR : 0;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *walk)
{
    (void)s;
    (void)kind;
    (void)walk;
    return remove(path);
}

int nvrtcDestroyProgram(standin_program **program)
{
    (void)nftw((*program)->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free((*program)->log);
    free((*program)->code);
    free(*program);
    *program = NULL;
    return 0;
}

/* All of a file; malloc'ed, with a 0 behind. */
static char *read_file(const char *folder, const char *name, size_t before, size_t *bytes)
{
    char path[128];
    struct stat s;
    FILE *file;
    char *data = NULL;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    *bytes = 0;
    if (file != NULL && fstat(fileno(file), &s) == 0) {
        data = calloc(before + (size_t)s.st_size + 1, 1);
        *bytes = fread(data + before, 1, (size_t)s.st_size, file);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return data;
}

static int run(const char *folder, const char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    char log[128];
    pid_t child;
    int state = 1;

    (void)snprintf(log, sizeof(log), "%s/log", folder);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawn(&child, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments,
                    environ) == 0) {
        (void)waitpid(child, &state, 0);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return state;
}

int nvrtcCompileProgram(standin_program *program, int count, const char *const *options)
{
    char text[128];
    char out[128];
    const char *arguments[OPTIONS_MAX] = {EXG_STANDIN_CC,
                                          "-std=gnu11",
                                          "-O1",
                                          "-g1",
                                          "-fPIC",
                                          "-shared",
                                          "-w",
                                          "-fwrapv",
                                          "-fno-strict-aliasing",
                                          "-ffp-contract=off",
                                          "-fno-math-errno",
                                          "-I",
                                          program->folder,
#ifdef __SANITIZE_ADDRESS__
                                          "-fsanitize=address,undefined",
                                          "-fno-sanitize-recover=undefined",
                                          "-fsanitize-sections=exg_shared",
#endif
                                          "-o",
                                          out,
                                          text};
    int used = 0;
    size_t bytes = 0;
    uint64_t length;

    (void)snprintf(text, sizeof(text), "%s/text.c", program->folder);
    (void)snprintf(out, sizeof(out), "%s/code.so", program->folder);
    while (arguments[used] != NULL) {
        used++;
    }
    for (int i = 0; i < count; i++) {
        standin_log("nvrtcCompileProgram %s", options[i]);
        if (strncmp(options[i], "-D", 2) == 0 && used < OPTIONS_MAX - 4) {
            arguments[used++] = options[i];
        }
    }
    arguments[used++] = "-lm";
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma")) { /* else a call for each */
        arguments[used] = "-mfma";
    }
#endif
    if (getenv("EXG_STANDIN_BROKEN") != NULL) { /* a compiler that takes nothing */
        program->log = strdup("text.c(1): error: it is broken");
        return COMPILE_ERROR;
    }
    if (run(program->folder, arguments) != 0) {
        program->log = read_file(program->folder, "log", 0, &bytes);
        return COMPILE_ERROR;
    }
    program->code = (unsigned char *)read_file(program->folder, "code.so", 8, &bytes);
    length = bytes;
    memcpy(program->code, &length, 8);
    program->code_bytes = bytes + 8;
    return 0;
}

int nvrtcGetProgramLogSize(standin_program *program, size_t *bytes)
{
    *bytes = program->log == NULL ? 1 : strlen(program->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(standin_program *program, char *log)
{
    (void)memcpy(log, program->log == NULL ? "" : program->log,
                 program->log == NULL ? 1 : strlen(program->log) + 1);
    return 0;
}

int nvrtcGetCUBINSize(standin_program *program, size_t *bytes)
{
    *bytes = program->code_bytes;
    return 0;
}

int nvrtcGetCUBIN(standin_program *program, char *cubin)
{
    memcpy(cubin, program->code, program->code_bytes);
    return 0;
}

int nvrtcGetPTXSize(standin_program *program, size_t *bytes)
{
    return nvrtcGetCUBINSize(program, bytes);
}

int nvrtcGetPTX(standin_program *program, char *ptx)
{
    standin_log("nvrtcGetPTX");
    return nvrtcGetCUBIN(program, ptx);
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = ARCHITECTURES;
    return 0;
}

int nvrtcGetSupportedArchs(int *capabilities)
{
    memcpy(capabilities, architectures[is_newer()], sizeof(architectures[0]));
    return 0;
}
