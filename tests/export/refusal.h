/* refusal.h - the n-th request of the process for memory gets nothing, or no request from the n-th
 * on. Libraries that are linked ask here too. glibc alone, and no sanitizer, which has its own
 * malloc. */
#ifndef EXG_TESTS_EXPORT_REFUSAL_H
#define EXG_TESTS_EXPORT_REFUSAL_H

#include <exg/status.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REFUSES_MEMORY

/* Requests from `first` to `last` get nothing, until memory is granted again. */
void refuse_memory(uint64_t first, uint64_t last);
void grant_memory(void);
uint64_t memory_requests(void); /* since it was refused */
bool memory_is_refused(void);   /* now; not so while a call is tried with all there is */
int64_t memory_blocks(void);    /* that are held */

typedef exg_status refused_call(const char *name, void *user, exg_error *err);

/* From the first request to the last; `width` of them get nothing each time. The call says
 * NO_MEMORY, or goes on without, and leaves nothing behind. First it gets all there is. */
void refuse_each(refused_call *go, const char *name, void *user, uint64_t width);

#endif
#endif
