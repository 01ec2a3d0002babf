/* pickle.c - the machine: a stack, its marks, a memo. */
#include "libexport/formats/pt2/pickle.h"

#include <stdlib.h>
#include <string.h>

#define STACK_MAX (1u << 20)

typedef struct machine {
    const uint8_t *data;
    size_t length;
    size_t at;
    exg_arena *arena;
    exg_error *err;
    exg_pickle_value **stack;
    uint32_t depth, stack_capacity;
    uint32_t *marks; /* depths at which a mark stands */
    uint32_t mark_count, mark_capacity;
    exg_pickle_value **memo;
    uint32_t memo_count, memo_capacity;
    bool is_dry; /* memory ran out for one of these */
} machine;

static exg_status damaged(machine *m, const char *what)
{
    return exg_error_at(m->err, EXG_FAIL(m->err, MALFORMED, "PKL-001", "the pickle %s", what),
                        m->at);
}

/* The system has no more, or the pickle may have no more. */
static exg_status no_memory(machine *m)
{
    return m->is_dry || exg_arena_is_dry(m->arena)
               ? EXG_OUT_OF_MEMORY(m->err)
               : EXG_FAIL(m->err, LIMIT, "PKL-LIMIT",
                          "the pickle builds more than its size allows");
}

/* ---- stack, marks, memo ------------------------------------------------------------------ */

static bool reserve(machine *m, void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    bool allowed = count < STACK_MAX;
    bool reserved = allowed && exg_heap_reserve(items, count, capacity, size);

    m->is_dry = m->is_dry || (allowed && !reserved);
    return reserved;
}

static exg_status push(machine *m, exg_pickle_value *value)
{

    if (!reserve(m, &m->stack, m->depth, &m->stack_capacity, sizeof(exg_pickle_value *))) {
        return no_memory(m);
    }
    m->stack[m->depth++] = value;
    return EXG_OK;
}

/* The lowest place that may be taken: marks protect what is below. */
static uint32_t floor_of(const machine *m)
{
    return m->mark_count == 0 ? 0 : m->marks[m->mark_count - 1];
}

static exg_status pop(machine *m, exg_pickle_value **value)
{
    if (m->depth <= floor_of(m)) {
        return damaged(m, "takes from an empty stack");
    }
    *value = m->stack[--m->depth];
    return EXG_OK;
}

static exg_status top(machine *m, exg_pickle_value **value)
{
    if (m->depth <= floor_of(m)) {
        return damaged(m, "looks at an empty stack");
    }
    *value = m->stack[m->depth - 1];
    return EXG_OK;
}

static exg_status push_mark(machine *m)
{

    if (!reserve(m, &m->marks, m->mark_count, &m->mark_capacity, sizeof(uint32_t))) {
        return no_memory(m);
    }
    m->marks[m->mark_count++] = m->depth;
    return EXG_OK;
}

/* Everything above the last mark, which goes; the items stay valid until a push. */
static exg_status pop_mark(machine *m, exg_pickle_value ***items, uint32_t *count)
{
    if (m->mark_count == 0) {
        return damaged(m, "misses a mark");
    }
    m->mark_count--;
    *items = m->stack == NULL ? NULL : m->stack + m->marks[m->mark_count];
    *count = m->depth - m->marks[m->mark_count];
    m->depth = m->marks[m->mark_count];
    return EXG_OK;
}

/* Picklers number their memo in order; gaps are not theirs. */
static exg_status memo_put(machine *m, uint32_t index)
{
    exg_pickle_value *value = NULL;

    EXG_TRY(top(m, &value));
    if (index > m->memo_count) {
        return damaged(m, "skips places of its memo");
    }
    if (!reserve(m, &m->memo, index, &m->memo_capacity, sizeof(exg_pickle_value *))) {
        return no_memory(m);
    }
    m->memo[index] = value;
    m->memo_count += index == m->memo_count;
    return EXG_OK;
}

static exg_status memo_get(machine *m, uint32_t index)
{
    if (index >= m->memo_count) {
        return damaged(m, "reads an empty place of its memo");
    }
    return push(m, m->memo[index]);
}

/* ---- operands ------------------------------------------------------------------------------ */

static exg_status take(machine *m, uint64_t length, const uint8_t **bytes)
{
    if (length > m->length - m->at) {
        return damaged(m, "is cut short");
    }
    *bytes = m->data + m->at;
    m->at += (size_t)length;
    return EXG_OK;
}

static exg_status take_unsigned(machine *m, unsigned width, uint64_t *value)
{
    const uint8_t *bytes = NULL;

    EXG_TRY(take(m, width, &bytes));
    *value = 0;
    for (unsigned i = 0; i < width; i++) {
        *value |= (uint64_t)bytes[i] << (8 * i);
    }
    return EXG_OK;
}

