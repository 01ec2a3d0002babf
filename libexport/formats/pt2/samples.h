/* samples.h - what a record of sample inputs holds. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_SAMPLES_H
#define EXG_LIBEXPORT_FORMATS_PT2_SAMPLES_H

#include <stdint.h>

typedef enum exg_samples_form {
    EXG_SAMPLES_UNREAD, /* no pickle, or objects that only Python reads */
    EXG_SAMPLES_OTHER,  /* anything but (arguments, {keyword: argument}) */
    EXG_SAMPLES_NONE,   /* a call without arguments */
    EXG_SAMPLES_CALL
} exg_samples_form;

/* Of the record's bytes, a file of torch.save. */
exg_samples_form exg_samples_form_of(const uint8_t *data, uint64_t length);

#endif
