/* same_tensors.h - two files of tensors beside each other. */
#ifndef EXG_TESTS_EXPORT_SAME_TENSORS_H
#define EXG_TESTS_EXPORT_SAME_TENSORS_H

#include <exg/formats.h>

/* Every tensor of one file is in the other, bit for bit. */
void assert_same_tensors(const char *got, const char *want);

#endif
