/* pickle_writer.c - see pickle_writer.h. */
#include "libexport/formats/pt2/pickle_writer.h"

#include "libexport/base/little.h"

#include <string.h>

enum { PROTO = 0x80, GLOBAL = 'c', STOP = '.', BINUNICODE = 'X', BININT = 'J', LONG1 = 0x8a };

static void put(exg_text *out, int opcode)
{
    exg_text_putc(out, (char)opcode);
}

void exg_pickle_begin(exg_text *out)
{
    put(out, PROTO);
    exg_text_little(out, 2, 1);
}

void exg_pickle_end(exg_text *out)
{
    put(out, STOP);
}

void exg_pickle_add_op(exg_text *out, exg_pickle_opcode opcode)
{
    put(out, (int)opcode);
}

void exg_pickle_add_text(exg_text *out, const char *text)
{
    put(out, BINUNICODE);
    exg_text_little(out, strlen(text), 4);
    exg_text_puts(out, text);
}

void exg_pickle_add_int(exg_text *out, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX) {
        put(out, BININT);
        exg_text_little(out, (uint64_t)value, 4);
    } else {
        put(out, LONG1);
        exg_text_little(out, 8, 1);
        exg_text_little(out, (uint64_t)value, 8);
    }
}

void exg_pickle_add_global(exg_text *out, const char *module, const char *name)
{
    put(out, GLOBAL);
    exg_text_printf(out, "%s\n%s\n", module, name);
}

void exg_pickle_add_ordered_dict(exg_text *out)
{
    exg_pickle_add_global(out, "collections", "OrderedDict");
    exg_pickle_add_op(out, EXG_PICKLE_EMPTY_TUPLE);
    exg_pickle_add_op(out, EXG_PICKLE_REDUCE);
}