/* `width` little-endian bytes as two's complement. */
static exg_status take_signed(machine *m, unsigned width, int64_t *value)
{
    uint64_t bits = 0;

    if (width == 0 || width > 8) {
        *value = 0;
        return width == 0 ? EXG_OK
                          : EXG_FAIL(m->err, UNSUPPORTED, "PKL-LIMIT",
                                     "the pickle holds an integer of %u bytes", width);
    }
    EXG_TRY(take_unsigned(m, width, &bits));
    if (width < 8 && (bits >> (8 * width - 1)) != 0) {
        bits |= UINT64_MAX << (8 * width);
    }
    memcpy(value, &bits, sizeof(bits));
    return EXG_OK;
}

static exg_pickle_value *new_value(machine *m, exg_pickle_kind kind)
{
    exg_pickle_value *value = EXG_NEW(m->arena, exg_pickle_value);

    if (value != NULL) {
        value->kind = kind;
    }
    return value;
}

static exg_status push_new(machine *m, const exg_pickle_value *made)
{
    exg_pickle_value *value = new_value(m, made->kind);

    if (value == NULL) {
        return no_memory(m);
    }
    *value = *made;
    return push(m, value);
}

static exg_status push_int(machine *m, int64_t number)
{
    return push_new(m, &(exg_pickle_value){.kind = EXG_PICKLE_INT, .as_int = number});
}

static exg_status push_bool(machine *m, bool set)
{
    return push_new(m, &(exg_pickle_value){.kind = EXG_PICKLE_BOOL, .as_bool = set});
}

