/* numpy_pickle.h - arrays and scalars of NumPy in a pickle. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_NUMPY_PICKLE_H
#define EXG_LIBEXPORT_FORMATS_PT2_NUMPY_PICKLE_H

#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/pt2/pickle.h"

typedef enum exg_numpy_form {
    EXG_NUMPY_NONE,   /* it is none, or none that is whole */
    EXG_NUMPY_DENSE,  /* `dense` but for its name */
    EXG_NUMPY_TEXT,   /* a scalar of text: in `text` */
    EXG_NUMPY_OBJECTS /* an array of Python's objects: `objects` */
} exg_numpy_form;

typedef struct exg_numpy {
    exg_numpy_form form;
    exg_dense dense;
    exg_pickle_value *objects; /* LIST */
    char descr[24];            /* "<f4", "U5" */
} exg_numpy;

/* What the object is; `text` takes a scalar of text. NO_MEMORY. */
exg_status exg_numpy_read(const exg_pickle_object *object, exg_arena *arena, exg_numpy *numpy,
                          exg_text *text, exg_error *err);

#endif
