/* lost.h - what a file that is cut short has lost: the tensors whose bytes lie past its
 * end, as far as its head still tells. */
#ifndef EXG_LIBEXPORT_FORMATS_LOST_H
#define EXG_LIBEXPORT_FORMATS_LOST_H

#include <exg/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_lost {
    uint64_t have, want;   /* bytes of the file, as it is and as it was written */
    uint32_t count, total; /* tensors that miss bytes, and all */
    char names[160];       /* the first of them */
} exg_lost;

/* One tensor, whose bytes end at `end` of the file. */
void exg_lost_tensor(exg_lost *lost, const char *name, uint64_t end);

/* MALFORMED with `code`: how many bytes are missing, which tensors are touched. */
exg_status exg_lost_tell(const exg_lost *lost, const char *code, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