static exg_status push_float(machine *m)
{
    const uint8_t *bytes = NULL;
    exg_pickle_value value = {.kind = EXG_PICKLE_FLOAT};
    uint64_t bits = 0;

    EXG_TRY(take(m, 8, &bytes));
    for (int i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    memcpy(&value.as_float, &bits, sizeof(bits));
    return push_new(m, &value);
}

/* A counted text; `width` bytes hold the count. */
static exg_status push_text(machine *m, exg_pickle_kind kind, unsigned width)
{
    exg_pickle_value value = {.kind = kind};
    const uint8_t *bytes = NULL;
    uint64_t length = 0;

    EXG_TRY(take_unsigned(m, width, &length));
    EXG_TRY(take(m, length, &bytes));
    value.as_text.length = (size_t)length;
    value.as_text.data = exg_arena_strndup(m->arena, (const char *)bytes, (size_t)length);
    return value.as_text.data == NULL ? no_memory(m) : push_new(m, &value);
}

/* ---- containers ------------------------------------------------------------------------------ */

static exg_status append(machine *m, exg_pickle_items *list, exg_pickle_value **items,
                         uint32_t count)
{
    if (count > UINT32_MAX / 2 - list->count) {
        return no_memory(m);
    }
    if (list->count + count > list->capacity) {
        uint32_t capacity = (list->count + count) * 2;
        exg_pickle_value **moved = EXG_NEW_ARRAY(m->arena, exg_pickle_value *, capacity);

        if (moved == NULL) {
            return no_memory(m);
        }
        if (list->count > 0) {
            memcpy(moved, list->items, list->count * sizeof(exg_pickle_value *));
        }
        list->items = moved;
        list->capacity = capacity;
    }
    if (count > 0) {
        memcpy(list->items + list->count, items, count * sizeof(exg_pickle_value *));
    }
    list->count += count;
    return EXG_OK;
}

static exg_status push_tuple(machine *m, exg_pickle_value **items, uint32_t count)
{
    exg_pickle_value *value = new_value(m, EXG_PICKLE_TUPLE);

    if (value == NULL) {
        return no_memory(m);
    }
    EXG_TRY(append(m, &value->as_items, items, count));
    return push(m, value);
}

static exg_status push_short_tuple(machine *m, uint32_t count)
{
    if (m->depth - floor_of(m) < count) {
        return damaged(m, "takes from an empty stack");
    }
    m->depth -= count;
    return push_tuple(m, m->stack + m->depth, count);
}

static exg_status push_marked_tuple(machine *m)
{
    exg_pickle_value **items = NULL;
    uint32_t count = 0;

    EXG_TRY(pop_mark(m, &items, &count));
    return push_tuple(m, items, count);
}

/* Items into the container below them. */
static exg_status add_items(machine *m, exg_pickle_kind kind, exg_pickle_value **items,
                            uint32_t count)
{
    exg_pickle_value *container = NULL;

    EXG_TRY(top(m, &container));
    if (container->kind != kind || (kind == EXG_PICKLE_DICT && count % 2 != 0)) {
        return damaged(m, "adds items to the wrong thing");
    }
    return append(m, &container->as_items, items, count);
}

static exg_status add_marked(machine *m, exg_pickle_kind kind)
{
    exg_pickle_value **items = NULL;
    uint32_t count = 0;

    EXG_TRY(pop_mark(m, &items, &count));
    return add_items(m, kind, items, count);
}

static exg_status add_top(machine *m, exg_pickle_kind kind, uint32_t count)
{
    if (m->depth - floor_of(m) < count + 1) {
        return damaged(m, "takes from an empty stack");
    }
    m->depth -= count;
    return add_items(m, kind, m->stack + m->depth, count);
}

/* ---- names and calls ------------------------------------------------------------------------- */

static exg_status push_global(machine *m, const char *module, const char *name)
{
    exg_pickle_value value = {.kind = EXG_PICKLE_GLOBAL};

    EXG_TRY(exg_pickle_find_global(module, name, &value.as_global, m->err));
    return push_new(m, &value);
}

/* A line of text, without its newline. */
static exg_status take_line(machine *m, const char **line)
{
    const uint8_t *start = m->data + m->at;
    const uint8_t *end = memchr(start, '\n', m->length - m->at);

    if (end == NULL) {
        return damaged(m, "is cut short");
    }
    m->at += (size_t)(end - start) + 1;
    *line = exg_arena_strndup(m->arena, (const char *)start, (size_t)(end - start));
    return *line == NULL ? no_memory(m) : EXG_OK;
}

static exg_status run_global(machine *m)
{
    const char *module = "";
    const char *name = "";

    EXG_TRY(take_line(m, &module));
    EXG_TRY(take_line(m, &name));
    return push_global(m, module, name);
}

static exg_status run_stack_global(machine *m)
{
    exg_pickle_value *name = NULL;
    exg_pickle_value *module = NULL;

    EXG_TRY(pop(m, &name));
    EXG_TRY(pop(m, &module));
    if (name->kind != EXG_PICKLE_STRING || module->kind != EXG_PICKLE_STRING) {
        return damaged(m, "names a thing without text");
    }
    return push_global(m, module->as_text.data, name->as_text.data);
}

static exg_status run_call(machine *m)
{
    exg_pickle_value *arguments = NULL;
    exg_pickle_value *callee = NULL;
    exg_pickle_value result = {.kind = EXG_PICKLE_NONE};

    EXG_TRY(pop(m, &arguments));
    EXG_TRY(pop(m, &callee));
    if (callee->kind != EXG_PICKLE_GLOBAL) {
        return damaged(m, "calls what is no name");
    }
    EXG_TRY(exg_pickle_call(callee->as_global, arguments, m->arena, &result, m->err));
    return push_new(m, &result);
}

static exg_status run_persistent(machine *m)
{
    exg_pickle_value *id = NULL;
    exg_pickle_value result = {.kind = EXG_PICKLE_NONE};

    EXG_TRY(pop(m, &id));
    EXG_TRY(exg_pickle_persistent(id, &result, m->err));
    return push_new(m, &result);
}

/* State is only ever attached to an OrderedDict (its _metadata) or a parameter;
 * neither matters to us. */
static exg_status run_build(machine *m)
{
    exg_pickle_value *state = NULL;
    exg_pickle_value *object = NULL;

    EXG_TRY(pop(m, &state));
    EXG_TRY(top(m, &object));
    if (!(object->kind == EXG_PICKLE_DICT && object->as_items.ordered) &&
        !(object->kind == EXG_PICKLE_TENSOR && object->as_tensor.is_param)) {
        return EXG_FAIL(m->err, UNSUPPORTED, "PKL-CALL", "the pickle sets the state of an object");
    }
    return EXG_OK;
}

/* ---- the loop -----------------------------------------------------------------------------------
 */

static exg_status with_unsigned(machine *m, unsigned width, exg_status (*run)(machine *, uint32_t))
{
    uint64_t value = 0;

    EXG_TRY(take_unsigned(m, width, &value));
    return run(m, (uint32_t)value);
}

static exg_status push_signed(machine *m, unsigned width)
{
    int64_t value = 0;

    EXG_TRY(take_signed(m, width, &value));
    return push_int(m, value);
}

static exg_status push_unsigned(machine *m, unsigned width)
{
    uint64_t value = 0;

    EXG_TRY(take_unsigned(m, width, &value));
    return push_int(m, (int64_t)value);
}

static exg_status push_long(machine *m)
{
    uint64_t width = 0;

    EXG_TRY(take_unsigned(m, 1, &width));
    return push_signed(m, (unsigned)width);
}

static exg_status push_container(machine *m, exg_pickle_kind kind)
{
    return push_new(m, &(exg_pickle_value){.kind = kind});
}

static exg_status skip(machine *m, unsigned width)
{
    const uint8_t *bytes = NULL;

    return take(m, width, &bytes);
}

static exg_status unknown_opcode(machine *m, uint8_t opcode)
{
    m->at--;
    return exg_error_at(m->err,
                        EXG_FAIL(m->err, UNSUPPORTED, "PKL-OPCODE",
                                 "the pickle uses opcode 0x%02x, which is not read", opcode),
                        m->at);
}

/* clang-format off */
/* One opcode; the names are pickletools'. */
static exg_status step(machine *m, uint8_t opcode)
{
    switch (opcode) {
    case 0x80: return skip(m, 1);                               /* PROTO */
    case 0x95: return skip(m, 8);                               /* FRAME */
    case 'N': return push_container(m, EXG_PICKLE_NONE);        /* NONE */
    case 0x88: return push_bool(m, true);                       /* NEWTRUE */
    case 0x89: return push_bool(m, false);                      /* NEWFALSE */
    case 'J': return push_signed(m, 4);                         /* BININT */
    case 'K': return push_unsigned(m, 1);                       /* BININT1 */
    case 'M': return push_unsigned(m, 2);                       /* BININT2 */
    case 0x8a: return push_long(m);                             /* LONG1 */
    case 'G': return push_float(m);                             /* BINFLOAT */
    case 'X': return push_text(m, EXG_PICKLE_STRING, 4);        /* BINUNICODE */
    case 0x8c: return push_text(m, EXG_PICKLE_STRING, 1);       /* SHORT_BINUNICODE */
    case 0x8d: return push_text(m, EXG_PICKLE_STRING, 8);       /* BINUNICODE8 */
    case 'U': return push_text(m, EXG_PICKLE_STRING, 1);        /* SHORT_BINSTRING */
    case 'C': return push_text(m, EXG_PICKLE_BYTES, 1);         /* SHORT_BINBYTES */
    case 'B': return push_text(m, EXG_PICKLE_BYTES, 4);         /* BINBYTES */
    case ')': return push_container(m, EXG_PICKLE_TUPLE);       /* EMPTY_TUPLE */
    case ']': return push_container(m, EXG_PICKLE_LIST);        /* EMPTY_LIST */
    case '}': return push_container(m, EXG_PICKLE_DICT);        /* EMPTY_DICT */
    case 0x8f: return push_container(m, EXG_PICKLE_SET);        /* EMPTY_SET */
    case 0x85: return push_short_tuple(m, 1);                   /* TUPLE1 */
    case 0x86: return push_short_tuple(m, 2);                   /* TUPLE2 */
    case 0x87: return push_short_tuple(m, 3);                   /* TUPLE3 */
    case '(': return push_mark(m);                              /* MARK */
    case 't': return push_marked_tuple(m);                      /* TUPLE */
    case 'a': return add_top(m, EXG_PICKLE_LIST, 1);            /* APPEND */
    case 'e': return add_marked(m, EXG_PICKLE_LIST);            /* APPENDS */
    case 's': return add_top(m, EXG_PICKLE_DICT, 2);            /* SETITEM */
    case 'u': return add_marked(m, EXG_PICKLE_DICT);            /* SETITEMS */
    case 0x90: return add_marked(m, EXG_PICKLE_SET);            /* ADDITEMS */
    case 'q': return with_unsigned(m, 1, memo_put);             /* BINPUT */
    case 'r': return with_unsigned(m, 4, memo_put);             /* LONG_BINPUT */
    case 'h': return with_unsigned(m, 1, memo_get);             /* BINGET */
    case 'j': return with_unsigned(m, 4, memo_get);             /* LONG_BINGET */
    case 0x94: return memo_put(m, m->memo_count);               /* MEMOIZE */
    case 'c': return run_global(m);                             /* GLOBAL */
    case 0x93: return run_stack_global(m);                      /* STACK_GLOBAL */
    case 'Q': return run_persistent(m);                         /* BINPERSID */
    case 'R': return run_call(m);                               /* REDUCE */
    case 0x81: return run_call(m);                              /* NEWOBJ */
    case 'b': return run_build(m);                              /* BUILD */
    default: break;
    }
    return unknown_opcode(m, opcode);
}
/* clang-format on */

static exg_status run(machine *m, exg_pickle_value **root)
{
    for (;;) {
        uint8_t opcode;

        if (m->at >= m->length) {
            return damaged(m, "does not end");
        }
        opcode = m->data[m->at++];
        if (opcode == '.') { /* STOP */
            break;
        }
        EXG_TRY(step(m, opcode));
    }
    if (m->depth != 1 || m->mark_count != 0 || m->at != m->length) {
        return damaged(m, "leaves more or less than one object");
    }
    *root = m->stack[0];
    return EXG_OK;
}

exg_status exg_pickle_read(const uint8_t *data, size_t length, exg_arena *arena,
                           exg_pickle_value **root, exg_error *err)
{
    machine m = {.data = data, .length = length, .arena = arena, .err = err};
    exg_status status = run(&m, root);

    free(m.stack);
    free(m.marks);
    free(m.memo);
    return status;
}
