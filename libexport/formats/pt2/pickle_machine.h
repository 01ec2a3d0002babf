/* pickle_machine.h - what pickle.c runs opcodes on. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_PICKLE_MACHINE_H
#define EXG_LIBEXPORT_FORMATS_PT2_PICKLE_MACHINE_H

#include "libexport/base/map.h"
#include "libexport/formats/pt2/pickle.h"

typedef struct exg_machine {
    const uint8_t *data;
    size_t length;
    size_t at;
    const exg_pickle_options *options;
    exg_pickle *pickle;
    exg_arena *arena;
    exg_error *err;
    exg_pickle_value **stack;
    uint32_t depth, stack_capacity;
    uint32_t *marks; /* depths at which a mark stands */
    uint32_t mark_count, mark_capacity;
    exg_pickle_value **memo;
    uint32_t memo_count, memo_capacity;
    exg_map names;                  /* "module\nname" -> place in pickle->globals */
    exg_pickle_value *constants[4]; /* None, False, True, (): one is enough */
} exg_machine;

exg_status exg_machine_damaged(exg_machine *m, const char *what);
exg_status exg_machine_no_memory(exg_machine *m);
exg_status exg_machine_push(exg_machine *m, exg_pickle_value *value);
uint32_t exg_machine_floor(const exg_machine *m);
exg_status exg_machine_pop(exg_machine *m, exg_pickle_value **value);
exg_status exg_machine_top(exg_machine *m, exg_pickle_value **value);
exg_status exg_machine_push_mark(exg_machine *m);
exg_status exg_machine_pop_mark(exg_machine *m, exg_pickle_value ***items, uint32_t *count);
exg_status exg_machine_memo_put(exg_machine *m, uint32_t index);
exg_status exg_machine_memo_get(exg_machine *m, uint32_t index);
exg_status exg_machine_take(exg_machine *m, uint64_t length, const uint8_t **bytes);
exg_status exg_machine_take_unsigned(exg_machine *m, unsigned width, uint64_t *value);
exg_status exg_machine_take_signed(exg_machine *m, unsigned width, int64_t *value);
exg_status exg_machine_take_line(exg_machine *m, const char **line);
exg_pickle_value *exg_machine_new(exg_machine *m, exg_pickle_kind kind);
exg_status exg_machine_push_new(exg_machine *m, const exg_pickle_value *made);
exg_status exg_machine_push_int(exg_machine *m, int64_t number);
exg_status exg_machine_push_constant(exg_machine *m, unsigned which);
exg_status exg_machine_push_float(exg_machine *m);
exg_status exg_machine_push_text(exg_machine *m, exg_pickle_kind kind, unsigned width);
exg_status exg_machine_push_long(exg_machine *m, unsigned width);
exg_status exg_machine_push_line_int(exg_machine *m);
exg_status exg_machine_push_line_float(exg_machine *m);
exg_status exg_machine_push_line_text(exg_machine *m, bool quoted);
exg_status exg_machine_with_line(exg_machine *m, exg_status (*run)(exg_machine *, uint32_t));

#endif
