/* status.h - how a call ends, and what went wrong.
 *
 * Every fault of the outside world (file, option, peer, device) is a status.
 * The status tells a program what to do, `code` names the exact fault and never
 * changes its meaning, the texts tell a person what, where and the way out.
 * The error struct belongs to the caller: nothing to free, valid across threads.
 * Passing NULL for it is always allowed. Context is added while unwinding, so
 * success costs nothing.
 *
 * A pointer that is NULL where a call cannot do without it is USAGE ARG-001, which names it:
 * what a fault nobody looked at left behind. Destroying NULL is allowed everywhere.
 */
#ifndef EXG_STATUS_H
#define EXG_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_status {
#define EXG_STATUS(name, exit_code, meaning) EXG_##name,
#include <exg/status.def>
#undef EXG_STATUS
    EXG_STATUS_COUNT
} exg_status;

/* A status is looked at: a compiler warns of a call whose status is not. */
#if defined(__GNUC__)
#define EXG_NODISCARD __attribute__((warn_unused_result))
#else
#define EXG_NODISCARD
#endif

#define EXG_NO_OFFSET UINT64_MAX

typedef struct exg_error {
    exg_status status;
    char code[24];           /* stable: "WGT-005", "ZIP-CRC" */
    char message[400];       /* what happened: one line, no newline */
    char where[200];         /* in the model: "graph.nodes[12].inputs[0]" */
    char fix[200];           /* what to do about it: of this fault, else of its code, else "" */
    char source[200];        /* of the Python it was exported from: "net.py:5: x = f(y)", else "" */
    uint64_t offset;         /* in the file, bytes, or EXG_NO_OFFSET */
    const char *source_file; /* in our code */
    int source_line;
} exg_error;

/* The constant's name ("MALFORMED"), its meaning, and the exit code of exg. */
const char *exg_status_name(exg_status status);
const char *exg_status_meaning(exg_status status);
int exg_status_exit_code(exg_status status);

/* What is true of every fault of one code: what it says and the way out, "" where there is none
 * that fits all. The texts are the library's. */
typedef struct exg_code {
    const char *code, *meaning, *fix;
} exg_code;

/* The codes that are no rules of a file (those: exg_rule_at(), exg_rule_find() of exg/verify.h), as
 * they stand in the table, and by code. NULL: past the last; no fault has it. */
const exg_code *exg_code_at(uint32_t index);
const exg_code *exg_code_find(const char *code);

/* Empties `err`; OK, no texts. NULL is allowed. */
void exg_error_clear(exg_error *err);

/* Fills `err` (may be NULL), its fix with that of the code, and returns `status`. Use EXG_FAIL. */
exg_status exg_error_set(exg_error *err, const char *file, int line, exg_status status,
                         const char *code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Gives the error just set a way out of its own; returns its status. */
exg_status exg_error_fix(exg_error *err, exg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds the line of Python that the fault comes from; returns its status. */
exg_status exg_error_source(exg_error *err, exg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts a part of the model ("nodes[2]", joined by a dot), or "FILE:", in front of
 * `where`; returns `status`. */
exg_status exg_error_within(exg_error *err, exg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Notes the file offset of the fault; returns `status`. */
exg_status exg_error_at(exg_error *err, exg_status status, uint64_t offset);

#define EXG_FAIL(err, status, code, ...)                                                           \
    exg_error_set((err), __FILE__, __LINE__, EXG_##status, (code), __VA_ARGS__)

/* The error to return when an allocation answered NULL. */
#define EXG_OUT_OF_MEMORY(err) EXG_FAIL((err), NO_MEMORY, "MEM-001", "out of memory")

/* Returns from the caller unless `call` succeeds. */
#define EXG_TRY(call)                                                                              \
    do {                                                                                           \
        exg_status try_status_ = (call);                                                           \
        if (try_status_ != EXG_OK) {                                                               \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

/* The same, and tells the error in which part of the model it happened. */
#define EXG_TRY_IN(err, call, ...)                                                                 \
    do {                                                                                           \
        exg_status try_status_ = (call);                                                           \
        if (try_status_ != EXG_OK) {                                                               \
            return exg_error_within((err), try_status_, __VA_ARGS__);                              \
        }                                                                                          \
    } while (0)

/* Where a status says nothing that matters: the fault is told elsewhere, or there is none. */
static inline void exg_ignore(exg_status status)
{
    (void)status;
}

#ifdef __cplusplus
}
#endif

#endif
