/* calls.h - what the tests of the CUDA plugin share: stand-ins' notes of the calls they got. */
#ifndef EXG_TESTS_EXEC_CUDA_CALLS_H
#define EXG_TESTS_EXEC_CUDA_CALLS_H

#include "libexec/device/device.h"

/* Fails the test with what went wrong. */
void expect_ok(exg_status status, const exg_error *err);

/* The table of "cuda". */
const exg_device_table *cuda_table(void);

/* Whether CUDA is the stand-ins'. A device notes no calls: what a test says of them is of these. */
bool is_standin(void);

/* From here on stand-ins note their calls, in a file of its own, until the notes are dropped. */
void keep_calls(void);
void drop_calls(void);

/* How many of the notes begin so; all those that begin as one of `kinds` (ends with NULL), a line
 * each; all. The caller frees. */
uint32_t calls_of(const char *kind);
char *calls_among(const char *const *kinds);
char *all_calls(void);

/* A text file; the caller frees. */
char *read_whole(const char *path);

#endif
