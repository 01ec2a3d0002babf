/* cuda.h - what stand-ins of libraries ask of that of libcuda. */
#ifndef EXG_TESTS_STANDIN_CUDA_H
#define EXG_TESTS_STANDIN_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Carries out run(params) on a stream, when its turn comes, with the device's memory open;
 * what it returns is a fault, or NULL. `params` is copied, and kept where a graph is. As the
 * driver's calls: not 0 is an error. */
typedef const char *standin_work(const void *params);
int standin_ask(void *stream, standin_work *run, const void *params, size_t bytes);

/* Carries out a task that may have to wait for other streams': 0 until it is done. *state is
 * NULL the first time. Memory is open. A graph that has it says so: keep(op, 1), and -1 when it
 * goes. */
typedef int standin_meeting(void *op, void **state);
typedef void standin_keeping(void *op, int by);

int standin_meet(void *stream, standin_meeting *meet, standin_keeping *keep, void *op);
/* What every stream was asked for, as far as it goes. */
void standin_carry_on(void);

uint32_t standin_stream_number(const void *stream);  /* from 1 on a device */
bool standin_holds(const void *first, size_t bytes); /* inside one block of memory */
int standin_device(void);                            /* that this thread has entered; -1: none */

#endif
