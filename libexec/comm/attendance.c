/* attendance.c - which processes of a job began on this node. Each listens at an address that the
 * job and its number make, in the namespace that the kernel keeps for sockets without files, and
 * calls those that listen already; those that come later call it. A call stays to be seen when the
 * caller has given up and gone. */
#include "libexec/comm/attendance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOCAL_MAX 1024 /* processes of a node */
#define TOLD_MAX  8    /* that are named */

struct exg_attendance {
    char job[64];
    uint32_t size, local_size, local_rank;
    int listener;
    int calls[LOCAL_MAX];  /* to those that were here before; -1: to none */
    pid_t here[LOCAL_MAX]; /* 0: did not begin */
};

/* What starts a process tells it so. */
static const struct {
    const char *job, *step, *size, *local_rank, *local_size;
} starters[] = {
    {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE"},
};

/* "4", or of Slurm "4(x2)": on each of two nodes. */
static bool read_number(const char *name, uint32_t *number)
{
    const char *text = getenv(name);
    char *end = NULL;
    const unsigned long value = text == NULL ? 0 : strtoul(text, &end, 10);

    *number = (uint32_t)value;
    return text != NULL && end != text && value <= 65535 && (*end == '\0' || *end == '(') &&
           strchr(text, ',') == NULL;
}

static bool find_job(exg_attendance *a)
{
    for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++) {
        const char *job = getenv(starters[i].job);
        const char *step = getenv(starters[i].step);

        if (job != NULL && step != NULL && read_number(starters[i].size, &a->size) &&
            read_number(starters[i].local_rank, &a->local_rank) &&
            read_number(starters[i].local_size, &a->local_size)) {
            snprintf(a->job, sizeof(a->job), "%.40s.%.20s", job, step);
            return a->local_size <= LOCAL_MAX && a->local_rank < a->local_size;
        }
    }
    return false;
}

static socklen_t address_of(const exg_attendance *a, uint32_t local_rank, struct sockaddr_un *to)
{
    memset(to, 0, sizeof(*to)); /* a name that begins with 0 is no file's */
    to->sun_family = AF_UNIX;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(to->sun_path + 1, sizeof(to->sun_path) - 1, "exg.%u.%s.%u",
                                        (unsigned)getuid(), a->job, local_rank));
}

/* The process at the other end. */
static pid_t process_of(int call)
{
    struct ucred own;
    socklen_t length = sizeof(own);

    return getsockopt(call, SOL_SOCKET, SO_PEERCRED, &own, &length) == 0 && own.uid == getuid()
               ? own.pid
               : 0;
}

static int call_up(const exg_attendance *a, uint32_t local_rank)
{
    struct sockaddr_un to;
    const socklen_t length = address_of(a, local_rank, &to);
    const int call = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (call >= 0 && (connect(call, (const struct sockaddr *)&to, length) != 0 ||
                      send(call, &a->local_rank, sizeof(a->local_rank), MSG_NOSIGNAL) !=
                          (ssize_t)sizeof(a->local_rank))) {
        close(call);
        return -1;
    }
    return call;
}

uint32_t exg_local_processes(void)
{
    exg_attendance job;

    return find_job(&job) ? job.local_size : 0;
}

exg_attendance *exg_attendance_begin(void)
{
    exg_attendance *a = calloc(1, sizeof(*a));
    struct sockaddr_un own;
    socklen_t length;

    if (a == NULL || !find_job(a)) {
        free(a);
        return NULL;
    }
    memset(a->calls, 0xff, sizeof(a->calls));
    length = address_of(a, a->local_rank, &own);
    a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->listener < 0 || bind(a->listener, (const struct sockaddr *)&own, length) != 0 ||
        listen(a->listener, (int)a->local_size) != 0) {
        exg_attendance_end(a);
        return NULL;
    }
    a->here[a->local_rank] = getpid();
    for (uint32_t r = 0; r < a->local_size; r++) {
        if (r != a->local_rank) {
            a->calls[r] = call_up(a, r);
            a->here[r] = a->calls[r] < 0 ? 0 : process_of(a->calls[r]);
        }
    }
    return a;
}

void exg_attendance_end(exg_attendance *a)
{
    if (a == NULL) {
        return;
    }
    for (uint32_t r = 0; r < a->local_size; r++) {
        if (a->calls[r] >= 0) {
            close(a->calls[r]);
        }
    }
    if (a->listener >= 0) {
        close(a->listener);
    }
    free(a);
}

/* Those that came later. */
static void answer_calls(exg_attendance *a)
{
    int call;

    while ((call = accept4(a->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        uint32_t rank = LOCAL_MAX;
        const pid_t process = process_of(call);

        if (recv(call, &rank, sizeof(rank), 0) == (ssize_t)sizeof(rank) && rank < a->local_size) {
            a->here[rank] = process;
        }
        close(call);
    }
}

/* By a signal, or by a debugger. */
static bool is_stopped(pid_t process)
{
    char path[32];
    char text[256] = "";
    const char *behind;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    behind = strrchr(text, ')'); /* of its name */
    return behind != NULL && (strncmp(behind, ") T", 3) == 0 || strncmp(behind, ") t", 3) == 0);
}

typedef struct lines {
    char *text;
    uint32_t used, room, told;
} lines;

static void put(lines *l, const char *what, uint32_t rank, const char *state)
{
    int length;

    if (l->used >= l->room || ++l->told > TOLD_MAX) {
        return;
    }
    length = l->told == TOLD_MAX ? snprintf(l->text + l->used, l->room - l->used, ", and more")
                                 : snprintf(l->text + l->used, l->room - l->used, "%s%s %u %s",
                                            l->told == 1 ? "" : ", ", what, rank, state);
    l->used += length < 0 ? 0 : (uint32_t)length;
}

void exg_attendance_tell(exg_attendance *a, char *text, uint32_t room)
{
    lines l = {text, 0, room, 0};
    char node[64] = "";
    const bool is_all = a != NULL && a->size == a->local_size;

    text[0] = '\0';
    if (a == NULL) {
        return;
    }
    answer_calls(a);
    for (uint32_t r = 0; r < a->local_size; r++) {
        if (a->here[r] == 0 || is_stopped(a->here[r])) {
            put(&l, is_all ? "rank" : "local rank", r,
                a->here[r] == 0 ? "did not start" : "is stopped");
        }
    }
    (void)gethostname(node, sizeof(node) - 1);
    if (l.used < room && l.told > 0) {
        (void)snprintf(text + l.used, room - l.used, " (node %s)", node);
    } else if (!is_all && l.told == 0) {
        (void)snprintf(text, room, "the %u of node %s did", a->local_size, node);
    }
}
