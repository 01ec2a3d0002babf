/* fuzz.h - the entry point of every target, called by libFuzzer or by replay.c. */
#ifndef EXG_TESTS_FUZZ_FUZZ_H
#define EXG_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
