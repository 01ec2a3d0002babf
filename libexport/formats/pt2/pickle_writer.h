/* pickle_writer.h - a pickle of protocol 2, piece by piece: what PyTorch's own readers take.
 * Form: docs/pt2.md section 2.6. A text that is out of memory says so at the end
 * (exg_text.failed). */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_PICKLE_WRITER_H
#define EXG_LIBEXPORT_FORMATS_PT2_PICKLE_WRITER_H

#include <exg/text.h>
#include <stdint.h>

typedef enum exg_pickle_opcode {
    EXG_PICKLE_MARK = '(',
    EXG_PICKLE_EMPTY_TUPLE = ')',
    EXG_PICKLE_TUPLE_OF_ONE = 0x85,
    EXG_PICKLE_TUPLE_END = 't', /* of all since MARK, as the next two */
    EXG_PICKLE_APPENDS = 'e',
    EXG_PICKLE_SETITEMS = 'u',
    EXG_PICKLE_EMPTY_DICT = '}',
    EXG_PICKLE_EMPTY_LIST = ']',
    EXG_PICKLE_NONE_VALUE = 'N',
    EXG_PICKLE_TRUE = 0x88,
    EXG_PICKLE_FALSE = 0x89,
    EXG_PICKLE_REDUCE = 'R', /* calls a global with a tuple */
    EXG_PICKLE_NEWOBJ = 0x81,
    EXG_PICKLE_BUILD = 'b', /* gives an object its state */
    EXG_PICKLE_PERSISTENT = 'Q'
} exg_pickle_opcode;

void exg_pickle_begin(exg_text *out);
void exg_pickle_end(exg_text *out);
void exg_pickle_add_op(exg_text *out, exg_pickle_opcode opcode);
void exg_pickle_add_text(exg_text *out, const char *text);
void exg_pickle_add_int(exg_text *out, int64_t value);
void exg_pickle_add_global(exg_text *out, const char *module, const char *name);
void exg_pickle_add_ordered_dict(exg_text *out); /* an empty one */

#endif
