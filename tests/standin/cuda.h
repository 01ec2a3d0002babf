/* cuda.h - what stand-ins of libraries ask of that of libcuda. */
#ifndef EXG_TESTS_STANDIN_CUDA_H
#define EXG_TESTS_STANDIN_CUDA_H

#include <stddef.h>

/* Carries out run(params) on a stream, when its turn comes, with the device's memory open;
 * what it returns is a fault, or NULL. `params` is copied, and kept where a graph is. As the
 * driver's calls: not 0 is an error. */
typedef const char *standin_work(const void *params);
int standin_ask(void *stream, standin_work *run, const void *params, size_t bytes);

#endif
