/* memory.h - a device's memory, as strict as can be: the host may not follow its addresses but
 * while work is carried out, fresh memory is NaN, and writes beside a block are noticed.
 */
#ifndef EXG_TESTS_STANDIN_MEMORY_H
#define EXG_TESTS_STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *memory_take(size_t bytes);                    /* NULL: there is no more */
bool memory_give(void *block);                      /* false: it is none */
bool memory_holds(const void *first, size_t bytes); /* inside one block */
size_t memory_free_bytes(void);
size_t memory_bytes(void);

/* Between open and close the memory is memory. memory_close(): NULL, or what was written
 * where nothing is. */
void memory_open(void);
const char *memory_close(void);

#endif
